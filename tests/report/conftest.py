import pytest

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.report import render_report

SEED = 5


@pytest.fixture(scope="session")
def data():
    return make_gaussian_pu(
        120, 600, prior=0.5, test_prior=0.2, n_test=600, separation=3, dimensions=2, random_state=SEED
    )


@pytest.fixture(scope="session")
def classifier(data):
    return DRPUClassifier("classifier", scenario="case-control", random_state=0).fit(*data.X_y())


@pytest.fixture(scope="session")
def single(data):
    """A classifier fitted to a single sample."""
    return DRPUClassifier("classifier", scenario="single-sample", random_state=0).fit(*data.X_y())


@pytest.fixture(scope="session")
def page(classifier, data):
    return render_report(classifier, data.test, title="June <b> & July")


@pytest.fixture(scope="session")
def costly_page(classifier, data):
    return render_report(classifier, data.test, cost=0.6)
