"""Laws of audits: designs with known probabilities, limits that hold, priors of other rows."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import xlogy

from drpu import Audit, ScoreTails
from drpu.audits.evaluation import fairness_test, likeliest_shares, positive_ranks, stratified_share
from drpu.priors import Figure
from drpu.priors.figures import exact_limit
from drpu.priors.matching import Growth, carried_prior, carry_share, negative_growth, settled_growth

TAILS = (0.025, 0.025)
# Limits of plans also hold if answering stops when they are narrow: the error probability is .75 of the
# usual one, which limits of an evaluation have at this level.
STOPPED = 1 - 0.75 * 0.05


def scores_of(rng: np.random.Generator, n: int, prior: float, separation: float = 2.0):
    y = rng.random(n) < prior
    return rng.normal(size=n) + separation * y, y


def posterior_of(scores, prior: float, separation: float = 2.0):
    odds = prior / (1 - prior) * np.exp(separation * (scores - separation / 2))
    return odds / (1 + odds)


# -- design --------------------------------------------------------------------------------


@given(n=st.integers(1, 300), levels=st.integers(1, 50), seed=st.integers(0, 10**6))
def test_every_beginning_of_a_plan_is_in_proportion(audit_clf, n, levels, seed):
    scores = np.random.default_rng(seed).integers(0, levels, n) * 4 / levels  # with ties
    plan = audit_clf.plan_audit(scores[:, None], n=n, random_state=seed)
    order, rows = plan.stratum, plan.strata.rows
    assert (np.bincount(order) == rows).all()
    assert len(set(order[: len(rows)])) == len(rows)  # one of each stratum first
    part = rows * plan.strata.spread / (rows @ plan.strata.spread)
    for n_first in range(len(rows), n):
        labelled = np.bincount(order[:n_first], minlength=len(rows))
        open_strata = labelled < rows
        # no open stratum waits while another one has had its turn twice: Webster's rule
        waiting = (labelled + 0.5)[open_strata] / part[open_strata]
        more_than_one = labelled > 1
        if open_strata.any() and more_than_one.any():
            latest = (labelled - 0.5)[more_than_one] / part[more_than_one]
            assert latest.max() <= waiting.min() + 1e-9


@given(n=st.integers(1, 200), levels=st.integers(1, 50), seed=st.integers(0, 10**6))
def test_a_plan_draws_the_planned_number_of_different_rows_from_each_stratum(audit_clf, n, levels, seed):
    scores = np.random.default_rng(seed).integers(0, levels, 200) * 4 / levels  # with ties
    plan = audit_clf.plan_audit(scores[:, None], n=n, random_state=seed)
    assert len(set(plan.rows)) == n == plan.strata.planned.sum()
    assert (np.bincount(plan.stratum, minlength=len(plan.strata.rows)) == plan.strata.planned).all()
    assert plan.strata.rows.sum() == 200
    for level in np.unique(scores):  # rows with equal scores share a stratum
        assert len(set(plan.stratum[scores[plan.rows] == level])) <= 1


def test_rows_are_drawn_with_their_known_chances(audit_clf, audit_data):
    X = audit_data.test[:60]
    draws = 100
    hits, chance = np.zeros(60), np.zeros(60)
    random = np.random.RandomState(1)
    for _ in range(draws):
        plan = audit_clf.plan_audit(X, n=12, random_state=random)
        hits[plan.rows] += 1
        chance[plan.rows] = plan.chance
    # Five standard errors of a binomial share, for 60 rows.
    assert (chance > 0).all()
    assert (np.abs(hits / draws - chance) < 5 * np.sqrt(chance * (1 - chance) / draws) + 1e-9).all()


def test_uncertain_rows_are_looked_at_more_often(plan):
    chance = plan.strata.planned / plan.strata.rows
    doubtful = np.argmax(plan.strata.posterior * (1 - plan.strata.posterior))
    assert chance[doubtful] > 2 * chance[0]


def test_the_expected_width_is_about_the_width_that_comes_out(audit_clf, audit_data):
    widths = []
    for seed in range(20):
        plan = audit_clf.plan_audit(audit_data.test, n=80, random_state=seed)
        audit = plan.answer(audit_data.test_labels[plan.rows])
        prior = audit_clf.evaluate(audit, level=STOPPED).prior
        widths.append(prior.high - prior.low)
    assert_allclose(np.mean(widths), plan.expected_width, rtol=0.15)


# -- limits --------------------------------------------------------------------------------


@given(n=st.integers(1, 200), data=st.data())
def test_one_stratum_gives_the_limits_of_clopper_and_pearson(audit_clf, audit_data, n, data):
    hits = data.draw(st.integers(0, n))
    share = audit_clf.evaluate(audit_data.test[:n], np.arange(n) < hits).prior
    assert_allclose(share.value, hits / n)
    assert_allclose(share.low, exact_limit(hits, n, 0.025, upper=False), atol=1e-9)
    assert_allclose(share.high, exact_limit(hits, n, 0.025, upper=True), atol=1e-9)


samples = st.lists(
    st.tuples(st.floats(0.05, 1.0), st.integers(1, 30), st.floats(0, 1)), min_size=2, max_size=6
)


@given(samples)
@settings(max_examples=40, deadline=None)
def test_limits_contain_the_estimate_and_mirror_the_opposite_answers(parts):
    weight = np.array([part[0] for part in parts])
    weight /= weight.sum()
    sizes = np.array([part[1] for part in parts])
    hits = np.round(sizes * np.array([part[2] for part in parts]))
    share = stratified_share(weight, hits, sizes, tails=TAILS, rows=1000)
    mirror = stratified_share(weight, sizes - hits, sizes, tails=TAILS, rows=1000)
    assert 0 <= share.low <= share.value + 1e-12
    assert share.value <= share.high + 1e-12 <= 1 + 2e-12
    ends = [1 - mirror.value, 1 - mirror.high, 1 - mirror.low]
    assert_allclose(ends, [share.value, share.low, share.high], atol=1e-9)


@given(samples, st.floats(-60, 60), st.integers(0, 10**6))
def test_no_shares_with_the_same_sum_are_likelier(parts, multiplier, seed):
    weight = np.array([part[0] for part in parts])
    weight /= weight.sum()
    sizes = np.array([float(part[1]) for part in parts])
    hits = np.round(sizes * np.array([part[2] for part in parts]))
    p = likeliest_shares(weight, hits, sizes, multiplier)

    def likelihood(shares):
        return (xlogy(hits, shares) + xlogy(sizes - hits, 1 - shares)).sum()

    step = np.random.default_rng(seed).normal(size=len(p))
    step -= weight * (weight @ step) / (weight @ weight)  # the weighted sum stays
    for scale in (1e-3, 1e-2, 0.1):
        other = p + scale * step
        if ((other >= 0) & (other <= 1)).all():
            assert likelihood(other) <= likelihood(p) + 1e-7


def test_splitting_a_pure_stratum_in_proportion_changes_little():
    whole = stratified_share(np.array([1.0]), np.array([0]), np.array([60]))
    parts = stratified_share(np.full(3, 1 / 3), np.zeros(3), np.full(3, 20))
    assert whole.low == parts.low == 0
    assert 0.9 < parts.high / whole.high < 1.1


def test_a_stratum_without_answers_may_hold_any_share():
    weight, hits, sizes = np.array([0.8, 0.2]), np.array([10, 0]), np.array([20, 0])
    share = stratified_share(weight, hits, sizes)
    one = stratified_share(np.array([0.8]), np.array([10]), np.array([20]))
    assert_allclose([share.low, share.high], [one.low, one.high + 0.2])
    assert_allclose(share.value, 0.5)


@pytest.mark.parametrize("p", [(0.001, 0.02, 0.3, 0.95), (0.0, 0.0, 0.0, 0.6), (0.2, 0.4, 0.5, 0.7)])
def test_limits_hold_where_strata_are_small_and_nearly_pure(p):
    rng = np.random.default_rng(3)
    p, weight, sizes = np.array(p), np.array([0.55, 0.25, 0.15, 0.05]), np.array([12, 8, 12, 8])
    truth, runs = float(weight @ p), 100
    hits = [rng.binomial(sizes, p) for _ in range(runs)]
    held = [share.low <= truth <= share.high for share in (stratified_share(weight, x, sizes) for x in hits)]
    # At 95 %, three standard errors of 100 runs are .065.
    assert np.mean(held) > 0.95 - 0.065


# -- from one population to the other ---------------------------------------------------------


def two_samples(seed: int, prior: float, test_prior: float, n: int = 4000):
    rng = np.random.default_rng(seed)
    tails = ScoreTails(rng.normal(2.0, 1, 800))
    reference = tails.empty().update(scores_of(rng, n, prior)[0])
    return tails.empty().update(scores_of(rng, n, test_prior)[0]), reference


@pytest.mark.parametrize(("prior", "test_prior"), [(0.3, 0.1), (0.3, 0.6), (0.5, 0.5)])
def test_growth_is_known_from_counts_alone(prior, test_prior):
    truth = (1 - test_prior) / (1 - prior)
    for seed in range(4):
        for guess in (0.05, test_prior, 0.9):  # a wrong guess costs precision only
            growth = negative_growth(*two_samples(seed, prior, test_prior), guess)
            assert abs(growth.value - truth) < 4 * growth.spread
    assert growth.spread < 0.2


def test_scores_that_tell_nothing_have_no_growth():
    tails = ScoreTails(np.zeros(50)).update(np.zeros(100))
    assert negative_growth(tails.empty().update(np.zeros(30)), tails, 0.5) is None


@given(st.floats(0.05, 0.9), st.floats(0.3, 1.5))
def test_carrying_there_and_back_returns_the_share(value, growth):
    share = Figure(value, value * 0.8, value + (1 - value) * 0.2, 0.01)
    there = carry_share(share, Growth(growth), TAILS)
    assert there.low <= there.value <= there.high
    if there.low > 0 and there.high < 1:
        back = carry_share(there, Growth(growth).inverse, TAILS)
        assert_allclose([back.value, back.low, back.high], [share.value, share.low, share.high], rtol=1e-6)


def test_noise_of_the_growth_widens_the_limits():
    share = Figure(0.3, 0.25, 0.35, 0.001)
    sure, unsure = (carry_share(share, Growth(0.9, spread), TAILS) for spread in (0.0, 0.05))
    assert unsure.low < sure.low
    assert sure.high < unsure.high


@given(
    ends=st.lists(st.integers(0, 1000), min_size=3, max_size=3, unique=True),
    growth=st.floats(1e-3, 1e3),
    spread=st.floats(0, 1e3),
)
@example(ends=[200, 250, 300], growth=0.001, spread=1.0)  # exp overflows
@example(ends=[40, 57, 80], growth=3.0, spread=0.2)  # three times as many negatives as rows
def test_carried_limits_are_finite_contain_the_value_and_differ(ends, growth, spread):
    low, value, high = sorted(end / 1000 for end in ends)
    found = carry_share(Figure(value, low, high, 0.001), Growth(growth, spread), TAILS)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high
    assert math.isfinite(found.variance)


def test_an_audited_prior_carries_over_with_limits_that_hold():
    held, level = [], 0.95
    for seed in range(12):
        tails, reference = two_samples(seed, 0.3, 0.6)
        prior = carried_prior(tails, reference, Figure(0.3, 0.28, 0.32, 1e-4), prior_level=level, level=level)
        held.append(prior.low <= 0.6 <= prior.high)
    assert sum(held) >= 10  # of 12 at 95 % or more: fewer has probability .02


def test_wider_levels_nest():
    tails, reference = two_samples(0, 0.3, 0.5)
    prior = Figure(0.3, 0.25, 0.36, 0.001)
    limits = [
        carried_prior(tails, reference, prior, prior_level=0.95, level=level) for level in (0.8, 0.95, 0.99)
    ]
    assert limits[0].low > limits[1].low > limits[2].low
    assert limits[0].high < limits[1].high < limits[2].high


@given(st.floats(0.3, 2.0), st.floats(0.001, 0.3))
def test_growth_leans_to_what_did_not_move_only_when_it_is_near(value, spread):
    settled = settled_growth(Growth(value, spread), (1.0,))
    assert min(value, 1.0) - 1e-12 <= settled <= max(value, 1.0) + 1e-12
    if abs(value - 1) > 6 * spread:
        assert abs(settled - value) < 1e-4


# -- fairness of the labelled sample --------------------------------------------------------------


def test_ranks_of_positives_among_themselves_are_a_half_on_average():
    scores = np.random.default_rng(0).integers(0, 20, 300).astype(float)
    assert_allclose(positive_ranks(ScoreTails(scores), scores[:, None]).mean(), 0.5)


def audit_once(clf, seed: int, shift: float, n: int = 90):
    """The test on one audit; labelled positives score ``shift`` higher than all positives."""
    rng = np.random.default_rng(seed)
    tails = ScoreTails(rng.normal(2.0 + shift, 1, 400))
    scores, y = scores_of(rng, 2000, 0.3)
    plan = clf.plan_audit(scores[:, None], n=n, random_state=seed)
    return fairness_test(
        positive_ranks(tails, scores[plan.rows, None]),
        y[plan.rows],
        plan.stratum,
        1 / plan.chance,
        posterior_of(scores, 0.3)[plan.rows],
        tails.n_positive,
    )


def test_fair_labels_are_rejected_about_as_often_as_the_level_says(audit_clf):
    p = np.array([audit_once(audit_clf, seed, 0.0).p_value for seed in range(120)])
    # About 20 audited positives; three standard errors of 120 runs.
    assert (p < 0.05).mean() < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 120)
    assert (p < 0.5).mean() > 0.5 - 3 * math.sqrt(0.25 / 120)


def test_labels_picked_among_the_clearest_positives_are_noticed(audit_clf):
    tests = [audit_once(audit_clf, seed, 1.2) for seed in range(20)]
    assert np.mean([test.p_value < 0.05 for test in tests]) > 0.6
    assert all(test.labelled_score_higher for test in tests)


def test_too_few_positives_test_nothing(audit_clf, audit_data):
    plan = audit_clf.plan_audit(audit_data.test, n=30, random_state=0)
    found = audit_clf.adapt(audit_data.test, audit=plan.answer(np.arange(30) < 4)).fairness_test_
    assert (found.p_value, found.n_positive) == (1.0, 4)


# -- performance -------------------------------------------------------------------------------


def called(clf, X, flagged):
    """Rows of ``X`` that the classifier calls positive or negative, as ``flagged`` says."""
    is_positive = clf.predict(X) == 1
    positive, negative = iter(X[is_positive]), iter(X[~is_positive])
    return np.array([next(positive if flag else negative) for flag in flagged])


def test_figures_of_plain_sampling_are_the_usual_ones(audit_clf, audit_data):
    y = np.array([1, 1, 1, 0, 0, 0, 0, 0, 0, 0])
    clf = audit_clf.at_cost(0.8)
    rows = called(clf, audit_data.test, [1, 1, 0, 1, 0, 0, 0, 0, 0, 0])
    found = clf.evaluate(rows, y)
    assert_allclose([found.accuracy.value, found.precision.value, found.recall.value], [0.8, 2 / 3, 2 / 3])
    assert_allclose(found.cost.value, 0.2 * 0.1 + 0.8 * 0.1)
    assert_allclose([found.accuracy.low, found.accuracy.high], [0.4439, 0.9748], atol=1e-4)  # exact binomial
    for name in ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost", "prior"):
        figure = getattr(found, name)
        assert figure.low <= figure.value <= figure.high


def test_precision_of_a_sample_that_is_all_flagged_has_exact_limits(audit_clf, audit_data):
    rows = called(audit_clf, audit_data.test, [1] * 20)
    found = audit_clf.evaluate(rows, np.arange(20) < 15)
    assert_allclose(found.precision.low, exact_limit(15, 20, 0.025, upper=False), atol=1e-6)
    assert_allclose(found.precision.high, exact_limit(15, 20, 0.025, upper=True), atol=1e-6)


def test_quantities_without_rows_have_no_limits(audit_clf, audit_data):
    found = audit_clf.evaluate(called(audit_clf, audit_data.test, [0] * 5), [0] * 5)
    assert math.isnan(found.precision.value)
    assert (found.precision.low, found.precision.high) == (0, 1)
    assert math.isnan(found.recall.value)
    assert (found.recall.low, found.recall.high) == (0, 1)
    assert found.accuracy.value == 1
    assert found.accuracy.low < 1


def test_two_equal_audits_halve_the_variance(audit_clf, audit_data):
    y = np.arange(50) < 15
    audits = [Audit.random(audit_data.test[rows], y) for rows in (slice(50), slice(50, 100))]
    one, both = (audit_clf.evaluate(audit).prior for audit in (audits[0], audits[0] + audits[1]))
    half = 1 / math.sqrt(2)
    assert_allclose(
        [both.value, both.value - both.low, both.high - both.value, both.variance],
        [one.value, half * (one.value - one.low), half * (one.high - one.value), one.variance / 2],
    )


def test_limits_of_performance_hold_for_planned_rows(audit_clf):
    rng = np.random.default_rng(11)
    scores, y = scores_of(rng, 200_000, 0.3)
    flagged = audit_clf.predict(scores[:, None]) == 1
    truth = {
        "accuracy": (flagged == y).mean(),
        "precision": y[flagged].mean(),
        "recall": flagged[y].mean(),
        "cost": 0.5 * (flagged != y).mean(),
    }
    random, runs, held = np.random.RandomState(0), 40, dict.fromkeys(truth, 0)
    for _ in range(runs):
        part = random.choice(len(y), 2000, replace=False)
        plan = audit_clf.plan_audit(scores[part, None], n=80, random_state=random)
        found = audit_clf.evaluate(plan.answer(y[part[plan.rows]]))
        for name, value in truth.items():
            held[name] += getattr(found, name).low <= value <= getattr(found, name).high
    # Of 40 runs at 95 % fewer than 34 have probability .01.
    assert min(held.values()) >= 34, held
