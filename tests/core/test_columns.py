import numpy as np
import pytest

from drpu import PriorEstimate
from drpu.core.shift.columns import Cells, column_shifts, count_columns, profile_columns
from drpu.exceptions import DataError

NAMES = ["age", "amount", "code", "gaps"]


def sample(rng, n, prior, *, factor=1.0):
    """Rows whose classes differ in every column; ``factor`` scales the amounts."""
    positive = rng.random(n) < prior
    rows = rng.normal(positive[:, None], 1, (n, 4))
    rows[:, 1] = factor * np.exp(rows[:, 1])
    rows[:, 2] = np.floor(4 * rng.random(n) * (1 + positive))
    rows[rng.random(n) < 0.1 + 0.2 * positive, 3] = np.nan
    return rows


@pytest.fixture(scope="module")
def profiles():
    rng = np.random.default_rng(0)
    return profile_columns(sample(rng, 400, 1.0), sample(rng, 4000, 0.3), NAMES)


def shifts_of(profiles, rows, train, test):
    return column_shifts(profiles, count_columns([profile.cells for profile in profiles], rows), train, test)


TRAIN = PriorEstimate(0.3, 0.27, 0.33, 0.95, "combined")


def near(prior):
    return PriorEstimate(prior, max(prior - 0.04, 0), prior + 0.04, 0.95, "matching")


@pytest.mark.parametrize("found", [None, 0.5])  # the estimate is right, or far off
@pytest.mark.parametrize("prior", [0.05, 0.3, 0.8])
def test_a_change_of_the_prior_alone_moves_no_column(profiles, prior, found):
    rng = np.random.default_rng(int(100 * prior))
    alarms = sum(
        min(
            shift.p_value
            for shift in shifts_of(profiles, sample(rng, 1500, prior), TRAIN, near(found or prior))
        )
        < 0.05
        for _ in range(40)
    )
    assert alarms <= 6  # 40 tries at .05: 6 or fewer in 98 %


def test_a_factor_on_an_amount_is_noticed_and_named(profiles):
    rng = np.random.default_rng(7)
    shifts = shifts_of(profiles, sample(rng, 1500, 0.3, factor=1.5), TRAIN, near(0.3))
    assert [shift.name for shift in shifts if shift.p_value < 0.001] == ["amount"]
    assert shifts[0].name == "amount"
    assert 0.05 < shifts[0].misfit < 0.3


def test_more_missing_values_are_a_move(profiles):
    rng = np.random.default_rng(8)
    rows = sample(rng, 1500, 0.3)
    rows[rng.random(1500) < 0.3, 0] = np.nan
    shifts = shifts_of(profiles, rows, TRAIN, near(0.3))
    assert [shift.name for shift in shifts if shift.p_value < 0.001] == ["age"]


def test_profiles_keep_no_values_of_rows():
    rng = np.random.default_rng(2)
    P, U = rng.normal(0, 1, (200, 3)), rng.normal(0, 1, (2000, 3))
    values = {f"{value:.12g}" for value in np.concatenate([P, U]).ravel()}
    for profile in profile_columns(P, U, "abc"):
        assert values.isdisjoint({f"{edge:.12g}" for edge in profile.cells.edges})


def test_constant_empty_and_wide_columns_are_no_trouble():
    P, U = np.ones((50, 2)), np.ones((300, 2))
    P[:, 1] = U[:, 1] = np.nan
    profiles = profile_columns(P, U, "ab")
    shifts = shifts_of(profiles, U[:100], TRAIN, TRAIN)
    assert {shift.p_value for shift in shifts} == {1.0}
    assert profile_columns(np.ones((2, 3000)), np.ones((2, 3000)), range(3000)) == ()
    with pytest.raises(DataError, match="the 2 columns"):
        shifts_of(profiles, np.ones((4, 3)), TRAIN, TRAIN)
    with pytest.raises(DataError, match="ranges of the profiles"):
        column_shifts(profiles, np.ones(3, dtype=np.int64), TRAIN, TRAIN)


def test_cells_are_half_open_and_count_every_value():
    cells = Cells(np.array([-1.0, 0.0, 2.5]))
    values = np.array([-3.0, -1.0, -0.5, 0.0, 0.0, 2.4, 2.5, 9.0, np.nan])
    assert cells.count(values).tolist() == [1, 2, 3, 2, 1]
    codes = Cells(np.empty(0), np.array([0, 1, 2, 3, 2]))
    assert codes.count(np.array([0.0, np.nan, 1.0, 2.0, 4.0, 3.0, 77.0])).tolist() == [2, 2, 2, 1]
    assert codes.tested.tolist() == [0, 2, 3]


def test_an_amount_that_is_usually_zero_has_ranges(profiles):
    rng = np.random.default_rng(3)

    def gains(n, factor=1.0):
        return np.where(rng.random((n, 1)) < 0.1, factor * rng.exponential(100, (n, 1)), 0.0)

    (gain,) = profile_columns(gains(400), gains(4000), ["gain"])
    assert len(gain.cells.edges) > 5
    new = np.hstack([sample(rng, 3000, 0.3), gains(3000, 4.0)])
    shifts = shifts_of([*profiles, gain], new, TRAIN, near(0.3))
    assert [shift.name for shift in shifts if shift.p_value < 0.001] == ["gain"]
