"""``privrec data describe --out``: the page, who may read it, and what the command refuses."""

import re
import stat
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from recsys.data.catalogue import resolve
from recsys.data.checkins import CheckIns
from recsys.data.describe import Survey
from recsys.report.describe_page import TOP_CATEGORIES, UNPROTECTED, describe_page
from tests.support.cli import Run

HOSTILE = '<script>alert("x")</script> & <img src=x onerror=y> $a_b$'
CITY = "synthetic-city:60x40"


def page(data: CheckIns) -> str:
    return describe_page(Survey.of(data)).decode()


def few(users: list[int], pois: list[int], *, lon: list[float]) -> CheckIns:
    return CheckIns(
        name="few",
        users=np.array(users, dtype=np.int32),
        pois=np.array(pois, dtype=np.int32),
        user_ids=tuple(f"user-{user}" for user in range(max(users) + 1)),
        poi_ids=tuple(f"poi-{poi}" for poi in range(len(lon))),
        lat=np.zeros(len(lon)),
        lon=np.array(lon, dtype=np.float64),
        category=np.full(len(lon), -1, dtype=np.int32),
        category_names=(),
        order=None,
        counts=np.ones(len(users), dtype=np.int64),
    )


class Tags(HTMLParser):
    """All tags, attributes and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "  # cells stay apart


def words(text: str) -> str:
    return " ".join(Tags(text).text.split())


# The page


def test_the_page_needs_nothing_from_anywhere() -> None:
    found = Tags(page(resolve(CITY)))
    assert not {"script", "link", "iframe", "object", "img"} & set(found.tags)
    for name, value in found.attributes:
        if name in {"src", "href", "xlink:href", "action", "data"}:
            assert value.startswith("#"), (name, value)
    assert "http://" not in found.text
    assert "url(http" not in page(resolve(CITY))


def test_names_are_text() -> None:
    data = resolve(CITY)
    hostile = replace(data, name=HOSTILE, category_names=(HOSTILE, *data.category_names[1:]))
    found, plain = Tags(page(hostile)), Tags(page(data))
    assert {"script", "img"}.isdisjoint(found.tags)
    assert set(found.tags) == set(plain.tags)
    assert not any(name.startswith("on") for name, _ in found.attributes)
    assert found.text.count(HOSTILE) >= 3  # title, heading, table


def test_equal_data_give_equal_bytes() -> None:
    assert page(resolve(CITY)) == page(resolve(CITY))


def test_the_page_says_that_nothing_protects_it() -> None:
    text = words(page(resolve(CITY)))
    assert UNPROTECTED in text
    assert "raw check-ins without any protection" in UNPROTECTED


def test_the_page_names_no_user_and_no_poi() -> None:
    data = resolve(CITY)
    users = tuple(f"somebody{number}" for number in range(data.n_users))
    pois = tuple(f"somewhere{number}" for number in range(data.n_pois))
    text = page(replace(data, user_ids=users, poi_ids=pois))
    assert "somebody" not in text
    assert "somewhere" not in text


def test_the_page_says_whose_homes_they_are() -> None:
    data = resolve(CITY)
    assert "Homes are those that come with the set." in words(page(data))
    own = words(page(replace(data, user_lat=None, user_lon=None)))
    assert "without the one that is measured" in own
    assert "Users with a single POI are left out: 0." in own
    # Of three users the one with a single POI is not measured.
    told = words(page(few([0, 0, 1, 1, 2], [0, 1, 1, 2, 0], lon=[0, 1, 2])))
    assert "4 visits of 2 users are measured. Users with a single POI are left out: 1." in told


def test_the_tables_hold_the_numbers() -> None:
    data = resolve(CITY)
    survey = Survey.of(data)
    text = words(describe_page(survey).decode())
    far = survey.facts()["distances"]
    assert f"Half of all visits are within {far['visited_km']['median']:.2f} km of home" in text
    assert f"would pick are within {far['random_km']['median']:.2f} km." in text
    for band in far["bands"]:
        assert f"{100 * band['visited']:.3g} % {100 * band['random']:.3g} %" in text
    kept = survey.facts()["pois_with_10_visitors"]
    assert f"{kept} ({100 * kept / 40:.3g} %) POIs have 10 visitors or more" in text


def test_categories_beyond_the_first_fifteen_are_added_up() -> None:
    """POI c has category c and is visited by c + 1 users; the last has no category."""
    last = 20
    pairs = [(user, poi) for poi in range(last) for user in range(poi + 1)]
    pairs += [(user, last) for user in range(7)]
    data = few(*map(list, zip(*pairs, strict=True)), lon=[0.01 * poi for poi in range(last + 1)])
    names = tuple(f"kind {number}" for number in range(last))
    category = np.append(np.arange(last), -1).astype(np.int32)
    text = words(page(replace(data, category=category, category_names=names)))
    assert "Visits by category: the 15 most visited of 20." in text
    total = sum(range(1, last + 1)) + 7
    assert f"kind 19 1 20 {2000 / total:.3g} % 20" in text
    assert f"5 others 5 15 {1500 / total:.3g} % 15" in text
    assert f"without a category 1 7 {700 / total:.3g} % 7" in text
    assert f"category: 7 ({700 / total:.3g} %)" in text
    assert "kind 5 " in text
    assert "kind 4 " not in text
    assert TOP_CATEGORIES == 15


def test_a_set_without_categories_has_no_such_section() -> None:
    text = page(few([0, 0], [0, 1], lon=[0, 1]))
    assert "<h2" in text
    assert not re.search(r"<h2[^>]*>Categories", text)


@pytest.mark.parametrize(
    "data",
    [
        few([0], [0], lon=[0]),
        few([0, 1], [0, 1], lon=[0, 1]),
        few([0, 0], [0, 1], lon=[0, 0]),
        few([0, 0, 1, 1], [0, 1, 0, 1], lon=[0, 179]),
        few([0] * 40, list(range(40)), lon=[0.5 * poi for poi in range(40)]),
    ],
    ids=["one visit", "no user with two", "one place", "the globe", "one user"],
)
def test_small_sets_have_a_page_too(data: CheckIns) -> None:
    text = words(page(data))
    assert "How it was measured" in text
    assert "nan" not in text


def test_an_empty_set_has_a_page_too() -> None:
    nothing = np.empty(0, dtype=np.int32)
    data = replace(
        few([0], [0], lon=[0]), users=nothing, pois=nothing, counts=nothing.astype(np.int64)
    )
    assert words(page(data)).count("There are no visits.") == 2


def test_no_visits_are_not_told_as_homes_that_are_unknown() -> None:
    data, nothing = resolve(CITY), np.empty(0, dtype=np.int32)
    text = words(
        page(
            replace(data, users=nothing, pois=nothing, counts=nothing.astype(np.int64), order=None)
        )
    )
    assert "no home can be told" not in text
    assert "There are no visits." in text


def probabilities(data: CheckIns) -> list[str]:
    """The labels of the first chart's vertical axis, which SVG writes after the horizontal one."""
    drawing = page(data).split("<svg", 2)[1]
    labels = re.findall(r"<text[^>]*>([^<]*)</text>", drawing)
    return labels[labels.index("km from home, up to") + 1 : labels.index("probability of a visit")]


