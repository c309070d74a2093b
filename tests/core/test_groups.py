import numpy as np
import pytest
from numpy.testing import assert_allclose

from drpu import PriorEstimate
from drpu.core.prior.groups import between_groups, joint_level, shrink


def prior(value, width):
    return PriorEstimate(value, max(value - width, 0), min(value + width, 1), 0.995, "matching")


def test_the_level_of_each_group_pays_for_all():
    assert joint_level(0.9, 1) == pytest.approx(0.9)
    for groups in (2, 10, 100):
        assert_allclose(groups * (1 - joint_level(0.95, groups)), 0.05)


def test_the_variance_between_groups_is_found_on_average():
    rng = np.random.default_rng(0)
    errors = rng.uniform(0.01, 0.05, 40)
    found = [
        between_groups(0.3 + 0.05 * rng.normal(size=40) + errors * rng.normal(size=40), errors)
        for _ in range(200)
    ]
    spread = np.std(found) / np.sqrt(200)
    assert abs(np.mean(found) - 0.05**2) < 4 * spread


def test_noise_alone_leaves_nothing_between_groups():
    rng = np.random.default_rng(1)
    found = [between_groups(0.3 + 0.03 * rng.normal(size=30), np.full(30, 0.03)) for _ in range(100)]
    assert np.mean(np.sqrt(found)) < 0.015


def test_small_groups_move_to_the_whole_and_large_ones_stay():
    alone = [prior(0.10, 0.01), prior(0.30, 0.01), prior(0.50, 0.01), prior(0.70, 0.3)]
    found = shrink(list("abcd"), [9000, 9000, 9000, 30], alone, [1, 1, 1, 1], prior(0.3, 0.005), 0.95)
    weights = [group.weight for group in found]
    assert min(weights[:3]) > 0.98
    assert weights[3] < 0.9
    assert 0.3 < found["d"].prior.value < 0.7
    assert found["d"].alone.value == 0.7


def test_shrunken_values_stay_inside_their_limits():
    alone = [prior(0.9, 0.02), prior(0.1, 0.3), prior(0.12, 0.3)]
    for group in shrink(list("abc"), [500, 9, 9], alone, [1, 1, 1], prior(0.2, 0.01), 0.95):
        assert group.prior.low <= group.prior.value <= group.prior.high


def test_a_single_group_is_left_alone():
    found = shrink(["a"], [50], [prior(0.4, 0.2)], [1.0], prior(0.3, 0.2), 0.95)
    assert found["a"].prior == found["a"].alone
    assert "1 groups" in str(found)


def test_names_are_escaped_in_notebooks():
    found = shrink(["<b>"], [50], [prior(0.4, 0.2)], [1.0], prior(0.3, 0.2), 0.95)
    assert "<th scope=row>&lt;b&gt;</th>" in found._repr_html_()
