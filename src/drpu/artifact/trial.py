"""A test of saved and loaded classifiers: they must score two artificial rows."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from drpu._typing import FloatArray
from drpu.exceptions import ArtifactError

__all__ = ["compare", "own_module", "try_out"]

MOST_VALUES = 1_000_000  # most values of an artificial row; longer rows are not made
_CLOSE = 1e-3  # networks may be loaded to another device than they were saved from


def try_out(classifier: Any) -> FloatArray | None:
    """Scores of two artificial rows; raises ``ArtifactError`` if the classifier cannot score them.

    None if such rows cannot be made: for tables with names, and for very long rows.
    """
    model = _model(classifier)
    shape = getattr(model, "input_shape_", None) or (
        getattr(model, "n_features_in_", None) or classifier.n_features_in_,
    )
    if getattr(model, "accepts_frames", False) or math.prod(shape) > MOST_VALUES:
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
    model = _model(classifier)
    return getattr(getattr(model, "models", [model])[0], "module", None)


def _model(classifier: Any) -> Any:
    if hasattr(classifier, "fitted_"):
        return classifier.fitted_.model.models[0]
    return getattr(classifier, "model_", None)
