"""A Parquet file that is read whole, or a batch at a time: the same prior, seconds and memory.

    python -m benchmarks.scale [--rows 2000000]

Each way runs in a process of its own, so that its peak is its own; memory is what it has
above a process that has only loaded the classifier.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import write_results

COLUMNS = 8
GROUP = 100_000  # rows of a row group
WAYS = ("nothing", "whole", "batches")


def write_rows(path: Path, rows: int) -> None:
    """Rows of a shifted prior, written a group at a time."""
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


def write_classifier(path: Path) -> None:
    """A classifier whose columns have names."""
    import pandas as pd

    from drpu import DRPUClassifier, save

    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(COLUMNS)]
    unlabeled = rng.normal(size=(3000, COLUMNS)) + 1.5 * (rng.random(3000) < 0.4)[:, None]
    samples = rng.normal(size=(800, COLUMNS)) + 1.5, unlabeled
    clf = DRPUClassifier("kernel", random_state=0)
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
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # kilobytes, on Linux
    return {"way": way, "prior": prior, "seconds": seconds, "peak_mebibytes": peak}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(read(options.way, options.folder / "clf.drpu", options.folder / "rows.parquet")))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_classifier(Path(folder) / "clf.drpu")
        write_rows(Path(folder) / "rows.parquet", options.rows)
        found = []
        for way in WAYS:
            again = [sys.executable, "-m", "benchmarks.scale", "--way", way, "--folder", folder]
            done = subprocess.run(again, capture_output=True, text=True, check=True)
            found.append(json.loads(done.stdout))
        size = (Path(folder) / "rows.parquet").stat().st_size / 2**20
    empty = found[0]["peak_mebibytes"]
    ways = [one | {"above_empty_mebibytes": one["peak_mebibytes"] - empty} for one in found[1:]]
    for one in ways:
        print({key: round(value, 4) if isinstance(value, float) else value for key, value in one.items()})
    command = f"python -m benchmarks.scale --rows {options.rows}"
    content = {"rows": options.rows, "columns": COLUMNS, "file_mebibytes": size, "ways": ways}
    print("wrote", write_results("scale", command, **content))


if __name__ == "__main__":
    main()
