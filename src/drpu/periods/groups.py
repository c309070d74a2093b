r"""Groups of rows, such as months or branches: their readings, priors and warnings.

With :math:`K` groups each interval has the level :math:`1 - (1 - \text{level}) / K` (Bonferroni),
so that all of them hold together at the requested level.

Values are shrunk towards the prior of all rows, :math:`\pi`, by the usual empirical Bayes rule:
:math:`w_g \pi_g + (1 - w_g) \pi` with :math:`w_g = \tau^2 / (\tau^2 + s_g^2)`. :math:`s_g` is the
standard error by the rows of the group alone: an error of the training prior is that of all
groups, and no reason to shrink one to the others. :math:`\tau^2` is the variance between groups by
the method of Paule and Mandel: the value at which :math:`\sum_g (\pi_g - \bar\pi)^2 / (\tau^2 +
s_g^2)` is :math:`K - 1`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy

from drpu._arrays import FloatArray, IntArray
from drpu._checks import check_fraction
from drpu._results import TableColumns, TableResult, columns_of
from drpu.exceptions import (
    DataError,
    DataTypeError,
    DRPUWarning,
    FewPositivesWarning,
    FewRowsWarning,
    MixedPeriodsWarning,
    SeparationWarning,
    ShiftWarning,
    heard,
)
from drpu.periods.read import (
    Reading,
    arrived_labels,
    read_new_rows,
    sampling_error,
    warn_about_reading,
)
from drpu.priors.estimate import PriorEstimate
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import FittedRatio
from drpu.state.population import TrainingColumns
from drpu.state.reference import Reference
from drpu.state.rows import Batch
from drpu.tables.frames import (
    RecordFrame,
    as_records,
    collected,
    composed,
    is_frame,
    read_frame,
    warn_of_order,
)
from drpu.tables.values import by_month, flat_values, is_missing, positions_in

DIFFERENT = 0.001  # below this p-value groups have different priors


@dataclass(frozen=True, slots=True)
class GroupPrior:
    """The prior of one group.

    Attributes
    ----------
    name : object
        Value of the column that the rows were grouped by.
    n : int
        Rows in the group.
    prior : PriorEstimate
        The shrunken value, with limits that hold for all groups together.
    alone : PriorEstimate
        The same without shrinkage, from the rows of the group only.
    weight : float
        Weight of ``alone`` in ``prior``, between 0 and 1.
    p_value : float
        P-value of the test of the scores that only the prior has changed in this group.
    shift : {"prior", "other"}
        What moved, by both tests: only the prior; or more, so that it is a guarded reading.
    warnings : tuple of str
        Codes of the warnings about the group.
    classifier : AdaptedClassifier or None
        The classifier for rows of the group, which makes its labels.
    flagged : int or None
        Number of its rows that this classifier flags.
    """

    name: Any
    n: int
    prior: PriorEstimate
    alone: PriorEstimate
    weight: float
    p_value: float
    shift: str = "prior"
    warnings: tuple[str, ...] = ()
    classifier: Any = field(default=None, repr=False, compare=False)
    flagged: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class GroupPriors(TableResult):
    """Priors of groups, in the order of their names.

    Indexed by the name of a group; iterating gives the :class:`GroupPrior` objects.

    Attributes
    ----------
    groups : tuple of GroupPrior
    whole : PriorEstimate
        Prior of all rows together.
    level : float
        Level at which all intervals of the groups hold together.
    between : float
        Standard deviation of the priors between groups, without sampling error.
    p_value : float
        Of the test that all groups have one prior, by the rows of the groups alone.
    """

    groups: tuple[GroupPrior, ...]
    whole: PriorEstimate
    level: float
    between: float
    p_value: float = 1.0

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[GroupPrior]:
        return iter(self.groups)

    def __getitem__(self, name: Any) -> GroupPrior:
        for group in self.groups:
            if group.name == name:
                return group
        raise KeyError(name)

    @property
    def names(self) -> list[Any]:
        """Names of the groups."""
        return [group.name for group in self.groups]

    def to_columns(self) -> TableColumns:
        """One row per group: its prior with limits, what moved, flagged rows and warnings."""
        rows = []
        for group in self.groups:
            row = {
                "group": group.name,
                "rows": group.n,
                "prior": group.prior.value,
                "low": group.prior.low,
                "high": group.prior.high,
                "p_value": group.p_value,
                "shift": group.shift,
                "flagged": group.flagged,
                "warnings": ", ".join(group.warnings),
            }
            rows.append(row)
        return columns_of(rows)

    def _title(self) -> str:
        limits = f"limits for all together at {self.level:.0%}"
        return f"{len(self)} groups, {limits}; all rows {self.whole}"

    @property
    def differ(self) -> bool:
        """Whether the priors differ, by the test or because no value lies within all limits."""
        highest_low = max(group.prior.low for group in self)
        lowest_high = min(group.prior.high for group in self)
        return self.p_value < DIFFERENT or highest_low > lowest_high


def joint_level(level: float, groups: int) -> float:
    """Level that each of ``groups`` intervals needs for all to hold together with ``level``."""
    return 1 - (1 - check_fraction("level", level)) / groups


def between_groups(values: FloatArray, errors: FloatArray) -> float:
    """Variance between groups by the method of Paule and Mandel; 0 if noise explains them."""
    degrees = len(values) - 1
    if degrees < 1 or _misfit(values, errors, 0.0) <= degrees:
        return 0.0
    low = 0.0
    high = 1.0  # shares lie in [0, 1]: their variance cannot exceed 1
    for _ in range(60):
        middle = (low + high) / 2
        if _misfit(values, errors, middle) > degrees:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _misfit(values: FloatArray, errors: FloatArray, tau2: float) -> float:
    """Sum of the squared distances from the mean, each divided by its variance."""
    weight = 1 / (tau2 + np.maximum(errors, 1e-9) ** 2)
    mean = float((weight * values).sum() / weight.sum())
    return float((weight * (values - mean) ** 2).sum())


@dataclass(frozen=True, slots=True)
class GroupReading:
    """The prior of a group by its rows alone, and the standard error by their number."""

    name: Any
    n: int
    prior: PriorEstimate
    error: float
    p_value: float = 1.0
    shift: str = "prior"


def shrink(groups: Sequence[GroupReading], whole: PriorEstimate, level: float) -> GroupPriors:
    """Priors of groups, shrunk towards the prior of all rows.

    The limits of ``groups`` are at the level of :func:`joint_level`, those of the result hold
    together.
    """
    if not groups:
        raise DataError("there must be at least one group, got none.")
    values = np.array([group.prior.value for group in groups])
    errors = np.array([group.error for group in groups])
    tau2 = between_groups(values, errors)
    shrunk_groups = []
    for group in groups:
        weight = 1.0
        if group.error > 0 and len(groups) > 1:
            weight = tau2 / (tau2 + group.error**2)
        value = weight * group.prior.value + (1 - weight) * whole.value
        value = min(max(value, group.prior.low), group.prior.high)
        shrunk = GroupPrior(
            name=group.name,
            n=group.n,
            prior=replace(group.prior, value=value),
            alone=group.prior,
            weight=weight,
            p_value=group.p_value,
            shift=group.shift,
        )
        shrunk_groups.append(shrunk)
    degrees = len(groups) - 1
    p_value = 1.0
    if degrees > 0:
        p_value = float(scipy.special.chdtrc(degrees, _misfit(values, errors, 0.0)))
    return GroupPriors(tuple(shrunk_groups), whole, level, float(np.sqrt(tau2)), p_value)


MOST_GROUPS = 1000
MOST_NAMED = 6  # groups that a warning names
_MISSING = "(missing)"
_BRACES = str.maketrans({"{": "{{", "}": "}}"})  # names are parts of a format string


@dataclass(frozen=True, slots=True)
class Groups:
    """The names of groups in order, and the group of each row."""

    names: list[Any]
    member: IntArray

    @classmethod
    def of(cls, values: np.ndarray[Any, Any], *, most: int | None = MOST_GROUPS) -> Groups:
        """The groups of rows with these values; dates are grouped by calendar month."""
        if len(values) == 0:
            raise DataError("X must hold at least one row, got none.")
        values = by_month(values)
        if values.dtype == object and not all(isinstance(value, Hashable) for value in values):
            raise DataTypeError(
                "by must hold names, numbers or dates, got values that cannot be compared."
            )
        with_gaps = values.dtype.kind == "f" and np.isnan(values).any()
        if with_gaps or values.dtype == object:
            groups = cls._of_objects(values.tolist())
        else:
            names, member = np.unique(values, return_inverse=True)
            groups = cls(names.tolist(), member)
        if most is not None and len(groups.names) > most:
            raise DataError(
                f"by must have at most {most} different values, got {len(groups.names)}: group "
                "them further, or use adapt_by(count_batches(classifier, X, by=...))."
            )
        return groups

    @classmethod
    def _of_objects(cls, values: list[Any]) -> Groups:
        """Values of several types are sorted by type; missing ones are the last group."""
        name_of_row = [_group_name(value) for value in values]
        names = sorted(set(name_of_row), key=order_of_name)
        return cls(names, positions_in(names, name_of_row))

    def rows(self, k: int) -> IntArray:
        """Positions of the rows of group ``k``."""
        return np.flatnonzero(self.member == k)


def _group_name(value: Any) -> Any:
    if is_missing(value):
        return _MISSING
    return value


def order_of_name(name: Any) -> tuple[bool, str, Any]:
    """The key that sorts names of several types by type; missing ones are last."""
    return name == _MISSING, str(type(name)), name


def group_values(columns: TrainingColumns, X: Any, by: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """One value per row, and the rows without the column ``by`` if training had no such column."""
    if not isinstance(by, str):
        warn_of_order(X, by=by)
        return flat_values("by", by), X
    X = as_records(X)
    by = composed(by)
    names = []
    if is_frame(X):
        table = read_frame(X)
        names = table.names
    if by not in names:
        name_list = ", ".join(names[:12]) or "no names"
        raise DataError(
            f"by must be a column of X, or one value per row, got {by!r}; X has {name_list}."
        )
    column = table.column(table.positions[by])
    if columns.names is not None and by not in columns.names:
        table = table.without([by])
    if isinstance(table, RecordFrame):
        return np.array(column.to_list(), dtype=object), table
    return flat_values("by", column.to_native()), table.columns.to_native()


def split_period(columns: TrainingColumns, X: Any) -> tuple[np.ndarray[Any, Any] | None, Any]:
    """The periods of the rows, if ``X`` has the column of periods of training, and the others."""
    X = as_records(X)
    if columns.period is None or not is_frame(X):
        return None, X
    X = collected(X)
    if columns.period not in read_frame(X).names:
        return None, X
    return group_values(columns, X, columns.period)


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The rows of a group, or their counts only, and labels that have arrived."""

    name: Any
    counts: ScoreTails
    batch: Batch | None = None
    labels: Any = None

    @property
    def n(self) -> int:
        """Number of rows; of weighted counts the effective one."""
        if self.batch is None:
            return round(self.counts.n)
        return len(self.batch)


