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
    found, seen = scored.compute(), TABLE[["a", "b"]]
    assert_array_equal(found.index, TABLE.index)
    assert_array_equal(found["label"], NAMED.predict(seen))
    assert_allclose(found["probability"], NAMED.predict_proba(seen)[:, 1])


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
    assert_array_equal(score_batches(PLAIN, array).compute()["label"], PLAIN.predict(DATA.test))
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
    with pytest.raises(DataError, match="'label' already"):
        score_batches(NAMED, frame.withColumnRenamed("id", "label"))


def test_spark_keeps_labels_of_any_kind(spark):
    from drpu import DRPUClassifier

    rows = pd.DataFrame(np.concatenate([DATA.positive, DATA.unlabeled]), columns=["a", "b"])
    labels = np.repeat(["yes", "no"], [len(DATA.positive), len(DATA.unlabeled)])
    clf = DRPUClassifier("kernel", pos_label="yes", random_state=0).fit(rows, labels)
    found = collected(score_batches(clf, spark.createDataFrame(TABLE)))
    assert set(found["label"]) == {"yes", "no"}
