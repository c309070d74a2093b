r"""First and second derivatives of Bregman risks for each row, for boosting.

With a link r(g), a positive row contributes :math:`-f'(r)` and an unlabeled row
:math:`F(r) = f^*(r) - f^*(0)`, of which :math:`F'(r) = r f''(r)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import logit

from drpu._samples import SamplePair
from drpu._typing import FloatArray
from drpu.core.bregman import bregman_risk, get_generator
from drpu.models._links import LINKS

__all__ = ["BoostedLoss", "BoostedRisk", "BregmanLoss", "Derivatives", "LogLoss", "holdout_risk"]

_FAR = 50.0  # log-ratios are clipped here in holdout risks

_SHRINKAGE = {"lsif": 300.0, "ukl": 50.0, "bkl": 20.0}

# f'' and f''' of each generator.
_SECOND: dict[str, Callable[[FloatArray], FloatArray]] = {
    "lsif": lambda r: np.ones_like(r),
    "ukl": lambda r: 1 / r,
    "bkl": lambda r: 1 / (r * (1 + r)),
}
_THIRD: dict[str, Callable[[FloatArray], FloatArray]] = {
    "lsif": lambda r: np.zeros_like(r),
    "ukl": lambda r: -1 / r**2,
    "bkl": lambda r: 1 / (1 + r) ** 2 - 1 / r**2,
}


class Derivatives(NamedTuple):
    """First and second derivative with respect to the output g, one per row."""

    gradient: FloatArray
    hessian: FloatArray


@dataclass(frozen=True, slots=True)
class BoostedRisk:
    """The non-negative Bregman risk of positive rows followed by unlabeled rows.

    Weights sum to 1 over either sample. With ``alpha`` 0 there is no correction, because the
    part that could be negative is then a mean of non-negative terms.
    """

    generator: str
    link: str
    alpha: float
    positive_weight: FloatArray
    unlabeled_weight: FloatArray

    def derivatives(self, g: FloatArray) -> Derivatives:
        """Derivatives of the objective of a step: A + B if B >= 0, and -B otherwise."""
        n = len(self.positive_weight)
        reward, lift = self._reward(g[:n]), self._lift(g)
        w_p, w_u = self.positive_weight, self.unlabeled_weight
        if self.rest(g) >= 0:
            parts = [(w_p * mine, w_u * theirs[n:]) for mine, theirs in zip(reward, lift, strict=True)]
        else:
            parts = [(self.alpha * w_p * theirs[:n], -w_u * theirs[n:]) for theirs in lift]
        return Derivatives(*(np.concatenate(part) for part in parts))

    def step(self, g: FloatArray) -> Derivatives:
        """Gradient and a non-negative Hessian.

        Where the exact Hessian is negative (a concave link on positive rows, unlabeled rows
        under correction) a Newton step would increase the objective. There it is replaced by
        0 for positive rows and by its absolute value for unlabeled rows.
        """
        n = len(self.positive_weight)
        gradient, hessian = self.derivatives(g)
        return Derivatives(gradient, np.r_[np.maximum(hessian[:n], 0), np.abs(hessian[n:])])

    def rest(self, g: FloatArray) -> float:
        """B, the part of the risk that is non-negative in the population."""
        n = len(self.positive_weight)
        f, r = get_generator(self.generator), LINKS[self.link].ratio(g)
        lifted = f.conjugate(r) - f.conjugate_at_zero
        return float(self.unlabeled_weight @ lifted[n:] - self.alpha * (self.positive_weight @ lifted[:n]))

    def _reward(self, g: FloatArray) -> Derivatives:
        """Derivatives of -f'(r(g))."""
        link = LINKS[self.link]
        r, slope = link.ratio(g), link.slope(g)
        second, third = _SECOND[self.generator](r), _THIRD[self.generator](r)
        return Derivatives(-second * slope, -third * slope**2 - second * link.curvature(g))

    def _lift(self, g: FloatArray) -> Derivatives:
        """Derivatives of F(r(g))."""
        link = LINKS[self.link]
        r, slope = link.ratio(g), link.slope(g)
        second, third = _SECOND[self.generator](r), _THIRD[self.generator](r)
        return Derivatives(
            r * second * slope, (second + r * third) * slope**2 + r * second * link.curvature(g)
        )


