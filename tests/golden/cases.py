"""Fits of every kind on fixed data: one function per case, which returns results by name."""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import drpu
from drpu import BoostedRatio, ClassifierRatio, DRPUClassifier, KernelRatio, NetworkRatio


class Golden(NamedTuple):
    """A case: its function, the packages it needs, whether it trains a network, whether it takes seconds."""

    results: Callable[[], dict[str, Any]]
    needs: tuple[str, ...]
    network: bool = False
    slow: bool = False


CASES: dict[str, Golden] = {}


def case(*needs: str, name: str = "", **kind: bool) -> Callable[[Any], Any]:
    """Register a function as a case."""

    def register(function: Any) -> Any:
        CASES[name or function.__name__] = Golden(function, needs, **kind)
        return function

    return register


def settings(table: dict[str, Any], *needs: str, network: bool = False) -> Callable[[Any], Any]:
    """Register a function of one setting as a case for each entry of ``table``."""

    def register(function: Any) -> Any:
        for key, value in table.items():
            bound = lambda value=value: function(value)  # noqa: E731 - one function for each value
            case(*needs, name=f"{function.__name__}: {key}", network=network)(bound)
        return function

    return register


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


def expected(clf: Any) -> dict[str, Any]:
    """Expected performance with its range."""
    return {"expected": clf.expected_performance(), "expected range": list(clf.expected_range())}


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


