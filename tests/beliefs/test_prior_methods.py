"""Priors estimated from scores, by every method."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from drpu import PriorEstimate, ScoreTails, estimate_prior
from drpu.beliefs import prior_from_tails
from drpu.exceptions import DataError, DataTypeError, ParameterError, PriorError, SeparationWarning
from drpu.priors import PROPORTIONS
from drpu.priors.limits import upper_limit
from drpu.priors.matching import growth_since
from tails_data import scores

METHODS = ("auto", *PROPORTIONS, "efficient")


@pytest.fixture(scope="module")
def sample():
    """Positive scores, training scores at prior .3 and new scores at prior .6."""
    rng = np.random.default_rng(0)
    return rng.normal(3, 1, 600), scores(rng, 3000, 0.3, 3.0), scores(rng, 2000, 0.6, 3.0)


@pytest.fixture(scope="module")
def reference(sample):
    return ScoreTails(sample[0]).update(sample[1])


# -- estimate_prior ----------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_the_prior(sample, reference, method):
    positive, _, new = sample
    prior = estimate_prior(positive, new, method=method, reference=reference)
    # Standard errors are about .02; the infimum of the paper is taken where many negatives remain, and
    # without an assumption the training prior is believed to be a little lower than it seems.
    tolerance = {"paper": 0.1, "auto": 0.1, "efficient": 0.1}.get(method, 0.06)
    assert abs(prior.value - 0.6) < tolerance
    assert prior.low <= prior.value <= prior.high <= prior.upper + 0.05
    assert prior.level == 0.95
    assert prior.method == ("learned" if method == "auto" else method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("with_train_prior", [False, True])
def test_tails_and_scores_give_the_same_answer(sample, reference, method, with_train_prior):
    options = {"reference": reference, "level": 0.8, "train_prior": 0.3 if with_train_prior else None}
    tails = reference.empty().update(sample[2])
    prior = estimate_prior(sample[0], sample[2], method=method, **options)
    assert prior_from_tails(tails, method=method, **options) == prior


def test_auto_uses_the_reference_where_there_is_one(sample, reference):
    positive, _, new = sample
    alone = estimate_prior(positive, new)
    beside = estimate_prior(positive, new, reference=reference)
    assert alone.method == beside.method == "learned"
    assert beside.value != alone.value


def test_a_known_training_prior_leaves_one_formula(sample, reference):
    positive, _, new = sample
    options = {"reference": reference, "train_prior": 0.3}
    known = estimate_prior(positive, new, **options)
    assert known == estimate_prior(positive, new, method="efficient", **options)
    tails = reference.empty().update(new)
    assert known.value == pytest.approx(1 - 0.7 * growth_since(tails, reference, 0.3).value)
    assert abs(known.value - 0.6) < 0.04
    audited = estimate_prior(
        positive, new, reference=reference, train_prior=PriorEstimate(0.3, 0.25, 0.35, 0.95, "audit")
    )
    assert audited.value == known.value
    assert audited.low < known.low < known.high < audited.high


@pytest.mark.parametrize("method", PROPORTIONS)
def test_methods_of_one_sample_look_at_no_other(sample, reference, method):
    positive, _, new = sample
    assert estimate_prior(positive, new, method=method) == estimate_prior(
        positive, new, method=method, reference=reference, train_prior=0.9
    )


@pytest.mark.parametrize("method", ["auto", "efficient"])
def test_the_training_prior_is_read_from_the_reference_when_left_out(sample, reference, method):
    positive, _, new = sample
    options = {"method": method, "reference": reference}
    train_prior = prior_from_tails(reference)
    given = estimate_prior(positive, new, train_prior=train_prior, **options)
    assert estimate_prior(positive, new, **options) == given


def test_a_callable_gets_the_tails_and_gives_its_name(sample):
    def share_above_two(tails):
        return float(tails.survival[np.searchsorted(tails.levels, 2.0)])

    positive, _, new = sample
    prior = estimate_prior(positive, new, method=share_above_two)
    assert prior.method == "share_above_two"
    bounds = estimate_prior(positive, new)
    assert (prior.low, prior.high) == (bounds.low, bounds.high)
    assert estimate_prior(positive, new, method=type("Rule", (), {"__call__": lambda *_: 0.6})()).value == 0.6


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_limits_cover_the_value_whatever_the_reading(sample, value):
    learned = estimate_prior(sample[0], sample[2])
    prior = estimate_prior(sample[0], sample[2], method=lambda _: value)
    assert prior.value == value
    assert prior.low == min(learned.low, value)
    assert prior.high == max(learned.high, value)
    assert prior.upper == max(learned.upper, value)


def test_the_upper_limit_is_the_one_that_needs_no_assumption(sample, reference):
    for level in (0.8, 0.95):
        tails = reference.empty().update(sample[2])
        prior = prior_from_tails(tails, level=level)
        assert prior.upper == upper_limit(tails, level).prior


# -- laws of every method ----------------------------------------------------------------


def estimated(method, samples, *, change=lambda scores: scores, weights=(None,) * 3, copies=1):
    """Value and limits of the prior of the last of three samples: positive, training and new scores."""
    positive, before, now = (change(sample) for sample in samples)
    reference = ScoreTails(positive, weights[0], copies=copies).update(np.repeat(before, copies), weights[1])
    tails = reference.empty().update(np.repeat(now, copies), weights[2])
    prior = prior_from_tails(tails, method=method, reference=reference)
    return prior.value, prior.low, prior.high


every_method = pytest.mark.parametrize("method", METHODS)
every_separation = pytest.mark.parametrize("separation", [0.8, 2.5])


def three_samples(separation, seed=1):
    rng = np.random.default_rng(seed)
    later = scores(rng, 800, 0.3, separation), scores(rng, 700, 0.6, separation)
    return rng.normal(separation, 1, 150), *later


@every_method
@every_separation
@pytest.mark.parametrize("change", [np.arctan, lambda s: np.minimum(s, 0) + 5 * np.maximum(s, 0)])
def test_only_the_ranking_of_scores_matters(method, separation, change):
    samples = three_samples(separation)
    assert_allclose(estimated(method, samples, change=change), estimated(method, samples), rtol=1e-9)


@every_method
@every_separation
def test_the_scale_of_weights_changes_nothing(method, separation):
    samples = three_samples(separation)
    ones = [np.ones(len(sample)) for sample in samples]
    assert_allclose(estimated(method, samples, weights=ones), estimated(method, samples), atol=1e-6)
    rng = np.random.default_rng(2)
    weights = [rng.exponential(size=len(sample)) for sample in samples]
    larger = [40 * weight for weight in weights]
    assert_allclose(
        estimated(method, samples, weights=larger), estimated(method, samples, weights=weights), atol=1e-6
    )


@every_method
@every_separation
def test_equal_copies_of_every_score_count_once(method, separation):
    samples = three_samples(separation)
    assert_allclose(estimated(method, samples, copies=3), estimated(method, samples), atol=1e-9)


@pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")
@settings(max_examples=150)
@given(
    method=st.sampled_from(METHODS),
    samples=st.tuples(*[st.lists(st.integers(-6, 6), min_size=1, max_size=40)] * 3),
    level=st.floats(0.01, 0.999),
    train_prior=st.sampled_from([None, 0.0, 0.3, 1.0]),
)
def test_priors_and_limits_are_legal_whatever_is_counted(method, samples, level, train_prior):
    positive, before, now = samples
    reference = ScoreTails(positive).update(before)
    tails = reference.empty().update(now)
    options = {"reference": reference, "train_prior": train_prior, "level": level}
    prior = prior_from_tails(tails, method=method, **options)
    assert 0 <= prior.low <= prior.value <= prior.high <= 1
    assert prior.value <= prior.upper <= 1


# -- what is refused ---------------------------------------------------------------------


@pytest.mark.parametrize("method", [*METHODS, lambda tails: 0.5])
def test_a_training_prior_needs_its_sample(sample, method):
    words = "train_prior must be left out without reference"
    if method == "efficient":
        words = "reference must be given for method='efficient'"
    with pytest.raises(ParameterError, match=words):
        estimate_prior(sample[0], sample[2], method=method, train_prior=0.3)


REFUSED = [
    (
        ParameterError,
        r"method must be one of 'auto', 'paper'.*, got",
        "method",
        ["median", "adaptive", "", None, 3],
    ),
    (PriorError, "the value of method must", "method", [lambda _: 1.5, lambda _: np.nan, lambda _: None]),
    (ParameterError, "level must", "level", [0, 1, 95, np.nan, "high"]),
    (PriorError, "^train_prior must", "train_prior", [1.2, -0.1, np.nan, "half", True, [0.5]]),
    (
        DataTypeError,
        r"reference must be ScoreTails .*: make it with",
        "reference",
        [[0.1, 0.2], 0.3, "tails"],
    ),
    (DataError, "must count over the same positive scores", "reference", [ScoreTails([9.0]).update([0.0])]),
]


@pytest.mark.parametrize(
    ("name", "wrong", "error", "words"),
    [(name, wrong, error, words) for error, words, name, values in REFUSED for wrong in values],
)
def test_options_that_mean_nothing_are_refused(sample, reference, name, wrong, error, words):
    with pytest.raises(error, match=words):
        estimate_prior(sample[0], sample[2], **{"reference": reference, name: wrong})


@pytest.mark.parametrize("train_prior", [None, 0.3])
def test_an_empty_reference_is_refused(sample, reference, train_prior):
    with pytest.raises(DataError, match="empty"):
        estimate_prior(sample[0], sample[2], reference=reference.empty(), train_prior=train_prior)


@pytest.mark.parametrize(
    ("positive", "unlabeled", "error", "message"),
    [
        ([], [1.0], DataError, "positive_scores must hold at least one"),
        ([1.0], [], DataError, "unlabeled_scores must hold at least one"),
        (["high"], [1.0], DataTypeError, "positive_scores must hold numbers"),
        ([1.0], ["low"], DataTypeError, "unlabeled_scores must hold numbers"),
    ],
)
def test_errors_name_the_scores_that_are_wrong(positive, unlabeled, error, message):
    with pytest.raises(error, match=message):
        estimate_prior(positive, unlabeled)


# -- warnings, limits and array types -----------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "efficient"])
def test_weak_scores_are_warned_of_once_and_identify_a_prior_with_a_known_training_prior(method):
    rng = np.random.default_rng(2)
    reference = ScoreTails(rng.normal(1, 1, 500)).update(scores(rng, 4000, 0.3, 1.0))
    tails = reference.empty().update(scores(rng, 4000, 0.6, 1.0))
    options = {"method": method, "reference": reference}
    with pytest.warns(SeparationWarning, match="not identified") as caught:
        assert not prior_from_tails(tails, **options).identified
    assert len(caught) == 1
    for known in (0.3, PriorEstimate(0.3, 0.27, 0.33, 0.95, "audit")):
        assert prior_from_tails(tails, train_prior=known, **options).identified


def test_adapted_priors_are_as_identified_as_the_training_prior(sample, reference):
    upper_bound = PriorEstimate(0.3, 0.0, 0.4, 0.95, "learned", identified=False)
    with pytest.warns(SeparationWarning, match="not identified"):
        prior = estimate_prior(sample[0], sample[2], reference=reference, train_prior=upper_bound)
    assert not prior.identified


def test_identified_priors_are_not_warned_of(sample):
    rng = np.random.default_rng(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert estimate_prior(sample[0], scores(rng, 3000, 0.02, 3.0)).identified


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("truth", [0.0, 1.0])
def test_samples_of_one_class_have_priors_at_the_edge(method, truth):
    rng = np.random.default_rng(3)
    positive = rng.normal(4, 1, 500)
    reference = ScoreTails(positive).update(scores(rng, 3000, 0.5, 4.0))
    tails = reference.empty().update(scores(rng, 3000, truth, 4.0))
    prior = prior_from_tails(tails, method=method, reference=reference)
    assert prior.low <= truth + 0.02
    assert prior.upper >= truth - 0.02
    # If U and P have the same distribution, one sample has no plateau and no minimum.
    if truth == 0 or method not in ("paper", "plateau"):
        assert abs(prior.value - truth) < 0.1


def test_integers_and_booleans_are_scores():
    as_bool = estimate_prior([True] * 50, [True] * 30 + [False] * 70)
    assert as_bool == estimate_prior([1] * 50, [1] * 30 + [0] * 70)
    assert abs(as_bool.value - 0.3) < 0.1
