"""Dask and Spark give the counts of one pass."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scale_data import COLUMNS, DATA, NAMED, PLAIN, TABLE
from sklearn.base import clone

from drpu import count_batches, score_batches
from drpu.exceptions import DataError, ParameterError

# warnings of Spark itself when tables are converted
pytestmark = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas",
    "ignore:Running on a single-machine scheduler",  # earlier Dask, if other tests have a client
    "ignore::drpu.exceptions.ExtraColumnsWarning",
)

PROBABILITY = NAMED.predict_proba(TABLE[COLUMNS])[:, 1]


@pytest.fixture(scope="module")
def dask_frame():
    frame = pytest.importorskip("dask.dataframe")
    return frame.from_pandas(TABLE, npartitions=20)


def test_dask_partitions_may_be_empty(dask_frame):
    few = dask_frame[dask_frame["id"] < 100]
    assert count_batches(NAMED, few) == NAMED.count(TABLE.iloc[:100][["a", "b"]])
    assert len(score_batches(NAMED, few).compute()) == 100


def test_dask_scores_lazily_and_in_place(dask_frame):
    scored = score_batches(NAMED, dask_frame)
    assert scored.npartitions == dask_frame.npartitions
    assert scored.divisions == dask_frame.divisions
    found = scored.compute()
    assert list(found.columns) == [*TABLE.columns, "label", "probability", "ratio", "score"]
    pd.testing.assert_frame_equal(found[TABLE.columns], TABLE)
    assert_array_equal(found["label"], NAMED.predict(TABLE[COLUMNS]))
    assert_allclose(found["probability"], PROBABILITY)


@pytest.fixture
def scheduler(request):
    """A scheduler of Dask: of the process, or of the cluster of the tests."""
    dask = pytest.importorskip("dask")
    if request.param == "cluster":
        yield request.getfixturevalue("client")
        return
    with dask.config.set(
        {"dataframe.shuffle.method": "tasks"}
    ):  # the default needs a cluster if there is one
        yield request.param


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "cluster"], indirect=True)
def test_dask_rows_keep_their_own_probability(scheduler, tmp_path):
    """Rows of Parquet files, each of which numbers its rows from 0 on, through every way of joining."""
    dask = pytest.importorskip("dask")
    frame = pytest.importorskip("dask.dataframe")
    for k in range(9):
        rows = TABLE[100 * k : 100 * (k + 1)]
        rows.reset_index(drop=True).to_parquet(tmp_path / f"{k}.parquet")
    june = frame.read_parquet(tmp_path)
    assert not june.known_divisions
    scored = score_batches(NAMED, june, prefix="june_")
    assigned = june.copy()
    assigned["june_probability"] = scored["june_probability"]
    shuffled = scored.sample(frac=1, random_state=0).shuffle("id")
    ways = {
        "the frame": scored,
        "some columns": scored[["id", "june_probability"]],
        "some rows": scored[scored["a"] > 0],
        "other partitions": shuffled.repartition(npartitions=4),
        "assign": june.assign(june_probability=scored["june_probability"]),
        "an assigned column": assigned,
        "a merge by a key": june.merge(scored[["id", "june_probability"]], on="id"),
        "concat": frame.concat([june, scored[["june_probability"]]], axis=1),
    }
    for _ in range(10):
        tables = dask.compute(*ways.values(), scheduler=scheduler)
        for way, table in zip(ways, tables, strict=True):
            n_rows = int((TABLE["a"] > 0).sum()) if way == "some rows" else len(TABLE)
            assert len(table) == n_rows, way
            assert table["id"].is_unique, way
            assert_allclose(table["june_probability"], PROBABILITY[table["id"]], err_msg=way)


def test_dask_scores_what_it_has_scored_under_another_prefix(dask_frame):
    scored = score_batches(NAMED, dask_frame)
    with pytest.raises(DataError, match=r"'label' already.*prefix="):
        score_batches(NAMED, scored)
    again = score_batches(NAMED, scored, prefix="july_").compute()
    assert_array_equal(again["july_score"], again["score"])


def test_dask_tells_classifiers_with_equal_parameters_apart(dask_frame):
    dask = pytest.importorskip("dask")
    positive, unlabeled = (TABLE[COLUMNS].iloc[rows] for rows in (slice(0, 100), slice(100, None)))
    other = clone(NAMED).fit_pu(positive, unlabeled)
    lazy = [score_batches(classifier, dask_frame)["ratio"] for classifier in (NAMED, other)]
    first, second = dask.compute(*lazy, scheduler="synchronous")
    assert_allclose(first, NAMED.ratio(TABLE[COLUMNS]))
    assert_allclose(second, other.ratio(TABLE[COLUMNS]))


def test_dask_arrays_are_rows():
    array = pytest.importorskip("dask.array").from_array(DATA.test, chunks=(128, 1))
    assert count_batches(PLAIN, array) == PLAIN.count(DATA.test)
    scored = score_batches(PLAIN, array)
    assert scored.divisions == (*range(0, len(DATA.test), 128), len(DATA.test) - 1)
    found = scored.compute()
    assert_array_equal(found.index, np.arange(len(DATA.test)))
    assert_array_equal(found["label"], PLAIN.predict(DATA.test))


def test_dask_arrays_of_unknown_size_are_rows():
    array = pytest.importorskip("dask.array").from_array(DATA.test, chunks=(128, 1))
    some = array[array[:, 0] > 0]
    found = score_batches(PLAIN, some).compute()
    assert_array_equal(found["label"], PLAIN.predict(DATA.test[DATA.test[:, 0] > 0]))


def test_dask_arrays_have_no_columns_to_choose():
    array = pytest.importorskip("dask.array").from_array(DATA.test, chunks=(128, 1))
    with pytest.raises(ParameterError, match="columns must be None"):
        count_batches(PLAIN, array, columns=["a"])


def test_dask_says_what_is_not_there(dask_frame):
    with pytest.raises(DataError, match="no column 'x'"):
        count_batches(NAMED, dask_frame, columns=["x"])
    with pytest.raises(ParameterError, match="rows and columns"):
        count_batches(NAMED, pytest.importorskip("dask.bag").from_sequence([1, 2]))


def collected(frame):
    return pd.DataFrame([row.asDict() for row in frame.collect()])


def test_spark_counts_and_scores(spark):
    frame = spark.createDataFrame(TABLE).repartition(3)
    assert count_batches(NAMED, frame) == NAMED.count(TABLE[["a", "b"]])
    weighted = count_batches(NAMED, frame, weight="w")
    assert weighted == NAMED.count(TABLE[["a", "b"]], sample_weight=TABLE["w"])
    assert NAMED.adapt(weighted).prior_.low > 0

    found = collected(score_batches(NAMED, frame)).sort_values("id")
    assert list(found.columns) == [*TABLE.columns, "label", "probability", "ratio", "score"]
    assert_array_equal(found["label"], NAMED.predict(TABLE[["a", "b"]]))
    assert_allclose(found["score"], NAMED.decision_function(TABLE[["a", "b"]]))

    with pytest.raises(DataError, match="no column 'x'"):
        count_batches(NAMED, frame, columns=["x"])


def test_spark_scores_what_it_has_scored_under_another_prefix(spark):
    scored = score_batches(NAMED, spark.createDataFrame(TABLE).repartition(3))
    with pytest.raises(DataError, match=r"'label' already.*prefix="):
        score_batches(NAMED, scored)
    with pytest.raises(DataError, match="'label' already"):  # Spark does not tell A from a
        score_batches(NAMED, scored.withColumnRenamed("label", "LABEL"))
    again = collected(score_batches(NAMED, scored, prefix="july_"))
    assert_array_equal(again["july_score"], again["score"])


def test_spark_keeps_labels_of_any_kind(spark):
    from drpu import DRPUClassifier

    rows = pd.DataFrame(np.concatenate([DATA.positive, DATA.unlabeled]), columns=["a", "b"])
    labels = np.repeat(["yes", "no"], [len(DATA.positive), len(DATA.unlabeled)])
    clf = DRPUClassifier("kernel", pos_label="yes", random_state=0).fit(rows, labels)
    found = collected(score_batches(clf, spark.createDataFrame(TABLE)))
    assert set(found["label"]) == {"yes", "no"}
