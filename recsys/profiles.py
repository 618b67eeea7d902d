"""The user features of a data set, where it has a table of profiles."""

from recsys.data.catalogue import DataSet
from recsys.data.features import FeatureTable, load_profiles
from recsys.simulation import SimulationRng

PROFILES = ("profiles_unlinked.csv", "profiles_unlinked.csv.gz")


def user_profiles(
    source: DataSet, feature_kind: str, users: int, sim: SimulationRng
) -> tuple[FeatureTable | None, list[str]]:
    """The table of ``source`` for ``users`` users, and what a reader must know about it.

    A table that names no users says nothing about them, so it is left out unless user features are
    all that was asked for (``feature_kind`` "user").
    """
    folder = source.path
    files = [] if folder is None else [folder / name for name in PROFILES]
    found = [file for file in files if file.is_file()]
    if not found:
        return None, []
    if feature_kind != "user":
        return None, [f"{found[0].name} names no users, so it is used with --features user alone"]
    table = load_profiles(found[0], users, sim)
    return table, [table.note]
