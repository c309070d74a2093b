r"""The prior of a later period: what moved, how far to believe a reading, and labels that arrive.

All moves are differences of log-odds of a prior, so that readings of different kinds can be added
and compared. Let :math:`\pi` be the prior of the training population.

- *What moved.* If the scores and the columns of new rows are mixtures of the two training classes,
  only the prior moved. Otherwise, if P(positive | x) stayed as it was, the mean probability m of
  the rows is their prior. Compared with the mean :math:`m_0` over held-out training rows, which
  removes the error of the calibration, the reading is
  :math:`r = \operatorname{logit} m - \operatorname{logit} m_0`.
- *Weak scores.* A prior that moves by b moves the mean probability by J b only, where J is the
  share of the variance of the classes that the probabilities explain. So changes of the rows that
  are too small for the tests look like moves of the prior that are 1 / J times as large. What was
  not rejected is therefore not certain: both hypotheses keep a weight, and the prior and the
  probabilities are means over them (:meth:`MoveEvidence.weight_of_prior_shift`).
- *The past.* Where labels are given at a constant rate, their share is proportional to the prior.
  So labelled shares show how far to believe the readings of past periods, without true labels
  (:func:`backtest_of`).
- *Labels that arrive* give the same kind of reading for the new period itself
  (:func:`labelled_reading`).

:func:`decide` combines these into one decision.
"""

from __future__ import annotations

import calendar
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy

from drpu._arrays import BoolArray, FloatArray, IntArray
from drpu.decisions.point import Hypothesis
from drpu.exceptions import DataError
from drpu.periods.shift_tests import OTHER_SHIFT
from drpu.priors.estimate import PriorEstimate
from drpu.priors.matching import Growth, chance_of_growth
from drpu.state.population import Backtest, Kind, LabelCount, PastPeriod
from drpu.state.rows import BacktestPlan

Moved: TypeAlias = Literal["prior", "other"]

MOST_PERIODS = 6  # of a backtest
FEWEST_LABELS = 10  # before a period that is read
PERIOD_ROWS = 30  # in a period that is read
_LEAST_SHARE = 1e-4  # shares are kept away from 0 and 1, where log-odds are infinite
_MOST_SHARE = 1 - _LEAST_SHARE
_UNMOVED = Growth(1.0)
_MOST_READ = 0.95  # largest prior that labels show, unless training has more
_MOST_MOVE = 3.0  # a factor of 20 of the odds
_MOST_LABELS_MOVE = 20.0  # of the log-odds of all rows
_MOST_LATE = 3  # most periods at the end whose labels may be late
_LATE = -2.0  # a share this many standard deviations below the reading is one with late labels


@dataclass(frozen=True, slots=True)
class Pooled:
    """Values for a table without a past, to which a table with a short past is shrunk.

    ``python -m benchmarks.months --choose`` computes them from tables with a calendar, and
    ``python -m benchmarks.months --weigh`` computes ``unseen`` from these and from tables moved by
    resampling.

    ``spread``: Standard deviation of the move of the prior that a reading misses, over periods.
    ``doubt``: Log of the factor by which assuming pure prior shift must explain the past better.
    ``unseen``: Usual move of the mean probability by other changes of the smallest share of rows
    that the tests notice, divided by this share; usual moves of the prior are the unit.
    ``rate_drift``: Standard deviation of the log of the labelling rate from period to period. It
    cannot be learnt from labels alone; it keeps a large number of labels from being taken as
    exact.
    """

    slope: float = 0.8  # how far the prior moved when the reading moved by one
    slope_spread: float = 0.5  # standard deviation of that slope over tables
    spread: float = 0.5
    spread_weight: float = 3.0  # number of past periods with the weight of the pooled spread
    doubt: float = 1.0
    unseen: float = 1.3
    rate_drift: float = 0.05


POOLED = Pooled()


def what_moved(p_value: float, moved_columns: Sequence[object]) -> Moved:
    """``"other"`` if a test found more than a new prior, otherwise ``"prior"``.

    ``p_value`` is that of the test that scores are a mixture of the training classes. It is 1 if
    there were too few rows to test it: what cannot be tested is not rejected.
    """
    if p_value < OTHER_SHIFT or len(moved_columns) > 0:
        return "other"
    return "prior"


