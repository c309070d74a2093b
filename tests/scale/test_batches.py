"""Counts and scores of batches equal those of one pass."""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scale_data import DATA, NAMED, PLAIN, TABLE
from scipy import sparse

from drpu import DRPUClassifier, NNPUClassifier, count_batches, score_batches
from drpu.exceptions import DataError, DataTypeError, ParameterError
from drpu.scale.batches import open_parquet, scan_parquet

# The table has columns beside those of training, and what is said about them is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.ExtraColumnsWarning")


def folder_of(path, parts=3):
    path.mkdir()
    for i, part in enumerate(np.array_split(np.arange(len(TABLE)), parts)):
        pq.write_table(pa.Table.from_pandas(TABLE.iloc[part]), path / f"{i}.parquet", row_group_size=70)
    return path


def sources(folder):
    arrow = pa.Table.from_pandas(TABLE)
    halves = TABLE.iloc[:400], TABLE.iloc[400:400], TABLE.iloc[400:]
    return {
        "pandas": TABLE,
        "polars": pl.from_pandas(TABLE),
        "Arrow": arrow,
        "a reader": arrow.to_reader(max_chunksize=100),
        "a data set": pyarrow.dataset.dataset(folder),
        "a folder": str(folder),
        "a path": folder / "0.parquet",
        "paths": sorted(folder.glob("*.parquet")),
        "a pattern": str(folder / "*.parquet"),
        "a generator": (part for part in halves),
        "a list": list(halves),
    }


NAMES = ["pandas", "polars", "Arrow", "a reader", "a data set"]
NAMES += ["a folder", "a path", "paths", "a pattern", "a generator", "a list"]


@pytest.mark.parametrize("name", NAMES)
def test_counts_and_scores_are_those_of_one_pass(name, tmp_path):
    folder = folder_of(tmp_path / "rows")
    seen = (TABLE.iloc[:300] if name == "a path" else TABLE)[["a", "b"]]
    assert count_batches(NAMED, sources(folder)[name], batch_size=128) == NAMED.count(seen)
    adapted = NAMED.at_prior(0.2)
    batches = list(score_batches(adapted, sources(folder)[name], batch_size=128))
    found = {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}
    assert_array_equal(found["label"], adapted.predict(seen))
    assert_allclose(found["probability"], adapted.predict_proba(seen)[:, 1])
    assert_allclose(found["ratio"], adapted.ratio(seen))
    assert_allclose(found["score"], adapted.decision_function(seen))


def test_counts_take_the_place_of_rows():
    from_rows = PLAIN.adapt(DATA.test)
    from_counts = PLAIN.adapt(count_batches(PLAIN, DATA.test, batch_size=37))
    assert from_counts.prior_ == from_rows.prior_
    assert from_counts.shift_test_ == from_rows.shift_test_
    assert_array_equal(from_counts.predict(DATA.test), from_rows.predict(DATA.test))


def test_weights_are_a_column(tmp_path):
    folder = folder_of(tmp_path / "rows")
    found = count_batches(NAMED, folder, weight="w", batch_size=50)
    assert found == NAMED.count(TABLE[["a", "b"]], sample_weight=TABLE["w"])
    with pytest.raises(DataTypeError, match="weight must hold numbers"):
        count_batches(NAMED, TABLE.assign(w="heavy"), weight="w")
    assert found != NAMED.count(TABLE[["a", "b"]])


def test_columns_may_be_given_or_be_all():
    whole = PLAIN.count(TABLE[["a", "b"]].to_numpy())
    assert count_batches(PLAIN, TABLE, columns=["a", "b"]) == whole
    assert count_batches(PLAIN, TABLE[["a", "b", "w"]], weight="w").weighted


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, sparse.bsr_array, sparse.dia_matrix])
@pytest.mark.filterwarnings("ignore:Constructing a DIA matrix")
def test_rows_without_names_are_taken_whole(make):
    clf = DRPUClassifier("classifier", random_state=0).fit_pu(make(DATA.positive), make(DATA.unlabeled))
    assert count_batches(clf, make(DATA.test), batch_size=64) == clf.count(make(DATA.test))


def test_memory_maps_are_read_a_batch_at_a_time(tmp_path):
    np.save(tmp_path / "rows.npy", DATA.test)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert count_batches(PLAIN, mapped, batch_size=100) == PLAIN.count(DATA.test)


