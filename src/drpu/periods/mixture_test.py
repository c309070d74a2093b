r"""A test of prior shift from counts.

Let :math:`b, a, a'` be the masses of positives, of unlabeled training rows and of new rows
in a range of scores. Prior shift means :math:`a' - b = \lambda (a - b)` with the same
:math:`\lambda` in every range. A deviation from this is another kind of shift.
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
_ROUNDED = (
    1.05  # lambda may exceed its bound by this factor, because given priors are often rounded
)


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
        The smallest prior of the reference rows for which the best mixture is possible. None,
        unless it is larger than their prior can be.
    """

    statistic: float
    degrees: int
    p_value: float
    misfit: float
    growth: float
    between: tuple[float, float]
    needs_prior: float | None = None


def mixture_test(
    tails: ScoreTails, reference: ScoreTails, *, most_prior: float = 1.0
) -> MixtureTest:
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

    ``most_prior`` is the largest possible prior :math:`\pi` of the reference rows. The prior of
    the new rows is not negative, so :math:`\lambda \le 1/(1-\pi)`. If only a larger one fits, this
    is a deviation, too.
    """
    if not tails.same_positives(reference):
        raise DataError(
            "reference must count over the same positive scores: make it with tails.empty()."
        )
    if not (tails.counts.any() and reference.counts.any()):
        raise DataError("the tails are empty: update them with unlabeled scores first.")
    start = _range_starts(reference, tails.n)
    if len(start) < 3:
        return MixtureTest(0.0, 0, 1.0, 0.0, 1.0, (-math.inf, math.inf))

    fit = MixtureFit(
        new=_pooled(tails.counts, start),
        unlabeled=_pooled(reference.counts, start),
        positive=_pooled(reference.positive_counts, start),
        n_new=tails.n,
        n_unlabeled=reference.n,
        n_positive=reference.n_positive,
    )
    growth, statistic = fit.best()
    degrees = len(start) - 1 - int(growth > 0)  # at the boundary no parameter was fitted
    needs_prior = None
    if growth * (1 - most_prior) > _ROUNDED:
        needs_prior = 1 - 1 / growth
        growth = _ROUNDED / (1 - most_prior)
        degrees = len(start) - 1
        statistic = float(fit.statistic(np.array([growth]))[0])
    residual = fit.residual(np.array([growth]))[0]
    edges = np.append(np.concatenate(([-np.inf], reference.levels))[start], np.inf)
    worst = int(np.argmax(np.abs(residual)))
    return MixtureTest(
        statistic=statistic,
        degrees=degrees,
        p_value=float(chdtrc(degrees, statistic)),
        misfit=fit.misfit(growth),
        growth=growth,
        between=(float(edges[worst]), float(edges[worst + 1])),
        needs_prior=needs_prior,
    )


def _range_starts(reference: ScoreTails, n_new: float) -> IntArray:
    """First cell of each range.

    Ranges have about equal mass of positives and unlabeled rows, and a few rows of each.
    """
    positive = reference.positive_counts / reference.positive_counts.sum()
    unlabeled = reference.counts / reference.counts.sum()
    mass = (positive + unlabeled) / 2
    positive_below = np.concatenate(([0.0], positive.cumsum()))
    unlabeled_below = np.concatenate(([0.0], unlabeled.cumsum()))
    mass_below = np.concatenate(([0.0], mass.cumsum()))
    least_mass = max(_FEWEST / n_new, 1 / _CELLS)

    start = [0]
    while True:
        end = max(
            _first_reaching(positive_below, start[-1], _FEWEST / reference.n_positive),
            _first_reaching(unlabeled_below, start[-1], _FEWEST / reference.n),
            _first_reaching(mass_below, start[-1], least_mass),
        )
        if end == len(mass):
            return np.array(start)
        if end > len(mass):  # too few rows for a separate range: merge with the range below
            return np.array(start[:-1] or [0])
        start.append(end)


def _first_reaching(share_below: FloatArray, start: int, least: float) -> int:
    """The first cell such that at least ``least`` of the rows are between ``start`` and it."""
    return int(np.searchsorted(share_below, share_below[start] + least - 1e-12))


def _pooled(counts: IntArray | FloatArray, start: IntArray) -> FloatArray:
    return np.asarray(np.add.reduceat(counts, start) / counts.sum(), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class MixtureFit:
    """The residual of a mixture of positive and unlabeled shares as a function of lambda."""

    new: FloatArray
    unlabeled: FloatArray
    positive: FloatArray
    n_new: float
    n_unlabeled: float
    n_positive: float

    def best(self) -> tuple[float, float]:
        """The lambda with the smallest chi-square, by finer and finer grids, and its chi-square."""
        grid = np.concatenate((np.linspace(0, 2, 25), np.geomspace(2.2, 40, 16)))
        for _ in range(5):
            statistic = self.statistic(grid)
            k = int(np.argmin(statistic))
            best = (float(grid[k]), float(statistic[k]))
            grid = np.linspace(grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)], 9)
        return best

    def misfit(self, growth: float) -> float:
        """Share of the new rows that would have to change, less what noise explains; in [0, 1]."""
        at_growth = np.array([growth])
        variances = np.diagonal(self.covariance(at_growth)[0])
        expected_by_noise = math.sqrt(2 / math.pi) * float(np.sqrt(variances).sum())
        distance = float(np.abs(self.residual(at_growth)).sum())
        return min(1.0, max(0.0, (distance - expected_by_noise) / 2))

    def statistic(self, growth: FloatArray) -> FloatArray:
        """Chi-square at each lambda; the last range follows from the others."""
        e = self.residual(growth)[:, :-1]
        covariance = self.covariance(growth)[:, :-1, :-1]
        solved = np.linalg.solve(covariance, e[..., None])[..., 0]
        return np.asarray((e * solved).sum(axis=1))

    def residual(self, growth: FloatArray) -> FloatArray:
        """Residual of the mixture at each lambda."""
        return self.new - self._mixture(growth)

    def covariance(self, growth: FloatArray) -> FloatArray:
        """Covariance of that residual: the noise of all three samples."""
        mixture = np.maximum(self._mixture(growth), 0)
        expected = mixture / mixture.sum(axis=1, keepdims=True)
        # The mean of expected and observed masses, with no range at zero.
        new_rows = (expected + self.new) / 2 * self.n_new + 0.5
        new_share = new_rows / new_rows.sum(axis=1, keepdims=True)
        lam = growth[:, None, None]
        covariance = _multinomial(new_share) / self.n_new
        covariance += lam**2 * _multinomial(self.unlabeled) / self.n_unlabeled
        return covariance + (1 - lam) ** 2 * _multinomial(self.positive) / self.n_positive

    def _mixture(self, growth: FloatArray) -> FloatArray:
        lam = growth[:, None]
        return (1 - lam) * self.positive + lam * self.unlabeled


def _multinomial(share: FloatArray) -> FloatArray:
    """diag(p) - p p^T, for each p of a stack."""
    return share[..., None] * (np.eye(share.shape[-1]) - share[..., None, :])