def mean_probability(
    probability: FloatArray, counts: IntArray | FloatArray, *, shift: float = 0.0
) -> float:
    """Mean over counted rows of the probability in their cell, with ``shift`` added to log-odds."""
    if shift != 0:
        probability = scipy.special.expit(_logit(probability) + shift)
    return float(probability @ counts / counts.sum())


def odds_move(before: float, after: float) -> float:
    """Move of the log-odds from one share to another."""
    return float(_logit(after) - _logit(before))


def _logit(share: float | FloatArray) -> FloatArray:
    return np.asarray(scipy.special.logit(np.clip(share, _LEAST_SHARE, _MOST_SHARE)))


def moved_prior(prior: float, move: float) -> float:
    """The prior after a move of its log-odds; 0 and 1 stay."""
    if prior in (0.0, 1.0):
        return float(prior)
    return float(scipy.special.expit(scipy.special.logit(prior) + move))


@dataclass(frozen=True, slots=True)
class MoveReading:
    """A move of the log-odds of the prior since training, and the variance of its error."""

    move: float
    variance: float


def combine(first: MoveReading, second: MoveReading) -> MoveReading:
    r"""Mean of two independent readings with weights inversely proportional to their variances.

    The variance of the mean is :math:`1/(1/v_1 + 1/v_2)`. If the readings differ by more than
    their variances explain, at least one of them is wrong, and it is multiplied by
    :math:`(x_1 - x_2)^2 / (v_1 + v_2)`.
    """
    total = first.variance + second.variance
    if total <= 0:
        return first
    first_weight = second.variance / total
    gap = second.move - first.move
    variance = first.variance * second.variance / total
    disagreement = max(1.0, gap * gap / total)
    return MoveReading(first.move + (1 - first_weight) * gap, variance * disagreement)


@dataclass(frozen=True, slots=True)
class Arrived:
    """Labels of a new period, and those of training.

    ``complete``: False if more labels of the period are still to come, or if those of training are
    all incomplete: their number is then a lower bound only.
    ``trained``: The prior in training, if moves are counted from that of answers.
    """

    now: LabelCount  # of the period, as far as they have arrived
    before: LabelCount  # of the training periods whose labels are complete
    complete: bool = True
    trained: PriorEstimate | None = None

    def reading(self, base: PriorEstimate) -> MoveReading:
        """The move of the prior since the rows with the prior ``base``, by the labelled shares."""
        if self.trained is None:
            return labelled_reading(self.now, self.before, base.value)
        since_training = labelled_reading(self.now, self.before, self.trained.value)
        move = since_training.move + odds_move(base.value, self.trained.value)
        return MoveReading(move, since_training.variance + _variance(self.trained))

    @property
    def share(self) -> float:
        """Share of the rows that are known to be positive."""
        return self.now.labels / max(self.now.rows, 1.0)


def labelled_reading(now: LabelCount, before: LabelCount, train_prior: float) -> MoveReading:
    r"""Move of the prior that the labelled shares of two samples show at a constant labelling rate.

    At a constant rate the share of labelled rows is the rate times the prior, so the priors have
    the ratio of the shares: :math:`\pi' = \pi s'/s`, which lies between :math:`s'` and 1. The log
    of the ratio has the variance :math:`(1-s')/n' + (1-s)/n + \tau^2` with the numbers of labels n
    and the drift :math:`\tau` of the rate; the log-odds have :math:`(1-\pi')^{-2}` times as much.
    """
    pi = float(np.clip(train_prior, _LEAST_SHARE, _MOST_SHARE))
    least = min(now.share, _MOST_SHARE)
    most = max(_MOST_READ, pi, (1 + now.share) / 2)  # noise may take the ratio of shares beyond 1
    pi_now = float(np.clip(pi * now.share / before.share, least, min(most, _MOST_SHARE)))
    variance = now.noise + before.noise + POOLED.rate_drift**2
    return MoveReading(odds_move(pi, pi_now), variance / (1 - pi_now) ** 2)


def past_reading(backtest: Backtest, rows: MoveEvidence | PastPeriod) -> MoveReading:
    """The move to expect from what the rows of a period show."""
    return MoveReading(backtest.read_move(rows.guarded, rows.matched), backtest.spread**2)


