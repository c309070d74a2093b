"""The networks of the paper, as in its code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from drpu.networks.modules import START, ResNet9
from paper.pooling import MaxPool2

__all__ = ["CifarNet", "LeNet", "make_network", "mlp", "residual_network"]


def mlp(batch_norm: bool = True, width: int = 300) -> nn.Module:
    """Perceptron with layers of 784, 300, 300, 300 and 1 units, for rows of pixels."""
    layers: list[nn.Module] = [nn.Flatten()]
    for n_in in (784, width, width):
        layers += [nn.Linear(n_in, width), *([nn.BatchNorm1d(width)] if batch_norm else []), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


class LeNet(nn.Sequential):
    """Three 5x5 convolutions and two dense layers, for grey images of 28x28 pixels."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 6, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
            nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU(),
            nn.Conv2d(16, 120, 5), nn.ReLU(), nn.Flatten(),
            nn.Linear(120, 84), nn.BatchNorm1d(84), nn.ReLU(), nn.Linear(84, 1),
        )  # fmt: skip


class CifarNet(nn.Module):
    """Five convolutions and two dense layers, for colour images of 32x32 pixels, channels first.

    On a GPU the memory format is channels last, which is faster. The convolutions have no bias,
    because the batch norm after them would remove it. The last layer is computed in full precision,
    because priors are estimated from the order of its outputs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 96, 5, padding=2, bias=False), MaxPool2(), nn.BatchNorm2d(96), nn.ReLU(),
            nn.Conv2d(96, 192, 5, padding=2, bias=False), MaxPool2(), nn.BatchNorm2d(192), nn.ReLU(),
            nn.Conv2d(192, 192, 3, padding=1, bias=False), nn.BatchNorm2d(192), nn.ReLU(),
            nn.Conv2d(192, 192, 1, bias=False), nn.BatchNorm2d(192), nn.ReLU(),
            nn.Conv2d(192, 10, 1, bias=False), nn.BatchNorm2d(10), nn.ReLU(), nn.Flatten(),
            nn.Linear(640, 100), nn.ReLU(),
        )  # fmt: skip
        self.last = nn.Linear(100, 1)

    def forward(self, rows: Tensor) -> Tensor:
        """One output for each row."""
        if rows.is_cuda:
            rows = rows.contiguous(memory_format=torch.channels_last)
        hidden = self.features(rows)
        with torch.autocast(rows.device.type, enabled=False):
            output: Tensor = self.last(hidden.to(self.last.weight.dtype))
        return output


def make_network(name: str, *, batch_norm: bool = True) -> Callable[[], nn.Module]:
    """A function that returns a new network called ``name``."""
    made: dict[str, Callable[[], nn.Module]] = {
        "mlp": partial(mlp, batch_norm),
        "lenet": LeNet,
        "cifar": CifarNet,
    }
    return made[name]


def residual_network(rows: Any, width: int) -> Callable[[], nn.Module]:
    """A function that returns the library's residual network for images, with faster pooling on a GPU."""

    def make() -> nn.Module:
        network = ResNet9(rows.shape[1:], width, start=START["softplus"])
        network.standardise(rows)
        for i, layer in enumerate(network.layers):
            if isinstance(layer, nn.MaxPool2d):
                network.layers[i] = MaxPool2()
        return network

    return make
