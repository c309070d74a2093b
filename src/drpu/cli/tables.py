"""Files of rows: read as Arrow tables or arrays, with encodings and compression, and written."""

from __future__ import annotations

import codecs
import csv
import difflib
import errno
import gzip
import io
import itertools
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import unicodedata
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from drpu._checks import LARGEST, require
from drpu._output import FORMULA, check_output, output_file, printable
from drpu.cli.show import PIPE, listed, plain
from drpu.exceptions import DataError, DataTypeError, MissingExtraError, ParameterError
from drpu.tables.values import NULL_WORDS

INDEX = "__index_level_"  # start of the name of an index in Parquet files of pandas
JSON_LINES = (".jsonl", ".ndjson", ".json")
SEPARATED = (".csv", ".tsv", ".txt")
ARROW = (".arrow", ".feather", ".ipc")
PARQUET = (".parquet", ".pq")
NUMPY = (".npz", ".npy")
EXCEL = (".xlsx", ".xlsm", ".xls", ".ods")
KNOWN = (
    "CSV (.csv, .tsv, .txt) and JSON lines (.jsonl, .ndjson), each also with .gz, "
    "Parquet (.parquet), Arrow (.arrow, .feather) and NumPy (.npz, .npy)"
)
WORKBOOK = ".xlsx"  # the kind of Excel file that is written
WRITTEN = (*SEPARATED, *JSON_LINES, *ARROW, *PARQUET, WORKBOOK)
_NOT_UTF8 = "read it with --encoding latin-1 (or cp1252, or whatever wrote it)"
_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_SEPARATORS = {";": "';'", "\t": "tab", "|": "'|'"}
_SEPARATOR_WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
_READABLE = f"{KNOWN}, and Excel (.xlsx, with the extra excel)"
FIRST_ROWS = 10_000  # of a Parquet file, which show whether a column is empty
_LARGEST_BLOCK = 2**31 - 2  # bytes
_SPOOLED = 2**26  # bytes for a pipe that are kept in memory until all are written
_MOST_PACKED = 50  # times that a compressed file is smaller than its content
_MOST_NESTED = 64  # levels of values in JSON lines
_LINES_AT_ONCE = 2**24  # bytes
_NO_MARKS = bytes(set(range(256)) - set(b'[]{}"\n'))  # bytes that do not matter for nesting
_DECIMAL_COMMA = r"^[+-]?[0-9]+,[0-9]+$"
_THOUSANDS = r"^[+-]?[0-9]{1,3}(,[0-9]{3})+$"
_NUMBER = r"^[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?$"


def arrow(module: str = "pyarrow") -> Any:
    """A module of pyarrow, or an error that says how to install it."""
    return require(module, extra="cli", for_="reading and writing tables")


# -- text files ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextFormat:
    """How to read a text file; None means the default of its ending, and UTF-8."""

    sep: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    option: str = "--"  # beginning of the names of the options

    def __post_init__(self) -> None:
        if self.sep is not None and not re.fullmatch(r"[\t -~]", self.separator):
            raise ParameterError(
                f"{self.option}sep must be one ASCII character, or tab, got {self.sep!r}."
            )
        if self.decimal not in (None, ".", ",") or (self.sep and self.decimal == self.sep):
            raise ParameterError(
                f"{self.option}decimal must be . or , and differ from {self.option}sep, "
                f"got {self.decimal!r} and {self.sep!r}."
            )
        try:
            "".encode(self.encoding or "utf-8")
        except (LookupError, ValueError) as error:
            raise ParameterError(
                f"{self.option}encoding must name an encoding that Python knows, such as latin-1, "
                f"cp1252 or utf-16, got {self.encoding!r}."
            ) from error

    def check(self, paths: Sequence[str]) -> None:
        """Raise if one of the options has no effect on any of these files."""
        endings = {ending_of(path) for path in paths}
        for name, value, kinds in (
            ("--sep", self.sep, SEPARATED),
            ("--decimal", self.decimal, SEPARATED),
            ("--encoding", self.encoding, (*SEPARATED, *JSON_LINES)),
        ):
            if value is not None and not endings.intersection(kinds):
                raise ParameterError(
                    f"{name} is about files that end in {', '.join(kinds)}, and "
                    f"{', '.join(paths)} does not: leave it out."
                )

    @property
    def separator(self) -> str:
        """The separator as a character; empty if it was left out."""
        if self.sep is None:
            return ""
        return _SEPARATOR_WORDS.get(self.sep.lower(), self.sep)


