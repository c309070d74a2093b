"""Expected performance of decisions that depend on the same counts."""

import numpy as np
import pytest
from scipy.special import ndtr

from drpu import PriorEstimate, ScoreTails, ratio_threshold
from drpu.decisions import Decision, expect
from drpu.decisions.performance import PreparedCounts, decision_rates
from drpu.priors.calibration import calibrate
from tails_data import drawn

given = PriorEstimate.given
FIGURES = ("accuracy", "precision", "recall")


def decide(tails, train_prior, test_prior, rows=None):
    """The decision that calibration makes, and its true rates for normals two apart."""
    ratio = ratio_threshold(train_prior, test_prior)
    calibration = calibrate(tails, train_prior)
    above = tails.levels[calibration(tails.levels) > ratio]
    scores = np.linspace(-6, 9, 3001)
    start = scores[calibration(scores) > ratio][0]
    true = ndtr(2 - start), ndtr(-start)
    return Decision(tails, float(above[0]), ratio, rows=rows), true


def figures(prior, recall, wrong):
    flagged = prior * recall + (1 - prior) * wrong
    return prior * recall + (1 - prior) * (1 - wrong), prior * recall / flagged, recall


@pytest.fixture(scope="module")
def runs():
    """Errors and coverage of 24 decisions with rare positives, the training prior known."""
    errors, held = [], []
    for seed in range(24):
        train, test = (0.05, 0.05) if seed % 2 else (0.1, 0.3)
        decision, rates = decide(drawn(seed, 150, 5000, train), train, test)
        expected = expect(decision, given(train), given(test))
        found = [getattr(expected, name) for name in FIGURES]
        true = figures(test, *rates)
        errors.append([figure.value - t for figure, t in zip(found, true, strict=True)])
        held.append([figure.low <= t <= figure.high for figure, t in zip(found, true, strict=True)])
    return np.array(errors), np.array(held)


def test_figures_are_not_flattered_by_the_counts_that_chose_the_threshold(runs):
    # The targets are .02, .05 and .03; three standard errors of 24 runs are added to each.
    error = np.abs(runs[0].mean(axis=0)) - 3 * runs[0].std(axis=0) / np.sqrt(24)
    assert (error < [0.02, 0.05, 0.03]).all()


def test_ranges_hold_the_truth(runs):
    # 72 figures, of which 95 % should be held; they depend on each other, as if there were 24: 13 % below.
    assert runs[1].mean() > 0.82


def test_ranges_have_width_even_where_all_priors_are_known():
    decision, _ = decide(drawn(0, 150, 5000, 0.1), 0.1, 0.1)
    expected = expect(decision, given(0.1), given(0.1))
    for name in (*FIGURES, "false_positive_rate", "flagged", "cost"):
        figure = getattr(expected, name)
        assert figure.low < figure.value < figure.high


def test_fewer_rows_mean_wider_ranges():
    def width(n_positive, n, rows=None):
        decision, _ = decide(drawn(1, n_positive, n, 0.2), 0.2, 0.2, rows)
        precision = expect(decision, given(0.2), given(0.2)).precision
        return precision.high - precision.low

    assert width(100, 1000) > width(1000, 10_000)
    assert width(1000, 10_000, rows=5) > width(1000, 10_000, rows=500) > width(1000, 10_000)


def test_doubt_about_the_priors_widens_the_range():
    decision, _ = decide(drawn(2, 300, 5000, 0.3), 0.3, 0.3)
    unsure = PriorEstimate(0.3, 0.1, 0.4, 0.95, "adaptive", identified=False)
    known = expect(decision, given(0.3), given(0.3)).precision
    doubted = expect(decision, unsure, unsure).precision
    assert doubted.low < known.low < doubted.value == known.value < known.high < doubted.high


@pytest.mark.parametrize(("score", "recall"), [(-np.inf, 1.0), (np.inf, 0.0)])
def test_flagging_all_rows_or_none_leaves_nothing_to_estimate(score, recall):
    tails = drawn(3, 100, 1000, 0.3)
    expected = expect(Decision(tails, score, None), given(0.3), given(0.4))
    assert expected.recall.value == expected.recall.low == expected.recall.high == recall
    assert expected.flagged.value == recall
    assert expected.accuracy.value == pytest.approx(0.4 if recall else 0.6)


def test_figures_repeat():
    decision, _ = decide(drawn(4, 100, 1000, 0.3), 0.3, 0.3)
    assert expect(decision, given(0.3), given(0.2)) == expect(decision, given(0.3), given(0.2))


def test_figures_of_weighted_counts_lie_inside_their_limits():
    weighted = ScoreTails([1.0, 2.0, 3.0], [1.0, 2.0, 1.0]).update([0.0, 1.5, 2.5], [1.0, 0.5, 2.0])
    accuracy = expect(Decision(weighted, 2.0, 1.0), given(0.4), given(0.4)).accuracy
    assert accuracy.low <= accuracy.value <= accuracy.high


def test_counts_are_prepared_once_for_all_thresholds():
    tails = drawn(5, 120, 1500, 0.2)
    prepared = PreparedCounts.of(tails, 0.2, 0.0)
    for test in (0.1, 0.2, 0.6):
        decision, _ = decide(tails, 0.2, test)
        apart = expect(decision, given(0.2), given(test), cost=0.7)
        rates = decision_rates(decision, given(0.2), prepared)
        assert expect(decision, given(0.2), given(test), cost=0.7, rates=rates) == apart
