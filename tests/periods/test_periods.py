"""Laws of priors and labels in later periods."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit, logit

from drpu import PriorEstimate
from drpu.decisions.point import Hypothesis
from drpu.exceptions import DataError
from drpu.periods import plan_periods
from drpu.periods.groups import GroupReading, joint_level, shrink
from drpu.periods.moves import (
    POOLED,
    Arrived,
    MoveEvidence,
    MoveReading,
    Pooled,
    backtest_of,
    combine,
    decide,
)
from drpu.priors.matching import Growth
from drpu.state.population import Backtest, LabelCount, PastPeriod

GRID = np.linspace(-6, 6, 61)  # log-ratios of cells
priors = st.floats(0.02, 0.98)
moves = st.floats(-2, 2)


def classes(separation=2.0):
    """Masses of both classes over cells whose log-ratio is exact: normal scores of equal variance."""
    positive = np.exp(-((GRID / separation - separation / 2) ** 2) / 2)
    positive /= positive.sum()
    negative = positive * np.exp(-GRID)
    return positive, negative / negative.sum()


def shares(prior, separation=2.0):
    positive, negative = classes(separation)
    return prior * positive + (1 - prior) * negative


def probability_at(prior, separation=2.0):
    positive, negative = classes(separation)
    return prior * positive / (prior * positive + (1 - prior) * negative)


def odds_move(before, after):
    return logit(after) - logit(before)


def estimate(value, *, width=0.0, identified=True):
    low, high = (float(expit(logit(value) + side * width)) for side in (-1, 1))
    return PriorEstimate(value, min(low, value), max(high, value), 0.95, "adaptive", identified)


def evidence(counts, *, train=0.3, adapted=0.5, moved="other", width=0.0, identified=True):
    """Evidence of rows in the cells, for a classifier whose probabilities are exact in training."""
    return MoveEvidence(
        estimate(train, width=width, identified=identified),
        estimate(adapted, width=width),
        moved,
        probability_at(train),
        train,
        counts,
    )


def past(seen, read, noise=0.01, *, matched=None, used=True):
    return PastPeriod("2020", 1000, 100, seen, noise, read, read if matched is None else matched, used)


# -- what moved ------------------------------------------------------------------------------------


def weight_of(rows, **options):
    """Weight of the hypothesis that only the prior moved, which is left out if a test rejects it."""
    hypotheses = decide(rows, **options).hypotheses
    return hypotheses[0].weight if len(hypotheses) == 2 else 0.0


@given(prior=priors, p_value=st.floats(0.01, 1), n=st.floats(50, 10_000), explained=st.floats(0.01, 1))
def test_what_was_not_rejected_weighs_as_much_as_the_evidence_for_it(prior, p_value, n, explained):
    rows = evidence(shares(prior), adapted=prior, moved="prior", width=0.2)
    rows = replace(rows, p_value=p_value, explained=explained, detectable=5 / n**0.5, growth=Growth(1.0, 0.1))
    weight = weight_of(rows)
    assert 0 < weight < 1
    assert weight_of(replace(rows, p_value=p_value / 2)) <= weight
    assert weight_of(replace(rows, detectable=2 * rows.detectable)) < weight  # a test of less power
    assert weight_of(replace(rows, growth=Growth(1.0, 0.2))) < weight
    most = 1 / (1 - rows.train.value)  # a larger growth needs a larger training prior
    assert weight_of(replace(rows, growth=Growth(most, 0.1))) < weight
    assert weight_of(replace(rows, growth=None)) == 0
    assert weight_of(replace(rows, explained=explained / 2)) < weight
    assert weight_of(replace(rows, moved="other")) == 0
    assert weight_of(replace(rows, explained=-0.01)) == 0


def test_limits_are_those_of_both_hypotheses_if_the_prior_alone_is_unlikely_to_have_moved():
    rows = evidence(shares(0.3), adapted=0.05, moved="prior", width=0.5)
    rows = replace(rows, explained=0.1, detectable=0.2)
    prior = decide(rows).prior
    assert weight_of(rows) < 0.5
    assert prior.low <= rows.adapted.low
    assert prior.high >= rows.train.high


@pytest.mark.parametrize(("seen", "more"), [(0.8, True), (0.0, False)])
def test_the_past_and_labels_that_arrive_say_what_moved(seen, more):
    rows = replace(evidence(shares(0.5), moved="prior", width=0.2), rows=500.0)
    weight = weight_of(rows)
    periods = tuple(past(seen, 0.8, matched=0.8) for _ in range(4))
    by_past = weight_of(rows, backtest=Backtest(periods, "guarded", 1.0, 0.5))
    labels = LabelCount(3e5 * (rows.adapted.value if more else rows.train.value), 10**6)
    by_labels = weight_of(rows, arrived=Arrived(labels, LabelCount(3e5 * rows.train.value, 10**6)))
    assert (by_past > weight) == (by_labels > weight) == more


# -- readings --------------------------------------------------------------------------------------


NOTHING = Backtest((), "guarded", 0.0, 1e4)  # a past in which rows said nothing, so that labels decide


@given(before=priors, after=priors, rate=st.floats(0.05, 0.9))
def test_labels_at_a_constant_rate_show_the_move_of_the_prior(before, after, rate):
    n = 10**9  # no noise of counts
    now, old = (LabelCount(rate * prior * n, n) for prior in (after, before))
    rows = evidence(shares(before), train=before)
    found = decide(rows, backtest=NOTHING, arrived=Arrived(now, old)).prior.value
    shown = min(after, max(0.95, before, (1 + rate * after) / 2))  # the reading stays below 1
    assert_allclose(logit(found), logit(shown), atol=1e-4)


def test_labels_show_a_prior_of_at_least_their_share():
    # The ratio of the labelled shares alone would give .3 * .4 / .5, and move labels the other way.
    arrived = Arrived(LabelCount(4000, 10_000), LabelCount(5000, 10_000))
    (labels,) = decide(evidence(shares(0.3)), backtest=NOTHING, arrived=arrived).hypotheses
    assert labels.prior > 0.3


def test_the_noise_of_a_labelled_share_is_that_of_its_count():
    rng = np.random.default_rng(0)
    rows, share, draws = 2000, 0.05, 4000
    found = rng.binomial(rows, share, draws)
    logs = np.log([LabelCount(k, rows).share for k in found])
    noise = np.mean([LabelCount(k, rows).noise for k in found])
    # The standard error of a variance of normal values is sqrt(2 / draws) of it; 4 of them.
    assert_allclose(noise, logs.var(), rtol=4 * np.sqrt(2 / draws))


def test_readings_are_weighted_by_their_precision():
    both = combine(MoveReading(0.0, 1.0), MoveReading(1.0, 0.25))
    assert_allclose([both.move, both.variance], [0.8, 0.2])
    exact = combine(MoveReading(5.0, 1.0), MoveReading(0.3, 0.0))
    assert_allclose([exact.move, exact.variance], [0.3, 0.0], atol=1e-12)
    # readings that contradict each other have a larger variance
    apart = combine(MoveReading(0.0, 0.1), MoveReading(3.0, 0.1))
    assert_allclose([apart.move, apart.variance], [1.5, 0.05 * 9 / 0.2])


# -- the backtest ----------------------------------------------------------------------------------


def test_no_past_gives_the_pooled_values():
    for periods in ((), (past(1.0, 1.0, used=False),)):
        found = backtest_of(periods)
        assert (found.kind, found.slope, found.spread) == ("guarded", POOLED.slope, POOLED.spread)


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.0, 1.8])
def test_a_long_past_gives_its_own_slope_and_spread(slope):
    rng = np.random.default_rng(3)
    n, spread, noise = 400, 0.2, 0.02
    read = rng.normal(0, 0.8, n)
    seen = slope * read + rng.normal(0, np.hypot(spread, np.sqrt(noise)), n)
    periods = [past(*pair, noise) for pair in zip(seen, read, strict=True)]
    found = backtest_of(periods, pooled=Pooled(doubt=np.inf))
    error = np.sqrt((spread**2 + noise) / (n * 0.8**2))
    assert abs(found.slope - slope) < 4 * error
    # tau^2 has the standard error (tau^2 + v) sqrt(2 / n); the pooled value is 3 of 403 periods.
    assert abs(found.spread**2 - spread**2) < 4 * (spread**2 + noise) * np.sqrt(2 / n) + 0.002


def test_a_stationary_table_has_a_spread_near_its_noise():
    rng = np.random.default_rng(4)
    noise, n = 0.05, 300
    seen, read = rng.normal(0, np.sqrt(noise), n), rng.normal(0, 0.02, n)
    found = backtest_of([past(*pair, noise) for pair in zip(seen, read, strict=True)])
    # Nothing is left after the noise: tau^2 is its standard error at most, or the floor.
    floor = POOLED.spread**2 / 10
    assert found.spread**2 <= max(floor, 4 * noise * np.sqrt(2 / n) + 3 / n * POOLED.spread**2) + 1e-12
    assert found.spread < np.sqrt(noise)


@given(seen=st.lists(moves, min_size=1, max_size=6), read=moves, noise=st.floats(0.001, 1))
def test_more_doubt_about_the_past_leaves_the_slope_nearer_to_the_pooled_one(seen, read, noise):
    near, far = (
        backtest_of([past(s, read, noise) for s in seen], pooled=Pooled(doubt=np.inf, slope_spread=width))
        for width in (1e-4, 0.6)
    )
    assert abs(near.slope - POOLED.slope) <= abs(far.slope - POOLED.slope) + 1e-3


def test_matching_is_believed_only_where_it_explained_the_past():
    rng = np.random.default_rng(5)
    seen = rng.normal(0, 1, 6)
    right = [past(s, 0.3 * s + rng.normal(0, 0.2), matched=s) for s in seen]
    wrong = [past(s, s, matched=rng.normal(0, 2)) for s in seen]
    assert backtest_of(right).kind == "matched"
    assert backtest_of(wrong).kind == "guarded"


def unlabelled(periods):
    return plan_periods(periods, np.zeros(len(periods), dtype=bool), 0)


def test_periods_are_in_the_order_of_time():
    for values in (["10", "2", "1"], [10, 2, 1], ["2024-10", "2024-02", "2023-12"]):
        plan = unlabelled(values)
        assert list(plan.names) == values[::-1]
        assert plan.number.tolist() == [2, 1, 0]
    assert unlabelled(["a", None, float("nan"), "b"]).number.tolist() == [0, -1, -1, 1]
    for values in (["run 2023", "run 2024"], ["2022-2023", "2023-2024"], ["2023-Q4", "2024-Q1"]):
        assert list(unlabelled(values).names) == values


@pytest.mark.parametrize(
    "values",
    [["01/2024", "02/2023"], ["Q1 2023", "Q1 2024", "Q2 2023"], ["Mar", "April"]],
)
def test_texts_that_do_not_sort_by_time_are_refused(values):
    with pytest.raises(DataError, match="begin with the year"):
        unlabelled(values)


def test_a_backtest_reads_the_last_periods_with_labels_before_them():
    periods = np.repeat(np.arange(10), 50)
    labelled = np.arange(500) % 10 == 0  # five in each period
    plan = plan_periods(periods, labelled, 0)
    assert plan.read == (4, 5, 6, 7, 8, 9)
    assert not plan.reason
    assert plan_periods(periods, labelled, 2).read[-1] == 7
    # there are ten labels in the first two periods
    assert plan_periods(periods[:250], labelled[:250], 0).read == (2, 3, 4)


@pytest.mark.parametrize(
    ("periods", "labels", "delay", "reason"),
    [
        (np.arange(100) // 50, 50, 1, "two are needed"),
        (np.arange(100) // 50, 9, 0, "labels before it"),
        ([None] * 100, 50, 0, "two are needed"),
    ],
)
def test_a_past_that_is_too_short_gives_a_reason_and_no_backtest(periods, labels, delay, reason):
    plan = plan_periods(periods, np.arange(100) < labels, delay)
    assert plan.read == ()
    assert reason in plan.reason


# -- the decision ----------------------------------------------------------------------------------


@given(after=priors)
def test_pure_prior_shift_is_adapted_to_fully(after):
    rows = evidence(shares(after), adapted=after, moved="prior", width=0.2)
    rows = replace(rows, detectable=0.0)
    decision = decide(rows)
    assert decision.moved == "prior"
    assert decision.prior == rows.adapted  # many rows leave no doubt
    followed = Hypothesis(1.0, after, rows.growth.value, rows.growth.spread)
    assert decision.hypotheses == (followed, Hypothesis(0.0, 0.3))


@given(after=priors, explained=st.floats(0, 1), n=st.floats(50, 10_000))
def test_the_prior_is_the_mean_over_what_may_have_moved(after, explained, n):
    rows = evidence(shares(after), adapted=after, moved="prior", width=10.0)
    rows = replace(rows, explained=explained, rows=n)
    decision = decide(rows)
    weight = weight_of(rows)
    steady = expit(logit(0.3) + POOLED.slope * rows.mean_move)
    assert_allclose(decision.prior.value, weight * after + (1 - weight) * steady, rtol=1e-9)
    followed = Hypothesis(weight, after, rows.growth.value, rows.growth.spread)
    assert decision.hypotheses == (followed, Hypothesis(1 - weight, 0.3))
    assert decision.prior.identified == (weight >= 0.5)


@given(after=priors, adapted=priors)
def test_without_support_labels_stay_as_trained(after, adapted):
    decision = decide(evidence(shares(after), adapted=adapted))
    assert decision.hypotheses == (Hypothesis(1.0, 0.3),)
    assert not decision.prior.identified
    assert decision.sources == ("rows",)


def labels_prior(rows, backtest):
    """The prior at which labels are made, if a test rejected that only the prior moved."""
    (labels,) = decide(rows, backtest=backtest).hypotheses
    return labels.prior


@given(drift=st.floats(-1.5, 1.5))
def test_a_drifting_column_with_a_steady_posterior_leaves_labels_unchanged(drift):
    tilted = shares(0.3) * np.exp(drift * GRID / 3)  # p(x) moves, P(positive | x) does not
    rows = evidence(tilted / tilted.sum())
    assert_allclose(rows.mean_move, odds_move(0.3, rows.probability @ rows.counts), atol=1e-9)
    assert_allclose(labels_prior(rows, Backtest((), "guarded", 1.0, 0.1)), 0.3, atol=1e-4)


@given(after=st.floats(0.03, 0.88))  # moves of more than a factor of 20 of the odds are limited
def test_with_a_known_move_labels_follow_prior_shift_fully(after):
    rows = evidence(shares(after), adapted=after)
    found = labels_prior(rows, Backtest((), "matched", 1.0, 0.1))
    assert_allclose(odds_move(0.3, found), odds_move(0.3, after), atol=2e-2)


@given(after=st.floats(0.05, 0.75))
def test_many_labels_leave_the_rows_only_the_weight_of_a_drifting_rate(after):
    n, rate = 10**8, 0.3
    counts = Arrived(LabelCount(rate * after * n, n), LabelCount(rate * 0.3 * n, n))
    rows = evidence(shares(0.6))
    decision = decide(rows, arrived=counts)
    variance = (POOLED.rate_drift / (1 - after)) ** 2
    weight = variance / (variance + POOLED.spread**2)
    expected = (1 - weight) * odds_move(0.3, after) + weight * odds_move(0.3, decide(rows).prior.value)
    assert_allclose(odds_move(0.3, decision.prior.value), expected, atol=1e-3)
    assert decision.prior.low <= after <= decision.prior.high
    assert decision.sources == ("rows", "labels")


def test_a_backtest_moves_prior_and_labels_as_far_as_its_slope_says():
    rows = evidence(shares(0.5))
    for slope in (0.0, 1.0, 2.0):
        decision = decide(rows, backtest=Backtest((), "guarded", slope, 0.1))
        assert_allclose(odds_move(0.3, decision.prior.value), slope * rows.mean_move, atol=1e-9)
        # at the prior of the labels, the mean probability of the rows has moved as their prior
        (labels,) = decision.hypotheses
        log_odds = logit(rows.probability) + odds_move(0.3, labels.prior)
        assert_allclose(odds_move(0.3, expit(log_odds) @ rows.counts), slope * rows.mean_move, atol=1e-5)


@given(
    after=priors,
    adapted=priors,
    width=st.floats(0, 2),
    identified=st.booleans(),
    moved=st.sampled_from(["prior", "other"]),
    labels=st.none() | st.integers(0, 300),
    complete=st.booleans(),
    spread=st.none() | st.floats(0.05, 1),
)
def test_the_value_lies_inside_its_limits(after, adapted, width, identified, moved, labels, complete, spread):
    rows = evidence(shares(after), adapted=adapted, width=width, identified=identified, moved=moved)
    arrived = None if labels is None else Arrived(LabelCount(labels, 1000), LabelCount(90, 1000), complete)
    backtest = None if spread is None else Backtest((), "guarded", 0.7, spread)
    prior = decide(rows, backtest=backtest, arrived=arrived).prior
    assert 0 <= prior.low <= prior.value <= prior.high <= 1
    if labels is not None:
        assert prior.high >= labels / 1000
    if moved == "other":
        assert not prior.identified


@given(after=priors, adapted=priors, width=st.floats(0, 2))
def test_limits_without_support_cover_all_readings(after, adapted, width):
    rows = evidence(shares(after), adapted=adapted, width=width)
    prior = decide(rows).prior
    for reading in (rows.train.low, rows.train.high, rows.adapted.low, rows.adapted.high):
        assert prior.low - 1e-12 <= reading <= prior.high + 1e-12
    assert prior.low <= rows.probability @ rows.counts + 1e-3


def test_labels_that_are_late_are_noticed_and_incomplete_ones_are_a_lower_bound():
    rows, before = evidence(shares(0.3)), LabelCount(90, 1000)
    usual, few = (Arrived(LabelCount(k, 1000), before) for k in (85, 8))
    assert not decide(rows, arrived=usual).late
    assert decide(rows, arrived=few).late
    part = decide(rows, arrived=Arrived(LabelCount(200, 1000), before, complete=False))
    assert part.prior.low >= 0.2
    assert part.sources == ("rows",)
    assert part.hypotheses == (Hypothesis(1.0, 0.3),)


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_a_training_prior_at_the_edge_stays(end):
    edge = PriorEstimate(end, end, end, 0.95, "given")
    rows = MoveEvidence(edge, edge, "other", np.full(61, end), end, shares(0.3))
    assert decide(rows).prior.value == end
    assert decide(rows).hypotheses == (Hypothesis(1.0, end),)


# -- groups ------------------------------------------------------------------------------------------


def prior(value, width):
    return PriorEstimate(value, max(value - width, 0), min(value + width, 1), 0.995, "matching")


def readings(groups):
    """Readings of groups (value, half of the width of the limits, rows), named a, b, ..."""
    found = zip("abcd", groups, strict=False)
    return [GroupReading(name, n, prior(value, width), width / 2.8) for name, (value, width, n) in found]


def test_the_level_of_each_group_pays_for_all():
    assert joint_level(0.9, 1) == pytest.approx(0.9)
    for groups in (2, 10, 100):
        assert_allclose(groups * (1 - joint_level(0.95, groups)), 0.05)


def between(values, errors):
    """Standard deviation between groups of these values with these standard errors."""
    pairs = zip(values, errors, strict=True)
    groups = [GroupReading(str(k), 100, prior(value, 0.1), error) for k, (value, error) in enumerate(pairs)]
    return shrink(groups, prior(0.3, 0.1), 0.95).between


def test_the_variance_between_groups_is_found_on_average():
    rng = np.random.default_rng(0)
    errors = rng.uniform(0.01, 0.05, 40)
    found = [
        between(0.3 + 0.05 * rng.normal(size=40) + errors * rng.normal(size=40), errors) ** 2
        for _ in range(200)
    ]
    spread = np.std(found) / np.sqrt(200)
    assert abs(np.mean(found) - 0.05**2) < 4 * spread


def test_noise_alone_leaves_nothing_between_groups():
    rng = np.random.default_rng(1)
    found = [between(0.3 + 0.03 * rng.normal(size=30), np.full(30, 0.03)) for _ in range(100)]
    assert np.mean(found) < 0.015


def test_small_groups_move_to_the_whole_and_large_ones_stay():
    groups = [(0.10, 0.01, 9000), (0.30, 0.01, 9000), (0.50, 0.01, 9000), (0.70, 0.3, 30)]
    found = shrink(readings(groups), prior(0.3, 0.005), 0.95)
    weights = [group.weight for group in found]
    assert min(weights[:3]) > 0.98
    assert weights[3] < 0.9
    assert 0.3 < found["d"].prior.value < 0.7
    assert found["d"].alone.value == 0.7


def test_shrunken_values_stay_inside_their_limits():
    groups = [GroupReading(str(value), 50, prior(value, 0.02), 0.3) for value in (0.9, 0.1, 0.12)]
    found = shrink(groups, prior(0.2, 0.01), 0.95)
    assert max(group.weight for group in found) < 0.7  # the errors are much larger than the limits
    assert [group.prior.value for group in found] == pytest.approx([0.88, 0.12, 0.14])


def test_a_single_group_is_left_alone_and_its_name_is_escaped_in_notebooks():
    found = shrink([GroupReading("<b>", 50, prior(0.4, 0.2), 0.1)], prior(0.3, 0.2), 0.95)
    assert found["<b>"].prior == found["<b>"].alone
    assert "1 groups" in str(found)
    assert "<th scope=row>&lt;b&gt;</th>" in found._repr_html_()


def test_an_error_that_all_groups_share_is_no_reason_to_shrink():
    def two(*values):
        groups = [GroupReading(str(k), 900, prior(value, 0.5), 0.02) for k, value in enumerate(values)]
        return shrink(groups, prior(np.mean(values), 0.5), 0.95)

    assert min(group.weight for group in two(0.2, 0.5)) > 0.95
    assert two(0.2, 0.5).differ
    assert not two(0.3, 0.3).differ
