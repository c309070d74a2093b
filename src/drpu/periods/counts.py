"""Counts of groups of rows in one object that can be added, and counts as files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from drpu._arrays import FloatArray, IntArray, Rows
from drpu._codec import Array, Kept, kept
from drpu._samples import at_rows
from drpu.exceptions import DataError
from drpu.periods.groups import Groups, order_of_name
from drpu.priors.tails import KeptTails, ScoreTails
from drpu.state.fitted import FittedRatio
from drpu.state.record import Record, record_of

MOST_BYTES = 2**32  # of the counts of all groups: a worker should have more memory than that


@kept("groups")
@dataclass(frozen=True, eq=False)
class GroupCounts(Kept, Mapping[Any, ScoreTails]):
    """The counts of each group of rows, by its name, from ``count_batches(..., by=...)``.

    They can be added, saved and sent, and ``adapt_by`` accepts them in place of rows. Each group
    needs eight bytes for each held-out positive of the classifier.

    Attributes
    ----------
    nothing : ScoreTails
        Counts without rows.
    names : tuple
        The names of the groups, sorted.
    cells : ndarray of shape (groups, cells)
        Unlabeled scores in each cell.
    weight_squares, cluster_squares : ndarray of shape (groups,)
        Sum of the squared weights, 0 if rows have no weights; and what groups of dependent rows add
        to it.
    columns : ndarray or None
        Rows in ranges of their columns, see :class:`drpu.ScoreTails`.
    """

    nothing: KeptTails
    names: tuple[bool | int | float | str, ...]
    cells: Annotated[np.ndarray[Any, Any], Array("gc", dtype="any", low=0)]
    weight_squares: Annotated[FloatArray, Array("g", low=0, high=1e300)]
    cluster_squares: Annotated[FloatArray, Array("g", low=0, high=1e300)]
    columns: Annotated[IntArray, Array("gr", dtype="int", low=0)] | None

    def __post_init__(self) -> None:
        n = len(self.names)
        shapes_agree = self.cells.shape == (n, len(self.nothing.counts))
        shapes_agree &= self.weight_squares.shape == self.cluster_squares.shape == (n,)
        shapes_agree &= self.columns is None or self.columns.shape[0] == n
        if not shapes_agree or len(set(self.names)) != n:
            raise DataError("the counts of groups must have one row for each name.")

    @classmethod
    def none(cls, nothing: ScoreTails) -> GroupCounts:
        """No groups."""
        cells = np.zeros((0, len(nothing.counts)), dtype=np.int64)
        return cls(nothing, (), cells, np.zeros(0), np.zeros(0), None)

    @classmethod
    def of(cls, nothing: ScoreTails, parts: Mapping[Any, ScoreTails]) -> GroupCounts:
        """Counts of one classifier by name; columns are known if they are for all groups."""
        if not parts:
            return cls.none(nothing)
        records = [tails.record() for tails in parts.values()]
        known_columns = [record.columns for record in records if record.columns is not None]
        columns = None
        if len(known_columns) == len(records):
            columns = np.stack(known_columns)
        return cls(
            nothing,
            tuple(parts),
            np.stack([record.counts for record in records]),
            np.array([record.weight_squares for record in records]),
            np.array([record.cluster_squares for record in records]),
            columns,
        )

    def packed(self) -> GroupCounts:
        """The same with integers of as few bytes as they need, for files."""
        columns = self.columns
        if columns is not None:
            columns = _packed(columns)
        return replace(self, cells=_packed(self.cells), columns=columns)

    def unpacked(self) -> GroupCounts:
        """The same with integers of eight bytes, which can be added."""
        columns = self.columns
        if columns is not None:
            columns = columns.astype(np.int64)
        cells = self.cells
        if cells.dtype.kind != "f":
            cells = cells.astype(np.int64)
        return replace(self, cells=cells, columns=columns)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.names)

    def __getitem__(self, name: Any) -> ScoreTails:
        try:
            k = self.names.index(name)
        except ValueError:
            raise KeyError(name) from None
        return self._tails(k)

    def items(self) -> Any:
        """Names and counts of the groups."""
        return [(name, self._tails(k)) for k, name in enumerate(self.names)]

    def _tails(self, k: int) -> ScoreTails:
        record = replace(
            self.nothing.record(),
            counts=self.cells[k],
            weight_squares=float(self.weight_squares[k]),
            cluster_squares=float(self.cluster_squares[k]),
            columns=None if self.columns is None else self.columns[k],
        )
        return record.tails()

    @property
    def total(self) -> ScoreTails:
        """The counts of all rows."""
        return sum_of_counts(self.nothing, self.values())

    def __add__(self, other: GroupCounts) -> GroupCounts:
        if not isinstance(other, GroupCounts):
            return NotImplemented
        if not self.nothing.same_cells(other.nothing):
            raise DataError("counts of groups can be added only if one classifier made them.")
        if not len(self):
            return other
        if not len(other):
            return self
        names = sorted({*self.names, *other.names}, key=order_of_name)
        _check_size(len(names), self.cells.shape[1])
        place = {name: k for k, name in enumerate(names)}
        cells = np.zeros((len(names), self.cells.shape[1]), np.result_type(self.cells, other.cells))
        weight_squares = np.zeros(len(names))
        cluster_squares = np.zeros(len(names))
        columns = None
        if self.columns is not None and other.columns is not None:
            columns = np.zeros((len(names), self.columns.shape[1]), dtype=np.int64)
        for part in (self, other):
            rows = [place[name] for name in part.names]
            cells[rows] += part.cells
            weight_squares[rows] += part.weight_squares
            cluster_squares[rows] += part.cluster_squares
            if columns is not None and part.columns is not None:
                columns[rows] += part.columns
        return GroupCounts(
            self.nothing, tuple(names), cells, weight_squares, cluster_squares, columns
        )


def sum_of_counts(nothing: ScoreTails, parts: Iterable[ScoreTails]) -> ScoreTails:
    """The sum of counts of one classifier."""
    total = nothing.copy()
    for tails in parts:
        total.merge(tails)
    return total


def count_groups(
    fitted: FittedRatio, rows: Rows, groups: Groups, weight: FloatArray | None = None
) -> GroupCounts:
    """The counts of each group of new rows."""
    nothing = fitted.no_counts()
    _check_size(len(groups.names), len(nothing.counts))
    scores = fitted.fold_scores(rows)
    counts = {}
    for k, name in enumerate(groups.names):
        index = groups.rows(k)
        weight_of_group = at_rows(weight, index)
        counts[name] = fitted.count_scores(scores[index], weight_of_group, rows=rows[index])
    return GroupCounts.of(nothing, counts)


def _packed(values: np.ndarray[Any, Any]) -> Any:
    if values.dtype.kind == "f":
        return values
    return values.astype(np.min_scalar_type(values.max(initial=0)))


def _check_size(n_groups: int, n_cells: int) -> None:
    n_bytes = 8 * n_groups * n_cells
    if n_bytes > MOST_BYTES:
        raise DataError(
            f"by has {n_groups:,} values or more, whose counts need {n_bytes / 2**30:.1f} GiB, "
            f"more than {MOST_BYTES / 2**30:g} GiB: group them further, or count some of the "
            "groups at a time."
        )


# -- files -------------------------------------------------------------------------------------


@kept("counts")
@dataclass(frozen=True)
class CountsRecord(Record):
    """What a file keeps of counts: all of them."""

    counts: KeptTails | GroupCounts

    @property
    def title(self) -> str:
        """Name of the class of the counts."""
        return type(self.counts).__name__

    def classifier(self, module: Any = None) -> Any:
        """The counts."""
        if isinstance(self.counts, GroupCounts):
            return self.counts.unpacked()
        return self.counts

    def facts(self) -> dict[str, Any]:
        """Numbers of rows and groups; counts have no values of rows."""
        facts: dict[str, Any] = {"values_of_rows": {}}
        if isinstance(self.counts, GroupCounts):
            facts["groups"] = len(self.counts)
            facts["rows"] = self.counts.total.n
        else:
            facts["rows"] = self.counts.n
        return facts

    def trial(self, classifier: Any) -> FloatArray | None:
        """Counts have no rows to try."""
        return None


@record_of.register
def _(counts: ScoreTails) -> Record:
    return CountsRecord(counts)


@record_of.register
def _(counts: GroupCounts) -> Record:
    return CountsRecord(counts.packed())
