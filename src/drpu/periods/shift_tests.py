r"""Tests of prior shift: from counts of scores, and from the columns.

Let :math:`b, a, a'` be the masses of positives, of unlabeled training rows and of new rows
in a range of scores. Prior shift means :math:`a' - b = \lambda (a - b)` with the same
:math:`\lambda` in every range. A deviation from this is another kind of shift.

For each column a few ranges of values are fixed in training, with the shares :math:`b` of the
positives and :math:`a` of the unlabeled rows in them. If only the prior has changed, the shares of
new rows are :math:`(1-\lambda) b + \lambda a` with :math:`\lambda = (1-\pi')/(1-\pi)`, the same
for every column. A column whose shares do not fit the common :math:`\lambda` has changed in
another way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from drpu._arrays import FloatArray, IntArray
from drpu._results import html_text
from drpu.exceptions import DataError
from drpu.priors.estimate import PriorEstimate
from drpu.priors.tails import ScoreTails
from drpu.tables.columns import LEVEL_ROWS
from drpu.tables.values import PARTS, RARE, ColumnProfile

OTHER_SHIFT = 0.001  # below this p-value more than the prior is assumed to have changed
_CELLS = 12  # largest number of score ranges
_FEWEST = 8  # minimum number of unlabeled training rows, and of new rows, in a range
_FEWEST_POSITIVES = 2  # minimum number of positives in a range of scores
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
    detectable : float
        Share of the rows that must change in another way for the test to notice it in about half
        of all cases; 1 if nothing can be tested.
    """

    statistic: float
    degrees: int
    p_value: float
    misfit: float
    growth: float
    between: tuple[float, float]
    needs_prior: float | None = None
    detectable: float = 1.0

    def __str__(self) -> str:
        return (
            f"p = {self.p_value:.2g} for prior shift, misfit {self.misfit:.1%} of the rows, "
            f"chi-square {self.statistic:.1f} with {self.degrees} degrees of freedom; changes of "
            f"{self.detectable:.1%} of the rows are noticed in about half of all cases"
        )

    def _repr_html_(self) -> str:
        return html_text(self)


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
        p_value=float(scipy.special.chdtrc(degrees, statistic)),
        misfit=fit.misfit(growth),
        growth=growth,
        between=(float(edges[worst]), float(edges[worst + 1])),
        needs_prior=needs_prior,
        detectable=fit.detectable(growth, degrees),
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
            _first_reaching(positive_below, start[-1], _FEWEST_POSITIVES / reference.n_positive),
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
    """The residual of a mixture of positive and unlabeled shares as a function of lambda.

    ``small``: Moves of the values that are too small to matter.
    """

    new: FloatArray
    unlabeled: FloatArray
    positive: FloatArray
    n_new: float
    n_unlabeled: float
    n_positive: float
    small: SmallMoves | None = None

    def best(self) -> tuple[float, float]:
        """The lambda with the smallest chi-square, by finer and finer grids, and its chi-square."""
        grid = np.concatenate((np.linspace(0, 2, 25), np.geomspace(2.2, 40, 16)))
        for _ in range(5):
            statistic = self.statistic(grid)
            k = int(np.argmin(statistic))
            best = (float(grid[k]), float(statistic[k]))
            grid = np.linspace(grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)], 9)
        return best

    def p_value(self, growth: float) -> float:
        """Probability of a larger chi-square at a lambda that other ranges determine."""
        statistic = float(self.statistic(np.array([growth]))[0])
        return float(scipy.special.chdtrc(len(self.new) - 1, statistic))

    def misfit(self, growth: float) -> float:
        """Share of the new rows that would have to change, less what noise explains; in [0, 1]."""
        at_growth = np.array([growth])
        variances = np.diagonal(self.covariance(at_growth)[0])
        expected_by_noise = math.sqrt(2 / math.pi) * float(np.sqrt(variances).sum())
        distance = float(np.abs(self.residual(at_growth)).sum())
        return min(1.0, max(0.0, (distance - expected_by_noise) / 2))

    def detectable(self, growth: float, degrees: int) -> float:
        """Share of changed rows, equally many in every range, at which half of all tests reject."""
        variances = np.diagonal(self.covariance(np.array([growth]))[0])
        noncentrality = max(float(scipy.special.chdtri(degrees, OTHER_SHIFT)) - degrees, 0.0)
        in_each_range = math.sqrt(noncentrality / float((1 / variances).sum()))
        return min(1.0, in_each_range * len(variances) / 2)

    def statistic(self, growth: FloatArray) -> FloatArray:
        """Chi-square at each lambda; the last range follows from the others."""
        e = self.residual(growth)[:, :-1]
        return np.asarray(np.einsum("gi,gij,gj->g", e, self._precision(growth), e))

    def residual(self, growth: FloatArray) -> FloatArray:
        """Residual of the mixture at each lambda."""
        return self.new - self._mixture(growth)

    def after_small_move(self, growth: float) -> MixtureFit:
        """The fit after the small move of the values that fits best at a lambda."""
        if self.small is None:
            return self
        at_growth = np.array([growth])
        crossing = (1 - growth) * self.small.positive + growth * self.small.unlabeled
        gained = np.diff(crossing, axis=1, prepend=0.0, append=0.0)
        e = (self.residual(at_growth) - gained)[:, :-1]
        statistic = np.einsum("mi,ij,mj->m", e, self._precision(at_growth)[0], e)
        best = int(np.argmin(statistic))
        return replace(self, new=self.new - gained[best], small=None)

    def log_determinant(self, growth: FloatArray) -> FloatArray:
        """Log of the determinant of the covariance without the last range, at each lambda."""
        return np.asarray(np.linalg.slogdet(self.covariance(growth)[:, :-1, :-1])[1])

    def _precision(self, growth: FloatArray) -> FloatArray:
        """Inverse of the covariance without the last range, at each lambda."""
        return np.asarray(np.linalg.inv(self.covariance(growth)[:, :-1, :-1]), dtype=np.float64)

    def covariance(self, growth: FloatArray) -> FloatArray:
        """Covariance of that residual: the noise of all three samples."""
        mixture = np.maximum(self._mixture(growth), 0)
        expected = mixture / mixture.sum(axis=1, keepdims=True)
        # The mean of expected and observed masses, with no range at zero.
        new_rows = (expected + self.new) / 2 * self.n_new + 0.5
        new_share = new_rows / new_rows.sum(axis=1, keepdims=True)
        lam = growth[:, None, None]
        covariance = _multinomial(new_share) / self.n_new
        covariance += lam**2 * _noise(self.unlabeled, self.n_unlabeled)
        return covariance + (1 - lam) ** 2 * _noise(self.positive, self.n_positive)

    def _mixture(self, growth: FloatArray) -> FloatArray:
        lam = growth[:, None]
        return (1 - lam) * self.positive + lam * self.unlabeled


