"""Density ratios that are fitted on the workers of a cluster, where the rows are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from drpu import models
from drpu._arrays import BoolArray, FloatArray, IntArray
from drpu._checks import check_integer, check_random_state, check_real
from drpu._process import DefaultErrors
from drpu._progress import part, progress
from drpu.exceptions import DataError, LabelError, ParameterError
from drpu.models.crossfit import resolve_holdout
from drpu.models.learner import Accepts, Folds, Parameters
from drpu.priors.tails import ScoreTails
from drpu.tables.encoder import Keep, TableEncoder, fixed_cells
from drpu.tables.values import MOST_PROFILED_COLUMNS, Cells, is_missing

if TYPE_CHECKING:  # modules that only fits on a cluster need
    from drpu.models.boosted import BoostedFunction
    from drpu.models.trees import Trees

MOST_LEVELS = 100_000  # held-out positives whose scores are kept; of more, a random sample
MOST_LABELS = 100  # a column with more values than this is not a label
ValueCounts = list[tuple[Any, int]]  # values of a column with their numbers of rows


@dataclass(frozen=True, slots=True)
class FrameFit:
    """The result of a fit on a cluster."""

    folds: Folds
    tails: ScoreTails
    classes: np.ndarray[Any, Any]
    n_positive: int
    n_unlabeled: int
    labelled_fraction: float
    table: TableEncoder  # reads the columns of the frame
    ranges: Ranges | None  # counts in ranges of the encoded columns; None for very wide rows


@dataclass(frozen=True, slots=True)
class Ranges:
    """Cells of each encoded column, and rows of each kind in those for training rows."""

    cells: list[Cells]
    unlabeled: IntArray
    positive: IntArray


@dataclass(frozen=True, slots=True)
class Plan:
    """How rows of a frame are encoded, which are positive, and how they get their folds."""

    table: TableEncoder
    label: str
    weight: str | None
    key: str | None
    positive: np.ndarray[Any, Any]  # values of the label
    held: int | float  # folds, or the fraction to hold out
    salt: int  # changes the folds with the seed

    @property
    def columns(self) -> list[str]:
        """The columns that are encoded."""
        return [column.name for column in self.table.read]

    @property
    def hashed_columns(self) -> list[str]:
        """The columns whose hash determines the fold of a row."""
        return self.columns if self.key is None else [self.key]


class RowsOnCluster(Protocol):
    """The encoded rows of a frame with their folds, in the memory of an engine such as Dask."""

    table: TableEncoder
    weighted: bool

    def totals(self, folds: int) -> tuple[IntArray, FloatArray]:
        """Numbers and weights of unlabeled and positive rows by fold, the last for -1.

        Their shape is (folds + 1, 2).
        """

    def train(self, without: int, mass: tuple[float, float]) -> Trees:
        """Trees fitted without a fold; ``mass`` weights the rows of each kind."""

    def positive_scores(
        self, function: BoostedFunction, fold: int, most: int
    ) -> tuple[FloatArray, FloatArray]:
        """Scores and weights of at most so many positives of a fold."""

    def count(self, function: BoostedFunction, fold: int, empty: ScoreTails) -> ScoreTails:
        """Counts of the unlabeled rows of a fold."""

    def quantiles(self) -> tuple[FloatArray, FloatArray]:
        """Quantiles of each encoded column, see ``column_quantiles``; unlabeled, positive."""

    def ranges(self, cells: list[Cells]) -> tuple[IntArray, IntArray]:
        """Rows in the cells of all columns; unlabeled, positive."""


@dataclass(eq=False, repr=False, kw_only=True)
class FrameLearner(DefaultErrors, Parameters, Accepts, ABC):
    """Base class of the ways to learn a density ratio from a distributed data frame.

    The margin of boosted trees with the usual logistic loss is the log-ratio if weights give
    positive and unlabeled rows equal totals. The constant comes from counts of rows, not from an
    intercept. The fold of a row is computed from its hash, so it does not depend on the partitions
    of the frame. Mixed columns are encoded on the workers, by the rules for tables in memory.
    Scores are counted on the workers; only trees, frequent levels of categories, quantiles, scores
    of held-out positives and counts are sent.
    """

    accepts_nan = True
    accepts_sparse = False
    engine: ClassVar[str]

    n_rounds: int = 200
    learning_rate: float = 0.1
    leaves: int = 31
    l2: float = 20.0
    key: str | None = None
    random_state: Any = None

    @abstractmethod
    def survey(
        self, frame: Any, label: str, weight: str | None, keep: Keep
    ) -> tuple[ValueCounts, TableEncoder]:
        """Numbers of rows by label, at most one too many, and the encoder of the other columns."""

    @abstractmethod
    def rows(self, frame: Any, plan: Plan) -> AbstractContextManager[RowsOnCluster]:
        """The encoded rows with their folds, for a ``with`` block that frees the workers' memory.

        It waits until no other fit runs on the cluster: fits at the same time would share the
        memory of the workers, and parts of two trainings that wait for each other never end.
        """

    def fit_frame(
        self,
        frame: Any,
        label: Any,
        weight: Any,
        holdout: Any,
        read_labels: Callable[[Any], tuple[BoolArray, np.ndarray[Any, Any]]],
        keep: Keep,
    ) -> FrameFit:
        """Functions of the folds, and counts of the rows that each was not trained on."""
        if not isinstance(label, str) or not (weight is None or isinstance(weight, str)):
            raise ParameterError(
                f"y and sample_weight must be names of columns with {type(self).__name__}, "
                f"got {type(label).__name__} and {type(weight).__name__}."
            )
        self._check_parameters()
        with part(0.1):
            counts_by_label, table = self.survey(frame, label, weight, keep)
        labels, sizes = _merged(counts_by_label, label)
        is_positive, classes = read_labels(labels)
        n_positive = int(sizes[is_positive].sum())
        held = resolve_holdout(holdout, n_positive, int(sizes.sum()) - n_positive)
        if held == 0:
            raise DataError(
                "a fit on a cluster needs ten positives or more to hold some out, "
                f"got {n_positive}: fit so few rows in memory."
            )
        plan = Plan(table, label, weight, self.key, labels[is_positive], held, self.salt())
        n_folds = 1 if isinstance(held, float) else int(held)
        with self.rows(frame, plan) as rows:
            with part(0.1):
                counts, mass = rows.totals(n_folds)
            functions = []
            with part(0.6):
                for fold in progress(range(n_folds), total=n_folds):
                    functions.append(_train(rows, fold, mass))
            with part(0.1):
                tails = held_out_tails(rows, functions)
            ranges = _ranges(rows)
        total_unlabeled, total_positive = mass.sum(axis=0)
        return FrameFit(
            folds=Folds(tuple(functions)),
            tails=tails,
            classes=classes,
            n_positive=int(counts[:, 1].sum()),
            n_unlabeled=int(counts[:, 0].sum()),
            labelled_fraction=float(total_positive / (total_unlabeled + total_positive)),
            table=rows.table,
            ranges=ranges,
        )

    def refuse_arguments(self, *, groups: Any, **in_memory: Any) -> None:
        """Raise if an argument of ``fit`` was given that has no meaning on a cluster.

        ``in_memory`` are those that need the rows in memory.
        """
        for name, value in in_memory.items():
            if value is not None:
                raise ParameterError(
                    f"{name} must be None on a cluster: it needs the rows in memory."
                )
        if groups is not None:
            raise ParameterError(
                f"groups must be None with {type(self).__name__}: give it key, the name of a "
                "column whose equal values share a fold."
            )

    def _check_parameters(self) -> None:
        for name, low in (("n_rounds", 1), ("leaves", 2)):
            check_integer(name, getattr(self, name), low=low)
        check_real("learning_rate", self.learning_rate, low=1e-6, high=1)
        check_real("l2", self.l2, low=0)

    def salt(self) -> int:
        """A number that changes the folds with the seed."""
        return int(check_random_state(self.random_state).randint(2**31 - 1))


def _merged(counts: ValueCounts, label: str) -> tuple[np.ndarray[Any, Any], IntArray]:
    """Different labels with their numbers of rows; all missing values are None."""
    total: dict[Any, int] = {}
    for value, count in counts:
        name = None if is_missing(value) else value
        total[name] = total.get(name, 0) + count
    if len(total) > MOST_LABELS:
        raise LabelError(
            f"column {label!r} has more than {MOST_LABELS} values: a label has two values."
        )
    if None in total:
        names = [name for name in total if name is not None]
        labels = np.array([*names, None], dtype=object)
    else:
        labels = np.array(list(total))
    sizes = [total[name] for name in labels.tolist()]
    return labels, np.array(sizes, dtype=np.int64)


def feature_columns(
    have: Sequence[Any], label: str, weight: str | None, key: str | None
) -> list[str]:
    """Feature columns: all columns without another role."""
    roles = (label, weight, key)
    for name in roles:
        if name is not None and name not in have:
            first = ", ".join(str(column) for column in have[:12])
            raise DataError(f"there is no column {name!r}, the frame has {first}.")
    columns = [name for name in have if name not in roles]
    if not all(isinstance(name, str) for name in columns):
        raise DataError(
            "the columns of the frame must be named by strings: rename the others first."
        )
    if not columns:
        raise DataError("the frame has no feature columns besides the label.")
    return columns


def _train(rows: RowsOnCluster, fold: int, mass: FloatArray) -> BoostedFunction:
    seen = np.delete(mass, fold, axis=0).sum(axis=0)
    if (seen <= 0).any():
        raise DataError(
            "every fold must leave positive and unlabeled rows to train on: use fewer folds."
        )
    # Equal totals that sum to the number of rows: then the margin needs no constant.
    unlabeled, positive = (float(seen.sum()) / (2 * seen)).tolist()
    return models.BoostedFunction(rows.train(fold, (unlabeled, positive)), 0.0)


def _ranges(rows: RowsOnCluster) -> Ranges | None:
    """Ranges of the columns, at quantiles of both kinds of rows; none for very wide rows."""
    width = rows.table.width
    if width > MOST_PROFILED_COLUMNS:
        return None
    unlabeled, positive = rows.quantiles()
    cells = []
    for column, fixed in enumerate(fixed_cells(rows.table, width)):
        if fixed is None:
            cells.append(Cells.between([unlabeled[column], positive[column]]))
        else:
            cells.append(fixed)
    return Ranges(cells, *rows.ranges([column_cells.of_training for column_cells in cells]))


def held_out_tails(rows: RowsOnCluster, functions: Sequence[BoostedFunction]) -> ScoreTails:
    """Tails over the held-out positives, with the unlabeled rows counted over them."""
    most = max(1, MOST_LEVELS // len(functions))
    scores = []
    weights = []
    for fold, function in enumerate(functions):
        fold_scores, fold_weights = rows.positive_scores(function, fold, most)
        scores.append(fold_scores)
        weights.append(fold_weights)
    all_scores = np.concatenate(scores)
    if not len(all_scores):
        raise DataError("no positive was held out: use more rows, or a larger holdout.")
    total = ScoreTails(all_scores, np.concatenate(weights) if rows.weighted else None)
    empty = total.empty()
    for fold, function in enumerate(functions):
        total.merge(rows.count(function, fold, empty))
    return total