def full(clf: Any, X: Any) -> dict[str, Any]:
    """Everything that a classifier computes from its scores."""
    june, counts = clf.adapt(X), clf.count(X)
    budget, share = june.at_budget(rows=20, of=X), june.at_budget(share=0.1)
    uncertain = june.uncertain(X)
    found = outputs(clf, X) | expected(clf) | named("adapted", adapted(clf, X))
    found |= named("at prior", outputs(clf.at_prior(0.1, cost=0.8), X))
    found |= {
        "levels": clf.tails_.levels, "positive counts": clf.tails_.positive_counts,
        "counts": clf.tails_.counts, "sizes": [clf.tails_.n_positive, clf.tails_.n],
        "new counts": counts.counts, "adapted to counts": clf.adapt(counts).prior_,
        "budget": budget.budget_, "budget threshold": budget.threshold_, "budget labels": budget.predict(X),
        "budget share": share.budget_, "budget expected": share.expected_performance(),
        "uncertain": uncertain, "bill": clf.adapt(X, cost=drpu.Costs(5, 200)).expected_bill(1000),
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


def fitted(model: Any = "auto", data: Any = None, **options: Any) -> Any:
    """A classifier of the toy data with seed 0."""
    return DRPUClassifier(model, random_state=0, **options).fit(*(data or toy()).X_y())


# -- the default ----------------------------------------------------------------------------


@settings({"8": (8, 60), "60": (60, 200), "300": (300, 700), "1300": (1300, 1800)})
def auto_by_positives(size: Any) -> dict[str, Any]:
    data = toy(*size)
    clf = fitted(data=data, holdout=2 if size[0] > 1000 else "auto")
    explained = {} if size[0] < 10 else {"contributions": clf.contributions(data.test[:20])}
    return full(clf, data.test) | explained | (kept(clf, data.test) if size[0] > 1000 else {})


@case(slow=True)
def auto_beyond_50000_rows() -> dict[str, Any]:
    X, y = toy(1400, 66_000).X_y()
    new = toy().test
    flip, new_flip = (
        np.where(np.random.default_rng(3).random(len(rows)) < 0.5, -1.0, 1.0) for rows in (X, new)
    )
    X, new = np.c_[X * flip[:, None], flip], np.c_[new * new_flip[:, None], new_flip]  # trees find this
    clf = DRPUClassifier(holdout=0.2, random_state=0).fit(X, y)
    return short(clf, new) | {"contributions": np.asarray(clf.contributions(new[:20]))} | kept(clf, new)


@case("pandas")
def auto_frame() -> dict[str, Any]:
    X, y, new = frames()
    clf = DRPUClassifier(random_state=0).fit(X, y)
    found = full(clf, new) | {"contributions": np.asarray(clf.contributions(new[:20]), dtype=float)}
    shuffled = new[["smoker", "day", "ward", "temperature"]]
    found["columns in another order"] = clf.predict_proba(shuffled)[:, 1]
    moved = clf.adapt(new.assign(smoker=True, ward="south"))
    found |= {"moved prior": moved.prior_, "moved columns": list(moved.moved_columns_)}
    return found | {"moved test": moved.shift_test_} | kept(clf, new)


@case()
def auto_gaps() -> dict[str, Any]:
    X, y = toy().X_y()
    rng = np.random.default_rng(3)
    new = np.where(rng.random(toy().test.shape) < 0.2, np.nan, toy().test)
    clf = DRPUClassifier(random_state=0, holdout=3).fit(np.where(rng.random(X.shape) < 0.2, np.nan, X), y)
    return short(clf, new)


@case()
def auto_weights() -> dict[str, Any]:
    X, y = toy().X_y()
    weight = np.random.default_rng(3).gamma(2.0, size=len(y))
    clf = DRPUClassifier(random_state=0).fit(X, y, sample_weight=weight)
    new_weight = np.random.default_rng(4).gamma(2.0, size=len(toy().test))
    found = short(clf, toy().test) | {
        "weighted prior": clf.adapt(toy().test, sample_weight=new_weight).prior_
    }
    return found | {"counts": clf.tails_.counts, "sizes": [clf.tails_.n_positive, clf.tails_.n]}


@settings({"auto": "auto", "kernel": "kernel"})
def groups(model: Any) -> dict[str, Any]:
    X, y = toy(200, 500).X_y()
    clf = DRPUClassifier(model, random_state=0).fit(X, y, groups=np.arange(len(y)) // 2)
    return short(clf, toy().test) | {"sizes": [clf.tails_.n_positive, clf.tails_.n]}


@settings({"auto": "auto", "kernel": "kernel"})
def copies(model: Any) -> dict[str, Any]:
    """Copies of labelled positives are found and treated as groups."""
    X, y = toy().X_y()
    clf = DRPUClassifier(model, random_state=0).fit(np.r_[X, X[:60]], np.r_[y, y[:60]])
    return short(clf, toy().test) | {"sizes": [clf.tails_.n_positive, clf.tails_.n]}


@settings({"auto": "auto", "kernel": "kernel", "classifier": "classifier"})
def single_sample(model: Any) -> dict[str, Any]:
    clf = fitted(model, toy(150, 500), scenario="single-sample")
    return full(clf, toy().test) | (kept(clf, toy().test) if model == "kernel" else {})


@case()
def fit_pu_with_weights() -> dict[str, Any]:
    data, rng = toy(), np.random.default_rng(5)
    weights = {"positive_weight": rng.gamma(2.0, size=100), "unlabeled_weight": rng.gamma(2.0, size=250)}
    clf = DRPUClassifier("boosted", random_state=0).fit_pu(data.positive, data.unlabeled, **weights)
    return short(clf, data.test)


@settings({"texts": (["no", "yes"], "yes"), "numbers": ([7, -7], None), "gaps": ([np.nan, 1.0], None)})
def labels(coding: Any) -> dict[str, Any]:
    (unlabeled, positive), pos_label = coding
    X, y = toy().X_y()
    clf = DRPUClassifier("classifier", pos_label=pos_label, random_state=0)
    clf.fit(X, np.where(y == 1, positive, unlabeled))
    return {"classes": clf.classes_, "labels": clf.predict(toy().test)[:10].tolist(), "prior": clf.prior_}


# -- single kinds of models -----------------------------------------------------------------

KERNELS = {
    "centroids": KernelRatio(),
    "features": KernelRatio("features", n_centres=60),
    "rows": KernelRatio("rows", n_centres=60),
    "fixed": KernelRatio(width=1.0, ridge=0.1, n_centres=30),
}
BOOSTED = {
    "log": BoostedRatio(n_rounds=40),
    "default": BoostedRatio(),
    "stopped": BoostedRatio(early_stopping=True, n_rounds=60),
}


@settings(KERNELS)
def kernel(model: Any) -> dict[str, Any]:
    clf, learner = fitted(model, holdout=3), model.set_params(random_state=0)
    function = learner.fit_ratio(toy().positive, toy().unlabeled)
    return short(clf, toy().test) | kept(clf, toy().test) | {"alone": function.log_ratio(toy().test)}


@settings(BOOSTED)
def boosted(model: Any) -> dict[str, Any]:
    clf, learner = fitted(model, holdout=3), model.set_params(random_state=0)
    function = learner.fit_ratio(toy().positive, toy().unlabeled)
    found = short(clf, toy().test) | {"contributions": clf.contributions(toy().test[:20])}
    return found | kept(clf, toy().test) | {"alone": function.log_ratio(toy().test)}


@case()
def boosted_gaps_and_categories() -> dict[str, Any]:
    rng = np.random.default_rng(6)
    rows = [
        np.c_[part, rng.integers(0, 4, len(part))] for part in (toy().positive, toy().unlabeled, toy().test)
    ]
    for part in rows:
        part[rng.random(len(part)) < 0.2, 0] = np.nan
    learner = BoostedRatio(n_rounds=30, categories=(3,), random_state=0)
    return {"alone": learner.fit_ratio(*rows[:2]).log_ratio(rows[2])}


@case()
def boosted_sparse() -> dict[str, Any]:
    from scipy import sparse

    rows = [sparse.csr_matrix(np.maximum(part, 0)) for part in (toy().positive, toy().unlabeled, toy().test)]
    return {"alone": BoostedRatio(n_rounds=30, random_state=0).fit_ratio(*rows[:2]).log_ratio(rows[2])}


@case()
def kernel_full() -> dict[str, Any]:
    return full(fitted("kernel", toy(300, 700)), toy().test)


@case()
def boosted_full() -> dict[str, Any]:
    return full(fitted("boosted", toy(300, 700)), toy().test)


@settings(
    {
        "default": None,
        "logistic": LogisticRegression(),
        "pipeline": make_pipeline(StandardScaler(), LogisticRegression(C=0.1)),
    }
)
def classifier(model: Any) -> dict[str, Any]:
    clf = fitted("classifier" if model is None else model)
    learner = model if isinstance(model, ClassifierRatio) else ClassifierRatio(model)
    function = learner.set_params(random_state=0).fit_ratio(toy().positive, toy().unlabeled)
    return short(clf, toy().test) | kept(clf, toy().test) | {"alone": function.log_ratio(toy().test)}


@case("pandas")
def classifier_frame() -> dict[str, Any]:
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    X, y, new = frames()
    columns = make_column_transformer(
        (StandardScaler(), ["smoker"]), (OneHotEncoder(handle_unknown="ignore"), ["ward"])
    )
    clf = DRPUClassifier(make_pipeline(columns, LogisticRegression()), random_state=0).fit(X, y)
    return short(clf, new)


@case()
def pipeline_around() -> dict[str, Any]:
    """A pipeline that ends in the classifier, adapted by the functions of the package."""
    pipe = make_pipeline(StandardScaler(), DRPUClassifier("kernel", random_state=0)).fit(*toy().X_y())
    june = drpu.adapt(pipe, toy().test)
    known = drpu.at_prior(pipe, 0.1, cost=0.7)
    return {
        "prior": june[-1].prior_,
        "probability": june.predict_proba(toy().test)[:, 1],
        "known": known.predict_proba(toy().test)[:, 1],
        "expected": drpu.expected_performance(june),
    }


# -- networks -------------------------------------------------------------------------------

SMALL = {"hidden": (8,), "epochs": 3, "batch_size": 50, "learning_rate": 0.01, "device": "cpu"}
NETWORKS = {
    "bkl": {"alpha": 0.3},
    "lsif relu": {"alpha": 0.3, "generator": "lsif", "head": "relu"},
    "ukl exp": {"alpha": 0.3, "generator": "ukl", "head": "exp"},
    "auto alpha": {"dtype": "float64"},
    "adam": {"alpha": 0.3, "optimizer": "adam", "ema": None, "decay": "step", "early_stopping": False},
    "accumulated": {"alpha": 0.3, "accumulate_gradients": True},
    "teachers": {"alpha": 0.3, "teachers": 2, "rounds": 2, "students": 2, "mixup": True},
}


@settings(NETWORKS, "torch", network=True)
def network(options: Any) -> dict[str, Any]:
    learner = NetworkRatio(**SMALL | options, random_state=0)
    return {"alone": learner.fit_ratio(toy().positive, toy().unlabeled).log_ratio(toy().test)}


@settings({"perceptron": {}, "teachers": {"teachers": 2, "students": 2}}, "torch", network=True)
def network_classifier(options: Any) -> dict[str, Any]:
    clf = fitted(NetworkRatio(**SMALL | {"alpha": 0.3} | options), holdout=2)
    return full(clf, toy().test) | kept(clf, toy().test)


@case("torch", network=True)
def network_of_the_user() -> dict[str, Any]:
    from torch import nn

    def module() -> Any:
        return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))

    clf = fitted(NetworkRatio(module, alpha=0.3, epochs=3, device="cpu"), holdout=2)
    return short(clf, toy().test) | kept(clf, toy().test, module=module)