def backtest_of(periods: Sequence[PastPeriod], *, pooled: Pooled = POOLED) -> Backtest:
    r"""The reading that explains past periods better, its slope and its spread.

    The model of a reading is :math:`seen_t = \beta\, read_t + e_t` with
    :math:`e_t \sim N(0, v_t + \tau^2)`, where :math:`v_t` is the noise of the counts, and
    :math:`\beta \sim N(\beta_0, \sigma^2)` over tables. The slope is the mean of the posterior,

    .. math:: \hat\beta = \frac{\sum_t seen_t\, read_t / (v_t + \tau^2) + \beta_0/\sigma^2}
                               {\sum_t read_t^2 / (v_t + \tau^2) + 1/\sigma^2}.

    :math:`\tau^2` is the mean of the squared residuals minus their noise, not below 0, with the
    pooled value counted as k further periods. Both are computed in turn until they agree. Of the
    two readings the one with the higher marginal likelihood is taken; the reading that assumes
    pure prior shift, where the tests reject it, must be ahead by a factor. Without a used period
    the pooled values are returned.
    """
    used = [period for period in periods if period.used]
    if not used:
        return Backtest(tuple(periods), "guarded", pooled.slope, pooled.spread)
    guarded = _PastFit.of("guarded", used, pooled.slope, pooled)
    matched = _PastFit.of("matched", used, 1.0, pooled)
    best = guarded
    if matched.log_likelihood > guarded.log_likelihood + pooled.doubt:
        best = matched
    return Backtest(tuple(periods), best.kind, best.slope, math.sqrt(best.variance))


@dataclass(frozen=True, slots=True)
class _PastFit:
    """A reading of past periods: its slope, the variance that it leaves, and how likely it is."""

    kind: Kind
    slope: float
    variance: float
    log_likelihood: float  # marginal, up to a constant

    @classmethod
    def of(cls, kind: Kind, used: Sequence[PastPeriod], centre: float, pooled: Pooled) -> _PastFit:
        """The fit of the reading ``kind``, with the slope ``centre`` over tables."""
        seen = np.array([period.seen for period in used])
        noise = np.array([period.noise for period in used])
        read = np.array([getattr(period, kind) for period in used])
        variance = pooled.spread**2
        k = pooled.spread_weight
        slope_precision = 1 / pooled.slope_spread**2
        slope = centre
        for _ in range(20):
            weight = 1 / (noise + variance)
            slope = weight @ (seen * read) + slope_precision * centre
            slope = float(slope / (weight @ (read * read) + slope_precision))
            excess = max(0.0, float(((seen - slope * read) ** 2 - noise).sum()))
            variance = (excess + k * pooled.spread**2) / (len(used) + k)

        weight = 1 / (noise + variance)
        misfit = weight @ (seen - slope * read) ** 2 + slope_precision * (slope - centre) ** 2
        log_size = np.log(weight).sum() - math.log1p(weight @ (read * read) / slope_precision)
        log_prior = k * (math.log(variance) + pooled.spread**2 / variance)
        return cls(kind, slope, variance, float(log_size - misfit - log_prior) / 2)


def plan_backtest(
    periods: Sequence[Any], labelled: BoolArray, *, label_delay: int = 0, most: int = MOST_PERIODS
) -> BacktestPlan:
    """The periods to read in a backtest: the last with enough labels before them and complete ones.

    A row whose period is None or NaN takes no part. The last ``label_delay`` periods, whose labels
    are not complete, are not read.
    """
    names, number = ordered_periods(periods)
    settled = max(len(names) - label_delay, 0)
    rows = np.bincount(number[number >= 0], minlength=len(names))
    labels = np.bincount(number[(number >= 0) & labelled], minlength=len(names))
    labels_before = np.cumsum(labels) - labels
    read = []
    for period in range(1, settled):
        if labels_before[period] >= FEWEST_LABELS and rows[period] >= PERIOD_ROWS:
            read.append(period)
    reason = ""
    if settled < 2:
        reason = f"{len(names)} period(s), of which {settled} have complete labels; two are needed"
    elif not read:
        reason = (
            f"no period of {PERIOD_ROWS} rows has {FEWEST_LABELS} labels before it "
            f"({int(labels[:settled].sum())} labels in {settled} periods)"
        )
    return BacktestPlan(tuple(names), number, tuple(read[-most:]), settled, reason)


