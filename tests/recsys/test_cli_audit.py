"""``privrec audit``: what it prints, its page, its exit codes."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp import audit_cases
from ldp.audit import Case
from ldp.audit_cases import NAMES, Request
from ldp.discrete_laplace import DiscreteLaplace
from mpc.core.rng import Rng
from recsys.cli.auditing import DATA, PAGE
from tests.support.browser import Browser
from tests.support.cli import Run
from tests.support.pages import Source, check_page

QUICK = ["--samples", "4000"]
FIELDS = {
    *("mechanism", "unit", "epsilon", "delta", "lower_bound", "share", "reachable", "exceeds"),
    *("event", "input", "other", "count", "other_count", "reports", "bound", "findings"),
}


def twin(name: str, request: Request) -> Case:
    """Claims 1 and loses 2."""
    weak = DiscreteLaplace(0.5)

    def draw(x: int, n: int, rng: Rng) -> NDArray[np.int64]:
        return weak.perturb(np.full(n, x), rng=rng)

    return Case(name, 1.0, [("0", 0), ("1", 1)], draw)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a mechanism that does not keep its claim."""
    monkeypatch.setitem(audit_cases._CASES, "k-ary", twin)
    return "k-ary"


# Results


def test_the_help_lists_the_mechanisms_and_has_an_example(run: Run) -> None:
    result = run("audit", "--help")
    assert result.code == 0
    listed, _, examples = result.out.partition("Examples:\n")
    assert all(name in " ".join(listed.split()) for name in NAMES)
    lines = examples.splitlines()
    assert lines
    assert all(line.startswith("    privrec audit ") for line in lines)


def test_a_table_and_an_honest_sentence(run: Run) -> None:
    result = run("audit", "randomized-response", *QUICK)
    assert result.code == 0
    header, _, row, *rest = result.out.splitlines()
    assert header.split()[:3] == ["mechanism", "claim", "lower"]
    name, claim, bound, share = row.split()[:4]
    assert (name, claim) == ("randomized-response", "1")
    assert 0.5 < float(bound) < 1
    assert float(share) == pytest.approx(100 * float(bound), abs=0.1)
    assert " is " in row  # the event
    text = "\n".join(rest)
    assert "4,000 reports of each input" in text
    assert "99 % for all 32 limits together" in text
    assert "coins       of the system" in text
    assert rest[-1] == (
        "a bound below the claim proves nothing about the claim: it is a test that failed to "
        "refute it"
    )
    assert "--out DIR" in result.err


def test_json_stands_alone_and_has_every_field(run: Run) -> None:
    result = run("audit", "discrete-gaussian", "--delta", "0.001", *QUICK, "--json")
    assert result.code == 0
    found = result.json
    assert {"rows", "samples", "confidence", "limits", "seed", "exceeds"} == set(found)
    assert (found["samples"], found["confidence"], found["limits"]) == (4000, 0.99, 4)
    assert (found["seed"], found["exceeds"]) == (None, False)
    (row,) = found["rows"]
    assert set(row) == FIELDS
    assert row["delta"] == 0.001
    assert 0.95 < row["epsilon"] <= 1
    assert row["reports"] == 2000
    assert len(row["findings"]) == 2
    assert row["bound"] == max(one["bound"] for one in row["findings"])
    assert row["share"] == row["lower_bound"] / row["epsilon"]


def test_all_mechanisms_share_the_confidence(run: Run) -> None:
    found = run("audit", "all", "--samples", "1000", "--seed", "1", "--json").json
    assert [row["mechanism"] for row in found["rows"]] == list(NAMES)
    assert found["limits"] == sum(2 * len(row["findings"]) for row in found["rows"])
    assert not found["exceeds"]