def test_probabilities_that_are_nearly_alike_have_numbers_at_their_axis() -> None:
    data = resolve(CITY)
    bands = Survey.of(data).facts()["distances"]["bands"]
    known = [band["probability"] for band in bands if band["probability"]]
    assert max(known) < 1.2 * min(known)  # no round number of a logarithmic axis is between them
    assert len(probabilities(data)) >= 2
    assert len(probabilities(resolve("synthetic-city"))) >= 2


def test_bands_that_the_chart_leaves_out_are_said() -> None:
    left_out = "Bands without a visit, or with too few random POIs, have no point."
    for name, said in ((CITY, True), ("synthetic-city", False)):
        survey = Survey.of(resolve(name))
        assert said is any(not b["probability"] for b in survey.facts()["distances"]["bands"])
        assert (left_out in words(describe_page(survey).decode())) is said


def test_a_long_category_is_cut_in_the_chart_and_whole_in_the_table() -> None:
    data = resolve(CITY)
    name = "Residential Building and Apartment or Condominium with a Garden"
    told = page(replace(data, category_names=(name, *data.category_names[1:])))
    assert told.count(name) == 1
    assert "Residential Building and" in told
    assert "Apartment or Condominiu\N{HORIZONTAL ELLIPSIS}" in told
    endless = page(replace(data, category_names=("x" * 200, *data.category_names[1:])))
    assert f"{'x' * 23}\N{HORIZONTAL ELLIPSIS}" in endless


