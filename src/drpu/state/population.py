"""The training population, its columns and past periods: how rows were collected and counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

import numpy as np

from drpu._arrays import BoolArray, FloatArray, Rows
from drpu._codec import Array, Items, Kept, NotKept, Number, Text, Whole, kept
from drpu._results import TableColumns, TableResult
from drpu._samples import SamplePair, is_matrix, is_sparse, mixed_bits, n_rows, row_keys
from drpu.exceptions import DataError, ScenarioWarning
from drpu.models.learner import Function
from drpu.priors.estimate import PriorEstimate
from drpu.priors.tails import effective_size
from drpu.tables.copies import reappearing_share
from drpu.tables.encoder import TableEncoder, fixed_cells
from drpu.tables.frames import FrameRows
from drpu.tables.notes import MOST_NOTES, Note, leak_notes, notes_of_gaps, table_notes
from drpu.tables.values import ColumnProfile, profile_columns

if TYPE_CHECKING:
    from drpu.models.clusters import Ranges

_ALL_BITS = 2**64 - 1

Kind: TypeAlias = Literal["guarded", "matched"]


@dataclass(frozen=True, slots=True)
class TrainingMark:
    """Numbers of rows and digests of the positive and the unlabeled training sample."""

    n_positive: int
    n_unlabeled: int
    positive: int
    unlabeled: int

    @classmethod
    def of(cls, positive: Rows, unlabeled: Rows) -> TrainingMark:
        """The mark of two samples."""
        return cls(n_rows(positive), n_rows(unlabeled), row_digest(positive), row_digest(unlabeled))

    def population_of(self, X: Rows) -> str:
        """``"unlabeled"``, ``"fitted"`` (both samples), or ``"auto"`` if X is neither."""
        n = n_rows(X)
        n_both = self.n_unlabeled + self.n_positive
        if n not in (self.n_unlabeled, n_both):
            return "auto"
        digest = row_digest(X)
        if n == self.n_unlabeled and digest == self.unlabeled:
            return "unlabeled"
        both = (self.unlabeled + self.positive) & _ALL_BITS
        if n == n_both and digest == both:
            return "fitted"
        return "auto"


def row_digest(X: Rows) -> int:
    """A 64-bit hash of a set of rows, which does not depend on their order."""
    if isinstance(X, FrameRows):
        keys = X.keys().astype(np.uint64)
    elif is_sparse(X):
        keys = _sparse_keys(X)
    else:
        keys = row_keys(np.asarray(X).reshape(n_rows(X), -1))
    return int(mixed_bits(keys).sum(dtype=np.uint64))


def _sparse_keys(X: Any) -> Any:
    """One number for each row, made from its columns with values and these values."""
    rows = X.tocsr(copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    values = np.asarray(rows.data, dtype=np.float64).view(np.uint64)
    cells = mixed_bits(mixed_bits(rows.indices.astype(np.uint64) + np.uint64(1)) ^ values)
    keys = np.zeros(rows.shape[0], dtype=np.uint64)
    np.add.at(keys, np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), cells)
    return keys


@kept("label-count")
@dataclass(frozen=True)
class LabelCount(Kept):
    """Labelled rows among all rows of a sample."""

    labels: Annotated[float, Number(0)]
    rows: Annotated[float, Number(0)]

    def __post_init__(self) -> None:
        if self.labels > self.rows:
            raise DataError(
                f"there must not be more labels than rows, got {self.labels:g} of {self.rows:g}."
            )

    def __add__(self, other: LabelCount) -> LabelCount:
        return LabelCount(self.labels + other.labels, self.rows + other.rows)

    @property
    def mean(self) -> float:
        """Share of labelled rows; 0 without rows."""
        if self.rows == 0:
            return 0.0
        return self.labels / self.rows

    @property
    def share(self) -> float:
        """Share of labelled rows, with half a label added so that it is not zero."""
        return (self.labels + 0.5) / (self.rows + 1)

    @property
    def noise(self) -> float:
        """Variance of the log of the share by the noise of the count."""
        return (1 - self.share) / (self.labels + 0.5)


@kept("population")
@dataclass(frozen=True, slots=True)
class Population:
    """The population that the training rows represent.

    ``labelled_fraction``: Labelled rows of the population; 0 in a case-control study.
    ``sizes``: Numbers of labelled and unlabeled rows.
    ``label_count``: Labels that are complete; None in a case-control study.
    ``label_delay``: Periods after which labels are complete.
    ``training``: Recognises the training rows; not kept in files.
    """

    labelled_fraction: Annotated[float, Number(0, 1 - 1e-9)]
    sizes: tuple[Annotated[int, Whole(0)], Annotated[int, Whole(0)]] = (0, 0)
    label_count: LabelCount | None = None
    label_delay: Annotated[int, Whole(0)] = 0
    training: Annotated[TrainingMark | None, NotKept] = None

    def __post_init__(self) -> None:
        if self.label_count is not None and self.labelled_fraction == 0:
            raise DataError("labels are counted only if they are a part of the population.")

    @classmethod
    def of(cls, pair: SamplePair, label_count: LabelCount | None, label_delay: int) -> Population:
        """The population of two samples; ``label_count`` is None in a case-control study."""
        fraction = 0.0
        if label_count is not None:
            fraction = pair.labelled_fraction
        return cls(
            labelled_fraction=fraction,
            sizes=(len(pair.positive), len(pair.unlabeled)),
            label_count=label_count,
            label_delay=label_delay,
            training=TrainingMark.of(pair.positive.rows, pair.unlabeled.rows),
        )

    @property
    def scenario(self) -> str:
        """How the labelled rows were collected: "single-sample" or "case-control"."""
        return "single-sample" if self.labelled_fraction > 0 else "case-control"

    def unlabeled_prior(self, prior: PriorEstimate) -> PriorEstimate:
        """Prior of the unlabeled rows, from that of the population."""
        fraction = self.labelled_fraction
        return _affine(prior, -fraction / (1 - fraction), 1 / (1 - fraction))


def scenario_of_table(scenario: str, pair: SamplePair, *, periods: bool = False) -> str:
    """How the rows of one table were collected: as ``scenario`` says, or as "auto" finds.

    A table is a single sample, unless labelled rows reappear among the unlabeled ones, which a
    sample that was drawn separately explains. ``periods`` says whether the rows have periods, which
    need a single sample.
    """
    if scenario != "auto":
        return scenario
    share = reappearing_share(pair.positive.rows, pair.unlabeled.rows)
    if share is None:
        return "single-sample"
    finding = (
        f"{share:.0%} of the labelled positives are also among the unlabeled rows, more than by "
        "chance"
    )
    if periods:
        meaning = (
            f"periods need one sample, but {finding}, as in two samples that were drawn separately:"
        )
        raise DataError(
            f"{meaning} leave these unlabeled rows out, or say scenario='single-sample'.",
            command=f"{meaning} leave these unlabeled rows out, or give --scenario single-sample.",
        )
    ScenarioWarning.issue(
        f"{finding}: the labelled positives are taken as a sample that was drawn separately, "
        "scenario case-control, and priors are those of the unlabeled rows.",
        advice="Say scenario='case-control', or 'single-sample' if the copies are mistakes.",
        command="Give --scenario case-control, or single-sample if the copies are mistakes.",
    )
    return "case-control"


def with_labelled(prior: PriorEstimate, fraction: float) -> PriorEstimate:
    """Prior of a population, from that of its unlabeled rows."""
    return _affine(prior, fraction, 1 - fraction)


def _affine(prior: PriorEstimate, shift: float, scale: float) -> PriorEstimate:
    def moved(share: float) -> float:
        return min(max(shift + scale * share, 0.0), 1.0)

    upper = prior.upper
    if upper is not None:
        upper = moved(upper)
    return replace(
        prior,
        value=moved(prior.value),
        low=moved(prior.low),
        high=moved(prior.high),
        upper=upper,
        quantiles=tuple(map(moved, prior.quantiles)),
    )


def count_labels(labelled: BoolArray, weight: FloatArray | None = None) -> LabelCount:
    """Labelled rows among all rows.

    With weights it is the labelled share by weight of the effective number of rows.
    """
    if weight is None:
        return LabelCount(float(labelled.sum()), float(len(labelled)))
    total = float(weight.sum())
    rows = effective_size(total, float(weight @ weight))
    if rows == 0:
        return LabelCount(0.0, 0.0)
    return LabelCount(rows * (float(weight[labelled].sum()) / total), rows)


@kept("columns")
@dataclass(frozen=True)
class Columns(Kept):
    """Number of the columns and, for data frames, their names and how they are read."""

    n: Annotated[int, Whole(1, 2**31, dim="d")]
    names: Annotated[tuple[str, ...], Items(dim="d")] | None
    table: TableEncoder | None

    def __post_init__(self) -> None:
        if self.table is None:
            return
        if len(self.table.columns) != self.n:
            raise DataError(f"the table must have {self.n} columns, got {len(self.table.columns)}.")
        if self.names is not None and list(self.names) != self.table.names:
            raise DataError("the names of the columns must be those of the table.")

    @classmethod
    def of(cls, classifier: Any, **facts: Any) -> Self:
        """The columns of a classifier that has read rows; ``facts`` are more fields."""
        names = getattr(classifier, "feature_names_in_", None)
        if names is not None:
            names = tuple(map(str, names))
        return cls(classifier.n_features_in_, names, classifier.table_, **facts)

    def set_on(self, classifier: Any) -> None:
        """Set the attributes that scikit-learn defines for columns."""
        classifier.n_features_in_ = self.n
        classifier.table_ = self.table
        if self.names is not None:
            classifier.feature_names_in_ = np.array(self.names, dtype=object)

    def check_model(self, model: Function, *, width: int | None = None) -> None:
        """Raise unless ``model`` scores rows with these columns.

        ``width`` is that of flattened images.
        """
        if not width and self.table is not None:
            width = self.table.width
        width = width or self.n
        if model.n_columns != width:
            raise DataError(
                f"the model must have {width} columns, as the rows do, got {model.n_columns}."
            )

    def facts(self) -> dict[str, Any]:
        """Which names of the data they keep, and how many levels of each category."""
        levels = {}
        if self.table is not None:
            levels = self.table.kept_values()
        return {"column_names": self.names is not None, "category_levels": levels}

    def encoded_names(self, n: int) -> list[str]:
        """Names of the ``n`` columns of encoded rows; a category may have several of them."""
        names = list(self.names or ())
        if self.table is not None:
            names = [column.name for column in self.table.sources]
        if len(names) == n:
            return names
        return [f"column {k}" for k in range(n)]


@kept("training-columns")
@dataclass(frozen=True)
class TrainingColumns(Columns):
    """The columns of a fitted ratio, with counts of their values and notes.

    ``profiles``: Empty for sparse rows, images, and frames that the model reads.
    ``notes``: What to know about the training table.
    ``period``: Name of the column of periods, which is no feature.
    ``importances``: Mean absolute contribution of each column to the scores of training rows; None
    for models without trees.
    """

    profiles: tuple[ColumnProfile, ...] = ()
    notes: Annotated[tuple[Note, ...], Items(0, MOST_NOTES)] = ()
    period: Annotated[str, Text(most=10_000)] | None = None
    importances: Annotated[FloatArray, Array("d", low=0)] | None = field(
        default=None, compare=False
    )

    @classmethod
    def of_pair(
        cls, classifier: Any, pair: SamplePair, scenario: str, period: str | None = None
    ) -> TrainingColumns:
        """The columns of encoded training rows, which a classifier has read."""
        positive = pair.positive.rows
        unlabeled = pair.unlabeled.rows
        table = classifier.table_
        notes: tuple[Note, ...] = ()
        if table is not None:
            notes = table_notes(positive, unlabeled, table, scenario=scenario)
        profiles: tuple[ColumnProfile, ...] = ()
        if is_matrix(positive) and is_matrix(unlabeled):
            n = positive.shape[1]
            names = Columns.of(classifier).encoded_names(n)
            profiles = profile_columns(positive, unlabeled, names, fixed_cells(table, n))
            if table is None:
                notes = leak_notes(positive, unlabeled, names)
        notes += notes_of_gaps(positive, unlabeled)
        return cls.of(classifier, profiles=profiles, notes=notes, period=period)

    @classmethod
    def of_ranges(cls, classifier: Any, ranges: Ranges | None) -> TrainingColumns:
        """The columns of rows that were counted on a cluster, which a classifier has read."""
        if ranges is None:
            return cls.of(classifier)
        ends = np.cumsum([cells.of_training.n for cells in ranges.cells])[:-1]
        positive = np.split(ranges.positive, ends)
        unlabeled = np.split(ranges.unlabeled, ends)
        names = Columns.of(classifier).encoded_names(len(ranges.cells))
        profiles = []
        for column in zip(names, ranges.cells, positive, unlabeled, strict=True):
            profiles.append(ColumnProfile.of(*column))
        return cls.of(classifier, profiles=tuple(profiles))


@kept("past-period")
@dataclass(frozen=True)
class PastPeriod(Kept):
    """A past period, read by a classifier that was fitted to rows before it."""

    name: str
    rows: Annotated[int, Whole(0)]
    labels: Annotated[int, Whole(0)]  # labelled ones among them
    seen: float  # move of the prior by the labelled share, from the rows of that fit to the period
    noise: Annotated[float, Number(0)]  # variance of ``seen`` by the noise of both counts
    guarded: float  # move of the prior that the rows alone show, with the guard
    matched: float  # the same as if only the prior had moved
    used: bool = True  # false if its labels may be late, or if there are too few of them


@kept("backtest")
@dataclass(frozen=True, repr=False)
class Backtest(Kept, TableResult):
    """How well rows of past periods were read without labels.

    Its length is the number of periods; iterating gives them.

    ``spread``: Standard deviation of the move that slope and noise do not explain.
    """

    periods: Annotated[tuple[PastPeriod, ...], Items(0, 1000)]  # in the order of time
    kind: Kind  # the reading that explains the past moves better
    slope: float  # how far the prior moved when this reading moved by one
    spread: Annotated[float, Number(0)]

    def __len__(self) -> int:
        return len(self.periods)

    def __iter__(self) -> Iterator[PastPeriod]:
        return iter(self.periods)

    def read_move(self, guarded: float, matched: float) -> float:
        """The move to expect from what the rows of a period show, with the guard and without it."""
        if self.kind == "guarded":
            return self.slope * guarded
        return self.slope * matched

    def to_columns(self) -> TableColumns:
        """One row per period, with the move of its log-odds by the labels and as read from rows."""
        columns: TableColumns = {
            name: [] for name in ("period", "rows", "labels", "seen", "read", "used")
        }
        for period in self.periods:
            columns["period"].append(period.name)
            columns["rows"].append(period.rows)
            columns["labels"].append(period.labels)
            columns["seen"].append(period.seen)
            columns["read"].append(self.read_move(period.guarded, period.matched))
            columns["used"].append(period.used)
        return columns

    def _title(self) -> str:
        moves = "moves of the log-odds seen by labels and read without them"
        return (
            f"{len(self)} past periods, {moves}; slope {self.slope:.2f}, spread {self.spread:.2f}"
        )
