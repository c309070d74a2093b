"""Checks accept and reject the right values; messages name argument, rule and value."""

import numpy as np
import pandas as pd
import pytest
import sklearn.utils
import torch
from hypothesis import given
from hypothesis import strategies as st

from drpu._arrays import as_numpy, is_tensor, namespace, softplus, weighted_mean
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


@given(value=st.floats(0, 1))
def test_every_share_is_a_prior(value):
    assert check_prior("prior", value) == value


@given(value=st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_every_share_strictly_inside_is_a_fraction(value):
    assert check_fraction("cost", value) == value


@pytest.mark.parametrize("value", [1, np.float32(0.5), np.int64(0), np.float64(0.25)])
def test_numbers_of_every_kind_become_floats(value):
    for result in (check_prior("prior", value), check_real("x", value)):
        assert type(result) is float
        assert result == value


@pytest.mark.parametrize("value", [-1e-12, 1 + 1e-12, 40, np.nan, np.inf, -np.inf])
def test_a_prior_outside_0_and_1_is_refused_with_a_hint(value):
    with pytest.raises(PriorError) as caught:
        check_prior("test_prior", value)
    message = str(caught.value)
    assert message.startswith(f"test_prior must lie between 0 and 1, got {value!r}")
    assert "not a percentage" in message


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_what_is_no_number_is_refused(value):
    with pytest.raises(PriorError, match="prior must be a number between 0 and 1, got"):
        check_prior("prior", value)
    with pytest.raises(ParameterError, match="x must be a number, got"):
        check_real("x", value)
    with pytest.raises(ParameterError, match="cost must be a number, got"):
        check_fraction("cost", value)


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, -3, 2])
def test_a_fraction_at_or_beyond_its_ends_is_refused(value):
    with pytest.raises(ParameterError, match=f"cost must lie strictly between 0 and 1, got {value!r}"):
        check_fraction("cost", value)


@pytest.mark.parametrize(
    ("value", "fine"), [(1, True), (3.0, True), (0.999, False), (3.001, False), (np.nan, False)]
)
def test_a_real_number_lies_between_its_limits(value, fine):
    if fine:
        assert check_real("width", value, low=1, high=3) == value
    else:
        with pytest.raises(ParameterError, match=f"width must lie between 1 and 3, got {value!r}"):
            check_real("width", value, low=1, high=3)


@pytest.mark.parametrize("value", [-1, np.inf, -np.inf, np.nan])
def test_a_number_without_an_upper_limit_is_finite(value):
    with pytest.raises(ParameterError, match=f"width must be finite and at least 0, got {value!r}"):
        check_real("width", value, low=0)


@pytest.mark.parametrize("value", [2, np.int32(2), np.uint8(2)])
def test_integers_of_every_kind_become_int(value):
    result = check_integer("folds", value, low=2)
    assert type(result) is int
    assert result == 2


@pytest.mark.parametrize("value", [*NOT_NUMBERS, 2.0, 2.5])
def test_what_is_no_integer_is_refused(value):
    with pytest.raises(ParameterError, match="folds must be an integer, got"):
        check_integer("folds", value, low=2)


def test_an_integer_below_its_limit_is_refused():
    with pytest.raises(ParameterError, match="folds must be at least 2, got 1"):
        check_integer("folds", 1, low=2)


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


def test_infinite_scores_pass():
    assert check_scores("scores", [-np.inf, np.inf]).tolist() == [-np.inf, np.inf]


