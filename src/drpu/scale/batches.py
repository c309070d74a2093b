"""Counting and scoring of many rows, batch by batch: files, tables, arrays, generators."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob
from typing import Any

import numpy as np

from drpu._arrays import FloatArray
from drpu._checks import check_integer, check_numbers, check_weights, engine_of, require
from drpu._process import default_errors
from drpu._progress import progress, progress_bar
from drpu._samples import indexable, is_sparse
from drpu.classifier.drpu import RatioClassifier
from drpu.classifier.reading import read_rows
from drpu.exceptions import DataError, DataTypeError, ParameterError
from drpu.periods.counts import GroupCounts, count_groups
from drpu.periods.groups import Groups
from drpu.priors.tails import ScoreTails
from drpu.tables.frames import collected, columns_named, warn_of_extra
from drpu.tables.values import flat_values

BUFFER = 2**16  # bytes of each column of a Parquet file that are read at a time
OUTPUTS = ("label", "probability", "ratio", "score")  # names of the output columns


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Rows of a batch in the form that the classifier accepts, with weights and groups."""

    rows: Any
    weight: FloatArray | None
    n: int
    groups: np.ndarray[Any, Any] | None = None


@dataclass(frozen=True, slots=True)
class BatchReader:
    """Reads the rows that a classifier needs from batches that may be tables.

    ``columns``, ``weight`` and ``by`` are those of :func:`count_batches`.
    """

    classifier: RatioClassifier
    columns: Sequence[str] | None = None
    weight: str | None = None
    by: str | None = None

    def read(self, batch: Any) -> BatchRows:
        """The wanted columns of a batch; all columns if the batch has no names."""
        if not is_table(batch):
            self.refuse_names("batches without column names")
            n = int(batch.shape[0]) if hasattr(batch, "shape") else len(batch)
            return BatchRows(batch, None, n)
        names = self.features(column_names(batch))
        is_arrow = hasattr(batch, "num_rows")
        rows = batch.select(names) if is_arrow else batch[names]
        if not self._has_names and self.classifier.table_ is None:
            rows = np.asarray(rows)  # training had no names, so these are dropped
        weights = None
        if self.weight is not None:
            weights = check_numbers("weight", batch[self.weight])
        groups = None
        if self.by is not None:
            groups = flat_values("by", batch[self.by])
        return BatchRows(rows, weights, int(batch.shape[0]), groups)

    def no_counts(self) -> ScoreTails | GroupCounts:
        """Counts without rows."""
        nothing = self.classifier.fitted_.no_counts()
        if self.by is None:
            return nothing
        return GroupCounts.none(nothing)

    def count(self, batch: BatchRows) -> Any:
        """The counts of a batch, or those of its groups."""
        if batch.n == 0:
            return self.no_counts()
        if batch.groups is None:
            return self.classifier.count(batch.rows, sample_weight=batch.weight)
        rows = read_rows(self.classifier, batch.rows)
        weight = None
        if batch.weight is not None:
            weight = check_weights("weight", batch.weight, batch.n, allow_zero=True)
        groups = Groups.of(batch.groups, most=None)
        return count_groups(self.classifier.fitted_, rows, groups, weight)

    def refuse_names(self, batches: str) -> None:
        """Raise if columns were named, because ``batches`` have no names."""
        named = {"columns": self.columns, "weight": self.weight, "by": self.by}
        for argument, value in named.items():
            if value is not None:
                raise ParameterError(f"{argument} must be None for {batches}, got {value!r}.")

    def features(self, available: Sequence[str]) -> list[str]:
        """The feature columns to read, in the order of training."""
        if self.columns is not None:
            names = list(self.columns)
        elif self._has_names:
            names = [str(name) for name in self.classifier.feature_names_in_]
            if self.classifier.table_ is not None:
                # one that training left out, such as an identifier, may be absent
                absent = set(self.classifier.table_.left_out).difference(available)
                names = [name for name in names if name not in absent]
        else:
            names = [name for name in available if name not in (self.weight, self.by)]
        for name in self._with_roles(names):
            if name not in available:
                first_names = [str(name) for name in available[:12]]
                if len(available) > 12:
                    first_names.append("...")
                raise DataError(
                    f"there is no column {name!r}, the table has {', '.join(first_names)}."
                )
        return names

    def columns_to_read(self, available: Sequence[str]) -> list[str]:
        """The columns of features, weights and groups; warns of columns that are ignored."""
        names = self.features(available)
        self.warn_of_ignored(available)
        return self._with_roles(names)

    def warn_of_ignored(self, available: Sequence[str]) -> None:
        """Warn of columns that the classifier does not know, unless the columns were chosen.

        The column of periods is known to it, and is no feature.
        """
        if self.columns is None and self._has_names:
            period = self.classifier.fitted_.columns.period
            known = {self.weight, self.by, period, *self.classifier.feature_names_in_}
            if self.classifier.table_ is not None:
                known.update(self.classifier.table_.ignored)
            warn_of_extra([str(name) for name in available if name not in known])

    @property
    def _has_names(self) -> bool:
        return hasattr(self.classifier, "feature_names_in_")

    def _with_roles(self, names: list[str]) -> list[str]:
        roles = [name for name in (self.weight, self.by) if name is not None]
        return list(dict.fromkeys([*names, *roles]))


