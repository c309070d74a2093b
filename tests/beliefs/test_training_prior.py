"""Laws of the prior of the training rows, which is learned from many tables."""

import numpy as np
import pytest

from drpu import DRPUClassifier, KernelRatio, ScoreTails, make_gaussian_pu
from drpu.beliefs import prior_from_tails
from drpu.beliefs.priors import prior_distribution
from tails_data import drawn, mixture

SHARES = (None, 0.02, 0.1)
MOST_BELOW_LIMIT = 0.15  # for priors of .05, .3, .6 and .9 it is .02, .08, .10 and .04
every_share = pytest.mark.parametrize("share", SHARES)


def rows(seed, n_positive=200, n=2000, prior=0.3, separation=2.0):
    """Scores of positives and of unlabeled rows."""
    rng = np.random.default_rng(seed)
    return rng.normal(separation, 1, n_positive), mixture(rng, n, prior, separation)


# -- what changes nothing ------------------------------------------------------------------------------


@every_share
def test_the_order_of_rows_changes_nothing(share):
    positive, unlabeled = rows(0)
    rng = np.random.default_rng(1)
    prior = prior_from_tails(ScoreTails(positive).update(unlabeled), labelled_share=share)
    other_order = ScoreTails(rng.permutation(positive)).update(rng.permutation(unlabeled))
    assert prior_from_tails(other_order, labelled_share=share) == prior


@pytest.mark.parametrize("size", [1, 300, 2000])
def test_batches_change_nothing(size):
    positive, unlabeled = rows(1)
    whole = ScoreTails(positive).update(unlabeled)
    batches = ScoreTails(positive)
    for start in range(0, len(unlabeled), size):
        batches.update(unlabeled[start : start + size])
    assert prior_from_tails(batches) == prior_from_tails(whole)


def test_counts_of_several_machines_are_merged_in_any_order():
    positive, unlabeled = rows(2)
    whole = ScoreTails(positive).update(unlabeled)
    first = whole.empty().update(unlabeled[:700])
    second = whole.empty().update(unlabeled[700:])
    assert prior_from_tails(first + second) == prior_from_tails(whole)
    assert prior_from_tails(second + first) == prior_from_tails(whole)
    counted_elsewhere = whole.empty().add_counts(whole.counts)
    assert prior_from_tails(counted_elsewhere) == prior_from_tails(whole)


@pytest.mark.parametrize("names", [(False, True), (-1, 1), ("other", "positive")])
def test_names_of_the_classes_change_nothing(names):
    data = make_gaussian_pu(150, 600, random_state=0)
    X = np.concatenate([data.positive, data.unlabeled])
    y = np.repeat([1, 0], [150, 600])
    renamed = np.array(names)[y]
    found = DRPUClassifier(KernelRatio(), random_state=0).fit(X, y)
    again = DRPUClassifier(KernelRatio(), pos_label=names[1], random_state=0).fit(X, renamed)
    assert again.train_prior_ == found.train_prior_


# -- value and limits ----------------------------------------------------------------------------------


