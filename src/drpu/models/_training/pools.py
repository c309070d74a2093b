"""Rows on the device, and the order in which training meets them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Batch", "Pool", "count_steps", "paired_positions", "take_batch"]


@dataclass(frozen=True, slots=True)
class Pool:
    """Rows that stay on the device, and which of them belong to each model of a stack.

    Models that share rows share memory: ``index`` has one line of row numbers a
    model, ``weight`` one line of weights, or is None.
    """

    rows: Tensor
    index: Tensor
    weight: Tensor | None = None

    @property
    def size(self) -> int:
        """Number of rows that one model sees."""
        return self.index.shape[1]

    def take(self, positions: Tensor) -> tuple[Tensor, Tensor | None]:
        """Rows and weights at ``positions``, of shape (models, batch), in each model's own list."""
        chosen = self.index.gather(1, positions)
        rows = self.rows.index_select(0, chosen.flatten()).view(*chosen.shape, *self.rows.shape[1:])
        return rows, None if self.weight is None else self.weight.gather(1, positions)


class Batch(NamedTuple):
    """One step's rows, of shape (models, batch, ...), with their weights."""

    positive: Tensor
    unlabeled: Tensor
    positive_weight: Tensor | None = None
    unlabeled_weight: Tensor | None = None


def take_batch(
    positive: Pool, unlabeled: Pool, positive_positions: Tensor, unlabeled_positions: Tensor
) -> Batch:
    """The rows of both pools at these positions."""
    positive_rows, positive_weight = positive.take(positive_positions)
    unlabeled_rows, unlabeled_weight = unlabeled.take(unlabeled_positions)
    return Batch(positive_rows, unlabeled_rows, positive_weight, unlabeled_weight)


def count_steps(n_unlabeled: int, batch_size: int) -> int:
    """Steps in an epoch: as many full unlabeled batches as there are."""
    return max(1, n_unlabeled // batch_size)


def paired_positions(
    n_positive: int, n_unlabeled: int, n_steps: int, generators: Sequence[torch.Generator]
) -> Iterator[tuple[Tensor, Tensor]]:
    """One epoch of paired positions, each of shape (models, batch).

    Both samples are swept exactly once, in ``n_steps`` parts whose sizes differ by
    at most one row. A sample of fewer rows than steps comes round again, one row a
    step. Each model has its own generator, so its batches do not depend on the stack
    it is trained in.
    """
    positive = [_order(n_positive, n_steps, generator) for generator in generators]
    unlabeled = [_order(n_unlabeled, n_steps, generator) for generator in generators]
    return zip(
        torch.stack(positive).tensor_split(n_steps, dim=1),
        torch.stack(unlabeled).tensor_split(n_steps, dim=1),
        strict=True,
    )


def _order(n: int, n_steps: int, generator: torch.Generator) -> Tensor:
    turns = -(-n_steps // n)
    orders = [torch.randperm(n, generator=generator, device=generator.device) for _ in range(turns)]
    return orders[0] if turns == 1 else torch.cat(orders)[:n_steps]
