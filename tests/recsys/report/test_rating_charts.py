"""What rating reports ask of charts: words along an axis, and a second axis at the right."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mpc.core.errors import ParameterError
from recsys.report.charts import Series, line_chart
from recsys.report.html import Page, figure
from recsys.report.svg import COLOURS
from tests.support.browser import Browser
from tests.support.pages import check_page

LEFT = [Series("error", [0, 1, 2], [0.92, 0.95, 0.93], error=[0.01, 0.02, 0.01])]
RIGHT = [Series("bytes", [0, 1, 2], [1000.0, 250_000.0, 500_000.0], dashed=True)]


def test_words_stand_at_the_places_of_whole_numbers() -> None:
    svg = line_chart(LEFT, x_label="kind", y_label="error", places=["none", "fixed", "other"])
    assert all(f">{word}<" in svg for word in ("none", "fixed", "other"))
    assert ">0.5<" not in svg


def test_a_second_axis_has_its_label_its_scale_and_a_place_in_the_legend() -> None:
    svg = line_chart(LEFT, x_label="x", y_label="error", right=RIGHT, right_label="of an upload")
    assert ">of an upload<" in svg
    assert ">bytes<" in svg
    assert ">error<" in svg
    alone = line_chart(LEFT, x_label="x", y_label="error")
    assert ">bytes<" not in alone
    assert svg != alone


def test_a_line_at_the_right_may_share_its_partners_colour() -> None:
    alone = line_chart(LEFT, x_label="x", y_label="y", right=RIGHT, right_label="z")
    paired = [replace(RIGHT[0], colour=0)]
    both = line_chart(LEFT, x_label="x", y_label="y", right=paired, right_label="z")
    assert COLOURS[1] in alone
    assert COLOURS[1] not in both
    assert both.count(COLOURS[0]) > alone.count(COLOURS[0])


def test_more_lines_than_colours_are_told_apart_by_their_strokes() -> None:
    many = [Series(f"line {n}", [0, 1], [n, n + 1], marker=None) for n in range(18)]
    svg = line_chart(many, x_label="x", y_label="y")
    strokes = set(
        re.findall(
            r'style="fill: none; (?:stroke-dasharray: ([0-9. ,]+); )?[^"]*stroke: (#\w{6})', svg
        )
    )
    of_lines = {pair for pair in strokes if pair[1] in COLOURS}
    assert len(of_lines) >= 18


def test_a_long_legend_takes_no_room_from_the_axes(chromium: Browser, tmp_path: Path) -> None:
    def axes_height(count: int) -> float:
        many = [Series(f"some model {n}", [0, 1], [n, n + 1]) for n in range(count)]
        path = tmp_path / "page.html"
        svg = line_chart(many, x_label="x", y_label="y")
        path.write_bytes(Page("t").section("s", figure(svg, "c", "a")).render())
        tab = chromium.open(path, width=1280)
        box = "document.querySelector('svg clipPath rect').getAttribute('height')"
        height = float(tab.evaluate(box))
        tab.close()
        return height

    assert axes_height(17) > 0.85 * axes_height(4)


def test_an_axis_from_zero_begins_there() -> None:
    high = [Series("memory", [1, 2], [0.3931, 0.3951])]
    assert ">0.00<" in line_chart(high, x_label="x", y_label="GB", from_zero=True)
    assert ">0.00<" not in line_chart(high, x_label="x", y_label="GB")


def test_lines_at_the_right_are_checked_as_those_at_the_left() -> None:
    wrong = [Series("bytes", [0, 1], [1.0])]
    with pytest.raises(ParameterError, match="2 places and 1 values"):
        line_chart(LEFT, x_label="x", y_label="y", right=wrong, right_label="z")


def test_both_fit_on_a_page(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    words = ["none", "trainable", "fixed"]
    charts = [
        line_chart(LEFT, x_label="kind", y_label="error", places=words),
        line_chart(LEFT, x_label="x", y_label="error", right=RIGHT, right_label="bytes"),
    ]
    page = Page("Charts")
    page.section(
        "Both", *(figure(chart, "a caption", f"chart {n}") for n, chart in enumerate(charts))
    )
    path.write_bytes(page.render())
    check_page(chromium, path)
