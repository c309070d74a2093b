"""Laws of the central value and the limits of priors that are not identified."""

import numpy as np
import pytest

from drpu import ScoreTails
from drpu.priors.central import central_prior, prior_distribution, reading_spread, saturation
from drpu.priors.constants import EXPECTED_ERROR
from drpu.priors.estimate import prior_from_tails
from drpu.priors.limits import ratio_limits
from drpu.priors.readings import adaptive

SHARES = (None, 0.02, 0.1)


def drawn(seed, separation, prior=0.3, n_positive=200, n=2000):
    """Tails of normal classes."""
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < prior
    return ScoreTails(rng.normal(separation, 1, n_positive)).update(rng.normal(separation * labels, 1))


# -- the distribution ------------------------------------------------------------------------------


@pytest.mark.parametrize("share", SHARES)
def test_the_mean_increases_with_the_reading(share):
    means = [
        prior_distribution(reading, 0.4, 200.0, labelled_share=share).mean
        for reading in np.linspace(0.01, 0.99, 25)
    ]
    assert (np.diff(means) > 0).all()


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("reading", [0.1, 0.5, 0.9])
def test_the_mean_approaches_the_reading_with_the_strength_and_the_number_of_positives(share, reading):
    def distance(strength, n_positive):
        found = prior_distribution(reading, strength, n_positive, labelled_share=share)
        return abs(found.mean - reading)

    assert distance(0.9, 1e4) < 0.06
    by_strength = [distance(strength, 500.0) for strength in (0.0, 0.3, 0.6, 0.9)]
    assert by_strength[-1] < by_strength[0]
    assert distance(0.9, 1e4) <= distance(0.9, 20.0) + 1e-9


def test_the_spread_of_readings_decreases_with_strength_and_number_of_positives():
    spreads = [reading_spread(strength, 100.0) for strength in np.linspace(-0.5, 1.2, 18)]
    assert (np.diff(spreads) <= 0).all()
    assert reading_spread(0.4, 1000.0) < reading_spread(0.4, 30.0)


def test_priors_above_the_upper_limit_have_no_weight():
    found = prior_distribution(0.6, 0.1, 100.0, high=0.3)
    assert found.weight[found.prior > 0.3].sum() == 0
    assert found.mean < 0.3
    assert prior_distribution(0.6, 0.1, 100.0, high=0.0).mean < 0.01


def test_many_labelled_rows_make_a_large_prior_likelier():
    def whole(share):
        return share + (1 - share) * prior_distribution(0.8, 0.05, 300.0, labelled_share=share).mean

    assert whole(0.02) < whole(0.1) < whole(0.3)


def test_quantiles_and_errors_are_those_of_the_distribution():
    found = prior_distribution(0.3, 0.3, 200.0)
    low, median, high = (found.quantile(p) for p in (0.025, 0.5, 0.975))
    assert low < median < high
    assert found.error(median) <= min(found.error(low), found.error(high))


# -- training priors -------------------------------------------------------------------------------


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("separation", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_values_lie_between_their_limits_and_below_the_upper_reading(separation, share):
    for seed in range(4):
        found = prior_from_tails(drawn(seed, separation), labelled_share=share)
        assert 0 <= found.low <= found.value <= found.high <= 1
        assert found.identified or found.value <= found.upper <= found.high


@pytest.mark.parametrize("prior", [0.05, 0.3, 0.6])
def test_separated_classes_are_identified_and_keep_reading_and_limits(prior):
    for seed in range(5):
        tails = drawn(seed, 3.5, prior)
        found, limits = prior_from_tails(tails), ratio_limits(tails, 0.95)
        assert found.identified
        assert (found.low, found.high, found.upper) == (limits.low, limits.high, None)
        assert found.value == min(max(adaptive(tails), limits.low), limits.high)


def test_classes_that_the_score_does_not_separate_are_not_identified():
    for seed in range(5):
        found = prior_from_tails(drawn(seed, 0.2))
        assert not found.identified
        assert (found.low, found.method) == (0, "central")
        assert found.value < found.upper


def test_a_rule_that_is_asked_for_by_name_is_the_upper_reading():
    tails = drawn(0, 0.5)
    named, central = prior_from_tails(tails, method="adaptive"), prior_from_tails(tails)
    assert (named.low, named.high, named.identified) == (central.low, central.high, central.identified)
    assert named.value == named.upper == central.upper > central.value


def test_a_small_upper_limit_identifies_the_prior_without_a_strong_signal():
    tails = drawn(0, 2.2, prior=0.02, n_positive=100, n=20_000)
    assert ratio_limits(tails, 0.95).high < EXPECTED_ERROR
    assert central_prior(tails).limits.identified


def test_limits_are_nested_and_identification_does_not_depend_on_their_level():
    for seed, separation in ((0, 0.8), (1, 1.5), (2, 2.5)):
        found = [prior_from_tails(drawn(seed, separation), level=level) for level in (0.8, 0.95, 0.99)]
        assert len({f.identified for f in found}) == 1
        assert found[0].low >= found[1].low >= found[2].low
        assert found[0].high <= found[1].high <= found[2].high


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


def test_the_same_rows_have_the_central_value_again():
    reference = drawn(3, 1.0)
    train = prior_from_tails(reference)
    again = prior_from_tails(reference, reference=reference, train_prior=train)
    assert not train.identified
    assert (again.value, again.upper) == pytest.approx((train.value, train.upper), abs=1e-6)


def noisy_scores(rng, x, separation, prior, error=0.1):
    """Fitted log-ratios of normal rows: they end at -log(prior), and have an error."""
    log_odds = np.log(prior / (1 - prior)) + separation * (x - separation / 2)
    return -np.logaddexp(0, -log_odds) + rng.normal(0, error, len(x))


@pytest.mark.parametrize("separation", [2, 3])
def test_limits_of_rows_without_positives_include_zero(separation):
    excluded = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        labels = rng.random(1500) < 0.4
        tails = ScoreTails(noisy_scores(rng, rng.normal(separation, 1, 300), separation, 0.4))
        reference = tails.update(noisy_scores(rng, rng.normal(separation * labels, 1), separation, 0.4))
        new = reference.empty().update(noisy_scores(rng, rng.normal(0, 1, 1000), separation, 0.4))
        excluded += prior_from_tails(new, reference=reference).low > 0
    # At 97.5 %, four or more of 20 have a probability of 0.1 %.
    assert excluded <= 3


def test_saturation_is_small_where_the_classes_are_far_apart():
    near, far = (saturation(drawn(0, separation, prior=0.4), 0.4, 0.3) for separation in (1.5, 3.5))
    assert 0 < far < near < 0.5
