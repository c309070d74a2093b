"""Fits that are started at the same time on one cluster give what each gives alone."""

from concurrent.futures import ThreadPoolExecutor
from operator import add

import pytest
from cluster_rows import COLUMNS, make_rows
from numpy.testing import assert_array_equal

from drpu import DaskBoosted, DRPUClassifier, SparkBoosted
from drpu.exceptions import ClusterError

ROWS, _ = make_rows(2000)


def classifier(model, seed=0):
    return DRPUClassifier(model, holdout=0.2, scenario="single-sample", random_state=seed)


def assert_equal_fits(found, alone):
    assert_array_equal(found.decision_function(ROWS[COLUMNS]), alone.decision_function(ROWS[COLUMNS]))
    assert found.prior_ == alone.prior_


@pytest.fixture(scope="module")
def dask_frame():
    return pytest.importorskip("dask.dataframe").from_pandas(ROWS, npartitions=3)


def test_dask_fits_of_several_threads_and_clients_take_turns(client, dask_frame):
    distributed = pytest.importorskip("distributed")

    class Fails(DaskBoosted):
        def settings(self, seed):
            return super().settings(seed) | {"objective": "nonsense"}

    def fit(kind, seed, owner):
        return classifier(kind(n_rounds=10, key="id", client=owner), seed).fit(dask_frame, y="label")

    alone = fit(DaskBoosted, 0, client)
    with (
        distributed.Client(client.scheduler.address, set_as_default=False) as other,
        ThreadPoolExecutor(4) as threads,
    ):
        failing = threads.submit(fit, Fails, 0, client)
        fits = [threads.submit(fit, DaskBoosted, 0, owner) for owner in (client, other, client)]
        with pytest.raises(ClusterError, match="LightGBM failed"):
            failing.result()
        for found in fits:
            assert_equal_fits(found.result(), alone)


def test_a_failed_dask_fit_cancels_its_own_tasks_only(client, dask_frame):
    distributed = pytest.importorskip("distributed")
    training, go = (distributed.Event(name, client=client) for name in ("training", "go"))

    def objective(truth, margin):
        distributed.Event("training").set()
        distributed.Event("go").wait()
        raise RuntimeError("this objective always fails")

    class Fails(DaskBoosted):
        def settings(self, seed):
            return super().settings(seed) | {"objective": objective}

    with ThreadPoolExecutor(1) as threads:
        fit = threads.submit(classifier(Fails(key="id", client=client)).fit, dask_frame, y="label")
        training.wait()
        other = client.submit(add, 1, 2, pure=False)
        go.set()
        with pytest.raises(ClusterError, match="this objective always fails"):
            fit.result()
    assert other.result() == 3


@pytest.mark.slow  # five fits on Spark
@pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas", "ignore:.*sklearn.utils.deprecation:FutureWarning"
)
def test_spark_fits_of_several_threads_take_turns(spark):
    pytest.importorskip("xgboost")
    frame = spark.createDataFrame(ROWS)

    class Fails(SparkBoosted):
        def settings(self, workers):
            return super().settings(workers) | {"tree_method": "nonsense"}

    def fit(kind):
        return classifier(kind(n_rounds=10, key="id", n_workers=2)).fit(frame, y="label")

    alone = fit(SparkBoosted)
    with ThreadPoolExecutor(3) as threads:
        failing = threads.submit(fit, Fails)
        fits = [threads.submit(fit, SparkBoosted) for _ in range(2)]
        with pytest.raises(ClusterError, match="XGBoost failed"):
            failing.result()
        for found in fits:
            assert_equal_fits(found.result(), alone)
