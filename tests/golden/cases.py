"""The golden cases, a table: fits of every kind on fixed data, and the results that are recorded of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from tests.golden import golden_results as of
from tests.golden.golden_results import (
    OVERLAP,
    alone,
    audited,
    by_group,
    contributions,
    counts,
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
    """A case: its function, the packages it needs, whether it takes seconds.

    ``steep``: Whether rounding can change the result, by another cluster or another number of steps.
    """

    results: Callable[[], dict[str, Any]]
    needs: tuple[str, ...] = ()
    slow: bool = False
    steep: bool = False


def fit(*recorded: Any, model: Any = "auto", clf: Any = None, rows: Any = None, **options: Any) -> Golden:
    """A classifier, by default ``DRPUClassifier(model, **options)``, fitted to rows; and what is recorded."""
    kind = {name: options.pop(name) for name in ("needs", "slow", "steep") if name in options}

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
    return {"model": NetworkRatio(**SMALL | options), "needs": ("torch",)}


def learner(**options: Any) -> Golden:
    """A small perceptron without a classifier."""
    return Golden(lambda: of.learnt(NetworkRatio(**SMALL | options, random_state=0)), ("torch",))


# In float64, because training in float32 amplifies the rounding of other processors to visible differences.
SMALL = {
    "hidden": (8,), "epochs": 3, "batch_size": 50, "learning_rate": 0.01, "device": "cpu", "dtype": "float64",
}  # fmt: skip
IMAGES = {"alpha": 0.3, "epochs": 2, "hidden": (2,)}
AROUND_IMAGES = {"rows": of.images, "prior": 0.4, "holdout": 0.3}
SINGLE = {"scenario": "single-sample"}
GRAPH = {"needs": ("onnx", "onnxruntime"), "holdout": 2}
NET = NetworkRatio(hidden=(8,), epochs=2, batch_size=50, device="cpu", dtype="float64")
GAME = {"steps": 4, "hidden": (8,), "batch_size": 16, "n_generated": 40, "noise": 4, "device": "cpu"}
TORCH: dict[str, Any] = {"needs": ("torch",)}
TREES = (short, contributions, kept, alone)

CASES: dict[str, Golden] = {
    # -- the default ------------------------------------------------------------------------
    "auto_by_positives: 8": fit(full, rows=sized(8, 60, own=True)),
    "auto_by_positives: 60": fit(full, contributions, rows=sized(60, 200, own=True)),
    "auto_by_positives: 300": fit(full, contributions, rows=sized(300, 700, own=True)),
    "auto_by_positives: 1300": fit(full, contributions, kept, rows=sized(1300, 1800, own=True), holdout=2),
    "auto_beyond_50000_rows": fit(short, contributions, kept, rows=of.flipped, holdout=0.2, slow=True),
    "auto_frame": fit(full, contributions, of.other_columns, kept, rows=of.mixed, needs=("pandas",)),
    "auto_weights": fit(short, of.weighted_prior, counts, sizes, rows=of.weighted),
    "single_sample: auto": fit(full, rows=sized(150, 500), **SINGLE),
    # -- single kinds of models -------------------------------------------------------------
    "kernel: centroids": fit(short, kept, alone, model=KernelRatio(), holdout=3),
    "kernel: features": fit(short, kept, alone, model=KernelRatio("features", n_centres=60), holdout=3),
    "boosted: default": fit(*TREES, model=BoostedRatio(), holdout=3),
    "classifier: default": fit(short, kept, alone, model="classifier"),
    # -- networks ---------------------------------------------------------------------------
    "network: bkl": learner(alpha=0.3),
    "network_classifier: perceptron": fit(full, kept, holdout=2, **net(alpha=0.3)),
    "images: augmented": fit(short, kept, **AROUND_IMAGES, **net(**IMAGES, augment="shift-flip")),
    # -- settings of the classifier ---------------------------------------------------------
    "options: uncalibrated": fit(short, expected, model="kernel", calibrate=False),
    "options: test prior and cost": fit(of.at_prior(0.1, short, expected), model="kernel", cost=0.3),
    # -- groups and audits ------------------------------------------------------------------
    "adapt_by: auto": fit(by_group, holdout=3),
    "audit: auto": fit(audited(n=60), rows=sized(*OVERLAP, own=True)),
    "audit: single sample": fit(
        audited(n=60), model="classifier", rows=sized(*OVERLAP, own=True), **SINGLE
    ),
    # -- graphs -----------------------------------------------------------------------------
    "onnx: default": fit(graph, **GRAPH),
    # -- the other PU methods ---------------------------------------------------------------
    "rival: upu": fit(rival, clf=drpu.UPUClassifier(prior=0.4)),
    "rival: nnpu": fit(rival, clf=drpu.NNPUClassifier(prior=0.4), steep=True),
    "rival: elkan-noto": fit(
        rival, clf=drpu.ElkanNotoClassifier(ExtraTreesClassifier(10, min_samples_leaf=2))
    ),
    "network_rival: vpu": fit(rival, clf=drpu.VPUClassifier(NET), **TORCH),
    "network_rival: genpu": fit(rival, clf=drpu.GenPUClassifier("kernel", prior=0.4, **GAME), **TORCH),
    # -- scores, counts, streams and clusters -----------------------------------------------
    "estimate_prior: continuous": Golden(of.estimate_prior),
    "prior_monitor: window": Golden(of.prior_monitor),
    "dask_trees": Golden(of.dask_trees, ("dask", "distributed", "pandas"), slow=True),
    "spark_trees": Golden(of.spark_trees, ("pyspark", "xgboost", "pandas"), slow=True),
}  # fmt: skip
