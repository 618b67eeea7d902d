"""One client's star computed node by node and rating by rating, to hold the batched model against.

Nothing is shared with ``recsys.models.star*`` but the names of the weights.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

SLOPE = 0.2


@dataclass(frozen=True, eq=False)
class Client:
    """ratings: (K,), less the mean.  items: (K, d).  neighbours: (N, d).  user: (d,).

    item_masks: (K, d) and user_mask: (d,), what dropout leaves of them where the network reads.
    """

    ratings: Tensor
    items: Tensor
    item_biases: Tensor
    user: Tensor
    user_bias: Tensor
    neighbours: Tensor
    weights: Mapping[str, Tensor]
    item_masks: Tensor
    user_mask: Tensor

    def without(self, j: int) -> "Client":
        """The star without its j-th item."""
        kept = [k for k in range(len(self.ratings)) if k != j]
        return replace(
            self,
            ratings=self.ratings[kept],
            items=self.items[kept],
            item_biases=self.item_biases[kept],
            item_masks=self.item_masks[kept],
        )

    def heard(self) -> "Client":
        """The star as the network reads it."""
        items, user = self.items * self.item_masks, self.user * self.user_mask
        return replace(self, items=items, user=user)


@dataclass(frozen=True)
class Reference:
    """The settings of a model. gnn: None for biases alone, whose ridge is ``ridge``."""

    gnn: str | None
    residual: bool
    bias: bool
    solve: bool
    carries: bool
    ridge: float

    def errors(self, client: Client) -> Tensor:
        """Each rating less its prediction, one after the other: (K,)."""
        return torch.stack([self._error(client, j) for j in range(len(client.ratings))])

    def seen_errors(self, client: Client) -> Tensor:
        """The same after a fit to all ratings, with the one that is predicted: a leaky twin."""
        prior = self._user(client, None)
        rated = zip(self._rated(client), client.item_biases, strict=True)
        seen = [self._solved(client, client, prior, vector, bias) for vector, bias in rated]
        return client.ratings - torch.stack(seen)

    def predicted(self, client: Client, item: Tensor, bias: Tensor) -> Tensor:
        """The rating of an item that is not on the star, less the mean."""
        vector = self._item(client, item, torch.ones_like(item))
        if not self.solve:
            own = self._user(client, client if self.carries else None)
            return client.user_bias + bias + own @ vector
        return self._solved(client, client, self._user(client, None), vector, bias)

    def _error(self, client: Client, j: int) -> Tensor:
        bias, rating = client.item_biases[j], client.ratings[j]
        vector = self._rated(client)[j]
        if self.solve:
            prior = self._user(client, None)
            return rating - self._solved(client, client.without(j), prior, vector, bias)
        heard = client.without(j) if self.carries else client
        own = self._user(heard, heard if self.carries else None)
        return rating - client.user_bias - bias - own @ vector

    def _solved(
        self, client: Client, seen: Client, prior: Tensor, new: Tensor, bias: Tensor
    ) -> Tensor:
        """After a ridge regression of the ratings of ``seen``; new: the vector of the item."""
        # Items hear of the whole star, also where a rating is left out.
        vectors = [
            self._item(client, row, mask)
            for row, mask in zip(seen.items, seen.item_masks, strict=True)
        ]
        right = [
            rating - b - prior @ vector
            for rating, b, vector in zip(seen.ratings, seen.item_biases, vectors, strict=True)
        ]
        one = [torch.ones(1, dtype=new.dtype)] if self.bias else []
        rows = [torch.cat([vector, *one]) for vector in vectors]
        target = torch.cat([new, *one])
        gram = torch.diag(self._penalties(client))
        total = torch.zeros_like(target)
        for row, value in zip(rows, right, strict=True):
            gram = gram + torch.outer(row, row)
            total = total + value * row
        found: Tensor = torch.linalg.solve(gram, total)
        return bias + prior @ new + found @ target

    def _penalties(self, client: Client) -> Tensor:
        if self.gnn is None:
            return client.ratings.new_full((int(self.bias),), self.ridge)
        ridge = client.weights["ridge"].exp()
        return torch.cat([ridge[:1].expand(client.user.shape[0]), ridge[1:]])

    def _user(self, client: Client, carrying: Client | None) -> Tensor:
        """The user's vector. carrying: whose ratings the edges carry."""
        if self.gnn is None:
            return client.user
        carried = torch.zeros_like(client.ratings)
        if carrying is not None:
            carried = carrying.ratings - carrying.item_biases - carrying.user_bias
        network = {"gcn": _gcn, "gat": _gat, "ggnn": _ggnn}[self.gnn]
        own = network(client.heard(), carried, self.residual)
        return own + client.user if self.residual else own

    def _rated(self, client: Client) -> list[Tensor]:
        """The vectors of all rated items."""
        rated = zip(client.items, client.item_masks, strict=True)
        return [self._item(client, item, mask) for item, mask in rated]

    def _item(self, client: Client, item: Tensor, mask: Tensor) -> Tensor:
        if self.gnn is None:
            return item
        network = {"gcn": _gcn_item, "gat": _gat_item, "ggnn": _ggnn_item}[self.gnn]
        own = network(client.heard(), item * mask, self.residual)
        return own + item if self.residual else own


