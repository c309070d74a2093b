import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from drpu import Costs, ratio_threshold
from drpu.exceptions import ParameterError

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