def test_no_scores_pass_only_where_they_may():
    assert check_scores("scores", [], allow_empty=True).shape == (0,)
    with pytest.raises(DataError, match="scores must hold at least one score, got none"):
        check_scores("scores", [])


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ([[1.0]], DataError, r"scores must have one dimension, got shape \(1, 1\): pass one score per row"),
        (1.0, DataError, r"scores must have one dimension, got shape \(\)"),
        ([1.0, np.nan], DataError, "scores must not hold NaN"),
        (["high"], DataTypeError, "scores must hold numbers"),
        ([object()], DataTypeError, "scores must hold numbers"),
        (np.array([1j]), DataTypeError, "scores must hold numbers, got complex128 values"),
        (np.array(["2024-01-01"], dtype="M8[D]"), DataTypeError, r"scores must hold numbers, got datetime64"),
        ([[1.0], [1.0, 2.0]], DataTypeError, "scores must hold numbers"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), DataError, "masked values, whose mask would be lost"),
    ],
)
def test_scores_that_cannot_be_ranked_are_refused(values, error, words):
    with pytest.raises(error, match=words):
        check_scores("scores", values)


def test_weights_are_finite_not_negative_and_as_many_as_rows():
    assert check_weights("sample_weight", [0, 2], 2).tolist() == [0.0, 2.0]
    assert check_weights("sample_weight", [], 0).shape == (0,)
    assert check_weights("sample_weight", [0, 0], 2, allow_zero=True).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ([1.0], DataError, r"sample_weight must have shape \(2,\), one weight per row, got \(1,\)"),
        ([[1.0, 1.0]], DataError, r"sample_weight must have shape \(2,\)"),
        ([1.0, -1.0], DataError, "sample_weight must be finite and not negative"),
        ([1.0, np.nan], DataError, "sample_weight must be finite and not negative"),
        ([1.0, np.inf], DataError, "sample_weight must be finite and not negative"),
        ([0.0, 0.0], DataError, "sample_weight must not be zero for every row"),
        (["much", "little"], DataTypeError, "sample_weight must hold numbers"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(values, error, words):
    with pytest.raises(error, match=words):
        check_weights("sample_weight", values, 2)


# -- arrays --------------------------------------------------------------------------


def test_tensors_become_arrays_and_other_objects_are_unchanged():
    x = np.arange(3)
    assert as_numpy(x) is x
    assert as_numpy([1]) == [1]
    assert as_numpy(torch.tensor([1.5], requires_grad=True)).tolist() == [1.5]
    assert as_numpy(torch.tensor([1.5], dtype=torch.bfloat16)).tolist() == [1.5]


def test_each_kind_finds_its_own_functions():
    assert namespace(np.zeros(1)) is np
    assert namespace(torch.zeros(1)) is torch
    assert is_tensor(torch.zeros(1))
    assert not is_tensor(np.zeros(1))


@given(x=st.floats(-1e4, 1e4))
def test_softplus_is_log_of_one_plus_exp_without_overflow(x):
    exact = max(x, 0) + np.log1p(np.exp(-abs(x)))
    assert softplus(np.array([x]))[0] == pytest.approx(exact, rel=1e-12, abs=1e-300)
    assert softplus(torch.tensor([x], dtype=torch.float64)).item() == pytest.approx(
        exact, rel=1e-12, abs=1e-300
    )


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_means_run_over_the_last_axis(kind):
    values = kind([[1.0, 3.0], [2.0, 6.0]])
    assert weighted_mean(values).tolist() == [2.0, 4.0]
    assert weighted_mean(values, kind([1.0, 3.0])).tolist() == [2.5, 5.0]


@pytest.mark.parametrize("value", ["x", -1, 2**32, 1.0, np.random.default_rng(0), [0]])
def test_what_cannot_seed_a_generator_is_refused(value):
    with pytest.raises(ParameterError, match="random_state must be None"):
        check_random_state(value)


@pytest.mark.parametrize("value", [None, 0, np.int64(7), 2**32 - 1, np.random.RandomState(3)])
def test_generators_are_those_of_scikit_learn(value):
    ours, theirs = check_random_state(value).get_state(), sklearn.utils.check_random_state(value).get_state()
    assert ours[2:] == theirs[2:]
    assert (ours[1] == theirs[1]).all()


@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_integers_without_a_float_lie_in_no_range(value):
    for check in (check_real, check_fraction, check_prior):
        with pytest.raises(DRPUError):
            check("width", value)
