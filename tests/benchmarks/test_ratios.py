"""The command ``python -m benchmarks.ratios``: its JSON, its choice of rows, its exit status."""

import json
from functools import partial

import pytest

from benchmarks import ratios
from benchmarks.harness import Case, Row, measure


@pytest.fixture(autouse=True)
def _single_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of one call each: these tests look at the command, not at the figures."""
    monkeypatch.setattr(ratios, "measure", partial(measure, least_seconds=0.0))


def row(name: str, *groups: str, right: bool = True) -> Row:
    def make() -> Case:
        return Case(lambda: sum(range(2000)), lambda: sum(range(1000)), 10, lambda: right, "note")

    return Row(name, groups, "element", make)


def raising() -> Case:
    raise RuntimeError("inputs cannot be made")


ROWS = (
    row("mpc.demo.vs_other", "core", "mpc"),
    row("ldp.demo.over_limit", "ldp"),
)


def run(
    capsys: pytest.CaptureFixture[str], *arguments: str, rows: tuple[Row, ...] = ROWS
) -> tuple[int, str]:
    status = ratios.main(arguments, rows=rows)
    return status, capsys.readouterr().out


def test_json_is_one_object_of_rows_with_exactly_the_promised_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out = run(capsys, "--json")
    document = json.loads(out)
    assert status == 0
    assert list(document) == ["rows"]
    assert [entry["name"] for entry in document["rows"]] == [r.name for r in ROWS]
    for entry in document["rows"]:
        assert list(entry) == ["name", "ours", "other", "unit", "ratio", "ok", "note"]
        assert entry["ok"] is True
        assert entry["unit"] == "element"
        assert entry["note"] == "note"
    versus, over = document["rows"]
    assert versus["ratio"] == versus["other"] / versus["ours"]
    assert over["ratio"] == over["ours"] / over["other"]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--group", "core"), ["mpc.demo.vs_other"]),
        (("--group", "ldp"), ["ldp.demo.over_limit"]),
        (("--group", "paillier"), []),
        (("--name", "ldp.demo.over_limit"), ["ldp.demo.over_limit"]),
        (("--group", "core", "--name", "ldp.demo.over_limit"), []),
    ],
)
def test_group_and_name_choose_rows(
    arguments: tuple[str, ...], names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    _, out = run(capsys, *arguments, "--json")
    assert [entry["name"] for entry in json.loads(out)["rows"]] == names


def test_without_json_it_prints_an_aligned_table(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = run(capsys, "--group", "core")
    head, line = out.splitlines()
    assert head.split() == ["name", "ours", "other", "unit", "ratio", "ok", "note"]
    assert line.startswith("mpc.demo.vs_other")
    assert line.index("element") == head.index("unit")


def test_a_wrong_result_is_shown_and_sets_the_exit_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = (row("mpc.wrong.vs_other", "core", right=False), ROWS[1])
    status, out = run(capsys, "--json", rows=rows)
    assert status == 1
    assert [entry["ok"] for entry in json.loads(out)["rows"]] == [False, True]


def test_a_row_that_raises_does_not_cost_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (Row("mpc.raising.vs_other", ("core",), "s", raising), ROWS[1])
    status, out = run(capsys, "--json", rows=rows)
    broken, fine = json.loads(out)["rows"]
    assert status == 1
    assert (broken["ours"], broken["ratio"], broken["ok"]) == (None, None, False)
    assert broken["note"] == "failed: RuntimeError: inputs cannot be made"
    assert fine["ok"] is True


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--rounds", "6"), "--rounds must be at least 7, got 6"),
        (("--name", "mpc.unknown"), "no row is named 'mpc.unknown'"),
        (("--group", "speed"), "invalid choice: 'speed'"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        ratios.main(arguments, rows=ROWS)
    assert stop.value.code == 2
    assert sentence in capsys.readouterr().err


def test_row_names_are_unique_and_start_with_their_package() -> None:
    names = [r.name for r in ratios.ROWS]
    assert len(names) == len(set(names))
    assert {name.partition(".")[0] for name in names} == {"mpc", "ldp", "secagg"}
