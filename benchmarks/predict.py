"""What fits, adapt, predictions and starts cost, as ratios to LightGBM, and whether jobs help.

    python -m benchmarks.predict [--sizes 600:60 2000:200 10000:1000 40000:4000 50000:900 100000:10000]

Sizes are numbers of rows and of labelled positives. The default sizes have ten folds, five folds,
one split, and few positives among many rows. Each cost is the least of several measurements in turn,
in seconds of the processor, with one thread. ``averaged`` is the default without a model of all rows:
labels come from the average of the fold models. ``starts`` has the processor seconds of new
processes, and the modules and lines of drpu that the import of the classifier brings in.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from benchmarks._results import command_line, write_results
from benchmarks._scale_data import draw, first_labelled, labelled
from drpu import DRPUClassifier, save
from drpu.exceptions import DRPUWarning
from drpu.models.auto import AutoRatio, Average
from drpu.models.boosted import BoostedFunction
from drpu.models.ensembles import TreeFunction
from drpu.models.learner import Function, RatioLearner

ROWS = 5000  # of a large batch
SINGLE, BLOCK, REPEATS = 100, 10, 7
LAW = "network"
SHAPLEY_ROWS = 500
LIGHTGBM_ROUNDS = 100  # its own default
SIZES = ["600:60", "2000:200", "10000:1000", "40000:4000", "50000:900", "100000:10000"]
FITS = 2  # of which the faster one counts


class Averaged(AutoRatio):
    """The default without a function of all rows."""

    for_labels = RatioLearner.for_labels


def rounds_of(function: Function) -> int:
    """Number of trees of a boosted function."""
    assert isinstance(function, BoostedFunction)
    return function.n_rounds


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


def shapley_values(member: TreeFunction, X: Any) -> Any:
    """LightGBM's Shapley values of trees, without the mean output."""
    values = member.trees.booster.predict(X, pred_contrib=True, num_threads=1)[:, :-1]
    return values / len(member.trees) if member.trees.averaged else values


def explained(clf: DRPUClassifier, new: Any) -> dict[str, Any]:
    """Cost of the reasons of a row beside that of its label, and how close they are to Shapley values."""
    reasons_us = 1e6 * least(lambda: clf.reasons(new)) / len(new)
    few = new[:SHAPLEY_ROWS]
    function = clf.model_.label_functions[0]
    assert isinstance(function, Average)
    trees = [member for member in function.members if isinstance(member, TreeFunction)]
    start = time.process_time()
    values = [shapley_values(member, few) for member in trees]
    shapley_us = 1e6 * (time.process_time() - start) / len(few) * len(clf.model_.label_functions)
    parts = [member.trees.contributions(member.reached_leaves(few))[0] for member in trees]
    agreement = [np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(values, parts, strict=True)]
    return {"reasons_us": reasons_us, "shapley_us": shapley_us, "correlation": float(min(agreement))}


