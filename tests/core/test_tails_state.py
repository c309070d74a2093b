"""Tails are restored from their state, from pickles and from copies; damaged states are refused."""

import copy
import pickle

import numpy as np
import pytest
from tails_data import POSITIVE, weighted_tails

from drpu.core.tails import ScoreTails
from drpu.exceptions import DataError

KEEPERS = {
    "state": lambda t: ScoreTails.from_state(t.state()),
    "pickle": lambda t: pickle.loads(pickle.dumps(t)),
    "pickle 2": lambda t: pickle.loads(pickle.dumps(t, protocol=2)),
    "deepcopy": copy.deepcopy,
}
TAILS = {
    "empty": lambda: ScoreTails(POSITIVE),
    "counts": lambda: ScoreTails(POSITIVE, copies=3).update([0.1, 0.5, 0.95]),
    "weights": weighted_tails,
    "weighted positives": lambda: ScoreTails(POSITIVE, [1.0, 0.0, 2.0, 0.5]).update([0.3]),
    "infinite": lambda: ScoreTails([-np.inf, np.inf]).update([0.0, np.inf]),
}


@pytest.mark.parametrize("keep", KEEPERS)
@pytest.mark.parametrize("make", TAILS)
def test_kept_tails_are_equal_and_go_on_counting(keep, make):
    tails = TAILS[make]()
    kept = KEEPERS[keep](tails)
    assert kept == tails
    assert (kept.n, kept.n_positive, kept.copies) == (tails.n, tails.n_positive, tails.copies)
    kept.update([0.4])
    assert kept != tails
    assert kept == tails.update([0.4])


def test_a_state_does_not_change_when_counting_goes_on():
    tails = ScoreTails(POSITIVE).update([0.3])
    state = tails.state()
    restored = ScoreTails.from_state(state)
    tails.update([0.3])
    assert restored.n == ScoreTails.from_state(state).n == 1


def test_integers_of_any_width_are_counts():
    state = weighted_tails().empty().update([0.3]).state()
    restored = ScoreTails.from_state(state.replaced(counts=state.arrays["counts"].astype(np.int32)))
    assert not restored.weighted
    assert restored.n == 1


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"levels": np.array([0.2, 0.9, 0.5])}, "levels must ascend"),
        ({"levels": np.array([0.2, 0.5, 0.5])}, "levels must ascend"),
        ({"levels": np.array([0.2, np.inf, np.inf])}, "levels must ascend"),
        ({"levels": np.array([0.2, np.nan, 0.9])}, "levels must not hold NaN"),
        ({"levels": np.array([0.2, 0.5])}, "positive_counts must have one more cell than levels, 3"),
        ({"levels": np.array([])}, "levels must hold at least one"),
        ({"counts": np.array([1, 1, 1])}, "counts must have one more cell than levels, 4"),
        ({"counts": np.array([1, -1, 0, 0])}, "counts must be finite numbers that are not negative"),
        ({"counts": np.array([1.0, np.nan, 0, 0])}, "counts must be finite"),
        ({"counts": np.array([1.0, np.inf, 0, 0])}, "counts must be finite"),
        ({"counts": np.array(["1", "1", "0", "0"])}, "counts must be finite numbers"),
        ({"counts": None}, "counts must have one more cell"),
        ({"counts": np.array([1.0, 1.0, 0, 0])}, "counts and weight_squares do not agree"),
        ({"positive_counts": np.array([1, 1, 1, 1])}, "positive_counts and n_positive do not agree"),
        ({"positive_counts": np.array([0, 0, 0, 0])}, "positive_counts and n_positive do not agree"),
        ({"n_positive": 5.0}, "positive_counts and n_positive do not agree"),
        ({"n_positive": 0.0}, "positive_counts and n_positive do not agree"),
        ({"n_positive": np.nan}, "n_positive must lie between 0 and"),
        ({"n_positive": "four"}, "n_positive must be a number, got 'four'"),
        ({"copies": 0}, "copies must be at least 1, got 0"),
        ({"copies": 1.5}, "copies must be an integer, got 1.5"),
        ({"weight_squares": -1.0}, "weight_squares must lie between 0 and"),
        ({"columns": np.array([3, -1])}, "columns must be counts"),
        ({"columns": np.array([], dtype=np.int64)}, "columns must be counts"),
    ],
)
def test_a_damaged_state_is_refused(damage, words):
    state = ScoreTails(POSITIVE).update([0.1, 0.5], columns=np.array([1, 1])).state()
    with pytest.raises(DataError, match=f"the state of tails is damaged: .*{words}"):
        ScoreTails.from_state(state.replaced(**damage))


@pytest.mark.parametrize(
    "key", ["levels", "positive_counts", "counts", "n_positive", "copies", "weight_squares"]
)
def test_a_state_with_a_part_missing_is_refused(key):
    state = ScoreTails(POSITIVE).state()
    (state.arrays if key in state.arrays else state.config).pop(key)
    with pytest.raises(DataError, match=f"damaged: '{key}'"):
        ScoreTails.from_state(state)


@pytest.mark.parametrize("state", [None, [], 3])
def test_something_that_is_no_state_is_refused(state):
    with pytest.raises(DataError, match="the state of tails is damaged"):
        ScoreTails.from_state(state)


def test_tails_can_be_pickled_and_copied():
    tails = ScoreTails([0.0, 1.0]).update([0.5, 2.0], [1.0, 3.0])
    assert pickle.loads(pickle.dumps(tails)) == tails == copy.deepcopy(tails)
