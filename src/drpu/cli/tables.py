"""Files of rows: read as Arrow tables or arrays, with encodings and compression, and written."""

from __future__ import annotations

import difflib
import errno
import gzip
import io
import json
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drpu._checks import LARGEST
from drpu._optional import require
from drpu._output import check_output, output_file
from drpu.cli.options import names
from drpu.cli.show import _plain, printable
from drpu.exceptions import DataError, DataTypeError, ParameterError
from drpu.tables.values import NULL_WORDS

PIPE = "-"
JSON_LINES = (".jsonl", ".ndjson", ".json")
SEPARATED = (".csv", ".tsv", ".txt")
ARROW = (".arrow", ".feather", ".ipc")
PARQUET = (".parquet", ".pq")
KNOWN = (
    "CSV (.csv, .tsv, .txt) and JSON lines (.jsonl, .ndjson), each also with .gz, "
    "Parquet (.parquet), Arrow (.arrow, .feather) and NumPy (.npz, .npy)"
)
_NOT_UTF8 = "read it with --encoding latin-1 (or cp1252, or whatever wrote it)"
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_SEPARATORS = {";": "';'", "\t": "tab", "|": "'|'"}
_WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
_LARGEST_BLOCK = 2**31 - 2  # bytes
_COMMA, _THOUSANDS = r"^[+-]?[0-9]+,[0-9]+$", r"^[+-]?[0-9]{1,3}(,[0-9]{3})+$"


@dataclass(frozen=True, slots=True)
class TextFormat:
    """How to read a text file; None means the default of its ending, and UTF-8."""

    sep: str | None = None
    encoding: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        if self.sep is not None and not re.fullmatch(r"[\t -~]", self.separator):
            raise ParameterError(f"--sep must be one ASCII character, or tab, got {self.sep!r}.")
        if self.decimal not in (None, ".", ",") or (self.decimal == self.sep and self.sep):
            raise ParameterError(
                f"--decimal must be . or , and differ from --sep, got {self.decimal!r} and {self.sep!r}."
            )
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except (LookupError, ValueError) as error:
                raise ParameterError(
                    f"--encoding must name an encoding that Python knows, such as latin-1, cp1252 or utf-16, "
                    f"got {self.encoding!r}."
                ) from error

    def check(self, paths: Sequence[str]) -> None:
        """Raise if one of the options has no effect on any of these files."""
        endings = {".csv" if path == PIPE else ending_of(path) for path in paths}
        for name in ("sep", "decimal", "encoding"):
            kinds = (*SEPARATED, *JSON_LINES) if name == "encoding" else SEPARATED
            if getattr(self, name) is not None and not endings.intersection(kinds):
                raise ParameterError(
                    f"--{name} is about files that end in {', '.join(kinds)}, and {', '.join(paths)} does "
                    "not: leave it out."
                )

    @property
    def separator(self) -> str:
        """The separator as a character, or None if it was left out."""
        return "" if self.sep is None else _WORDS.get(self.sep.lower(), self.sep)


def _read_text(path: str, ending: str, form: TextFormat, texts: Sequence[str]) -> Any:
    """The Arrow table in a text file, or on the standard input if ``path`` is ``-``."""
    pa = require("pyarrow", extra="cli", for_=f"reading {path}")
    name, is_csv = "the standard input" if path == PIPE else path, ending not in JSON_LINES
    try:
        source = _source(pa, path, name, ending, form)
        if is_csv:
            table = _csv(pa, source, ending, form, texts)
        else:
            table = require("pyarrow.json", extra="cli", for_="reading JSON lines").read_json(
                source
            )
        if is_csv and any(pa.types.is_binary(kind) for kind in table.schema.types):
            raise UnicodeError("some values are not UTF-8")
    except UnicodeError as error:
        advice = _NOT_UTF8 if form.encoding is None else "try another --encoding"
        raise DataError(f"{name} is not {form.encoding or 'UTF-8'} ({error}): {advice}.") from error
    except (EOFError, zlib.error, OSError) as error:
        if path != PIPE and not path.lower().endswith(".gz"):
            raise
        raise DataError(f"{name} cannot be read: it is not a whole gzip file ({error}).") from error
    except pa.ArrowInvalid as error:
        raise _unreadable(path, name, ending, form, error) from error
    if is_csv and table.num_columns == 1 and form.sep is None:
        _check_separator(table.column_names[0], name)
    if is_csv and form.decimal is None:
        _check_decimals(pa, table, name, texts)
    return table


