"""Weights of the members of an average, from rows that were not used to fit them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from drpu._typing import FloatArray

__all__ = ["Evidence", "Weights", "stack"]

_PULL = 12.0  # number of positives at which weights are halfway between their start and the optimum
_WORTH = 1e-4  # a member is kept if it lowers the held-out loss by at least this


@dataclass(frozen=True, slots=True)
class Evidence:
    """Log-ratios of held-out rows, one column per member, with weights that sum to 1 over either sample."""

    positive: FloatArray
    unlabeled: FloatArray
    positive_weight: FloatArray
    unlabeled_weight: FloatArray

    def columns(self, kept: list[int]) -> Evidence:
        """The scores of some of the members."""
        return Evidence(
            self.positive[:, kept], self.unlabeled[:, kept], self.positive_weight, self.unlabeled_weight
        )

    def mean(self, weights: FloatArray) -> Evidence:
        """The weighted sum of the members, as the scores of a single member."""
        return Evidence(
            (self.positive @ weights)[:, None],
            (self.unlabeled @ weights)[:, None],
            self.positive_weight,
            self.unlabeled_weight,
        )

    def loss(self, weights: FloatArray, constant: float) -> tuple[float, FloatArray]:
        """Logistic loss of positive against unlabeled rows at equal masses, and its gradient."""
        z_p, z_u = self.positive @ weights + constant, self.unlabeled @ weights + constant
        value = self.positive_weight @ np.logaddexp(0, -z_p) + self.unlabeled_weight @ np.logaddexp(0, z_u)
        g_p, g_u = -self.positive_weight * expit(-z_p), self.unlabeled_weight * expit(z_u)
        slope = np.append(g_p @ self.positive + g_u @ self.unlabeled, g_p.sum() + g_u.sum())
        return float(value), slope


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each member (0 for one that is left out) and the constant that is added."""

    members: FloatArray
    constant: float


def stack(evidence: Evidence, start: FloatArray) -> Weights:
    """Non-negative weights that minimise the held-out logistic loss.

    The loss has a penalty on the squared distance from ``start`` times a common factor. The penalty
    decreases with the square of the number of positives: with few positives the members keep the
    proportions of ``start``. Members whose removal hardly increases the loss are removed, the least useful
    first.
    """
    kept = [i for i in range(len(start)) if start[i] > 0]
    fitted = _fit(evidence.columns(kept), start[kept])
    while len(kept) > 1:
        shorter = [[i for i in kept if i != out] for out in kept]
        trials = [_fit(evidence.columns(some), start[some]) for some in shorter]
        best = int(np.argmin([loss for _, loss in trials]))
        if trials[best][1] - fitted[1] > _WORTH:
            break
        kept, fitted = shorter[best], trials[best]
    if not (fitted[0][:-1] > 0).any():  # no member ranks held-out rows better than chance
        return Weights(start / start.sum(), 0.0)
    members = np.zeros(len(start))
    members[kept] = fitted[0][:-1]
    return Weights(members, float(fitted[0][-1]))


def _fit(evidence: Evidence, start: FloatArray) -> tuple[FloatArray, float]:
    """Weights and the constant, and the loss without the penalty."""
    scale = _minimum(evidence.mean(start), np.ones(1), 0.0)[0]
    centre = start * max(float(scale), 1e-3)
    found = _minimum(evidence, centre, (_PULL / len(evidence.positive)) ** 2)
    return found, evidence.loss(found[:-1], float(found[-1]))[0]


def _minimum(evidence: Evidence, centre: FloatArray, pull: float) -> FloatArray:
    def penalised(point: FloatArray) -> tuple[float, FloatArray]:
        value, slope = evidence.loss(point[:-1], float(point[-1]))
        away = point[:-1] - centre
        slope[:-1] += 2 * pull * away
        return value + pull * float(away @ away), slope

    bounds = [(0.0, None)] * len(centre) + [(None, None)]
    done = minimize(penalised, np.append(centre, 0.0), jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(done.x)
