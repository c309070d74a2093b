"""Labels and answers that say who is positive: rates of labelling, and bounds.

The labelling rate e(x) is the probability that a positive row is labelled. If it is the same for
all positives, the labelled ones are a random sample of them. If it depends on known columns
(branch, region, month), labelled rows with the weights 1 / e represent all positives, and true
labels of a few rows determine the rate in each cell of these columns. Without any answer, bounds
say what follows if rates differ by at most a factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, expit, ndtri

from drpu._arrays import BoolArray, FloatArray, IntArray
from drpu._checks import check_real
from drpu._results import html_text
from drpu.priors.figures import Figure
from drpu.state.fitted import FittedRatio

_LEAST = 1e-3  # rates below it would give single rows weights that no estimate survives


def inverse_weights(propensity: FloatArray) -> FloatArray:
    """Weights of labelled rows, with mean 1, under which they represent all positives."""
    weight = 1 / np.maximum(propensity, _LEAST * propensity.max())
    return np.asarray(weight / weight.mean())


def labelling_rates(
    labelled: IntArray,
    unlabeled: IntArray,
    cell: IntArray,
    positive: BoolArray,
    *,
    weight: FloatArray | None = None,
    level: float = 0.95,
) -> tuple[Figure, ...]:
    r"""Share of the positives of each cell that is labelled, from answers for unlabeled rows.

    With a share :math:`s` of positives among the :math:`u` unlabeled rows of a cell and :math:`l`
    labelled rows, the rate is :math:`l / (l + u s)`. Its log-odds :math:`\log l - \log u s` are
    estimated in each cell, with the variance of both parts, and shrunk to their mean over cells as
    far as the variance between cells (DerSimonian and Laird) is no more than chance. A cell
    without labelled rows or answers counts half of one. The limits do not depend on the shrinkage.
    """
    answered = _AnsweredCells.of(cell, positive, weight, len(labelled))
    share = (answered.hits + 0.5) / (answered.size + 1)
    log_labelled = np.log(labelled + 0.5)
    log_odds = log_labelled - np.log(unlabeled * share + 0.5)
    noise = 1 / (labelled + 0.5) + (1 - share) / (share * (answered.size + 1))
    common, between = _between_cells(log_odds, noise)
    value = expit((between * log_odds + noise * common) / (between + noise))

    tail = (1 - level) / 2
    least_share, most_share = answered.limits(tail)
    by_labelled = -float(ndtri(tail)) / np.sqrt(labelled + 0.5)
    with np.errstate(divide="ignore"):
        highest = log_labelled - np.log(unlabeled * least_share)
        lowest = log_labelled - np.log(unlabeled * most_share)
    below = np.hypot(np.maximum(-(lowest - log_odds), 0), by_labelled)
    above = np.hypot(np.maximum(highest - log_odds, 0), by_labelled)
    low = np.minimum(expit(log_odds - below), value)
    high = np.maximum(expit(log_odds + above), value)
    variance = (value * (1 - value)) ** 2 * noise
    rates = np.column_stack([value, low, high, variance])
    return tuple(Figure(*rate) for rate in rates.tolist())


@dataclass(frozen=True, slots=True)
class _AnsweredCells:
    """Effective numbers of answers, and of positive ones, in each cell."""

    size: FloatArray
    hits: FloatArray

    @classmethod
    def of(
        cls, cell: IntArray, positive: BoolArray, weight: FloatArray | None, n_cells: int
    ) -> _AnsweredCells:
        w = np.ones(len(cell)) if weight is None else np.asarray(weight, dtype=np.float64)
        total = np.bincount(cell, weights=w, minlength=n_cells)
        squares = np.bincount(cell, weights=w**2, minlength=n_cells)
        hits = np.bincount(cell, weights=w * positive, minlength=n_cells)
        size = np.divide(total**2, squares, out=np.zeros(n_cells), where=squares > 0)
        share = np.divide(hits, total, out=np.zeros(n_cells), where=total > 0)
        return cls(size, size * share)

    def limits(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Exact limits of the share of positives in each cell."""
        missed = self.size - self.hits
        low = betaincinv(np.maximum(self.hits, 1e-9), missed + 1, tail)
        high = betaincinv(self.hits + 1, np.maximum(missed, 1e-9), 1 - tail)
        return np.where(self.hits > 0, low, 0.0), np.where(missed > 0, high, 1.0)


