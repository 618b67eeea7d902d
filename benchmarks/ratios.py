"""The ratio rows as a command.

    python -m benchmarks.ratios [--group G] [--name N] [--json | --build]

With ``--json`` the standard output is one object,
``{"rows": [{"name", "ours", "other", "unit", "ratio", "ok", "note"}]}``; progress goes to the
standard error. ``ours`` and ``other`` are seconds per operation. With ``--build`` nothing is
measured: the peer environments of the rows are built, and a line for each says how that went.

Exit status: 0; 1 if a row's results were wrong or its code failed, or if ``--build`` could not
build an environment; 2 for a wrong argument. To measure without a peer is no failure of ours: the
note says why, and the ratio is null where no other peer could run.
"""

import argparse
import json
import sys
import traceback
from collections.abc import Iterable, Sequence

from benchmarks.environments import Environments, PeerUnavailableError
from benchmarks.harness import GROUPS, ROUNDS, Result, Row, measure, seconds_shown
from benchmarks.rows import (
    ldp,
    ldp_frequency,
    ldp_noise,
    mpc,
    mpc_products,
    mpc_shamir,
    oprf,
    paillier,
    secagg,
    secagg_full,
)

ROWS: tuple[Row, ...] = (
    *mpc.ROWS,
    *mpc_products.ROWS,
    *mpc_shamir.ROWS,
    *ldp.ROWS,
    *ldp_frequency.ROWS,
    *ldp_noise.ROWS,
    *secagg.ROWS,
    *secagg_full.ROWS,
    *paillier.ROWS,
    *oprf.ROWS,
)
FIELDS = ("name", "ours", "other", "unit", "ratio", "ok", "note")


def main(arguments: Sequence[str] | None = None, *, rows: tuple[Row, ...] = ROWS) -> int:
    """Measure the rows that the arguments ask for; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ratios",
        description="Time each row's two sides in turns and print their ratio. Seconds are per "
        "operation; a row named .vs_X or .of_X gives other / ours, .over_X gives ours / other.",
    )
    parser.add_argument("--group", choices=GROUPS, help="only the rows of this group")
    parser.add_argument("--name", action="append", help="only the row of this name; repeatable")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"{ROUNDS} (default) or more")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    output.add_argument(
        "--build", action="store_true", help="only build the peer environments of these rows"
    )
    options = parser.parse_args(arguments)
    if options.rounds < ROUNDS:
        parser.error(f"--rounds must be at least {ROUNDS}, got {options.rounds}")
    known = {row.name for row in rows}
    for name in options.name or ():
        if name not in known:
            parser.error(f"no row is named {name!r}; the names: {', '.join(sorted(known))}")
    chosen = [
        row
        for row in rows
        if (options.group is None or options.group in row.groups)
        and (options.name is None or row.name in options.name)
    ]
    if options.build:
        return 0 if build_all(chosen) else 1
    results = measure_all(chosen, rounds=options.rounds)
    print(as_json(results) if options.json else as_table(results))
    return 1 if any(result.failed for result in results) else 0


def build_all(rows: Iterable[Row]) -> bool:
    """Build what the rows' peers need, print how each went, return whether all could be built."""
    environments = Environments()
    # Rows of one peer share its environment.
    wanted = dict.fromkeys((p.environment, p.requirements) for row in rows for p in row.peers)
    built = True
    for environment, requirements in wanted:
        try:
            environments.python(environment, requirements)
        except PeerUnavailableError as error:
            built = False
            print(error, flush=True)
        else:
            print(f"environment {environment} is ready", flush=True)
    return built


def measure_all(rows: Iterable[Row], *, rounds: int) -> list[Result]:
    """Measure one row after the other. Code that raises makes a row that is not ok."""
    environments = Environments()
    results = []
    for row in rows:
        print(f"{row.name} ...", end=" ", file=sys.stderr, flush=True)
        try:
            result = measure(row, environments, rounds=rounds)
        except Exception as error:  # one broken row must not cost the hours of all the others
            traceback.print_exc()
            note = f"failed: {type(error).__name__}: {error}"
            result = Result(row.name, None, None, row.unit, None, False, note, failed=True)
        print(_figure(result.ratio), file=sys.stderr, flush=True)
        results.append(result)
    return results


def as_json(results: Iterable[Result]) -> str:
    """The results as the one JSON object that the command promises."""
    rows = [{field: getattr(result, field) for field in FIELDS} for result in results]
    return json.dumps({"rows": rows}, indent=2, allow_nan=False)


def as_table(results: Iterable[Result]) -> str:
    """The results as aligned columns for a reader; seconds in engineering units."""
    lines = [FIELDS]
    for result in results:
        times = (_time(result.ours), _time(result.other))
        ok = "yes" if result.ok else "no"
        lines.append((result.name, *times, result.unit, _figure(result.ratio), ok, result.note))
    widths = [max(len(line[column]) for line in lines) for column in range(len(FIELDS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else seconds_shown(seconds)


def _figure(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3g}"


if __name__ == "__main__":
    sys.exit(main())
