"""Trees trained on Spark executors equal those of a local fit, up to noise."""

import json
import os
import sys
from threading import Thread

import numpy as np
import pytest
from cluster_rows import COLUMNS, make_rows
from numpy.testing import assert_allclose

from drpu import DRPUClassifier, PriorMonitor, SparkBoosted, make_gaussian_pu
from drpu.exceptions import ClusterError, DataError, DataTypeError, LabelError, ParameterError
from drpu.models import BoostedFunction
from drpu.models.trees import trees_from_xgboost
from drpu.scale.spark import plain_errors

pytestmark = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas", "ignore:.*sklearn.utils.deprecation:FutureWarning"
)
ROWS, _ = make_rows(4000)


@pytest.fixture(scope="module")
def frame(spark):
    # Sorted by label, as tables often are: most partitions then have one class.
    return spark.createDataFrame(ROWS.sort_values("label")).coalesce(3)


def test_frames_and_roles_are_checked(frame):
    import pyspark.sql.functions as F  # noqa: N812

    def fit(rows=frame, y="label", **options):
        DRPUClassifier(SparkBoosted(**options)).fit(rows, y=y)

    with pytest.raises(DataError, match="no column 'nothing'"):
        fit(y="nothing")
    with pytest.raises(ParameterError, match="names of columns"):
        fit(y=[0, 1])
    with pytest.raises(DataTypeError, match="column 'words' has type array"):
        fit(frame.withColumn("words", F.array(F.lit("x"))))
    with pytest.raises(LabelError):
        fit(frame.where(F.col("label") == 1), key="id")
    with pytest.raises(ParameterError, match="n_rounds"):
        fit(n_rounds=0)
    with pytest.raises(DataTypeError, match="Spark data frame"):
        fit(ROWS)
    with pytest.raises(DataTypeError, match="SparkBoosted"):
        DRPUClassifier("boosted").fit(frame, ROWS["label"])


def test_coalesced_partitions_are_trained_on(spark):
    # Spark refuses the barrier stage of XGBoost after a coalesce.
    rows = spark.createDataFrame(ROWS).repartition(2).coalesce(1)
    clf = DRPUClassifier(SparkBoosted(n_rounds=2, n_workers=1), keep_ids=True, random_state=0)
    clf.fit(rows, y="label")
    assert 0 < clf.prior_.value < 1


def test_a_stream_of_spark_batches_is_monitored(spark, tmp_path):
    """The recipe of the documentation: each micro-batch is counted by the executors."""
    from drpu import count_batches

    fitted = DRPUClassifier("kernel", scenario="single-sample", random_state=0)
    fitted.fit(ROWS[COLUMNS], ROWS["label"])
    new, _ = make_rows(n=3000, seed=2)
    for k, part in enumerate(np.array_split(np.arange(3000), 3)):
        new.iloc[part][COLUMNS].to_parquet(tmp_path / f"part{k}.parquet", index=False)
    monitor = PriorMonitor(fitted)
    schema = spark.read.parquet(str(tmp_path)).schema

    def update(batch, number):
        if not batch.isEmpty():
            monitor.update(count_batches(fitted, batch), when=number)

    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path))
    query = stream.writeStream.foreachBatch(update).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert len(monitor.readings) == 3
    assert monitor.tails == fitted.count(new[COLUMNS])
    assert not monitor.readings[-1].moved


# -- trees of XGBoost ------------------------------------------------------------------------------


def test_trees_of_xgboost_score_as_xgboost_does():
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4)).round(1).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = (np.nan_to_num(X).sum(axis=1) > 0.3).astype(int)
    settings = {"objective": "binary:logistic", "base_score": 0.5, "max_leaves": 15, "max_depth": 0}
    rows = xgboost.DMatrix(X, y)
    booster = xgboost.train(settings | {"grow_policy": "lossguide"}, rows, 20)
    trees = trees_from_xgboost(booster.save_raw("json"), 4)
    model = BoostedFunction(trees, 0.0)
    assert_allclose(model.log_ratio(X), booster.predict(rows, output_margin=True), atol=1e-5)
    assert_allclose(model.log_ratio(X.astype(np.float64)), model.log_ratio(X))

    state = json.loads(bytes(booster.save_raw("json")))
    state["learner"]["learner_model_param"]["base_score"] = "[2.5E-1]"
    with pytest.raises(ClusterError, match="base_score"):
        trees_from_xgboost(json.dumps(state).encode(), 4)


def test_executors_without_the_package_are_named_in_one_line(spark, tmp_path, monkeypatch):
    bare = tmp_path / "python"  # as a Python outside of the environment of the driver
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    data = make_gaussian_pu(120, 300, prior=0.4, separation=3, random_state=0)
    clf = DRPUClassifier("kernel", random_state=0).fit(*data.X_y())
    frame = spark.createDataFrame([(float(x),) for x in data.unlabeled[:, 0]], ["x0"])
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    with pytest.raises(ClusterError, match=r"executors has no module '\w+': .*PYSPARK_PYTHON") as raised:
        clf.count(frame)
    assert "\n" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_a_missing_package_of_xgboost_and_other_errors():
    with pytest.raises(ClusterError, match="has no module 'xgboost'"), plain_errors():
        raise ClusterError("XGBoost failed on the Spark cluster: ... No module named 'xgboost' ...")
    with pytest.raises(ZeroDivisionError), plain_errors():
        raise ZeroDivisionError


def test_more_workers_than_slots_are_an_error_after_a_time(spark, monkeypatch):
    monkeypatch.setattr("drpu.scale.spark.WAIT", 0)
    frame, _ = make_rows(200)
    model = SparkBoosted(n_rounds=2, n_workers=3, key="id")
    with pytest.raises(ClusterError, match=r"n_workers=3 tasks .* the cluster has 2"):
        DRPUClassifier(model).fit(spark.createDataFrame(frame), y="label")


def test_a_training_without_free_slots_is_cancelled(spark, monkeypatch, tmp_path):
    """Another job holds one of the two slots until its file is written to."""
    monkeypatch.setattr("drpu.scale.spark.WAIT", 3)
    frame, _ = make_rows(200)
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)

    def read_pipe(rows):
        with open(pipe) as file:  # waits until another process writes
            file.read()
        yield from rows

    held = spark.sparkContext.parallelize([1], 1).mapPartitions(read_pipe)
    other = Thread(target=held.collect)
    other.start()
    try:
        with pytest.raises(ClusterError, match="other jobs use them"):
            DRPUClassifier(SparkBoosted(n_rounds=2, n_workers=2, key="id")).fit(
                spark.createDataFrame(frame), y="label"
            )
    finally:
        with open(pipe, "w") as file:
            file.write("end")
        other.join()
