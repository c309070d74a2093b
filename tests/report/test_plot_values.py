"""The values in the plots."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from drpu import PriorEstimate, ScoreTails
from drpu.plots import CalibrationDisplay, PerformanceDisplay, RocDisplay, ScoreDisplay, TailRatioDisplay


@pytest.fixture(scope="module")
def tails():
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(2, 1, 4000), rng.normal(0, 1, 6000)])
    return ScoreTails(rng.normal(2, 1, 3000)).update(scores)  # a prior of 0.4


def test_every_sample_is_binned_whole(tails):
    new = tails.empty().update(np.random.default_rng(1).normal(0, 1, 500))
    bins = ScoreDisplay.from_counts(tails, new)
    for shares in (bins.positive, bins.unlabeled, bins.new):
        assert_allclose(shares.sum(), 1)
        assert (shares >= 0).all()
        assert len(bins.edges) == len(shares) + 1
    assert (np.diff(bins.edges) > 0).all()


@pytest.mark.parametrize("positive", [[1.0], [1.0, 1.0], [0.0, 1.0], [-690.0, 0.0, 690.0]])
def test_few_and_tied_scores_are_binned_too(positive):
    tails = ScoreTails(positive).update([0.0, 0.5, 2.0])
    bins = ScoreDisplay.from_counts(tails)
    assert_allclose(bins.unlabeled.sum(), 1)
    assert (np.diff(bins.edges) > 0).all()


def test_no_point_of_the_ratio_curve_lies_far_below_the_prior(tails):
    curve = TailRatioDisplay.from_counts(tails, PriorEstimate.given(0.4))
    assert curve.ratio[curve.recall > 0.05].min() > 0.36
    assert abs(curve.read[1] - 0.4) < 0.05


def test_the_roc_of_positives_and_unlabeled_rows_is_that_of_the_two_classes(tails):
    from scipy.stats import norm

    curve = RocDisplay.from_counts(tails, 0.4)
    assert (np.diff(curve.false_positive_rate) >= 0).all()
    assert (np.diff(curve.recall) >= 0).all()
    assert abs(curve.area - norm.cdf(2 / np.sqrt(2))) < 0.02


def test_a_calibrated_classifier_lies_on_the_diagonal(classifier, single):
    for clf in (classifier, single):
        bins = CalibrationDisplay.from_fitted(clf.fitted_)
        inside = (bins.low <= bins.predicted) & (bins.predicted <= bins.high)
        assert inside.mean() >= 0.8
        assert (bins.low <= bins.expected).all()
        assert (bins.expected <= bins.high).all()


def values(performances, name):
    return [getattr(performance, name).value for performance in performances]


def test_without_adapting_accuracy_is_linear_in_the_prior(classifier):
    found = PerformanceDisplay.from_fitted(classifier.fitted_, cost=0.7)
    assert_allclose(np.diff(values(found.as_trained, "accuracy"), 2), 0, atol=1e-12)
    assert len(set(values(found.as_trained, "recall"))) == 1


def test_recall_rises_with_the_prior_where_the_threshold_follows(classifier):
    found = PerformanceDisplay.from_fitted(classifier.fitted_, cost=0.5)
    # Out of fold, recall is a mean over folds of 50 positives: a fall stays within 3 standard errors.
    adapted = values(found.adapted, "recall")
    assert (np.diff(adapted) >= -3 * np.sqrt(0.25 / 250)).all()
    assert adapted[0] < values(found.as_trained, "recall")[0] < adapted[-1]


def test_the_outlook_is_what_the_classifier_expects(classifier):
    found = PerformanceDisplay.from_fitted(classifier.fitted_, cost=0.5, points=9)
    for k, prior in enumerate(found.priors.tolist()):
        expected = classifier.at_prior(prior).expected_performance()
        for name in ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost"):
            assert getattr(found.adapted[k], name).value == getattr(expected, name).value
