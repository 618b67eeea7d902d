"""Which class trains and loads which model."""

from pathlib import Path

from recsys.baselines.dmf import DMF
from recsys.baselines.fm import FM
from recsys.baselines.mf import MF
from recsys.model_files import read_model
from recsys.prirec import PriRec
from recsys.recommender import Recommender

_CLASSES: tuple[type[Recommender], ...] = (MF, DMF, FM, PriRec)


def recommender_class(model: str) -> type[Recommender]:
    """The class of a model that ``TrainConfig`` knows."""
    return {name: cls for cls in _CLASSES for name in cls.models}[model]


def load_recommender(folder: Path) -> Recommender:
    """The model of a run folder, whichever it is. DataError if there is none or it is damaged."""
    _, config = read_model(folder)
    return recommender_class(config.model).load(folder)