def is_table(batch: Any) -> bool:
    """Whether the batch has named columns: pandas, polars, Arrow."""
    return hasattr(batch, "column_names") or (hasattr(batch, "columns") and hasattr(batch, "shape"))


def column_names(batch: Any) -> list[Any]:
    """Names of the columns of a batch that has them."""
    if hasattr(batch, "column_names"):
        return list(batch.column_names)
    return list(batch.columns)


@default_errors
def count_batches(
    classifier: RatioClassifier,
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    by: str | None = None,
    batch_size: int = 65_536,
    verbose: int = 0,
) -> Any:
    """Counts of the scores of many rows, for ``classifier.adapt``.

    They equal the counts of one pass over all rows, for every division into batches. Copies of a
    row, which ``adapt`` recognises among rows in memory, count as different rows.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier
        A fitted classifier.
    source : rows, path, iterable of batches, Dask or Spark
        The rows: an array, memory map, sparse matrix or data frame; a Parquet file, a folder of
        them, a pattern like ``june/*.parquet`` or a list of these; an Arrow table, data set or
        reader; an iterable of batches, for example a generator; a Dask data frame or array; a Spark
        data frame.
        With Dask and Spark the workers count their partitions, and only counts are sent.
    columns : sequence of str, optional
        Columns of a table to read. The default is those of training if the classifier has their
        names, and otherwise all but ``weight``.
    weight : str, optional
        Column of a table with the weights of the rows.
    by : str, optional
        Column of a table by which rows are grouped, in one pass; dates are grouped by calendar
        month. It is a feature only if training had it.
    batch_size : int, default=65536
        Rows per batch, if the source is not divided into batches.
    verbose : int, default=0
        1 shows a progress bar.

    Returns
    -------
    tails : ScoreTails, or GroupCounts
        Can be passed to ``classifier.adapt`` instead of rows, added to counts of other rows, and
        written to a file by :func:`drpu.save`. With ``by`` the counts of each group, for
        ``classifier.adapt_by``: a mapping from the names of the groups to their counts. Each group
        needs eight bytes for each held-out positive, here and on each worker; above 4 GiB it is an
        error.

    Examples
    --------
    >>> import numpy as np
    >>> from drpu import DRPUClassifier, count_batches, make_gaussian_pu
    >>> data = make_gaussian_pu(200, 800, prior=0.4, test_prior=0.2, separation=3, random_state=0)
    >>> clf = DRPUClassifier("kernel", random_state=0).fit_pu(data.positive, data.unlabeled)
    >>> tails = count_batches(clf, (part for part in np.array_split(data.test, 5)))
    >>> tails == clf.count(data.test)
    True
    >>> clf.adapt(tails).prior_ == clf.adapt(data.test).prior_
    True
    """
    check_classifier(classifier)
    if by is not None and not isinstance(by, str):
        raise ParameterError(f"by must be the name of a column, got {type(by).__name__}.")
    reader = BatchReader(classifier, columns, weight, by)
    engine = engine_of(source)
    if engine is not None:
        return engine.module.count(reader, source)
    total: Any = reader.no_counts()
    for batch in _read_batches(reader, source, batch_size, verbose):
        total = total + reader.count(batch)
    return total


@default_errors
def score_batches(
    classifier: RatioClassifier,
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    prefix: str = "",
    batch_size: int = 65_536,
    verbose: int = 0,
) -> Any:
    """Label, probability, ratio and score of many rows.

    Parameters
    ----------
    classifier, source, columns, batch_size, verbose
        As in :func:`count_batches`. Adapt first: labels are predicted at the prior of the
        classifier.
    prefix : str, default=""
        Beginning of the names of the outputs, for a source that has columns of the same names.

    Returns
    -------
    scored : iterator of dict, or a Dask or Spark data frame
        For each batch arrays ``label``, ``probability`` (of the positive class), ``ratio``
        (independent of the test prior) and ``score`` (as from ``decision_function``). For a Dask or
        Spark data frame the source with these additional columns, lazily and in the same
        partitions; for a Dask array a data frame with these columns, whose index numbers the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from drpu import DRPUClassifier, make_gaussian_pu, score_batches
    >>> data = make_gaussian_pu(200, 800, prior=0.4, test_prior=0.2, separation=3, random_state=0)
    >>> clf = DRPUClassifier("kernel", random_state=0).fit_pu(data.positive, data.unlabeled)
    >>> labels = [batch["label"] for batch in score_batches(clf, data.test, batch_size=300)]
    >>> bool((np.concatenate(labels) == clf.predict(data.test)).all())
    True
    """
    check_classifier(classifier)
    if not isinstance(prefix, str):
        raise ParameterError(f"prefix must be a text, got {type(prefix).__name__}.")
    engine = engine_of(source)
    if engine is not None:
        return engine.module.score(BatchReader(classifier, columns), source, prefix)
    batches = _read_batches(BatchReader(classifier, columns), source, batch_size, verbose)
    return (prefixed(prefix, classifier._outputs(batch.rows)) for batch in batches if batch.n)


