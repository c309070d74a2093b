"""Counts and scores of batches are those of one pass."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from drpu import DRPUClassifier, NNPUClassifier, count_batches, score_batches
from drpu.exceptions import DataError, DataTypeError, ParameterError


def folder_of(table, path, parts=3):
    path.mkdir()
    for i, part in enumerate(np.array_split(np.arange(len(table)), parts)):
        pq.write_table(pa.Table.from_pandas(table.iloc[part]), path / f"{i}.parquet", row_group_size=70)
    return path


def sources(table, folder):
    arrow = pa.Table.from_pandas(table)
    halves = table.iloc[:400], table.iloc[400:400], table.iloc[400:]
    return {
        "pandas": table,
        "polars": pl.from_pandas(table),
        "Arrow": arrow,
        "a reader": arrow.to_reader(max_chunksize=100),
        "a data set": pyarrow.dataset.dataset(folder),
        "a folder": str(folder),
        "a path": folder / "0.parquet",
        "paths": sorted(folder.glob("*.parquet")),
        "a generator": (part for part in halves),
        "a list": list(halves),
    }


NAMES = ["pandas", "polars", "Arrow", "a reader", "a data set"]
NAMES += ["a folder", "a path", "paths", "a generator", "a list"]


@pytest.mark.parametrize("name", NAMES)
def test_counts_are_those_of_one_pass(name, named, table, tmp_path):
    source = sources(table, folder_of(table, tmp_path / "rows"))[name]
    seen = table.iloc[:300] if name == "a path" else table
    assert count_batches(named, source, batch_size=128) == named.count(seen[["a", "b"]])


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_one_pass(name, named, table, tmp_path):
    source = sources(table, folder_of(table, tmp_path / "rows"))[name]
    seen = (table.iloc[:300] if name == "a path" else table)[["a", "b"]]
    batches = list(score_batches(named.at_prior(0.2), source, batch_size=128))
    found = {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}
    adapted = named.at_prior(0.2)
    assert_array_equal(found["label"], adapted.predict(seen))
    assert_allclose(found["probability"], adapted.predict_proba(seen)[:, 1])
    assert_allclose(found["score"], adapted.decision_function(seen))


def test_counts_take_the_place_of_rows(plain, data):
    from_rows, from_counts = (
        plain.adapt(data.test),
        plain.adapt(count_batches(plain, data.test, batch_size=37)),
    )
    assert from_counts.prior_ == from_rows.prior_
    assert from_counts.shift_test_ == from_rows.shift_test_
    assert_array_equal(from_counts.predict(data.test), from_rows.predict(data.test))


def test_weights_are_a_column(named, table, tmp_path):
    folder = folder_of(table, tmp_path / "rows")
    found = count_batches(named, folder, weight="w", batch_size=50)
    assert found == named.count(table[["a", "b"]], sample_weight=table["w"])
    assert found != named.count(table[["a", "b"]])


def test_columns_may_be_said_or_be_all(plain, table):
    whole = plain.count(table[["a", "b"]].to_numpy())
    assert count_batches(plain, table, columns=["a", "b"]) == whole
    assert count_batches(plain, table[["a", "b", "w"]], weight="w").weighted


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_rows_without_names_are_taken_whole(make, data):
    clf = DRPUClassifier("classifier", random_state=0).fit_pu(make(data.positive), make(data.unlabeled))
    assert count_batches(clf, make(data.test), batch_size=64) == clf.count(make(data.test))


def test_memory_maps_are_read_a_batch_at_a_time(plain, data, tmp_path):
    np.save(tmp_path / "rows.npy", data.test)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert count_batches(plain, mapped, batch_size=100) == plain.count(data.test)


def test_nothing_is_read_before_it_is_asked_for(plain, data):
    asked = []

    def batches():
        for part in np.array_split(data.test, 3):
            asked.append(len(part))
            yield part

    scored = score_batches(plain, batches())
    assert asked == []
    next(scored)
    assert asked == [300]


def test_no_rows_are_no_counts(plain, data):
    nothing = count_batches(plain, iter([]))
    assert nothing.n == 0
    with pytest.raises(DataError, match="empty"):
        plain.adapt(nothing)


def test_foreign_counts_are_refused(plain, named, data):
    other = DRPUClassifier("kernel", random_state=1).fit_pu(data.positive[:150], data.unlabeled)
    with pytest.raises(DataError, match="not made by this classifier"):
        plain.adapt(other.count(data.test))
    with pytest.raises(ParameterError, match="sample_weight must be None"):
        plain.adapt(plain.count(data.test), sample_weight=np.ones(len(data.test)))


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        (3, {}, DataTypeError, "source must be rows"),
        (np.zeros(3), {}, DataError, "rows and columns"),
        (np.zeros((3, 2)), {"columns": ["a"]}, ParameterError, "columns must be None"),
        (np.zeros((3, 2)), {"weight": "w"}, ParameterError, "weight must be None"),
        (np.zeros((3, 2)), {"batch_size": 0}, ParameterError, "batch_size"),
        ("absent.parquet", {}, FileNotFoundError, "absent.parquet"),
    ],
)
def test_what_cannot_be_counted_is_said(source, options, error, message, plain):
    with pytest.raises(error, match=message):
        count_batches(plain, source, **options)


def test_missing_columns_are_named(named, table):
    with pytest.raises(DataError, match="no column 'b', the table has id, a, w"):
        count_batches(named, table.drop(columns="b"))


def test_damaged_files_are_named(plain, tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"x\.parquet cannot be read"):
        count_batches(plain, tmp_path / "x.parquet")


def test_only_adaptable_classifiers_count(data):
    rival = NNPUClassifier("linear", prior=0.4).fit_pu(data.positive, data.unlabeled)
    with pytest.raises(ParameterError, match="NNPUClassifier"):
        count_batches(rival, data.test)


def test_progress_shows_when_asked(plain, data, capsys):
    count_batches(plain, data.test, batch_size=300, verbose=1)
    assert "3/3" in capsys.readouterr().err
