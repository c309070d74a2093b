"""Design-based figures agree with those of another library, glide-py, where it can be installed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import stdtrit

from drpu.audits.evaluation import Answers, both_tails

estimators = pytest.importorskip("glide.estimators", reason="needs Python 3.12")

TAILS = both_tails(0.95)
DESIGNS = 200


def random_design(rng):
    """Answers in one to six strata of different sizes, at least two in each, and the true share."""
    n_strata = rng.integers(1, 7)
    sizes = rng.integers(2, 25, n_strata)
    rows = rng.integers(25, 1000, n_strata)
    stratum = np.repeat(np.arange(n_strata), sizes)
    share = rng.random(n_strata)
    positive = rng.random(len(stratum)) < share[stratum]
    answers = Answers(positive, stratum, rows)
    return answers, float(answers.weight @ share)


def limits_of(result):
    """Normal limits, as far as they can be shares."""
    interval = result.confidence_interval
    return max(interval.lower_bound, 0.0), min(interval.upper_bound, 1.0)


def test_shares_agree_and_limits_hold_where_normal_ones_do_not():
    rng = np.random.default_rng(0)
    covered = {"ours": 0, "theirs": 0}
    for _ in range(DESIGNS):
        answers, share = random_design(rng)
        ours = answers.share(answers.positive, TAILS)
        theirs = estimators.StratifiedClassicalMeanEstimator().estimate(
            answers.positive.astype(float), answers.stratum, stratum_weights=answers.weight
        )
        assert_allclose(ours.value, theirs.mean, atol=1e-12)
        low, high = limits_of(theirs)
        covered["ours"] += ours.low <= share <= ours.high
        covered["theirs"] += low <= share <= high
    assert covered["ours"] / DESIGNS >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / DESIGNS)
    assert covered["theirs"] / DESIGNS < 0.9


# With fewer answers, half of them positive, even the limits of Clopper and Pearson, which always hold, are
# narrower than normal ones: theirs are 0.14 wider for 2 of 4.
@pytest.mark.parametrize("n", range(16, 50))
def test_limits_of_one_stratum_are_never_narrower_than_normal_ones(n):
    for hits in range(n + 1):
        positive = np.arange(n) < hits
        ours = Answers.random(positive).share(positive, TAILS)
        theirs = estimators.ClassicalMeanEstimator().estimate(positive.astype(float))
        low, high = limits_of(theirs)
        assert ours.high - ours.low >= high - low


def test_the_variance_of_a_sample_of_groups_agrees():
    rng = np.random.default_rng(1)
    for _ in range(DESIGNS):
        n_groups, size = rng.integers(2, 20), rng.integers(1, 8)
        groups = np.repeat(np.arange(n_groups), size)
        positive = rng.random(len(groups)) < rng.random(n_groups)[groups]
        n = len(positive)
        if n < 3 or positive.all() or not positive.any():
            continue
        answers = Answers.random(positive, groups=groups)
        theirs = estimators.ClusteredClassicalMeanEstimator().estimate(positive.astype(float), groups)
        assert_allclose(answers.share(positive, TAILS).value, theirs.mean, atol=1e-12)

        variance_of_rows = positive.var(ddof=1) / n
        wider = stdtrit(n_groups - 1, 0.975) / stdtrit(n - 1, 0.975)
        expected = max(theirs.std**2 / variance_of_rows * wider**2, 1.0)
        assert_allclose(answers.design_effect(positive, 0.025), expected)
