"""The peers of the rows of ``ldp``, with what pip installs for each."""

from benchmarks.harness import SCRIPTS, Peer

_REQUIREMENTS = {
    "diffprivlib": (
        "diffprivlib==0.6.6",
        "numpy==2.4.6",
        "scikit-learn==1.5.2",  # it fails on import with the current one
        "scipy==1.17.1",
    ),
    "multi-freq-ldpy": (
        "multi-freq-ldpy==0.2.5",
        "numba==0.68.1",
        "numpy==2.4.6",
        "xxhash==3.5.0",  # its local hashing fails with the current one
    ),
    "opendp": ("opendp==0.16.0", "numpy==2.4.6"),
    "pure-ldp": (
        "pure-ldp==1.2.0",
        "bitstring==5.0.0",
        "numpy==2.4.6",
        "scikit-learn==1.9.1",  # it imports this one and statsmodels, and declares neither
        "scipy==1.17.1",
        "statsmodels==0.15.0",
        "xxhash==3.5.0",  # its local hashing fails with the current one
    ),
}


def peer(name: str, operation: str, *arguments: float) -> Peer:
    """The peer of that name; its script is ``<name>_<operation>.py``."""
    return Peer(
        environment=name,
        requirements=_REQUIREMENTS[name],
        script=SCRIPTS / f"{name.replace('-', '_')}_{operation}.py",
        arguments=tuple(map(str, arguments)),
    )
