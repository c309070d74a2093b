"""Density ratios that are fitted on the workers of a cluster."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Protocol, Self

import numpy as np
from sklearn.utils import check_random_state

from drpu._samples import SamplePair
from drpu._state import ModelState
from drpu._typing import BoolArray, FloatArray, IntArray, Rows
from drpu.core.reduction import GRID, GridCounts
from drpu.core.shift.columns import MOST_COLUMNS, Cells, range_limits
from drpu.core.tails import ScoreTails
from drpu.exceptions import ClusterError, DataError, DataTypeError, ParameterError
from drpu.functions.trees import Tree, Trees
from drpu.ratios.base import RatioModel
from drpu.ratios.boosted import BoostedRatio
from drpu.ratios.folds import FoldedRatio, resolve_holdout
from drpu.tables.encoder import TableEncoder, fixed_cells

__all__ = [
    "FrameFit",
    "FrameRatio",
    "Part",
    "PartCounts",
    "Ranges",
    "RowsOnCluster",
    "engine_of",
    "refuse_frame",
    "settle_split",
    "tails_and_grid",
    "trees_from_xgboost",
]

ENGINES = {"dask": "DaskBoosted", "dask_expr": "DaskBoosted", "pyspark": "SparkBoosted"}


@dataclass(frozen=True, slots=True)
class FrameFit:
    """The result of a fit on a cluster.

    ``table`` reads the columns of the frame; it is None if the rows are arrays. ``ranges`` has counts of the
    rows in ranges of the encoded columns.
    """

    folds: FoldedRatio
    tails: ScoreTails
    grid: GridCounts | None
    classes: np.ndarray[Any, Any]
    n_columns: int
    n_positive: int
    n_unlabeled: int
    labelled_fraction: float
    table: TableEncoder | None = None
    ranges: Ranges | None = None


@dataclass(frozen=True, slots=True)
class Ranges:
    """Cells of each encoded column, and rows of each kind in all of them."""

    cells: list[Cells]
    unlabeled: IntArray
    positive: IntArray


@dataclass(frozen=True, slots=True)
class Part:
    """Rows on a worker; ``fold`` is -1 for rows that are used for training only."""

    rows: FloatArray
    positive: BoolArray
    fold: IntArray
    weight: FloatArray | None

    def take(self, chosen: Any) -> Part:
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[chosen]
        return Part(self.rows[chosen], self.positive[chosen], self.fold[chosen], weight)


@dataclass(frozen=True, slots=True)
class PartCounts:
    """Counts of the unlabeled rows that a worker has scored, which it sends."""

    tails: ScoreTails
    grid: IntArray

    @classmethod
    def of(cls, empty: ScoreTails, scores: FloatArray, weight: FloatArray | None) -> PartCounts:
        """Counts of scores, over the levels of ``empty`` and over the fixed grid."""
        cells = np.searchsorted(GRID, scores, side="right") - 1
        grid = np.bincount(cells, minlength=len(GRID)).astype(np.int64)
        return cls(empty.empty().update(scores, weight), grid)

    def __add__(self, other: PartCounts) -> PartCounts:
        return PartCounts(self.tails + other.tails, self.grid + other.grid)


class RowsOnCluster(Protocol):
    """The encoded rows of a frame with their folds, in the memory of an engine such as Dask.

    The methods are called inside a ``with`` block. It waits until no other fit runs on the cluster: fits at
    the same time would share the memory of the workers, and parts of two trainings that wait for each other
    never end.
    """

    table: TableEncoder
    weighted: bool

    def __enter__(self) -> Self:
        """Wait for the turn of this fit, and load the rows."""

    def __exit__(self, *_: object) -> None:
        """Free the memory of the workers, and let the next fit run."""

    def totals(self, folds: int) -> tuple[IntArray, FloatArray]:
        """Rows and weights of shape (folds + 1, 2), by fold (the last for -1) and by unlabeled, positive."""

    def train(self, without: int, mass: tuple[float, float]) -> str:
        """Trees in LightGBM's text format, fitted without a fold; ``mass`` weights the rows of each kind."""

    def positive_scores(self, model: Any, fold: int, most: int) -> tuple[FloatArray, FloatArray]:
        """Scores and weights of at most so many positives of a fold."""

    def count(self, model: Any, fold: int, empty: ScoreTails) -> PartCounts:
        """Counts of the unlabeled rows of a fold."""

    def quantiles(self) -> tuple[FloatArray, FloatArray]:
        """Quantiles of each encoded column as ``column_quantiles`` has them; unlabeled, positive."""

    def ranges(self, cells: list[Cells]) -> tuple[IntArray, IntArray]:
        """Rows in the cells of all columns; unlabeled, positive."""


