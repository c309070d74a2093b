"""Spark data frames: executors count and score, the driver adds up counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from drpu._optional import require
from drpu.core.tails import ScoreTails
from drpu.estimators.adapted import Adaptable
from drpu.exceptions import DataError
from drpu.scale.tables import OUTPUTS, pick, wanted_columns

__all__ = ["count", "score"]

COUNTED = "counts array<double>, squares double, weighted boolean"
TYPES = {"i": "long", "u": "long", "f": "double", "b": "boolean"}  # of labels; the others are strings


def count(classifier: Adaptable, frame: Any, columns: Sequence[str] | None, weight: str | None) -> ScoreTails:
    """Counts of all partitions; one line of numbers for each is all that travels."""
    require("pyarrow", extra="data", for_="counting a Spark data frame")
    names = wanted_columns(list(frame.columns), classifier, columns, weight)
    kept = names if weight is None else [*names, weight]

    def counts(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        total = classifier.fitted_.no_counts()
        for batch in batches:
            part = pick(batch, classifier, names, weight)
            if part.n:
                total.merge(classifier.count(part.rows, sample_weight=part.weight))
        state = total.state()
        line = {
            "counts": [state.arrays["counts"].astype(np.float64).tolist()],
            "squares": [float(state.config["weight_squares"])],
            "weighted": [bool(total.weighted)],
        }
        yield pa.RecordBatch.from_pydict(line)

    total = classifier.fitted_.no_counts()
    for line in frame.select(*kept).mapInArrow(counts, COUNTED).toLocalIterator():
        # whole numbers of rows stay exact in doubles up to 2**53
        values = np.asarray(line["counts"])
        counted = values if line["weighted"] else values.astype(np.int64)
        state = total.empty().state().replaced(counts=counted, weight_squares=line["squares"])
        total.merge(ScoreTails.from_state(state))
    return total


def score(classifier: Adaptable, frame: Any, columns: Sequence[str] | None) -> Any:
    """The frame with the outputs of each row beside its own columns."""
    require("pyarrow", extra="data", for_="scoring a Spark data frame")
    types = require("pyspark.sql.types", extra="spark", for_="scoring a Spark data frame")
    names = wanted_columns(list(frame.columns), classifier, columns, None)
    taken = [name for name in OUTPUTS if name in frame.columns]
    if taken:
        raise DataError(f"source has a column {taken[0]!r} already, which the scores would need: rename it.")
    kind = TYPES.get(classifier.classes_.dtype.kind, "string")

    def scored(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            if batch.num_rows:
                table = pa.Table.from_batches([batch])
                for name, values in classifier.outputs(pick(batch, classifier, names, None).rows).items():
                    table = table.append_column(name, pa.array(values.tolist()))
                yield from table.to_batches()

    schema = types.StructType(list(frame.schema.fields))
    for name in OUTPUTS:
        schema = schema.add(name, kind if name == "label" else "double")
    return frame.mapInArrow(scored, schema)
