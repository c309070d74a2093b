r"""The prior of a later period: what moved, how far to believe a reading, and labels that arrive.

All moves are differences of log-odds of a prior, so that readings of different kinds can be added and
compared. Let :math:`\pi` be the prior of the training population.

- *What moved.* If the scores and the columns of new rows are mixtures of the two training classes, only the
  prior moved. Otherwise, if P(positive | x) stayed as it was, the mean probability m of the rows is their
  prior. Compared with the mean :math:`m_0` over held-out training rows, which removes the error of the
  calibration, the reading is :math:`r = \operatorname{logit} m - \operatorname{logit} m_0`.
- *Weak scores.* A prior that moves by b moves the mean probability by J b only, where J is the share of the
  variance of the classes that the probabilities explain. So changes of the rows that are too small for the
  tests look like moves of the prior that are 1 / J times as large. Where J is small, only a part of such
  a move is believed (:meth:`Evidence.belief`).
- *The past.* Where labels are given at a constant rate, their share is proportional to the prior. So labelled
  shares show how far to believe the readings of past periods, without true labels (:func:`backtest_of`).
- *Labels that arrive* give the same kind of reading for the new period itself (:func:`labelled_reading`).

:func:`decide` combines these into one decision.
"""

from __future__ import annotations

import calendar
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtri

from drpu._codec import Kept, Number, Whole, kept
from drpu._typing import BoolArray, FloatArray, IntArray
from drpu.exceptions import DataError
from drpu.periods.columns import OTHER_SHIFT
from drpu.priors.estimate import PriorEstimate

Moved: TypeAlias = Literal["prior", "other"]
Kind: TypeAlias = Literal["guarded", "matched"]

MOST_PERIODS = 6  # of a backtest
FEWEST_LABELS = 10  # before a period that is read
FEWEST_ROWS = 30  # in a period that is read
_EDGE = 1e-4  # priors are kept this far from 0 and 1, where log-odds are infinite
_MOST_READ = 0.95  # largest prior that labels show, unless training has more
_MOST_MOVE = 3.0  # a factor of 20 of the odds
_MOST_LATE = 3  # most periods at the end whose labels may be late
_LATE = -2.0  # a share this many standard deviations below the reading is one with late labels


@dataclass(frozen=True, slots=True)
class Pooled:
    """Values for a table without a past, to which a table with a short past is shrunk.

    ``python -m benchmarks.months --choose`` computes them from tables with a calendar, and ``python -m
    benchmarks.more_months`` computes ``unseen``. ``telling`` is about the smallest explained share of tables
    moved by resampling, on which full moves are known to be right.

    ``rate_drift``: Standard deviation of the log of the labelling rate from period to period. It cannot
    be learnt from labels alone; it keeps a large number of labels from being taken as exact.
    """

    slope: float = 0.8  # how far the prior moved when the reading moved by one
    slope_spread: float = 0.5  # standard deviation of that slope over tables
    spread: float = 0.5  # standard deviation of the move of the prior that a reading misses, over periods
    spread_weight: float = 3.0  # number of past periods with the weight of the pooled spread
    doubt: float = 1.0  # log of the factor by which assuming pure prior shift must explain the past better
    telling: float = 0.15  # from this share of explained variance on, a move of the prior is believed fully
    unseen: float = 0.04  # moves of the mean probability that tests do not see, over usual moves of the prior
    rate_drift: float = 0.05


POOLED = Pooled()


def what_moved(p_value: float, moved_columns: Sequence[object]) -> Moved:
    """``"other"`` if a test found more than a new prior, otherwise ``"prior"``.

    ``p_value`` is that of the test that scores are a mixture of the training classes. It is 1 if there were
    too few rows to test it: what cannot be tested is not rejected.
    """
    if p_value < OTHER_SHIFT or len(moved_columns) > 0:
        return "other"
    return "prior"


def mean_probability(probability: FloatArray, counts: IntArray | FloatArray, *, shift: float = 0.0) -> float:
    """Mean over counted rows of the probability in their cell, with ``shift`` added to its log-odds."""
    moved = expit(_logit(probability) + shift) if shift else probability
    return float(moved @ counts / counts.sum())


def odds_move(before: float, after: float) -> float:
    """Move of the log-odds from one share to another."""
    return float(_logit(after) - _logit(before))


def _logit(share: float | FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(share, _EDGE, 1 - _EDGE)))


