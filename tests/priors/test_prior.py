"""A prior as a value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drpu import PriorEstimate
from drpu.exceptions import PriorError
from drpu.priors.estimate import as_prior

priors = st.floats(0, 1)


@given(st.tuples(priors, priors, priors).map(sorted), st.floats(0.01, 0.99))
def test_limits_in_order_make_an_estimate(numbers, level):
    low, value, high = numbers
    prior = PriorEstimate(value, low, high, level, "paper")
    assert float(prior) == value
    assert str(prior) == f"{value:.3f} [{low:.3f}, {high:.3f}] at {level:.0%}"


DISORDER = [
    (0.5, 0.6, 0.7),
    (0.5, 0.3, 0.4),
    (-0.1, -0.2, 0.5),
    (1.1, 0.5, 1.2),
    (0.5, np.nan, 1),
    (np.nan, 0, 1),
]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        *(((*limits, 0.95, "paper"), "0 <= low <= value <= high <= 1") for limits in DISORDER),
        *(((0.5, 0.4, 0.6, level, "paper"), "level must lie strictly") for level in (0, 1, -1, 95, np.nan)),
        *(((0.5, 0.4, 0.6, 0.95, "auto", wrong), "identified") for wrong in (1, None, "yes", np.True_)),
    ],
)
def test_fields_of_an_estimate_are_checked(fields, words):
    with pytest.raises(PriorError, match=words):
        PriorEstimate(*fields)


def test_a_prior_that_is_not_identified_prints_its_upper_reading():
    prior = PriorEstimate(0.3, 0.1, 0.71, 0.95, "auto", identified=False, upper=0.52)
    assert "not identified; at most 0.520" in str(prior)
    moved = PriorEstimate(0.3, 0.1, 0.71, 0.95, "auto", identified=False)  # more than the prior has changed
    assert "not identified" in str(moved)
    assert "at most" not in str(moved)
    assert "identified" not in str(PriorEstimate(0.52, 0.1, 0.71, 0.95, "auto"))


@given(priors)
def test_a_number_is_a_prior_without_doubt(value):
    prior = as_prior("train_prior", value)
    assert prior == PriorEstimate(value, value, value, 0.95, "given") == PriorEstimate.given(value)
    assert as_prior("train_prior", prior) is prior
