"""Small data and fast models that the estimator tests share."""

import pytest

from drpu import DRPUClassifier, make_gaussian_pu


@pytest.fixture(scope="session")
def toy():
    return make_gaussian_pu(
        300, 900, prior=0.5, n_test=1500, test_prior=0.15, separation=3, dimensions=2, random_state=0
    )


@pytest.fixture(scope="session")
def fitted(toy):
    return DRPUClassifier("classifier", random_state=0).fit(*toy.X_y())