def test_nothing_is_read_before_it_is_asked_for():
    asked = []

    def batches():
        for part in np.array_split(DATA.test, 3):
            asked.append(len(part))
            yield part

    scored = score_batches(PLAIN, batches())
    assert asked == []
    next(scored)
    assert asked == [300]


def test_no_rows_are_no_counts():
    nothing = count_batches(PLAIN, iter([]))
    assert nothing.n == 0
    with pytest.raises(DataError, match="empty"):
        PLAIN.adapt(nothing)


def test_foreign_counts_and_classifiers_are_refused():
    other = DRPUClassifier("kernel", random_state=1).fit_pu(DATA.positive[:150], DATA.unlabeled)
    with pytest.raises(DataError, match="not made by this classifier"):
        PLAIN.adapt(other.count(DATA.test))
    with pytest.raises(ParameterError, match="sample_weight must be None"):
        PLAIN.adapt(PLAIN.count(DATA.test), sample_weight=np.ones(len(DATA.test)))
    rival = NNPUClassifier("linear", prior=0.4).fit_pu(DATA.positive, DATA.unlabeled)
    with pytest.raises(ParameterError, match="NNPUClassifier"):
        count_batches(rival, DATA.test)
    with pytest.raises(DataError, match="no column 'b', the table has id, a, w"):
        count_batches(NAMED, TABLE.drop(columns="b"))


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        (3, {}, DataTypeError, "source must be rows"),
        (np.zeros(3), {}, DataError, "rows and columns"),
        (np.zeros((3, 2)), {"columns": ["a"]}, ParameterError, "columns must be None"),
        (np.zeros((3, 2)), {"weight": "w"}, ParameterError, "weight must be None"),
        (np.zeros((3, 2)), {"batch_size": 0}, ParameterError, "batch_size"),
        ("absent.parquet", {}, FileNotFoundError, "absent.parquet"),
        ("absent/*.parquet", {}, FileNotFoundError, "absent"),
    ],
)
def test_data_that_cannot_be_counted_raise(source, options, error, message):
    with pytest.raises(error, match=message):
        count_batches(PLAIN, source, **options)


@pytest.mark.parametrize("start", [0, 4])  # nothing can be read, or the footer is whole and the rows are not
def test_damaged_files_are_named(tmp_path, start):
    path = folder_of(tmp_path / "rows", parts=1) / "0.parquet"
    content = bytearray(path.read_bytes())
    content[start : len(content) // 2] = bytes(len(content) // 2 - start)
    path.write_bytes(content if start else content[: len(content) // 2])
    with pytest.raises(DataError, match=r"0\.parquet cannot be read"):
        count_batches(NAMED, path)


def test_batches_move_a_progress_bar(monkeypatch):
    shown = []
    monkeypatch.setattr("drpu._progress._place", lambda: shown.append)
    monkeypatch.setattr("drpu._progress._PAUSE", 0)
    count_batches(PLAIN, DATA.test, batch_size=300, verbose=1)
    assert [text.partition("%")[0].split()[-1] for text in shown if text] == ["0", "33", "67", "100"]


def test_a_batch_of_a_parquet_file_does_not_read_the_whole_group_of_rows(tmp_path):
    values = np.random.default_rng(0).normal(size=(1_600_000, 2))
    table = pa.table({"0": values[:, 0], "1": values[:, 1]})
    pq.write_table(table, tmp_path / "one.parquet", row_group_size=len(values))
    before = pa.total_allocated_bytes()
    batches = scan_parquet(open_parquet(tmp_path / "one.parquet"), 1000, ["1", "0"])
    first = next(batches)
    assert pa.total_allocated_bytes() - before < values.nbytes / 4
    assert first.schema.names == ["1", "0"]
    rest = pa.Table.from_batches(batches)
    assert pa.concat_tables([pa.Table.from_batches([first]), rest]).equals(table.select(["1", "0"]))


def test_files_of_partitions_have_the_columns_of_the_whole(tmp_path):
    for month, kind in ((1, pa.null()), (2, pa.float64())):
        folder = tmp_path / f"month={month}"
        folder.mkdir()
        values = pa.array([None, None if month == 1 else 2.5], type=kind)
        pq.write_table(pa.table({"a": values, "b": [month, 7]}), folder / "part.parquet")
    dataset = open_parquet(tmp_path)
    batches = list(scan_parquet(dataset, 10, ["b", "month", "a"]))
    assert pa.Table.from_batches(batches).to_pydict() == {
        "b": [1, 7, 2, 7],
        "month": [1, 1, 2, 2],
        "a": [None, None, None, 2.5],
    }
