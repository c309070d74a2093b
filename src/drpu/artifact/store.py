"""save and load: a classifier as one file that contains no code."""

from __future__ import annotations

import os
import sys
from typing import Any

import safetensors.numpy
import sklearn
from sklearn.pipeline import Pipeline

from drpu._checks import check_integer
from drpu._output import output_file
from drpu._state import ModelState
from drpu.artifact.container import (
    ARRAYS,
    BLOBS,
    MANIFEST,
    MAX_BYTES,
    open_container,
    read_bytes,
    write_container,
)
from drpu.artifact.contents import contents, kept_values
from drpu.artifact.manifest import (
    check_parts,
    flatten,
    read_manifest,
    unflatten,
    write_manifest,
    written_with,
)
from drpu.artifact.protect import protect
from drpu.artifact.schemas import upgrade
from drpu.artifact.trial import compare, own_module, try_out
from drpu.artifact.values import with_profiles, with_values
from drpu.estimators.outer import pipeline_state
from drpu.estimators.states import classifier_from_state, classifier_state
from drpu.exceptions import ArtifactError, MissingExtraError

__all__ = ["MANIFEST", "load", "read_state", "save"]

_DTYPES = frozenset(
    {
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
        "uint16",
        "uint32",
        "uint64",
    }
)


def save(
    classifier: Any,
    path: str | os.PathLike[str],
    *,
    keep_rows: bool = False,
    column_values: str | None = None,
    rare_values: int | None = None,
    column_profiles: bool = True,
    levels: int | None = None,
    epsilon: float | None = None,
    random_state: int | None = None,
) -> None:
    """Write a fitted classifier to ``path``, without training rows and without pickle.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier, or a pipeline that ends in one
        Fitted. Steps of a pipeline that cannot be read back safely are refused by name.
    path : path-like
        The file to write, with exactly this name. It appears complete or not at all.
    keep_rows : bool, default=False
        Whether a model that contains training rows may be written: nearest neighbours, support
        vectors, kernels centred on rows, encoders with the values of columns.
    column_values : {"keep", "hash"}, optional
        How to write the levels of categories in a table, which are values of the data: unchanged
        (``keep``), or as salted digests (``hash``), which hide long values but not those that can be
        guessed. By default they are written unchanged, with a warning that names the columns.
    rare_values : int, optional
        Leave out levels with fewer training rows than this; in new rows they count as rare. Levels
        with fewer than five rows are never kept.
    column_profiles : bool, default=True
        Whether to write the counts of training rows in a few ranges of each column, from which
        ``adapt`` finds the columns that changed. They are never written with ``epsilon``.
    levels : int, optional
        Keep at most this many levels instead of the score of every held-out positive. This changes
        curves by at most ``2 / levels``; with 100 the effect on results is small.
    epsilon : float, optional
        Keep noisy counts instead, with differential privacy: adding or removing a row
        changes the probability of any outcome by a factor of at most ``exp(epsilon)``, given
        the model. Each such save uses a budget of ``epsilon``.
    random_state : int, optional
        Seed of that noise, for experiments only: anyone who knows it can subtract the noise.

    See Also
    --------
    load : Reads the file, also on another machine.

    Notes
    -----
    The file is a zip archive of a JSON manifest, numeric arrays (safetensors) and the
    backends' own texts (LightGBM) or archives (skops). It holds the scores of the
    held-out positives, which adaptation needs, unless ``levels`` or ``epsilon`` is given;
    the manifest then describes the reduction. Neither protects the model itself: trees and
    weights are learnt from the rows and written unchanged.

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
    pipeline, last = (classifier, classifier[-1]) if isinstance(classifier, Pipeline) else (None, classifier)
    protected = protect(last, levels=levels, epsilon=epsilon, random_state=random_state)
    protected = with_values(protected, column_values, rare_values)
    protected = with_profiles(protected, column_profiles)
    state = classifier_state(protected)
    kept = kept_values(last) if last.keeps_rows else {}
    if pipeline is not None:
        state = pipeline_state(pipeline, state)
        kept = kept | state.config["kept"]
    if not keep_rows and kept:
        raise ArtifactError(_refusal(kept))
    tree, arrays, blobs = flatten(state)
    parts = {ARRAYS: safetensors.numpy.save(arrays)} | {BLOBS + name: blob for name, blob in blobs.items()}
    manifest = write_manifest(tree, parts, contents(protected, state))
    with output_file(path) as file:
        write_container(file, {MANIFEST: manifest} | parts)
        file.seek(0)
        again = _load(file.read(), os.fspath(path), own_module(last), sys.maxsize)
        compare(try_out(protected), try_out(again if pipeline is None else again[-1]))


def _refusal(kept: dict[str, str]) -> str:
    named = "; ".join(f"{part} ({values})" for part, values in kept.items())
    return (
        f"the model keeps values of its training rows, which would be written: {named}. Choose a model that "
        "does not (kernel, boosted, network, trees, linear), or allow it by name: save(..., keep_rows=True)."
    )


def load(
    path: str | os.PathLike[str],
    *,
    module: Any = None,
    max_bytes: int = MAX_BYTES,
    expected_sha256: str | None = None,
) -> Any:
    """The classifier that :func:`save` wrote.

    Parameters
    ----------
    path : path-like
        The file.
    module : callable, optional
        Returns the torch module of a custom network. The file contains its weights, but not its
        code.
    max_bytes : int, default=1073741824
        Maximum size in bytes of the file, and of its content after decompression.
    expected_sha256 : str, optional
        SHA-256 digest that the file must have, in hexadecimal. The digests in the file
        itself detect accidental damage only: anyone who changes a part can change its digest.

    Returns
    -------
    classifier : DRPUClassifier or AdaptedClassifier

    Raises
    ------
    ArtifactError
        If the file is not an artifact, or is truncated, changed, too large, or too new.

    See Also
    --------
    verify : The same checks without making a classifier.
    """
    content = read_bytes(path, max_bytes=_checked_size(max_bytes), expected_sha256=expected_sha256)
    return _load(content, os.fspath(path), module, max_bytes)


def _load(content: bytes, name: str, module: Any, max_bytes: int) -> Any:
    manifest: dict[str, Any] = {}
    try:
        manifest, state = read_state(content, max_bytes=max_bytes)
        classifier = classifier_from_state(state, module=module)
        try_out(classifier[-1] if isinstance(classifier, Pipeline) else classifier)
        return classifier
    except MissingExtraError:
        raise
    except Exception as error:  # a damaged file can cause any error; errors of drpu keep their messages
        newer = _newer(manifest)
        if isinstance(error, ArtifactError) and not newer:
            raise
        raise ArtifactError(f"{name!r} cannot be read as a drpu artifact: {error!s:.500}{newer}") from error


def read_state(content: bytes, *, max_bytes: int = MAX_BYTES) -> tuple[dict[str, Any], ModelState]:
    """Manifest and state of an artifact, from its bytes."""
    parts = open_container(content, max_bytes=max_bytes)
    manifest = read_manifest(parts.pop(MANIFEST))
    check_parts(manifest, parts)
    arrays = _read_arrays(parts.pop(ARRAYS, b""))
    blobs = {name.removeprefix(BLOBS): part for name, part in parts.items()}
    return manifest, upgrade(unflatten(manifest.get("state"), arrays, blobs), manifest["schema"])


def _read_arrays(part: bytes) -> dict[str, Any]:
    try:
        arrays: dict[str, Any] = safetensors.numpy.load(part)
    except Exception as error:  # an error of safetensors, or of NumPy for a type that NumPy does not have
        raise ArtifactError(f"the arrays of the artifact cannot be read: {error!s:.200}") from error
    for name, array in arrays.items():
        if array.dtype.name not in _DTYPES:
            raise ArtifactError(f"array {name[:100]!r} of the artifact must be numeric, got {array.dtype}.")
    return arrays


def _checked_size(max_bytes: int) -> int:
    return check_integer("max_bytes", max_bytes, low=1)


def _newer(manifest: dict[str, Any]) -> str:
    """A hint if the file was written with a newer scikit-learn than the installed one."""
    here, there = sklearn.__version__, written_with(manifest, "scikit-learn")
    if not there[:1].isdigit() or _numbers(there) <= _numbers(here):
        return ""
    return f" (it was written with scikit-learn {there}, this is {here}: upgrade scikit-learn)"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
