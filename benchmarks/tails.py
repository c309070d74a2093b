"""Time and memory of estimating priors from ten million scores.

    python -m benchmarks.tails [--scores 10000000]

ScoreTails and an estimate are compared with ``sklearn.metrics.roc_curve`` on the same arrays,
alternating in one run. Also measured: the peak memory of counting a stream in chunks, and the
time of ``import drpu`` after ``import numpy``.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import roc_curve

from benchmarks._results import command_line, write_results
from drpu.exceptions import DRPUWarning
from drpu.priors.tails import ScoreTails

N_POSITIVE = 2500
CHUNK = 100_000
REPEATS = 3


def scores(n: int, dtype: type) -> tuple[Any, Any]:
    """Held-out positive scores, and unlabeled scores with a prior of 0.3."""
    rng = np.random.default_rng(0)
    unlabeled = rng.standard_normal(n, dtype=np.float32) + 3 * (rng.random(n, dtype=np.float32) < 0.3)
    return rng.normal(3, 1, N_POSITIVE).astype(dtype), unlabeled.astype(dtype)


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall-clock and processor seconds; other processes affect only the first."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def speed(n: int, dtype: type) -> dict[str, Any]:
    positive, unlabeled = scores(n, dtype)
    both = np.concatenate([positive, unlabeled])
    label = np.concatenate([np.ones(len(positive), dtype=np.int8), np.zeros(n, dtype=np.int8)])

    def tails() -> Any:
        return ScoreTails(positive).update(unlabeled).estimate()

    def roc() -> Any:
        return roc_curve(label, both)

    runs = [(timed(tails), timed(roc)) for _ in range(REPEATS)]
    ours, theirs = (np.median([run[side] for run in runs], axis=0).tolist() for side in (0, 1))
    return {
        "scores": n,
        "dtype": np.dtype(dtype).name,
        "n_positive": N_POSITIVE,
        "prior": tails().value,
        "tails_seconds": ours[0],
        "roc_curve_seconds": theirs[0],
        "faster": theirs[0] / ours[0],
        "tails_cpu_seconds": ours[1],
        "roc_curve_cpu_seconds": theirs[1],
        "faster_cpu": theirs[1] / ours[1],
    }


def streamed_peak(n: int) -> dict[str, Any]:
    """Peak memory while chunks are made, counted and released."""
    rng = np.random.default_rng(0)
    tracemalloc.start()
    tails = ScoreTails(rng.normal(3, 1, N_POSITIVE))
    for _ in range(n // CHUNK):
        tails.update(rng.normal(0, 1, CHUNK))
    tails.estimate()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"scores": n, "chunk": CHUNK, "peak_megabytes": peak / 1e6}


def imports(repeats: int = 15) -> dict[str, float]:
    """Median import times of numpy and then drpu in a new interpreter."""
    code = (
        "import time; a = time.perf_counter(); import numpy; b = time.perf_counter(); import drpu; "
        "c = time.perf_counter(); from drpu import ScoreTails; d = time.perf_counter(); print(b-a, c-b, d-c)"
    )
    runs = [
        [float(word) for word in subprocess.check_output([sys.executable, "-c", code], text=True).split()]
        for _ in range(repeats)
    ]
    numpy_seconds, drpu_seconds, tails_seconds = (
        statistics.median(column) for column in zip(*runs, strict=True)
    )
    return {
        "numpy_seconds": numpy_seconds,
        "drpu_seconds": drpu_seconds,
        "score_tails_seconds": tails_seconds,
        "drpu_over_numpy": (numpy_seconds + drpu_seconds) / numpy_seconds,
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--scores", type=int, default=10_000_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore", DRPUWarning)
    load = os.getloadavg()[0]
    content: dict[str, Any] = {"imports": imports(), "cpus": os.cpu_count(), "load": load}
    print(content["imports"], flush=True)
    content["memory"] = [streamed_peak(options.scores // 10), streamed_peak(options.scores)]
    print(content["memory"], flush=True)
    content["speed"] = []
    for dtype in (np.float64, np.float32):
        content["speed"].append(speed(options.scores, dtype))
        print(content["speed"][-1], flush=True)
    print("wrote", write_results("tails", f"python -m benchmarks.tails --scores {options.scores}", **content))


if __name__ == "__main__":
    main()
