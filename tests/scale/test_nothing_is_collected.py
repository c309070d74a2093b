"""Rows on a cluster stay there: every public method works in partitions or refuses the frame."""

import inspect

import numpy as np
import pandas as pd
import pytest
from scale_data import COLUMNS, DATA, NAMED, TABLE
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import drpu
from drpu import PriorMonitor, ScoreTails, count_batches, score_batches
from drpu.exceptions import DataTypeError
from drpu.report import render_report, write_report

pytestmark = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas",
    "ignore:Running on a single-machine scheduler",
    "ignore::drpu.exceptions.DRPUWarning",
)

POSITIVE = pd.DataFrame(DATA.positive, columns=COLUMNS)
TEST = TABLE[COLUMNS]
LABELS = (np.arange(len(TEST)) % 3 == 0).astype(int)
PIPELINE = make_pipeline(StandardScaler(), drpu.DRPUClassifier("kernel", random_state=0))
PIPELINE.fit(DATA.test, LABELS)

# with what a method or function is called beside rows
WORK_IN_PARTITIONS = {
    "adapt": lambda frame: NAMED.adapt(frame).prior_,
    "at_budget": lambda frame: NAMED.at_budget(rows=50, of=frame).threshold_,
    "count": lambda frame: NAMED.count(frame),
}
REFUSE = {
    "adapt_by": lambda frame: NAMED.adapt_by(frame, by="b"),
    "adapt_predict": lambda frame: NAMED.adapt_predict(frame),
    "contributions": lambda frame: NAMED.contributions(frame),
    "decision_function": lambda frame: NAMED.decision_function(frame),
    "evaluate": lambda frame: NAMED.evaluate(frame, LABELS),
    "fit": lambda frame: drpu.DRPUClassifier("kernel").fit(frame, LABELS),
    "fit_pu": lambda frame: drpu.DRPUClassifier("kernel").fit_pu(POSITIVE, frame),
    "plan_audit": lambda frame: NAMED.plan_audit(frame),
    "predict": lambda frame: NAMED.predict(frame),
    "predict_proba": lambda frame: NAMED.predict_proba(frame),
    "ratio": lambda frame: NAMED.ratio(frame),
    "reasons": lambda frame: NAMED.reasons(frame),
    "score": lambda frame: NAMED.score(frame, LABELS),
    "uncertain": lambda frame: NAMED.uncertain(frame),
}
FUNCTIONS_WORK = {
    "PriorMonitor": lambda frame: PriorMonitor(NAMED).update(frame).prior,
    "count_batches": lambda frame: count_batches(NAMED, frame),
    "score_batches": lambda frame: score_batches(NAMED, frame),
}
FUNCTIONS_REFUSE = {
    "AUCScorer": lambda frame: drpu.AUCScorer()(NAMED, frame, LABELS),
    "PUStratifiedKFold": lambda frame: next(drpu.PUStratifiedKFold().split(frame, LABELS)),
    "CostScorer": lambda frame: drpu.CostScorer(prior=0.4)(NAMED, frame, LABELS),
    "ElkanNotoClassifier": lambda frame: drpu.ElkanNotoClassifier().fit(frame, LABELS),
    "KernelMeanPrior": lambda frame: drpu.KernelMeanPrior().estimate(POSITIVE, frame),
    "UPUClassifier": lambda frame: drpu.UPUClassifier().fit(frame, LABELS),
    "adapt": lambda frame: drpu.adapt(PIPELINE, frame),
    "labelling_weights": lambda frame: drpu.labelling_weights(frame, LABELS, by="a", rates={0: 0.5, 1: 0.5}),
    "make_pu": lambda frame: drpu.make_pu(frame, LABELS),
    "ratio_risk_scorer": lambda frame: drpu.ratio_risk_scorer(NAMED, frame, LABELS),
    "render_report": lambda frame: render_report(NAMED, frame),
    "suspects": lambda frame: drpu.suspects(NAMED, frame, LABELS),
    "write_report": lambda frame: write_report(NAMED, frame, "report.html"),
}


def has_rows(method):
    names = set(inspect.signature(method).parameters)
    return bool(names & {"X", "of", "unlabeled"})


def test_every_method_with_rows_is_listed():
    methods = inspect.getmembers(drpu.DRPUClassifier, inspect.isfunction)
    names = {name for name, method in methods if not name.startswith("_") and has_rows(method)}
    assert names == {*WORK_IN_PARTITIONS, *REFUSE}


def in_partitions(table):
    frame = pytest.importorskip("dask.dataframe")
    return frame.from_pandas(table, npartitions=4)


@pytest.fixture
def dask_frame(monkeypatch):
    """A frame of which no more than counts may leave the scheduler."""
    dask = pytest.importorskip("dask")
    frame = in_partitions(TEST)

    def small_results(graph, keys, **options):
        results = dask.get(graph, keys, **options)
        for result in np.ravel(np.array(results, dtype=object)):
            assert isinstance(result, ScoreTails), f"{type(result)} was collected"
        return results

    with dask.config.set(scheduler=small_results):
        yield frame


@pytest.fixture
def spark_frame(spark, monkeypatch):
    """A frame whose rows cannot be collected."""
    frame = spark.createDataFrame(TEST)

    def refuse(*arguments, **options):
        raise AssertionError("rows were collected")

    for name in ("collect", "toArrow", "toPandas", "toLocalIterator", "take", "head"):
        monkeypatch.setattr(type(frame), name, refuse)
    return frame


@pytest.mark.parametrize("engine", ["dask_frame", "spark_frame"])
def test_methods_work_in_partitions_or_refuse(engine, request):
    frame = request.getfixturevalue(engine)
    works = [*WORK_IN_PARTITIONS.values(), *FUNCTIONS_WORK.values()]
    for call in works:
        call(frame)
    refuses = {**REFUSE, **FUNCTIONS_REFUSE}
    for name, call in refuses.items():
        with pytest.raises(DataTypeError, match="not in memory"):
            pytest.fail(f"{name} returned {call(frame)!r}")


def test_labels_and_weights_on_a_cluster_are_refused():
    labels = in_partitions(pd.DataFrame({"y": LABELS}))["y"]
    for call in (
        lambda: drpu.DRPUClassifier("kernel").fit(TEST, labels),
        lambda: drpu.DRPUClassifier("kernel").fit(TEST, LABELS, groups=labels),
        lambda: drpu.DRPUClassifier("kernel").fit(TEST, LABELS, periods=labels),
        lambda: NAMED.adapt(TEST, sample_weight=labels),
        lambda: NAMED.adapt_by(TEST, by=labels),
        lambda: NAMED.score(TEST, labels),
        lambda: NAMED.evaluate(TEST, labels),
    ):
        with pytest.raises(DataTypeError, match="not in memory"):
            call()


def test_a_budget_of_rows_on_a_cluster_is_that_of_their_counts():
    on_cluster = NAMED.at_budget(rows=50, of=in_partitions(TEST))
    assert on_cluster.threshold_ == NAMED.at_budget(rows=50, of=NAMED.count(TEST)).threshold_
    assert on_cluster.budget_.rows is None
