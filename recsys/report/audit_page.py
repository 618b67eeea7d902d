"""The page of an audit: what was claimed, what was shown, and how."""

from ldp.audit import Audit
from recsys.report.audit_charts import bound_chart, law_chart, share_chart
from recsys.report.audit_text import (
    PROVES_NOTHING,
    Report,
    audit_table,
    below,
    claim,
    coins,
    direction_table,
    percent,
    refuted,
    share,
    telling,
)
from recsys.report.html import (
    Page,
    bullets,
    callout,
    details,
    facts,
    figure,
    gallery,
    paragraph,
    table,
)


def audit_page(report: Report) -> bytes:
    """``audit.html``: of one mechanism or of several."""
    one = report.audits[0] if len(report.audits) == 1 else None
    name = one.name if one is not None else f"{len(report.audits)} mechanisms"
    page = Page(
        f"Audit: {name}",
        "Lower bounds on the privacy loss of running code, from samples of its reports.",
    )
    page.section(
        "Result",
        *(callout(f"Refuted: {refuted(audit)}.") for audit in report.exceeding),
        facts(_tiles(report, one)),
        *([] if one is not None else [_table(report), _shares(report)]),
        paragraph(f"{PROVES_NOTHING[0].upper()}{PROVES_NOTHING[1:]}."),
    )
    for audit in report.audits:
        page.section(audit.name, *_mechanism(audit))
    page.section("How it was measured", bullets(_method(report)))
    return page.render()


def _tiles(report: Report, one: Audit | None) -> list[tuple[str, str]]:
    first = report.audits[0]
    tiles = [
        ("reports of each input", f"{first.samples:,}"),
        ("confidence", percent(first.confidence)),
    ]
    if one is None:
        return [
            ("mechanisms", str(len(report.audits))),
            ("claims refuted", str(len(report.exceeding))),
            *tiles,
        ]
    return [
        ("claimed epsilon", claim(one)),
        ("epsilon is at least", below(one.lower_bound)),
        ("share of the claim", share(one)),
        ("most that could be shown", below(one.reachable)),
        *tiles,
    ]


def _table(report: Report) -> str:
    header, rows = audit_table(report)
    return table(header, rows, right=(1, 2, 3))


def _shares(report: Report) -> str:
    caption = (
        "How much of its claim each mechanism was shown to lose. A bar beyond the line refutes the "
        "claim; a short one says that the events or the reports did not suffice."
    )
    alt = ", ".join(f"{audit.name}: {share(audit)}" for audit in report.audits)
    return figure(share_chart(report.audits), caption, f"Shares of the claims. {alt}")


def _mechanism(audit: Audit) -> list[str]:
    worst = audit.worst
    laws = figure(
        law_chart(worst),
        f"The most telling event: {telling(worst)}. It happened in {worst.count:,} and in "
        f"{worst.other_count:,} of {worst.n:,} reports.",
        f"Laws of {worst.event.statistic.name} for the inputs {worst.input} and {worst.other}",
    )
    rising = figure(
        bound_chart(audit),
        "What the first reports alone would have shown with this event. Only the last point is the "
        "audit's statement.",
        f"Lower bound by number of reports, up to {below(audit.lower_bound)}; the claim is "
        f"{claim(audit)}",
    )
    header, rows = direction_table(audit.findings)
    return [
        paragraph(
            f"Claim: epsilon {claim(audit)} for each {audit.unit}. Shown: at least "
            f"{below(audit.lower_bound)}."
        ),
        gallery(laws, rising),
        details("All pairs of inputs", table(header, rows, right=(4, 5))),
    ]


def _method(report: Report) -> list[str]:
    first = report.audits[0]
    return [
        f"For each ordered pair of inputs an event was chosen on the first {first.samples // 2:,} "
        "reports of both, and counted on others.",
        "Events are single values, tails and sets in order of likelihood ratio, of the report, of "
        "its positions alone and together, of sums and counts over them, and of low-order bits.",
        "The bound is ln((p - delta) / q), with p and q the Clopper-Pearson limits of the two "
        "probabilities.",
        f"Confidence {percent(first.confidence)}: the probability that any of the {report.limits} "
        f"limits is wrong is at most {1 - first.confidence:.3g}, so each has an error of "
        f"{first.error:.3g}.",
        f"Inputs are made up, and nobody's data are in this report. Coins: {coins(report)}.",
        "An audit looks for faults. It knows neither all inputs nor all events, and says nothing "
        "about time, memory or the generator of the coins.",
    ]
