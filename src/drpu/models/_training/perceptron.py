"""The default network for tabular rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

__all__ = ["perceptron"]


def perceptron(shape: Sequence[int], hidden: Sequence[int], *, start: float = 0.0) -> nn.Module:
    """A multilayer perceptron with one output, initially ``start``, for rows of the given shape."""
    widths = [math.prod(shape), *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    for width, following in pairwise(widths):
        layers += [nn.Linear(width, following), nn.BatchNorm1d(following), nn.ReLU()]
    last = nn.Linear(widths[-1], 1)
    nn.init.constant_(last.bias, start)
    return nn.Sequential(*layers, last)
