"""Small, fast settings of the other PU methods, and their common data."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from drpu import (
    ElkanNotoClassifier,
    GenPUClassifier,
    NNPUClassifier,
    PUaClassifier,
    PULDClassifier,
    UPUClassifier,
    VPUClassifier,
    make_gaussian_pu,
)
from drpu.networks.learner import NetworkScore
from learners import KernelScore, LinearScore

SMOOTH, NET = KernelScore(50, ridge=1e-3), NetworkScore(hidden=(8,), epochs=2)
GAME = {"steps": 3, "hidden": (8,), "batch_size": 8, "n_generated": 20}
TINY = {
    "upu": UPUClassifier(SMOOTH, prior=0.4, scenario="case-control"),
    "upu-squared": UPUClassifier(LinearScore(ridge=1e-3), loss="squared", prior=0.4, scenario="case-control"),
    "nnpu": NNPUClassifier(SMOOTH, prior=0.4, scenario="case-control"),
    "nnpu-network": NNPUClassifier(NET, loss="logistic", prior=0.4, scenario="case-control"),
    "pua": PUaClassifier(LinearScore(ridge=1e-3), prior=0.4, test_prior=0.3, scenario="case-control"),
    "vpu": VPUClassifier(NET, scenario="case-control"),
    "genpu": GenPUClassifier(KernelScore(20, ridge=1e-3), prior=0.4, **GAME, scenario="case-control"),
    "puld": PULDClassifier(KernelScore(50), rounds=2, prior=0.4, scenario="case-control"),
    "elkan-noto": ElkanNotoClassifier(LogisticRegression(), scenario="case-control"),
}
REPEATED = dict.fromkeys(("upu-squared", "nnpu-network"), pytest.mark.slow)  # classes that are there twice
rivals = pytest.mark.parametrize(
    "rival", [pytest.param(rival, id=name, marks=REPEATED.get(name, ())) for name, rival in TINY.items()]
)


def make_toy():
    return make_gaussian_pu(
        100, 250, prior=0.4, test_prior=0.4, separation=5, dimensions=2, n_test=400, random_state=0
    )


def labelled_toy():
    rng = np.random.default_rng(0)
    label = rng.random(600) < 0.5
    return rng.normal(np.where(label, 2.0, -2.0)[:, None], 1, (600, 2)), label


def fitted(rival, toy, **parameters):
    parameters = {"random_state": 0} | parameters
    return clone(rival).set_params(**parameters).fit(*toy.X_y())
