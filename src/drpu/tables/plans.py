"""ColumnPlan: how one column of a table becomes numbers or category codes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import narwhals as nw
import numpy as np

from drpu._checks import check_real
from drpu._typing import FloatArray
from drpu.exceptions import DataError, DataTypeError
from drpu.tables.columns import CATEGORY, DATE, NUMBER, Column, counted, is_missing, level_name, read_numbers
from drpu.tables.summaries import ColumnSummary

__all__ = ["FIRST", "LEFT_OUT", "MISSING", "OTHER", "ColumnPlan"]

# Codes of a missing value, of rare and unseen levels, and of the most frequent level.
MISSING, OTHER, FIRST = 0, 1, 2
LEFT_OUT = "left out"
FEWEST_ROWS = 5  # a level with fewer rows is rare
MOST_LEVELS = 255  # maximum number of levels of a column; the others count as rare


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """Name and kind of one column and, for a category, its levels by frequency."""

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    rows: tuple[int, ...] = field(default=(), compare=False)  # of each level; unknown after loading
    rare: float = field(default=0.0, compare=False)  # share of rows with rare levels to expect

    @classmethod
    def of_column(cls, name: str, column: Column) -> Self:
        """The plan of a column that was read."""
        if column.levels is None:
            return cls(name, column.kind)
        counts = counted(column.levels)
        return cls.category(name, counts, sum(n for _, n in counts))

    @classmethod
    def category(cls, name: str, counts: Sequence[tuple[str, int]], present: int) -> Self:
        """A category with the levels that are frequent enough, of all levels by frequency.

        The share of rows with rare levels that new rows will have is estimated by leaving each training row
        out: a level that is frequent enough by one row only counts as rare.
        """
        kept = [(level, n) for level, n in counts if n >= FEWEST_ROWS][:MOST_LEVELS]
        sure = sum(n for _, n in kept if n > FEWEST_ROWS)
        rare = 1 - sure / present if present else 0.0
        return cls(name, CATEGORY, tuple(level for level, _ in kept), tuple(n for _, n in kept), rare)

    def training_values(self, column: Column) -> FloatArray:
        """Numbers or codes of the column that the plan was made from."""
        if column.numbers is not None:
            return column.numbers
        assert column.levels is not None
        codes = self._codes()
        found = [MISSING if level is None else codes.get(level, OTHER) for level in column.levels]
        return np.array(found, dtype=np.float64)

    def values(self, series: nw.Series[Any], salt: str | None) -> FloatArray:
        """Numbers or codes of a new column; with a salt, levels are digests."""
        if self.kind != CATEGORY:
            return read_numbers(self.name, self.kind, series)
        codes, known, found = self._codes(), dict[Any, int](), []
        for value in series.to_list():
            try:
                code = known.get(value)
            except TypeError as error:
                kind = type(value).__name__
                raise DataTypeError(f"column {self.name!r} holds a {kind}, not a name.") from error
            if code is None:
                code = known[value] = _code(value, codes, salt)
            found.append(code)
        return np.array(found, dtype=np.float64)

    def code_counts(self, summary: ColumnSummary) -> dict[int, int]:
        """Rows of each code of a category."""
        rows = {MISSING: summary.rows - summary.present, OTHER: summary.present - sum(self.rows)}
        rows |= {FIRST + k: n for k, n in enumerate(self.rows)}
        return {code: n for code, n in rows.items() if n > 0}

    def hashed(self, salt: str) -> Self:
        """The same plan with digests in place of levels."""
        return replace(self, levels=tuple(_digest(salt, level) for level in self.levels))

    def without_rare(self, rows: int) -> Self:
        """The same plan without the levels of fewer than ``rows`` training rows."""
        if not self.levels:
            return self
        if not self.rows:
            raise DataError(
                "the rows of each level are not known after loading: leave rare levels out when the fitted "
                "classifier is saved for the first time."
            )
        keep = sum(1 for n in self.rows if n >= rows)
        total = sum(n for n in self.rows if n > FEWEST_ROWS) / max(1 - self.rare, 1e-9)
        rare = min(1.0, self.rare + sum(n for n in self.rows[keep:] if n > FEWEST_ROWS) / max(total, 1.0))
        return replace(self, levels=self.levels[:keep], rows=self.rows[:keep], rare=rare)

    def state(self) -> dict[str, Any]:
        """The plan as plain data."""
        levels = {"levels": list(self.levels), "rare": self.rare} if self.levels else {}
        return {"name": self.name, "kind": self.kind} | levels

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The plan that gave ``state``."""
        name, kind, levels = state["name"], state["kind"], state.get("levels", [])
        texts = isinstance(levels, list) and all(isinstance(level, str) for level in levels)
        if not isinstance(name, str) or kind not in (NUMBER, DATE, CATEGORY, LEFT_OUT) or not texts:
            raise DataError(f"a column of a table encoder has a wrong form: {name!r}.")
        if len(set(levels)) != len(levels) or len(levels) > MOST_LEVELS:
            raise DataError(f"the levels of column {name!r} have a wrong form.")
        rare = check_real("rare", state.get("rare", 0.0), low=0.0, high=1.0)  # older files do not have it
        return cls(name, kind, tuple(levels), rare=rare)

    def _codes(self) -> dict[str, int]:
        return {level: FIRST + position for position, level in enumerate(self.levels)}


def _code(value: Any, codes: dict[str, int], salt: str | None) -> int:
    if is_missing(value):
        return MISSING
    name = level_name(value)
    return codes.get(name if salt is None else _digest(salt, name), OTHER)


def _digest(salt: str, level: str) -> str:
    return hashlib.sha256(f"{salt}\0{level}".encode()).hexdigest()[:24]