@dataclass(frozen=True, slots=True)
class SmallMoves:
    """Shares of training rows that cross each limit between ranges, a row for each small move."""

    unlabeled: FloatArray
    positive: FloatArray


def _noise(share: FloatArray, n: float) -> FloatArray:
    """Covariance of observed shares, with half a row more, divided among the ranges.

    A range without rows in a small sample may have some in another one.
    """
    rows = share * n + 0.5 / len(share)
    return _multinomial(rows / rows.sum()) / n


def _multinomial(share: FloatArray) -> FloatArray:
    """diag(p) - p p^T, for each p of a stack."""
    return share[..., None] * (np.eye(share.shape[-1]) - share[..., None, :])


_MOST_VOTE = 25.0  # the chi-square of one column against a lambda is capped at this value
_PRIOR_VOTE = 30.0  # the same for a lambda outside the limits of the priors
_TOLERANCE = 8.0  # a lambda is possible if its votes exceed the smallest sum by at most this
_LEAST_MISFIT = 0.01  # share of changed rows: with many rows every difference is significant
_MOST_GROWTH = 40.0  # largest lambda that is tried


@dataclass(frozen=True, slots=True)
class ColumnShift:
    """Test of one column.

    ``p_value``: Probability of a difference at least as large if only the prior had changed, times
    the number of columns (Bonferroni), at most 1.
    ``misfit``: Share of the new rows that would have to change for the column to fit, minus the
    share expected from noise alone; in [0, 1].
    """

    name: str
    p_value: float
    misfit: float


