"""Labels of the user: the rows that are positive, and the two labels that predictions use."""

from __future__ import annotations

import warnings
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from drpu._arrays import as_numpy
from drpu._typing import BoolArray
from drpu.exceptions import LabelError, MorePositivesWarning, PositiveLabelWarning

__all__ = ["Classes", "missing_labels", "read_labels", "warn_of_guess", "warn_of_more_positives"]

Classes = np.ndarray[Any, Any]  # the two labels: (unlabeled or negative, positive)


def read_labels(y: Any, pos_label: Any = None, *, warn: bool = True) -> tuple[BoolArray, Classes]:
    """Which rows are labelled positives, and the two labels in the order (rest, positive).

    Of two values, ``pos_label`` is the positive one. Without it, the positive label is the larger of two
    numbers or booleans. Of two strings it is the one that is not blank. If neither is blank, it is the last
    in alphabetical order, with a warning. If there is a single label, missing values are the unlabeled rows.
    """
    labels = _flat(y)
    missing = missing_labels(labels)
    if missing.any():
        return ~missing, _classes_with_gaps(labels[~missing], pos_label, _declared(y))
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
    flags = np.asarray(labels == positive)
    classes = np.array([rest, positive], dtype=values.dtype)
    if warn and pos_label is None:
        warn_of_guess(classes, int(flags.sum()), int((~flags).sum()), stacklevel=5)
    return flags, classes


def warn_of_more_positives(positive: int, unlabeled: int) -> None:
    """Warn if there are more labelled positives than unlabeled rows, which is rarely intended."""
    if positive > unlabeled:
        warnings.warn(
            f"there are more labelled positives ({positive:,}) than unlabeled rows ({unlabeled:,}): check "
            "whether the two labels were exchanged (pos_label).",
            MorePositivesWarning,
            stacklevel=4,
        )


def _flat(y: Any) -> np.ndarray[Any, Any]:
    try:
        labels: np.ndarray[Any, Any] = column_or_1d(as_numpy(y), warn=True)
    except ValueError as error:
        raise LabelError(str(error)) from error
    if len(labels) == 0:
        raise LabelError("y must hold at least one label, got none.")
    return labels


def missing_labels(labels: np.ndarray[Any, Any]) -> BoolArray:
    """Which labels are None, NaN, NaT or NA."""
    if labels.dtype.kind == "f":
        return np.asarray(np.isnan(labels))
    if labels.dtype.kind != "O":
        return np.zeros(len(labels), dtype=bool)

    def gap(value: Any) -> bool:
        differs = value != value  # NaN differs from itself; a comparison with NA gives NA
        return value is None or not isinstance(differs, (bool, np.bool_)) or bool(differs)

    return np.array([gap(label) for label in labels], dtype=bool)


def _declared(y: Any) -> Any:
    """The type of integers and booleans with missing values (pandas, polars, Arrow), unknown to NumPy."""
    masked = getattr(getattr(y, "dtype", None), "numpy_dtype", None)  # arrays of pandas, which are no series
    if isinstance(masked, np.dtype) and masked.kind in "biu":
        return masked
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series) and series.dtype == nw.Boolean:
        return np.dtype(bool)
    if isinstance(series, nw.Series) and series.dtype.is_integer():
        return np.dtype(str(series.dtype).lower())
    return None


def _classes_with_gaps(present: np.ndarray[Any, Any], pos_label: Any, declared: Any) -> Classes:
    """The label of the unlabeled rows and the single label of the other rows.

    If the single label is 1 or True, unlabeled rows have 0 or False; for another number they have NaN, and
    for a string None.
    """
    values = list(dict.fromkeys(present.tolist()))
    if len(values) != 1:
        shown = ", ".join(map(repr, values[:5])) or "none"
        raise LabelError(
            f"y holds missing values, which mean unlabeled beside a single label, got the labels {shown}: "
            "keep the label of the positives and set all other rows to missing."
        )
    label = values[0]
    if pos_label is not None and pos_label != label:
        raise LabelError(
            f"pos_label must be {label!r}, the only label beside missing ones, got {pos_label!r}."
        )
    if isinstance(label, (bool, np.bool_)):
        dtype = np.dtype(bool)
    elif isinstance(label, (int, float, np.number)):
        dtype = declared or np.dtype(float if present.dtype.kind == "f" else int)
    else:
        return np.array([None, label], dtype=object)
    if label == 0 and pos_label is None:
        raise LabelError(
            f"y holds {label!r} and missing values: {label!r} usually marks rows without a label. "
            f"Set pos_label={label!r} if it marks the positives."
        )
    return np.array([0, 1], dtype=dtype) if label == 1 else np.array([np.nan, label], dtype=float)


def warn_of_guess(classes: Classes, n_positive: int, n_rest: int, *, stacklevel: int = 3) -> None:
    """Warn that the positive one of two strings was guessed, unless the other one is blank or missing."""
    rest, positive = classes.tolist()
    if not isinstance(positive, str) or not isinstance(rest, str) or not rest.strip():
        return
    warnings.warn(
        f"the labels are strings and pos_label is not set: {positive!r} ({n_positive:,} rows) is taken as "
        f"the label of the positives and {rest!r} ({n_rest:,} rows) as unlabeled. Set pos_label.",
        PositiveLabelWarning,
        stacklevel=stacklevel,
    )


def _wrong_number_of_labels(values: np.ndarray[Any, Any]) -> str:
    shown = ", ".join(map(repr, values[:5].tolist())) + (", ..." if len(values) > 5 else "")
    if len(values) == 1:
        return (
            f"y must hold two labels, got one class only: {shown}. Labelled positives and unlabeled rows "
            "are both needed; fit_pu(positive, unlabeled) accepts them as separate samples."
        )
    return (
        f"Only binary classification is supported: y must hold two labels, got {len(values)}: {shown}. "
        "Mark labelled positives with 1 and every other row with 0."
    )