def _source(pa: Any, path: str, name: str, ending: str, form: TextFormat) -> Any:
    """The path, which Arrow opens and unpacks itself, or the bytes where it cannot."""
    if path == PIPE:
        content = sys.stdin.buffer.read()
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    else:
        with gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb") as file:
            content = file.read() if ending in JSON_LINES and form.encoding else file.read(1024)
    if form.encoding is None:
        _check_start(content[:1024], name)
    elif ending in JSON_LINES:
        return pa.BufferReader(content.decode(form.encoding).encode())
    return pa.BufferReader(content) if path == PIPE else path


def _check_start(start: bytes, name: str) -> None:
    """Raise if the first bytes are not UTF-8 text, and name the encoding that they seem to have."""
    mark = _MARKS.get(start[:2])
    for mark_, zeros in (("utf-16-le", start[1::2]), ("utf-16-be", start[::2])):
        mark = mark_ if mark is None and zeros.count(0) > len(zeros) / 2 else mark
    if mark is not None:
        raise DataError(
            f"{name} looks like {mark.upper()}, not UTF-8: read it with --encoding {mark}."
        )


def _csv(pa: Any, source: Any, ending: str, form: TextFormat, known_texts: Sequence[str]) -> Any:
    """The table in a CSV file; words such as NA are missing numbers, but in texts they are values."""
    csv = require("pyarrow.csv", extra="cli", for_="reading CSV")
    compute = require("pyarrow.compute", extra="cli", for_="reading CSV")
    parse = csv.ParseOptions(delimiter=form.separator or ("\t" if ending == ".tsv" else ","))
    known = dict.fromkeys(known_texts, pa.string())
    guess: dict[str, Any] = {
        "decimal_point": form.decimal or ".",
        "column_types": known,
        "null_values": ["", *NULL_WORDS],
    }

    def read(how: Any = csv.read_csv, block: int | None = None, **convert: Any) -> Any:
        if not isinstance(source, str):
            source.seek(0)
        options = csv.ReadOptions(encoding=form.encoding or "utf8", block_size=block)
        return how(source, options, parse, csv.ConvertOptions(**convert))

    try:
        table = read(**guess)
    except pa.ArrowInvalid:
        # Types were guessed from the first block; a later value may not fit. Guess from all of them.
        size = 50 * os.path.getsize(source) if isinstance(source, str) else source.size()
        table = read(block=min(size + 1, _LARGEST_BLOCK), **guess)
    whole = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    if not whole or len(set(table.column_names)) < table.num_columns:
        return table  # the caller refuses names that occur twice
    codes: set[str] = set()  # digits with leading zeros, such as postal codes, are texts
    texts = dict.fromkeys(whole, pa.string())
    for batch in read(csv.open_csv, include_columns=whole, column_types=texts):
        for name in whole:
            zeros = compute.match_substring_regex(batch.column(name), "^0[0-9]")
            codes |= {name} if compute.any(zeros).as_py() else set()
    return (
        read(**guess | {"column_types": known | dict.fromkeys(codes, pa.string())})
        if codes
        else table
    )


