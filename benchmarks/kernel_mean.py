"""KM2 compared with solving all of its quadratic programs: equal results, and the speed-up.

    python -m benchmarks.kernel_mean [speed] [agreement] [accuracy]

The baseline is the published procedure with a dense interior-point method: two
programs for each of eight halvings of [1, 8] and one for the slope at the start. On
small samples it is run completely, and the results are compared. At 2000 + 2000 rows a full
run takes too long: one program is solved at each of two lambdas, the middle of the longest
bracket and the start, and their mean time is multiplied by the number of programs. The time
of the baseline does not include the kernel; that of KernelMeanPrior does.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

from benchmarks._results import read_results, write_results
from drpu._typing import FloatArray
from drpu.exceptions import DRPUWarning
from drpu.priors.kernel_mean import KernelMeanPrior

PROGRAMS = 17

Records = list[dict[str, Any]]


def sample(dims: int, n: int, prior: float, seed: int, apart: float = 2.5) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    shift = apart / np.sqrt(dims)
    unlabeled = rng.normal(0, 1, (n, dims)) + shift * (rng.random(n) < prior)[:, None]
    return rng.normal(shift, 1, (n, dims)), unlabeled


def best_kernel(positive: FloatArray, unlabeled: FloatArray) -> tuple[FloatArray, float]:
    X = np.vstack([unlabeled, positive])
    squares = cdist(X, X, "sqeuclidean")
    contrast = np.repeat([1 / len(unlabeled), -1 / len(positive)], [len(unlabeled), len(positive)])
    widths = np.median(np.sqrt(squares)) * np.logspace(-1, 1, 5)
    kernels = (np.exp(-squares / (2 * width**2)) for width in widths)
    scale, kernel = max(((contrast @ K @ contrast, K) for K in kernels), key=lambda pair: pair[0])
    return kernel, float(np.sqrt(scale))


def program(K: FloatArray, u: FloatArray, *, tolerance: float = 1e-7) -> float:
    """Distance of u from the simplex by a textbook primal-dual interior-point method."""
    n, q = len(u), K @ u
    v, z, m = np.full(n, 1 / n), np.full(n, 1.0), 0.0
    for _ in range(100):
        dual, primal = K @ v - q - z - m, 1 - v.sum()
        if v @ z < tolerance and np.abs(dual).max() < tolerance and abs(primal) < tolerance:
            break
        A = K.copy()
        A[np.diag_indices(n)] += z / v
        factor = cho_factor(A, overwrite_a=True, check_finite=False)
        ones = cho_solve(factor, np.ones(n))
        target, correction = 0.0, np.zeros(n)
        for corrector in (False, True):
            h = cho_solve(factor, -dual - z + (target - correction) / v)
            dm = (primal - h.sum()) / ones.sum()
            dv = h + dm * ones
            dz = (target - correction - z * dv) / v - z
            longest = min(
                np.min(-v[dv < 0] / dv[dv < 0], initial=2.0), np.min(-z[dz < 0] / dz[dz < 0], initial=2.0)
            )
            if not corrector:
                a = min(1.0, longest)
                gap = v @ z / n
                target = gap * ((v + a * dv) @ (z + a * dz) / n / gap) ** 3
                correction = dv * dz
        a = min(1.0, 0.99 * longest)
        v, z, m = v + a * dv, z + a * dz, m + a * dm
    return float(np.sqrt(max((u - v) @ K @ (u - v), 0)))


def published(positive: FloatArray, unlabeled: FloatArray) -> float:
    K, scale = best_kernel(positive, unlabeled)
    n, m = len(unlabeled), len(positive)

    def distance(lam: float) -> float:
        # Where the slope is nearly constant, a tolerance of 1e-7 changes the result by several steps.
        return program(K, np.repeat([lam / n, (1 - lam) / m], [n, m]), tolerance=1e-11)

    stop = 0.8 * distance(1.05) / 0.05 + 0.2 * scale
    left, right = 1.0, 8.0
    while right - left > 0.04:
        middle = (left + right) / 2
        slope = (distance(middle + 0.02) - distance(middle)) / 0.02
        left, right = (left, middle) if slope > stop else (middle, right)
    lam = (left + right) / 2
    return (lam - 1) / lam


def timed(function: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    value = function(*args)
    return value, time.perf_counter() - start


def agreement(n: int = 100) -> Records:
    rows = []
    for dims in (2, 10, 50):
        for prior in (0.2, 0.5, 0.8):
            positive, unlabeled = sample(dims, n, prior, seed=1)
            ours, seconds = timed(KernelMeanPrior("km2").estimate, positive, unlabeled)
            theirs, baseline = timed(published, positive, unlabeled)
            steps = abs(1 / (1 - ours.value) - 1 / (1 - theirs)) / (7 / 256)
            row = {"dims": dims, "rows": 2 * n, "prior": prior, "km2": ours.value, "programs": theirs}
            rows.append(row | {"steps_apart": steps, "seconds": seconds, "baseline_seconds": baseline})
            print(rows[-1], flush=True)
    return rows


def speed(n: int = 2000, prior: float = 0.4) -> Records:
    rows = []
    for dims in (2, 10, 50):
        positive, unlabeled = sample(dims, n, prior, seed=1)
        ours, seconds = timed(KernelMeanPrior("km2").estimate, positive, unlabeled)
        K, _ = best_kernel(positive, unlabeled)
        each = [timed(program, K, np.repeat([lam / n, (1 - lam) / n], [n, n]))[1] for lam in (1.05, 4.5)]
        baseline = PROGRAMS * float(np.mean(each))
        row = {"dims": dims, "rows": 2 * n, "prior": prior, "km2": ours.value, "seconds": seconds}
        rows.append(
            row | {"program_seconds": each, "baseline_seconds": baseline, "faster": baseline / seconds}
        )
        print(rows[-1], flush=True)
    return rows


def accuracy(n: int = 300, seeds: int = 3) -> Records:
    rows = []
    for dims in (2, 10):
        for prior in (0.05, 0.2, 0.5, 0.8):
            for method in ("km1", "km2"):
                errors = [
                    KernelMeanPrior(method).estimate(*sample(dims, n, prior, seed, apart=3.5)).value - prior
                    for seed in range(seeds)
                ]
                row = {"dims": dims, "rows": 2 * n, "prior": prior, "method": method, "seeds": seeds}
                rows.append(row | {"bias": np.mean(errors), "mean_abs_error": np.mean(np.abs(errors))})
                print(rows[-1], flush=True)
    return rows


def main(names: Sequence[str]) -> None:
    warnings.simplefilter("ignore", DRPUWarning)
    parts: dict[str, Callable[[], Records]] = {
        "speed": speed,
        "agreement": agreement,
        "accuracy": accuracy,
    }
    try:
        results = {name: read_results("kernel_mean")[name] for name in parts if name not in names}
    except (FileNotFoundError, KeyError):
        results = {}
    for name in names:
        # The load average shows whether other processes slowed down both.
        results[name] = {"cpus": os.cpu_count(), "load": os.getloadavg()[0], "rows": parts[name]()}
        write_results("kernel_mean", "python -m benchmarks.kernel_mean", **results)


if __name__ == "__main__":
    main(sys.argv[1:] or ["speed", "agreement", "accuracy"])
