"""Seconds an epoch: the loop of NetworkRatio beside a plain DataLoader loop on the same tensors.

Run with ``python -m benchmarks.network``; rows are random, as many as in MNIST unless
``--rows`` says otherwise.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from drpu import NetworkRatio, fit_many
from drpu._typing import FloatArray
from drpu.core.bregman import nonnegative_bregman_risk

BATCH = 500
STACK = 4
CASES = {"784 columns, 300-300-300": (784, (300, 300, 300)), "20 columns, 32-32": (20, (32, 32))}


def network(columns: int, hidden: Sequence[int]) -> nn.Module:
    layers: list[nn.Module] = []
    for width, following in zip((columns, *hidden), hidden, strict=False):
        layers += [nn.Linear(width, following), nn.BatchNorm1d(following), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden[-1], 1))


def plain_epochs(
    make: Callable[[], nn.Module], positive: FloatArray, unlabeled: FloatArray, epochs: int
) -> None:
    """What a first script looks like: two loaders, one optimiser, one sync a step."""
    steps = len(unlabeled) // BATCH
    module = make()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, weight_decay=1.0)
    u_loader = DataLoader(TensorDataset(torch.as_tensor(unlabeled)), BATCH, shuffle=True)
    p_loader = DataLoader(TensorDataset(torch.as_tensor(positive)), len(positive) // steps, shuffle=True)
    for _ in range(epochs):
        for (p,), (u,) in zip(p_loader, u_loader, strict=False):
            output = module(torch.cat([p, u]))[:, 0]
            risk = nonnegative_bregman_risk(
                output[: len(p)], output[len(p) :], alpha=0.4, generator="bkl", log=True
            )
            optimizer.zero_grad()
            risk.objective.backward()
            optimizer.step()
            risk.value.item()


def our_epochs(
    make: Callable[[], nn.Module], positive: FloatArray, unlabeled: FloatArray, epochs: int, *, models: int
) -> None:
    """The same through NetworkRatio, one model or a stack."""
    options = {"alpha": 0.4, "head": "exp", "batch_size": BATCH, "early_stopping": False, "ema": None}
    stack = [NetworkRatio(make, epochs=epochs, random_state=seed, **options) for seed in range(models)]
    fit_many(stack, positive, unlabeled)


def seconds_an_epoch(run: Callable[[int], None]) -> FloatArray:
    """Wall and processor seconds of one more epoch, setting up left out."""

    def timed(epochs: int) -> FloatArray:
        start = np.array([time.perf_counter(), time.process_time()])
        run(epochs)
        return np.array([time.perf_counter(), time.process_time()]) - start

    timed(1)  # imports and first allocations
    short, long = timed(1), timed(5)
    return (long - short) / 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    rows = parser.parse_args().rows
    print(f"{rows} unlabeled rows, {torch.get_num_threads()} threads; seconds an epoch: wall, processor")
    for case, (columns, hidden) in CASES.items():
        rng = np.random.default_rng(0)
        unlabeled = rng.random((rows, columns), dtype=np.float32)
        data = partial(network, columns, hidden), unlabeled[: rows // 20].copy(), unlabeled
        runs: dict[str, tuple[Callable[[int], None], int]] = {
            "plain DataLoader loop": (partial(plain_epochs, *data), 1),
            "NetworkRatio": (partial(our_epochs, *data, models=1), 1),
            f"fit_many of {STACK}, a model": (partial(our_epochs, *data, models=STACK), STACK),
        }
        for name, (run, models) in runs.items():
            wall, processor = seconds_an_epoch(run) / models
            print(f"{case:26} {name:24} {wall:8.3f} {processor:8.3f}", flush=True)


if __name__ == "__main__":
    main()
