"""The error for what a secure round cannot do, whatever its parameters.

Source: ours.
Model: of the server alone: a check against mistakes.
Leaks: nothing.
"""

from mpc.core.errors import ParameterError


class SecAggRefused(ParameterError):
    """A strategy, or what it asks, has no place in secure aggregation; the text says why."""
