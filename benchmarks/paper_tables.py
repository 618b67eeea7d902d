"""The paper's Tables 4 and 5 beside ours, as Markdown.

    PRIVREC_DATA=folder python -m benchmarks.paper_tables --out paper-tables

K = 5, 10, 15 and the splits 80/20 and 90/10, for FM, PriRec- and PriRec with their own settings, at
most five visits of each user, means and standard deviations over three seeds. Table 4 is beside
check-ins of Tokyo, with a random network, as in the paper, and a geographic one; Table 5 beside
check-ins of California with a geographic network. Then two artefacts of preparation: a model that
knows users alone, under both orders of split and negatives, and repeated records.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from recsys.config import TrainConfig
from recsys.data.prepare import PrepareConfig
from recsys.experiment.bench import Bench
from recsys.experiment.compare import Plan, compare
from recsys.experiment.folder import ExperimentFolder, holds_experiment
from recsys.experiment.pool import open_pool
from recsys.report.compare_words import four_decimals
from recsys.report.paper import FACTORS, TABLES
from recsys.report.table import markdown_table

TOKYO, CALIFORNIA = "foursquare-tokyo", "foursquare-california"
FEW = PrepareConfig(max_positives=5)


def plan(data: str, rows: tuple[str, ...], seeds: int, **settings: Any) -> Plan:
    """A comparison with the models' own settings."""
    base = TrainConfig(mode="simulate", **settings).to_dict()
    return Plan(data, base, rows=rows, seeds=seeds, trials=0)


def cell(row: dict[str, Any]) -> str:
    return four_decimals(row["auc"]) + ("" if row["auc_sd"] is None else f" ({row['auc_sd']:.4f})")


def tables(bench: Bench, seeds: int) -> Iterator[str]:
    """Lines of Markdown."""
    rows = ("fm", "prirec-", "prirec")
    for paper, data, with_random in ((TABLES[0], TOKYO, True), (TABLES[1], CALIFORNIA, False)):
        here = (*rows, "prirec-random") if with_random else rows
        header = ["train", "K"]
        for row in here:
            header += [row] if row == "prirec-random" else [row, "paper"]
        lines = []
        for percent in (80, 90):
            for factors in FACTORS:
                fraction = round(1 - percent / 100, 2)
                prepare = replace(FEW, test_fraction=fraction)
                found = compare(plan(data, here, seeds, factors=factors, prepare=prepare), bench)
                line = [f"{percent} %", str(factors)]
                for row in found["rows"]:
                    line.append(cell(row))
                    if row["model"] != "prirec-random":
                        line.append(four_decimals(paper.value(row["model"], fraction, factors)))
                lines.append(line)
                print("  ".join(line), file=sys.stderr, flush=True)
        yield from (f"{paper.name}, beside {data}:", "")
        yield from (*markdown_table(header, lines, right=range(1, len(header))), "")
    yield from _artefacts(bench, seeds)


def _artefacts(bench: Bench, seeds: int) -> Iterator[str]:
    literal = replace(FEW, order="literal")
    repeated = PrepareConfig(order="literal", repeated_records=True)
    cases = (
        ("user features alone, split first", "user", FEW),
        ("user features alone, negatives first", "user", literal),
        ("all features, all visits, split first", None, PrepareConfig()),
        ("all features, all visits, repeated records", None, repeated),
    )
    lines = []
    for what, features, prepare in cases:
        settings: dict[str, Any] = {"features": features, "prepare": prepare}
        if prepare is repeated:
            settings["learning_rate_v"] = 0.003  # with its own, FM diverges on that many records
        if features == "user":
            settings["neighbours"] = 0
        found = compare(plan(TOKYO, ("fm", "prirec"), seeds, **settings), bench)
        lines.append([what, *(cell(row) for row in found["rows"])])
        print("  ".join(lines[-1]), file=sys.stderr, flush=True)
    yield from markdown_table(("data", "fm", "prirec"), lines, right=(1, 2))


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("paper-tables"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    new = None if holds_experiment(arguments.out) else {"kind": "paper tables"}
    with ExperimentFolder(arguments.out, plan=new) as folder, open_pool(arguments.workers) as pool:
        print("\n".join(tables(Bench(folder, pool), arguments.seeds)))


if __name__ == "__main__":
    main()
