"""A classifier of a single sample, for tests of its later periods."""

import pytest
from periods_data import rows

from drpu import DRPUClassifier


@pytest.fixture(scope="session")
def clf():
    X, _, labels = rows(0, 4000, 0.3)
    return DRPUClassifier("kernel", scenario="single-sample", random_state=0).fit(X, labels)