def _moved(prior: float, move: float) -> float:
    """The prior after a move of its log-odds; 0 and 1 stay."""
    return float(prior) if prior in (0.0, 1.0) else float(expit(logit(prior) + move))


@dataclass(frozen=True, slots=True)
class Reading:
    """A move of the log-odds of the prior since training, and the variance of its error."""

    move: float
    variance: float


def combine(first: Reading, second: Reading) -> Reading:
    r"""Mean of two independent readings with weights inversely proportional to their variances.

    The variance of the mean is :math:`1/(1/v_1 + 1/v_2)`. If the readings differ by more than
    their variances explain, at least one of them is wrong, and it is multiplied by
    :math:`(x_1 - x_2)^2 / (v_1 + v_2)`.
    """
    both = first.variance + second.variance
    if both <= 0:
        return first
    weight, gap = second.variance / both, second.move - first.move
    variance = first.variance * second.variance / both
    return Reading(first.move + (1 - weight) * gap, variance * max(1.0, gap * gap / both))


@kept("label-count")
@dataclass(frozen=True)
class LabelCount(Kept):
    """Labelled rows among all rows of a sample."""

    labels: Annotated[float, Number(0)]
    rows: Annotated[float, Number(0)]

    def __post_init__(self) -> None:
        if self.labels > self.rows:
            raise DataError(f"there must not be more labels than rows, got {self.labels:g} of {self.rows:g}.")

    def __add__(self, other: LabelCount) -> LabelCount:
        return LabelCount(self.labels + other.labels, self.rows + other.rows)

    @property
    def mean(self) -> float:
        """Share of labelled rows; 0 without rows."""
        return self.labels / self.rows if self.rows else 0.0

    @property
    def share(self) -> float:
        """Share of labelled rows, with half a label added so that it is not zero."""
        return (self.labels + 0.5) / (self.rows + 1)

    @property
    def noise(self) -> float:
        """Variance of the log of the share by the noise of the count."""
        return (1 - self.share) / (self.labels + 0.5)


@dataclass(frozen=True, slots=True)
class Arrived:
    """Labels of a new period, and those of training.

    ``complete``: False if more labels of the period are still to come, or if those of training are all
    incomplete: their number is then a lower bound only.
    """

    now: LabelCount  # of the period, as far as they have arrived
    before: LabelCount  # of the training periods whose labels are complete
    complete: bool = True
    trained: PriorEstimate | None = None  # the prior in training, if moves are counted from that of answers

    def reading(self, base: PriorEstimate) -> Reading:
        """The move of the prior since the rows with the prior ``base``, by the labelled shares."""
        if self.trained is None:
            return labelled_reading(self.now, self.before, base.value)
        found = labelled_reading(self.now, self.before, self.trained.value)
        move = found.move + odds_move(base.value, self.trained.value)
        return Reading(move, found.variance + _variance(self.trained))

    @property
    def share(self) -> float:
        """Share of the rows that are known to be positive."""
        return self.now.labels / max(self.now.rows, 1.0)


def labelled_reading(now: LabelCount, before: LabelCount, train_prior: float) -> Reading:
    r"""Move of the prior that the labelled shares of two samples show at a constant labelling rate.

    At a constant rate the share of labelled rows is the rate times the prior, so the priors have the ratio
    of the shares: :math:`\pi' = \pi s'/s`, which lies between :math:`s'` and 1. The log of the ratio has the
    variance :math:`(1-s')/n' + (1-s)/n + \tau^2` with the numbers of labels n and the drift
    :math:`\tau` of the rate; the log-odds have :math:`(1-\pi')^{-2}` times as much.
    """
    pi = float(np.clip(train_prior, _EDGE, 1 - _EDGE))
    most = max(_MOST_READ, pi, (1 + now.share) / 2)  # noise may take the ratio of the shares beyond 1
    found = float(np.clip(pi * now.share / before.share, min(now.share, 1 - _EDGE), min(most, 1 - _EDGE)))
    variance = now.noise + before.noise + POOLED.rate_drift**2
    return Reading(odds_move(pi, found), variance / (1 - found) ** 2)


