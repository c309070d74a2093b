"""Random changes of images that do not change their class.

Each function takes a batch of images, (n, height, width) or (n, channels, height, width), and
returns a batch of the same shape. Random numbers come from torch's generator of the images' device,
which a training run seeds, and which a CUDA graph advances with every replay. Nothing here waits
for the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from drpu.exceptions import DataError, ParameterError

Augment: TypeAlias = Callable[[Tensor], Tensor]

# A side of an image, divided by these numbers, is:
SHIFT = 14  # the largest shift
CROP = 8  # the largest crop
HOLE = 4  # the side of the hole
# Limits of an affine change:
ANGLE = math.radians(12)
STRETCH = 0.12
SHEAR = 0.12


def shift(images: Tensor) -> Tensor:
    """Images moved by a few pixels; the border is repeated."""
    height, width = images.shape[-2:]
    rows = _offsets(images, height, SHIFT).clamp(0, height - 1)
    columns = _offsets(images, width, SHIFT).clamp(0, width - 1)
    return _pick(images, rows, columns)


def crop(images: Tensor) -> Tensor:
    """Images moved by up to an eighth of their side; the border is reflected."""
    height, width = images.shape[-2:]
    rows = _reflected(_offsets(images, height, CROP), height)
    columns = _reflected(_offsets(images, width, CROP), width)
    return _pick(images, rows, columns)


def flip(images: Tensor) -> Tensor:
    """Half of the images, mirrored left to right."""
    mirrored = torch.rand(len(images), device=images.device) < 0.5
    return torch.where(mirrored.view(-1, *[1] * (images.ndim - 1)), images.flip(-1), images)


def cutout(images: Tensor) -> Tensor:
    """Images with a square, a quarter of their side long, replaced by the mean of the image."""
    height, width = images.shape[-2:]
    n = len(images)
    hole_rows = _in_hole(height, n, images.device)
    hole_columns = _in_hole(width, n, images.device)
    hole = hole_rows[:, :, None] & hole_columns[:, None, :]
    channels = images.reshape(n, -1, height, width)
    mean = channels.mean((2, 3), keepdim=True)
    return torch.where(hole[:, None], mean, channels).view(images.shape)


def affine(images: Tensor) -> Tensor:
    """Images rotated, stretched, sheared and moved a little, by bilinear interpolation."""
    n = len(images)
    draw = 2 * torch.rand(6, n, device=images.device) - 1
    angle = ANGLE * draw[0]
    shear = SHEAR * draw[1]
    stretch_x = 1 + STRETCH * draw[2]
    stretch_y = 1 + STRETCH * draw[3]
    move_x = 2 * draw[4] / SHIFT
    move_y = 2 * draw[5] / SHIFT

    cos = angle.cos()
    sin = angle.sin()
    top = torch.stack([stretch_x * cos, shear - stretch_y * sin, move_x], dim=1)
    bottom = torch.stack([stretch_x * sin, stretch_y * cos, move_y], dim=1)
    return resampled(images, torch.stack([top, bottom], dim=1))


def resampled(images: Tensor, matrix: Tensor) -> Tensor:
    """Images at positions moved by an affine matrix each, by bilinear interpolation."""
    channels = images.reshape(len(images), -1, *images.shape[-2:])
    # positions need more bits than bfloat16 has
    with torch.autocast(images.device.type, enabled=False):
        grid = F.affine_grid(matrix.to(images.dtype), list(channels.shape), align_corners=False)
        moved = F.grid_sample(channels, grid, padding_mode="border", align_corners=False)
    return moved.view(images.shape)


AUGMENTATIONS: dict[str, Augment] = {
    "shift": shift,
    "crop": crop,
    "flip": flip,
    "cutout": cutout,
    "affine": affine,
}


def make_augment(augment: Any) -> Augment | None:
    """The function for a name, for names joined by hyphens, or for a function of the user."""
    if augment is None:
        return None
    if callable(augment):
        return _checked(augment)
    names = _names(augment)
    if not names or not set(names) <= AUGMENTATIONS.keys():
        raise ParameterError(
            f"augment must be None, a function of a batch of tensors, or one or more of "
            f"{', '.join(AUGMENTATIONS)} joined by hyphens, got {augment!r}."
        )

    def changed(images: Tensor) -> Tensor:
        if images.ndim not in (3, 4):
            raise DataError(
                f"augment={augment!r} changes images: rows must have shape (height, width) or "
                f"(channels, height, width), got {tuple(images.shape[1:])}. Reshape the rows, or "
                "pass a function of your own."
            )
        for name in names:
            images = AUGMENTATIONS[name](images)
        return images

    return changed


def _names(augment: Any) -> list[str]:
    """The names in a text, joined by hyphens; none for a function of the user."""
    return augment.split("-") if isinstance(augment, str) else []


def _checked(augment: Callable[[Tensor], Any]) -> Augment:
    """A user's function, held to the shape of its input."""

    def changed(images: Tensor) -> Tensor:
        changed_images = augment(images)
        if isinstance(changed_images, Tensor) and changed_images.shape == images.shape:
            return changed_images.to(images)
        shape: Any = type(changed_images).__name__
        if isinstance(changed_images, Tensor):
            shape = tuple(changed_images.shape)
        raise ParameterError(
            f"augment must return a tensor of the shape of its input, {tuple(images.shape)}, "
            f"got {shape}."
        )

    return changed


def _offsets(images: Tensor, side: int, share: int) -> Tensor:
    """Positions 0 to side - 1, moved by up to a share of the side, a line for each image."""
    most = max(1, round(side / share))
    moved = torch.randint(-most, most + 1, (len(images), 1), device=images.device)
    return moved + torch.arange(side, device=images.device)


def _reflected(positions: Tensor, side: int) -> Tensor:
    inside = (side - 1) - (positions.abs() - (side - 1)).abs()
    return inside.clamp(0, side - 1)


def _pick(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Pixels at the given rows and columns of each image."""
    height, width = images.shape[-2:]
    channels = images.reshape(len(images), -1, height * width)
    flat = (rows[:, :, None] * width + columns[:, None, :]).view(len(images), 1, -1)
    return channels.gather(2, flat.expand(channels.shape)).view(images.shape)


def _in_hole(side: int, n: int, device: torch.device) -> Tensor:
    """Which of the positions 0 to side - 1 are near a random centre, a line for each image."""
    size = max(1, side // HOLE)
    first = torch.randint(0, side, (n, 1), device=device) - size // 2
    positions = torch.arange(side, device=device)
    return (positions >= first) & (positions < first + size)
