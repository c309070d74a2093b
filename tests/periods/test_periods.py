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
from drpu.periods.groups import GroupReading, between_groups, joint_level, shrink
from drpu.periods.moves import (
    POOLED,
    Arrived,
    MoveEvidence,
    MoveReading,
    Pooled,
    backtest_of,
    combine,
    decide,
    labelled_reading,
    labels_move,
    late_periods,
    mean_probability,
    odds_move,
    ordered_periods,
    plan_backtest,
    steady_reading,
    what_moved,
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


def estimate(value, *, width=0.0, identified=True):
    low, high = (float(expit(logit(value) + side * width)) for side in (-1, 1))
    return PriorEstimate(value, min(low, value), max(high, value), 0.95, "adaptive", identified)


def evidence(counts, *, train=0.3, adapted=0.5, moved="other", width=0.0, identified=True, share=0.09):
    """Evidence of rows in the cells, for a classifier whose probabilities are exact in training."""
    return MoveEvidence(
        estimate(train, width=width, identified=identified),
        estimate(adapted, width=width),
        moved,
        probability_at(train),
        train,
        counts,
        share,
    )


def past(seen, read, noise=0.01, *, matched=None, used=True):
    return PastPeriod("2020", 1000, 100, seen, noise, read, read if matched is None else matched, used)


# -- what moved ------------------------------------------------------------------------------------


def test_other_shift_is_what_a_test_found():
    assert what_moved(0.4, ()) == "prior"
    assert what_moved(0.0005, ()) == "other"
    assert what_moved(0.4, ("amount",)) == "other"
    assert what_moved(1.0, ()) == "prior"  # nothing was tested, so nothing is rejected


def weight_of(rows, **options):
    return rows.weight_of_prior_shift(steady_reading(rows, None), **options)


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
    by_labels = weight_of(rows, labels=MoveReading(rows.matched if more else 0.0, 0.01))
    assert (by_past > weight) == (by_labels > weight) == more


@given(prior=priors)
def test_the_mean_probability_of_training_is_its_prior(prior):
    assert_allclose(mean_probability(probability_at(prior), shares(prior)), prior, atol=1e-3)


# -- readings --------------------------------------------------------------------------------------


@given(before=priors, after=priors, rate=st.floats(0.05, 0.9))
def test_labels_at_a_constant_rate_show_the_move_of_the_prior(before, after, rate):
    n = 10**9  # no noise of counts
    now, old = (LabelCount(rate * prior * n, n) for prior in (after, before))
    reading = labelled_reading(now, old, before)
    shown = min(after, max(0.95, before, (1 + rate * after) / 2))  # the reading stays below 1
    assert_allclose(reading.move, odds_move(before, shown), atol=1e-5)


@given(before=priors, labels=st.integers(0, 500), rows=st.integers(500, 5000))
def test_a_prior_by_labels_is_at_least_the_labelled_share(before, labels, rows):
    reading = labelled_reading(LabelCount(labels, rows), LabelCount(before * 900, 3000), before)
    assert expit(logit(before) + reading.move) >= labels / (rows + 1) - 1e-9


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
    for pair in (
        (MoveReading(0.3, 0.0), MoveReading(5.0, 1.0)),
        (MoveReading(5.0, 1.0), MoveReading(0.3, 0.0)),
    ):
        assert_allclose([combine(*pair).move, combine(*pair).variance], [0.3, 0.0], atol=1e-12)


def test_readings_that_contradict_each_other_have_a_larger_variance():
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


def test_a_constant_rate_has_no_late_labels_and_missing_labels_are_found():
    rng = np.random.default_rng(6)
    read = rng.normal(0, 0.3, 8)
    steady = [past(r + rng.normal(0, 0.1), r) for r in read]
    assert late_periods(steady) == 0
    for late in (1, 2):
        cut = [past(p.seen - 1.5 * (i >= 8 - late), p.guarded) for i, p in enumerate(steady)]
        assert late_periods(cut) == late


def test_too_few_periods_say_nothing_about_late_labels():
    assert late_periods([past(-3.0, 0.0)] * 3) == 0


def test_periods_are_in_the_order_of_time():
    for values in (["10", "2", "1"], [10, 2, 1], ["2024-10", "2024-02", "2023-12"]):
        names, number = ordered_periods(values)
        assert names == values[::-1]
        assert number.tolist() == [2, 1, 0]
    assert ordered_periods(["a", None, float("nan"), "b"])[1].tolist() == [0, -1, -1, 1]
    with pytest.raises(DataError, match="periods must be values that sort"):
        ordered_periods(["2024-01", 7])


@pytest.mark.parametrize(
    "values",
    [["Jan 2024", "Feb 2024"], ["01/2024", "02/2023"], ["Q1 2023", "Q1 2024", "Q2 2023"], ["Mar", "April"]],
)
def test_texts_that_do_not_sort_by_time_are_refused(values):
    with pytest.raises(DataError, match="begin with the year"):
        ordered_periods(values)


@pytest.mark.parametrize(
    "values", [["run 2023", "run 2024"], ["2022-2023", "2023-2024"], ["2023-Q4", "2024-Q1"]]
)
def test_texts_with_a_year_that_sort_by_time_are_taken(values):
    assert ordered_periods(values)[0] == values


def test_a_backtest_reads_the_last_periods_with_labels_before_them():
    periods = np.repeat(np.arange(10), 50)
    labelled = np.arange(500) % 10 == 0  # five in each period
    plan = plan_backtest(periods, labelled)
    assert plan.read == (4, 5, 6, 7, 8, 9)
    assert plan_backtest(periods, labelled, most=20).read[0] == 2  # ten labels in the first two periods
    assert plan_backtest(periods, labelled, label_delay=2).read[-1] == 7
    assert not plan.reason


@pytest.mark.parametrize(
    ("periods", "labels", "delay", "reason"),
    [
        (np.zeros(100), 50, 0, "two are needed"),
        (np.arange(100) // 50, 50, 1, "two are needed"),
        (np.arange(100) // 50, 9, 0, "labels before it"),
        ([None] * 100, 50, 0, "two are needed"),
    ],
)
def test_a_past_that_is_too_short_gives_a_reason_and_no_backtest(periods, labels, delay, reason):
    plan = plan_backtest(periods, np.arange(100) < labels, label_delay=delay)
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


@pytest.mark.parametrize("separation", [0.3, 0.8, 1.6, 3.0])
def test_a_small_change_of_the_rows_looks_like_a_large_move_of_the_prior_where_scores_are_weak(separation):
    before, trained = probability_at(0.3, separation), shares(0.3, separation)
    mean = mean_probability(before, trained)
    explained = (mean_probability(before, classes(separation)[0]) - mean) / (1 - mean)
    assert_allclose(explained, (before**2 @ trained - mean**2) / (mean * (1 - mean)), rtol=1e-3)
    after = 0.32
    moved = odds_move(mean, mean_probability(before, shares(after, separation)))
    assert_allclose(moved / odds_move(0.3, after), explained, rtol=0.05)


@given(after=priors, adapted=priors)
def test_without_support_labels_stay_as_trained(after, adapted):
    decision = decide(evidence(shares(after), adapted=adapted))
    assert decision.hypotheses == (Hypothesis(1.0, 0.3),)
    assert not decision.prior.identified
    assert decision.sources == ("rows",)


@given(drift=st.floats(-1.5, 1.5))
def test_a_drifting_column_with_a_steady_posterior_leaves_labels_unchanged(drift):
    tilted = shares(0.3) * np.exp(drift * GRID / 3)  # p(x) moves, P(positive | x) does not
    rows = evidence(tilted / tilted.sum())
    truth = mean_probability(rows.probability, rows.counts)
    reading = odds_move(0.3, truth)
    assert_allclose(rows.mean_move, reading, atol=1e-9)
    assert_allclose(labels_move(rows, reading), 0, atol=1e-4)


@given(after=st.floats(0.02, 0.95))
def test_with_a_known_move_labels_follow_prior_shift_fully(after):
    rows = evidence(shares(after))
    move = odds_move(0.3, after)
    assert_allclose(labels_move(rows, move), move, atol=2e-2)


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
        (labels,) = decision.hypotheses
        moved = odds_move(0.3, labels.prior)
        assert_allclose(moved, labels_move(rows, slope * rows.mean_move), atol=1e-9)
    (labels,) = decide(rows, backtest=Backtest((), "guarded", 1.0, 0.1)).hypotheses
    assert_allclose(odds_move(0.3, labels.prior), 0, atol=1e-4)


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
    assert prior.low <= mean_probability(rows.probability, rows.counts) + 1e-3


def test_labels_that_are_late_are_noticed_and_incomplete_ones_are_a_lower_bound():
    rows, before = evidence(shares(0.3)), LabelCount(90, 1000)
    usual, few = (Arrived(LabelCount(k, 1000), before) for k in (85, 8))
    assert not decide(rows, arrived=usual).late
    assert decide(rows, arrived=few).late
    part = decide(rows, arrived=Arrived(LabelCount(200, 1000), before, complete=False))
    assert part.prior.low >= 0.2
    assert part.sources == ("rows",)
    assert part.hypotheses == (Hypothesis(1.0, 0.3),)


def test_an_unidentified_training_prior_has_the_labelled_share_as_lower_limit():
    known, unknown = (
        decide(evidence(shares(0.3), identified=flag, width=0.2)).prior for flag in (True, False)
    )
    assert unknown.low <= 0.09 < known.low


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_a_training_prior_at_the_edge_stays(end):
    edge = PriorEstimate(end, end, end, 0.95, "given")
    rows = MoveEvidence(edge, edge, "other", np.full(61, end), end, shares(0.3), 0.0)
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


def test_the_variance_between_groups_is_found_on_average():
    rng = np.random.default_rng(0)
    errors = rng.uniform(0.01, 0.05, 40)
    found = [
        between_groups(0.3 + 0.05 * rng.normal(size=40) + errors * rng.normal(size=40), errors)
        for _ in range(200)
    ]
    spread = np.std(found) / np.sqrt(200)
    assert abs(np.mean(found) - 0.05**2) < 4 * spread


def test_noise_alone_leaves_nothing_between_groups():
    rng = np.random.default_rng(1)
    found = [between_groups(0.3 + 0.03 * rng.normal(size=30), np.full(30, 0.03)) for _ in range(100)]
    assert np.mean(np.sqrt(found)) < 0.015


def test_small_groups_move_to_the_whole_and_large_ones_stay():
    groups = [(0.10, 0.01, 9000), (0.30, 0.01, 9000), (0.50, 0.01, 9000), (0.70, 0.3, 30)]
    found = shrink(readings(groups), prior(0.3, 0.005), 0.95)
    weights = [group.weight for group in found]
    assert min(weights[:3]) > 0.98
    assert weights[3] < 0.9
    assert 0.3 < found["d"].prior.value < 0.7
    assert found["d"].alone.value == 0.7


def test_shrunken_values_stay_inside_their_limits():
    groups = [(0.9, 0.02, 500), (0.1, 0.3, 9), (0.12, 0.3, 9)]
    for group in shrink(readings(groups), prior(0.2, 0.01), 0.95):
        assert group.prior.low <= group.prior.value <= group.prior.high


def test_a_single_group_is_left_alone():
    found = shrink(readings([(0.4, 0.2, 50)]), prior(0.3, 0.2), 0.95)
    assert found["a"].prior == found["a"].alone
    assert "1 groups" in str(found)


def test_names_are_escaped_in_notebooks():
    found = shrink([GroupReading("<b>", 50, prior(0.4, 0.2), 0.1)], prior(0.3, 0.2), 0.95)
    assert "<th scope=row>&lt;b&gt;</th>" in found._repr_html_()


def test_an_error_that_all_groups_share_is_no_reason_to_shrink():
    wide = [
        GroupReading(name, 900, prior(value, 0.5), 0.02) for name, value in zip("ab", (0.2, 0.5), strict=True)
    ]
    found = shrink(wide, prior(0.35, 0.5), 0.95)
    assert min(group.weight for group in found) > 0.95
    assert found.differ
    same = shrink([GroupReading(name, 900, prior(0.3, 0.5), 0.02) for name in "ab"], prior(0.3, 0.5), 0.95)
    assert not same.differ