class FrameRatio(RatioModel):
    """Base class of the models that are fitted to a distributed data frame.

    The margin of boosted trees with the usual logistic loss is the log-ratio if weights give positive
    and unlabeled rows equal totals. The constant comes from counts of rows, not from an intercept. The
    fold of a row is computed from its hash, so it does not depend on the partitions of the frame. Mixed
    columns are encoded on the workers, by the rules for tables in memory. Scores are counted on the workers;
    only models, frequent levels of categories, quantiles, scores of held-out positives and counts are sent.
    """

    accepts_nan: ClassVar[bool] = True
    accepts_sparse: ClassVar[bool] = False
    engine: ClassVar[str]

    most_levels: int
    random_state: Any

    @abstractmethod
    def open(
        self,
        frame: Any,
        label: str,
        weight: str | None,
        split: Callable[[int, int], int | float],
        read_labels: Callable[[Any], tuple[BoolArray, np.ndarray[Any, Any]]],
    ) -> tuple[RowsOnCluster, np.ndarray[Any, Any], int | float]:
        """Rows with folds, the two labels, and how rows were held out."""

    def fit_frame(
        self,
        frame: Any,
        label: Any,
        weight: Any,
        holdout: Any,
        read_labels: Callable[[Any], tuple[BoolArray, np.ndarray[Any, Any]]],
    ) -> FrameFit:
        """Fold models, and counts of the rows that each was not trained on."""
        if not isinstance(label, str) or not (weight is None or isinstance(weight, str)):
            raise ParameterError(
                f"y and sample_weight must be names of columns with {type(self).__name__}, "
                f"got {type(label).__name__} and {type(weight).__name__}."
            )
        rows, classes, split = self.open(
            frame, label, weight, lambda n_p, n_u: settle_split(holdout, n_p, n_u), read_labels
        )
        with rows:
            folds = 1 if isinstance(split, float) else int(split)
            counts, mass = rows.totals(folds)
            models = [self._train(rows, fold, mass, folds) for fold in range(folds)]
            tails, grid = tails_and_grid(rows, models, self.most_levels)
            ranges = _ranges(rows)
        n_u, n_p = (int(n) for n in counts.sum(axis=0))
        total = mass.sum(axis=0)
        return FrameFit(
            FoldedRatio(models),
            tails,
            grid,
            classes,
            len(rows.table.columns),
            n_p,
            n_u,
            float(total[1] / total.sum()),
            rows.table,
            ranges,
        )

    def _train(self, rows: RowsOnCluster, fold: int, mass: FloatArray, folds: int) -> RatioModel:
        seen = np.delete(mass, fold, axis=0).sum(axis=0)
        if (seen <= 0).any():
            raise DataError("every fold must leave positive and unlabeled rows to train on: use fewer folds.")
        # Equal totals that sum to the number of rows: then the margin needs no constant.
        unlabeled, positive = (float(seen.sum()) / (2 * seen)).tolist()
        return BoostedRatio.from_trees(rows.train(fold, (unlabeled, positive)), rows.table.width)

    def salt(self) -> int:
        """A number that changes the folds with the seed."""
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _only_frames(self, *_: Any) -> NoReturn:
        raise DataTypeError(
            f"{type(self).__name__} is fitted to a {self.engine} data frame, by "
            f"DRPUClassifier(model={type(self).__name__}(...)).fit(frame, y='label'); for rows in memory "
            "use BoostedRatio."
        )

    def _fit(self, pair: SamplePair, holdout: SamplePair | None) -> None:
        self._only_frames()

    def _log_ratio(self, X: Rows) -> FloatArray:
        self._only_frames()

    def state(self) -> ModelState:
        """Not supported: the fitted models are plain boosted trees, which have states."""
        self._only_frames()

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:
        """Not supported: the fitted models are plain boosted trees."""
        raise DataError(f"a {cls.__name__} has no state.")


def _ranges(rows: RowsOnCluster) -> Ranges | None:
    """Ranges of the columns, at quantiles of both kinds of rows; none for very wide rows."""
    if rows.table.width > MOST_COLUMNS:
        return None
    fixed = fixed_cells(rows.table, rows.table.width)
    cells = [
        Cells(range_limits(pair)) if own is None else own
        for own, *pair in zip(fixed, *rows.quantiles(), strict=True)
    ]
    return Ranges(cells, *rows.ranges(cells))


