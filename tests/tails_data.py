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


def scores(rng, n, prior, separation):
    """Scores of two normal classes, of which an exact share is positive."""
    label = np.arange(n) < round(prior * n)
    return rng.normal(separation * label, 1)


def mixture(rng, n, prior, apart, move=0.0):
    """Scores of two normal classes, all of which may have moved."""
    return rng.normal(move, 1, n) + apart * (rng.random(n) < prior)


def pair(rng, n_positive=200, n=2000, n_new=1000, prior=0.3, new=0.6, apart=2.5, move=0.0):
    """Tails of a new sample and of a training sample over the same positives."""
    tails = ScoreTails(rng.normal(apart, 1, n_positive))
    reference = tails.empty().update(mixture(rng, n, prior, apart))
    return tails.empty().update(mixture(rng, n_new, new, apart, move)), reference


def noisy_scores(rng, x, separation, prior, error):
    """Fitted log-ratios of normal rows: the true ones, which end at -log(prior), with an error."""
    log_odds = np.log(prior / (1 - prior)) + separation * (x - separation / 2)
    return -np.logaddexp(0, -log_odds) + rng.normal(0, error, len(x))