@dataclass(frozen=True)
class TextFile:
    """A text file or the standard input, and how it is read."""

    path: str
    form: TextFormat
    texts: Sequence[str]  # columns that are texts, whatever their values look like
    content: bytes | None = None  # read instead of the file: the standard input, or a sheet

    @property
    def name(self) -> str:
        """What messages call the file."""
        return "the standard input" if self.path == PIPE else self.path

    @property
    def is_json(self) -> bool:
        """Whether it holds JSON lines."""
        return ending_of(self.path) in JSON_LINES

    @property
    def is_packed(self) -> bool:
        """Whether it is compressed."""
        return self.path.lower().endswith(".gz")

    def read(self) -> Any:
        """The Arrow table in the file."""
        pa = arrow()
        try:
            if self.is_json:
                self._check_nesting()
                return arrow("pyarrow.json").read_json(self._source)
            table = self._read_csv()
            if any(pa.types.is_binary(kind) for kind in table.schema.types):
                raise UnicodeError("some values are not UTF-8")
        except UnicodeError as error:
            encoding = self.form.encoding
            advice = "try another --encoding"
            if encoding is None:
                encoding = "UTF-8"
                advice = _NOT_UTF8
            raise DataError(f"{self.name} is not {encoding} ({error}): {advice}.") from error
        except (EOFError, zlib.error, OSError) as error:
            if self.path != PIPE and not self.is_packed:
                raise
            raise DataError(
                f"{self.name} cannot be read: it is not a whole gzip file ({error})."
            ) from error
        except pa.ArrowInvalid as error:
            raise self._unreadable(error) from error
        self.check_table(table)
        return table

    def check_table(self, table: Any) -> None:
        """Raise if rows of the file show that the separator or the decimal mark is another one."""
        if table.num_columns == 1 and self.form.sep is None:
            self._check_separator(table.column_names[0])
        if self.form.decimal is None:
            self._check_decimals(table)

    @cached_property
    def _source(self) -> Any:
        """The path, which Arrow opens and unpacks itself, or the bytes where it cannot."""
        decodes = self.is_json and self.form.encoding is not None
        with self._open() as file:
            if self.form.encoding is None:
                self._check_start(file.read(1024))
            if self.content is None and not decodes:
                return self.path
            file.seek(0)
            content = file.read()
        if decodes:
            content = content.decode(self.form.encoding).encode()
        return arrow().BufferReader(content)

    def _open(self) -> Any:
        if self.content is None:
            return gzip.open(self.path) if self.is_packed else open(self.path, "rb")
        file = io.BytesIO(self.content)
        if self.content[:2] == b"\x1f\x8b":
            return gzip.open(file)
        return file

    def _check_start(self, start: bytes) -> None:
        """Raise if the first bytes are not UTF-8 text, and name their likely encoding."""
        encoding = _BYTE_ORDER_MARKS.get(start[:2])
        if encoding is None and _mostly_zeros(start[1::2]):
            encoding = "utf-16-le"
        if encoding is None and _mostly_zeros(start[::2]):
            encoding = "utf-16-be"
        if encoding is not None:
            raise DataError(
                f"{self.name} looks like {encoding.upper()}, not UTF-8: "
                f"read it with --encoding {encoding}."
            )

    def _check_nesting(self) -> None:
        """Raise if values are nested so deeply that the reader of Arrow, which recurs, would end.

        Arrow reads blocks of the file at once. No state is carried over from one line to the next
        but the depth, and the largest increase of the depth counts, whatever is closed before.
        """
        depth = 0
        with self._json_bytes() as file:
            while lines := file.readlines(_LINES_AT_ONCE):
                increases = _nesting(b"".join(lines))
                depths = np.concatenate(([0, depth], increases)).cumsum()
                rises = depths - np.minimum.accumulate(depths)
                depth = int(rises[-1])
                if rises.max() > _MOST_NESTED:
                    raise DataError(
                        f"{self.name} cannot be read: values are nested deeper than "
                        f"{_MOST_NESTED} levels. Write one object of plain values per line: "
                        '{"a": 1, "b": 2}.'
                    )

    def _json_bytes(self) -> Any:
        """A file with the bytes that Arrow reads, unpacked."""
        source = self._source
        if isinstance(source, str):
            return self._open()
        source.seek(0)
        content: bytes = source.read()
        source.seek(0)
        file = io.BytesIO(content)
        if content.startswith(b"\x1f\x8b"):
            return gzip.open(file)
        return file

    def _read_csv(self) -> Any:
        """The table in a CSV file; NA and the like are missing numbers, but values of texts."""
        pa = arrow()
        known_texts = dict.fromkeys(self.texts, pa.string())
        block_size = None
        try:
            table = self._read_with(known_texts)
        except pa.ArrowInvalid:
            # Types were guessed from the first block; a later value may not fit, or be longer than
            # a block. Guess from all.
            block_size = self._size_of_all
            table = self._read_with(known_texts, block_size)
        if len(set(table.column_names)) < table.num_columns:
            return table  # the caller refuses names that occur twice
        codes = self.columns_of_codes(table.schema, block_size)
        if not codes:
            return table
        return self._read_with(known_texts | dict.fromkeys(codes, pa.string()), block_size)

    @property
    def _size_of_all(self) -> int:
        """Bytes of a block that holds the whole file."""
        source = self._source
        if isinstance(source, str):
            size = _MOST_PACKED * os.path.getsize(source)
        else:
            size = source.size()
        return int(min(size + 1, _LARGEST_BLOCK))

    def _read_with(self, types: dict[str, Any], block_size: int | None = None) -> Any:
        """The table, with the types of some columns given and those of the others guessed."""
        arrow_csv = arrow("pyarrow.csv")
        return arrow_csv.read_csv(*self.csv_options(block_size), self.conversion(types))

    def conversion(self, types: dict[str, Any]) -> Any:
        """How values of a CSV file are converted; types that are not given are guessed."""
        return arrow("pyarrow.csv").ConvertOptions(
            column_types=types,
            decimal_point=self.form.decimal or ".",
            null_values=["", *NULL_WORDS],
        )

    def csv_options(self, block_size: int | None = None) -> tuple[Any, Any, Any]:
        """The source of a CSV file, and how it is read and divided into values."""
        arrow_csv = arrow("pyarrow.csv")
        if not isinstance(self._source, str):
            self._source.seek(0)
        read = arrow_csv.ReadOptions(encoding=self.form.encoding or "utf8", block_size=block_size)
        return self._source, read, arrow_csv.ParseOptions(delimiter=self._separator)

    def columns_of_codes(self, schema: Any, block_size: int | None = None) -> list[str]:
        """Columns of digits with leading zeros, such as postal codes, which are texts."""
        pa = arrow()
        arrow_csv = arrow("pyarrow.csv")
        compute = arrow("pyarrow.compute")
        whole = [field.name for field in schema if pa.types.is_integer(field.type)]
        if not whole:
            return []
        as_texts = arrow_csv.ConvertOptions(
            include_columns=whole, column_types=dict.fromkeys(whole, pa.string())
        )
        codes = set()
        for batch in arrow_csv.open_csv(*self.csv_options(block_size), as_texts):
            for name in whole:
                leading_zeros = compute.match_substring_regex(batch.column(name), "^0[0-9]")
                if compute.any(leading_zeros).as_py():
                    codes.add(name)
        return list(codes)

    def _unreadable(self, error: Exception) -> DataError:
        """The error, with advice that depends on its cause."""
        if self.form.sep is None and self.path.lower().endswith(SEPARATED):
            with open(self.path, "rb") as file:
                self._check_separator(file.readline(65536).decode("latin-1"))
        reason = " ".join(str(error).split())
        if "columns, got" in reason:
            reason = self._ragged_line() or reason
        if self.form.encoding is not None:
            reason += f" (read as {self.form.encoding}: try another --encoding, or none for UTF-8)"
        elif "UTF8" in reason:  # in a column that training had as text
            reason += f": {_NOT_UTF8}."
        if self.is_json:
            reason += '; write one object per line: {"a": 1, "b": 2}'
        return DataError(f"{self.name} cannot be read: {reason}")

    def _ragged_line(self) -> str | None:
        """What is wrong with the first line that has more or fewer values than the header."""
        encoding = self.form.encoding or "utf-8-sig"
        with io.TextIOWrapper(self._open(), encoding, "replace", newline="") as lines:
            reader = csv.reader(lines, delimiter=self._separator)
            width = 0
            try:
                for values in reader:
                    width = width or len(values)
                    if values and len(values) != width:  # Arrow skips empty lines
                        return (
                            f"line {reader.line_num} has {len(values)} values, and the header has "
                            f"{width}. Put values that contain a separator in quotation marks."
                        )
            except (csv.Error, UnicodeError):  # the error of Arrow says what is wrong
                return None
        return None

    @property
    def _separator(self) -> str:
        return self.form.separator or _default_separator(ending_of(self.path))

    def _check_separator(self, header: str) -> None:
        """Raise if another separator occurs more often than commas in the first line."""
        separator = max(_SEPARATORS, key=header.count)
        if header.count(separator) > header.count(","):
            word = _SEPARATORS[separator]
            raise DataError(
                f"{self.name} seems to be separated by {word}: read it with --sep {word}."
            )

    def _check_decimals(self, table: Any) -> None:
        """Raise if all texts of a column, such as 43,44, look like numbers with decimal commas."""
        pa = arrow()
        compute = arrow("pyarrow.compute")
        gaps = pa.array(["", *NULL_WORDS, None], pa.string())
        for field, column in zip(table.schema, table.columns, strict=True):
            if not pa.types.is_string(field.type) or field.name in self.texts:
                continue
            values = column.filter(compute.invert(compute.is_in(column, gaps)))
            if len(values) and _all_match(values, _DECIMAL_COMMA):
                if _all_match(values, _THOUSANDS):
                    continue
                raise DataError(
                    f"{self.name}: the numbers of {field.name!r} seem to have decimal commas, as "
                    f"in {values[0]}: read the file with --decimal , (or with --decimal . if they "
                    "are texts)."
                )


