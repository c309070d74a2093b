"""The two labels of a classifier, and labels of rows that users pass after a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from drpu._arrays import as_numpy
from drpu._codec import Kept, Number, Text, kept
from drpu._typing import BoolArray
from drpu.exceptions import DataError, LabelError
from drpu.tables.values import is_missing

Classes = np.ndarray[Any, Any]  # the two labels: (unlabeled or negative, positive)
LONGEST_LABEL = 9999  # characters of a label, a number of four digits in its type
_LABEL_DTYPE = r"[<=|]?(b1|[iu][1248]|f[248]|U[0-9]{1,4}|O)|>[iuf][248]|>U[0-9]{1,4}"
_Label = None | bool | int | Annotated[float, Number()] | Annotated[str, Text(most=LONGEST_LABEL)]


@kept("labels")
@dataclass(frozen=True)
class Labels(Kept):
    """The two labels of a classifier, the positive one last.

    Booleans, numbers, strings of at most 9999 characters, or objects, which are strings or None
    here.
    """

    dtype: Annotated[str, Text(pattern=_LABEL_DTYPE)]
    values: tuple[_Label, _Label]

    def __post_init__(self) -> None:
        classes = self.classes()
        if classes.shape != (2,) or classes[0] == classes[1]:
            raise DataError(f"classes must be two different labels, got {self.values!r:.100}.")

    @classmethod
    def of(cls, classes: Classes) -> Labels:
        """The labels of a fitted classifier."""
        negative, positive = classes.tolist()
        return cls(classes.dtype.str, (_plain_label(negative), _plain_label(positive)))

    def classes(self) -> Classes:
        """The labels as the attribute ``classes_``; a missing number is NaN."""
        try:
            return np.array(self.values, dtype=np.dtype(self.dtype))
        except (ValueError, TypeError, OverflowError) as error:
            raise DataError(f"classes must be two labels of the type {self.dtype}.") from error


def _plain_label(label: Any) -> Any:
    """The label as JSON keeps it: a plain string instead of NumPy's, and None instead of NaN."""
    if isinstance(label, str):
        return str.__str__(label)
    return None if label != label else label


def listed(labels: Any, name: str = "labels") -> list[Any]:
    """The labels as a list of Python values."""
    if isinstance(labels, (str, bytes)) or labels is None:
        raise LabelError(f"{name} must be a sequence with one label for each row, got {labels!r}.")
    items = []
    for value in _sequence(as_numpy(labels), name):
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, (list, dict, set, np.ndarray)):
            raise LabelError(f"{name} must hold one value for each row, got {value!r:.100}.")
        items.append(value)
    return items


def _sequence(labels: Any, name: str) -> Any:
    """The labels as a list or tuple; columns of frames keep their missing values."""
    if isinstance(labels, (list, tuple)):
        return labels
    if hasattr(labels, "to_list") and not isinstance(labels, np.ndarray):
        return labels.to_list()
    array = np.asarray(labels)
    if array.shape[1:] == (1,):
        array = array[:, 0]
    if array.ndim != 1:
        raise LabelError(f"{name} must have one dimension, got shape {array.shape}.")
    return array.tolist()


def check_same_rows(rows: int, labels: int) -> None:
    """Raise unless there are as many labels as rows."""
    if rows != labels:
        raise DataError(f"X and y must have the same number of rows, got {rows} and {labels}.")


def labels_of(y: Any, n: int) -> np.ndarray[Any, Any]:
    """Labels of ``n`` rows, of any type."""
    labels = np.array(listed(y, "y"), dtype=object)
    check_same_rows(n, len(labels))
    return labels


def labelled_flags(y: Any, classes: Classes) -> BoolArray:
    """Which rows have the label of the positives; all others, also missing ones, have not."""
    rest, positive = classes.tolist()
    flags = []
    for value in listed(y, "y"):
        is_positive = not is_missing(value) and bool(value == positive)
        if not is_positive and not is_missing(value) and value != rest:
            raise LabelError(
                f"y must hold the labels of training, {classes.tolist()}, or missing values, got "
                f"{value!r}: pass a missing value for every row that is not a labelled positive."
            )
        flags.append(is_positive)
    return np.array(flags, dtype=bool)
