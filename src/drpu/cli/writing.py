"""Tables written to files, or to the standard output."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from drpu._optional import require
from drpu._output import check_output, output_file
from drpu.cli.reading import ARROW, KNOWN, PARQUET, ending_of
from drpu.cli.show import printable
from drpu.cli.text import JSON_LINES, PIPE
from drpu.exceptions import DataError, DataTypeError

__all__ = ["beside", "check_out", "write_table"]

_TEXT = (".csv", ".tsv", ".txt")
_KNOWN = (*_TEXT, *ARROW, *PARQUET, *JSON_LINES, ".npz")


def check_out(path: str | os.PathLike[str] | None, inputs: Iterable[Any], *, table: bool = False) -> None:
    """Raise before any work is done if ``path`` cannot be written, or is one of the inputs.

    Parameters
    ----------
    path : path-like or None
        The output; None and ``-`` are not files.
    inputs : iterable of path-like
        Files that the command reads.
    table : bool
        Whether a table is written; its format depends on the ending.
    """
    if path is None or os.fspath(path) == PIPE:
        return
    target = Path(path)
    if not target.parent.is_dir():
        raise DataError(f"{target} cannot be written: there is no folder {target.parent}, create it first.")
    if table and ending_of(str(target)) not in _KNOWN:
        raise DataTypeError(f"{target}: the ending {target.suffix!r} is not known. Supported are {KNOWN}.")
    check_output(target, inputs=[given for given in inputs if given is not None])


def beside(kept: Any, answers: dict[str, Any]) -> Any:
    """The kept columns followed by the predictions, as an Arrow table."""
    pa = require("pyarrow", extra="cli", for_="writing tables")
    if kept is None:
        return pa.table(answers)
    for name, values in answers.items():
        if name in kept.column_names:
            raise DataError(f"the input has a column {name!r} already: choose another --prefix.")
        kept = kept.append_column(name, pa.array(values))
    return kept


def write_table(path: str, table: Any, *, inputs: Iterable[Any] = ()) -> None:
    """Write an Arrow table in the format of the ending of ``path``, or as CSV to the standard output."""
    if path == PIPE:
        _to_pipe(table)
        return
    with output_file(path, inputs=[given for given in inputs if given is not None]) as file:
        if path.lower().endswith(".gz"):
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
                _encode(table, ending_of(path), packed)
        else:
            _encode(table, ending_of(path), file)


def _to_pipe(table: Any) -> None:
    if not sys.stdout.isatty():
        sys.stdout.flush()
        _encode(table, ".csv", sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    text = io.BytesIO()
    _encode(table, ".csv", text)
    for line in text.getvalue().decode().splitlines():  # values must not control the terminal
        print(printable(line))


def _encode(table: Any, ending: str, sink: Any) -> None:
    """Write the bytes of the file to ``sink``."""
    if ending in _TEXT:
        csv = require("pyarrow.csv", extra="cli", for_="writing CSV")
        csv.write_csv(table, sink, csv.WriteOptions(delimiter="\t" if ending == ".tsv" else ","))
    elif ending in JSON_LINES:
        for row in table.to_pylist():
            sink.write(json.dumps(row, default=str).encode() + b"\n")
    elif ending in ARROW:
        require("pyarrow.feather", extra="cli", for_="writing Arrow").write_feather(table, sink)
    elif ending in PARQUET:
        require("pyarrow.parquet", extra="cli", for_="writing Parquet").write_table(table, sink)
    else:
        np.savez_compressed(sink, **{name: table.column(name).to_numpy() for name in table.column_names})
