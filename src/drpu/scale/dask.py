"""Dask: workers count and score their partitions, and DaskBoosted fits trees where the rows are."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from drpu._arrays import BoolArray, FloatArray, IntArray
from drpu._checks import check_integer, require
from drpu._samples import at_rows
from drpu.classifier.drpu import RatioClassifier
from drpu.exceptions import ClusterError, DataTypeError, ParameterError
from drpu.models.boosted import BoostedFunction
from drpu.models.clusters import MOST_LABELS, FrameLearner, Plan, ValueCounts, feature_columns
from drpu.models.trees import Trees, category_settings
from drpu.priors.tails import ScoreTails
from drpu.scale.batches import OUTPUTS, BatchReader, check_outputs, prefixed
from drpu.tables.dates import DATE
from drpu.tables.encoder import Keep, TableEncoder
from drpu.tables.frames import read_frame
from drpu.tables.summaries import ColumnSummary, TableSummary
from drpu.tables.values import NUMBER, Cells, column_quantiles, count_columns

FAN = 16  # results added in one task
MOST_SORTED = 50_000  # rows of a part that are sorted for quantiles
ATTEMPTS = 3  # to train trees, after a worker was lost
LOCK = "drpu-lightgbm"  # concurrent fits would wait for each other's sockets forever
WATCH = 0.5  # seconds between two checks of the workers during training
STOP = 10  # seconds in which LightGBM's interface ends after its tasks were cancelled
# Before the other tasks of a worker: LightGBM waits two minutes for all workers to start.
PRIORITY = 10


# -- counting and scoring ----------------------------------------------------------------


def count(reader: BatchReader, collection: Any) -> Any:
    """Counts of all partitions, added in a tree."""
    dask = require("dask", extra="dask", for_="counting a Dask collection")
    parts = _partitions(collection, reader)
    shared = _shared(reader)
    counts = [dask.delayed(_count_partition)(part, shared) for part in parts]
    (total,) = dask.compute(_add_in_tree(counts, dask.delayed(_add)))
    return total


def score(reader: BatchReader, collection: Any, prefix: str) -> Any:
    """A lazy data frame: the source with the outputs of each row as additional columns.

    A task returns rows and outputs together. A frame of outputs alone would be joined by the index,
    whose values Parquet files repeat, and so get the outputs of other rows.
    """
    if _is_array(collection):
        return _score_array(reader, collection, prefix)
    _check_collection(collection)
    check_outputs(prefix, list(collection.columns))
    reader.columns_to_read(list(collection.columns))
    no_rows = collection._meta.iloc[:0]
    meta = no_rows.assign(**prefixed(prefix, _empty_outputs(reader.classifier)))
    return collection.map_partitions(_score_partition, _shared(reader), prefix, meta=meta)


def _score_array(reader: BatchReader, array: Any, prefix: str) -> Any:
    """A lazy data frame with the outputs of the rows of an array, numbered from 0 on."""
    dask = require("dask", extra="dask", for_="scoring a Dask collection")
    frame = require("dask.dataframe", extra="dask", for_="scoring a Dask collection")
    pd = require("pandas", extra="dask", for_="scoring a Dask collection")
    blocks = _row_blocks(array, reader)
    shared = _shared(reader)
    sizes = np.array(array.chunks[0], dtype=np.float64)  # NaN for sizes that Dask does not know
    ends = np.cumsum(sizes)
    divisions = None
    if (sizes > 0).all():
        divisions = (0, *ends[:-1].astype(int).tolist(), int(ends[-1]) - 1)
    scored = []
    for block, start in zip(blocks, ends - sizes, strict=True):
        scored.append(dask.delayed(_score_block)(block, shared, start, prefix))
    meta = pd.DataFrame(prefixed(prefix, _empty_outputs(reader.classifier)))
    return frame.from_delayed(scored, meta=meta, divisions=divisions)


def _shared(reader: BatchReader) -> Any:
    """The reader, sent to each worker once.

    Its key is random: Dask derives a key from the parameters of a classifier, which two classifiers
    may share that were fitted to different rows.
    """
    dask = require("dask", extra="dask", for_="Dask collections")
    return dask.delayed(reader, pure=False, traverse=False)


def _is_array(collection: Any) -> bool:
    return hasattr(collection, "chunks")


def _partitions(collection: Any, reader: BatchReader) -> list[Any]:
    if _is_array(collection):
        return _row_blocks(collection, reader)
    _check_collection(collection)
    names = reader.columns_to_read(list(collection.columns))
    return list(collection[names].to_delayed())


def _row_blocks(array: Any, reader: BatchReader) -> list[Any]:
    """Blocks of whole rows of an array."""
    reader.refuse_names("a Dask array")
    whole_rows = array.rechunk(dict.fromkeys(range(1, array.ndim), -1))
    return list(np.ravel(whole_rows.to_delayed()))


def _check_collection(collection: Any) -> None:
    if not hasattr(collection, "to_delayed") or not hasattr(collection, "columns"):
        raise ParameterError(
            f"source must be a Dask data frame or array, got {type(collection).__name__}: "
            "a bag or a delayed object has no rows and columns."
        )


def _count_partition(partition: Any, reader: BatchReader) -> Any:
    return reader.count(reader.read(partition))


def _score_partition(partition: Any, reader: BatchReader, prefix: str) -> Any:
    """The rows of a partition with their outputs."""
    return partition.assign(**prefixed(prefix, _outputs(reader, partition)))


def _score_block(block: Any, reader: BatchReader, start: float, prefix: str) -> Any:
    """The outputs of the rows of an array, of which the first has the number ``start``."""
    pd = require("pandas", extra="dask", for_="scoring a Dask collection")
    outputs = pd.DataFrame(prefixed(prefix, _outputs(reader, block)))
    if not np.isnan(start):
        outputs.index += int(start)
    return outputs


def _outputs(reader: BatchReader, rows: Any) -> dict[str, Any]:
    batch = reader.read(rows)
    if batch.n:
        return reader.classifier._outputs(batch.rows)
    return _empty_outputs(reader.classifier)


def _empty_outputs(classifier: RatioClassifier) -> dict[str, Any]:
    """Empty outputs with the right dtypes."""
    outputs = dict.fromkeys(OUTPUTS, np.empty(0))
    outputs["label"] = classifier.classes_[:0]
    return outputs


def _add(parts: list[Any]) -> Any:
    return sum(parts[1:], parts[0])


def _add_in_tree(parts: list[Any], add: Callable[[list[Any]], Any]) -> Any:
    """The task that adds up all parts; a task adds a few, so that no worker holds all of them."""
    while len(parts) > 1:
        parts = [add(parts[start : start + FAN]) for start in range(0, len(parts), FAN)]
    return parts[0]


# -- fits --------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class DaskBoosted(FrameLearner):
    """Density ratio of boosted trees (LightGBM), fitted on the workers that hold a Dask data frame.

    Use it as the model of a classifier:
    ``DRPUClassifier(model=DaskBoosted()).fit(frame, y="label")``. Strings, categories, dates and
    identifiers are read by the same rules as in memory, which are applied to summaries of the
    partitions; the trees split on categories. The rows are shuffled among the workers first,
    because distributed boosting fails on partitions that are sorted by label. LightGBM's Dask
    interface then trains the trees. If a worker is lost, its rows are read again and training is
    repeated. Fits on the same cluster, of any client, run one after the other. The fitted
    classifier needs neither Dask nor a cluster.

    Parameters
    ----------
    n_rounds, learning_rate, leaves, l2, key, random_state
        As in :class:`drpu.SparkBoosted`.
    min_leaf : int, default=20
        Minimum number of rows of a leaf.
    client : distributed.Client, optional
        The Dask client; by default the current one.
    """

    engine = "Dask"

    _: KW_ONLY
    min_leaf: int = 20
    client: Any = None

    def __sklearn_clone__(self) -> DaskBoosted:
        return type(self)(**self.get_params(deep=False))  # a client is shared, never copied

    def survey(  # noqa: D102
        self, frame: Any, label: str, weight: str | None, keep: Keep
    ) -> tuple[ValueCounts, TableEncoder]:
        client = self._client()
        if not hasattr(frame, "columns") or not hasattr(frame, "to_delayed"):
            raise DataTypeError(f"X must be a Dask data frame, got {type(frame).__name__}.")
        columns = feature_columns(list(frame.columns), label, weight, self.key)
        # Columns whose type determines their kind are not read.
        known = _summaries_by_type(frame, columns)
        unclear = [name for name in columns if name not in known]

        delayed = require("dask", extra="dask", for_="DaskBoosted").delayed
        partitions = frame[[*unclear, label]].to_delayed()
        surveys = []
        for place, partition in enumerate(partitions):
            surveys.append(delayed(_Survey.of)(partition, place, unclear, label))
        survey = client.compute(_add_in_tree(surveys, delayed(_add))).result()

        summaries = {}
        for name in columns:
            if name in known:
                summaries[name] = known[name]
            else:
                summaries[name] = survey.table.columns[name]
        return survey.labels, TableEncoder.of_summaries(summaries, keep=keep)

    @contextmanager
    def rows(self, frame: Any, plan: Plan) -> Iterator[_DaskRows]:  # noqa: D102
        rows = _DaskRows(self._client(), plan, self)
        with _one_at_a_time(rows.client):
            try:
                rows.load(frame)
                yield rows
            finally:
                rows.parts.clear()  # futures without a reference are released

    def _client(self) -> Any:
        distributed = require("distributed", extra="dask", for_="DaskBoosted")
        if self.client is not None:
            return self.client
        try:
            return distributed.get_client()
        except ValueError as error:
            raise ClusterError(
                "DaskBoosted needs a Dask client: "
                "write client = dask.distributed.Client(...) first."
            ) from error

    def settings(self, seed: int) -> dict[str, Any]:
        """Settings of LightGBM."""
        return {
            "objective": "binary",
            "boost_from_average": False,
            "n_estimators": self.n_rounds,
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_child_samples": self.min_leaf,
            "reg_lambda": self.l2,
            "max_bin": 63,
            "random_state": seed,
            "verbosity": -1,
        }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("min_leaf", self.min_leaf, low=1)


def _summaries_by_type(frame: Any, columns: list[str]) -> dict[str, ColumnSummary]:
    """Summaries of the columns whose type determines their kind."""
    summaries = {}
    for name in columns:
        dtype = frame.dtypes[name]
        if dtype.kind in "fb":
            summaries[name] = ColumnSummary.of_kind(NUMBER)
        elif dtype.kind == "m":
            summaries[name] = ColumnSummary.of_kind(DATE)
    return summaries


@dataclass(frozen=True, slots=True)
class _Survey:
    """Labels of partitions, and summaries of the columns whose kind depends on their values."""

    labels: ValueCounts
    table: TableSummary

    @classmethod
    def of(cls, partition: Any, place: int, columns: list[str], label: str) -> _Survey:
        counts = partition[label].value_counts(dropna=False).head(MOST_LABELS + 1)
        labels = list(zip(counts.index.tolist(), counts.tolist(), strict=True))
        return cls(labels, TableSummary.of(read_frame(partition[columns]), (place, 0)))

    def __add__(self, other: _Survey) -> _Survey:
        return _Survey(self.labels + other.labels, self.table + other.table)


@contextmanager
def _one_at_a_time(client: Any) -> Iterator[None]:
    """Wait until no other fit, of any client, runs; the turn of a lost client expires."""
    distributed = require("distributed", extra="dask", for_="DaskBoosted")
    turn = distributed.Semaphore(
        max_leases=1, name=LOCK, scheduler_rpc=client.scheduler, loop=client.loop
    )
    try:
        with turn:
            yield
    finally:
        turn.refresh_leases = False  # a turn that is granted after an interrupted wait expires


def _worker_addresses(client: Any) -> set[str]:
    return set(client.nthreads())  # scheduler_info may return an older state, without workers


class _Block(NamedTuple):
    """A part of which rows are trained on: their number and type, and the worker that holds it."""

    part: Any  # a future
    n: int
    dtype: np.dtype[Any]
    worker: str  # an empty text if no worker holds it


class _DaskRows:
    """Shuffled rows in the memory of the workers, one part on each."""

    def __init__(self, client: Any, plan: Plan, model: DaskBoosted) -> None:
        self.client = client
        self.plan = plan
        self.model = model
        self.submit = partial(client.submit, pure=False)
        self.table = plan.table
        self.weighted = plan.weight is not None
        self.parts: list[Any] = []  # futures of Part

    def load(self, frame: Any) -> None:
        workers = sorted(_worker_addresses(self.client))
        if not workers:
            raise ClusterError("the Dask cluster has no workers: start some first.")
        plan = self.plan
        submit = self.submit
        names = dict.fromkeys([*plan.columns, plan.label, plan.key, plan.weight])
        names.pop(None, None)  # no key, or no weight
        partitions = self.client.compute(frame[list(names)].to_delayed())
        pieces = [submit(pieces_for_workers, plan, part, len(workers)) for part in partitions]
        for k, worker in enumerate(workers):
            pieces_of_worker = [submit(operator.getitem, piece, k) for piece in pieces]
            part = submit(Part.join, pieces_of_worker, workers=[worker], allow_other_workers=True)
            self.parts.append(part)

    def totals(self, folds: int) -> tuple[IntArray, FloatArray]:
        sizes, mass = zip(*self._gather(self.parts, Part.totals, folds), strict=True)
        self.sizes = np.array(sizes)
        return self.sizes.sum(axis=0), np.sum(mass, axis=0)

    def train(self, without: int, mass: tuple[float, float]) -> Trees:
        require("lightgbm", extra="dask", for_="DaskBoosted")
        categories = self.table.categories
        settings = self.model.settings(self.plan.salt) | category_settings(categories)
        error = None
        for _ in range(ATTEMPTS):
            blocks = self._training_blocks(without)
            workers = [block.worker for block in blocks]
            if "" in workers:  # a worker was lost
                continue
            attempt = _TreeTraining(self.client, workers, settings, list(categories))
            text = attempt.run(*self._training_arrays(blocks, without, mass))
            if text is not None:
                return Trees.from_lightgbm(text, self.table.width)
            error = attempt.error
        raise ClusterError(
            f"LightGBM failed in each of {ATTEMPTS} attempts on the Dask cluster: "
            f"{error or 'workers were lost'}. Check the memory limits of the workers."
        ) from error

    def _training_blocks(self, without: int) -> list[_Block]:
        """The parts that have rows to train on."""
        n_rows = np.delete(self.sizes, without, axis=1).sum(axis=(1, 2))
        parts = [self.parts[k] for k in np.flatnonzero(n_rows)]
        # The parts of a lost worker are made again before the dtypes of all parts are known.
        dtypes = self._gather(parts, Part.dtype)
        holders = self.client.who_has(parts)
        blocks = []
        for part, n, dtype in zip(parts, n_rows[n_rows > 0].tolist(), dtypes, strict=True):
            worker = next(iter(holders[part.key]), "")
            blocks.append(_Block(part, n, dtype, worker))
        return blocks

    def _training_arrays(
        self, blocks: list[_Block], without: int, mass: tuple[float, float]
    ) -> tuple[Any, Any, Any]:
        """Rows, flags and weights to train on as Dask arrays, with one chunk for each part."""
        dask = require("dask", extra="dask", for_="DaskBoosted")
        array = require("dask.array", extra="dask", for_="DaskBoosted")
        rows = []
        flags = []
        weights = []
        for block in blocks:
            training = dask.delayed(Part.training, nout=3)(block.part, without, mass)
            of_rows, of_flags, of_weights = training
            shape = (block.n, self.table.width)
            rows.append(array.from_delayed(of_rows, shape, dtype=block.dtype))
            flags.append(array.from_delayed(of_flags, (block.n,), dtype=np.float64))
            weights.append(array.from_delayed(of_weights, (block.n,), dtype=np.float64))
        return array.concatenate(rows), array.concatenate(flags), array.concatenate(weights)

    def positive_scores(
        self, function: BoostedFunction, fold: int, most: int
    ) -> tuple[FloatArray, FloatArray]:
        shared = self.client.scatter(function, broadcast=True, hash=False)
        n_positive = max(1, int(self.sizes[:, fold, 1].sum()))
        share = most / n_positive
        futures = []
        for k, part in enumerate(self.parts):
            seed = self.plan.salt + k
            futures.append(self.submit(Part.positive_scores, part, shared, fold, share, seed))
        scores, weights = zip(*self.client.gather(futures), strict=True)
        return np.concatenate(scores), np.concatenate(weights)

    def count(self, function: BoostedFunction, fold: int, empty: ScoreTails) -> ScoreTails:
        shared_function = self.client.scatter(function, broadcast=True, hash=False)
        shared_tails = self.client.scatter(empty, broadcast=True, hash=False)
        counts = []
        for part in self.parts:
            counts.append(self.submit(Part.count, part, shared_function, fold, shared_tails))
        total: ScoreTails = _add_in_tree(counts, partial(self.submit, _add)).result()
        return total

    def quantiles(self) -> tuple[FloatArray, FloatArray]:
        unlabeled = _mean_quantiles(self._gather(self.parts, Part.quantiles, False))
        positive = _mean_quantiles(self._gather(self.parts, Part.quantiles, True))
        return unlabeled, positive

    def ranges(self, cells: list[Cells]) -> tuple[IntArray, IntArray]:
        unlabeled, positive = np.sum(self._gather(self.parts, Part.ranges, cells), axis=0)
        return unlabeled, positive

    def _gather(self, parts: list[Any], task: Callable[..., Any], *arguments: Any) -> Any:
        """Results of a task for each part, in the order of the parts."""
        futures = [self.submit(task, part, *arguments) for part in parts]
        return self.client.gather(futures)


def _mean_quantiles(parts: list[tuple[int, FloatArray]]) -> FloatArray:
    """Mean of the quantiles of shuffled parts, weighted by their rows; ignores missing values."""
    n_rows, quantiles = zip(*parts, strict=True)
    values = np.array(quantiles)
    weight = np.where(np.isnan(values), 0.0, np.array(n_rows)[:, None, None])
    with np.errstate(invalid="ignore"):
        return np.asarray((weight * np.nan_to_num(values)).sum(axis=0) / weight.sum(axis=0))


# -- tasks of the workers ----------------------------------------------------------------


def pieces_for_workers(plan: Plan, partition: Any, n_workers: int) -> list[Part]:
    """The rows of a partition, grouped by the worker that their hash assigns them to."""
    pd = require("pandas", extra="dask", for_="DaskBoosted")
    rows = plan.table.transform(read_frame(partition[plan.columns]), warn=False)
    hashes = pd.util.hash_pandas_object(
        partition[plan.hashed_columns], index=False, hash_key=f"{plan.salt:016d}"
    )
    mixed = hashes.to_numpy() * np.uint64(0x9E3779B97F4A7C15) + np.uint64(plan.salt)
    worker = (mixed >> np.uint64(40)) % np.uint64(n_workers)
    weight = None
    if plan.weight is not None:
        weight = partition[plan.weight].to_numpy(dtype=np.float64)
    positive = partition[plan.label].isin(plan.positive).to_numpy(dtype=bool)
    whole = Part(rows, positive, fold_of(mixed, plan.held), weight)
    return [whole.take(np.flatnonzero(worker == k)) for k in range(n_workers)]


def fold_of(hashes: np.ndarray[Any, np.dtype[np.uint64]], held: int | float) -> IntArray:
    """Fold of each row by the low bits of its hash; -1 for rows that are used for training only."""
    unit = (hashes & np.uint64(2**32 - 1)).astype(np.float64) / 2**32
    if isinstance(held, float):
        return np.where(unit < held, 0, -1).astype(np.int64)
    return np.minimum((unit * held).astype(np.int64), held - 1)


@dataclass(frozen=True, slots=True)
class Part:
    """Rows on a worker; ``fold`` is -1 for rows that are used for training only."""

    rows: FloatArray
    positive: BoolArray
    fold: IntArray
    weight: FloatArray | None

    @classmethod
    def join(cls, pieces: list[Part]) -> Part:
        """One part of the pieces from all partitions."""
        weight = None
        if pieces[0].weight is not None:
            weight = _joined(pieces, "weight")
        return cls(
            _joined(pieces, "rows"), _joined(pieces, "positive"), _joined(pieces, "fold"), weight
        )

    def take(self, chosen: Any) -> Part:
        """Some of the rows."""
        weight = at_rows(self.weight, chosen)
        return Part(self.rows[chosen], self.positive[chosen], self.fold[chosen], weight)

    def dtype(self) -> np.dtype[Any]:
        """Type of the rows."""
        return self.rows.dtype

    def totals(self, folds: int) -> tuple[IntArray, FloatArray]:
        """Rows and weights by fold and kind."""
        fold = np.where(self.fold < 0, folds, self.fold)
        cell = 2 * fold + self.positive
        size = 2 * (folds + 1)
        counts = np.bincount(cell, minlength=size).reshape(-1, 2)
        mass = np.bincount(cell, weights=self.weight, minlength=size).reshape(-1, 2)
        return counts.astype(np.int64), mass.astype(np.float64)

    def training(
        self, without: int, mass: tuple[float, float]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rows that are not in a fold, flags of positives, and weights.

        The weights give positive and unlabeled rows equal totals.
        """
        training = self.take(self.fold != without)
        unlabeled_mass, positive_mass = mass
        weight = np.where(training.positive, positive_mass, unlabeled_mass)
        if training.weight is not None:
            weight = weight * training.weight
        return training.rows, training.positive.astype(np.float64), weight

    def positive_scores(
        self, function: BoostedFunction, fold: int, share: float, seed: int
    ) -> tuple[FloatArray, FloatArray]:
        """Scores and weights of held-out positives, or of a share of them."""
        index = np.flatnonzero((self.fold == fold) & self.positive)
        if share < 1:
            index = index[np.random.default_rng(seed).random(len(index)) < share]
        held_out = self.take(index)
        weight = np.ones(len(index)) if held_out.weight is None else held_out.weight
        return held_out._scores(function), weight

    def count(self, function: BoostedFunction, fold: int, empty: ScoreTails) -> ScoreTails:
        """Counts of the unlabeled rows of a fold."""
        held_out = self.take(np.flatnonzero((self.fold == fold) & ~self.positive))
        return empty.empty().update(held_out._scores(function), held_out.weight)

    def _scores(self, function: BoostedFunction) -> FloatArray:
        if len(self.rows) == 0:
            return np.empty(0)
        return function.score(self.rows)

    def quantiles(self, positive: bool) -> tuple[int, FloatArray]:
        """Number of rows of a kind and quantiles of their columns; of many rows from a sample."""
        index = np.flatnonzero(self.positive == positive)
        index = index[:: max(1, len(index) // MOST_SORTED)]
        return len(index), column_quantiles(self.rows[index])

    def ranges(self, cells: list[Cells]) -> IntArray:
        """Unlabeled rows and positives in the cells of the columns."""
        unlabeled = count_columns(cells, self.rows[~self.positive])
        positive = count_columns(cells, self.rows[self.positive])
        return np.stack([unlabeled, positive])


def _joined(pieces: list[Part], name: str) -> Any:
    return np.concatenate([getattr(piece, name) for piece in pieces])


# -- LightGBM ----------------------------------------------------------------------------


class _TreeTraining:
    """One attempt to train trees, in a thread that can be given up when a worker is lost.

    ``places`` has the worker of each block of rows. Blocks are not moved, and their order is that
    of LightGBM's machines, so that equal blocks give equal trees.
    """

    def __init__(
        self, client: Any, places: list[str], settings: dict[str, Any], categories: list[int]
    ) -> None:
        self.client = client
        self.places = places
        self.started = _StartedTasks(client, places)
        self.settings = settings
        self.categories = categories
        self.trees: Any = None
        self.error: BaseException | None = None

    def run(self, rows: Any, flags: Any, weight: Any) -> str | None:
        """Trees in LightGBM's text format, or None if a worker was lost or LightGBM failed."""
        workers = set(self.places)
        thread = threading.Thread(target=self._grow, args=(rows, flags, weight), daemon=True)
        try:
            thread.start()
            while thread.is_alive() and workers <= _worker_addresses(self.client):
                thread.join(WATCH)
        finally:  # also after an interrupt: the tasks must not outlive the turn of this fit
            if self.trees is None:
                self.started.cancel()
                thread.join(STOP)
        if self.trees is None:
            return None
        text: str = self.trees.model_to_string()
        return text

    def _grow(self, rows: Any, flags: Any, weight: Any) -> None:
        client: Any = self.started
        try:
            from lightgbm.dask import DaskLGBMRegressor

            # A regressor, because the classifier requires both labels on each worker.
            class Grower(DaskLGBMRegressor):
                def get_params(self, deep: bool = True) -> dict[str, Any]:
                    parameters = dict(super().get_params(deep))
                    parameters.pop("n_jobs", None)  # LightGBM sets it, and warns of another value
                    return parameters

            grower = Grower(client=client, time_out=2, **self.settings)
            categories = self.categories or "auto"
            with self.client.as_current():
                grower.fit(rows, flags, sample_weight=weight, categorical_feature=categories)
                self.trees = grower.booster_
        except BaseException as error:  # also of a lost worker: its connections break first
            self.error = error


class _StartedTasks:
    """The client that LightGBM uses: its tasks can be cancelled without those of others."""

    def __init__(self, client: Any, places: list[str]) -> None:
        self.client = client
        self.places = places
        self.futures: list[Any] = []
        self.stopped = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def compute(self, blocks: list[Any]) -> list[Any]:
        """Blocks of rows, each on its worker."""
        futures = []
        for block, worker in zip(blocks, self.places, strict=True):
            futures.append(self.client.compute(block, workers=[worker]))
        self._keep(futures)
        return futures

    def submit(self, *args: Any, **options: Any) -> Any:
        future = self.client.submit(*args, priority=PRIORITY, **options)
        self._keep([future])
        return future

    def who_has(self, futures: list[Any]) -> dict[str, Any]:
        """Workers of the futures, in whose order LightGBM numbers its machines."""
        workers = self.client.who_has(futures)
        return {future.key: workers[future.key] for future in futures}

    def cancel(self) -> None:
        """Cancel the tasks started so far, and those that are started later."""
        self.stopped = True
        self.client.cancel(self.futures)

    def _keep(self, futures: list[Any]) -> None:
        self.futures += futures
        if self.stopped:
            self.cancel()