def rows_of_groups(
    fitted: FittedRatio, batch: Batch, groups: Groups, y: Any = None
) -> Iterator[GroupRows]:
    """The rows of each group."""
    for k, name in enumerate(groups.names):
        rows = groups.rows(k)
        part = batch.part(fitted, rows)
        labels = None if y is None else y[rows]
        yield GroupRows(name, part.counts, part, labels)


@dataclass(frozen=True, slots=True)
class ReadGroup:
    """A group of rows, and what they show."""

    rows: GroupRows
    reading: Reading
    error: float  # standard error of the prior by the number of rows alone
    warnings: Sequence[DRPUWarning]

    def for_shrinkage(self) -> GroupReading:
        """What the priors of all groups together depend on."""
        reading = self.reading
        p_value = float("nan") if reading.shift_test is None else reading.shift_test.p_value
        return GroupReading(
            self.rows.name, self.rows.n, reading.prior, self.error, p_value, reading.shift
        )


@dataclass(frozen=True, slots=True)
class GroupReader:
    """Reads groups of rows, each as ``adapt`` reads its rows.

    ``unmoved``: The reading that stays with ``shift="none"``.
    """

    fitted: FittedRatio
    reference: Reference
    shift: str = "auto"
    unmoved: Reading | None = None

    def read(
        self, counts: ScoreTails, y: Any = None, *, level: float, parts: Sequence[Reading] = ()
    ) -> tuple[Reading, float]:
        """The reading of some rows, and its standard error by their number; no warnings.

        ``parts`` are readings of all parts of the rows, which the whole must agree with.
        """
        arrived = arrived_labels(self.fitted, self.reference, y, counts)
        reading = read_new_rows(
            self.fitted,
            self.reference,
            counts,
            shift=self.shift,
            level=level,
            arrived=arrived,
            parts=parts,
        )
        if self.shift == "none":
            return reading, 0.0
        error = sampling_error(self.fitted, self.reference, counts, reading, arrived)
        return reading, error

    def read_all(
        self, groups: Iterable[GroupRows], n_groups: int, *, level: float
    ) -> list[ReadGroup]:
        """The readings of all groups, with limits that hold together at ``level``."""
        each_level = joint_level(level, n_groups)
        read_groups = []
        for rows in groups:
            with heard() as warnings:
                reading, error = self.read(rows.counts, rows.labels, level=each_level)
                warn_about_reading(reading, self.reference, shift=self.shift)
            read_groups.append(ReadGroup(rows, self.final(reading), error, warnings))
        return read_groups

    def shrunken(
        self,
        groups: Iterable[GroupRows],
        n_groups: int,
        whole_counts: ScoreTails,
        y: Any = None,
        *,
        level: float,
    ) -> tuple[GroupPriors, list[ReadGroup]]:
        """The priors of the groups, shrunk towards that of all rows, and the groups as read.

        ``whole_counts`` and ``y`` are those of all rows.
        """
        read_groups = self.read_all(groups, n_groups, level=level)
        parts = [group.reading for group in read_groups]
        whole, _ = self.read(whole_counts, y, level=level, parts=parts)
        for_shrinkage = [group.for_shrinkage() for group in read_groups]
        return shrink(for_shrinkage, self.final(whole).prior, level), read_groups

    def final(self, reading: Reading) -> Reading:
        """The reading, or with ``shift="none"`` that which stays, with the tests of the rows."""
        if self.unmoved is None or self.shift != "none":
            return reading
        return reading.keeping(self.unmoved)