@kept("past-period")
@dataclass(frozen=True)
class PastPeriod(Kept):
    """A past period, read by a classifier that was fitted to rows before it."""

    name: str
    rows: Annotated[int, Whole(0)]
    labels: Annotated[int, Whole(0)]  # labelled ones among them
    seen: float  # move of the prior by the labelled share, from the rows of that fit to the period
    noise: Annotated[float, Number(0)]  # variance of ``seen`` by the noise of both counts
    guarded: float  # move of the prior that the rows alone show, with the guard (:class:`Evidence`)
    matched: float  # the same as if only the prior had moved
    used: bool = True  # false if its labels may be late, or if there are too few of them


@kept("backtest")
@dataclass(frozen=True)
class Backtest(Kept):
    """How well rows of past periods were read without labels."""

    periods: tuple[PastPeriod, ...]  # the past periods, in the order of time
    kind: Kind  # the reading that explains the past moves better
    slope: float  # how far the prior moved when this reading moved by one
    spread: Annotated[float, Number(0)]  # standard deviation of the move that slope and noise do not explain

    def reading(self, rows: Evidence | PastPeriod) -> Reading:
        """The move to expect from what the rows of a period show."""
        return Reading(self.slope * float(getattr(rows, self.kind)), self.spread**2)


def backtest_of(periods: Sequence[PastPeriod], *, pooled: Pooled = POOLED) -> Backtest:
    r"""The reading that explains past periods better, its slope and its spread.

    The model of a reading is :math:`seen_t = \beta\, read_t + e_t` with
    :math:`e_t \sim N(0, v_t + \tau^2)`, where :math:`v_t` is the noise of the counts, and
    :math:`\beta \sim N(\beta_0, \sigma^2)` over tables. The slope is the mean of the posterior,

    .. math:: \hat\beta = \frac{\sum_t seen_t\, read_t / (v_t + \tau^2) + \beta_0/\sigma^2}
                               {\sum_t read_t^2 / (v_t + \tau^2) + 1/\sigma^2}.

    :math:`\tau^2` is the mean of the squared residuals minus their noise, not below 0, with the pooled value
    counted as k further periods. Both are computed in turn until they agree.
    Of the two readings the one with the higher marginal likelihood is taken; the reading that assumes
    pure prior shift, where the tests reject it, must be ahead by a factor. Without a used period the pooled
    values are returned.
    """
    used = [period for period in periods if period.used]
    if not used:
        return Backtest(tuple(periods), "guarded", pooled.slope, pooled.spread)
    seen, noise = (np.array([getattr(period, name) for period in used]) for name in ("seen", "noise"))
    fits: dict[Kind, tuple[float, float, float]] = {}
    kinds: tuple[tuple[Kind, float], ...] = (("guarded", pooled.slope), ("matched", 1.0))
    for kind, centre in kinds:
        read = np.array([getattr(period, kind) for period in used])
        fits[kind] = _fitted_past(seen, read, noise, centre, pooled)
    best: Kind = "matched" if fits["matched"][2] > fits["guarded"][2] + pooled.doubt else "guarded"
    slope, variance, _ = fits[best]
    return Backtest(tuple(periods), best, slope, math.sqrt(variance))


def _fitted_past(
    seen: FloatArray, read: FloatArray, noise: FloatArray, centre: float, pooled: Pooled
) -> tuple[float, float, float]:
    """Slope, variance of what is not explained, and log of the marginal likelihood up to a constant."""
    slope, variance, k = centre, pooled.spread**2, pooled.spread_weight
    shrink = 1 / pooled.slope_spread**2
    for _ in range(20):
        weight = 1 / (noise + variance)
        slope = float((weight @ (seen * read) + shrink * centre) / (weight @ (read * read) + shrink))
        excess = max(0.0, float(((seen - slope * read) ** 2 - noise).sum()))
        variance = (excess + k * pooled.spread**2) / (len(seen) + k)
    weight = 1 / (noise + variance)
    fit = weight @ (seen - slope * read) ** 2 + shrink * (slope - centre) ** 2
    size = np.log(weight).sum() - math.log1p(weight @ (read * read) / shrink)
    prior = k * (math.log(variance) + pooled.spread**2 / variance)
    return slope, variance, float(size - fit - prior) / 2


