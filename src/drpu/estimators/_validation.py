"""The only door for user data: rows, labels and weights come in here, or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from drpu._arrays import as_numpy
from drpu._checks import check_choice, check_weights, unit_weights
from drpu._samples import Sample, SamplePair, n_rows, stack_rows
from drpu._typing import BoolArray, FloatArray, IntArray, Rows
from drpu.exceptions import DataError, DataTypeError, LabelError
from drpu.models._rows import is_images
from drpu.models.base import RatioModel

__all__ = ["SCENARIOS", "Classes", "check_rows", "pair_pu", "split_pu"]

SCENARIOS = ("case-control", "single-sample")


Classes = np.ndarray[Any, Any]  # the two labels: (unlabeled or negative, positive)


def split_pu(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, model: RatioModel, groups: Any = None
) -> tuple[SamplePair, Classes]:
    """Positive and unlabeled samples from rows and labels, and the two labels.

    Parameters
    ----------
    estimator : estimator
        Remembers the columns; its ``pos_label`` says which label is the positive one.
    X, y, sample_weight, groups : array-like
        What the user passed to ``fit``. Weights are brought to mean 1 here, so that their
        scale has no effect anywhere.
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
    weight = None
    if sample_weight is not None:
        weight = unit_weights(check_weights("sample_weight", sample_weight, n_rows(X)))
    codes = None if groups is None else read_groups("groups", groups, n_rows(X))
    whole = Sample(X, weight, codes)
    return SamplePair(_some(whole, positive), _some(whole, ~positive)), classes


def pair_pu(
    estimator: Any,
    positive: Any,
    unlabeled: Any,
    positive_weight: Any,
    unlabeled_weight: Any,
    *,
    model: RatioModel,
    positive_groups: Any = None,
    unlabeled_groups: Any = None,
) -> tuple[SamplePair, Classes]:
    """Positive and unlabeled samples that were passed separately; labels are 1 and 0.

    The weights of each sample are brought to mean 1: they say which rows of a sample count
    for more, and do not change the fraction of labelled rows.
    """
    positive = check_rows(estimator, positive, model=model, reset=True, name="positive")
    unlabeled = check_rows(estimator, unlabeled, model=model, reset=False, name="unlabeled")
    n = n_rows(positive)
    rows = stack_rows(positive, unlabeled)  # one kind of array for both
    weights = _both_weights(n, n_rows(unlabeled), positive_weight, unlabeled_weight)
    groups = _both_groups(n, n_rows(unlabeled), positive_groups, unlabeled_groups)
    whole = Sample(rows, weights, groups)
    first = np.arange(len(whole)) < n
    return SamplePair(_some(whole, first), _some(whole, ~first)), np.array([0, 1])


def _both_weights(n_positive: int, n_unlabeled: int, positive: Any, unlabeled: Any) -> FloatArray | None:
    if positive is None and unlabeled is None:
        return None
    parts = []
    for name, given, n in (
        ("positive_weight", positive, n_positive),
        ("unlabeled_weight", unlabeled, n_unlabeled),
    ):
        parts.append(np.ones(n) if given is None else unit_weights(check_weights(name, given, n)))
    return np.concatenate(parts)


def _both_groups(n_positive: int, n_unlabeled: int, positive: Any, unlabeled: Any) -> IntArray | None:
    """Group numbers of all rows; the same value in both samples is the same group."""
    if positive is None and unlabeled is None:
        return None
    if positive is None or unlabeled is None:
        name = "positive_groups" if positive is None else "unlabeled_groups"
        raise DataError(
            f"{name} must be given too: the rows of a group can be in both samples. "
            "Give a row without a group a value of its own."
        )
    parts = [column_or_1d(as_numpy(part)) for part in (positive, unlabeled)]
    for name, part, n in zip(
        ("positive_groups", "unlabeled_groups"), parts, (n_positive, n_unlabeled), strict=True
    ):
        if len(part) != n:
            raise DataError(f"{name} must have one value a row, {n}, got {len(part)}.")
    return read_groups("groups", np.concatenate(parts), n_positive + n_unlabeled)


def read_groups(name: str, groups: Any, n: int) -> IntArray:
    """Group numbers from values of any kind, one a row."""
    try:
        values = column_or_1d(as_numpy(groups))
    except ValueError as error:
        raise DataError(f"{name} must have one value a row: {error}") from error
    if len(values) != n:
        raise DataError(f"{name} must have one value a row, {n}, got {len(values)}.")
    if _missing(values).any():
        raise DataError(
            f"{name} must not hold missing values: give a row without a group a value of its own."
        )
    try:
        _, codes = np.unique(values, return_inverse=True)
    except TypeError:  # values of several kinds have no order
        _, codes = np.unique(values.astype(str), return_inverse=True)
    return np.asarray(codes, dtype=np.int64)


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


def _some(whole: Sample, mask: BoolArray) -> Sample:
    sample = whole.take(np.flatnonzero(mask))
    if sample.weight is not None and sample.weight.sum() <= 0:
        raise DataError(
            "sample_weight leaves one class only: it must not be zero for every positive or for every "
            "unlabeled row."
        )
    return sample


def check_scenario(scenario: Any) -> str:
    """One of the two ways in which labels come about."""
    return check_choice("scenario", scenario, SCENARIOS)
