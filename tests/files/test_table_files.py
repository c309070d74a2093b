"""Classifiers of mixed tables, and pipelines, are saved and loaded without a change."""

import zipfile

import numpy as np
import pandas as pd
import pytest
from changed_files import rewrite
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import drpu
from codec_laws import same
from drpu import DRPUClassifier, load, save
from drpu.exceptions import ArtifactError, DataTypeError, silent


def visits(n, share, seed):
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < share
    ward = np.where(rng.random(n) < 0.5 * ill, "north", rng.choice(["south", "east", "west"], n))
    frame = pd.DataFrame(
        {
            "visit": [f"V{seed}-{i:05d}" for i in range(n)],
            "temperature": rng.normal(36.8 + 1.8 * ill, 0.6),
            "ward": ward,
            "day": pd.to_datetime("2026-01-01") + pd.to_timedelta(rng.integers(0, 90, n), unit="D"),
        }
    )
    return frame


X = pd.concat([visits(150, 1.0, 0), visits(500, 0.4, 1)], ignore_index=True)
Y = np.repeat([1, 0], [150, 500])
JUNE = visits(300, 0.15, 2)


@pytest.fixture(scope="module")
def clf():
    with silent():
        return DRPUClassifier("boosted", holdout=2, random_state=0).fit(X, Y)


def manifest(path):
    with zipfile.ZipFile(path) as archive:
        return archive.read("manifest.json").decode()


def test_a_saved_table_is_read_as_before_and_the_values_kept_are_named(clf, tmp_path):
    path = tmp_path / "visits.drpu"
    save(clf, path)
    again = load(path)
    assert same(again.table_, clf.table_)
    for rows in (JUNE, JUNE.drop(columns="visit")[["day", "ward", "temperature"]]):
        assert_array_equal(again.predict_proba(rows), clf.predict_proba(JUNE))
    assert "V0-" not in manifest(path)
    assert "north" in manifest(path)
    assert drpu.verify(path).contents["category_levels"] == {"ward": 4}


def test_a_file_with_other_names_than_those_of_its_table_is_refused(clf, tmp_path):
    path = tmp_path / "visits.drpu"
    save(clf, path)

    def rename(manifest, _):
        names = manifest["tree"]["fields"]["fitted"]["fields"]["columns"]["fields"]["names"]
        names[names.index("ward")] = "WARD"

    rewrite(path, rename)
    for read in (load, drpu.verify):
        with pytest.raises(ArtifactError, match="names of the columns"):
            read(path)


def test_a_file_names_only_levels_of_at_least_five_rows(tmp_path):
    own = X[["temperature", "ward"]].copy()
    own.loc[:4, "ward"], own.loc[5:8, "ward"] = "annex", "Zeugin-4711"  # five rows, and four
    for model in ("boosted", "kernel"):  # codes of levels, and indicators
        clf = DRPUClassifier(model, holdout=2, random_state=0).fit(own, Y)
        save(clf, tmp_path / "few.drpu")
        assert "annex" in manifest(tmp_path / "few.drpu")
        assert "Zeugin" not in manifest(tmp_path / "few.drpu")
        unseen = own.replace({"ward": {"Zeugin-4711": "elsewhere"}})
        assert_array_equal(load(tmp_path / "few.drpu").ratio(own), clf.ratio(unseen))


