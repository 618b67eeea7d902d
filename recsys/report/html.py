"""Self-contained HTML pages: one file, no script, nothing fetched from anywhere.

Blocks are made by the functions below, which escape the text they are given; a plain string among
blocks counts as text, so that markup comes only from here. Names in the data are never trusted.
"""

import re
from collections.abc import Sequence
from html import escape
from typing import Self

from mpc.core.errors import ParameterError

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""Content security policy: a browser refuses scripts and every request, whatever a page says."""

_WIDE_LETTERS = 25
"""Cells from which a column keeps some width on a narrow screen, where the table then scrolls."""

_STYLE = """
:root { color-scheme: light; --ink: #1b2530; --soft: #4d5965; --line: #d5dbe1; --tint: #f3f6f8;
  --link: #0b5a8a; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 72rem; color: var(--ink);
  background: #fff; font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial,
  "DejaVu Sans", sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 2.5rem 0 .75rem; padding-top: .75rem;
  border-top: 1px solid var(--line); }
p, ul { max-width: 46rem; margin: .6rem 0; }
ul { padding-left: 1.3rem; }
li { margin: .3rem 0; }
.lead { font-size: 1.1rem; color: var(--soft); }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; list-style: none; padding: 0;
  max-width: none; }
nav li { margin: 0; }
a { color: var(--link); }
a:focus-visible, summary:focus-visible, .scroll:focus-visible { outline: 3px solid var(--link);
  outline-offset: 2px; }
.callout { border-left: .3rem solid var(--link); background: var(--tint); padding: .6rem .9rem;
  font-weight: 600; }
.scroll { overflow-x: auto; max-width: 100%; margin: .9rem 0; background:
  linear-gradient(to right, #fff 50%, #fff0) 0 0 / 2rem 100% no-repeat local,
  linear-gradient(to left, #fff 50%, #fff0) 100% 0 / 2rem 100% no-repeat local,
  linear-gradient(to right, #1b253038, #1b253000) 0 0 / .9rem 100% no-repeat,
  linear-gradient(to left, #1b253038, #1b253000) 100% 0 / .9rem 100% no-repeat; }
table { border-collapse: collapse; font-size: .93rem; line-height: 1.4;
  font-variant-numeric: tabular-nums; }
th, td { padding: .4rem 1rem .4rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); font-weight: 400; max-width: 34rem; min-width: 5rem; }
th:last-child, td:last-child { padding-right: .3rem; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
th.right, td.right { text-align: right; min-width: 0; }
td.right { white-space: nowrap; }
th.wide, td.wide { min-width: 12rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 9rem), 1fr));
  gap: .75rem; margin: 1rem 0; }
.facts div { background: var(--tint); border: 1px solid var(--line); border-radius: .4rem;
  padding: .6rem .8rem; display: flex; flex-direction: column;
  justify-content: space-between; min-width: 0; }
.facts dt { color: var(--soft); font-size: .87rem; line-height: 1.35; }
.facts dd { margin: .15rem 0 0; font-size: 1.25rem; line-height: 1.3; font-weight: 600; }
figure { margin: 1rem 0; max-width: 34rem; }
figure svg { display: block; width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .93rem; line-height: 1.45; margin-top: .4rem; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 28rem), 1fr));
  gap: 1rem 2rem; margin: 1rem 0; align-items: start; }
.gallery > * { margin: 0; min-width: 0; }
details { border: 1px solid var(--line); border-radius: .4rem; padding: .5rem .9rem;
  margin: .9rem 0; }
summary { cursor: pointer; font-weight: 600; }
pre { font: .87rem/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  background: var(--tint); border: 1px solid var(--line); border-radius: .4rem;
  padding: .7rem .9rem; margin: .9rem 0; overflow-x: auto; }