def _between_cells(values: FloatArray, noise: FloatArray) -> tuple[float, float]:
    """Mean of the values, and their variance beyond the noise."""
    inverse = 1 / noise
    mean = float(inverse @ values / inverse.sum())
    spare = float(inverse.sum() - (inverse @ inverse) / inverse.sum())
    excess = float(inverse @ (values - mean) ** 2) - (len(values) - 1)
    between = 0.0
    if spare > 0:
        between = max(excess / spare, 0.0)
    inverse = 1 / (noise + between)
    return float(inverse @ values / inverse.sum()), between


def answer_weights(chance: FloatArray) -> FloatArray:
    """Weights of answered rows of one class, which sum to their effective number."""
    share = (1 / chance) / (1 / chance).sum()
    return np.asarray(share / (share @ share))


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What changes if positives are labelled at different rates."""

    k: float  # the factor by which the rate of any positive may differ from the estimated one
    prior: float  # share of positives as estimated, and its bounds
    prior_low: float
    prior_high: float
    flagged: float  # share of the rows that is flagged as estimated
    flagged_low: float  # under all rates
    flagged_high: float  # under some rates

    def __str__(self) -> str:
        return (
            f"if some positives are up to {self.k:g} times likelier to be labelled: "
            f"prior {self.prior:.3f} [{self.prior_low:.3f}, {self.prior_high:.3f}], "
            f"flagged rows {self.flagged:.1%} [{self.flagged_low:.1%}, {self.flagged_high:.1%}]"
        )

    def _repr_html_(self) -> str:
        return html_text(self)


def sensitivity_of(fitted: FittedRatio, *, k: float, cost: float) -> Sensitivity:
    """The bounds for the training population."""
    share = fitted.population.labelled_fraction
    positive = fitted.tails.positive_counts
    unlabeled = fitted.tails.counts
    rate = 0.0
    if fitted.prior.value > 0:
        rate = min(share / fitted.prior.value, 1.0)
    return sensitivity(
        fitted.cell_probability(),
        k=check_real("k", k, low=1.0, high=1e6),
        weight=share * positive / positive.sum() + (1 - share) * unlabeled / unlabeled.sum(),
        rate=rate,
        cost=cost,
    )


def sensitivity(
    posterior: FloatArray,
    *,
    k: float,
    weight: FloatArray | None = None,
    rate: float = 0.0,
    cost: float = 0.5,
) -> Sensitivity:
    r"""Bounds of the prior and of the flagged rows if labelling rates differ by a factor ``k``.

    The data determine :math:`P(\text{labelled} \mid x) = e(x) \eta(x)`. At one rate :math:`e` the
    posterior is :math:`\eta`; at the rate :math:`f e` it is :math:`\eta / f`, and at most 1. In a
    single sample with the estimated ``rate`` no rate exceeds 1, so the factor is at most 1 /
    ``rate``.
    """
    row_weight = np.ones(len(posterior)) if weight is None else weight
    share = row_weight / row_weight.sum()
    low = posterior * max(1 / k, rate)
    high = np.minimum(posterior * k, 1.0)
    return Sensitivity(
        k=k,
        prior=float(share @ posterior),
        prior_low=float(share @ low),
        prior_high=float(share @ high),
        flagged=float(share @ (posterior > cost)),
        flagged_low=float(share @ (low > cost)),
        flagged_high=float(share @ (high > cost)),
    )