@dataclass(frozen=True, slots=True)
class BacktestPlan:
    """Which past periods a backtest reads."""

    names: tuple[Any, ...]  # the periods in the order of time
    number: IntArray  # position of each row's period in ``names``; -1 for a row without a period
    read: tuple[int, ...]  # positions of the periods to read, each by a fit to the rows before it
    settled: int  # number of periods whose labels are complete: all but the last ``label_delay``
    reason: str = ""  # why there is nothing to read; empty otherwise

    @property
    def complete(self) -> BoolArray:
        """Which rows have complete labels: all, or those of the periods before the last ones."""
        if self.settled == len(self.names):
            return np.ones(len(self.number), dtype=bool)
        return (self.number >= 0) & (self.number < self.settled)


def plan_backtest(
    periods: Sequence[Any], labelled: BoolArray, *, label_delay: int = 0, most: int = MOST_PERIODS
) -> BacktestPlan:
    """The periods to read in a backtest: the last ones with enough labels before and complete ones in them.

    A row whose period is None or NaN takes no part. The last ``label_delay`` periods, whose labels are not
    complete, are not read.
    """
    names, number = ordered_periods(periods)
    settled = max(len(names) - label_delay, 0)
    rows = np.bincount(number[number >= 0], minlength=len(names))
    labels = np.bincount(number[(number >= 0) & labelled], minlength=len(names))
    before = np.cumsum(labels) - labels
    read = [t for t in range(1, settled) if before[t] >= FEWEST_LABELS and rows[t] >= FEWEST_ROWS]
    reason = ""
    if settled < 2:
        reason = f"{len(names)} period(s), of which {settled} have complete labels; two are needed"
    elif not read:
        reason = (
            f"no period of {FEWEST_ROWS} rows has {FEWEST_LABELS} labels before it "
            f"({int(labels[:settled].sum())} labels in {settled} periods)"
        )
    return BacktestPlan(tuple(names), number, tuple(read[-most:]), settled, reason)


def ordered_periods(periods: Sequence[Any]) -> tuple[list[Any], IntArray]:
    """The different periods in the order of time, and the position of each row's period among them.

    Numbers in text are compared as numbers. Text that does not sort by time is refused: names of months, and
    a year that comes after another number.
    """
    values = list(periods)
    known = [not (value is None or value != value) for value in values]  # NaN differs from itself
    try:
        different = set(itertools.compress(values, known))
        numbers = all(map(_is_number, different))
        names = sorted(different, key=float if numbers else _sortable)
    except TypeError as error:
        raise DataError(
            f"periods must be values that sort, such as dates or text like '2024-05', got {error}."
        ) from error
    place = {name: k for k, name in enumerate(names)}
    number = [place[value] if there else -1 for value, there in zip(values, known, strict=True)]
    return names, np.array(number, dtype=np.int64)


_MONTHS = {name.lower() for name in (*calendar.month_name, *calendar.month_abbr)} - {""}
_YEAR = re.compile(r"(19|20)\d\d")


def _sortable(value: Any) -> Any:
    """What a period is sorted by: text by its parts, with numbers as numbers."""
    if not isinstance(value, str):
        return value
    parts: list[Any] = re.split(r"(\d+)", value)  # every second one is a number
    years = [_YEAR.fullmatch(part) is not None for part in parts[1::2]]
    if _MONTHS.intersection(re.findall("[^\\W\\d_]+", value.lower())) or (any(years) and not years[0]):
        raise DataError(f"periods of text must begin with the year to sort, as in '2024-05', got {value!r}.")
    numbers = [(len(part), part) for part in (number.lstrip("0") for number in parts[1::2])]
    return list(itertools.zip_longest(parts[::2], numbers))


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


