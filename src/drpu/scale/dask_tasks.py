"""Tasks for the workers of a Dask cluster while trees are trained there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from drpu._optional import require
from drpu._typing import FloatArray, IntArray
from drpu.models.boosted import BoostedFunction
from drpu.models.clusters import MOST_LABELS, Counts, Part, Plan
from drpu.priors.tails import ScoreTails
from drpu.tables.cells import Cells, column_quantiles, count_columns
from drpu.tables.frames import read_frame
from drpu.tables.summaries import TableSummary

FAN = 16  # results added in one task
MOST_SORTED = 50_000  # rows of a part that are sorted for quantiles

Survey = tuple[Counts, TableSummary]


def pieces(plan: Plan, part: Any, places: int) -> list[Part]:
    """The rows of a partition, grouped by the worker that their hash assigns them to."""
    import pandas as pd

    rows = plan.table.transform(read_frame(part[plan.columns]), warn=False)
    named = part[plan.columns if plan.key is None else [plan.key]]
    hashed = pd.util.hash_pandas_object(named, index=False, hash_key=f"{plan.salt:016d}").to_numpy()
    mixed = hashed * np.uint64(0x9E3779B97F4A7C15) + np.uint64(plan.salt)
    place = (mixed >> np.uint64(40)) % np.uint64(places)
    weight = None if plan.weight is None else part[plan.weight].to_numpy(dtype=np.float64)
    positive = part[plan.label].isin(plan.positive).to_numpy(dtype=bool)
    whole = Part(rows, positive, fold_of(mixed, plan.held), weight)
    return [whole.take(np.flatnonzero(place == k)) for k in range(places)]


def fold_of(hashed: np.ndarray[Any, np.dtype[np.uint64]], held: int | float) -> IntArray:
    """Fold of each row by the low bits of its hash; -1 for rows that are used for training only."""
    unit = (hashed & np.uint64(2**32 - 1)).astype(np.float64) / 2**32
    if isinstance(held, float):
        return np.where(unit < held, 0, -1).astype(np.int64)
    return np.minimum((unit * held).astype(np.int64), held - 1)


def survey(part: Any, place: int, columns: list[str], label: str) -> Survey:
    """Labels of a partition, and summaries of its columns whose kind depends on their values."""
    found = part[label].value_counts(dropna=False).head(MOST_LABELS + 1)
    table = TableSummary.of(read_frame(part[columns]), (place, 0))
    return list(zip(found.index.tolist(), found.tolist(), strict=True)), table


def add_surveys(parts: list[Survey]) -> Survey:
    """The sum of surveys."""
    labels = [pair for own, _ in parts for pair in own]
    return labels, sum((table for _, table in parts[1:]), parts[0][1])


def join(pieces: list[Part]) -> Part:
    """One part of the pieces from all partitions."""
    weights = [piece.weight for piece in pieces if piece.weight is not None]
    return Part(
        np.concatenate([piece.rows for piece in pieces]),
        np.concatenate([piece.positive for piece in pieces]),
        np.concatenate([piece.fold for piece in pieces]),
        np.concatenate(weights) if weights else None,
    )


def totals(part: Part, folds: int) -> tuple[IntArray, FloatArray]:
    """Rows and weights by fold and kind."""
    fold = np.where(part.fold < 0, folds, part.fold)
    cell = 2 * fold + part.positive
    size = 2 * (folds + 1)
    counts = np.bincount(cell, minlength=size).reshape(-1, 2)
    mass = np.bincount(cell, weights=part.weight, minlength=size).reshape(-1, 2)
    return counts.astype(np.int64), mass.astype(np.float64)


def train_rows(part: Part, without: int, mass: tuple[float, float]) -> FloatArray:
    """Training rows of a fold."""
    return np.asarray(part.rows[part.fold != without])


def train_flags(part: Part, without: int, mass: tuple[float, float]) -> FloatArray:
    """1 for the positives among them."""
    return np.asarray(part.positive[part.fold != without], dtype=np.float64)


def train_weights(part: Part, without: int, mass: tuple[float, float]) -> FloatArray:
    """Their weights, scaled so that positive and unlabeled rows have equal totals."""
    seen = part.take(part.fold != without)
    weight = np.where(seen.positive, mass[1], mass[0])
    return weight if seen.weight is None else weight * seen.weight


def positive_scores(
    part: Part, function: BoostedFunction, fold: int, share: float, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Scores and weights of held-out positives, or of a share of them."""
    chosen = np.flatnonzero((part.fold == fold) & part.positive)
    if share < 1:
        chosen = chosen[np.random.default_rng(seed).random(len(chosen)) < share]
    weight = np.ones(len(chosen)) if part.weight is None else part.weight[chosen]
    return (function.score(part.rows[chosen]) if len(chosen) else np.empty(0)), weight


def count(part: Part, function: BoostedFunction, fold: int, empty: ScoreTails) -> ScoreTails:
    """Counts of the unlabeled rows of a fold."""
    chosen = np.flatnonzero((part.fold == fold) & ~part.positive)
    scores = function.score(part.rows[chosen]) if len(chosen) else np.empty(0)
    return empty.empty().update(scores, None if part.weight is None else part.weight[chosen])