@settings(
    {
        "plain": {},
        "views": {"augment": "shift-flip", "average_views": True},
        "teachers": {"teachers": 1, "students": 2, "augment": "crop"},
        "perceptron": {"network": "perceptron"},
    },
    "torch",
    network=True,
)
def images(options: Any) -> dict[str, Any]:
    X = np.concatenate([pictures(60, True, 0), pictures(120, np.arange(120) < 50, 1)])
    new = pictures(60, np.arange(60) < 20, 2)
    learner = NetworkRatio(**SMALL | {"alpha": 0.3, "epochs": 2, "hidden": (2,)} | options)
    clf = DRPUClassifier(learner, prior=0.4, holdout=0.3, random_state=0).fit(X, np.arange(len(X)) < 60)
    return short(clf, new) | kept(clf, new)


# -- settings of the classifier -------------------------------------------------------------


@settings(
    {
        "two folds": {"holdout": 2},
        "a share": {"holdout": 0.3},
        "a share of the default": {"holdout": 0.3, "model": "auto"},
        "uncalibrated": {"calibrate": False},
        "uncalibrated default": {"calibrate": False, "model": "auto", "holdout": 3},
        "uncalibrated single sample": {"calibrate": False, "scenario": "single-sample"},
        "test prior and cost": {"test_prior": 0.1, "cost": 0.3},
        "amounts": {"cost": drpu.Costs(5, 200)},
        "two jobs": {"n_jobs": 2, "model": "boosted"},
    }
)
def options(given: Any) -> dict[str, Any]:
    clf = fitted(**{"model": "kernel"} | given)
    return short(clf, toy().test) | expected(clf)


