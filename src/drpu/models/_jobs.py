"""Parallel fits, if they are faster than sequential ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from joblib import Parallel, delayed

__all__ = ["run_jobs"]

PROCESS_START = 5.0  # seconds that processes must save, because starting them takes time
THREAD_ROWS = 2000  # up to this number of rows, threads wait for the interpreter as long as they compute


def run_jobs(
    function: Callable[..., Any], work: Sequence[tuple[Any, ...]], *, jobs: int, threads: bool, rows: int
) -> Iterator[Any]:
    """Results of ``function`` for each tuple of arguments, in their order.

    More jobs are never slower than one. Threads, which share the rows, are used if there are
    enough of them. Processes are started only if the first result, which is computed
    here, took so long that the others are finished earlier with them.

    Parameters
    ----------
    function : callable
        The function to call.
    work : sequence of tuples
        Arguments of each call.
    jobs : int
        Maximum number of calls at the same time.
    threads : bool
        Whether the function may run in threads.
    rows : int
        Number of rows that each call uses.
    """
    jobs = min(jobs, len(work))
    if threads:
        jobs = jobs if rows > THREAD_ROWS else 1
    elif jobs > 1:
        start = time.perf_counter()
        yield function(*work[0])
        work = work[1:]
        rounds_saved = len(work) - -(-len(work) // jobs)
        if (time.perf_counter() - start) * rounds_saved < PROCESS_START:
            jobs = 1
    calls = (delayed(function)(*arguments) for arguments in work)
    yield from Parallel(n_jobs=jobs, backend="threading" if threads else None, return_as="generator")(calls)
