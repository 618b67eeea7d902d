"""Charts of an audit: two laws side by side, the bound by reports, and what part of each claim."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray

from ldp.audit import Audit, Finding
from recsys.report.audit_text import part
from recsys.report.html import Html
from recsys.report.svg import COLOURS, INK, drawing, inline, legend_above

_EVENT = "#f0dfa8"  # behind the bars, light enough for both of their colours
_LETTERS = 40  # of all labels below a chart together
_MOST_BARS = 40
_STEPS = 60
_CENTRAL = 0.995
_RARE = 0.01
_PLAIN = FuncFormatter(lambda value, _: f"{value:,.6g}")

Counts = NDArray[np.int64]


def law_chart(finding: Finding) -> Html:
    """The laws of the event's number for both inputs; the event is shaded."""
    counts = np.stack([finding.counts, finding.other_counts])
    codes = np.flatnonzero(counts.any(axis=0))
    single = all(finding.event.bins.value(int(code)) is not None for code in codes)
    with drawing(3.8) as figure:
        axes = figure.add_subplot()
        if single and codes.size <= _MOST_BARS:
            _bars(axes, finding, codes, counts[:, codes])
        else:
            _densities(axes, finding, counts)
        axes.set_xlabel(finding.event.statistic.name)
        if finding.count < _RARE * finding.n:
            axes.set_yscale("log")  # a linear axis would hide the event
        legend_above(figure, axes)
        return inline(figure)


def bound_chart(audit: Audit) -> Html:
    """The bound of the best event by the number of reports, and the claim."""
    history = audit.worst.history
    sizes = [prefix.n for prefix in history]
    with drawing(3.8) as figure:
        axes = figure.add_subplot()
        bounds = [max(0.0, prefix.bound) for prefix in history]
        axes.plot(sizes, bounds, color=COLOURS[0], marker="o", label="lower bound")
        axes.axhline(audit.epsilon, color=COLOURS[1], linestyle="--", label="claim")
        axes.set_ylim(0, 1.08 * max(audit.epsilon, *bounds))
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(sizes[::-2]))  # the last one always
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(_PLAIN)
        axes.set_xlabel("reports of each input")
        axes.set_ylabel("epsilon")
        legend_above(figure, axes)
        return inline(figure)


def share_chart(audits: Sequence[Audit]) -> Html:
    """What part of its claim each mechanism was shown to lose; a line marks the whole claim."""
    shares = np.array([100 * part(audit) for audit in audits])
    places = np.arange(len(audits))
    with drawing(0.9 + 0.38 * len(audits)) as figure:
        axes = figure.add_subplot()
        colours = [COLOURS[int(audit.exceeds)] for audit in audits]
        axes.barh(places, shares, height=0.62, color=colours)
        axes.axvline(100, color=INK, linestyle="--", label="the claim", linewidth=1.2)
        axes.set_yticks(places, [audit.name for audit in audits])
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("lower bound in % of the claim")
        room = max(100.0, float(shares.max()))
        axes.set_xlim(0, 1.25 * room)
        for place, number in zip(places, shares, strict=True):
            inside = number > 0.3 * room
            axes.annotate(
                f"{number:.1f}",
                (number, place),
                (-4 if inside else 4, 0),
                textcoords="offset points",
                va="center",
                ha="right" if inside else "left",
                color="white" if inside else INK,
                fontsize=11.5,
            )
        legend_above(figure, axes)
        return inline(figure)


def _bars(axes: Axes, finding: Finding, codes: NDArray[np.intp], counts: Counts) -> None:
    """Two bars for each value that occurred."""
    places = np.arange(codes.size)
    marked = np.isin(codes, finding.event.codes)
    _shade(axes, [(place - 0.5, place + 0.5) for place in places[marked]])
    for row, (name, colour) in enumerate(_names(finding)):
        at = places + 0.19 * (2 * row - 1)
        axes.bar(at, counts[row] / finding.n, width=0.36, color=colour, label=name)
    labels = [finding.event.label(int(code)) for code in codes]
    every = max(1, -(-sum(len(label) + 2 for label in labels) // _LETTERS))
    axes.set_xticks(places[::every], labels[::every])
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-0.6, codes.size - 0.4)
    axes.set_ylabel("share of reports")


def _densities(axes: Axes, finding: Finding, counts: Counts) -> None:
    """Two step lines over the intervals that the reports were counted in."""
    ends = finding.event.bins.edges
    # An integer is drawn in the middle of its step.
    places = ends.astype(np.float64) - (0.5 if ends.dtype.kind in "iu" else 0.0)
    edges, masses = _merged(places, counts)
    _shade(axes, _intervals(finding.event.codes, places, edges))
    for row, (name, colour) in enumerate(_names(finding)):
        density = masses[row] / np.diff(edges) / finding.n
        shown = np.where(density > 0, density, np.nan)
        axes.stairs(shown, edges, color=colour, label=name, linewidth=1.8, baseline=None)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=ends.dtype.kind in "iu"))
    axes.xaxis.set_major_formatter(_PLAIN)
    axes.set_ylabel("density of reports")


def _merged(edges: NDArray[np.float64], counts: Counts) -> tuple[NDArray[np.float64], Counts]:
    """Neighbouring intervals joined until each is wide enough to be seen; the far tails are cut."""
    inner = counts[:, 1 : edges.size]
    finite = np.isfinite(edges[:-1]) & np.isfinite(edges[1:])
    cumulative = np.cumsum(inner.sum(axis=0) * finite)
    total = cumulative[-1]
    low = int(np.searchsorted(cumulative, (1 - _CENTRAL) * total))
    high = int(np.searchsorted(cumulative, _CENTRAL * total))
    least = (edges[high + 1] - edges[low]) / _STEPS
    kept, masses, start = [edges[low]], [], low
    for place in range(low, high + 1):
        if edges[place + 1] - edges[start] >= least or place == high:
            kept.append(edges[place + 1])
            masses.append(inner[:, start : place + 1].sum(axis=1))
            start = place + 1
    return np.array(kept), np.stack(masses, axis=1)


def _intervals(
    codes: Sequence[int], places: NDArray[np.float64], shown: NDArray[np.float64]
) -> list[tuple[float, float]]:
    """Where an event of ``codes`` holds, within what is shown."""
    ends = np.concatenate([[-np.inf], places, [np.inf]])
    found = []
    for code in codes:
        if code < ends.size - 1:  # NaN lies nowhere
            start, end = max(ends[code], shown[0]), min(ends[code + 1], shown[-1])
            if start < end:
                found.append((float(start), float(end)))
    return found


def _shade(axes: Axes, intervals: list[tuple[float, float]]) -> None:
    joined: list[tuple[float, float]] = []
    for start, end in intervals:
        touches = bool(joined) and joined[-1][1] == start
        joined.append((joined.pop()[0] if touches else start, end))
    for number, (start, end) in enumerate(joined):
        label = "the event" if not number else None
        axes.axvspan(start, end, color=_EVENT, label=label, linewidth=0, zorder=0)


def _names(finding: Finding) -> list[tuple[str, str]]:
    return [(f"input {finding.input}", COLOURS[0]), (f"input {finding.other}", COLOURS[1])]