METHODS = ("adaptive", "combined", "paper", "best-bin", "plateau", "scott", "dedpul")
SHIFTS = ("blended", "efficient", "matching", "em")


@case()
def train_priors() -> dict[str, Any]:
    known = drpu.PriorEstimate(0.4, 0.3, 0.5, 0.95, "given")
    priors = {name: name for name in ("auto", *METHODS, "km1", "km2")}
    priors |= {"a number": 0.35, "an estimate": known, "a function": lambda tails: tails.estimate().value / 2}
    found = {}
    for name, prior in priors.items():
        clf = fitted("classifier", toy(100, 250, 3.0), prior=prior, holdout=2)
        june = clf.adapt(toy().test)
        found[name] = [clf.prior_, clf.threshold_, june.prior_]
        found[f"{name} probability"] = clf.predict_proba(toy().test)[:, 1]
    return found


# -- decisions, groups and audits -----------------------------------------------------------


@settings({"auto": "auto", "classifier": "classifier"})
def adapt_by(model: Any) -> dict[str, Any]:
    clf = fitted(model, holdout=3)
    by = np.random.default_rng(7).choice(["a", "b", "c", "small"], 300, p=[0.4, 0.3, 0.27, 0.03])
    priors = clf.adapt_by(toy().test, by=by)
    found = {"names": list(priors.names), "whole": priors.whole, "between": priors.between}
    for group in priors:
        found[group.name] = [group.n, group.prior, group.alone, group.weight, group.p_value]
    return found


