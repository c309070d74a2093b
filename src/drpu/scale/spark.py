"""Spark data frames: executors count and score their rows, and the driver adds the counts."""

from __future__ import annotations

import functools
import logging
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

from drpu._optional import require
from drpu.classifier.drpu import RatioClassifier
from drpu.exceptions import ClusterError, DataError, MissingExtraError
from drpu.priors.tails import ScoreTails
from drpu.scale.batches import OUTPUTS, pick, wanted_columns, warn_of_ignored

TYPES = {
    "i": "long",
    "u": "long",
    "f": "double",
    "b": "boolean",
}  # types of labels; other labels are strings
DEPTH = 2  # levels of the tree in which executors add counts before the driver adds the rest


def count(
    classifier: RatioClassifier, frame: Any, columns: Sequence[str] | None, weight: str | None
) -> ScoreTails:
    """Counts of all partitions in one job; executors add most of them, the driver adds the rest."""
    require("pyarrow", extra="data", for_="counting a Spark data frame")
    names = wanted_columns(list(frame.columns), classifier, columns, weight)
    warn_of_ignored(frame.columns, classifier, columns, weight)
    kept = names if weight is None else [*names, weight]
    shared = share(frame, classifier)

    def counts(batches: Iterator[Any]) -> Iterator[ScoreTails]:
        for batch in batches:
            part = pick(wall_clock(batch), shared.value, names, weight)
            if part.n:
                yield shared.value.count(part.rows, sample_weight=part.weight)

    with plain_errors():
        total: ScoreTails = add_up(frame.select(*kept), counts, classifier.fitted_.no_counts())
    return total


@contextmanager
def plain_errors() -> Iterator[None]:
    """Say in one line what to do if the Python of the executors lacks a package; Spark says it in forty."""
    try:
        yield
    except MissingExtraError:
        raise
    except Exception as error:  # any error of Spark, of the connection to it, or of XGBoost
        missing = re.search(r"No module named '([\w.]+)'", str(error))
        if missing is None:
            raise
        raise ClusterError(
            f"the Python of the Spark executors has no module {missing[1]!r}: before the session starts, set "
            "the environment variable PYSPARK_PYTHON to a Python that has drpu on every machine, on a single "
            f"machine to {sys.executable}."
        ) from None


def quiet(frame: Any) -> None:
    """Switch off the messages of XGBoost, unless the user has set their level, and Spark's own bar."""
    for name in ("XGBoost-PySpark", "SparkXGBClassifier"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)
    with suppress(Exception):  # no public function switches it off in a running session
        bar = frame.sparkSession.sparkContext._jsc.sc().progressBar()
        if bar.isDefined():
            bar.get().stop()


def share(frame: Any, value: Any) -> Any:
    """An object whose ``.value`` is ``value``, sent once to each executor; to each task by Spark Connect."""
    context = getattr(frame.sparkSession, "sparkContext", None) if _is_classic(frame) else None
    return SimpleNamespace(value=value) if context is None else context.broadcast(value)


def add_up(frame: Any, summarize: Callable[[Iterator[Any]], Iterator[Any]], nothing: Any) -> Any:
    """The sum of the results of ``summarize`` for the batches of all partitions, in one job.

    The sums of the partitions are added on the executors, in a tree. Spark Connect has no such operation;
    there they are added on the driver.
    """

    def of_partition(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        total = None
        for part in summarize(batches):
            total = part if total is None else total + part
        yield pa.RecordBatch.from_pydict({"sum": [pickle.dumps(total)]})

    sums = frame.mapInArrow(of_partition, "sum binary")
    if _is_classic(frame):
        total = sums.rdd.map(lambda line: pickle.loads(line["sum"])).treeReduce(_plus, DEPTH)
    else:
        total = functools.reduce(_plus, (pickle.loads(line["sum"]) for line in sums.collect()))
    return nothing if total is None else nothing + total


def wall_clock(batch: Any) -> Any:
    """The batch with dates in the time zone of the session, as ``toPandas`` gives them, without a zone.

    Spark moves dates without a zone to UTC when they enter a frame; a date must not depend on the session.
    """
    import pyarrow as pa
    import pyarrow.compute as compute

    columns = [
        compute.local_timestamp(column) if getattr(column.type, "tz", None) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _plus(a: Any, b: Any) -> Any:
    """The sum of two summaries; None is the summary of no rows."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _is_classic(frame: Any) -> bool:
    """Whether the session has its own driver, that is, does not use Spark Connect."""
    return "connect" not in type(frame).__module__


def score(classifier: RatioClassifier, frame: Any, columns: Sequence[str] | None) -> Any:
    """The frame with the outputs of each row as additional columns."""
    require("pyarrow", extra="data", for_="scoring a Spark data frame")
    types = require("pyspark.sql.types", extra="spark", for_="scoring a Spark data frame")
    names = wanted_columns(list(frame.columns), classifier, columns, None)
    taken = [name for name in OUTPUTS if name in frame.columns]
    if taken:
        raise DataError(
            f"source has a column {taken[0]!r} already, which an output needs: rename it."
        )
    warn_of_ignored(frame.columns, classifier, columns, None)
    kind = TYPES.get(classifier.classes_.dtype.kind, "string")
    shared = share(frame, classifier)

    def scored(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        there = shared.value
        for batch in batches:
            if batch.num_rows:
                table = pa.Table.from_batches([batch])
                for name, values in there._outputs(
                    pick(wall_clock(batch), there, names, None).rows
                ).items():
                    table = table.append_column(name, pa.array(values.tolist()))
                yield from table.to_batches()

    schema = types.StructType(list(frame.schema.fields))
    for name in OUTPUTS:
        schema = schema.add(name, kind if name == "label" else "double")
    return frame.mapInArrow(scored, schema)