def test_epsilon_values_and_confidence_are_heard(run: Run) -> None:
    given = ["--epsilon", "3", "--values", "5", "--confidence", "0.9", "--seed", "1"]
    found = run("audit", "k-ary", *given, *QUICK, "--json").json
    (row,) = found["rows"]
    assert row["epsilon"] == pytest.approx(3)
    assert 2 < row["lower_bound"] < 3
    assert {one["input"] for one in row["findings"]} == {"0", "1", "4"}
    assert found["confidence"] == pytest.approx(0.9)


def test_a_seed_repeats_an_audit_and_says_so(run: Run) -> None:
    texts = [run("audit", "memo", *QUICK, "--seed", seed).out for seed in ("7", "7", "8")]
    assert texts[0] == texts[1] != texts[2]
    assert "reproducible coins of seed 7" in texts[0]
    assert "only if the seed was chosen before its outcome was seen" in texts[0]
    free = [run("audit", "memo", *QUICK, "--json").out for _ in range(2)]
    assert free[0] != free[1]


def test_progress_goes_to_stderr_and_quiet_silences_it(run: Run) -> None:
    loud = run("audit", "duchi", *QUICK)
    assert "1/1" in loud.err
    assert "duchi" in loud.err
    assert run("audit", "duchi", *QUICK, "-q").err == ""


# A refuted claim


def test_a_refuted_claim_ends_with_code_3(run: Run, broken: str) -> None:
    result = run("audit", broken, *QUICK, "--quiet")
    assert result.code == 3
    assert "proves nothing" not in result.out
    assert "k-ary claims 1 and loses at least 1." in result.out
    first, second = result.err.splitlines()
    assert first.startswith("error: k-ary claims 1 and loses at least 1.")
    assert first.endswith("(confidence 99 %)")
    assert second.startswith("remedy: ")


def test_a_refuted_claim_is_one_json_object(run: Run, broken: str) -> None:
    result = run("audit", "all", "--samples", "2000", "--seed", "1", "--json", "-q")
    assert result.code == 3
    found = result.json
    assert found["exceeds"] is True
    assert [row["mechanism"] for row in found["rows"] if row["exceeds"]] == [broken]
    assert found["error"]["type"] == "PrivacyRefusal"
    assert "k-ary claims 1" in found["error"]["message"]
    assert result.err.startswith("error: k-ary claims 1")


def test_the_page_of_a_refuted_claim_says_so(run: Run, broken: str) -> None:
    assert run("audit", broken, *QUICK, "--out", "out").code == 3
    text = Source(Path("out", PAGE).read_bytes()).text
    assert "Refuted: k-ary claims 1 and loses at least 1." in text


# The page


def test_the_folder_holds_the_page_and_what_was_printed(run: Run) -> None:
    result = run("audit", "piecewise", *QUICK, "--seed", "1", "--out", "out/deep", "--json")
    assert result.code == 0
    folder = Path("out/deep")
    assert {path.name for path in folder.iterdir()} == {PAGE, DATA}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o644 for path in folder.iterdir())
    printed = result.json
    assert printed.pop("out") == "out/deep"
    assert json.loads((folder / DATA).read_text()) == printed
    page = Source((folder / PAGE).read_bytes())
    assert page.facts()["share of the claim"] == f"{100 * printed['rows'][0]['share']:.1f} %"
    assert page.tags.count("svg") == 2
    assert "A bound below the claim proves nothing" in page.text
    assert "seed 1" in page.text


def test_a_seed_gives_the_same_page(run: Run) -> None:
    pages = []
    for out in ("a", "b"):
        run("audit", "skellam", *QUICK, "--seed", "1", "--out", out)
        pages.append(Path(out, PAGE).read_bytes())
    assert pages[0] == pages[1]