def prefixed(prefix: str, outputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs under names that begin with ``prefix``."""
    return {prefix + name: values for name, values in outputs.items()}


def check_outputs(prefix: str, names: Sequence[Any], *, ignore_case: bool = False) -> None:
    """Raise if the source has a column of the name of an output."""
    taken = set(names)
    if ignore_case:
        taken = {str(name).lower() for name in names}
    for output in OUTPUTS:
        name = prefix + output
        key = name.lower() if ignore_case else name
        if key in taken:
            raise DataError(
                f"source has a column {name!r} already, which is the name of an output: name the "
                'outputs otherwise, for example with prefix="drpu_".'
            )


def check_classifier(classifier: Any) -> None:
    """Raise unless the classifier is a fitted one whose scores can be counted."""
    if not isinstance(classifier, RatioClassifier):
        raise ParameterError(
            "classifier must be a DRPUClassifier or an AdaptedClassifier, "
            f"got {type(classifier).__name__}: only their scores can be counted."
        )
    _ = classifier.fitted_  # raises if it is not fitted


def _read_batches(
    reader: BatchReader, source: Any, batch_size: int, verbose: int
) -> Iterator[BatchRows]:
    size = check_integer("batch_size", batch_size, low=1)
    batches, n_batches = _batches(collected(source), size, reader)
    warned = False
    with progress_bar("batches", show=verbose):
        for batch in progress(batches, total=n_batches):
            rows = collected(batch)
            if is_table(rows) and not warned:
                reader.warn_of_ignored(column_names(rows))
                warned = True
            yield reader.read(rows)


def _batches(source: Any, size: int, reader: BatchReader) -> tuple[Iterable[Any], int]:
    """Batches of the source, and their number if it is known (0 otherwise).

    Only the columns that the reader wants are read from files.
    """
    if _is_paths(source):
        dataset = open_parquet(source)
        return scan_parquet(dataset, size, reader.columns_to_read(dataset.schema.names)), 0
    if hasattr(source, "get_fragments"):  # an Arrow data set
        return scan(source, size, reader.columns_to_read(source.schema.names)), 0
    if hasattr(source, "to_batches"):  # an Arrow table
        return source.to_batches(max_chunksize=size), -(-source.num_rows // size)
    if hasattr(source, "read_next_batch"):  # an Arrow reader, which is used up by reading
        return source, 0
    if is_table(source) or hasattr(source, "shape"):
        if len(source.shape) < 2:
            raise DataError(f"source must have rows and columns, got shape {tuple(source.shape)}.")
        n = int(source.shape[0])
        return _slices(source, n, size), -(-n // size)
    if isinstance(source, Sequence) and not isinstance(source, bytes):
        return source, len(source)
    if isinstance(source, Iterable) and not isinstance(source, (bytes, dict)):
        return source, 0
    raise DataTypeError(
        "source must be rows, a path, an iterable of batches, or a Dask or Spark collection, "
        f"got {type(source).__name__}."
    )


def _is_paths(source: Any) -> bool:
    if isinstance(source, (list, tuple)):
        return len(source) > 0 and all(_is_path(path) for path in source)
    return _is_path(source)


def _is_path(source: Any) -> bool:
    return isinstance(source, (str, os.PathLike))


def open_parquet(source: Any) -> Any:
    """The Parquet files at a path, or at several, as one data set.

    A column has the type that suits all files: in one of them it may be empty, and so have no type.
    """
    dataset = require("pyarrow.dataset", extra="data", for_="reading Parquet")
    pa = require("pyarrow", extra="data", for_="reading Parquet")
    if _is_path(source):
        source = [source]
    paths: list[str] = []
    for pattern in source:
        paths += _matching(os.fspath(pattern))
    for path in paths:
        _check_folder(path)
    folder_or_files = paths[0] if len(paths) == 1 else paths
    try:
        data = dataset.dataset(folder_or_files, format="parquet", partitioning="hive")
        schemas = [data.schema]
        for file in data.get_fragments():
            schemas.append(file.physical_schema)
        return data.replace_schema(pa.unify_schemas(schemas, promote_options="permissive"))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise DataError(f"{paths[0]} cannot be read as Parquet: {error}") from error


def _check_folder(path: str) -> None:
    """Raise if the path is a folder without any Parquet file."""
    if not os.path.isdir(path):
        return
    others = []
    for _, _, names in os.walk(path):
        for name in names:
            if name.lower().endswith((".parquet", ".pq")):
                return
            others.append(name)
    example = "none"
    if others:
        example = f"{min(others)!r} among others"
    raise DataError(f"the folder {path} must hold Parquet files, got {example}: name one file.")


def check_files(data: Any, names: Iterable[str]) -> None:
    """Raise if a file lacks one of the columns, whose values Arrow would call missing."""
    arrow = require("pyarrow.dataset", extra="data", for_="reading Parquet")
    for file in data.get_fragments():
        partition_columns = arrow.get_partition_keys(file.partition_expression)
        columns_of_file = {*file.physical_schema.names, *partition_columns}
        absent = [name for name in names if name not in columns_of_file]
        if absent:
            path = getattr(file, "path", "a part")
            raise DataError(
                f"{path} must have the columns of the other files, got none called "
                f"{columns_named(absent)}: add them, or leave the file out."
            )


def _matching(path: str) -> list[str]:
    """The path itself, or all files that a pattern like ``june/*.parquet`` matches."""
    if os.path.exists(path):
        return [path]
    paths = sorted(glob(path))
    if not paths:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return paths


def scan(dataset: Any, size: int, names: list[str]) -> Iterator[Any]:
    """Batches of a data set of the user, each read when it is needed."""
    arrow = require("pyarrow.dataset", extra="data", for_="reading a data set")
    options: dict[str, Any] = {"batch_readahead": 0, "fragment_readahead": 0, "use_threads": False}
    if isinstance(getattr(dataset, "format", None), arrow.ParquetFileFormat):
        # by default Arrow reads ahead, up to whole files
        options["fragment_scan_options"] = arrow.ParquetFragmentScanOptions(
            pre_buffer=False, use_buffered_stream=True
        )
    check_files(dataset, names)
    with _plain_errors(dataset):
        yield from dataset.to_batches(columns=names, batch_size=size, **options)


def scan_parquet(dataset: Any, size: int, names: list[str]) -> Iterator[Any]:
    """Batches of a data set from :func:`open_parquet`, each read when it is needed.

    A data set decodes a whole group of rows at a time, which may be a whole file; here the memory
    depends on the size of the batches and on the number of columns only.
    """
    arrow = require("pyarrow.dataset", extra="data", for_="reading Parquet")
    parquet = require("pyarrow.parquet", extra="data", for_="reading Parquet")
    check_files(dataset, names)
    fields = [dataset.schema.field(name) for name in names]
    with _plain_errors(dataset):
        for fragment in dataset.get_fragments():
            keys = arrow.get_partition_keys(fragment.partition_expression)
            stored = [name for name in names if name not in keys]
            with (
                fragment.open() as stream,
                parquet.ParquetFile(stream, pre_buffer=False, buffer_size=BUFFER) as file,
            ):
                for batch in file.iter_batches(size, columns=stored, use_threads=False):
                    yield _with_fields(batch, fields, keys)


def _with_fields(batch: Any, fields: list[Any], keys: dict[str, Any]) -> Any:
    """The batch with these columns; those that are ``keys`` have one value in a file."""
    pa = require("pyarrow", extra="data", for_="reading Parquet")
    columns = []
    for field in fields:
        if field.name in keys:
            value = pa.scalar(keys[field.name], type=field.type)
            columns.append(pa.repeat(value, batch.num_rows))
        else:
            columns.append(batch.column(field.name).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


@contextmanager
def _plain_errors(dataset: Any) -> Iterator[None]:
    """Say which file or data set cannot be read."""
    pa = require("pyarrow", extra="data", for_="reading a data set")
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        files = getattr(dataset, "files", [])
        name = files[0] if len(files) == 1 else "the data set"
        raise DataError(f"{name} cannot be read: {error}") from error


def _slices(source: Any, n: int, size: int) -> Iterator[Any]:
    """The rows of a table, array or sparse matrix, in batches of the given size."""
    if is_sparse(source):
        source = indexable(source)  # not every sparse format has slices
    rows = getattr(source, "iloc", source)
    for start in range(0, n, size):
        batch = rows[start : start + size]
        if isinstance(batch, np.memmap):
            batch = np.asarray(batch)
        yield batch
