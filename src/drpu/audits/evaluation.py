r"""Figures from true labels of a few rows, with limits: shares, accuracy, precision, recall, cost.

In a stratified audit :math:`n_h` rows of stratum :math:`h` are labelled, of which :math:`x_h` have
the property in question. The limits are for :math:`\pi = \sum_h w_h p_h` with known weights.
Normal limits fail if a stratum has 0 of 20, and with a good score there are many such strata. The
limits here invert a test instead: a value of :math:`\pi` lies above the upper limit if, under this
value, the sum :math:`\sum_h w_h X_h / n_h` is at most the observed one with a probability below
that of the tail. The distribution of the sum is that of the binomial counts; the :math:`p_h`,
which :math:`\pi` does not determine, have their maximum-likelihood values given :math:`\pi`. With
one stratum these are the limits of Clopper and Pearson.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, stdtrit, xlogy

from drpu._arrays import BoolArray, FloatArray, IntArray
from drpu._results import TableColumns, TableResult, figure_columns
from drpu.priors.estimate import PriorEstimate
from drpu.priors.figures import Figure, exact_limit
from drpu.priors.tails import ScoreTails

_GRID = 4096  # number of steps in the range of the weighted sum
# Multipliers, as inverse hyperbolic sines: a usual value, and one for shares of 0.
_USUAL_POSITION = 3.0
_FARTHEST_POSITION = 30.0
_LEAST_VARIANCE = 0.2  # of a stratum, relative to the largest that the prior allows
_STRATA = 5  # the same for any number of answers, so that a shorter plan is a part of a longer one
# Part of the error probability that limits use, so that they also hold if answering stops as soon
# as they are narrow enough. ``python -m benchmarks.few_answers`` computes what it gives.
STOPPING = 0.75


def both_tails(level: float) -> tuple[float, float]:
    """Error probabilities of the lower and the upper limit at a confidence level."""
    return (1 - level) / 2, (1 - level) / 2


def stopped_tails(level: float) -> tuple[float, float]:
    """The same for limits at which answering may have stopped because they were narrow enough."""
    return both_tails(1 - STOPPING * (1 - level))


def stratified_share(
    weight: FloatArray,
    hits: FloatArray | IntArray,
    sizes: FloatArray | IntArray,
    *,
    tails: tuple[float, float] = (0.025, 0.025),
    rows: float = math.inf,
) -> Figure:
    r"""Estimate and limits of ``sum(weight * p)`` from ``hits`` of ``sizes`` answers a stratum.

    A stratum without answers may have any share, and the limits include this. They are for the
    population of the ``rows`` that the weights were counted on, so the noise of the weights,
    :math:`\sum w_h (p_h - \pi)^2 / N`, is added.
    """
    sample = _Sample.of(weight, hits, sizes, rows)
    lower, upper = tails
    return Figure(
        value=sample.value,
        low=sample.low(lower),
        high=sample.total - sample.opposite().low(upper),
        variance=sample.variance,
    )


@dataclass(frozen=True, slots=True)
class _PossibleCounts:
    """Counts that strata can have, one after the other."""

    stratum: IntArray
    hits: FloatArray
    sizes: FloatArray  # number of answers in the stratum of each
    log_ways: FloatArray  # logarithm of the binomial coefficient
    place: IntArray  # on the grids of all strata


@dataclass(frozen=True)
class _Sample:
    """Answers in the strata that have answers, and the weight of the strata without answers."""

    weight: FloatArray
    hits: FloatArray
    sizes: FloatArray
    rows: float
    unseen: float

    @classmethod
    def of(
        cls,
        weight: FloatArray,
        hits: FloatArray | IntArray,
        sizes: FloatArray | IntArray,
        rows: float,
    ) -> _Sample:
        answered = (weight > 0) & (np.asarray(sizes) > 0)
        return cls(
            weight=np.asarray(weight[answered], dtype=np.float64),
            hits=np.asarray(hits[answered], dtype=np.float64),
            sizes=np.asarray(sizes[answered], dtype=np.float64),
            rows=rows,
            unseen=float(weight[~answered].sum()),
        )

    @property
    def total(self) -> float:
        return float(self.weight.sum()) + self.unseen

    @property
    def value(self) -> float:
        """Weighted mean; strata without answers get the mean of the others."""
        answered = float(self.weight.sum())
        if answered == 0:
            return 0.0
        return self._observed * self.total / answered

    @property
    def _observed(self) -> float:
        """The weighted sum of the observed shares."""
        return float(self.weight @ (self.hits / self.sizes))

    @property
    def variance(self) -> float:
        """A conservative variance of the value."""
        p = (self.hits + 0.5) / (self.sizes + 1)
        inside = float(self.weight**2 @ (p * (1 - p) / self.sizes))
        return inside + self._between(p) + self.unseen**2 / 12

    def opposite(self) -> _Sample:
        """The sample of the answers without the property; its lower limit gives the upper one."""
        return _Sample(self.weight, self.sizes - self.hits, self.sizes, self.rows, self.unseen)

    def low(self, tail: float) -> float:
        """The share at which a sum at least as large as observed has probability ``tail``.

        Strata without answers count as 0.
        """
        if not self.hits.any():
            return 0.0
        if len(self.weight) == 1:
            share = exact_limit(self.hits[0], self.sizes[0], tail, upper=False)
            return float(self.weight[0]) * share
        as_large = cache(self._as_large)  # brentq evaluates both ends of its interval again
        near = 0.0
        far = _USUAL_POSITION
        while as_large(far) > tail:
            if far >= _FARTHEST_POSITION:
                return 0.0
            near = far
            far = 1.5 * far
        if near == 0 and as_large(0.0) <= tail:
            return self._observed

        # The logarithm of the probability is nearly a parabola, so it needs fewer steps.
        def excess(position: float) -> float:
            return math.log(max(as_large(position), 1e-12) / tail)

        position = float(brentq(excess, near, far, xtol=1e-3))
        return float(self.weight @ self._likeliest(position))

    def _likeliest(self, position: float) -> FloatArray:
        return likeliest_shares(self.weight, self.hits, self.sizes, math.sinh(position))

    def _as_large(self, position: float) -> float:
        """P(the weighted sum is at least as large as observed), by the law of the counts on a grid.

        ``position`` determines the share that is tested: 0 is the observed one, and larger
        positions are smaller shares.
        """
        p = self._likeliest(position)
        step = float(self.weight.sum()) / _GRID
        cells = self._cells
        counts = self._counts
        p_of_count = p[counts.stratum]
        log_mass = counts.log_ways + xlogy(counts.hits, p_of_count)
        mass = np.exp(log_mass + xlogy(counts.sizes - counts.hits, 1 - p_of_count))
        laws = np.bincount(counts.place, weights=mass, minlength=len(p) * cells)
        spectrum = np.fft.rfft(laws.reshape(len(p), cells), axis=1).prod(axis=0)
        frequency = 2 * math.pi * np.fft.rfftfreq(cells) / step
        spectrum *= np.exp(-0.5 * self._between(p) * frequency**2)
        law = np.fft.irfft(spectrum, cells)
        # Rounding changes the sum of each stratum by at most half a step: include all that may be
        # as large.
        first = max(math.ceil(self._observed / step - len(p) / 2), 0)
        probability = float(law[first : (_GRID + cells) // 2].sum())
        return min(max(probability, 0.0), 1.0)

    @property
    def _cells(self) -> int:
        """Cells of the grid, with room for the noise of the weights on either side of the sum."""
        room = _GRID // 2 if self.rows >= 500 else _GRID
        return _GRID + room

    @cached_property
    def _counts(self) -> _PossibleCounts:
        """Every count that a stratum can have, for all strata."""
        whole_sizes = self.sizes.astype(np.int64)
        stratum = np.repeat(np.arange(len(whole_sizes)), whole_sizes + 1)
        hits = np.concatenate([np.arange(size + 1.0) for size in whole_sizes])
        sizes = self.sizes[stratum]
        log_ways = gammaln(sizes + 1) - gammaln(hits + 1) - gammaln(sizes - hits + 1)
        steps_of_hit = self.weight / self.sizes * _GRID / self.weight.sum()
        place = np.rint(hits * steps_of_hit[stratum]).astype(np.int64)
        return _PossibleCounts(
            stratum, hits, sizes, np.asarray(log_ways), stratum * self._cells + place
        )

    def _between(self, p: FloatArray) -> float:
        """Variance from the shares of the strata, which were counted on finitely many rows."""
        share = self.weight / self.weight.sum()
        return float(self.weight.sum()) ** 2 * float(share @ (p - share @ p) ** 2) / self.rows


def likeliest_shares(
    weight: FloatArray, hits: FloatArray, sizes: FloatArray, multiplier: float
) -> FloatArray:
    r"""Shares of the strata with the largest likelihood among all with the same weighted sum.

    With Lagrange's multiplier :math:`\mu`, each solves
    :math:`\mu w p^2 - (\mu w + n) p + x = 0`. The weighted sum is the observed one at
    :math:`\mu = 0` and decreases in :math:`\mu`.
    """
    m = multiplier * weight
    linear = m + sizes
    root = np.sqrt(np.maximum(linear**2 - 4 * m * hits, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(linear > 0, 2 * hits / (linear + root), (linear - root) / (2 * m))
    return np.asarray(np.clip(np.nan_to_num(p), 0, 1))


@dataclass(frozen=True, slots=True)
class Strata:
    """A stratified design: number of rows in each range of scores, and number of rows to label.

    Attributes
    ----------
    cuts : ndarray of shape (H - 1,)
        Scores at which the strata begin, ascending; a row belongs to the last stratum
        whose cut does not exceed its score.
    rows : ndarray of shape (H,)
        Number of rows in each stratum.
    planned : ndarray of shape (H,)
        Number of rows to label in each stratum.
    posterior : ndarray of shape (H,)
        Share of positives that the classifier expects in each stratum.
    spread : ndarray of shape (H,)
        Standard deviation that is assumed for the labels in each stratum, not below a least one.
    """

    cuts: FloatArray
    rows: IntArray
    planned: IntArray
    posterior: FloatArray
    spread: FloatArray

    @property
    def weight(self) -> FloatArray:
        """Share of each stratum among the rows."""
        return np.asarray(self.rows / self.rows.sum())

    def of(self, scores: FloatArray) -> IntArray:
        """Stratum of each score."""
        return np.searchsorted(self.cuts, scores, side="right").astype(np.int64)

    def order(self, n: int) -> IntArray:
        """Strata of the first ``n`` rows to label."""
        return stratum_order(self.rows, self.spread, n)

    def first(self, n: int) -> Strata:
        """The design of the first ``n`` rows, or of all rows if there are fewer."""
        planned = np.bincount(self.order(n), minlength=len(self.rows))
        return replace(self, planned=planned.astype(np.int64))


def make_strata(scores: FloatArray, posterior: FloatArray, n: int, highest_prior: float) -> Strata:
    """Strata of rows by score, with ``n`` rows allocated to them by expected variance.

    The cuts divide the sum of the expected standard deviations into equal parts, which
    makes equal allocation nearly optimal; one more cut lies where the posterior reaches 1/2.
    Rows with equal scores share a stratum. ``highest_prior`` determines the smallest variance
    assumed for a stratum, because the classifier may be wrong about any stratum.
    """
    most = min(max(highest_prior, 1e-6), 0.5)
    least_variance = _LEAST_VARIANCE * most * (1 - most)
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    deviation = np.sqrt(np.maximum(posterior * (1 - posterior), least_variance))
    summed = deviation[order].cumsum()
    steps = _STRATA - 1
    ranks = np.searchsorted(summed, summed[-1] * np.arange(1, steps) / steps)
    # a cut where the label changes: with a good score both sides are nearly pure
    ranks = np.append(ranks, np.searchsorted(np.maximum.accumulate(posterior[order]), 0.5))
    cuts = np.unique(ranked[np.minimum(ranks, len(ranked) - 1)])
    cuts = cuts[cuts > ranked[0]]

    stratum = np.searchsorted(cuts, scores, side="right")
    rows = np.bincount(stratum, minlength=len(cuts) + 1).astype(np.int64)
    share = np.bincount(stratum, weights=posterior, minlength=len(cuts) + 1) / rows
    spread = np.sqrt(np.maximum(share * (1 - share), least_variance))
    return Strata(cuts, rows, np.zeros_like(rows), share, spread).first(n)


def stratum_order(rows: IntArray, spread: FloatArray, n: int) -> IntArray:
    """Strata of the first ``n`` rows to label, in proportion to ``rows * spread`` at any time.

    First comes one row of every stratum, the largest part first. The others are in the order of
    Webster's method: row j of a stratum with the part p of all comes at (j - 1/2) / p.
    """
    part = rows * spread / (rows @ spread)
    strata = []
    times = []
    for h, rows_of_stratum in enumerate(rows):
        number = np.arange(min(int(rows_of_stratum), n))
        time = (number + 0.5) / part[h]
        time[:1] = -part[h]
        strata.append(np.full(len(number), h))
        times.append(time)
    order = np.argsort(np.concatenate(times), kind="stable")[:n]
    return np.asarray(np.concatenate(strata)[order], dtype=np.int64)


def draw_rows(strata: Strata, scores: FloatArray, rng: np.random.RandomState) -> IntArray:
    """Positions of the rows to label, in an order of which every beginning is a stratified sample.

    The order of the strata does not depend on answers, and within a stratum rows are in random
    order. A longer plan with the same random numbers begins with the same rows.
    """
    stratum = strata.of(scores)
    order = strata.order(int(strata.planned.sum()))
    chosen = np.empty(len(order), dtype=np.int64)
    for h, planned in enumerate(strata.planned):
        chosen[order == h] = rng.permutation(np.flatnonzero(stratum == h))[:planned]
    return chosen


def expected_width(strata: Strata, level: float, highest_prior: float) -> float:
    """Width of the interval if the answers are as the classifier expects."""
    share = stratified_share(
        strata.weight,
        strata.planned * strata.posterior,
        strata.planned,
        tails=stopped_tails(level),
        rows=float(strata.rows.sum()),
    )
    return min(share.high, highest_prior) - min(share.low, highest_prior)


def with_reading(share: Figure, reading: PriorEstimate) -> Figure:
    """The share by answers with limits that also use the reading of the rows without answers.

    If the reading is identified and the answers allow its value, the limits of both apply, so that
    answers do not make an interval wider. Otherwise the limits are those of the answers alone.
    """
    if not reading.identified:
        return share
    if not share.low <= reading.value <= share.high:
        return share
    low = max(share.low, reading.low)
    high = min(share.high, reading.high)
    return replace(share, value=min(max(share.value, low), high), low=low, high=high)


def combine_figures(figures: list[Figure]) -> Figure:
    """The mean of independent estimates of the same quantity, weighted by their inverse variances.

    Lower and upper limits are combined separately (MOVER).
    """
    if len(figures) == 1:
        return figures[0]
    value = np.array([figure.value for figure in figures])
    low = np.array([figure.low for figure in figures])
    high = np.array([figure.high for figure in figures])
    variance = np.array([figure.variance for figure in figures])
    weight = 1 / np.maximum(variance, 1e-12)
    weight /= weight.sum()
    mean = float(weight @ value)
    below = float(np.sqrt(((weight * (value - low)) ** 2).sum()))
    above = float(np.sqrt(((weight * (high - value)) ** 2).sum()))
    return Figure(
        value=mean,
        low=max(mean - below, 0.0),
        high=min(mean + above, 1.0),
        variance=float(weight**2 @ variance),
    )


def independent_rows_of(groups: IntArray) -> float:
    """Number of independent rows that tell as much as these, if all rows of a group are alike."""
    sizes = np.unique(groups, return_counts=True)[1]
    return float(sizes.sum() ** 2 / (sizes @ sizes))


def effective_counts(
    hits: FloatArray | IntArray, sizes: IntArray, effect: float
) -> tuple[FloatArray | IntArray, IntArray]:
    """Hits and answers of as many independent rows as tell the same, in each stratum."""
    if effect == 1.0:
        return hits, sizes
    fewer = np.minimum(np.maximum(np.rint(sizes / effect), 1), sizes).astype(np.int64)
    return hits * fewer / np.maximum(sizes, 1), fewer


@dataclass(frozen=True, slots=True)
class Answers:
    """True labels of rows that were drawn at random within strata.

    ``rows``: Number of rows in each stratum of the sample that was audited.
    ``error_rate``: Probability that an answer is wrong, the same for all rows.
    ``groups``: Number of the group of each row, such as its patient; None if rows are independent.
    ``independent_rows``: Of the sample that was audited, if all rows of a group were alike.
    """

    positive: BoolArray  # the true labels
    stratum: IntArray  # stratum of each row
    rows: FloatArray | IntArray
    error_rate: float = 0.0
    groups: IntArray | None = None
    independent_rows: float | None = None

    @classmethod
    def random(
        cls, positive: BoolArray, error_rate: float = 0.0, groups: IntArray | None = None
    ) -> Answers:
        """The answers of a simple random sample, of rows or of groups, which is one stratum."""
        stratum = np.zeros(len(positive), dtype=np.int64)
        rows = np.array([len(positive)])
        independent_rows = None
        if groups is not None:
            independent_rows = independent_rows_of(groups)
        return cls(positive, stratum, rows, error_rate, groups, independent_rows)

    @property
    def weight(self) -> FloatArray:
        """Share of each stratum."""
        return np.asarray(self.rows / self.rows.sum())

    @property
    def sizes(self) -> IntArray:
        """Number of answers in each stratum."""
        return np.bincount(self.stratum, minlength=len(self.rows)).astype(np.int64)

    @property
    def n_rows(self) -> float:
        """Number of rows of the sample that was audited, as independent ones."""
        if self.independent_rows is not None:
            return self.independent_rows
        return float(self.rows.sum())

    def hits(self, outcome: BoolArray) -> IntArray:
        """Number of answered rows with ``outcome`` in each stratum."""
        return np.bincount(self.stratum[outcome], minlength=len(self.rows)).astype(np.int64)

    def share(self, outcome: BoolArray, tails: tuple[float, float]) -> Figure:
        """Share of the population with ``outcome``, which is known for each answered row."""
        effect = self.design_effect(outcome, min(tails))
        counts = effective_counts(self.hits(outcome), self.sizes, effect)
        return stratified_share(self.weight, *counts, tails=tails, rows=self.n_rows)

    def design_effect(self, outcome: BoolArray, tail: float) -> float:
        r"""Number of answers in groups that tell as much as one answer about an independent row.

        The variance of a share is that between the sums of the groups, and it is divided by that
        of independent rows. If no two answers of a stratum differ, all rows of a group are taken
        to be alike. Quantiles of Student's distribution, with as many degrees of freedom as there
        are groups but one, replace those for as many rows (Korn and Graubard, 1998).
        """
        if self.groups is None or len(self.groups) == 0:
            return 1.0
        n = len(self.positive)
        group = np.unique(self.groups, return_inverse=True)[1]
        n_groups = int(group.max()) + 1
        if n_groups == 1:
            return float(n)
        sizes = np.maximum(self.sizes, 1)
        share = self.hits(outcome) / sizes
        deviation = outcome - share[self.stratum]
        if not deviation.any():
            deviation = np.ones(n)
        deviation *= (self.weight / sizes)[self.stratum]
        sums = np.bincount(group, weights=deviation)
        between_groups = float(sums @ sums) * n_groups / (n_groups - 1)
        between_rows = float(deviation @ deviation) * n / (n - 1)
        wider = stdtrit(n_groups - 1, 1 - tail) / stdtrit(n - 1, 1 - tail)
        return float(max(between_groups / between_rows * wider**2, 1.0))

    def answered_share(
        self, outcome: BoolArray, tails: tuple[float, float], among: BoolArray | None = None
    ) -> Figure:
        """Share of the population with an outcome that depends on answers of the rows ``among``.

        With the error rate e, the share s that is seen among rows with the share f is
        s = p (1 - e) + (f - p) e, which gives p.
        """
        figure = self.share(outcome, tails)
        if self.error_rate == 0:
            return figure
        share_among = 1.0
        if among is not None:
            share_among = self.share(among, tails).value
        return corrected(figure, self.error_rate, share_among)

    def correlation(self, first: BoolArray, second: BoolArray) -> float:
        """Correlation of the shares of two outcomes that exclude each other; never positive."""
        sizes = np.maximum(self.sizes, 1)
        strata = len(self.rows)
        p = (np.bincount(self.stratum[first], minlength=strata) + 0.5) / (sizes + 1)
        q = (np.bincount(self.stratum[second], minlength=strata) + 0.5) / (sizes + 1)
        noise = self.weight**2 / sizes
        covariance = -float(noise @ (p * q))
        variances = float(noise @ (p * (1 - p))) * float(noise @ (q * (1 - q)))
        return max(-1.0, covariance / math.sqrt(variances))


def corrected(seen: Figure, error_rate: float, among: float = 1.0) -> Figure:
    """The true share, of which answers with an error rate show ``seen``.

    ``among`` is the share of the rows that may have the outcome. The rate is taken as known
    (Rogan and Gladen).
    """
    scale = 1 - 2 * error_rate

    def true_share(share: float) -> float:
        return min(max((share - error_rate * among) / scale, 0.0), among)

    return Figure(
        value=true_share(seen.value),
        low=true_share(seen.low),
        high=true_share(seen.high),
        variance=seen.variance / scale**2,
    )


MEASURED_FIGURES = (
    "accuracy",
    "precision",
    "recall",
    "false_positive_rate",
    "flagged",
    "cost",
    "prior",
)


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation(TableResult):
    """Performance measured on rows with true labels, with limits for their population.

    Attributes
    ----------
    accuracy, precision, recall, false_positive_rate : Figure
        Each with confidence limits; NaN with limits 0 and 1 if the answers contain no information
        about it.
    flagged : Figure
        Share of the rows that are classified as positive.
    cost : Figure
        ``(1 - c) * share of missed positives + c * share of false alarms`` with ``c`` the
        false-positive cost; half the error rate when it is 1/2.
    prior : Figure
        Share of positives.
    n : int
        Number of rows with a true label.
    level : float
        Confidence level of each interval.
    n_positive : int or None
        Number of them that are positive.
    """

    accuracy: Figure
    precision: Figure
    recall: Figure
    false_positive_rate: Figure
    flagged: Figure
    cost: Figure
    prior: Figure
    n: int
    level: float
    n_positive: int | None = None

    def to_columns(self) -> TableColumns:
        """One row per figure, with limits."""
        figures = figure_columns(getattr(self, name) for name in MEASURED_FIGURES)
        return {"figure": list(MEASURED_FIGURES), **figures}

    def _title(self) -> str:
        title = f"{self.n} rows with true labels, intervals at {self.level:.0%}"
        if self.n_positive is None:
            return title
        return f"{title}{few_of_a_kind(self.n_positive, self.n)}"


FEW_OF_A_KIND = 10  # with fewer positive or negative answers, it is said what such few can tell


def few_of_a_kind(positive: int, n: int) -> str:
    """What few answers of one kind can tell, as the end of a sentence; nothing if they are many."""
    fewer = min(positive, n - positive)
    if fewer >= FEW_OF_A_KIND:
        return ""
    kind = "positive"
    figures = "recall"
    if n - positive < positive:
        kind = "negative"
        figures = "the rate of false alarms"
    return (
        f"; {fewer} of them {kind}: so few limit the prior, but {figures} and the best threshold "
        "stay uncertain"
    )


def evaluate_answers(
    answers: Answers, flagged: BoolArray, *, cost: float, level: float
) -> Evaluation:
    """Performance of the predictions ``flagged`` on the answered rows, for their population.

    Shares of the population have the limits of
    :func:`drpu.audits.evaluation.stratified_share`. Ratios and sums of two such shares combine
    the limits of both (MOVER), with the correlation that outcomes of the same row have.
    """
    positive = answers.positive
    tails = both_tails(level)
    true_positive = _Outcome.of(positive, flagged, answers, tails)
    false_positive = _Outcome.of(~positive, flagged, answers, tails)
    missed = _Outcome.of(positive, ~flagged, answers, tails)
    true_negative = _Outcome.of(~positive, ~flagged, answers, tails)
    return Evaluation(
        accuracy=answers.answered_share(positive == flagged, tails),
        precision=_share_of_two(answers, true_positive, false_positive),
        recall=_share_of_two(answers, true_positive, missed),
        false_positive_rate=_share_of_two(answers, false_positive, true_negative),
        flagged=answers.share(flagged, tails),
        cost=_weighted_sum(missed.share, 1 - cost, false_positive.share, cost),
        prior=answers.answered_share(positive, tails),
        n=len(positive),
        level=level,
        n_positive=int(positive.sum()),
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Answered rows with an outcome, and the share of the population that has it."""

    rows: BoolArray
    share: Figure

    @classmethod
    def of(
        cls, label: BoolArray, among: BoolArray, answers: Answers, tails: tuple[float, float]
    ) -> _Outcome:
        """The rows ``among`` with a label."""
        rows = label & among
        return cls(rows, answers.answered_share(rows, tails, among))


