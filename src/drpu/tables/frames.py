"""Data frames of pandas, polars and Arrow, read through narwhals without importing any of them."""

from __future__ import annotations

import difflib
import hashlib
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from narwhals.exceptions import NarwhalsError

from drpu._arrays import IntArray
from drpu._checks import one_line, refuse_frame, require
from drpu._samples import is_sparse
from drpu.exceptions import (
    CollectedWarning,
    DataError,
    DataTypeError,
    ExtraColumnsWarning,
    IndexWarning,
)
from drpu.tables.values import as_bytes


def composed(name: str) -> str:
    """The name in NFC, because other systems write the same letter in another form of Unicode."""
    return unicodedata.normalize("NFC", name)


@dataclass(frozen=True)
class Frame:
    """A data frame, and whether its columns have names.

    A pandas frame with integer column labels has no names: its columns are found by position.
    """

    columns: nw.DataFrame[Any]
    named: bool

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns, or their positions as text if they have no names."""
        return [composed(str(name)) for name in self.columns.columns]

    @cached_property
    def positions(self) -> dict[str, int]:
        """Positions of the columns by name."""
        return {name: position for position, name in enumerate(self.names)}

    def __len__(self) -> int:
        return int(self.columns.shape[0])

    @property
    def types(self) -> list[Any]:
        """Types of the columns."""
        return list(self.columns.schema.values())

    def column(self, position: int) -> nw.Series[Any]:
        """One column, by position."""
        return self.columns[:, position]

    def without(self, names: Sequence[str]) -> Frame:
        """The columns that have other names."""
        left = [position for position, name in enumerate(self.names) if name not in names]
        return self.select(left)

    def select_names(self, names: Sequence[str]) -> Frame:
        """The columns with the names, in that order."""
        return self.select([self.positions[name] for name in names])

    def select(self, positions: Sequence[int]) -> Frame:
        """The columns at the positions, in that order."""
        if list(positions) == list(range(len(self.names))):
            return self
        return Frame(self.columns[:, list(positions)], self.named)


@dataclass(frozen=True, slots=True)
class RecordColumn:
    """The values of one column of dicts, with the methods of a column that encoders use."""

    name: str
    values: list[Any]
    dtype: ClassVar[Any] = nw.Object()  # every value is read by itself

    def __len__(self) -> int:
        return len(self.values)

    def to_list(self) -> list[Any]:
        """The values."""
        return self.values

    def take(self, rows: Sequence[int]) -> RecordColumn:
        """The values of some rows."""
        return RecordColumn(self.name, [self.values[row] for row in rows])


@dataclass(frozen=True)
class RecordFrame(Frame):
    """Rows that are dicts, as a service gets them; no library of data frames is needed."""

    columns: Any  # RecordColumn by name
    named: bool = True

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.columns)

    @property
    def types(self) -> list[Any]:
        """Types of the columns."""
        return [RecordColumn.dtype] * len(self.columns)

    def __len__(self) -> int:
        return len(self.column(0))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self), len(self.columns)

    def take(self, index: Any) -> RecordFrame:
        """The rows at ``index``."""
        rows = np.arange(len(self))[index].tolist()
        columns = {}
        for name, column in self.columns.items():
            columns[name] = column.take(rows)
        return RecordFrame(columns)

    def column(self, position: int) -> Any:
        """One column, by position."""
        return self.columns[self.names[position]]

    def select(self, positions: Sequence[int]) -> RecordFrame:
        """The columns at the positions, in that order."""
        columns = {}
        for position in positions:
            name = self.names[position]
            columns[name] = self.columns[name]
        return RecordFrame(columns)

    def native(self) -> Any:
        """The rows as a frame of pandas."""
        pandas = require("pandas", extra="data", for_="a model that reads data frames")
        return pandas.DataFrame({name: column.values for name, column in self.columns.items()})


def as_records(X: Any) -> Any:
    """One dict, a list of dicts or a pandas row as a :class:`RecordFrame`; other rows unchanged."""
    if isinstance(X, Mapping) and not is_sparse(X):  # one of the sparse formats is a dict
        return _record_frame([X])
    if isinstance(X, (list, tuple)) and X and all(isinstance(row, Mapping) for row in X):
        return _record_frame(X)
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(X, pandas.Series):
        return X
    names = X.index.tolist()
    if not names or not all(isinstance(name, str) for name in names):
        return X
    return _record_frame([dict(zip(names, X.tolist(), strict=True))])


def _record_frame(rows: Sequence[Mapping[Any, Any]]) -> RecordFrame:
    names: dict[Any, None] = {}  # an ordered set
    for row in rows:
        names |= dict.fromkeys(row)
    columns = {}
    for name in names:
        if not isinstance(name, str):
            raise DataTypeError(f"the names in X must be strings, got {name!r:.100}.")
        values = []
        for position, row in enumerate(rows):
            if name not in row:
                raise DataError(
                    f"every row of X must have the same names, but row {position} has no "
                    f"{name!r}: give it the value None if it is missing."
                )
            value = row[name]
            if isinstance(value, (list, tuple, dict, np.ndarray)):
                raise DataTypeError(
                    f"a dict is one row of X, but {name!r} is a {type(value).__name__}: pass "
                    "single values, a list of dicts for several rows, or a data frame."
                )
            values.append(value)
        columns[composed(name)] = RecordColumn(name, values)
    if not columns:
        raise DataError("X must have the columns of training, got an empty dict.")
    return RecordFrame(columns)


@dataclass(frozen=True, slots=True)
class FrameRows:
    """Rows that stay a data frame, with the shape and the indexing of an array."""

    native: Any

    @classmethod
    def of(cls, frame: Frame) -> FrameRows:
        """The rows of a frame; Arrow tables and dicts become a pandas frame for transformers."""
        if isinstance(frame, RecordFrame):
            return cls(frame.native())
        columns = frame.columns
        if columns.implementation.is_pyarrow():
            return cls(columns.to_pandas())
        return cls(nw.maybe_reset_index(columns).to_native())

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        rows, columns = nw.from_native(self.native, eager_only=True).shape
        return int(rows), int(columns)

    def __getitem__(self, index: Any) -> FrameRows:
        return FrameRows(take_frame(self.native, index))

    def keys(self, without: Sequence[str] = ()) -> IntArray:
        """One number for each row; equal rows have equal numbers, in every process.

        Rows that differ in the columns ``without`` only are equal.
        """
        frame = nw.from_native(self.native, eager_only=True)
        compared = [name for name in frame.columns if composed(str(name)) not in without]
        columns = [map(str, frame[name].to_list()) for name in compared]
        digests = bytearray()
        for cells in zip(*columns, strict=True):
            text = as_bytes("\x1f".join(cells))
            digests += hashlib.blake2b(text, digest_size=8).digest()
        return np.frombuffer(digests, dtype="<i8").astype(np.int64)

    def stack(self, parts: Sequence[FrameRows]) -> FrameRows:
        """The parts one below the other."""
        return FrameRows(stack_frames([part.native for part in parts]))


def native_rows(X: Any) -> Any:
    """The data frame in :class:`FrameRows`; other rows are returned unchanged."""
    if isinstance(X, FrameRows):
        return X.native
    return X


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a data frame: pandas, polars (lazy too), Arrow tables and batches."""
    if _is_record_batch(X) or isinstance(X, RecordFrame):
        return True
    try:
        native = nw.from_native(X, pass_through=True)
    except NarwhalsError:  # such as a name that two columns have, which read_frame reports
        return True
    return isinstance(native, (nw.DataFrame, nw.LazyFrame)) and not _is_sparse(X)


