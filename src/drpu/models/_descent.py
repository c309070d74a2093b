"""Scores that are linear in features, fitted with full-batch gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from drpu._samples import n_rows, take_rows
from drpu._typing import FloatArray, IntArray, Rows
from drpu.core.losses import Sigmoid, Squared, get_loss
from drpu.core.objective import PUObjective, ShiftedRisk
from drpu.models.scaling import Scaling

__all__ = ["Design", "choose_ridge", "descend"]

MOST_STEPS = 300
FOLDS = 5
MOST_TO_FOLD = 10_000  # with more rows a single split replaces the folds


@dataclass(frozen=True, slots=True)
class Design:
    """Features and weights of rows: a dense matrix, or sparse rows with a scaling applied on the fly."""

    rows: Rows
    weight: FloatArray | None
    scaling: Scaling | None = None
    factor: float = 1.0

    def __len__(self) -> int:
        return n_rows(self.rows)

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.rows.shape[1])

    def times(self, w: FloatArray) -> FloatArray:
        """Scores of all rows."""
        if self.scaling is None:
            return np.asarray(self.rows @ w)
        return self.factor * self.scaling.times(self.rows, w[:, None])[:, 0]

    def adjoint(self, v: FloatArray) -> FloatArray:
        """Sum of the features of all rows, each multiplied by its entry of ``v``."""
        if self.scaling is None:
            return np.asarray(self.rows.T @ v)
        centred = np.asarray(self.rows.T @ v) - self.scaling.shift * v.sum()
        return np.asarray(self.factor * centred / self.scaling.scale)

    def take(self, index: IntArray) -> Design:
        """The rows at ``index``."""
        weight = None if self.weight is None else self.weight[index]
        return Design(take_rows(self.rows, index), weight, self.scaling, self.factor)

    @property
    def is_dense(self) -> bool:
        """Whether the features are a dense matrix."""
        return self.scaling is None and not sparse.issparse(self.rows)


def descend(objective: PUObjective, positive: Design, unlabeled: Design, ridge: float) -> FloatArray:
    """Coefficients, the intercept last, that minimise the objective plus ``ridge / 2 |w|^2``.

    The intercept is not penalised. A convex objective is solved. With the sigmoid loss,
    which is not convex, the minimisation starts from the solution with the logistic loss.
    """
    return next(_path(objective, positive, unlabeled, [ridge], precision=1e-9))


def choose_ridge(
    objective: PUObjective,
    positive: Design,
    unlabeled: Design,
    ridges: FloatArray,
    rng: np.random.Generator,
) -> float:
    """The ridge with the lowest mean criterion on held-out rows, in five folds or one split."""
    strongest_first = np.sort(ridges)[::-1]
    risks = np.zeros(len(ridges))
    once = len(positive) + len(unlabeled) > MOST_TO_FOLD
    splits = zip(_splits(len(positive), once, rng), _splits(len(unlabeled), once, rng), strict=True)
    for (seen_p, kept_p), (seen_u, kept_u) in splits:
        held_p, held_u = positive.take(kept_p), unlabeled.take(kept_u)
        path = _path(
            objective, positive.take(seen_p), unlabeled.take(seen_u), strongest_first, precision=1e-6
        )
        for i, w in enumerate(path):
            scores = held_p.times(w[:-1]) + w[-1], held_u.times(w[:-1]) + w[-1]
            risks[i] += float(objective.criterion(*scores, held_p.weight, held_u.weight))
    return float(strongest_first[np.argmin(risks)])


def _path(
    objective: PUObjective,
    positive: Design,
    unlabeled: Design,
    ridges: Iterable[float],
    *,
    precision: float,
) -> Iterator[FloatArray]:
    """Solutions for the ridges in order, each started from the previous one."""
    start = np.zeros(positive.width + 1)
    for ridge in ridges:
        match objective:
            case ShiftedRisk(loss=Squared(), corrected=False) if positive.is_dense:
                yield _solve(objective, positive, unlabeled, ridge)
            case ShiftedRisk(loss=Sigmoid()):
                # The sigmoid loss is flat far from 0, where its gradient vanishes. Therefore
                # only the solutions of the logistic loss serve as starting points.
                convex = replace(objective, loss=get_loss("logistic"))
                start = _minimise(convex, positive, unlabeled, ridge, start, precision)
                yield _minimise(objective, positive, unlabeled, ridge, start, precision)
            case _:
                start = _minimise(objective, positive, unlabeled, ridge, start, precision)
                yield start


def _minimise(
    objective: PUObjective,
    positive: Design,
    unlabeled: Design,
    ridge: float,
    start: FloatArray,
    precision: float,
) -> FloatArray:
    def value(w: FloatArray) -> tuple[float, FloatArray]:
        risk, by_p, by_u = objective.gradient(
            positive.times(w[:-1]) + w[-1],
            unlabeled.times(w[:-1]) + w[-1],
            positive.weight,
            unlabeled.weight,
        )
        slope = positive.adjoint(by_p) + unlabeled.adjoint(by_u) + ridge * w[:-1]
        return risk + ridge / 2 * float(w[:-1] @ w[:-1]), np.append(slope, by_p.sum() + by_u.sum())

    options: Any = {"maxiter": MOST_STEPS, "ftol": precision}
    found = minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=np.float64)


def _splits(n: int, once: bool, rng: np.random.Generator) -> Iterator[tuple[IntArray, IntArray]]:
    """Positions of training rows and of held-out rows."""
    parts = np.array_split(rng.permutation(n), FOLDS)
    for kept in parts[:1] if once else parts:
        yield np.setdiff1d(np.arange(n), kept), np.sort(kept)


def _solve(objective: ShiftedRisk, positive: Design, unlabeled: Design, ridge: float) -> FloatArray:
    """Closed form for the squared loss: one Newton step from zero, because the gradient is linear."""
    hessian = np.diag(np.append(np.full(positive.width, ridge), 0.0))
    slope = np.zeros(positive.width + 1)
    zeros = np.zeros(len(positive)), np.zeros(len(unlabeled))
    ones = np.ones(len(positive)), np.ones(len(unlabeled))
    at_zero = objective.gradient(*zeros, positive.weight, unlabeled.weight)[1:]
    at_one = objective.gradient(*ones, positive.weight, unlabeled.weight)[1:]
    for design, low, high in zip((positive, unlabeled), at_zero, at_one, strict=True):
        F = np.column_stack([design.rows, np.ones(len(design))])
        hessian += F.T @ ((high - low)[:, None] * F)
        slope += F.T @ low
    return np.asarray(np.linalg.lstsq(hessian, -slope, rcond=None)[0])
