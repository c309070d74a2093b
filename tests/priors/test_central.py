"""Laws of the distribution of a prior: its value, its limits, and whether it is identified."""

import numpy as np
import pytest

import tails_data
from drpu import ScoreTails
from drpu.priors import prior_from_tails
from drpu.priors.central import PriorEvidence, corrected_reading, positive_area, prior_distribution
from drpu.priors.limits import ratio_limits
from tails_data import noisy_scores

SHARES = (None, 0.02, 0.1)


def drawn(seed, separation, prior=0.3, n_positive=200, n=2000):
    return tails_data.drawn(seed, n_positive, n, prior, separation)


# -- the distribution ------------------------------------------------------------------------------


def evidence(reading=0.4, *, separation=0.4, n_positive=200.0, separability=0.8, high=1.0):
    """Evidence whose area is that of the reading and of the separability of the classes."""
    area = 0.5 + (1 - reading) * (separability - 0.5)
    return PriorEvidence(reading, separation, area, n_positive, high)


@pytest.mark.parametrize("share", SHARES)
def test_the_mean_increases_with_the_reading(share):
    # Beyond 0.95, the area is so small that the columns may be useless.
    readings = np.linspace(0.01, 0.95, 24)
    means = [prior_distribution(evidence(reading), labelled_share=share).mean for reading in readings]
    assert (np.diff(means) > 0).all()


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("reading", [0.1, 0.5, 0.9])
def test_the_mean_approaches_the_reading_with_the_strength_and_the_number_of_positives(share, reading):
    def distance(separation, n_positive):
        seen = evidence(reading, separation=separation, n_positive=n_positive, separability=0.95)
        return abs(prior_distribution(seen, labelled_share=share).mean - reading)

    assert distance(0.9, 1e4) < 0.03
    assert distance(0.9, 500.0) < distance(0.0, 500.0)
    assert distance(0.9, 1e4) <= distance(0.9, 20.0) + 1e-3  # priors lie on a grid


def test_priors_above_the_upper_limit_have_no_weight():
    limited = prior_distribution(evidence(0.6, separation=0.1, high=0.3))
    assert limited.weight[limited.prior > 0.3].sum() == 0
    assert limited.mean < 0.3
    assert prior_distribution(evidence(0.6, separation=0.1, high=0.0)).mean < 0.01


def test_priors_above_what_the_area_allows_have_hardly_any_weight():
    # A_pu = 0.8 allows at most 2 (1 - 0.8) = 0.4, and the noise of the area is 0.5 / 100.
    seen = PriorEvidence(reading=0.7, separation=0.3, area=0.8, n_positive=1e4, high=1.0)
    distribution = prior_distribution(seen)
    assert distribution.weight[distribution.prior > 0.43].sum() < 0.01


def test_a_smaller_area_makes_a_larger_prior_likelier():
    areas = (0.75, 0.65, 0.55)
    means = [prior_distribution(PriorEvidence(0.5, 0.1, area, 500.0, 1.0)).mean for area in areas]
    assert means == sorted(means)


def test_the_area_is_tied_to_that_of_the_classes_by_the_prior():
    rng = np.random.default_rng(0)
    for prior in (0.1, 0.5, 0.8):
        tails = drawn(1, 1.5, prior, n_positive=20_000, n=20_000)
        of_classes = np.mean(rng.normal(1.5, 1, 100_000) > rng.normal(0, 1, 100_000))
        # Both areas have a standard error of 0.003 or less.
        assert positive_area(tails) - 0.5 == pytest.approx((1 - prior) * (of_classes - 0.5), abs=0.015)


def test_many_labelled_rows_make_a_large_prior_likelier():
    def population_prior(share):
        seen = evidence(0.8, separation=0.05, n_positive=300.0)
        return prior_distribution(seen, labelled_share=share).with_labelled(share).mean

    assert population_prior(0.02) < population_prior(0.1) < population_prior(0.3)


def test_quantiles_and_errors_are_those_of_the_distribution():
    distribution = prior_distribution(evidence(0.3, separation=0.3))
    low, median, high = (distribution.quantile(p) for p in (0.025, 0.5, 0.975))
    assert low < median < high
    assert distribution.error(median) <= min(distribution.error(low), distribution.error(high))
    assert distribution.far_from(low) >= distribution.far_from(median)


