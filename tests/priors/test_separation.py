"""Evidence of training counts about the best-scored rows."""

import numpy as np
import pytest

from drpu import ScoreTails
from drpu.exceptions import DataError
from drpu.priors.limits import ratio_limits, shift_limits
from drpu.priors.plateau import separation_of
from tails_data import drawn


def test_the_index_is_a_lower_bound_of_the_true_one():
    # For equal-variance normals the plateau's shape is right, so that its lower limit of the prior,
    # and with it the index, holds in all but about 2.5 % of samples: at most 4 of 40 (p = .003).
    true = 0.683  # two standard deviations apart
    above = sum(separation_of(drawn(seed, 300, 3000, 0.3, 2.0)).least_youden > true for seed in range(40))
    assert above <= 4


def test_a_likelier_prior_has_a_lower_limit_below_it():
    profile = separation_of(drawn(0, 300, 3000, 0.3, 2.0)).profile
    assert profile.height.max() == 0
    limits = [profile.low(level) for level in (0.5, 0.8, 0.95, 0.99)]
    assert limits == sorted(limits, reverse=True)
    assert 0 < limits[-1] < limits[0] < 0.4


def test_impurity_is_none_where_the_plateau_agrees_and_all_of_the_limit_where_nothing_separates():
    strong = separation_of(drawn(1, 500, 5000, 0.3, 4.0))
    nothing = separation_of(drawn(1, 500, 5000, 0.3, 0.1))
    assert strong.impurity(strong.profile.low(0.95) - 0.01, 0.3) == 0
    assert nothing.impurity(0.4, 0.5) == pytest.approx(0.4)


def test_negatives_at_the_top_lower_the_limits_of_every_later_sample():
    # With density ratio e of negatives to positives at the top, kappa = pi + (1 - pi) e for each prior.
    limits = ratio_limits(drawn(2, 300, 3000, 0.5, 2.0), 0.95)
    assert limits.lowered(0.0) == limits
    assert limits.lowered(0.1).low == pytest.approx((limits.low - 0.1) / 0.9)
    assert limits.lowered(0.9).low == 0
    assert limits.lowered(0.9).high == limits.high


@pytest.mark.parametrize(
    "n", [1, pytest.param(3, marks=pytest.mark.slow), 5, pytest.param(20, marks=pytest.mark.slow), 60]
)
@pytest.mark.parametrize("prior", [0.0, 0.05, 0.3, 0.8])
def test_limits_hold_for_few_new_rows_where_the_training_prior_is_known(n, prior):
    rng = np.random.default_rng([n, round(100 * prior)])
    reference = drawn(3, 500, 5000, 0.3, 3.0)
    runs, missed = 200, 0
    for _ in range(runs):
        new = rng.normal(3.0 * (rng.random(n) < prior), 1)
        limits = shift_limits(reference.empty().update(new), reference, 0.95, train_prior=0.3)
        missed += not limits.low <= prior <= limits.high
    # At most 5 % by the binomial limits; three standard errors of 200 runs are 4.6 %.
    assert missed / runs < 0.096


def test_limits_of_the_training_prior_widen_those_of_the_new_one():
    reference = drawn(4, 500, 5000, 0.3, 3.0)
    for n in (20, 2000):
        new = reference.empty().update(np.random.default_rng(5).normal(0, 1, n))
        exact = shift_limits(new, reference, 0.95, train_prior=0.3)
        audited = shift_limits(new, reference, 0.95, train_prior=0.3, train_limits=(0.2, 0.4))
        assert audited.low <= exact.low
        assert audited.high > exact.high


def test_empty_counts_are_no_evidence():
    with pytest.raises(DataError, match="empty"):
        separation_of(ScoreTails([1.0, 2.0]))
