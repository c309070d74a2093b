"""Seconds an epoch: the loop of NetworkRatio beside a plain DataLoader loop on the same tensors.

Run with ``python -m benchmarks.network``; rows are random, of the size of MNIST unless
``--rows`` says otherwise.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from drpu import NetworkRatio, fit_many
from drpu.core.bregman import nonnegative_bregman_risk

BATCH = 500


def network() -> nn.Module:
    """The paper's perceptron for MNIST."""
    layers: list[nn.Module] = []
    for width in (784, 300, 300):
        layers += [nn.Linear(width, 300), nn.BatchNorm1d(300), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(300, 1))


def plain_epochs(positive: np.ndarray, unlabeled: np.ndarray, epochs: int) -> None:
    """What a first script looks like: two loaders, one optimiser, one sync a step."""
    steps = len(unlabeled) // BATCH
    module = network()
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


def our_epochs(positive: np.ndarray, unlabeled: np.ndarray, epochs: int, models: int) -> None:
    """The same through NetworkRatio, one model or a stack."""
    stack = [
        NetworkRatio(
            network, alpha=0.4, head="exp", epochs=epochs, early_stopping=False, ema=None, random_state=seed
        )
        for seed in range(models)
    ]
    fit_many(stack, positive, unlabeled)


def seconds_an_epoch(run: Callable[[int], None]) -> tuple[float, float]:
    """Wall and processor seconds of one more epoch, setting up left out."""

    def timed(epochs: int) -> np.ndarray:
        start = np.array([time.perf_counter(), time.process_time()])
        run(epochs)
        return np.array([time.perf_counter(), time.process_time()]) - start

    short, long = timed(1), timed(3)
    wall, processor = (long - short) / 2
    return float(wall), float(processor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    rows = parser.parse_args().rows
    rng = np.random.default_rng(0)
    unlabeled = rng.random((rows, 784), dtype=np.float32)
    positive = rng.random((rows // 20, 784), dtype=np.float32)

    runs: dict[str, Callable[[int], None]] = {
        "plain DataLoader loop": lambda epochs: plain_epochs(positive, unlabeled, epochs),
        "NetworkRatio": lambda epochs: our_epochs(positive, unlabeled, epochs, 1),
        "fit_many of 4, a model": lambda epochs: our_epochs(positive, unlabeled, epochs, 4),
    }
    print(f"{rows} unlabeled rows, {torch.get_num_threads()} threads, seconds an epoch (wall, processor)")
    for name, run in runs.items():
        share = 4 if name.startswith("fit_many") else 1
        wall, processor = seconds_an_epoch(run)
        print(f"{name:24} {wall / share:8.2f} {processor / share:8.2f}", flush=True)


if __name__ == "__main__":
    main()
