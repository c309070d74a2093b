"""Data, and results by name, of the golden cases; the cases themselves are a table in ``cases.py``."""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import drpu
from drpu import ClassifierRatio, DRPUClassifier

# -- data -----------------------------------------------------------------------------------


@cache
def toy(n_positive: int = 100, n_unlabeled: int = 250, separation: float = 2.5) -> Any:
    """Three columns, a prior of 0.4 in training and of 0.2 in 300 test rows."""
    return drpu.make_gaussian_pu(
        n_positive, n_unlabeled, prior=0.4, test_prior=0.2, n_test=300,
        separation=separation, dimensions=3, random_state=1,
    )  # fmt: skip


def visits(n: int, share: float, seed: int) -> Any:
    """A frame with numbers, texts, dates, booleans and gaps."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    ill = rng.random(n) < share
    ward = np.where(rng.random(n) < 0.5 * ill, "north", rng.choice(["south", "east", "west"], n))
    days = pd.to_datetime("2026-01-01") + pd.to_timedelta(rng.integers(0, 100, n) + 40 * ill, unit="D")
    heat = rng.normal(36.8 + 1.8 * ill, 0.6)
    heat[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "temperature": heat,
            "ward": pd.Series(np.where(rng.random(n) < 0.1, None, ward), dtype=object),
            "day": days,
            "smoker": rng.random(n) < 0.3,
        }
    )


@cache
def frames() -> tuple[Any, Any, Any]:
    """Rows, labels and test rows of a mixed table."""
    import pandas as pd

    rows = pd.concat([visits(150, 1.0, 0), visits(450, 0.4, 1)], ignore_index=True)
    return rows, np.repeat([1, 0], [150, 450]), visits(300, 0.2, 2)


def pictures(n: int, positive: Any, seed: int, side: int = 16) -> Any:
    """Noise of eight bits, with a bright square in the positive images."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 120, (n, side, side)).astype(np.uint8)
    images[np.broadcast_to(positive, n), 4:9, 4:9] += 100
    return images


# -- rows of a fit: X, y, new rows, and what else is passed to fit ------------------------------


def sized(*size: Any, own: bool = False) -> Any:
    """Toy data of a size; the new rows are those of the usual size, or its own."""
    return lambda: (*toy(*size).X_y(), (toy(*size) if own else toy()).test, {})


def flipped() -> Any:
    """More than 50,000 rows with signs that only trees find."""
    X, y = toy(1400, 66_000).X_y()
    new = toy().test
    flip, new_flip = (
        np.where(np.random.default_rng(3).random(len(rows)) < 0.5, -1.0, 1.0) for rows in (X, new)
    )
    return np.c_[X * flip[:, None], flip], y, np.c_[new * new_flip[:, None], new_flip], {}


def mixed() -> Any:
    """A table with columns of several types."""
    return (*frames(), {})


def weighted() -> Any:
    """Rows with weights."""
    X, y = toy().X_y()
    return X, y, toy().test, {"sample_weight": np.random.default_rng(3).gamma(2.0, size=len(y))}


def images() -> Any:
    """Small images."""
    X = np.concatenate([pictures(60, True, 0), pictures(120, np.arange(120) < 50, 1)])
    return X, np.arange(len(X)) < 60, pictures(60, np.arange(60) < 20, 2), {}


# -- results of a classifier ----------------------------------------------------------------


def outputs(clf: Any, X: Any) -> dict[str, Any]:
    """What a classifier says about rows, and its priors."""
    return {
        "prior": clf.prior_,
        "train prior": clf.train_prior_,
        "threshold": clf.threshold_,
        "ratio": clf.ratio(X),
        "probability": clf.predict_proba(X)[:, 1],
        "decision": clf.decision_function(X),
        "label": clf.predict(X),
    }


def expected(clf: Any, X: Any = None) -> dict[str, Any]:
    """Expected performance."""
    return {"expected": clf.expected_performance()}


def adapted(clf: Any, X: Any, **options: Any) -> dict[str, Any]:
    """The classifier at the prior of ``X``, with the tests of other shifts."""
    june = clf.adapt(X, **options)
    tests = {"shift test": june.shift_test_, "moved columns": list(june.moved_columns_)}
    return outputs(june, X) | expected(june) | tests


def named(prefix: str, results: dict[str, Any]) -> dict[str, Any]:
    """The results with a prefix before their names."""
    return {f"{prefix} {name}": value for name, value in results.items()}


def short(clf: Any, X: Any) -> dict[str, Any]:
    """Outputs in training and after an adaptation."""
    june = clf.adapt(X)
    return outputs(clf, X) | {
        "adapted prior": june.prior_,
        "adapted threshold": june.threshold_,
        "adapted probability": june.predict_proba(X)[:, 1],
    }


def at_prior(prior: float, *recorded: Any) -> Any:
    """The results of the classifier at a known prior."""

    def results(clf: Any, X: Any) -> dict[str, Any]:
        known = clf.at_prior(prior)
        return {name: value for part in recorded for name, value in part(known, X).items()}

    return results


