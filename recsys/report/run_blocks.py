"""What the pages of all training runs share: their files, and blocks about privacy and cost."""

import json
from collections.abc import Sequence

from recsys.report import toml
from recsys.report.charts import bar_chart
from recsys.report.html import (
    Html,
    Page,
    bullets,
    callout,
    details,
    facts,
    figure,
    gallery,
    table,
    verbatim,
)
from recsys.report.ledger import Ledger, shown
from recsys.report.run_folder import RunFolder
from recsys.report.summary import Summary
from recsys.report.table import byte_size

REPORT = "report.html"


def write_pages(run: RunFolder, summary: Summary, *, public: bytes, private: bytes) -> None:
    """Put both pages into the run folder, and the public one's numbers and ledger as JSON."""
    run.write_public("ledger.json", _json(summary.ledger.to_dict()))
    run.write_public("metrics.json", _json(summary.json()))
    run.write_private(REPORT, private)
    run.write_public(REPORT, public)


def settings_of(run: RunFolder) -> str:
    """The run's settings as TOML."""
    return toml.dump(run.settings)


def titled(summary: Summary) -> Page:
    """An empty page of the model and its data."""
    return Page(
        f"{summary.title} on {summary.row['data']}", f"{summary.ran}. Data: {summary.data}."
    )


def key_figures(
    summary: Summary,
    measures: Sequence[tuple[str, str]],
    *,
    unit: str,
    epsilon: float | str | None,
) -> Html:
    """Tiles: the measures, what the run took, and its privacy. epsilon: of one ``unit``, if any."""
    row = summary.row
    sent = row["bytes_per_user"]
    nominal = " (nominal)" if summary.ledger.seeded else ""
    figures = [
        *measures,
        ("best epoch", f"{row['best_epoch']} of {row['epochs']}"),
        ("time", f"{row['seconds']:,.1f} s"),
        ("sent per user", _unsent(row["mode"]) if sent is None else byte_size(sent)),
    ]
    if epsilon is not None:
        figures.append((f"epsilon per {unit}{nominal}", shown_epsilon(epsilon)))
    worst = row["epsilon"]["headline"]
    return facts([*figures, ("epsilon per user, worst release", shown_epsilon(worst))])


def settings_section(page: Page, summary: Summary, settings: str) -> None:
    """The last section of a run's page."""
    page.section(
        "Settings",
        "As in config.toml beside this page; privrec train --config reads it.",
        verbatim(settings),
        details(
            "All measures, as in metrics.json",
            table(("name", "value"), summary.measures()),
        ),
    )


def privacy(summary: Summary) -> list[str]:
    """What each party has learned, and at what loss."""
    ledger = summary.ledger
    return [
        callout(sentence(ledger.headline)),
        f"{sentence(summary.seen())[:-1]}:",
        _seen(ledger),
        details("In words", bullets(ledger.lines()[1:])),
    ]


def _seen(ledger: Ledger) -> Html:
    """Party by party what the ledger has released to it; one party's rows follow each other."""
    parties = list(dict.fromkeys(release.sees for release in ledger.releases))
    rows = []
    for release in sorted(ledger.releases, key=lambda release: parties.index(release.sees)):
        times = "once" if release.rounds == 1 else f"{release.rounds:,} times"
        costs = "; ".join(release.costs())
        rows.append((release.sees, release.what, times, costs, release.adversary))
    return table(("party", "what it sees", "how often", "epsilon", "protection"), rows)


def traffic(summary: Summary) -> list[str]:
    """Bytes by kind of message."""
    mode, sent = summary.row["mode"], summary.costs.traffic
    if not sent:
        why = (
            "The recommender trains alone, on everybody's data"
            if mode == "central"
            else f"Mode {mode} adds up in the clear, in one process"
        )
        return [f"{why}: nothing was sent, and nothing is counted here."]
    sizes = {kind: float(size) for kind, (_, size) in sent.items()}
    chart = bar_chart(list(sizes), list(sizes.values()), x_label="bytes sent", shown=byte_size)
    total = sum(sizes.values())
    caption = f"Bytes by kind of message, {byte_size(total)} in all"
    drawing = figure(chart, f"{caption}, each counted where it is sent.", caption)
    return [gallery(drawing, table(*summary.traffic_table(), right=(1, 2)))]


def spent_time(summary: Summary) -> list[str]:
    """Seconds by step."""
    steps = summary.steps()
    chart = bar_chart(list(steps), list(steps.values()), x_label="seconds", shown="{:,.2f}".format)
    total = f"{summary.costs.seconds:,.2f} seconds in all"
    drawing = figure(chart, f"Wall-clock time by step, {total}.", f"Seconds by step, {total}")
    return [gallery(drawing, table(*summary.time_table(), right=(1, 2)))]


def _unsent(mode: str) -> str:
    """What stands in the place of bytes where none were counted."""
    return "nothing" if mode == "central" else "not counted"


def shown_epsilon(value: float | str) -> str:
    """An epsilon of a row, for a reader."""
    return value if isinstance(value, str) else shown(value)


def sentence(text: str) -> str:
    """A text as a sentence: a capital letter first, one full stop last."""
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()