def ordered_periods(periods: Sequence[Any]) -> tuple[list[Any], IntArray]:
    """The different periods in the order of time, and the position of each row's period among them.

    Numbers in text are compared as numbers. Text that does not sort by time is refused: names of
    months, and a year that comes after another number.
    """
    different = set()
    try:
        for value in periods:
            if not _is_absent(value):
                different.add(value)
        if all(_is_number(value) for value in different):
            names = sorted(different, key=float)
        else:
            names = sorted(different, key=_sortable)
    except TypeError as error:
        raise DataError(
            f"periods must be values that sort, such as dates or text like '2024-05', got {error}."
        ) from error
    position = {name: k for k, name in enumerate(names)}
    number = []
    for value in periods:
        number.append(-1 if _is_absent(value) else position[value])
    return names, np.array(number, dtype=np.int64)


def _is_absent(value: Any) -> bool:
    return bool(value is None or value != value)  # NaN differs from itself


_MONTHS = {name.lower() for name in (*calendar.month_name, *calendar.month_abbr)} - {""}
_YEAR = re.compile(r"(19|20)\d\d")


def _sortable(value: Any) -> Any:
    """What a period is sorted by: text by its parts, with numbers as numbers."""
    if not isinstance(value, str):
        return value
    parts: list[Any] = re.split(r"(\d+)", value)  # every second one is a number
    digits = parts[1::2]
    words = re.findall("[^\\W\\d_]+", value.lower())
    years = [_YEAR.fullmatch(number) is not None for number in digits]
    year_is_later = any(years) and not years[0]
    if year_is_later or _MONTHS.intersection(words):
        raise DataError(
            f"periods of text must begin with the year to sort, as in '2024-05', got {value!r}."
        )
    numbers = []
    for number in digits:
        significant = number.lstrip("0")
        numbers.append((len(significant), significant))
    return list(itertools.zip_longest(parts[::2], numbers))


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


def late_periods(periods: Sequence[PastPeriod]) -> int:
    """How many of the last periods have fewer labels than their rows suggest: they may be late.

    The last d periods are compared with the backtest of those before them. d is the largest number
    of at most three, with three or more periods before, for which each of the last d shares lies
    at least two standard deviations below what is expected.
    """
    for late in range(min(_MOST_LATE, len(periods) - 3), 0, -1):
        past = backtest_of(periods[:-late])
        if all(_has_few_labels(period, past_reading(past, period)) for period in periods[-late:]):
            return late
    return 0


def _has_few_labels(period: PastPeriod, expected: MoveReading) -> bool:
    """Whether the labelled share lies far below what is expected of the rows."""
    deviation = math.sqrt(expected.variance + period.noise)
    return period.seen - expected.move < _LATE * deviation


