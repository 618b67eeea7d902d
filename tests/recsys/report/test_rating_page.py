"""The two pages of a rating model: what they say, and that the public one tells of no user."""

import json
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recsys.baselines.biases import Biases
from recsys.baselines.grals import GRALS
from recsys.data.ratings import Ratings
from recsys.data.synthetic_ratings import SyntheticRatingsConfig, synthetic_ratings
from recsys.ratings.model import RatingModel
from recsys.report.costs import Costs
from recsys.report.ledger import INFINITY
from recsys.report.rating_page import rating_page, write_rating_report
from recsys.report.rating_summary import RatingSummary, summarise_ratings
from recsys.report.rating_users_page import LISTED, median_rater, rating_users_page
from recsys.report.run_folder import RunFolder
from recsys.report.table import byte_size
from tests.recsys.rating_worlds import Federated, fitted, small, world
from tests.support.browser import Browser
from tests.support.pages import Source, check_page, source_faults

NOISE: dict[str, Any] = {"clip": 0.1, "laplace": 0.2, "aggregate": "clear", "pseudo": 5}


def planted() -> Ratings:
    """Ratings whose users and items are found wherever they are written."""
    config = SyntheticRatingsConfig(users=200, items=60, per_user=20)
    data = synthetic_ratings(config)
    return replace(
        data,
        name="<b>shelf</b>",
        user_ids=tuple(f"zq-user-{number}" for number in range(data.n_users)),
        item_ids=tuple(f"<script>book{number}</script>" for number in range(data.n_items)),
    )


def summary_of(model: RatingModel, folder: Path = Path("run")) -> RatingSummary:
    """With costs that do not depend on the machine."""
    costs = Costs(2.5, {"gradients": 1.0, "validation": 0.25})
    summary = summarise_ratings(model, costs, folder, ["a note about <i>data</i>"])
    return replace(summary, row={**summary.row, "peak_memory_bytes": 1})


def public(model: RatingModel) -> Source:
    return Source(rating_page(model, summary_of(model), "epochs = 3\n"))


@pytest.fixture(scope="module")
def model() -> RatingModel:
    return fitted(data=planted(), **NOISE)


