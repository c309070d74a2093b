"""Training, holdout and test rows of each trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drpu.exceptions import DataError
from paper.configs import TEST_PRIORS, Benchmark
from paper.image_sets import load_image_set

__all__ = ["Images", "Split", "in_folds", "is_reduced", "load_images", "no_shift", "split"]

Index = npt.NDArray[np.int64]
REDUCED = 7000  # of the 10,000 test images, used for training; the others are for testing


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """Images with channels first, and their classes.

    Pixels are floats in [0, 1], or 8-bit integers, which the library converts batch by batch.
    """

    train: npt.NDArray[Any]
    train_classes: npt.NDArray[np.uint8]
    test: npt.NDArray[Any]
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


def load_images(data: Benchmark, folder: str | Path | None = None, *, as_bytes: bool = False) -> Images:
    """The images of a data set from ``folder``, or from OpenML, as floats or as 8-bit integers."""
    arranged = _bytes if as_bytes else _floats
    if data.protocol == "reduced":
        if folder is None:
            raise DataError(f"the reduced protocol needs {data.name}-test.npz: give its folder as --data.")
        with np.load(Path(folder) / f"{data.name}-test.npz") as arrays:
            x, y = arrays["x_test"], arrays["y_test"]
        order = np.random.default_rng(0).permutation(len(y))
        x, y = x[order], y[order]
        cut = min(REDUCED, len(y) * 7 // 10)
        return Images(arranged(x[:cut]), y[:cut], arranged(x[cut:]), y[cut:])
    try:
        found = load_image_set(data.name, data_dir=folder)
    except DataError as error:
        raise DataError(f"{error} Here the folder is given as --data.") from error
    return Images(arranged(found.x_train), found.y_train, arranged(found.x_test), found.y_test)


def split(
    data: Benchmark,
    images: Images,
    trial: int,
    *,
    n_positive: int | None = None,
    priors: Sequence[float] = TEST_PRIORS,
) -> Split:
    """The rows of one trial, as the authors' code draws them.

    The training images are divided into training and holdout unlabeled rows. The labelled positives
    are drawn from the positives among them, because 60,000 images do not have 63,000 distinct rows. For
    each test prior rows of one class are removed, and the first rows in random order are kept.
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


def no_shift(data: Benchmark, images: Images, trial: int, n_positive: int) -> Split:
    """The rows of one trial with few labels, a fifth of which are held out.

    At the prior of the training rows all test images are used; the other test priors have the usual number.
    """
    held = n_positive // 5
    part = split(replace(data, n_positive=(n_positive - held, held)), images, trial)
    return replace(part, tests=part.tests | {data.prior: np.arange(len(images.test))})


def in_folds(part: Split, folds: int, trial: int) -> list[Split]:
    """The rows of a trial divided into folds, each of which is held out once; one fold is the trial itself.

    A labelled row is in the same fold as itself among the unlabeled rows.
    """
    if folds == 1:
        return [part]
    rng = np.random.default_rng([trial, folds])
    labelled = rng.permutation(np.concatenate(part.positive))
    others = rng.permutation(np.setdiff1d(np.concatenate(part.unlabeled), labelled))
    positive, rest = np.array_split(labelled, folds), np.array_split(others, folds)
    unlabeled = [np.concatenate(each) for each in zip(positive, rest, strict=True)]

    def divided(parts: Sequence[Index], held: int) -> tuple[Index, Index]:
        return np.concatenate([own for i, own in enumerate(parts) if i != held]), parts[held]

    return [Split(divided(positive, i), divided(unlabeled, i), part.tests) for i in range(folds)]


def _at_prior(is_positive: npt.NDArray[np.bool_], prior: float, n: int, rng: np.random.Generator) -> Index:
    """The first ``n`` of all rows of one class and as many rows of the other as the prior requires."""
    positive, negative = (rng.permutation(np.flatnonzero(mask)) for mask in (is_positive, ~is_positive))
    odds = prior / (1 - prior)
    if len(positive) > odds * len(negative):
        positive = positive[: round(odds * len(negative))]
    else:
        negative = negative[: round(len(positive) / odds)]
    return rng.permutation(np.concatenate([positive, negative]))[:n]


def _bytes(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(np.moveaxis(images, -1, 1)) if images.ndim == 4 else images[:, None]


def _floats(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    return _bytes(images).astype(np.float32) / np.float32(255)
