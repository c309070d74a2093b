"""Large files of rows, which are read, counted, scored and written in batches."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import drpu
from drpu._arrays import IntArray
from drpu._progress import Step
from drpu.classifier.reading import read_batch
from drpu.cli.show import PIPE
from drpu.cli.tables import (
    FIRST_ROWS,
    INDEX,
    PARQUET,
    SEPARATED,
    Loaded,
    TextFile,
    TextFormat,
    arrow,
    ending_of,
    is_empty,
    start_of_parquet,
    with_columns,
    with_first_value,
    with_good_names,
)
from drpu.exceptions import DataError, heard, warn
from drpu.periods.groups import Groups
from drpu.priors.tails import ScoreTails
from drpu.scale.batches import open_parquet, scan_parquet
from drpu.state.fitted import FittedRatio
from drpu.state.rows import Batch

LARGE = 64 * 2**20  # bytes; a smaller file takes less than half a gigabyte of memory as a whole
BLOCK = 4 * 2**20  # bytes of text in a batch; Arrow reads up to 32 of them ahead
PACKED = 4  # times that a compressed text file is usually smaller than its content
ROWS = 65_536  # in a batch of a Parquet file
_COLUMN = re.compile(r"In CSV column #(\d+)")  # in an error of Arrow about a value


def open_large(path: str, form: TextFormat, texts: Iterable[str]) -> LargeFile | None:
    """The file, if it is large and can be read in batches; None if it is read as a whole.

    ``texts`` names columns of CSV files that are texts, whatever their values look like.
    """
    if path == PIPE or not Path(path).exists() or _size(path) < LARGE:
        return None
    if Path(path).is_dir() or Path(path).suffix.lower() in PARQUET:
        head = start_of_parquet(path)
        if any(name.startswith(INDEX) for name in head.names):  # some files may lack an index
            return None
        return LargeParquet(path, head, open_parquet(path).count_rows())
    if ending_of(path) in SEPARATED:
        return LargeText.of(TextFile(path, form, tuple(texts)))
    return None


def _size(path: str) -> int:
    """Bytes of a file, or of the files in a folder, without compression of text."""
    if Path(path).is_dir():
        return sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    size = os.path.getsize(path)
    if path.lower().endswith(".gz"):
        return PACKED * size
    return size


@dataclass(frozen=True)
class LargeFile(ABC):
    """A file that is read in batches.

    ``head`` has its first rows. A column without a value in them has the first value of the file,
    so that only columns that are empty in all rows look empty.
    """

    path: str
    head: Loaded
    n_rows: int

    @abstractmethod
    def tables(self) -> Iterator[Any]:
        """Arrow tables with all rows of the file; the current step of a progress bar advances."""

    def batches(self) -> Iterator[Loaded]:
        """All rows of the file; raises if it has other rows than when it was opened."""
        n_rows = 0
        for table in self.tables():
            n_rows += table.num_rows
            if table.num_rows and n_rows <= self.n_rows:
                yield Loaded(self.path, table=with_good_names(table, self.path))
        if n_rows != self.n_rows:
            raise DataError(
                f"{self.path} was changed while it was read: it had {self.n_rows:,} rows, and has "
                f"{n_rows:,}."
            )

    def take(self, positions: Any, names: list[str]) -> Any:
        """An Arrow table of the rows at these positions, in their order; the file is read again."""
        ascending = np.unique(positions)
        parts = [self.head.table.select(names).slice(0, 0)]
        start = 0
        for batch in self.batches():
            end = start + batch.table.num_rows
            first, last = np.searchsorted(ascending, [start, end])
            parts.append(batch.table.select(names).take(ascending[first:last] - start))
            start = end
        return arrow().concat_tables(parts).take(np.searchsorted(ascending, positions))


@dataclass(frozen=True, slots=True)
class LargeTable:
    """Columns of a large file, whose values are read when they are asked for."""

    file: LargeFile
    column_names: list[str]

    @property
    def schema(self) -> Any:
        """Names and types of the columns."""
        return self.file.head.table.select(self.column_names).schema

    def column(self, name: str) -> Any:
        """One column of all rows."""
        parts = [batch.table.select([name]) for batch in self.file.batches()]
        return arrow().concat_tables(parts).column(name)

    def select(self, names: Iterable[str]) -> LargeTable:
        """Some of the columns."""
        return LargeTable(self.file, list(names))

    def take(self, positions: Any) -> Any:
        """An Arrow table of the rows at these positions."""
        return self.file.take(positions, self.column_names)

    def with_columns(self, columns: dict[str, Any]) -> Iterator[Any]:
        """Arrow tables of all rows with further columns."""
        start = 0
        for batch in self.file.batches():
            end = start + batch.table.num_rows
            new_columns = {name: values[start:end] for name, values in columns.items()}
            yield with_columns(batch.table.select(self.column_names), new_columns)
            start = end


@dataclass(frozen=True)
class LargeParquet(LargeFile):
    """A large Parquet file, or a folder of such files."""

    def tables(self) -> Iterator[Any]:  # noqa: D102
        data = open_parquet(self.path)
        rows_done = 0

        def share_done() -> float:
            return rows_done / max(self.n_rows, 1)

        for batch in _with_progress(scan_parquet(data, ROWS, data.schema.names), share_done):
            rows_done += batch.num_rows
            yield arrow().Table.from_batches([batch])


@dataclass(frozen=True)
class LargeText(LargeFile):
    """A large CSV file, and the types of its columns."""

    text: TextFile
    types: dict[str, Any]

    @classmethod
    def of(cls, text: TextFile) -> LargeText | None:
        """The file after one pass that finds the types of columns, as Arrow does in memory.

        None if it cannot be read in batches, for any reason: reading it as a whole tells which.
        """
        texts = dict.fromkeys(text.texts, arrow().string())
        survey = _FileSurvey.of(text, texts)
        if survey is None:
            return None
        codes = text.columns_of_codes(arrow().schema(survey.types), BLOCK)
        if codes:
            survey = _FileSurvey.of(text, survey.types | dict.fromkeys(codes, arrow().string()))
        if survey is None:
            return None
        head = Loaded(text.path, table=with_good_names(survey.head, text.path))
        return cls(text.path, head, survey.n_rows, text, survey.types)

    def tables(self) -> Iterator[Any]:  # noqa: D102
        try:
            with _opened(self.text, self.types) as (reader, share_read):
                for batch in _with_progress(reader, share_read):
                    yield arrow().Table.from_batches([batch])
        except arrow().ArrowInvalid as error:  # it could be read a moment ago
            raise DataError(f"{self.path} was changed while it was read: {error}") from error


@dataclass(frozen=True)
class _FileSurvey:
    types: dict[str, Any]  # of all columns
    head: Any  # the table of LargeFile
    n_rows: int

    @classmethod
    def of(cls, text: TextFile, types: dict[str, Any]) -> _FileSurvey | None:
        """Types that fit all values, with some of them given; None if there are none."""
        while True:
            try:
                with _opened(text, types) as (reader, share_read):
                    schema = reader.schema
                    if len(set(schema.names)) < len(schema.names):
                        return None  # the names of the file are refused, or made different
                    types = dict(zip(schema.names, schema.types, strict=True))
                    head, n_rows = _head(text, _with_progress(reader, share_read))
            except arrow().ArrowInvalid as error:
                wider = _wider(types, str(error))
                if wider is None:
                    return None
                types = wider
                continue
            except (OSError, UnicodeError):
                return None
            if head is None or any(map(arrow().types.is_binary, types.values())):
                return None
            return cls(types, head, n_rows)


@contextmanager
def _opened(text: TextFile, types: dict[str, Any]) -> Iterator[tuple[Any, Callable[[], float]]]:
    """A reader of batches, and a function that gives the share of bytes that was read."""
    _, read, parse = text.csv_options(BLOCK)
    with arrow().OSFile(text.path) as file:
        size = max(file.size(), 1)
        source = file
        if text.is_packed:
            source = arrow().CompressedInputStream(file, "gzip")
        reader = arrow("pyarrow.csv").open_csv(source, read, parse, text.conversion(types))
        with reader:
            yield reader, lambda: float(file.tell() / size)


def _head(text: TextFile, batches: Iterable[Any]) -> tuple[Any, int]:
    """The head of :class:`LargeFile`, None without rows, and the number of all rows."""
    head = None
    n_rows = 0
    empty: list[str] = []
    for batch in batches:
        n_rows += batch.num_rows
        if head is None and batch.num_rows:
            table = arrow().Table.from_batches([batch])
            text.check_table(table)
            head = table.slice(0, FIRST_ROWS)
            empty = [name for name in head.column_names if is_empty(head[name])]
        for name in list(empty):
            head = with_first_value(head, name, batch.column(name))
            if not is_empty(head[name]):
                empty.remove(name)
    return head, n_rows


def _wider(types: dict[str, Any], message: str) -> dict[str, Any] | None:
    """The types with the next one for the column that an error is about; None if there is none.

    The order is that of Arrow, which in memory takes the first type that fits all values.
    """
    pa = arrow()
    order = [
        pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s"),
        pa.timestamp("s"), pa.timestamp("s", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC"),
        pa.float64(), pa.string(),
    ]  # fmt: skip
    column = _COLUMN.search(message)
    if column is None:
        return None
    position = int(column[1])
    if position >= len(types):
        return None
    name = list(types)[position]
    if types[name] not in order[:-1]:
        return None
    return types | {name: order[order.index(types[name]) + 1]}


def _with_progress(batches: Iterable[Any], share_done: Callable[[], float]) -> Iterator[Any]:
    """The batches; after each of them the current step advances to the share that is done."""
    step = Step.current.get()
    for batch in batches:
        yield batch
        if step is not None:
            step.advance(share_done() - step.done)


def tables_with(table: Any, columns: dict[str, Any], rows: Any) -> Iterator[Any]:
    """Arrow tables of all rows of a table, or of those at ``rows``, with further columns."""
    if rows is None and isinstance(table, LargeTable):
        yield from table.with_columns(columns)
    else:
        yield with_columns(table, columns, rows=rows)


# -- counting and scoring --------------------------------------------------------------------------


@dataclass
class LargeRows:
    """The rows of a large file that a classifier reads, and how many were scored and written."""

    file: LargeFile
    classifier: Any
    known: list[str]  # names of training, which a file may write with spaces around them
    features: list[str]  # columns of the file that are scored
    n: int = 0
    flagged: int = 0
    written: int = 0
    warned: set[type] = field(default_factory=set)  # kinds of warnings that were issued

    def rows(self, batch: Loaded) -> Any:
        """The rows of a batch as an Arrow table with the columns of training."""
        return batch.named_like(self.known).rows(self.features)

    def batch(self, groups: Groups | None = None) -> LargeBatch:
        """All rows, scored; only their scores and counts are in memory."""
        fitted = self.classifier.fitted_
        counts = fitted.no_counts()
        counts_of_groups = [fitted.no_counts() for _ in groups.names] if groups else []
        scores = np.empty((self.file.n_rows, len(fitted.model.all_functions)))
        start = 0
        for loaded in self.file.batches():
            with heard() as warnings:
                scored = read_batch(self.classifier, self.rows(loaded))
            self._warn_once(warnings)
            end = start + len(scored)
            scores[start:end] = scored.scores
            counts.merge(scored.counts)
            if groups is not None:
                member = groups.member[start:end]
                for group in np.unique(member):
                    part = scored.part(fitted, np.flatnonzero(member == group))
                    counts_of_groups[group].merge(part.counts)
            start = end
        return LargeBatch(
            np.empty((len(scores), 0)),
            scores,
            counts,
            source=self,
            groups=groups,
            counts_of_groups=counts_of_groups,
        )

    def adapted(self) -> Any:
        """The classifier adapted to all rows, with a warning of each kind once."""
        with heard() as warnings:
            batches = map(self.rows, self.file.batches())
            counts = drpu.count_batches(self.classifier, batches)
        self._warn_once(warnings)
        return self.classifier.adapt(counts)

    def scored(self, keep: list[str] | None, prefix: str, *, only_flagged: bool) -> Iterator[Any]:
        """Arrow tables with the columns to keep and the outputs of the classifier."""
        for batch in self.file.batches():
            with heard() as warnings:
                outputs = self.classifier._outputs(self.rows(batch))
            self._warn_once(warnings)
            flagged = outputs["score"] > 0
            kept = batch.table if keep is None else batch.table.select(keep)
            names = ("label", "probability", "ratio")
            table = with_columns(kept, {f"{prefix}{name}": outputs[name] for name in names})
            if only_flagged:
                table = table.filter(flagged)
            self.n += len(flagged)
            self.flagged += int(np.count_nonzero(flagged))
            self.written += table.num_rows
            yield table

    def _warn_once(self, warnings: Iterable[Any]) -> None:
        """Issue the first warning of each kind: others are about later batches."""
        for warning in warnings:
            if type(warning) not in self.warned:
                warn(warning)
            self.warned.add(type(warning))


@dataclass(frozen=True, slots=True)
class LargeBatch(Batch):
    """Rows of a large file with their scores; the values of rows are read when they are taken."""

    source: LargeRows | None = None
    groups: Groups | None = None
    counts_of_groups: list[ScoreTails] = field(default_factory=list)

    def part(self, fitted: FittedRatio, index: IntArray) -> Batch:
        """The scores and the counts of the rows of one group, which are those at ``index``."""
        assert self.groups is not None
        group = self.groups.member[index[0]]
        return replace(self.scores_of(index), counts=self.counts_of_groups[group])

    def take(self, index: Any) -> Batch:
        """The rows at ``index``, with the counts of all rows."""
        assert self.source is not None
        file = self.source.file
        loaded = Loaded(file.path, table=file.take(index, file.head.names))
        taken = read_batch(self.source.classifier, self.source.rows(loaded))
        return replace(taken, scores=self.scores[index], counts=self.counts)
