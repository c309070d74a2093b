"""Counting rows on a cluster, by the module for its kind of frames."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from drpu.core.tails import ScoreTails
from drpu.exceptions import ParameterError
from drpu.models.distributed import engine_of

__all__ = ["count_there"]

# By name, because these modules import the estimators, and are needed for such frames only.
_COUNTERS = {"DaskBoosted": "drpu.scale.dask", "SparkBoosted": "drpu.scale.spark"}


def count_there(classifier: Any, frame: Any, weight: Any) -> ScoreTails | None:
    """Counts of a Dask or Spark collection, made by its workers; None for rows in memory."""
    engine = engine_of(frame)
    if engine is None:
        return None
    if weight is not None and not isinstance(weight, str):
        raise ParameterError(
            f"sample_weight must be the name of a column for rows on a cluster, got {type(weight).__name__}."
        )
    counted: ScoreTails = import_module(_COUNTERS[engine]).count(classifier, frame, None, weight)
    return counted
