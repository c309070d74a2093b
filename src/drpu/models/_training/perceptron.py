"""The default network for rows of numbers, and how its inputs are scaled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from torch import nn

from drpu._typing import FloatArray

__all__ = ["Scaling", "perceptron"]

CLIP = 3.0  # standard deviations that an input can approach, whatever its outliers


@dataclass(frozen=True, slots=True)
class Scaling:
    """Columns centred, scaled and softly clipped, in float64 before anything is rounded."""

    mean: FloatArray
    scale: FloatArray

    @classmethod
    def fit(cls, rows: np.ndarray[Any, Any], weight: FloatArray | None) -> Scaling:
        """Mean and standard deviation of every column."""
        rows = np.asarray(rows, dtype=np.float64)
        mean = np.average(rows, axis=0, weights=weight)
        scale = np.sqrt(np.average((rows - mean) ** 2, axis=0, weights=weight))
        still = scale <= 1e-12 * np.maximum(1, np.abs(mean))  # a column that never moves says nothing
        return cls(mean, np.where(still, 1.0, scale))

    def __call__(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Scaled rows: z / sqrt(1 + (z / 3)^2) for a standardised value z."""
        z = (rows - self.mean) / self.scale
        return np.asarray(z / np.sqrt(1 + (z / CLIP) ** 2), dtype=np.float32)


def perceptron(shape: Sequence[int], hidden: Sequence[int], *, start: float = 0.0) -> nn.Module:
    """A multilayer perceptron with one output, ``start`` at first, for rows of the given shape."""
    widths = [math.prod(shape), *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    for width, following in pairwise(widths):
        layers += [nn.Linear(width, following), nn.BatchNorm1d(following), nn.ReLU()]
    last = nn.Linear(widths[-1], 1)
    nn.init.constant_(last.bias, start)
    return nn.Sequential(*layers, last)
