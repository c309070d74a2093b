"""Laws of probabilities that are averaged over what is not known about the priors."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from drpu import DRPUClassifier, PriorEstimate, load, make_gaussian_pu, ratio_threshold, save
from drpu.decisions import AtPrior
from drpu.decisions.point import Hypothesis, Node, hypothesis_nodes, nodes_at
from drpu.exceptions import DataError, DRPUWarning
from drpu.priors.calibration import ratio_posterior

shares = st.floats(0.01, 0.99)
pairs = st.lists(st.tuples(shares, shares), min_size=1, max_size=12)
RATIOS = np.concatenate([[0.0], np.geomspace(1e-3, 100, 60)])


def point_of(priors, cost=0.5):
    nodes = tuple(Node(1 / len(priors), train, test) for train, test in priors)
    train_prior = float(np.mean([train for train, _ in priors]))
    prior = PriorEstimate.given(float(np.mean([test for _, test in priors])))
    return AtPrior(prior, cost, train_prior, nodes)


@given(priors=pairs)
def test_the_averaged_probability_lies_between_its_ends_and_increases(priors):
    mean = point_of(priors).probability(RATIOS)
    ends = [ratio_posterior(RATIOS * (1 - 1e-9), train, test) for train, test in priors]
    assert (mean >= np.min(ends, axis=0) - 1e-12).all()
    assert (mean <= np.max(ends, axis=0) + 1e-12).all()
    assert (np.diff(mean) >= -1e-12).all()


@given(train=shares, test=shares, cost=shares)
def test_known_priors_give_the_formula(train, test, cost):
    point = point_of([(train, test)], cost)
    assert point.threshold == ratio_threshold(train, test, cost=cost)
    assert_allclose(point.probability(RATIOS), ratio_posterior(RATIOS, train, test), rtol=1e-6, atol=1e-8)


@given(priors=pairs, cost=shares)
def test_the_threshold_is_the_ratio_at_which_the_mean_probability_is_the_cost(priors, cost):
    point = point_of(priors, cost)
    most = 1 / point.train_prior
    lowest, highest = point.probability(np.array([0.0, most]))
    if np.isfinite(point.threshold):
        assert 0 <= point.threshold <= most * (1 + 1e-12)
        below, above = point.probability(point.threshold * np.array([1 - 1e-6, 1 + 1e-6]))
        assert below <= cost + 1e-9
        assert above >= cost - 1e-6
    elif point.threshold > 0:
        assert highest <= cost
    else:
        assert lowest > cost


def test_weights_of_nodes_sum_to_one():
    with pytest.raises(DataError, match="weights"):
        AtPrior(PriorEstimate.given(0.5), 0.5, 0.5, (Node(0.5, 0.5, 0.5),))


@given(values=st.lists(shares, min_size=1, max_size=10), test=shares)
def test_a_hypothesis_moves_every_possible_training_prior_by_the_same_growth(values, test):
    mean = float(np.mean(values))
    quantiles = tuple(sorted(values)) if len(values) > 1 else ()
    train = PriorEstimate(mean, 0.0, 1.0, 0.95, "central", quantiles=quantiles)
    assert all(node.test_prior == test for node in nodes_at(train, test))
    as_trained = hypothesis_nodes(train, (Hypothesis(1.0, mean),))
    assert all(node.test_prior == node.train_prior for node in as_trained)
    growth = (1 - test) / (1 - mean)
    for node in hypothesis_nodes(train, (Hypothesis(1.0, test),)):
        expected = np.clip(1 - growth * (1 - node.train_prior), 0, 1)
        assert_allclose(node.test_prior, expected, atol=1e-12)


@pytest.fixture(scope="module")
def weak():
    """Classes that overlap, so that neither prior is known well."""
    return make_gaussian_pu(
        150, 800, prior=0.4, test_prior=0.2, n_test=1000, separation=1.2, dimensions=2, random_state=3
    )


@pytest.fixture(scope="module")
def classifiers(weak):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)
        clf = DRPUClassifier("kernel", random_state=0).fit_pu(weak.positive, weak.unlabeled)
        return clf, clf.adapt(weak.test), clf.adapt(weak.test, shift="prior"), clf.at_prior(0.3)


@pytest.mark.parametrize("cost", [0.2, 0.5, 0.8])
def test_labels_are_probabilities_above_the_cost(classifiers, weak, cost):
    for classifier in classifiers:
        at_cost = classifier.at_cost(cost)
        flagged = at_cost.predict_proba(weak.test)[:, 1] > cost
        assert_array_equal(at_cost.predict(weak.test) == 1, flagged)
        assert_array_equal(at_cost.ratio(weak.test) > at_cost.threshold_, flagged)


def test_a_training_prior_that_is_not_known_is_averaged_over(classifiers, weak):
    clf, *_ = classifiers
    known = DRPUClassifier("kernel", prior=clf.prior_.value, random_state=0)
    known.fit_pu(weak.positive, weak.unlabeled)
    assert len(clf.prior_.quantiles) == len(clf.point_.nodes) == 10
    assert len(known.point_.nodes) == 1
    assert_allclose(np.mean(clf.prior_.quantiles), clf.prior_.value, atol=0.01)
    assert known.threshold_ == ratio_threshold(known.prior_, known.prior_)


def test_files_keep_the_averaged_probabilities(classifiers, weak, tmp_path):
    for classifier in classifiers:
        save(classifier, tmp_path / "c.drpu")
        loaded = load(tmp_path / "c.drpu")
        assert loaded.point_ == classifier.point_
        assert loaded.threshold_ == classifier.threshold_
        assert_array_equal(loaded.predict_proba(weak.test), classifier.predict_proba(weak.test))
