"""Wrong labels among positives: the order of ``drpu.suspects`` compared with that of cleanlab.

    python -m benchmarks.suspects --data FOLDER [--seeds 2] [--rows 1000]

Sets of scikit-learn, and every Parquet table of FOLDER with a target ``y``. At most 1000 rows with
half positives, half of which are labelled; then 5 % of the labelled rows are replaced by negatives. Measured
is the share of planted rows among the first k labelled rows, with k the number of planted ones. cleanlab
orders labelled rows by the held-out probability of their label, from five folds of logistic regression (its
own default), gradient boosting or a random forest; the other rows have the second label. ``expected`` is the
number of wrong labels that drpu expects, with its limits.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._results import command_line, write_results
from benchmarks._tables import draw, encode, generator
from drpu import DRPUClassifier, suspects

PRIOR, LABELLED, WRONG = 0.5, 0.5, 0.05


def sets(folder: Path | None) -> Iterator[tuple[str, pd.DataFrame, np.ndarray]]:
    """Names, rows and true labels."""
    for name, load, positive in (
        ("breast_cancer", load_breast_cancer, (0,)),
        ("digits", load_digits, (0, 2, 4, 6, 8)),
        ("wine", load_wine, (1,)),
    ):
        found = load(as_frame=True)
        yield name, found.data, np.isin(found.target, positive).astype(int)
    for path in sorted(folder.glob("*.parquet")) if folder is not None else ():
        frame = pd.read_parquet(path)
        yield path.stem, frame.drop(columns="y"), frame["y"].to_numpy().astype(int)


def plant(truth: np.ndarray, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, int]:
    """Chosen rows, which of them are labelled, and how many of these are negatives."""
    chosen = draw(truth, PRIOR, rows, rng)
    positive, negative = (np.flatnonzero(truth[chosen] == value) for value in (1, 0))
    n = round(LABELLED * len(positive))
    k = max(round(WRONG * n), 1)
    labelled = np.zeros(len(chosen), dtype=int)
    labelled[rng.choice(positive, n - k, replace=False)] = 1
    labelled[rng.choice(negative, k, replace=False)] = 1
    return chosen, labelled, k


def models(seed: int) -> dict[str, Any]:
    """The classifiers whose probabilities cleanlab gets."""
    return {
        "logistic": make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=500)),
        "boosting": HistGradientBoostingClassifier(random_state=seed),
        "forest": RandomForestClassifier(200, random_state=seed),
    }


def trial(name: str, frame: pd.DataFrame, truth: np.ndarray, rows: int, seed: int) -> dict[str, Any]:
    """The share of planted rows among the first k, for each method."""
    get_label_quality_scores = import_module("cleanlab.rank").get_label_quality_scores
    chosen, labelled, k = plant(truth, rows, generator(name, "suspects", seed))
    truth, table = truth[chosen], frame.iloc[chosen].reset_index(drop=True)

    def planted(order: np.ndarray) -> float:
        return float(np.mean(truth[order[:k]] == 0))

    clf = DRPUClassifier(holdout=2, scenario="single-sample", random_state=seed).fit(table, labelled)
    found = suspects(clf, table, labelled)
    numbers = encode(table)
    numbers = numbers.toarray() if hasattr(numbers, "toarray") else numbers
    at, shares = np.flatnonzero(labelled), {"drpu": planted(found.positions)}
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    for model, estimator in models(seed).items():
        probability = cross_val_predict(estimator, numbers, labelled, cv=folds, method="predict_proba")
        quality = get_label_quality_scores(labelled, probability)
        shares[f"cleanlab_{model}"] = planted(at[np.argsort(quality[at], kind="stable")])
    expected = [found.expected.value, found.expected.low, found.expected.high]
    return {"labelled": int(labelled.sum()), "planted": k, "expected": expected, "found": shares}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--data", type=Path, help="folder of Parquet tables")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=1000)
    options = parser.parse_args()
    if find_spec("cleanlab") is None:
        print("benchmarks.suspects compares with cleanlab, which is not installed: pip install cleanlab")
        return
    results: dict[str, Any] = {}
    for name, frame, truth in sets(options.data):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trials = [trial(name, frame, truth, options.rows, seed) for seed in range(options.seeds)]
        shares = {way: float(np.mean([one["found"][way] for one in trials])) for way in trials[0]["found"]}
        results[name] = {"found": shares, "trials": trials}
        print(name, {way: round(share, 3) for way, share in shares.items()}, flush=True)
    mean = {way: float(np.mean([one["found"][way] for one in results.values()])) for way in shares}
    print("mean", {way: round(share, 3) for way, share in mean.items()})
    data = "" if options.data is None else " --data FOLDER"
    command = f"python -m benchmarks.suspects{data} --seeds {options.seeds} --rows {options.rows}"
    print("wrote", write_results("suspects", command, cleanlab=version("cleanlab"), mean=mean, sets=results))


if __name__ == "__main__":
    main()
