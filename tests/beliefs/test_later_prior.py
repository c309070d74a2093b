"""Laws of the prior of later rows, of which only the prior moved."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drpu import PriorEstimate, ScoreTails
from drpu.beliefs import later_prior, prior_from_tails
from drpu.beliefs.priors import likely_values
from drpu.priors import Growth, later_priors
from tails_data import drawn, mixture, noisy_scores, pair

LEVELS = (0.025, 0.25, 0.5, 0.75, 0.975)
train_priors = st.lists(st.floats(0, 1), min_size=1, max_size=20)


def after(reference, seed, separation, prior, n=1500):
    """Counts of later rows over the cells of ``reference``."""
    return reference.empty().update(mixture(np.random.default_rng([seed, 1]), n, prior, separation))


# -- the distribution ----------------------------------------------------------------------------------


@given(priors=train_priors, growth=st.floats(0, 5), spread=st.floats(0, 2))
def test_later_priors_are_probabilities_between_0_and_1(priors, growth, spread):
    distribution = later_prior(priors, Growth(growth, spread))
    assert distribution.weight.sum() == pytest.approx(1)
    assert (distribution.weight >= 0).all()
    assert (np.diff(distribution.prior) >= 0).all()
    assert distribution.prior[0] >= 0
    assert distribution.prior[-1] <= 1


@given(
    priors=st.lists(st.floats(0.01, 0.9), min_size=1, max_size=20),
    growth=st.floats(0.1, 2),
    spread=st.floats(0.01, 0.5),
)
def test_the_mean_averages_over_training_priors(priors, growth, spread):
    weight, later = later_priors(priors, Growth(growth, spread))
    assert later_prior(priors, Growth(growth, spread)).mean == pytest.approx(weight @ later, abs=0.02)


@given(prior=st.floats(0.01, 0.99), now=st.floats(0.01, 0.99))
def test_a_known_training_prior_and_growth_leave_one_later_prior(prior, now):
    distribution = later_prior([prior], Growth((1 - now) / (1 - prior)))
    assert distribution.mean == pytest.approx(now, abs=0.002)
    assert distribution.quantile(0.975) - distribution.quantile(0.025) < 0.005


def test_without_growth_and_noise_they_are_those_of_training():
    """Larger priors are rarer among later ones: they could as well have fallen further."""
    train = prior_from_tails(drawn(3, 200, 2000, 0.3, 1.0), warn=False)
    priors = np.array(train.quantiles)
    later = later_prior(priors, Growth(1.0, spread=0.0))
    negative = 1 - priors
    assert later.mean == pytest.approx(negative @ priors / negative.sum(), abs=0.002)
    shares = np.cumsum(negative) / negative.sum()
    for prior, share in zip(priors[:-1], shares[:-1], strict=True):
        assert later.weight[later.prior <= prior + 0.003].sum() == pytest.approx(share, abs=0.03)


def test_any_growth_leaves_any_prior():
    later = later_prior([0.3], Growth(1.0, spread=np.inf))
    assert [later.quantile(level) for level in LEVELS] == pytest.approx(LEVELS, abs=0.02)


def test_noise_of_the_growth_widens_the_later_prior():
    widths = []
    for spread in (0.0, 0.05, 0.2, 1.0):
        later = later_prior([0.3, 0.4], Growth(0.8, spread))
        widths.append(later.quantile(0.975) - later.quantile(0.025))
    assert widths == sorted(widths)


@given(st.tuples(*[st.floats(0.001, 0.999)] * 3).map(sorted))
def test_likely_values_of_limits_have_the_limits_as_their_outer_ones(numbers):
    low, value, high = numbers
    values = likely_values(PriorEstimate(value, low, high, 0.95, "audit"))
    assert list(values) == sorted(values)
    assert values[0] == pytest.approx(low, abs=1e-6)
    assert values[-1] == pytest.approx(high, abs=1e-6)


def test_likely_values_of_a_known_prior_are_itself():
    assert likely_values(PriorEstimate.given(0.3)) == (0.3,)
    learned = prior_from_tails(drawn(0, 200, 2000, 0.3))
    likely = likely_values(learned)
    assert (likely[0], likely[-1]) == pytest.approx((learned.low, learned.high))
    assert np.mean(likely) == pytest.approx(learned.value, abs=0.01)


# -- later rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [0.1, 0.3, 0.7])
def test_limits_of_later_priors_hold_where_the_training_prior_is_not_identified(prior):
    held = []
    for seed in range(20):
        reference = drawn(seed, 200, 2000, 0.3, 1.0)
        found = prior_from_tails(after(reference, seed, 1.0, prior), reference=reference, warn=False)
        if not found.identified:
            held.append(found.low <= prior <= found.high)
    # At 95 %, four or more misses of 20 have a probability of 1.6 %.
    assert len(held) >= 15
    assert sum(held) >= len(held) - 3


@pytest.mark.parametrize("prior", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("n", [20, 1000])
def test_limits_of_later_priors_hold_where_the_training_prior_is_known(prior, n):
    reference = drawn(3, 500, 5000, 0.3, 3.0)
    runs = 60
    held = 0
    for seed in range(runs):
        found = prior_from_tails(after(reference, seed, 3.0, prior, n), reference=reference, train_prior=0.3)
        held += found.low <= prior <= found.high
    assert held >= 0.88 * runs  # at 95 %, fewer have a probability of 1 %


def test_an_unidentified_prior_follows_the_growth_of_the_negatives():
    reference = drawn(0, 200, 2000, 0.3, 1.2)
    train = prior_from_tails(reference, warn=False)
    assert not train.identified
    values = []
    for prior in (0.1, 0.3, 0.6):
        tails = after(reference, 0, 1.2, prior)
        found = prior_from_tails(tails, reference=reference, train_prior=train, warn=False)
        assert not found.identified
        values.append(found.value)
    assert values[0] < values[1] < values[2]


def test_limits_of_a_known_training_prior_are_narrower():
    for seed in range(5):
        tails, reference = pair(np.random.default_rng(seed))
        unknown = prior_from_tails(tails, reference=reference, warn=False)
        audit = PriorEstimate(0.3, 0.25, 0.35, 0.95, "audit")
        audited = prior_from_tails(tails, reference=reference, train_prior=audit, warn=False)
        known = prior_from_tails(tails, reference=reference, train_prior=0.3, warn=False)
        assert known.high - known.low < audited.high - audited.low < unknown.high - unknown.low


def test_a_handful_of_new_rows_proves_nothing():
    _, reference = pair(np.random.default_rng(10), apart=6.0)
    for row in (-5.0, 6.0):
        new = reference.empty().update([row])
        found = prior_from_tails(new, reference=reference, train_prior=0.3, warn=False)
        assert found.high - found.low > 0.3
        assert not found.identified


def test_scores_that_separate_nothing_leave_any_later_prior():
    reference = ScoreTails([1.0] * 20).update([1.0] * 50)
    tails = reference.empty().update([1.0] * 30)
    found = prior_from_tails(tails, reference=reference, train_prior=0.3, warn=False)
    assert not found.identified
    assert found.low < 0.05
    assert found.high > 0.95


@pytest.mark.parametrize("separation", [2, 3])
def test_limits_of_rows_without_positives_come_close_to_zero(separation):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        labels = rng.random(1500) < 0.4
        tails = ScoreTails(noisy_scores(rng, rng.normal(separation, 1, 300), separation, 0.4, 0.1))
        reference = tails.update(noisy_scores(rng, rng.normal(separation * labels, 1), separation, 0.4, 0.1))
        new = reference.empty().update(noisy_scores(rng, rng.normal(0, 1, 1000), separation, 0.4, 0.1))
        assert prior_from_tails(new, reference=reference, warn=False).low < 0.02