def _share_of_two(answers: Answers, outcome: _Outcome, other: _Outcome) -> Figure:
    """Share of ``outcome`` among the rows with it or with ``other``."""
    if not (outcome.rows.any() or other.rows.any()):
        return Figure(math.nan, 0.0, 1.0)
    correlation = answers.correlation(outcome.rows, other.rows)
    return _part(outcome.share, other.share, correlation)


def _part(first: Figure, second: Figure, correlation: float) -> Figure:
    """Limits of first / (first + second): the r at which (1 - r) first - r second may be 0."""
    total = first.value + second.value
    if total == 0:
        return Figure(math.nan, 0.0, 1.0)
    value = first.value / total

    def joined(x: float, y: float) -> float:
        return math.sqrt(max(x * x + y * y - 2 * correlation * x * y, 0.0))

    def difference(r: float) -> float:
        return (1 - r) * first.value - r * second.value

    def most_difference(r: float) -> float:
        by_first = (1 - r) * (first.high - first.value)
        by_second = r * (second.value - second.low)
        return difference(r) + joined(by_first, by_second)

    def least_difference(r: float) -> float:
        by_first = (1 - r) * (first.value - first.low)
        by_second = r * (second.high - second.value)
        return difference(r) - joined(by_first, by_second)

    high = 1.0
    if most_difference(1.0) < 0:
        high = float(brentq(most_difference, value, 1.0))
    low = 0.0
    if least_difference(0.0) > 0:
        low = float(brentq(least_difference, 0.0, value))
    return _with_variance(value, min(low, value), max(high, value))


