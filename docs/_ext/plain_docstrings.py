"""Docstrings as plain prose: turn the form that the packages use into reStructuredText.

The form: paragraphs; entries ``name: text`` whose further lines are indented or go on in the middle
of a sentence; lists with a dash; indented blocks, which keep their line breaks. Code stands in
double backquotes, emphasis in single stars. Everything else means itself, such as (n, *s) or Z_2^l,
where reStructuredText would take a star or an underscore for markup.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

_ENTRY = re.compile(r"([A-Za-z_]\w*(?:, [A-Za-z_]\w*)*): (.*)")
_ITEM = re.compile(r"[-*] (.*)")
# What stays markup: code, and single stars around words that neither follow nor precede a letter.
_KEPT = re.compile(r"(``.+?``|(?<![\w*])\*\w(?:[^*]*\w)?\*(?![\w*]))")
_MARKUP = re.compile(r"([\\*`_|])")


def convert(lines: list[str]) -> list[str]:
    """The lines of a docstring, without its common indentation, as lines of reStructuredText."""
    out: list[str] = []
    for blank, group in groupby(lines, key=lambda line: not line.strip()):
        if blank:
            continue
        block = list(group)
        if block[0].startswith((" ", ">>>")):
            out += ["::", "", *(f"    {line}" for line in block), ""]
        else:
            for part in _parts(block):
                out += [part, ""]
    return out


def _parts(block: list[str]) -> Iterator[str]:
    """Split a paragraph into plain text, entries and list items, one line each."""
    lead, words = "", [""]
    for line in block:
        text = line.strip()
        entry, item = _ENTRY.fullmatch(line), _ITEM.fullmatch(line)
        in_sentence = bool(words[-1]) and not words[-1].endswith((".", ":"))
        if entry and not (in_sentence and not lead):
            yield from _part(lead, words)
            lead, words = f"* **{_escape(entry[1])}**: ", [entry[2]]
        elif item:
            yield from _part(lead, words)
            lead, words = "* ", [item[1]]
        elif line.startswith(" ") or in_sentence or not lead:
            words.append(text)
        else:
            yield from _part(lead, words)
            lead, words = "", [text]
    yield from _part(lead, words)


def _part(lead: str, words: list[str]) -> Iterator[str]:
    text = " ".join(word for word in words if word)
    if text:
        yield lead + _escape(text.removesuffix(":") if text.endswith("::") else text)


def _escape(text: str) -> str:
    parts = _KEPT.split(text)
    return "".join(p if _KEPT.fullmatch(p) else _MARKUP.sub(r"\\\1", p) for p in parts)


def _process(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = convert(lines)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