@pytest.fixture(scope="module")
def folder(model: RatingModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of ``model``."""
    path = tmp_path_factory.mktemp("page") / "run"
    with RunFolder(path, settings={"data": "<b>shelf</b>", "epochs": 3}) as run:
        write_rating_report(run, model, summary_of(model, path))
    return path


def text_of(folder: Path, part: str = "public") -> str:
    return Source((folder / part / "report.html").read_bytes()).text


# What the public page says first


def test_a_run_without_noise_opens_with_that(folder: Path) -> None:
    opening = "No differential privacy: epsilon = infinity."
    first = public(fitted(data=planted())).text.partition("Result")[2]
    result = first[first.index("Result") :] if "Result" in first else first
    assert result.index(opening) < result.index("Test RMSE")
    assert opening not in text_of(folder)  # which has noise


def test_a_seeded_run_opens_with_that_there_is_none() -> None:
    text = public(fitted(data=planted(), seed=1, **NOISE)).text
    assert "Privacy: none (reproducible simulation), nominal epsilon = 1 per coordinate." in text


def test_a_model_at_the_constant_is_said_to_be_there_in_one_sentence() -> None:
    """By the test error of the mean rating, whatever the model; FedGNN and means alike."""
    constant = fitted(Biases, data=planted(), model="global-mean")
    text = public(constant).text
    figures = summary_of(constant).row
    assert figures["rmse"] == pytest.approx(figures["constant_rmse"])
    sentence = (
        f"It ends at the constant predictor: test RMSE {figures['rmse']:.4f}, the training mean "
        f"alone has {figures['constant_rmse']:.4f}."
    )
    assert text.count(sentence) == 1
    good = public(fitted(Biases, data=planted(), model="bias")).text
    assert "ends at the constant predictor" not in good
    assert "It beats the constant predictor by 0." in good


def test_the_constant_is_measured_on_the_test_part() -> None:
    rows = [(user, item, 2.0) for user in range(4) for item in range(3)]
    parts = world(rows, test=[(0, 3, 5.0), (1, 3, 2.0)], users=4, items=4)
    row = summarise_ratings(Federated(small(min_cohort=3)).fit(parts), Costs(1.0), Path()).row
    assert row["constant_rmse"] == pytest.approx(np.sqrt(4.5))
    assert row["fallbacks"] == 2  # nobody rated item 3 in training


# What the public page must not hold


def test_the_public_page_names_no_user_and_no_item(model: RatingModel, folder: Path) -> None:
    page = (folder / "public" / "report.html").read_bytes()
    text = page.decode()
    assert not [name for name in model.parts_.user_ids if name in text]
    assert "book" not in text
    assert "users/report.html" in Source(page).text


def test_no_group_of_the_errors_is_one_of_few(folder: Path) -> None:
    cells = [text for _, text in Source((folder / "public" / "report.html").read_bytes()).cells]
    levels = cells.index("rating given") + 4
    groups = cells.index("training ratings of a user") + 4
    end = cells.index("kind of message") if "kind of message" in cells else cells.index("step")
    for start, stop in ((levels, groups - 4), (groups, end)):
        assert stop - start >= 8
        assert all(int(cells[at + 1].replace(",", "")) >= 20 for at in range(start, stop, 4))


def test_names_from_the_data_are_text_on_both_pages(folder: Path) -> None:
    for part in ("public", "users"):
        page = (folder / part / "report.html").read_bytes()
        assert source_faults(page) == [], part
        source = Source(page)
        assert "script" not in source.tags
        assert "b" not in source.tags
        assert "<b>shelf</b>" in source.text


def test_the_private_page_is_readable_by_its_owner_only(folder: Path) -> None:
    assert stat.S_IMODE((folder / "users").stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "users" / "report.html").stat().st_mode) == 0o600


# What else the public page says


def test_the_figures_are_those_of_the_metrics(folder: Path) -> None:
    facts = Source((folder / "public" / "report.html").read_bytes()).facts()
    (row,) = json.loads((folder / "public" / "metrics.json").read_text())["rows"]
    assert facts == {
        "test RMSE": f"{row['rmse']:.4f}",
        "test RMSE of the training mean": f"{row['constant_rmse']:.4f}",
        "best epoch": f"{row['best_epoch']} of {row['epochs']}",
        "time": "2.5 s",
        "sent per user": facts["sent per user"],
        "epsilon per coordinate": "1",
        "epsilon per user, worst release": INFINITY,
    }
    assert facts["sent per user"] == byte_size(row["bytes_per_user"])
    text = text_of(folder)
    assert "computed from the sizes of messages" in text


def test_all_three_losses_are_on_the_page(model: RatingModel, folder: Path) -> None:
    cells = [text for _, text in Source((folder / "public" / "report.html").read_bytes()).cells]
    (row,) = json.loads((folder / "public" / "metrics.json").read_text())["rows"]
    epsilon = row["epsilon"]
    start = cells.index("one coordinate of one upload")
    told = cells[start : start + 9]
    assert told[2] == "1"
    assert float(told[5].replace(",", "")) == epsilon["vector"]
    assert float(told[8].replace(",", "")) == epsilon["user"]
    assert epsilon["user"] == epsilon["vector"] * len(model.history_)
    assert "what the noise protects" not in public(fitted(data=planted())).text


def test_the_losses_of_embeddings_are_on_the_page_too() -> None:
    model = fitted(data=planted(), dim=2, neighbours="fixed", embedding_epsilon=2.0)
    page = Source(rating_page(model, summary_of(model), ""))
    cells = [text for _, text in page.cells]
    start = cells.index("one coordinate of one embedding handed on")
    assert cells[start + 1 : start + 3] == ["1", "2"]
    assert cells[start + 3 : start + 6] == ["one whole embedding handed on", "2", "4"]
    assert "No differential privacy: epsilon = infinity." in page.text  # uploads have no noise


def test_what_a_model_has_to_say_is_on_the_page_and_in_the_terminal() -> None:
    model = fitted(GRALS, data=planted())
    summary = summary_of(model)
    told = [f"no graph of {side} came with the set" for side in ("users", "items")]
    assert [note.partition(":")[0] for note in summary.row["model_notes"]] == told
    assert summary.row["notes"] == ["a note about <i>data</i>"]
    page = public(model).text
    assert "Notes a note about <i>data</i> no graph of users came with the set" in page
    lines = [line for line in summary.lines() if line.startswith("note     ")]
    assert lines == [f"note     {note}" for note in summary.row["model_notes"]]
    short = summary_of(fitted(data=planted(), aggregate="clear", pseudo=50))
    assert any("fewer than 50 pseudo-interacted items" in line for line in short.lines())


def test_every_release_of_the_ledger_has_its_row(folder: Path) -> None:
    cells = [text for _, text in Source((folder / "public" / "report.html").read_bytes()).cells]
    ledger = json.loads((folder / "public" / "ledger.json").read_text())
    assert len(ledger["releases"]) == 4
    for release in ledger["releases"]:
        at = cells.index(release["what"])
        assert cells[at - 1] == release["sees"]
        assert cells[at + 3] == release["adversary"]


def test_the_learning_curve_is_on_the_page_number_by_number(
    model: RatingModel, folder: Path
) -> None:
    cells = [text for _, text in Source((folder / "public" / "report.html").read_bytes()).cells]
    start = cells.index("validation RMSE") + 1
    expected = [
        text
        for record in model.history_
        for text in (str(record.epoch), f"{record.loss**0.5:.4f}", f"{record.rmse:.4f}")
    ]
    assert cells[start : start + len(expected)] == expected


def test_what_was_sent_is_counted_where_the_protocol_ran() -> None:
    model = fitted(mode="protocol", epochs=1)
    row = summarise_ratings(model, _sent(model), Path()).row
    assert row["bytes_counted"] is True
    total = sum(kind["bytes"] for kind in row["traffic"].values())
    assert row["bytes_per_user"] == total / row["users"]


def _sent(model: RatingModel) -> Costs:
    assert model.traffic is not None
    return Costs(1.0, {}, {k: (c.messages, c.bytes) for k, c in model.traffic.traffic.items()})


def test_the_computed_upload_is_what_the_protocol_sends() -> None:
    """Of clear uploads all bytes are uploads, but for the training mean's."""
    changes: dict[str, Any] = {"aggregate": "clear", "pseudo": 5, "center": False, "seed": 2}
    sent = fitted(mode="protocol", **changes)
    computed = fitted(mode="simulate", **changes)
    counted = summarise_ratings(sent, _sent(sent), Path()).row
    told = summarise_ratings(computed, Costs(1.0), Path()).row
    assert told["bytes_counted"] is False
    assert counted["model_digest"] == told["model_digest"]
    assert told["bytes_per_user"] == pytest.approx(counted["bytes_per_user"], rel=1e-3)


def test_without_validation_or_test_ratings_the_page_says_so() -> None:
    rows = [(user, item, 1.0 + (user + item) % 5) for user in range(6) for item in range(4)]
    parts = world(rows, test=[], users=6, items=4)
    model = Biases(small(model="bias")).fit(parts)
    text = public(model).text
    assert "There are no validation ratings" in text
    assert "There are no test ratings" in text
    assert "no test rating to compare with" in text


def test_equal_runs_give_equal_pages() -> None:
    once, again = (fitted(data=planted(), seed=4, **NOISE) for _ in range(2))
    for page in (lambda m: rating_page(m, summary_of(m), ""), rating_users_page):
        assert page(once) == page(again)


# The private page


def test_the_user_is_the_first_with_the_median_number_of_training_ratings() -> None:
    counts = (5, 1, 3, 2, 3, 0)
    rows = [(user, item, 3.0) for user, many in enumerate(counts) for item in range(many)]
    assert median_rater(world(rows, test=[], users=6, items=6)) == 2


def test_the_list_is_what_the_model_recommends(model: RatingModel, folder: Path) -> None:
    cells = [text for _, text in Source((folder / "users" / "report.html").read_bytes()).cells]
    name = model.parts_.user_ids[median_rater(model.parts_)]
    best = model.recommend(name, LISTED)
    start = cells.index("held-out rating") + 1
    for rank, one in enumerate(best, start=1):
        row = cells[start + 4 * (rank - 1) : start + 4 * rank]
        assert row[:3] == [str(rank), one.item, f"{one.value:.2f}"]
    assert name in text_of(folder, "users")


def test_her_held_out_ratings_stand_beside_the_predictions(
    model: RatingModel, folder: Path
) -> None:
    parts = model.parts_
    user = median_rater(parts)
    test = parts.test.part(parts.test.users == user)
    cells = [text for _, text in Source((folder / "users" / "report.html").read_bytes()).cells]
    start = cells.index("predicted") + 1
    told = {cells[start + 3 * row]: cells[start + 3 * row + 1] for row in range(len(test))}
    assert told == {
        parts.item_ids[item]: f"{value:g}"
        for item, value in zip(test.items, test.values, strict=True)
    }


def test_a_user_who_rated_everything_gets_no_list() -> None:
    rows = [(user, item, 3.0) for user in range(4) for item in range(3)]
    model = Federated(small(min_cohort=3)).fit(world(rows, test=[], users=4, items=3))
    assert "She has rated every item" in Source(rating_users_page(model)).text


@pytest.mark.parametrize("part", ["public", "users"])
def test_a_page_stands_alone_and_fits(chromium: Browser, folder: Path, part: str) -> None:
    check_page(chromium, folder / part / "report.html")


def test_a_run_in_its_place_leaves_neither_page(model: RatingModel, tmp_path: Path) -> None:
    path = tmp_path / "run"
    with RunFolder(path, settings={}) as run:
        write_rating_report(run, model, summary_of(model, path))
    with RunFolder(path, settings={}, force=True):
        assert list(path.glob("*/report.html")) == []


def test_the_terminal_says_what_the_page_says(model: RatingModel) -> None:
    lines = summary_of(model).lines()
    assert lines[0].startswith("worst release: ")
    assert summary_of(fitted(data=planted())).lines()[0].startswith("no differential privacy")
    told = "\n".join(lines)
    assert re.search(r"result +test RMSE 0\.\d{4} over \d+ ratings", told)
    assert lines[-1].startswith("next     privrec recommend --model run --user zq-user-")
