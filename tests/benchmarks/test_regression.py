"""The comparison of speed with another commit: what counts, and when it fails."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.regression import TASKS, compare, ratio, source_of, tasks

ROOT = Path(__file__).parents[2]


class Recorded:
    """Answers with seconds that were given, in a circle."""

    def __init__(self, *seconds):
        self.given = list(seconds)
        self.asked = []

    def seconds(self, task):
        self.asked.append(task)
        return self.given[len(self.asked) % len(self.given) - 1]


def test_a_task_costs_the_least_that_it_took():
    assert ratio([(2.0, 9.0), (4.0, 3.0)]) == 1.5


def test_a_slower_task_is_measured_twice_and_named(capsys):
    base, head = Recorded(1.0), Recorded(1.3)
    assert compare(base, head, rounds=3, limit=1.25) == list(TASKS)
    assert len(head.asked) == len(base.asked) == 2 * 3 * len(TASKS)
    assert compare(Recorded(1.0), Recorded(1.2), rounds=3, limit=1.25) == []
    assert "1.20" in capsys.readouterr().out


def test_one_disturbed_round_does_not_matter():
    assert compare(Recorded(1.0, 1.0, 1.0), Recorded(5.0, 1.0, 7.0), rounds=3, limit=1.25) == []


def test_every_task_runs(tmp_path):
    known = tasks(tmp_path)
    assert tuple(known) == TASKS
    for task in known.values():
        assert task() is not None


@pytest.mark.checkout
def test_the_source_of_a_commit_is_its_own(tmp_path):
    inside = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if inside.returncode != 0:
        pytest.skip("not a checkout")
    source = source_of("HEAD", tmp_path)
    code = "import drpu; print(drpu.__file__)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).is_relative_to(source)
