"""How a trained rating model turns its arrays into ratings."""

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from recsys.data.ratings import Floats, Indices


class RatingScorer(Protocol):
    """The prediction rule of a kind of model.

    tables: fixed arrays of any dtype that it needs besides those that were learned, such as each
    user's training ratings; they are stored on the users' side.
    """

    @property
    def tables(self) -> dict[str, NDArray[Any]]:
        """Fixed arrays by name, to be stored with the model."""

    def score(self, arrays: Mapping[str, Floats], users: Indices, items: Indices) -> Floats:
        """Ratings for index pairs, users and items int32 (n,): float64 (n,), not yet clamped.

        -1 stands for an unknown user or item; the model then leaves out what it does not know, so
        that a biased model answers mean + item bias, mean + user bias, or the mean.
        """
