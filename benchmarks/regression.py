"""Whether this checkout is slower than another commit: fit, adapt, predict, load and one row.

    python -m benchmarks.regression BASE [--limit 1.25] [--rounds 7]

Two processes, one with the package of BASE and one with that of this checkout, do each task in turn, on the
same rows. A task costs the least seconds of the processor that it took. Where the ratio of the costs is above
the limit, the task is measured again, in as many rounds. The command fails if a ratio stays above the limit.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TASKS = ("fit", "adapt", "predict", "load", "one row")
ROWS = 5000  # of the batches that are read
SINGLE = 20  # rows that are predicted one after the other


class Package:
    """A process that has imported the package in one folder, and does what it is told."""

    def __init__(self, source: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-P", __file__, "--tasks", str(source)]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, task: str) -> float:
        """What the task cost this time."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(task, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def end(self) -> None:
        """Wait until the process has ended."""
        self.process.communicate()


def main() -> None:
    """Measure, print a table, and fail if a task is slower than the limit allows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("base", metavar="BASE", help="a commit, branch or tag")
    parser.add_argument("--limit", type=float, default=1.25, help="largest ratio of the costs")
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        base = Package(source_of(asked.base, Path(folder)))
        head = Package(ROOT / "src")
        try:
            slower = compare(base, head, asked.rounds, asked.limit)
        finally:
            base.end()
            head.end()
    if slower:
        sys.exit(f"slower than {asked.base} by more than {asked.limit:g} x: {', '.join(slower)}")


def source_of(commit: str, folder: Path) -> Path:
    """The folder ``src`` of a commit, written below ``folder``."""
    archive = subprocess.run(
        ["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


def compare(base: Package, head: Package, rounds: int, limit: float) -> list[str]:
    """The tasks whose ratio is above the limit. Prints a line for each task."""
    print("seconds of the processor: base, this checkout, ratio")
    slower = []
    for task in TASKS:
        seconds = measured(base, head, task, rounds)
        if ratio(seconds) > limit:  # perhaps a process was disturbed
            seconds += measured(base, head, task, rounds)
        if ratio(seconds) > limit:
            slower.append(task)
        of_base, of_head = (min(column) for column in zip(*seconds, strict=True))
        print(f"{task:8s} {of_base:8.4f} {of_head:8.4f} {ratio(seconds):6.2f}", flush=True)
    return slower


def measured(base: Package, head: Package, task: str, rounds: int) -> list[tuple[float, float]]:
    """Seconds of both packages in each round, in turn."""
    return [(base.seconds(task), head.seconds(task)) for _ in range(rounds)]


def ratio(seconds: list[tuple[float, float]]) -> float:
    """The least cost of the checkout, divided by that of the base."""
    of_base, of_head = zip(*seconds, strict=True)
    return float(min(of_head) / min(of_base))


def tasks(folder: Path) -> dict[str, Callable[[], Any]]:
    """What a process can be told to do, with rows that are the same for every version of the package."""
    import numpy as np

    from drpu import DRPUClassifier, load, save

    generator = np.random.default_rng(0)
    positive = generator.random(800 + ROWS) < 0.4
    X = generator.normal(size=(len(positive), 6)) + positive[:, None] * np.array([2.0, 1.0, 0.5, 0, 0, 0])
    y = positive[:800] & (generator.random(800) < 0.5)
    X_train, X_new = X[:800], X[800:]

    classifier = DRPUClassifier(random_state=0).fit(X_train, y)
    path = folder / "classifier.drpu"
    save(classifier, path)
    singles = [X_new[row : row + 1] for row in range(SINGLE)]
    return {
        "fit": lambda: DRPUClassifier(random_state=0).fit(X_train, y),
        "adapt": lambda: classifier.adapt(X_new),
        "predict": lambda: classifier.predict_proba(X_new),
        "load": lambda: load(path),
        "one row": lambda: [classifier.predict(row) for row in singles],
    }


def serve(source: Path) -> None:
    """Do the tasks whose names arrive as lines, and answer with their seconds."""
    import drpu

    assert Path(drpu.__file__).is_relative_to(source), drpu.__file__
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        known = tasks(Path(folder))
        for task in known.values():  # what is imported and prepared once
            task()
        for line in sys.stdin:
            started = time.process_time()
            known[line.strip()]()
            print(time.process_time() - started, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--tasks"]:
        serve(Path(sys.argv[2]))
    else:
        main()