def quantiles(part: Part) -> list[tuple[int, FloatArray]]:
    """Number of rows and quantiles of the columns, unlabeled and positive; of many rows from a sample."""
    found = []
    for kind in (False, True):
        chosen = np.flatnonzero(part.positive == kind)
        chosen = chosen[:: max(1, len(chosen) // MOST_SORTED)]
        found.append((len(chosen), column_quantiles(part.rows[chosen])))
    return found


def ranges(part: Part, cells: list[Cells]) -> tuple[IntArray, IntArray]:
    """Unlabeled rows and positives in the cells of the columns."""
    return count_columns(cells, part.rows[~part.positive]), count_columns(
        cells, part.rows[part.positive]
    )


def add(parts: list[ScoreTails]) -> ScoreTails:
    """The sum of counts."""
    return sum(parts[1:], parts[0])


def in_tree(parts: list[Any], add: Callable[[list[Any]], Any]) -> Any:
    """The task that adds up all parts; each task adds a few, so that no worker holds all of them."""
    while len(parts) > 1:
        parts = [add(parts[i : i + FAN]) for i in range(0, len(parts), FAN)]
    return parts[0]


LOCK = "drpu-lightgbm"  # concurrent fits would wait for each other's sockets forever
WATCH = 0.5  # seconds between two checks of the workers during training
STOP = 10  # seconds in which LightGBM's interface ends after its tasks were cancelled
PRIORITY = (
    10  # before the other tasks of a worker: LightGBM waits two minutes for all workers to start
)


@contextmanager
def one_at_a_time(client: Any) -> Iterator[None]:
    """Wait until no other fit, of any client, runs on the cluster; the turn of a lost client expires."""
    distributed = require("distributed", extra="dask", for_="DaskBoosted")
    turn = distributed.Semaphore(
        max_leases=1, name=LOCK, scheduler_rpc=client.scheduler, loop=client.loop
    )
    try:
        with turn:
            yield
    finally:
        turn.refresh_leases = False  # a turn that is granted after an interrupted wait expires


def worker_addresses(client: Any) -> set[str]:
    """Addresses of the workers that the scheduler knows now."""
    return set(client.nthreads())  # scheduler_info may return an older state, without workers


class TreeTraining:
    """One attempt to train trees, in a thread that can be given up when a worker is lost.

    ``places`` has the worker of each block of rows. Blocks are not moved, and their order is that of
    LightGBM's machines, so that equal blocks give equal trees.
    """

    def __init__(
        self, client: Any, places: list[str], settings: dict[str, Any], categories: list[int]
    ) -> None:
        self.client, self.started = client, _StartedTasks(client, places)
        self.settings, self.categories = settings, categories
        self.outcome: dict[str, Any] = {}

    def run(self, rows: Any, flags: Any, weight: Any) -> str | None:
        """Trees in LightGBM's text format, or None if a worker was lost or LightGBM failed."""
        before, lost = set(self.started.places), False
        thread = threading.Thread(target=self._grow, args=(rows, flags, weight), daemon=True)
        try:
            thread.start()
            while thread.is_alive() and not lost:
                thread.join(WATCH)
                lost = not before <= worker_addresses(self.client)
        finally:  # also after an interrupt: the tasks must not outlive the turn of this fit
            if "trees" not in self.outcome:
                self.started.cancel()
                thread.join(STOP)
        if "trees" in self.outcome:
            text: str = self.outcome["trees"].model_to_string()
            return text
        return None

    def _grow(self, rows: Any, flags: Any, weight: Any) -> None:
        client: Any = self.started
        try:
            from lightgbm.dask import DaskLGBMRegressor

            # A regressor, because the classifier requires both labels on each worker.
            class Grower(DaskLGBMRegressor):
                def get_params(self, deep: bool = True) -> dict[str, Any]:
                    found = super().get_params(deep)
                    found.pop("n_jobs", None)  # LightGBM sets it itself, and warns if it is there
                    return dict(found)

            grower = Grower(client=client, time_out=2, **self.settings)
            with self.client.as_current():
                grower.fit(
                    rows, flags, sample_weight=weight, categorical_feature=self.categories or "auto"
                )
                self.outcome["trees"] = grower.booster_
        except BaseException as error:  # also of a lost worker: its connections break first
            self.outcome["error"] = error


class _StartedTasks:
    """The client that LightGBM uses: its tasks can be cancelled without those of others."""

    def __init__(self, client: Any, places: list[str]) -> None:
        self.client, self.places = client, places
        self.futures: list[Any] = []
        self.stopped = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def compute(self, blocks: list[Any]) -> list[Any]:
        """Blocks of rows, each on its worker."""
        placed = zip(blocks, self.places, strict=True)
        return self._keep(
            [self.client.compute(block, workers=[worker]) for block, worker in placed]
        )

    def submit(self, *args: Any, **options: Any) -> Any:
        return self._keep([self.client.submit(*args, priority=PRIORITY, **options)])[0]

    def who_has(self, futures: list[Any]) -> dict[str, Any]:
        """Workers of the futures, in the order of the futures, in which LightGBM numbers its machines."""
        found = self.client.who_has(futures)
        return {future.key: found[future.key] for future in futures}

    def cancel(self) -> None:
        """Cancel the tasks started so far, and those that are started later."""
        self.stopped = True
        self.client.cancel(self.futures)

    def _keep(self, futures: list[Any]) -> list[Any]:
        self.futures += futures
        if self.stopped:
            self.cancel()
        return futures
