"""Tails for tests: small ones, and those of two normal classes."""

import numpy as np

from drpu import ScoreTails

POSITIVE = np.array([0.2, 0.5, 0.5, 0.9])


def weighted_tails():
    """Tails with three weighted rows."""
    return ScoreTails(POSITIVE).update([0.1, 0.5, 0.6], [1.0, 2.0, 0.5])


def drawn(seed, n_positive, n, prior, separation=2.0):
    """Tails of two normal classes."""
    rng = np.random.default_rng(seed)
    label = rng.random(n) < prior
    return ScoreTails(rng.normal(separation, 1, n_positive)).update(rng.normal(separation * label, 1))
