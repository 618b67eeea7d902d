"""The outcome of a training: as the row that ``--json`` prints, and in words."""

import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from recsys.config import TrainConfig
from recsys.engine import LOCAL
from recsys.peak_memory import peak_memory
from recsys.prirec import PriRecLearner
from recsys.ratings.model import RatingModel
from recsys.recommender import Recommender
from recsys.report.costs import Costs
from recsys.report.ledger import Ledger, build_ledger
from recsys.report.table import Row, byte_size, text_table

TITLES = {
    "mf": "MF (central)",
    "dmf": "DMF (gradients in plaintext)",
    "fm": "FM (central)",
    "prirec-": "PriRec-",
    "prirec": "PriRec",
}

_REST = "validation, checkpoints, rest"

# What a row says where no protocol runs that could be simulated.
_MODES = {"mf": "central", "fm": "central", "dmf": "plaintext"}


@dataclass(frozen=True)
class Summary:
    """row: what ``--json`` prints; null where a field has no meaning.

    title: the model's name.  ran: what was trained, in one line.  This one is of visits;
    ``recsys.report.rating_summary`` has that of ratings.
    """

    row: dict[str, Any]
    title: str
    data: str
    ran: str
    costs: Costs
    ledger: Ledger
    notes: tuple[str, ...]
    folder: Path
    first_user: str

    def json(self) -> dict[str, Any]:
        """The object that ``--json`` prints."""
        return {"rows": [self.row]}

    def lines(self) -> list[str]:
        """A readable summary."""
        return [
            f"data     {self.data}",
            f"model    {self.ran}",
            f"result   {self.result()}",
            f"digest   {self.row['model_digest']}",
            "",
            *self.costs_and_releases(),
            "",
            self.ledger.headline,
            *self.next_steps(),
        ]

    def costs_and_releases(self) -> list[str]:
        """Where the time went, what was sent, and who saw what."""
        return [
            "where the time went",
            *_indent(text_table(*self.time_table(), right=(1, 2))),
            *self._traffic_lines(),
            "",
            self.seen(),
            *_wrapped(self.ledger.lines()[1:]),
        ]

    def next_steps(self) -> list[str]:
        """Where the report is, and a command to go on with."""
        return [
            f"report   {self.folder / 'public' / 'report.html'}",
            f"next     privrec recommend --model {shlex.quote(str(self.folder))} "
            f"--user {shlex.quote(self.first_user)}",
        ]

    def result(self) -> str:
        """The measures in one line."""
        row = self.row
        mean = shown_auc(row["auc_user_mean"])
        return (
            f"test AUC {shown_auc(row['auc'])} (mean of users {mean}), validation AUC "
            f"{shown_auc(row['validation_auc'])} in epoch {row['best_epoch']} of {row['epochs']}"
        )

    def measures(self) -> list[tuple[str, str]]:
        """Name and value of every plain field of the row, for a reader."""
        return [(name, _cell(value)) for name, value in self.row.items() if _is_plain(value)]

    def seen(self) -> str:
        """The heading of the ledger's releases; only the protocols keep what they promise."""
        mode = self.row["mode"]
        if mode in ("simulate", "float"):
            return f"what each party would see in mode protocol; {mode} adds up in the clear"
        return "what each party saw"

    def steps(self) -> dict[str, float]:
        """Seconds by step; what no step counted is a step of its own."""
        steps = dict(self.costs.steps)
        rest = max(0.0, self.costs.seconds - sum(steps.values()))
        return steps | {"checkpoints, rest" if "validation" in steps else _REST: rest}

    def time_table(self) -> tuple[Row, list[Row]]:
        """Header and rows of the steps, for a reader."""
        total = self.costs.seconds
        rows: list[Row] = [
            (name, f"{seconds:.2f}", f"{100 * seconds / total:.0f} %")
            for name, seconds in self.steps().items()
        ]
        return ("step", "seconds", "share"), [*rows, ("total", f"{total:.2f}", "")]

    def traffic_table(self) -> tuple[Row, list[Row]]:
        """Header and rows of the messages by kind, for a reader."""
        rows: list[Row] = [
            (kind, f"{messages:,}", byte_size(size))
            for kind, (messages, size) in self.costs.traffic.items()
        ]
        return ("kind of message", "messages", "size"), rows or [("none", "0", "0 B")]

    def _traffic_lines(self) -> list[str]:
        if not self.costs.traffic:
            return []
        each = byte_size(self.row["bytes_per_user"])
        return [
            "",
            f"what was sent: {each} per user",
            *_indent(text_table(*self.traffic_table(), right=(1, 2))),
        ]


