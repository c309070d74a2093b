"""Displays hold numbers and draw them."""

import itertools
import runpy
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from numpy.testing import assert_allclose

from drpu import PriorEstimate, ScoreTails, plots
from drpu.exceptions import ParameterError
from drpu.state.population import Backtest, PastPeriod

MAY = PriorEstimate(0.4, 0.3, 0.6, 0.95, "matching")
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("plot_*.py"))


@pytest.fixture(autouse=True)
def _no_window():
    matplotlib.use("Agg")
    yield
    pyplot.close("all")


@pytest.mark.parametrize("name", ["Calibration", "Performance", "Roc", "Score", "TailRatio"])
def test_a_display_is_drawn_on_the_axes_it_is_given(name, classifier):
    _, ax = pyplot.subplots()
    drawn = getattr(plots, f"{name}Display").from_classifier(classifier, ax=ax)
    assert drawn.ax_ is ax
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert drawn.plot().ax_ is not ax  # new axes when none are given


def test_priors_are_drawn_with_their_limits():
    ax = plots.PriorDisplay({"May": MAY, "June": PriorEstimate.given(0.2)}).plot().ax_
    (segment, _) = ax.collections[0].get_segments()
    assert_allclose(segment[:, 1], [0.3, 0.6])


def test_priors_that_cannot_be_read_as_usual_are_marked():
    bound = PriorEstimate(0.3, 0.1, 0.6, 0.95, "matching", identified=False, upper=0.5)
    ax = plots.PriorDisplay({"May": MAY, "June": bound, "July": MAY}, shifted=["July"]).plot().ax_
    marks = {line.get_label(): np.ravel(line.get_xdata()).tolist() for line in ax.lines}
    assert marks["not identified"] == [1]
    assert marks["more has changed"] == [2]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["not identified", "more has changed"]
    assert plots.PriorDisplay({"May": MAY}).plot().ax_.get_legend() is None


@pytest.mark.parametrize("size", [(6.4, 4.8), (3.5, 2.5)])
@pytest.mark.parametrize("name", ["Calibration", "Gain", "Performance", "Roc", "Score", "TailRatio"])
def test_legends_lie_above_the_axes_and_inside_the_figure(classifier, name, size):
    figure, ax = pyplot.subplots(figsize=size, layout="constrained")
    getattr(plots, f"{name}Display").from_classifier(classifier, ax=ax)
    figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    assert legend.y0 >= ax.get_window_extent().y1 - 1
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.x1


@pytest.mark.parametrize("n", [3, 12, 25, 36])
def test_every_period_is_named_and_no_name_covers_another(n):
    months = [f"{2024 + k // 12}-{k % 12 + 1:02d}" for k in range(n)]
    figure, ax = pyplot.subplots(figsize=(4.9, 3.2), layout="constrained")
    plots.PriorDisplay(dict.fromkeys(months, MAY)).plot(ax)
    figure.canvas.draw()
    labels = ax.get_xticklabels()
    assert [label.get_text() for label in labels] == months
    if labels[0].get_rotation() in (0, 90):  # the boxes of slanted names overlap, their letters do not
        ends = [label.get_window_extent() for label in labels]
        assert all(left.x1 <= right.x0 + 2 for left, right in itertools.pairwise(ends))


def test_of_very_many_periods_every_kth_is_named():
    ax = plots.PriorDisplay({f"day {k}": MAY for k in range(100)}).plot().ax_
    assert [label.get_text() for label in ax.get_xticklabels()] == [f"day {k}" for k in range(0, 100, 3)]


def test_intervals_of_groups_are_called_joint():
    alone = PriorEstimate(0.4, 0.3, 0.6, 0.998, "matching")
    together = PriorEstimate(0.4, 0.35, 0.5, 0.95, "matching")
    assert "joint 95% intervals" in plots.PriorDisplay({"May": alone}, together).plot().ax_.get_ylabel()


