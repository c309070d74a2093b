"""How much each column adds to the scores of rows, and the columns that speak for and against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from drpu._arrays import FloatArray, Rows
from drpu._results import TableColumns, TableResult
from drpu.state.fitted import FittedRatio
from drpu.tables.frames import is_frame, read_frame

REST = "(rest)"  # what is not a part of any column


@dataclass(frozen=True, slots=True)
class Reasons(TableResult):
    """The columns that speak most for and against a row being positive.

    Attributes
    ----------
    favour, against : tuple of (str, float)
        Columns that raise and that lower the score, each with its part of it, the largest part
        first.
    """

    favour: tuple[tuple[str, float], ...]
    against: tuple[tuple[str, float], ...]

    def texts(self) -> tuple[str, str]:
        """The two lists as texts, such as ``"amount (+1.20), country (+0.45)"``."""
        return _text(self.favour), _text(self.against)

    def __str__(self) -> str:
        favour, against = self.texts()
        parts = []
        if favour:
            parts.append(f"for: {favour}")
        if against:
            parts.append(f"against: {against}")
        return "; ".join(parts)

    def __repr__(self) -> str:  # one line, as they come in lists
        return f"Reasons({self})"

    def to_columns(self) -> TableColumns:
        """The columns with their parts of the score: those that raise it come first."""
        pairs = [*self.favour, *self.against]
        return {"column": [name for name, _ in pairs], "part": [part for _, part in pairs]}

    def _title(self) -> str:
        return "parts of columns in the score"


def _text(parts: tuple[tuple[str, float], ...]) -> str:
    return ", ".join(f"{name} ({part:+.2f})" for name, part in parts)


def contributions_of(fitted: FittedRatio, X: Any, rows: Rows) -> Any:
    """The part of each column in the score of each row, as a frame if ``X`` is one.

    ``rows`` are the rows of ``X`` as the model reads them.
    """
    parts = _column_parts(fitted, rows)
    if not is_frame(X):
        return parts
    names = _column_names(fitted, parts)
    rest = REST
    while rest in names:
        rest = f"({rest})"
    columns = dict(zip([*names, rest], parts.T, strict=True))
    source = read_frame(X).columns
    table = nw.from_dict(columns, backend=source.implementation).to_native()
    index = nw.maybe_get_index(source)
    if index is not None:  # frames of pandas
        table.index = index
    return table


def reasons_of(fitted: FittedRatio, rows: Rows, most: int) -> list[Reasons]:
    """The columns that speak most for and against each row, at most ``most`` of each."""
    parts = _column_parts(fitted, rows)
    names = _column_names(fitted, parts)
    parts = parts[:, :-1]
    order = np.argsort(-parts, axis=1, kind="stable")
    reasons_of_rows = []
    for row, descending in zip(parts, order, strict=True):
        favour = [(names[j], float(row[j])) for j in descending[:most] if row[j] > 0]
        against = [(names[j], float(row[j])) for j in descending[::-1][:most] if row[j] < 0]
        reasons_of_rows.append(Reasons(tuple(favour), tuple(against)))
    return reasons_of_rows


def _column_parts(fitted: FittedRatio, rows: Rows) -> FloatArray:
    """The part of each column of the training table in the score of each row, and the rest."""
    parts: FloatArray = fitted.model.contributions(rows)
    table = fitted.columns.table
    if table is None:
        return parts
    return table.by_column(parts)


def _column_names(fitted: FittedRatio, parts: FloatArray) -> list[str]:
    """The names of the columns of :func:`_column_parts`, without the rest."""
    names = fitted.columns.names
    if names is None:
        return [f"column {k}" for k in range(parts.shape[1] - 1)]
    return list(names)
