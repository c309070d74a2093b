"""Answers of an audit, read as true labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from drpu._arrays import as_numpy
from drpu._typing import BoolArray
from drpu.exceptions import DataError, LabelError

__all__ = ["is_missing", "listed", "read_answers"]

_WORDS = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}


def listed(labels: Any, name: str = "labels") -> list[Any]:
    """The labels as a list of Python values."""
    if isinstance(labels, (str, bytes)) or labels is None:
        raise LabelError(f"{name} must be a sequence with one label for each row, got {labels!r}.")
    values = as_numpy(labels)
    if not isinstance(values, (list, tuple)):
        if hasattr(values, "to_list") and not isinstance(values, np.ndarray):
            values = values.to_list()  # pandas, polars and Arrow columns keep their missing values
        else:
            array = np.asarray(values)
            if array.ndim != 1:
                raise LabelError(f"{name} must have one dimension, got shape {array.shape}.")
            values = array.tolist()
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def is_missing(value: Any) -> bool:
    """Whether ``value`` is None, NaN or the missing value of another library."""
    if value is None:
        return True
    differs = value != value  # NaN differs from itself, and a comparison with pandas.NA gives NA
    return not isinstance(differs, (bool, np.bool_)) or bool(differs)


def read_answers(
    labels: Any, classes: np.ndarray[Any, Any], *, words: bool = False, name: str = "labels"
) -> tuple[BoolArray, BoolArray]:
    """Which rows have an answer, and which of these answers are positive.

    Parameters
    ----------
    labels : array-like of shape (n,)
        True and False, 1 and 0, or values of ``classes``. None and NaN mean: no answer.
    classes : ndarray of shape (2,)
        The labels of the classifier, the positive one last.
    words : bool, default=False
        Whether the labels come from a text file, where everything is a string and an
        empty one means: no answer.

    Returns
    -------
    answered : ndarray of shape (n,)
    positive : ndarray of shape (n_answered,)
    """
    values = listed(labels, name)
    if words:
        values = [_from_text(value, classes) for value in values]
    answered = np.array([not is_missing(value) for value in values], dtype=bool)
    given = [value for value, there in zip(values, answered, strict=True) if there]
    return answered, np.array(_positive(given, classes, name), dtype=bool)


def _positive(given: list[Any], classes: np.ndarray[Any, Any], name: str) -> list[bool]:
    negative, positive = classes.tolist()
    coded = _coding(given, negative, positive)
    numbers = None if any(isinstance(value, bool) for value in given) else _coding(given, 0, 1)
    if given and all(isinstance(value, bool) for value in given) and not isinstance(positive, bool):
        return [bool(value) for value in given]
    if coded is not None and numbers is not None and coded != numbers:
        raise LabelError(
            f"{name} can be read as 1 and 0 and as the classes {negative!r} and {positive!r}, with different "
            "answers: pass True for positive and False for negative."
        )
    found = coded if coded is not None else numbers
    if found is None:
        wrong = next(value for value in given if _wrong(value, negative, positive))
        raise LabelError(
            f"{name} must be True and False, 1 and 0, or {positive!r} and {negative!r} (None for no answer), "
            f"got {wrong!r}."
        )
    return found


def _coding(given: list[Any], negative: Any, positive: Any) -> list[bool] | None:
    """The answers in one coding; None if a value does not belong to it."""
    if not all(_same(value, negative) or _same(value, positive) for value in given):
        return None
    return [_same(value, positive) for value in given]


def _same(value: Any, label: Any) -> bool:
    if is_missing(label) or isinstance(value, bool) != isinstance(label, bool):
        return False
    return isinstance(value, str) == isinstance(label, str) and bool(value == label)


def _wrong(value: Any, negative: Any, positive: Any) -> bool:
    known = any(_same(value, label) for label in (negative, positive))
    return not known or not any(_same(value, label) for label in (0, 1))


def _from_text(value: Any, classes: np.ndarray[Any, Any]) -> Any:
    """A value of a text file: one of the classes, a truth value, or nothing."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text == "" or text.lower() in ("nan", "none", "null", "na"):
        return None
    for label in classes.tolist():
        if not is_missing(label) and text == str(label):
            return label
    return _WORDS.get(text.lower(), text)


def check_positions(name: str, rows: Any, most: int | None) -> np.ndarray[Any, np.dtype[np.int64]]:
    """``rows`` as different positions from 0 on, below ``most`` if it is given."""
    array = np.asarray(as_numpy(rows))
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"{name} must be a list of integers, positions of rows, got {array.dtype} values.")
    positions = array.astype(np.int64)
    if len(positions) and (positions.min() < 0 or (most is not None and positions.max() >= most)):
        worst = positions[(positions < 0) | (positions >= (np.inf if most is None else most))][0]
        raise DataError(
            f"{name} must be positions from 0 to {'the last row' if most is None else most - 1}, got {worst}."
        )
    values, counts = np.unique(positions, return_counts=True)
    if (counts > 1).any():
        raise DataError(
            f"{name} must not name a row twice, got {values[counts > 1][0]} more than once: "
            "keep one answer for each row."
        )
    return positions
