"""An audit in words and as plain values: its table, its sentence, its JSON."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ldp.audit import Audit, Finding
from ldp.rounding import shown
from recsys.report.table import Row, text_table

PROVES_NOTHING = (
    "a bound below the claim proves nothing about the claim: it is a test that failed to refute it"
)
"""What nobody should take an audit for."""

SEEDED = (
    "reproducible coins of seed {}; the confidence holds only if the seed was chosen before its "
    "outcome was seen"
)


@dataclass(frozen=True)
class Report:
    """All audits of one command. seed: of the coins, None for coins of the system."""

    audits: tuple[Audit, ...]
    seed: int | None

    @property
    def exceeding(self) -> list[Audit]:
        """Those whose claim is refuted."""
        return [audit for audit in self.audits if audit.exceeds]

    @property
    def limits(self) -> int:
        """Confidence limits that share the error."""
        return sum(2 * len(audit.findings) for audit in self.audits)


def audit_lines(report: Report) -> list[str]:
    """What ``privrec audit`` prints."""
    header, rows = audit_table(report)
    first = report.audits[0]
    return [
        *text_table(header, rows, right=(1, 2, 3)),
        "",
        f"samples     {first.samples:,} reports of each input: events chosen on the first half, "
        "tested on the second",
        f"confidence  {percent(first.confidence)} for all {report.limits} limits together",
        f"coins       {coins(report)}",
        f"largest     {below(min(audit.reachable for audit in report.audits))} is the most that so "
        "many reports can show",
        verdict(report),
    ]


def verdict(report: Report) -> str:
    """The sentence below the table."""
    if not report.exceeding:
        return PROVES_NOTHING
    return "; ".join(refuted(audit) for audit in report.exceeding)


def refuted(audit: Audit) -> str:
    """What was shown against a claim."""
    return (
        f"{audit.name} claims {claim(audit)} and loses at least {below(audit.lower_bound)} "
        f"(confidence {percent(audit.confidence)})"
    )


def coins(report: Report) -> str:
    """Where the coins came from."""
    return "of the system" if report.seed is None else SEEDED.format(report.seed)


def audit_table(report: Report) -> tuple[Row, list[Row]]:
    """Header and cells, a row for each mechanism."""
    header = ("mechanism", "claim", "lower bound", "of claim", "event", "likelier for", "than for")
    rows: list[Row] = [
        (
            audit.name,
            claim(audit),
            below(audit.lower_bound),
            share(audit),
            str(audit.worst.event),
            audit.worst.input,
            audit.worst.other,
        )
        for audit in report.audits
    ]
    return header, rows


def telling(finding: Finding) -> str:
    """The event and the two inputs that it tells apart."""
    return f"{finding.event}, likelier for {finding.input} than for {finding.other}"


def claim(audit: Audit) -> str:
    """The claimed loss, rounded up."""
    delta = f", delta {audit.delta:g}" if audit.delta else ""
    return f"{shown(audit.epsilon)}{delta}"


def below(bound: float) -> str:
    """A lower bound for a reader: four decimals, rounded down, never up."""
    return f"{math.floor(bound * 1e4) / 1e4:.4f}" if bound > -math.inf else "-"


def share(audit: Audit) -> str:
    """What part of the claim was shown."""
    return f"{100 * part(audit):.1f} %"


def part(audit: Audit) -> float:
    """Lower bound over claim; a claim of 0 is reached by anything."""
    return audit.lower_bound / audit.epsilon if audit.epsilon else float(audit.lower_bound > 0)


def percent(confidence: float) -> str:
    """A confidence, with as many digits as it takes."""
    return f"{100 * confidence:.12g} %"


def audit_data(report: Report) -> dict[str, Any]:
    """The JSON of ``privrec audit``."""
    first = report.audits[0]
    return {
        "rows": [_row(audit) for audit in report.audits],
        "samples": first.samples,
        "confidence": first.confidence,
        "limits": report.limits,
        "seed": report.seed,
        "exceeds": bool(report.exceeding),
    }


def _row(audit: Audit) -> dict[str, Any]:
    return {
        "mechanism": audit.name,
        "unit": audit.unit,
        "epsilon": audit.epsilon,
        "delta": audit.delta,
        "lower_bound": audit.lower_bound,
        "share": part(audit),
        "reachable": audit.reachable,
        "exceeds": audit.exceeds,
        **_finding(audit.worst),
        "findings": [_finding(finding) for finding in audit.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "event": str(finding.event),
        "input": finding.input,
        "other": finding.other,
        "count": finding.count,
        "other_count": finding.other_count,
        "reports": finding.n,
        "bound": _finite(finding.bound),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def direction_table(findings: Sequence[Finding]) -> tuple[Row, list[Row]]:
    """Every ordered pair of inputs, with its event and counts."""
    header = ("likelier for", "than for", "event", "counts", "reports", "bound")
    rows: list[Row] = [
        (
            finding.input,
            finding.other,
            str(finding.event),
            f"{finding.count:,} and {finding.other_count:,}",
            f"{finding.n:,}",
            below(finding.bound),
        )
        for finding in findings
    ]
    return header, rows
