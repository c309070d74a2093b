"""What changes nothing about rows changes nothing of what is said about them: CONTRIBUTING lists these laws.

An entry point is a function of a classifier and a frame. Those of rows give one number for each row, those
of batches a prior with its limits. A change must not matter to any of them.
"""

import json
import os
import time
from contextlib import contextmanager

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from threadpoolctl import threadpool_limits

from drpu import Audit, BoostedRatio, DRPUClassifier, PriorMonitor, count_batches, load, save, score_batches
from drpu.cli import main
from drpu.exceptions import DataError

pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")

N = 400


def rows_of(n, seed):
    """A table with numbers, gaps, levels and dates, and which rows are positive."""
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.4
    amount = np.where(rng.random(n) < 0.1, np.nan, rng.normal(positive, 1.0))
    table = pd.DataFrame(
        {
            "amount": amount,
            "size": rng.normal(2.0 * positive, 1.0),
            "ward": np.where(rng.random(n) < 0.3 + 0.4 * positive, "north", "south"),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 90 * 24, n), unit="h"),
        }
    )
    return table, positive


@pytest.fixture(scope="module")
def classifier():
    table, positive = rows_of(900, 0)
    labelled = positive & (np.random.default_rng(1).random(900) < 0.4)
    return DRPUClassifier(BoostedRatio(n_rounds=20), holdout=2, random_state=0).fit(table, labelled)


@pytest.fixture(scope="module")
def new_rows():
    return rows_of(N, 2)


# -- entry points ------------------------------------------------------------------------------------


def by_batches(clf, frame):
    parts = [part["probability"] for part in score_batches(clf, frame, batch_size=len(frame) // 3)]
    return np.concatenate(parts)


def by_file(clf, frame, folder):
    pa.parquet.write_table(
        pa.Table.from_pandas(pd.DataFrame(frame), preserve_index=False), folder / "x.parquet"
    )
    save(clf, folder / "x.drpu")
    words = ["predict", folder / "x.drpu", folder / "x.parquet", "--out", folder / "out.jsonl", "--quiet"]
    main(list(map(str, words)))
    lines = (folder / "out.jsonl").read_text().splitlines()
    return np.array([json.loads(line)["drpu_probability"] for line in lines])


OF_ROWS = {
    "predict_proba": lambda clf, frame: clf.predict_proba(frame)[:, 1],
    "ratio": lambda clf, frame: clf.ratio(frame),
    "decision_function": lambda clf, frame: clf.decision_function(frame),
    "predict": lambda clf, frame: clf.predict(frame).astype(float),
    "score_batches": by_batches,
}


def limits(prior):
    return np.array([prior.value, prior.low, prior.high])


def counted(clf, frame):
    return limits(clf.adapt(count_batches(clf, frame, batch_size=len(frame) // 3)).prior_)


def monitored(clf, frame):
    return limits(PriorMonitor(clf).update(frame).prior)


OF_BATCHES = {
    "adapt": lambda clf, frame: limits(clf.adapt(frame).prior_),
    "adapt to counts": lambda clf, frame: limits(clf.adapt(clf.count(frame)).prior_),
    "count_batches": counted,
    "monitor": monitored,
    "adapt_by": lambda clf, frame: limits(clf.adapt_by(frame, by=np.zeros(len(frame))).whole),
}


# -- changes that do not matter ----------------------------------------------------------------------


@contextmanager
def zone(name):
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def in_zone(function, clf, frame):
    with zone("Pacific/Auckland"):
        return function(clf, frame)


def with_threads(function, clf, frame):
    with threadpool_limits(2):
        return function(clf, frame)


def read_back(function, clf, frame, folder):
    save(clf, folder / "a.drpu")
    return function(load(folder / "a.drpu"), frame)


CHANGES = {
    "order of columns": lambda call, clf, frame, _: call(clf, frame[frame.columns[::-1]]),
    "index": lambda call, clf, frame, _: call(clf, frame.set_index(np.arange(len(frame))[::-1] + 7)),
    "polars": lambda call, clf, frame, _: call(clf, pl.from_pandas(frame)),
    "Arrow": lambda call, clf, frame, _: call(clf, pa.Table.from_pandas(frame, preserve_index=False)),
    "time zone": lambda call, clf, frame, _: in_zone(call, clf, frame),
    "threads": lambda call, clf, frame, _: with_threads(call, clf, frame),
    "file": read_back,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("entry", [*OF_ROWS, *OF_BATCHES])
def test_how_rows_travel_does_not_matter(entry, change, classifier, new_rows, tmp_path):
    call = (OF_ROWS | OF_BATCHES)[entry]
    frame, _ = new_rows
    expected = call(classifier, frame)
    np.testing.assert_allclose(CHANGES[change](call, classifier, frame, tmp_path), expected, rtol=1e-12)


@pytest.mark.parametrize("entry", OF_ROWS)
def test_every_row_keeps_its_own_result(entry, classifier, new_rows):
    call = OF_ROWS[entry]
    frame, _ = new_rows
    expected = call(classifier, frame)
    order = np.random.default_rng(0).permutation(N)
    np.testing.assert_array_equal(call(classifier, frame.iloc[order]), expected[order])
    twice = pd.concat([frame, frame.iloc[:100]], ignore_index=True)
    np.testing.assert_array_equal(call(classifier, twice)[:N], expected)
    alone = [call(classifier, frame.iloc[k : k + 3])[0] for k in range(0, 60, 7)]
    np.testing.assert_array_equal(alone, expected[0:60:7])


def test_the_command_line_gives_each_row_its_own_result(classifier, new_rows, tmp_path):
    frame, _ = new_rows
    expected = classifier.predict_proba(frame)[:, 1]
    order = np.random.default_rng(0).permutation(N)
    np.testing.assert_allclose(by_file(classifier, frame.iloc[order], tmp_path), expected[order], rtol=1e-9)


@pytest.mark.parametrize("entry", OF_BATCHES)
def test_the_order_of_rows_does_not_matter(entry, classifier, new_rows):
    call = OF_BATCHES[entry]
    frame, _ = new_rows
    shuffled = frame.sample(frac=1, random_state=0)
    np.testing.assert_allclose(call(classifier, shuffled), call(classifier, frame), rtol=1e-12)


def test_copies_of_rows_do_not_narrow_the_limits(classifier, new_rows):
    frame, _ = new_rows
    value, low, high = OF_BATCHES["adapt"](classifier, frame)
    twice = OF_BATCHES["adapt"](classifier, pd.concat([frame] * 3, ignore_index=True))
    assert twice[0] == pytest.approx(value, abs=0.02)
    assert twice[2] - twice[1] > 0.95 * (high - low)


def test_the_order_of_answers_does_not_matter_and_no_answer_is_repeated(classifier, new_rows):
    frame, positive = new_rows
    chosen = np.random.default_rng(3).permutation(N)[:40]
    answers = positive[chosen].astype(int)
    audit = Audit.random(chosen, answers)
    once = classifier.adapt(frame, audit=audit)
    again = classifier.adapt(frame, audit=Audit.random(chosen[::-1], answers[::-1]))
    np.testing.assert_allclose(limits(again.prior_), limits(once.prior_), rtol=1e-9)
    np.testing.assert_allclose(again.predict_proba(frame), once.predict_proba(frame), rtol=1e-9)
    with pytest.raises(DataError, match="twice"):
        audit + audit
    with pytest.raises(DataError, match="twice"):
        Audit.random(np.append(chosen, chosen[0]), np.append(answers, answers[0]))
