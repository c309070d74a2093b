"""Laws of labels that are no fair sample: rates by cell, weights and bounds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import logit

from drpu.audits import sensitivity
from drpu.audits.labelling import inverse_weights, labelling_rates

posteriors = st.lists(st.floats(0, 1), min_size=1, max_size=30).map(np.array)


def town(seed: int, rates: tuple[float, ...], n: int = 4000, prior: float = 0.3):
    """Cell, class and label of rows whose positives are labelled at the rate of their cell."""
    rng = np.random.default_rng(seed)
    cell = rng.integers(0, len(rates), n)
    y = rng.random(n) < prior
    label = y & (rng.random(n) < np.array(rates)[cell])
    return rng, cell, y, label


def audited(seed: int, rates: tuple[float, ...], n: int = 200, weighted: bool = False):
    rng, cell, y, label = town(seed, rates)
    chance = np.where(y, 2.0, 1.0) if weighted else np.ones(len(y))
    chance = np.where(label, 0.0, chance)
    at = rng.choice(len(y), n, replace=False, p=chance / chance.sum())
    counts = [np.bincount(cell[kept], minlength=len(rates)) for kept in (label, ~label)]
    return labelling_rates(*counts, cell[at], y[at], weight=1 / chance[at])


def values(rates):
    return np.array([rate.value for rate in rates])


# -- weights ---------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=20).map(np.array), st.floats(0.1, 1))
def test_weights_have_mean_1_and_no_scale(propensity, factor):
    weight = inverse_weights(propensity)
    assert_allclose(weight.mean(), 1.0)
    assert_allclose(inverse_weights(factor * propensity), weight, rtol=1e-9)
    assert_allclose(weight * propensity, weight[0] * propensity[0], rtol=1e-9)


def test_weighted_labelled_rows_represent_all_positives():
    rates = (0.5, 0.1)
    gaps = []
    for seed in range(200):
        _, cell, y, label = town(seed, rates)
        weight = inverse_weights(np.array(rates)[cell[label]])
        gaps.append(weight @ cell[label] / weight.sum() - cell[y].mean())
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / math.sqrt(200)


# -- rates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_rates_of_cells_are_found_with_limits_that_hold(weighted):
    rates = (0.5, 0.1, 0.3)
    held, errors = [], []
    for seed in range(200):
        found = audited(seed, rates, weighted=weighted)
        held.append([f.low <= rate <= f.high for f, rate in zip(found, rates, strict=True)])
        errors.append(values(found) - rates)
    # Three standard errors of a share of 0.95 in 200 runs, and of the mean over runs.
    assert (np.mean(held, axis=0) > 0.95 - 3 * math.sqrt(0.95 * 0.05 / 200)).all()
    assert (np.abs(np.mean(errors, axis=0)) < 0.03).all()


def test_equal_rates_are_shrunk_to_one_rate():
    alone, shrunk = [], []
    for seed in range(40):
        found = audited(seed, (0.3,) * 8)
        shrunk.append(np.ptp(values(found)))
        alone.append(np.mean([rate.high - rate.low for rate in found]))
    assert np.median(shrunk) < 0.05
    assert np.mean(alone) > 0.2  # the limits of a cell do not borrow from the others


def test_different_rates_are_shrunk_less_with_more_answers():
    few, many = (
        np.mean([np.ptp(logit(values(audited(seed, (0.6, 0.1), n=n)))) for seed in range(20)])
        for n in (40, 1500)
    )
    assert few < many
    assert_allclose(many, logit(0.6) - logit(0.1), rtol=0.1)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 500)), min_size=1, max_size=6),
    st.lists(st.booleans(), max_size=20),
)
def test_any_counts_give_rates_inside_their_limits(counts, answers):
    labelled, unlabeled = (np.array(part) for part in zip(*counts, strict=True))
    cell = np.arange(len(answers)) % len(counts)
    found = labelling_rates(labelled, unlabeled, cell, np.array(answers, dtype=bool))
    for rate in found:
        assert 0 <= rate.low <= rate.value <= rate.high <= 1
        assert rate.low < rate.high


# -- bounds ------------------------------------------------------------------------------------------


@given(posteriors, st.floats(0, 1))
def test_equal_rates_change_nothing(posterior, cost):
    found = sensitivity(posterior, k=1.0, cost=cost)
    assert found.prior_low == found.prior == found.prior_high
    assert found.flagged_low == found.flagged == found.flagged_high


@given(posteriors, st.floats(1, 20), st.floats(1, 20), st.floats(0, 1))
def test_bounds_grow_with_the_factor(posterior, one, other, rate):
    narrow, wide = (sensitivity(posterior, k=k, rate=rate) for k in sorted((one, other)))
    assert wide.prior_low <= narrow.prior_low + 1e-12
    assert narrow.prior_low <= narrow.prior + 1e-12
    assert narrow.prior <= narrow.prior_high + 1e-12
    assert narrow.prior_high <= wide.prior_high + 1e-12
    assert wide.flagged_low <= narrow.flagged_low <= narrow.flagged
    assert narrow.flagged <= narrow.flagged_high <= wide.flagged_high


@given(st.integers(0, 10**6), st.floats(1, 5))
def test_bounds_contain_the_truth_if_rates_differ_by_no_more(seed, k):
    rng = np.random.default_rng(seed)
    truth, middle = rng.random(50), 0.2
    rate = middle * k ** rng.uniform(-1, 1, 50)
    labelled = truth * np.minimum(rate, 1.0)
    posterior = np.minimum(labelled / middle, 1.0)  # as read at one rate
    found = sensitivity(posterior, k=k, rate=middle)
    assert found.prior_low <= truth.mean() + 1e-12
    assert truth.mean() <= found.prior_high + 1e-12
    assert found.flagged_low <= (truth > 0.5).mean() + 1e-12
    assert (truth > 0.5).mean() <= found.flagged_high + 1e-12


@given(posteriors, st.floats(1, 20))
def test_ranges_of_rows_are_rows(posterior, k):
    counts = np.arange(1, len(posterior) + 1)
    rows = sensitivity(np.repeat(posterior, counts), k=k)
    ranges = sensitivity(posterior, k=k, weight=counts.astype(float))
    assert_allclose([rows.prior_low, rows.prior_high], [ranges.prior_low, ranges.prior_high])
    assert_allclose([rows.flagged_low, rows.flagged_high], [ranges.flagged_low, ranges.flagged_high])
