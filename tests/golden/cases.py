"""The golden cases, a table: fits of every kind on fixed data, and the results that are recorded of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tests.golden import golden_results as of
from tests.golden.golden_results import (
    OVERLAP,
    alone,
    audited,
    by_group,
    classes,
    contributions,
    counts,
    decision,
    expected,
    full,
    graph,
    kept,
    rival,
    short,
    sized,
    sizes,
)

import drpu
from drpu import BoostedRatio, DRPUClassifier, KernelRatio, NetworkRatio


class Golden(NamedTuple):
    """A case: its function, the packages it needs, whether it trains a network, whether it takes seconds.

    ``steep``: Whether rounding can change the result, by another cluster or another number of steps.
    """

    results: Callable[[], dict[str, Any]]
    needs: tuple[str, ...] = ()
    network: bool = False
    slow: bool = False
    steep: bool = False


def fit(*recorded: Any, model: Any = "auto", clf: Any = None, rows: Any = None, **options: Any) -> Golden:
    """A classifier, by default ``DRPUClassifier(model, **options)``, fitted to rows; and what is recorded."""
    kind = {name: options.pop(name) for name in ("needs", "network", "slow", "steep") if name in options}

    def results() -> dict[str, Any]:
        X, y, new, given = (rows or sized())()
        made = DRPUClassifier(model, **{"scenario": "case-control"} | options) if clf is None else clone(clf)
        if clf is not None and clf.scenario == "auto":  # the rows are two samples
            made.set_params(scenario="case-control")
        made.set_params(random_state=0).fit(X, y, **given)
        return {name: value for part in recorded for name, value in part(made, new).items()}

    return Golden(results, **kind)


def net(**options: Any) -> dict[str, Any]:
    """A small perceptron as the model of a fit."""
    return {"model": NetworkRatio(**SMALL | options), "needs": ("torch",), "network": True}


def learner(**options: Any) -> Golden:
    """A small perceptron without a classifier."""
    return Golden(lambda: of.learnt(NetworkRatio(**SMALL | options, random_state=0)), ("torch",), True)


def module() -> Any:
    """A network of the user."""
    from torch import nn

    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))


# In float64, because training in float32 amplifies the rounding of other processors to visible differences.
SMALL = {
    "hidden": (8,), "epochs": 3, "batch_size": 50, "learning_rate": 0.01, "device": "cpu", "dtype": "float64",
}  # fmt: skip
IMAGES = {"alpha": 0.3, "epochs": 2, "hidden": (2,)}
AROUND_IMAGES = {"rows": of.images, "prior": 0.4, "holdout": 0.3}
SINGLE = {"scenario": "single-sample"}
COLUMNS = make_column_transformer(
    (StandardScaler(), ["smoker"]), (OneHotEncoder(handle_unknown="ignore"), ["ward"])
)
GRAPH = {"needs": ("onnx", "onnxruntime"), "holdout": 2}
NET = NetworkRatio(hidden=(8,), epochs=2, batch_size=50, device="cpu", dtype="float64")
GAME = {"steps": 4, "hidden": (8,), "batch_size": 16, "n_generated": 40, "noise": 4, "device": "cpu"}
TORCH: dict[str, Any] = {"needs": ("torch",), "network": True}
TREES = (short, contributions, kept, alone)

CASES: dict[str, Golden] = {
    # -- the default ------------------------------------------------------------------------
    "auto_by_positives: 8": fit(full, rows=sized(8, 60, own=True)),
    "auto_by_positives: 60": fit(full, contributions, rows=sized(60, 200, own=True)),
    "auto_by_positives: 300": fit(full, contributions, rows=sized(300, 700, own=True)),
    "auto_by_positives: 1300": fit(full, contributions, kept, rows=sized(1300, 1800, own=True), holdout=2),
    "auto_beyond_50000_rows": fit(short, contributions, kept, rows=of.flipped, holdout=0.2, slow=True),
    "auto_frame": fit(full, contributions, of.other_columns, kept, rows=of.mixed, needs=("pandas",)),
    "auto_gaps": fit(short, rows=of.gaps, holdout=3),
    "auto_weights": fit(short, of.weighted_prior, counts, sizes, rows=of.weighted),
    "groups: auto": fit(short, sizes, rows=of.pairs),
    "groups: kernel": fit(short, sizes, model="kernel", rows=of.pairs, steep=True),
    "copies: auto": fit(short, sizes, rows=of.copies),
    "copies: kernel": fit(short, sizes, model="kernel", rows=of.copies),
    "single_sample: auto": fit(full, rows=sized(150, 500), **SINGLE),
    "single_sample: kernel": fit(full, kept, model="kernel", rows=sized(150, 500), **SINGLE),
    "single_sample: classifier": fit(full, model="classifier", rows=sized(150, 500), **SINGLE),
    "fit_pu_with_weights": Golden(of.fit_pu_with_weights),
    "labels: texts": fit(classes, model="classifier", pos_label="yes", rows=of.coded("no", "yes")),
    "labels: numbers": fit(classes, model="classifier", rows=of.coded(7, -7)),
    "labels: gaps": fit(classes, model="classifier", rows=of.coded(np.nan, 1.0)),
    # -- single kinds of models -------------------------------------------------------------
    "kernel: centroids": fit(short, kept, alone, model=KernelRatio(), holdout=3),
    "kernel: features": fit(short, kept, alone, model=KernelRatio("features", n_centres=60), holdout=3),
    "kernel: rows": fit(short, kept, alone, model=KernelRatio("rows", n_centres=60), holdout=3),
    "kernel: fixed": fit(
        short, kept, alone, model=KernelRatio(width=1.0, ridge=0.1, n_centres=30), holdout=3
    ),
    "boosted: log": fit(*TREES, model=BoostedRatio(n_rounds=40), holdout=3),
    "boosted: default": fit(*TREES, model=BoostedRatio(), holdout=3),
    "boosted: stopped": fit(*TREES, model=BoostedRatio(early_stopping=True, n_rounds=60), holdout=3),
    "boosted_gaps_and_categories": Golden(of.boosted_gaps_and_categories),
    "boosted_sparse": Golden(of.boosted_sparse),
    "kernel_full": fit(full, model="kernel", rows=sized(300, 700)),
    "boosted_full": fit(full, model="boosted", rows=sized(300, 700)),
    "classifier: default": fit(short, kept, alone, model="classifier"),
    "classifier: logistic": fit(short, kept, alone, model=LogisticRegression()),
    "classifier: pipeline": fit(
        short, kept, alone, model=make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    ),
    "classifier_frame": fit(
        short, model=make_pipeline(COLUMNS, LogisticRegression()), rows=of.mixed, needs=("pandas",)
    ),
    "pipeline_around": Golden(of.pipeline_around),
    # -- networks ---------------------------------------------------------------------------
    "network: bkl": learner(alpha=0.3),
    "network: lsif relu": learner(alpha=0.3, generator="lsif", head="relu"),
    "network: ukl exp": learner(alpha=0.3, generator="ukl", head="exp"),
    "network: auto alpha": learner(),
    "network: adam": learner(alpha=0.3, optimizer="adam", ema=None, decay="step", early_stopping=False),
    "network: teachers": learner(alpha=0.3, teachers=2, rounds=2, students=2, mixup=True),
    "network_classifier: perceptron": fit(full, kept, holdout=2, **net(alpha=0.3)),
    "network_classifier: teachers": fit(full, kept, holdout=2, **net(alpha=0.3, teachers=2, students=2)),
    "network_of_the_user": fit(
        short, partial(kept, module=module), holdout=2, **TORCH,
        model=NetworkRatio(module, alpha=0.3, epochs=3, device="cpu", dtype="float64"),
    ),
    "images: plain": fit(short, kept, **AROUND_IMAGES, **net(**IMAGES)),
    "images: views": fit(
        short, kept, **AROUND_IMAGES, **net(**IMAGES, augment="shift-flip", average_views=True)
    ),
    "images: teachers": fit(
        short, kept, **AROUND_IMAGES, **net(**IMAGES, teachers=1, students=2, augment="crop")
    ),
    "images: perceptron": fit(short, kept, **AROUND_IMAGES, **net(**IMAGES, network="perceptron")),
    # -- settings of the classifier ---------------------------------------------------------
    "options: two folds": fit(short, expected, model="kernel", holdout=2),
    "options: a share": fit(short, expected, model="kernel", holdout=0.3),
    "options: a share of the default": fit(short, expected, holdout=0.3),
    "options: uncalibrated": fit(short, expected, model="kernel", calibrate=False),
    "options: uncalibrated default": fit(short, expected, calibrate=False, holdout=3),
    "options: uncalibrated single sample": fit(short, expected, model="kernel", calibrate=False, **SINGLE),
    "options: test prior and cost": fit(of.at_prior(0.1, short, expected), model="kernel", cost=0.3),
    "options: amounts": fit(short, expected, model="kernel", cost=drpu.Costs(5, 200)),
    "options: two jobs": fit(short, expected, model="boosted", n_jobs=2),
    "train_priors": Golden(of.train_priors, slow=True),
    # -- groups and audits ------------------------------------------------------------------
    "adapt_by: auto": fit(by_group, holdout=3),
    "adapt_by: classifier": fit(by_group, model="classifier", holdout=3),
    "audit: auto": fit(audited(n=60), rows=sized(*OVERLAP, own=True)),
    "audit: classifier": fit(audited(n=60), model="classifier", rows=sized(*OVERLAP, own=True)),
    "audit: width": fit(audited(width=0.15), model="classifier", rows=sized(*OVERLAP, own=True)),
    "audit: training": fit(
        audited(n=40, population="training"), model="classifier", rows=sized(*OVERLAP, own=True)
    ),
    "audit: single sample": fit(
        audited(n=60), model="classifier", rows=sized(*OVERLAP, own=True), **SINGLE
    ),
    "audits_of_unlabeled_and_random_rows": Golden(of.audits_of_unlabeled_and_random_rows),
    # -- graphs -----------------------------------------------------------------------------
    "onnx: default": fit(graph, **GRAPH),
    "onnx: weighted members": fit(graph, rows=sized(1300, 1800), **GRAPH),
    "onnx: kernel": fit(graph, model="kernel", **GRAPH),
    "onnx: features": fit(graph, model=KernelRatio("features", n_centres=40), **GRAPH),
    "onnx: boosted": fit(graph, model=BoostedRatio(n_rounds=30), **GRAPH),
    "onnx: single sample": fit(graph, model="kernel", **SINGLE, **GRAPH),
    "onnx: uncalibrated": fit(graph, model="kernel", calibrate=False, **GRAPH),
    "onnx_network: perceptron": fit(
        graph, **net(alpha=0.3) | {"holdout": 2, "needs": ("torch", "onnx", "onnxruntime")}
    ),
    # -- the other PU methods ---------------------------------------------------------------
    "rival: upu": fit(rival, clf=drpu.UPUClassifier(prior=0.4)),
    "rival: upu squared linear": fit(rival, clf=drpu.UPUClassifier("linear", loss="squared", prior=0.4)),
    "rival: upu km2": fit(rival, clf=drpu.UPUClassifier("linear", cost=0.3)),
    "rival: nnpu": fit(rival, clf=drpu.NNPUClassifier(prior=0.4), steep=True),
    "rival: nnpu linear logistic": fit(
        rival, clf=drpu.NNPUClassifier("linear", loss="logistic", beta=0.1, gamma=0.5, prior="auto")
    ),
    "rival: nnpu single sample": fit(rival, clf=drpu.NNPUClassifier("linear", prior=0.5, **SINGLE)),
    "rival: pua": fit(rival, clf=drpu.PUaClassifier("linear", prior=0.4, test_prior=0.2)),
    "rival: puld": fit(rival, clf=drpu.PULDClassifier(rounds=3, prior=0.4), steep=True),
    "rival: puld linear": fit(rival, clf=drpu.PULDClassifier("linear", rounds=3, prior=0.4, cost=0.3)),
    "rival: elkan-noto": fit(
        rival, clf=drpu.ElkanNotoClassifier(ExtraTreesClassifier(10, min_samples_leaf=2))
    ),
    "rival: elkan-noto logistic": fit(rival, clf=drpu.ElkanNotoClassifier(LogisticRegression(), **SINGLE)),
    "rival: elkan-noto prior": fit(rival, clf=drpu.ElkanNotoClassifier(LogisticRegression(), prior=0.4)),
    "network_rival: upu": fit(rival, clf=drpu.UPUClassifier(NET, loss="logistic", prior=0.4), **TORCH),
    "network_rival: nnpu": fit(rival, clf=drpu.NNPUClassifier(NET, prior=0.4), **TORCH),
    "network_rival: pua": fit(rival, clf=drpu.PUaClassifier(NET, prior=0.4, test_prior=0.2), **TORCH),
    "network_rival: vpu": fit(rival, clf=drpu.VPUClassifier(NET), **TORCH),
    "network_rival: vpu prior": fit(rival, clf=drpu.VPUClassifier(NET, prior=0.4, mixup=1.0), **TORCH),
    "network_rival: genpu": fit(rival, clf=drpu.GenPUClassifier("kernel", prior=0.4, **GAME), **TORCH),
    "network_rival: genpu linear": fit(
        rival, clf=drpu.GenPUClassifier("linear", prior=0.4, test_prior=0.2, **GAME), **TORCH
    ),
    "pua_with_test_rows": fit(
        rival, of.prior_of_test_rows, clf=drpu.PUaClassifier("linear", prior="auto"), rows=of.with_test_rows
    ),
    "genpu_at_another_prior": fit(
        of.at_another_prior, clf=drpu.GenPUClassifier("linear", prior=0.4, **GAME), **TORCH
    ),
    "rival_frame": fit(
        decision, clf=drpu.NNPUClassifier("linear", prior=0.4), rows=of.filled, needs=("pandas",)
    ),
    # -- scores, counts, streams and clusters -----------------------------------------------
    "estimate_prior: continuous": Golden(partial(of.estimate_prior, None)),
    "estimate_prior: ties": Golden(partial(of.estimate_prior, 1)),
    "kernel_mean_prior": Golden(of.kernel_mean_prior, slow=True),
    "score_tails": Golden(of.score_tails),
    "thresholds": Golden(of.thresholds),
    "prior_monitor: window": Golden(partial(of.prior_monitor, 400)),
    "prior_monitor: all": Golden(partial(of.prior_monitor, None)),
    "parquet_batches": Golden(of.parquet_batches, ("pyarrow", "pandas")),
    "scorers": Golden(of.scorers),
    "data_sets": Golden(of.data_sets),
    "dask_trees": Golden(of.dask_trees, ("dask", "distributed", "pandas"), slow=True),
    "spark_trees": Golden(of.spark_trees, ("pyspark", "xgboost", "pandas"), slow=True),
}  # fmt: skip
