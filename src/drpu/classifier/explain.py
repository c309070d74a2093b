"""Reasons of single rows: how much each column adds to their scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from drpu._typing import FloatArray, Rows
from drpu.classifier.fitted import ScoredRows
from drpu.tables.frames import is_frame, read_frame

if TYPE_CHECKING:
    from drpu.classifier.base import RatioClassifier

__all__ = ["REST", "Reasons", "column_parts", "contribution_table", "reasons_of"]

REST = "(rest)"  # what is not a part of any column


@dataclass(frozen=True, slots=True)
class Reasons:
    """The columns that speak most for and against a row being positive.

    Attributes
    ----------
    favour, against : tuple of (str, float)
        Columns that raise and that lower the score, each with its part of it, the largest part first.
    """

    favour: tuple[tuple[str, float], ...]
    against: tuple[tuple[str, float], ...]

    def texts(self) -> tuple[str, str]:
        """The two lists as texts, such as ``"amount (+1.20), country (+0.45)"``."""
        first, second = (
            ", ".join(f"{name} ({part:+.2f})" for name, part in parts)
            for parts in (self.favour, self.against)
        )
        return first, second

    def __str__(self) -> str:
        return "; ".join(
            f"{word}: {text}" for word, text in zip(("for", "against"), self.texts(), strict=True) if text
        )


def column_parts(classifier: RatioClassifier, X: Any) -> FloatArray:
    """The part of each column of the training table in the score of each row, and a last part: the rest."""
    rows = X.rows if isinstance(X, ScoredRows) else classifier._checked_rows(X)
    found: FloatArray = classifier.fitted_.model.contributions(rows)
    return found if classifier.table_ is None else classifier.table_.by_column(found)


def contribution_table(classifier: RatioClassifier, X: Rows) -> Any:
    """:func:`column_parts` as a frame of the same library and with the same index, if ``X`` is a frame."""
    parts = column_parts(classifier, X)
    if not is_frame(X):
        return parts
    source = read_frame(X).columns
    names = [*_names(classifier, parts), REST]
    table = nw.from_dict(dict(zip(names, parts.T, strict=True)), backend=source.implementation).to_native()
    index = nw.maybe_get_index(source)
    if index is not None:  # frames of pandas
        table.index = index
    return table


def reasons_of(classifier: RatioClassifier, X: Any, n: int) -> list[Reasons]:
    """The ``n`` columns that raise the score of each row most, and the ``n`` that lower it most."""
    parts = column_parts(classifier, X)
    names = np.array(_names(classifier, parts), dtype=object)
    parts = parts[:, :-1]
    order = np.argsort(-parts, axis=1, kind="stable")

    def chosen(row: FloatArray, at: Any, sign: int) -> tuple[tuple[str, float], ...]:
        return tuple((str(names[j]), float(row[j])) for j in at[:n] if sign * row[j] > 0)

    return [
        Reasons(chosen(row, at, 1), chosen(row, at[::-1], -1)) for row, at in zip(parts, order, strict=True)
    ]


def _names(classifier: RatioClassifier, parts: FloatArray) -> list[str]:
    names = getattr(classifier, "feature_names_in_", None)
    return [f"column {k}" for k in range(parts.shape[1] - 1)] if names is None else [str(n) for n in names]