def test_a_number_and_its_unit_stay_on_one_line() -> None:
    assert not re.search(r"\d\.\d+ (km|%)", Tags(page(resolve(CITY))).text)


def test_a_place_without_distance_is_drawn_at_ten_metres() -> None:
    many = few([0] * 3 + [1] * 3, [0, 1, 2] * 2, lon=[0, 0, 0])
    assert "Less than 10 m is drawn as 10 m." in words(page(many))


# The command


def test_describe_out_writes_a_page_that_its_owner_alone_may_read(run: Run) -> None:
    result = run("data", "describe", CITY, "--out", "city/page")
    assert result.code == 0
    path = Path("city/page/describe.html")
    assert result.out.splitlines()[-1].split() == ["report", str(path)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == describe_page(Survey.of(resolve(CITY)))
    assert [entry.name for entry in path.parent.iterdir()] == ["describe.html"]


def test_json_with_out_names_the_folder(run: Run) -> None:
    row = run("data", "describe", CITY, "--out", "page", "--json").row
    assert row["out"] == "page"
    without = run("data", "describe", CITY, "--json").row
    assert {**without, "out": "page"} == row


def test_json_carries_both_laws_of_distance(run: Run) -> None:
    far = run("data", "describe", CITY, "--json").row["distances"]
    for law in ("visited", "random", "popular"):
        quantiles = list(far[f"{law}_km"].values())
        assert quantiles == sorted(quantiles)
        assert list(far[f"{law}_within_km"]) == ["1", "5", "10", "50"]
    assert {"from_km", "to_km", "visited", "random", "probability"} == set(far["bands"][0])


def test_without_out_the_table_has_the_telling_numbers_and_a_hint(run: Run) -> None:
    result = run("data", "describe", CITY)
    told = run("data", "describe", CITY, "--json").row
    shown = {line.rsplit("  ", 1)[0].strip(): line.split()[-1] for line in result.out.splitlines()}
    far = told["distances"]
    assert shown["median km from home"] == f"{far['visited_km']['median']:.4g}"
    assert shown["median km to random pois"] == f"{far['random_km']['median']:.4g}"
    assert shown["visits within 10 km"] == f"{far['visited_within_km']['10']:.4g}"
    assert shown["random pois within 10 km"] == f"{far['random_within_km']['10']:.4g}"
    share = told["share_of_top_1_percent_pois"]
    assert shown["share of top 1 percent pois"] == f"{share:.4g}"
    assert "--out DIR draws" in result.err
    assert run("data", "describe", CITY, "--quiet").err == ""
    assert "--out" not in run("data", "describe", CITY, "--out", "page").err


def test_a_folder_in_use_needs_force(run: Run) -> None:
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("mine")
    result = run("data", "describe", CITY, "--out", "mine")
    assert result.code == 2
    assert "mine is not empty" in result.err
    assert "--force" in result.err
    assert [entry.name for entry in Path("mine").iterdir()] == ["thesis.txt"]
    assert run("data", "describe", CITY, "--out", "mine", "--force").code == 0
    first = Path("mine/describe.html").read_bytes()
    assert run("data", "describe", CITY, "--out", "mine").code == 2
    assert run("data", "describe", "synthetic-city:50x40", "--out", "mine", "--force").code == 0
    assert Path("mine/describe.html").read_bytes() != first
    assert Path("mine/thesis.txt").read_text() == "mine"


def test_force_narrows_who_may_read_an_older_page(run: Run) -> None:
    Path("page").mkdir()
    Path("page/describe.html").write_text("old")
    Path("page/describe.html").chmod(0o644)
    assert run("data", "describe", CITY, "--out", "page", "--force").code == 0
    assert stat.S_IMODE(Path("page/describe.html").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([CITY, "--out", "file.txt"], "file.txt is a file"),
        ([CITY, "--out", "file.txt/page"], "file.txt/page: Not a directory"),
        ([CITY, "--force"], "--force has no meaning without --out"),
        (["nowhere", "--out", "page"], "there is no data set 'nowhere'"),
        ([CITY, "--out"], "requires an argument"),
    ],
)
def test_a_mistake_exits_2_and_leaves_nothing(
    run: Run, arguments: list[str], sentence: str
) -> None:
    Path("file.txt").write_text("mine")
    result = run("data", "describe", *arguments)
    assert result.code == 2
    assert sentence in result.err.splitlines()[0]
    assert result.out == ""
    assert [entry.name for entry in Path().iterdir()] == ["file.txt"]