# -- training priors -------------------------------------------------------------------------------


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("separation", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_values_lie_between_their_limits_and_below_the_upper_reading(separation, share):
    for seed in range(4):
        prior = prior_from_tails(drawn(seed, separation), labelled_share=share)
        assert 0 <= prior.low <= prior.value <= prior.high <= 1
        assert prior.identified or prior.value <= prior.upper <= prior.high


@pytest.mark.parametrize("prior", [0.05, 0.3, 0.6, 0.9])
def test_separated_classes_are_identified(prior):
    for seed in range(5):
        tails = drawn(seed, 4.0, prior, n_positive=1000, n=10_000)
        estimate = prior_from_tails(tails)
        assert estimate.identified
        assert estimate.high == ratio_limits(tails, 0.95).high
        # Of mostly positive rows few negatives tell how far the value may lie below the limit.
        assert estimate.value == pytest.approx(prior, abs=0.03 if prior < 0.9 else 0.04)
        assert estimate.low <= prior + 0.01


@pytest.mark.parametrize(("n_positive", "n"), [(40, 1000), (200, 2000), (1000, 5000)])
def test_pure_noise_is_not_identified(n_positive, n):
    for seed in range(5):
        estimate = prior_from_tails(drawn(seed, 0.0, n_positive=n_positive, n=n))
        assert not estimate.identified
        assert estimate.high - estimate.low > 0.3


@pytest.mark.parametrize("prior", [0.005, 0.01, 0.02, 0.05])
def test_small_priors_are_identified_and_their_limits_hold(prior):
    estimates = [prior_from_tails(drawn(seed, 2.0, prior, n=4000)) for seed in range(20)]
    assert all(estimate.identified for estimate in estimates)
    # Twenty positives among 4,000 rows: the standard error is 0.001, and the reading adds 0.008.
    assert np.mean([abs(estimate.value - prior) for estimate in estimates]) < 0.015
    # At 95 %, four or more misses of 20 have a probability of 1.6 %.
    assert sum(estimate.low <= prior <= estimate.high for estimate in estimates) >= 17


@pytest.mark.parametrize("share", [None, 0.1])
def test_weak_signals_are_not_identified(share):
    for seed in range(5):
        assert not prior_from_tails(drawn(seed, 0.8, 0.5), labelled_share=share).identified


def test_mostly_positive_rows_are_read_as_such():
    for seed in range(5):
        estimate = prior_from_tails(drawn(seed, 1.5, prior=0.8))
        assert estimate.value > 0.55
        assert estimate.low <= 0.8 <= estimate.high


def test_a_rule_that_is_asked_for_by_name_is_the_upper_reading():
    tails = drawn(0, 0.5)
    named, central = prior_from_tails(tails, method="adaptive"), prior_from_tails(tails)
    assert (named.low, named.high, named.identified) == (central.low, central.high, central.identified)
    assert named.value == named.upper


def test_a_small_upper_limit_identifies_the_prior_without_a_strong_signal():
    tails = drawn(0, 2.2, prior=0.015, n_positive=100, n=20_000)
    assert ratio_limits(tails, 0.95).high < 0.05
    assert prior_from_tails(tails).identified


def test_limits_are_nested_and_identification_does_not_depend_on_their_level():
    for seed, separation in ((0, 0.8), (1, 1.5), (2, 2.5)):
        priors = [prior_from_tails(drawn(seed, separation), level=level) for level in (0.8, 0.95, 0.99)]
        assert len({prior.identified for prior in priors}) == 1
        assert priors[0].low >= priors[1].low >= priors[2].low
        assert priors[0].high <= priors[1].high <= priors[2].high


# -- later priors ----------------------------------------------------------------------------------


def after(reference, seed, separation, prior, n=1500):
    """Counts of later rows over the cells of ``reference``."""
    rng = np.random.default_rng([seed, 1])
    return reference.empty().update(rng.normal(separation * (rng.random(n) < prior), 1))


@pytest.mark.parametrize("prior", [0.1, 0.3, 0.7])
def test_limits_of_later_priors_hold_where_the_training_prior_is_not_identified(prior):
    held = []
    for seed in range(20):
        reference = drawn(seed, 1.0)
        found = prior_from_tails(after(reference, seed, 1.0, prior), reference=reference)
        if not found.identified:
            held.append(found.low <= prior <= found.high)
    # At 95 %, four or more misses of 20 have a probability of 1.6 %.
    assert len(held) >= 15
    assert sum(held) >= len(held) - 3


def test_an_unidentified_prior_follows_the_growth_of_the_negatives():
    reference = drawn(0, 1.2)
    train = prior_from_tails(reference)
    assert not train.identified
    found = [
        prior_from_tails(after(reference, 0, 1.2, prior), reference=reference, train_prior=train)
        for prior in (0.1, 0.3, 0.6)
    ]
    assert [f.value for f in found] == sorted(f.value for f in found)
    assert all(f.low <= f.value <= f.upper <= f.high for f in found)


def test_the_same_rows_have_the_same_possible_priors_of_which_small_ones_are_likelier():
    """No growth is likelier for small priors: larger ones could as well have fallen further."""
    reference = drawn(3, 1.0)
    train = prior_from_tails(reference)
    again = prior_from_tails(reference, reference=reference, train_prior=train)
    assert not train.identified
    possible = np.array(train.quantiles)
    negative = 1 - possible
    # The noise of the growth, of about .05, is the rest.
    assert again.value == pytest.approx(negative @ possible / negative.sum(), abs=0.02)
    assert again.upper == pytest.approx(train.upper, abs=1e-6)


@pytest.mark.parametrize("separation", [2, 3])
def test_limits_of_rows_without_positives_include_zero(separation):
    excluded = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        labels = rng.random(1500) < 0.4
        tails = ScoreTails(noisy_scores(rng, rng.normal(separation, 1, 300), separation, 0.4, 0.1))
        reference = tails.update(noisy_scores(rng, rng.normal(separation * labels, 1), separation, 0.4, 0.1))
        new = reference.empty().update(noisy_scores(rng, rng.normal(0, 1, 1000), separation, 0.4, 0.1))
        excluded += prior_from_tails(new, reference=reference).low > 0
    # At 97.5 %, four or more of 20 have a probability of 0.1 %.
    assert excluded <= 3


@pytest.mark.parametrize("separation", [2, 3])
def test_the_error_of_scores_does_not_move_a_reading(separation):
    error = 0.4
    prior = 0.12
    exact, noisy, corrected = [], [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        labels = rng.random(1500) < prior
        rows = rng.normal(separation, 1, 500), rng.normal(separation * labels, 1)
        exact.append(corrected_reading(ScoreTails(rows[0]).update(rows[1]), None))
        positive, unlabeled = (noisy_scores(rng, row, separation, prior, error) for row in rows)
        tails = ScoreTails(positive).update(unlabeled)
        noisy.append(corrected_reading(tails, None))
        corrected.append(corrected_reading(tails, error))
    bias = np.mean(noisy) - np.mean(exact)
    assert bias > 0.005
    assert abs(np.mean(corrected) - np.mean(exact)) < bias / 2