@every_share
@pytest.mark.parametrize("separation", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_values_lie_between_limits_and_below_the_limit_that_needs_no_assumption(separation, share):
    for seed in range(4):
        prior = prior_from_tails(drawn(seed, 200, 2000, 0.3, separation), labelled_share=share)
        assert 0 <= prior.low <= prior.value <= prior.high <= 1
        assert prior.value <= prior.upper
        assert prior.method == "learned"
        assert prior.low <= prior.quantiles[0]
        assert prior.quantiles[-1] <= prior.high


def test_limits_are_nested_and_identification_does_not_depend_on_their_level():
    for separation in (0.8, 1.5, 2.5, 5.0):
        tails = drawn(1, 200, 2000, 0.1, separation)
        priors = [prior_from_tails(tails, level=level) for level in (0.8, 0.95, 0.99)]
        assert len({(prior.value, prior.identified) for prior in priors}) == 1
        assert priors[0].low > priors[1].low > priors[2].low
        assert priors[0].high < priors[1].high < priors[2].high


@pytest.mark.parametrize("prior", [0.05, 0.3, 0.7])
@pytest.mark.parametrize("separation", [1.0, 2.0, 3.0])
def test_more_rows_do_not_widen_on_average(prior, separation):
    widths = []
    for n_positive in (60, 600, 6000):
        of_seeds = []
        for seed in range(8):
            distribution = prior_distribution(drawn(seed, n_positive, 4 * n_positive, prior, separation))
            of_seeds.append(distribution.quantile(0.975) - distribution.quantile(0.025))
        widths.append(np.mean(of_seeds))
    assert widths[1] < widths[0]
    assert widths[2] < widths[1]


@pytest.mark.parametrize("prior", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("separation", [4.0, 6.0])
def test_limits_of_separated_classes_hold_and_end_at_the_prior(prior, separation):
    for n in (1000, 10_000, 100_000):
        found = prior_from_tails(drawn(0, n, n, prior, separation))
        assert found.low <= prior <= found.high
        assert found.upper == pytest.approx(prior, abs=3 / np.sqrt(n))


@pytest.mark.parametrize("prior", [0.05, 0.3, 0.6, 0.9])
def test_a_million_rows_with_a_pure_region_leave_the_prior_below_its_limit(prior):
    """The limit is the prior itself; how far below it the value lies is what is usual in tables."""
    positive, unlabeled = rows(0, 10**6, 10**6, prior, 6.0)
    tails = ScoreTails(np.round(positive, 3)).update(np.round(unlabeled, 3))  # fewer cells are faster
    found = prior_from_tails(tails, warn=False)
    assert found.upper == pytest.approx(prior, abs=0.005)
    assert found.low <= prior <= found.high + 0.002  # the prior is at the end of what is possible
    assert 0 < found.upper - found.value < MOST_BELOW_LIMIT


# -- small priors, noise, mixed rows -------------------------------------------------------------------


@pytest.mark.parametrize("separation", [2.0, 3.0])
@pytest.mark.parametrize("prior", [0.003, 0.005, 0.01])
def test_small_priors_are_identified_and_their_limits_hold(prior, separation):
    runs = 40
    held = 0
    errors = []
    for seed in range(runs):
        found = prior_from_tails(drawn(seed, 200, 4000, prior, separation))
        assert found.identified
        held += found.low <= prior <= found.high
        errors.append(abs(found.value - prior))
    assert held >= 0.93 * runs
    assert np.mean(errors) < 0.015  # 12 to 40 positives, which many negatives outscore


@pytest.mark.parametrize("share", [None, 0.1])
@pytest.mark.parametrize(("n_positive", "n"), [(40, 1000), (200, 2000), (1000, 5000), (10_000, 100_000)])
def test_pure_noise_is_not_identified(n_positive, n, share):
    for seed in range(5):
        found = prior_from_tails(drawn(seed, n_positive, n, 0.3, 0.0), labelled_share=share, warn=False)
        assert not found.identified
        assert found.high - found.low > 0.3
        assert found.upper > 0.9


@pytest.mark.parametrize("share", [None, 0.1])
def test_weak_signals_are_not_identified(share):
    for seed in range(5):
        tails = drawn(seed, 200, 2000, 0.5, 0.8)
        assert not prior_from_tails(tails, labelled_share=share, warn=False).identified


def with_group(rng, label, share_of_negatives):
    """Scores of two normal classes; a group that scores highest has three tenths of the positives."""
    in_group = rng.random(len(label)) < np.where(label, 0.3, share_of_negatives)
    return np.where(in_group, 50 + rng.normal(0, 1, len(label)), rng.normal(label, 1))


@pytest.mark.parametrize(("prior", "purity"), [(0.1, 0.3), (0.1, 0.5), (0.3, 0.5)])
def test_a_group_of_mixed_rows_that_scores_highest_is_not_taken_for_pure(prior, purity):
    """The group seems to be pure at a prior of prior / purity, which is the upper limit's value."""
    share_of_negatives = 0.3 * prior * (1 - purity) / purity / (1 - prior)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        positive = with_group(rng, np.ones(500, dtype=bool), share_of_negatives)
        unlabeled = with_group(rng, rng.random(5000) < prior, share_of_negatives)
        found = prior_from_tails(ScoreTails(positive).update(unlabeled), warn=False)
        assert not found.identified
        assert found.low <= prior <= found.high
        assert found.upper > prior


def test_mostly_positive_rows_are_read_as_such():
    for seed in range(5):
        found = prior_from_tails(drawn(seed, 200, 2000, 0.8, 1.5), warn=False)
        assert found.value > 0.5
        assert found.low <= 0.8 <= found.high


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_single_samples_and_two_samples_are_believed_differently(share):
    tails = drawn(0, 200, 2000, 0.3, 1.0)
    two = prior_from_tails(tails, warn=False)
    single = prior_from_tails(tails, labelled_share=share, warn=False)
    assert single.value != two.value
    assert single.upper == two.upper
