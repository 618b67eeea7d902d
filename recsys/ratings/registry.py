"""Which class trains and loads which rating model.

Classes are imported when they are asked for: some need libraries that only an extra installs, and
nobody who trains another model should wait for them to load.
"""

from importlib import metadata
from pathlib import Path

from mpc.core.errors import MissingLibraryError, ParameterError
from recsys.ratings.config import MEANS, MODELS
from recsys.ratings.files import read_rating_model
from recsys.ratings.model import RatingModel

_LIBRARIES = {"torch": "torch", "surprise": "scikit-surprise"}
"""Modules that the extra installs, and their distributions."""

_NEEDS = {
    "svdpp": ("scikit-surprise",),
    **dict.fromkeys(("srgcnn", "gcmc", "pinsage", "ngcf", "fedgnn"), ("torch",)),
}


def rating_class(model: str) -> type[RatingModel]:
    """The class of a model that ``RatingConfig`` knows.

    Raises MissingLibraryError where its library is not installed.
    """
    try:
        return _import(model)
    except ModuleNotFoundError as error:
        if error.name not in _LIBRARIES:
            raise
        raise _missing(model, _LIBRARIES[error.name]) from None


def check_library(model: str) -> None:
    """MissingLibraryError where a library of the model is not installed; loads none."""
    for name in libraries_of(model):
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            raise _missing(model, name) from None


def _missing(model: str, library: str) -> MissingLibraryError:
    return MissingLibraryError(
        f"{model} needs {library}, which is not installed", remedy="pip install 'privrec[gnn]'"
    )


def libraries_of(model: str) -> tuple[str, ...]:
    """Distributions of the extra whose versions decide what the model learns."""
    return _NEEDS.get(model, ())


def load_rating_model(folder: Path) -> RatingModel:
    """The rating model of a run folder. DataError if there is none or it is damaged."""
    _, config = read_rating_model(folder)
    return rating_class(config.model).load(folder)


# ruff: noqa: PLC0415 - imported when asked for
def _import(model: str) -> type[RatingModel]:
    found: type[RatingModel]
    if model in MEANS:
        from recsys.baselines.biases import Biases

        found = Biases
    elif model == "pmf":
        from recsys.baselines.pmf import PMF

        found = PMF
    elif model == "svdpp":
        from recsys.baselines.svdpp import SVDpp

        found = SVDpp
    elif model == "grals":
        from recsys.baselines.grals import GRALS

        found = GRALS
    elif model == "srgcnn":
        from recsys.baselines.srgcnn import SRGCNN

        found = SRGCNN
    elif model == "gcmc":
        from recsys.baselines.gcmc import GCMC

        found = GCMC
    elif model == "pinsage":
        from recsys.baselines.pinsage import PinSage

        found = PinSage
    elif model == "ngcf":
        from recsys.baselines.ngcf import NGCF

        found = NGCF
    elif model == "fcf":
        from recsys.baselines.fcf import FCF

        found = FCF
    elif model == "fedmf":
        from recsys.baselines.fedmf import FedMF

        found = FedMF
    elif model == "fedgnn":
        from recsys.fedgnn import FedGNN

        found = FedGNN
    else:
        raise ParameterError(f"model must be one of {', '.join(MODELS)}, got {model!r}")
    return found
