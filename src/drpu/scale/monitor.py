"""PriorMonitor: the prior of a stream from counts of its latest rows, with an alarm."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Self

import numpy as np
from scipy.special import betaln

from drpu._arrays import FloatArray, Rows
from drpu._checks import check_fraction, check_integer
from drpu._codec import POSITIVE, Array, Number, Whole, decode, encode, kept
from drpu._output import output_file
from drpu._process import ObjectLock, default_errors_in
from drpu.classifier.drpu import AdaptedClassifier, RatioClassifier
from drpu.decisions.point import Hypothesis
from drpu.exceptions import ArtifactError, DataError, ParameterError
from drpu.files.archive import open_archive, read_bytes, write_archive
from drpu.periods.counts import GroupCounts, sum_of_counts
from drpu.periods.moves import Moved
from drpu.periods.read import Reading, beside_training, check_single_sample, read_new_rows
from drpu.periods.shift_tests import ColumnShift, MixtureTest
from drpu.priors.estimate import PriorEstimate
from drpu.priors.figures import exact_limits
from drpu.priors.tails import ScoreTails
from drpu.scale.batches import check_classifier
from drpu.state.fitted import FittedRatio, check_counts
from drpu.state.population import LabelCount
from drpu.state.reference import Reference

_SPACING = 500.0  # rows between the starts of two tests: earlier rows must not hide a late change
_STRENGTH = 20.0  # weight of the mixture over alternatives, in rows
_QUANTILES = 25  # thresholds to choose from
_JOINED = 0.01  # share of the window that a joined batch has at least
_MOST_STARTS = 2000  # largest number of tests; those with the least evidence are dropped


@kept("alarm")
@dataclass(frozen=True, eq=False)
class PriorAlarm:
    r"""Test that the prior of a stream equals the prior of the classifier, valid at any time.

    The share of rows with a score above one threshold is compared with its share at the prior in
    use. If the prior does not change and rows are independent, the alarm is ever raised with
    probability at most ``alpha``, for any number of updates.

    Notes
    -----
    After t rows, x of them above the threshold, the likelihood ratio of a beta mixture of
    alternatives against the share p is

    .. math:: M(p) = \frac{B(x + A, t - x + B)}{B(A, B)} \, p^{-x} (1 - p)^{x - t},

    whose expectation is at most 1 while the share is p. The reference share is known within
    limits only, so p is the value within them that fits the rows best; these limits use a
    fifth of ``alpha``. A test starts every 500 rows, and the weighted sum of all tests is
    the evidence; the alarm is raised once it exceeds ``1 / (0.8 alpha)`` (Ville's inequality).

    If rows depend on each other, such as consecutive rows of one customer, counts vary more, and
    the probability of a false alarm may exceed ``alpha``. Then use a part of the rows, or one row
    for each customer.
    """

    alpha: Annotated[float, Number(low=POSITIVE, high=1)]
    cell: Annotated[int, Whole(0)]  # rows in this cell or a higher one are above the threshold
    value: Annotated[float, Number(low=POSITIVE, high=1)]  # share of rows above it, with its limits
    low: Annotated[float, Number(low=POSITIVE, high=1)]
    high: Annotated[float, Number(low=POSITIVE, high=1)]
    evidence: Annotated[float, Number(0, math.inf)] = 0.0
    raised: bool = False
    rows: Annotated[float, Number(0)] = 0.0
    # of each test: rows above the threshold, all rows, and its number
    above: Annotated[FloatArray, Array("s", low=0)] = field(default_factory=partial(np.zeros, 1))
    count: Annotated[FloatArray, Array("s", low=0)] = field(default_factory=partial(np.zeros, 1))
    order: Annotated[FloatArray, Array("s", low=0)] = field(default_factory=partial(np.zeros, 1))
    next: Annotated[float, Number(0)] = _SPACING  # number of rows at which another test starts

    def __post_init__(self) -> None:
        ordered = self.low <= self.value <= self.high < 1
        if len(self.above) == 0 or not ordered or self.alpha >= 1:
            raise DataError(
                "the parts of an alarm must agree: its shares, and its number of tests."
            )
        if (self.above > self.count).any():
            raise DataError(
                "an alarm must not count more rows above the level than there are rows."
            )

    @classmethod
    def of(
        cls,
        reference: ScoreTails,
        growth: tuple[float, float, float] = (1.0, 1.0, 1.0),
        *,
        alpha: float = 0.05,
    ) -> Self:
        """The alarm for a stream in which the share of negatives has grown by ``growth``.

        ``growth`` is the expected ratio of this share to that among the unlabeled training rows,
        which ``reference`` counts: smallest, estimated and largest value. ``alpha`` is the
        probability of a false alarm over the whole stream.
        """
        check_fraction("alpha", alpha)
        level = _most_informative(reference)
        low, high = _share_limits(reference, level, growth, alpha / 5)
        # likelihoods vanish at 0 and 1
        low = min(max(low, 1e-9), 1 - 1e-9)
        high = max(min(high, 1 - 1e-9), 1e-9)
        a = reference.survival[level]
        b = reference.positive_survival[level]
        _, expected_growth, _ = growth
        value = (1 - expected_growth) * b + expected_growth * a
        return cls(
            alpha, cell=level + 1, value=float(min(max(value, low), high)), low=low, high=high
        )

    @property
    def level(self) -> float:
        """Evidence above which the alarm is raised."""
        return 1 / (self.alpha - self.alpha / 5)

    def updated(self, batch: ScoreTails) -> Self:
        """The alarm after the counts of a batch; once raised it stays raised."""
        n = batch.n
        all_scores = max(float(batch.counts.sum()), 1e-300)
        above = self.above + n * float(batch.counts[self.cell :].sum()) / all_scores
        count = self.count + n
        order = self.order
        # of the tests; the sum is below 1
        weight = 1 / (3.4 * (order + 1) * np.log(order + 2) ** 2)
        with np.errstate(over="ignore"):
            terms = weight * np.exp(self._log_ratios(above, count))
        evidence = float(terms.sum())
        rows = self.rows + n
        next_start = self.next
        if rows >= next_start:  # another test, which uses the rows from here on
            next_start = rows + _SPACING
            tests = np.arange(len(terms))
            if len(terms) >= _MOST_STARTS:
                tests = np.delete(tests, int(terms.argmin()))
            above = np.append(above[tests], 0.0)
            count = np.append(count[tests], 0.0)
            order = np.append(order[tests], order[tests].max() + 1)
        return replace(
            self,
            evidence=evidence,
            raised=self.raised or evidence >= self.level,
            rows=rows,
            above=above,
            count=count,
            order=order,
            next=next_start,
        )

    def _log_ratios(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Logarithm of M(p) of each test, at the p within its limits that fits the rows best."""
        with np.errstate(invalid="ignore"):
            p = np.clip(np.where(t > 0, x / t, self.value), self.low, self.high)
        A = _STRENGTH * self.value
        B = _STRENGTH * (1 - self.value)
        mixture = betaln(x + A, t - x + B) - betaln(A, B)
        return np.asarray(mixture - x * np.log(p) - (t - x) * np.log1p(-p))


def _most_informative(reference: ScoreTails) -> int:
    """The level that is most informative about the prior, of a few quantiles of the positives."""
    a = reference.survival
    b = reference.positive_survival
    levels = np.unique(np.linspace(0, len(b) - 1, _QUANTILES).round().astype(int))
    variance = np.maximum(a * (1 - a), 1 / reference.n)
    information = (b[levels] - a[levels]) ** 2 / variance[levels]
    return int(levels[np.argmax(information)])


def _share_limits(
    reference: ScoreTails, level: int, growth: tuple[float, float, float], alpha: float
) -> tuple[float, float]:
    """Limits of the share of rows at or above a level, after the negatives have grown."""
    unlabeled = exact_limits(reference.survival[level], reference.n, alpha / 2)
    if growth == (1, 1, 1):
        return unlabeled
    positive = exact_limits(reference.positive_survival[level], reference.n_positive, alpha / 2)
    least_growth, _, most_growth = growth
    # the share above the level is linear in the growth of the negatives
    corners = []
    for g in (least_growth, most_growth):
        for b in positive:
            for a in unlabeled:
                corners.append((1 - g) * b + g * a)
    return float(min(corners)), float(max(corners))


@dataclass(frozen=True, slots=True)
class PriorReading:
    """The estimates of a monitor after a batch.

    Attributes
    ----------
    when : object
        Name of the batch, such as a date; the default is its position in the stream.
    n : float
        Rows in the window.
    prior : PriorEstimate
        Prior of the window.
    moved : bool
        Whether the current prior of the classifier lies outside the interval of this window. Each
        reading is a new test, so over many readings of an unchanged stream some are true by chance.
        Use ``alarm`` for a decision.
    alarm : bool
        Whether the prior has changed, by a test that may be repeated after every batch: over a
        whole unchanged stream the probability of a false alarm is at most ``alpha``. It stays true
        until :meth:`PriorMonitor.reset_alarm`.
    shift : MixtureTest
        Test that the window is a mixture of the two training classes, that is, that only the
        prior has changed.
    moved_columns : tuple of ColumnShift
        Columns of the window that moved more than a new prior explains, the largest move first.
    what_moved : {"prior", "other"}
        Whether only the prior has changed, by both tests. If not, the prior is a guarded reading.
    hypotheses : tuple of Hypothesis
        Priors at which labels are made, by what may have moved, with their weights.
    sources : tuple of str
        What the prior is based on: ``"rows"``, ``"backtest"``, ``"labels"``.
    late : bool
        Whether far fewer labels have arrived than the rows suggest. If labels arrive late, leave
        ``n_labelled`` out until they are complete.
    """

    when: Any
    n: float
    prior: PriorEstimate
    moved: bool
    shift: MixtureTest
    hypotheses: tuple[Hypothesis, ...]
    alarm: bool = False
    moved_columns: tuple[ColumnShift, ...] = ()
    what_moved: Moved = "prior"
    sources: tuple[str, ...] = ("rows",)
    late: bool = False

    @property
    def trusted(self) -> bool:
        """Whether only the prior seems to have changed."""
        return self.what_moved == "prior"

    def __str__(self) -> str:
        parts = [f"{self.when}: {self.prior}", f"{self.n:g} rows"]
        if self.alarm:
            parts.append("ALARM")
        if self.moved:
            parts.append("moved")
        if not self.trusted:
            parts.append("not prior shift")
        if self.late:
            parts.append("labels may be late")
        for shift in self.moved_columns[:3]:
            parts.append(f"column {shift.name!r} moved")
        return ", ".join(parts)


@default_errors_in
class PriorMonitor:
    """Follows the prior of a stream of batches; keeps counts and no rows.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier
        The classifier in use. Readings are compared with its prior.
    window : int, optional
        Minimum number of rows of the window: the oldest batches are dropped while the others have
        as many rows. The default is all batches. With a few thousand rows the error of the prior
        is a few hundredths. Small batches, or rows that arrive one by one, are joined: the window
        is read again after a hundredth of its rows, and until then :meth:`update` counts, tests for
        the alarm, and returns the latest reading.
    level : float, default=0.95
        Confidence level of the intervals.
    keep : int, default=1000
        Readings to keep in ``readings``.
    alpha : float, default=0.05
        Bound on the probability that the alarm is ever raised while the prior equals that of the
        classifier. It holds for independent rows without weights. If rows depend on earlier rows,
        false alarms are more frequent.

    Attributes
    ----------
    readings : deque of PriorReading
        The latest readings, the newest last.
    tails : ScoreTails
        Counts of the window.
    alarm : PriorAlarm
        The test behind ``PriorReading.alarm``, with its ``evidence`` and ``level``. It uses
        all rows since it was started or reset, for any window.

    Examples
    --------
    >>> from drpu import DRPUClassifier, PriorMonitor, make_gaussian_pu
    >>> data = make_gaussian_pu(300, 1000, prior=0.4, test_prior=0.1, separation=3, random_state=0)
    >>> clf = DRPUClassifier("kernel", random_state=0).fit_pu(data.positive, data.unlabeled)
    >>> monitor = PriorMonitor(clf, window=500)
    >>> reading = monitor.update(data.test, when="June")
    >>> reading.alarm, monitor.adapted().prior_ == reading.prior
    (True, True)
    """

    def __init__(
        self,
        classifier: RatioClassifier,
        *,
        window: int | None = None,
        level: float = 0.95,
        keep: int = 1000,
        alpha: float = 0.05,
    ) -> None:
        check_classifier(classifier)
        self.classifier = classifier
        self.window = window
        if window is not None:
            self.window = check_integer("window", window, low=1)
        self.level = check_fraction("level", level)
        self.readings: deque[PriorReading] = deque(maxlen=check_integer("keep", keep, low=1))
        self.tails = classifier.fitted_.no_counts()
        self._batches: deque[CountedBatch] = deque()
        self._seen = 0
        self._unread = 0.0  # rows since the latest reading
        self.alpha = check_fraction("alpha", alpha)
        self._lock = ObjectLock()
        self.reset_alarm()

    def reset_alarm(self) -> None:
        """Start the alarm anew from the next batch on."""
        fitted = self.classifier.fitted_
        reference = self.classifier.reference_
        growth = _growth(self.classifier.test_prior_, fitted, reference)
        self.alarm = PriorAlarm.of(reference.tails, growth, alpha=self.alpha)

    def update(
        self,
        X: Rows | ScoreTails,
        *,
        when: Any = None,
        sample_weight: Any = None,
        n_labelled: int | None = None,
    ) -> PriorReading:
        """Count a batch, drop old batches from the window, and estimate the prior.

        If this raises or is interrupted, nothing of the batch is counted. Threads may share a
        monitor.

        Parameters
        ----------
        X : rows of shape (n, d), or ScoreTails
            The batch, or its counts from ``classifier.count`` or :func:`drpu.count_batches`.
        when : object, optional
            Name of the batch.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.
        n_labelled : int, optional
            How many rows of the batch have been labelled positive by now, as ``y`` in ``adapt``: a
            lower bound if the classifier has a ``label_delay``. It needs
            ``scenario="single-sample"`` and rows without weights. Batches without it take no part
            in the share of labelled rows.

        Returns
        -------
        reading : PriorReading
        """
        if isinstance(X, ScoreTails):
            counts = check_counts(self.classifier.fitted_, X, sample_weight).copy()
        else:
            counts = self.classifier.count(X, sample_weight=sample_weight)
        labels = None
        if n_labelled is not None:
            check_single_sample(self.classifier.fitted_, "n_labelled")
            if counts.weighted:
                raise ParameterError(
                    "n_labelled must be None for weighted rows: a number of labels does not give "
                    "their share by weight. Use adapt(X, y, sample_weight=...)."
                )
            labels = LabelCount(check_integer("n_labelled", n_labelled, low=0), counts.n)
        with self._lock:  # threads may share a monitor
            return self._update(CountedBatch(counts, labels), when)

    def _update(self, batch: CountedBatch, when: Any) -> PriorReading:
        batches, tails = self._pushed(batch)
        alarm = self.alarm.updated(batch.counts)
        n_seen = self._seen + 1
        if when is None:
            when = n_seen
        readings = self.readings
        unread = self._unread + batch.counts.n
        if readings and unread < self._joined_rows(tails):
            reading = replace(readings[-1], alarm=alarm.raised)
        else:
            reading = self._read(when, tails, _labels(batches), alarm)
            readings = deque([*readings, reading], maxlen=readings.maxlen)
            unread = 0.0
        # One assignment: an interrupted update has counted nothing and may be repeated.
        vars(self).update(
            _batches=batches,
            tails=tails,
            alarm=alarm,
            readings=readings,
            _seen=n_seen,
            _unread=unread,
        )
        return reading

    def _joined_rows(self, tails: ScoreTails) -> float:
        """Rows of batches that are joined: fewer do not change a reading."""
        return _JOINED * (self.window or tails.n)

    def _read(
        self, when: Any, tails: ScoreTails, labels: LabelCount | None, alarm: PriorAlarm
    ) -> PriorReading:
        fitted = self.classifier.fitted_
        reference = self.classifier.reference_
        arrived = None
        if labels is not None:
            arrived = beside_training(fitted, reference, labels)
        window = read_new_rows(fitted, reference, tails, level=self.level, arrived=arrived)
        assert window.shift_test is not None  # rows were read
        prior = window.prior
        return PriorReading(
            when=when,
            n=tails.n,
            prior=prior,
            moved=not prior.low <= self.classifier.test_prior_.value <= prior.high,
            shift=window.shift_test,
            alarm=alarm.raised,
            moved_columns=window.moved_columns,
            what_moved="other" if window.shift == "other" else "prior",
            hypotheses=window.hypotheses,
            sources=window.sources,
            late=window.late,
        )

    def adapted(self) -> AdaptedClassifier:
        """The classifier at the prior of the latest reading; after loading, of the window."""
        if self.readings:
            latest = self.readings[-1]
        elif self._batches:  # the monitor was loaded
            latest = self._read(self._seen, self.tails, _labels(self._batches), self.alarm)
        else:
            raise DataError(
                "there is no reading to adapt to: update the monitor with a batch first."
            )
        window = Reading(
            prior=latest.prior,
            hypotheses=latest.hypotheses,
            shift=latest.what_moved,
            sources=latest.sources,
            rows=latest.n,
            shift_test=latest.shift,
            moved_columns=latest.moved_columns,
        )
        return self.classifier._at_reading(window)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the window and the alarm to a file, for a restart; readings are not written.

        Parameters
        ----------
        path : path-like
            The file. It appears complete or not at all.
        """
        counts = GroupCounts.of(self.tails.empty(), _by_number(self._batches))
        labels = tuple(batch.labels for batch in self._batches)
        record = MonitorRecord(
            counts.packed(), labels, self._seen, self.window, self.level, self.alpha, self.alarm
        )
        with output_file(path) as file:
            write_archive(file, encode(record), {})

    @classmethod
    def load(cls, path: str | os.PathLike[str], classifier: RatioClassifier) -> Self:
        """The monitor that :meth:`save` wrote.

        Parameters
        ----------
        path : path-like
            The file.
        classifier : DRPUClassifier or AdaptedClassifier
            The classifier that counted the rows, as it was or loaded from its own file.

        Raises
        ------
        ArtifactError
            If the file was not written by :meth:`save`, was changed, or belongs to another
            classifier.
        """
        archive = open_archive(read_bytes(path))
        if archive.facts != {}:
            raise ArtifactError("the manifest of a monitor must have no facts.")
        record: MonitorRecord = decode(archive.tree, archive.arrays, archive.blobs, MonitorRecord)
        monitor = cls(classifier, window=record.window, level=record.level, alpha=record.alpha)
        monitor._seen = record.seen
        monitor.alarm = record.alarm
        try:
            if record.alarm.cell > len(monitor.tails.counts):
                raise DataError("its alarm watches a score that the classifier does not have.")
            counts = record.batches.unpacked()
            for tails, labels in zip(counts.values(), record.labels, strict=True):
                check_counts(classifier.fitted_, tails)
                monitor._batches.append(CountedBatch(tails, labels))
            monitor.tails = sum_of_counts(monitor.tails, counts.values())
        except DataError as error:
            raise ArtifactError(
                f"{os.fspath(path)!r} does not fit this classifier: {error}"
            ) from error
        return monitor

    def __repr__(self) -> str:
        latest = "nothing read yet"
        if self.readings:
            latest = str(self.readings[-1])
        return f"PriorMonitor(window={self.window}, {latest})"

    def _pushed(self, batch: CountedBatch) -> tuple[deque[CountedBatch], ScoreTails]:
        """Batches and counts of the window with one more batch; the monitor is not changed."""
        if self.window is None:  # no batch is dropped: one object holds all counts
            labels = _labels((*self._batches, batch))
            total = self.tails + batch.counts
            return deque([CountedBatch(total, labels)]), total
        batches = deque(self._batches)
        if batches and batches[-1].counts.n < self._joined_rows(self.tails):
            batches.append(batches.pop().joined(batch))
        else:
            batches.append(batch)
        n_rows = sum(part.counts.n for part in batches)
        if n_rows - batches[0].counts.n < self.window:
            return batches, self.tails + batch.counts
        while n_rows - batches[0].counts.n >= self.window:
            n_rows -= batches.popleft().counts.n
        tails = sum_of_counts(batch.counts.empty(), [part.counts for part in batches])
        return batches, tails


@dataclass(frozen=True)
class CountedBatch:
    """Counts of a batch, and its labels if their number was given."""

    counts: ScoreTails
    labels: LabelCount | None

    def joined(self, other: CountedBatch) -> CountedBatch:
        """The rows of both."""
        return CountedBatch(self.counts + other.counts, _labels([self, other]))


def _by_number(batches: Iterable[CountedBatch]) -> dict[int, ScoreTails]:
    return {number: batch.counts for number, batch in enumerate(batches)}


def _labels(batches: Iterable[CountedBatch]) -> LabelCount | None:
    """Labels of the batches whose number of labels was given."""
    total = None
    for batch in batches:
        if batch.labels is not None:
            total = batch.labels if total is None else total + batch.labels
    return total


def _growth(
    prior: PriorEstimate, fitted: FittedRatio, reference: Reference
) -> tuple[float, float, float]:
    """Growth of the negatives from the reference rows to ``prior``: smallest, middle, largest."""
    if reference.map is None and prior == fitted.prior:
        # the population has the labelled positives in addition
        unlabeled_fraction = 1 - fitted.population.labelled_fraction
        return unlabeled_fraction, unlabeled_fraction, unlabeled_fraction
    base = reference.prior
    if reference.map is not None and prior == base:
        return 1.0, 1.0, 1.0
    low = high = base.value
    if prior.method == "given":
        # the limits of an estimate from new rows include the uncertainty of the training prior
        low = base.low
        high = base.high
    least = (1 - prior.high) / max(1 - low, 1e-6)
    middle = (1 - prior.value) / max(1 - base.value, 1e-6)
    most = (1 - prior.low) / max(1 - high, 1e-6)
    return least, middle, most


@kept("monitor")
@dataclass(frozen=True)
class MonitorRecord:
    """What a file keeps of a :class:`PriorMonitor`."""

    batches: GroupCounts
    labels: tuple[LabelCount | None, ...]
    seen: Annotated[int, Whole(0)]
    window: Annotated[int, Whole(1)] | None
    level: Annotated[float, Number(1e-6, 1)]
    alpha: Annotated[float, Number(0, 1)]
    alarm: PriorAlarm

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.batches):
            raise DataError("a monitor must have labels, or none, for each of its batches.")
        if self.seen < len(self.batches):
            raise DataError("a monitor cannot have more batches than it has seen.")
        if not (0 < self.level < 1 and 0 < self.alpha < 1):
            raise DataError("the level and alpha of a monitor must lie strictly between 0 and 1.")
