"""Accuracy of the default under prior shift, without given priors.

    python -m benchmarks.shift [--seeds 20]

Digits (even = positive) and breast_cancer (malignant = positive): one training
sample of prior 0.5 with 30 % of its positives labelled, unlabeled test samples of
prior 0.2, 0.5 and 0.8 from the remaining rows. Accuracy is the mean over the three.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from benchmarks._results import command_line, write_results
from drpu import DRPUClassifier, make_pu
from drpu.datasets import draw_at_prior
from drpu.exceptions import DRPUWarning

PRIORS = (0.2, 0.5, 0.8)
SCENARIO = "single-sample"


@dataclass(frozen=True)
class Trial:
    """One training sample and its three test samples."""

    seed: int
    seconds: float
    prior: float
    true_prior: float
    test_priors: list[float]
    covered: list[bool]
    accuracy: list[float]
    accuracy_as_trained: list[float]
    accuracy_known: list[float]


def load(name: str) -> tuple[Any, Any]:
    if name == "digits":
        X, digit = load_digits(return_X_y=True)
        return X, (digit % 2 == 0).astype(int)
    X, benign = load_breast_cancer(return_X_y=True)
    return X, 1 - benign


def trial(name: str, seed: int) -> Trial:
    X, y = load(name)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    train = make_pu(X_train, y_train, prior=0.5, labelled=0.3, scenario=SCENARIO, random_state=seed)
    start = time.process_time()
    clf = DRPUClassifier(scenario=SCENARIO, random_state=seed).fit(train.X, train.y)
    seconds = time.process_time() - start
    told = DRPUClassifier(scenario=SCENARIO, prior=train.prior, random_state=seed).fit(train.X, train.y)

    samples = [draw_at_prior(X_test, y_test, prior, random_state=seed) for prior in PRIORS]
    adapted = [clf.adapt(rows) for rows, _ in samples]
    priors = [classifier.prior_ for classifier in adapted]
    return Trial(
        seed,
        seconds,
        clf.prior_.value,
        train.prior,
        [prior.value for prior in priors],
        [prior.low <= truth <= prior.high for prior, truth in zip(priors, PRIORS, strict=True)],
        [_accuracy(c, *sample) for c, sample in zip(adapted, samples, strict=True)],
        [_accuracy(clf, *sample) for sample in samples],
        [_accuracy(told.at_prior(p), *sample) for p, sample in zip(PRIORS, samples, strict=True)],
    )


def _accuracy(classifier: Any, X: Any, y: Any) -> float:
    return float(np.mean(classifier.predict(X) == y))


def summary(trials: list[Trial]) -> dict[str, float]:
    accuracy = np.array([t.accuracy for t in trials])
    errors = np.abs(np.array([t.test_priors for t in trials]) - PRIORS)
    return {
        "accuracy": float(accuracy.mean()),
        "accuracy_standard_error": float(accuracy.mean(axis=1).std(ddof=1) / np.sqrt(len(trials))),
        "accuracy_as_trained": float(np.mean([t.accuracy_as_trained for t in trials])),
        "accuracy_priors_known": float(np.mean([t.accuracy_known for t in trials])),
        "train_prior_error": float(np.mean([abs(t.prior - t.true_prior) for t in trials])),
        "test_prior_error": float(errors.mean()),
        "test_prior_coverage": float(np.mean([t.covered for t in trials])),
        "fit_seconds": float(np.mean([t.seconds for t in trials])),
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore", DRPUWarning)  # few positives are intended here

    sets: dict[str, dict[str, Any]] = {}
    for name in ("digits", "breast_cancer"):
        trials = [trial(name, seed) for seed in range(options.seeds)]
        sets[name] = {"summary": summary(trials), "trials": [asdict(t) for t in trials]}
        print(f"{name:14s}", "  ".join(f"{key} {value:.4f}" for key, value in sets[name]["summary"].items()))
    command = f"python -m benchmarks.shift --seeds {options.seeds}"
    print("wrote", write_results("shift", command, scenario=SCENARIO, sets=sets))


if __name__ == "__main__":
    main()