@pytest.mark.parametrize("model", ["boosted", "kernel"])
def test_a_graph_takes_the_columns_of_a_table(model, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="part of the onnx extra")
    clf = DRPUClassifier(model, holdout=2, random_state=0).fit(X.drop(columns="visit"), Y)
    drpu.export_onnx(clf, tmp_path / "visits.onnx")
    session = runtime.InferenceSession(tmp_path / "visits.onnx", providers=["CPUExecutionProvider"])
    new = JUNE.drop(columns="visit")
    new.loc[:1, "ward"] = ["elsewhere", None]
    days = (new["day"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    feed = {
        "X.temperature": new[["temperature"]].to_numpy(),
        "X.ward": new[["ward"]].fillna("").to_numpy(dtype=object),
        "X.day": days.to_numpy()[:, None],
        "prior": np.array([0.2]),
        "cost": np.array([0.5]),
    }
    (probability,) = session.run(["probability"], feed)
    assert_allclose(probability, clf.at_prior(0.2).predict_proba(new)[:, 1], atol=1e-5)


# -- pipelines ------------------------------------------------------------------------------------------


class Doubled(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return 2 * X

    def __sklearn_is_fitted__(self):
        return True


def outer(*steps):
    return make_pipeline(*steps, DRPUClassifier("classifier", holdout=2, random_state=0))


def encode():
    return make_column_transformer((OneHotEncoder(), ["ward"]), (StandardScaler(), ["temperature"]))


def test_a_pipeline_is_adapted_as_a_whole():
    pipe = outer(encode()).fit(X, Y)
    june = drpu.adapt(pipe, JUNE)
    direct = pipe[-1].adapt(pipe[:-1].transform(JUNE))
    assert june[-1].prior_ == direct.prior_
    assert_array_equal(june.predict(JUNE), direct.predict(pipe[:-1].transform(JUNE)))
    assert june[-1].expected_performance() == direct.expected_performance()


@pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")
def test_audited_rows_go_through_the_steps_of_a_pipeline():
    answers = (JUNE["temperature"] > JUNE["temperature"].median()).to_numpy()[:60]
    scaled = outer(StandardScaler()).fit(X[["temperature"]], Y)
    for pipe, june in ((outer(encode()).fit(X, Y), JUNE), (scaled, JUNE[["temperature"]])):
        positions, rows = (drpu.Audit.random(some, answers) for some in (np.arange(60), june[:60]))
        found = [drpu.adapt(pipe, june, audit=audit)[-1] for audit in (positions, rows)]
        assert found[0].prior_ == found[1].prior_
        assert_array_equal(found[0].threshold_, found[1].threshold_)


@pytest.mark.filterwarnings("ignore::drpu.exceptions.FewPositivesWarning")
def test_searches_and_bare_classifiers_are_moved_as_well():
    search = GridSearchCV(
        outer(encode()), {"drpuclassifier__calibrate": [True, False]}, cv=2, scoring=drpu.ratio_risk_scorer
    )
    june = drpu.adapt(search.fit(X, Y), JUNE)
    assert june.predict(JUNE).shape == (300,)
    bare = DRPUClassifier("classifier", holdout=2, random_state=0).fit(X[["temperature"]], Y)
    assert drpu.adapt(bare, JUNE[["temperature"]]).prior_ == bare.adapt(JUNE[["temperature"]]).prior_


def test_what_cannot_be_adapted_is_named():
    for wrong in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression()), None):
        with pytest.raises(DataTypeError, match="estimator must be a DRPUClassifier"):
            drpu.adapt(wrong, X)


def test_a_pipeline_is_saved_with_its_steps(tmp_path):
    rows = X[["temperature"]]
    pipe = outer(StandardScaler(), "passthrough").fit(rows, Y)
    june = drpu.adapt(pipe, JUNE[["temperature"]])
    save(june, tmp_path / "pipe.drpu")
    again = load(tmp_path / "pipe.drpu", trusted=True)
    assert_array_equal(again.predict_proba(JUNE[["temperature"]]), june.predict_proba(JUNE[["temperature"]]))
    assert [name for name, _ in again.steps] == [name for name, _ in june.steps]
    assert drpu.adapt(again, JUNE[["temperature"]])[-1].prior_ == june[-1].prior_


def test_steps_that_keep_values_are_refused_by_name_unless_asked_for(tmp_path):
    path = tmp_path / "pipe.drpu"
    pipe = outer(encode()).fit(X, Y)
    with pytest.raises(ArtifactError, match=r"OneHotEncoder \(values of training rows\)"):
        save(pipe, path)
    save(pipe, path, keep_rows=True)
    assert_array_equal(load(path, trusted=True).predict(JUNE), pipe.predict(JUNE))
    inner = DRPUClassifier(make_pipeline(encode(), LogisticRegression()), holdout=2, random_state=0).fit(X, Y)
    with pytest.raises(ArtifactError, match="OneHotEncoder"):
        save(inner, path)
    save(inner, path, keep_rows=True)
    assert_array_equal(load(path, trusted=True).predict(JUNE[X.columns[::-1]]), inner.predict(JUNE))


def test_steps_of_unknown_types_are_refused_by_name_unless_asked_for(tmp_path):
    pipe = outer(Doubled()).fit(X[["temperature"]], Y)
    with pytest.raises(ArtifactError, match=r"Doubled \(maybe values of training rows\)"):
        save(pipe, tmp_path / "pipe.drpu")
    assert not list(tmp_path.iterdir())
    save(pipe, tmp_path / "pipe.drpu", keep_rows=True)
    rows = JUNE[["temperature"]]
    assert_array_equal(load(tmp_path / "pipe.drpu", trusted=True).predict(rows), pipe.predict(rows))
