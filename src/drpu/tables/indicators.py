"""Category codes as indicator columns, for models that need numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from drpu._typing import FloatArray
from drpu.exceptions import DataError

__all__ = ["MOST_INDICATORS", "Indicators"]

MOST_INDICATORS = 30  # maximum number of columns of a category; its other codes share one more


@dataclass(frozen=True, slots=True)
class Indicators:
    """One column of zeros and ones for each frequent code of a category.

    Attributes
    ----------
    n_columns : int
        Number of columns with categories as codes.
    categories : tuple of int
        Positions of the categories.
    codes : tuple of tuples of int
        For each category, the codes that have their own column.
    rest : tuple of bool
        Whether the other codes of a category share one more column. This is the case if training had such
        codes. Otherwise an unknown code has a 0 in every column of its category.
    """

    n_columns: int
    categories: tuple[int, ...]
    codes: tuple[tuple[int, ...], ...]
    rest: tuple[bool, ...]

    @classmethod
    def of(cls, rows: FloatArray, categories: Sequence[int], most: int = MOST_INDICATORS) -> Self:
        """Indicators for the most frequent codes in ``rows``; no label is used."""
        counts = {}
        for j in categories:
            values, n = np.unique(rows[:, j], return_counts=True)
            counts[j] = {int(value): int(k) for value, k in zip(values, n, strict=True)}
        return cls.of_counts(rows.shape[1], counts, most)

    @classmethod
    def of_counts(
        cls, n_columns: int, counts: Mapping[int, Mapping[int, int]], most: int = MOST_INDICATORS
    ) -> Self:
        """Indicators for the most frequent codes of each category, from the number of rows of every code."""
        codes = tuple(
            tuple(sorted(sorted(rows, key=lambda code: (-rows[code], code))[:most]))
            for rows in counts.values()
        )
        return cls(n_columns, tuple(counts), codes, tuple(len(rows) > most for rows in counts.values()))

    def __call__(self, rows: FloatArray) -> FloatArray:
        """The numbers of ``rows``, followed by the indicators of each category."""
        numbers = [j for j in range(self.n_columns) if j not in set(self.categories)]
        out = np.zeros((len(rows), self.n_out), dtype=rows.dtype)
        out[:, : len(numbers)] = rows[:, numbers]
        start = len(numbers)
        for j, codes, rest in zip(self.categories, self.codes, self.rest, strict=True):
            known = np.array(codes, dtype=rows.dtype)
            place = np.minimum(np.searchsorted(known, rows[:, j]), len(known) - 1)
            own = known[place] == rows[:, j]
            out[np.flatnonzero(own), start + place[own]] = 1
            if rest:
                out[~own, start + len(known)] = 1
            start += len(known) + rest
        return out

    @property
    def n_out(self) -> int:
        """Number of columns of the result."""
        return self.n_columns - len(self.categories) + sum(map(len, self.codes)) + sum(self.rest)

    @property
    def sources(self) -> list[int]:
        """The column that each column of the result comes from."""
        found = [j for j in range(self.n_columns) if j not in set(self.categories)]
        for j, codes, rest in zip(self.categories, self.codes, self.rest, strict=True):
            found += [j] * (len(codes) + rest)
        return found

    def state(self) -> dict[str, Any]:
        """The indicators as plain data."""
        return {
            "n_columns": self.n_columns,
            "categories": list(self.categories),
            "codes": [list(codes) for codes in self.codes],
            "rest": list(self.rest),
        }

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """The indicators that gave ``state``."""
        try:
            n_columns = int(state["n_columns"])
            categories = tuple(int(j) for j in state["categories"])
            codes = tuple(tuple(int(code) for code in kept) for kept in state["codes"])
            rest = tuple(bool(shared) for shared in state["rest"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"state is not that of indicators: {error!r}.") from error
        inside = all(0 <= j < n_columns for j in categories) and len(set(categories)) == len(categories)
        if not inside or not len(codes) == len(rest) == len(categories) or not all(codes):
            raise DataError("the categories of indicators have a wrong form.")
        if any(list(kept) != sorted(set(kept)) for kept in codes):
            raise DataError("the codes of indicators must be sorted and different.")
        return cls(n_columns, categories, codes, rest)
