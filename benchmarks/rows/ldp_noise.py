"""Ratio rows of the integer noise."""

from functools import partial

from benchmarks.harness import Case, Row
from benchmarks.peers.noise import is_discrete_gaussian, is_discrete_laplace
from benchmarks.rows.ldp_peers import peer
from ldp.discrete_gaussian import DiscreteGaussian
from ldp.discrete_laplace import DiscreteLaplace

LAPLACE_SAMPLES = 100_000
GAUSSIAN_SAMPLES = 50_000
SIGMA = 4


def _discrete_laplace(scale: int, shown: str) -> Case:
    mechanism = DiscreteLaplace(scale)
    return Case(
        ours=lambda: mechanism.sample(LAPLACE_SAMPLES),
        other=None,
        operations=LAPLACE_SAMPLES,
        check=lambda: is_discrete_laplace(mechanism.sample(LAPLACE_SAMPLES), scale),
        note=f"scale {shown}; coins are secure on both sides; ours follows the law exactly, the "
        "peer takes the logarithm of a double, one sample a call",
    )


def _discrete_gaussian() -> Case:
    mechanism = DiscreteGaussian(SIGMA)
    return Case(
        ours=lambda: mechanism.sample(GAUSSIAN_SAMPLES),
        other=None,
        operations=GAUSSIAN_SAMPLES,
        check=lambda: is_discrete_gaussian(mechanism.sample(GAUSSIAN_SAMPLES), SIGMA),
        note=f"sigma {SIGMA}; both exact with secure coins; the peer's one call on a vector of "
        "integers",
    )


def _laplace_row(name: str, scale: int, shown: str) -> Row:
    return Row(
        name=f"ldp.{name}.vs_diffprivlib",
        groups=("ldp",),
        unit="sample",
        make=partial(_discrete_laplace, scale, shown),
        peers=(peer("diffprivlib", "discrete_laplace", LAPLACE_SAMPLES, scale),),
    )


ROWS: tuple[Row, ...] = (
    _laplace_row("discrete_laplace_s1", 1, "1"),
    _laplace_row("discrete_laplace_s2e18", 2**18, "2^18"),
    Row(
        name="ldp.discrete_gaussian_s4.vs_opendp",
        groups=("ldp",),
        unit="sample",
        make=_discrete_gaussian,
        peers=(peer("opendp", "discrete_gaussian", GAUSSIAN_SAMPLES, SIGMA),),
    ),
)
