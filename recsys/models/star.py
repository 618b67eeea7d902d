"""Star graphs of many users side by side: flat edges, sums around each user, weights by client.

A user's graph is a star: herself, the K items that she rated, and the neighbours whose embeddings
she was given. The stars of a round lie one behind the other, without padding. Every client computes
with weights of her own, all equal, so that one backward pass gives each client's gradient.

Source: FedGNN (Wu et al., arXiv:2102.04925), section 3.2, "local subgraph"; the neighbouring users
    are connected with the user, and not with the items.
Model: plaintext arithmetic of each client on her own star; what is computed for one client does not
    depend on the others of the round.
"""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

REAL = torch.float64
"""Double precision: gradients are exact to what the grid keeps of them."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows of c clients side by side: those of client k are starts[k] to starts[k + 1].

    starts: int64 (c + 1,), from 0 and never falling.
    """

    starts: NDArray[np.int64]

    @classmethod
    def single(cls, clients: int) -> "Groups":
        """One row for each client."""
        return cls(np.arange(clients + 1))

    @cached_property
    def sizes(self) -> Tensor:
        """Rows of each client, (c,)."""
        return torch.from_numpy(np.diff(self.starts)).to(REAL)

    @cached_property
    def owners(self) -> Tensor:
        """int64 (n,), the client of each row."""
        clients = self.starts.size - 1
        return torch.from_numpy(np.repeat(np.arange(clients), np.diff(self.starts)))

    @cached_property
    def cuts(self) -> list[tuple[int, int]]:
        """First row and end of each client."""
        ends = self.starts.tolist()
        return list(pairwise(ends))

    @property
    def one_each(self) -> bool:
        """Whether every client has one row."""
        return bool((np.diff(self.starts) == 1).all())

    def sum(self, x: Tensor) -> Tensor:
        """Sum of each client's rows: (n, k) to (c, k)."""
        total = torch.zeros((self.starts.size - 1, *x.shape[1:]), dtype=x.dtype)
        return total.index_add(0, self.owners, x)


@dataclass(frozen=True, eq=False)
class Star:
    """The stars of c clients, as a network reads them.

    users: (c, d).  items: (e, d), the rated items of each client by ``rated``.
    neighbours: (m, d), by ``met``.  carried: (e,), what the edge to an item carries of its rating;
    None where edges carry nothing.
    leave_out: sums around a user come once for each of her items, without that item.
    """

    users: Tensor = field(repr=False)
    items: Tensor = field(repr=False)
    rated: Groups
    neighbours: Tensor = field(repr=False)
    met: Groups
    carried: Tensor | None = field(default=None, repr=False)
    leave_out: bool = False

    @cached_property
    def each(self) -> Groups:
        """One row for each client."""
        return Groups.single(self.users.shape[0])

    @property
    def rows(self) -> Groups:
        """Whose the rows of ``around`` and ``spread`` are: n = e if ``leave_out``, else n = c."""
        return self.rated if self.leave_out else self.each

    def around(self, items: Tensor, neighbours: Tensor | None = None) -> Tensor:
        """Sums over each star of (e, k) and (m, k): (n, k)."""
        total = self.rated.sum(items)
        if neighbours is not None:
            total = total + self.met.sum(neighbours)
        return self.spread(total) - items if self.leave_out else total

    def spread(self, x: Tensor) -> Tensor:
        """A client's row for each of her rows: (c, ...) to (n, ...)."""
        return x[self.rated.owners] if self.leave_out else x

    @property
    def degrees(self) -> Tensor:
        """How many rows ``around`` adds up, (n, 1)."""
        others = self.spread(self.rated.sizes + self.met.sizes)
        return (others - int(self.leave_out)).unsqueeze(1)


class _ClientLinear(torch.autograd.Function):
    """x[i] @ weights[owner of i], where all clients' weights are equal.

    One product serves all rows; the gradient of a client's weights is X^T G over her rows.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: Tensor, groups: Groups) -> Tensor:
        ctx.save_for_backward(x, weights)
        ctx.groups = groups
        return x @ weights[0]

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (g,) = outputs
        x, weights = ctx.saved_tensors
        by_client = None
        if ctx.needs_input_grad[1]:
            by_client = segment_product(x, g, ctx.groups)
        return g @ weights[0].T if ctx.needs_input_grad[0] else None, by_client, None


def client_linear(x: Tensor, weights: Tensor, groups: Groups) -> Tensor:
    """x (n, i) times each client's own weights (c, i, o), which are equal for all: (n, o)."""
    product: Tensor = _ClientLinear.apply(x, weights, groups)  # type: ignore[no-untyped-call]
    return product


def segment_product(x: Tensor, y: Tensor, groups: Groups) -> Tensor:
    """X^T Y over each client's rows: (n, i) and (n, o) to (c, i, o)."""
    if groups.one_each:
        return x.unsqueeze(2) * y.unsqueeze(1)
    out = x.new_empty((groups.starts.size - 1, x.shape[1], y.shape[1]))
    for product, (first, end) in zip(out, groups.cuts, strict=True):
        torch.mm(x[first:end].T, y[first:end], out=product)
    return out
