"""A network that several processes train together, each on its own rows (torch DDP)."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch.nn.parallel import DistributedDataParallel

from drpu._typing import FloatArray
from drpu.functions.features import Scaling

__all__ = ["Shard", "Trained", "gather", "shared_scaling", "train_together"]


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows of one process, with weights that give positive and unlabeled rows equal masses over all.

    Weights have mean 1 over the rows of all processes.
    """

    rows: Tensor
    sign: Tensor  # 1 for positive, -1 for unlabeled rows
    weight: Tensor


@dataclass(frozen=True, slots=True)
class Trained:
    """The network of the best epoch, and the loss on held-out rows after each epoch."""

    module: nn.Module
    best_epoch: int
    losses: FloatArray


def gather(value: Any) -> list[Any]:
    """``value`` of every process, in the order of their ranks."""
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return found


def shared_scaling(rows: FloatArray) -> Scaling:
    """Mean and standard deviation of the columns over the rows of all processes."""
    n = float(sum(gather(len(rows))))
    mean = np.sum(gather(rows.sum(axis=0, dtype=np.float64)), axis=0) / n
    variance = np.sum(gather(((rows - mean) ** 2).sum(axis=0, dtype=np.float64)), axis=0) / n
    return Scaling(mean, np.where(variance > 0, np.sqrt(np.maximum(variance, 1e-300)), 1.0))


def train_together(
    module: nn.Module,
    train: Shard,
    held: Shard,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    weight_decay: float,
    seed: int,
) -> Trained:
    """Minimise the logistic loss of positive against unlabeled rows of all processes.

    In each step a process uses rows in proportion to the number that it has, so that a batch of all
    processes is a sample of all rows, even if one process has positives only, or no rows.
    """
    # Batch statistics would differ between processes, so normalisation stays an affine map.
    _freeze_norms(module)
    parallel = DistributedDataParallel(module, broadcast_buffers=False)
    optimizer = torch.optim.AdamW(module.parameters(), lr=learning_rate, weight_decay=weight_decay)
    sizes = gather(len(train.rows))
    steps = max(1, -(-sum(sizes) // batch_size))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * steps)
    order = torch.Generator().manual_seed(seed + dist.get_rank())
    best, losses = deepcopy(module.state_dict()), []
    for _ in range(epochs):
        for chosen in _batches(len(train.rows), steps, order):
            optimizer.zero_grad()
            loss = _loss(parallel, train, chosen) * dist.get_world_size() / batch_size
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
        losses.append(_held_loss(module, held))
        if losses[-1] <= min(losses):
            best = deepcopy(module.state_dict())
    module.load_state_dict(best)
    return Trained(module.eval(), int(np.argmin(losses)) + 1, np.array(losses))


def _freeze_norms(module: nn.Module) -> None:
    module.train()
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.eval()


def _batches(n: int, steps: int, order: torch.Generator) -> Iterator[Tensor]:
    """The rows of an epoch in parts, equally many in all processes; parts may be empty."""
    yield from torch.randperm(n, generator=order).tensor_split(steps)


def _loss(module: Any, shard: Shard, chosen: Tensor) -> Tensor:
    margin = module(shard.rows[chosen]).flatten()
    return (shard.weight[chosen] * softplus(-shard.sign[chosen] * margin)).sum()


@torch.no_grad()
def _held_loss(module: nn.Module, held: Shard) -> float:
    parts = torch.split(torch.arange(len(held.rows)), 16_384)
    total = float(sum(_loss(module, held, part).double() for part in parts)) if len(held.rows) else 0.0
    return float(sum(gather(total)))
