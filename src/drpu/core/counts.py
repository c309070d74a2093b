"""Counts of rows in cells, which can be added."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from drpu._typing import FloatArray, IntArray
from drpu.exceptions import DataError

__all__ = [
    "MOST",
    "Counted",
    "cell_counts",
    "check_columns",
    "check_counts",
    "effective_size",
    "equal_counts",
    "group_squares",
    "most_rows",
    "survival",
]

MOST = 2.0**62  # largest number of rows, so that sums of two counts fit into 64 bits


class Counted(NamedTuple):
    """Counts of scores with their squares; immutable, so that other threads see a consistent state."""

    counts: IntArray | FloatArray
    weight_squares: float = 0.0
    cluster_squares: float = 0.0
    columns: IntArray | None = None

    @property
    def weighted(self) -> bool:
        """Whether any row has a weight."""
        return self.counts.dtype != np.int64

    @property
    def squares(self) -> float:
        """Sum of the squared weights; the number of rows if there are no weights."""
        return self.weight_squares if self.weighted else float(self.counts.sum())

    def __add__(self, more: Counted) -> Counted:  # type: ignore[override]
        if not (self.weighted or more.weighted):
            total = int(self.counts.sum()) + int(more.counts.sum())  # neither of them exceeds the bound
            if total > MOST:
                raise DataError(f"at most {MOST:g} rows can be counted, got {total:g}.")
        counts = self.counts + more.counts
        squares = 0.0 if counts.dtype == np.int64 else self.squares + more.squares
        clusters = self.cluster_squares + more.cluster_squares
        return Counted(counts, squares, clusters, _added_columns(self, more))


def _added_columns(a: Counted, b: Counted) -> IntArray | None:
    """Counts of the columns of both together, which are known if they are known for all rows of both."""
    for one, other in ((a, b), (b, a)):
        if one.columns is None and not one.counts.any():
            return other.columns
    if a.columns is None or b.columns is None or a.columns.shape != b.columns.shape:
        return None
    return np.asarray(a.columns + b.columns)


def check_columns(values: Any) -> IntArray | None:
    """A copy of ``values`` as counts of the rows in ranges of their columns."""
    if values is None:
        return None
    columns = np.asarray(values)
    whole = columns.ndim == 1 and columns.dtype.kind in "iu" and len(columns) > 0
    if not whole or columns.min() < 0 or columns.max() > MOST:
        raise DataError("columns must be counts, one for each range of a column.")
    return columns.astype(np.int64)


def cell_counts(levels: FloatArray, scores: FloatArray) -> IntArray:
    """Counts in the cells; sorting a chunk and searching the levels in it is faster than the reverse."""
    if len(scores) < 4 * len(levels):
        cells = np.searchsorted(levels, scores, side="right")
        return np.bincount(cells, minlength=len(levels) + 1).astype(np.int64)
    edges = np.searchsorted(np.sort(scores), levels, side="left")
    return np.diff(np.concatenate(([0], edges, [len(scores)]))).astype(np.int64)


def check_counts(name: str, values: Any, n_levels: int) -> IntArray | FloatArray:
    """A copy of ``values`` as counts; integers of any width stay integers."""
    counts = np.asarray(values)
    if counts.shape != (n_levels + 1,):
        raise DataError(f"{name} must have one more cell than levels, {n_levels + 1}, got {counts.shape}.")
    if counts.dtype.kind not in "iuf" or not np.isfinite(counts).all() or (counts < 0).any():
        raise DataError(f"{name} must be finite numbers that are not negative.")
    if not counts.sum(dtype=np.float64) <= MOST:
        raise DataError(f"{name} must add up to at most {MOST:g}.")
    return counts.astype(np.float64) if counts.dtype.kind == "f" else counts.astype(np.int64)


def most_rows(counts: IntArray | FloatArray) -> float:
    """The number of counted rows, if it is known; weighted counts can come from any number."""
    return float(counts.sum()) if counts.dtype == np.int64 else (math.inf if counts.any() else 0.0)


def survival(counts: IntArray | FloatArray) -> FloatArray:
    """Share of the counted rows at or above each level."""
    tail: FloatArray = counts[::-1].cumsum()[::-1] / counts.sum()
    return tail[1:]


def group_squares(weight: FloatArray, groups: IntArray) -> float:
    """Sum of the squared total weights of the groups."""
    totals = np.bincount(np.unique(groups, return_inverse=True)[1], weights=weight)
    return float(totals @ totals)


def effective_size(total: float, squares: float) -> float:
    """Kish's effective size of rows with this total of weights, and of squared weights."""
    return float(total * total / squares) if squares > 0 else 0.0


def equal_counts(a: IntArray | FloatArray, b: IntArray | FloatArray) -> bool:
    """Whether integers are equal, and floats equal up to rounding."""
    if a.shape != b.shape:
        return False
    if a.dtype == np.int64 and b.dtype == np.int64:
        return bool(np.array_equal(a, b))
    return bool(np.allclose(a, b, rtol=1e-12, atol=1e-12 * max(1.0, float(np.abs(a).sum()))))
