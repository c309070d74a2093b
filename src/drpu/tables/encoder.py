"""TableEncoder: a table of mixed columns as a matrix of numbers and category codes."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import narwhals as nw
import numpy as np

from drpu._typing import FloatArray
from drpu.exceptions import (
    DataError,
    DataTypeError,
    IdColumnWarning,
    UnseenLevelsWarning,
)
from drpu.tables.alignment import aligned, columns_named
from drpu.tables.columns import CATEGORY, NUMBER, Column, by_frequency, read_column
from drpu.tables.frames import Frame
from drpu.tables.indicators import Indicators
from drpu.tables.plans import FIRST, LEFT_OUT, MISSING, OTHER, ColumnPlan
from drpu.tables.summaries import ColumnSummary

__all__ = ["FIRST", "MISSING", "OTHER", "ColumnPlan", "TableEncoder"]

MANY_UNSEEN = 0.2  # increase of the share of rare and unseen levels that causes a warning
ENOUGH_ROWS = 50  # minimum number of rows for that warning


@dataclass(frozen=True, slots=True)
class TableEncoder:
    """Reads the columns of a table by name and returns numbers and category codes.

    Attributes
    ----------
    columns : tuple of ColumnPlan
        All columns of the training table, in their order.
    named : bool
        Whether columns are found by name; otherwise by position.
    indicators : Indicators or None
        If given, categories become indicator columns instead of codes.
    salt : str or None
        If given, levels are salted SHA-256 digests of the values.

    Notes
    -----
    Numbers and booleans stay numbers, and so do strings that are all plain numbers. Dates, and strings
    that are all dates as in 2026-06-30, become days since 1970-01-01, durations and times of the day
    days. Other strings and declared categories become codes: 0 for a missing value, 1 for a rare or
    unseen level, and 2, 3, ... for the levels by frequency. A level is rare if it has fewer than 5 rows, or
    if 255 others are more frequent. Labels are not used.
    """

    columns: tuple[ColumnPlan, ...]
    named: bool
    salt: str | None = None
    indicators: Indicators | None = None

    @classmethod
    def fit(cls, parts: Sequence[Frame], *, expand: bool = False) -> tuple[Self, FloatArray]:
        """The encoder of a training table and its encoded rows; the rows may be given in several parts.

        With ``expand`` categories become indicator columns, otherwise codes.
        """
        first = parts[0]
        others = [aligned(part, first.names, named=first.named) for part in parts[1:]]
        parts = [first, *others]
        names = first.names
        read = [read_column(name, [part.column(j) for part in parts]) for j, name in enumerate(names)]
        _refuse_text(names, read, _recipe)
        ids = _left_out(names, read)
        plans = [
            ColumnPlan(name, LEFT_OUT) if name in ids else ColumnPlan.of_column(name, column)
            for name, column in zip(names, read, strict=True)
        ]
        encoder = cls(tuple(plans), first.named)
        pairs = [(p, c) for p, c in zip(plans, read, strict=True) if p.kind != LEFT_OUT]
        matrix = _matrix([plan.training_values(column) for plan, column in pairs], parts)
        if expand and encoder.categories:
            encoder = replace(encoder, indicators=Indicators.of(matrix, encoder.categories))
        return encoder, encoder._expanded(matrix)

    @classmethod
    def of_summaries(cls, summaries: Mapping[str, ColumnSummary], *, expand: bool = False) -> Self:
        """The encoder of a training table in parts with named columns, from their summaries."""
        names, read = list(summaries), [summaries[name].read(name) for name in summaries]
        _refuse_text(names, read, lambda *_: "turn it into columns of numbers before the fit")
        ids = _left_out(names, read)
        plans = []
        for name, column in zip(names, read, strict=True):
            if name in ids or column.kind != CATEGORY:
                plans.append(ColumnPlan(name, LEFT_OUT if name in ids else column.kind))
            else:
                summary = summaries[name]
                plans.append(ColumnPlan.category(name, by_frequency(summary.levels), summary.present))
        encoder = cls(tuple(plans), named=True)
        if not expand or not encoder.categories:
            return encoder
        codes = {j: plan.code_counts(summaries[plan.name]) for j, plan in enumerate(encoder.used)
                 if plan.kind == CATEGORY}  # fmt: skip
        return replace(encoder, indicators=Indicators.of_counts(len(encoder.used), codes))

    @classmethod
    def numbers(cls, names: Sequence[str]) -> Self:
        """An encoder of named columns that are all numeric."""
        return cls(tuple(ColumnPlan(str(name), NUMBER) for name in names), named=True)

    @property
    def used(self) -> tuple[ColumnPlan, ...]:
        """The columns that are used as features."""
        return tuple(plan for plan in self.columns if plan.kind != LEFT_OUT)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the columns that look like identifiers."""
        return tuple(plan.name for plan in self.columns if plan.kind == LEFT_OUT)

    @property
    def categories(self) -> tuple[int, ...]:
        """Positions of the encoded columns that hold category codes."""
        if self.indicators is not None:
            return ()
        return tuple(j for j, plan in enumerate(self.used) if plan.kind == CATEGORY)

    @property
    def plain(self) -> bool:
        """Whether every column is numeric and is used unchanged."""
        return all(plan.kind == NUMBER for plan in self.columns)

    @property
    def width(self) -> int:
        """Number of columns of the encoded rows."""
        return len(self.used) if self.indicators is None else self.indicators.n_out

    def transform(self, frame: Frame, *, warn: bool = True) -> FloatArray:
        """The encoded rows of a table with the columns of training, in any order.

        ``warn`` is whether to warn about many unseen levels.
        """
        names = [plan.name for plan in self.columns]
        frame = aligned(frame, names, named=self.named, optional=frozenset(self.left_out))
        here = dict(zip(frame.names, range(len(frame.names)), strict=True))
        at = here if self.named else dict(zip(names, range(len(names)), strict=True))
        values = [plan.values(frame.column(at[plan.name]), self.salt) for plan in self.used]
        if warn:
            self._warn_of_unseen(frame, values)
        return self._expanded(_matrix(values, [frame.select([at[plan.name] for plan in self.used])]))

    def by_column(self, values: FloatArray) -> FloatArray:
        """Sums of values over the encoded columns of each column of the table; a last column is kept."""
        found = np.zeros((len(values), len(self.columns) + 1))
        position = [j for j, plan in enumerate(self.columns) if plan.kind != LEFT_OUT]
        own = range(len(position)) if self.indicators is None else self.indicators.sources
        for k, j in enumerate(own):
            found[:, position[j]] += values[:, k]
        found[:, -1] = values[:, -1]
        return found

    def check_array(self) -> None:
        """Raise if an array cannot replace the table, because some columns are not numeric."""
        others = [plan.name for plan in self.used if plan.kind != NUMBER]
        if others:
            raise DataTypeError(
                f"X must be a table, not an array: training read {columns_named(others)} as categories or "
                "dates."
            )

    def transform_array(self, X: Any) -> Any:
        """The used columns of an array of numbers, by position."""
        keep = [j for j, plan in enumerate(self.columns) if plan.kind != LEFT_OUT]
        return X if len(keep) == len(self.columns) else X[:, keep]

    def hashed(self, salt: str | None = None) -> TableEncoder:
        """The same encoder with digests in place of levels."""
        if self.salt is not None:
            return self
        salt = salt or secrets.token_hex(16)
        return replace(self, columns=tuple(plan.hashed(salt) for plan in self.columns), salt=salt)

    def without_rare(self, rows: int) -> TableEncoder:
        """The same encoder without the levels of fewer than ``rows`` training rows.

        The other levels keep their codes, because codes are in order of frequency.
        """
        return replace(self, columns=tuple(plan.without_rare(rows) for plan in self.columns))

    def kept_values(self) -> dict[str, int]:
        """Number of values that each category column keeps."""
        return {plan.name: len(plan.levels) for plan in self.used if plan.levels}

    def state(self) -> dict[str, Any]:
        """The encoder as plain data."""
        columns = [plan.state() for plan in self.columns]
        state = {"columns": columns, "named": self.named, "salt": self.salt}
        return state if self.indicators is None else state | {"indicators": self.indicators.state()}

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """The encoder that gave ``state``."""
        try:
            plans = tuple(ColumnPlan.from_state(column) for column in state["columns"])
            salt = state["salt"]
            if (
                not plans
                or not (salt is None or isinstance(salt, str))
                or not isinstance(state["named"], bool)
            ):
                raise DataError("the columns of a table encoder have a wrong form.")
            if len({plan.name for plan in plans}) != len(plans):
                raise DataError("a table encoder names a column twice.")
            if all(plan.kind == LEFT_OUT for plan in plans):
                raise DataError("a table encoder leaves all columns out.")
            indicators = Indicators.from_state(state["indicators"]) if "indicators" in state else None
            return cls(plans, state["named"], salt, indicators)
        except (KeyError, TypeError) as error:
            raise DataError(f"state is not that of a TableEncoder: {error!r}.") from error

    def _expanded(self, matrix: FloatArray) -> FloatArray:
        return matrix if self.indicators is None else self.indicators(matrix)

    def _warn_of_unseen(self, frame: Frame, values: list[FloatArray]) -> None:
        if len(frame) < ENOUGH_ROWS:
            return
        many = []
        for plan, codes in zip(self.used, values, strict=True):
            share = float(np.mean(codes == OTHER))
            if plan.kind == CATEGORY and plan.levels and share - plan.rare > MANY_UNSEEN:
                many.append(f"{plan.name!r} ({share:.0%})")
        if many:
            warnings.warn(
                f"many rows have levels that training did not keep, in {', '.join(many[:8])}: they count "
                "as rare levels. Check whether the coding of the column has changed.",
                UnseenLevelsWarning,
                stacklevel=2,
            )


