"""Residual networks that first learn from images without labels.

A network learns to find the other random view of an image among the views of many images. The features that
it needs for this often differ between classes, and they are learned from all rows, not only from the labelled
ones.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from drpu.networks.augment import Augment, resampled
from drpu.networks.function import pixel_range
from drpu.networks.loop import as_floats, as_tensor, count_steps, pick_device, precision, private_random
from drpu.networks.modules import ResNet9

__all__ = ["Pretraining", "contrast", "pretrained", "view"]

SMALLEST = 0.6  # side of the smallest part of an image that a view shows
CHANGE = 0.5  # limit of the logarithms of gain and exponent
TEMPERATURE = 0.2
EMBEDDED_SIZE = 128
RATE = 2e-3
WEIGHT_DECAY = 0.05


@dataclass(frozen=True, slots=True)
class Pretraining:
    """Settings of a training without labels."""

    epochs: int
    batch_size: int
    seed: int
    augment: Augment | None = None
    dtype: str = "float32"
    device: Any = "auto"


def pretrained(network: ResNet9, rows: Any, settings: Pretraining) -> ResNet9:
    """A copy of ``network``, trained to find the other random view of an image among views of many.

    Only the convolutions change; a small network behind them is not kept. See :func:`view` for the views and
    :func:`contrast` for the loss.
    """
    device = pick_device(settings.device)
    pixels = as_tensor(rows).to(device)
    limits = pixel_range(rows, "resnet9")
    n_steps = count_steps(len(rows), settings.batch_size)
    with (
        private_random(settings.seed, device),
        precision(settings.dtype, device),
    ):
        trained = deepcopy(network).to(device).train()
        head = _head(trained.last.in_features).to(device)
        weights = [*trained.layers.parameters(), *head.parameters()]
        optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=WEIGHT_DECAY, fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=settings.epochs * n_steps)
        for _ in range(settings.epochs):
            for batch in torch.randperm(len(rows), device=device).tensor_split(n_steps):
                images = as_floats(pixels[batch], torch.float32)
                first_view = view(images, settings.augment, limits)
                second_view = view(images, settings.augment, limits)
                features = trained.features(torch.cat([first_view, second_view])).float()
                with torch.autocast(device.type, enabled=False):
                    loss = contrast(head(features))
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
                schedule.step()
    return trained.cpu().eval()


def _head(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, EMBEDDED_SIZE)
    )


def view(images: Tensor, augment: Augment | None, limits: tuple[float, float]) -> Tensor:
    """A random part of each image in full size, changed by ``augment``, brightness and contrast.

    Each channel of an image has its own gain and exponent, for pixels between 0 and 1.
    """
    n = len(images)
    device = images.device
    side = torch.empty(n, 1, device=device).uniform_(SMALLEST, 1)
    matrix = torch.zeros(n, 2, 3, device=device)
    matrix[:, 0, 0] = side[:, 0]
    matrix[:, 1, 1] = side[:, 0]
    matrix[:, :, 2] = (1 - side) * torch.empty(n, 2, device=device).uniform_(-1, 1)
    parts = resampled(images, matrix)
    if augment is not None:
        parts = augment(parts)

    low, high = limits
    spread = max(high - low, 1e-6)
    pixels = parts.reshape(n, -1, *images.shape[-2:])
    logs = torch.empty(2, n, pixels.shape[1], 1, 1, device=device).uniform_(-CHANGE, CHANGE)
    gain, exponent = logs.exp()
    changed: Tensor = gain * ((pixels - low) / spread).clamp(0, 1) ** exponent
    return (low + spread * changed).view(images.shape)


def contrast(outputs: Tensor) -> Tensor:
    """Mean cross-entropy of finding, for each view, the other view of its image among all others.

    The two halves of ``outputs`` are views of the same images. The probabilities are a softmax of
    the cosines between the outputs of two views, divided by the temperature.
    """
    unit = F.normalize(outputs, dim=1)
    alike = (unit @ unit.T / TEMPERATURE).fill_diagonal_(-math.inf)
    other = torch.arange(len(unit), device=unit.device).roll(len(unit) // 2)
    return F.cross_entropy(alike, other)