def full(clf: Any, X: Any) -> dict[str, Any]:
    """Everything that a classifier computes from its scores."""
    june, counts = clf.adapt(X), clf.count(X)
    budget, share = june.at_budget(rows=20, of=X), june.at_budget(share=0.1)
    uncertain = june.uncertain(X)
    found = outputs(clf, X) | expected(clf) | named("adapted", adapted(clf, X))
    found |= named("at prior", outputs(clf.at_prior(0.1).at_cost(0.8), X))
    found |= {
        "levels": clf.tails_.levels, "positive counts": clf.tails_.positive_counts,
        "counts": clf.tails_.counts, "sizes": [clf.tails_.n_positive, clf.tails_.n],
        "new counts": counts.counts, "adapted to counts": clf.adapt(counts).prior_,
        "budget": budget.budget_, "budget threshold": budget.threshold_, "budget labels": budget.predict(X),
        "budget share": share.budget_, "budget expected": share.expected_performance(),
        "uncertain": uncertain, "bill": clf.adapt(X).at_cost(drpu.Costs(5, 200)).expected_bill(1000),
    }  # fmt: skip
    return found


def load(path: Path, **options: Any) -> Any:
    """A saved classifier; files with estimators of scikit-learn may have to be trusted."""
    if "trusted" in inspect.signature(drpu.load).parameters:
        options["trusted"] = True
    return drpu.load(path, **options)


