"""Priors estimated from scores, by every method."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from drpu import PriorEstimate, ScoreTails, estimate_prior
from drpu.exceptions import DataError, DataTypeError, ParameterError, PriorError, SeparationWarning
from drpu.priors import PROPORTIONS, prior_from_tails
from drpu.priors.estimate import as_prior
from tails_data import scores

METHODS = ("auto", *PROPORTIONS, "blended", "efficient")


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
    # Standard errors are about .02; the infimum of the paper is taken where many negatives remain.
    assert abs(prior.value - 0.6) < (0.1 if method == "paper" else 0.06)
    assert prior.low <= prior.value <= prior.high
    assert prior.level == 0.95
    assert prior.method == ("central" if method == "auto" else method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("with_train_prior", [False, True])
def test_tails_and_scores_give_the_same_answer(sample, reference, method, with_train_prior):
    options = {"reference": reference, "level": 0.8, "train_prior": 0.3 if with_train_prior else None}
    tails = reference.empty().update(sample[2])
    prior = estimate_prior(sample[0], sample[2], method=method, **options)
    assert tails.estimate(method, **options) == prior
    assert prior_from_tails(tails, method=method, **options) == prior


def test_auto_uses_the_reference_where_there_is_one(sample, reference):
    positive, _, new = sample
    alone, beside = estimate_prior(positive, new), estimate_prior(positive, new, reference=reference)
    assert alone.method == beside.method == "central"
    assert beside.value != alone.value
    known = estimate_prior(positive, new, reference=reference, train_prior=0.3)
    assert known == estimate_prior(positive, new, method="blended", reference=reference, train_prior=0.3)


def test_blended_lies_between_the_two_ways_to_a_prior(sample, reference):
    positive, _, new = sample
    carried, direct, both = (
        estimate_prior(positive, new, method=method, reference=reference).value
        for method in ("efficient", "combined", "blended")
    )
    assert min(carried, direct) < both < max(carried, direct)


def test_blended_trusts_the_way_that_is_less_in_doubt(sample, reference):
    def new_prior(method, train_prior):
        options = {"reference": reference, "train_prior": train_prior, "method": method}
        return estimate_prior(*sample[::2], **options).value

    def blend(width):
        vague = PriorEstimate(0.2, 0.2 - width / 2, 0.2 + width / 2, 0.95, "guess")  # .3 is the truth
        return new_prior("blended", vague)

    assert abs(blend(0.4) - 0.6) < abs(blend(0.02) - 0.6)
    for known in (0.3, 1.0):
        assert new_prior("blended", known) == new_prior("efficient", known)


@pytest.mark.parametrize("method", PROPORTIONS)
def test_methods_of_one_sample_look_at_no_other(sample, reference, method):
    positive, _, new = sample
    assert estimate_prior(positive, new, method=method) == estimate_prior(
        positive, new, method=method, reference=reference, train_prior=0.9
    )


@pytest.mark.parametrize("method", ["blended", "efficient"])
def test_the_training_prior_is_read_from_the_reference_when_left_out(sample, reference, method):
    positive, _, new = sample
    found = estimate_prior(positive, new, method=method, reference=reference)
    told = reference.estimate()
    assert found == estimate_prior(positive, new, method=method, reference=reference, train_prior=told)


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
def test_values_are_clipped_into_their_limits(sample, value):
    prior = estimate_prior(sample[0], sample[2], method=lambda _: value)
    assert prior.value == (prior.low if value == 0 else prior.high)
    assert 0.5 < prior.low < prior.high < 0.7


# -- laws of every method ----------------------------------------------------------------


def estimated(method, samples, *, change=lambda scores: scores, weights=(None,) * 3, copies=1):
    """Value and limits of the prior of the last of three samples: positive, training and new scores."""
    positive, before, now = (change(sample) for sample in samples)
    reference = ScoreTails(positive, weights[0], copies=copies).update(np.repeat(before, copies), weights[1])
    tails = reference.empty().update(np.repeat(now, copies), weights[2])
    prior = tails.estimate(method, reference=reference)
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
    prior = tails.estimate(method, reference=reference, train_prior=train_prior, level=level)
    assert 0 <= prior.low <= prior.value <= prior.high <= 1


# -- what is refused ---------------------------------------------------------------------


@pytest.mark.parametrize("method", [*METHODS, lambda tails: 0.5])
def test_a_training_prior_needs_its_sample(sample, method):
    words = "train_prior must be left out without reference"
    if method in ("blended", "efficient"):
        words = f"reference must be given for method='{method}'"
    with pytest.raises(ParameterError, match=words):
        estimate_prior(sample[0], sample[2], method=method, train_prior=0.3)


REFUSED = [
    (ParameterError, r"method must be one of 'auto', 'adaptive'.*, got", "method", ["median", "", None, 3]),
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
    positive = rng.normal(0.5, 1, 500)
    reference = ScoreTails(positive).update(scores(rng, 2000, 0.3, 0.5))
    later = scores(rng, 2000, 0.6, 0.5)
    with pytest.warns(SeparationWarning, match="not identified") as caught:
        assert not estimate_prior(positive, later, method=method, reference=reference).identified
    assert len(caught) == 1
    for known in (0.3, PriorEstimate(0.3, 0.25, 0.35, 0.95, "audit")):
        assert estimate_prior(
            positive, later, method=method, reference=reference, train_prior=known
        ).identified


def test_adapted_priors_are_as_identified_as_the_training_prior(sample, reference):
    upper_bound = PriorEstimate(0.3, 0.0, 0.4, 0.95, "adaptive", identified=False)
    with pytest.warns(SeparationWarning, match="not identified"):
        prior = estimate_prior(sample[0], sample[2], reference=reference, train_prior=upper_bound)
    assert not prior.identified


def test_strong_scores_are_not_warned_of(sample):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate_prior(sample[0], sample[2])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("truth", [0.0, 1.0])
def test_samples_of_one_class_have_priors_at_the_edge(method, truth):
    rng = np.random.default_rng(3)
    positive = rng.normal(4, 1, 500)
    reference = ScoreTails(positive).update(scores(rng, 3000, 0.5, 4.0))
    prior = reference.empty().update(scores(rng, 3000, truth, 4.0)).estimate(method, reference=reference)
    assert prior.low <= truth + 0.02
    assert prior.high >= truth - 0.02
    # If U and P have the same distribution, one sample has no plateau and no minimum.
    if truth == 0 or method not in ("adaptive", "combined", "paper", "plateau"):
        assert abs(prior.value - truth) < 0.1


def test_integers_and_booleans_are_scores():
    as_bool = estimate_prior([True] * 50, [True] * 30 + [False] * 70)
    assert as_bool == estimate_prior([1] * 50, [1] * 30 + [0] * 70)
    assert abs(as_bool.value - 0.3) < 0.1


# -- a prior as a value ------------------------------------------------------------------

priors = st.floats(0, 1)


@given(st.tuples(priors, priors, priors).map(sorted), st.floats(0.01, 0.99))
def test_limits_in_order_make_an_estimate(numbers, level):
    low, value, high = numbers
    prior = PriorEstimate(value, low, high, level, "paper")
    assert float(prior) == value
    assert str(prior) == f"{value:.3f} [{low:.3f}, {high:.3f}] at {level:.0%}"


DISORDER = [
    (0.5, 0.6, 0.7),
    (0.5, 0.3, 0.4),
    (-0.1, -0.2, 0.5),
    (1.1, 0.5, 1.2),
    (0.5, np.nan, 1),
    (np.nan, 0, 1),
]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        *(((*limits, 0.95, "paper"), "0 <= low <= value <= high <= 1") for limits in DISORDER),
        *(((0.5, 0.4, 0.6, level, "paper"), "level must lie strictly") for level in (0, 1, -1, 95, np.nan)),
        *(((0.5, 0.4, 0.6, 0.95, "auto", wrong), "identified") for wrong in (1, None, "yes", np.True_)),
    ],
)
def test_fields_of_an_estimate_are_checked(fields, words):
    with pytest.raises(PriorError, match=words):
        PriorEstimate(*fields)


def test_a_prior_that_is_not_identified_prints_its_upper_reading():
    prior = PriorEstimate(0.3, 0.1, 0.71, 0.95, "auto", identified=False, upper=0.52)
    assert "not identified; at most 0.520" in str(prior)
    moved = PriorEstimate(0.3, 0.1, 0.71, 0.95, "auto", identified=False)  # more than the prior has changed
    assert "not identified" in str(moved)
    assert "at most" not in str(moved)
    assert "identified" not in str(PriorEstimate(0.52, 0.1, 0.71, 0.95, "auto"))


@given(priors)
def test_a_number_is_a_prior_without_doubt(value):
    prior = as_prior("train_prior", value)
    assert prior == PriorEstimate(value, value, value, 0.95, "given") == PriorEstimate.given(value)
    assert as_prior("train_prior", prior) is prior
