"""The columns that a classifier needs, from a batch that may be a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drpu._typing import FloatArray
from drpu.exceptions import DataError, ParameterError
from drpu.tables.alignment import warn_of_extra

__all__ = ["OUTPUTS", "Picked", "column_names", "is_table", "pick", "wanted_columns", "warn_of_ignored"]


OUTPUTS = ("label", "probability", "ratio", "score")  # names of the output columns


@dataclass(frozen=True, slots=True)
class Picked:
    """Rows of a batch in the form that the classifier accepts, with their weights."""

    rows: Any
    weight: FloatArray | None
    n: int


def is_table(batch: Any) -> bool:
    """Whether the batch has named columns: pandas, polars, Arrow."""
    return hasattr(batch, "column_names") or (hasattr(batch, "columns") and hasattr(batch, "shape"))


def column_names(batch: Any) -> list[Any]:
    """Names of the columns of a batch that has them."""
    return list(batch.column_names if hasattr(batch, "column_names") else batch.columns)


def pick(batch: Any, classifier: Any, columns: Sequence[str] | None, weight: str | None) -> Picked:
    """The wanted columns of a batch; all columns if the batch has no names."""
    if not is_table(batch):
        for name, value in (("columns", columns), ("weight", weight)):
            if value is not None:
                raise ParameterError(f"{name} must be None for batches without column names, got {value!r}.")
        return Picked(batch, None, _length(batch))
    if hasattr(batch, "num_rows") and not hasattr(batch, "to_batches"):
        # scikit-learn can read the names of a table, but not those of a batch
        batch = sys.modules["pyarrow"].Table.from_batches([batch])
    have = column_names(batch)
    rows = _select(batch, wanted_columns(have, classifier, columns, weight))
    if not hasattr(classifier, "feature_names_in_") and getattr(classifier, "table_", None) is None:
        rows = np.asarray(rows)  # training had no names, so these are dropped
    return Picked(rows, None if weight is None else _column(batch, weight), int(batch.shape[0]))


def wanted_columns(
    have: Sequence[str], classifier: Any, columns: Sequence[str] | None, weight: str | None
) -> list[str]:
    """The available columns that have to be read, in the order of training."""
    if columns is not None:
        wanted = list(columns)
    elif hasattr(classifier, "feature_names_in_"):
        table = getattr(classifier, "table_", None)
        optional = set() if table is None else set(table.left_out)  # an identifier may be absent
        wanted = [str(name) for name in classifier.feature_names_in_ if name in have or name not in optional]
    else:
        wanted = [name for name in have if name != weight]
    absent = [name for name in (*wanted, *([] if weight is None else [weight])) if name not in have]
    if absent:
        shown = ", ".join(map(str, have[:12])) + (", ..." if len(have) > 12 else "")
        raise DataError(f"there is no column {absent[0]!r}, the table has {shown}.")
    return wanted


def warn_of_ignored(
    have: Sequence[str], classifier: Any, columns: Sequence[str] | None, weight: str | None
) -> None:
    """Warn of columns that the classifier does not know, unless the caller has chosen the columns."""
    if columns is None and hasattr(classifier, "feature_names_in_"):
        known = {weight, *classifier.feature_names_in_}
        warn_of_extra([str(name) for name in have if name not in known])


def _select(batch: Any, names: list[str]) -> Any:
    return batch.select(names) if hasattr(batch, "num_rows") else batch[names]


def _column(batch: Any, name: str) -> FloatArray:
    values = batch.column(name) if hasattr(batch, "num_rows") else batch[name]
    return np.asarray(values, dtype=np.float64)


def _length(batch: Any) -> int:
    return int(batch.shape[0]) if hasattr(batch, "shape") else len(batch)
