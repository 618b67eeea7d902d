"""Ratings predicted on a user's star, and each client's gradient by all that she computes with.

    rating = mean + user's bias + item's bias + user's representation * item's representation

A representation is what the network makes of a node, added to the node's embedding where the model
is residual. The user's own embedding and bias never leave her device. There are two ways to them:

``solve``: they are the best fit to her ratings, given everything else (``star_solve``), and each
rating is predicted by a fit to her other ones. The network hears nothing of the embedding, which
comes after it.
``steps``: they are parameters, and move against their gradient, as in the paper.

Source: FedGNN (Wu et al., arXiv:2102.04925), section 3.2: representations by a network on the local
    graph, ratings by their product.
Model: as ``recsys.models.star``.
Differs: biases, the sum with the embeddings, and ``solve`` are ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from recsys.models.star import REAL, Groups, Star
from recsys.models.star_networks import (
    NEIGHBOUR_WEIGHTS,
    RATING_WEIGHTS,
    Network,
    Shapes,
    network_of,
)
from recsys.models.star_solve import Fit, fit
from recsys.ratings.config import RatingConfig

RIDGE_WEIGHTS = "ridge"
"""Name of the logarithms of the ridges, of the embedding and of the bias."""

RIDGE = (4.0, 2.0)
"""Where the ridges of an embedding and of a bias start; without embeddings the latter stays."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """Everything that c clients compute with, one beside the other.

    ratings: (e,), less the mean.  items: (e, d) and item_biases: (e,), of the rated items by
    ``rated``.  users: (c, d) and user_biases: (c,).  neighbours: (m, d), by ``met``.
    weights: by name, each (c, *shape) and equal for all clients.
    item_masks: (e, d) and user_masks: (c, d), factors of dropout on what the network reads.
    """

    ratings: Tensor = field(repr=False)
    rated: Groups
    items: Tensor = field(repr=False)
    item_biases: Tensor = field(repr=False)
    users: Tensor = field(repr=False)
    user_biases: Tensor = field(repr=False)
    neighbours: Tensor = field(repr=False)
    met: Groups
    weights: Mapping[str, Tensor] = field(repr=False)
    item_masks: Tensor | None = field(default=None, repr=False)
    user_masks: Tensor | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Represented:
    """vectors: (c, d) and biases: (c,) of users, all of whose ratings were looked at."""

    vectors: Tensor = field(repr=False)
    biases: Tensor = field(repr=False)


@dataclass(frozen=True, eq=False)
class ClientGradients:
    """Of each client's loss by her own inputs, of the shapes of ``Inputs``; errors: (e,)."""

    items: Tensor = field(repr=False)
    item_biases: Tensor = field(repr=False)
    users: Tensor = field(repr=False)
    user_biases: Tensor = field(repr=False)
    neighbours: Tensor = field(repr=False)
    weights: Mapping[str, Tensor] = field(repr=False)
    errors: Tensor = field(repr=False)