def test_an_occupied_folder_needs_force(run: Run) -> None:
    Path("out").mkdir()
    Path("out/thesis.txt").write_text("mine")
    result = run("audit", "duchi", *QUICK, "--out", "out")
    assert result.code == 2
    assert "out is not empty" in result.err
    assert run("audit", "duchi", *QUICK, "--out", "out", "--force").code == 0
    assert Path("out/thesis.txt").read_text() == "mine"
    result = run("audit", "duchi", *QUICK, "--out", "out/thesis.txt")
    assert result.code == 2
    assert "out/thesis.txt is a file" in result.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("all", "--samples", "3000", "--seed", "1"),
        ("randomized-response", *QUICK, "--seed", "1"),
        ("clipped-laplace", "--samples", "20000", "--seed", "1"),
        ("k-ary", "--samples", "100", "--values", "60", "--seed", "1"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_page_stands_alone_and_fits(
    run: Run, chromium: Browser, arguments: tuple[str, ...]
) -> None:
    assert run("audit", *arguments, "--out", "out").code == 0
    check_page(chromium, Path("out", PAGE))


def test_the_page_of_a_broken_mechanism_fits_too(run: Run, chromium: Browser, broken: str) -> None:
    assert run("audit", broken, *QUICK, "--seed", "1", "--out", "out").code == 3
    check_page(chromium, Path("out", PAGE))


# Mistakes


MISTAKES = {
    "an unknown mechanism": (["rappor"], "no mechanism is called 'rappor'"),
    "none": ([], "Missing argument MECHANISM, one of all, randomized-response"),
    "epsilon 0": (["memo", "--epsilon", "0"], "epsilon must"),
    "epsilon NaN": (["memo", "--epsilon", "nan"], "epsilon must"),
    "delta 1": (["skellam", "--delta", "1"], "delta must lie in (0, 1), got 1.0"),
    "a delta for none": (["memo", "--delta", "0.1"], "--delta has no meaning for memo"),
    "values for none": (["memo", "--values", "4"], "--values has no meaning for memo"),
    "one value": (["k-ary", "--values", "1"], "values must lie in [2, 4096], got 1"),
    "few samples": (["memo", "--samples", "99"], "samples must lie in [100, 2^40], got 99"),
    "certainty": (["memo", "--confidence", "1"], "confidence must lie in (0, 1), got 1.0"),
    "confidence NaN": (["memo", "--confidence", "nan"], "confidence must lie in (0, 1)"),
    "a negative seed": (["memo", "--seed", "-1"], "seed must"),
    "force alone": (["memo", "--force"], "--force has no meaning without --out"),
    "noise without end": (
        ["skellam", "--epsilon", "1e-9", "--delta", "1e-9"],
        "no noise of size 2^20 or less is enough",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gives_one_sentence_and_code_2(run: Run, name: str) -> None:
    arguments, sentence = MISTAKES[name]
    result = run("audit", *arguments, "--quiet")
    assert result.code == 2
    first, *rest = result.err.splitlines()
    assert first.startswith("error: ")
    assert sentence in first
    assert all(line.startswith("remedy: ") for line in rest)
    assert len(rest) <= 1
    assert result.out == ""
    told = run("audit", *arguments, "--quiet", "--json")
    assert told.code == 2
    assert sentence in told.json["error"]["message"]
    assert list(Path().iterdir()) == []


def test_an_unknown_mechanism_gets_the_list_of_those_that_are_known(run: Run) -> None:
    remedy = run("audit", "rappor").err.splitlines()[1]
    assert all(name in remedy for name in NAMES)


def test_ctrl_c_leaves_nothing_behind(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str, request: Request) -> Case:
        def draw(x: Any, n: int, rng: Rng) -> NDArray[Any]:
            raise KeyboardInterrupt

        return Case(name, 1.0, [("0", 0), ("1", 1)], draw)

    make: Callable[[str, Request], Case] = interrupted
    monkeypatch.setitem(audit_cases._CASES, "duchi", make)
    result = run("audit", "duchi", *QUICK, "--out", "out")
    assert result.code == 130
    assert result.err.splitlines()[-1] == "error: interrupted"
    assert result.out == ""
    assert list(Path().iterdir()) == []
