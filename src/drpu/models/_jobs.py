"""Parallel fits, if they are faster than sequential ones."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from joblib import Parallel, cpu_count, delayed

__all__ = ["run_jobs", "threads_of_one_fit"]

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

    Parameters
    ----------
    function : callable
        The function to call.
    work : sequence of tuples
        Arguments of each call.
    jobs : int
        Maximum number of calls at the same time; there are not more than processors.
    threads : bool
        Whether the function may run in threads.
    rows : int
        Number of rows that each call uses.
    """
    jobs = min(jobs, len(work), cpu_count())
    if threads:
        jobs = jobs if rows > THREAD_ROWS else 1
    elif jobs > 1:
        start = time.perf_counter(), time.process_time()
        yield function(*work[0])
        wall, busy = time.perf_counter() - start[0], time.process_time() - start[1]
        work = work[1:]
        if _saved(wall, busy, len(work), jobs) < PROCESS_START:
            jobs = 1
    calls = (delayed(function)(*arguments) for arguments in work)
    backend = "threading" if threads else None
    with _one_matrix_thread() if threads and len(work) > 1 else nullcontext():
        yield from Parallel(n_jobs=jobs, backend=backend, return_as="generator")(calls)


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
