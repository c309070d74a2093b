"""SparkBoosted: boosted trees fitted on the executors of a Spark cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from drpu._checks import check_integer, check_real
from drpu._optional import require
from drpu._typing import FloatArray, IntArray
from drpu.exceptions import ClusterError, DataTypeError
from drpu.models.boosted import BoostedFunction
from drpu.models.clusters import MOST_LABELS, Counts, FrameFit, FrameLearner, Plan, feature_columns
from drpu.models.trees import Trees, trees_from_xgboost
from drpu.priors.tails import ScoreTails
from drpu.scale.spark import add_up, plain_errors, quiet, share, wall_clock
from drpu.tables.cells import NEIGHBOURS, RANGE_SHARES, Cells, count_columns, mean_of_neighbours
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import read_frame
from drpu.tables.summaries import ColumnSummary, TableSummary
from drpu.tables.values import DATE, NUMBER

FLAG, FOLD, WEIGHT, MASS = (f"__drpu_{name}" for name in ("flag", "fold", "weight", "mass"))
UNITS = 2**24  # steps of the unit interval that a hash is mapped to
NEAR = 0.01  # difference of the shares of neighbouring quantiles
WHOLE = {"byte", "short", "integer", "long"}
NUMBERS = {*WHOLE, "float", "double", "boolean", "decimal"}
DATES = {"date", "timestamp", "timestamp_ntz"}
TEXTS = {"string", "char", "varchar"}

_one_at_a_time = (
    threading.Lock()
)  # one fit per driver, because executors run barrier stages one by one


@dataclass(eq=False, repr=False)
class SparkBoosted(FrameLearner):
    """Density ratio of boosted trees (XGBoost), fitted on the executors of a Spark cluster.

    Use it as the model of a classifier: ``DRPUClassifier(model=SparkBoosted()).fit(frame, y="label")``.
    Strings, dates and identifiers are read by the same rules as in memory, which are applied to summaries of
    the partitions; categories become indicator columns, one for each of the 30 most frequent levels and
    one for the rest. The rows are shuffled, and XGBoost's Spark estimator trains the trees. They are stored
    in the format of LightGBM, so the fitted classifier needs neither Spark nor XGBoost.

    Parameters
    ----------
    n_rounds : int, default=200
        Number of trees.
    learning_rate : float, default=0.1
        Fraction of each tree that is added.
    leaves : int, default=31
        Maximum number of leaves of a tree.
    min_mass : float, default=5.0
        Minimum sum of the hessian in a leaf. A row with probability 1/2 contributes 1/4.
    l2 : float, default=20.0
        Added to the hessian of each leaf, which shrinks its value.
    key : str, optional
        Column that identifies a row. Its hash determines the fold of the row, and it is not a feature.
        By default all features are hashed, so equal rows are in the same fold.
    n_workers : int, optional
        Number of tasks that train trees together. They have to run at the same time. The default is the
        default parallelism of the session.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of the trees.
    """

    engine = "Spark"

    _: KW_ONLY
    min_mass: float = 5.0
    n_workers: int | None = None

    def fit_frame(self, frame: Any, *arguments: Any) -> FrameFit:  # noqa: D102
        quiet(frame)
        with plain_errors():
            return super().fit_frame(frame, *arguments)

    def survey(self, frame: Any, label: str, weight: str | None) -> tuple[Counts, TableEncoder]:  # noqa: D102
        require("xgboost", extra="spark", for_="SparkBoosted")
        require("pyarrow", extra="data", for_="SparkBoosted")
        if not hasattr(frame, "sparkSession") or not hasattr(frame, "schema"):
            raise DataTypeError(f"X must be a Spark data frame, got {type(frame).__name__}.")
        types = _types(frame, feature_columns(frame.columns, label, weight, self.key))
        table = _learn_encoder(frame, types)
        lines = frame.groupBy(label).count().limit(MOST_LABELS + 1).collect()
        return [(line[label], line["count"]) for line in lines], table

    @contextmanager
    def rows(self, frame: Any, plan: Plan) -> Iterator[_SparkRows]:  # noqa: D102
        marked, types = _with_folds(frame, plan), _types(frame, plan.columns)
        plain = all(own.kind == NUMBER and types[own.name] in NUMBERS for own in plan.table.used)
        encoded = _as_doubles(marked, plan.columns) if plain else _encoded(marked, plan.table)
        rows = _SparkRows(encoded, plan.table, plan.weight is not None, self)
        with _one_at_a_time:
            try:
                encoded.persist()
                yield rows
            finally:
                encoded.unpersist()

    def settings(self, workers: int) -> dict[str, Any]:
        """Settings of XGBoost's estimator."""
        return {
            "n_estimators": self.n_rounds,
            "learning_rate": self.learning_rate,
            "max_leaves": self.leaves,
            "max_depth": 0,
            "grow_policy": "lossguide",
            "tree_method": "hist",
            "max_bin": 64,
            "min_child_weight": self.min_mass,
            "reg_lambda": self.l2,
            "base_score": 0.5,  # otherwise XGBoost adds its own estimate to the margin
            "seed": self.salt() % 2**31,
            "num_workers": workers,
            "repartition_random_shuffle": True,  # training fails on partitions that are sorted by label
            "missing": float("nan"),
            "verbosity": 0,
            "verbose": False,  # a line for each round
        }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.n_workers is not None:
            check_integer("n_workers", self.n_workers, low=1)
        check_real("min_mass", self.min_mass, low=0)