@dataclass(frozen=True, slots=True)
class MoveEvidence:
    """What rows of a period show without labels.

    ``probability``: P(positive) as trained in each cell of the counts.
    ``before``: Mean of that probability over the training population, held out.
    ``counts``: Rows of the period in each cell.
    ``explained``: Share of the variance of the classes in training that the probabilities explain.
    ``tested``: Whether there were enough rows to test that scores are a mixture of both classes.
    ``p_value``: Of this test; 1 without it.
    ``detectable``: Share of the rows that must change for this test to notice it; 1 without it.
    ``growth``: Of the negatives since training; None if the scores separate nothing.
    """

    train: PriorEstimate  # prior of the training population
    adapted: PriorEstimate  # prior of the rows if only the prior moved
    moved: Moved  # what moved, by the tests
    probability: FloatArray
    before: float
    counts: IntArray | FloatArray
    rows: float = math.inf  # number of rows of the period
    explained: float = 1.0
    tested: bool = True
    p_value: float = 1.0
    detectable: float = 1.0
    growth: Growth | None = _UNMOVED

    def weight_of_prior_shift(
        self,
        steady: MoveReading,
        *,
        backtest: Backtest | None = None,
        labels: MoveReading | None = None,
        pooled: Pooled = POOLED,
    ) -> float:
        r"""Probability that only the prior moved, rather than that P(positive | x) stayed.

        It is 0 if a test rejects it. Otherwise the odds are

        .. math:: \frac{B(p)\, q}{(c\, d / J)^2 + e^2}.

        A usual move of the prior moves the mean probability by the explained share J. The tests
        notice other changes of a share d of the rows, and smaller ones, which they do not notice,
        move the mean probability by c d. e is the standard error of the growth of the negatives by
        the number of rows, and q the probability that the training prior is large enough for it:
        no prior of new rows is negative. :math:`B(p) = -e\, p \log p` is the smallest Bayes factor
        of the p-value of the test. Past periods and labels that arrived multiply the odds by the
        ratio of their likelihoods; ``steady`` is the reading if P(positive | x) stayed.
        """
        if self.moved != "prior" or self.growth is None or self.explained < _LEAST_SHARE:
            return 0.0
        unnoticed = pooled.unseen * self.detectable / self.explained
        possible = chance_of_growth(self.train.possible_values, self.growth)
        support = _least_bayes_factor(self.p_value) * possible
        doubt = (unnoticed**2 + self.growth.spread**2) / max(support, 1e-12)
        log_odds = -math.log(max(doubt, 1e-300))
        if backtest is not None:
            log_odds += _log_likelihood_of_past(backtest)
        if labels is not None:
            by_prior = MoveReading(self.matched, _variance(self.adapted))
            log_odds += _log_density(labels, by_prior) - _log_density(labels, steady)
        return float(scipy.special.expit(log_odds))

    def averaged(self, weight: float, steady: MoveReading) -> PriorEstimate:
        """The mean over both hypotheses, of which "only the prior moved" has this weight.

        It counts as identified if that hypothesis has at least half of the weight. Otherwise the
        limits are those of both hypotheses.
        """
        adapted = self.adapted
        if weight == 1:
            return adapted
        steady_value = moved_prior(self.train.value, steady.move)
        value = weight * adapted.value + (1 - weight) * steady_value
        if weight < 0.5:
            low, high = _limits(self, steady, supported=False)
            low = min(low, value)
            high = max(high, value)
            return replace(adapted, value=value, low=low, high=high, identified=False, upper=None)
        low = min(adapted.low, value)
        high = max(adapted.high, value)
        return replace(adapted, value=value, low=low, high=high)

    def only_prior_moved(self, weight: float) -> Hypothesis:
        """The hypothesis that only the prior moved."""
        if self.growth is None:
            return Hypothesis(weight, self.adapted.value)
        return Hypothesis(weight, self.adapted.value, self.growth.value, self.growth.spread)

    @property
    def mean_move(self) -> float:
        """Move of the mean probability since training."""
        return odds_move(self.before, mean_probability(self.probability, self.counts))

    @property
    def matched(self) -> float:
        """Move of the prior if only the prior moved.

        It is limited, because a single extreme one spoils a slope.
        """
        move = odds_move(self.train.value, self.adapted.value)
        return float(np.clip(move, -_MOST_MOVE, _MOST_MOVE))

    def noise(self, prior: float, *, slope: float = 1.0) -> float:
        """Standard error of a reading of the prior by the number of rows alone.

        The share J of the variance of the classes that the probabilities p explain, Var(p) / (m (1
        - m)) with their mean m, is the information about the prior: it has the variance prior (1 -
        prior) / (n J) if only the prior moved. Otherwise the prior follows the mean of p, whose
        variance is Var(p) / n.
        """
        share = (prior * self.rows + 0.5) / (self.rows + 1)
        spread = share * (1 - share)
        if self.moved == "prior":
            m, variance = self._moments()
            return math.sqrt(spread * m * (1 - m) / (self.rows * variance))
        return slope * spread * self.mean_error

    @property
    def mean_error(self) -> float:
        """Standard error of ``mean_move`` by the number of rows, cautious if they are few."""
        m, variance = self._moments()
        return math.sqrt((variance + m * (1 - m) / self.rows) / self.rows) / (m * (1 - m))

    def _moments(self) -> tuple[float, float]:
        """Mean and variance of the probabilities."""
        weight = self.counts / self.counts.sum()
        m = float(np.clip(weight @ self.probability, _LEAST_SHARE, _MOST_SHARE))
        return m, max(float(weight @ (self.probability - m) ** 2), 1e-6)

    @property
    def guarded(self) -> float:
        """Move of the prior by the rows: ``matched`` if a test accepts it, else ``mean_move``."""
        if self.moved == "prior" and self.tested:
            return self.matched
        return self.mean_move


