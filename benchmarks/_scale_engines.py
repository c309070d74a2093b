"""Fit, count and score of a folder of Parquet files: in batches of a file, with Dask, and with Spark."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._scale_data import COLUMNS, draw, first_labelled
from benchmarks._scale_files import peak_mebibytes

LAW = "network"
PART = 250_000  # rows of a file
SAMPLE = 200_000  # rows of a fit in memory: up to this number boosting grows on all rows
NAMES = [f"x{i}" for i in range(COLUMNS)]


def write_parts(folder: Path, rows: int) -> None:
    """Labelled rows in files, each of which has a tenth of its rows labelled."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, start in enumerate(range(0, rows, PART)):
        n = min(PART, rows - start)
        X, y = draw(LAW, n, seed=number, dtype=np.float32)
        columns: dict[str, Any] = {name: X[:, k] for k, name in enumerate(NAMES)}
        columns["label"] = first_labelled(y, n // 10)
        pq.write_table(pa.table(columns), folder / f"part{number:03d}.parquet")


def processor_seconds() -> float:
    """Processor time of this process and of the processes that it started and that still run."""
    import psutil

    process = psutil.Process()
    seconds = 0.0
    for each in [process, *process.children(recursive=True)]:
        times = each.cpu_times()
        seconds += times.user + times.system
    return seconds


def sampled(folder: Path, rows: int) -> Any:
    """A random part of the rows as a data frame; one file is in memory at a time."""
    import pandas as pd

    rng = np.random.default_rng(0)
    parts = []
    for path in sorted(folder.glob("*.parquet")):
        part = pd.read_parquet(path)
        size = min(len(part), max(1, round(len(part) * SAMPLE / rows)))
        parts.append(part.iloc[np.sort(rng.choice(len(part), size, replace=False))])
    return pd.concat(parts, ignore_index=True)


def measured(task: dict[str, Any]) -> dict[str, Any]:
    """Processor seconds of each step with one worker of one thread, sizes, and the peak of this process."""
    folder = Path(task["folder"]) / str(task["rows"])
    engine: Callable[[dict[str, Any], Path], dict[str, Any]] = ENGINES[task["engine"]]
    found = engine(task, folder) | {"peak_mebibytes": peak_mebibytes()}
    return found | {"row_bytes": _row_bytes(folder)}


def _row_bytes(folder: Path) -> int:
    """Bytes of the values of a row."""
    import pyarrow.parquet as pq

    path = next(folder.glob("*.parquet"))
    return sum(int(field.type.bit_width) for field in pq.read_schema(path)) // 8


def _steps(fit: Callable[[], Any], rows: Any, finish: Callable[[Any], Any]) -> dict[str, Any]:
    """Seconds of a fit, of an adaptation to counts, and of labels."""
    from drpu import count_batches, score_batches

    start = processor_seconds()
    clf = fit()
    fitted = processor_seconds()
    counts = count_batches(clf, rows, columns=NAMES)
    adapted = clf.adapt(counts)
    counted = processor_seconds()
    finish(score_batches(adapted, rows, columns=NAMES))
    return {
        "fit_seconds": fitted - start,
        "count_seconds": counted - fitted,
        "score_seconds": processor_seconds() - counted,
        "prior": adapted.prior_.value,
        "state_bytes": len(pickle.dumps(clf)),
        "count_bytes": len(pickle.dumps(counts)),
    }


def _in_batches(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    from drpu import DRPUClassifier

    def fit() -> Any:
        frame = sampled(folder, task["rows"])
        clf = DRPUClassifier(scenario="single-sample", random_state=0)
        return clf.fit(frame[NAMES], frame["label"])

    def finish(batches: Any) -> None:
        for _ in batches:
            pass

    return _steps(fit, str(folder / "*.parquet"), finish)


def _on_dask(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    from drpu import DRPUClassifier
    from drpu.scale.dask import DaskBoosted

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        frame = dd.read_parquet(str(folder / "*.parquet"), split_row_groups=True)

        def fit() -> Any:
            part = frame
            if task["rows"] > task["fit_rows"]:
                part = frame.partitions[: task["fit_rows"] // PART]
            return DRPUClassifier(DaskBoosted(), scenario="single-sample", random_state=0).fit(
                part, y="label"
            )

        return _steps(fit, frame[NAMES], lambda scored: scored["label"].sum().compute())


def _on_spark(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    from pyspark.sql import SparkSession

    from drpu import DRPUClassifier
    from drpu.scale.spark import SparkBoosted

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[1]").config("spark.driver.memory", "6g")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    frame = spark.read.parquet(str(folder))

    def fit() -> Any:
        part = frame
        if task["rows"] > task["fit_rows"]:
            names = [str(path) for path in sorted(folder.glob("*.parquet"))[: task["fit_rows"] // PART]]
            part = spark.read.parquet(*names)
        return DRPUClassifier(SparkBoosted(), scenario="single-sample", random_state=0).fit(part, y="label")

    steps = _steps(fit, frame.select(*NAMES), lambda scored: scored.selectExpr("sum(label)").collect())
    spark.stop()
    return steps


ENGINES = {"files": _in_batches, "dask": _on_dask, "spark": _on_spark}