class _SparkRows:
    """A frame with a flag, a fold and a weight beside the features."""

    def __init__(
        self, frame: Any, table: TableEncoder, weighted: bool, model: SparkBoosted
    ) -> None:
        self.frame, self.table, self.weighted, self.model = frame, table, weighted, model
        self.F = require("pyspark.sql.functions", extra="spark", for_="SparkBoosted")
        self.columns = [name for name in frame.columns if name not in (FLAG, FOLD, WEIGHT)]

    def totals(self, folds: int) -> tuple[IntArray, FloatArray]:
        found = [self.F.count("*").alias("n"), self.F.sum(WEIGHT).alias("mass")]
        lines = self.frame.groupBy(FOLD, FLAG).agg(*found).collect()
        counts, mass = np.zeros((folds + 1, 2), dtype=np.int64), np.zeros((folds + 1, 2))
        for line in lines:
            at = (folds if line[FOLD] < 0 else int(line[FOLD])), int(line[FLAG])
            counts[at], mass[at] = line["n"], line["mass"]
        self.sizes = counts
        return counts, mass

    def train(self, without: int, mass: tuple[float, float]) -> Trees:
        from xgboost.spark import SparkXGBClassifier

        seen = self.frame.where(self.F.col(FOLD) != without)
        factor = self.F.when(self.F.col(FLAG) == 1, mass[1]).otherwise(mass[0])
        session = self.frame.sparkSession
        workers = self.model.n_workers or session.sparkContext.defaultParallelism
        rows = int(np.delete(self.sizes, without, axis=0).sum())
        grower = SparkXGBClassifier(
            features_col=self.columns,
            label_col=FLAG,
            weight_col=MASS,
            **self.model.settings(max(1, min(workers, rows))),
        )
        try:
            grown = grower.fit(seen.withColumn(MASS, self.F.col(WEIGHT) * factor))
        except Exception as error:  # a stage of Spark can fail with any error
            raise ClusterError(f"XGBoost failed on the Spark cluster: {error}") from error
        return trees_from_xgboost(grown.get_booster().save_raw("json"), self.table.width)

    def positive_scores(
        self, function: BoostedFunction, fold: int, most: int
    ) -> tuple[FloatArray, FloatArray]:
        held = self.frame.where((self.F.col(FOLD) == fold) & (self.F.col(FLAG) == 1))
        n = max(1, int(self.sizes[fold, 1]))
        if n > most:
            held = held.sample(fraction=most / n, seed=self.model.salt() % 2**31)
        columns, shared = self.columns, share(self.frame, function)

        def scored(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for batch in batches:
                if batch.num_rows:
                    scores = shared.value.score(_rows(batch, columns))
                    weight = np.asarray(batch.column(WEIGHT), dtype=np.float64)
                    yield pa.RecordBatch.from_pydict({"score": scores, "weight": weight})

        found = held.mapInArrow(scored, "score double, weight double").collect()
        return np.array([line["score"] for line in found]), np.array(
            [line["weight"] for line in found]
        )

    def count(self, function: BoostedFunction, fold: int, empty: ScoreTails) -> ScoreTails:
        held = self.frame.where((self.F.col(FOLD) == fold) & (self.F.col(FLAG) == 0))
        columns, weighted, shared = (
            self.columns,
            self.weighted,
            share(self.frame, (function, empty)),
        )

        def counted(batches: Iterator[Any]) -> Iterator[ScoreTails]:
            scorer, levels = shared.value
            for batch in batches:
                if batch.num_rows:
                    weight = (
                        np.asarray(batch.column(WEIGHT), dtype=np.float64) if weighted else None
                    )
                    yield levels.empty().update(scorer.score(_rows(batch, columns)), weight)

        total: ScoreTails = add_up(held, counted, empty.empty())
        return total

    def quantiles(self) -> tuple[FloatArray, FloatArray]:
        unlabeled, positive = (
            self._quantiles(self.frame.where(self.F.col(FLAG) == flag)) for flag in (0, 1)
        )
        return unlabeled, positive

    def _quantiles(self, frame: Any) -> FloatArray:
        """Quantiles of the columns, and of values that are not repeated among them, as in memory."""
        shares = len(RANGE_SHARES)
        found = np.full((len(self.columns), 2 * shares), np.nan)
        found[:, :shares] = _smooth_quantiles(frame, self.columns)
        for k, values in enumerate(
            found[: self._numbers, :shares]
        ):  # the cells of indicators are fixed
            repeated = {float(a) for a, b in pairwise(values) if a == b}
            if repeated:
                others = frame.where(~self.F.col(self.columns[k]).isin(*repeated))
                found[k, shares:] = _smooth_quantiles(others, self.columns[k : k + 1])
        return found

    @property
    def _numbers(self) -> int:
        """Number of encoded columns before the indicators."""
        shown = self.table.indicators
        return self.table.width if shown is None else shown.n_columns - len(shown.categories)

    def ranges(self, cells: list[Cells]) -> tuple[IntArray, IntArray]:
        columns, nothing = self.columns, np.zeros((2, sum(own.n for own in cells)), np.int64)

        def counted(batches: Iterator[Any]) -> Iterator[IntArray]:
            for batch in batches:
                rows, flag = _rows(batch, columns), np.asarray(batch.column(FLAG)) == 1
                yield np.stack([count_columns(cells, rows[flag == kind]) for kind in (False, True)])

        unlabeled, positive = add_up(self.frame, counted, nothing)
        return unlabeled, positive


def _smooth_quantiles(frame: Any, columns: list[str]) -> FloatArray:
    """Means of six values around each quantile; NaN if so few values are there that some are of one row."""
    F = require("pyspark.sql.functions", extra="spark", for_="SparkBoosted")
    present = frame.select(*(F.sum((~F.isnan(name)).cast("int")) for name in columns)).first()
    steps = NEAR * (np.arange(NEIGHBOURS) - (NEIGHBOURS - 1) / 2)
    around = np.add.outer(RANGE_SHARES, steps).ravel().tolist()
    found = np.full((len(columns), len(RANGE_SHARES)), np.nan)
    for k, near in enumerate(frame.approxQuantile(columns, around, NEAR / 5)):
        if NEAR * (present[k] or 0) >= 2.5:  # ranks differ by more than their errors
            found[k] = mean_of_neighbours(np.array(near).reshape(-1, NEIGHBOURS))
    return found


def _rows(batch: Any, columns: list[str]) -> FloatArray:
    return np.column_stack([np.asarray(batch.column(name), dtype=np.float64) for name in columns])


def _types(frame: Any, columns: list[str]) -> dict[str, str]:
    """Types of the columns."""
    types = {
        field.name: field.dataType.typeName().partition("(")[0] for field in frame.schema.fields
    }
    found = {name: types[name] for name in columns}
    for name, kind in found.items():
        if kind not in NUMBERS | DATES | TEXTS:
            raise DataTypeError(
                f"column {name!r} has type {kind}, which is neither a number nor a string nor a date: turn "
                "it into columns of such types, or leave it out of the frame."
            )
    return found


def _learn_encoder(frame: Any, types: dict[str, str]) -> TableEncoder:
    """The encoder of the columns; only strings and whole numbers have to be read for it, in one job."""
    from pyspark import TaskContext

    open_ = [name for name, kind in types.items() if kind in WHOLE | TEXTS]
    nothing = TableSummary({name: ColumnSummary(frozenset()) for name in open_})

    def summarized(batches: Iterator[Any]) -> Iterator[TableSummary]:
        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        for k, batch in enumerate(batches):
            if batch.num_rows:
                yield TableSummary.of(read_frame(wall_clock(batch)), (part, k))

    found = add_up(frame.select(*open_), summarized, nothing).columns if open_ else {}
    typed = {name: ColumnSummary.of_kind(DATE if kind in DATES else NUMBER)
             for name, kind in types.items()}  # fmt: skip
    return TableEncoder.of_summaries(typed | found, expand=True)


def _as_doubles(marked: Any, columns: list[str]) -> Any:
    """Features as doubles with NaN for missing values; the other columns are kept."""
    F = require("pyspark.sql.functions", extra="spark", for_="SparkBoosted")
    features = [F.coalesce(F.col(c).cast("double"), F.lit(float("nan"))).alias(c) for c in columns]
    return marked.select(*features, FLAG, FOLD, WEIGHT)


def _encoded(marked: Any, table: TableEncoder) -> Any:
    """Encoded features in new columns; the columns with flag, fold and weight are kept."""
    marks = {FLAG: "int", FOLD: "int", WEIGHT: "double"}
    columns = [f"__drpu_x{k}" for k in range(table.width)]
    used, shared = [plan.name for plan in table.used], share(marked, table)

    def encode(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            if batch.num_rows:
                rows = shared.value.transform(
                    read_frame(wall_clock(batch.select(used))), warn=False
                )
                found = dict(zip(columns, rows.T.astype(np.float64), strict=True))
                yield pa.RecordBatch.from_pydict(
                    found | {name: batch.column(name) for name in marks}
                )

    kinds = [f"{name} double" for name in columns] + [
        f"{name} {kind}" for name, kind in marks.items()
    ]
    return marked.mapInArrow(encode, ", ".join(kinds))


def _with_folds(frame: Any, plan: Plan) -> Any:
    """The features, and the flag, the fold and the weight of each row."""
    F = require("pyspark.sql.functions", extra="spark", for_="SparkBoosted")
    named = plan.columns if plan.key is None else [plan.key]
    hashed = F.xxhash64(F.lit(plan.salt), *(F.col(name) for name in named))
    unit = F.pmod(hashed, F.lit(UNITS)) / F.lit(float(UNITS))
    if isinstance(plan.held, float):
        fold = F.when(unit < plan.held, 0).otherwise(-1)
    else:
        fold = F.floor(unit * plan.held).cast("int")
    is_positive = F.col(plan.label).isin(plan.positive.tolist())
    return frame.select(
        *plan.columns,
        F.when(is_positive, 1).otherwise(0).alias(FLAG),
        fold.alias(FOLD),
        (F.lit(1.0) if plan.weight is None else F.col(plan.weight).cast("double")).alias(WEIGHT),
    )