def test_where_the_range_is_wide_the_curve_shows_the_band_alone():
    wide = np.array([False, True, False])
    low = np.where(wide, 0.1, 0.5)
    curve = np.array([0.1, 0.5, 1.0]), np.full(3, 0.6), low, np.full(3, 0.7)
    display = plots.PrecisionRecallDisplay(*curve, 0.2)
    assert_allclose(np.isnan(display.plot().ax_.lines[0].get_ydata()), wide)


def test_precision_and_recall_are_those_of_budgets(classifier, data):
    june = classifier.adapt(data.test)
    display = plots.PrecisionRecallDisplay.from_classifier(june, data.test)
    assert (display.low <= display.precision + 1e-12).all()
    assert (display.precision <= display.high + 1e-12).all()
    gain = plots.GainDisplay.from_classifier(june, data.test).gain
    at = len(gain.share) // 2
    day = june.at_budget(share=float(gain.share[at]), of=data.test).budget_
    place = int(np.argmin(np.abs(display.recall - day.recall.value)))
    assert_allclose(display.precision[place], day.precision.value, atol=0.02)
    expected = june.expected_performance()
    assert_allclose(display.point, [expected.recall.value, expected.precision.value])
    assert_allclose(display.recall[-1], 1)
    assert_allclose(display.precision[-1], june.prior_.value, rtol=1e-6)


def test_priors_of_samples_stand_beside_that_of_training(classifier, data):
    display = plots.PriorDisplay.from_classifier(classifier, {"June": data.test})
    assert list(display.priors) == ["training", "June"]
    assert display.priors["June"] == classifier.adapt(data.test).prior_


def test_new_rows_are_a_third_distribution(classifier, data):
    assert plots.ScoreDisplay.from_classifier(classifier).new is None
    display = plots.ScoreDisplay.from_classifier(classifier, data.test)
    assert_allclose(display.new.sum(), 1)
    assert "new rows" in [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_the_roc_dot_is_the_current_decision(classifier):
    june = classifier.at_prior(0.1)
    expected = june.expected_performance()
    dot = plots.RocDisplay.from_classifier(june).ax_.lines[-1]
    assert_allclose(np.ravel(dot.get_data()), [expected.false_positive_rate.value, expected.recall.value])


def test_past_periods_are_drawn_by_their_labels_and_as_they_were_read(classifier):
    past = [PastPeriod(f"m{k}", 500, 40, 0.02 * k, 1e-4, 0.03 * k, 0.0, used=k != 2) for k in range(4)]
    backtest = Backtest(tuple(past), "guarded", 0.5, 0.1)
    ax = plots.BacktestDisplay(backtest).plot().ax_
    labels, read = (bars.lines[0].get_ydata() for bars in ax.containers)
    assert_allclose(labels, [0.0, 0.02, 0.04, 0.06])
    assert_allclose(read, [0.0, 0.015, 0.03, 0.045])  # half of what the rows showed
    assert "not used" in [text.get_text() for text in ax.get_legend().get_texts()]
    with pytest.raises(ParameterError, match="fit it with periods"):
        plots.BacktestDisplay.from_classifier(classifier)


def test_an_unknown_figure_is_refused(classifier):
    with pytest.raises(ParameterError, match="figure must be one of"):
        plots.PerformanceDisplay.from_classifier(classifier, figure="f1")


@pytest.mark.slow  # "make docs" runs them in the gallery
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_draws_a_picture(example):
    runpy.run_path(str(example), run_name="__main__")
    assert pyplot.get_fignums()


def test_every_display_has_an_example():
    text = "".join(path.read_text() for path in EXAMPLES)
    names = [name for name in dir(plots) if name.endswith("Display")]
    assert len(names) >= 10
    for name in names:
        assert f"{name}.from_classifier" in text


def test_gain_and_lift_tell_the_same_story(classifier, data):
    june = classifier.adapt(data.test)
    gain, lift = (kind.from_classifier(june, data.test) for kind in (plots.GainDisplay, plots.LiftDisplay))
    share, recall = gain.ax_.lines[0].get_data()
    assert (share[0], recall[0], share[-1], recall[-1]) == (0, 0, 1, 1)
    depth, times = lift.ax_.lines[0].get_data()
    assert_allclose(times, recall[share > 0] / depth)
    assert times[-1] == 1


# -- the values in the plots -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tails():
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(2, 1, 4000), rng.normal(0, 1, 6000)])
    return ScoreTails(rng.normal(2, 1, 3000)).update(scores)  # a prior of 0.4


