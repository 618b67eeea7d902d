"""The learning curve as a picture, drawn without pyplot and its global state."""

import io
from collections.abc import Sequence

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from recsys.training import EpochRecord


def learning_curve(history: Sequence[EpochRecord], best_epoch: int) -> bytes:
    """PNG: training loss (nats, left) and validation AUC (right) by epoch."""
    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)  # a canvas of its own: no window system is asked for
    losses = figure.add_subplot()
    losses.plot([r.epoch for r in history], [r.loss for r in history], color="tab:blue")
    losses.set_xlabel("epoch")
    losses.set_ylabel("training loss in nats", color="tab:blue")
    losses.axvline(best_epoch, color="tab:gray", linestyle=":")
    known = [(r.epoch, r.auc) for r in history if r.auc is not None]
    if known:
        areas = losses.twinx()
        areas.plot([epoch for epoch, _ in known], [auc for _, auc in known], color="tab:red")
        areas.set_ylabel("validation AUC", color="tab:red")
    losses.set_title(f"best epoch: {best_epoch}")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
