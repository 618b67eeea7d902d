"""Figures over seeds, and a name for a result."""

import hashlib
import json
from collections.abc import Sequence
from statistics import fmean, stdev

MAX_SEEDS = 1000


def mean(values: Sequence[float | None]) -> float | None:
    """The mean, None if a value is missing."""
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def sd(values: Sequence[float | None]) -> float | None:
    """The sample standard deviation (n - 1), None for a single value or a missing one."""
    known = [value for value in values if value is not None]
    return stdev(known) if len(known) > 1 and len(known) == len(values) else None


def digest_of(facts: object) -> str:
    """SHA-256 of plain values: equal results, equal digest, however long they took."""
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