def _unreadable(path: str, name: str, ending: str, form: TextFormat, error: Exception) -> DataError:
    """The error, with advice that depends on its cause."""
    if form.sep is None and path != PIPE and path.lower().endswith(SEPARATED):
        with open(path, "rb") as file:
            _check_separator(file.readline(65536).decode("latin-1"), name)
    reason = " ".join(str(error).split())
    if form.encoding is not None:
        reason += f" (read as {form.encoding}: try another --encoding, or none for UTF-8)"
    elif "UTF8" in reason:  # in a column that training had as text
        reason += f": {_NOT_UTF8}."
    if ending in JSON_LINES:
        reason += '; write one object per line: {"a": 1, "b": 2}'
    return DataError(f"{name} cannot be read: {reason}")


def _check_separator(header: str, name: str) -> None:
    """Raise if another separator occurs more often than commas in the first line of a file."""
    found = max(_SEPARATORS, key=header.count)
    if header.count(found) > header.count(","):
        shown = _SEPARATORS[found]
        raise DataError(f"{name} seems to be separated by {shown}: read it with --sep {shown}.")


def _check_decimals(pa: Any, table: Any, name: str, texts: Sequence[str]) -> None:
    """Raise if all texts of a column, such as 43,44, look like numbers with decimal commas."""
    compute = require("pyarrow.compute", extra="cli", for_="reading CSV")
    gaps = pa.array(["", *NULL_WORDS, None], pa.string())
    for field, column in zip(table.schema, table.columns, strict=True):
        if not pa.types.is_string(field.type) or field.name in texts:
            continue
        values = column.filter(compute.invert(compute.is_in(column, gaps)))
        commas, thousands = (
            compute.match_substring_regex(values, rule) for rule in (_COMMA, _THOUSANDS)
        )
        if len(values) and compute.all(commas).as_py() and not compute.all(thousands).as_py():
            raise DataError(
                f"{name}: the numbers of {field.name!r} seem to have decimal commas, as in {values[0]}: read "
                "the file with --decimal , (or with --decimal . if they are texts)."
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

    @property
    def texts(self) -> set[str]:
        """Names of the columns of texts."""
        fields = () if self.table is None else self.table.schema
        return {field.name for field in fields if str(field.type).endswith("string")}

    def column(self, name: str) -> Any:
        """One column as a flat array; missing numbers are NaN, missing texts None."""
        self.check_names([name])
        if self.arrays is not None:
            return self.arrays[name]
        return _flat(
            self.table.column(name), gaps=ending_of(self.path) in SEPARATED or self.path == PIPE
        )

    def suspects(self) -> dict[str, Any]:
        """The columns that drpu suspects wrote."""
        self.check_names(["drpu_row", "drpu_suspicion"])
        found = [name for name in self.names if name.startswith("drpu_")]
        return {name.removeprefix("drpu_"): self.column(name) for name in found}

    def numbers(self, name: str, meaning: str) -> Any:
        """One column of numbers."""
        values = self.column(name)
        if values.dtype.kind not in "biuf":
            raise DataTypeError(f"{self.path}: the column {name!r} of {meaning} must hold numbers.")
        return values

    def groups(self, by: str) -> Any:
        """The column to group by, one value per row."""
        if self.table is None:
            raise DataError(f"{self.path}: --by works on tables, not on NumPy archives.")
        types = require("pyarrow", extra="cli", for_="reading tables").types
        dates = [
            f for f in self.table.schema if types.is_date(f.type) or types.is_timestamp(f.type)
        ]
        if by not in self.names and dates:
            shown = ", ".join(f"--by {field.name}" for field in dates[:8])
            raise DataError(f"{self.path}: no column {by!r}. Dates are grouped by month: {shown}.")
        return self.column(by)

    def kept(self, keep: str | None) -> Any:
        """The columns that are copied to the output; None if the file has no columns."""
        if keep is None:
            return self.table
        if self.table is None:
            raise DataError(f"{self.path}: --keep works on tables, not on NumPy archives.")
        self.check_names(names(keep))
        return self.table.select(names(keep))

    def rows(
        self, *, columns: Sequence[str] = (), drop: Sequence[str] = (), aside: Sequence[str] = ()
    ) -> Any:
        """The rows to learn from or to score: named columns, or all but the dropped ones.

        ``aside``: Columns of labels and weights, which are not among them either.
        """
        if self.arrays is not None:
            return self._array_rows(columns, drop, aside)
        self.check_names([*columns, *drop])
        names = [name for name in (columns or self.names) if name not in (*drop, *aside)]
        if not names:
            raise DataError(f"{self.path}: no column is left to learn from: drop fewer columns.")
        if not self.table.num_rows:
            raise DataError(f"{self.path}: the file has the names of columns, but no rows.")
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
        endless = [name for name in names if _any_too_large(pa, self.table.column(name))]
        if endless:
            raise DataError(
                f"{self.path}: columns with infinite or too large numbers, above {LARGEST:g}: "
                f"{', '.join(map(repr, endless[:12]))}. Correct them, or leave them out with "
                f"--drop {','.join(endless)}."
            )

    def _array_rows(self, columns: Sequence[str], drop: Sequence[str], aside: Sequence[str]) -> Any:
        assert self.arrays is not None
        for option in (["--columns"] if columns else []) + (["--drop"] if drop else []):
            raise DataError(
                f"{self.path}: {option} works on tables; a NumPy archive holds its rows in 'X'."
            )
        if "X" in self.arrays:
            return self.arrays["X"]
        tables = {k: v for k, v in self.arrays.items() if k not in aside and v.ndim > 1}
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


def read(path: str, form: TextFormat | None = None, texts: Sequence[str] = ()) -> Loaded:
    """The content of ``path``, read by its ending; ``-`` is CSV from the standard input.

    ``texts`` names columns of CSV files that are texts, whatever their values look like.
    """
    form, ending = form or TextFormat(), ending_of(path)
    if path != PIPE and not Path(path).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if ending in (".npz", ".npy"):
        return Loaded(path, arrays=_arrays(path))
    if path == PIPE or ending in (*SEPARATED, *JSON_LINES):
        return Loaded(path, table=_with_good_names(_read_text(path, ending, form, texts), path))
    if not (Path(path).is_dir() or ending in (*ARROW, *PARQUET)):
        raise DataTypeError(f"{path}: the ending {ending!r} is not known. Supported are {KNOWN}.")
    pa = require("pyarrow", extra="cli", for_=f"reading {path}")
    try:
        return Loaded(path, table=_with_good_names(_read_columnar(path, ending), path))
    except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def read_own(path: str) -> Loaded:
    """The content of a file that drpu wrote: UTF-8 with commas, unless a spreadsheet saved it otherwise."""
    is_text = path.lower().endswith(SEPARATED) and Path(path).is_file()
    content = Path(path).read_bytes() if is_text else b""
    encoding = _MARKS.get(content[:2])
    try:
        text = content.decode(encoding or "utf-8")
    except UnicodeDecodeError:
        encoding, text = "latin-1", content.decode("latin-1")
    found = re.search(r'drpu_row"?([,;|\t])|([,;|\t])"?drpu_row', text)
    return read(path, TextFormat(found and (found[1] or found[2]), encoding, "."))


def _read_columnar(path: str, ending: str) -> Any:
    if ending in ARROW:
        feather = require("pyarrow.feather", extra="cli", for_="reading Arrow")
        pa = require("pyarrow", extra="cli", for_="reading Arrow")
        return _without_views(pa, feather.read_table(path, memory_map=False))
    from drpu.scale.batches import check_files, open_parquet

    data = open_parquet(path)
    check_files(data, [name for name in data.schema.names if not name.startswith("__index_level_")])
    return data.to_table()


def _without_views(pa: Any, table: Any) -> Any:
    """The table without views of texts, which polars writes and few functions of Arrow accept."""
    for k, field in enumerate(table.schema):
        if "string_view" in str(field.type):
            kind = pa.large_string()
            kind = (
                pa.dictionary(field.type.index_type, kind)
                if pa.types.is_dictionary(field.type)
                else kind
            )
            table = table.set_column(k, field.name, table.column(k).cast(kind))
    return table


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


def _usable(pa: Any, kind: Any) -> bool:
    """Whether the library can use the column: numbers, texts, categories and dates."""
    types = pa.types
    tests = (
        types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null,
        types.is_string, types.is_large_string, types.is_dictionary, types.is_temporal,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def _any_too_large(pa: Any, column: Any) -> bool:
    if not pa.types.is_floating(column.type):
        return False
    compute = require("pyarrow.compute", extra="cli", for_="reading tables")
    return bool(compute.any(compute.greater(compute.abs(column), LARGEST)).as_py())


def _flat(column: Any, *, gaps: bool) -> Any:
    """One label, weight or group per row, as a NumPy array; with ``gaps`` words such as NA are missing."""
    values = np.asarray(column.to_numpy())
    if gaps and values.dtype == object:
        words = {"", *NULL_WORDS}
        values = np.array([None if value in words else value for value in values], dtype=object)
    return values.astype(np.int64) if values.dtype == bool else values


def check_out(
    path: str | os.PathLike[str] | None, inputs: Iterable[Any], *, table: bool = False
) -> None:
    """Raise before any work is done if ``path`` cannot be written, or is one of the inputs."""
    if path is None or os.fspath(path) == PIPE:
        return
    target = Path(path)
    if not target.parent.is_dir():
        raise DataError(
            f"{target} cannot be written: there is no folder {target.parent}, create it first."
        )
    if table and ending_of(str(target)) not in (*SEPARATED, *JSON_LINES, *ARROW, *PARQUET, ".npz"):
        raise DataTypeError(
            f"{target}: the ending {target.suffix!r} is not known. Supported are {KNOWN}."
        )
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


def write_table(path: str, table: Any, *, formulas: bool = False) -> None:
    """Write an Arrow table in the format of the ending of ``path``, or as CSV to the standard output.

    Texts in CSV that a spreadsheet would run as formulas are protected, unless ``formulas``.
    """
    if not formulas and (path == PIPE or ending_of(path) in SEPARATED):
        table = _without_formulas(table)
    if path == PIPE:
        _to_pipe(table)
        return
    with output_file(path) as file:
        if path.lower().endswith(".gz"):
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
                _encode(table, ending_of(path), packed)
        else:
            _encode(table, ending_of(path), file)


_FORMULA, _NUMBER = r"^[=+\-@\t\r]", r"^[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?$"


def _without_formulas(table: Any) -> Any:
    """The table with an apostrophe before texts that look like formulas, and are not numbers."""
    pa = require("pyarrow", extra="cli", for_="writing CSV")
    compute = require("pyarrow.compute", extra="cli", for_="writing CSV")

    def safe(texts: Any) -> Any:
        found, number = (compute.match_substring_regex(texts, rule) for rule in (_FORMULA, _NUMBER))
        marked = compute.binary_join_element_wise(
            pa.scalar("'", texts.type), texts, pa.scalar("", texts.type)
        )
        return compute.if_else(compute.and_not(found, number), marked, texts)

    for k, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            table = table.set_column(k, field.name, safe(table.column(k).cast(kind)))
    return table.rename_columns(safe(pa.array(table.column_names, pa.string())).to_pylist())


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
    if ending in SEPARATED:
        csv = require("pyarrow.csv", extra="cli", for_="writing CSV")
        csv.write_csv(table, sink, csv.WriteOptions(delimiter="\t" if ending == ".tsv" else ","))
    elif ending in JSON_LINES:
        for row in table.to_pylist():
            sink.write(json.dumps(_plain(row), allow_nan=False).encode() + b"\n")
    elif ending in ARROW:
        require("pyarrow.feather", extra="cli", for_="writing Arrow").write_feather(table, sink)
    elif ending in PARQUET:
        require("pyarrow.parquet", extra="cli", for_="writing Parquet").write_table(table, sink)
    else:
        np.savez_compressed(
            sink, **{name: table.column(name).to_numpy() for name in table.column_names}
        )
