"""What new rows are compared with, and the map of log-odds that answers give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import scipy

from drpu._arrays import FloatArray
from drpu._codec import POSITIVE, Kept, Number, kept
from drpu.exceptions import DataError
from drpu.priors.estimate import PriorEstimate
from drpu.priors.tails import KeptTails
from drpu.state.fitted import FittedRatio

FARTHEST = 7.0  # trained log-odds are clipped: beyond it they say more about the model than rows


@kept("map")
@dataclass(frozen=True)
class LogOddsMap(Kept):
    r"""The map a + b z of trained log-odds, with its uncertainty.

    ``intercept``, ``slope``: The numbers a and b; b is positive, so the map keeps the order of
    rows.
    ``covariance``: Variance of a, covariance of a and b, variance of b.
    """

    intercept: float = 0.0
    slope: Annotated[float, Number(low=POSITIVE)] = 1.0
    covariance: tuple[float, float, float] = (0.0, 0.0, 0.0)
    n: Annotated[float, Number(0)] = 0.0  # answers

    def log_odds(self, z: FloatArray | Sequence[float]) -> FloatArray:
        """Log-odds after the map; trained ones are clipped at :data:`FARTHEST`."""
        return np.asarray(self.intercept + self.slope * bounded(z))

    def probability(self, z: FloatArray | Sequence[float]) -> FloatArray:
        """Probability of the positive class after the map."""
        return np.asarray(scipy.special.expit(self.log_odds(z)))

    def towards(self, other: LogOddsMap, part: float) -> LogOddsMap:
        """The map a part of the way from this one to another."""
        return replace(
            self,
            intercept=self.intercept + part * (other.intercept - self.intercept),
            slope=self.slope + part * (other.slope - self.slope),
        )

    def with_share(self, share: float, rows: RowLogOdds) -> LogOddsMap:
        """The map with the intercept at which its mean over ``rows`` is ``share``, in (0, 1)."""
        without_intercept = self.slope * rows.z

        def excess(intercept: float) -> float:
            return rows.mean(scipy.special.expit(intercept + without_intercept)) - share

        log_odds = math.log(share / (1 - share))
        lowest = log_odds - float(without_intercept.max())
        highest = log_odds - float(without_intercept.min())
        return replace(self, intercept=increasing_root(excess, lowest, highest, 1e-12))


TRAINED = LogOddsMap()  # the map before any answer


@dataclass(frozen=True, slots=True)
class RowLogOdds:
    """Trained log-odds of all rows of a period, or of ranges of rows with their numbers."""

    z: FloatArray  # trained log-odds, clipped at :data:`FARTHEST`
    weight: FloatArray | None  # weights, not negative; None for equal ones
    n: float  # number of rows

    @classmethod
    def of(cls, z: FloatArray, weight: FloatArray | None = None) -> RowLogOdds:
        """The rows from their log-odds; the number of rows is the sum of the weights."""
        n = float(len(z) if weight is None else weight.sum())
        return cls(bounded(z), weight, n)

    def mean(self, values: FloatArray) -> float:
        """Mean over the rows."""
        if self.weight is None:
            return float(values.mean())
        return float(self.weight @ values / self.weight.sum())


def bounded(z: FloatArray | Sequence[float]) -> FloatArray:
    """Log-odds clipped at :data:`FARTHEST`."""
    return np.asarray(np.clip(np.asarray(z, dtype=np.float64), -FARTHEST, FARTHEST))


def bounded_log_odds(probability: FloatArray) -> FloatArray:
    """Log-odds of probabilities from 0 to 1, clipped at :data:`FARTHEST`."""
    least = float(scipy.special.expit(-FARTHEST))
    p = np.clip(probability, least, 1 - least)
    return np.asarray(np.log(p) - np.log1p(-p))


def increasing_root(
    function: Callable[[float], float], low: float, high: float, precision: float
) -> float:
    """Root of an increasing function; an end of the range if there is none, as after rounding."""
    if function(low) >= 0:
        return low
    if function(high) <= 0:
        return high
    return float(scipy.optimize.brentq(function, low, high, xtol=precision))


NEAREST = 1e-9  # priors of a map are kept this far from 0 and 1


@kept("reference")
@dataclass(frozen=True, slots=True)
class Reference:
    """Counted rows whose prior is known.

    ``map``: The map of the trained log-odds that answers about these rows gave; None for training
    rows.
    ``moved``: Columns that had moved between training and the answers: how positives are
    distributed in them now is not known, so later rows are not compared by them.
    """

    tails: KeptTails
    prior: PriorEstimate  # of the counted rows
    map: LogOddsMap | None = None
    moved: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.tails.counts.any():
            raise DataError("the tails of a reference must count its rows.")

    @classmethod
    def of_training(cls, fitted: FittedRatio) -> Reference:
        """The unlabeled training rows."""
        return cls(fitted.tails, fitted.unlabeled_prior)

    def base_prior(self, fitted: FittedRatio) -> PriorEstimate:
        """The prior from which moves are counted: of the training population, or of answers."""
        return fitted.prior if self.map is None else self.prior

    def map_at(self, prior: float) -> LogOddsMap | None:
        """The map of answers, moved by as much as the log-odds of the prior."""
        if self.map is None:
            return None
        now, before = scipy.special.logit(np.clip([prior, self.prior.value], NEAREST, 1 - NEAREST))
        return replace(self.map, intercept=self.map.intercept + float(now - before))
