"""Rows of two Gaussian classes of later periods, and quick models for fits of each period."""

import numpy as np

from drpu import KernelRatio

RATE = 0.4  # of the positives that are labelled
QUICK = KernelRatio(n_centres=30, width=1.0, ridge=0.1)  # for backtests, which fit once for each period


def rows(seed, n, prior, drift=0.0):
    """Rows of two classes, their classes and their labels; ``drift`` moves a column without information."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < prior
    X = rng.normal(size=(n, 3)) + np.array([2.5, 1.0, 0.0]) * y[:, None]
    X[:, 2] += drift
    return X, y, (y & (rng.random(n) < RATE)).astype(int)