def read_periods(fitted: FittedRatio, reference: Reference, batch: Batch) -> list[Reading]:
    """Readings of the periods of rows that know theirs, with a warning if their priors differ.

    None if the rows are of one period, or of very many.
    """
    assert batch.periods is not None  # the caller has asked
    if not 1 < len(set(by_month(batch.periods).tolist())) <= MOST_GROUPS:
        return []
    reader = GroupReader(fitted, reference)
    periods = Groups.of(batch.periods)
    of_periods = rows_of_groups(fitted, batch, periods)
    priors, read_groups = reader.shrunken(of_periods, len(periods.names), batch.counts, level=0.95)
    if priors.differ:
        _warn_of_mixed_periods(priors, fitted)
    return [group.reading for group in read_groups]


def _warn_of_mixed_periods(priors: GroupPriors, fitted: FittedRatio) -> None:
    lowest = min(priors, key=lambda group: group.prior.value)
    highest = max(priors, key=lambda group: group.prior.value)
    column = str(fitted.columns.period)
    MixedPeriodsWarning.issue(
        f"the rows are of {len(priors)} periods ({column.translate(_BRACES)!r}) whose priors "
        f"differ, from {{low}} in {str(lowest.name).translate(_BRACES)} to {{high}} in "
        f"{str(highest.name).translate(_BRACES)}: one prior fits none of them.",
        advice=f"Use adapt_by(X, by={column!r}).",
        command=f"Use --by {column}.",
        low=lowest.prior.value,
        high=highest.prior.value,
    )