def column_shifts(
    profiles: Sequence[ColumnProfile],
    counts: IntArray,
    train_prior: PriorEstimate,
    test_prior: PriorEstimate,
    *,
    small_moves: bool = False,
) -> list[ColumnShift]:
    r"""Tests of all columns of new rows, the largest misfit first.

    All columns must share one :math:`\lambda`. It is estimated by minimising a sum over the
    columns of their log-likelihood as a function of :math:`\lambda`, with a penalty for values
    outside the limits of the two priors. Each term is capped, so that a column that changed, or a
    badly estimated prior, has limited influence. Every column is then tested at the best of the
    values whose sum is close to the minimum, and after the small move of its values that fits
    best: moves of less than a fifth of the deviation of a column do not matter, unless
    ``small_moves`` are asked for. Rare levels and levels that training did not have are tested on
    their own: no mixture has more of them.
    """
    ends = np.cumsum([profile.cells.n for profile in profiles])
    if counts.shape != (ends[-1],):
        raise DataError(
            f"counts must have the {ends[-1]} ranges of the profiles, got {counts.shape}."
        )
    counts_by_column = np.split(np.asarray(counts, dtype=np.float64), ends[:-1])
    fits: list[tuple[str, _ColumnFit | None]] = []
    for profile, new_counts in zip(profiles, counts_by_column, strict=True):
        fits.append((profile.name, _column_fit(profile, new_counts)))
    fits_of_columns: dict[str, list[_ColumnFit]] = {}
    for name, fit in fits:
        if fit is not None:
            fits_of_columns.setdefault(name, []).append(fit)
    growth = _common_growth(list(fits_of_columns.values()), train_prior, test_prior)
    for profile, new_counts in zip(profiles, counts_by_column, strict=True):
        rare = _rare_fit(profile, new_counts)
        if rare is not None:
            fits.append((profile.name, rare))

    n_tests = sum(fit is not None for _, fit in fits)
    shifts = []
    for name, fit in fits:
        if fit is None:
            shifts.append(ColumnShift(name, p_value=1.0, misfit=0.0))
        else:
            shifts.append(fit.test(name, growth, n_tests, small_moves=small_moves))
    shifts.sort(key=lambda shift: -shift.misfit)
    return shifts


def moved_columns(
    profiles: Sequence[ColumnProfile],
    counts: IntArray | None,
    train_prior: PriorEstimate,
    test_prior: PriorEstimate,
    *,
    small_moves: bool = False,
) -> tuple[ColumnShift, ...]:
    """Columns that changed more than a new prior explains, the largest change first.

    Empty if the columns of the new rows were not counted, for example because rows have weights.
    """
    if counts is None or len(counts) != sum(profile.cells.n for profile in profiles):
        return ()
    moved: dict[str, ColumnShift] = {}
    shifts = column_shifts(profiles, counts, train_prior, test_prior, small_moves=small_moves)
    for shift in shifts:
        if shift.p_value < OTHER_SHIFT and shift.misfit > _LEAST_MISFIT:
            moved.setdefault(shift.name, shift)  # a category has several indicators
    return tuple(moved.values())


@dataclass(frozen=True, slots=True)
class Tested:
    """What could be tested in new rows.

    ``score_degrees``: Degrees of freedom of the test of the scores; 0 if there was none.
    ``columns``: Number of columns that were tested.
    ``detectable``: Share of the rows that must change in another way than by a new prior for the
    test of the scores to notice it in about half of all cases; 1 if there was none.
    """

    score_degrees: int
    columns: int
    detectable: float = 1.0

    @property
    def anything(self) -> bool:
        """Whether anything was tested. What cannot be tested is not rejected."""
        return self.score_degrees > 0 or self.columns > 0