@dataclass(frozen=True, slots=True)
class PeriodDecision:
    """The prior of a period, and the priors at which its labels are made.

    ``prior``: Prior of the period; not identified if more than the prior moved.
    ``hypotheses``: Priors of labels and probabilities by what may have moved; those of training if
    these stay as trained.
    ``sources``: What the move is based on: ``"rows"``, ``"backtest"``, ``"labels"``.
    ``late``: Whether there are far fewer labels than rows and past suggest: they may arrive late.
    """

    moved: Moved
    prior: PriorEstimate
    hypotheses: tuple[Hypothesis, ...]
    sources: tuple[str, ...]
    late: bool = False


def decide(
    evidence: MoveEvidence, *, backtest: Backtest | None = None, arrived: Arrived | None = None
) -> PeriodDecision:
    r"""Prior and labels of a period, averaged over what may have moved.

    There are two hypotheses: only the prior moved, and P(positive | x) stayed, which moves the
    prior by ``slope * mean_move`` with the variance ``spread**2``, by the backtest or by the pooled
    values. Labels that arrived are combined with the reading of each. The prior and the
    probabilities are means over both, with the weight of
    :meth:`MoveEvidence.weight_of_prior_shift`.
    If P(positive | x) stayed, labels stay as trained, unless labels that arrived or, where a test
    rejected the other hypothesis, the backtest say otherwise (:func:`labels_move`).
    """
    steady = steady_reading(evidence, backtest)
    labels = None
    known_share = 0.0
    if arrived is not None:
        known_share = arrived.share
        if arrived.complete and arrived.before.rows > 0:
            labels = arrived.reading(evidence.train)
    weight = evidence.weight_of_prior_shift(steady, backtest=backtest, labels=labels)
    if evidence.moved == "prior" and labels is None:
        prior = _at_least(evidence.averaged(weight, steady), known_share)
        followed = evidence.only_prior_moved(weight)
        if followed.prior < known_share:
            followed = followed.moved_to(known_share)
        as_trained = Hypothesis(1 - weight, evidence.train.value)
        return PeriodDecision("prior", prior, (followed, as_trained), ("rows",))
    return _decide_by_readings(
        evidence, steady, labels, weight, backtest=backtest, known_share=known_share
    )


def steady_reading(evidence: MoveEvidence, backtest: Backtest | None) -> MoveReading:
    """The move of the prior if P(positive | x) stayed, by the past if there is one."""
    past = backtest_of(()) if backtest is None else backtest
    error = past.slope * evidence.mean_error
    move = past.read_move(evidence.mean_move, evidence.matched)
    return MoveReading(move, past.spread**2 + error**2)


def _at_least(prior: PriorEstimate, known_share: float) -> PriorEstimate:
    """The prior, at least the share of rows that are known to be positive."""
    if prior.low >= known_share:
        return prior
    value = max(prior.value, known_share)
    upper = None if prior.upper is None else max(prior.upper, value)
    return replace(
        prior, value=value, low=known_share, high=max(prior.high, known_share), upper=upper
    )


