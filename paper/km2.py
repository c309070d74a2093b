"""Priors by KM2, for the methods that need a prior. KM2 is slow, so its results have their own files."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from drpu import KernelMeanPrior
from drpu.exceptions import DRPUWarning
from paper.configs import TEST_PRIORS, Benchmark, benchmark
from paper.progress import progress
from paper.splits import Images, Split, is_reduced, load_images, split
from paper.store import RESULTS, Key, read_result, write_result

__all__ = ["ROWS", "km2_priors", "run_km2"]

ROWS = 2000  # rows of each sample, on 50 principal components, as in the paper


def km2_priors(data: Benchmark, trial: int, folder: Path) -> tuple[float, dict[float, float]] | None:
    """Training prior and test priors of a trial, from the folder or from our results; None if missing."""
    found = read_result(_key(data, trial), folder) or read_result(_key(data, trial), RESULTS)
    if found is None:
        return None
    return found["estimated_train_prior"], {t["test_prior"]: t["estimated_prior"] for t in found["tests"]}


def run_km2(
    datasets: Sequence[str],
    trials: Sequence[int],
    folder: str | None,
    out: Path,
    jobs: int,
    *,
    labels: str = "shirt",
) -> None:
    """Estimate the priors that are missing, with ``jobs`` processes."""
    todo = []
    for dataset in datasets:
        data = benchmark(dataset, labels=labels, reduced=is_reduced(dataset, folder))
        left = [trial for trial in trials if km2_priors(data, trial, out) is None]
        if left:
            images = load_images(data, folder)
            todo += [_case(data, images, split(data, images, trial), trial) for trial in left]
    if not todo:
        return
    with ProcessPoolExecutor(jobs) as pool:
        pending = [pool.submit(_estimate, case) for case in todo]
        for job in progress(pending, [1] * len(pending), "KM2"):
            key, content = job.result()
            write_result(key, content, out)


def _key(data: Benchmark, trial: int) -> Key:
    return Key("km2", data.name, "as-run", "km2", trial, data.labels, protocol=data.protocol)


def _case(data: Benchmark, images: Images, part: Split, trial: int) -> dict[str, Any]:
    """The rows of one trial, reduced so that they can be sent to another process."""
    rng = np.random.default_rng([trial, 2])

    def some(rows: Any, from_: Any) -> Any:
        chosen = rows if len(rows) <= ROWS else rng.choice(rows, ROWS, replace=False)
        return from_[chosen].reshape(len(chosen), -1)

    return {
        "key": _key(data, trial),
        "prior": data.prior,
        "positive": some(part.positive[0], images.train),
        "train": some(part.unlabeled[0], images.train),
        "tests": {prior: some(part.tests[prior], images.test) for prior in TEST_PRIORS},
    }


def _estimate(case: dict[str, Any]) -> tuple[Key, dict[str, Any]]:
    start = time.perf_counter()
    positive = case["positive"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)
        train = KernelMeanPrior("km2").estimate(positive, case["train"]).value
        tests = [
            {"test_prior": p, "estimated_prior": KernelMeanPrior("km2").estimate(positive, rows).value}
            for p, rows in case["tests"].items()
        ]
    seconds = round(time.perf_counter() - start, 2)
    key: Key = case["key"]
    return key, {
        "seconds": seconds,
        "train_prior": case["prior"],
        "estimated_train_prior": train,
        "tests": tests,
        "seed": key.trial,
        "settings": {"rows": ROWS, "components": 50},
    }
