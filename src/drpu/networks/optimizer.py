"""Updates of the weights of a stack after each step.

Weights are a matrix with one row per model. A step reads its number from a tensor on the device and its
settings from tables computed beforehand, so it never waits for the host and can be recorded once and
replayed. On a CPU torch's fused kernel does the same in one pass over the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from drpu._typing import FloatArray

__all__ = ["HALVE_EVERY", "Adam", "Average", "rate_factors"]

HALVE_EVERY = 20  # epochs between two halvings under decay="step", as in the paper
EPSILON = 1e-8


def rate_factors(decay: str, epochs: int, steps: int) -> FloatArray:
    """Factor of the learning rate in each step of a run.

    Examples
    --------
    >>> rate_factors("cosine", epochs=2, steps=2).round(2)
    array([1.  , 0.85, 0.5 , 0.15])
    """
    step = np.arange(epochs * steps)
    match decay:
        case "cosine":
            return 0.5 * (1 + np.cos(math.pi * step / step.size))
        case "step":
            return np.asarray(0.5 ** (step // (steps * HALVE_EVERY)), dtype=np.float64)
        case _:
            return np.ones(step.size)


class Adam:
    """Adam on a matrix of weights, with one learning rate per line.

    Parameters
    ----------
    weights : Tensor of shape (models, n_weights)
        Changed in place.
    factors : array of shape (n_steps,)
        From :func:`rate_factors`.
    learning_rate, weight_decay : Tensor of shape (models, 1)
    betas : pair of float
    decoupled : bool
        Whether weight decay is decoupled (AdamW) or part of the gradient (Adam with L2).
    accumulate : bool, default=False
        Never reset the gradient: each step uses the sum of all gradients so far. Only for
        reproducing published runs.
    """

    def __init__(
        self,
        weights: Tensor,
        factors: FloatArray,
        *,
        learning_rate: Tensor,
        weight_decay: Tensor,
        betas: tuple[float, float],
        decoupled: bool,
        accumulate: bool = False,
    ) -> None:
        self.weights = weights
        self.betas = betas
        self.decoupled = decoupled
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.mean = torch.zeros_like(weights)
        self.square = torch.zeros_like(weights)
        self.total = torch.zeros_like(weights) if accumulate else None
        self.lines = list(zip(weights.detach(), self.mean, self.square, strict=True))

        step = np.arange(1.0, factors.size + 1)
        to_tensor = _table_like(weights)
        self.factors = to_tensor(factors)
        # bias correction of the moments, which start at zero
        self.mean_share = to_tensor(np.asarray(1 - betas[0] ** step, dtype=np.float64))
        self.square_share = to_tensor(np.sqrt(1 - betas[1] ** step))

    @torch.no_grad()
    def step(self, gradient: Tensor, now: Tensor) -> None:
        """Update the weights; ``now`` is the number of steps so far, shape (1,)."""
        if self.total is not None:
            gradient = self.total.add_(gradient)
        rate = self.learning_rate * self.factors.index_select(0, now)
        (self._fused if self.weights.is_cpu else self._recordable)(gradient, rate, now)

    def _fused(self, gradient: Tensor, rate: Tensor, now: Tensor) -> None:
        update = adamw if self.decoupled else adam
        rates, decays = rate.flatten().tolist(), self.weight_decay.flatten().tolist()
        for line, slope, lr, weight_decay in zip(self.lines, gradient, rates, decays, strict=True):
            weights, mean, square = line
            update(
                [weights],
                [slope],
                [mean],
                [square],
                [],
                [now.to(torch.float32)],  # a new tensor each time, because the kernel increments it
                lr=lr,
                weight_decay=weight_decay,
                beta1=self.betas[0],
                beta2=self.betas[1],
                eps=EPSILON,
                amsgrad=False,
                maximize=False,
                fused=True,
            )

    def _recordable(self, gradient: Tensor, rate: Tensor, now: Tensor) -> None:
        if self.decoupled:
            self.weights.mul_(1 - rate * self.weight_decay)
        else:
            gradient = gradient + self.weight_decay * self.weights

        first, second = self.betas
        self.mean.lerp_(gradient, 1 - first)
        self.square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        spread = self.square.sqrt().div_(self.square_share.index_select(0, now)).add_(EPSILON)
        move = torch.div(self.mean, spread, out=spread)
        self.weights.sub_(move.mul_(rate / self.mean_share.index_select(0, now)))


class Average:
    """Exponential moving average of weights and statistics.

    The decay is ``min(decay, (1 + t) / (10 + t))`` after ``t`` steps, because otherwise the
    average of a short run would stay close to the initial weights.
    """

    def __init__(self, weights: Tensor, fixed: dict[str, Tensor], decay: float, n_steps: int) -> None:
        self.source = {"weights": weights.detach()} | {f"fixed.{k}": v for k, v in fixed.items()}
        self.values = {name: value.clone() for name, value in self.source.items()}
        step = np.arange(1, n_steps + 1)
        self.decay = _table_like(weights)(np.minimum(decay, (1 + step) / (10 + step)))

    @torch.no_grad()
    def update(self, now: Tensor) -> None:
        """Update the average after a step; ``now`` as in :meth:`Adam.step`."""
        new = 1 - self.decay.index_select(0, now)
        for name, value in self.values.items():
            if value.is_floating_point():
                value.lerp_(self.source[name], new.to(value.dtype))
            else:
                value.copy_(self.source[name])

    @property
    def weights(self) -> Tensor:
        """The averaged weights."""
        return self.values["weights"]

    @property
    def fixed(self) -> dict[str, Tensor]:
        """The averaged statistics, by name."""
        return {k.removeprefix("fixed."): v for k, v in self.values.items() if k != "weights"}


def _table_like(weights: Tensor) -> Callable[[FloatArray], Tensor]:
    return lambda table: torch.as_tensor(table, dtype=weights.dtype, device=weights.device)
