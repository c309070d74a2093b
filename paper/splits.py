"""Which rows each trial learns from, holds out and is tested on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from drpu.datasets import load_image_set
from drpu.exceptions import DataError
from paper.configs import TEST_PRIORS, Benchmark

__all__ = ["Images", "Split", "is_reduced", "load_images", "split"]

Index = npt.NDArray[np.int64]
REDUCED = 7000  # of the 10,000 test images; the others test


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """Images as networks take them, floats in [0, 1] with colours first, and their classes."""

    train: npt.NDArray[np.float32]
    train_classes: npt.NDArray[np.uint8]
    test: npt.NDArray[np.float32]
    test_classes: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Row numbers of one trial.

    ``positive`` and ``unlabeled`` are pairs (to train, to hold out) of rows of the training
    images; ``tests`` has rows of the test images by test prior.
    """

    positive: tuple[Index, Index]
    unlabeled: tuple[Index, Index]
    tests: dict[float, Index]


def is_reduced(dataset: str, folder: str | Path | None) -> bool:
    """Whether only the test images of ``dataset`` are in the folder."""
    return (
        folder is not None
        and not (Path(folder) / f"{dataset}.npz").is_file()
        and (Path(folder) / f"{dataset}-test.npz").is_file()
    )


def load_images(data: Benchmark, folder: str | Path | None = None) -> Images:
    """The images of a data set from ``folder``, or from OpenML."""
    if data.protocol == "reduced":
        if folder is None:
            raise DataError(f"the reduced protocol reads {data.name}-test.npz: give its folder as --data.")
        with np.load(Path(folder) / f"{data.name}-test.npz") as arrays:
            x, y = arrays["x_test"], arrays["y_test"]
        order = np.random.default_rng(0).permutation(len(y))
        x, y = x[order], y[order]
        cut = min(REDUCED, len(y) * 7 // 10)
        return Images(_floats(x[:cut]), y[:cut], _floats(x[cut:]), y[cut:])
    try:
        found = load_image_set(data.name, data_dir=folder)
    except DataError as error:
        raise DataError(f"{error} Here the folder is given as --data.") from error
    return Images(_floats(found.x_train), found.y_train, _floats(found.x_test), found.y_test)


def split(
    data: Benchmark,
    images: Images,
    trial: int,
    *,
    n_positive: int | None = None,
    priors: Sequence[float] = TEST_PRIORS,
) -> Split:
    """The rows of one trial, as the authors' code draws them.

    The unlabeled rows are a division of the training images, and the labelled positives are
    drawn from the positives among them: 60,000 images do not hold 63,000 distinct rows.
    For a test prior one class is thinned out, and the first rows in random order stand.
    """
    rng = np.random.default_rng([trial, 20_210])
    is_positive = np.isin(images.train_classes, data.positive)
    sizes = data.n_unlabeled
    order = rng.permutation(len(is_positive))
    if sum(sizes) > len(order):
        raise DataError(f"{data.name} must have at least {sum(sizes)} training images, got {len(order)}.")
    unlabeled = order[: sizes[0]], order[sizes[0] : sum(sizes)]
    wanted = n_positive or data.n_positive[0], data.n_positive[1]
    positive = tuple(
        rng.choice(rows[is_positive[rows]], n, replace=False)
        for rows, n in zip(unlabeled, wanted, strict=True)
    )
    of_test = np.isin(images.test_classes, data.positive)
    tests = {prior: _at_prior(of_test, prior, data.n_test, rng) for prior in priors}
    return Split((positive[0], positive[1]), unlabeled, tests)


def _at_prior(is_positive: npt.NDArray[np.bool_], prior: float, n: int, rng: np.random.Generator) -> Index:
    """All rows of one class, as many of the other as the prior asks for; the first ``n`` of them."""
    positive, negative = (rng.permutation(np.flatnonzero(mask)) for mask in (is_positive, ~is_positive))
    odds = prior / (1 - prior)
    if len(positive) > odds * len(negative):
        positive = positive[: round(odds * len(negative))]
    else:
        negative = negative[: round(len(positive) / odds)]
    return rng.permutation(np.concatenate([positive, negative]))[:n]


def _floats(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    rows = images.astype(np.float32) / np.float32(255)
    return np.ascontiguousarray(np.moveaxis(rows, -1, 1)) if rows.ndim == 4 else rows[:, None]
