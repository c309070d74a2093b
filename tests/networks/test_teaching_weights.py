"""Laws of weighted unlabeled rows in place of positives."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from drpu import ScoreTails
from drpu.networks.teaching import mean_log_ratio, teaching_weights


def test_weighted_unlabeled_rows_have_the_means_of_positives():
    """E_U[r f] = E_+[f], exactly, on five points."""
    positive, negative = np.array([0.4, 0.3, 0.2, 0.1, 0.0]), np.array([0.0, 0.1, 0.2, 0.3, 0.4])
    mixture = 0.3 * positive + 0.7 * negative
    with np.errstate(divide="ignore"):
        weights, ceiling = teaching_weights(np.log(positive / mixture))
    for f in np.random.default_rng(0).normal(size=(5, 5)):
        assert mixture @ (weights * f) == pytest.approx(positive @ f, abs=1e-5)
    assert ceiling == pytest.approx(1 / 0.3)


def test_calibrated_weights_repair_the_scale_of_scores():
    """Scores that only rank become ratios: means of positives are recovered."""
    rng = np.random.default_rng(0)

    def draw(n, prior):
        return rng.normal(0, 1, n) + 3 * (rng.random(n) < prior)

    held, unlabeled = draw(4000, 1.0), draw(20_000, 0.4)
    tails = ScoreTails(5 * held + 1).update(5 * draw(20_000, 0.4) + 1)
    weights, ceiling = teaching_weights(5 * unlabeled + 1, tails)
    assert ceiling == pytest.approx(1 / 0.4, rel=0.05)
    assert 0 < weights.min() <= weights.max() <= ceiling
    assert (np.diff(weights[np.argsort(unlabeled)]) >= -1e-12).all()
    assert np.average(unlabeled, weights=weights) == pytest.approx(3, abs=0.1)
    assert np.average(unlabeled**2, weights=weights) == pytest.approx(10, abs=0.5)


def test_mean_ratios_are_means_of_ratios():
    assert_allclose(mean_log_ratio([np.log([1.0, 2.0]), np.log([3.0, 4.0])]), np.log([2.0, 3.0]))
