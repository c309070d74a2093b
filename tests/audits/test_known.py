"""Laws of known negatives: they are used as far as they help to rank labelled positives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from drpu.audits.labelling import answer_weights
from drpu.models.crossfit import negative_share


def samples(seed: int, n: int = 3000, prior: float = 0.3, rate: float = 0.3):
    """Whether rows are labelled, their class, and two independent readings of it."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < prior
    label = y & (rng.random(n) < rate)
    return label, y, rng.normal(size=n) + y, rng.normal(size=n) + y


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=30).map(np.array), st.floats(0.1, 10))
def test_weights_sum_to_the_effective_number_and_have_no_scale(chance, factor):
    weight = answer_weights(chance)
    assert_allclose(weight, answer_weights(factor * chance), rtol=1e-9)
    assert weight.sum() <= len(chance) * (1 + 1e-9)
    assert_allclose(weight.sum(), weight.sum() ** 2 / (weight @ weight), rtol=1e-9)


def test_two_equally_good_scores_are_averaged():
    shares = [
        negative_share(label, one, other) for label, _, one, other in (samples(seed) for seed in range(20))
    ]
    assert 0.3 < np.mean(shares) < 0.6


@pytest.mark.parametrize("seed", range(5))
def test_a_score_that_misleads_is_not_used(seed):
    label, _, one, other = samples(seed)
    assert negative_share(label, one, -other) == 0
    assert negative_share(label, one, np.random.default_rng(seed).normal(size=len(one))) <= 0.2


@pytest.mark.parametrize("seed", range(5))
def test_a_much_better_score_replaces_the_other(seed):
    label, y, _, other = samples(seed, n=20_000)
    assert negative_share(label, np.random.default_rng(seed).normal(size=len(y)), 2 * other) >= 0.7


def test_the_average_ranks_no_worse_than_without_the_negatives():
    """Biased negatives: the second score sees a column that has nothing to do with the class."""
    losses = []
    for seed in range(40):
        label, y, one, other = samples(seed)
        bias = 3 * np.random.default_rng([seed, 1]).normal(size=len(y))
        share = negative_share(label, one, other + bias)
        losses.append(roc_auc_score(y, (1 - share) * one + share * (other + bias)) - roc_auc_score(y, one))
    # The standard error of the mean of 40 differences is below 0.002.
    assert np.mean(losses) > -0.005


@given(st.integers(0, 9))
def test_few_labelled_rows_choose_nothing(n):
    labelled = np.arange(50) < n
    assert negative_share(labelled, np.zeros(50), 1.0 * labelled) == 0


def test_the_order_of_rows_does_not_matter():
    label, _, one, other = samples(0)
    order = np.random.default_rng(0).permutation(len(label))
    assert negative_share(label, one, other) == negative_share(label[order], one[order], other[order])
