"""Rows as dicts, as a service gets them."""

import datetime as dt
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from drpu import DRPUClassifier, ElkanNotoClassifier, save
from drpu.exceptions import DataError, DataTypeError, ExtraColumnsWarning

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


def test_a_pipeline_gets_a_frame():
    encoder = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    table = TABLE[["kind", "abroad"]]
    model = make_pipeline(encoder, LogisticRegression())
    clf = DRPUClassifier(model, holdout=2, random_state=0).fit(table, LABELS)
    new = NEW[["kind", "abroad"]]
    assert_array_equal(clf.ratio(new.to_dict("records")), clf.ratio(new))


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


def test_other_names_are_ignored_with_a_warning(clf):
    row = NEW.to_dict("records")[0]
    with pytest.warns(ExtraColumnsWarning, match="'id'"):
        assert_array_equal(clf.ratio(row | {"id": 7}), clf.ratio(row))


def test_an_array_in_training_has_no_names(clf):
    numbers = TABLE[["amount", "abroad"]].to_numpy(float)
    unnamed = DRPUClassifier("boosted", holdout=2, random_state=0).fit(numbers, LABELS)
    with pytest.raises(DataTypeError, match="no names, got a dict"):
        unnamed.predict({"amount": 1.0, "abroad": 0.0})


SERVICE = """
import json, sys
for name in ("pandas", "polars", "pyarrow"):
    sys.modules[name] = None
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
