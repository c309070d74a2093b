"""Fits side by side: the same results in the same order, and processes only where they save time."""

import os

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

from drpu import _lazy
from drpu.models import crossfit
from drpu.models.choices import JOBS
from drpu.models.crossfit import run_jobs, threads_of_one_fit


def whereabouts(number):
    return number, os.getpid()


WORK = [(number,) for number in range(5)]


@pytest.mark.parametrize("jobs", [1, 2, 5, 9])
@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("rows", [10, 10_000])
def test_short_work_stays_in_this_process_and_in_order(jobs, threads, rows):
    found = list(run_jobs(whereabouts, WORK, jobs=jobs, threads=threads, rows=rows))
    assert found == [(number, os.getpid()) for (number,) in WORK]


def test_long_work_is_done_by_other_processes_after_the_first_call(monkeypatch):
    monkeypatch.setattr(_lazy, "cpu_count", lambda: 2)
    monkeypatch.setattr(crossfit, "_saved", lambda *_: JOBS.process_start)  # as if every call took long
    found = list(run_jobs(whereabouts, WORK, jobs=2, threads=False, rows=10))
    assert [number for number, _ in found] == list(range(5))
    places = [place for _, place in found]
    assert places[0] == os.getpid()
    assert os.getpid() not in places[1:]


def test_one_piece_of_work_starts_nothing():
    assert list(run_jobs(whereabouts, WORK[:1], jobs=4, threads=False, rows=10)) == [(0, os.getpid())]


@pytest.mark.parametrize(
    ("busy", "jobs", "saved"),
    [
        (10.0, 2, 20.0),  # one processor each: four calls take as long as two
        (10.0, 3, 20.0),  # four calls of three jobs still take two rounds
        (20.0, 2, 20.0),  # half of the processors each
        (40.0, 2, 0.0),  # a call uses all processors already
        (1.0, 4, 30.0),  # it mostly waits
    ],
)
def test_processes_save_less_if_a_call_uses_several_processors(monkeypatch, busy, jobs, saved):
    monkeypatch.setattr(_lazy, "cpu_count", lambda: 4)
    assert crossfit._saved(10.0, busy, 4, jobs) == saved


def test_a_single_fit_has_threads_if_it_has_many_values(monkeypatch):
    monkeypatch.setattr(_lazy, "cpu_count", lambda: 4)
    enough = np.zeros((JOBS.thread_values // 10, 10))
    assert [threads_of_one_fit(jobs, [enough]) for jobs in (1, 2, 9)] == [1, 2, 4]
    assert threads_of_one_fit(2, [enough[1:], enough[:1]]) == 2
    assert threads_of_one_fit(2, [enough[1:]]) == 1
    assert threads_of_one_fit(2, [sparse.csr_array(enough)]) == 1  # no value is stored


def matrix_threads(*_):
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_folds_in_threads_use_one_thread_for_products_of_matrices(jobs):
    with threadpool_limits(3, user_api="blas"):
        before = matrix_threads()
        calls = [run_jobs(matrix_threads, WORK, jobs=jobs, threads=True, rows=10_000) for _ in range(2)]
        found = [next(call) for call in calls]  # both run now
        assert [*found, *calls[0], *calls[1]] == [{1}] * 10  # the first to end does not restore the number
        assert matrix_threads() == before
        assert list(run_jobs(matrix_threads, WORK[:1], jobs=2, threads=True, rows=10_000)) == [before]
