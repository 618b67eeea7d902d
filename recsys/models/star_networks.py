"""The networks on a star: what the user hears from her items and neighbours, and they from her.

Source: graph convolution by Kipf and Welling (ICLR 2017), equation 2; graph attention by Velickovic
    et al. (ICLR 2018), equations 1 to 4, one head; gated graph network by Li et al. (ICLR 2016),
    equations 1 to 6, one step of propagation.  FedGNN (Wu et al., arXiv:2102.04925) takes any.
Model: as ``recsys.models.star``.
Differs: one layer and no activation of its output, which is compared with embeddings. Neighbouring
    users send through weights of their own, zero at first: they join a network that is trained
    already, which their arrival leaves as it was. An edge may carry a rating, by weights of their
    own too. Sums are divided by the root of the degree, also in the gated network, whose gates a
    plain sum would saturate for busy users.
    A network whose output is added to the embeddings is ``one_way``: items are heard and hear
    nothing. What an item hears of the user is the same for all of them; multiplied with her own
    vector it is a second bias of hers, and one that grows with the square of her embedding, so that
    steps diverge. One-way convolution has no self-loops, as the sum takes their place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from recsys.errors import DivergenceError
from recsys.models.star import Groups, Star, client_linear

Weights = Mapping[str, Tensor]
Shapes = dict[str, tuple[int, ...]]

NEIGHBOUR_WEIGHTS = "neighbours"
"""Name of the matrix that neighbours send through, zero at the start."""

RATING_WEIGHTS = "ratings"
"""Name of the matrix that carried ratings send through."""

_SLOPE = 0.2  # of the paper on graph attention

# Of double precision's 52 bits, a difference this much smaller than its terms keeps 22.
_LEAST_LEFT = 2.0**-30


class Network(Protocol):
    """A network by its shared weights, of which each client has her own: (c, *shape)."""

    def shapes(self, dim: int) -> Shapes:
        """Its own weights by name."""

    def users(self, weights: Weights, star: Star) -> Tensor:
        """What each user becomes: (n, d), n rows as ``Star.around`` has."""

    def items(self, weights: Weights, rows: Tensor, groups: Groups, star: Star) -> Tensor:
        """What items (r, d) become on the stars of their owners by ``groups``: (r, d)."""


def _messages(weights: Weights, star: Star, name: str) -> Tensor:
    """What arrives at each user through weights ``name``, over the root of the degree: (n, d)."""
    scale = star.degrees.clamp(min=1).rsqrt()
    heard = client_linear(star.around(star.items) * scale, weights[name], star.rows)
    if star.carried is not None:
        told = star.around(star.carried.unsqueeze(1) * star.items) * scale
        heard = heard + client_linear(told, weights[RATING_WEIGHTS], star.rows)
    if NEIGHBOUR_WEIGHTS in weights:
        met = star.spread(star.met.sum(star.neighbours)) * scale
        heard = heard + client_linear(met, weights[NEIGHBOUR_WEIGHTS], star.rows)
    return heard


def _size(star: Star) -> Tensor:
    """How many items and neighbours a user has, at least 1: (c, 1)."""
    return (star.rated.sizes + star.met.sizes).clamp(min=1).unsqueeze(1)


@dataclass(frozen=True)
class GCN:
    """D^-1/2 A D^-1/2 X W, with self-loops unless it is one-way."""

    one_way: bool

    def shapes(self, dim: int) -> Shapes:
        """See ``Network.shapes``."""
        return {"convolution": (dim, dim)}

    def users(self, weights: Weights, star: Star) -> Tensor:
        """See ``Network.users``."""
        heard = _messages(weights, star, "convolution")
        if self.one_way:
            return heard
        # A leaf has degree 2 with its loop, and the user one more than without hers.
        degrees = star.degrees
        own = client_linear(star.users, weights["convolution"], star.each)
        scale = (degrees.clamp(min=1) / (2 * (degrees + 1))).sqrt()
        return heard * scale + star.spread(own) / (degrees + 1)

    def items(self, weights: Weights, rows: Tensor, groups: Groups, star: Star) -> Tensor:
        """See ``Network.items``."""
        if self.one_way:
            return torch.zeros_like(rows)
        told = client_linear(star.users, weights["convolution"], star.each)
        told = told * (2 * (_size(star) + 1)).rsqrt()
        return told[groups.owners] + client_linear(rows, weights["convolution"], groups) / 2


@dataclass(frozen=True)
class GAT:
    """Softmax over a star, the user herself among it; of an item, over itself and the user."""

    one_way: bool

    def shapes(self, dim: int) -> Shapes:
        """See ``Network.shapes``."""
        return {"attention": (dim, dim), "hears": (dim,), "is_heard": (dim,)}

    def users(self, weights: Weights, star: Star) -> Tensor:
        """See ``Network.users``."""
        matrix, of_user, of_leaf = (weights[n] for n in ("attention", "hears", "is_heard"))
        users = client_linear(star.users, matrix, star.each)
        items = client_linear(star.items, matrix, star.rated)
        listens = (users * of_user).sum(1)

        def score(z: Tensor, groups: Groups) -> Tensor:
            heard = (z * of_leaf[groups.owners]).sum(1)
            return leaky_relu(listens[groups.owners] + heard, _SLOPE)

        own, scores = score(users, star.each), score(items, star.rated)
        top = own.detach().scatter_reduce(0, star.rated.owners, scores.detach(), "amax")
        met = None
        if NEIGHBOUR_WEIGHTS in weights:
            met = client_linear(star.neighbours, weights[NEIGHBOUR_WEIGHTS], star.met)
            met_scores = score(met, star.met)
            top = top.scatter_reduce(0, star.met.owners, met_scores.detach(), "amax")
        # A common factor of all weights changes nothing, and keeps them in range.
        own_weight = (own - top).exp().unsqueeze(1)
        weight = (scores - top[star.rated.owners]).exp().unsqueeze(1)
        values = items
        if star.carried is not None:
            told = star.carried.unsqueeze(1) * star.items
            values = values + client_linear(told, weights[RATING_WEIGHTS], star.rated)
        if met is None:
            total, share = star.around(weight * values), star.around(weight)
        else:
            met_weight = (met_scores - top[star.met.owners]).exp().unsqueeze(1)
            total = star.around(weight * values, met_weight * met)
            share = star.around(weight, met_weight)
        share = share + star.spread(own_weight)
        if star.leave_out:
            _check_left(share, weight)
        return (total + star.spread(own_weight * users)) / share

    def items(self, weights: Weights, rows: Tensor, groups: Groups, star: Star) -> Tensor:
        """See ``Network.items``."""
        matrix, of_item, of_leaf = (weights[n] for n in ("attention", "hears", "is_heard"))
        items = client_linear(rows, matrix, groups)
        users = client_linear(self._heard(star), matrix, star.each)
        owners = groups.owners
        listens = (items * of_item[owners]).sum(1)
        own = leaky_relu(listens + (items * of_leaf[owners]).sum(1), _SLOPE)
        other = leaky_relu(listens + (users * of_leaf).sum(1)[owners], _SLOPE)
        share = torch.sigmoid(own - other).unsqueeze(1)  # a softmax over two
        return share * items + (1 - share) * users[owners]

    def _heard(self, star: Star) -> Tensor:
        return torch.zeros_like(star.users) if self.one_way else star.users


def _check_left(share: Tensor, weight: Tensor) -> None:
    """DivergenceError where an item had so much attention that nothing is known of the others."""
    if share.numel() and bool((share < _LEAST_LEFT * (share + weight)).any()):
        raise DivergenceError(
            "attention has gone to single items, and little of it is left without them",
            remedy="lower the learning rate, or leave rating_edges out",
        )


@dataclass(frozen=True)
class GGNN:
    """A gated recurrent unit, whose input is what arrives and whose state is the embedding."""

    one_way: bool

    def shapes(self, dim: int) -> Shapes:
        """See ``Network.shapes``."""
        return {
            "propagation": (dim, dim),
            "gates_of_input": (dim, 3 * dim),
            "gates_of_state": (dim, 2 * dim),
            "reset_state": (dim, dim),
            "gate_biases": (3 * dim,),
        }

    def users(self, weights: Weights, star: Star) -> Tensor:
        """See ``Network.users``."""
        heard = _messages(weights, star, "propagation")
        return _gated(weights, heard, star.spread(star.users), star.rows)

    def items(self, weights: Weights, rows: Tensor, groups: Groups, star: Star) -> Tensor:
        """See ``Network.items``."""
        told = torch.zeros_like(rows)
        if not self.one_way:
            told = client_linear(star.users, weights["propagation"], star.each)
            told = (told * _size(star).rsqrt())[groups.owners]
        return _gated(weights, told, rows, groups)


def _gated(weights: Weights, heard: Tensor, state: Tensor, groups: Groups) -> Tensor:
    dim = state.shape[1]
    heard = client_linear(heard, weights["gates_of_input"], groups)
    heard = heard + weights["gate_biases"][groups.owners]
    kept = client_linear(state, weights["gates_of_state"], groups)
    update = torch.sigmoid(heard[:, :dim] + kept[:, :dim])
    reset = torch.sigmoid(heard[:, dim : 2 * dim] + kept[:, dim:])
    new = heard[:, 2 * dim :] + client_linear(reset * state, weights["reset_state"], groups)
    return (1 - update) * state + update * torch.tanh(new)


_NETWORKS: dict[str, type[GCN] | type[GAT] | type[GGNN]] = {"gcn": GCN, "gat": GAT, "ggnn": GGNN}


def network_of(gnn: str, *, one_way: bool) -> Network:
    """The network that ``RatingConfig.gnn`` names."""
    return _NETWORKS[gnn](one_way)
