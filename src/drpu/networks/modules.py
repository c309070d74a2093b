"""The networks of this library, and the outputs of a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from drpu._fork import torch_threads_here
from drpu._typing import FloatArray, Rows
from drpu.exceptions import DataError, ParameterError
from drpu.models.features import Scaling
from drpu.networks.augment import test_views as views_of
from drpu.networks.device import precision, private_random
from drpu.networks.loop import as_floats, as_tensor, rows_at_once

MakesModule: TypeAlias = nn.Module | Callable[[], nn.Module]


def perceptron(shape: Sequence[int], hidden: Sequence[int], *, start: float = 0.0) -> nn.Module:
    """A multilayer perceptron with one output, initially ``start``, for rows of the given shape."""
    widths = [math.prod(shape), *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    for width, following in pairwise(widths):
        layers += [nn.Linear(width, following), nn.BatchNorm1d(following), nn.ReLU()]
    last = nn.Linear(widths[-1], 1)
    nn.init.constant_(last.bias, start)
    return nn.Sequential(*layers, last)


WIDTH = 64  # channels of the first layer; 6.6 million weights
SAMPLED = 8192  # rows that the mean and spread of pixels are computed from
LEAST_SIDE = 8  # smallest side, of which one pixel is left after three poolings
MOST_CHANNELS = 16  # a larger first axis is probably a side of an image with channels last
_FLAT = " If the pixels were put into columns, pass X.reshape(-1, height, width)."
_LAST = " If the channels come last, pass numpy.moveaxis(X, -1, 1)."


def image_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """Channels, height and width of rows of the given shape, which has two or three axes."""
    found = (1, *shape) if len(shape) == 2 else tuple(shape)
    if len(found) != 3 or min(found[1:]) < LEAST_SIDE:
        last = len(shape) == 3 and shape[2] <= MOST_CHANNELS and min(shape[:2]) >= LEAST_SIDE
        raise DataError(
            f"network='resnet9' needs images of shape (height, width) or (channels, height, width), with "
            f"sides of at least {LEAST_SIDE} pixels, got rows of shape {tuple(shape)}."
            + (_LAST if last else "")
            + (_FLAT if len(shape) == 1 else "")
        )
    return found[0], found[1], found[2]


class ResNet9(nn.Module):
    """Eight convolutions in two residual blocks and four other layers, and one linear layer.

    Pixels are standardised by the mean and spread of each channel, which are buffers and so belong
    to the state. On a GPU the memory format is channels last, which is faster. The linear layer is
    computed in full precision, because priors are estimated from the order of its outputs.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, shape: Sequence[int], width: int = WIDTH, *, start: float = 0.0) -> None:
        super().__init__()
        channels, _, _ = image_shape(shape)
        self.channels = channels
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("spread", torch.ones(channels))
        self.layers = nn.Sequential(
            *_convolution(channels, width),
            *_convolution(width, 2 * width, pool=True),
            Residual(2 * width),
            *_convolution(2 * width, 4 * width, pool=True),
            *_convolution(4 * width, 8 * width, pool=True),
            Residual(8 * width),
        )
        self.last = nn.Linear(8 * width, 1)
        nn.init.constant_(self.last.bias, start)

    def standardise(self, rows: Any) -> None:
        """Set mean and spread of each channel from rows that the network will receive."""
        every = -(-len(rows) // SAMPLED)  # evenly spaced rows, because they may be sorted by class
        pixels = as_floats(as_tensor(rows[::every]), torch.float32)
        images = pixels.reshape(-1, self.channels, *rows.shape[-2:])
        self.mean.copy_(images.mean((0, 2, 3)))
        self.spread.copy_(images.std((0, 2, 3), correction=0).clamp(min=1e-6))

    def forward(self, rows: Tensor) -> Tensor:
        """One output for each row."""
        features = self.features(rows)
        with torch.autocast(rows.device.type, enabled=False):
            output: Tensor = self.last(features.to(self.last.weight.dtype))
        return output

    def features(self, rows: Tensor) -> Tensor:
        """The largest value of each channel of the last convolution, for each row."""
        images = rows.unsqueeze(1) if rows.ndim == 3 else rows
        images = (images - self.mean[:, None, None]) / self.spread[:, None, None]
        if images.is_cuda:
            # a copy: with one channel `contiguous` would leave the strides, and all layers, channels first
            images = images.clone(memory_format=torch.channels_last)
        found: Tensor = self.layers(images).amax((2, 3))
        return found


class Residual(nn.Module):
    """Two convolutions whose result is added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*_convolution(channels, channels), *_convolution(channels, channels))

    def forward(self, images: Tensor) -> Tensor:
        """Images of the same shape."""
        added: Tensor = images + self.layers(images)
        return added


class Ensemble(nn.Module):
    """The mean output of several networks."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, rows: Tensor) -> Tensor:
        """One output for each row."""
        outputs = [member(rows).reshape(len(rows)) for member in self.members]
        return torch.stack(outputs).mean(0)


def _convolution(channels: int, to: int, *, pool: bool = False) -> list[nn.Module]:
    """Convolution, batch norm and ReLU; pooling comes before the batch norm, which then has fewer pixels."""
    return [
        nn.Conv2d(channels, to, 3, padding=1, bias=False),
        *([nn.MaxPool2d(2)] if pool else []),
        nn.BatchNorm2d(to),
        nn.ReLU(),
    ]


def make_network(name: str, shape: Sequence[int], widths: Sequence[int], *, start: float = 0.0) -> nn.Module:
    """An untrained network of this library for rows of a shape."""
    if name == "resnet9":
        return ResNet9(shape, widths[0], start=start)
    return perceptron(shape, widths, start=start)


def make_module(module: MakesModule, seed: int = 0) -> nn.Module:
    """A copy of the user's module, or a new one from the user's function, with seeded weights."""
    if isinstance(module, nn.Module):
        return deepcopy(module)
    with private_random(seed, torch.device("cpu")):
        made = module()
    if not isinstance(made, nn.Module):
        raise ParameterError(f"module must make a torch.nn.Module, got {type(made).__name__}.")
    return made


@torch.no_grad()
def outputs(
    module: nn.Module, X: Rows, *, scaling: Scaling | None, views: str | None, dtype: str = "float32"
) -> FloatArray:
    """The outputs of a network in float64, one for each row."""
    torch_threads_here()
    weight = next(module.parameters())
    at_once = rows_at_once(X.shape[1:], weight.device)
    parts = []
    with precision(dtype, weight.device):
        for start in range(0, X.shape[0], at_once):
            rows = X[start : start + at_once]
            batch = as_tensor(rows if scaling is None else scaling.softly_clipped(rows))
            batch = as_floats(batch.to(weight.device), weight.dtype)
            scores = [module(view(batch)).reshape(-1).double() for view in views_of(views)]
            parts.append(torch.stack(scores).mean(0).cpu())
    return np.asarray(torch.cat(parts).numpy(), dtype=np.float64)