def read_frame(X: Any) -> Frame:
    """``X`` as a :class:`Frame`; lazy frames are collected, with a warning."""
    if isinstance(X, RecordFrame):
        return X
    frame = nw.from_native(collected(X))
    n_named = sum(isinstance(name, str) for name in frame.columns)
    if 0 < n_named < len(frame.columns):
        raise DataError(
            "the names of the columns of X must all be strings, or none of them, "
            "got both: X.columns = X.columns.astype(str) makes them strings."
        )
    read = Frame(frame, named=n_named > 0)
    if len(read.positions) < len(read.names):
        raise DataError(
            "X has two columns whose names differ only in the form of Unicode: give each column a "
            "name of its own."
        )
    return read


def collected(X: Any) -> Any:
    """``X`` itself, a batch of Arrow as a table, or the rows of a lazy frame, with a warning."""
    if _is_record_batch(X):
        return sys.modules["pyarrow"].Table.from_batches([X])
    refuse_frame(X)
    try:
        frame = nw.from_native(X, pass_through=True)
    except NarwhalsError as error:
        reason = f"X cannot be read as a table: {one_line(error)}"
        if "unique" in str(error):
            reason += ": give each column a name of its own."
        raise DataError(reason) from error
    if not isinstance(frame, nw.LazyFrame):
        return X
    CollectedWarning.issue(
        "X is a lazy frame: all of its rows were collected into memory. "
        "For tables that do not fit into memory, pass Parquet files to count_batches."
    )
    return frame.collect().to_native()


