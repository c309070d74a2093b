"""Checks accept and reject the right values; messages name argument, rule and value."""

import numpy as np
import pandas as pd
import pytest
import sklearn.utils
import torch
from hypothesis import given
from hypothesis import strategies as st

from drpu._arrays import as_numpy
from drpu._checks import (
    check_choice,
    check_fraction,
    check_integer,
    check_prior,
    check_random_state,
    check_real,
    check_scores,
    check_weights,
)
from drpu.exceptions import DataError, DataTypeError, DRPUError, ParameterError, PriorError

NOT_NUMBERS = [None, "0.5", True, np.True_, [0.5], np.array([0.5]), 1j, {}]


@given(value=st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_every_share_is_a_prior_and_every_share_inside_a_fraction(value):
    assert check_prior("prior", value) == check_fraction("cost", value) == value
    assert (check_prior("prior", 0), check_prior("prior", 1)) == (0, 1)


@pytest.mark.parametrize("value", [1, np.float32(0.5), np.int64(0), np.float64(0.25)])
def test_numbers_of_every_kind_become_floats(value):
    for number in (
        check_prior("prior", value),
        check_real("x", value),
        check_real("x", value, low=0, high=1),
    ):
        assert type(number) is float
        assert number == value
    for integer in (2, np.int32(2), np.uint8(2)):
        assert type(check_integer("folds", integer, low=2)) is int


def between_1_and_3(name, value):
    return check_real(name, value, low=1, high=3)


def not_negative(name, value):
    return check_real(name, value, low=0)


def at_least_2(name, value):
    return check_integer(name, value, low=2)


def two_weights(name, values):
    return check_weights(name, values, 2)


TIMES = np.array(["2024-01-01"], dtype="M8[D]")
MASKED = np.ma.masked_array([1.0, 2.0], [True, False])
HUGE = [10**400, -(10**400)]
REFUSED = [
    (
        check_prior,
        [-1e-12, 1 + 1e-12, 40, np.nan, np.inf],
        PriorError,
        "lie between 0 and 1, got .*not a percentage",
    ),
    (check_prior, NOT_NUMBERS, PriorError, "be a number between 0 and 1, got"),
    (check_real, NOT_NUMBERS, ParameterError, "be a number, got"),
    (check_fraction, NOT_NUMBERS, ParameterError, "be a number, got"),
    (check_fraction, [0, 1, 0.0, 1.0, -3, 2], ParameterError, "lie strictly between 0 and 1, got"),
    (between_1_and_3, [0.999, 3.001, np.nan], ParameterError, "lie between 1 and 3, got"),
    (not_negative, [-1, np.inf, -np.inf, np.nan], ParameterError, "be finite and at least 0, got"),
    (at_least_2, [*NOT_NUMBERS, 2.0, 2.5], ParameterError, "be an integer, got"),
    (at_least_2, [1], ParameterError, "be at least 2, got 1"),
    *((check, HUGE, DRPUError, "") for check in (check_real, check_fraction, check_prior)),
    (check_scores, [[]], DataError, "hold at least one score, got none"),
    (check_scores, [[[1.0]]], DataError, r"have one dimension, got shape \(1, 1\): pass one score per row"),
    (check_scores, [1.0], DataError, r"have one dimension, got shape \(\)"),
    (check_scores, [[1.0, np.nan]], DataError, "not hold NaN"),
    (check_scores, [["high"], [object()], [[1.0], [1.0, 2.0]]], DataTypeError, "hold numbers"),
    (check_scores, [np.array([1j])], DataTypeError, "hold numbers, got complex128 values"),
    (check_scores, [TIMES], DataTypeError, "hold numbers, got datetime64"),
    (check_scores, [MASKED], DataError, "has masked values, whose mask would be lost"),
    (two_weights, [[1.0]], DataError, r"have shape \(2,\), one weight per row, got \(1,\)"),
    (two_weights, [[[1.0, 1.0]]], DataError, r"have shape \(2,\)"),
    (two_weights, [[1.0, -1.0], [1.0, np.nan], [1.0, np.inf]], DataError, "be finite and not negative"),
    (two_weights, [[0.0, 0.0]], DataError, "not be zero for every row"),
    (two_weights, [["much", "little"]], DataTypeError, "hold numbers"),
]


@pytest.mark.parametrize(
    ("check", "value", "error", "rule"),
    [(check, value, error, rule) for check, values, error, rule in REFUSED for value in values],
)
def test_a_value_that_breaks_its_rule_is_refused_with_name_and_rule(check, value, error, rule):
    with pytest.raises(error, match=f"^the_name (must )?{rule}"):
        check("the_name", value)


def test_a_choice_is_one_of_the_words():
    assert check_choice("method", "em", ("em", "paper")) == "em"
    for wrong in ("EM", 3, None, ["em"]):
        with pytest.raises(ParameterError) as caught:
            check_choice("method", wrong, ("em", "paper"))
        assert str(caught.value) == f"method must be one of 'em', 'paper', got {wrong!r}."


@pytest.mark.parametrize("kind", [list, tuple, np.asarray, pd.Series, torch.tensor])
def test_scores_become_flat_float64(kind):
    scores = check_scores("scores", kind([1, 2, 3]))
    assert scores.dtype == np.float64
    assert scores.tolist() == [1.0, 2.0, 3.0]
    assert check_scores("scores", kind([-np.inf, np.inf])).tolist() == [-np.inf, np.inf]
    assert check_scores("scores", kind([]), allow_empty=True).shape == (0,)


def test_weights_are_finite_not_negative_and_as_many_as_rows():
    assert check_weights("sample_weight", [0, 2], 2).tolist() == [0.0, 2.0]
    assert check_weights("sample_weight", [], 0).shape == (0,)
    assert check_weights("sample_weight", [0, 0], 2, allow_zero=True).tolist() == [0.0, 0.0]


# -- arrays --------------------------------------------------------------------------


def test_tensors_become_arrays_and_other_objects_are_unchanged():
    x = np.arange(3)
    assert as_numpy(x) is x
    assert as_numpy([1]) == [1]
    assert as_numpy(torch.tensor([1.5], requires_grad=True)).tolist() == [1.5]
    assert as_numpy(torch.tensor([1.5], dtype=torch.bfloat16)).tolist() == [1.5]


@pytest.mark.parametrize("value", ["x", -1, 2**32, 1.0, np.random.default_rng(0), [0]])
def test_what_cannot_seed_a_generator_is_refused(value):
    with pytest.raises(ParameterError, match="random_state must be None"):
        check_random_state(value)


@pytest.mark.parametrize("value", [None, 0, np.int64(7), 2**32 - 1, np.random.RandomState(3)])
def test_generators_are_those_of_scikit_learn(value):
    ours, theirs = check_random_state(value).get_state(), sklearn.utils.check_random_state(value).get_state()
    assert ours[2:] == theirs[2:]
    assert (ours[1] == theirs[1]).all()
