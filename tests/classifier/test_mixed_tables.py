"""Every classifier accepts mixed tables without preprocessing."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from drpu import BoostedRatio, DRPUClassifier, KernelRatio, NNPUClassifier, export_onnx, load, save
from drpu.exceptions import (
    ArtifactError,
    DataError,
    DataTypeError,
    IdColumnWarning,
    LabelError,
    ParameterError,
)

# The samples are small, so drpu warns that the prior is not identified; this is not tested here.
pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.SeparationWarning")


WARDS = ["north", "south", "east", "west"]


def visits(n, share, seed):
    """Visits of which a share is ill: half of the ill come to the north, and later in the year."""
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < share
    ward = np.where(rng.random(n) < 0.5 * ill, "north", rng.choice(WARDS[1:], n))
    days = pd.to_datetime("2026-01-01") + pd.to_timedelta(rng.integers(0, 100, n) + 40 * ill, unit="D")
    frame = pd.DataFrame(
        {
            "temperature": rng.normal(36.8 + 1.8 * ill, 0.6),
            "ward": pd.Series(np.where(rng.random(n) < 0.1, None, ward), dtype=object),
            "day": days,
            "smoker": rng.random(n) < 0.3,
        }
    )
    return frame, ill.astype(int)


@pytest.fixture(scope="module")
def train():
    positive, _ = visits(150, 1.0, 0)
    unlabeled, _ = visits(600, 0.4, 1)
    return pd.concat([positive, unlabeled], ignore_index=True), np.repeat([1, 0], [150, 600])


@pytest.mark.parametrize(
    "classifier",
    [
        DRPUClassifier("boosted", scenario="case-control"),
        NNPUClassifier("linear", prior=0.4, scenario="case-control"),
    ],
)
def test_a_fit_that_fails_leaves_no_old_model_beside_new_columns(train, classifier):
    # The levels of a category have other codes in another table: labels would be wrong without an error.
    X, y = train
    classifier = clone(classifier).set_params(random_state=0).fit(X, y)
    with pytest.raises(LabelError):
        classifier.fit(X.assign(ward=X["ward"].replace({"north": "west", "west": "north"})), np.zeros(len(X)))
    with pytest.raises(NotFittedError):
        classifier.predict(X)
    with pytest.raises(DataError):
        classifier.fit(X, y).fit_pu(X[y == 1], X[y == 0].drop(columns="day"))
    with pytest.raises(NotFittedError):
        classifier.predict(X)


@pytest.fixture(scope="module")
def june():
    return visits(400, 0.15, 2)


def small(model="classifier", **options):
    return DRPUClassifier(model, holdout=2, scenario="case-control", random_state=0, **options)


MODELS = {
    "auto": "auto",
    "boosted": BoostedRatio(n_rounds=20),
    "kernel": KernelRatio(n_centres=30, width=2.0, ridge=0.1),
    "linear": "classifier",
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_from_a_mixed_table(name, train, june):
    clf = small(MODELS[name]).fit(*train)
    assert clf.n_features_in_ == 4
    assert clf.feature_names_in_.tolist() == ["temperature", "ward", "day", "smoker"]
    adapted = clf.adapt(june[0])
    # 400 rows: the share of correct labels has a standard error of 0.02; without a model it would be 0.5.
    assert np.mean(adapted.predict(june[0]) == june[1]) > 0.75
    assert adapted.prior_.value < clf.prior_.value


def test_samples_that_come_apart_are_read_together(train, june):
    X, y = train
    clf = small().fit(X, y)
    apart = small().fit_pu(X[y == 1], X[y == 0][["day", "ward", "smoker", "temperature"]])
    assert_array_equal(apart.predict_proba(june[0]), clf.predict_proba(june[0]))


def test_an_identifier_is_left_out_once_and_may_be_absent_later(train, june):
    X, y = train
    with pytest.warns(IdColumnWarning, match="'id'") as caught:
        clf = small().fit(X.assign(id=[f"V{i:06d}" for i in range(len(X))]), y)
    assert len([w for w in caught if w.category is IdColumnWarning]) == 1
    assert clf.n_features_in_ == 5
    plain = small().fit(X, y)
    for later in (june[0], june[0].assign(id="anything")):
        assert_array_equal(clf.predict_proba(later), plain.predict_proba(later[X.columns]))


def test_an_identifier_of_an_array_is_kept(toy):
    X, y = toy.X_y()
    order = np.random.default_rng(0).permutation(len(X))
    clf = small().fit(np.column_stack([np.arange(len(X)), X[order]]), y[order])
    assert clf.model_.n_columns == 3


def test_categories_need_the_table_that_they_came_in(train, june):
    clf = small().fit(*train)
    with pytest.raises(DataTypeError, match=r"table, not an array: training read 'ward', 'day'"):
        clf.predict(np.zeros((3, 4)))


def test_a_level_that_is_a_column_of_codes_is_not_an_order(train):
    X, y = train
    other = X["ward"].map(dict(zip(WARDS, ["z", "a", "m", "b"], strict=True)))
    first, second = (small("boosted").fit(X.assign(ward=ward), y) for ward in (X["ward"], other))
    assert first.prior_ == second.prior_


def test_positions_of_categories_cannot_be_given_beside_a_table(train):
    with pytest.raises(ParameterError, match="must be empty for a table"):
        small(BoostedRatio(categories=[0])).fit(*train)


def test_other_classifiers_take_mixed_tables(train, june):
    clf = NNPUClassifier(prior=0.4, scenario="case-control", random_state=0).fit(*train)
    assert np.mean(clf.predict(june[0][["day", "ward", "smoker", "temperature"]]) == june[1]) > 0.75


def test_free_text_is_learnt_from_and_kept_in_files(tmp_path):
    rng = np.random.default_rng(0)
    words = np.array(["refund", "stolen", "card", "fraud", "parcel", "thanks", "address", "invoice"])
    truth = np.repeat([1, 1, 0], [120, 120, 280])
    notes = [" ".join(rng.choice(words[:5] if t else words[3:], 6)) for t in truth]
    X, y = pd.DataFrame({"note": notes, "amount": rng.normal(size=520)}), np.repeat([1, 0], [120, 400])
    clf = small("boosted").fit(X, y)
    assert clf.table_.columns[0].kind == "text"
    assert roc_auc_score(truth[120:], clf.decision_function(X[120:])) > 0.9
    assert clf.contributions(X[:9]).shape == (9, 3)
    save(clf, tmp_path / "text.drpu")
    assert_array_equal(load(tmp_path / "text.drpu").predict_proba(X), clf.predict_proba(X))
    with pytest.raises(ArtifactError, match="'note' is free text"):
        export_onnx(clf, tmp_path / "text.onnx")


# -- preprocessing by the user ---------------------------------------------------------------------


def own_pipeline():
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["ward"]), (StandardScaler(), ["temperature"])
    )
    return make_pipeline(encode, LogisticRegression())


@pytest.mark.parametrize("container", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_a_pipeline_gets_the_raw_table_in_every_fold(container, train, june):
    X, y = train
    clf = small(own_pipeline()).fit(container(X), y)
    assert clf.table_ is None
    shuffled = june[0][["day", "ward", "smoker", "temperature"]]
    assert np.mean(clf.adapt(container(shuffled)).predict(container(shuffled)) == june[1]) > 0.75
    with pytest.raises(DataError, match="'ward'"):
        clf.predict(container(june[0].drop(columns="ward")))


def test_a_search_over_a_pipeline_gets_the_raw_table(train, june):
    search = GridSearchCV(own_pipeline(), {"logisticregression__C": [0.1, 1.0]}, cv=2)
    clf = small(search).fit(*train)
    assert clf.predict(june[0]).shape == (400,)


def test_errors_of_a_pipeline_are_errors_of_the_data(train):
    X, y = train
    with pytest.raises(DataError, match="pipeline cannot be fitted"):
        small(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, y)


def test_skrub_takes_a_mixed_table(train, june):
    skrub = pytest.importorskip("skrub", reason="a development dependency")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of skrub and its own dependencies
        clf = small(make_pipeline(skrub.TableVectorizer(), HistGradientBoostingClassifier(max_iter=20))).fit(
            *train
        )
        adapted = clf.adapt(june[0])
    assert np.mean(adapted.predict(june[0]) == june[1]) > 0.7
