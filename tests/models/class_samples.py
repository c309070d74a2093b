"""Samples of two Gaussian classes, for tests of models."""

import numpy as np


def draw(rng, n_positive, n_unlabeled, prior=0.4, d=3):
    """Positive rows of N(1, I), and unlabeled rows of its mixture with N(-1, I)."""
    n = rng.binomial(n_unlabeled, prior)
    unlabeled = np.vstack([rng.normal(1, 1, (n, d)), rng.normal(-1, 1, (n_unlabeled - n, d))])
    return rng.normal(1, 1, (n_positive, d)), unlabeled
