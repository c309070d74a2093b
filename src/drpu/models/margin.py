"""Large-margin fit with unknown labels, of which only the number of positives is given."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from drpu._samples import SamplePair
from drpu._typing import BoolArray, FloatArray
from drpu.models._descent import Design
from drpu.models.scores import LinearScore

__all__ = ["fit_margin"]

FAINTEST = 1e-3  # weight of the unlabeled rows in the first round, relative to the last
MOST_TURNS = 10  # alternations between labels and score in one round
MOST_STEPS = 200
ROUNDING = 0.1  # half width of the smoothed corner of the hinge


def fit_margin(
    model: LinearScore,
    pair: SamplePair,
    *,
    prior: float,
    strengths: tuple[float, float],
    rounds: int,
    cost: float,
) -> LinearScore:
    """The model, fitted alternately with the labels of the unlabeled rows.

    Parameters
    ----------
    model : LinearScore
        Linear or kernel; its ridge is not used, because the strengths replace it.
    pair : SamplePair
        The two samples.
    prior : float
        Weighted fraction of positive labels among the unlabeled rows.
    strengths : pair of float
        Weight of the labelled and of the unlabeled rows.
    rounds : int
        Steps of annealing.
    cost : float
        False-positive cost.
    """
    P, U = model.designs(pair)
    w_p, w_u = _shares(P), _shares(U)
    w = np.zeros(P.width + 1)
    labels = np.zeros(len(U), dtype=bool)
    for share in np.geomspace(FAINTEST, 1.0, rounds) if rounds > 1 else [1.0]:
        for turn in range(MOST_TURNS):
            first = turn == 0 and not w.any()
            found = labels if first else label_by_rank(U.times(w[:-1]), w_u, prior)
            if turn > 0 and np.array_equal(found, labels):
                break
            labels = found
            pull_p = 2 * (1 - cost) * strengths[0] * w_p
            side = np.where(labels, 2 * (1 - cost), 2 * cost)
            w = _margin(P, U, labels, pull_p, strengths[1] * share * side * w_u, w)
    return model.set_solution(w)


def label_by_rank(scores: FloatArray, weight: FloatArray, prior: float) -> BoolArray:
    """The optimal labels for given scores: the largest ones, a weighted fraction ``prior``, are positive."""
    order = np.argsort(-scores, kind="stable")
    before = np.cumsum(weight[order]) - weight[order] / 2
    labels = np.zeros(len(scores), dtype=bool)
    labels[order] = before < prior
    return labels


def _margin(
    P: Design, U: Design, labels: BoolArray, pull_p: FloatArray, pull_u: FloatArray, start: FloatArray
) -> FloatArray:
    """Coefficients of the large-margin fit to these labels, the intercept last."""
    sign = np.where(labels, 1.0, -1.0)

    def value(w: FloatArray) -> tuple[float, FloatArray]:
        loss_p, slope_p = _hinge(P.times(w[:-1]) + w[-1])
        loss_u, slope_u = _hinge(sign * (U.times(w[:-1]) + w[-1]))
        by_p, by_u = pull_p * slope_p, pull_u * slope_u * sign
        total = float(pull_p @ loss_p + pull_u @ loss_u + w[:-1] @ w[:-1] / 2)
        return total, np.append(P.adjoint(by_p) + U.adjoint(by_u) + w[:-1], by_p.sum() + by_u.sum())

    options: Any = {"maxiter": MOST_STEPS, "ftol": 1e-7}
    found = minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=np.float64)


def _hinge(margin: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[1 - z]_+ with a smoothed corner, and its derivative."""
    lack = 1 - margin
    round_part = np.clip(lack + ROUNDING, 0, 2 * ROUNDING)
    value = round_part**2 / (4 * ROUNDING) + np.maximum(lack - ROUNDING, 0)
    return value, -round_part / (2 * ROUNDING)


def _shares(design: Design) -> FloatArray:
    if design.weight is None:
        return np.full(len(design), 1 / len(design))
    return np.asarray(design.weight / design.weight.sum())
