"""What predictions of the default cost, as ratios to LightGBM, and whether more jobs are slower.

    python -m benchmarks.predict [--rows 600 4000 12000 40000]

The sizes have ten folds, five folds that are averaged, five folds whose members are weighted,
and one split. Each cost is the least of several measurements in turn, in seconds of the processor,
with one thread. ``before`` is the same model with all trees in each fold, as
a single model has them.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import lightgbm
import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks._results import write_results
from benchmarks._scale_data import draw, labelled
from drpu import DRPUClassifier
from drpu.exceptions import DRPUWarning
from drpu.models.auto import AutoRatio
from drpu.models.base import RatioModel

ROWS = 5000  # of a large batch
SINGLE, BLOCK, REPEATS = 100, 10, 3
LAW = "network"
LIGHTGBM_ROUNDS = 100  # its own default


class Before(AutoRatio, kind="benchmark-before"):
    """The default with as many trees in each fold as in a single model."""

    for_folds = RatioModel.for_folds


def least(function: Callable[[], Any]) -> float:
    """Seconds of the fastest of several calls."""
    found = []
    for _ in range(REPEATS):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


def one_by_one(score: Callable[[Any], Any], rows: Any) -> None:
    for row in rows:
        score(row[None])


def row_costs(score: Callable[[Any], Any], new: Any) -> dict[str, float]:
    """Microseconds of a row of many, milliseconds of a row alone."""
    score(new[:1])  # what is prepared once
    blocks = [new[start : start + BLOCK] for start in range(0, SINGLE, BLOCK)]
    alone = min(least(partial(one_by_one, score, block)) for block in blocks)
    return {"many_us": 1e6 * least(lambda: score(new)) / len(new), "alone_ms": 1e3 * alone / BLOCK}


def measured(n: int) -> dict[str, Any]:
    """Costs at one size, beside LightGBM with its own rounds and with those of the boosted model."""
    X, label = labelled(LAW, n)
    new, truth = draw(LAW, ROWS, seed=1000)
    options: dict[str, Any] = {"scenario": "single-sample", "random_state": 0}
    start = time.process_time()
    clf = DRPUClassifier(**options).fit(X, label)
    fit = time.process_time() - start
    start = time.process_time()
    before = DRPUClassifier(Before(), **options).fit(X, label)
    fit_before = time.process_time() - start
    boosted = DRPUClassifier("boosted", **options).fit(X, label)
    rounds = max(model.n_rounds_ for model in boosted.model_.models)
    adapted = clf.at_prior(0.2)
    costs = {
        "predict": row_costs(clf.predict, new),
        "predict_proba": row_costs(clf.predict_proba, new),
        "ratio": row_costs(clf.ratio, new),
        "adapted predict": row_costs(adapted.predict, new),
        "adapted predict_proba": row_costs(adapted.predict_proba, new),
        "before predict": row_costs(before.predict, new),
    }
    settings = {"objective": "binary", "num_threads": 1, "verbosity": -1}
    for name, number in (("lightgbm", LIGHTGBM_ROUNDS), ("lightgbm as boosted", rounds)):
        booster = lightgbm.train(settings, lightgbm.Dataset(X, label), number)
        costs[name] = row_costs(partial(booster.predict, num_threads=1), new)
    many = costs["predict"]["many_us"]
    return {
        "rows": n,
        "positives": int(label.sum()),
        "folds": len(clf.model_.models),
        "boosted_rounds": rounds,
        "costs": costs,
        "many_ratio": many / costs["lightgbm"]["many_us"],
        "many_ratio_as_boosted": many / costs["lightgbm as boosted"]["many_us"],
        "many_ratio_before": costs["before predict"]["many_us"] / costs["lightgbm"]["many_us"],
        "alone_ratio": costs["predict"]["alone_ms"] / costs["lightgbm"]["alone_ms"],
        "fit_seconds": fit,
        "fit_seconds_before": fit_before,
        "auc": float(roc_auc_score(truth, clf.decision_function(new))),
        "auc_before": float(roc_auc_score(truth, before.decision_function(new))),
    }


def jobs(n: int, model: str) -> dict[str, Any]:
    """Wall time of two jobs over that of one, the least of several fits in turn."""
    X, label = labelled(LAW, n)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(REPEATS):
        for number, found in seconds.items():
            start = time.perf_counter()
            DRPUClassifier(model, scenario="single-sample", random_state=0, n_jobs=number).fit(X, label)
            found.append(time.perf_counter() - start)
    return {"rows": n, "model": model, "seconds": min(seconds[1]), "ratio": min(seconds[2]) / min(seconds[1])}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[600, 4000, 12_000, 40_000])
    options = parser.parse_args()
    warnings.simplefilter("ignore", DRPUWarning)
    np.seterr(all="ignore")
    sizes = []
    for n in options.rows:
        sizes.append(measured(n))
        print(n, {k: v for k, v in sizes[-1].items() if k != "costs"}, flush=True)
    side_by_side = [jobs(n, model) for model in ("auto", "kernel") for n in options.rows[:2]]
    command = f"python -m benchmarks.predict --rows {' '.join(map(str, options.rows))}"
    print("wrote", write_results("predict", command, columns=30, sizes=sizes, jobs=side_by_side))


if __name__ == "__main__":
    main()
