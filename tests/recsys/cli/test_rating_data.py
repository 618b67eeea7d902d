"""``privrec data`` with rating sets: listed, described, fetched."""

import zipfile
from pathlib import Path
from typing import Any

import pytest

from recsys.cli import data
from recsys.data import fetch
from tests.recsys.rating_worlds import SET
from tests.support.cli import Run

RATINGS = "user,item,rating\n" + "".join(f"u{u},i{i},{1 + i}\n" for u in range(3) for i in range(4))


def test_list_names_rating_sets_beside_check_ins(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("root/shelf").mkdir(parents=True)
    Path("root/shelf/ratings.csv").write_text(RATINGS)
    monkeypatch.setenv("PRIVREC_DATA", "root")
    rows = run("data", "list", "--json").json["rows"]
    tasks = {row["name"]: row["task"] for row in rows}
    assert tasks == {"synthetic-city": "visits", "synthetic-ratings": "rating", "shelf": "rating"}
    assert "600 users and 400 items" in run("data", "list").out


def test_describe_knows_ratings_by_their_name_and_by_their_files(run: Run) -> None:
    (facts,) = run("data", "describe", SET, "--json").json["rows"]
    assert (facts["users"], facts["items"]) == (60, 30)
    Path("shelf").mkdir()
    Path("shelf/ratings.csv").write_text(RATINGS)
    (facts,) = run("data", "describe", "shelf", "--json").json["rows"]
    assert (facts["users"], facts["items"], facts["ratings"]) == (3, 4, 12)
    text = run("data", "describe", "shelf").out
    assert any(line.split() == ["ratings", "12"] for line in text.splitlines())


def test_a_csv_file_is_taken_for_check_ins_unless_told_otherwise(run: Run) -> None:
    Path("some.csv").write_text(RATINGS)
    assert "column 'poi' is missing" in run("data", "describe", "some.csv").err
    (facts,) = run("data", "describe", "some.csv", "--task", "rating", "--json").json["rows"]
    assert facts["ratings"] == 12
    assert run("data", "describe", "some.csv", "--task", "books").code == 2


def test_ratings_have_no_page(run: Run) -> None:
    ran = run("data", "describe", SET, "--out", "x")
    assert ran.code == 2
    assert "--out has no meaning with ratings" in ran.err
    assert not Path("x").exists()


def test_fetch_says_where_the_file_is_and_its_terms(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def fetched(folder: Path) -> fetch.Fetched:
        asked.append(folder)
        return fetch.Fetched(folder / fetch.FILE, fresh=True)

    monkeypatch.setattr(data, "fetch_ml_100k", fetched)
    monkeypatch.delenv("PRIVREC_DATA", raising=False)
    ran = run("data", "fetch", "ml-100k")
    assert ran.code == 0
    assert f"ml-100k is in ml-100k/{fetch.FILE}" in ran.out
    assert "no redistribution without separate permission" in ran.out
    assert "privrec train fedgnn --data ml-100k" in ran.out
    monkeypatch.setenv("PRIVREC_DATA", "sets")
    row = run("data", "fetch", "ml-100k", "--json").row
    assert row["path"] == f"sets/ml-100k/{fetch.FILE}"
    assert row["terms"] == fetch.TERMS
    run("data", "fetch", "ml-100k", "--out", "here")
    assert asked == [Path("ml-100k"), Path("sets/ml-100k"), Path("here")]


def test_a_file_that_is_another_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(folder: Path, **options: Any) -> None:
        with zipfile.ZipFile(folder / "recbole-1.2.1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(fetch.MEMBER, "user_id:token\n" * 10)

    monkeypatch.setattr(fetch, "_pip", wrong)
    ran = run("data", "fetch", "ml-100k")
    assert ran.code == 2
    assert "SHA-256" in ran.err
    assert list(Path().iterdir()) == []


def test_only_what_is_known_is_fetched(run: Run) -> None:
    ran = run("data", "fetch", "netflix")
    assert ran.code == 2
    assert "name one of ml-100k, got 'netflix'" in ran.err
