"""Every classifier accepts mixed tables without preprocessing."""

import datetime as dt
import subprocess
import sys
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
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from drpu import (
    BoostedRatio,
    DRPUClassifier,
    ElkanNotoClassifier,
    KernelRatio,
    NNPUClassifier,
    export_onnx,
    load,
    save,
)
from drpu.exceptions import (
    ArtifactError,
    DataError,
    DataTypeError,
    IdColumnWarning,
    LabelError,
    ParameterError,
)

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


def as_dicts(frame):
    return frame.to_dict("records")


def own_pipeline():
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["ward"]), (StandardScaler(), ["temperature"])
    )
    return make_pipeline(encode, LogisticRegression())


@pytest.mark.parametrize("container", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas, as_dicts])
def test_a_pipeline_gets_the_raw_table_in_every_fold(container, train, june):
    X, y = train
    clf = small(own_pipeline()).fit(container(X), y)
    assert clf.table_ is None
    shuffled = june[0][["day", "ward", "smoker", "temperature"]]
    assert np.mean(clf.adapt(container(shuffled)).predict(container(shuffled)) == june[1]) > 0.75
    with pytest.raises(DataError, match="'ward'"):
        clf.predict(container(june[0].drop(columns="ward")))


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


# -- rows as dicts, as a service gets them -----------------------------------------------------------


METHODS = ("predict", "predict_proba", "decision_function", "ratio")


def claims(n, seed):
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < 0.4
    amount = rng.lognormal(3 + fraud)
    amount[::11] = np.nan
    frame = pd.DataFrame(
        {
            "amount": amount,
            "kind": rng.choice(["car", "home"], n),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 90, n), "D"),
            "abroad": rng.random(n) < 0.1 + 0.5 * fraud,
        }
    )
    return frame, np.where(fraud & (rng.random(n) < 0.5), "yes", "")


TABLE, LABELS = claims(800, 0)
NEW, _ = claims(30, 1)


@pytest.fixture(scope="module")
def clf():
    return DRPUClassifier("boosted", holdout=2, random_state=0).fit(TABLE, LABELS)


@pytest.mark.parametrize("method", METHODS)
def test_dicts_and_rows_of_pandas_are_scored_like_the_table(clf, method):
    score = getattr(clf, method)
    expected = score(NEW)
    records = NEW.to_dict("records")
    assert_array_equal(score(records), expected)
    for k in (0, 1, 11):
        assert_array_equal(score(records[k]), score(NEW.iloc[k : k + 1]))
        assert_array_equal(score(NEW.iloc[k]), score(NEW.iloc[k : k + 1]))


def test_values_may_be_those_of_json_in_any_order(clf):
    expected = clf.ratio(NEW)
    for k, row in enumerate(NEW.to_dict("records")):
        amount = None if np.isnan(row["amount"]) else row["amount"]
        day = row["day"].date().isoformat()
        sent = {"day": day, "abroad": row["abroad"], "kind": row["kind"], "amount": amount}
        assert_array_equal(clf.ratio(sent), expected[k : k + 1])
        assert_array_equal(clf.ratio(sent | {"day": dt.date.fromisoformat(day)}), expected[k : k + 1])


def test_adapt_and_other_methods_accept_them(clf):
    records = TABLE.to_dict("records")
    assert clf.adapt(records).prior_ == clf.adapt(TABLE).prior_
    other = ElkanNotoClassifier(random_state=0, pos_label="yes").fit(TABLE.drop(columns="amount"), LABELS)
    new = NEW.drop(columns="amount")
    assert_array_equal(other.predict(new.to_dict("records")), other.predict(new))


def test_training_rows_may_be_dicts(clf):
    records = TABLE.to_dict("records")
    learned = DRPUClassifier("boosted", holdout=2, random_state=0).fit(records, LABELS)
    assert learned.prior_ == clf.prior_
    assert_array_equal(learned.ratio(NEW), clf.ratio(NEW))
    assert learned.evaluate(records, LABELS, blank="negative").accuracy == (
        clf.evaluate(TABLE, LABELS, blank="negative").accuracy
    )


def test_dicts_may_have_a_column_of_periods_or_groups(clf):
    months = TABLE.assign(month=np.resize(["2026-01", "2026-02", "2026-03", "2026-04"], len(TABLE)))
    records = months.to_dict("records")
    by_month = clf.adapt_by(records, by="month")
    assert str(by_month) == str(clf.adapt_by(months, by="month"))
    dated = DRPUClassifier("boosted", holdout=2, random_state=0)
    expected = dated.fit(months, LABELS, periods="month").backtest_
    assert str(dated.fit(records, LABELS, periods="month").backtest_) == str(expected)
    assert_array_equal(dated.ratio(TABLE.to_dict("records")[0]), dated.ratio(records[0]))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda row: {}, DataError, "empty dict"),
        (lambda row: row | {"amount": [1.0, 2.0]}, DataTypeError, "one row of X, but 'amount' is a list"),
        (lambda row: {k: v for k, v in row.items() if k != "kind"}, DataError, "none called 'kind'"),
        (lambda row: {1: 2.0}, DataTypeError, "must be strings, got 1"),
        (lambda row: [row, {"kind": "car"}], DataError, "row 1 has no 'amount'"),
        (lambda row: row | {"amount": "much"}, DataError, "'amount' had numbers in training"),
        (lambda row: row | {"day": 3}, DataError, "'day' had dates in training"),
    ],
)
def test_rows_that_cannot_be_read_are_refused_with_the_name(clf, change, error, message):
    with pytest.raises(error, match=message):
        clf.predict(change(NEW.to_dict("records")[0]))


def test_an_array_in_training_has_no_names(clf):
    numbers = TABLE[["amount", "abroad"]].to_numpy(float)
    unnamed = DRPUClassifier("boosted", holdout=2, random_state=0).fit(numbers, LABELS)
    with pytest.raises(DataTypeError, match="no names, got a dict"):
        unnamed.predict({"amount": 1.0, "abroad": 0.0})


SERVICE = """
import json, sys

class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("pandas", "polars", "pyarrow"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from drpu import load
clf = load(sys.argv[1])
row = {"amount": 30.5, "kind": "car", "day": "2026-02-03", "abroad": True}
print(json.dumps({"label": clf.predict(row).tolist(), "p": clf.predict_proba([row, row])[:, 1].tolist()}))
"""


def test_a_service_needs_the_core_dependencies_only(clf, tmp_path):
    save(clf, tmp_path / "claims.drpu")
    command = [sys.executable, "-c", SERVICE, str(tmp_path / "claims.drpu")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert '"label": ["' in ran.stdout