def kept(clf: Any, X: Any, **options: Any) -> dict[str, Any]:
    """Whether a saved and loaded classifier gives the same results."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clf.drpu"
        drpu.save(clf, path, keep_rows=True)
        again = load(path, **options)
    same = {"labels": bool((again.predict(X) == clf.predict(X)).all())}
    for name in ("decision_function", "predict_proba", "ratio"):
        if hasattr(clf, name):
            same[name] = bool(np.array_equal(getattr(again, name)(X), getattr(clf, name)(X)))
    if hasattr(clf, "adapt"):
        same["adapted"] = again.adapt(X).prior_ == clf.adapt(X).prior_
        same["expected"] = again.expected_performance() == clf.expected_performance()
    return {f"same after loading: {name}": bool(value) for name, value in same.items()}


def graph(clf: Any, X: Any) -> dict[str, Any]:
    """Outputs of the exported graph at a prior and a cost."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.onnx"
        drpu.export_onnx(clf, path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = {"X": np.asarray(X, dtype=np.float64), "prior": np.array([0.3]), "cost": np.array([0.6])}
    names = ["ratio", "probability", "label"]
    return {f"onnx {name}": part for name, part in zip(names, session.run(names, feed), strict=True)}


def contributions(clf: Any, X: Any) -> dict[str, Any]:
    """Parts of the scores of a few rows."""
    return {"contributions": np.asarray(clf.contributions(X[:20]), dtype=float)}


def sizes(clf: Any, X: Any) -> dict[str, Any]:
    """Effective sizes of the held-out samples."""
    return {"sizes": [clf.tails_.n_positive, clf.tails_.n]}


def counts(clf: Any, X: Any) -> dict[str, Any]:
    """Unlabeled rows by level."""
    return {"counts": clf.tails_.counts}


def weighted_prior(clf: Any, X: Any) -> dict[str, Any]:
    """The prior of new rows with weights."""
    weight = np.random.default_rng(4).gamma(2.0, size=len(X))
    return {"weighted prior": clf.adapt(X, sample_weight=weight).prior_}


def other_columns(clf: Any, X: Any) -> dict[str, Any]:
    """Columns in another order, and columns that moved."""
    shuffled = X[["smoker", "day", "ward", "temperature"]]
    found = {"columns in another order": clf.predict_proba(shuffled)[:, 1]}
    moved = clf.adapt(X.assign(smoker=True, ward="south"))
    found |= {"moved prior": moved.prior_, "moved columns": list(moved.moved_columns_)}
    return found | {"moved test": moved.shift_test_}


def alone(clf: Any, X: Any) -> dict[str, Any]:
    """Scores of the classifier's learner, fitted without folds and without calibration."""
    model = clf.model
    if not hasattr(model, "fit_ratio"):
        model = ClassifierRatio(None if isinstance(model, str) else model)
    return learnt(clone(model).set_params(random_state=0))


def learnt(model: Any) -> dict[str, Any]:
    """Scores of a learner."""
    return {"alone": model.fit_ratio(toy().positive, toy().unlabeled).log_ratio(toy().test)}


def by_group(clf: Any, X: Any) -> dict[str, Any]:
    """Priors of groups."""
    by = np.random.default_rng(7).choice(["a", "b", "c", "small"], 300, p=[0.4, 0.3, 0.27, 0.03])
    priors = clf.adapt_by(X, by=by)
    found = {"names": list(priors.names), "whole": priors.whole, "between": priors.between}
    for group in priors:
        found[group.name] = [group.n, group.prior, group.alone, group.weight, group.p_value]
    return found


OVERLAP = (200, 500, 1.6)  # classes that overlap, where answers are needed


def audited(**design: Any) -> Any:
    """A plan of an audit, and what follows from its answers."""

    def results(clf: Any, X: Any) -> dict[str, Any]:
        plan = clf.plan_audit(X, random_state=0, **design)
        answers = plan.answer(toy(*OVERLAP).test_labels[plan.rows])
        june = clf.adapt(X, audit=answers)
        found = {"rows": plan.rows, "chance": plan.chance, "width": plan.expected_width, "n": plan.n}
        found |= outputs(june, X) | expected(june)
        found |= {"fairness": june.fairness_test_, "before": list(june.before_audit_)}
        found |= {"evaluation": june.evaluation_, "as trained": clf.evaluate(answers)}
        return found | {"later": june.adapt(toy().test).prior_}

    return results


def rival(clf: Any, X: Any) -> dict[str, Any]:
    """Results of a method that learns for one prior."""
    found = {"decision": clf.decision_function(X), "label": clf.predict(X), "prior": clf.prior_}
    if hasattr(clf, "predict_proba"):
        found["probability"] = clf.predict_proba(X)[:, 1]
    return found | kept(clf, X)


# -- cases that are not a fit with settings -----------------------------------------------------


def fitted(model: Any = "auto", data: Any = None, **options: Any) -> Any:
    """A classifier of the toy data with seed 0."""
    return DRPUClassifier(model, scenario="case-control", random_state=0, **options).fit(
        *(data or toy()).X_y()
    )


METHODS = ("paper", "best-bin", "plateau", "dedpul")
SHIFTS = ("efficient",)


@cache
def scores() -> tuple[Any, Any, Any]:
    """Scores of positives, of training rows and of new rows."""
    rng = np.random.default_rng(9)
    mixed = [
        np.where(rng.random(n) < share, rng.normal(2, 1, n), rng.normal(0, 1, n))
        for n, share in ((800, 0.4), (600, 0.2))
    ]
    return rng.normal(2, 1, 200), *mixed


def estimate_prior() -> dict[str, Any]:
    positive, train, new = scores()
    reference = drpu.ScoreTails(positive).update(train)
    found = {name: drpu.estimate_prior(positive, train, method=name) for name in ("auto", *METHODS)}
    for name in ("auto", *SHIFTS):
        found[f"{name} with a reference"] = drpu.estimate_prior(
            positive, new, method=name, reference=reference
        )
    found["known"] = drpu.estimate_prior(positive, new, reference=reference, train_prior=0.4, level=0.8)
    found["function"] = drpu.estimate_prior(positive, new, method=lambda tails: 0.25)
    return found


def prior_monitor() -> dict[str, Any]:
    clf = fitted("kernel")
    monitor = drpu.PriorMonitor(clf, window=400, alpha=0.05)
    found = {}
    for i, prior in enumerate([0.4, 0.4, 0.2, 0.05]):
        rows = drpu.make_gaussian_pu(
            5, 5, prior=0.4, test_prior=prior, n_test=250, separation=2.5, dimensions=3, random_state=20 + i
        ).test
        reading = monitor.update(rows, when=f"batch {i}")
        found[reading.when] = [reading.n, reading.prior, reading.moved, reading.alarm, reading.trusted]
        found[f"{reading.when} tests"] = [reading.shift, list(reading.moved_columns), monitor.alarm.evidence]
    adapted_there = monitor.adapted().at_cost(0.7)
    return found | {"adapted": [adapted_there.prior_, adapted_there.threshold_], "level": monitor.alarm.level}


# -- clusters -------------------------------------------------------------------------------


def cluster_rows() -> Any:
    """Mixed rows with a label and a key."""
    X, y, _ = frames()
    return X.assign(label=y, id=np.arange(len(y)))


def by_cluster(model: Any, rows: Any) -> dict[str, Any]:
    """A classifier whose trees were trained on a cluster."""
    clf = DRPUClassifier(model, holdout=0.3, scenario="single-sample", random_state=0).fit(rows, y="label")
    new = frames()[2]
    return short(clf, new) | {"counts": clf.tails_.counts} | kept(clf, new)


def dask_trees() -> dict[str, Any]:
    import dask.dataframe
    import distributed

    options = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        rows = dask.dataframe.from_pandas(cluster_rows(), npartitions=1)
        return by_cluster(drpu.DaskBoosted(n_rounds=20, key="id", client=client), rows)


def spark_trees() -> dict[str, Any]:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # its workers import what this process does
    active = SparkSession.getActiveSession()
    session = active or (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    try:
        rows = session.createDataFrame(cluster_rows()).coalesce(1)
        return by_cluster(drpu.SparkBoosted(n_rounds=20, key="id", n_workers=1), rows)
    finally:
        if active is None:  # tests with a session of their own need other settings
            session.stop()
