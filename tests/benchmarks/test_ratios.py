"""The command ``python -m benchmarks.ratios``: its JSON, its choice of rows, its exit status."""

import json
from functools import partial
from pathlib import Path

import pytest

from benchmarks import ratios
from benchmarks.environments import PeerUnavailableError
from benchmarks.harness import Case, Peer, Row, measure


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
        (("--build", "--json"), "not allowed with argument"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        ratios.main(arguments, rows=ROWS)
    assert stop.value.code == 2
    assert sentence in capsys.readouterr().err


class Builder:
    """Stands in for the environments: remembers what it was asked for, cannot build ``missing``."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def python(self, environment: str, requirements: tuple[str, ...]) -> Path:
        self.asked.append((environment, requirements))
        if environment == "missing":
            raise PeerUnavailableError("environment missing was not built: no such peer")
        return Path("python")


def peer_row(name: str, group: str, *environments: str) -> Row:
    """A row that cannot be measured: its inputs cannot even be made."""
    peers = tuple(Peer(name, ("demo==1.0",), Path("demo.py")) for name in environments)
    return Row(name, (group,), "s", raising, peers)


PEER_ROWS = (
    peer_row("mpc.one.vs_demo", "mpc", "demo"),
    peer_row("mpc.two.vs_demo", "mpc", "demo"),
    peer_row("ldp.three.vs_best_peer", "ldp", "demo", "missing"),
    ROWS[0],
)


@pytest.mark.parametrize(
    ("arguments", "environments", "status", "said"),
    [
        (("--group", "mpc"), ["demo"], 0, "environment demo is ready\n"),
        (("--name", "mpc.demo.vs_other"), [], 0, ""),
        (
            (),
            ["demo", "missing"],
            1,
            "environment demo is ready\nenvironment missing was not built: no such peer\n",
        ),
    ],
)
def test_build_makes_each_environment_of_the_chosen_rows_once_and_measures_nothing(
    arguments: tuple[str, ...],
    environments: list[str],
    status: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builder = Builder()
    monkeypatch.setattr(ratios, "Environments", lambda: builder)
    done, out = run(capsys, "--build", *arguments, rows=PEER_ROWS)
    assert builder.asked == [(environment, ("demo==1.0",)) for environment in environments]
    assert (done, out) == (status, said)


def test_row_names_are_unique_and_start_with_their_package() -> None:
    names = [r.name for r in ratios.ROWS]
    assert len(names) == len(set(names))
    assert {name.partition(".")[0] for name in names} == {
        "mpc",
        "ldp",
        "secagg",
        "paillier",
        "oprf",
    }
