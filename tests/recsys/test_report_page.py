"""The two pages of a training run: what they say, and that the public one tells of no user."""

import json
import re
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recsys.baselines.fm import FM
from recsys.data.prepare import PrepareConfig
from recsys.network import weigh
from recsys.prirec import PriRec, build_network, homes
from recsys.recommender import Recommender
from recsys.report import page as report
from recsys.report import users_page as users
from recsys.report.costs import Costs
from recsys.report.html import Html, Page, figure
from recsys.report.ledger import INFINITY, shown
from recsys.report.maps import Places, point_map
from recsys.report.page import public_page, write_report
from recsys.report.run_folder import RunFolder
from recsys.report.summary import Summary, summarise
from recsys.report.users_page import LISTED, median_user, network_figures, users_page
from recsys.simulation import SimulationRng
from tests.recsys.worlds import city, small, world
from tests.support.cli import QUICK, Run
from tests.support.pages import Source, source_faults

SETTINGS: Any = {"data": "<b>town</b>", "epochs": 2}


def planted() -> Any:
    """A city whose users, POIs and places are found wherever they are written."""
    data = city()
    return replace(
        data,
        name="<b>town</b>",
        user_ids=tuple(f"zq-user-{number}" for number in range(data.n_users)),
        poi_ids=tuple(f"<script>poi{number}</script>" for number in range(data.n_pois)),
        lat=data.lat - 77.1234,
        lon=data.lon + 166.5,
    )


def fitted(**changes: Any) -> PriRec:
    return PriRec(small(prepare=PrepareConfig(), **changes)).fit(planted())


def summary_of(model: Recommender, folder: Path = Path("run")) -> Summary:
    """With costs that do not depend on the machine."""
    costs = Costs(2.5, {"features": 1.0, "gradients": 1.25})
    summary = summarise(model, costs, folder, ["a note about <i>data</i>"])
    return replace(summary, row={**summary.row, "peak_memory_bytes": 1})


def public(model: Recommender) -> bytes:
    return public_page(model, summary_of(model), "epochs = 2\n")


@pytest.fixture(scope="module")
def model() -> PriRec:
    return fitted()