def measured(n: int, positives: int) -> dict[str, Any]:
    """Costs at one size, beside LightGBM with its own rounds and with those of the boosted model."""
    X, y = draw(LAW, n)
    label = first_labelled(y, positives)
    new, truth = draw(LAW, ROWS, seed=1000)
    options: dict[str, Any] = {"scenario": "single-sample", "random_state": 0}
    settings = {"objective": "binary", "num_threads": 1, "verbosity": -1}
    fit = lightgbm_fit = np.inf
    for _ in range(FITS):
        start = time.process_time()
        clf = DRPUClassifier(**options).fit(X, label)
        fit = min(fit, time.process_time() - start)
        start = time.process_time()
        lightgbm.train(settings, lightgbm.Dataset(X, label), LIGHTGBM_ROUNDS)
        lightgbm_fit = min(lightgbm_fit, time.process_time() - start)
    start = time.process_time()
    averaged = DRPUClassifier(Averaged(), **options).fit(X, label)
    fit_averaged = time.process_time() - start
    boosted = DRPUClassifier("boosted", **options).fit(X, label)
    rounds = max(rounds_of(function) for function in boosted.model_.functions)
    adapted = clf.at_prior(0.2)
    costs = {
        "predict": row_costs(clf.predict, new),
        "predict_proba": row_costs(clf.predict_proba, new),
        "ratio": row_costs(clf.ratio, new),
        "adapted predict": row_costs(adapted.predict, new),
        "adapted predict_proba": row_costs(adapted.predict_proba, new),
        "averaged predict": row_costs(averaged.predict, new),
        "count": row_costs(clf.count, new),
    }
    for name, number in (("lightgbm", LIGHTGBM_ROUNDS), ("lightgbm as boosted", rounds)):
        booster = lightgbm.train(settings, lightgbm.Dataset(X, label), number)
        costs[name] = row_costs(partial(booster.predict, num_threads=1), new)
    many = costs["predict"]["many_us"]
    adapt_us = 1e6 * least(lambda: clf.adapt(new)) / len(new)
    return {
        "rows": n,
        "positives": positives,
        "folds": len(clf.model_.functions),
        "boosted_rounds": rounds,
        "costs": costs,
        "many_ratio": many / costs["lightgbm"]["many_us"],
        "many_ratio_as_boosted": many / costs["lightgbm as boosted"]["many_us"],
        "many_ratio_averaged": costs["averaged predict"]["many_us"] / costs["lightgbm"]["many_us"],
        "alone_ratio": costs["predict"]["alone_ms"] / costs["lightgbm"]["alone_ms"],
        "explained": explained(clf, new),
        "adapt_us": adapt_us,
        "adapt_ratio": adapt_us / costs["lightgbm"]["many_us"],
        "fit_seconds": fit,
        "fit_ratio": fit / lightgbm_fit,
        "fit_seconds_averaged": fit_averaged,
        "auc": float(roc_auc_score(truth, clf.decision_function(new))),
        "auc_averaged": float(roc_auc_score(truth, averaged.decision_function(new))),
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


IMPORT = "import drpu; drpu.DRPUClassifier"
IMPORTED = """
import sys
files = [m.__file__ for name, m in sys.modules.items() if name.split(".")[0] == "drpu"]
print(len(files), sum(len(open(file).readlines()) for file in files))
"""


def process_seconds(*words: str) -> float:
    """Processor seconds of a new process of Python, the least of several."""
    seconds = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


def starts() -> dict[str, Any]:
    """What an import and the commands that only read a file cost, the default fitted to 2,000 rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "default.drpu")
        X, label = labelled(LAW, 2000)
        save(DRPUClassifier(scenario="single-sample", random_state=0).fit(X, label), path)
        seconds = {
            "python": process_seconds("-c", "pass"),
            "import": process_seconds("-c", IMPORT),
            "scikit-learn": process_seconds("-c", "import sklearn.base"),
            "inspect": process_seconds("-m", "drpu.cli", "inspect", path),
            "verify": process_seconds("-m", "drpu.cli", "verify", path),
        }
    code = f"{IMPORT}\n{IMPORTED}"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    modules, lines = map(int, told.stdout.split())
    return {"seconds": seconds, "modules": modules, "lines": lines}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="rows:positives of each size")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DRPUWarning)
    np.seterr(all="ignore")
    sizes = []
    for size in options.sizes:
        with threadpool_limits(1):  # seconds of the processor count those of every thread
            sizes.append(measured(*map(int, size.split(":"))))
        print(size, {k: v for k, v in sizes[-1].items() if k != "costs"}, flush=True)
    rows = [one["rows"] for one in sizes[:2]]
    side_by_side = [jobs(n, model) for model in ("auto", "kernel") for n in rows]
    command = f"python -m benchmarks.predict --sizes {' '.join(options.sizes)}"
    results = {"sizes": sizes, "jobs": side_by_side, "starts": starts()}
    print(results["starts"])
    print("wrote", write_results("predict", command, columns=30, **results))


if __name__ == "__main__":
    main()
