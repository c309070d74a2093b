"""save and load: one file, written whole or not at all, and nothing in it that can run."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import safetensors.numpy

from drpu._output import output_file
from drpu.artifact.manifest import digest, flatten, read_manifest, unflatten, write_manifest
from drpu.artifact.protect import protect
from drpu.estimators.states import classifier_from_state, classifier_state, keeps_rows
from drpu.exceptions import ArtifactError, MissingExtraError

__all__ = ["load", "save"]

MANIFEST = "manifest.json"
ARRAYS = "arrays.safetensors"
BLOBS = "blobs/"


def save(
    classifier: Any,
    path: str | os.PathLike[str],
    *,
    keep_rows: bool = False,
    levels: int | None = None,
    epsilon: float | None = None,
    random_state: int | None = None,
) -> None:
    """Write a fitted classifier to ``path``, without training rows and without pickle.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier
        Fitted.
    path : path-like
        Written exactly as given. The file appears whole or not at all.
    keep_rows : bool, default=False
        Whether a model that is made of training rows may be written with them: nearest
        neighbours, support vectors, kernels centred on rows.
    levels : int, optional
        Keep at most this many levels instead of the score of every held-out positive.
        Curves are then off by at most ``2 / levels``; 100 costs next to nothing.
    epsilon : float, optional
        Keep noisy counts instead, with differential privacy: adding or removing a row
        changes the chance of any outcome by a factor of at most ``exp(epsilon)``, given
        the model. Each such save spends ``epsilon`` again.
    random_state : int, optional
        Seed of that noise, for experiments only: whoever knows it can take the noise off.

    See Also
    --------
    load : Read it back, another day or on another machine.

    Notes
    -----
    The file is a zip archive of a JSON manifest, numeric arrays (safetensors) and the
    backends' own texts (LightGBM) or archives (skops). It holds the scores of the
    held-out positives, which adaptation needs, unless ``levels`` or ``epsilon`` is given;
    the manifest then says what was done. Neither covers the model itself: trees and
    weights are learnt from the rows and written as they are.

    Examples
    --------
    >>> import tempfile, os
    >>> from drpu import DRPUClassifier, load, make_gaussian_pu, save
    >>> X, y = make_gaussian_pu(200, 500, prior=0.4, separation=3, random_state=0).X_y()
    >>> clf = DRPUClassifier("kernel", random_state=0).fit(X, y)
    >>> path = os.path.join(tempfile.mkdtemp(), "toy.drpu")
    >>> save(clf, path)
    >>> load(path).prior_ == clf.prior_
    True
    """
    state = classifier_state(protect(classifier, levels=levels, epsilon=epsilon, random_state=random_state))
    if not keep_rows and keeps_rows(classifier):
        raise ArtifactError(
            "the model is made of training rows and would be written with them. Choose one that is not "
            "(kernel, boosted, network, trees, linear), or allow it by name: save(..., keep_rows=True)."
        )
    tree, arrays, blobs = flatten(state)
    parts = {ARRAYS: safetensors.numpy.save(arrays)} | {BLOBS + name: blob for name, blob in blobs.items()}
    _write_archive(Path(path), {MANIFEST: write_manifest(tree, parts)} | parts)


def load(path: str | os.PathLike[str], *, module: Any = None) -> Any:
    """The classifier that :func:`save` wrote.

    Parameters
    ----------
    path : path-like
        The file.
    module : callable, optional
        Makes the torch module of a network that you wrote; its weights are in the file,
        its code is not.

    Returns
    -------
    classifier : DRPUClassifier or AdaptedClassifier

    Raises
    ------
    ArtifactError
        Whatever is wrong with the file: foreign, truncated, changed, or newer.
    """
    with open(path, "rb") as file:
        try:
            tree, arrays, blobs = _read_parts(file)
            return classifier_from_state(unflatten(tree, arrays, blobs), module=module)
        except (ArtifactError, MissingExtraError):
            raise
        except Exception as error:  # whatever a damaged file provokes in a parser
            raise ArtifactError(f"{os.fspath(path)!r} cannot be read as a drpu artifact: {error}") from error


def _read_parts(file: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, bytes]]:
    with zipfile.ZipFile(file) as archive:
        names = set(archive.namelist())
        if MANIFEST not in names:
            raise ArtifactError("this file was not written by drpu.save.")
        manifest = read_manifest(archive.read(MANIFEST))
        if names != {MANIFEST, *manifest["parts"]}:
            raise ArtifactError("the parts of the artifact are not those that its manifest names.")
        parts = {}
        for name, entry in manifest["parts"].items():
            part = archive.read(name)
            if digest(part) != entry["sha256"]:
                raise ArtifactError(
                    f"part {name!r} of the artifact has been changed: its digest does not match."
                )
            parts[name] = part
    arrays = safetensors.numpy.load(parts.pop(ARRAYS))
    return manifest["state"], arrays, {name.removeprefix(BLOBS): part for name, part in parts.items()}


def _write_archive(path: Path, parts: dict[str, bytes]) -> None:
    with output_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            # A fixed date: the same classifier gives the same bytes.
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