class Scored(Protocol):
    """Methods of rows on a cluster that counting needs."""

    weighted: bool

    def positive_scores(self, model: Any, fold: int, most: int) -> tuple[FloatArray, FloatArray]:
        """Scores and weights of at most so many positives of a fold."""

    def count(self, model: Any, fold: int, empty: ScoreTails) -> PartCounts:
        """Counts of the unlabeled rows of a fold."""


def tails_and_grid(
    rows: Scored, models: Sequence[Any], most_levels: int
) -> tuple[ScoreTails, GridCounts | None]:
    """Tails over the held-out positives, and the same rows on the fixed grid."""
    most = max(1, most_levels // len(models))
    found = [rows.positive_scores(model, fold, most) for fold, model in enumerate(models)]
    scores, weight = (np.concatenate(part) for part in zip(*found, strict=True))
    if not len(scores):
        raise DataError("no positive was held out: use more rows, or a larger holdout.")
    tails = ScoreTails(scores, weight if rows.weighted else None)
    counted = [rows.count(model, fold, tails) for fold, model in enumerate(models)]
    total = counted[0]
    for part in counted[1:]:
        total = total + part
    if rows.weighted:
        return total.tails, None
    positive = PartCounts.of(tails, scores, None).grid
    return total.tails, GridCounts(positive, total.grid)


def settle_split(holdout: Any, n_positive: int, n_unlabeled: int) -> int | float:
    """Folds or the fraction to hold out, for numbers of rows over the whole cluster."""
    split = resolve_holdout(holdout, n_positive, n_unlabeled)
    if split == 0:
        raise DataError(
            f"a fit on a cluster needs ten positives or more to hold some out, got {n_positive}: "
            "fit so few rows in memory."
        )
    return split


def engine_of(X: Any) -> str | None:
    """Name of the class that is fitted to frames like ``X``, or None if its rows are in memory."""
    return ENGINES.get(type(X).__module__.partition(".")[0])


def refuse_frame(X: Any, name: str = "X") -> None:
    """Raise for a frame on a cluster, which is never loaded into memory implicitly."""
    engine = engine_of(X)
    if engine is not None:
        raise DataTypeError(
            f"{name} is a {type(X).__module__.partition('.')[0]} {type(X).__name__}, whose rows are not in "
            f"memory. To fit on the cluster use DRPUClassifier(model={engine}(...)).fit(frame, y='label'), "
            "to count or score them use adapt, count_batches or score_batches, or load them into memory."
        )


_NAN, _LEFT = 8, 2  # bits of a decision: missing values are NaN; they go left


def trees_from_xgboost(model: bytes | bytearray, columns: int) -> Trees:
    """Trees of a binary classifier in XGBoost's JSON.

    XGBoost compares in float32 and sends a value left if it is below the condition. LightGBM
    sends it left if it is at most the threshold, so the threshold lies between the
    condition and the float32 before it.
    """
    learner = json.loads(bytes(model).decode())["learner"]
    base = float(str(learner["learner_model_param"]["base_score"]).strip("[]"))
    if base != 0.5:
        raise ClusterError(f"XGBoost trees must start at a base_score of 0.5, got {base}.")
    trees = learner["gradient_booster"]["model"]["trees"]
    return Trees(tuple(_tree(tree) for tree in trees), columns, averaged=False)


def _tree(tree: dict[str, Any]) -> Tree:
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    condition = np.array(tree["split_conditions"], dtype=np.float64)
    leaf = left < 0
    # splits and leaves are numbered separately, in the order of the nodes
    number = np.where(leaf, ~(np.cumsum(leaf) - 1), np.cumsum(~leaf) - 1)
    split = ~leaf
    default_left = np.array(tree["default_left"]).astype(bool)
    return Tree(
        feature=np.array(tree["split_indices"], dtype=np.int64)[split],
        threshold=_below(condition[split]),
        decision=(_NAN + _LEFT * default_left[split]).astype(np.int64),
        left=number[left[split]].astype(np.int64),
        right=number[right[split]].astype(np.int64),
        value=condition[leaf],
        count=np.ones(int(leaf.sum()), dtype=np.int64),  # XGBoost does not store it
        bounds=np.zeros(1, dtype=np.int64),  # no split on categories
        bits=np.empty(0, dtype=np.int64),
    )


def _below(condition: FloatArray) -> FloatArray:
    """A threshold that float64 values rounding to a float32 below the condition do not exceed."""
    single = condition.astype(np.float32)
    before = np.nextafter(single, np.float32(-np.inf)).astype(np.float64)
    return np.asarray((before + single.astype(np.float64)) / 2)
