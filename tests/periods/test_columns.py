import json

import numpy as np
import pytest

from drpu import PriorEstimate
from drpu._codec import encode
from drpu.exceptions import DataError
from drpu.periods.shift_tests import column_shifts
from drpu.tables.values import Cells, count_columns, profile_columns

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
@pytest.mark.parametrize("prior", [0.05, pytest.param(0.3, marks=pytest.mark.slow), 0.8])
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


@pytest.mark.parametrize("factor", [1e-4, 1e4, 2.0])  # all rows lie below or above those of training, or some
def test_a_factor_on_an_amount_is_noticed_and_named(profiles, factor):
    rng = np.random.default_rng(8)
    rows = sample(rng, 1500, 0.3, factor=factor)
    shifts = shifts_of(profiles, rows, TRAIN, near(0.3))
    assert [shift.name for shift in shifts if shift.p_value < 0.001] == ["amount"]
    rows[:, 3] = 100 + rows[:, 3]  # missing values stay beside those that lie above
    moved = shifts_of(profiles, rows, TRAIN, near(0.3))
    assert sorted(shift.name for shift in moved if shift.p_value < 0.001) == ["amount", "gaps"]
    assert shifts[0].name == "amount"
    if factor == 2.0:
        assert 0.05 < shifts[0].misfit < 0.3  # without the small move that does not matter


def test_more_missing_values_are_a_move(profiles):
    rng = np.random.default_rng(8)
    rows = sample(rng, 1500, 0.3)
    rows[rng.random(1500) < 0.3, 0] = np.nan
    shifts = shifts_of(profiles, rows, TRAIN, near(0.3))
    assert [shift.name for shift in shifts if shift.p_value < 0.001] == ["age"]


def secret_rows(rng, n):
    """Columns of different values: measured, with few digits, mostly 0, mostly missing, evenly spaced."""
    amounts = np.where(rng.random(n) < 0.9, 0.0, np.round(rng.exponential(9e4, n), 2))
    gaps = np.where(rng.random(n) < 0.97, np.nan, rng.normal(size=n))
    columns = (
        rng.normal(size=n),
        np.round(rng.normal(5e4, 1e4, n), 1),
        amounts,
        gaps,
        500.0 * rng.permutation(n),
    )
    return np.column_stack(columns)


@pytest.mark.parametrize(("n_positive", "n_unlabeled"), [(4, 60), (7, 30), (200, 2000)])
def test_no_value_of_fewer_than_six_rows_is_in_a_record(n_positive, n_unlabeled):
    rng = np.random.default_rng(2)
    P, U = secret_rows(rng, n_positive), secret_rows(rng, n_unlabeled)
    profiles = profile_columns(P, U, "abcde")
    assert len(profiles) == 5
    for column, profile in enumerate(profiles):
        tree, arrays, _ = encode(profile)
        kept = json.dumps(tree) + " ".join(repr(float(x)) for array in arrays.values() for x in array.flat)
        values, counts = np.unique(np.concatenate([P, U])[:, column], return_counts=True)
        secrets = values[(counts < 6) & ((values % 1 > 0) | (values > n_unlabeled))]  # not like counts
        assert not [secret for secret in secrets if repr(float(secret)) in kept.split()]
        assert set(secrets).isdisjoint(np.concatenate([array.ravel() for array in arrays.values()]))


def test_one_row_does_not_decide_a_limit():
    rng = np.random.default_rng(3)
    P, U = rng.normal(size=(100, 1)), rng.normal(size=(900, 1))
    before = profile_columns(P, U, "a")[0].cells.edges
    for row, secret in zip(range(0, 900, 90), rng.normal(size=10), strict=True):
        changed = U.copy()
        changed[row] = secret
        after = profile_columns(P, changed, "a")[0].cells.edges
        assert np.abs(after - before).max() < 0.05
        assert secret not in after


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
    assert codes.tested.tolist() == [0, 3]  # neither rare and unseen levels, nor those with few rows


def test_an_amount_that_is_usually_zero_has_ranges(profiles):
    rng = np.random.default_rng(3)

    def gains(n, factor=1.0):
        return np.where(rng.random((n, 1)) < 0.1, factor * rng.exponential(100, (n, 1)), 0.0)

    (gain,) = profile_columns(gains(400), gains(4000), ["gain"])
    assert len(gain.cells.edges) > 5
    new = np.hstack([sample(rng, 3000, 0.3), gains(3000, 4.0)])
    shifts = shifts_of([*profiles, gain], new, TRAIN, near(0.3))
    assert [shift.name for shift in shifts if shift.p_value < 0.001] == ["gain"]


def test_few_other_values_say_nothing_about_the_distance_of_values():
    """In rows standardised by themselves the frequent value moves by hundredths of a deviation."""
    rng = np.random.default_rng(9)
    samples = []
    for n, others in ((520, 3), (500, 16)):
        rows = np.column_stack([rng.normal(size=n), np.arange(n) < others])
        samples.append((rows - rows.mean(axis=0)) / rows.std(axis=0))
    old, new = samples
    shifts = shifts_of(profile_columns(old[::13], old, "ab"), new, TRAIN, near(0.3))
    assert min(shift.p_value for shift in shifts) > 0.001