class BoostedLoss(Protocol):
    """The objective of the trees, and the map from their sum to a log-ratio."""

    @property
    def generator(self) -> str:
        """Generator of the holdout risk."""

    @property
    def l2(self) -> float:
        """Default shrinkage for the loss."""

    def settings(self, pair: SamplePair, min_leaf: int) -> dict[str, Any]:
        """Settings of LightGBM that depend on the loss."""

    def fields(self, pair: SamplePair) -> dict[str, Any]:
        """Fields of a LightGBM data set other than its rows; positive rows come first."""

    def offset(self, pair: SamplePair) -> float:
        """The constant that is added to the sum of the trees."""

    def log_ratio(self, g: FloatArray) -> FloatArray:
        """Log-ratio of the sum of the trees and the offset."""

    def outputs(self, predicted: FloatArray, offset: float) -> FloatArray:
        """Sum of trees and offset from the values that LightGBM passes to a metric."""


@dataclass(frozen=True, slots=True)
class LogLoss:
    """Logistic loss of positive against unlabeled rows: log-odds minus those of the sample sizes."""

    generator: str = "bkl"

    @property
    def l2(self) -> float:
        return _SHRINKAGE[self.generator]

    def settings(self, pair: SamplePair, min_leaf: int) -> dict[str, Any]:
        return {"objective": "binary", "min_data_in_leaf": min_leaf}

    def fields(self, pair: SamplePair) -> dict[str, Any]:
        return {"label": pair.flags(), "weight": pair.unit_weights()}

    def offset(self, pair: SamplePair) -> float:
        return -pair.log_odds()

    def log_ratio(self, g: FloatArray) -> FloatArray:
        return g

    def outputs(self, predicted: FloatArray, offset: float) -> FloatArray:
        return np.asarray(logit(np.clip(predicted, 1e-15, 1 - 1e-15)) + offset)


@dataclass(frozen=True, slots=True)
class BregmanLoss:
    """Non-negative Bregman risk, started at a ratio of 1."""

    generator: str
    link: str
    alpha: float

    @property
    def l2(self) -> float:
        return _SHRINKAGE[self.generator]

    def settings(self, pair: SamplePair, min_leaf: int) -> dict[str, Any]:
        n, risk = len(pair.positive), self._risk(pair)
        rows = len(pair)

        def objective(g: FloatArray, _: Any) -> tuple[FloatArray, FloatArray]:
            gradient, hessian = risk.step(g)
            return rows * gradient, rows * hessian

        at_one = risk.step(np.full(rows, LINKS[self.link].start)).hessian[n:].sum()
        mass = rows * float(at_one) * min_leaf / len(pair.unlabeled)
        return {"objective": objective, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": mass}

    def fields(self, pair: SamplePair) -> dict[str, Any]:
        flags = pair.flags()
        return {"label": flags, "init_score": np.full(len(flags), LINKS[self.link].start)}

    def offset(self, pair: SamplePair) -> float:
        return LINKS[self.link].start

    def log_ratio(self, g: FloatArray) -> FloatArray:
        return LINKS[self.link].log_ratio(g)

    def outputs(self, predicted: FloatArray, offset: float) -> FloatArray:
        return predicted

    def _risk(self, pair: SamplePair) -> BoostedRisk:
        n, weight = len(pair.positive), pair.weights()
        if weight is None:
            weight = np.ones(len(pair))
        w_p, w_u = weight[:n], weight[n:]
        return BoostedRisk(self.generator, self.link, self.alpha, w_p / w_p.sum(), w_u / w_u.sum())


def holdout_risk(loss: BoostedLoss, g: FloatArray, held: SamplePair) -> float:
    """Uncorrected risk of outputs on held-out rows, positive rows first."""
    n, log_ratio = len(held.positive), np.clip(loss.log_ratio(g), -_FAR, _FAR)
    risk = bregman_risk(
        log_ratio[:n],
        log_ratio[n:],
        generator=loss.generator,
        log=True,
        positive_weight=held.positive.weight,
        unlabeled_weight=held.unlabeled.weight,
    )
    return float(risk)
