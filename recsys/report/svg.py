"""A matplotlib figure as inline SVG: markup that belongs to a page and depends on nothing else."""

import hashlib
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from recsys.report.html import Html

INK, SOFT, LINE = "#1b2530", "#4d5965", "#d5dbe1"
COLOURS = ("#0072b2", "#d55e00", "#00805c", "#8b4fa0", "#8a6400", "#4d5965")
"""Told apart with any colour vision, and dark enough on white for lines (3 to 1 or better)."""

WIDTH = 5.6
"""Inches. A narrow screen shows a chart at 370 pixels, where 12 points become 11 pixels."""

_RASTER_DPI = 200
_LEGEND_LETTERS = 56  # beside each other, a key counting as seven
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, searchable, read aloud
    "svg.hashsalt": "privrec",  # else ids are drawn anew each time
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
    "font.size": 12,
    "axes.labelsize": 12,
    "xtick.labelsize": 11.5,
    "ytick.labelsize": 11.5,
    "legend.fontsize": 11.5,
    "legend.frameon": False,
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a name is no formula
    "text.usetex": False,
    "axes.labelcolor": INK,
    "axes.edgecolor": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "xtick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.color": SOFT,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
}


@contextmanager
def drawing(height: float) -> Iterator[Figure]:
    """A figure ``WIDTH`` wide and ``height`` inches high, in the style that all charts share.

    It knows no window system; ``inline`` must be called inside the block.
    """
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # whatever a user's matplotlibrc says
        matplotlib.rcParams.update(_SETTINGS)
        # The reader's browser brings the letters that the measuring font lacks.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure


def inline(figure: Figure) -> Html:
    """The drawing as one ``<svg>`` element; equal drawings give equal bytes.

    Ids start with a digest of the drawing, so that figures of one page do not share any; those
    that nothing refers to are gone, as are metadata, name spaces and the size in points.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", dpi=_RASTER_DPI, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].rstrip()
    text = re.sub(r"<metadata>.*?</metadata>|<style [^>]*>.*?</style>", "", text, flags=re.DOTALL)
    prefix = "c" + hashlib.sha256(text.encode()).hexdigest()[:10] + "-"
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    # Only tags are rewritten: a label may read like an attribute.
    return Html(re.sub(r"<[^>]*>", lambda tag: _tag(tag[0], used, prefix), text))


def legend_columns(labels: Sequence[str]) -> int:
    """In how many columns a legend above the axes has room for its words."""
    widest = max(len(label) for label in labels) + 7
    return max(1, min(len(labels), _LEGEND_LETTERS // widest))


def legend_above(figure: Figure, axes: Axes) -> None:
    """A legend outside of the axes."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper left",
        ncols=legend_columns([str(label) for label in labels]),
        columnspacing=1.2,
        handlelength=1.8,
        borderaxespad=0.2,
    )


def _tag(tag: str, used: set[str], prefix: str) -> str:
    if tag.startswith("<!--"):
        return ""
    tag = tag.replace(" xlink:href=", " href=")
    tag = re.sub(r' id="([^"]*)"', lambda m: f' id="{prefix}{m[1]}"' if m[1] in used else "", tag)
    tag = re.sub(r'(href="|url\()#', rf"\1#{prefix}", tag)
    if tag.startswith("<svg"):
        box = "".join(re.findall(r'viewBox="[^"]*"', tag))
        return f'<svg {box} style="stroke-linejoin: round; stroke-linecap: butt">'
    return tag