def test_every_sample_is_binned_whole(tails):
    new = tails.empty().update(np.random.default_rng(1).normal(0, 1, 500))
    bins = plots.ScoreDisplay.from_counts(tails, new)
    for shares in (bins.positive, bins.unlabeled, bins.new):
        assert_allclose(shares.sum(), 1)
        assert (shares >= 0).all()
        assert len(bins.edges) == len(shares) + 1
    assert (np.diff(bins.edges) > 0).all()


@pytest.mark.parametrize("positive", [[1.0], [1.0, 1.0], [0.0, 1.0], [-690.0, 0.0, 690.0]])
def test_few_and_tied_scores_are_binned_too(positive):
    tails = ScoreTails(positive).update([0.0, 0.5, 2.0])
    bins = plots.ScoreDisplay.from_counts(tails)
    assert_allclose(bins.unlabeled.sum(), 1)
    assert (np.diff(bins.edges) > 0).all()


def test_no_point_of_the_ratio_curve_lies_far_below_the_prior(tails):
    curve = plots.TailRatioDisplay.from_counts(tails, PriorEstimate.given(0.4))
    assert curve.ratio[curve.recall > 0.05].min() > 0.36
    assert abs(curve.read[1] - 0.4) < 0.05


def test_the_roc_of_positives_and_unlabeled_rows_is_that_of_the_two_classes(tails):
    from scipy.stats import norm

    curve = plots.RocDisplay.from_counts(tails, 0.4)
    assert (np.diff(curve.false_positive_rate) >= 0).all()
    assert (np.diff(curve.recall) >= 0).all()
    assert abs(curve.area - norm.cdf(2 / np.sqrt(2))) < 0.02


def test_a_calibrated_classifier_lies_on_the_diagonal(classifier, single):
    for clf in (classifier, single):
        bins = plots.CalibrationDisplay.from_fitted(clf.fitted_)
        inside = (bins.low <= bins.predicted) & (bins.predicted <= bins.high)
        assert inside.mean() >= 0.8
        assert (bins.low <= bins.expected).all()
        assert (bins.expected <= bins.high).all()


def values(performances, name):
    return [getattr(performance, name).value for performance in performances]


def test_without_adapting_accuracy_is_linear_in_the_prior(classifier):
    found = plots.PerformanceDisplay.from_fitted(classifier.fitted_, cost=0.7)
    assert_allclose(np.diff(values(found.as_trained, "accuracy"), 2), 0, atol=1e-12)
    assert len(set(values(found.as_trained, "recall"))) == 1


def test_recall_rises_with_the_prior_where_the_threshold_follows(classifier):
    found = plots.PerformanceDisplay.from_fitted(classifier.fitted_, cost=0.5)
    # Out of fold, recall is a mean over folds of 50 positives: a fall stays within 3 standard errors.
    adapted = values(found.adapted, "recall")
    assert (np.diff(adapted) >= -3 * np.sqrt(0.25 / 250)).all()
    assert adapted[0] < values(found.as_trained, "recall")[0] < adapted[-1]


def test_the_outlook_is_what_the_classifier_expects(classifier):
    found = plots.PerformanceDisplay.from_fitted(classifier.fitted_, cost=0.5, points=9)
    for k, prior in enumerate(found.priors.tolist()):
        expected = classifier.at_prior(prior).expected_performance()
        for name in ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost"):
            assert getattr(found.adapted[k], name).value == getattr(expected, name).value
