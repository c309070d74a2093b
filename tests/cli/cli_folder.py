"""Files for tests of the command line."""

import contextlib

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from drpu import make_gaussian_pu
from drpu.cli import main

SEED = 3


def run_in(folder, line):
    """Run a command in a folder; it must succeed."""
    with contextlib.chdir(folder):
        assert main(line.split()) == 0


def overlapping():
    """Classes that overlap, of which some rows are to be labelled."""
    return make_gaussian_pu(
        200, 800, prior=0.4, test_prior=0.2, n_test=1000, separation=2.5, dimensions=2, random_state=4
    )


def write_overlapping(folder, data, **columns):
    """A training file, new rows with further columns, and a classifier, for questions about rows."""
    X, y = data.X_y()
    pa.csv.write_csv(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y}), folder / "train.csv")
    june = pa.table({"id": np.arange(1000), "b": data.test[:, 1], "a": data.test[:, 0]} | columns)
    pa.csv.write_csv(june, folder / "june.csv")
    run_in(folder, "fit train.csv --label y --model kernel --scenario case-control --quiet --out toy.drpu")
    return folder


def write_folder(folder, first="a", second="b"):
    """Files of training and of new rows with two columns of these names, and a classifier."""
    data = make_gaussian_pu(
        200, 600, prior=0.1, test_prior=0.2, n_test=500, separation=4, dimensions=2, random_state=SEED
    )
    X, y = data.X_y()
    train = pa.table({"id": np.arange(len(X)), first: X[:, 0], second: X[:, 1], "y": y})
    pa.parquet.write_table(train, folder / "train.parquet")
    pa.csv.write_csv(train, folder / "train.csv")
    june = pa.table({"id": np.arange(500), second: data.test[:, 1], first: data.test[:, 0]})
    pa.csv.write_csv(june, folder / "june.csv")
    pa.feather.write_feather(june, folder / "june.arrow")
    pa.parquet.write_table(june, folder / "june.parquet")
    months = np.where(np.arange(500) < 250, "may", "june")
    pa.parquet.write_table(june.append_column("month", pa.array(months)), folder / "year.parquet")
    np.savez(folder / "train.npz", X=X, y=y)
    run_in(folder, "fit train.parquet --label y --drop id --model kernel --out toy.drpu")
    return folder
