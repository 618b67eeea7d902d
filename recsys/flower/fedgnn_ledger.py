"""The privacy ledger of FedGNN over Flower: what its nodes release, to whom, at which loss.

Source: as ``recsys.report.rating_ledger``, whose wording it shares.
Model: as ``recsys.flower.fedgnn``.
"""

from ldp.clipped_laplace import ClippedLaplace
from recsys.flower.fedgnn_server import Trained
from recsys.ratings.config import RatingConfig
from recsys.report.ledger import Release, open_release
from recsys.report.rating_ledger import RatingLedger, sum_release
from secagg.flower.config import SecAggConfig


def build_ledger(
    trained: Trained,
    config: RatingConfig,
    secure: SecAggConfig,
    mechanism: ClippedLaplace | None,
    coordinates: int,
) -> RatingLedger:
    """The ledger of a training.

    secure: how its sums were formed.  mechanism: the noise of each user, if any.  coordinates: of a
    vector over the whole catalogue.
    """
    rounds, everywhere = trained.uploads, config.aggregate == "secure"
    cost = None if mechanism is None else mechanism.vector_cost(coordinates, rounds)
    within = adversary(secure, trained.asked)
    note = " A user is in one sum of each epoch. Every round has keys of its own."
    if cost is not None and not everywhere:
        note += (
            " There is noise on the items that a user uploads, hers and pseudo-interacted ones; "
            "which they are is hidden by the sum alone, and has no epsilon."
        )
    releases = [
        sum_release(
            "sum of the gradients of a batch's users over the whole catalogue (of at least "
            f"{trained.smallest} nodes)",
            "the users of a batch",
            within,
            cost,
            rounds,
            all_items=everywhere,
            note=note,
        ),
        open_release(
            "number of users and number of their ratings"
            + (", and the sum of these, over all nodes" if config.center else ", over all nodes"),
            "the recommender"
            + (", and everybody through the training mean" if config.center else ""),
            1,
            within,
            "Exact.",
        ),
        _figures(trained, within),
        open_release(
            "which nodes are connected, and which answer in which round",
            "the recommender, and whoever runs the SuperLink",
            trained.rounds + trained.failed,
            "no protection",
        ),
        open_release(
            "ratings, embeddings, biases and keys of a node's users",
            "whoever runs the node",
            1,
            "no protection",
            "None of it leaves the node.",
        ),
    ]
    noisy = releases[0] if cost is not None else None
    return RatingLedger(tuple(releases), config.seed is not None, noisy, cost)


def adversary(secure: SecAggConfig, nodes: int) -> str:
    """Against whom a sum over so many nodes protects each of them."""
    plan = secure.plan(nodes, 1)
    colluding, gone = plan.corrupt_clients, plan.dropped_clients
    collude = f"at most {colluding} of {nodes} nodes collude with the recommender"
    if secure.malicious:
        return (
            f"malicious, {collude} and deviate as they like, if every node runs code that it did "
            f"not get from the recommender; up to {gone} may drop out of a round"
        )
    return f"semi-honest, {collude}; up to {gone} may drop out of a round"


def _figures(trained: Trained, within: str) -> Release:
    return open_release(
        "sums of squared errors of training, validation and test ratings, and numbers of these, "
        "over all nodes",
        "the recommender; of training and validation everybody, as the learning curve",
        trained.epochs + 1,
        within,
        "They come in the sums of gradients. Numbers are exact and the same in every round, so "
        "that of a node that is missing in one of them shows in the difference. The RMSE decides "
        "when training stops.",
    )
