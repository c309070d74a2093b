"""The two synthetic settings: where the classifiers draw the line."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from drpu import DRPUClassifier, KernelRatio, UPUClassifier, make_gaussian_pu
from drpu.exceptions import DRPUWarning
from paper.progress import progress
from paper.store import Key, versions, write_result

__all__ = ["SETTINGS", "boundary", "oracle", "run_synthetic"]

SETTINGS = {"irreducible": 1, "reducible": 2}
REACH = 4.0  # lines are looked for this far from the middle


def run_synthetic(flavours: Sequence[str], trials: Sequence[int], out: Path) -> None:
    """Fit both methods of figure 1 where results are missing.

    The model is the text's, linear in Gaussians, and fitted in closed form or to the end:
    what the authors' loop leaves after 200 epochs is not reproduced.
    """
    if "ours" not in flavours:
        return
    keys = [
        Key("synthetic", name, "ours", method, trial)
        for name in SETTINGS
        for method in ("drpu", "upu")
        for trial in trials
    ]
    left = [key for key in keys if not (out / key.name).is_file()]
    for key in progress(left, [1] * len(left), "synthetic"):
        write_result(key, _fit(key), out)


def oracle(name: str) -> float:
    """Where the two classes are as likely as each other at the test prior."""
    data = make_gaussian_pu(10, 10, setting=SETTINGS[name], n_test=10, random_state=0)
    x = np.linspace(-REACH, REACH, 80_001)
    posterior = data.classes.posterior(x, float(data.test_prior or 0))
    return float(x[np.argmin(np.abs(posterior - 0.5))])


def boundary(classifier: Any) -> float | None:
    """The middlemost point where the label changes, or None."""
    x = np.linspace(-REACH, REACH, 8001)
    sign = classifier.decision_function(x[:, None]) > 0
    at = np.flatnonzero(sign[1:] != sign[:-1])
    return float(x[at[np.argmin(np.abs(x[at]))]]) if len(at) else None


def _fit(key: Key) -> dict[str, Any]:
    data = make_gaussian_pu(300, 1500, setting=SETTINGS[key.dataset], n_test=1000, random_state=key.trial)
    assert data.test is not None
    assert data.test_labels is not None
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)
        classifier: Any
        if key.method == "drpu":
            fitted = DRPUClassifier(KernelRatio("rows"), holdout=1 / 3, random_state=key.trial)
            classifier = fitted.fit_pu(data.positive, data.unlabeled).adapt(data.test)
            train, found = fitted.prior_.value, classifier.prior_.value
        else:
            classifier = UPUClassifier("kernel", prior="km2", random_state=key.trial)
            classifier.fit_pu(data.positive, data.unlabeled)
            train, found = classifier.prior_.value, None
    seconds = time.perf_counter() - start
    scores = classifier.decision_function(data.test)
    line = {
        "test_prior": data.test_prior,
        "accuracy": float(((scores > 0) == data.test_labels).mean()),
        "auc": float(roc_auc_score(data.test_labels, scores)),
        "estimated_prior": found,
    }
    return {
        "seconds": round(seconds, 4),
        "train_prior": data.train_prior,
        "estimated_train_prior": train,
        "boundary": boundary(classifier),
        "oracle": oracle(key.dataset),
        "tests": [line],
        "seed": key.trial,
        "settings": {"n_positive": 300, "n_unlabeled": 1500, "holdout": 1 / 3},
        "versions": versions("cpu"),
    }
