"""Files of shifted rows: the prior of a Parquet file in three ways, and commands that read a CSV file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = 8
GROUP = 100_000  # rows of a row group


def peak_mebibytes() -> float:
    """Peak memory of this program; the peak of getrusage would include that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def write_rows(path: Path, rows: int) -> None:
    """Rows of a shifted prior, written group by group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, writer = np.random.default_rng(1), None
    for start in range(0, rows, GROUP):
        n = min(GROUP, rows - start)
        X = rng.normal(size=(n, COLUMNS)) + 1.5 * (rng.random(n) < 0.15)[:, None]
        table = pa.table({f"x{i}": X[:, i] for i in range(COLUMNS)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def write_text(path: Path, mebibytes: float, group: int = GROUP) -> int:
    """A CSV file of shifted rows with about this size, at least one group; returns its number of rows."""
    import pyarrow as pa
    import pyarrow.csv

    rng = np.random.default_rng(1)
    n_rows = 0
    with path.open("wb") as file:
        while n_rows == 0 or file.tell() < mebibytes * 2**20:
            X = rng.normal(size=(group, COLUMNS)) + 1.5 * (rng.random(group) < 0.15)[:, None]
            columns = {"month": rng.integers(1, 13, group)}
            columns |= {f"x{i}": X[:, i] for i in range(COLUMNS)}
            header = pa.csv.WriteOptions(include_header=n_rows == 0)
            pa.csv.write_csv(pa.table(columns), file, header)
            n_rows += group
    return n_rows


COMMANDS = {
    "few rows": ["predict", "--adapt"],
    "predict --adapt": ["predict", "--adapt"],
    "predict --by": ["predict", "--by", "month"],
    "audit": ["audit"],
}


def label(way: str, folder: Path) -> dict[str, Any]:
    """Processor time and peak of this process when a command reads the rows of a CSV file."""
    from drpu.cli import main

    name = "few.csv" if way == "few rows" else "rows.csv"
    command, *options = COMMANDS[way]
    start = time.process_time()
    words = [command, str(folder / "clf.drpu"), str(folder / name), *options]
    code = main([*words, "--out", str(folder / "out.csv")])
    assert code == 0
    seconds = time.process_time() - start
    return {"way": way, "seconds": seconds, "peak_mebibytes": peak_mebibytes()}


def write_classifier(path: Path) -> None:
    """A classifier whose columns have names."""
    import pandas as pd

    from drpu import DRPUClassifier, save

    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(COLUMNS)]
    unlabeled = rng.normal(size=(3000, COLUMNS)) + 1.5 * (rng.random(3000) < 0.4)[:, None]
    samples = rng.normal(size=(800, COLUMNS)) + 1.5, unlabeled
    clf = DRPUClassifier("kernel", scenario="case-control", random_state=0)
    save(clf.fit_pu(*(pd.DataFrame(rows, columns=names) for rows in samples)), path)


def read(way: str, classifier: Path, rows: Path) -> dict[str, Any]:
    """The prior of the file in one of the ways, with the seconds and the peak of this process."""
    import pyarrow.parquet as pq

    from drpu import count_batches, load

    clf = load(classifier)
    start = time.perf_counter()
    prior = clf.adapt(pq.ParquetFile(rows).read_row_group(0).slice(0, 1000).to_pandas()).prior_.value
    if way == "whole":
        prior = clf.adapt(pq.read_table(rows).to_pandas()).prior_.value
    elif way == "batches":
        prior = clf.adapt(count_batches(clf, rows)).prior_.value
    seconds = time.perf_counter() - start
    peak = peak_mebibytes()
    return {"way": way, "prior": prior, "seconds": seconds, "peak_mebibytes": peak}
