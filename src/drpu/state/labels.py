"""The two labels of a classifier: how a fit finds them, and labels of rows after it."""

from __future__ import annotations

import shlex
import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any

import narwhals as nw
import numpy as np

from drpu import _lazy
from drpu._arrays import BoolArray, as_numpy
from drpu._checks import check_readable, one_line
from drpu._codec import Kept, Number, Text, kept
from drpu.exceptions import (
    DataError,
    FewNegativesWarning,
    LabelError,
    MorePositivesWarning,
    PositiveLabelWarning,
)
from drpu.tables.values import NULL_WORDS, as_series, is_missing, is_missing_cell, missing

Classes = np.ndarray[Any, Any]  # the two labels: (unlabeled or negative, positive)
LONGEST_LABEL = 9999  # characters of a label, a number of four digits in its type
_LABEL_DTYPE = r"[<=|]?(b1|[iu][1248]|f[248]|U[0-9]{1,4}|O)|>[iuf][248]|>U[0-9]{1,4}"
_Label = bool | int | Annotated[float, Number()] | Annotated[str, Text(most=LONGEST_LABEL)]


@kept("labels")
@dataclass(frozen=True)
class Labels(Kept):
    """The two labels of a classifier, the positive one last.

    Booleans, numbers, strings of at most 9999 characters, or objects, which are strings here.
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
        labels = classes.tolist()
        for k, label in enumerate(labels):
            if isinstance(label, str):
                labels[k] = str.__str__(label)  # a plain string instead of NumPy's
        return cls(classes.dtype.str, tuple(labels))

    def classes(self) -> Classes:
        """The labels as the attribute ``classes_``."""
        try:
            return np.array(self.values, dtype=np.dtype(self.dtype))
        except (ValueError, TypeError, OverflowError) as error:
            raise DataError(f"classes must be two labels of the type {self.dtype}.") from error


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
    check_readable(name, labels)
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
    """Which rows have the label of the positives; all others, also missing ones, have not.

    Labels are those of training or, if any is not, yes and no, 1 and 0, or true and false.
    """
    own_labels = classes.tolist()
    values = listed(y, "y")
    flags = np.zeros(len(values), dtype=bool)
    answered = []
    answers = []
    for k, value in enumerate(values):
        if not is_missing_cell(value):
            answered.append(k)
            answers.append(value)
    if all(value in own_labels for value in answers):
        flags[answered] = [value == own_labels[1] for value in answers]
    else:
        flags[answered] = _positive(answers, classes, "y")
    return flags


# -- true labels -------------------------------------------------------------------------------

_WORDS = {
    **dict.fromkeys((1.0, "true", "t", "yes", "y"), True),
    **dict.fromkeys((0.0, "false", "f", "no", "n"), False),
}


def read_answers(
    labels: Any, classes: Classes, *, name: str = "labels"
) -> tuple[BoolArray, BoolArray]:
    """Which rows have an answer, and which of these answers are positive.

    Answers are yes and no, 1 and 0, true and false (as values or as words), or values of
    ``classes``. None, NaN and a blank mean: no answer.
    """
    values = listed(labels, name)
    own_labels = classes.tolist()
    answered = np.zeros(len(values), dtype=bool)
    answers = []
    for k, value in enumerate(values):
        no_answer = is_missing_cell(value) or (value in NULL_WORDS and value not in own_labels)
        if not no_answer:
            answered[k] = True
            answers.append(value)
    if not answers:
        raise LabelError(f"{name} must hold at least one answer, got none.")
    return answered, np.array(_positive(answers, classes, name), dtype=bool)


def _positive(answers: list[Any], classes: Classes, name: str) -> list[bool]:
    """The answers as labels of training, as words, or as a mixture of both with one meaning."""
    negative, positive = map(_key, classes.tolist())
    meaning_of_label = {negative: False, positive: True}
    as_labels: list[Any] = []
    as_words: list[Any] = []
    for answer in answers:
        key = _key(answer)
        as_labels.append(meaning_of_label.get(key))
        if isinstance(key, str):
            key = key.lower()
        as_words.append(_WORDS.get(key))
    if None not in as_labels and (None in as_words or isinstance(classes[1], (bool, np.bool_))):
        return as_labels
    if None not in as_words and None in as_labels:
        return as_words
    meanings = []
    for answer, label, word in zip(answers, as_labels, as_words, strict=True):
        if label is None and word is None:
            raise LabelError(
                f"{name} must be yes and no, 1 and 0, true and false, or the labels of training "
                f"({_shown(classes)}), and blank for no answer, got {answer!r}."
            )
        if label is not None and word is not None and label != word:
            raise LabelError(
                f"{name} can be read as 1 and 0 and as the labels of training "
                f"({_shown(classes)}), with different answers: use True for positive and False "
                "for negative."
            )
        meanings.append(True in (label, word))
    return meanings


def _shown(classes: Classes) -> str:
    negative, positive = classes.tolist()
    return " and ".join(repr(label) for label in (positive, negative) if not is_missing_cell(label))


def _key(value: Any) -> Any:
    """What answers are compared by: a number, or a word without blanks around it."""
    if isinstance(value, (bool, str)):
        value = unicodedata.normalize("NFC", str(value).strip())
        if value.lower() in ("true", "false"):
            return value.lower()
    if not isinstance(value, (str, bytes)):
        return value
    for number in (int, float):
        try:  # as an integer first: large ones are equal as floats
            return number(value)
        except ValueError:
            continue
    return value


# -- labels of training ------------------------------------------------------------------------

LARGEST_LABEL = 2**63  # numbers are smaller
# Words for a label that is not known, in lower case.
_UNKNOWN = {"", "unknown", "unlabeled", "unlabelled", "blank", *map(str.lower, NULL_WORDS)}
NUMBERS = (int, float, np.number, np.bool_)


def read_labels(y: Any, pos_label: Any = None, *, warn: bool = True) -> tuple[BoolArray, Classes]:
    """Which rows are labelled positives, and the two labels in the order (rest, positive).

    Of two values, ``pos_label`` is the positive one. Without it, the positive label is the larger
    of two numbers or booleans, and of two words the one beside a blank or a word such as "unknown".
    Other pairs of words are refused. If there is a single label, missing values are the unlabeled
    rows.
    """
    labels = _flat(y, warn=warn)
    gaps = missing(labels)
    if gaps.any():
        if labels.dtype.kind not in "biuf":  # beside missing labels, blank texts are missing, too
            gaps = np.array(list(map(is_missing_cell, labels)), dtype=bool)
        classes = _classes_with_gaps(labels[~gaps], pos_label, _declared(y))
        return ~gaps, _storable(_in_words(classes))
    labels = _plain_numbers(labels, y)
    values = _different_labels(labels)
    if pos_label is not None and pos_label not in values:
        raise LabelError(
            f"pos_label must be one of the labels {values.tolist()}, got {pos_label!r}."
        )
    rest, positive = values
    if pos_label is None:
        exchanged = _means_unknown(positive) and not _means_unknown(rest)
    else:
        exchanged = pos_label != positive
    if exchanged:
        rest, positive = positive, rest
    classes = _storable(np.array([rest, positive], dtype=values.dtype))
    if pos_label is None:
        _refuse_two_words(rest, positive)
    flags = np.asarray(labels == positive)
    if warn and pos_label is None:
        say_which_is_unlabeled(classes, int(flags.sum()), int((~flags).sum()))
    return flags, _storable(_in_words(classes))


def _in_words(classes: Classes) -> Classes:
    """The two labels; a blank beside the word "fraud" becomes "not fraud"."""
    rest, positive = classes.tolist()
    if not isinstance(rest, str) or not isinstance(positive, str) or not is_missing_cell(rest):
        return classes
    words = [f"not {positive.strip()}", positive]
    if classes.dtype == object:
        return np.array(words, dtype=object)
    return np.array(words)


def _means_unknown(label: Any) -> bool:
    """Whether a label is a blank or a word for a label that is not known."""
    return isinstance(label, str) and label.strip().lower() in _UNKNOWN


def _refuse_two_words(rest: Any, positive: Any) -> None:
    """Raise for two words if it is not plain which one marks the positives."""
    if not isinstance(positive, str) or not isinstance(rest, str):
        return
    if _means_unknown(rest) and not _means_unknown(positive):
        return
    rest, positive = sorted([str(rest), str(positive)])
    labels = f"{rest!r} and {positive!r}"
    words = f"{shlex.quote(rest)} or --pos-label {shlex.quote(positive)}"
    raise LabelError(
        f"y holds the labels {labels}: say which one marks the positives, with pos_label={rest!r} "
        f"or pos_label={positive!r}.",
        command=f"the labels are {labels}: say which one marks the positives, with --pos-label "
        f"{words}.",
    )


def _plain_numbers(labels: np.ndarray[Any, Any], y: Any) -> np.ndarray[Any, Any]:
    """The labels, of which numbers have the type that ``y`` declares or their values have."""
    if labels.dtype == object and all(isinstance(label, NUMBERS) for label in labels):
        labels = np.array(labels.tolist())
    elif labels.dtype.kind == "f":  # pandas has integers and booleans that NumPy reads as floats
        labels = labels.astype(_declared(y) or f"f{min(labels.itemsize, 8)}")
    if labels.dtype.kind == "f" and (np.abs(labels) >= LARGEST_LABEL).any():
        raise LabelError("y must not hold infinite or huge values: a label is a name, not a size.")
    return labels


def _different_labels(labels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    try:
        _lazy.check_classification_targets(labels)
        values = np.unique(labels)
    except (TypeError, ValueError) as error:
        if labels.dtype.kind == "f":
            fraction = labels[labels % 1 != 0][0].item()
            raise LabelError(
                "Unknown label type: y must hold two labels, names or whole numbers, got "
                f"{fraction!r}. Mark labelled positives with 1 and every other row with 0."
            ) from error
        raise LabelError(f"y must hold two labels of one type: {one_line(error)}") from error
    if len(values) == 2:
        return values
    label_list = ", ".join(map(repr, values[:5].tolist()))
    if len(values) > 5:
        label_list += ", ..."
    if len(values) == 1:
        raise LabelError(
            f"y must hold two labels, got one class only: {label_list}. Labelled positives and "
            "unlabeled rows are both needed; they may be two tables (fit_pu, or --unlabeled on the "
            "command line)."
        )
    raise LabelError(
        "Only binary classification is supported: y must hold two labels, got "
        f"{len(values)}: {label_list}. Mark labelled positives with 1 and every other row with 0."
    )


def _storable(classes: Classes) -> Classes:
    """The two labels; raises if files cannot keep one of them."""
    for label in classes.tolist():
        if isinstance(label, str) and len(label) > LONGEST_LABEL:
            rule = f"of at most {LONGEST_LABEL:,} characters"
        elif isinstance(label, str) and any("\ud800" <= letter <= "\udfff" for letter in label):
            rule = "that can be written as UTF-8"
        elif isinstance(label, (int, float)) and abs(label) >= LARGEST_LABEL:
            rule = "that are text or numbers below 2**63"
        else:
            continue
        raise LabelError(
            f"y must hold labels {rule}, got {label!a:.40}: use short names, or 1 and 0."
        )
    if classes.dtype.itemsize > 4 * LONGEST_LABEL:  # an array of text may be wider than its labels
        return np.array(classes.tolist())
    return classes


def _flat(y: Any, *, warn: bool = True) -> np.ndarray[Any, Any]:
    """The labels as an array of one dimension."""
    check_readable("y", y)
    if isinstance(y, str):
        raise LabelError(
            f"y must have one label per row, got the text {y!r}: pass the column itself, as in "
            f"fit(X.drop(columns={y!r}), X[{y!r}])."
        )
    try:
        labels: np.ndarray[Any, Any] = _lazy.column_or_1d(as_numpy(y), warn=warn)
    except ValueError as error:
        raise LabelError(one_line(error)) from error
    if len(labels) == 0:
        raise LabelError("y must hold at least one label, got none.")
    if labels.dtype.kind == "T":  # text of variable length, which scikit-learn does not know
        labels = labels.astype(object)
    _refuse_other_types(labels)
    return labels


def _refuse_other_types(labels: np.ndarray[Any, Any]) -> None:
    """Raise if a label is neither a name nor a number."""
    dates = labels.dtype.kind in "mM"
    if not dates and labels.dtype != object:
        return
    last_of_type = {}
    for label in labels:
        if not is_missing(label):
            last_of_type[type(label)] = label
    for label in last_of_type.values():
        if dates or not isinstance(label, (str, *NUMBERS)):
            raise LabelError(
                f"y must hold names, numbers or booleans, got {label!r:.100}: pass y.astype(str), "
                "or y.notna() if the rows with a value are the positives."
            )


def _declared(y: Any) -> Any:
    """The type of integers and booleans with missing values, which NumPy does not have."""
    masked = getattr(getattr(y, "dtype", None), "numpy_dtype", None)  # arrays of pandas
    if isinstance(masked, np.dtype) and masked.kind in "biu":
        return masked
    series = as_series(y)
    if series is not None and series.dtype == nw.Boolean:
        return np.dtype(bool)
    if series is not None and series.dtype.is_integer():
        return np.dtype(str(series.dtype).lower())
    return None


def _classes_with_gaps(present: np.ndarray[Any, Any], pos_label: Any, declared: Any) -> Classes:
    """The label of the unlabeled rows and the single label of the other rows.

    Beside True unlabeled rows have False, beside text a blank, and beside a number 0, or the
    next smaller number if it is not positive.
    """
    values = list(dict.fromkeys(present.tolist()))
    if not values:
        raise LabelError("y must hold at least one label, got missing values only.")
    if len(values) != 1:
        label_list = ", ".join(map(repr, values[:5]))
        finding = (
            "missing values, which mean unlabeled beside a single label, got the labels "
            f"{label_list}:"
        )
        negatives = _negative_of_two(values)
        if negatives:
            raise LabelError(
                f"y holds {finding} name that of known negatives, negative_label={negatives[0]!r}.",
                command=f"the column of labels holds {finding} name that of known negatives, with "
                f"{' or '.join(f'--negative-label {shlex.quote(label)}' for label in negatives)}.",
            )
        raise LabelError(
            f"y holds {finding} keep the label of the positives and set all other rows to missing."
        )
    label = values[0]
    if pos_label is not None and pos_label != label:
        raise LabelError(f"pos_label must be {label!r}, the only label in y, got {pos_label!r}.")
    if isinstance(label, str):
        return np.array(["", str.__str__(label)])
    if label == 0 and pos_label is None:
        raise LabelError(
            f"y holds {label!r} and missing values: {label!r} usually marks rows without a label. "
            f"Set pos_label={label!r} if it marks the positives."
        )
    if isinstance(label, (bool, np.bool_)) or declared == np.dtype(bool):
        return np.array([not label, bool(label)])
    rest = 0 if label > 0 else label - 1
    if declared is not None and np.iinfo(declared).min <= rest:
        return np.array([rest, label], dtype=declared)
    is_whole = present.dtype.kind != "f" and float(label).is_integer()
    return np.array([rest, label], dtype=int if is_whole else float)


def _negative_of_two(values: list[Any]) -> list[str]:
    """Which of two words may be that of known negatives: "no" and the like if it is one of them."""
    if len(values) != 2 or not all(isinstance(value, str) for value in values):
        return []
    for value in values:
        if _WORDS.get(value.strip().lower()) is False:
            return [value]
    return sorted(values)


def split_negatives(
    y: Any, negative_label: Any, pos_label: Any
) -> tuple[Any, BoolArray | None, Classes | None]:
    """Labels in which known negatives are unlabeled, which rows they are, and the two labels.

    The labels are None if unlabeled rows have one of their own, which is then that of predicted
    negatives.
    """
    if negative_label is None:
        return y, None, None
    if not np.isscalar(negative_label):
        raise LabelError(f"negative_label must be one label, got {negative_label!r:.100}.")
    if pos_label is not None and negative_label == pos_label:
        raise LabelError(f"negative_label must not be pos_label, got {negative_label!r} for both.")
    labels = _flat(y)
    declared = _declared(y)
    gaps = missing(labels)
    negative = ~gaps  # a comparison with a missing label may have no answer
    negative[negative] = [bool(label == negative_label) for label in labels[negative].tolist()]
    if not negative.any():
        label_list = ", ".join(map(repr, dict.fromkeys(labels[~gaps].tolist())))
        FewNegativesWarning.issue(
            f"no row has the label {negative_label!r:.100} of known negatives, only "
            f"{label_list:.100}."
        )
        return y, None, None
    if not gaps.any():
        if declared is not None:
            labels = labels.astype(declared)
        unlabeled_or_positive = labels[~negative]
        is_positive, _ = read_labels(unlabeled_or_positive, pos_label, warn=False)
        rest = unlabeled_or_positive[~is_positive][0]
        return np.where(negative, rest, labels), negative, None
    positive = _classes_with_gaps(labels[~negative & ~gaps], pos_label, declared)
    if isinstance(negative_label, str) != isinstance(positive[1], str):
        raise LabelError(
            f"negative_label must be a name or a number, as the label {positive.tolist()[1]!r} of "
            f"the positives is, got {negative_label!r:.100}: give both labels one type."
        )
    unlabeled = labels.astype(object)
    unlabeled[negative] = None
    dtype = declared or _number_type(labels, positive)
    classes = np.array([negative_label, positive[1]], dtype=dtype)
    return unlabeled, negative, _storable(classes)


def _number_type(*arrays: np.ndarray[Any, Any]) -> Any:
    """The type of the first array of numbers, or that of objects."""
    for array in arrays:
        if array.dtype.kind in "iufb":
            return array.dtype
    return object


def say_which_is_unlabeled(classes: Classes, n_positive: int, n_rest: int) -> None:
    """Say that one of two words is taken as that of unlabeled rows, unless it is a blank."""
    rest, positive = classes.tolist()
    if not isinstance(positive, str) or not isinstance(rest, str) or not rest.strip():
        return
    PositiveLabelWarning.issue(
        f"{rest!r} ({n_rest:,} rows) is taken as the label of unlabeled rows, and {positive!r} "
        f"({n_positive:,} rows) as that of the positives.",
        advice="Set pos_label if this is wrong.",
        command="Give --pos-label if this is wrong.",
    )


def warn_of_more_positives(positive: int, unlabeled: int) -> None:
    """Warn of more labelled positives than unlabeled rows, which is rarely intended."""
    if positive > unlabeled:
        MorePositivesWarning.issue(
            f"there are more labelled positives ({positive:,}) than unlabeled rows "
            f"({unlabeled:,}):",
            advice="check whether the two labels were exchanged (pos_label).",
            command="check whether the two labels were exchanged (--pos-label).",
        )
