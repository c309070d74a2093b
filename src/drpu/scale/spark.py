"""Spark: executors count and score their rows, and SparkBoosted fits trees where the rows are."""

from __future__ import annotations

import functools
import logging
import pickle
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import lazy_loader
import numpy as np

from drpu._arrays import FloatArray, IntArray
from drpu._checks import check_integer, check_real, require
from drpu.exceptions import ClusterError, DataTypeError, MissingExtraError
from drpu.models.boosted import BoostedFunction
from drpu.models.clusters import (
    MOST_LABELS,
    FrameFit,
    FrameLearner,
    Plan,
    ValueCounts,
    feature_columns,
)
from drpu.models.trees import Trees, trees_from_xgboost
from drpu.priors.tails import ScoreTails
from drpu.scale.batches import OUTPUTS, BatchReader, BatchRows, check_outputs, prefixed
from drpu.tables.columns import DateColumn
from drpu.tables.encoder import Keep, TableEncoder
from drpu.tables.frames import read_frame
from drpu.tables.summaries import ColumnSummary, TableSummary
from drpu.tables.values import (
    NEIGHBOURS,
    NUMBER,
    RANGE_SHARES,
    Cells,
    count_columns,
    mean_of_neighbours,
)

# types of labels, by the kind of their dtype; other labels are strings
LABEL_TYPES = {"i": "long", "u": "long", "f": "double", "b": "boolean"}
DEPTH = 2  # levels of the tree in which executors add counts before the driver adds the rest

# columns that a fit adds to a frame
FLAG = "__drpu_flag"
FOLD = "__drpu_fold"
WEIGHT = "__drpu_weight"
MASS = "__drpu_mass"

pa = lazy_loader.load("pyarrow")  # on workers as well

WAIT = 120  # seconds for which the tasks of a training may wait for free slots
CHECK = 1.0  # seconds between two looks at them
UNITS = 2**24  # steps of the unit interval that a hash is mapped to
NEAR = 0.01  # difference of the shares of neighbouring quantiles
WHOLE = {"byte", "short", "integer", "long"}
NUMBERS = {*WHOLE, "float", "double", "boolean", "decimal"}
DATES = {"date", "timestamp", "timestamp_ntz"}
TEXTS = {"string", "char", "varchar"}

# One fit per process, which is one driver: executors run the barrier stages of a driver one by one.
_one_at_a_time = threading.Lock()


# -- counting and scoring ----------------------------------------------------------------


def count(reader: BatchReader, frame: Any) -> Any:
    """Counts of all partitions in one job; executors add most of them, the driver the rest."""
    require("pyarrow", extra="data", for_="counting a Spark data frame")
    names = reader.columns_to_read(list(frame.columns))
    shared = _share(frame, reader)

    def counts(batches: Iterator[Any]) -> Iterator[Any]:
        reader = shared.value
        for batch in batches:
            if batch.num_rows:
                yield reader.count(_read(reader, batch))

    with plain_errors():
        return _add_up(frame.select(*names), counts, reader.no_counts())


