"""Fits side by side: the same results in the same order, and processes only where they save time."""

from __future__ import annotations

import os

import pytest

from drpu.models import _jobs
from drpu.models._jobs import run_jobs


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
    monkeypatch.setattr(_jobs, "PROCESS_START", 0.0)  # as if every call took long
    found = list(run_jobs(whereabouts, WORK, jobs=2, threads=False, rows=10))
    assert [number for number, _ in found] == list(range(5))
    places = [place for _, place in found]
    assert places[0] == os.getpid()
    assert os.getpid() not in places[1:]


def test_one_piece_of_work_starts_nothing():
    assert list(run_jobs(whereabouts, WORK[:1], jobs=4, threads=False, rows=10)) == [(0, os.getpid())]
