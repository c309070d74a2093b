"""Arguments of the library, made from the options of a command and from a file."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from drpu.cli.reading import PARQUET, Loaded, TextFormat, read
from drpu.exceptions import (
    ArtifactError,
    DataError,
    DataTypeError,
    DRPUError,
    LabelError,
    ParameterError,
)

__all__ = [
    "adapted_to",
    "answers_for",
    "as_label",
    "audit_in",
    "check_positive_label",
    "chosen_budget",
    "chosen_cost",
    "group_values",
    "in_file",
    "kept_columns",
    "labelled",
    "load_classifier",
    "number_or_word",
    "rows_for",
    "weighted_rows",
    "words",
]


_INDEX = "__index_level_"  # start of the name of an index in Parquet files of pandas

# -- words -----------------------------------------------------------------------------------------


def words(text: str | None) -> list[str]:
    """The parts of a comma-separated list."""
    return [] if text is None else [word for word in (part.strip() for part in text.split(",")) if word]


def number_or_word(text: str) -> Any:
    """The text as a number if possible, otherwise the text."""
    try:
        return float(text)
    except ValueError:
        return text


def as_label(text: str | None, y: Any) -> Any:
    """The word of the command line as a label of the same type as those in the file."""
    if text is None or y.dtype.kind not in "iuf":
        return text
    number = number_or_word(text)
    whole = y.dtype.kind != "f" and not isinstance(number, str) and number.is_integer()
    return int(number) if whole else number


def chosen_cost(cost: float | None, false_alarm: float | None, miss: float | None) -> Any:
    """The cost as a number or as two amounts; None if no cost was given."""
    from drpu import Costs

    if false_alarm is None and miss is None:
        return cost
    if cost is not None:
        raise ParameterError("give --cost, or --false-alarm and --miss: not both.")
    if false_alarm is None or miss is None:
        raise ParameterError("--false-alarm and --miss belong together: give both amounts.")
    return Costs(false_alarm, miss)


def chosen_budget(text: str | None) -> dict[str, Any]:
    """Keywords of ``at_budget``: rows for a whole number, share for a percentage or a fraction."""
    if text is None:
        return {}
    number = number_or_word(text.removesuffix("%"))
    if isinstance(number, str):
        raise ParameterError(f"--budget must be a number of rows, or a share such as 2%, got {text!r}.")
    if text.endswith("%"):
        return {"share": number / 100}
    return {"share": number} if 0 < number < 1 else {"rows": int(number) if number.is_integer() else number}


# -- classifiers -----------------------------------------------------------------------------------


def load_classifier(path: Path) -> Any:
    """The classifier in the file, if it is one that can be moved to another prior."""
    from drpu import AdaptedClassifier, DRPUClassifier, load

    try:
        classifier = load(path)
    except ArtifactError as error:
        raise error if str(path) in str(error) else ArtifactError(f"{path}: {error}") from error
    if not isinstance(classifier, (DRPUClassifier, AdaptedClassifier)):
        raise ArtifactError(f"{path} holds a {type(classifier).__name__}, which has no prior to move.")
    return classifier


# -- rows ------------------------------------------------------------------------------------------


def check_positive_label(y: Any, pos_label: Any, *, where: str) -> None:
    """Raise if it is not clear which of two labels is the positive one."""
    from drpu.classifier.validation import read_labels
    from drpu.exceptions import PositiveLabelWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", PositiveLabelWarning)
        try:
            read_labels(y, pos_label)
        except PositiveLabelWarning:
            values, counts = np.unique(y.astype(str), return_counts=True)
            pairs = zip(values.tolist(), counts, strict=True)
            shown = " and ".join(f"{v!r} ({n:,} rows)" for v, n in pairs)
            raise LabelError(
                f"{where}: the labels are {shown}: say which one marks the positives, with "
                f"--pos-label {shlex.quote(str(values[0]))}."
            ) from None
        except DRPUError as error:
            raise type(error)(f"{where}: {error}") from error


def in_file(path: str, work: Callable[[], Any]) -> Any:
    """The result of ``work``; an error about unusable columns names the file and the option ``--drop``."""
    try:
        return work()
    except DataError as error:
        if not str(error).startswith("Input X contains NaN"):
            raise
        raise DataError(
            f"{path}: this model does not accept missing values: use --model auto or boosted, fill them, or "
            "leave the columns out with --drop."
        ) from error
    except DataTypeError as error:
        raise DataTypeError(
            f"{path}: {error} On the command line: leave such columns out with --drop."
        ) from error


def labelled(
    loaded: Loaded, label: str, columns: str | None, drop: str | None, weight: str | None
) -> tuple[Any, Any, Any]:
    """Rows, labels and weights of a file with a column of labels."""
    y = loaded.column(label)
    X, w = weighted_rows(loaded, columns, drop, weight, without=label)
    return X, y, w


def weighted_rows(
    loaded: Loaded, columns: str | None, drop: str | None, weight: str | None, *, without: str | None = None
) -> tuple[Any, Any]:
    """Rows and weights; the columns of labels and weights are not among the rows."""
    aside = [name for name in (without, weight) if name is not None]
    chosen = [name for name in words(columns) if name not in aside]
    X = loaded.rows(columns=chosen, drop=[*words(drop), *aside])
    if weight is None:
        return X, None
    w = loaded.column(weight)
    if w.dtype.kind not in "biuf":
        raise DataTypeError(f"{loaded.path}: the column {weight!r} of weights must hold numbers.")
    return X, w


def rows_for(
    classifier: Any, loaded: Loaded, columns: str | None, drop: str | None, *, used: str | None = None
) -> Any:
    """The columns of training by name, or by position if training had no names.

    Other columns are ignored with a warning, except ``used``, which the command itself uses, and the index
    that pandas writes to Parquet.
    """
    from drpu.tables.frames import warn_of_extra

    loaded.check_names([*words(columns), *words(drop)] if loaded.arrays is None else [])
    names = getattr(classifier, "feature_names_in_", None)
    if names is None or loaded.table is None:
        return loaded.rows(columns=words(columns), drop=words(drop))
    left = [name for name in (words(columns) or loaded.names) if name not in words(drop)]
    left_out = getattr(getattr(classifier, "table_", None), "left_out", ())  # identifiers: not needed
    absent = [str(name) for name in names if name not in left and name not in left_out]
    if absent:
        shown = ", ".join(map(repr, absent[:12])) + (", ..." if len(absent) > 12 else "")
        raise DataError(
            f"{loaded.path}: columns of training are missing ({len(absent)} of {len(names)}): {shown}. "
            "Name the columns as in training."
        )
    if not columns:
        known = {*names, used}
        warn_of_extra([name for name in left if name not in known and not name.startswith(_INDEX)])
    return loaded.rows(columns=[str(name) for name in names if name in left])


def adapted_to(
    classifier: Any, path: str, columns: str | None, drop: str | None, form: TextFormat, **options: Any
) -> Any:
    """The classifier adapted to the rows of a file, which is read in batches if possible.

    A Parquet file, or a folder of such files, is counted batch by batch if the classifier has the names of
    the columns.
    """
    from drpu import count_batches

    parquet = Path(path).is_dir() or Path(path).suffix.lower() in PARQUET
    if parquet and hasattr(classifier, "feature_names_in_") and not columns and not drop:
        try:
            seen = count_batches(classifier, path)
        except DataError as error:
            raise error if path in str(error) else DataError(f"{path}: {error}") from error
        return classifier.adapt(seen, **options)
    return classifier.adapt(rows_for(classifier, read(path, form), columns, drop), **options)


def audit_in(classifier: Any, X: Any, path: str, label: str, form: TextFormat) -> Any:
    """The audit in a filled-in file."""
    from drpu.classifier.audit_file import audit_from_columns

    loaded = read(path, form)
    if loaded.table is None:
        raise DataError(f"{path}: an audit is a table, not a NumPy archive.")
    try:
        return audit_from_columns(classifier, X, {n: loaded.column(n) for n in loaded.names}, label=label)
    except DataError as error:
        raise error if path in str(error) else type(error)(f"{path}: {error}") from error


def group_values(loaded: Loaded, by: str) -> Any:
    """The column to group by, one value per row."""
    if loaded.table is None:
        raise DataError(f"{loaded.path}: --by works on tables, not on NumPy archives.")
    dates = [f"--by {field.name}" for field in loaded.table.schema if "date" in str(field.type)]
    if by not in loaded.names and dates:
        dates = dates[:8]
        raise DataError(f"{loaded.path}: no column {by!r}. Dates are grouped by month: {', '.join(dates)}.")
    return loaded.column(by)


def kept_columns(loaded: Loaded, keep: str | None) -> Any:
    """The input columns that are copied to the output; None if the input has no columns."""
    if loaded.table is None or keep is None:
        return loaded.table
    loaded.check_names(words(keep))
    return loaded.table.select(words(keep))


def answers_for(classifier: Any, X: Any, prefix: str) -> dict[str, Any]:
    """Label, probability and ratio of each row, by the names of their columns."""
    found = classifier.outputs(X)
    return {f"{prefix}{name}": found[name] for name in ("label", "probability", "ratio")}
