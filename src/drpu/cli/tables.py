"""Tables in and out of files: CSV, Parquet, Arrow and Feather, NumPy archives, and the pipe."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from drpu._optional import require
from drpu.exceptions import DataError, DataTypeError

__all__ = ["PIPE", "Loaded", "check_folder", "read", "write"]

PIPE = "-"
_ARROW = (".arrow", ".feather", ".ipc")
_TEXT = (".csv", ".tsv", ".txt")
_KNOWN = "CSV (.csv, .tsv), Parquet (.parquet), Arrow (.arrow, .feather) and NumPy (.npz, .npy)"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file held: a table with named columns, or named arrays."""

    path: str
    table: Any = None  # pyarrow.Table
    arrays: dict[str, Any] | None = None

    @property
    def names(self) -> list[str]:
        """Names of the columns or arrays."""
        return list(self.table.column_names if self.arrays is None else self.arrays)

    def column(self, name: str) -> Any:
        """One column as a flat array; missing numbers are NaN, missing texts None."""
        self._check_names([name])
        if self.arrays is not None:
            return self.arrays[name]
        return _flat(self.table.column(name))

    def rows(self, *, columns: Sequence[str] = (), drop: Sequence[str] = ()) -> Any:
        """The rows to learn from or to score: named columns, or all but the dropped ones."""
        if self.arrays is not None:
            return self._array_rows(columns, drop)
        self._check_names([*columns, *drop])
        names = [name for name in (columns or self.names) if name not in drop]
        if not names:
            raise DataError(f"{self.path}: no column is left to learn from: drop fewer.")
        pa = require("pyarrow", extra="data", for_="reading tables")
        return pa.table({name: _numbers(pa, self.table.column(name), name, self.path) for name in names})

    def _array_rows(self, columns: Sequence[str], drop: Sequence[str]) -> Any:
        assert self.arrays is not None
        if columns:
            raise DataError(f"{self.path}: --columns works on tables; a NumPy archive holds its rows in 'X'.")
        if "X" in self.arrays:
            return self.arrays["X"]
        tables = {k: v for k, v in self.arrays.items() if k not in drop and v.ndim > 1}
        if len(tables) != 1:
            raise DataError(
                f"{self.path}: the rows must be an array called 'X', got {', '.join(map(repr, self.arrays))}."
            )
        return next(iter(tables.values()))

    def _check_names(self, wanted: Sequence[str]) -> None:
        absent = [name for name in wanted if name not in self.names]
        if absent:
            shown = ", ".join(self.names[:12]) + (", ..." if len(self.names) > 12 else "")
            raise DataError(f"{self.path}: no column {absent[0]!r}, the file has {shown}.")


def read(path: str) -> Loaded:
    """Whatever ``path`` holds, by its ending; ``-`` is CSV from the standard input."""
    ending = Path(path).suffix.lower()
    if path != PIPE and not Path(path).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if ending in (".npz", ".npy"):
        return Loaded(path, arrays=_arrays(path))
    if path != PIPE and ending not in (*_TEXT, *_ARROW, ".parquet", ".pq"):
        raise DataTypeError(f"{path}: the ending {ending!r} is not known, the ways in are {_KNOWN}.")
    pa = require("pyarrow", extra="data", for_=f"reading {path}")
    try:
        return Loaded(path, table=_read_table(path, ending))
    except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError) as error:
        name = "the standard input" if path == PIPE else path
        raise DataError(f"{name} cannot be read: {error}") from error


def _read_table(path: str, ending: str) -> Any:
    if path == PIPE or ending in _TEXT:
        csv = require("pyarrow.csv", extra="data", for_="reading CSV")
        parse = csv.ParseOptions(delimiter="\t" if ending == ".tsv" else ",")
        if path == PIPE:
            return csv.read_csv(sys.stdin.buffer, parse_options=parse)
        return csv.read_csv(path, parse_options=parse)
    if ending in _ARROW:
        return require("pyarrow.feather", extra="data", for_="reading Arrow").read_table(
            path, memory_map=False
        )
    return require("pyarrow.parquet", extra="data", for_="reading Parquet").read_table(path)


def _arrays(path: str) -> dict[str, Any]:
    try:
        if path.endswith(".npy"):
            return {"X": np.load(path, allow_pickle=False)}
        with np.load(path, allow_pickle=False) as archive:
            if {"format", "shape", "data"} <= set(archive.files):
                return {"X": sparse.csr_matrix(sparse.load_npz(path))}
            return dict(archive)
    except OSError:
        raise
    except Exception as error:  # whatever a damaged archive provokes
        raise DataError(f"{path} cannot be read as NumPy arrays: {error}") from error


def check_folder(path: str | os.PathLike[str] | None) -> None:
    """Raise before any work is done if ``path`` could not be written for want of its folder."""
    if path is None or path == PIPE:
        return
    folder = Path(path).parent
    if not folder.is_dir():
        raise DataError(f"{os.fspath(path)} cannot be written: there is no folder {folder}, make it first.")


def write(path: str, kept: Any, answers: dict[str, Any]) -> None:
    """Write ``answers`` beside the kept columns, in the format that ``path`` ends in."""
    ending = Path(path).suffix.lower()
    if ending == ".npz":
        np.savez_compressed(path, **answers)
        return
    pa = require("pyarrow", extra="data", for_=f"writing {path}")
    table = pa.table(answers) if kept is None else kept
    if kept is not None:
        for name, values in answers.items():
            if name in table.column_names:
                raise DataError(f"the input has a column {name!r} already: choose another --prefix.")
            table = table.append_column(name, pa.array(values))
    if path == PIPE or ending in _TEXT:
        csv = require("pyarrow.csv", extra="data", for_="writing CSV")
        options = csv.WriteOptions(delimiter="\t" if ending == ".tsv" else ",")
        csv.write_csv(table, sys.stdout.buffer if path == PIPE else path, options)
    elif ending in _ARROW:
        require("pyarrow.feather", extra="data", for_="writing Arrow").write_feather(table, path)
    elif ending in (".parquet", ".pq"):
        require("pyarrow.parquet", extra="data", for_="writing Parquet").write_table(table, path)
    else:
        raise DataTypeError(f"{path}: the ending {ending!r} is not known, the ways out are {_KNOWN}.")


def _numbers(pa: Any, column: Any, name: str, path: str) -> Any:
    """The column as float64 with NaN for what is missing."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
            or pa.types.is_decimal(kind) or pa.types.is_null(kind)):  # fmt: skip
        raise DataTypeError(
            f"{path}: column {name!r} holds {kind}, not numbers: leave it out with --drop {name}, "
            "or encode it as numbers first."
        )
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    values = column.cast(pa.float64(), safe=False).to_numpy()
    return pa.array(np.asarray(values, dtype=np.float64))


def _flat(column: Any) -> Any:
    """One label, weight or group a row, as NumPy has it."""
    values = np.asarray(column.to_numpy())
    return values.astype(np.int64) if values.dtype == bool else values
