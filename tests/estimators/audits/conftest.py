"""A classifier whose prior is not identified, an audit of new rows, and the classifier adapted with it."""

from __future__ import annotations

import warnings

import pytest

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.exceptions import DRPUWarning, LabelledSampleWarning

OVERLAP = 1.6  # separation at which positives and unlabeled rows do not identify the prior


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(
        400, 2000, prior=0.4, test_prior=0.15, n_test=3000, separation=OVERLAP, random_state=0
    )


@pytest.fixture(scope="module")
def clf(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)
        return DRPUClassifier("classifier", random_state=0).fit(*data.X_y())


@pytest.fixture(scope="module")
def plan(clf, data):
    return clf.plan_audit(data.test, n=120, random_state=0)


@pytest.fixture(scope="module")
def audit(plan, data):
    return plan.answer(data.test_labels[plan.rows])


@pytest.fixture(scope="module")
def june(clf, data, audit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelledSampleWarning)  # 5 % of fair labels are rejected
        return clf.adapt(data.test, audit=audit)