@dataclass(frozen=True)
class StarModel:
    """The prediction rule. network: None for biases alone.  solve: False for ``steps``.

    met: whether neighbours may join.  carries: whether edges carry ratings, with ``steps`` alone.
    """

    network: Network | None
    dim: int
    bias: bool
    residual: bool
    solve: bool
    carries: bool
    met: bool

    @classmethod
    def of(cls, config: RatingConfig) -> "StarModel":
        """The model of a configuration."""
        network = network_of(config.gnn, one_way=config.residual) if config.dim else None
        return cls(
            network=network,
            dim=config.dim,
            bias=config.bias,
            residual=config.residual,
            solve=config.user_fit == "solve",
            carries=config.rating_edges and config.user_fit == "steps",
            met=config.neighbours != "none",
        )

    def shapes(self) -> Shapes:
        """All shared weights by name, in the order of a flat vector."""
        if self.network is None:
            return {}
        shapes = self.network.shapes(self.dim)
        square = (self.dim, self.dim)
        if self.carries:
            shapes[RATING_WEIGHTS] = square
        if self.solve:
            shapes[RIDGE_WEIGHTS] = (2 if self.bias else 1,)
        if self.met:
            shapes[NEIGHBOUR_WEIGHTS] = square
        return shapes

    def represent(self, inputs: Inputs) -> Represented:
        """Users by their whole stars."""
        if self.solve:
            prior = self._users(inputs, self._star(inputs))
            found = self._fit(inputs, prior).coefficients
            vectors = prior + found[:, : self.dim]
            biases = found[:, -1] if self.bias else torch.zeros_like(inputs.user_biases)
            return Represented(vectors, biases)
        return Represented(self._users(inputs, self._star(inputs)), inputs.user_biases)

    def rate(
        self, inputs: Inputs, users: Represented, items: Tensor, biases: Tensor, groups: Groups
    ) -> Tensor:
        """Ratings less the mean of items (r, d) that the clients, by ``groups``, did not rate."""
        vectors = self._items(inputs, items, items, groups)
        owners = groups.owners
        return users.biases[owners] + biases + (users.vectors[owners] * vectors).sum(1)

    def errors(self, inputs: Inputs) -> Tensor:
        """Each rating less its prediction, in which it had no part: (e,).

        With ``steps`` and edges that carry nothing, the item itself is on the star.
        """
        if self.solve:
            return self._fit(inputs, self._users(inputs, self._star(inputs))).errors()
        owners = inputs.rated.owners
        rest = inputs.ratings - inputs.item_biases - inputs.user_biases[owners]
        carried = rest if self.carries else None
        star = self._star(inputs, carried, leave_out=self.carries)
        vectors = self._users(inputs, star)
        if not self.carries:
            vectors = vectors[owners]
        return rest - (vectors * self.rated(inputs)).sum(1)

    def _star(
        self, inputs: Inputs, carried: Tensor | None = None, *, leave_out: bool = False
    ) -> Star:
        items, users = inputs.items, inputs.users
        if inputs.item_masks is not None:
            items = items * inputs.item_masks
        if inputs.user_masks is not None:
            users = users * inputs.user_masks
        if self.carries and carried is None:
            owners = inputs.rated.owners
            carried = inputs.ratings - inputs.item_biases - inputs.user_biases[owners]
        return Star(users, items, inputs.rated, inputs.neighbours, inputs.met, carried, leave_out)

    def _users(self, inputs: Inputs, star: Star) -> Tensor:
        """Vectors of users, (n, d); with ``solve`` what they are before the fit."""
        if self.network is None:
            return inputs.users
        vectors = self.network.users(inputs.weights, star)
        return vectors + star.spread(inputs.users) if self.residual else vectors

    def rated(self, inputs: Inputs) -> Tensor:
        """Vectors of the rated items, (e, d)."""
        rows = inputs.items
        heard = rows if inputs.item_masks is None else rows * inputs.item_masks
        return self._items(inputs, rows, heard, inputs.rated)

    def _items(self, inputs: Inputs, rows: Tensor, heard: Tensor, groups: Groups) -> Tensor:
        """Vectors of items (r, d). heard: the rows as the network reads them."""
        if self.network is None:
            return rows
        vectors = self.network.items(inputs.weights, heard, groups, self._star(inputs))
        return vectors + rows if self.residual else vectors

    def _fit(self, inputs: Inputs, prior: Tensor) -> Fit:
        owners = inputs.rated.owners
        design = self.rated(inputs)
        targets = inputs.ratings - inputs.item_biases - (prior[owners] * design).sum(1)
        if self.bias:
            design = torch.cat([design, torch.ones_like(targets).unsqueeze(1)], dim=1)
        return fit(design, targets, self._ridge(inputs), inputs.rated)

    def _ridge(self, inputs: Inputs) -> Tensor:
        if self.network is None:
            return inputs.user_biases.new_full((inputs.users.shape[0], 1), RIDGE[1])
        ridge = inputs.weights[RIDGE_WEIGHTS].exp()
        return torch.cat([ridge[:, :1].expand(-1, self.dim), ridge[:, 1:]], dim=1)


def client_gradients(
    model: StarModel, inputs: Inputs, *, absolute: bool, mean: bool
) -> ClientGradients:
    """The gradient of every client's own loss by every one of her inputs.

    The loss is half the squared error, or the absolute one, summed over her items, or their mean.
    """
    names = ("items", "item_biases", "users", "user_biases", "neighbours")
    leaves = {name: getattr(inputs, name).detach().requires_grad_() for name in names}
    weights = {name: w.detach().requires_grad_() for name, w in inputs.weights.items()}
    errors = model.errors(replace(inputs, **leaves, weights=weights))
    losses = errors.abs() if absolute else errors**2 / 2
    if mean:
        losses = losses / inputs.rated.sizes[inputs.rated.owners]
    everything = [*leaves.values(), *weights.values()]
    # A loss is the sum of the clients', and each client has inputs of her own.
    found = torch.autograd.grad(losses.sum(), everything, allow_unused=True)
    gradients = [
        torch.zeros(x.shape, dtype=REAL) if g is None else g
        for x, g in zip(everything, found, strict=True)
    ]
    own = dict(zip(names, gradients, strict=False))
    shared = dict(zip(weights, gradients[len(names) :], strict=True))
    return ClientGradients(**own, weights=shared, errors=errors.detach())
