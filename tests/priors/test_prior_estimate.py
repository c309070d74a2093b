"""A prior as a value: limits, level, printing, and numbers in its place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drpu.exceptions import PriorError
from drpu.priors.estimate import PriorEstimate, as_prior

priors = st.floats(0, 1)


@given(st.tuples(priors, priors, priors).map(sorted), st.floats(0.01, 0.99))
def test_limits_in_order_make_an_estimate(numbers, level):
    low, value, high = numbers
    prior = PriorEstimate(value, low, high, level, "paper")
    assert float(prior) == value
    assert str(prior) == f"{value:.3f} [{low:.3f}, {high:.3f}] at {level:.0%}"


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [(0.5, 0.6, 0.7), (0.5, 0.3, 0.4), (-0.1, -0.2, 0.5), (1.1, 0.5, 1.2), (0.5, np.nan, 1), (np.nan, 0, 1)],
)
def test_limits_out_of_order_are_refused(value, low, high):
    with pytest.raises(PriorError, match="0 <= low <= value <= high <= 1"):
        PriorEstimate(value, low, high, 0.95, "paper")


@pytest.mark.parametrize("level", [0, 1, -1, 95, np.nan])
def test_levels_lie_strictly_inside(level):
    with pytest.raises(PriorError, match="level must lie strictly between 0 and 1"):
        PriorEstimate(0.5, 0.4, 0.6, level, "paper")


@pytest.mark.parametrize("wrong", [1, None, "yes", np.True_])
def test_identified_is_true_or_false_and_nothing_else(wrong):
    with pytest.raises(PriorError, match="identified"):
        PriorEstimate(0.5, 0.4, 0.6, 0.95, "auto", wrong)


def test_priors_are_identified_by_default():
    assert PriorEstimate(0.5, 0.4, 0.6, 0.95, "auto").identified
    assert PriorEstimate.given(0.5).identified


def test_a_prior_that_is_not_identified_prints_its_upper_reading():
    prior = PriorEstimate(0.3, 0.1, 0.71, 0.95, "auto", identified=False, upper=0.52)
    assert "not identified; at most 0.520" in str(prior)
    moved = PriorEstimate(0.3, 0.1, 0.71, 0.95, "auto", identified=False)  # more than the prior has changed
    assert "not identified" in str(moved)
    assert "at most" not in str(moved)
    assert "identified" not in str(PriorEstimate(0.52, 0.1, 0.71, 0.95, "auto"))


def test_an_estimate_cannot_be_changed():
    with pytest.raises(AttributeError):
        PriorEstimate.given(0.5).value = 0.6


@given(priors)
def test_a_number_is_a_prior_without_doubt(value):
    prior = as_prior("train_prior", value)
    assert prior == PriorEstimate(value, value, value, 0.95, "given") == PriorEstimate.given(value)
    assert as_prior("train_prior", prior) is prior


@pytest.mark.parametrize("wrong", [1.2, -0.1, np.nan, "half", None, True, [0.5]])
def test_what_is_no_prior_is_named(wrong):
    with pytest.raises(PriorError, match=r"^train_prior must"):
        as_prior("train_prior", wrong)