@settings(
    {
        "auto": ("auto", {"n": 60}),
        "classifier": ("classifier", {"n": 60}),
        "width": ("classifier", {"width": 0.15}),
        "training": ("classifier", {"n": 40, "population": "training"}),
        "single sample": ("single", {"n": 60}),
    }
)
def audit(setting: Any) -> dict[str, Any]:
    model, design = setting
    single = {"model": "classifier", "scenario": "single-sample"}
    clf = fitted(**single if model == "single" else {"model": model}, data=toy(200, 500, 1.6))
    X, truth = toy(200, 500, 1.6).test, toy(200, 500, 1.6).test_labels
    plan = clf.plan_audit(X, random_state=0, **design)
    answers = plan.answer(truth[plan.rows])
    june = clf.adapt(X, audit=answers)
    found = {"rows": plan.rows, "chance": plan.chance, "width": plan.expected_width, "n": plan.n}
    found |= outputs(june, X) | expected(june)
    found |= {"fairness": june.fairness_test_, "before": list(june.before_audit_)}
    found |= {"evaluation": june.evaluation_, "as trained": clf.evaluate(answers)}
    return found | {"later": june.adapt(toy().test).prior_}


@case()
def audits_of_unlabeled_and_random_rows() -> dict[str, Any]:
    data = toy(200, 500, 1.6)
    clf = fitted("classifier", data)
    plan = clf.plan_audit(data.unlabeled, n=50, random_state=0)
    own = clf.adapt(data.unlabeled, audit=plan.answer(data.unlabeled_labels[plan.rows]))
    rows = np.random.default_rng(8).permutation(300)[:50]
    random = clf.adapt(data.test, audit=drpu.Audit.random(rows, data.test_labels[rows]))
    two = clf.plan_audit(data.test, n=30, random_state=1)
    more = two.answer(data.test_labels[two.rows]) + drpu.Audit.random(rows, data.test_labels[rows])
    both = clf.adapt(data.test, audit=more)
    return {
        "unlabeled": [plan.rows, own.train_prior_, own.test_prior_],
        "random": [random.train_prior_, random.test_prior_, random.evaluation_],
        "both": [both.train_prior_, both.test_prior_, both.evaluation_],
        "labelled rows": clf.evaluate(data.test[:100], data.test_labels[:100]),
    }


# -- graphs ---------------------------------------------------------------------------------


@settings(
    {
        "default": {"model": "auto"},
        "weighted members": {"model": "auto", "data": (1300, 1800), "holdout": 2},
        "kernel": {"model": "kernel"},
        "features": {"model": KernelRatio("features", n_centres=40)},
        "boosted": {"model": BoostedRatio(n_rounds=30)},
        "single sample": {"model": "kernel", "scenario": "single-sample"},
        "uncalibrated": {"model": "kernel", "calibrate": False},
    },
    "onnx",
    "onnxruntime",
)
def onnx(options: Any) -> dict[str, Any]:
    given = {"holdout": 2} | options
    return graph(fitted(**given | {"data": toy(*given.get("data", ()))}), toy().test)


