"""What the line of an epoch says at its end, whatever is learned."""

from recsys.report.costs import Costs
from recsys.report.ledger import shown
from recsys.report.table import byte_size


def spent(costs: Costs, epsilon: float | None, unit: str, *, seeded: bool) -> list[str]:
    """Bytes sent so far, and the loss about one ``unit``; nothing where there is none."""
    parts = [byte_size(costs.bytes)] if costs.traffic else []
    if epsilon is not None:
        nominal = " (nominal)" if seeded else ""
        parts.append(f"epsilon {shown(epsilon)}{nominal} per {unit}")
    return parts
