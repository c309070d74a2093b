r"""Diagnostics from counts: a test of prior shift, and expected performance without labels.

Let :math:`b, a, a'` be the masses of positives, of unlabeled training rows and of new rows
in a range of scores. Prior shift means :math:`a' - b = \lambda (a - b)` with the same
:math:`\lambda` in every range. A deviation from this is another kind of shift. Under prior
shift, the same counts give the performance at any threshold without labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from drpu._typing import FloatArray, IntArray
from drpu.exceptions import DataError
from drpu.priors.tails import ScoreTails

_CELLS = 12  # largest number of score ranges
_FEWEST = 8  # minimum number of rows of each sample in a range
_ROUNDED = 1.05  # lambda may exceed its bound by this factor, because given priors are often rounded


@dataclass(frozen=True, slots=True)
class MixtureTest:
    """Result of the test that new rows are a mixture of the two classes of training.

    Attributes
    ----------
    statistic, degrees : float, int
        Chi-square statistic of the deviation from the best mixture, and its degrees of freedom.
    p_value : float
        Probability of such a deviation under prior shift; 1 if nothing can be tested.
    misfit : float
        Fraction of the new rows that would have to change for a mixture to fit, minus the
        expected value under noise; in [0, 1].
    growth : float
        The fitted ``(1 - test_prior) / (1 - train_prior)``.
    between : tuple of float
        The range of scores with the largest deviation.
    needs_prior : float or None
        The smallest prior of the reference rows for which the best mixture is possible. None, unless it is
        larger than their prior can be.
    """

    statistic: float
    degrees: int
    p_value: float
    misfit: float
    growth: float
    between: tuple[float, float]
    needs_prior: float | None = None


def mixture_test(tails: ScoreTails, reference: ScoreTails, *, most_prior: float = 1.0) -> MixtureTest:
    r"""Test of prior shift against other changes of the score distribution.

    Cells are pooled into at most twelve ranges of about equal mass, by the two
    training samples alone. The statistic is
    :math:`\min_\lambda e_\lambda^\top \Sigma_\lambda^{-1} e_\lambda` with
    :math:`e_\lambda = a' - (1-\lambda) b - \lambda a` and

    .. math:: \Sigma_\lambda = S(a')/n' + \lambda^2 S(a)/n + (1-\lambda)^2 S(b)/n_P,

    :math:`S(p) = \mathrm{diag}(p) - pp^\top`: the noise of all three samples. Using the
    covariance at each :math:`\lambda` keeps the size of the test correct even if positives
    and unlabeled rows hardly differ. A shift after which the scores are still a mixture
    cannot be detected.

    ``most_prior`` is the largest possible prior :math:`\pi` of the reference rows. The prior of the new rows
    is not negative, so :math:`\lambda \le 1/(1-\pi)`. If only a larger one fits, this is a deviation, too.
    """
    if not tails.same_positives(reference):
        raise DataError("reference must count over the same positive scores: make it with tails.empty().")
    if not (tails.counts.any() and reference.counts.any()):
        raise DataError("the tails are empty: update them with unlabeled scores first.")
    start = _ranges(reference, tails.n)
    b, a = _pooled(reference.positive_counts, start), _pooled(reference.counts, start)
    new = _pooled(tails.counts, start)
    if len(start) < 3:
        return MixtureTest(0.0, 0, 1.0, 0.0, 1.0, (-math.inf, math.inf))

    fit = MixtureFit(new, a, b, tails.n, reference.n, reference.n_positive)
    growth, statistic = fit.best()
    degrees, needs = len(start) - 1 - int(growth > 0), None  # at the boundary no parameter was fitted
    if growth * (1 - most_prior) > _ROUNDED:
        needs, growth, degrees = 1 - 1 / growth, _ROUNDED / (1 - most_prior), len(start) - 1
        statistic = float(fit.statistic(np.array([growth]))[0])
    residual, covariance = fit.residual(np.array([growth])), fit.covariance(np.array([growth]))
    noise = math.sqrt(2 / math.pi) * float(np.sqrt(np.diagonal(covariance[0])).sum())
    misfit = min(1.0, max(0.0, (float(np.abs(residual).sum()) - noise) / 2))
    edges = np.append(np.concatenate(([-np.inf], reference.levels))[start], np.inf)
    worst = int(np.argmax(np.abs(residual[0])))
    between = (float(edges[worst]), float(edges[worst + 1]))
    return MixtureTest(statistic, degrees, float(chdtrc(degrees, statistic)), misfit, growth, between, needs)


def _ranges(reference: ScoreTails, n_new: float) -> IntArray:
    """First cell of each range; ranges have about equal mass of P and U, and a few rows of each."""
    positive = reference.positive_counts / reference.positive_counts.sum()
    unlabeled = reference.counts / reference.counts.sum()
    mass = (positive + unlabeled) / 2
    below = [np.concatenate(([0.0], share.cumsum())) for share in (positive, unlabeled, mass)]
    sizes = reference.n_positive, reference.n, n_new
    least = [_FEWEST / sizes[0], _FEWEST / sizes[1], max(_FEWEST / n_new, 1 / _CELLS)]

    start = [0]
    while True:
        reached = (np.searchsorted(x, x[start[-1]] + y - 1e-12) for x, y in zip(below, least, strict=True))
        end = int(max(reached))
        if end > len(mass):  # too few rows for a separate range: merge with the range below
            return np.array(start[:-1] or [0])
        if end == len(mass):
            return np.array(start)
        start.append(end)


def _pooled(counts: IntArray | FloatArray, start: IntArray) -> FloatArray:
    return np.asarray(np.add.reduceat(counts, start) / counts.sum(), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class MixtureFit:
    """The residual of the mixture as a function of lambda."""

    new: FloatArray
    unlabeled: FloatArray
    positive: FloatArray
    n_new: float
    n_unlabeled: float
    n_positive: float

    def best(self) -> tuple[float, float]:
        """The lambda with the smallest chi-square, by successively finer grids, and that chi-square."""
        grid = np.concatenate((np.linspace(0, 2, 25), np.geomspace(2.2, 40, 16)))
        for _ in range(5):
            statistic = self.statistic(grid)
            k = int(np.argmin(statistic))
            best = float(grid[k]), float(statistic[k])
            grid = np.linspace(grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)], 9)
        return best

    def statistic(self, growth: FloatArray) -> FloatArray:
        """Chi-square at each lambda; the last range follows from the others."""
        e, covariance = self.residual(growth)[:, :-1], self.covariance(growth)[:, :-1, :-1]
        solved = np.linalg.solve(covariance, e[..., None])[..., 0]
        return np.asarray((e * solved).sum(axis=1))

    def residual(self, growth: FloatArray) -> FloatArray:
        """Residual of the mixture at each lambda."""
        return self.new - self._mixture(growth)

    def covariance(self, growth: FloatArray) -> FloatArray:
        """Covariance of that residual: the noise of all three samples."""
        mixture = np.maximum(self._mixture(growth), 0)
        # The mean of expected and observed masses, with no range at zero.
        new = (mixture / mixture.sum(axis=1, keepdims=True) + self.new) / 2 * self.n_new + 0.5
        noise = _multinomial(new / new.sum(axis=1, keepdims=True)) / self.n_new
        noise += growth[:, None, None] ** 2 * _multinomial(self.unlabeled) / self.n_unlabeled
        return noise + (1 - growth[:, None, None]) ** 2 * _multinomial(self.positive) / self.n_positive

    def _mixture(self, growth: FloatArray) -> FloatArray:
        share = growth[:, None]
        return (1 - share) * self.positive + share * self.unlabeled


def _multinomial(share: FloatArray) -> FloatArray:
    """diag(p) - p p^T, for each p of a stack."""
    return share[..., None] * (np.eye(share.shape[-1]) - share[..., None, :])


@dataclass(frozen=True, slots=True)
class Performance:
    """Expected performance at a threshold; arrays for several thresholds.

    Attributes
    ----------
    threshold : float or ndarray
        Rows with at least this score are flagged.
    accuracy, precision, recall, false_positive_rate : float or ndarray
        As usual; precision is NaN if nothing is flagged: it cannot be computed.
    flagged : float or ndarray
        Fraction of the rows that are flagged.
    cost : float or ndarray
        ``(1 - c) * prior * (1 - recall) + c * (1 - prior) * false_positive_rate``
        with ``c`` the false-positive cost; half the error rate if it is 1/2.
    """

    threshold: float | FloatArray
    accuracy: float | FloatArray
    precision: float | FloatArray
    recall: float | FloatArray
    false_positive_rate: float | FloatArray
    flagged: float | FloatArray
    cost: float | FloatArray


def performance_at(
    threshold: FloatArray, recall: FloatArray, wrong: FloatArray, test_prior: float | FloatArray, cost: float
) -> Performance:
    """Performance of rules with known recalls and false-positive rates, at a test prior."""
    flagged = test_prior * recall + (1 - test_prior) * wrong
    precision = np.where(flagged > 0, test_prior * recall / np.where(flagged > 0, flagged, 1), np.nan)
    accuracy = test_prior * recall + (1 - test_prior) * (1 - wrong)
    loss = (1 - cost) * test_prior * (1 - recall) + cost * (1 - test_prior) * wrong
    return Performance(threshold, accuracy, precision, recall, wrong, flagged, loss)