def late_periods(periods: Sequence[PastPeriod]) -> int:
    """How many of the last periods have fewer labels than their rows suggest: labels may arrive late.

    The last d periods are compared with the backtest of those before them. d is the largest number of at
    most three, with three or more periods before, for which each of the last d shares lies at least two
    standard deviations below what is expected.
    """
    for late in range(min(_MOST_LATE, len(periods) - 3), 0, -1):
        past = backtest_of(periods[:-late])
        pairs = [(period, past.reading(period)) for period in periods[-late:]]
        if all(own.seen - read.move < _LATE * math.sqrt(read.variance + own.noise) for own, read in pairs):
            return late
    return 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What rows of a period show without labels."""

    train: PriorEstimate  # prior of the training population
    adapted: PriorEstimate  # prior of the rows if only the prior moved
    moved: Moved  # what moved, by the tests
    probability: FloatArray  # P(positive) as trained in each cell of the counts
    before: float  # mean of that probability over the training population, held out
    counts: IntArray | FloatArray  # rows of the period in each cell
    labelled_share: float = 0.0  # of the training population; 0 in case-control, where it says nothing
    rows: float = math.inf  # number of rows of the period
    explained: float = 1.0  # share of the variance of the classes in training that the probabilities explain
    tested: bool = True  # whether there were enough rows to test that scores are a mixture of both classes

    def belief(self, pooled: Pooled = POOLED) -> float:
        r"""Weight of ``matched`` where the tests find nothing but prior shift.

        If moves of the prior have the variance 1 and errors of ``matched`` the variance :math:`s^2`, the best
        weight is :math:`1/(1 + s^2)`. Here :math:`s = c (1/J - 1/J_1)` with the explained share J, and s = 0
        if J is at least :math:`J_1`. The constants c and :math:`J_1` are ``unseen`` and ``telling``. If
        nothing could be tested, the variance of the reading itself is added: its interval is all there is.
        """
        variance = 0.0
        if self.explained < pooled.telling:
            unexplained = 1 / max(self.explained, _EDGE) - 1 / pooled.telling
            variance = (pooled.unseen * unexplained) ** 2
        if not self.tested:
            variance += _variance(self.adapted)
        return 1 / (1 + variance)

    def believed(self, pooled: Pooled = POOLED) -> PriorEstimate:
        """The adapted prior, whose value has moved from that of training by the believed part only.

        It counts as identified if at least half of the move is believed.
        """
        adapted, weight = self.adapted, self.belief(pooled)
        if weight == 1:
            return adapted
        value = float(np.clip(_moved(self.train.value, weight * self.matched), adapted.low, adapted.high))
        if weight < 0.5:
            return replace(adapted, value=value, identified=False, upper=None)
        return replace(adapted, value=value)

    @property
    def mean_move(self) -> float:
        """Move of the mean probability since training."""
        return odds_move(self.before, mean_probability(self.probability, self.counts))

    @property
    def matched(self) -> float:
        """Move of the prior if only the prior moved; limited, because a single extreme one spoils a slope."""
        return float(np.clip(odds_move(self.train.value, self.adapted.value), -_MOST_MOVE, _MOST_MOVE))

    def noise(self, prior: float, *, slope: float = 1.0) -> float:
        """Standard error of a reading of the prior by the number of rows alone.

        The share J of the variance of the classes that the probabilities p explain, Var(p) / (m (1 - m)) with
        their mean m, is the information about the prior: it has the variance prior (1 - prior) / (n J) if
        only the prior moved. Otherwise the prior follows the mean of p, whose variance is Var(p) / n.
        """
        share = (prior * self.rows + 0.5) / (self.rows + 1)
        spread = share * (1 - share)
        if self.moved == "prior":
            m, variance = self._moments()
            return math.sqrt(spread * m * (1 - m) / (self.rows * variance))
        return slope * spread * self.mean_error

    @property
    def mean_error(self) -> float:
        """Standard error of ``mean_move`` by the number of rows; of few rows the variance is not known."""
        m, variance = self._moments()
        return math.sqrt((variance + m * (1 - m) / self.rows) / self.rows) / (m * (1 - m))

    def _moments(self) -> tuple[float, float]:
        """Mean and variance of the probabilities."""
        weight = self.counts / self.counts.sum()
        m = float(np.clip(weight @ self.probability, _EDGE, 1 - _EDGE))
        return m, max(float(weight @ (self.probability - m) ** 2), 1e-6)

    @property
    def guarded(self) -> float:
        """Move of the prior that the rows show: ``matched`` if a test accepts it, else ``mean_move``."""
        if self.moved == "prior" and self.tested:
            return self.matched
        return self.mean_move


@dataclass(frozen=True, slots=True)
class PeriodDecision:
    """The prior of a period, and the prior at which its labels are made."""

    moved: Moved
    prior: PriorEstimate  # prior of the period; not identified if more than the prior moved
    labels_at: float  # of labels and probabilities; the training prior if these stay as trained
    sources: tuple[str, ...]  # what the move is based on: ``"rows"``, ``"backtest"``, ``"labels"``
    late: bool = False  # whether there are far fewer labels than rows and past suggest: they may arrive late


def decide(
    evidence: Evidence, *, backtest: Backtest | None = None, arrived: Arrived | None = None
) -> PeriodDecision:
    r"""Prior and labels of a period, moved only as far as there is support for it.

    If only the prior moved and no labels arrived, the result is the adapted prior, as far as the scores
    can tell (:meth:`Evidence.believed`). If more moved, the
    reading is ``slope * read`` with the variance ``spread**2``, by the backtest or by the pooled
    values, and labels that arrived are combined with it. Labels are moved by :func:`labels_move` if there
    is a backtest or if labels arrived, and otherwise stay as trained.
    """
    train = evidence.train
    if evidence.moved == "prior":
        reading = Reading(evidence.matched, _variance(evidence.adapted))
    else:
        past = backtest or backtest_of(())
        expected, error = past.reading(evidence), past.slope * evidence.mean_error
        reading = Reading(expected.move, expected.variance + error**2)
    sources = ["rows"] if evidence.moved == "prior" or backtest is None else ["rows", "backtest"]
    late, known = False, 0.0 if arrived is None else arrived.share
    if arrived is not None and arrived.complete and arrived.before.rows:
        labels = arrived.reading(train)
        late = labels.move - reading.move < _LATE * math.sqrt(labels.variance + reading.variance)
        reading = combine(reading, labels)
        sources.append("labels")
    elif evidence.moved == "prior" and evidence.adapted.low >= known:
        prior = evidence.believed()
        return PeriodDecision("prior", prior, prior.value, ("rows",))

    value = max(known, _moved(train.value, reading.move))
    supported = len(sources) > 1
    if evidence.moved == "prior":
        labels_at = value
    else:
        labels_at = _moved(train.value, labels_move(evidence, reading.move)) if supported else train.value
    low, high = _limits(evidence, reading, supported)
    prior = PriorEstimate(
        value,
        min(max(low, known), value),
        max(high, value),
        evidence.adapted.level,
        "+".join(sources),
        evidence.moved == "prior" and train.identified,
    )
    return PeriodDecision(evidence.moved, prior, labels_at, tuple(sources), late)


def labels_move(evidence: Evidence, move: float) -> float:
    r"""Move of the log-odds of all rows with which their mean probability agrees with a move of their prior.

    With b added to all log-odds, the mean probability of the rows has moved by m(b) since training. The
    result solves m(b) = ``move``. If P(positive | x) is steady, the prior moved by m(0), so b = 0 and labels
    stay, however the columns drift. Under prior shift b is the move of the log-odds of the prior.
    """

    def miss(shift: float) -> float:
        now = mean_probability(evidence.probability, evidence.counts, shift=shift)
        return odds_move(evidence.before, now) - move

    ends = -20.0, 20.0
    if miss(ends[0]) >= 0 or miss(ends[1]) <= 0:  # the mean cannot reach the target: labels stay
        return 0.0
    return float(brentq(miss, *ends, xtol=1e-6))


def _variance(prior: PriorEstimate) -> float:
    """Variance of the log-odds of an estimated prior, from the width of its interval.

    Where the prior is not identified, the lower limit is a trivial one, and the upper half is used.
    """
    low = prior.low if prior.identified else prior.value
    halves = 2 if prior.identified else 1
    return max((odds_move(low, prior.high) / (halves * _deviations(prior.level))) ** 2, 1e-12)


def _deviations(level: float) -> float:
    """Half the width of a normal interval in standard deviations."""
    return float(ndtri((1 + level) / 2))


def _limits(evidence: Evidence, reading: Reading, supported: bool) -> tuple[float, float]:
    """Limits of the prior: those of training, moved by the reading and widened by its error.

    Both errors are independent, so their widths on the log-odds scale are added as squares. Without support
    the limits also cover the training prior, the adapted one and the mean probability, each with its own
    limits. Where the training prior is not identified, the labelled share replaces its lower limit.
    """
    train, adapted = evidence.train, evidence.adapted
    lowest = train.low if train.identified else min(train.low, evidence.labelled_share)
    margin = _deviations(adapted.level) * math.sqrt(reading.variance)
    scale = _deviations(adapted.level) / _deviations(train.level)
    down, up = scale * odds_move(lowest, train.value), scale * odds_move(train.value, train.high)
    low = _moved(train.value, reading.move - math.hypot(down, margin))
    high = _moved(train.value, reading.move + math.hypot(up, margin))
    if supported:
        return low, high
    move = evidence.mean_move
    return (
        min(low, lowest, _moved(lowest, move), adapted.low),
        max(high, train.high, _moved(train.high, move), adapted.high),
    )
