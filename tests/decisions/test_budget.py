import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

from drpu import PriorEstimate, ScoreTails
from drpu.decisions import gain_curve
from drpu.decisions.budget import budget_outlook, counted_recall
from drpu.priors.figures import exact_limits


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_limits_of_a_share_hold_at_their_level(share):
    counts = np.arange(41)
    limits = [exact_limits(k / 40, 40, 0.025) for k in counts]
    holds = np.array([low <= share <= high for low, high in limits])
    assert binom.pmf(counts, 40, share)[holds].sum() >= 0.95  # exact, by enumeration


def test_a_known_share_of_positives_divides_between_found_and_missed():
    prior = PriorEstimate.given(0.1)
    budget = budget_outlook(counted_recall(0.6, 1e9, 0.95), prior, 0.08, 3.0, n=80)
    assert_allclose(budget.precision.value, 0.1 * 0.6 / 0.08)
    assert_allclose(budget.lift.value, 0.6 / 0.08)
    assert budget.precision.low <= budget.precision.value <= budget.precision.high <= 1
    assert "80 rows (8.00%)" in str(budget)


def test_doubt_about_prior_and_recall_widens_the_precision():
    recall = counted_recall(0.6, 100, 0.95)
    known = budget_outlook(recall, PriorEstimate.given(0.1), 0.2, 3.0)
    open_ = budget_outlook(recall, PriorEstimate(0.1, 0.05, 0.15, 0.95, "matching"), 0.2, 3.0)
    assert open_.precision.low < known.precision.low < known.precision.high < open_.precision.high
    assert known.recall == open_.recall


def test_gain_rises_from_none_to_all_and_beats_chance():
    rng = np.random.default_rng(0)
    reference = ScoreTails(rng.normal(2, 1, 300)).update(
        rng.normal(0, 1, 3000) + 2 * (rng.random(3000) < 0.2)
    )
    gain = gain_curve(reference, 0.2, PriorEstimate.given(0.05))
    assert (gain.share[0], gain.recall[0], gain.share[-1], gain.recall[-1]) == (0, 0, 1, 1)
    assert (np.diff(gain.share) >= 0).all()
    assert (gain.recall >= gain.share - 0.02).all()  # a score that ranks cannot lose to chance, but for noise
    assert (gain.low <= gain.recall).all()
    assert (gain.recall <= gain.high).all()
    assert gain.lift[1:].max() <= 1 / 0.05 + 1e-9


def test_counted_rows_give_the_depth_themselves():
    reference = ScoreTails([1.0, 2.0]).update([0.0, 1.5])
    new = reference.empty().update([0.0, 0.0, 0.0, 2.5])
    assert_allclose(gain_curve(reference, 0.5, PriorEstimate.given(0.3), new=new).share, [0, 0.25, 0.25, 1])