def tested_columns(profiles: Sequence[ColumnProfile], counts: IntArray | None) -> int:
    """Number of columns with enough training rows and new rows to be tested."""
    if counts is None or len(counts) != sum(profile.cells.n for profile in profiles):
        return 0
    ends = np.cumsum([profile.cells.n for profile in profiles])[:-1]
    tested = 0
    counts_by_column = np.split(counts.astype(np.float64), ends)
    for profile, new_counts in zip(profiles, counts_by_column, strict=True):
        cells = profile.cells.tested
        start = _pooled_cells(profile.unlabeled[cells], new_counts[cells])
        tested += len(start) > 1 and bool(profile.positive[cells].any())
    return tested


@dataclass(frozen=True, slots=True)
class _ColumnFit:
    """The mixtures of one column over the tested cells, with the training shares of rows in them.

    Among the rows in these cells, a mixture with weight lambda has another weight if the shares
    differ.
    """

    mixture: MixtureFit
    tested_unlabeled: float  # share of the unlabeled training rows in the tested cells
    tested_positive: float

    def weight(self, growth: FloatArray) -> FloatArray:
        """The weight of the unlabeled rows among the tested cells."""
        unlabeled = growth * self.tested_unlabeled
        positive = (1 - growth) * self.tested_positive
        return np.clip(unlabeled / np.maximum(positive + unlabeled, 1e-6), 0.0, _MOST_GROWTH)

    def statistic(self, growth: FloatArray) -> FloatArray:
        """Chi-square of the column for each lambda."""
        return self.mixture.statistic(self.weight(growth))

    def votes_against(self, growth: FloatArray) -> FloatArray:
        """Twice the negative log-likelihood of each lambda.

        Without the determinant, a lambda at which the noise of few positives hides everything
        would fit best.
        """
        weight = self.weight(growth)
        return self.mixture.statistic(weight) + self.mixture.log_determinant(weight)

    def test(
        self, name: str, growth: FloatArray, n_tests: int, *, small_moves: bool
    ) -> ColumnShift:
        """Test of the column at the best of the possible values of lambda."""
        weight = self.weight(growth)
        best = float(weight[int(np.argmin(self.mixture.statistic(weight)))])
        mixture = self.mixture
        if not small_moves and mixture.p_value(best) * n_tests < OTHER_SHIFT:
            mixture = mixture.after_small_move(best)
        p_value = min(1.0, mixture.p_value(best) * n_tests)
        return ColumnShift(name, p_value, mixture.misfit(best))


def _column_fit(profile: ColumnProfile, new_counts: FloatArray) -> _ColumnFit | None:
    """The mixtures of one column, if it has enough ranges to be tested."""
    tested = profile.cells.tested
    new = new_counts[tested]
    unlabeled = profile.unlabeled[tested]
    positive = profile.positive[tested]
    start = _pooled_cells(unlabeled, new)
    if len(start) < 2 or not positive.any():
        return None
    mixture = MixtureFit(
        new=np.add.reduceat(new, start) / new.sum(),
        unlabeled=np.add.reduceat(unlabeled, start) / unlabeled.sum(),
        positive=np.add.reduceat(positive, start) / positive.sum(),
        n_new=float(new.sum()),
        n_unlabeled=float(unlabeled.sum()),
        n_positive=float(positive.sum()),
        small=_small_moves(profile, start),
    )
    return _ColumnFit(
        mixture,
        tested_unlabeled=float(unlabeled.sum() / profile.unlabeled.sum()),
        tested_positive=float(positive.sum() / profile.positive.sum()),
    )


def _small_moves(profile: ColumnProfile, start: IntArray) -> SmallMoves | None:
    """Rows that cross the limits of pooled ranges in a small move of all values.

    Values are shifted by a part of the margin and stretched, so that the outer limits move by
    another part of it, together by the margin at most. Missing values have no limit.
    """
    limit = start[1:] - 1
    limit = limit[limit < len(profile.cells.edges)]
    if len(limit) == 0 or not profile.unlabeled_near.any():
        return None
    edges = profile.cells.edges[limit]
    from_middle = np.zeros(len(edges))
    if len(edges) > 1:
        from_middle = 2 * (edges - edges[0]) / (edges[-1] - edges[0]) - 1
    shifted, stretched = np.meshgrid(PARTS, PARTS)
    parts = np.clip(shifted.reshape(-1, 1) + stretched.reshape(-1, 1) * from_middle, -1.0, 1.0)
    crossing = np.zeros((2, len(parts), len(start) - 1))
    for k, place in enumerate(limit):
        crossing[0, :, k] = np.interp(parts[:, k], PARTS, profile.unlabeled_near[:, place])
        crossing[1, :, k] = np.interp(parts[:, k], PARTS, profile.positive_near[:, place])
    return SmallMoves(crossing[0] / profile.unlabeled.sum(), crossing[1] / profile.positive.sum())