@settings({"perceptron": {}}, "torch", "onnx", "onnxruntime", network=True)
def onnx_network(options: Any) -> dict[str, Any]:
    return graph(fitted(NetworkRatio(**SMALL | {"alpha": 0.3} | options), holdout=2), toy().test)


# -- the other PU methods -------------------------------------------------------------------

NET = NetworkRatio(hidden=(8,), epochs=2, batch_size=50, device="cpu")
GAME = {"steps": 4, "hidden": (8,), "batch_size": 16, "n_generated": 40, "noise": 4, "device": "cpu"}
RIVALS = {
    "upu": drpu.UPUClassifier(prior=0.4),
    "upu squared linear": drpu.UPUClassifier("linear", loss="squared", prior=0.4),
    "upu km2": drpu.UPUClassifier("linear", cost=0.3),
    "nnpu": drpu.NNPUClassifier(prior=0.4),
    "nnpu linear logistic": drpu.NNPUClassifier("linear", loss="logistic", beta=0.1, gamma=0.5, prior="auto"),
    "nnpu single sample": drpu.NNPUClassifier("linear", prior=0.5, scenario="single-sample"),
    "pua": drpu.PUaClassifier("linear", prior=0.4, test_prior=0.2),
    "puld": drpu.PULDClassifier(rounds=3, prior=0.4),
    "puld linear": drpu.PULDClassifier("linear", rounds=3, prior=0.4, cost=0.3),
    "elkan-noto": drpu.ElkanNotoClassifier(ExtraTreesClassifier(10, min_samples_leaf=2)),
    "elkan-noto logistic": drpu.ElkanNotoClassifier(LogisticRegression(), scenario="single-sample"),
    "elkan-noto prior": drpu.ElkanNotoClassifier(LogisticRegression(), prior=0.4),
}
NETWORK_RIVALS = {
    "upu": drpu.UPUClassifier(NET, loss="logistic", prior=0.4),
    "nnpu": drpu.NNPUClassifier(NET, prior=0.4),
    "pua": drpu.PUaClassifier(NET, prior=0.4, test_prior=0.2),
    "vpu": drpu.VPUClassifier(NET),
    "vpu prior": drpu.VPUClassifier(NET, prior=0.4, mixup=1.0),
    "genpu": drpu.GenPUClassifier("kernel", prior=0.4, **GAME),
    "genpu linear": drpu.GenPUClassifier("linear", prior=0.4, test_prior=0.2, **GAME),
}


def rival_outputs(clf: Any) -> dict[str, Any]:
    """Results of a method that learns for one prior."""
    X = toy().test
    found = {"decision": clf.decision_function(X), "label": clf.predict(X), "prior": clf.prior_}
    if hasattr(clf, "predict_proba"):
        found["probability"] = clf.predict_proba(X)[:, 1]
    return found | kept(clf, X)


@settings(RIVALS)
def rival(clf: Any) -> dict[str, Any]:
    return rival_outputs(clf.set_params(random_state=0).fit(*toy().X_y()))


@settings(NETWORK_RIVALS, "torch", network=True)
def network_rival(clf: Any) -> dict[str, Any]:
    return rival_outputs(clf.set_params(random_state=0).fit(*toy().X_y()))


@case()
def pua_with_test_rows() -> dict[str, Any]:
    clf = drpu.PUaClassifier("linear", prior="auto", random_state=0)
    clf.fit(*toy().X_y(), X_test=toy().test)
    return rival_outputs(clf) | {"test prior": clf.test_prior_}