# What each kind of warning says about groups; the advice is that of the first group.
_FINDINGS: dict[type[DRPUWarning], str] = {
    ShiftWarning: "more than the prior has changed, labels move only as far as there is support "
    "for it",
    FewPositivesWarning: "there are too few labelled positives to test whether only the prior has "
    "changed",
    SeparationWarning: "the prior is not identified",
}


def warn_by_group(caught: Mapping[Any, Sequence[DRPUWarning]]) -> None:
    """Warn once of each kind, with the names of the groups that it is about.

    Groups with few rows are no reason to warn: their priors are shrunk towards that of all rows.
    """
    large = {}
    for name, warnings in caught.items():
        if not any(isinstance(warning, FewRowsWarning) for warning in warnings):
            large[name] = warnings
    first_of_kind: dict[type[DRPUWarning], DRPUWarning] = {}
    for warnings in reversed(large.values()):  # the words are those of the first group
        for warning in warnings:
            first_of_kind[type(warning)] = warning
    for kind, first in first_of_kind.items():
        names = []
        for name, warnings in large.items():
            if any(isinstance(warning, kind) for warning in warnings):
                names.append(str(name))
        name_list = ", ".join(names[:MOST_NAMED])
        if len(names) > MOST_NAMED:
            name_list += f" and {len(names) - MOST_NAMED} more"
        finding = _FINDINGS.get(kind, first.finding)
        finding = f"{finding} in {name_list} ({len(names)} of {len(caught)} groups)."
        kind.issue(
            finding.replace("{", "(").replace("}", ")"),
            advice=_as_sentence(first.advice),
            command=_as_sentence(first.command),
        )


def _as_sentence(advice: str) -> str:
    """The advice with a capital, because it follows a full stop."""
    return advice[:1].upper() + advice[1:]