def score(reader: BatchReader, frame: Any, prefix: str) -> Any:
    """The frame with the outputs of each row as additional columns."""
    require("pyarrow", extra="data", for_="scoring a Spark data frame")
    types = require("pyspark.sql.types", extra="spark", for_="scoring a Spark data frame")
    check_outputs(prefix, frame.columns, ignore_case=True)
    reader.columns_to_read(list(frame.columns))
    shared = _share(frame, reader)

    def scored(batches: Iterator[Any]) -> Iterator[Any]:
        reader = shared.value
        for batch in batches:
            if batch.num_rows:
                part = _read(reader, batch)
                outputs = prefixed(prefix, reader.classifier._outputs(part.rows))
                table = pa.Table.from_batches([batch])
                for name, values in outputs.items():
                    table = table.append_column(name, pa.array(values.tolist()))
                yield from table.to_batches()

    schema = types.StructType(list(frame.schema.fields))
    label, *numbers = OUTPUTS
    schema.add(prefix + label, LABEL_TYPES.get(reader.classifier.classes_.dtype.kind, "string"))
    for name in numbers:
        schema.add(prefix + name, "double")
    return frame.mapInArrow(scored, schema)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Say in one line what to do if the Python of the executors lacks a package.

    Spark says it in forty lines.
    """
    try:
        yield
    except MissingExtraError:
        raise
    except Exception as error:  # any error of Spark, of the connection to it, or of XGBoost
        missing = re.search(r"No module named '([\w.]+)'", str(error))
        if missing is None:
            raise
        raise ClusterError(
            f"the Python of the Spark executors has no module {missing[1]!r}: before the session "
            "starts, set the environment variable PYSPARK_PYTHON to a Python that has drpu on "
            f"every machine, on a single machine to {sys.executable}."
        ) from None


def _share(frame: Any, value: Any) -> Any:
    """An object whose ``.value`` is ``value``, sent once to each executor.

    Spark Connect cannot do that: there it is sent to each task.
    """
    context = None
    if _is_classic(frame):
        context = getattr(frame.sparkSession, "sparkContext", None)
    if context is None:
        return SimpleNamespace(value=value)
    return context.broadcast(value)


def _add_up(frame: Any, summarize: Callable[[Iterator[Any]], Iterator[Any]], nothing: Any) -> Any:
    """The sum of the results of ``summarize`` for the batches of all partitions, in one job.

    The sums of the partitions are added on the executors, in a tree. Spark Connect has no such
    operation; there they are added on the driver.
    """

    def of_partition(batches: Iterator[Any]) -> Iterator[Any]:
        total = None
        for part in summarize(batches):
            total = _plus(total, part)
        yield pa.RecordBatch.from_pydict({"sum": [pickle.dumps(total)]})

    sums = frame.mapInArrow(of_partition, "sum binary")
    if _is_classic(frame):
        total = sums.rdd.map(_unpickled).treeAggregate(None, _plus, _plus, DEPTH)
    else:
        total = functools.reduce(_plus, [_unpickled(line) for line in sums.collect()], None)
    if total is None:
        return nothing
    return nothing + total


def _unpickled(line: Any) -> Any:
    return pickle.loads(line["sum"])


def _plus(a: Any, b: Any) -> Any:
    """The sum of two summaries; None is the summary of no rows."""
    if a is None:
        return b
    if b is None:
        return a
    return a + b


def wall_clock(batch: Any, zoned: Sequence[str] = ()) -> Any:
    """The batch as a table, with dates in the time zone of the session and without a zone.

    Spark moves dates without a zone to UTC when they enter a frame; a date must not depend on the
    session. ``toPandas`` gives the same dates. The columns ``zoned`` keep their zone.
    """
    import pyarrow.compute as compute

    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if getattr(column.type, "tz", None) is not None and name not in zoned:
            column = compute.local_timestamp(column)
        columns.append(column)
    return pa.Table.from_arrays(columns, names=batch.schema.names)


def _read(reader: BatchReader, batch: Any) -> BatchRows:
    """The rows of a batch; dates keep a time zone in columns whose training dates had one."""
    zoned = []
    if reader.classifier.table_ is not None:
        for column in reader.classifier.table_.columns:
            if isinstance(column, DateColumn) and column.zoned:
                zoned.append(column.name)
    return reader.read(wall_clock(batch, zoned))


def _is_classic(frame: Any) -> bool:
    """Whether the session has its own driver, that is, does not use Spark Connect."""
    return "connect" not in type(frame).__module__


# -- fits --------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class SparkBoosted(FrameLearner):
    """Density ratio of boosted trees (XGBoost), fitted on the executors of a Spark cluster.

    Use it as the model of a classifier:
    ``DRPUClassifier(model=SparkBoosted()).fit(frame, y="label")``. Strings, dates and identifiers
    are read by the same rules as in memory, which are applied to summaries of the partitions;
    categories become indicator columns, one for each of the 30 most frequent levels and one for
    the rest. The rows are shuffled, and XGBoost's Spark estimator trains the trees. They are stored
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
        Column that identifies a row. Its hash determines the fold of the row, and it is not a
        feature. By default all features are hashed, so equal rows are in the same fold.
    n_workers : int, optional
        Number of tasks that train trees together. They have to run at the same time: if so many
        slots are not free for two minutes, it is an error. The default is the default parallelism
        of the session.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of the trees.
    """

    engine = "Spark"

    _: KW_ONLY
    min_mass: float = 5.0
    n_workers: int | None = None

    def fit_frame(self, frame: Any, *arguments: Any) -> FrameFit:  # noqa: D102
        _silence(frame)
        with plain_errors():
            return super().fit_frame(frame, *arguments)

    def survey(  # noqa: D102
        self, frame: Any, label: str, weight: str | None, keep: Keep
    ) -> tuple[ValueCounts, TableEncoder]:
        require("xgboost", extra="spark", for_="SparkBoosted")
        require("pyarrow", extra="data", for_="SparkBoosted")
        if not hasattr(frame, "sparkSession") or not hasattr(frame, "schema"):
            raise DataTypeError(f"X must be a Spark data frame, got {type(frame).__name__}.")
        types = _types(frame, feature_columns(frame.columns, label, weight, self.key))
        table = _learn_encoder(frame, types, keep)
        lines = frame.groupBy(label).count().limit(MOST_LABELS + 1).collect()
        labels = [(line[label], line["count"]) for line in lines]
        return labels, table

    @contextmanager
    def rows(self, frame: Any, plan: Plan) -> Iterator[_SparkRows]:  # noqa: D102
        marked = _with_folds(frame, plan)
        if _all_numbers(frame, plan):
            encoded = _as_doubles(marked, plan.columns)
        else:
            encoded = _encoded(marked, plan.table)
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
            "repartition_random_shuffle": True,  # training fails on partitions sorted by label
            "force_repartition": True,  # and on partitions that the user has coalesced
            "missing": float("nan"),
            "verbosity": 0,
            "verbose": False,  # a line for each round
        }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.n_workers is not None:
            check_integer("n_workers", self.n_workers, low=1)
        check_real("min_mass", self.min_mass, low=0)


def _silence(frame: Any) -> None:
    """Switch off Spark's own bar, and XGBoost's messages unless the user has set their level."""
    for name in ("XGBoost-PySpark", "SparkXGBClassifier"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)
    with suppress(Exception):  # no public function switches it off in a running session
        bar = frame.sparkSession.sparkContext._jsc.sc().progressBar()
        if bar.isDefined():
            bar.get().stop()


class _SparkRows:
    """A frame with a flag, a fold and a weight beside the features."""

    def __init__(
        self, frame: Any, table: TableEncoder, weighted: bool, model: SparkBoosted
    ) -> None:
        self.frame = frame
        self.table = table
        self.weighted = weighted
        self.model = model
        self.F = _functions()
        self.columns = [name for name in frame.columns if name not in (FLAG, FOLD, WEIGHT)]

    def totals(self, folds: int) -> tuple[IntArray, FloatArray]:
        n_rows = self.F.count("*").alias("n")
        total_weight = self.F.sum(WEIGHT).alias("mass")
        lines = self.frame.groupBy(FOLD, FLAG).agg(n_rows, total_weight).collect()
        counts = np.zeros((folds + 1, 2), dtype=np.int64)
        mass = np.zeros((folds + 1, 2))
        for line in lines:
            fold = int(line[FOLD])
            if fold < 0:
                fold = folds
            counts[fold, line[FLAG]] = line["n"]
            mass[fold, line[FLAG]] = line["mass"]
        self.sizes = counts
        return counts, mass

    def train(self, without: int, mass: tuple[float, float]) -> Trees:
        from xgboost.spark import SparkXGBClassifier

        unlabeled_mass, positive_mass = mass
        is_positive = self.F.col(FLAG) == 1
        factor = self.F.when(is_positive, positive_mass).otherwise(unlabeled_mass)
        training = self.frame.where(self.F.col(FOLD) != without)
        n_rows = int(np.delete(self.sizes, without, axis=0).sum())
        session = self.frame.sparkSession
        workers = self.model.n_workers or session.sparkContext.defaultParallelism
        workers = max(1, min(workers, n_rows))
        grower = SparkXGBClassifier(
            features_col=self.columns,
            label_col=FLAG,
            weight_col=MASS,
            **self.model.settings(workers),
        )
        try:
            with _in_time(session.sparkContext, workers):
                grown = grower.fit(training.withColumn(MASS, self.F.col(WEIGHT) * factor))
        except ClusterError:
            raise
        except Exception as error:  # a stage of Spark can fail with any error
            raise ClusterError(f"XGBoost failed on the Spark cluster: {error}") from error
        return trees_from_xgboost(grown.get_booster().save_raw("json"), self.table.width)

    def positive_scores(
        self, function: BoostedFunction, fold: int, most: int
    ) -> tuple[FloatArray, FloatArray]:
        held_out = self._held_out(fold, flag=1)
        n = int(self.sizes[fold, 1])
        if n > most:
            held_out = held_out.sample(fraction=most / n, seed=self.model.salt() % 2**31)
        columns = self.columns
        shared = _share(self.frame, function)

        def scored(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                if batch.num_rows:
                    scores = shared.value.score(_rows(batch, columns))
                    weights = _doubles(batch, WEIGHT)
                    yield pa.RecordBatch.from_pydict({"score": scores, "weight": weights})

        lines = held_out.mapInArrow(scored, "score double, weight double").collect()
        scores, weights = np.array(lines, dtype=np.float64).reshape(-1, 2).T
        return scores, weights

    def count(self, function: BoostedFunction, fold: int, empty: ScoreTails) -> ScoreTails:
        columns = self.columns
        weighted = self.weighted
        shared = _share(self.frame, (function, empty))

        def counted(batches: Iterator[Any]) -> Iterator[ScoreTails]:
            function, empty = shared.value
            for batch in batches:
                if batch.num_rows:
                    scores = function.score(_rows(batch, columns))
                    weights = _doubles(batch, WEIGHT) if weighted else None
                    yield empty.empty().update(scores, weights)

        total: ScoreTails = _add_up(self._held_out(fold, flag=0), counted, empty.empty())
        return total

    def _held_out(self, fold: int, *, flag: int) -> Any:
        return self.frame.where((self.F.col(FOLD) == fold) & (self.F.col(FLAG) == flag))

    def quantiles(self) -> tuple[FloatArray, FloatArray]:
        unlabeled = self._quantiles(self.frame.where(self.F.col(FLAG) == 0))
        positive = self._quantiles(self.frame.where(self.F.col(FLAG) == 1))
        return unlabeled, positive

    def _quantiles(self, frame: Any) -> FloatArray:
        """Quantiles of the columns, and of their values that are not repeated, as in memory."""
        shares = len(RANGE_SHARES)
        quantiles = np.full((len(self.columns), 2 * shares), np.nan)
        quantiles[:, :shares] = _smooth_quantiles(frame, self.columns)
        for k in range(self._n_numbers):  # the cells of indicators are fixed
            name = self.columns[k]
            values = quantiles[k, :shares].tolist()
            repeated = {low for low, high in pairwise(values) if low == high}
            if repeated:
                others = frame.where(~self.F.col(name).isin(*repeated))
                quantiles[k, shares:] = _smooth_quantiles(others, [name])
        return quantiles

    @property
    def _n_numbers(self) -> int:
        """Number of encoded columns before the indicators."""
        indicators = self.table.indicators
        if indicators is None:
            return self.table.width
        return indicators.n_columns - len(indicators.categories)

    def ranges(self, cells: list[Cells]) -> tuple[IntArray, IntArray]:
        columns = self.columns
        n_cells = sum(column.n for column in cells)

        def counted(batches: Iterator[Any]) -> Iterator[IntArray]:
            for batch in batches:
                rows = _rows(batch, columns)
                positive = np.asarray(batch.column(FLAG)) == 1
                counts_unlabeled = count_columns(cells, rows[~positive])
                yield np.stack([counts_unlabeled, count_columns(cells, rows[positive])])

        unlabeled, positive = _add_up(self.frame, counted, np.zeros((2, n_cells), np.int64))
        return unlabeled, positive


@contextmanager
def _in_time(context: Any, workers: int) -> Iterator[None]:
    """Cancel the jobs of a training whose tasks do not start.

    They have to run at the same time, and Spark waits without end until so many slots are free.
    """
    _wait_for_slots(context, workers)
    group = f"drpu-{uuid.uuid4()}"
    group_before = context.getLocalProperty("spark.jobGroup.id")
    description = context.getLocalProperty("spark.job.description")
    ended = threading.Event()
    idle = threading.Event()
    watch = threading.Thread(target=_watch, args=(context, group, ended, idle), daemon=True)
    context.setJobGroup(group, "drpu trains trees", interruptOnCancel=True)
    watch.start()
    try:
        yield
    except Exception as error:
        if not idle.is_set():
            raise
        raise _no_slots(workers, "other jobs use them") from error
    finally:
        ended.set()
        watch.join()
        context.setLocalProperty("spark.jobGroup.id", group_before)
        context.setLocalProperty("spark.job.description", description)


def _wait_for_slots(context: Any, workers: int) -> None:
    """Raise if the cluster does not get as many slots as there are workers."""
    scheduler = context._jsc.sc()
    profile = scheduler.resourceProfileManager().defaultResourceProfile()
    waited = 0.0
    while scheduler.maxNumConcurrentTasks(profile) < workers:
        if waited >= WAIT:
            n_slots = scheduler.maxNumConcurrentTasks(profile)
            raise _no_slots(workers, f"the cluster has {n_slots}")
        time.sleep(CHECK)
        waited += CHECK


def _no_slots(workers: int, reason: str) -> ClusterError:
    return ClusterError(
        f"n_workers={workers} tasks have to run at the same time, but for {WAIT} seconds there "
        f"were not so many free slots, {reason}: pass a smaller n_workers to SparkBoosted."
    )


def _watch(context: Any, group: str, ended: threading.Event, idle: threading.Event) -> None:
    """Cancel the jobs of a group after none of their tasks has run for a time."""
    waited = 0.0
    while not ended.wait(CHECK):
        waited += CHECK
        if _has_running_tasks(context.statusTracker(), group):
            waited = 0.0
        if waited >= WAIT:
            idle.set()
            context.cancelJobGroup(group)


def _has_running_tasks(tracker: Any, group: str) -> bool:
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        if info is None:
            continue
        for stage_id in info.stageIds:
            stage = tracker.getStageInfo(stage_id)
            if stage is not None and stage.numActiveTasks > 0:
                return True
    return False


def _functions() -> Any:
    return require("pyspark.sql.functions", extra="spark", for_="SparkBoosted")


def _doubles(batch: Any, column: str) -> FloatArray:
    return np.asarray(batch.column(column), dtype=np.float64)


def _rows(batch: Any, columns: list[str]) -> FloatArray:
    return np.column_stack([_doubles(batch, name) for name in columns])


def _smooth_quantiles(frame: Any, columns: list[str]) -> FloatArray:
    """Means of six values around each quantile.

    NaN if there are so few values that some would be values of one row.
    """
    F = _functions()
    n_present = [F.sum((~F.isnan(name)).cast("int")) for name in columns]
    present = frame.select(*n_present).first()
    steps = NEAR * (np.arange(NEIGHBOURS) - (NEIGHBOURS - 1) / 2)
    shares = np.add.outer(RANGE_SHARES, steps).ravel().tolist()
    quantiles = np.full((len(columns), len(RANGE_SHARES)), np.nan)
    for k, values in enumerate(frame.approxQuantile(columns, shares, NEAR / 5)):
        if NEAR * (present[k] or 0) >= 2.5:  # ranks differ by more than their errors
            quantiles[k] = mean_of_neighbours(np.array(values).reshape(-1, NEIGHBOURS))
    return quantiles


def _types(frame: Any, columns: list[str]) -> dict[str, str]:
    types = {}
    for name in columns:
        kind = frame.schema[name].dataType.typeName().partition("(")[0]
        if kind not in NUMBERS | DATES | TEXTS:
            raise DataTypeError(
                f"column {name!r} has type {kind}, which is neither a number nor a string nor a "
                "date: turn it into columns of such types, or leave it out of the frame."
            )
        types[name] = kind
    return types


def _all_numbers(frame: Any, plan: Plan) -> bool:
    """Whether all columns are numbers in the frame and are used as numbers."""
    types = _types(frame, plan.columns)
    return all(
        column.kind == NUMBER and types[column.name] in NUMBERS for column in plan.table.read
    )


def _learn_encoder(frame: Any, types: dict[str, str], keep: Keep) -> TableEncoder:
    """The encoder of the columns; strings, dates and whole numbers are read for it, in one job."""
    summaries = {name: ColumnSummary.of_kind(NUMBER) for name in types}
    unclear = [name for name, kind in types.items() if kind in WHOLE | TEXTS | DATES]
    if unclear:
        summaries |= _summarized(frame.select(*unclear)).columns
    return TableEncoder.of_summaries(summaries, expand=True, keep=keep)


def _summarized(frame: Any) -> TableSummary:
    from pyspark import TaskContext

    def summaries(batches: Iterator[Any]) -> Iterator[TableSummary]:
        context = TaskContext.get()
        partition = 0
        if context is not None:
            partition = context.partitionId()
        for k, batch in enumerate(batches):
            if batch.num_rows:
                yield TableSummary.of(read_frame(wall_clock(batch)), (partition, k))

    nothing = TableSummary({name: ColumnSummary(frozenset()) for name in frame.columns})
    total: TableSummary = _add_up(frame, summaries, nothing)
    return total


def _with_folds(frame: Any, plan: Plan) -> Any:
    """The features, and the flag, the fold and the weight of each row."""
    F = _functions()
    hashed = []
    for name in plan.hashed_columns:
        column = F.col(name)
        if frame.schema[name].dataType.typeName() == "timestamp":
            column = column.cast("string")  # local time: the same in every session zone
        hashed.append(column)
    hashes = F.xxhash64(F.lit(plan.salt), *hashed)
    unit = F.pmod(hashes, F.lit(UNITS)) / F.lit(float(UNITS))
    if isinstance(plan.held, float):
        fold = F.when(unit < plan.held, 0).otherwise(-1)
    else:
        fold = F.floor(unit * plan.held).cast("int")
    is_positive = F.col(plan.label).isin(plan.positive.tolist())
    flag = F.when(is_positive, 1).otherwise(0)
    weight = F.lit(1.0) if plan.weight is None else F.col(plan.weight).cast("double")
    return frame.select(*plan.columns, flag.alias(FLAG), fold.alias(FOLD), weight.alias(WEIGHT))


def _as_doubles(marked: Any, columns: list[str]) -> Any:
    """Features as doubles with NaN for missing values; the other columns are kept."""
    F = _functions()
    features = []
    for name in columns:
        number = F.coalesce(F.col(name).cast("double"), F.lit(float("nan")))
        features.append(number.alias(name))
    return marked.select(*features, FLAG, FOLD, WEIGHT)


def _encoded(marked: Any, table: TableEncoder) -> Any:
    """Encoded features in new columns; the columns with flag, fold and weight are kept."""
    names = [column.name for column in table.read]
    encoded_names = [f"__drpu_x{k}" for k in range(table.width)]
    shared = _share(marked, table)

    def encode(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.num_rows:
                features = read_frame(wall_clock(batch.select(names)))
                rows = shared.value.transform(features, warn=False).astype(np.float64)
                columns = dict(zip(encoded_names, rows.T, strict=True))
                for mark in (FLAG, FOLD, WEIGHT):
                    columns[mark] = batch.column(mark)
                yield pa.RecordBatch.from_pydict(columns)

    schema = [f"{name} double" for name in encoded_names]
    schema += [f"{FLAG} int", f"{FOLD} int", f"{WEIGHT} double"]
    return marked.mapInArrow(encode, ", ".join(schema))