@media (max-width: 36rem) {
  body { padding: 1rem .9rem 3rem; }
  h1 { font-size: 1.5rem; }
  .facts { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .facts dd { font-size: 1.1rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  .scroll, pre { overflow: visible; }
  pre { white-space: pre-wrap; }
  figure, .facts div, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
}
"""


class Html(str):
    """Markup made by this module; every other string is text."""

    __slots__ = ()


class Page:
    """A page of sections, each with a link at the top. title, lead: text."""

    def __init__(self, title: str, lead: str = "") -> None:
        self._title = title
        self._lead = lead
        self._sections: list[tuple[str, str, Html]] = []

    def section(self, heading: str, *blocks: str) -> Self:
        """Add a section; blocks: what the functions below return, or text for a paragraph."""
        self._sections.append((self._free_id(heading), heading, _joined(blocks)))
        return self

    def render(self) -> bytes:
        """The whole file, UTF-8; equal sections, equal bytes."""
        links = "".join(
            f'<li><a href="#{name}">{escape(heading)}</a></li>'
            for name, heading, _ in self._sections
        )
        nav = f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n' if links else ""
        lead = f'<p class="lead">{escape(self._lead)}</p>\n' if self._lead else ""
        body = "\n".join(
            f'<section id="{name}" aria-labelledby="{name}-heading">\n'
            f'<h2 id="{name}-heading">{escape(heading)}</h2>\n{blocks}\n</section>'
            for name, heading, blocks in self._sections
        )
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self._title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
            f"<header>\n<h1>{escape(self._title)}</h1>\n{lead}{nav}</header>\n"
            f"<main>\n{body}\n</main>\n</body>\n</html>\n"
        ).encode()

    def _free_id(self, heading: str) -> str:
        slug = "s-" + (re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-") or "section")
        used = {name for name, _, _ in self._sections}
        name, number = slug, 2
        while name in used:
            name, number = f"{slug}-{number}", number + 1
        return name


def paragraph(text: str) -> Html:
    """A paragraph of text."""
    return Html(f"<p>{escape(text)}</p>")


def callout(text: str) -> Html:
    """A sentence that nobody should overlook."""
    return Html(f'<p class="callout">{escape(text)}</p>')


def bullets(lines: Sequence[str]) -> Html:
    """A list of texts."""
    return Html("<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>")


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()
) -> Html:
    """A table of texts that scrolls in its own box where it is too wide; a shadow marks the side.

    The first cell of a row is its heading. right: columns of numbers, whose ends are aligned.
    ParameterError for a row that is not as long as the header.
    """
    for row in rows:
        if len(row) != len(header):
            raise ParameterError(f"a row of {len(row)} cells below a header of {len(header)}")

    columns = zip(header, *rows, strict=True)
    wide = [max(map(len, column)) >= _WIDE_LETTERS for column in columns]

    def cell(tag: str, scope: str, column: int, text: str) -> str:
        align = ' class="right"' if column in right else ' class="wide"' if wide[column] else ""
        return f"<{tag}{scope}{align}>{escape(text)}</{tag}>"

    head = "".join(cell("th", ' scope="col"', i, text) for i, text in enumerate(header))
    body = "\n".join(
        "<tr>"
        + "".join(
            cell("td", "", i, text) if i else cell("th", ' scope="row"', i, text)
            for i, text in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    label = escape("Table: " + ", ".join(name for name in header if name))
    return Html(
        # The box can be scrolled from the keyboard, which asks for a place in the tab order.
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def figure(svg: str, caption: str, alt: str) -> Html:
    """A chart of ``recsys.report.charts`` with its caption. alt: the chart in words.

    ParameterError for what is no inline SVG.
    """
    if not svg.startswith("<svg "):
        raise ParameterError(f"an inline SVG starts with <svg, got {svg[:20]!r}")
    named = f'<svg role="img" aria-label="{escape(alt)}" ' + svg.removeprefix("<svg ")
    return Html(f"<figure>\n{named}\n<figcaption>{escape(caption)}</figcaption>\n</figure>")


def gallery(*blocks: str) -> Html:
    """Figures, or a figure and its table, in two columns, or in one on a narrow screen."""
    return Html(f'<div class="gallery">\n{_joined(blocks)}\n</div>')


def details(summary: str, *blocks: str) -> Html:
    """Blocks that a reader opens by their summary, a text."""
    return Html(f"<details>\n<summary>{escape(summary)}</summary>\n{_joined(blocks)}\n</details>")


def facts(pairs: Sequence[tuple[str, str]]) -> Html:
    """Key figures as a row of tiles: (name, value) texts."""
    tiles = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs
    )
    return Html(f'<dl class="facts">{tiles}</dl>')


def verbatim(text: str) -> Html:
    """Text with its own line breaks, such as settings or a command."""
    # The newline after the tag is not shown, and keeps one that the text starts with.
    return Html(f'<pre tabindex="0">\n{escape(text)}</pre>')


def _joined(blocks: Sequence[str]) -> Html:
    return Html(
        "\n".join(block if isinstance(block, Html) else paragraph(block) for block in blocks)
    )
