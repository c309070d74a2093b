"""The only door for user data: rows, labels and weights come in here, or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from drpu._arrays import as_numpy
from drpu._checks import check_choice, check_weights
from drpu._samples import Sample, SamplePair, n_rows, stack_rows
from drpu._typing import BoolArray, FloatArray, Rows
from drpu.exceptions import DataError, DataTypeError, LabelError
from drpu.models._rows import is_images
from drpu.models.base import RatioModel

__all__ = ["SCENARIOS", "Classes", "check_rows", "pair_pu", "split_pu"]

SCENARIOS = ("case-control", "single-sample")


Classes = np.ndarray[Any, Any]  # the two labels: (unlabeled or negative, positive)


def split_pu(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, model: RatioModel
) -> tuple[SamplePair, Classes]:
    """Positive and unlabeled samples from rows and labels, and the two labels.

    Parameters
    ----------
    estimator : estimator
        Remembers the columns; its ``pos_label`` says which label is the positive one.
    X, y, sample_weight : array-like
        What the user passed to ``fit``.
    model : RatioModel
        Says what rows may hold.
    """
    if y is None:
        raise LabelError(
            "y must be given: requires y to be passed, but the target y is None. "
            "Mark labelled positives with 1 and unlabeled rows with 0."
        )
    X = check_rows(estimator, X, model=model, reset=True)
    positive, classes = read_labels(y, getattr(estimator, "pos_label", None))
    if len(positive) != n_rows(X):
        raise DataError(f"X and y must have the same number of rows, got {n_rows(X)} and {len(positive)}.")
    weight = None if sample_weight is None else check_weights("sample_weight", sample_weight, n_rows(X))
    return SamplePair(_sample(X, weight, positive), _sample(X, weight, ~positive)), classes


def pair_pu(
    estimator: Any,
    positive: Any,
    unlabeled: Any,
    positive_weight: Any,
    unlabeled_weight: Any,
    *,
    model: RatioModel,
) -> tuple[SamplePair, Classes]:
    """Positive and unlabeled samples that were passed separately; labels are 1 and 0."""
    positive = check_rows(estimator, positive, model=model, reset=True, name="positive")
    unlabeled = check_rows(estimator, unlabeled, model=model, reset=False, name="unlabeled")
    rows = stack_rows(positive, unlabeled)  # one kind of array for both
    first = np.arange(n_rows(rows)) < n_rows(positive)
    weight = None
    if positive_weight is not None or unlabeled_weight is not None:
        weight = np.concatenate(
            [
                np.ones(n_rows(part)) if given is None else _mean_one(name, given, n_rows(part))
                for name, given, part in (
                    ("positive_weight", positive_weight, positive),
                    ("unlabeled_weight", unlabeled_weight, unlabeled),
                )
            ]
        )
    return SamplePair(_sample(rows, weight, first), _sample(rows, weight, ~first)), np.array([0, 1])


def _mean_one(name: str, values: Any, n: int) -> FloatArray:
    """Weights within one sample, which do not change how large it is beside the other."""
    weight = check_weights(name, values, n)
    return np.asarray(weight / weight.mean())


def check_rows(estimator: Any, X: Any, *, model: RatioModel, reset: bool = False, name: str = "X") -> Rows:
    """Rows as a float array or CSR matrix, with the columns the estimator was fitted on."""
    if sparse.issparse(X) and not model.accepts_sparse:
        raise DataTypeError(
            f"{name} is sparse, which {type(model).__name__} cannot take: pass {name}.toarray(), "
            "or choose a model that can, where there is one (kernel, linear, boosted)."
        )
    X = as_numpy(X)
    images = model.accepts_nd and is_images(X)  # which the model converts a batch at a time
    try:
        return validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr" if model.accepts_sparse else False,
            dtype=None if images else (np.float64, np.float32),
            ensure_all_finite="allow-nan" if model.accepts_nan else True,
            allow_nd=model.accepts_nd,
        )
    except TypeError as error:
        raise DataTypeError(str(error)) from error
    except ValueError as error:
        raise DataError(str(error)) from error


def read_labels(y: Any, pos_label: Any = None) -> tuple[BoolArray, np.ndarray[Any, Any]]:
    """Which rows are labelled positives, and the two labels in the order (rest, positive).

    Any two distinct values will do; the larger is the positive one unless
    ``pos_label`` says otherwise. Where values are missing, the missing are the
    unlabeled rows, and answers come as 1 and 0.
    """
    try:
        labels = column_or_1d(as_numpy(y), warn=True)
    except ValueError as error:
        raise LabelError(str(error)) from error
    if len(labels) == 0:
        raise LabelError("y must hold at least one label, got none.")
    missing = _missing(labels)
    if missing.any():
        return _labels_with_gaps(labels, missing, pos_label), np.array([0, 1])
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise LabelError("y must not hold infinite values: a label is a name, not a size.")

    try:
        check_classification_targets(labels)
        values = np.unique(labels)
    except (TypeError, ValueError) as error:
        raise LabelError(str(error)) from error
    if len(values) != 2:
        raise LabelError(_wrong_number_of_labels(values))
    if pos_label is not None and pos_label not in values:
        raise LabelError(f"pos_label must be one of the labels {values.tolist()}, got {pos_label!r}.")
    positive = values[1] if pos_label is None else pos_label
    rest = values[0] if positive == values[1] else values[1]
    return np.asarray(labels == positive), np.array([rest, positive], dtype=values.dtype)


def _missing(labels: np.ndarray[Any, Any]) -> BoolArray:
    """Which labels are NaN, None or another library's word for nothing."""
    if labels.dtype.kind == "f":
        return np.asarray(np.isnan(labels))
    if labels.dtype.kind != "O":
        return np.zeros(len(labels), dtype=bool)

    def gap(value: Any) -> bool:
        differs = value != value  # NaN differs from itself; pandas' NA will not even say
        return value is None or not isinstance(differs, (bool, np.bool_)) or bool(differs)

    return np.array([gap(label) for label in labels], dtype=bool)


def _labels_with_gaps(labels: np.ndarray[Any, Any], missing: BoolArray, pos_label: Any) -> BoolArray:
    present = {value for value, gap in zip(labels.tolist(), missing, strict=True) if not gap}
    if present != {1} or pos_label not in (None, 1):
        raise LabelError(
            "y holds missing values, which mean unlabeled only beside labels of 1, "
            f"got {sorted(map(str, present))}: fill the gaps with a label of your own first."
        )
    return ~missing


def _wrong_number_of_labels(values: np.ndarray[Any, Any]) -> str:
    shown = ", ".join(map(repr, values[:5].tolist())) + (", ..." if len(values) > 5 else "")
    if len(values) == 1:
        return (
            f"y must hold two labels, got one class only: {shown}. Labelled positives and unlabeled rows "
            "are both needed; fit_pu(positive, unlabeled) takes them apart."
        )
    return (
        f"Only binary classification is supported: y must hold two labels, got {len(values)}: {shown}. "
        "Mark labelled positives with 1 and every other row with 0."
    )


def _sample(X: Rows, weight: FloatArray | None, mask: BoolArray) -> Sample:
    index = np.flatnonzero(mask)
    sample = Sample(X, weight).take(index)
    if sample.weight is not None and sample.weight.sum() <= 0:
        raise DataError(
            "sample_weight leaves one class only: it must not be zero for every positive or for every "
            "unlabeled row."
        )
    return sample


def check_scenario(scenario: Any) -> str:
    """One of the two ways in which labels come about."""
    return check_choice("scenario", scenario, SCENARIOS)
