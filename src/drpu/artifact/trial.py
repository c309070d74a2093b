"""A loaded classifier scores two rows before it is handed out, and so does one that was just written."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from drpu._typing import FloatArray
from drpu.exceptions import ArtifactError

__all__ = ["compare", "own_module", "try_out"]

MOST_VALUES = 1_000_000  # in a row of the trial; rows that are longer are not made up
_CLOSE = 1e-3  # networks may be loaded to another device than they were saved from


def try_out(classifier: Any) -> FloatArray | None:
    """Scores of two made-up rows; raises ``ArtifactError`` where the classifier cannot score them.

    None where the rows of the classifier cannot be made up: tables with names, and very long rows.
    """
    model = _model(classifier)
    shape = getattr(model, "input_shape_", None) or (
        getattr(model, "n_features_in_", None) or classifier.n_features_in_,
    )
    if getattr(model, "accepts_frames", False) or math.prod(shape) > MOST_VALUES:
        return None
    table = classifier.table_
    if not hasattr(classifier, "fitted_") and table is not None and not table.plain:
        return None  # of its encoded rows it cannot be asked
    rows = np.stack([np.zeros(shape), np.ones(shape)])
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            scores = _scores(classifier, rows)
    except Exception as error:  # whatever a backend raises over parts that do not fit each other
        raise ArtifactError(f"the classifier cannot score rows: {error!s:.300}") from error
    if scores.shape[0] != 2 or not np.isfinite(scores).all():
        raise ArtifactError("the classifier cannot score rows: its scores must be finite, one for each row.")
    return scores


def _scores(classifier: Any, rows: FloatArray) -> FloatArray:
    if not hasattr(classifier, "fitted_"):
        return np.asarray(classifier.decision_function(rows), dtype=np.float64)
    fitted = classifier.fitted_
    scores = np.asarray(fitted.model.fold_scores(rows), dtype=np.float64)
    if not np.isfinite(fitted.log_ratio(rows)).all():
        raise ArtifactError("its calibrated ratios must be finite.")
    # Raise where a cost or a prior among the parameters breaks its rule; the threshold may be infinite.
    _ = classifier.cost_, classifier.test_prior_, classifier.threshold_
    return scores


def compare(before: FloatArray | None, after: FloatArray | None) -> None:
    """Raise unless a classifier that was read back scores as the one that was written."""
    if before is None or after is None:
        return
    if before.shape != after.shape or not np.allclose(before, after, rtol=_CLOSE, atol=_CLOSE):
        raise ArtifactError(
            "the file that was written does not give the scores of the classifier, so nothing was saved."
        )


def own_module(classifier: Any) -> Any:
    """The torch module that the user gave to the classifier, or None."""
    model = _model(classifier)
    return getattr(getattr(model, "models", [model])[0], "module", None)


def _model(classifier: Any) -> Any:
    if hasattr(classifier, "fitted_"):
        return classifier.fitted_.model.models[0]
    return getattr(classifier, "model_", None)
