"""The columns that a classifier needs, from a batch that may be a table."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from typing import Any

import numpy as np

from drpu._checks import check_integer, check_numbers
from drpu._optional import require
from drpu._progress import progress, progress_bar
from drpu._samples import indexable, is_sparse
from drpu._typing import FloatArray
from drpu.classifier.drpu import RatioClassifier
from drpu.classifier.reading import module_there
from drpu.exceptions import DataError, DataTypeError, ParameterError
from drpu.priors.tails import ScoreTails
from drpu.tables.frames import collected, columns_named, warn_of_extra

OUTPUTS = ("label", "probability", "ratio", "score")  # names of the output columns


@dataclass(frozen=True, slots=True)
class Picked:
    """Rows of a batch in the form that the classifier accepts, with their weights."""

    rows: Any
    weight: FloatArray | None
    n: int


def is_table(batch: Any) -> bool:
    """Whether the batch has named columns: pandas, polars, Arrow."""
    return hasattr(batch, "column_names") or (hasattr(batch, "columns") and hasattr(batch, "shape"))


def column_names(batch: Any) -> list[Any]:
    """Names of the columns of a batch that has them."""
    return list(batch.column_names if hasattr(batch, "column_names") else batch.columns)


def pick(batch: Any, classifier: Any, columns: Sequence[str] | None, weight: str | None) -> Picked:
    """The wanted columns of a batch; all columns if the batch has no names."""
    if not is_table(batch):
        for name, value in (("columns", columns), ("weight", weight)):
            if value is not None:
                raise ParameterError(
                    f"{name} must be None for batches without column names, got {value!r}."
                )
        return Picked(batch, None, int(batch.shape[0]) if hasattr(batch, "shape") else len(batch))
    if hasattr(batch, "num_rows") and not hasattr(batch, "to_batches"):
        # scikit-learn can read the names of a table, but not those of a batch
        batch = sys.modules["pyarrow"].Table.from_batches([batch])
    arrow = hasattr(batch, "num_rows")
    names = wanted_columns(column_names(batch), classifier, columns, weight)
    rows = batch.select(names) if arrow else batch[names]
    if not hasattr(classifier, "feature_names_in_") and getattr(classifier, "table_", None) is None:
        rows = np.asarray(rows)  # training had no names, so these are dropped
    weights = None
    if weight is not None:
        weights = check_numbers("weight", batch.column(weight) if arrow else batch[weight])
    return Picked(rows, weights, int(batch.shape[0]))


def wanted_columns(
    have: Sequence[str], classifier: Any, columns: Sequence[str] | None, weight: str | None
) -> list[str]:
    """The available columns that have to be read, in the order of training."""
    if columns is not None:
        wanted = list(columns)
    elif hasattr(classifier, "feature_names_in_"):
        table = getattr(classifier, "table_", None)
        optional = set() if table is None else set(table.left_out)  # an identifier may be absent
        wanted = [
            str(name)
            for name in classifier.feature_names_in_
            if name in have or name not in optional
        ]
    else:
        wanted = [name for name in have if name != weight]
    absent = [name for name in (*wanted, *([] if weight is None else [weight])) if name not in have]
    if absent:
        shown = ", ".join(map(str, have[:12])) + (", ..." if len(have) > 12 else "")
        raise DataError(f"there is no column {absent[0]!r}, the table has {shown}.")
    return wanted


def warn_of_ignored(
    have: Sequence[str], classifier: Any, columns: Sequence[str] | None, weight: str | None
) -> None:
    """Warn of columns that the classifier does not know, unless the caller has chosen the columns.

    The column of periods is known to it, and is no feature.
    """
    if columns is None and hasattr(classifier, "feature_names_in_"):
        known = {weight, classifier.fitted_.columns.period, *classifier.feature_names_in_}
        warn_of_extra([str(name) for name in have if name not in known])


def count_batches(
    classifier: RatioClassifier,
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    batch_size: int = 65_536,
    verbose: int = 0,
) -> ScoreTails:
    """Counts of the scores of many rows, for ``classifier.adapt``.

    They equal the counts of one pass over all rows, for every division into batches.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier
        A fitted classifier.
    source : rows, path, iterable of batches, Dask or Spark
        The rows: an array, memory map, sparse matrix or data frame; a Parquet file, a folder of them,
        a pattern like ``june/*.parquet`` or a list of these; an Arrow table, data set or reader; an
        iterable of batches, for example a generator; a Dask data frame or array; a Spark data frame.
        With Dask and Spark the workers count their partitions, and only counts are sent.
    columns : sequence of str, optional
        Columns of a table to read. The default is those of training if the classifier has their
        names, and otherwise all but ``weight``.
    weight : str, optional
        Column of a table with the weights of the rows.
    batch_size : int, default=65536
        Rows per batch, if the source is not divided into batches.
    verbose : int, default=0
        1 shows a progress bar.

    Returns
    -------
    tails : ScoreTails
        Can be passed to ``classifier.adapt`` instead of rows.

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
    cluster = module_there(source)
    if cluster is not None:
        counted: ScoreTails = cluster.count(classifier, source, columns, weight)
        return counted
    total = classifier.fitted_.no_counts()
    for part in _parts(classifier, source, columns, weight, batch_size, verbose):
        if part.n:
            total.merge(classifier.count(part.rows, sample_weight=part.weight))
    return total


def score_batches(
    classifier: RatioClassifier,
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    batch_size: int = 65_536,
    verbose: int = 0,
) -> Any:
    """Label, probability, ratio and score of many rows.

    Parameters
    ----------
    classifier, source, columns, batch_size, verbose
        As in :func:`count_batches`. Adapt first: labels are predicted at the prior of the classifier.

    Returns
    -------
    scored : iterator of dict, or a Dask or Spark data frame
        For each batch arrays ``label``, ``probability`` (of the positive class), ``ratio`` (independent
        of the test prior) and ``score`` (as from ``decision_function``). For Dask a lazy data frame
        with these columns and the partitions of the source; for Spark the source with these
        additional columns.

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
    cluster = module_there(source)
    if cluster is not None:
        return cluster.score(classifier, source, columns)
    parts = _parts(classifier, source, columns, None, batch_size, verbose)
    return (classifier._outputs(part.rows) for part in parts if part.n)


def check_classifier(classifier: Any) -> None:
    """Raise unless the classifier is a fitted one whose scores can be counted."""
    if not isinstance(classifier, RatioClassifier):
        raise ParameterError(
            f"classifier must be a DRPUClassifier or an AdaptedClassifier, got {type(classifier).__name__}: "
            "only their scores can be counted."
        )
    _ = classifier.fitted_  # raises if it is not fitted


def _parts(
    classifier: RatioClassifier,
    source: Any,
    columns: Sequence[str] | None,
    weight: str | None,
    batch_size: int,
    verbose: int,
) -> Iterator[Picked]:
    size = check_integer("batch_size", batch_size, low=1)

    told = False

    def tell_once(have: Sequence[str]) -> None:
        nonlocal told
        if not told:
            warn_of_ignored(have, classifier, columns, weight)
        told = True

    def wanted(have: Sequence[str]) -> list[str]:
        names = wanted_columns(have, classifier, columns, weight)
        tell_once(have)
        return names if weight is None else [*names, weight]

    batches, total = _batches(collected(source), size, wanted)
    with progress_bar("batches", show=verbose):
        for batch in progress(batches, total=total):
            rows = collected(batch)
            if is_table(rows):
                tell_once(column_names(rows))
            yield pick(rows, classifier, columns, weight)


def _batches(
    source: Any, size: int, wanted: Callable[[Sequence[str]], list[str]]
) -> tuple[Iterable[Any], int]:
    """Batches of the source, and their number if it is known (0 otherwise).

    Only the columns chosen by ``wanted`` are read from files.
    """
    parts = source if isinstance(source, (list, tuple)) else [source]
    if parts and all(isinstance(part, (str, os.PathLike)) for part in parts):
        source = open_parquet(source)
    if hasattr(source, "get_fragments"):  # an Arrow data set
        return _scan(source, size, wanted(source.schema.names)), 0
    if hasattr(source, "to_batches"):  # an Arrow table
        return source.to_batches(max_chunksize=size), -(-source.num_rows // size)
    if hasattr(source, "read_next_batch"):  # an Arrow reader, which is used up by reading
        return source, 0
    if is_table(source) or hasattr(source, "shape"):
        n = int(source.shape[0])
        if len(source.shape) < 2:
            raise DataError(f"source must have rows and columns, got shape {tuple(source.shape)}.")
        rows = (
            indexable(source) if is_sparse(source) else source
        )  # not every sparse format has slices
        return (_rows(rows, start, size) for start in range(0, n, size)), -(-n // size)
    if isinstance(source, Iterable) and not isinstance(source, (bytes, dict)):
        return source, len(source) if isinstance(source, Sequence) else 0
    raise DataTypeError(
        f"source must be rows, a path, an iterable of batches, or a Dask or Spark collection, "
        f"got {type(source).__name__}."
    )


def open_parquet(source: Any) -> Any:
    """The Parquet files at a path, or at several, as one data set.

    A column has the type that suits all files: in one of them it may be empty, and so without a type.
    """
    dataset = require("pyarrow.dataset", extra="data", for_="reading Parquet")
    pa = require("pyarrow", extra="data", for_="reading Parquet")
    given = [source] if isinstance(source, (str, os.PathLike)) else source
    paths = [path for one in given for path in _matching(os.fspath(one))]
    try:
        found = dataset.dataset(
            paths[0] if len(paths) == 1 else paths, format="parquet", partitioning="hive"
        )
        schemas = [found.schema, *(part.physical_schema for part in found.get_fragments())]
        return found.replace_schema(pa.unify_schemas(schemas, promote_options="permissive"))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise DataError(f"{paths[0]} cannot be read as Parquet: {error}") from error


def check_files(data: Any, names: Iterable[str]) -> None:
    """Raise if a file of a data set lacks one of the columns, whose values Arrow would call missing."""
    keys = require("pyarrow.dataset", extra="data", for_="reading Parquet").get_partition_keys
    for part in data.get_fragments():
        known = {*part.physical_schema.names, *keys(part.partition_expression)}
        lacking = [name for name in names if name not in known]
        if lacking:
            name = getattr(part, "path", "a part")
            raise DataError(
                f"{name} must have the columns of the other files, got none called {columns_named(lacking)}: "
                "add them, or leave the file out."
            )


def _matching(path: str) -> list[str]:
    """The path itself, or all files that a pattern like ``june/*.parquet`` matches."""
    found = [path] if os.path.exists(path) else sorted(glob(path))
    if not found:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return found


def _scan(dataset: Any, size: int, names: list[str]) -> Iterator[Any]:
    """Batches of a data set, each read when it is needed."""
    arrow = require("pyarrow.dataset", extra="data", for_="reading a data set")
    options: dict[str, Any] = {"batch_readahead": 0, "fragment_readahead": 0, "use_threads": False}
    if isinstance(getattr(dataset, "format", None), arrow.ParquetFileFormat):
        # by default Arrow reads ahead, up to whole files
        options["fragment_scan_options"] = arrow.ParquetFragmentScanOptions(
            pre_buffer=False, use_buffered_stream=True
        )
    pa = require("pyarrow", extra="data", for_="reading a data set")
    check_files(dataset, names)
    try:
        yield from dataset.to_batches(columns=names, batch_size=size, **options)
    except (pa.ArrowInvalid, OSError) as error:
        files = getattr(dataset, "files", [])
        name = files[0] if len(files) == 1 else "the data set"
        raise DataError(f"{name} cannot be read: {error}") from error


def _rows(source: Any, start: int, size: int) -> Any:
    if hasattr(source, "iloc"):
        return source.iloc[start : start + size]
    part = source[start : start + size]
    return np.asarray(part) if isinstance(part, np.memmap) else part
