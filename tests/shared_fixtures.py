"""Small data and fast models that the estimator tests share."""

import pytest

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.exceptions import heard


def case_control(model="classifier", **parameters):
    """A classifier of positives and unlabeled rows that were drawn apart; the model is fast."""
    return DRPUClassifier(model, scenario="case-control", random_state=0, **parameters)


@pytest.fixture(scope="session")
def toy():
    return make_gaussian_pu(
        300, 900, prior=0.5, n_test=1500, test_prior=0.15, separation=3, dimensions=2, random_state=0
    )


@pytest.fixture(scope="session")
def fitted(toy):
    return case_control().fit(*toy.X_y())


# -- audits: classes that overlap, so that labels are needed -----------------------------------------

OVERLAP = 1.6  # separation at which positives and unlabeled rows do not identify the prior


@pytest.fixture(scope="session")
def audit_data():
    return make_gaussian_pu(
        400, 2000, prior=0.4, test_prior=0.15, n_test=3000, separation=OVERLAP, random_state=0
    )


@pytest.fixture(scope="session")
def audit_clf(audit_data):
    with heard():
        return case_control().fit(*audit_data.X_y())


@pytest.fixture(scope="session")
def plan(audit_clf, audit_data):
    return audit_clf.plan_audit(audit_data.test, n=120, random_state=0)


@pytest.fixture(scope="session")
def audit(plan, audit_data):
    return plan.answer(audit_data.test_labels[plan.rows])


@pytest.fixture(scope="session")
def june(audit_clf, audit_data, audit):
    with heard():  # 5 % of fair labels are rejected
        return audit_clf.adapt(audit_data.test, audit=audit)


# -- pages -------------------------------------------------------------------------------------------


def empty_figure(figure):
    """A figure of a page without a drawing, with the marks that the script moves."""
    marks = "".join(f'<g id="{figure.name}-{mark}"></g>' for mark in ("cut", "checked"))
    return f'<svg id="{figure.name}" data-x="0 1 0 1" data-y="0 1 0 1">{marks}</svg>'
