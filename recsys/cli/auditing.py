"""Runs the audits of ``privrec audit``: checks, coins, progress, report, exit code."""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from ldp.audit import Case, audit_all
from ldp.audit_cases import WITH_DELTA, WITH_VALUES, Request, shipped
from mpc.core.checks import integer
from mpc.core.durable import PUBLIC, write_durably
from mpc.core.errors import ParameterError
from mpc.core.keys import derive
from mpc.core.prg import Prg
from mpc.core.rng import SYSTEM_RNG, Rng
from recsys.cli.codes import REFUSED
from recsys.cli.console import Console
from recsys.cli.folders import check_free
from recsys.errors import PrivacyRefusal
from recsys.report.audit_text import Report, audit_data, audit_lines, verdict

PAGE, DATA = "audit.html", "audit.json"

_SECONDS = 1.0
"""Between two lines of progress about one mechanism."""


@dataclass(frozen=True)
class Asked:
    """The options of the command; delta, values and seed are None where they were not given.

    names: of the mechanisms.
    """

    names: tuple[str, ...]
    epsilon: float
    delta: float | None
    values: int | None
    samples: int
    confidence: float
    seed: int | None

    def cases(self) -> list[Case]:
        """What is to be audited.

        Raises ParameterError for an unknown name, for values out of range, and for an option that
        the mechanism does not have.
        """
        request = Request(self.epsilon)
        if self.delta is not None:
            request = replace(request, delta=self.delta)
        if self.values is not None:
            request = replace(request, values=self.values)
        cases = [shipped(name, request) for name in self.names]
        options = (("delta", self.delta, WITH_DELTA), ("values", self.values, WITH_VALUES))
        for name, value, having in options:
            if value is not None and not set(self.names) & set(having):
                raise ParameterError(
                    f"--{name} has no meaning for {', '.join(self.names)}",
                    remedy=f"it is for {', '.join(having)}",
                )
        return cases

    @property
    def rng(self) -> Rng:
        """Secure coins, or those of the seed."""
        if self.seed is None:
            return SYSTEM_RNG
        seed = integer("seed", self.seed, 0, 2**64 - 1)
        return Prg(derive(seed.to_bytes(32, "big"), "audit"))


def run_audit(asked: Asked, out: Path | None, console: Console, *, force: bool) -> None:
    """Audit, print, write the page, and end with exit code 3 if a claim is refuted."""
    if not 0 < asked.confidence < 1:
        raise ParameterError(f"confidence must lie in (0, 1), got {asked.confidence!r}")
    if out is not None:
        check_free(out, force=force)
    cases, rng = asked.cases(), asked.rng
    told = _Progress(console, [case.name for case in cases])
    audits = audit_all(cases, asked.samples, alpha=1 - asked.confidence, rng=rng, told=told)
    report = Report(audits, asked.seed)
    lines, data = audit_lines(report), audit_data(report)
    if out is not None:
        console.progress("drawing the report")
        path = _write(report, out)
        lines.append(f"report      {path}")
        data["out"] = str(out)
    else:
        console.note("--out DIR writes a page with charts of what was seen")
    refusal = _refusal(report)
    if refusal is not None:
        data["error"] = {
            "type": type(refusal).__name__,
            "message": refusal.message,
            "remedy": refusal.remedy,
        }
    console.result(lines, data)
    if refusal is not None:
        # The JSON above has it already, and stdout must hold one object alone.
        Console().error(type(refusal).__name__, refusal.message, refusal.remedy)
        raise typer.Exit(REFUSED)


class _Progress:
    """A line for each mechanism, and one each second for those that take long."""

    def __init__(self, console: Console, names: list[str]) -> None:
        self._console = console
        self._names = names
        self._start = time.monotonic()
        self._last = ("", 0.0)

    def __call__(self, name: str, share: float) -> None:
        now = time.monotonic()
        goes_on = self._last[0] == name
        if goes_on and now - self._last[1] < _SECONDS:
            return
        self._last = (name, now)
        place = f"{self._names.index(name) + 1}/{len(self._names)}"
        drawn = f"  {100 * share:.0f} % of its reports" if goes_on else ""
        self._console.progress(f"{place:>5s}  {now - self._start:5.1f} s  {name}{drawn}")


def _refusal(report: Report) -> PrivacyRefusal | None:
    if not report.exceeding:
        return None
    return PrivacyRefusal(
        verdict(report), remedy="release nothing that was made by it, and find the fault first"
    )


def _write(report: Report, folder: Path) -> Path:
    from recsys.report.audit_page import audit_page  # noqa: PLC0415 - loads matplotlib

    page = audit_page(report)
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(audit_data(report), indent=2, allow_nan=False)
    write_durably(folder / DATA, text.encode(), mode=PUBLIC)
    write_durably(folder / PAGE, page, mode=PUBLIC)
    return folder / PAGE