@case("torch", network=True)
def genpu_at_another_prior() -> dict[str, Any]:
    clf = drpu.GenPUClassifier("linear", prior=0.4, random_state=0, **GAME).fit(*toy().X_y())
    return {"decision": clf.at_prior(0.1, random_state=1).decision_function(toy().test)}


@case("pandas")
def rival_frame() -> dict[str, Any]:
    X, y, new = frames()
    X, new = X.fillna({"temperature": 37.0}), new.fillna({"temperature": 37.0})
    clf = drpu.NNPUClassifier("linear", prior=0.4, random_state=0).fit(X, y)
    return {"decision": clf.decision_function(new)}


# -- scores, counts and streams -------------------------------------------------------------


@cache
def scores() -> tuple[Any, Any, Any]:
    """Scores of positives, of training rows and of new rows."""
    rng = np.random.default_rng(9)
    mixed = [
        np.where(rng.random(n) < share, rng.normal(2, 1, n), rng.normal(0, 1, n))
        for n, share in ((800, 0.4), (600, 0.2))
    ]
    return rng.normal(2, 1, 200), *mixed


@settings({"continuous": None, "ties": 1})
def estimate_prior(digits: Any) -> dict[str, Any]:
    positive, train, new = scores() if digits is None else [part.round(digits) for part in scores()]
    reference = drpu.ScoreTails(positive).update(train)
    found = {name: drpu.estimate_prior(positive, train, method=name) for name in ("auto", *METHODS)}
    for name in ("auto", *SHIFTS):
        found[f"{name} with a reference"] = drpu.estimate_prior(
            positive, new, method=name, reference=reference
        )
    found["em of ratios"] = drpu.estimate_prior(positive, new, method="em", train_prior=0.4)
    found["known"] = drpu.estimate_prior(positive, new, reference=reference, train_prior=0.4, level=0.8)
    found["function"] = drpu.estimate_prior(positive, new, method=lambda tails: 0.25)
    return found


@case()
def kernel_mean_prior() -> dict[str, Any]:
    wide = np.random.default_rng(10).normal(size=(350, 60))
    wide[:100] += 0.3
    found = {
        name: drpu.KernelMeanPrior(name).estimate(toy().positive, toy().unlabeled) for name in ("km1", "km2")
    }
    found["wide"] = drpu.KernelMeanPrior(max_dims=10).estimate(wide[:100], wide[100:])
    found["drawn"] = drpu.KernelMeanPrior(max_rows=80, random_state=0).estimate(
        toy().positive, toy().unlabeled
    )
    return found


@case()
def score_tails() -> dict[str, Any]:
    positive, train, new = scores()
    rng = np.random.default_rng(11)
    tails = drpu.ScoreTails(positive.round(2)).update(train.round(2))
    merged = tails.copy().merge(tails.empty().update(new)) + tails
    weighted = drpu.ScoreTails(positive, rng.gamma(2.0, size=200)).update(train, rng.gamma(2.0, size=800))
    return {
        "levels": tails.levels, "counts": tails.counts, "positive": tails.positive_counts,
        "survival": tails.survival, "positive survival": tails.positive_survival, "merged": merged.counts,
        "merged n": merged.n, "estimate": merged.estimate(), "weighted counts": weighted.counts,
        "weighted sizes": [weighted.n_positive, weighted.n], "weighted estimate": weighted.estimate(),
        "calibrated": drpu.calibrate(tails, 0.4)(new),
        "calibrated single sample": drpu.calibrate(tails, 0.4, labelled_share=0.1)(new),
    }  # fmt: skip


@case()
def thresholds() -> dict[str, Any]:
    posterior = np.linspace(0, 1, 11)
    priors = [(0.4, 0.1, 0.5), (0.2, 0.7, 0.9), (0.5, 0.0, 0.5), (0.3, 1.0, 0.5)]
    return {
        "threshold": [drpu.ratio_threshold(train, test, cost=cost) for train, test, cost in priors],
        "posterior": [drpu.shift_posterior(posterior, train, test) for train, test, _ in priors],
        "bill": float(drpu.Costs(5, 200)),
    }


