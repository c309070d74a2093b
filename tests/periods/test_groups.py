import numpy as np
import pytest
from numpy.testing import assert_allclose

from drpu import PriorEstimate
from drpu.periods.groups import GroupReading, between_groups, joint_level, shrink


def prior(value, width):
    return PriorEstimate(value, max(value - width, 0), min(value + width, 1), 0.995, "matching")


def readings(groups):
    """Readings of groups (value, half of the width of the limits, rows), named a, b, ..."""
    found = zip("abcd", groups, strict=False)
    return [GroupReading(name, n, prior(value, width), width / 2.8) for name, (value, width, n) in found]


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
    groups = [(0.10, 0.01, 9000), (0.30, 0.01, 9000), (0.50, 0.01, 9000), (0.70, 0.3, 30)]
    found = shrink(readings(groups), prior(0.3, 0.005), 0.95)
    weights = [group.weight for group in found]
    assert min(weights[:3]) > 0.98
    assert weights[3] < 0.9
    assert 0.3 < found["d"].prior.value < 0.7
    assert found["d"].alone.value == 0.7


def test_shrunken_values_stay_inside_their_limits():
    groups = [(0.9, 0.02, 500), (0.1, 0.3, 9), (0.12, 0.3, 9)]
    for group in shrink(readings(groups), prior(0.2, 0.01), 0.95):
        assert group.prior.low <= group.prior.value <= group.prior.high


def test_a_single_group_is_left_alone():
    found = shrink(readings([(0.4, 0.2, 50)]), prior(0.3, 0.2), 0.95)
    assert found["a"].prior == found["a"].alone
    assert "1 groups" in str(found)


def test_names_are_escaped_in_notebooks():
    found = shrink([GroupReading("<b>", 50, prior(0.4, 0.2), 0.1)], prior(0.3, 0.2), 0.95)
    assert "<th scope=row>&lt;b&gt;</th>" in found._repr_html_()


def test_an_error_that_all_groups_share_is_no_reason_to_shrink():
    wide = [
        GroupReading(name, 900, prior(value, 0.5), 0.02) for name, value in zip("ab", (0.2, 0.5), strict=True)
    ]
    found = shrink(wide, prior(0.35, 0.5), 0.95)
    assert min(group.weight for group in found) > 0.95
    assert found.differ
    same = shrink([GroupReading(name, 900, prior(0.3, 0.5), 0.02) for name in "ab"], prior(0.3, 0.5), 0.95)
    assert not same.differ
