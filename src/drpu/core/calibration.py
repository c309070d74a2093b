"""From scores to density ratios: monotone least squares and a smooth plateau."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit

from drpu._checks import check_scores
from drpu._typing import FloatArray
from drpu.core.tails import ScoreTails
from drpu.exceptions import DataError

__all__ = ["Calibration", "Plateau", "calibrate", "fit_plateau", "monotone_cells"]


def monotone_cells(tails: ScoreTails) -> FloatArray:
    """Ratio in each cell: the least-squares fit among increasing functions of the score.

    The minimiser of the LSIF risk over monotone functions pools adjacent cells until
    positive mass over unlabeled mass increases. Ties share a cell and so are pooled
    first. A cell at the top that no unlabeled row reaches has ratio infinity.
    """
    positive = tails.positive_counts / tails.positive_counts.sum()
    return _increasing_ratio(positive, tails.counts / tails.counts.sum())


def _increasing_ratio(positive: FloatArray, unlabeled: FloatArray) -> FloatArray:
    weight = np.maximum(unlabeled, 1e-300)
    with np.errstate(over="ignore"):
        fit = isotonic_regression(positive / weight, weights=weight).x
    fit[fit > 1e100] = np.inf
    return np.asarray(fit, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Plateau:
    """The smooth ratio ``ceiling * sigmoid(intercept + slope * score)``.

    Its ceiling is reached where only positives are left, so the prior that it
    implies is ``1 / ceiling``.
    """

    ceiling: float
    intercept: float
    slope: float

    def __call__(self, scores: FloatArray) -> FloatArray:
        return np.asarray(self.ceiling * expit(self.intercept + self.slope * scores), dtype=np.float64)


def fit_plateau(tails: ScoreTails) -> Plateau:
    """Plateau with the largest likelihood of telling positives from unlabeled rows.

    Unlabeled scores are taken at the middle of their cells: the counts are all that
    is left of them.
    """
    at_positive, at_unlabeled, centre, scale = _standard_scores(tails)
    positive = tails.positive_counts[1:] / tails.positive_counts.sum()
    unlabeled = tails.counts / tails.counts.sum()
    odds = tails.n_positive / tails.n  # what makes the weighted logistic loss a likelihood

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        ceiling, slope = 1 + np.exp(-theta[0]), np.exp(theta[2])
        share_p, share_u = expit(theta[1] + slope * at_positive), expit(theta[1] + slope * at_unlabeled)
        ratio_p, ratio_u = odds * ceiling * share_p, odds * ceiling * share_u
        value = odds * (positive @ np.log1p(1 / ratio_p)) + unlabeled @ np.log1p(ratio_u)
        pull_p, pull_u = -odds * positive / (1 + ratio_p), unlabeled * ratio_u / (1 + ratio_u)
        bend_p, bend_u = pull_p * (1 - share_p), pull_u * (1 - share_u)
        gradient = [
            (1 - ceiling) / ceiling * (pull_p.sum() + pull_u.sum()),
            bend_p.sum() + bend_u.sum(),
            slope * (bend_p @ at_positive + bend_u @ at_unlabeled),
        ]
        return float(value), np.array(gradient)

    start = np.array([0.0, 0.0, 0.5])
    bounds = [(-7.0, 7.0), (-20.0, 20.0), (-3.0, 4.0)]
    theta = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    slope = np.exp(theta[2]) / scale
    return Plateau(float(1 + np.exp(-theta[0])), float(theta[1] - slope * centre), float(slope))


def _standard_scores(tails: ScoreTails) -> tuple[FloatArray, FloatArray, float, float]:
    """Levels and cell middles on a scale where the bulk of the scores has size one."""
    levels = np.clip(tails.levels, -60, 60)  # log-ratios beyond are certain either way
    top = np.append(levels, levels[-1])
    spread = float(levels[-1] - levels[0])
    below = levels[0] - max(spread / 4, 1e-3)
    middles = np.concatenate(([below], (top[:-1] + top[1:]) / 2))
    weight = (tails.positive_counts / tails.positive_counts.sum() + tails.counts / tails.counts.sum()) / 2
    centre = float(weight @ middles)
    scale = float(np.sqrt(weight @ (middles - centre) ** 2)) or 1.0
    return (levels - centre) / scale, (middles - centre) / scale, centre, scale


@dataclass(frozen=True, slots=True)
class Calibration:
    """An increasing map from scores to ratios: the mean of a step and a smooth fit."""

    levels: FloatArray
    cells: FloatArray
    plateau: Plateau

    def __call__(self, scores: Any) -> FloatArray:
        values = check_scores("scores", scores, allow_empty=True)
        steps = self.cells[np.searchsorted(self.levels, values, side="right")]
        return (steps + self.plateau(values)) / 2

    def state(self) -> dict[str, Any]:
        """Arrays and numbers from which :meth:`from_state` makes an equal map."""
        p = self.plateau
        return {"levels": self.levels, "cells": self.cells, "plateau": [p.ceiling, p.intercept, p.slope]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Calibration:
        """The map that gave ``state``; raises ``DataError`` where it makes no sense."""
        levels = check_scores("levels", state["levels"])
        cells = check_scores("cells", state["cells"])
        if len(cells) != len(levels) + 1 or (np.diff(cells) < 0).any():
            raise DataError("a calibration needs one more cell than levels, in increasing order.")
        return cls(levels, cells, Plateau(*(float(number) for number in state["plateau"])))


def calibrate(tails: ScoreTails, prior: float) -> Calibration:
    """Calibration of the scores in ``tails``, below the ceiling that ``prior`` sets."""
    ceiling = 1 / max(prior, 1e-12)
    cells = np.minimum(monotone_cells(tails), ceiling)
    return Calibration(tails.levels, cells, fit_plateau(tails))
