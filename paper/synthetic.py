"""The two synthetic settings, and the decision boundaries of the classifiers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from drpu import (
    DRPUClassifier,
    KernelMeanPrior,
    KernelRatio,
    NetworkRatio,
    ScoreTails,
    UPUClassifier,
    make_gaussian_pu,
    ratio_threshold,
)
from drpu.beliefs.methods import prior_from_tails
from drpu.datasets import PUData
from drpu.exceptions import DRPUWarning
from drpu.models.risks import LOSSES, ShiftedRisk
from drpu.networks.learner import NetworkScore
from paper.progress import progress
from paper.stacks import Places, fit_many
from paper.store import Key, missing, versions, write_result

__all__ = ["SETTINGS", "boundary", "gaussians", "oracle", "run_synthetic"]

SETTINGS = {"irreducible": 1, "reducible": 2}
REACH = 4.0  # boundaries are searched at most this far from 0
EPOCHS = 200


def run_synthetic(flavours: Sequence[str], trials: Sequence[int], out: Path) -> None:
    """Fit both methods of figure 1 where results are missing.

    The model is linear in Gaussians in all flavours. Ours fits it in closed form, or until it converges;
    the others train it as the authors did, by Adam for 200 epochs.
    """
    keys = [
        Key("synthetic", name, flavour, method, trial)
        for flavour in flavours
        for name in SETTINGS
        for method in ("drpu", "upu")
        for trial in trials
    ]
    left = missing(keys, out)
    for key in progress(left, [1] * len(left), "synthetic"):
        write_result(key, _fit(key), out)


def oracle(name: str) -> float:
    """The point where both classes have the same probability at the test prior."""
    data = make_gaussian_pu(10, 10, setting=SETTINGS[name], n_test=10, random_state=0)
    x = np.linspace(-REACH, REACH, 80_001)
    posterior = data.classes.posterior(x, float(data.test_prior or 0))
    return float(x[np.argmin(np.abs(posterior - 0.5))])


def boundary(classifier: Any) -> float | None:
    """The point closest to 0 where the label changes, or None."""
    x = np.linspace(-REACH, REACH, 8001)
    sign = classifier.decision_function(x[:, None]) > 0
    at = np.flatnonzero(sign[1:] != sign[:-1])
    return float(x[at[np.argmin(np.abs(x[at]))]]) if len(at) else None


class _Fixed:
    """A score function with a threshold, made from a fitted model and its priors."""

    def __init__(self, score: Any, level: float) -> None:
        self.score, self.level = score, level

    def decision_function(self, X: Any) -> Any:
        """Score minus threshold, above 0 for rows that are classified as positive."""
        return self.score(X) - self.level


def _fit(key: Key) -> dict[str, Any]:
    n_test = 500 if key.flavour == "as-run" else 1000
    data = make_gaussian_pu(300, 1500, setting=SETTINGS[key.dataset], n_test=n_test, random_state=key.trial)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)
        fit = _ours if key.flavour == "ours" else _trained
        classifier, train, found = fit(key, data)
    seconds = time.perf_counter() - start
    scores, labels = classifier.decision_function(data.test), data.test_labels
    line = {
        "test_prior": data.test_prior,
        "accuracy": float(((scores > 0) == labels).mean()),
        "auc": float(roc_auc_score(labels, scores)),
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
        "settings": {"n_positive": 300, "n_unlabeled": 1500, "holdout": 1 / 3, "n_test": n_test},
        "versions": versions("cpu"),
    }


def _ours(key: Key, data: PUData) -> tuple[Any, float, float | None]:
    """The fitted classifier and its two priors."""
    if key.method == "upu":
        classifier = UPUClassifier("kernel", prior="km2", scenario="case-control", random_state=key.trial)
        classifier.fit_pu(data.positive, data.unlabeled)
        return classifier, classifier.prior_.value, None
    fitted = DRPUClassifier(
        KernelRatio("rows"), holdout=1 / 3, scenario="case-control", random_state=key.trial
    )
    adapted = fitted.fit_pu(data.positive, data.unlabeled).adapt(data.test)
    return adapted, fitted.prior_.value, adapted.prior_.value


def _trained(key: Key, data: PUData) -> tuple[Any, float, float | None]:
    """The same, trained as in the paper, with 200 positives and 1000 unlabeled rows."""
    positive, unlabeled = data.positive[:200], data.unlabeled[:1000]
    options: dict[str, Any] = {
        "epochs": EPOCHS,
        "batch_size": 100 if key.flavour == "as-run" else 200,
        "learning_rate": 2e-5,
        "weight_decay": 0.1,
        "early_stopping": False,
        "device": "cpu",
        "random_state": key.trial,
    }
    run: dict[str, Any] = {"optimizer": "adam", "betas": (0.5, 0.999), "decay": "constant", "ema": None}
    module = partial(gaussians, unlabeled)
    rows = np.concatenate([positive, unlabeled])
    places = [Places(np.arange(200), np.arange(200, 1200))]
    accumulate = key.flavour == "as-run"
    if key.method == "upu":
        prior = KernelMeanPrior("km2").estimate(positive, unlabeled).value
        told = float(np.clip(prior, 0.01, 0.99))
        risks = [ShiftedRisk(told, told, LOSSES["logistic"])]
        scorers = [NetworkScore(module, **options)]
        (found_score,) = fit_many(scorers, rows, places, objectives=risks, run=run, accumulate=accumulate)
        return _Fixed(found_score.score, 0.0), prior, None
    # the paper mentions no correction here, and the risk of this model needs none
    run |= {"generator": "lsif", "head": "identity"}
    learner = NetworkRatio(module, alpha=0.0, **options)
    (ratio,) = fit_many([learner], rows, places, run=run, accumulate=accumulate)
    tails = ScoreTails(ratio.log_ratio(data.positive[200:])).update(ratio.log_ratio(data.unlabeled[1000:]))
    train = prior_from_tails(tails, method="paper").value
    seen = tails.empty().update(ratio.log_ratio(data.test))
    found = prior_from_tails(seen, method="paper").value
    return _Fixed(ratio.ratio, ratio_threshold(train, found)), train, found


def gaussians(centres: Any) -> Any:
    """A network that is linear in Gaussians of variance 1 with the given centres."""
    import torch
    from torch import nn

    class Gaussians(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.centres: torch.Tensor
            self.register_buffer("centres", torch.as_tensor(centres, dtype=torch.float32))

        def forward(self, rows: Any) -> Any:
            return torch.exp(-(torch.cdist(rows, self.centres) ** 2) / 2)

    return nn.Sequential(Gaussians(), nn.Linear(len(centres), 1))
