"""FedMF: federated matrix factorization whose item gradients are added under encryption.

Source: Chai, Wang, Chen and Yang, "Secure federated matrix factorization" (IEEE Intelligent
    Systems 36(5), 2021; arXiv:1906.05108), its FullText: a user uploads a gradient of every item,
    rated or not.
Model: the recommender is honest but curious and colludes with no user. All users share one private
    key, so a single one opens every upload to him. How they come by it without him lies outside;
    here one of them draws it.
Leaks: to the recommender who takes part, and the training mean as in
    ``recsys.ratings.aggregate_mean``; he holds no items. To every user the items and, in each
    round, the sum over a cohort, which is why a cohort has a minimum.
    ``simulate`` adds the same integers in the clear and hides nothing.
Error: as in ``recsys.baselines.fcf``; sums of ciphertexts are exact.
Differs: devices solve for the user as in FCF, where the paper takes a gradient step. Numbers are
    packed, about a hundred to a ciphertext. The paper's server keeps the items encrypted and
    subtracts gradients from them; here the users decrypt the sum and move their own copies, all
    alike, because Adam is no linear map. The default key has 3,072 bits, the paper's 1,024.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.keys import KEY_BYTES
from mpc.core.ring import Ring
from mpc.paillier.keys import DEFAULT_BITS, PrivateKey, generate
from recsys.baselines.fcf import FCFLearner
from recsys.baselines.fedmf_sum import EncryptedAggregation, EncryptedSum, PlainSum
from recsys.data.ratings import RatingParts
from recsys.models.rating_factors import FactorScorer
from recsys.ratings.aggregate import check_cohorts
from recsys.ratings.aggregate_base import Plan
from recsys.ratings.aggregate_mean import MeanRating
from recsys.ratings.aggregate_vector import Layout
from recsys.ratings.config import RatingConfig
from recsys.ratings.encode import Encoding
from recsys.ratings.model import RatingModel
from recsys.run import Run
from recsys.simulation import SimulationRng

_RING = Ring(64)
"""Sums are decoded as machine integers."""


class FedMFLearner(FCFLearner):
    """Everything but the mean is the users'. key: their own, None where nothing is encrypted."""

    private = ("users", "items", "first_moment", "second_moment")

    def __init__(
        self,
        parts: RatingParts,
        config: RatingConfig,
        sim: SimulationRng,
        run: Run,
        key: PrivateKey | None,
        key_bits: int,
    ) -> None:
        if config.laplace is not None:
            raise ParameterError(
                f"fedmf adds no noise, got laplace {config.laplace}",
                remedy="leave laplace out, or train fedgnn",
            )
        self._key, self._key_bits = key, key_bits
        super().__init__(parts, config, sim, run)

    def _aggregation(self, parts: RatingParts, run: Run) -> EncryptedAggregation:
        config = replace(self._config, secagg="pads", drop_rate=0.0)
        cohorts, key = self._cohorts, self._key
        sizes = [members.size for members in cohorts]
        check_cohorts(config, sizes)
        network = None if key is None else self.traffic
        plan = Plan(
            config=config,
            cohorts=cohorts,
            layout=Layout(parts.n_items, config.dim + 1, 0),
            encoding=Encoding.of(config, max(sizes), _RING),
            sim=self._sim,
            mean=MeanRating(cohorts, config.min_cohort, run, network),
            keys=np.zeros((0, KEY_BYTES), dtype=np.uint8),  # from which noise would follow
        )
        if key is None:
            return PlainSum(plan, self._key_bits)
        return EncryptedSum(plan, key, self.traffic)


class FedMF(RatingModel):
    """``FedMF(RatingConfig(model="fedmf", mode="simulate")).fit(ratings)``.

    key_bits: of the users' key.  ``protocol`` encrypts the whole item table for every user in every
    epoch: with 16 factors on MovieLens 100K, 281 ciphertexts in 216 kB, a third of a second of one
    core and hours for a training; so it suits small sets. ``aggregate`` is not read.
    """

    models = ("fedmf",)
    key_bits = DEFAULT_BITS

    def _learner(self, parts: RatingParts, sim: SimulationRng, run: Run) -> FedMFLearner:
        key = self._draw_key() if self.config.mode == "protocol" else None
        return FedMFLearner(parts, self.config, sim, run, key, self.key_bits)

    def _draw_key(self) -> PrivateKey:
        """A fresh key of ``key_bits`` bits, never from the seed."""
        return generate(self.key_bits)

    def _stored_scorer(self, tables: Mapping[str, NDArray[Any]]) -> FactorScorer:
        return FactorScorer()