def _weighted_sum(first: Figure, a: float, second: Figure, b: float) -> Figure:
    """Limits of ``a first + b second``.

    Outcomes exclude each other, so independence is conservative.
    """
    value = a * first.value + b * second.value
    below = math.hypot(a * (first.value - first.low), b * (second.value - second.low))
    above = math.hypot(a * (first.high - first.value), b * (second.high - second.value))
    return _with_variance(value, max(value - below, 0.0), min(value + above, max(a, b)))


def _with_variance(value: float, low: float, high: float) -> Figure:
    return Figure(value, low, high, ((high - low) / 4) ** 2)


_FEWEST_AUDITED = 10  # with fewer audited positives nothing is tested
_DRAWS = 4000  # number of simulated samples that the statistic is compared with
_OVERDISPERSION = 1.6  # of ranks among cross-fitted scores, because fold models differ


@dataclass(frozen=True, slots=True)
class FairnessTest:
    """Test that labelled and audited positives have the same distribution of scores.

    Attributes
    ----------
    rank : float
        Mean rank of the audited positives among the labelled ones, weighted by the
        design, from 0 (all below) to 1 (all above); about 1/2 if the labelled positives are a
        random sample.
    p_value : float
        Probability of a rank at least as far from 1/2 under a random sample; 1 if nothing can be
        tested.
    n_positive : int
        Number of audited positives.
    """

    rank: float
    p_value: float
    n_positive: int

    @property
    def labelled_score_higher(self) -> bool:
        """Whether the labelled positives have higher scores than the audited ones."""
        return self.rank < 0.5


