"""Laws of decisions: thresholds, costs, budgets, and probabilities averaged over what is not known."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom

from drpu import (
    Costs,
    DRPUClassifier,
    PriorEstimate,
    ScoreTails,
    load,
    make_gaussian_pu,
    ratio_threshold,
    save,
    shift_posterior,
)
from drpu.decisions import AtPrior, gain_curve, operating_point
from drpu.decisions.point import Hypothesis, Node
from drpu.exceptions import DataError, DataTypeError, ParameterError, PriorError, silent
from drpu.priors.calibration import ratio_posterior
from drpu.priors.figures import exact_limits
from drpu.priors.matching import Growth, later_priors

priors = st.floats(0, 1)
inner = st.floats(1e-6, 1 - 1e-6)
costs = st.floats(0, 1, exclude_min=True, exclude_max=True)
probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=20).map(np.array)
ratios = st.lists(st.floats(0, 1e6), min_size=1, max_size=20).map(np.array)


@given(pi=inner, pi_test=inner, cost=inner)
def test_threshold_is_where_the_shifted_posterior_meets_the_cost(pi, pi_test, cost):
    threshold = ratio_threshold(pi, pi_test, cost=cost)
    assert 0 < threshold <= (1 / pi) * (1 + 1e-12)
    if 1 - pi * threshold > 1e-6:  # nearer to 1 the complement has lost its digits
        assert_allclose(shift_posterior([pi * threshold], pi, pi_test), cost, rtol=1e-8)
        assert_allclose(ratio_posterior([threshold], pi, pi_test), cost, rtol=1e-8)


@given(pi=priors, fixed=inner, a=inner, b=inner)
def test_rarer_positives_and_dearer_false_positives_need_more_evidence(pi, fixed, a, b):
    low, high = sorted((a, b))
    assert ratio_threshold(pi, low, cost=fixed) >= ratio_threshold(pi, high, cost=fixed) * (1 - 1e-12)
    assert ratio_threshold(pi, fixed, cost=low) <= ratio_threshold(pi, fixed, cost=high) * (1 + 1e-12)


@given(pi=priors, pi_test=priors, cost=costs)
@example(pi=0.0, pi_test=5e-324, cost=0.9)
@example(pi=1.0, pi_test=1 - 2**-53, cost=1e-320)
def test_every_prior_and_cost_has_a_threshold(pi, pi_test, cost):
    threshold = ratio_threshold(pi, pi_test, cost=cost)
    assert not np.isnan(threshold)
    assert (threshold < 0) == (pi_test == 1)


@given(pi=priors, cost=costs)
def test_with_one_class_left_no_evidence_matters(pi, cost):
    assert ratio_threshold(pi, 0.0, cost=cost) == np.inf
    assert ratio_threshold(pi, 1.0, cost=cost) == -np.inf


@given(pi_test=inner, cost=inner)
def test_training_priors_0_and_1_have_thresholds(pi_test, cost):
    # At 0 the population is all negative, so r = p+/p-: the textbook likelihood-ratio test.
    expected = cost * (1 - pi_test) / ((1 - cost) * pi_test)
    assert_allclose(ratio_threshold(0.0, pi_test, cost=cost), expected, rtol=1e-12)
    assert_allclose(ratio_threshold(1.0, pi_test, cost=cost), 1.0, rtol=1e-12)


@given(posterior=probabilities, pi=priors, pi_test=priors)
def test_shifted_posteriors_are_probabilities(posterior, pi, pi_test):
    shifted = shift_posterior(posterior, pi, pi_test)
    assert shifted.shape == posterior.shape
    assert ((shifted >= 0) & (shifted <= 1)).all()


@given(posterior=probabilities, pi=inner)
def test_no_shift_changes_nothing(posterior, pi):
    assert_allclose(shift_posterior(posterior, pi, pi), posterior, rtol=1e-9, atol=1e-300)


@given(posterior=probabilities, a=st.floats(0.01, 0.99), b=st.floats(0.01, 0.99), c=st.floats(0.01, 0.99))
def test_two_shifts_are_one(posterior, a, b, c):
    twice = shift_posterior(shift_posterior(posterior, a, b), b, c)
    assert_allclose(twice, shift_posterior(posterior, a, c), rtol=1e-9, atol=1e-9)


@given(posterior=probabilities, pi=inner, pi_test=inner)
def test_a_shift_keeps_the_order_and_is_mirrored_by_calling_negatives_positive(posterior, pi, pi_test):
    assert (np.diff(shift_posterior(np.sort(posterior), pi, pi_test)) >= -1e-12).all()
    mirrored = shift_posterior(1 - posterior, 1 - pi, 1 - pi_test)
    assert_allclose(mirrored, 1 - shift_posterior(posterior, pi, pi_test), atol=1e-9)


@given(posterior=probabilities, pi=priors)
def test_test_priors_0_and_1_leave_no_doubt(posterior, pi):
    assert (shift_posterior(posterior, pi, 0.0) == 0).all()
    assert (shift_posterior(posterior, pi, 1.0) == 1).all()
    assert (ratio_posterior(posterior, pi, 0.0) == 0).all()
    assert (ratio_posterior(posterior, pi, 1.0) == 1).all()


@given(ratio=ratios, pi=st.floats(1e-3, 1 - 1e-3), pi_test=priors)
def test_ratio_posterior_is_the_shifted_posterior_of_prior_times_ratio(ratio, pi, pi_test):
    expected = shift_posterior(pi * ratio, pi, pi_test)
    assert_allclose(ratio_posterior(ratio, pi, pi_test), expected, rtol=1e-9, atol=1e-9)


@given(ratio=ratios.map(lambda r: np.append(r, np.inf)), pi=priors, pi_test=priors)
@example(ratio=np.array([0.0, np.inf]), pi=0.0, pi_test=0.5)
@example(ratio=np.array([0.0, np.inf]), pi=5e-324, pi_test=0.5)
def test_ratio_posteriors_are_probabilities_at_every_prior(ratio, pi, pi_test):
    posterior = ratio_posterior(ratio, pi, pi_test)
    assert ((posterior >= 0) & (posterior <= 1)).all()


@given(ratio=ratios, pi_test=inner)
def test_with_no_positives_in_training_the_ratio_is_the_likelihood_ratio(ratio, pi_test):
    expected = pi_test * ratio / (pi_test * ratio + 1 - pi_test)
    assert_allclose(ratio_posterior(ratio, 0.0, pi_test), expected, rtol=1e-12)


@given(pi=st.floats(1e-3, 1 - 1e-3), pi_test=inner, cost=inner, ratio=ratios)
def test_deciding_by_ratio_is_deciding_by_posterior(pi, pi_test, cost, ratio):
    threshold = ratio_threshold(pi, pi_test, cost=cost)
    posterior = ratio_posterior(ratio, pi, pi_test)
    clear = np.abs(posterior - cost) > 1e-9
    assert np.array_equal((ratio > threshold)[clear], (posterior > cost)[clear])


@pytest.mark.parametrize("ratio", [[-1.0, -1e-9], [1e300, np.inf]])
def test_values_out_of_range_are_taken_as_the_nearest_possible(ratio):
    posterior = ratio_posterior(ratio, 0.4, 0.7)
    assert_allclose(posterior, 0.0 if ratio[0] < 0 else 1.0, atol=1e-12)
    assert shift_posterior([-0.5, 1.5], 0.4, 0.7).tolist() == [0.0, 1.0]


def test_an_estimated_prior_counts_with_its_value():
    train, test = (PriorEstimate(value, 0.1, 0.9, 0.95, "auto") for value in (0.3, 0.6))
    assert ratio_threshold(train, test) == ratio_threshold(0.3, 0.6)
    assert_allclose(shift_posterior([0.2, 0.7], train, test), shift_posterior([0.2, 0.7], 0.3, 0.6))


def test_shapes_and_scalars_are_kept():
    assert shift_posterior(0.5, 0.5, 0.2).shape == ()
    assert ratio_posterior(np.ones((2, 3)), 0.5, 0.2).shape == (2, 3)


@pytest.mark.parametrize("wrong", [-1e-9, 1 + 1e-9, np.nan, "half", None, True])
@pytest.mark.parametrize("name", ["train_prior", "test_prior"])
def test_errors_name_the_prior_that_is_wrong(name, wrong):
    good = {"train_prior": 0.5, "test_prior": 0.5}
    for function in (
        ratio_threshold,
        lambda **p: shift_posterior([0.5], **p),
        lambda **p: ratio_posterior([1], **p),
    ):
        with pytest.raises(PriorError, match=rf"^{name} must .*between 0 and 1, got {wrong!r}"):
            function(**good | {name: wrong})


@pytest.mark.parametrize(("function", "name"), [(shift_posterior, "posterior"), (ratio_posterior, "ratio")])
def test_nan_is_refused_rather_than_read_as_no_evidence(function, name):
    with pytest.raises(DataError, match=f"{name} must not hold NaN"):
        function([0.5, np.nan], 0.5, 0.2)
    with pytest.raises(DataTypeError, match=f"{name} must hold numbers"):
        function(["often"], 0.5, 0.2)


# -- amounts -----------------------------------------------------------------------------------------


amounts = st.floats(0.01, 1000)


@given(false_alarm=amounts, miss=amounts, scale=amounts)
def test_only_the_relation_of_the_amounts_decides(false_alarm, miss, scale):
    costs = Costs(false_alarm, miss)
    assert_allclose(float(Costs(scale * false_alarm, scale * miss)), float(costs), rtol=1e-12)
    assert ratio_threshold(0.4, 0.2, cost=costs) == ratio_threshold(0.4, 0.2, cost=float(costs))


def test_amounts_survive_copies():
    costs = Costs(false_alarm=5, miss=200)
    for other in (copy.copy(costs), copy.deepcopy(costs), pickle.loads(pickle.dumps(costs))):
        assert (other, other.false_alarm, other.miss) == (costs, 5, 200)
    assert repr(costs) == "Costs(false_alarm=5, miss=200)"


@pytest.mark.parametrize(
    ("false_alarm", "miss", "words"),
    [
        (0, 1, "false_alarm must be a finite amount above 0, got 0"),
        (1, -2, "miss must be a finite amount above 0, got -2"),
        (1, float("inf"), "miss must be"),
        ("5", 1, "false_alarm must be a number"),
        (1e-300, 1e300, "differ that much"),
    ],
)
def test_amounts_that_mean_nothing_are_refused(false_alarm, miss, words):
    with pytest.raises(ParameterError, match=words):
        Costs(false_alarm, miss)


# -- budgets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_limits_of_a_share_hold_at_their_level(share):
    counts = np.arange(41)
    limits = [exact_limits(k / 40, 40, 0.025) for k in counts]
    holds = np.array([low <= share <= high for low, high in limits])
    assert binom.pmf(counts, 40, share)[holds].sum() >= 0.95  # exact, by enumeration


def outlook(share, n_positive, prior, n=None):
    """The budget of a share of the rows, among which a curve of gain finds 60 % of the positives."""
    curve = gain_curve(ScoreTails([1.0, 2.0]).update([0.0, 1.5]), 0.5, prior)
    curve = replace(curve, share=np.array([0.0, share, 1.0]), recall=np.array([0.0, 0.6, 1.0]))
    return curve.outlook(share, n_positive, prior, 3.0, n=n)


def test_a_known_share_of_positives_divides_between_found_and_missed():
    budget = outlook(0.08, 1e9, PriorEstimate.given(0.1), n=80)
    assert_allclose(budget.precision.value, 0.1 * 0.6 / 0.08)
    assert_allclose(budget.lift.value, 0.6 / 0.08)
    assert budget.precision.low <= budget.precision.value <= budget.precision.high <= 1
    assert "80 rows (8.00%)" in str(budget)


def test_doubt_about_prior_and_recall_widens_the_precision():
    known = outlook(0.2, 100, PriorEstimate.given(0.1))
    open_ = outlook(0.2, 100, PriorEstimate(0.1, 0.05, 0.15, 0.95, "matching"))
    assert open_.precision.low < known.precision.low < known.precision.high < open_.precision.high
    assert known.recall == open_.recall


def test_gain_rises_from_none_to_all_and_beats_chance():
    rng = np.random.default_rng(0)
    reference = ScoreTails(rng.normal(2, 1, 300)).update(
        rng.normal(0, 1, 3000) + 2 * (rng.random(3000) < 0.2)
    )
    gain = gain_curve(reference, 0.2, PriorEstimate.given(0.05))
    assert (gain.share[0], gain.recall[0], gain.share[-1], gain.recall[-1]) == (0, 0, 1, 1)
    assert (np.diff(gain.share) >= 0).all()
    assert (gain.recall >= gain.share - 0.02).all()  # a score that ranks cannot lose to chance, but for noise
    assert (gain.low <= gain.recall).all()
    assert (gain.recall <= gain.high).all()
    assert gain.lift[1:].max() <= 1 / 0.05 + 1e-9


def test_counted_rows_give_the_depth_themselves():
    reference = ScoreTails([1.0, 2.0]).update([0.0, 1.5])
    new = reference.empty().update([0.0, 0.0, 0.0, 2.5])
    assert_allclose(gain_curve(reference, 0.5, PriorEstimate.given(0.3), new=new).share, [0, 0.25, 0.25, 1])


# -- probabilities averaged over what is not known ---------------------------------------------------


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


@pytest.fixture(scope="module")
def weak():
    """Classes that overlap, so that neither prior is known well."""
    return make_gaussian_pu(
        150, 800, prior=0.4, test_prior=0.2, n_test=1000, separation=1.2, dimensions=2, random_state=3
    )


@pytest.fixture(scope="module")
def classifiers(weak):
    with silent():
        clf = DRPUClassifier("kernel", random_state=0).fit_pu(weak.positive, weak.unlabeled)
        return clf, clf.adapt(weak.test), clf.adapt(weak.test, shift="prior"), clf.at_prior(0.3)


def nodes_of(classifiers, train, test, *hypotheses):
    """The possible priors of a classifier with the training prior ``train``."""
    clf, *_ = classifiers
    fitted = replace(clf.fitted_, prior=train)
    prior = PriorEstimate.given(test)
    return operating_point(fitted, clf.reference_, prior, cost=0.5, hypotheses=hypotheses).nodes


@given(values=st.lists(shares, min_size=1, max_size=10), test=shares)
def test_a_hypothesis_moves_every_possible_training_prior_by_the_same_growth(classifiers, values, test):
    mean = float(np.mean(values))
    quantiles = tuple(sorted(values)) if len(values) > 1 else ()
    train = PriorEstimate(mean, 0.0, 1.0, 0.95, "central", quantiles=quantiles)
    assert all(node.test_prior == test for node in nodes_of(classifiers, train, test))
    as_trained = nodes_of(classifiers, train, test, Hypothesis(1.0, mean))
    assert all(node.test_prior == node.train_prior for node in as_trained)
    growth = (1 - test) / (1 - mean)
    for node in nodes_of(classifiers, train, test, Hypothesis(1.0, test)):
        expected = np.clip(1 - growth * (1 - node.train_prior), 0, 1)
        assert_allclose(node.test_prior, expected, atol=1e-12)


@given(values=st.lists(shares, min_size=2, max_size=10), growth=st.floats(0.1, 3), to=shares)
def test_a_measured_growth_says_which_training_priors_are_possible(classifiers, values, growth, to):
    train = PriorEstimate(float(np.mean(values)), 0.0, 1.0, 0.95, "central", quantiles=tuple(sorted(values)))
    hypothesis = Hypothesis(1.0, 0.5, growth, 0.1)
    nodes = nodes_of(classifiers, train, 0.5, hypothesis)
    weights, priors = later_priors(train.quantiles, Growth(growth, 0.1))
    assert_allclose([node.weight for node in nodes], weights)
    assert_allclose([node.test_prior for node in nodes], priors)
    moved = hypothesis.moved_to(to)
    assert moved.prior == to
    assert_allclose(moved.growth, growth * (1 - to) / 0.5)  # negatives grow as the prior falls


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
