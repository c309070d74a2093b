"""Tables read from files: text, Parquet, Arrow and Feather, NumPy archives, and the standard input."""

from __future__ import annotations

import difflib
import errno
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drpu._optional import require
from drpu.cli.text import JSON_LINES, PIPE, TextFormat, read_text
from drpu.exceptions import DataError, DataTypeError

__all__ = ["ARROW", "KNOWN", "PARQUET", "TEXT", "Loaded", "ending_of", "read"]

ARROW = (".arrow", ".feather", ".ipc")
PARQUET = (".parquet", ".pq")
TEXT = (".csv", ".tsv", ".txt", *JSON_LINES)
KNOWN = (
    "CSV (.csv, .tsv, .txt) and JSON lines (.jsonl, .ndjson), each also with .gz, "
    "Parquet (.parquet), Arrow (.arrow, .feather) and NumPy (.npz, .npy)"
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The content of a file: a table with named columns, or named arrays."""

    path: str
    table: Any = None  # pyarrow.Table
    arrays: dict[str, Any] | None = None

    @property
    def names(self) -> list[str]:
        """Names of the columns or arrays."""
        return list(self.table.column_names if self.arrays is None else self.arrays)

    def column(self, name: str) -> Any:
        """One column as a flat array; missing numbers are NaN, missing texts None."""
        self.check_names([name])
        if self.arrays is not None:
            return self.arrays[name]
        return _flat(self.table.column(name))

    def rows(self, *, columns: Sequence[str] = (), drop: Sequence[str] = ()) -> Any:
        """The rows to learn from or to score: named columns, or all but the dropped ones."""
        if self.arrays is not None:
            return self._array_rows(columns, drop)
        self.check_names([*columns, *drop])
        names = [name for name in (columns or self.names) if name not in drop]
        if not names:
            raise DataError(f"{self.path}: no column is left to learn from: drop fewer columns.")
        pa = require("pyarrow", extra="cli", for_="reading tables")
        self._check_kinds(pa, names)
        return self.table.select(names)

    def _check_kinds(self, pa: Any, names: Iterable[str]) -> None:
        """Refuse all unusable columns in one error, so that they can be corrected together."""
        refused = {name: self.table.column(name).type for name in names}
        refused = {name: kind for name, kind in refused.items() if not _usable(pa, kind)}
        if refused:
            shown = ", ".join(f"{name!r} ({kind})" for name, kind in list(refused.items())[:12])
            shown += ", ..." if len(refused) > 12 else ""
            raise DataTypeError(
                f"{self.path}: these columns hold neither numbers, texts nor dates: {shown}. Leave them out "
                f"with --drop {','.join(refused)}."
            )
        endless = [name for name in names if _any_infinite(pa, self.table.column(name))]
        if endless:
            raise DataError(
                f"{self.path}: columns with infinite numbers, or numbers too large for float64: "
                f"{', '.join(map(repr, endless[:12]))}. Correct them, or leave them out with "
                f"--drop {','.join(endless)}."
            )

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

    def check_names(self, wanted: Sequence[str]) -> None:
        """Raise unless the file has all of these columns; close names are suggested."""
        absent = [name for name in wanted if name not in self.names]
        if not absent:
            return
        close = difflib.get_close_matches(absent[0], self.names, n=1)
        if not close:  # names that differ only in case are close, too
            close = [name for name in self.names if name.lower() == absent[0].lower()][:1]
        meant = f" Did you mean {close[0]!r}?" if close else ""
        shown = ", ".join(self.names[:12]) + (", ..." if len(self.names) > 12 else "")
        raise DataError(f"{self.path}: no column {absent[0]!r}, the file has {shown}.{meant}")


def ending_of(path: str) -> str:
    """The ending of a file name, in lower case and without ``.gz``."""
    name = Path(path).name.lower()
    return Path(name.removesuffix(".gz")).suffix


def read(path: str, form: TextFormat | None = None) -> Loaded:
    """The content of ``path``, read by its ending; ``-`` is CSV from the standard input."""
    form, ending = form or TextFormat(), ending_of(path)
    if path != PIPE and not Path(path).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if ending in (".npz", ".npy"):
        return Loaded(path, arrays=_arrays(path))
    if path == PIPE or ending in TEXT:
        return Loaded(path, table=_with_good_names(read_text(path, ending, form), path))
    if not (Path(path).is_dir() or ending in (*ARROW, *PARQUET)):
        raise DataTypeError(f"{path}: the ending {ending!r} is not known. Supported are {KNOWN}.")
    pa = require("pyarrow", extra="cli", for_=f"reading {path}")
    try:
        return Loaded(path, table=_with_good_names(_read_columnar(path, ending), path))
    except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _read_columnar(path: str, ending: str) -> Any:
    if ending in ARROW:
        return require("pyarrow.feather", extra="cli", for_="reading Arrow").read_table(
            path, memory_map=False
        )
    return require("pyarrow.parquet", extra="cli", for_="reading Parquet").read_table(path)


def _with_good_names(table: Any, path: str) -> Any:
    """The table, if no two columns share a name; a blank name becomes ``column_1`` by its position."""
    names = [name.strip() or f"column_{k}" for k, name in enumerate(table.column_names, start=1)]
    twice = [f"{name!r} ({n} times)" for name, n in Counter(names).items() if n > 1]
    if twice:
        raise DataError(
            f"{path}: column names must differ, got {', '.join(twice[:12])}: rename them in the header."
        )
    return table.rename_columns(names)


def _arrays(path: str) -> dict[str, Any]:
    from scipy import sparse

    try:
        if path.endswith(".npy"):
            return {"X": np.load(path, allow_pickle=False)}
        with np.load(path, allow_pickle=False) as archive:
            if {"format", "shape", "data"} <= set(archive.files):
                return {"X": sparse.csr_matrix(sparse.load_npz(path))}
            return dict(archive)
    except OSError:
        raise
    except Exception as error:  # a damaged archive can cause any error
        raise DataError(f"{path} cannot be read as NumPy arrays: {error}") from error


# -- columns ---------------------------------------------------------------------------------------


def _usable(pa: Any, kind: Any) -> bool:
    """Whether the library can use the column: numbers, texts, categories and dates."""
    types = pa.types
    tests = (
        types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null,
        types.is_string, types.is_large_string, types.is_dictionary, types.is_date, types.is_timestamp,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def _any_infinite(pa: Any, column: Any) -> bool:
    if not pa.types.is_floating(column.type):
        return False
    compute = require("pyarrow.compute", extra="cli", for_="reading tables")
    return bool(compute.any(compute.is_inf(column)).as_py())


def _flat(column: Any) -> Any:
    """One label, weight or group per row, as a NumPy array."""
    values = np.asarray(column.to_numpy())
    return values.astype(np.int64) if values.dtype == bool else values
