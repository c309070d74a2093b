"""Holdout rows, which are used to choose among fits and not for training."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed

from drpu._progress import Step
from drpu._samples import SamplePair
from drpu._typing import IntArray
from drpu.exceptions import ParameterError

MIN_HELD = 5  # with fewer rows of either kind a holdout risk is mostly noise


@dataclass(frozen=True, slots=True)
class TrainAndHeld:
    """Training rows and, if there are enough rows, holdout rows."""

    train: SamplePair
    held: SamplePair | None


def hold_out(
    pair: SamplePair,
    holdout: SamplePair | None,
    fraction: float,
    rng: np.random.Generator,
    *,
    most: int | None = None,
) -> TrainAndHeld:
    """The pair and the given holdout rows, or ``fraction`` of the pair as holdout rows.

    ``most`` limits the rows of either sample that are held out. If the fraction has fewer
    than :data:`MIN_HELD` rows of either kind, nothing is held out and ``held`` is None.
    """
    if holdout is not None:
        return TrainAndHeld(pair, holdout)
    if pair.positive.groups is not None or pair.unlabeled.groups is not None:  # a group is on one side
        splits = draw_splits(pair, fraction, np.random.RandomState(rng.integers(2**31)))
    else:
        positive = _shuffled(len(pair.positive), fraction, rng, most)
        splits = [(positive, _shuffled(len(pair.unlabeled), fraction, rng, most))]
    if not splits or min(held.size for _, held in splits[0]) < MIN_HELD:
        return TrainAndHeld(pair, None)
    (rest_p, held_p), (rest_u, held_u) = splits[0]
    if min(rest_p.size, rest_u.size) == 0:
        raise ParameterError(f"holdout must leave rows to train on, got {fraction!r}: lower it.")
    train, held = pair.take(rest_p, rest_u), pair.take(held_p, held_u)
    if min(train.smallest_total, held.smallest_total) <= 0:
        return TrainAndHeld(pair, None)
    return TrainAndHeld(train, held)


def _shuffled(n: int, fraction: float, rng: np.random.Generator, most: int | None) -> Positions:
    order = rng.permutation(n)
    kept = round(fraction * n) if most is None else min(round(fraction * n), most)
    return np.sort(order[kept:]), np.sort(order[:kept])


Positions = tuple[IntArray, IntArray]  # positions to train on, positions held out


def draw_splits(
    pair: SamplePair, holdout: int | float, rng: np.random.RandomState
) -> list[tuple[Positions, Positions]]:
    """Splits of both samples: ``holdout`` folds, or one split that holds out that fraction.

    Rows of one group, in either sample, are on the same side. If there are
    too few groups, there are fewer folds, and none if two are not possible.
    """
    if pair.positive.groups is None and pair.unlabeled.groups is None:
        sizes = len(pair.positive), len(pair.unlabeled)
        return list(zip(*(_row_splits(n, holdout, rng) for n in sizes), strict=True))
    most = int(holdout) if holdout >= 1 else 1
    for folds in range(most, 0 if holdout < 1 else 1, -1):
        splits = list(_group_splits(pair, folds if holdout >= 1 else holdout, rng))
        if splits and all(part.size for split in splits for half in split for part in half):
            return splits
    return []


def count_held(n: int, share: float) -> int:
    """Number of rows that one split holds out; at least one row is on either side."""
    return min(max(1, round(n * share)), n - 1)


def _row_splits(n: int, holdout: int | float, rng: np.random.RandomState) -> Iterator[Positions]:
    order = rng.permutation(n)
    parts = [order[: count_held(n, holdout)]] if holdout < 1 else np.array_split(order, int(holdout))
    for kept in parts:
        seen = np.ones(n, dtype=bool)
        seen[kept] = False
        yield np.flatnonzero(seen), np.sort(kept)


def _group_splits(
    pair: SamplePair, holdout: int | float, rng: np.random.RandomState
) -> Iterator[tuple[Positions, Positions]]:
    codes, n_groups = _codes(pair)
    of_positive = np.bincount(codes[0], minlength=n_groups)
    of_unlabeled = np.bincount(codes[1], minlength=n_groups)
    fold = np.empty(n_groups, dtype=np.int64)
    with_positives = of_positive > 0
    # groups with positives are balanced by their positives, the others by their rows
    for chosen, sizes in ((with_positives, of_positive), (~with_positives, of_unlabeled)):
        own, order = sizes[chosen], rng.permutation(int(chosen.sum()))
        middle = (np.cumsum(own[order]) - own[order] / 2) / max(own.sum(), 1)
        # with a fraction, 0 is held out and 1 is not
        dealt = np.floor(middle * holdout) if holdout >= 1 else middle >= holdout
        fold[np.flatnonzero(chosen)[order]] = dealt
    held = [fold[code] for code in codes]
    for k in range(int(holdout)) if holdout >= 1 else [0]:
        positive, unlabeled = ((np.flatnonzero(part != k), np.flatnonzero(part == k)) for part in held)
        yield positive, unlabeled


def _codes(pair: SamplePair) -> tuple[list[IntArray], int]:
    """Group numbers of the rows of both samples; a row without a group gets its own number."""
    known = [s.groups for s in (pair.positive, pair.unlabeled) if s.groups is not None]
    names, inverse = np.unique(np.concatenate(known), return_inverse=True)
    start, used, codes = len(names), 0, []
    for sample in (pair.positive, pair.unlabeled):
        if sample.groups is None:
            codes.append(np.arange(start, start + len(sample)))
            start += len(sample)
        else:
            codes.append(inverse[used : used + len(sample)])
            used += len(sample)
    return codes, start


PROCESS_START = 5.0  # seconds that processes must save, because starting them takes time
THREAD_ROWS = 2000  # up to this number of rows, threads wait for the interpreter as long as they compute
THREAD_VALUES = 2_000_000  # of the rows of one fit; with fewer, its threads wait for each other too often


def run_jobs(
    function: Callable[..., Any], work: Sequence[tuple[Any, ...]], *, jobs: int, threads: bool, rows: int
) -> Iterator[Any]:
    """Results of ``function`` for each tuple of arguments, in their order.

    More jobs are used only if they are expected to save time. Threads, which share the rows, are used if
    there are enough of them. Processes are started only if the first result, which is computed
    here, took so long that the others are finished earlier with them.
    """
    jobs = min(jobs, len(work), cpu_count())
    steps = iter(Step.parts(len(work)))
    if threads:
        jobs = jobs if rows > THREAD_ROWS else 1
    elif jobs > 1:
        start = time.perf_counter(), time.process_time()
        yield next(steps).run(function, *work[0])
        wall, busy = time.perf_counter() - start[0], time.process_time() - start[1]
        work = work[1:]
        if _saved(wall, busy, len(work), jobs) < PROCESS_START:
            jobs = 1
    pairs = list(zip(steps, work, strict=True))
    # Threads get the context of this one, so that its listener hears their warnings.
    calls = (
        delayed(copy_context().run)(step.run, function, *given)
        if threads
        else delayed(function if jobs > 1 else partial(step.run, function))(*given)
        for step, given in pairs
    )
    backend = "threading" if threads else None
    with _one_matrix_thread() if threads and len(work) > 1 else nullcontext():
        results = Parallel(n_jobs=jobs, backend=backend, return_as="generator")(calls)
        for (step, _), result in zip(pairs, results, strict=True):
            step.advance(1)  # where the call ran in another process
            yield result


_LIMITS: list[Any] = []  # one for each call that runs now; all of them are the same
_LIMITS_LOCK = threading.Lock()


@contextmanager
def _one_matrix_thread() -> Iterator[None]:
    """Products of matrices use one thread.

    Their own threads would compete with those of the jobs, and they slow down even a single job whose
    matrices are small. The last bits of a product depend on its threads, so any number of jobs has
    the same results. The limit is one of the whole process: the last of the calls that overlap restores it.
    """
    from threadpoolctl import threadpool_limits

    with _LIMITS_LOCK:
        _LIMITS.append(_LIMITS[0] if _LIMITS else threadpool_limits(1, user_api="blas"))
    try:
        yield
    finally:
        with _LIMITS_LOCK:
            limit = _LIMITS.pop()
            if not _LIMITS:
                limit.restore_original_limits()


def _saved(wall: float, busy: float, calls: int, jobs: int) -> float:
    """Seconds that processes save if a call takes ``wall`` seconds and ``busy`` of all processors together.

    A call that uses several processors already is slower beside others, as in products of large matrices.
    """
    beside_others: float = max(wall, busy * jobs / cpu_count())
    return calls * wall - math.ceil(calls / jobs) * beside_others


def threads_of_one_fit(jobs: int, samples: Sequence[Any]) -> int:
    """Number of threads inside a single fit: one if there are few values."""
    values = sum(getattr(rows, "nnz", math.prod(rows.shape)) for rows in samples)
    return min(jobs, cpu_count()) if values >= THREAD_VALUES else 1
