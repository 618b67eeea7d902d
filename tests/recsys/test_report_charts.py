"""Charts and maps: equal data give equal drawings, and what is drawn is what was given."""

import re
from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.data.geo import haversine
from recsys.report.charts import Series, bar_chart, line_chart
from recsys.report.html import Page, figure
from recsys.report.maps import RASTER_FROM, Places, View, point_map, spread
from recsys.report.svg import COLOURS
from tests.support.pages import source_faults

X = [1.0, 2.0, 4.0]
SERIES = Series("one", X, [0.5, None, 0.7], error=[0.1, None, 0.2], hollow=[2])


def lines(*series: Series, **options: Any) -> str:
    return line_chart(series or [SERIES], x_label="epoch", y_label="AUC", **options)


def town(points: int = 50, *, lat: float = 35.0, lon: float = 139.0) -> tuple[Any, Any]:
    """Points of a grid that is about 10 km wide."""
    number = np.arange(points)
    return lat + 0.01 * (number % 10), lon + 0.01 * (number // 10)


def drawings() -> dict[str, str]:
    lat, lon = town()
    edges = np.array([[0, 1], [1, 2]], dtype=np.int32)
    home = Places("home", lat[:1], lon[:1], "*")
    best = Places("best", lat[:3], lon[:3], numbered=True)
    return {
        "lines": lines(),
        "logarithmic": lines(log_x=True, log_y=True, vertical=(2.0, "here")),
        "bars": bar_chart(["a", "b"], [1.0, 2.0], x_label="seconds", errors=[0.1, 0.2]),
        "map": point_map(lat, lon, label="POIs", highlights=[home, best]),
        "network": point_map(lat, lon, edges=edges, label="homes"),
        "values": point_map(lat, lon, values=lat, value_label="visitors"),
    }


DRAWINGS = drawings()


def test_equal_data_give_equal_bytes() -> None:
    assert drawings() == DRAWINGS


def test_a_drawing_shows_alike_whatever_the_users_matplotlib_is_set_to() -> None:
    settings: Any = {"font.size": 30, "axes.facecolor": "black", "svg.fonttype": "path"}
    with matplotlib.rc_context(settings):
        before = dict(matplotlib.rcParams)
        assert drawings() == DRAWINGS
        assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_depends_on_nothing_outside_of_its_page(name: str) -> None:
    page = Page("t").section("s", figure(DRAWINGS[name], "c", "a")).render()
    assert source_faults(page) == []
    assert b"http" not in page.split(b"</head>")[1]


def test_figures_of_one_page_share_no_id_and_refer_to_their_own() -> None:
    seen: set[str] = set()
    for name, drawing in DRAWINGS.items():
        ids = re.findall(r' id="([^"]*)"', drawing)
        used = set(re.findall(r'(?:href="|url\()#([^")]+)', drawing))
        assert len(ids) == len(set(ids)), name
        assert set(ids) == used, name
        assert not seen & set(ids), name
        seen |= set(ids)


def test_labels_stay_text_and_are_no_markup() -> None:
    drawing = lines(Series('<b> & id="x" $a_b$', X, X), Series("\u6771\u4eac", X, X))
    assert '&lt;b&gt; &amp; id="x" $a_b$</text>' in drawing
    assert "\u6771\u4eac</text>" in drawing


def test_a_single_line_needs_no_legend() -> None:
    assert "one</text>" not in lines()
    assert "one</text>" in lines(vertical=(2.0, "here"))


@pytest.mark.parametrize("epochs", [1, 2, 3, 40])
def test_an_axis_of_epochs_has_no_fractions(epochs: int) -> None:
    drawing = lines(Series("a", list(range(1, epochs + 1)), [float("nan")] * epochs))
    ticks = re.findall(r">([\d.]+)</text>", drawing.split(">epoch</text>")[0])
    assert ticks
    assert all(tick.isdecimal() for tick in ticks), ticks


def test_hollow_points_are_filled_with_white() -> None:
    assert lines().count("fill: #ffffff; stroke: #0072b2") == 1
    solid = Series("one", X, [0.5, None, 0.7])
    assert "fill: #ffffff; stroke: #0072b2" not in lines(solid)


def test_a_line_with_a_gap_is_not_drawn_across_it() -> None:
    bridged = lines(Series("one", [1.0, 4.0], [0.5, 0.7], marker=None))
    gapped = lines(Series("one", X, [0.5, None, 0.7], marker=None))
    stroke = f"stroke: {COLOURS[0]}; stroke-width: 1.8"
    assert [drawing.count(stroke) for drawing in (bridged, gapped)] == [1, 1]
    path = re.search(rf'<path d="([^"]*)"[^>]*{stroke}', gapped)
    assert path is None or "L" not in path[1]


def test_logarithmic_axes_show_the_values_themselves_as_plain_numbers() -> None:
    drawing = lines(Series("a", [0.1, 1, 10, 10000], [1, 2, 3, 4]), log_x=True)
    for label in ("0.1", "1", "10", "10,000"):
        assert f">{label}</text>" in drawing
    close = lines(Series("a", [1000, 1001, 2000], [1, 2, 3]), log_x=True)
    assert ">1,000</text>" in close
    assert ">1,001</text>" not in close  # it would lie on its neighbour


def test_bars_are_labelled_by_their_values() -> None:
    drawing = bar_chart(["a", "b"], [1234.5, 0.0], x_label="s", shown="{:.1f} s".format)
    assert ">1234.5 s</text>" in drawing
    assert ">0.0 s</text>" in drawing


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        pytest.param(lambda: line_chart([], x_label="", y_label=""), "at least one", id="none"),
        pytest.param(lambda: lines(Series("a", X, X[:2])), "3 places and 2 values", id="lengths"),
        pytest.param(
            lambda: lines(Series("a", [0, 1], [1, 1]), log_x=True), "above 0", id="log of 0"
        ),
        pytest.param(lambda: bar_chart([], [], x_label=""), "0 bars need", id="no bars"),
        pytest.param(lambda: bar_chart(["a"], [np.nan], x_label=""), "finite", id="nan bar"),
        pytest.param(lambda: View.of(np.zeros(0), np.zeros(0)), "at least one point", id="no map"),
        pytest.param(
            lambda: point_map(*town(5), values=np.zeros(4)), "5 points with values", id="values"
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        draw()


# Maps


def test_a_few_far_points_do_not_shrink_a_city() -> None:
    lat, lon = town(1000)
    far = np.append(lat, [80.0, -70.0]), np.append(lon, [0.0, 20.0])
    near, whole = View.of(lat, lon), View.of(*far)
    assert whole.width < 1.3 * near.width
    assert whole.outside(*far) == 2 + whole.outside(lat, lon)
    everything = View.of(*far, share=1.0)
    assert everything.outside(*far) == 0
    assert everything.height > 10_000


def test_the_plane_keeps_distances_of_a_city() -> None:
    lat, lon = town(lat=60.0)
    view = View.of(lat, lon, share=1.0)
    x, y = view.project(lat, lon)
    flat = np.hypot(x - x[0], y - y[0])
    np.testing.assert_allclose(flat, haversine(lat[0], lon[0], lat, lon), rtol=2e-3)


def test_a_city_on_the_date_line_is_one_city() -> None:
    lat = np.array([0.0, 0.1, 0.0, 0.1])
    view = View.of(lat, np.array([179.9, 179.95, -179.95, -179.9]), share=1.0)
    assert view.width < 30


def test_one_point_and_points_of_one_place_have_a_map() -> None:
    view = View.of(np.full(3, 5.0), np.full(3, 5.0))
    assert view.width >= view.height > 0.3
    assert view.outside(np.full(3, 5.0), np.full(3, 5.0)) == 0


def test_the_scale_lies_below_every_point() -> None:
    lat, lon = town(100)
    view = View.of(lat, lon)
    x, y = view.project(lat, lon)
    tight = replace(view, low=(x.min(), y.min()), high=(x.max(), y.max()))
    marks = [Places("best", lat[:9], lon[:9], numbered=True)]
    choices: list[dict[str, Any]] = [{}, {"label": "POIs", "highlights": marks}]
    for options in choices:
        drawing = point_map(lat, lon, view=tight, **options)
        points = [float(place) for place in re.findall(r'<use [^>]*y="([\d.]+)"', drawing)]
        scale = re.search(r'<text [^>]*y="([\d.]+)"[^>]*>2 km</text>', drawing)
        assert len(points) >= 100
        assert scale
        assert float(scale[1]) - 9 > max(points)  # where its letters begin


@pytest.mark.parametrize(
    ("degrees", "label"), [(1e-3, "100 m"), (1e-2, "500 m"), (1.0, "50 km"), (30.0, "2,000 km")]
)
def test_the_scale_is_a_round_number_below_a_third_of_the_map(degrees: float, label: str) -> None:
    lat = np.array([0.0, 0.0, 0.0])
    lon = np.array([-degrees, 0.0, degrees])
    assert f">{label}</text>" in point_map(lat, lon)


def test_many_points_become_one_picture() -> None:
    few = point_map(*town(RASTER_FROM))
    many = point_map(*town(RASTER_FROM + 1))
    assert "<image" not in few
    assert many.count("<image") == 1
    assert len(many) < len(few)


def test_every_edge_is_drawn() -> None:
    lat, lon = town(10)
    edges = np.array([[0, 1], [1, 2], [5, 9]], dtype=np.int32)
    without, with_edges = point_map(lat, lon), point_map(lat, lon, edges=edges)
    stroke = "stroke: #3b6ea5"
    assert stroke not in without
    assert with_edges.count(stroke) == 3


def test_numbers_that_would_lie_on_each_other_move_apart_and_others_stay() -> None:
    x, y = np.array([0.0, 0.0, 0.2, 9.0]), np.array([0.0, 0.0, 0.0, 9.0])
    away_x, away_y = spread(x, y, 1.0)
    gaps = np.hypot(away_x[:, None] - away_x, away_y[:, None] - away_y)
    assert gaps[~np.eye(4, dtype=bool)].min() >= 0.99
    assert (away_x[3], away_y[3]) == (9.0, 9.0)
    assert np.hypot(away_x - x, away_y - y).max() < 1.5
