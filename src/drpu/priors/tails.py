"""Counts of scores in cells, which can be added."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar

import numpy as np

from drpu._arrays import FloatArray, IntArray
from drpu._checks import check_integer, check_scores, check_weights
from drpu._codec import Array, As, Number, Whole, kept
from drpu._process import ObjectLock, default_errors_in
from drpu.exceptions import DataError

MOST = 2.0**62  # largest number of rows, so that sums of two counts fit into 64 bits
_CHUNK = 1 << 20  # scores counted at a time, to limit memory
_MOST_REMEMBERED = 1000  # results that tails keep, about a hundred bytes each


class Counted(NamedTuple):
    """Counts of scores with their squares; immutable, so that threads see a consistent state."""

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
        if self.weighted:
            return self.weight_squares
        return float(self.counts.sum())

    @property
    def size(self) -> float:
        """Effective number of scores: Kish's size when they have weights or groups."""
        total = float(self.counts.sum())
        if not self.weighted and self.cluster_squares == 0:
            return total
        return effective_size(total, self.squares + self.cluster_squares)

    def __add__(self, more: Counted) -> Counted:  # type: ignore[override]
        both_whole = not (self.weighted or more.weighted)
        if both_whole:
            total = int(self.counts.sum()) + int(more.counts.sum())  # each is at most MOST
            if total > MOST:
                raise DataError(f"at most {MOST:g} rows can be counted, got {total:g}.")
        return Counted(
            counts=self.counts + more.counts,
            weight_squares=0.0 if both_whole else self.squares + more.squares,
            cluster_squares=self.cluster_squares + more.cluster_squares,
            columns=self._added_columns(more),
        )

    def _added_columns(self, more: Counted) -> IntArray | None:
        """Counts of the columns of both; they are known if they are known for all rows of both."""
        if self.columns is None and not self.counts.any():
            return more.columns
        if more.columns is None and not more.counts.any():
            return self.columns
        if self.columns is None or more.columns is None:
            return None
        if self.columns.shape != more.columns.shape:
            return None
        return np.asarray(self.columns + more.columns)


def cell_counts(levels: FloatArray, scores: FloatArray) -> IntArray:
    """Counts in the cells."""
    # with many scores, sorting them and searching the levels in them is faster than the reverse
    if len(scores) < 4 * len(levels):
        cells = np.searchsorted(levels, scores, side="right")
        return np.bincount(cells, minlength=len(levels) + 1).astype(np.int64)
    edges = np.searchsorted(np.sort(scores), levels, side="left")
    return np.diff(np.concatenate(([0], edges, [len(scores)]))).astype(np.int64)


def check_counts(name: str, values: Any, n_levels: int) -> IntArray | FloatArray:
    """A copy of ``values`` as counts."""
    counts = np.asarray(values)
    if counts.shape != (n_levels + 1,):
        raise DataError(
            f"{name} must have one more cell than levels, {n_levels + 1}, got {counts.shape}."
        )
    if counts.dtype.kind not in "iuf" or not np.isfinite(counts).all() or (counts < 0).any():
        raise DataError(f"{name} must be finite numbers that are not negative.")
    if not counts.sum(dtype=np.float64) <= MOST:
        raise DataError(f"{name} must add up to at most {MOST:g}.")
    return _as_counts(counts)


def _as_counts(values: np.ndarray[Any, Any]) -> IntArray | FloatArray:
    """A copy as counts; integers of any width stay integers."""
    return values.astype(np.float64) if values.dtype.kind == "f" else values.astype(np.int64)


def survival(counts: IntArray | FloatArray) -> FloatArray:
    """Share of the counted rows at or above each level."""
    tail: FloatArray = counts[::-1].cumsum()[::-1] / counts.sum()
    return tail[1:]


def group_squares(weight: FloatArray, groups: IntArray | None) -> float:
    """Sum of the squared total weights of the groups; without groups each row is one."""
    if groups is None:
        return float((weight * weight).sum())
    totals = np.bincount(np.unique(groups, return_inverse=True)[1], weights=weight)
    return float(totals @ totals)


def effective_size(total: float, squares: float) -> float:
    """Kish's effective size of rows with this total of weights, and of squared weights."""
    if squares <= 0:
        return 0.0
    return float(total * total / squares)


def equal_counts(a: IntArray | FloatArray, b: IntArray | FloatArray) -> bool:
    """Whether integers are equal, and floats equal up to rounding."""
    if a.shape != b.shape:
        return False
    if a.dtype == np.int64 and b.dtype == np.int64:
        return bool(np.array_equal(a, b))
    return bool(np.allclose(a, b, rtol=1e-12, atol=1e-12 * max(1.0, float(np.abs(a).sum()))))