@pytest.fixture(scope="module")
def folder(model: PriRec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of ``model``."""
    path = tmp_path_factory.mktemp("page") / "run"
    with RunFolder(path, settings=SETTINGS) as run:
        write_report(run, model, summary_of(model, path))
    return path


# What the public page must not hold


def leaks(page: bytes, model: Recommender) -> list[str]:
    """What a page tells of single users: three decimals of a home anywhere, two in its words.

    Two decimals of a degree are a kilometre; a chart has so many numbers that some look like them.
    """
    source, prepared = Source(page), model.prepared_
    text = page.decode()
    found = [f"user {name}" for name in prepared.user_ids if name in text]
    numbers = re.findall(r"(-?\d+\.(\d{2,}))", source.text)
    said = [(float(number), 10.0 ** -len(decimals)) for number, decimals in numbers]
    for user, place in enumerate(zip(*homes(prepared), strict=True)):
        if any(
            f"{degrees:.9f}"[:-6] in text
            or any(abs(number - degrees) <= unit for number, unit in said)
            for degrees in place
        ):
            found.append(f"home of {user}")
    # The busiest POIs stand in a table, by an estimate that costs epsilon; no others are named.
    named = {poi for poi in prepared.poi_ids if poi in source.text}
    estimate = model.features_.counts[0].estimate
    busiest = np.argsort(-estimate, kind="stable")[:10]
    found += [f"POI {poi}" for poi in named - {prepared.poi_ids[poi] for poi in busiest}]
    return found


def test_the_public_page_tells_nothing_of_a_single_user(model: PriRec, folder: Path) -> None:
    page = (folder / "public" / "report.html").read_bytes()
    assert leaks(page, model) == []
    assert "users/report.html" in Source(page).text


def test_a_public_page_that_shows_a_user_is_caught(
    model: PriRec, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = leaks(users_page(model), model)
    for kind in ("user zq-user-", "home of ", "POI "):
        assert any(one.startswith(kind) for one in found), kind
    careless = partial(_careless_pois, model)
    monkeypatch.setattr(report, "_pois", lambda shown_model: careless())
    assert "user zq-user-0" in leaks(public(model), model)


@pytest.mark.parametrize("decimals", [2, 3, 4, 9])
@pytest.mark.parametrize("coordinate", [0, 1])
def test_a_home_is_found_however_it_is_rounded(
    model: PriRec, decimals: int, coordinate: int
) -> None:
    for user, degrees in enumerate(homes(model.prepared_)[coordinate]):
        for shown_degrees in (f"{degrees:.{decimals}f}", f"{degrees:.12f}"[: decimals - 12]):
            page = Page("t").section("s", f"near {shown_degrees} degrees").render()
            assert f"home of {user}" in leaks(page, model), shown_degrees


def _careless_pois(model: Recommender) -> list[Html]:
    prepared = model.prepared_
    lat, lon = homes(prepared)
    marks = [Places(prepared.user_ids[0], lat[:1], lon[:1])]
    return [figure(point_map(prepared.lat, prepared.lon, highlights=marks), "c", "a")]


def test_the_public_map_is_drawn_from_pois_and_estimates_alone(
    model: PriRec, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def watched(*arrays: Any, **options: Any) -> Html:
        drawn.append((arrays, options))
        return point_map(*arrays, **options)

    monkeypatch.setattr(report, "point_map", watched)
    public(model)
    ((arrays, options),) = drawn
    prepared = model.prepared_
    assert [id(array) for array in arrays] == [id(prepared.lat), id(prepared.lon)]
    assert options.keys() == {"values", "value_label", "view"}
    assert options["values"] is model.features_.counts[0].estimate


def test_the_busiest_pois_are_listed_with_their_estimates_and_never_counted(
    model: PriRec, folder: Path
) -> None:
    """A count of visitors without noise would tell whether the last of them was there."""
    cells = [text for _, text in Source((folder / "public" / "report.html").read_bytes()).cells]
    estimate = model.features_.counts[0].estimate
    best = np.argsort(-estimate, kind="stable")[:10]
    start = cells.index("highest estimates: POI") + 3
    listed = {cells[start + 3 * i]: cells[start + 3 * i + 2] for i in range(10)}
    assert listed == {model.prepared_.poi_ids[poi]: f"{estimate[poi]:,.1f}" for poi in best}
    exact = np.bincount(model.prepared_.visitors.pois, minlength=model.prepared_.n_pois)
    assert not np.isin(np.round(estimate[best], 1), exact).all()  # else the two look alike


def test_a_run_in_its_place_leaves_neither_page(model: PriRec, tmp_path: Path) -> None:
    path = tmp_path / "run"
    with RunFolder(path, settings=SETTINGS) as run:
        write_report(run, model, summary_of(model, path))
    with RunFolder(path, settings=SETTINGS, force=True):
        assert list(path.glob("*/report.html")) == []


def test_the_private_page_is_readable_by_its_owner_only(folder: Path) -> None:
    assert stat.S_IMODE((folder / "users").stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "users" / "report.html").stat().st_mode) == 0o600
    assert (folder / "public" / "report.html").stat().st_mode & stat.S_IROTH


def test_names_from_the_data_are_text_on_both_pages(folder: Path) -> None:
    for part in ("public", "users"):
        page = (folder / part / "report.html").read_bytes()
        assert source_faults(page) == [], part
        source = Source(page)
        assert "script" not in source.tags
        assert "b" not in source.tags
        assert "<script>poi" in source.text
        assert "<b>town</b>" in source.text


# What the public page says


def test_the_figures_are_those_of_the_metrics(folder: Path) -> None:
    facts = Source((folder / "public" / "report.html").read_bytes()).facts()
    (row,) = json.loads((folder / "public" / "metrics.json").read_text())["rows"]
    assert facts == {
        "test AUC": f"{row['auc']:.4f}",
        "test AUC, mean of users": f"{row['auc_user_mean']:.4f}",
        "best epoch": f"{row['best_epoch']} of {row['epochs']}",
        "time": "2.5 s",
        "sent per user": "not counted",
        "epsilon per user-POI pair (nominal)": shown(row["epsilon"]["bit"]),
        "epsilon per user, worst release": INFINITY,
    }


def test_every_measure_is_on_the_page(folder: Path) -> None:
    cells = Source((folder / "public" / "report.html").read_bytes()).cells
    values = {cells[i][1]: cells[i + 1][1] for i in range(len(cells) - 1)}
    (row,) = json.loads((folder / "public" / "metrics.json").read_text())["rows"]
    for name in ("model_digest", "users", "pois", "train_pairs", "test_pairs", "features", "seed"):
        assert values[name] == str(row[name])


def test_the_learning_curve_is_on_the_page_number_by_number(model: PriRec, folder: Path) -> None:
    cells = [text for _, text in Source((folder / "public" / "report.html").read_bytes()).cells]
    start = cells.index("training loss")
    expected = [
        text
        for record in model.history_
        for text in (str(record.epoch), f"{record.loss:.4f}", f"{record.auc:.4f}")
    ]
    assert cells[start + 2 : start + 2 + len(expected)] == expected


def test_every_release_of_the_ledger_has_its_row(folder: Path) -> None:
    text = Source((folder / "public" / "report.html").read_bytes())
    cells = [cell for _, cell in text.cells]
    ledger = json.loads((folder / "public" / "ledger.json").read_text())
    assert ledger["headline"].removeprefix("privacy") in text.text
    assert len(ledger["releases"]) == 6
    for release in ledger["releases"]:
        at = cells.index(release["what"])
        assert cells[at - 1] == release["sees"]
        assert cells[at + 1].split()[0] in ("once", str(release["rounds"]))
        assert shown(float(release["epsilon_user"])) in cells[at + 2]
        assert cells[at + 3] == release["adversary"]


def test_the_map_says_how_uncertain_its_colours_are(model: PriRec, folder: Path) -> None:
    text = Source((folder / "public" / "report.html").read_bytes()).text
    error = model.features_.counts[0].standard_error
    assert f"Standard error of each estimate: {error:.2f}" in text


def test_a_map_of_averages_says_so_with_cap_and_error() -> None:
    model = fitted(dynamic="average", visit_cap=3)
    page = public(model)
    assert leaks(page, model) == []
    source = Source(page)
    (average,) = model.features_.counts
    assert (
        "Colour: the average number of visits (of a user at most 3) among 40 users" in source.text
    )
    assert f"Standard error of each estimate: at most {average.standard_error:.4f}" in source.text
    assert "visitors" not in source.text.partition("Points of interest")[2].partition("What was")[0]
    assert "average visits by 1BitMean, capped at 3" in source.text
    cells = [text for _, text in source.cells]
    start = cells.index("visits per user") + 1
    best = np.argsort(-average.estimate, kind="stable")[:10]
    listed = {cells[start + 3 * i]: cells[start + 3 * i + 2] for i in range(10)}
    expected = {model.prepared_.poi_ids[poi]: f"{average.estimate[poi]:,.3f}" for poi in best}
    assert listed == expected


def test_notes_and_settings_are_on_the_page(folder: Path) -> None:
    text = Source((folder / "public" / "report.html").read_bytes()).text
    assert "a note about <i>data</i>" in text
    assert 'data = "<b>town</b>" epochs = 2' in text


def test_what_the_protocols_sent_is_listed_by_kind(trained: Path) -> None:
    cells = [text for _, text in Source((trained / "public" / "report.html").read_bytes()).cells]
    (row,) = json.loads((trained / "public" / "metrics.json").read_text())["rows"]
    assert set(row["traffic"]) >= {"secure_sum.share", "pads.masked", "ldp.reports"}
    for kind, cost in row["traffic"].items():
        assert cells[cells.index(kind) + 1] == f"{cost['messages']:,}"
    for step in row["steps"]:
        assert step in cells


def test_equal_runs_give_equal_pages(model: PriRec) -> None:
    again = fitted()
    assert public(again) == public(model)
    assert users_page(again) == users_page(model)


def test_the_terminal_names_the_report(run: Run) -> None:
    lines = run("train", "fm", *QUICK, "--out", "out").out.splitlines()
    assert "report   out/public/report.html" in lines
    assert not Path("out/public/report.md").exists()


def test_a_model_without_dynamic_features_has_a_plain_map() -> None:
    text = Source(public(fitted(model="prirec-"))).text
    assert "nobody was asked what she visited" in text
    assert "Standard error" not in text


def test_a_validation_part_without_an_auc_is_said(model: PriRec) -> None:
    no_part = PriRec(small()).fit(planted())  # keeps no validation part
    assert "so there is no AUC" in Source(public(no_part)).text
    assert "so there is no AUC" not in Source(public(model)).text


# The private page


def test_the_user_is_the_first_with_the_median_number_of_training_visits() -> None:
    rows = [(user, poi, 1) for user, visits in enumerate((5, 1, 3, 2, 3)) for poi in range(visits)]
    assert median_user(world(rows, users=5, pois=8)) == 2
    assert median_user(world(rows, users=6, pois=8)) == 3  # 0 1 2 3 3 5: the lower median


def test_the_list_is_what_the_model_recommends(model: PriRec) -> None:
    cells = [text for _, text in Source(users_page(model)).cells]
    name = model.prepared_.user_ids[median_user(model.prepared_)]
    best = model.recommend(name, LISTED)
    assert len(best) == LISTED
    start = cells.index("held-out visit") + 1
    table = [cells[start + 6 * i : start + 6 * i + 4] for i in range(LISTED)]
    expected = [
        [str(rank), one.poi, one.category or "unknown", f"{one.probability:.4f}"]
        for rank, one in enumerate(best, start=1)
    ]
    assert table == expected


def test_a_hit_among_the_held_out_visits_is_marked(model: PriRec) -> None:
    prepared = model.prepared_
    user = median_user(prepared)
    held_out = {
        prepared.poi_ids[poi]
        for part in (prepared.validation, prepared.test)
        for owner, poi in zip(*part.positives(), strict=True)
        if owner == user
    }
    cells = [text for _, text in Source(users_page(model)).cells]
    start = cells.index("held-out visit") + 1
    marked = {cells[start + 6 * i + 1]: cells[start + 6 * i + 5] for i in range(LISTED)}
    assert marked == {poi: "yes" if poi in held_out else "no" for poi in marked}
    assert set(marked.values()) == {"yes", "no"}


def test_network_figures_of_three_users_on_a_line() -> None:
    neighbours = np.array([[1], [0], [1]], dtype=np.int32)
    found = network_figures(
        weigh(neighbours, np.zeros((3, 1))), np.zeros(3), np.array([0.0, 1.0, 3.0])
    )
    np.testing.assert_allclose(found.km[:, 0], [111.195, 111.195, 222.390], atol=1e-3)
    assert found.named.tolist() == [1, 2, 0]
    assert found.mutual == pytest.approx(2 / 3)


def test_a_map_of_too_many_edges_has_those_of_every_few_users(
    model: PriRec, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []

    def watched(*arrays: Any, edges: Any = None, **options: Any) -> Html:
        drawn.append(edges)
        return point_map(*arrays, edges=edges, **options)

    neighbours = build_network(model.prepared_, model.config, SimulationRng(0)).neighbours
    monkeypatch.setattr(users, "point_map", watched)
    monkeypatch.setattr(users, "MOST_EDGES", neighbours.size // 3)
    text = Source(users_page(model)).text
    expected = [(user, int(to)) for user in range(0, len(neighbours), 3) for to in neighbours[user]]
    assert [tuple(edge) for edge in drawn[-1].tolist()] == expected
    assert "lines to the neighbours of one user in 3." in text


def test_a_random_network_uses_no_home_and_shows_none() -> None:
    text = Source(users_page(fitted(network="random"))).text
    assert "drawn at random, so no home was used" in text
    assert "km to a neighbour" not in text
    assert "Homes, and a line" not in text
    assert "Homes, and a line" in Source(users_page(fitted())).text


def test_models_without_a_network_say_so() -> None:
    assert "No neighbours were asked for" in Source(users_page(fitted(neighbours=0))).text
    central = FM(small(model="fm", prepare=PrepareConfig())).fit(planted())
    assert "there is no network between users" in Source(users_page(central)).text


def test_a_user_who_was_everywhere_gets_no_list() -> None:
    rows = [(user, poi, 1) for user in range(4) for poi in range(3)]
    prepared = world(rows, users=4, pois=3)
    model = PriRec(small(min_cohort=3, cohort=4, features="user")).fit(prepared)
    assert "She has visited every POI" in Source(users_page(model)).text
