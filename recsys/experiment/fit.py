"""Is it linear? A straight line and a power law through measured times."""

from collections.abc import Sequence

import numpy as np

from mpc.core.errors import ParameterError


def fit_line(x: Sequence[float], y: Sequence[float]) -> dict[str, float | list[float]]:
    """Least squares y = intercept + slope x, and log y = constant + exponent log x.

    x, y: at least two points above 0.
    residuals: y less the line, in units of y.  worst_residual: the largest as a share of its y.
    exponent: 1 where y grows as x, 2 where it grows as its square.
    Raises ParameterError for fewer points or others.
    """
    here, there = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if here.size < 2 or here.shape != there.shape or not ((here > 0).all() and (there > 0).all()):
        raise ParameterError(f"a line needs two or more points above 0, got {here.size}")
    # Relative errors count: seconds scatter by a share of themselves.
    slope, intercept = np.polyfit(here, there, 1, w=1 / there)
    residuals = there - (intercept + slope * here)
    exponent, _ = np.polyfit(np.log(here), np.log(there), 1)
    return {
        "slope": float(slope),
        "intercept": float(intercept),
        "residuals": [float(value) for value in residuals],
        "worst_residual": float(np.max(np.abs(residuals) / there)),
        "exponent": float(exponent),
    }
