"""Thresholds and shifted posteriors agree, also at the limits of their domain."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from drpu import PriorEstimate, ratio_threshold, shift_posterior
from drpu.exceptions import DataError, DataTypeError, PriorError
from drpu.priors.calibration import ratio_posterior

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


@given(pi=inner, cost=inner)
def test_without_a_shift_the_threshold_is_the_cost_over_the_prior(pi, cost):
    assert_allclose(ratio_threshold(pi, pi, cost=cost), cost / pi, rtol=1e-9)


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
