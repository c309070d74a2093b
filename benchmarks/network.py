"""Seconds per epoch of the training loop of drpu and of a simple loop with DataLoaders.

    python -m benchmarks.network [--rows 50000]

A density ratio and nnPU, each with both loops, alternating in one run; the minimum of several
repeats is reported. The float32 matrix products of an epoch are timed
as well, as a lower bound for every loop. Rows of 784 columns are MNIST if ``DRPU_DATA`` names
a folder with ``mnist.npz``, and random numbers otherwise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks._results import command_line, write_results
from drpu import NetworkRatio
from drpu._arrays import FloatArray, Rows
from drpu._samples import Sample, SamplePair
from drpu.models.risks import LOGISTIC, Risk, ShiftedRisk, nonnegative_bregman_risk
from drpu.networks.learner import NetworkScore
from paper.image_sets import load_image_set

BATCH = 500
PRIOR = 0.5
ALPHA = 0.4
CASES = {"784 columns, 300-300-300": (784, (300, 300, 300)), "20 columns, 32-32": (20, (32, 32))}
PLAIN = {  # the baseline of each run
    "ratio": "plain_ratio",
    "nnpu": "plain_nnpu",
    "products": "plain_nnpu",
}
FEW, MANY = 1, 3  # epochs of a short and of a long run; their difference excludes the set-up time
REPEATS = 4
OPTIONS: dict[str, Any] = {"batch_size": BATCH, "early_stopping": False, "ema": None, "device": "cpu"}

Make: TypeAlias = Callable[[], nn.Module]
Run: TypeAlias = Callable[[int], None]


def network(columns: int, hidden: Sequence[int]) -> nn.Module:
    layers: list[nn.Module] = []
    for width, following in pairwise((columns, *hidden)):
        layers += [nn.Linear(width, following), nn.BatchNorm1d(following), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden[-1], 1))


def samples(columns: int, rows: int) -> tuple[Rows, Rows, str]:
    """Positive and unlabeled rows, and a description."""
    rng = np.random.default_rng(0)
    folder = os.environ.get("DRPU_DATA")
    if columns == 784 and folder and (Path(folder) / "mnist.npz").is_file():
        images = load_image_set("mnist")
        x = (images.x_train.reshape(-1, columns) / 255).astype(np.float32)
        even = np.flatnonzero(images.y_train % 2 == 0)
        positive = x[rng.choice(even, rows // 20, replace=False)]
        return positive, x[rng.choice(len(x), rows, replace=False)], "MNIST, even digits positive"
    unlabeled = rng.random((rows, columns), dtype=np.float32)
    return unlabeled[: rows // 20].copy(), unlabeled, "random numbers"


def ratio_risk(positive: Tensor, unlabeled: Tensor) -> Risk:
    return nonnegative_bregman_risk(positive, unlabeled, alpha=ALPHA, generator=LOGISTIC, log=True)


def score_risk(positive: Tensor, unlabeled: Tensor) -> Risk:
    return ShiftedRisk(PRIOR, PRIOR, corrected=True).risk(positive, unlabeled)


def plain_epochs(
    risk: Callable[[Tensor, Tensor], Risk],
    make: Make,
    positive: Rows,
    unlabeled: Rows,
    epochs: int,
) -> None:
    """A simple script: two loaders, one optimiser, one synchronisation per step."""
    steps = len(unlabeled) // BATCH
    module = make()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, weight_decay=1.0)
    u_loader = DataLoader(TensorDataset(torch.as_tensor(unlabeled)), BATCH, shuffle=True)
    p_loader = DataLoader(TensorDataset(torch.as_tensor(positive)), len(positive) // steps, shuffle=True)
    for _ in range(epochs):
        for (p,), (u,) in zip(p_loader, u_loader, strict=False):
            output = module(torch.cat([p, u]))[:, 0]
            found = risk(output[: len(p)], output[len(p) :])
            optimizer.zero_grad()
            found.objective.backward()
            optimizer.step()
            found.value.item()


def ratio_epochs(make: Make, positive: Rows, unlabeled: Rows, epochs: int) -> None:
    """The same with NetworkRatio."""
    options = OPTIONS | {"alpha": ALPHA, "head": "exp", "generator": "bkl", "epochs": epochs}
    NetworkRatio(make, random_state=0, **options).fit_ratio(positive, unlabeled)


def score_epochs(make: Make, positive: Rows, unlabeled: Rows, epochs: int) -> None:
    """The same with the network of nnPU."""
    learner = NetworkScore(make, random_state=0, epochs=epochs, **OPTIONS)
    pair = SamplePair(Sample(positive), Sample(unlabeled))
    learner.fit_score(pair, ShiftedRisk(PRIOR, PRIOR, corrected=True))


@torch.no_grad()
def product_epochs(widths: Sequence[int], n_positive: int, n_unlabeled: int, epochs: int) -> None:
    """Only the matrix products of an epoch: outputs, gradients of weights, gradients of inputs."""
    steps = n_unlabeled // BATCH
    n = BATCH + n_positive // steps
    layers = [(torch.randn(n, a), torch.randn(b, a), torch.randn(n, b)) for a, b in pairwise((*widths, 1))]
    for _ in range(epochs * steps):
        for i, (inputs, weight, slopes) in enumerate(layers):
            torch.mm(inputs, weight.t())
            torch.mm(slopes.t(), inputs)
            if i > 0:  # gradients with respect to the rows are not needed
                torch.mm(slopes, weight)


def least_seconds(runs: dict[str, Run]) -> dict[str, FloatArray]:
    """Wall-clock and processor seconds per epoch, the minimum of all repeats; runs alternate."""

    def timed(run: Run, epochs: int) -> FloatArray:
        start = np.array([time.perf_counter(), time.process_time()])
        run(epochs)
        stop = np.array([time.perf_counter(), time.process_time()])
        return np.asarray(stop - start)

    for run in runs.values():
        run(1)  # imports and first allocations
    few: dict[str, list[FloatArray]] = {name: [] for name in runs}
    many: dict[str, list[FloatArray]] = {name: [] for name in runs}
    for _ in range(REPEATS):
        for name, run in runs.items():
            few[name].append(timed(run, FEW))
            many[name].append(timed(run, MANY))
    return {name: (np.min(many[name], axis=0) - np.min(few[name], axis=0)) / (MANY - FEW) for name in runs}


def measure(columns: int, hidden: Sequence[int], rows: int) -> dict[str, Any]:
    """Seconds per epoch of every run on one network, and their ratios."""
    positive, unlabeled, what = samples(columns, rows)
    data = partial(network, columns, hidden), positive, unlabeled
    seconds = least_seconds(
        {
            "plain_ratio": partial(plain_epochs, ratio_risk, *data),
            "ratio": partial(ratio_epochs, *data),
            "plain_nnpu": partial(plain_epochs, score_risk, *data),
            "nnpu": partial(score_epochs, *data),
            "products": partial(product_epochs, (columns, *hidden), len(positive), len(unlabeled)),
        }
    )
    both = [{name: float(s[side]) for name, s in seconds.items()} for side in (0, 1)]
    faster, faster_cpu = ({name: side[plain] / side[name] for name, plain in PLAIN.items()} for side in both)
    return {
        "rows": what,
        "n_positive": len(positive),
        "n_unlabeled": len(unlabeled),
        "seconds": both[0],
        "cpu_seconds": both[1],  # not affected by other processes
        "faster": faster,
        "faster_cpu": faster_cpu,
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    rows = parser.parse_args().rows
    content: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "batch_size": BATCH,
        "cases": {},
    }
    for case, (columns, hidden) in CASES.items():
        content["cases"][case] = measure(columns, hidden, rows)
        print(case, content["cases"][case], flush=True)
    print("wrote", write_results("network", f"python -m benchmarks.network --rows {rows}", **content))


if __name__ == "__main__":
    main()