def _decide_by_readings(
    evidence: MoveEvidence,
    steady: MoveReading,
    labels: MoveReading | None,
    weight: float,
    *,
    backtest: Backtest | None,
    known_share: float,
) -> PeriodDecision:
    """The decision from moves of the log-odds, if labels arrived or more than the prior moved."""
    only_prior = evidence.moved == "prior"
    by_prior = MoveReading(evidence.matched, _variance(evidence.adapted))
    sources = ["rows"]
    if backtest is not None and not only_prior:
        sources.append("backtest")
    late = False
    if labels is not None:
        sources.append("labels")
        expected = by_prior if only_prior else steady
        deviation = math.sqrt(labels.variance + expected.variance)
        late = labels.move - expected.move < _LATE * deviation
        by_prior = combine(by_prior, labels)
        steady = combine(steady, labels)

    trained = evidence.train.value
    moved_value = moved_prior(trained, by_prior.move)
    steady_value = moved_prior(trained, steady.move)
    value = max(known_share, weight * moved_value + (1 - weight) * steady_value)
    supported = len(sources) > 1
    labels_at = trained
    if supported:
        labels_at = moved_prior(trained, labels_move(evidence, steady.move))
    hypotheses = [Hypothesis(1 - weight, labels_at)]
    if only_prior:
        hypotheses.insert(0, Hypothesis(weight, moved_value))
    low, high = _limits(evidence, by_prior if only_prior else steady, supported)
    prior = PriorEstimate(
        value=value,
        low=min(max(low, known_share), value),
        high=max(high, value),
        level=evidence.adapted.level,
        method="+".join(sources),
        identified=only_prior and evidence.train.identified,
    )
    return PeriodDecision(evidence.moved, prior, tuple(hypotheses), tuple(sources), late)


def _least_bayes_factor(p_value: float) -> float:
    """The smallest Bayes factor of the tested hypothesis that agrees with a p-value."""
    if p_value >= 1 / math.e:
        return 1.0
    return -math.e * p_value * math.log(max(p_value, 1e-300))


def _log_density(seen: MoveReading, expected: MoveReading) -> float:
    """Log of the normal density of a reading, if another one is right; up to a constant."""
    variance = seen.variance + expected.variance
    return -((seen.move - expected.move) ** 2 / variance + math.log(variance)) / 2


def _log_likelihood_of_past(backtest: Backtest) -> float:
    """Log of the likelihood of past moves if only the prior moved, over that without a move."""
    total = 0.0
    for period in backtest.periods:
        if period.used:
            seen = MoveReading(period.seen, period.noise)
            total += _log_density(seen, MoveReading(period.matched, POOLED.spread**2))
            total -= _log_density(seen, MoveReading(0.0, POOLED.spread**2))
    return total


def labels_move(evidence: MoveEvidence, move: float) -> float:
    r"""Move of the log-odds of all rows at which their mean probability moves as their prior.

    With b added to all log-odds, the mean probability of the rows has moved by m(b) since
    training. The result solves m(b) = ``move``. If P(positive | x) is steady, the prior moved by
    m(0), so b = 0 and labels stay, however the columns drift. Under prior shift b is the move of
    the log-odds of the prior.
    """

    def excess(shift: float) -> float:
        now = mean_probability(evidence.probability, evidence.counts, shift=shift)
        return odds_move(evidence.before, now) - move

    least = -_MOST_LABELS_MOVE
    most = _MOST_LABELS_MOVE
    if excess(least) >= 0 or excess(most) <= 0:  # the mean cannot reach the target: labels stay
        return 0.0
    return float(scipy.optimize.brentq(excess, least, most, xtol=1e-6))


def _variance(prior: PriorEstimate) -> float:
    """Variance of the log-odds of an estimated prior, from the width of its interval."""
    spread = odds_move(prior.low, prior.high) / (2 * _deviations(prior.level))
    return max(spread**2, 1e-12)


def _deviations(level: float) -> float:
    """Half the width of a normal interval in standard deviations."""
    return float(scipy.special.ndtri((1 + level) / 2))


def _limits(evidence: MoveEvidence, reading: MoveReading, supported: bool) -> tuple[float, float]:
    """Limits of the prior: those of training, moved by the reading and widened by its error.

    Both errors are independent, so their widths on the log-odds scale are added as squares.
    Without support the limits also cover the training prior, the adapted one and the mean
    probability, each with its own limits.
    """
    train = evidence.train
    adapted = evidence.adapted
    by_reading = _deviations(adapted.level) * math.sqrt(reading.variance)
    scale = _deviations(adapted.level) / _deviations(train.level)
    below = math.hypot(scale * odds_move(train.low, train.value), by_reading)
    above = math.hypot(scale * odds_move(train.value, train.high), by_reading)
    low = moved_prior(train.value, reading.move - below)
    high = moved_prior(train.value, reading.move + above)
    if supported:
        return low, high
    mean_move = evidence.mean_move
    return (
        min(low, train.low, moved_prior(train.low, mean_move), adapted.low),
        max(high, train.high, moved_prior(train.high, mean_move), adapted.high),
    )