@default_errors_in
class ScoreTails:
    """Counts of scores in the cells cut by the holdout-positive scores.

    The unique positive scores ``u_1 < ... < u_K`` cut the line into ``K + 1``
    cells: cell 0 lies below ``u_1``, cell ``k`` is ``[u_k, u_{k+1})``. Priors are estimated from
    the counts of unlabeled scores in these cells only. Counts can be added, so batches, streams
    and clusters give the same numbers as one pass. Threads may share tails: ``update`` and
    ``merge`` add a batch completely or not at all.

    Parameters
    ----------
    positive_scores : array-like of shape (n_positive,)
        Scores of positives that the model was not trained on.
    weight : array-like of shape (n_positive,), optional
        Weights of the positives.
    copies : int, default=1
        Number of scores of each unlabeled row: the number of fold models that
        score it. Sizes are counts divided by it.

    Attributes
    ----------
    levels : ndarray of shape (K,)
        The unique positive scores, ascending, in float64.
    positive_counts, counts : ndarray of shape (K + 1,)
        Positives and unlabeled scores in each cell; integers unless weighted.
    n_positive, n : float
        Effective numbers of positives and of unlabeled rows.
    columns : ndarray or None
        Counts of the unlabeled rows in a few ranges of each of their columns, where the classifier
        that made the counts knows such ranges; they tell which columns moved. None where some
        rows came without, or with weights. They do not take part in ``==``.

    Examples
    --------
    >>> tails = ScoreTails([0.2, 0.5, 0.9]).update([0.1, 0.5, 0.6, 0.95])
    >>> tails.counts
    array([1, 0, 2, 1])
    >>> other = tails.empty().update([0.3])
    >>> (tails + other).n
    5.0
    """

    __slots__ = (
        "_computed", "_counted", "_lock", "copies", "levels", "n_positive", "positive_counts",
    )  # fmt: skip

    # Tails are mutable and have an equality, so they have no hash.
    __hash__ = None  # type: ignore[assignment]

    levels: FloatArray
    positive_counts: IntArray | FloatArray
    n_positive: float
    copies: int
    _counted: Counted
    _lock: ObjectLock  # held while counts are added, which takes microseconds
    # results, and the counts they belong to
    _computed: tuple[IntArray | FloatArray, dict[Any, Any]]

    def __init__(
        self,
        positive_scores: Any,
        weight: Any = None,
        *,
        groups: IntArray | None = None,
        copies: int = 1,
    ) -> None:
        scores = check_scores("positive_scores", positive_scores)
        copies = check_integer("copies", copies, low=1)
        if weight is None:
            w = np.ones(len(scores))
        else:
            w = check_weights("weight", weight, len(scores))
            weighted = w > 0  # a score without weight is no level
            w = w[weighted]
            scores = scores[weighted]
            if groups is not None:
                groups = groups[weighted]
        squares = group_squares(w, groups)

        levels, cells = np.unique(scores, return_inverse=True)
        positive_counts = np.bincount(cells + 1, weights=w, minlength=len(levels) + 1)
        if weight is None:
            positive_counts = positive_counts.astype(np.int64)
        self._start(levels, positive_counts, effective_size(w.sum(), squares), copies)

    def _start(
        self,
        levels: FloatArray,
        positive_counts: IntArray | FloatArray,
        n_positive: float,
        copies: int,
    ) -> None:
        """Set the positives; no unlabeled score is counted yet."""
        self.levels = levels
        self.positive_counts = positive_counts
        self.n_positive = n_positive
        self.copies = copies
        self._counted = Counted(np.zeros(len(levels) + 1, dtype=np.int64))
        self._lock = ObjectLock()
        self._computed = (self._counted.counts, {})

    def update(
        self,
        scores: Any,
        weight: Any = None,
        *,
        groups: IntArray | None = None,
        columns: IntArray | None = None,
    ) -> Self:
        """Count ``scores`` in place and return self.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Scores of unlabeled rows of any type; they are compared in float64.
        weight : array-like of shape (n,), optional
            Weights of the rows. With weights, the counts are floats.
        groups : array of shape (n,), optional
            Integers, equal for rows that depend on each other. The counts do not change, but
            :attr:`n` then counts groups instead of rows. A group must not be divided among
            several calls.
        columns : array of integers, optional
            Counts of the same rows in the ranges of their columns.
        """
        values = check_scores("scores", scores, allow_empty=True)
        cluster_squares = 0.0
        if groups is not None:
            w = np.ones(len(values)) if weight is None else np.asarray(weight, dtype=np.float64)
            cluster_squares = group_squares(w, groups) - float((w * w).sum())
        if weight is not None:
            # A batch may have a total weight of zero.
            w = check_weights("weight", weight, len(values), allow_zero=True)
            cells = np.searchsorted(self.levels, values, side="right")
            weights = np.bincount(cells, weights=w, minlength=len(self.levels) + 1)
            return self._add(Counted(weights, float((w * w).sum()), cluster_squares, columns))
        counts = np.zeros(len(self.levels) + 1, dtype=np.int64)
        for start in range(0, len(values), _CHUNK):
            counts += cell_counts(self.levels, values[start : start + _CHUNK])
        return self._add(Counted(counts, 0.0, cluster_squares, columns))

    def merge(self, other: ScoreTails) -> Self:
        """Add the counts of ``other``, taken over the same positives, in place."""
        if not isinstance(other, ScoreTails) or not self.same_cells(other):
            raise DataError(
                "tails can be merged only when they count over the same positive scores, with the "
                "same copies: start every shard from tails.empty()."
            )
        return self._add(other._counted)

    def add_counts(self, counts: IntArray, *, columns: IntArray | None = None) -> Self:
        """Add counts from another source, one for each cell, in place.

        ``columns`` are the counts of the same rows in the ranges of their columns.
        """
        checked = check_counts("counts", counts, len(self.levels))
        return self._add(Counted(checked, columns=columns))

    def _add(self, more: Counted) -> Self:
        """Add counts under the lock; counts change nowhere else."""
        with self._lock:
            self._counted = self._counted + more
        return self

    def empty(self, *, copies: int | None = None) -> ScoreTails:
        """The same positives with nothing counted yet."""
        copies = self.copies if copies is None else check_integer("copies", copies, low=1)
        return self._over(self.positive_counts, self.n_positive, copies)

    def with_positives(self, positive_counts: IntArray) -> ScoreTails:
        """The same cells with other numbers of positives, or none, and nothing counted yet."""
        return self._over(positive_counts, float(positive_counts.sum()), copies=1)

    def _over(
        self, positive_counts: IntArray | FloatArray, n_positive: float, copies: int
    ) -> ScoreTails:
        """Tails over the same levels, with nothing counted yet."""
        tails = object.__new__(ScoreTails)
        tails._start(self.levels, positive_counts, n_positive, copies)
        return tails

    def copy(self) -> ScoreTails:
        """An independent copy, with what was computed from the same counts."""
        counted = self._counted
        counts_then, results = self._computed
        tails = self.empty()
        tails._counted = counted._replace(counts=counted.counts.copy())
        if counts_then is counted.counts:
            tails._computed = (tails._counted.counts, results)
        return tails

    def computed(self) -> dict[Any, Any]:
        """Results computed from the present counts and positives, for :func:`remembered`."""
        counts = self._counted.counts
        counts_then, results = self._computed
        if counts_then is not counts:  # counts are replaced when some are added, never changed
            results = {}
            self._computed = (counts, results)
        return results

    def __add__(self, other: ScoreTails) -> ScoreTails:
        if not isinstance(other, ScoreTails):
            return NotImplemented
        return self.copy().merge(other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ScoreTails):
            return NotImplemented
        return (
            self.same_cells(other)
            and equal_counts(self.counts, other.counts)
            and math.isclose(self.n, other.n, rel_tol=1e-11)
        )

    @property
    def counts(self) -> IntArray | FloatArray:
        """Unlabeled scores in each cell; integers unless weighted."""
        return self._counted.counts

    @property
    def columns(self) -> IntArray | None:
        """Counts of the unlabeled rows in ranges of their columns; None where not known."""
        return self._counted.columns

    @property
    def weighted(self) -> bool:
        """Whether any unlabeled row has a weight."""
        return self._counted.weighted

    @property
    def n(self) -> float:
        """Effective number of unlabeled rows: Kish's size when they have weights or groups."""
        return self._counted.size / self.copies

    @property
    def positive_survival(self) -> FloatArray:
        """Share of the positives at or above each level."""
        return survival(self.positive_counts)

    @property
    def survival(self) -> FloatArray:
        """Share of the unlabeled scores at or above each level."""
        if not self.counts.any():
            raise DataError("the tails are empty: update them with unlabeled scores first.")
        return survival(self.counts)

    def same_cells(self, other: ScoreTails) -> bool:
        """Whether ``other`` counts over the same positives, with as many scores of each row."""
        return self.same_positives(other) and self.copies == other.copies

    def same_positives(self, other: ScoreTails) -> bool:
        """Whether ``other`` counts over the same positives."""
        return (
            np.array_equal(self.levels, other.levels)
            and equal_counts(self.positive_counts, other.positive_counts)
            and math.isclose(self.n_positive, other.n_positive, rel_tol=1e-11)
        )

    def __repr__(self) -> str:
        return (
            f"ScoreTails(n_positive={self.n_positive:g}, levels={len(self.levels)}, "
            f"n={self.n:g}, copies={self.copies})"
        )

    def record(self) -> TailsRecord:
        """The counts as plain data, from which ``record.tails()`` makes equal tails."""
        counted = self._counted
        return TailsRecord(
            levels=self.levels,
            positive_counts=self.positive_counts,
            counts=counted.counts,
            n_positive=self.n_positive,
            copies=self.copies,
            weight_squares=counted.weight_squares,
            cluster_squares=counted.cluster_squares,
            columns=counted.columns,
        )

    for_file = record

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle has the counts; the lock and what was computed belong to this object."""
        return TailsRecord.tails, (self.record(),)


CellCounts = Annotated[np.ndarray[Any, Any], Array("c", dtype="any", low=0)]


@kept("tails")
@dataclass(frozen=True, eq=False)
class TailsRecord:
    """Counts as plain data; see :class:`ScoreTails` for the fields."""

    levels: Annotated[FloatArray, Array("k", dtype="float64", low=-np.inf, high=np.inf)]
    positive_counts: CellCounts
    counts: CellCounts
    n_positive: Annotated[float, Number(0.5, MOST)]  # an effective number of rows is at least 1
    copies: Annotated[int, Whole(1, 2**31)]
    weight_squares: Annotated[float, Number(0, 1e300)]
    cluster_squares: Annotated[float, Number(0, 1e300)]
    columns: Annotated[IntArray, Array("r", dtype="int", low=0)] | None

    def __post_init__(self) -> None:
        if len(self.levels) == 0 or (self.levels[1:] <= self.levels[:-1]).any():
            raise DataError("the levels of tails must ascend, and there must be one.")
        check_counts("positive_counts", self.positive_counts, len(self.levels))
        check_counts("counts", self.counts, len(self.levels))
        most_positive = math.inf  # weighted counts can come from any number of rows
        if self.positive_counts.dtype.kind != "f":
            most_positive = float(self.positive_counts.sum())
        below_first = self.positive_counts[0] != 0
        if below_first or not self.positive_counts.any() or self.n_positive > most_positive:
            raise DataError("positive_counts and n_positive of tails do not agree.")
        weighted = self.counts.dtype.kind == "f"
        if weighted and self.counts.any() != (self.weight_squares > 0):
            raise DataError("counts and weight_squares of tails do not agree.")
        if self.columns is not None and self.columns.max(initial=0) > float(self.counts.sum()):
            raise DataError(
                "the ranges of columns of tails must not have more rows than are counted."
            )

    def tails(self) -> ScoreTails:
        """The tails with these counts."""
        tails = object.__new__(ScoreTails)
        positive_counts = _as_counts(self.positive_counts)
        tails._start(self.levels.copy(), positive_counts, self.n_positive, self.copies)
        tails._counted = Counted(
            counts=_as_counts(self.counts),
            weight_squares=self.weight_squares,
            cluster_squares=self.cluster_squares,
            columns=None if self.columns is None else self.columns.astype(np.int64),
        )
        return tails


KeptTails = Annotated[ScoreTails, As(TailsRecord, TailsRecord.tails)]


# -- results that tails keep -------------------------------------------------------------------

_P = ParamSpec("_P")
_T = TypeVar("_T")


def remembered(
    function: Callable[Concatenate[ScoreTails, _P], _T],
) -> Callable[Concatenate[ScoreTails, _P], _T]:
    """The function of tails and numbers; the tails keep its results until their counts change.

    Priors, limits and expected figures need the same curves of the same counts several times.
    """

    @wraps(function)
    def remembering(tails: ScoreTails, /, *numbers: _P.args, **named: _P.kwargs) -> _T:
        results = tails.computed()
        key = (function.__qualname__, *numbers, *named.values())
        if key not in results:
            if len(results) >= _MOST_REMEMBERED:
                results.clear()
            results[key] = function(tails, *numbers, **named)
        value: _T = results[key]
        return value

    return remembering
