"""Rows for fits on a cluster, and the laws that hold for each kind of cluster."""

import numpy as np
import pandas as pd
from numpy.testing import assert_array_equal
from sklearn.metrics import roc_auc_score

from drpu import BoostedRatio, DRPUClassifier, load, save
from drpu.models.boosted import BoostedFunction

COLUMNS = ["a", "b", "c"]
PRIOR = 0.4


def make_rows(n, seed=0):
    """A table with a label column of a single sample, and its true classes."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < PRIOR
    frame = pd.DataFrame(rng.normal(size=(n, 3)) + 1.3 * y[:, None], columns=COLUMNS)
    frame["label"] = (y & (rng.random(n) < 0.5)).astype(int)
    frame["id"] = np.arange(n)
    return frame, y


def assert_like_a_local_fit(fitted, rows, *, auc, prior):
    """The AUC on new rows and the prior differ from those of a fit in memory by at most these numbers."""
    local = DRPUClassifier(BoostedRatio(n_rounds=40), scenario="single-sample", random_state=0)
    local.fit(rows[COLUMNS], rows["label"])
    new, truth = make_rows(len(rows), seed=1)
    found, there = (roc_auc_score(truth, clf.decision_function(new[COLUMNS])) for clf in (fitted, local))
    assert abs(found - there) < auc
    assert abs(fitted.prior_.value - local.prior_.value) < prior
    assert fitted.prior_.low < PRIOR < fitted.prior_.high


def assert_needs_no_cluster(fitted, rows, folder):
    """The fitted models are ordinary ones, and the classifier is saved and loaded like any other."""
    assert [type(part) for part in fitted.model_.functions] == [BoostedFunction]
    assert list(fitted.feature_names_in_) == COLUMNS
    save(fitted, folder / "clf.drpu")
    again = load(folder / "clf.drpu")
    assert_array_equal(again.predict(rows[COLUMNS]), fitted.predict(rows[COLUMNS]))
    assert again.adapt(rows[COLUMNS]).prior_ == fitted.adapt(rows[COLUMNS]).prior_
