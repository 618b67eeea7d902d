"""Maps of points as inline SVG: no background from anywhere, north above, a scale in km."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.data.geo import EARTH_RADIUS_KM, check_points
from recsys.report.html import Html
from recsys.report.svg import COLOURS, INK, WIDTH, drawing, inline, legend_above

Floats = NDArray[np.float64]

RASTER_FROM = 2000
"""Points or edges of a map from which they become a picture inside the drawing."""

_QUIET = "#aab4be"
_EDGE = "#3b6ea5"
_MARGIN = 0.06
_SMALLEST_KM = 0.5
_SCALE_BELOW = 11  # points
_FLATTEST, _TALLEST = 0.62, 1.0  # height of a map by its width


@dataclass(frozen=True)
class Places:
    """Points that stand out on a map. numbered: 1, 2, ... are written into the points."""

    label: str
    lat: Floats
    lon: Floats
    marker: str = "o"
    numbered: bool = False


@dataclass(frozen=True)
class View:
    """A plane around (lat, lon) in degrees, kilometres to the east and north of it.

    The projection is equirectangular with the middle's parallel true: angles and distances are
    right for a city and its surroundings. low, high: (x, y) of the corners.
    """

    lat: float
    lon: float
    low: tuple[float, float]
    high: tuple[float, float]

    @classmethod
    def of(cls, lat: Floats, lon: Floats, *, share: float = 0.99) -> "View":
        """The view of the middle ``share`` of the points by either coordinate, in (0, 1].

        A few far-away points then do not shrink a city to a dot; ``outside`` counts them.
        Raises ParameterError for no points and for what are no coordinates.
        """
        check_points(lat, lon)
        if not lat.size:
            raise ParameterError("a map needs at least one point")
        # Places beside the date line are near each other: the middle is one of directions.
        turn = np.exp(1j * np.radians(lon)).sum()
        middle = float(np.median(lat)), float(np.degrees(np.angle(turn)))
        x, y = _plane(*middle, lat, lon)
        tails = (1 - share) / 2, (1 + share) / 2
        (west, east), (south, north) = np.quantile(x, tails), np.quantile(y, tails)
        width = max(east - west, _SMALLEST_KM) * (1 + 2 * _MARGIN)
        height = max(north - south, _SMALLEST_KM) * (1 + 2 * _MARGIN)
        width, height = max(width, height / _TALLEST), max(height, width * _FLATTEST)
        across, up = (west + east) / 2, (south + north) / 2
        return cls(
            *middle,
            (float(across - width / 2), float(up - height / 2)),
            (float(across + width / 2), float(up + height / 2)),
        )

    @property
    def width(self) -> float:
        """Kilometres from west to east."""
        return self.high[0] - self.low[0]

    @property
    def height(self) -> float:
        """Kilometres from south to north."""
        return self.high[1] - self.low[1]

    def project(self, lat: Floats, lon: Floats) -> tuple[Floats, Floats]:
        """x and y in km, of points inside and outside."""
        return _plane(self.lat, self.lon, lat, lon)

    def outside(self, lat: Floats, lon: Floats) -> int:
        """How many points the map does not show."""
        x, y = self.project(lat, lon)
        inside = (x >= self.low[0]) & (x <= self.high[0]) & (y >= self.low[1]) & (y <= self.high[1])
        return int((~inside).sum())


def point_map(
    lat: Floats,
    lon: Floats,
    *,
    values: Floats | None = None,
    value_label: str = "",
    label: str = "",
    edges: NDArray[np.int32] | None = None,
    highlights: Sequence[Places] = (),
    view: View | None = None,
) -> Html:
    """A map of points (n,), in degrees.

    values: (n,), their colours, by a scale that leaves 1 % out at either end; where points lie on
    each other the largest value is on top.  edges: int (m, 2), pairs of points to connect.
    label: of the points in the legend.  view: default ``View.of(lat, lon)``.
    Raises ParameterError for shapes that do not fit.
    """
    check_points(lat, lon)
    if values is not None and values.shape != lat.shape:
        raise ParameterError(f"{lat.size} points with values of shape {values.shape}")
    view = view or View.of(lat, lon)
    # Inches for colours, legend and scale; what is too much stays free below.
    bars = (0.75 if values is not None else 0) + (0.6 if highlights else 0.35 if label else 0) + 0.3
    with drawing(WIDTH * view.height / view.width + bars) as figure:
        axes = figure.add_subplot()
        _frame(axes, view)
        x, y = view.project(lat, lon)
        if edges is not None and edges.size:
            lines = np.stack([x[edges], y[edges]], axis=-1)  # (m, 2, 2)
            thin = LineCollection(list(lines), colors=_EDGE, linewidths=0.4, alpha=0.35, zorder=1)
            thin.set_rasterized(len(edges) > RASTER_FROM)
            axes.add_collection(thin, autolim=False)
        quiet = _QUIET if edges is None else INK
        _points(figure, axes, (x, y), values, value_label, label, quiet)
        for number, places in enumerate(highlights):
            _highlight(axes, view, places, COLOURS[(number + 1) % len(COLOURS)])
        _scale(axes, view)
        if label or highlights:
            legend_above(figure, axes)
        return inline(figure)


def _plane(lat0: float, lon0: float, lat: Floats, lon: Floats) -> tuple[Floats, Floats]:
    degree = EARTH_RADIUS_KM * np.pi / 180
    east = (lon - lon0 + 180) % 360 - 180
    return east * degree * np.cos(np.radians(lat0)), (lat - lat0) * degree


def _frame(axes: Axes, view: View) -> None:
    axes.set_xlim(view.low[0], view.high[0])
    axes.set_ylim(view.low[1], view.high[1])
    axes.set_aspect("equal", anchor="N")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(_QUIET)


def _points(
    figure: Figure,
    axes: Axes,
    at: tuple[Floats, Floats],
    values: Floats | None,
    value_label: str,
    label: str,
    quiet: str,
) -> None:
    x, y = at
    size = float(np.clip(6000 / max(x.size, 1), 4, 22))
    drawn = x.size > RASTER_FROM
    if label:  # its own entry in the legend, since the points may be too small to be one
        axes.scatter([], [], s=30, color=quiet, linewidths=0, label=label)
    if values is None:
        axes.scatter(x, y, s=size, color=quiet, linewidths=0, rasterized=drawn, zorder=2)
        return
    order = np.argsort(values, kind="stable")
    low, high = np.quantile(values, (0.01, 0.99))
    if low == high:
        low, high = low - 0.5, high + 0.5
    shown = axes.scatter(
        *(x[order], y[order]),
        s=size,
        c=values[order],
        vmin=float(low),
        vmax=float(high),
        cmap="viridis_r",  # the many small values are pale, the few large ones dark
        linewidths=0,
        rasterized=drawn,
        zorder=2,
    )
    bar = figure.colorbar(
        shown, ax=axes, location="bottom", label=value_label, extend="both", aspect=32, pad=0.02
    )
    bar.outline.set_visible(False)


def _highlight(axes: Axes, view: View, places: Places, colour: str) -> None:
    x, y = view.project(places.lat, places.lon)
    if places.numbered:
        _numbered(axes, view, places.label, (x, y), colour)
        return
    axes.scatter(
        *(x, y),
        s=320 if places.marker == "*" else 60,
        color=colour,
        marker=places.marker,
        edgecolors="white",
        linewidths=1.2,
        label=places.label,
        zorder=3,
    )


def _numbered(axes: Axes, view: View, label: str, at: tuple[Floats, Floats], colour: str) -> None:
    """Numbers in discs beside each other, with a line to the place of one that had to move."""
    x, y = at
    away_x, away_y = spread(x, y, 0.054 * view.width)
    for number in range(len(x)):
        if (away_x[number], away_y[number]) != (x[number], y[number]):
            ends = [x[number], away_x[number]], [y[number], away_y[number]]
            axes.plot(*ends, color=colour, linewidth=1, marker="o", markersize=3, zorder=4)
    axes.scatter(
        *(away_x, away_y),
        s=230,
        color=colour,
        edgecolors="white",
        linewidths=1.2,
        label=label,
        zorder=5,
    )
    for number, place in enumerate(zip(away_x, away_y, strict=True), start=1):
        axes.annotate(
            str(number),
            place,
            color="white",
            fontsize=10 if number < 10 else 9,
            fontweight="bold",
            ha="center",
            va="center_baseline",
            zorder=6,
            annotation_clip=True,
        )


def spread(x: Floats, y: Floats, apart: float) -> tuple[Floats, Floats]:
    """Push points (n,) that are less than ``apart`` from each other away from each other.

    Points that are far enough from all others stay. Equal points leave in directions of their own,
    a golden angle from one to the next, so that the outcome has no chance in it.
    """
    place = x + 1j * y
    number = np.arange(place.size)
    turn = np.exp(1j * number * np.pi * (3 - np.sqrt(5)))
    for _ in range(200):
        gap = place[:, np.newaxis] - place
        length = np.abs(gap)
        np.fill_diagonal(length, np.inf)
        if length.min(initial=np.inf) >= 0.999 * apart:
            break
        with np.errstate(invalid="ignore", divide="ignore"):
            away = np.where(length > 1e-6 * apart, gap / length, turn[:, np.newaxis])
        push = np.clip(apart - length, 0, None) / 2
        place = place + (away * push).sum(axis=1)
    return place.real, place.imag


def _scale(axes: Axes, view: View) -> None:
    """A bar of 1, 2 or 5 times a power of ten km, at most a third of the map wide.

    It lies below the map, where no point can be under it.
    """
    room = view.width / 3
    power = 10.0 ** np.floor(np.log10(room))
    length = max(step * power for step in (1, 2, 5) if step * power <= room)
    end = view.low[0] + length
    down = ScaledTranslation(0, -_SCALE_BELOW / 72, axes.figure.dpi_scale_trans)
    axes.plot(
        *([view.low[0], end], [0, 0]),
        color=INK,
        linewidth=2.5,
        transform=axes.get_xaxis_transform() + down,
        solid_capstyle="butt",
        clip_on=False,
    )
    axes.annotate(
        f"{length:,g} km" if length >= 1 else f"{1000 * length:g} m",
        (end, 0),
        (6, -_SCALE_BELOW),
        xycoords=axes.get_xaxis_transform(),
        textcoords="offset points",
        va="center_baseline",
        fontsize=11,
        annotation_clip=False,
    )
