"""Dask collections: workers count and score their partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drpu._optional import require
from drpu.classifier.drpu import RatioClassifier
from drpu.exceptions import ParameterError
from drpu.priors.tails import ScoreTails
from drpu.scale.batches import OUTPUTS, pick, wanted_columns, warn_of_ignored
from drpu.scale.dask_tasks import add, in_tree


def count(
    classifier: RatioClassifier, collection: Any, columns: Sequence[str] | None, weight: str | None
) -> ScoreTails:
    """Counts of all partitions, added in a tree."""
    dask = require("dask", extra="dask", for_="counting a Dask collection")
    parts = _partitions(collection, classifier, columns, weight)
    shared = dask.delayed(classifier, pure=True)  # sent to each worker once
    counts = [dask.delayed(_count)(part, shared, columns, weight) for part in parts]
    total: ScoreTails = dask.compute(in_tree(counts, dask.delayed(add)))[0]
    return total


def score(classifier: RatioClassifier, collection: Any, columns: Sequence[str] | None) -> Any:
    """A lazy data frame with the outputs of each row."""
    frame = require("dask.dataframe", extra="dask", for_="scoring a Dask collection")
    pd = require("pandas", extra="dask", for_="scoring a Dask collection")
    meta = pd.DataFrame(_nothing(classifier))
    dask = require("dask", extra="dask", for_="scoring a Dask collection")
    shared = dask.delayed(classifier, pure=True)  # sent to each worker once
    if _is_array(collection):
        parts = _partitions(collection, classifier, columns, None)
        scored = [dask.delayed(_score)(part, shared, columns) for part in parts]
        return frame.from_delayed(scored, meta=meta)
    wanted_columns(list(collection.columns), classifier, columns, None)
    warn_of_ignored(list(collection.columns), classifier, columns, None)
    return collection.map_partitions(_score, shared, columns, meta=meta)


def _is_array(collection: Any) -> bool:
    return hasattr(collection, "chunks")


def _partitions(
    collection: Any, classifier: RatioClassifier, columns: Sequence[str] | None, weight: str | None
) -> list[Any]:
    if _is_array(collection):
        for name, value in (("columns", columns), ("weight", weight)):
            if value is not None:
                raise ParameterError(f"{name} must be None for a Dask array, got {value!r}.")
        whole_rows = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
        return list(np.ravel(whole_rows.to_delayed()))
    if not hasattr(collection, "to_delayed") or not hasattr(collection, "columns"):
        raise ParameterError(
            f"source must be a Dask data frame or array, got {type(collection).__name__}: "
            "a bag or a delayed object has no rows and columns."
        )
    names = wanted_columns(list(collection.columns), classifier, columns, weight)
    warn_of_ignored(list(collection.columns), classifier, columns, weight)
    kept = names if weight is None else [*names, weight]
    return list(collection[kept].to_delayed())


def _count(
    part: Any, classifier: RatioClassifier, columns: Sequence[str] | None, weight: str | None
) -> ScoreTails:
    picked = pick(part, classifier, columns, weight)
    if picked.n:
        return classifier.count(picked.rows, sample_weight=picked.weight)
    return classifier.fitted_.no_counts()


def _score(part: Any, classifier: RatioClassifier, columns: Sequence[str] | None) -> Any:
    import pandas as pd

    picked = pick(part, classifier, columns, None)
    index = getattr(part, "index", None)
    if picked.n:
        return pd.DataFrame(classifier._outputs(picked.rows), index=index)
    return pd.DataFrame(_nothing(classifier), index=index)


def _nothing(classifier: RatioClassifier) -> dict[str, Any]:
    """Empty outputs with the right dtypes."""
    return {"label": classifier.classes_[:0], **{name: np.empty(0) for name in OUTPUTS[1:]}}
