"""The synthetic experiment of the paper, with the closed-form model and public names only."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from drpu import DRPUClassifier, KernelRatio, make_gaussian_pu

SEEDS = range(10)
TRAIN_PRIOR, TEST_PRIOR = 0.4, 0.6
ORACLE = np.log(1 / TEST_PRIOR - 1) / 2  # where p(positive | x) = 1/2 under the test prior: -.203


def boundary(classifier):
    """The point where the label changes, once along the line between the classes."""
    x = np.linspace(-2, 2, 801)
    decision = classifier.decision_function(x[:, None])
    at = np.flatnonzero(np.diff(np.sign(decision)))
    assert len(at) == 1
    return brentq(lambda t: classifier.decision_function([[t]])[0], x[at[0]], x[at[0] + 1])


@pytest.fixture(scope="module")
def runs():
    """Training prior, test prior and boundary by seed: 200 P + 1000 U to learn, 100 P + 500 U held out."""
    found = []
    for seed in SEEDS:
        data = make_gaussian_pu(300, 1500, setting=1, n_test=1000, random_state=seed)
        clf = DRPUClassifier(KernelRatio(), holdout=1 / 3, random_state=seed).fit_pu(
            data.positive, data.unlabeled
        )
        adapted = clf.adapt(data.test)
        found.append((clf.prior_.value, adapted.prior_.value, boundary(adapted)))
    return np.array(found)


def test_both_priors_are_met_within_4_points_on_average(runs):
    train, test, _ = runs.mean(axis=0)
    assert abs(train - TRAIN_PRIOR) < 0.04
    assert abs(test - TEST_PRIOR) < 0.04


def accuracy(at):
    """Accuracy under the test prior of a boundary between classes centred at 1 and -1."""
    return TEST_PRIOR * norm.sf(at - 1) + (1 - TEST_PRIOR) * norm.cdf(at + 1)


def test_boundaries_lose_less_than_2_points_of_accuracy_on_average(runs):
    assert accuracy(ORACLE) - accuracy(runs[:, 2]).mean() < 0.02
