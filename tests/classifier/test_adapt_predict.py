"""Adapting and labelling in one pass."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.models.crossfit import Folds

DATA = make_gaussian_pu(200, 600, prior=0.4, test_prior=0.15, n_test=500, separation=3, random_state=0)


@pytest.fixture(scope="module")
def clf():
    return DRPUClassifier("kernel", random_state=0).fit_pu(DATA.positive, DATA.unlabeled)


@pytest.mark.parametrize("weighted", [False, True])
def test_one_call_is_adapt_and_then_predict(clf, weighted):
    weight = np.random.default_rng(0).integers(1, 4, len(DATA.test)) if weighted else None
    careful = clf.at_cost(0.7)
    adapted, labels = careful.adapt_predict(DATA.test, sample_weight=weight, level=0.9)
    apart = clf.adapt(DATA.test, sample_weight=weight, level=0.9).at_cost(0.7)
    assert adapted.prior_ == apart.prior_
    assert adapted.cost_ == 0.7
    assert_array_equal(labels, apart.predict(DATA.test))


def test_every_row_is_scored_once(clf, monkeypatch):
    scored = []
    once = Folds.fold_scores
    monkeypatch.setattr(Folds, "fold_scores", lambda self, X: scored.append(len(X)) or once(self, X))
    clf.adapt_predict(DATA.test)
    assert sum(scored) == len(DATA.test)