def summarise(
    model: Recommender,
    costs: Costs,
    folder: Path,
    notes: Sequence[str] = (),
    engines: Sequence[str] = (LOCAL,),
) -> Summary:
    """Measure a model that ``fit`` has just trained, on the test part of its data.

    engines: names of those that did the users' work.
    """
    prepared, history = model.prepared_, model.history_
    auc, auc_user_mean = model.evaluate(prepared.test)
    ledger = replace(build_ledger(model), engines=tuple(engines))
    costs += _reports(model)
    best = best_epoch(model)
    trained = np.isin(prepared.test.users, prepared.train.users)
    row = {
        "model": model.config.model,
        "auc": auc,
        "auc_sd": None,  # of one run
        "seconds": costs.seconds,
        "bytes_per_user": _per_user(model, costs),
        "epsilon": ledger.epsilon(),
        "mode": _MODES.get(model.config.model, model.config.mode),
        "model_digest": model.model_digest,
        "epochs": len(history),
        "best_epoch": best,
        "auc_user_mean": auc_user_mean,
        "validation_auc": history[best - 1].auc,
        "data": prepared.name,
        "users": prepared.n_users,
        "pois": prepared.n_pois,
        "train_pairs": len(prepared.train),
        "validation_pairs": len(prepared.validation),
        "test_pairs": len(prepared.test),
        "features": model.features_.dim,
        "fallbacks": int((~trained).sum()),
        **of_a_run(costs, model.config.seed, folder, notes, engines),
    }
    return Summary(
        row=row,
        title=TITLES[model.config.model],
        data=_data_line(model),
        ran=_ran(model) + under(engines),
        costs=costs,
        ledger=ledger,
        notes=tuple(notes),
        folder=folder,
        first_user=prepared.user_ids[0],
    )


def under(engines: Sequence[str]) -> str:
    """The engines for a reader, where there was more than this process."""
    return "" if tuple(engines) == (LOCAL,) else f", engine {' and '.join(engines)}"


def of_a_run(
    costs: Costs, seed: int | None, folder: Path, notes: Sequence[str], engines: Sequence[str]
) -> dict[str, Any]:
    """The fields of a row that do not depend on what was learned."""
    spent = costs.to_dict()
    return {
        "clipped": spent["clipped"],
        "steps": spent["steps"],
        "traffic": spent["traffic"],
        "peak_memory_bytes": peak_memory(),
        "seed": seed,
        "engine": ", ".join(engines),
        "out": str(folder),
        "notes": list(notes),
    }


def best_epoch(model: Recommender | RatingModel) -> int:
    """The epoch whose parameters became the model, from 1."""
    best = model.learner_.state.best
    return len(model.history_) if best is None else best.epoch


def _per_user(model: Recommender, costs: Costs) -> float | None:
    """Bytes that a user's device sends or is sent, None where nothing travels."""
    if not costs.traffic and not _runs_protocols(model):
        return None
    return costs.bytes / model.prepared_.n_users


def _runs_protocols(model: Recommender) -> bool:
    return not model.config.is_central and model.config.mode == "protocol"


def _reports(model: Recommender) -> Costs:
    """Traffic of the randomized bits: sent once, however often a run is resumed."""
    if not _runs_protocols(model) or not model.features_.counts:
        return Costs()
    users = model.prepared_.n_users
    size = sum(count.bytes_per_user for count in model.features_.counts)
    return Costs(traffic={"ldp.reports": (users, users * size)})


def _data_line(model: Recommender) -> str:
    prepared = model.prepared_
    parts = (len(prepared.train), len(prepared.validation), len(prepared.test))
    return (
        f"{prepared.name}: {prepared.n_users:,} users, {prepared.n_pois:,} POIs, "
        "pairs to train {:,}, to validate {:,}, to test {:,}".format(*parts)
    )


def _ran(model: Recommender) -> str:
    config, learner = model.config, model.learner_
    what = f"{TITLES[config.model]}: {model.features_.dim} features, K = {config.factors}"
    if not isinstance(learner, PriRecLearner):
        return what
    sizes = [members.size for members in learner.cohorts]
    span = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    plural = "cohort" if len(sizes) == 1 else "cohorts"
    return (
        f"{what}, mode {config.mode}, {_mixing(config, learner)}, {len(sizes)} {plural} of {span}"
    )


def _mixing(config: TrainConfig, learner: PriRecLearner) -> str:
    if not learner.network.size:
        return "no neighbours"
    return f"{learner.network.size} {config.network} neighbours"


def _indent(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _wrapped(sentences: Sequence[str]) -> list[str]:
    wrap = textwrap.TextWrapper(96, initial_indent="  - ", subsequent_indent="    ")
    return [line for sentence in sentences for line in wrap.wrap(sentence)]


def shown_auc(value: float | None) -> str:
    """An AUC for a reader: four decimals, or that there is none."""
    return "undefined" if value is None else f"{value:.4f}"


def _is_plain(value: object) -> bool:
    return not isinstance(value, dict | list)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
