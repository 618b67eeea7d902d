"""The documentation runs: its Python examples, and the two small extensions that build it."""

import importlib.util
import math
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from docutils import nodes
from sphinx import addnodes

from tests.support.source import ROOT

PAGES = [
    ROOT / "README.md",
    *sorted(
        path
        for path in (ROOT / "docs").rglob("*.md")
        if not {"template", "_build", "api"} & set(path.relative_to(ROOT / "docs").parts)
    ),
]
FENCE = re.compile(r"^```python(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


def examples() -> Iterator[tuple[str, str, str]]:
    """(page:line, rest of the opening fence, code) of every Python block."""
    for path in PAGES:
        text = path.read_text()
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path.relative_to(ROOT)}:{line}", match[1], match[2]


@pytest.mark.parametrize(("place", "code"), [(place, code) for place, _, code in examples()])
def test_a_python_example_runs(
    place: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, place, "exec"), {"__name__": "example"})


def test_no_python_example_is_excused_from_running() -> None:
    assert [place for place, rest, _ in examples() if rest.strip()] == []


def test_the_readme_shows_a_python_example() -> None:
    assert any(place.startswith("README.md") for place, _, _ in examples())


def extension(name: str) -> ModuleType:
    """A module of docs/_ext, which lies on no import path outside of Sphinx."""
    path = ROOT / "docs" / "_ext" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("Rows (n, *s) of Z_2^l.", ["Rows (n, \\*s) of Z\\_2^l."]),
        (
            "Feed it to ``hkdf``, never\nuse it *bare*.",
            ["Feed it to ``hkdf``, never use it *bare*."],
        ),
        (
            "Source: the paper,\n    section 2.\nModel: semi-honest.",
            ["* **Source**: the paper, section 2.", "* **Model**: semi-honest."],
        ),
        (
            "x, y: ring dtype.  Returns\nthe sum.\nRaises ParameterError.",
            ["* **x, y**: ring dtype.  Returns the sum.", "Raises ParameterError."],
        ),
        ("It takes two things\nfirst: the seed.", ["It takes two things first: the seed."]),
        ("Either\n- one, or\n- the other.", ["Either", "* one, or", "* the other."]),
        ("A tree:\n\n    a_b\n      c", ["A tree:", "::", "        a_b", "          c"]),
        (">>> 1 + 1\n2", ["::", "    >>> 1 + 1", "    2"]),
    ],
)
def test_docstrings_become_restructured_text(docstring: str, expected: list[str]) -> None:
    converted = extension("plain_docstrings").convert(docstring.splitlines())
    assert [line for line in converted if line] == expected


def test_names_of_built_in_types_do_not_link_to_fields() -> None:
    document = nodes.document(None, None)
    document += addnodes.pending_xref("", nodes.Text("bytes"), refdomain="py", reftarget="bytes")
    kept = addnodes.pending_xref("", nodes.Text("Ring"), refdomain="py", reftarget="Ring")
    document += kept
    extension("builtin_names").unlink(None, document)
    assert document.astext() == "bytes\n\nRing"
    assert list(document.findall(addnodes.pending_xref)) == [kept]


def test_every_figure_stands_on_the_page_once() -> None:
    page = (ROOT / "docs" / "choosing-a-mechanism.md").read_text()
    named = re.findall(r"^```\{mechanism-figure\} (.*)$", page, re.MULTILINE)
    assert sorted(named) == sorted(extension("mechanism_figures").FIGURES)


@pytest.mark.parametrize("name", sorted(extension("mechanism_figures").FIGURES))
def test_a_figure_is_drawn(name: str) -> None:
    assert extension("mechanism_figures").FIGURES[name]().startswith("<svg")


def test_the_series_of_the_figures_are_what_the_mechanisms_state() -> None:
    """Spot checks by formulas of the sources, and what the page says in words."""
    figures = extension("mechanism_figures")
    users, odds = figures.USERS, math.e
    lines = {one.label: one.y for one in figures.oracles([1.0], [2, 64], "error")}
    direct = math.sqrt(62 + odds) / (odds - 1) / math.sqrt(users)
    assert lines["k-ary RR"][1] == pytest.approx(direct, rel=1e-6)
    unary = 2 * math.sqrt(odds) / (odds - 1) / math.sqrt(users)
    assert lines["OUE"][0] == lines["OUE"][1] == pytest.approx(unary, rel=1e-6)
    assert all(
        lines["subset selection"][i] <= min(line[i] for line in lines.values()) * 1.000001
        for i in (0, 1)
    )
    bits = {one.label: one.y for one in figures.oracles([1.0], [2, 64], "bits")}
    assert bits["OUE"] == [2, 64]
    assert bits["k-ary RR"] == [1, 6]
    one_bit, piecewise, hybrid = (one.y for one in figures.means([0.5, 1.0, 1.6, 4.0]))
    assert one_bit[1] == pytest.approx((odds + 1) / (odds - 1), rel=1e-6)
    assert [a < b for a, b in zip(one_bit, piecewise, strict=True)] == [True, True, False, False]
    assert all(h <= min(a, b) * 1.0001 for h, a, b in zip(hybrid, one_bit, piecewise, strict=True))
    fresh, memo, flipped = (one.y for one in figures.repeated([1, 4, 8]))
    assert fresh == [1, 4, 8]
    assert memo == [1, 1, 1]
    assert flipped[2] > 2 * flipped[1] - 0.5  # finite, not small
    laplace, gaussian = (one.y for one in figures.vectors([1, 256]))
    assert laplace == pytest.approx([math.sqrt(2), 256 * math.sqrt(2)], rel=1e-4)
    assert gaussian[1] == pytest.approx(16 * gaussian[0])
    assert gaussian[1] < laplace[1]