def positive_ranks(tails: ScoreTails, scores: FloatArray) -> FloatArray:
    """Share of the labelled positives below each row, ties counted half; a mean over its scores."""
    below = tails.positive_counts.cumsum() / tails.positive_counts.sum()
    first = np.searchsorted(tails.levels, scores, side="left")
    last = np.searchsorted(tails.levels, scores, side="right")
    ranks = (below[first] + below[last]) / 2
    return np.asarray(ranks.reshape(len(scores), -1).mean(axis=1))


def fairness_test(
    ranks: FloatArray,
    positive: BoolArray,
    stratum: IntArray,
    weight: FloatArray,
    posterior: FloatArray,
    n_positive: float,
) -> FairnessTest:
    r"""Test that audited positives rank among labelled positives as those do among themselves.

    The statistic is the weighted mean rank of the audited positives. A single positive
    with a large weight makes its distribution skewed, so it is compared with simulated samples:
    rows are drawn again within their strata, with labels drawn from ``posterior``, which is
    multiplied by a factor that gives the observed share of positives. Their mean is moved to 1/2,
    so that a posterior with a wrong shape reduces the precision only. The noise of the labelled
    sample is added.
    """
    audited = int(positive.sum())
    if audited < _FEWEST_AUDITED or audited == len(positive):
        return FairnessTest(0.5, 1.0, audited)
    mass = weight[positive]
    rank = float(mass @ ranks[positive] / mass.sum())
    chance = _scaled(posterior, weight, float(mass.sum()))
    simulated = _simulated_ranks(ranks, chance, stratum, weight)
    noise = math.sqrt(_OVERDISPERSION / (12 * n_positive))
    noise_of_labelled = np.random.RandomState(1).normal(0, noise, len(simulated))
    simulated += 0.5 - simulated.mean() + noise_of_labelled
    smaller_tail = min(float((simulated <= rank).mean()), float((simulated >= rank).mean()))
    p_value = min(1.0, 2 * max(smaller_tail, 0.5 / _DRAWS))
    return FairnessTest(rank, p_value, audited)


