"""Trees grown on a cluster learn from mixed columns what one machine learns from them."""

import os
from contextlib import contextmanager

import numpy as np
import pytest
from claims_data import claims, spark_records
from numpy.testing import assert_array_equal
from sklearn.metrics import roc_auc_score

from codec_laws import same
from drpu import BoostedRatio, DaskBoosted, DRPUClassifier, SparkBoosted, load, save
from drpu.exceptions import IdColumnWarning, PositiveLabelWarning, ShiftWarning
from drpu.models import BoostedFunction
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import read_frame

pytestmark = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas", "ignore:.*sklearn.utils.deprecation:FutureWarning"
)

N = 3000
ROWS, FRAUD = claims(N, 0.4, 0)
COLUMNS = list(ROWS.columns)
ROWS = ROWS.assign(claim=[f"C{k:06d}" for k in range(N)])[["claim", *COLUMNS]]
LABEL = (FRAUD & (np.random.default_rng(1).random(N) < 0.5)).astype(int)
NEW, TRUTH = claims(4000, 0.2, 2)
SETTINGS = {"scenario": "single-sample", "random_state": 0}


@pytest.fixture(scope="module")
def local():
    with pytest.warns(IdColumnWarning):
        return DRPUClassifier(BoostedRatio(n_rounds=40), **SETTINGS).fit(ROWS, LABEL)


def fit_dask(client):
    dd = pytest.importorskip("dask.dataframe")
    # Sorted by label, as tables often are: most partitions have one class.
    frame = dd.from_pandas(ROWS.assign(label=LABEL).sort_values("label"), npartitions=5)
    model = DaskBoosted(n_rounds=40, client=client)
    return DRPUClassifier(model, holdout=0.2, random_state=0).fit(frame, y="label")


def fit_spark(spark):
    pytest.importorskip("xgboost")
    # Sorted by label, as tables often are: one of the partitions has one class.
    rows = ROWS.assign(label=LABEL, number=np.arange(N)).sort_values("label")
    frame = spark.createDataFrame(*spark_records(rows)).coalesce(2)
    model = SparkBoosted(n_rounds=20, learning_rate=0.2, key="number", n_workers=2)
    return DRPUClassifier(model, holdout=0.2, **SETTINGS).fit(frame, y="label")


@contextmanager
def printed_to(path):
    """Send the output and the errors of this process and its children to a file."""
    kept = [os.dup(1), os.dup(2)]
    with path.open("wb") as file:
        try:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
            yield
        finally:
            for stream, old in zip((1, 2), kept, strict=True):
                os.dup2(old, stream)
                os.close(old)


@pytest.fixture(scope="module", params=["client", "spark"])
def fit(request, tmp_path_factory):
    """The classifier, and what was printed while it was fitted."""
    fit = fit_dask if request.param == "client" else fit_spark
    cluster, path = request.getfixturevalue(request.param), tmp_path_factory.mktemp("fit") / "printed"
    with pytest.warns(IdColumnWarning, match="'claim'") as caught, printed_to(path):
        clf = fit(cluster)
    assert sum(w.category is IdColumnWarning for w in caught) == 1
    return clf, path.read_text()


@pytest.fixture(scope="module")
def fitted(fit):
    return fit[0]


def test_a_fit_is_quiet(fit):
    for words in ("[0]", "XGBoost-PySpark", "Stage"):
        assert words not in fit[1]


def test_a_cluster_reads_mixed_columns_as_one_machine_does(fitted, local):
    assert fitted.scenario_ == "single-sample"
    assert fitted.table_.columns == local.table_.columns
    assert_array_equal(fitted.feature_names_in_, local.feature_names_in_)
    assert fitted.n_features_in_ == local.n_features_in_ == len(COLUMNS) + 1
    found, there = (roc_auc_score(TRUTH, clf.decision_function(NEW)) for clf in (fitted, local))
    # The standard error of an AUC near 0.95 on 4000 rows is 0.004; the two share the rows.
    assert abs(found - there) < 0.012
    # Both read the prior from 160 held-out positives or more: standard errors near 0.05.
    assert abs(fitted.prior_.value - local.prior_.value) < 0.15
    assert fitted.prior_.low < 0.4 < fitted.prior_.high


def test_the_classifier_takes_raw_frames_without_a_cluster(fitted, tmp_path):
    assert [type(part) for part in fitted.model_.functions] == [BoostedFunction]
    save(fitted, tmp_path / "clf.drpu")
    again = load(tmp_path / "clf.drpu")
    assert same(again.table_, fitted.table_)
    assert_array_equal(again.predict(NEW[COLUMNS[::-1]]), fitted.predict(NEW))
    adapted = again.adapt(NEW)
    assert adapted.prior_ == fitted.adapt(NEW).prior_
    assert adapted.moved_columns_ == ()
    assert adapted.prior_.low < 0.2 < adapted.prior_.high


def test_columns_that_moved_are_named_after_a_fit_on_a_cluster(fitted):
    with pytest.warns(ShiftWarning, match="'amount'"):
        moved = fitted.adapt(NEW.assign(amount=1.5 * NEW["amount"])).moved_columns_
    assert moved[0].name == "amount"


def test_the_label_of_unlabeled_rows_is_told_with_the_rows_of_the_cluster(client):
    dd = pytest.importorskip("dask.dataframe")
    words = ROWS[["amount", "channel"]].assign(status=np.where(LABEL == 1, "sure", "unknown"))
    clf = DRPUClassifier(DaskBoosted(n_rounds=5, client=client), holdout=0.2, **SETTINGS)
    with pytest.warns(PositiveLabelWarning, match=rf"'unknown' .* 'sure' \({LABEL.sum()} rows\)"):
        clf.fit(dd.from_pandas(words, npartitions=2), y="status")
    assert clf.classes_.tolist() == ["unknown", "sure"]


def test_free_text_is_read_as_in_memory(client):
    dd = pytest.importorskip("dask.dataframe")
    notes = [f"call {k} again, {'gladly' if k % 2 else 'please'}" for k in range(N)]
    text = ROWS[["amount"]].assign(note=notes)
    clf = DRPUClassifier(DaskBoosted(n_rounds=5, client=client), holdout=0.2, **SETTINGS)
    clf.fit(dd.from_pandas(text.assign(label=LABEL), npartitions=2), y="label")
    assert same(clf.table_, TableEncoder.fit([read_frame(text)])[0])
