"""One classifier with named columns and one without, for everything that scales."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from drpu import DRPUClassifier, make_gaussian_pu

NAMES = ["a", "b"]


@pytest.fixture(scope="session")
def data():
    return make_gaussian_pu(
        200, 600, prior=0.4, test_prior=0.15, n_test=900, separation=3, dimensions=2, random_state=0
    )


@pytest.fixture(scope="session")
def plain(data):
    return DRPUClassifier("kernel", random_state=0).fit_pu(data.positive, data.unlabeled)


@pytest.fixture(scope="session")
def named(data):
    positive, unlabeled = (pd.DataFrame(rows, columns=NAMES) for rows in (data.positive, data.unlabeled))
    return DRPUClassifier("kernel", random_state=0).fit_pu(positive, unlabeled)


@pytest.fixture(scope="session")
def table(data):
    """New rows among other columns, in another order, with weights."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": np.arange(len(data.test)),
            "b": data.test[:, 1],
            "a": data.test[:, 0],
            "w": rng.integers(1, 4, len(data.test)).astype(float),
        }
    )
