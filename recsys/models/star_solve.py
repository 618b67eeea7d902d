"""A user's own embedding and bias as the best fit to her ratings, and what each rating is without.

The device solves a ridge regression of her ratings on the representations of her items. Training
compares each rating with the prediction of a fit to all her other ratings, which follows from the
one fit: so no rating is predicted by a vector that has seen it.

Source: Koren, Bell and Volinsky, "Matrix factorization techniques for recommender systems"
    (Computer 42(8), 2009), equation 2, solved for one user; leave-one-out residuals of a linear
    smoother by Allen, "The relationship between variable selection and data augmentation"
    (Technometrics 16(1), 1974): r / (1 - h), with h the leverage.
Model: a local computation of each client.
Error: that of double precision; the leverage of a rating is below 1 because ridges are positive.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from recsys.errors import DivergenceError
from recsys.models.star import Groups, segment_product


class _Gram(torch.autograd.Function):
    """X^T X of each client's rows: (n, p) to (c, p, p)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: Groups) -> Tensor:
        ctx.save_for_backward(x)
        ctx.groups = groups
        return segment_product(x, x, groups)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, None]:
        (g,) = outputs
        (x,) = ctx.saved_tensors
        return segment_rows(x, g + g.transpose(1, 2), ctx.groups), None


class _Rows(torch.autograd.Function):
    """x[i] @ matrices[owner of i], each client with a matrix of her own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrices: Tensor, groups: Groups) -> Tensor:
        ctx.save_for_backward(x, matrices)
        ctx.groups = groups
        return segment_rows(x, matrices, groups)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, Tensor, None]:
        (g,) = outputs
        x, matrices = ctx.saved_tensors
        back = segment_rows(g, matrices.transpose(1, 2), ctx.groups)
        return back, segment_product(x, g, ctx.groups), None


def segment_rows(x: Tensor, matrices: Tensor, groups: Groups) -> Tensor:
    """x (n, i) times the matrix (c, i, o) of each row's owner: (n, o)."""
    out = x.new_empty((x.shape[0], matrices.shape[2]))
    for matrix, (first, end) in zip(matrices, groups.cuts, strict=True):
        torch.mm(x[first:end], matrix, out=out[first:end])
    return out


@dataclass(frozen=True, eq=False)
class Fit:
    """Of each client, the coefficients (c, p) that minimise her penalised squared errors."""

    coefficients: Tensor
    _design: Tensor = field(repr=False)
    _targets: Tensor = field(repr=False)
    _root: Tensor = field(repr=False)
    _groups: Groups = field(repr=False)

    def errors(self) -> Tensor:
        """Of each row, its target less the prediction of a fit to the client's other rows: (n,)."""
        x, groups = self._design, self._groups
        inverse = torch.cholesky_inverse(self._root)
        influence: Tensor = _Rows.apply(x, inverse, groups)  # type: ignore[no-untyped-call]
        leverage = (influence * x).sum(1)
        return (self._targets - (self.coefficients[groups.owners] * x).sum(1)) / (1 - leverage)


def fit(design: Tensor, targets: Tensor, ridge: Tensor, groups: Groups) -> Fit:
    """Ridge regressions of the clients' targets (n,) on their rows of ``design`` (n, p).

    Each minimises |targets - design b|^2 + sum of ridge * b^2.  ridge: (c, p), positive.
    Raises DivergenceError where the design is so large that the ridge is lost beside it.
    """
    gram: Tensor = _Gram.apply(design, groups)  # type: ignore[no-untyped-call]
    root, failed = torch.linalg.cholesky_ex(gram + torch.diag_embed(ridge))
    if failed.any():
        raise DivergenceError(
            "embeddings have grown too large for a user's equations to be solved",
            remedy="lower the learning rate, or raise the penalty",
        )
    right = groups.sum(design * targets.unsqueeze(1))
    coefficients = torch.cholesky_solve(right.unsqueeze(2), root).squeeze(2)
    return Fit(coefficients, design, targets, root, groups)
