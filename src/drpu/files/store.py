"""A test of saved and loaded classifiers: they must score two artificial rows."""

from __future__ import annotations

import math
import os
import sys
import warnings
from typing import Any

import numpy as np
import safetensors.numpy
import sklearn
from sklearn.pipeline import Pipeline

from drpu._checks import check_integer
from drpu._output import output_file
from drpu._state import ModelState
from drpu._typing import FloatArray
from drpu.classifier.pipelines import classifier_from_state, classifier_state, pipeline_state
from drpu.exceptions import ArtifactError, MissingExtraError
from drpu.files.container import (
    ARRAYS,
    BLOBS,
    MANIFEST,
    MAX_BYTES,
    open_container,
    read_bytes,
    write_container,
)
from drpu.files.manifest import (
    check_parts,
    flatten,
    read_manifest,
    unflatten,
    upgrade,
    write_manifest,
    written_with,
)
from drpu.files.protect import contents, kept_values, protect, with_profiles, with_values

__all__ = ["MANIFEST", "compare", "load", "own_module", "read_state", "save", "try_out"]

MOST_VALUES = 1_000_000  # most values of an artificial row; longer rows are not made
_CLOSE = 1e-3  # networks may be loaded to another device than they were saved from


def try_out(classifier: Any) -> FloatArray | None:
    """Scores of two artificial rows; raises ``ArtifactError`` if the classifier cannot score them.

    None if such rows cannot be made: for tables with names, and for very long rows.
    """
    model = _model(classifier)
    shape = model.row_shape
    if model.accepts_frames or math.prod(shape) > MOST_VALUES:
        return None
    table = classifier.table_
    if not hasattr(classifier, "fitted_") and table is not None and not table.plain:
        return None  # a classifier of tables does not accept encoded rows
    rows = np.stack([np.zeros(shape), np.ones(shape)])
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            scores = _scores(classifier, rows)
    except Exception as error:  # a backend can raise any error if parts do not fit together
        raise ArtifactError(f"the classifier cannot score rows: {error!s:.300}") from error
    if scores.shape[0] != 2 or not np.isfinite(scores).all():
        raise ArtifactError("the classifier cannot score rows: its scores must be finite, one for each row.")
    return scores


def _scores(classifier: Any, rows: FloatArray) -> FloatArray:
    if not hasattr(classifier, "fitted_"):
        return np.asarray(classifier.decision_function(rows), dtype=np.float64)
    fitted = classifier.fitted_
    scores = np.asarray(fitted.model.scores(rows), dtype=np.float64)
    if not np.isfinite(fitted.log_ratio(rows)).all():
        raise ArtifactError("its calibrated ratios must be finite.")
    # Raises if a cost or a prior among the parameters violates its rule; the threshold may be infinite.
    _ = classifier.cost_, classifier.test_prior_, classifier.threshold_
    return scores


def compare(before: FloatArray | None, after: FloatArray | None) -> None:
    """Raise unless the classifier read from the file has the same scores as the one that was written."""
    if before is None or after is None:
        return
    if before.shape != after.shape or not np.allclose(before, after, rtol=_CLOSE, atol=_CLOSE):
        raise ArtifactError(
            "the written file does not reproduce the scores of the classifier, so nothing was saved."
        )


def own_module(classifier: Any) -> Any:
    """The torch module that the user gave to the classifier, or None."""
    return getattr(getattr(_model(classifier), "model", None), "module", None)


def _model(classifier: Any) -> Any:
    if hasattr(classifier, "fitted_"):
        return classifier.fitted_.model.functions[0]
    return classifier.model_


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
