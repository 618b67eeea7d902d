"""Charts as inline SVG in one quiet style: lines and bars."""

import itertools
import math
import textwrap
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.report.html import Html
from recsys.report.svg import COLOURS, INK, SOFT, drawing, inline, legend_above, legend_columns

Floats = NDArray[np.float64]

_MARKERS = "osD^vP"
_STROKES = ("-", "--", ":", "-.")
_FEW_TICKS = 9
_LEGEND_ROWS, _LEGEND_ROW = 3, 0.23
"""Rows of a legend that the usual height has room for, and inches of any other."""
_LETTERS, _LINES = 44, 11
"""Room for labels: letters along the horizontal axis, lines along the vertical one."""


@dataclass(frozen=True)
class Series:
    """One line of a chart: x and y of the same length, y NaN or None where there is no value.

    error: half the height of an error bar.  hollow: positions of points that are drawn hollow.
    line: whether points are connected.  marker: None for none, "auto" for one of the chart's own.
    colour: that of the series with this number, None for one of its own.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    error: Sequence[float | None] | None = None
    hollow: Collection[int] = ()
    dashed: bool = False
    line: bool = True
    marker: str | None = "auto"
    colour: int | None = None


def line_chart(
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    vertical: tuple[float, str] | None = None,
    places: Sequence[str] = (),
    right: Sequence[Series] = (),
    right_label: str = "",
    from_zero: bool = False,
    height: float = 3.8,
) -> Html:
    """Lines over a common axis, with a legend above them where there is more than one thing.

    vertical: a dotted line at x with its label.  places: words for x = 0, 1, 2 and so on.
    right: lines with a scale of their own, on an axis at the right, labelled ``right_label``.
    from_zero: the vertical axis begins there, so that heights can be compared.
    Raises ParameterError for no series, other lengths, and numbers that a log axis cannot show.
    """
    if not series:
        raise ParameterError("a line chart needs at least one series")
    named = [one.label for one in (*series, *right)] + ([vertical[1]] if vertical else [])
    rows = math.ceil(len(named) / legend_columns(named))
    # A long legend takes its room from the page, not from the axes.
    with drawing(height + _LEGEND_ROW * max(0, rows - _LEGEND_ROWS)) as figure:
        axes = figure.add_subplot()
        for number, one in enumerate(series):
            _draw(axes, one, number, log_x=log_x, log_y=log_y)
        if vertical is not None:
            axes.axvline(vertical[0], color=SOFT, linestyle=":", label=vertical[1], zorder=1)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        values = np.unique(np.concatenate([np.asarray(one.x, dtype=float) for one in series]))
        if places:
            axes.set_xticks(range(len(places)), list(places))
            axes.set_xlim(-0.25, len(places) - 0.75)
        elif log_x:
            axes.set_xscale("log")
            _log_ticks(axes.xaxis, values, across=True)
        elif bool((values == np.round(values)).all()):
            axes.xaxis.set_major_locator(MaxNLocator(7, integer=True, min_n_ticks=1))
        if log_y:
            axes.set_yscale("log")
            _log_ticks(axes.yaxis, None, across=False)
        if from_zero:
            axes.set_ylim(0, 1.08 * axes.dataLim.y1)
        if right:
            _draw_right(axes, right, len(series), right_label)
        if len(series) > 1 or vertical is not None or right:
            legend_above(figure, axes)
        return inline(figure)


def _draw_right(axes: Axes, series: Sequence[Series], before: int, label: str) -> None:
    """Lines on an axis at the right; their names go to the legend of the axis at the left."""
    other = axes.twinx()
    for number, one in enumerate(series, start=before):
        _draw(other, one, number, log_x=False, log_y=False)
        (drawn,) = (line for line in other.get_lines() if line.get_label() == one.label)
        axes.plot(
            [],
            [],
            color=drawn.get_color(),
            linestyle=drawn.get_linestyle(),
            marker=drawn.get_marker(),
            label=one.label,
        )
    other.set_ylabel(label)
    other.spines["right"].set_visible(True)
    other.grid(visible=False)
    other.set_ylim(bottom=0)


def bar_chart(
    labels: Sequence[str],
    values: Sequence[float],
    *,
    x_label: str,
    errors: Sequence[float] | None = None,
    shown: Callable[[float], str] = "{:,.4g}".format,
) -> Html:
    """Horizontal bars from zero, the first on top. shown: how a value is written at its bar.

    Raises ParameterError for no bar, other lengths and values that are not finite.
    """
    numbers = np.asarray(values, dtype=float)
    if not len(labels) or numbers.shape != (len(labels),) or not np.isfinite(numbers).all():
        raise ParameterError(f"{len(labels)} bars need as many finite values, got {values!r}")
    wrapped = [textwrap.fill(label, 24) or " " for label in labels]
    lines = sum(max(1.0, 0.62 * (1 + label.count("\n"))) for label in wrapped)
    with drawing(0.85 + 0.38 * lines) as figure:
        axes = figure.add_subplot()
        places = np.arange(len(labels))
        axes.barh(places, numbers, xerr=errors, height=0.62, color=COLOURS[0], ecolor=INK)
        axes.set_yticks(places, wrapped)
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.axvline(0, color=SOFT, linewidth=0.8)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
        axes.tick_params(axis="x", length=0, labelbottom=False)  # each bar says its value
        axes.set_xlabel(x_label)
        ends = numbers + (0 if errors is None else np.asarray(errors, dtype=float))
        for place, end, number in zip(places, np.maximum(ends, 0), numbers, strict=True):
            axes.annotate(
                shown(float(number)),
                (end, place),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=11.5,
            )
        low, high = min(0.0, float(numbers.min())), max(0.0, float(ends.max()))
        room = max(len(shown(float(number))) for number in numbers) / 40
        axes.set_xlim(low, (high + (high - low) * room) or 1.0)
        return inline(figure)


def _draw(axes: Axes, one: Series, number: int, *, log_x: bool, log_y: bool) -> None:
    x, y = np.asarray(one.x, dtype=float), np.asarray(one.y, dtype=float)
    if x.shape != y.shape or x.ndim != 1:
        raise ParameterError(f"{one.label}: {x.size} places and {y.size} values")
    if (log_x and bool((x <= 0).any())) or (log_y and bool((y <= 0).any())):
        raise ParameterError(f"{one.label}: a logarithmic axis shows numbers above 0 only")
    number = number if one.colour is None else one.colour
    colour = COLOURS[number % len(COLOURS)]
    marker = _MARKERS[number % len(_MARKERS)] if one.marker == "auto" else one.marker
    # More lines than colours are told apart by their strokes.
    stroke = "--" if one.dashed else _STROKES[number // len(COLOURS) % len(_STROKES)]
    known = np.isfinite(y)
    axes.plot(
        x,
        y,
        color=colour,
        label=one.label,
        linestyle=stroke if one.line else "none",
        # Markers of a long line would hide it.
        marker=marker if marker is not None and known.sum() <= 25 else None,
        zorder=2,
    )
    if one.error is not None:
        error = np.nan_to_num(np.asarray(one.error, dtype=float))
        axes.errorbar(x, y, error, fmt="none", ecolor=colour, elinewidth=1.2, capsize=3)
    hollow = [index for index in one.hollow if known[index]]
    if hollow:
        axes.plot(
            x[hollow],
            y[hollow],
            linestyle="none",
            marker=marker or "o",
            markerfacecolor="white",
            markeredgecolor=colour,
            markeredgewidth=1.6,
            zorder=3,
        )


def _log_ticks(axis: Axis, values: Floats | None, *, across: bool) -> None:
    """Plain numbers, at the values themselves where those are few, as many as have room."""
    low, high = np.log10(axis.get_view_interval())
    if values is not None and values.size <= _FEW_TICKS:
        ticks = [float(values[0])]
        for value in values[1:]:
            if _have_room([ticks[-1], float(value)], high - low, across=across):
                ticks.append(float(value))
    else:
        powers = range(math.floor(low), math.ceil(high) + 1)
        steps = (range(1, 10), (1, 2, 5))
        grids = [[step * 10.0**power for power in powers for step in kind] for kind in steps]
        grids += [[10.0**power for power in powers[::every]] for every in range(1, len(powers))]
        seen = [[tick for tick in grid if low <= math.log10(tick) <= high] for grid in grids]
        fitting = [grid for grid in seen if _have_room(grid, high - low, across=across)]
        ticks = fitting[0] if fitting else seen[-1]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))


def _have_room(ticks: Sequence[float], decades: float, *, across: bool) -> bool:
    """Whether neighbouring labels of an axis over ``decades`` keep apart."""
    for one, other in itertools.pairwise(ticks):
        gap = math.log10(other / one) / decades
        letters = (len(_plain(one)) + len(_plain(other))) / 2 + 1.5
        if gap < (letters / _LETTERS if across else 1 / _LINES):
            return False
    return True


def _plain(value: float) -> str:
    return f"{value:,.6g}"