@settings({"window": 400, "all": None})
def prior_monitor(window: Any) -> dict[str, Any]:
    clf = fitted("kernel")
    monitor = drpu.PriorMonitor(clf, window=window, alpha=0.05)
    found = {}
    for i, prior in enumerate([0.4, 0.4, 0.2, 0.05]):
        rows = drpu.make_gaussian_pu(
            5, 5, prior=0.4, test_prior=prior, n_test=250, separation=2.5, dimensions=3, random_state=20 + i
        ).test
        reading = monitor.update(rows, when=f"batch {i}")
        found[reading.when] = [reading.n, reading.prior, reading.moved, reading.alarm, reading.trusted]
        found[f"{reading.when} tests"] = [reading.shift, list(reading.moved_columns), monitor.alarm.evidence]
    adapted_there = monitor.adapted(cost=0.7)
    return found | {"adapted": [adapted_there.prior_, adapted_there.threshold_], "level": monitor.alarm.level}


@case("pyarrow", "pandas")
def parquet_batches() -> dict[str, Any]:
    X, y, new = frames()
    clf = DRPUClassifier("boosted", random_state=0).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(3):
            new[i * 100 : (i + 1) * 100].to_parquet(Path(folder) / f"part{i}.parquet")
        tails = drpu.count_batches(clf, str(Path(folder) / "*.parquet"), batch_size=70)
        june = clf.adapt(tails)
        scored = list(drpu.score_batches(june, folder, batch_size=70))
    found = {name: np.concatenate([part[name] for part in scored]) for name in scored[0]}
    same = bool(tails == clf.count(new))
    return found | {"counts": tails.counts, "prior": june.prior_, "as in one pass": same}


@case()
def scorers() -> dict[str, Any]:
    clf, (X, y) = fitted("classifier"), toy(150, 400).X_y()
    rival_clf = drpu.ElkanNotoClassifier(LogisticRegression(), random_state=0).fit(*toy().X_y())
    return {
        "ratio risk": drpu.ratio_risk_scorer(clf, X, y),
        "area": [
            drpu.AUCScorer()(clf, X, y),
            drpu.AUCScorer(0.4)(clf, X, y),
            drpu.AUCScorer(0.4)(rival_clf, X, y),
        ],
        "cost": [drpu.CostScorer(0.4)(clf, X, y), drpu.CostScorer(0.4, cost=drpu.Costs(3, 1))(clf, X, y)],
        "cost of a rival": drpu.CostScorer(0.4)(rival_clf, X, y),
        "accuracy": clf.score(toy().test, toy().test_labels),
    }


@case()
def data_sets() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number in (1, 2):
        data = drpu.make_gaussian_pu(20, 30, setting=number, n_test=20, random_state=0)
        found |= {f"positive {number}": data.positive, f"unlabeled {number}": data.unlabeled}
        found |= {f"test {number}": data.test, f"ratio {number}": data.ratio(data.test)}
    X, y = toy().X_y()
    for scenario in ("single-sample", "case-control"):
        sample = drpu.make_pu(X, y, prior=0.3, labelled=0.4, scenario=scenario, n=100, random_state=0)
        found |= {
            f"{scenario} index": sample.index,
            f"{scenario} labels": sample.y,
            f"{scenario} X": sample.X,
        }
    return found


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


@case("dask", "distributed", "pandas", slow=True)
def dask_trees() -> dict[str, Any]:
    import dask.dataframe
    import distributed

    options = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        rows = dask.dataframe.from_pandas(cluster_rows(), npartitions=1)
        return by_cluster(drpu.DaskBoosted(n_rounds=20, key="id", client=client), rows)


@case("pyspark", "xgboost", "pandas", slow=True)
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