def _rare_fit(profile: ColumnProfile, new_counts: FloatArray) -> _ColumnFit | None:
    """The mixtures of rare levels and of all others, if new rows have more rare levels.

    Levels that training did not have are rare ones. Training rows of one rare level come and go
    together, so that they say as much as so many rows divided by the size of a rare level.
    """
    if profile.cells.codes is None or new_counts.sum() < _FEWEST:
        return None
    new = _rare_share(new_counts)
    unlabeled = _rare_share(profile.unlabeled)
    positive = _rare_share(profile.positive)
    if new[0] <= max(unlabeled[0], positive[0]):
        return None
    mixture = MixtureFit(
        new=new,
        unlabeled=unlabeled,
        positive=positive,
        n_new=float(new_counts.sum()),
        n_unlabeled=float(profile.unlabeled.sum()) / LEVEL_ROWS,
        n_positive=float(profile.positive.sum()),
    )
    return _ColumnFit(mixture, tested_unlabeled=1.0, tested_positive=1.0)


def _rare_share(counts: FloatArray) -> FloatArray:
    """Shares of the rows with rare levels and with all others."""
    share = counts[RARE] / counts.sum()
    return np.array([share, 1 - share])


def _common_growth(
    columns: Sequence[list[_ColumnFit]], train_prior: PriorEstimate, test_prior: PriorEstimate
) -> FloatArray:
    """Values of lambda that agree with most columns and with the priors.

    Categories and texts have several encoded columns, which share one vote: the words of one text
    would otherwise outvote all other columns.
    """
    low = (1 - test_prior.high) / max(1 - train_prior.low, 1e-12)
    high = (1 - test_prior.low) / max(1 - train_prior.high, 1e-12)
    low, high = np.clip([low, high], 0.0, _MOST_GROWTH)
    grid = np.unique(
        np.concatenate((np.linspace(0, 2, 41), np.geomspace(2.2, _MOST_GROWTH, 12), [low, high]))
    )
    votes_against = np.where((grid >= low) & (grid <= high), 0.0, _PRIOR_VOTE)
    for fits in columns:
        for fit in fits:
            votes = fit.votes_against(grid)
            votes = np.minimum(votes - votes.min(), _MOST_VOTE)
            votes_against = votes_against + votes / len(fits)
    possible = grid[votes_against <= votes_against.min() + _TOLERANCE]
    between = np.linspace(possible[0], possible[-1], 9)
    return np.unique(np.concatenate((possible, between)))


def _pooled_cells(unlabeled: FloatArray, new: FloatArray) -> IntArray:
    """First cell of each range with enough rows of both samples.

    Small cells are merged with the next one, or with the one before if that leaves a single range
    beside the last cell, which may be that of missing values: rows of which all lie above those of
    training fill only the last cell of values.
    """
    start = _merged_cells(unlabeled, new)
    if len(start) > 1 and start[1] < len(new) - 1:
        return start
    from_last = _merged_cells(unlabeled[::-1], new[::-1])
    if len(from_last) <= len(start):
        return start
    return np.append(0, len(new) - from_last[:0:-1])


def _merged_cells(unlabeled: FloatArray, new: FloatArray) -> IntArray:
    """First cell of each range, where small cells are merged with the next one."""
    start = [0]
    rows = np.zeros(2)
    for k, cell_rows in enumerate(zip(unlabeled, new, strict=True)):
        if (rows >= _FEWEST).all():
            start.append(k)
            rows = np.zeros(2)
        rows = rows + cell_rows
    last_is_small = (rows < _FEWEST).any() and rows.max() < 4 * _FEWEST
    if len(start) > 1 and last_is_small:
        start.pop()
    return np.array(start)
