"""One client's star computed node by node and rating by rating, to hold the batched model against.

Nothing is shared with ``recsys.models.star*`` but the names of the weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

SLOPE = 0.2


@dataclass(frozen=True, eq=False)
class Client:
    """ratings: (K,), less the mean.  items: (K, d).  neighbours: (N, d).  user: (d,)."""

    ratings: Tensor
    items: Tensor
    item_biases: Tensor
    user: Tensor
    user_bias: Tensor
    neighbours: Tensor
    weights: Mapping[str, Tensor]

    def without(self, j: int) -> "Client":
        """The star without its j-th item."""
        kept = [k for k in range(len(self.ratings)) if k != j]
        return replace(
            self,
            ratings=self.ratings[kept],
            items=self.items[kept],
            item_biases=self.item_biases[kept],
        )


@dataclass(frozen=True)
class Reference:
    """The settings of a model. gnn: None for biases alone."""

    gnn: str | None
    residual: bool
    bias: bool
    solve: bool
    carries: bool

    def errors(self, client: Client) -> Tensor:
        """Each rating less its prediction, one after the other: (K,)."""
        return torch.stack([self._error(client, j) for j in range(len(client.ratings))])

    def predicted(self, client: Client, item: Tensor, bias: Tensor) -> Tensor:
        """The rating of an item that is not on the star, less the mean."""
        if not self.solve:
            own = self._user(client, client if self.carries else None)
            return client.user_bias + bias + own @ self._item(client, item)
        prior = self._user(client, None)
        return self._solved(client, client, prior, item, bias)

    def _error(self, client: Client, j: int) -> Tensor:
        item, bias, rating = client.items[j], client.item_biases[j], client.ratings[j]
        if self.solve:
            prior = self._user(client, None)
            return rating - self._solved(client, client.without(j), prior, item, bias)
        heard = client.without(j) if self.carries else client
        own = self._user(heard, heard if self.carries else None)
        return rating - client.user_bias - bias - own @ self._item(client, item)

    def _solved(
        self, client: Client, seen: Client, prior: Tensor, item: Tensor, bias: Tensor
    ) -> Tensor:
        """After a ridge regression of the ratings of ``seen``, of items on the star of ``client``."""
        vectors = [self._item(client, row) for row in seen.items]
        right = [
            rating - b - prior @ vector
            for rating, b, vector in zip(seen.ratings, seen.item_biases, vectors, strict=True)
        ]
        one = [torch.ones(1, dtype=item.dtype)] if self.bias else []
        rows = [torch.cat([vector, *one]) for vector in vectors]
        new = self._item(client, item)
        target = torch.cat([new, *one])
        ridge = client.weights["ridge"].exp()
        penalties = torch.cat([ridge[:1].expand(len(item)), ridge[1:]])
        gram = torch.diag(penalties)
        total = torch.zeros_like(target)
        for row, value in zip(rows, right, strict=True):
            gram = gram + torch.outer(row, row)
            total = total + value * row
        return bias + prior @ new + torch.linalg.solve(gram, total) @ target

    def _user(self, client: Client, carrying: Client | None) -> Tensor:
        """The user's vector. carrying: whose ratings the edges carry."""
        carried = torch.zeros_like(client.ratings)
        if carrying is not None:
            carried = carrying.ratings - carrying.item_biases - carrying.user_bias
        heard = {"gcn": _gcn, "gat": _gat, "ggnn": _ggnn}[self.gnn or ""]
        own = heard(client, carried, self.residual)
        return own + client.user if self.residual else own

    def _item(self, client: Client, item: Tensor) -> Tensor:
        heard = {"gcn": _gcn_item, "gat": _gat_item, "ggnn": _ggnn_item}[self.gnn or ""]
        own = heard(client, item, self.residual)
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
        return sent / max(1, degree) ** 0.5
    own = client.user @ client.weights["convolution"]
    return own / (degree + 1) + sent / ((degree + 1) * 2) ** 0.5


def _gcn_item(client: Client, item: Tensor, one_way: bool) -> Tensor:
    if one_way:
        return torch.zeros_like(item)
    w = client.weights["convolution"]
    return item @ w / 2 + client.user @ w / (2 * (_degree(client) + 1)) ** 0.5


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
    sent = _sent(client, carried, "propagation") / max(1, _degree(client)) ** 0.5
    return _gru(client.weights, sent, client.user)


def _ggnn_item(client: Client, item: Tensor, one_way: bool) -> Tensor:
    sent = client.user @ client.weights["propagation"] / max(1, _degree(client)) ** 0.5
    return _gru(client.weights, sent * (0 if one_way else 1), item)


def _gru(weights: Mapping[str, Tensor], a: Tensor, h: Tensor) -> Tensor:
    wz, wr, w = weights["gates_of_input"].chunk(3, dim=1)
    bz, br, b = weights["gate_biases"].chunk(3)
    uz, ur = weights["gates_of_state"].chunk(2, dim=1)
    z = torch.sigmoid(a @ wz + h @ uz + bz)
    r = torch.sigmoid(a @ wr + h @ ur + br)
    new = torch.tanh(a @ w + (r * h) @ weights["reset_state"] + b)
    return (1 - z) * h + z * new
