"""Readings of a prior from one sample: each against what it promises."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from drpu import ScoreTails
from drpu.exceptions import FewPositivesWarning, ParameterError
from drpu.priors import PROPORTIONS
from drpu.priors.readings import infimum
from tails_data import scores

best_bin, dedpul, plateau = (PROPORTIONS[name] for name in ("best-bin", "dedpul", "plateau"))


def mixture(rng, n_positive, n, prior, separation=3.0):
    return rng.normal(separation, 1, n_positive), scores(rng, n, prior, separation)


def tails_of(positive, unlabeled):
    return ScoreTails(positive).update(unlabeled)


def epsilon(n):
    """The two terms of the paper's uniform bound, as printed there."""
    return np.sqrt(4 * np.log(np.e * n / 2) / n) + np.sqrt(np.log(2 / (1 / n)) / (2 * n))


# -- all of them -------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROPORTIONS)
@pytest.mark.parametrize("prior", [0.1, pytest.param(0.5, marks=pytest.mark.slow), 0.9])
def test_estimates_approach_the_prior_as_samples_grow(name, prior):
    rng = np.random.default_rng(0)
    errors = {
        n: np.mean(
            [abs(PROPORTIONS[name](tails_of(*mixture(rng, n, 5 * n, prior, 4.0))) - prior) for _ in range(8)]
        )
        for n in (100, 10_000)
    }
    # The standard error of a tail ratio at half the recall is sqrt(prior / n), .01 at most here.
    assert errors[10_000] < 0.02
    assert errors[10_000] < errors[100]


@pytest.mark.parametrize("name", PROPORTIONS)
@pytest.mark.parametrize("score", [0.0, -690.0, 1e-300])
def test_a_score_that_never_changes_tells_no_negatives(name, score):
    value = PROPORTIONS[name](tails_of(np.full(100, score), np.full(500, score)))
    assert 0.3 < value <= 1  # plateau can only return its initial value: a half
    if name in ("paper", "best-bin"):
        assert value == 1


@pytest.mark.parametrize("name", PROPORTIONS)
def test_where_no_unlabeled_row_scores_as_high_the_prior_is_nearly_0(name):
    assert PROPORTIONS[name](tails_of(np.linspace(1, 2, 100), np.linspace(-2, 0, 500))) < 0.02


# -- the paper's infimum -------------------------------------------------------------------


def lowest(positive, unlabeled, recall):
    """Smallest tail ratio by definition: over every threshold with enough rows above it."""
    ratios = [
        np.mean(unlabeled >= t) / np.mean(positive >= t) for t in positive if np.mean(positive >= t) > recall
    ]
    return min(1.0, min(ratios))


@pytest.mark.parametrize(("n_positive", "gamma"), [(28, 1.0), (60, 1.0), (300, 1.0), (300, 0.7)])
def test_infimum_is_the_least_ratio_among_recalls_that_the_theorem_allows(n_positive, gamma):
    positive, unlabeled = mixture(np.random.default_rng(4), n_positive, 900, 0.3, 1.5)
    expected = lowest(positive, unlabeled, epsilon(n_positive) / gamma)
    assert_allclose(infimum(tails_of(positive, unlabeled), gamma=gamma), expected, rtol=1e-12)


def test_both_sizes_ask_for_the_larger_recall():
    positive, unlabeled = mixture(np.random.default_rng(5), 2000, 80, 0.3, 1.5)
    tails = tails_of(positive, unlabeled)
    assert_allclose(infimum(tails), lowest(positive, unlabeled, epsilon(2000)), rtol=1e-12)
    assert_allclose(infimum(tails, sizes="both"), lowest(positive, unlabeled, epsilon(80)), rtol=1e-12)
    assert infimum(tails, sizes="both") >= infimum(tails)
    many = tails_of(positive[:100], np.repeat(unlabeled, 50))
    assert infimum(many, sizes="both") == infimum(many)


@pytest.mark.parametrize("n", [1, 5, 27])
def test_below_28_positives_best_bin_answers_and_says_so(n):
    assert epsilon(27) > 1 > epsilon(28)
    tails = tails_of(*mixture(np.random.default_rng(7), n, 300, 0.4))
    with pytest.warns(FewPositivesWarning, match=f"{n} held-out positives are too few"):
        assert infimum(tails) == best_bin(tails)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("gamma", value) for value in (0, -1, 1.5, np.nan, "1", None)),
        *(("sizes", name) for name in ("all", None)),
    ],
)
def test_options_of_the_infimum_are_checked(name, wrong):
    with pytest.raises(ParameterError, match=f"{name} must"):
        infimum(tails_of([1.0], [1.0]), **{name: wrong})


# -- best-bin and plateau -------------------------------------------------------------------


def test_best_bin_reads_the_ratio_where_its_bound_is_least():
    positive, unlabeled = mixture(np.random.default_rng(9), 80, 400, 0.3, 1.5)
    noise = sum(np.sqrt(np.log(4 / 0.1) / (2 * n)) for n in (80, 400))
    a = np.array([np.mean(unlabeled >= t) for t in positive])
    b = np.array([np.mean(positive >= t) for t in positive])
    at = np.argmin(a / b + 1.01 * noise / b)
    assert_allclose(best_bin(tails_of(positive, unlabeled)), a[at] / b[at], rtol=1e-12)


def test_best_bin_is_above_the_prior_where_classes_overlap_and_plateau_is_not():
    rng = np.random.default_rng(10)
    draws = [tails_of(*mixture(rng, 1000, 5000, 0.3, 1.5)) for _ in range(10)]
    over, level = np.mean([best_bin(t) for t in draws]), np.mean([plateau(t) for t in draws])
    visible = 0.3 + 0.7 * norm.sf(1.5 + 1.0) / norm.sf(1.0)  # lower bound of a tail with recall .16
    assert 0.3 < over < visible + 0.05
    assert abs(level - 0.3) < 0.04


def test_plateau_is_right_for_true_log_ratios():
    positive, unlabeled = mixture(np.random.default_rng(13), 3000, 15_000, 0.4, 2.0)

    def log_ratio(s):
        log_odds = 2 * s - 2
        return log_odds - np.logaddexp(np.log(0.4) + log_odds, np.log(0.6))

    assert abs(plateau(tails_of(positive, unlabeled)) - 0.4) < 0.03
    assert abs(plateau(tails_of(log_ratio(positive), log_ratio(unlabeled))) - 0.4) < 0.1


# -- dedpul ------------------------------------------------------------------------------


def test_unlabeled_rows_above_all_positives_mean_a_prior_of_one():
    assert dedpul(tails_of([1.0, 2.0, 3.0], [9.0, 9.0])) == 1.0


def test_binary_scores_give_the_ratio_of_hits():
    tails = tails_of(np.ones(50), np.repeat([0.0, 1.0], [70, 30]))
    assert dedpul(tails) == pytest.approx(0.3, abs=0.02)


# Errors over 30 seeds were .005, .008, .014, .031, .058, .045.
@pytest.mark.parametrize(
    ("prior", "most"), [(0.0, 0.03), (0.05, 0.025), (0.3, 0.04), (0.7, 0.07), (0.95, 0.11), (1.0, 0.11)]
)
def test_the_error_of_dedpul_is_small_at_every_prior(prior, most):
    rng = np.random.default_rng(0)
    values = np.array([dedpul(tails_of(*mixture(rng, 500, 5000, prior, 2.5))) for _ in range(10)])
    assert np.sqrt(np.mean((values - prior) ** 2)) < most
