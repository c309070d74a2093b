"""Laws of expected figures where few negatives are flagged."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from drpu import PriorEstimate, ScoreTails, ratio_threshold
from drpu.decisions import Decision, expect
from drpu.decisions.performance import _likely_rate
from drpu.priors import fit_plateau
from drpu.priors.calibration import calibrate
from tails_data import noisy_scores

PRIOR = 0.4
given = PriorEstimate.given


def sample(rng, n_positive, n, separation, error=0.06):
    """Tails of a training sample, and scores of many positives and negatives."""
    labels = rng.random(n) < PRIOR
    unlabeled = noisy_scores(rng, rng.normal(labels * separation, 1), separation, PRIOR, error)
    tails = ScoreTails(noisy_scores(rng, rng.normal(separation, 1, n_positive), separation, PRIOR, error))
    many = [
        noisy_scores(rng, rng.normal(mean, 1, 20_000), separation, PRIOR, error) for mean in (separation, 0.0)
    ]
    return tails.update(unlabeled), many


def expected_and_true(tails, many, test_prior):
    """Expected figures and the true precision and recall of the rule that ``tails`` calibrate."""
    ratio, calibration = ratio_threshold(PRIOR, test_prior), calibrate(tails, PRIOR)
    above = np.flatnonzero(calibration(tails.levels) > ratio)
    score = float(tails.levels[above[0]]) if above.size else math.inf
    found = expect(Decision(tails, score, ratio), given(PRIOR), given(test_prior))
    recall, wrong = (float((calibration(part) > ratio).mean()) for part in many)
    flagged = test_prior * recall + (1 - test_prior) * wrong
    return found, test_prior * recall / flagged if flagged else math.nan, recall


@pytest.mark.parametrize("separation", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "test_prior",
    [pytest.param(0.05, marks=pytest.mark.xfail(reason="the smooth curve is a best case there")), 0.2],
)
def test_expected_precision_and_recall_are_no_best_case(separation, test_prior):
    errors = []
    for seed in range(20):
        tails, many = sample(np.random.default_rng(seed), 300, 1000, separation)
        expected, precision, recall = expected_and_true(tails, many, test_prior)
        if not math.isnan(expected.precision.value + precision):
            errors.append((expected.precision.value - precision, expected.recall.value - recall))
    errors = np.array(errors)
    assert len(errors) >= 15
    noise = 2 * errors.std(axis=0, ddof=1) / math.sqrt(len(errors))
    assert (np.abs(errors.mean(axis=0)) < np.array([0.05, 0.03]) + noise).all()


@pytest.mark.parametrize("n_positive", [100, 1000])
def test_the_plateau_at_a_known_prior_is_not_flat(n_positive):
    tails, _ = sample(np.random.default_rng(1), n_positive, 1000, 2)
    assert fit_plateau(tails, PRIOR).slope > 1


@pytest.mark.parametrize("expected", [0.001, 0.01, 0.2])
def test_many_counts_decide_the_rate_and_few_leave_it_at_the_curve(expected):
    for noise, target in ((1e-6, 0.05), (1e2, expected)):
        rate = _likely_rate(0.05, noise, 0.0, expected, doubt=1.0)
        assert rate.low <= rate.value <= rate.high
        # the mean of a log-normal rate is e^0.5 times its median
        assert abs(math.log(rate.value / target)) < 0.55
        assert 0 <= rate.slope <= 1 + 1e-9


def test_no_counts_make_the_precision_one():
    # fewer rows than positives alone would give
    rate = _likely_rate(-0.02, 1e-4, 0.0, 0.01, doubt=1.0)
    assert 0 < rate.low < rate.value < rate.high


@pytest.mark.parametrize("test_prior", [0.05, 0.2])
def test_a_model_of_all_rows_finds_more_positives_and_is_less_doubted(test_prior):
    for n_positive, closer in ((100, False), (1000, True)):
        tails, _ = sample(np.random.default_rng(2), n_positive, 1000, 3)
        ratio = ratio_threshold(PRIOR, test_prior)
        score = float(tails.levels[calibrate(tails, PRIOR)(tails.levels) > ratio][0])
        folds, whole = (
            expect(Decision(tails, score, ratio, whole=flag), given(PRIOR), given(test_prior))
            for flag in (False, True)
        )
        more = whole.recall.value - folds.recall.value
        assert 0 < more < 0.2 / math.sqrt(n_positive)
        if not closer:  # as many more negatives are flagged
            assert_allclose(whole.precision.value, folds.precision.value, rtol=1e-9)
        else:
            narrow, wide = whole.precision, folds.precision
            assert narrow.high - narrow.low < wide.high - wide.low


def test_precision_cannot_be_computed_where_nothing_is_flagged():
    tails, _ = sample(np.random.default_rng(0), 100, 1000, 2)
    nothing = expect(Decision(tails, math.inf, 1 / PRIOR), given(PRIOR), given(0.02))
    for end in ("value", "low", "high"):
        assert math.isnan(getattr(nothing.precision, end))
        assert getattr(nothing.recall, end) == getattr(nothing.flagged, end) == 0
