"""Rows on the device, and their order in training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Batch", "Pool", "as_floats", "count_steps", "paired_positions", "shared_positions", "take_batch"]

BRIGHTEST = 255  # a pixel of eight bits is a number from 0 to 1


def as_floats(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Input of networks: 8-bit pixels divided by 255, other numbers unchanged."""
    return rows.to(dtype) / BRIGHTEST if rows.dtype == torch.uint8 else rows.to(dtype)


@dataclass(frozen=True, slots=True)
class Pool:
    """Rows on the device, and the rows of each model of a stack.

    Models that share rows share memory: ``index`` has one line of row numbers per model,
    ``weight`` one line of weights, or is None. 8-bit images stay 8-bit in memory, and are
    converted to ``dtype`` batch by batch.
    """

    rows: Tensor
    index: Tensor
    weight: Tensor | None = None
    dtype: torch.dtype = torch.float32

    @property
    def size(self) -> int:
        """Number of rows of one model."""
        return self.index.shape[1]

    def take(self, positions: Tensor) -> tuple[Tensor, Tensor | None]:
        """Rows and weights at ``positions``, of shape (models, batch), in the list of each model."""
        chosen = self.index.gather(1, positions)
        rows = self.rows.index_select(0, chosen.flatten()).view(*chosen.shape, *self.rows.shape[1:])
        if rows.dtype == torch.uint8:
            rows = as_floats(rows, self.dtype)
        return rows, self.take_weight(positions)

    def take_weight(self, positions: Tensor) -> Tensor | None:
        """Weights at ``positions``, or None if the rows have none."""
        return None if self.weight is None else self.weight.gather(1, positions)


class Batch(NamedTuple):
    """Rows of one step, of shape (models, batch, ...), with their weights.

    If each row belongs to both samples, ``positive`` and ``unlabeled`` are the same tensor.
    """

    positive: Tensor
    unlabeled: Tensor
    positive_weight: Tensor | None = None
    unlabeled_weight: Tensor | None = None

    @property
    def shared(self) -> bool:
        """Whether the samples are the same rows."""
        return self.positive is self.unlabeled

    def changed(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with its rows changed by a function of rows without the axis of models."""

        def each(rows: Tensor) -> Tensor:
            return change(rows.flatten(0, 1)).view(rows.shape)

        positive = each(self.positive)
        return self._replace(positive=positive, unlabeled=positive if self.shared else each(self.unlabeled))

    def mixed(self) -> Batch:
        """The batch with each row and its weights averaged with the row before it, in random shares.

        The share is close to 0 or 1 more often than in between: it follows an arcsine distribution. The
        samples have to be the same rows.
        """
        rows = self.unlabeled
        share = torch.sin(torch.rand(rows.shape[:2], device=rows.device) * (math.pi / 2)) ** 2

        def mix(values: Tensor) -> Tensor:
            own = share.to(values.dtype).view(*share.shape, *[1] * (values.ndim - 2))
            return own * values + (1 - own) * values.roll(1, dims=1)

        weights = [None if w is None else mix(w) for w in (self.positive_weight, self.unlabeled_weight)]
        both = mix(rows)
        return Batch(both, both, *weights)


def take_batch(
    positive: Pool, unlabeled: Pool, positive_positions: Tensor, unlabeled_positions: Tensor
) -> Batch:
    """The rows of both pools at these positions; pools of the same rows give each row once."""
    if positive.index is unlabeled.index:
        rows, weight = unlabeled.take(unlabeled_positions)
        return Batch(rows, rows, positive.take_weight(unlabeled_positions), weight)
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

    Each row of both samples is used exactly once, in ``n_steps`` parts whose sizes differ by
    at most one row. A sample with fewer rows than steps is repeated, one row per step.
    Each model has its own generator, so its batches do not depend on the stack.
    """
    positive = [_order(n_positive, n_steps, generator) for generator in generators]
    unlabeled = [_order(n_unlabeled, n_steps, generator) for generator in generators]
    return zip(
        torch.stack(positive).tensor_split(n_steps, dim=1),
        torch.stack(unlabeled).tensor_split(n_steps, dim=1),
        strict=True,
    )


def shared_positions(
    n: int, n_steps: int, generators: Sequence[torch.Generator]
) -> Iterator[tuple[Tensor, Tensor]]:
    """One epoch of positions for pools of the same rows: the same ones twice, each row once."""
    order = torch.stack([_order(n, n_steps, generator) for generator in generators])
    return ((part, part) for part in order.tensor_split(n_steps, dim=1))


def _order(n: int, n_steps: int, generator: torch.Generator) -> Tensor:
    turns = -(-n_steps // n)
    orders = [torch.randperm(n, generator=generator, device=generator.device) for _ in range(turns)]
    return orders[0] if turns == 1 else torch.cat(orders)[:n_steps]
