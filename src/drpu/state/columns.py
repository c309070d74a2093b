"""The columns of the training rows: how they are read, and what is known about their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np

from drpu._codec import Items, Kept, Text, Whole, kept
from drpu.exceptions import DataError
from drpu.models.learner import Function
from drpu.tables.cells import ColumnProfile
from drpu.tables.encoder import TableEncoder
from drpu.tables.notes import MOST_NOTES, Note


@kept("columns")
@dataclass(frozen=True)
class Columns(Kept):
    """Number of the columns and, for data frames, their names and how they are read."""

    n: Annotated[int, Whole(1, 2**31, dim="d")]
    names: Annotated[tuple[str, ...], Items(dim="d")] | None
    table: TableEncoder | None

    def __post_init__(self) -> None:
        if self.table is not None and len(self.table.columns) != self.n:
            raise DataError(f"the table must have {self.n} columns, got {len(self.table.columns)}.")

    @classmethod
    def of(cls, classifier: Any, **facts: Any) -> Self:
        """The columns of a classifier that has read rows; ``facts`` are more fields."""
        names = getattr(classifier, "feature_names_in_", None)
        if names is not None:
            names = tuple(map(str, names))
        return cls(classifier.n_features_in_, names, classifier.table_, **facts)

    def set_on(self, classifier: Any) -> None:
        """Set the attributes that scikit-learn defines for columns."""
        classifier.n_features_in_ = self.n
        classifier.table_ = self.table
        if self.names is not None:
            classifier.feature_names_in_ = np.array(self.names, dtype=object)

    def check_model(self, model: Function, *, width: int | None = None) -> None:
        """Raise unless ``model`` scores rows with these columns.

        ``width`` is that of flattened images.
        """
        if not width:
            width = self.n if self.table is None else self.table.width
        if model.n_columns != width:
            raise DataError(
                f"the model must have {width} columns, as the rows do, got {model.n_columns}."
            )

    def facts(self) -> dict[str, Any]:
        """Which names of the data they keep, and how many levels of each category."""
        levels = {} if self.table is None else self.table.kept_values()
        return {"column_names": self.names is not None, "category_levels": levels}

    def encoded_names(self, n: int) -> list[str]:
        """Names of the ``n`` columns of encoded rows; a category may have several of them."""
        names = list(self.names or ())
        if self.table is not None:
            names = [str(column.name) for column in self.table.sources]
        if len(names) == n:
            return names
        return [f"column {k}" for k in range(n)]


@kept("training-columns")
@dataclass(frozen=True)
class TrainingColumns(Columns):
    """The columns of a fitted ratio, with counts of their values and notes.

    ``profiles``: Empty for sparse rows, images, and frames that the model reads.
    ``notes``: What to know about the training table.
    ``period``: Name of the column of periods, which is no feature.
    """

    profiles: tuple[ColumnProfile, ...] = ()
    notes: Annotated[tuple[Note, ...], Items(0, MOST_NOTES)] = ()
    period: Annotated[str, Text(most=10_000)] | None = None