def take_frame(X: Any, index: Any) -> Any:
    """The rows of a data frame at ``index`` (integers, a mask or a slice), in the same library."""
    if isinstance(X, RecordFrame):
        return X.take(index)
    if isinstance(index, np.ndarray) and index.dtype == bool:
        index = np.flatnonzero(index)
    return nw.from_native(X, eager_only=True)[index].to_native()


def stack_frames(parts: Sequence[Any]) -> Any:
    """Data frames of one library, one below the other."""
    try:
        stacked = nw.concat([nw.from_native(part, eager_only=True) for part in parts])
        return nw.maybe_reset_index(stacked).to_native()
    except (NarwhalsError, TypeError) as error:
        raise DataError(f"the tables cannot be concatenated: {error}") from error


def _is_record_batch(X: Any) -> bool:
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(X, arrow.RecordBatch)


def _is_sparse(X: Any) -> bool:
    """Whether ``X`` is a pandas frame of sparse columns, which scikit-learn reads as a matrix."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(X, pandas.DataFrame) or X.shape[1] == 0:
        return False
    return all(isinstance(dtype, pandas.SparseDtype) for dtype in X.dtypes)


def warn_of_order(X: Any, *, rows: str = "X", **columns: Any) -> None:
    """Warn of columns with the index of ``X`` in another order, as after one of them was sorted."""
    for name, values in columns.items():
        if _same_index_in_another_order(X, values):
            IndexWarning.issue(
                f"{rows} and {name} have the same index in two orders, and are matched by "
                f"position, not by the index: pass {name}.loc[{rows}.index] to match them by it, "
                f"or {name}.to_numpy() if the positions are right."
            )


def _same_index_in_another_order(X: Any, values: Any) -> bool:
    row_index: Any = getattr(X, "index", None)
    value_index: Any = getattr(values, "index", None)
    for index in (row_index, value_index):
        if not hasattr(index, "isin"):  # not from pandas; ``index`` is also a method of lists
            return False
    if row_index.equals(value_index):
        return False
    same_size = row_index.is_unique and len(value_index) == len(row_index)
    return bool(same_size and row_index.isin(value_index).all())


MOST_NAMED = 8  # maximum number of names in a message


def aligned(
    frame: Frame,
    names: Sequence[str],
    *,
    named: bool,
    optional: frozenset[str] = frozenset(),
    rows: str = "X",
    of: str = "training",
) -> Frame:
    """The columns of a frame called ``names``, in that order; by position if there are no names.

    Columns in ``optional`` may be absent. Messages call the frame ``rows``, and the table that the
    names are from ``of``.
    """
    if not named or not frame.named:
        if named == frame.named and len(frame.names) == len(names):
            return frame
        raise DataError(
            f"{rows} has {_features(len(frame.names), frame.named)}, "
            f"but {of} had {_features(len(names), named)}."
        )
    others = dict(frame.positions)
    positions = []
    absent = []
    for name in names:
        if name in others:
            positions.append(others.pop(name))
        elif name not in optional:
            absent.append(name)
    extra = list(others)
    if absent:
        hint = ""
        similar = difflib.get_close_matches(absent[0], extra, 1)
        if similar:
            hint = f" (did you mean {similar[0]!r}?)"
        raise DataError(
            f"{rows} must have the columns of {of}, got none called {columns_named(absent)}{hint}. "
            f"{rows} has {columns_named(frame.names)}."
        )
    warn_of_extra(extra, rows=rows, of=of)
    return frame.select(positions)


def _features(n: int, named: bool) -> str:
    return f"{n} {'named' if named else 'unnamed'} features"


def warn_of_extra(names: Sequence[str], *, rows: str = "X", of: str = "training") -> None:
    """Warn of columns that training, or another table, did not have, if there are any."""
    if names:
        ExtraColumnsWarning.issue(
            f"{rows} has columns that {of} did not have: {columns_named(names)}. They are ignored."
        )


def columns_named(names: Sequence[str]) -> str:
    """The names in quotation marks, at most eight of them."""
    text = ", ".join(map(repr, names[:MOST_NAMED]))
    if len(names) > MOST_NAMED:
        text += f" and {len(names) - MOST_NAMED} more"
    return text
