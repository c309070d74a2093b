"""The scripts of the page about a billion rows: each row has its own outputs, whichever the engine."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from drpu import load

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = [
    pytest.mark.checkout,
    pytest.mark.filterwarnings(
        "ignore:PySpark does not yet fully support pandas",
        "ignore:Running on a single-machine scheduler",
        "ignore:The (copy|inplace) keyword",  # of Spark and Dask, when pandas 3 reads it
        "ignore:toPandas attempted Arrow optimization",
        "ignore::drpu.exceptions.DRPUWarning",
    ),
]


def made_up_payments(n, share, seed):
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < share
    payments = pd.DataFrame({"amount": rng.lognormal(3 + 2 * fraud), "age": rng.lognormal(1 + 2 * fraud)})
    return payments, fraud


@pytest.fixture
def history():
    payments, fraud = made_up_payments(1500, 0.3, seed=0)
    return payments.assign(label=(fraud & (np.arange(1500) % 3 == 0)).astype(int))


@pytest.fixture
def june():
    payments, _ = made_up_payments(1200, 0.15, seed=1)
    ids = np.arange(1200)
    return payments.assign(id=ids, branch=np.array(["north", "south"])[ids % 2])


def script(name, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    return importlib.import_module(name)


def true_answers(rows):
    """What an expert answers about rows."""
    return (rows["amount"] * rows["age"] > 150).tolist()


def check_month(code, history, june, table, folder, as_pandas):
    """Run the steps, with frames of an engine, and compare with the same rows in memory."""
    classifier = code.learn(history, folder)
    month, by_branch = code.adapt(classifier, june, true_answers, folder)
    chosen = as_pandas(code.choose(month, june, 40, folder))

    features = table[["amount", "age"]]
    assert load(folder / "counts.drpu").total == classifier.count(features)
    assert by_branch.names == ["north", "south"]
    assert month.shift_ in ("prior", "other")
    scores = month.decision_function(features)
    expected = np.argsort(-scores, kind="stable")[:40]
    assert sorted(chosen["id"]) == sorted(table["id"].to_numpy()[expected])
    np.testing.assert_allclose(chosen["drpu_score"], scores[chosen["id"]])


def test_the_month_on_dask(history, june, tmp_path, monkeypatch):
    frame = pytest.importorskip("dask.dataframe")
    code = script("month_on_dask", monkeypatch)
    history_frame = frame.from_pandas(history, npartitions=3)
    june_frame = frame.from_pandas(june, npartitions=4)
    check_month(code, history_frame, june_frame, june, tmp_path, lambda rows: rows.compute())


def test_the_month_on_spark(spark, history, june, tmp_path, monkeypatch):
    code = script("month_on_spark", monkeypatch)
    history_frame = spark.createDataFrame(history)
    june_frame = spark.createDataFrame(june).repartition(3)

    def collected(rows):
        return pd.DataFrame([row.asDict() for row in rows.collect()])

    check_month(code, history_frame, june_frame, june, tmp_path, collected)


@pytest.mark.parametrize("name", ["month_on_dask", "month_on_spark"])
def test_the_page_shows_the_scripts(name):
    page = (EXAMPLES.parent / "docs" / "how-to" / "billion.md").read_text(encoding="utf-8")
    assert (EXAMPLES / f"{name}.py").read_text(encoding="utf-8") in page
