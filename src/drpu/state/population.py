"""The training population and its columns: how rows were collected, counted and read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self, cast

import numpy as np
from scipy import sparse

from drpu._arrays import BoolArray, FloatArray, Rows
from drpu._codec import Array, Items, Kept, NotKept, Number, Text, Whole, kept
from drpu._samples import n_rows
from drpu.exceptions import DataError
from drpu.models.learner import Function
from drpu.priors.estimate import PriorEstimate
from drpu.priors.tails import effective_size
from drpu.state.history import LabelCount
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import FrameRows
from drpu.tables.notes import MOST_NOTES, Note
from drpu.tables.values import ColumnProfile

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_ALL_BITS = 2**64 - 1


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
        X = (X.keys() >> 11).astype(np.float64)[:, None]  # 53 bits fit into float64
    if sparse.issparse(X):
        return _sparse_digest(cast(Any, X))
    total = 0
    dense = np.asarray(X).reshape(n_rows(X), -1)
    columns = np.arange(dense.shape[1])
    for start in range(0, len(dense), 4096):  # in blocks, to limit memory
        block = np.ascontiguousarray(dense[start : start + 4096], dtype=np.float64)
        block = block + 0.0  # -0 becomes 0
        hashes = _mixed(block.view(np.uint64), columns).sum(axis=1, dtype=np.uint64)
        total = (total + _total(hashes)) & _ALL_BITS
    return total


def _sparse_digest(X: Any) -> int:
    rows = X.tocsr(copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    cells = _mixed(np.asarray(rows.data, dtype=np.float64).view(np.uint64), rows.indices)
    row_of_cell = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    hashes = np.zeros(rows.shape[0], dtype=np.uint64)
    np.add.at(hashes, row_of_cell, cells)
    return _total(hashes)


def _mixed(bits: Any, columns: Any) -> Any:
    """A hash of each value in its column; integers wrap around."""
    with np.errstate(over="ignore"):
        x = bits ^ ((columns.astype(np.uint64) + np.uint64(1)) * _ODD)
        x = (x ^ (x >> np.uint64(30))) * _MIX
        return x ^ (x >> np.uint64(27))


def _total(hashes: Any) -> int:
    """Sum of the hashes, mixed again so that exchanging values between rows changes the sum."""
    with np.errstate(over="ignore"):
        x = (hashes ^ (hashes >> np.uint64(29))) * _ODD
        return int((x ^ (x >> np.uint64(32))).sum(dtype=np.uint64))


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

    @property
    def scenario(self) -> str:
        """How the labelled rows were collected: "single-sample" or "case-control"."""
        return "single-sample" if self.labelled_fraction > 0 else "case-control"

    def unlabeled_prior(self, prior: PriorEstimate) -> PriorEstimate:
        """Prior of the unlabeled rows, from that of the population."""
        return without_labelled(prior, self.labelled_fraction)


def with_labelled(prior: PriorEstimate, fraction: float) -> PriorEstimate:
    """Prior of a population, from that of its unlabeled rows."""
    return _affine(prior, fraction, 1 - fraction)


def without_labelled(prior: PriorEstimate, fraction: float) -> PriorEstimate:
    """Prior of the unlabeled rows of a population, from that of the population."""
    return _affine(prior, -fraction / (1 - fraction), 1 / (1 - fraction))


def _affine(prior: PriorEstimate, shift: float, scale: float) -> PriorEstimate:
    def moved(share: float) -> float:
        return min(max(shift + scale * share, 0.0), 1.0)

    return replace(
        prior,
        value=moved(prior.value),
        low=moved(prior.low),
        high=moved(prior.high),
        upper=None if prior.upper is None else moved(prior.upper),
        quantiles=tuple(moved(quantile) for quantile in prior.quantiles),
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
        if not width:
            width = self.n if self.table is None else self.table.width
        if model.n_columns != width:
            raise DataError(
                f"the model must have {width} columns, as the rows do, got {model.n_columns}."
            )

    def facts(self) -> dict[str, Any]:
        """Which names of the data they keep, and how many levels of each category."""
        levels = {} if self.table is None else self.table.kept_values()
        return {"column_names": self.names is not None, "category_levels": levels}

    def growing_with_time(self) -> set[str]:
        """Names of the columns of dates."""
        if self.table is None:
            return set()
        return {str(column.name) for column in self.table.used if column.grows_with_time}

    def encoded_names(self, n: int) -> list[str]:
        """Names of the ``n`` columns of encoded rows; a category may have several of them."""
        names = list(self.names or ())
        if self.table is not None:
            names = [str(column.name) for column in self.table.sources]
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