def _degree(client: Client) -> int:
    return len(client.items) + len(client.neighbours)


def _sent(client: Client, carried: Tensor, name: str) -> Tensor:
    """The sum of what items and neighbours say."""
    weights = client.weights
    total = torch.zeros_like(client.user)
    for item, value in zip(client.items, carried, strict=True):
        total = total + item @ weights[name]
        if "ratings" in weights:
            total = total + value * (item @ weights["ratings"])
    for neighbour in client.neighbours:
        total = total + neighbour @ weights["neighbours"]
    return total


def _gcn(client: Client, carried: Tensor, one_way: bool) -> Tensor:
    sent, degree = _sent(client, carried, "convolution"), _degree(client)
    if one_way:
        return sent / math.sqrt(max(1, degree))
    own = client.user @ client.weights["convolution"]
    return own / (degree + 1) + sent / math.sqrt((degree + 1) * 2)


def _gcn_item(client: Client, item: Tensor, one_way: bool) -> Tensor:
    if one_way:
        return torch.zeros_like(item)
    w = client.weights["convolution"]
    return item @ w / 2 + client.user @ w / math.sqrt(2 * (_degree(client) + 1))


def _gat(client: Client, carried: Tensor, one_way: bool) -> Tensor:
    weights = client.weights
    user = client.user @ weights["attention"]
    said, heard = [user], [user]
    for item, value in zip(client.items, carried, strict=True):
        said.append(item @ weights["attention"])
        told = value * (item @ weights["ratings"]) if "ratings" in weights else 0.0
        heard.append(said[-1] + told)
    for neighbour in client.neighbours:
        said.append(neighbour @ weights["neighbours"])
        heard.append(said[-1])
    return _attended(client, user, said, heard)


def _gat_item(client: Client, item: Tensor, one_way: bool) -> Tensor:
    own = item @ client.weights["attention"]
    user = client.user @ client.weights["attention"] * (0 if one_way else 1)
    return _attended(client, own, [own, user], [own, user])


def _attended(client: Client, node: Tensor, said: list[Tensor], heard: list[Tensor]) -> Tensor:
    both = torch.cat([client.weights["hears"], client.weights["is_heard"]])
    scores = torch.stack([torch.cat([node, other]) @ both for other in said])
    share = torch.softmax(torch.where(scores > 0, scores, SLOPE * scores), dim=0)
    return share @ torch.stack(heard)


def _ggnn(client: Client, carried: Tensor, one_way: bool) -> Tensor:
    sent = _sent(client, carried, "propagation") / math.sqrt(max(1, _degree(client)))
    return _gru(client.weights, sent, client.user)


def _ggnn_item(client: Client, item: Tensor, one_way: bool) -> Tensor:
    sent = client.user @ client.weights["propagation"] / math.sqrt(max(1, _degree(client)))
    return _gru(client.weights, sent * (0 if one_way else 1), item)


def _gru(weights: Mapping[str, Tensor], a: Tensor, h: Tensor) -> Tensor:
    wz, wr, w = weights["gates_of_input"].chunk(3, dim=1)
    bz, br, b = weights["gate_biases"].chunk(3)
    uz, ur = weights["gates_of_state"].chunk(2, dim=1)
    z = torch.sigmoid(a @ wz + h @ uz + bz)
    r = torch.sigmoid(a @ wr + h @ ur + br)
    new = torch.tanh(a @ w + (r * h) @ weights["reset_state"] + b)
    return (1 - z) * h + z * new