def _nesting(lines: bytes) -> Any:
    """1 for each bracket that opens in JSON lines and -1 for each that closes, outside of texts."""
    without_escapes = re.sub(rb"\\.", b"", lines)
    marks = without_escapes.translate(None, delete=_NO_MARKS)
    brackets = re.sub(rb'"[^"\n]*"|["\n]', b"", marks)
    opening = np.isin(np.frombuffer(brackets, dtype=np.uint8), list(b"[{"))
    return np.where(opening, 1, -1)


def _default_separator(ending: str) -> str:
    return "\t" if ending == ".tsv" else ","


def _mostly_zeros(content: bytes) -> bool:
    return content.count(0) > len(content) / 2


def _all_match(values: Any, pattern: str) -> bool:
    compute = arrow("pyarrow.compute")
    return bool(compute.all(compute.match_substring_regex(values, pattern)).as_py())


# -- the content of any file -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loaded:
    """The content of a file: a table with named columns, or named arrays."""

    path: str
    table: Any = None  # pyarrow.Table
    arrays: dict[str, Any] | None = None

    @property
    def names(self) -> list[str]:
        """Names of the columns or arrays."""
        if self.arrays is None:
            return list(self.table.column_names)
        return list(self.arrays)

    @property
    def texts(self) -> set[str]:
        """Names of the columns of texts."""
        if self.table is None:
            return set()
        return {field.name for field in self.table.schema if str(field.type).endswith("string")}

    def empty_columns(self, names: Iterable[str]) -> list[str]:
        """The columns of a table among ``names`` that have no value in any row."""
        present = set(self.names)
        return [name for name in names if name in present and is_empty(self.table[name])]

    def name_of(self, word: str) -> str:
        """The name of the column that a word means, which may differ in spaces around it."""
        name = self.find_name(word)
        if name is None:
            meant = did_you_mean(word, self.names)
            raise DataError(
                f"{self.path}: no column {word!r}, the file has "
                f"{listed(map(repr, self.names))}.{meant}"
            )
        return name

    def find_name(self, word: str | None) -> str | None:
        """The name of the column that a word means; None if there is none."""
        if word is None or word in self.names:
            return word
        alike = _by_words(self.names).get(_word(word), [])
        return alike[0] if len(alike) == 1 else None

    def names_of(self, text: str | None) -> list[str]:
        """The names of the columns in a comma-separated list; none if it was left out."""
        names = []
        for word in (text or "").split(","):
            if word.strip():
                names.append(self.name_of(word))
        return names

    def named_like(self, names: Iterable[str]) -> Loaded:
        """The content; a column whose name is one of these, but for spaces or forms, gets it."""
        present = set(self.names)
        by_words = _by_words(self.names)
        renamed = {}
        for name in names:
            alike = by_words.get(_word(name), [])
            if name not in present and len(alike) == 1:
                renamed[alike[0]] = name
        if not renamed:
            return self
        new_names = [renamed.get(name, name) for name in self.names]
        return replace(self, table=self.table.rename_columns(new_names))

    def optional_column(self, word: str | None) -> Any:
        """One column as a flat array; None if none was named."""
        return None if word is None else self.column(word)

    def column(self, word: str) -> Any:
        """One column as a flat array; missing numbers are NaN, missing texts None."""
        name = self.name_of(word)
        if self.arrays is not None:
            return self.arrays[name]
        values = _values(self.table.column(name))
        if values.dtype == bool:
            return values.astype(np.int64)
        if values.dtype == object and ending_of(self.path) in (*SEPARATED, *EXCEL):
            values[np.isin(values, ["", *NULL_WORDS])] = None
        return values

    def suspects(self) -> dict[str, Any]:
        """The columns that drpu suspects wrote."""
        columns = {name: self.column(f"drpu_{name}") for name in ("row", "suspicion")}
        for name in self.names:
            if name.startswith("drpu_"):
                columns[name.removeprefix("drpu_")] = self.column(name)
        return columns

    def numbers(self, name: str, meaning: str) -> Any:
        """One column of numbers."""
        values = self.column(name)
        if values.dtype.kind not in "biuf":
            raise DataTypeError(f"{self.path}: the column {name!r} of {meaning} must hold numbers.")
        return values

    def groups(self, by: str | None) -> Any:
        """The column to group by, one value per row; None if none was named."""
        if by is None:
            return None
        if self.table is None:
            raise DataError(f"{self.path}: --by works on tables, not on NumPy archives.")
        if self.find_name(by) is None:
            types = arrow().types
            dates = []
            for field in self.table.schema:
                if types.is_date(field.type) or types.is_timestamp(field.type):
                    dates.append(f"--by {field.name}")
            if dates:
                raise DataError(
                    f"{self.path}: no column {by!r}. "
                    f"Dates are grouped by month: {', '.join(dates[:8])}."
                )
        return self.column(by)

    def kept(self, keep: str | None) -> Any:
        """The columns that are copied to the output; None if the file has no columns."""
        if keep is None:
            return self.table
        if self.table is None:
            raise DataError(f"{self.path}: --keep works on tables, not on NumPy archives.")
        return self.table.select(self.names_of(keep))

    def rows(self, names: Sequence[str]) -> Any:
        """The rows to learn from or to score, with the columns of these names."""
        if not names:
            raise DataError(f"{self.path}: no column is left to learn from: drop fewer columns.")
        if not self.table.num_rows:
            raise DataError(f"{self.path}: the file has the names of columns, but no rows.")
        self._check_types(names)
        self._check_sizes(names)
        return self.table.select(names)

    def _check_types(self, names: Sequence[str]) -> None:
        """Refuse all columns of unusable types in one error: they are corrected together."""
        refused = {}
        for name in names:
            kind = self.table.column(name).type
            if not _usable(kind):
                refused[name] = f"{name!r} ({kind})"
        if refused:
            raise DataTypeError(
                f"{self.path}: these columns hold neither numbers, texts nor dates: "
                f"{listed(refused.values())}. Leave them out with "
                f"--drop {shlex.quote(','.join(refused))}."
            )

    def _check_sizes(self, names: Sequence[str]) -> None:
        """Refuse all columns with too large numbers in one error."""
        refused = {}
        for name in names:
            if _any_too_large(self.table.column(name)):
                refused[name] = repr(name)
        if refused:
            raise DataError(
                f"{self.path}: columns with infinite or too large numbers, above {LARGEST:g}: "
                f"{listed(refused.values())}. Correct them, or leave them out with "
                f"--drop {shlex.quote(','.join(refused))}."
            )

    def array_rows(self, aside: Sequence[str] = ()) -> Any:
        """The array of rows; those of labels and weights, ``aside``, are none."""
        assert self.arrays is not None
        if "X" in self.arrays:
            return self.arrays["X"]
        tables = []
        for name, values in self.arrays.items():
            if name not in aside and values.ndim > 1:
                tables.append(values)
        if len(tables) != 1:
            names = ", ".join(map(repr, self.arrays))
            raise DataError(f"{self.path}: the rows must be an array called 'X', got {names}.")
        return tables[0]


