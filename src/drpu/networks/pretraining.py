"""Training of a residual network without labels: it learns which views show the same image."""

from __future__ import annotations

import math
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from drpu._progress import progress, progress_bar
from drpu._typing import Rows
from drpu.networks.augment import Augment, resampled
from drpu.networks.device import pick_device, precision, private_random
from drpu.networks.function import pixel_range
from drpu.networks.loop import as_floats, as_tensor, count_steps
from drpu.networks.modules import ResNet9

SMALLEST = 0.6  # side of the smallest part of an image that a view shows
CHANGE = 0.5  # limit of the logarithms of gain and exponent
TEMPERATURE, OUTPUTS = 0.2, 128
RATE, WEIGHT_DECAY = 2e-3, 0.05


def pretrained(
    network: ResNet9, rows: Rows, epochs: int, *, batch_size: int, augment: Augment | None, seed: int,
    dtype: str = "float32", device: str | torch.device = "auto", verbose: int = 0,
) -> ResNet9:  # fmt: skip
    """A copy of ``network``, trained to find the other random view of an image among the views of many.

    The features that it needs for this often differ between classes, and they are learned from all rows, not
    only from the labelled ones. Only the convolutions change; a small network behind them is not kept.
    See :func:`view` for the views and :func:`contrast` for the loss.
    """
    place = pick_device(device)
    pixels, limits = as_tensor(rows).to(place), pixel_range(rows, "resnet9")
    steps = count_steps(len(rows), batch_size)
    with private_random(seed, place), precision(dtype, place), progress_bar("pretraining", show=verbose):
        trained = deepcopy(network).to(place).train()
        width = trained.last.in_features
        head = nn.Sequential(
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, OUTPUTS)
        ).to(place)
        weights = [*trained.layers.parameters(), *head.parameters()]
        optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=WEIGHT_DECAY, fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=epochs * steps)
        for _ in progress(range(epochs), total=epochs):
            for part in torch.randperm(len(rows), device=place).tensor_split(steps):
                images = as_floats(pixels[part], torch.float32)
                views = torch.cat([view(images, augment, limits) for _ in range(2)])
                features = trained.features(views).float()
                with torch.autocast(place.type, enabled=False):
                    loss = contrast(head(features))
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
                schedule.step()
    return trained.cpu().eval()


def view(images: Tensor, augment: Augment | None, limits: tuple[float, float]) -> Tensor:
    """A random part of each image in full size, changed by ``augment``, with other brightness and contrast.

    Each channel of an image has its own gain and exponent, for pixels between 0 and 1.
    """
    n, low, spread = len(images), limits[0], max(limits[1] - limits[0], 1e-6)
    side = torch.empty(n, 1, device=images.device).uniform_(SMALLEST, 1)
    matrix = torch.zeros(n, 2, 3, device=images.device)
    matrix[:, 0, 0] = matrix[:, 1, 1] = side[:, 0]
    matrix[:, :, 2] = (1 - side) * torch.empty(n, 2, device=images.device).uniform_(-1, 1)
    shown = resampled(images, matrix)
    if augment is not None:
        shown = augment(shown)
    pixels = shown.reshape(n, -1, *images.shape[-2:])
    logs = torch.empty(2, n, pixels.shape[1], 1, 1, device=images.device).uniform_(-CHANGE, CHANGE)
    gain, exponent = logs.exp()
    changed: Tensor = gain * ((pixels - low) / spread).clamp(0, 1) ** exponent
    return (low + spread * changed).view(images.shape)


def contrast(outputs: Tensor) -> Tensor:
    """Mean cross-entropy of finding, for each view, the other view of its image among all others.

    The two halves of ``outputs`` are views of the same images. The probabilities are a softmax of the
    cosines between the outputs of two views, divided by the temperature.
    """
    unit = F.normalize(outputs, dim=1)
    alike = (unit @ unit.T / TEMPERATURE).fill_diagonal_(-math.inf)
    other = torch.arange(len(unit), device=unit.device).roll(len(unit) // 2)
    return F.cross_entropy(alike, other)
