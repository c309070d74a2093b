"""Mixed tables are counted and scored on Dask and Spark as in memory."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from claims_data import claims, spark_records
from numpy.testing import assert_allclose, assert_array_equal

from drpu import BoostedRatio, DRPUClassifier, count_batches, score_batches
from drpu.exceptions import CollectedWarning, DataError, ExtraColumnsWarning, ParameterError

pytestmark = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas", "ignore::drpu.exceptions.ShiftWarning"
)


TRAIN = pd.concat([claims(200, 1.0, 0)[0], claims(700, 0.4, 1)[0]], ignore_index=True)
CLF = DRPUClassifier(BoostedRatio(n_rounds=25), holdout=2, random_state=0)
CLF.fit(TRAIN, np.repeat([1, 0], [200, 700]))
JUNE = claims(900, 0.2, 2)[0]
JUNE["region"] = JUNE["region"].astype(object)
MORE = JUNE.assign(number=np.arange(len(JUNE)))[["number", *JUNE.columns[::-1]]]
IGNORED = r"'number'\. They are ignored"


@pytest.fixture(scope="module")
def dask_frame():
    return pytest.importorskip("dask.dataframe").from_pandas(MORE, npartitions=4)


@pytest.fixture(scope="module")
def spark_frame(spark):
    return spark.createDataFrame(*spark_records(MORE)).coalesce(2)


def test_dask_counts_and_scores_a_mixed_table(dask_frame):
    with pytest.warns(ExtraColumnsWarning, match=IGNORED) as caught:
        assert count_batches(CLF, dask_frame) == CLF.count(JUNE)
    assert len(caught) == 1
    with pytest.warns(ExtraColumnsWarning, match=IGNORED):
        scored = score_batches(CLF, dask_frame).compute()
    assert_array_equal(scored["label"], CLF.predict(JUNE))
    assert_allclose(scored["probability"], CLF.predict_proba(JUNE)[:, 1])


def test_adapt_takes_a_dask_frame(dask_frame):
    frame = dask_frame[list(JUNE.columns)]
    assert CLF.adapt(frame).prior_ == CLF.adapt(JUNE).prior_
    weights = np.arange(len(JUNE)) % 3 + 1.0
    weighted = frame.assign(w=dask_frame["number"] % 3 + 1.0)
    assert CLF.count(weighted, sample_weight="w") == CLF.count(JUNE, sample_weight=weights)
    with pytest.raises(ParameterError, match="name of a column"):
        CLF.adapt(frame, sample_weight=weights)


def test_a_missing_column_of_a_cluster_is_named(dask_frame):
    with pytest.raises(DataError, match="'channel'"):
        CLF.adapt(dask_frame.drop(columns="channel"))


def test_spark_adapts_to_and_scores_a_mixed_table(spark_frame):
    with pytest.warns(ExtraColumnsWarning, match=IGNORED) as caught:
        assert CLF.count(spark_frame) == CLF.count(JUNE)
    assert sum(w.category is ExtraColumnsWarning for w in caught) == 1
    with pytest.warns(ExtraColumnsWarning, match=IGNORED):
        lines = score_batches(CLF.adapt(JUNE), spark_frame).collect()
    found = pd.DataFrame([line.asDict() for line in lines]).sort_values("number")
    assert_array_equal(found["label"], CLF.adapt(JUNE).predict(JUNE))
    assert_allclose(found["score"], CLF.adapt(JUNE).decision_function(JUNE))


@pytest.mark.parametrize("container", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_extra_columns_of_batches_are_warned_of_once(container):
    parts = [container(MORE.iloc[:300]), container(MORE.iloc[300:])]
    with pytest.warns(ExtraColumnsWarning, match=IGNORED) as caught:
        assert count_batches(CLF, iter(parts)) == CLF.count(JUNE)
    assert len(caught) == 1
    with pytest.warns(ExtraColumnsWarning, match=IGNORED) as caught:
        labels = [batch["label"] for batch in score_batches(CLF, parts[1], batch_size=200)]
    assert len(caught) == 1
    assert_array_equal(np.concatenate(labels), CLF.predict(JUNE.iloc[300:]))


def test_extra_columns_of_files_are_warned_of_once(tmp_path):
    for k in range(2):
        MORE.iloc[k::2].to_parquet(tmp_path / f"{k}.parquet")
    with pytest.warns(ExtraColumnsWarning, match=IGNORED) as caught:
        assert count_batches(CLF, tmp_path, batch_size=100) == CLF.count(JUNE)
    assert len(caught) == 1


def test_chosen_columns_are_not_warned_of():
    assert count_batches(CLF, MORE, columns=list(JUNE.columns)) == CLF.count(JUNE)


def test_the_column_of_periods_is_no_extra_one_of_batches_either(dask_frame):
    """Warnings are errors here."""
    clf = DRPUClassifier(BoostedRatio(n_rounds=5), scenario="single-sample", holdout=2, random_state=0)
    month = np.arange(len(TRAIN)) % 3
    clf.fit(TRAIN.assign(number=month), np.repeat([1, 0], [200, 700]), periods="number")
    one_pass = clf.count(JUNE)
    for source in (MORE, pa.Table.from_pandas(MORE, preserve_index=False), dask_frame):
        assert count_batches(clf, source) == clf.count(MORE) == one_pass
    assert sum(len(batch["label"]) for batch in score_batches(clf, MORE)) == len(MORE)
    assert clf.adapt(one_pass).prior_ == clf.adapt(dask_frame).prior_


def test_lazy_frames_are_collected_with_a_warning():
    lazy = pl.from_pandas(JUNE).lazy()
    with pytest.warns(CollectedWarning):
        assert count_batches(CLF, lazy) == CLF.count(JUNE)
    with pytest.warns(CollectedWarning):
        assert CLF.adapt(lazy).prior_ == CLF.adapt(JUNE).prior_