def _matrix(values: list[FloatArray], parts: list[Frame]) -> FloatArray:
    """The columns side by side, in single precision only if all of them have it."""
    single = all(dtype == nw.Float32 for part in parts for dtype in part.columns.schema.values())
    matrix = np.empty((sum(map(len, parts)), len(values)), dtype=np.float32 if single else np.float64)
    for j, column in enumerate(values):
        matrix[:, j] = column
    return matrix


def _left_out(names: list[str], read: list[Column]) -> set[str]:
    """Columns that look like identifiers; at least one column is always kept."""
    ids = [name for name, column in zip(names, read, strict=True) if column.is_id]
    if len(ids) == len(names):
        ids = ids[:-1]
    if ids:
        warnings.warn(
            f"{columns_named(ids)}: every row has a different value, as in an identifier, which says "
            "nothing about new rows. It is left out: drop it from X, or declare it a category to keep it.",
            IdColumnWarning,
            stacklevel=2,
        )
    return set(ids)


def _refuse_text(
    names: list[str], read: list[Column], advice: Callable[[list[str], list[Column]], str]
) -> None:
    texts = [name for name, column in zip(names, read, strict=True) if column.is_text]
    if texts:
        others = [column for column in read if not column.is_text]
        raise DataTypeError(
            f"free text (different strings with spaces) in {columns_named(texts)} is not a category: drop "
            f"it, or {advice(texts, others)}."
        )


def _recipe(texts: list[str], others: list[Column]) -> str:
    """A pipeline that accepts the table: of scikit-learn if the other columns are numbers, else of skrub."""
    steps = "TableVectorizer(), HistGradientBoostingClassifier()"
    numbers = [column.numbers for column in others if column.kind == NUMBER and column.numbers is not None]
    if len(numbers) == len(others) and all(np.isfinite(values).all() for values in numbers):
        pairs = ", ".join(f"(TfidfVectorizer(), {name!r})" for name in texts[:3])
        steps = f"make_column_transformer({pairs}, remainder='passthrough'), LogisticRegression()"
    source = ", with TableVectorizer of skrub" if steps.startswith("Table") else ""
    return f"turn it into numbers in a pipeline, DRPUClassifier(make_pipeline({steps})){source}"