def _scaled(posterior: FloatArray, weight: FloatArray, total: float) -> FloatArray:
    """The posterior times one factor, at most 1, such that the weighted sum is the observed one.

    A prior that is wrong by a factor makes every posterior wrong by that factor.
    """
    chance = np.clip(posterior, 1e-4, 1.0)
    low = 0.0
    high = 1 / float(chance.min())
    for _ in range(50):
        factor = (low + high) / 2
        if weight @ np.minimum(factor * chance, 1) < total:
            low = factor
        else:
            high = factor
    return np.asarray(np.minimum(high * chance, 1.0))


def _simulated_ranks(
    ranks: FloatArray, chance: FloatArray, stratum: IntArray, weight: FloatArray
) -> FloatArray:
    """Mean ranks of the positives in samples simulated under the hypothesis."""
    rng = np.random.RandomState(0)
    total = np.zeros(_DRAWS)
    weighted = np.zeros(_DRAWS)
    for h in np.unique(stratum):
        rows_of_stratum = np.flatnonzero(stratum == h)
        rows = rng.choice(rows_of_stratum, size=(_DRAWS, len(rows_of_stratum)))
        mass = weight[rows] * (rng.random_sample(rows.shape) < chance[rows])
        total += mass.sum(axis=1)
        weighted += (mass * ranks[rows]).sum(axis=1)
    means = weighted / np.maximum(total, 1e-300)
    return np.asarray(means[total > 0])
