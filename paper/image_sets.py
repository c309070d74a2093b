"""Image sets from a local folder or from OpenML."""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drpu.exceptions import DataError, ParameterError

__all__ = ["IMAGE_SETS", "ImageSet", "image_digest", "load_image_set"]

Pixels = npt.NDArray[np.uint8]

_PARTS = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True, slots=True, eq=False)
class ImageSet:
    """Images and labels in the published order, as uint8.

    ``x_train``, ``x_test``: Images, uint8.
    ``y_train``, ``y_test``: Labels 0 to 9, uint8.
    """

    name: str
    x_train: Pixels = field(repr=False)
    y_train: Pixels = field(repr=False)
    x_test: Pixels = field(repr=False)
    y_test: Pixels = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Source:
    """The OpenML number, row shape, training size and digest of a data set."""

    openml: int
    stored: tuple[int, ...]
    n_train: int
    digest: str | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image. OpenML stores the colour axis first, here it is last."""
        return self.stored[1:] + self.stored[:1] if len(self.stored) == 3 else self.stored


IMAGE_SETS: dict[str, _Source] = {
    "mnist": _Source(
        554, (28, 28), 60_000, "06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16"
    ),
    "fashion_mnist": _Source(
        40996, (28, 28), 60_000, "ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f"
    ),
    "kmnist": _Source(41982, (28, 28), 60_000, None),
    "cifar10": _Source(
        40927, (3, 32, 32), 50_000, "80387ddb9a0edf3fc4a964ee3770296169bb26a651050df20035579673099660"
    ),
}


def load_image_set(name: str, *, data_dir: str | os.PathLike[str] | None = None) -> ImageSet:
    """MNIST, Fashion-MNIST, Kuzushiji-MNIST or CIFAR-10 ("mnist", "fashion_mnist", "kmnist", "cifar10").

    ``NAME.npz`` is read from the folder ``data_dir``, by default the environment variable ``DRPU_DATA``. A
    data set that is not there is fetched from OpenML with scikit-learn, which caches it. A digest verifies
    the values; none is known for ``kmnist``, so only shapes are checked. ``DataError`` is raised otherwise.
    """
    if name not in IMAGE_SETS:
        raise ParameterError(f"name must be one of {', '.join(map(repr, IMAGE_SETS))}, got {name!r}.")
    source = IMAGE_SETS[name]
    folder = data_dir if data_dir is not None else os.environ.get("DRPU_DATA")
    path = None if not folder else Path(folder) / f"{name}.npz"
    if path is not None and path.is_file():
        images, origin = _from_file(name, path), str(path)
    else:
        images, origin = _from_openml(name, source, path), f"OpenML data set {source.openml}"
    _check(images, source, origin)
    return images


def image_digest(images: ImageSet) -> str:
    """SHA-256 of the concatenated bytes of the four arrays."""
    digest = hashlib.sha256()
    for part in _PARTS:
        digest.update(np.ascontiguousarray(getattr(images, part)).data)
    return digest.hexdigest()


def _from_file(name: str, path: Path) -> ImageSet:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return ImageSet(name, *(arrays[part] for part in _PARTS))
    except (OSError, EOFError, KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} must be an npz file with {', '.join(_PARTS)}: {error}") from error


def _from_openml(name: str, source: _Source, path: Path | None) -> ImageSet:
    try:
        X, y = _fetch(source.openml)
        rows = np.asarray(X).reshape(-1, *source.stored).astype(np.uint8)
        labels = np.asarray(y).astype(np.uint8)
    # Errors of the network, the cache and the parser lead to the same advice.
    except (OSError, ImportError, ValueError, RuntimeError) as error:
        looked = "no data_dir is given and DRPU_DATA is not set" if path is None else f"{path} does not exist"
        raise DataError(
            f"{name} was not found: {looked}, and OpenML raised {type(error).__name__}: {error}. "
            f"Put {name}.npz with {', '.join(_PARTS)} in a folder and pass it as data_dir."
        ) from error
    images = np.ascontiguousarray(np.moveaxis(rows, 1, -1)) if rows.ndim == 4 else rows
    cut = source.n_train
    return ImageSet(name, images[:cut], labels[:cut], images[cut:], labels[cut:])


def _fetch(data_id: int) -> tuple[Any, Any]:
    from sklearn.datasets import fetch_openml

    X, y = fetch_openml(data_id=data_id, as_frame=False, return_X_y=True)
    return X, y


def _check(images: ImageSet, source: _Source, origin: str) -> None:
    for x, y in ((images.x_train, images.y_train), (images.x_test, images.y_test)):
        if x.shape != (len(y), *source.shape) or y.ndim != 1 or {x.dtype, y.dtype} != {np.dtype(np.uint8)}:
            raise DataError(
                f"{origin} must hold uint8 images of shape (n, {', '.join(map(str, source.shape))}) and n "
                f"labels, got {x.dtype} {x.shape} and {y.dtype} {y.shape}."
            )
    if source.digest is not None and (found := image_digest(images)) != source.digest:
        raise DataError(
            f"{origin} does not hold the published {images.name}: its digest is {found}, "
            f"not {source.digest}. Fetch it again, in the published order."
        )