def _values(column: Any) -> Any:
    """The values of a column as an array; equal texts are one object, of which there are few."""
    if not arrow().types.is_string(column.type):
        return np.asarray(column.to_numpy())
    parts = [np.empty(0, dtype=object)]
    for chunk in column.chunks:
        encoded = chunk.dictionary_encode()
        texts = [*encoded.dictionary.to_pylist(), None]
        number = encoded.indices.fill_null(len(texts) - 1).to_numpy()
        parts.append(np.array(texts, dtype=object)[number])
    return np.concatenate(parts)


def _by_words(names: Iterable[str]) -> dict[str, list[str]]:
    """The names that have one word in common, by that word."""
    by_words: dict[str, list[str]] = {}
    for name in names:
        by_words.setdefault(_word(name), []).append(name)
    return by_words


def _word(name: str) -> str:
    """The name without spaces around it, in NFC; other systems write another form of Unicode."""
    return unicodedata.normalize("NFC", name.strip())


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """A question with the name that is closest, after a space; empty if none is close."""
    close = difflib.get_close_matches(name, names, n=1)
    if not close:  # names that differ only in case are close, too
        close = [other for other in names if other.lower() == name.lower()]
    if not close:
        return ""
    return f" Did you mean {close[0]!r}?"


def _usable(kind: Any) -> bool:
    """Whether the library can use the column: numbers, texts, categories and dates."""
    types = arrow().types
    tests = (
        types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null,
        types.is_string, types.is_large_string, types.is_dictionary, types.is_temporal,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def is_empty(column: Any) -> bool:
    """Whether all values of a column are missing, or empty texts."""
    if column.null_count == len(column):
        return True
    types = arrow().types
    if not types.is_string(column.type) and not types.is_large_string(column.type):
        return False
    return _all_match(column.drop_null(), r"^\s*$")


def _any_too_large(column: Any) -> bool:
    if not arrow().types.is_floating(column.type):
        return False
    compute = arrow("pyarrow.compute")
    return bool(compute.any(compute.greater(compute.abs(column), LARGEST)).as_py())


# -- reading ---------------------------------------------------------------------------------------


def ending_of(path: str) -> str:
    """The ending of a file name, in lower case and without ``.gz``; pipes carry CSV."""
    if path == PIPE:
        return ".csv"
    name = Path(path).name.lower()
    return Path(name.removesuffix(".gz")).suffix


def read(path: str, form: TextFormat | None = None, texts: Sequence[str] = ()) -> Loaded:
    """The content of ``path``, read by its ending; ``-`` is CSV from the standard input.

    ``texts`` names columns of CSV files that are texts, whatever their values look like.
    """
    ending = ending_of(path)
    if path != PIPE and not Path(path).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if ending in NUMPY:
        return Loaded(path, arrays=_read_arrays(path))
    if ending in (*SEPARATED, *JSON_LINES):
        content = sys.stdin.buffer.read() if path == PIPE else None
        table = TextFile(path, form or TextFormat(), texts, content).read()
    elif Path(path).is_dir() or ending in (*ARROW, *PARQUET):
        table = _read_columnar(path, ending)
    elif ending in EXCEL:
        form = TextFormat(sep=",", decimal=".")
        table = TextFile(path, form, texts, content=_sheet_as_csv(path)).read()
    else:
        raise DataTypeError(
            f"{path}: the ending {ending!r} is not known. Supported are {_READABLE}."
        )
    return Loaded(path, table=with_good_names(table, path))


def start_of_parquet(path: str) -> Loaded:
    """The first rows of a Parquet file, or of a folder of such files.

    A column without a value in these rows is read to its end: if it has one, it is the first value.
    """
    from drpu.scale.batches import open_parquet, scan_parquet

    if not Path(path).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    data = open_parquet(path)
    # not data.head, which reads ahead, up to whole files
    parts = [data.schema.empty_table()]
    for batch in scan_parquet(data, FIRST_ROWS, data.schema.names):
        parts.append(arrow().Table.from_batches([batch], data.schema))
        if sum(part.num_rows for part in parts) >= FIRST_ROWS:
            break
    start = Loaded(path, table=arrow().concat_tables(parts).slice(0, FIRST_ROWS))
    table = start.table
    for name in start.empty_columns(start.names):
        for batch in scan_parquet(data, FIRST_ROWS, [name]):
            table = with_first_value(table, name, batch.column(0))
            if not is_empty(table[name]):
                break
    return Loaded(path, table=table)


def with_first_value(table: Any, name: str, values: Any) -> Any:
    """The table; the column ``name`` has the first of the values in all rows, if there is one."""
    if is_empty(values):
        return table
    values = values.drop_null()
    types = arrow().types
    if types.is_string(values.type) or types.is_large_string(values.type):
        values = values.filter(arrow("pyarrow.compute").match_substring_regex(values, r"\S"))
    column = values.take([0] * table.num_rows)
    return table.set_column(table.column_names.index(name), name, column)


def read_written(path: str, texts: Sequence[str] = ()) -> Loaded:
    """The content of a file that drpu wrote; ``texts`` as in :func:`read`.

    It is UTF-8 with commas, unless a spreadsheet has saved it in another way.
    """
    content = b""
    if path.lower().endswith(SEPARATED) and Path(path).is_file():
        content = Path(path).read_bytes()
    encoding = _BYTE_ORDER_MARKS.get(content[:2])
    try:
        text = content.decode(encoding or "utf-8")
    except UnicodeDecodeError:
        encoding = "latin-1"
        text = content.decode(encoding)
    separator = None
    beside_name = re.search(r'drpu_row"?([,;|\t])|([,;|\t])"?drpu_row', text)
    if beside_name is not None:
        separator = beside_name[1] or beside_name[2]
    return read(path, TextFormat(separator, encoding, "."), texts)


def read_as_written(path: str) -> Loaded:
    """The content of a file that drpu wrote, whose values stay texts as they stand in a CSV file.

    So the file can be written again without a change.
    """
    loaded = read_written(path)
    if loaded.table is None or ending_of(path) not in SEPARATED:
        return loaded
    return read_written(path, texts=loaded.names)


def _read_columnar(path: str, ending: str) -> Any:
    """The table in an Arrow file, a Parquet file or a folder of Parquet files."""
    pa = arrow()
    try:
        if ending in ARROW:
            return _without_views(arrow("pyarrow.feather").read_table(path, memory_map=False))
        from drpu.scale.batches import check_files, open_parquet

        data = open_parquet(path)
        check_files(data, [name for name in data.schema.names if not name.startswith(INDEX)])
        return data.to_table()
    except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _sheet_as_csv(path: str) -> bytes:
    """The first sheet of a workbook as CSV, so that cells mean the same as in a text file."""
    try:
        calamine = require("python_calamine", extra="excel", for_=f"reading {path}")
    except MissingExtraError as error:
        raise MissingExtraError(f"{error}, or save the sheet as CSV.") from error
    try:
        workbook = calamine.CalamineWorkbook.from_path(path)
        rows = workbook.get_sheet_by_index(0).to_python()
    except calamine.CalamineError as error:
        raise DataError(f"{path} cannot be read as Excel: {error}. Save it as CSV.") from error
    sheets = workbook.sheet_names
    if len(sheets) > 1:
        text = f"{path}: the first of {len(sheets)} sheets is read, {sheets[0]!r}."
        warnings.warn(text, stacklevel=1)
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    for row in rows:
        writer.writerow(map(_cell_as_text, row))
    return lines.getvalue().encode()


def _cell_as_text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():  # Excel has no whole numbers
        return str(int(cell))
    return str(cell)


def _without_views(table: Any) -> Any:
    """The table without views of texts, which polars writes and few functions of Arrow accept."""
    pa = arrow()
    for position, field in enumerate(table.schema):
        if "string_view" not in str(field.type):
            continue
        kind = pa.large_string()
        if pa.types.is_dictionary(field.type):
            kind = pa.dictionary(field.type.index_type, kind)
        table = table.set_column(position, field.name, table.column(position).cast(kind))
    return table


def with_good_names(table: Any, path: str) -> Any:
    """The table, if no two columns share a name; an empty one becomes ``column_1`` by position."""
    names = []
    for position, name in enumerate(table.column_names, start=1):
        if not name:
            name = f"column_{position}"
        names.append(name)
    twice = [f"{name!r} ({n} times)" for name, n in Counter(names).items() if n > 1]
    if twice:
        raise DataError(
            f"{path}: column names must differ, got {listed(twice)}: rename them in the header."
        )
    return table.rename_columns(names)


def _read_arrays(path: str) -> dict[str, Any]:
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


# -- writing ---------------------------------------------------------------------------------------


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
    if table and ending_of(str(target)) not in (*WRITTEN, ".npz"):
        raise DataTypeError(
            f"{target}: the ending {target.suffix!r} is not known. Supported are {KNOWN}, and "
            f"Excel ({WORKBOOK})."
        )
    check_output(target, inputs=[source for source in inputs if source is not None])


def with_columns(table: Any, columns: dict[str, Any], rows: Any = None) -> Any:
    """An Arrow table with further columns; a new one if ``table`` is None.

    ``rows`` are the positions of the rows that the columns are about; all rows if left out.
    """
    pa = arrow()
    if table is None or not table.column_names:
        return pa.table(columns)
    if rows is not None:
        table = table.take(rows)
    for name, values in columns.items():
        if name in table.column_names:
            raise DataError(f"the input has a column {name!r} already: choose another --prefix.")
        table = table.append_column(name, pa.array(values))
    return table


def first_row(path: str) -> int:
    """The number of the first row of a file: its line, below a header if the file has one."""
    if ending_of(path) in (*SEPARATED, *EXCEL):
        return 2
    return 1


def numbered(columns: dict[str, Any], first: int, *names: str) -> dict[str, Any]:
    """The columns; positions of rows in those with these names become numbers of rows."""
    new_columns = dict(columns)
    for name in names:
        numbers = []
        for position in columns[name]:
            numbers.append(None if position is None else position + first)
        new_columns[name] = numbers
    return new_columns


def with_labels(table: Any, words: dict[int, str | None]) -> Any:
    """The table of an audit with the answer about the row of each number."""
    from drpu.audits.plan import LABEL

    answers = [words[row] for row in audited_rows(table)]
    column = arrow().array(answers, arrow().string())
    return table.set_column(table.column_names.index(LABEL), LABEL, column)


def csv_lines(table: Any, rows: Sequence[int], *, formulas: bool = False) -> tuple[str, list[str]]:
    """Header and lines of the table of an audit as CSV; the answers are last, and left out.

    The lines are in the order of ``rows``, which are numbers of rows.
    """
    from drpu.audits.plan import LABEL

    numbers = audited_rows(table)
    lines_of_rows = dict(zip(numbers, range(len(numbers)), strict=True))
    table = table.take([lines_of_rows[row] for row in rows])
    no_answers = arrow().array([None] * table.num_rows, arrow().string())
    table = table.drop_columns([LABEL]).append_column(LABEL, no_answers)
    if not formulas:
        table = _without_formulas(table)
    lines = []
    for line in range(table.num_rows):
        lines.append(_csv_text(table.slice(line, 1), header=False))
    return _csv_text(table.slice(0, 0)), lines


def audited_rows(table: Any) -> list[int]:
    """The numbers in the table of an audit, which a spreadsheet may have changed to 3.0."""
    from drpu.audits.plan import ROW

    return [int(float(row)) for row in table.column(ROW).to_pylist()]


def _csv_text(table: Any, *, header: bool = True) -> str:
    arrow_csv = arrow("pyarrow.csv")
    text = io.BytesIO()
    arrow_csv.write_csv(table, text, arrow_csv.WriteOptions(include_header=header))
    return text.getvalue().decode().removesuffix("\n")


def write_tables(
    path: str,
    tables: Iterable[Any],
    *,
    formulas: bool = False,
    form: TextFormat | None = None,
    six_digits: Sequence[str] = (),
) -> None:
    """Write Arrow tables of one schema, one below the other, in the format of the ending.

    A pipe gets CSV. Texts in CSV that a spreadsheet would run as formulas are protected, unless
    ``formulas``. The columns ``six_digits`` are rounded in texts and workbooks. Nothing is written
    if making one of the tables raises.
    """
    ending = ending_of(path)
    form = form or TextFormat()
    if ending in (*SEPARATED, WORKBOOK) and six_digits:
        tables = (_rounded(table, six_digits) for table in tables)
    if ending in SEPARATED and not formulas:
        tables = map(_without_formulas, tables)
    if ending in SEPARATED and form.decimal == ",":
        tables = map(_with_decimal_commas, tables)
    if path == PIPE:
        _write_to_pipe(tables, form)
        return
    with output_file(path) as file:
        if path.lower().endswith(".gz"):
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
                _encode(tables, ending, packed, form)
        else:
            _encode(tables, ending, file, form)


def _rounded(table: Any, names: Sequence[str]) -> Any:
    """The table; numbers in the columns of these names have six significant digits."""
    for name in names:
        values = np.asarray(table.column(name).to_numpy(), dtype=np.float64)
        finite = np.isfinite(values) & (values != 0)
        magnitude = np.floor(np.log10(np.abs(np.where(finite, values, 1.0))))
        scale = 10.0 ** np.minimum(5 - magnitude, 300)
        rounded = np.where(finite, np.round(values * scale) / scale, values)
        column = arrow().array(rounded)
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _with_decimal_commas(table: Any) -> Any:
    """The table with texts such as 0,5 for numbers with decimals."""
    pa = arrow()
    compute = arrow("pyarrow.compute")
    for position, field in enumerate(table.schema):
        if pa.types.is_floating(field.type) or pa.types.is_decimal(field.type):
            texts = compute.cast(table.column(position), pa.string())
            commas = compute.replace_substring(texts, ".", ",")
            table = table.set_column(position, field.name, commas)
    return table


class _InEncoding:
    """A binary file that gets UTF-8 and holds another encoding."""

    closed = False

    def __init__(self, file: Any, encoding: str) -> None:
        self.file = file
        self.encoding = encoding
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        self.encoder = codecs.getincrementalencoder(encoding)()

    def write(self, content: Any) -> int:
        """Write UTF-8, which may end within a letter."""
        content = bytes(content)
        try:
            self.file.write(self.encoder.encode(self.decoder.decode(content)))
        except UnicodeEncodeError as error:
            letter = error.object[error.start]
            raise DataError(
                f"{letter!r} cannot be written as {self.encoding}: give --out-encoding utf-8."
            ) from error
        return len(content)

    def flush(self) -> None:
        """Pass on what was written."""
        self.file.flush()

    def close(self) -> None:
        """Leave the file to its owner."""


def _without_formulas(table: Any) -> Any:
    """The table with an apostrophe before texts that look like formulas, and are not numbers."""
    pa = arrow()
    for position, field in enumerate(table.schema):
        kind = field.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            texts = _protected(table.column(position).cast(kind))
            table = table.set_column(position, field.name, texts)
    names = _protected(pa.array(table.column_names, pa.string()))
    return table.rename_columns(names.to_pylist())


def _protected(texts: Any) -> Any:
    pa = arrow()
    compute = arrow("pyarrow.compute")
    formula = compute.match_substring_regex(texts, FORMULA)
    number = compute.match_substring_regex(texts, _NUMBER)
    apostrophe = pa.scalar("'", texts.type)
    nothing = pa.scalar("", texts.type)
    marked = compute.binary_join_element_wise(apostrophe, texts, nothing)
    return compute.if_else(compute.and_not(formula, number), marked, texts)


def _write_to_pipe(tables: Iterable[Any], form: TextFormat) -> None:
    with tempfile.SpooledTemporaryFile(max_size=_SPOOLED) as content:
        _encode(tables, ".csv", content, form)
        content.seek(0)
        if not sys.stdout.isatty():
            sys.stdout.flush()
            shutil.copyfileobj(content, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        for line in content:  # values must not control the terminal
            text = line.decode(form.encoding or "utf-8", "replace")
            print(printable(text.removesuffix("\n")))


def _encode(tables: Iterable[Any], ending: str, sink: Any, form: TextFormat) -> None:
    if ending in JSON_LINES:
        for table in tables:
            for row in table.to_pylist():
                sink.write(json.dumps(plain(row), allow_nan=False).encode() + b"\n")
        return
    if ending == WORKBOOK:
        _write_workbook(tables, sink)
        return
    if ending not in (*SEPARATED, *ARROW, *PARQUET):
        table = arrow().concat_tables(tables)
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
        np.savez_compressed(sink, **columns)
        return
    iterator = iter(tables)
    first = next(iterator)
    if ending in SEPARATED and form.encoding is not None:
        sink = _InEncoding(sink, form.encoding)
    with _arrow_writer(sink, ending, first.schema, form) as writer:
        writer.write_table(first)
        for table in iterator:
            writer.write_table(table)


def _write_workbook(tables: Iterable[Any], sink: Any) -> None:
    from drpu.cli.excel import write_workbook

    iterator = iter(tables)
    first = next(iterator)

    def rows() -> Iterator[Any]:
        for table in itertools.chain([first], iterator):
            columns = [column.to_pylist() for column in table.columns]
            yield from zip(*columns, strict=True)

    write_workbook(sink, first.column_names, rows())


def _arrow_writer(sink: Any, ending: str, schema: Any, form: TextFormat) -> Any:
    if ending in SEPARATED:
        arrow_csv = arrow("pyarrow.csv")
        separator = form.separator or _default_separator(ending)
        options = arrow_csv.WriteOptions(delimiter=separator)
        return arrow_csv.CSVWriter(sink, schema, write_options=options)
    if ending in PARQUET:
        return arrow("pyarrow.parquet").ParquetWriter(sink, schema)
    ipc = arrow("pyarrow.ipc")
    compression = "lz4" if arrow().Codec.is_available("lz4") else None
    return ipc.new_file(sink, schema, options=ipc.IpcWriteOptions(compression=compression))
