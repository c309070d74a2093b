"""The pictures of the page, one function each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from drpu.core.diagnostics import Performance
from drpu.core.prior import PriorEstimate
from drpu.core.tails import ScoreTails
from drpu.estimators.fitted import FittedRatio
from drpu.report.summary import calibration_bins, outlook, ratio_curve, roc, score_bins
from drpu.report.svg import Chart, percent

__all__ = ["area", "calibration", "outlook_chart", "priors", "ratio", "roc_chart", "scores"]

UNIT = (0.0, 1.0)


def area(core: FittedRatio) -> float:
    """Area under the ROC curve, positives against negatives."""
    return roc(core.tails, core.unlabeled_prior.value).area


def priors(train: PriorEstimate, test: PriorEstimate | None) -> str:
    """Training and new prior with their intervals."""
    words = f"Training share {train}." + (f" New share {test}." if test is not None else "")
    chart = Chart(
        "Share of positives", words, (0, 3), UNIT, x_label="", y_label="share of positives", name="priors"
    )
    for x, prior, kind in ((1, train, "unlabeled"), (2, test, "new")):
        if prior is not None:
            chart.bar(x, prior.low, prior.high, kind).dot(x, prior.value, kind)
            chart.text(x + 0.12, prior.value, f"{100 * prior.value:.1f}%", kind)
    names = {1.0: "training"} | ({2.0: "new rows"} if test is not None else {})
    return chart.draw(lambda x: names.get(x, ""), percent)


def scores(tails: ScoreTails, new: ScoreTails | None, cut: float) -> str:
    """Where positives, training rows and new rows score, and the cut between the labels."""
    bins = score_bins(tails, new)
    samples = [(bins.unlabeled, "unlabeled"), (bins.positive, "positive")]
    if bins.new is not None:
        samples.insert(1, (bins.new, "new"))
    heights = [bins.density(shares) for shares, _ in samples]
    top = float(np.max([height[1:].max(initial=0) for height in heights])) or 1.0
    chart = Chart(
        "Score distributions",
        "Density of the score for held-out positives, training rows and new rows. "
        "The first block gathers all scores below the positives.",
        (float(bins.edges[0]), float(bins.edges[-1])),
        (0, 1.15 * max(top, float(np.max([height[0] for height in heights])))),
        x_label="score (log of the ratio before calibration)",
        y_label="density",
        name="scores",
    )
    for height, (_, kind) in zip(heights, samples, strict=True):
        chart.steps(bins.edges, height, kind)
    place = float(bins.edges[0] if cut == -math.inf else min(max(cut, bins.edges[0]), bins.edges[-1]))
    return chart.rule(place, "cut", name="scores-cut").draw()


def ratio(core: FittedRatio) -> str:
    """The curve whose lowest point is the prior, and where it was read."""
    curve, prior = ratio_curve(core.tails), core.unlabeled_prior
    top = float(min(max(1.05, 1.3 * prior.high), 1.4))
    chart = Chart(
        "Ratio curve",
        f"Share of unlabeled rows over share of positives above each threshold. It was read at recall "
        f"{curve.read[0]:.2f}, where it is {curve.read[1]:.3f}; the prior of the unlabeled rows is {prior}.",
        UNIT, (0, top), x_label="share of positives above the threshold (recall)",
        y_label="unlabeled share / positive share", name="ratio",
    )  # fmt: skip
    chart.band(prior.low, prior.high, "unlabeled").line(UNIT, (prior.value, prior.value), "prior")
    chart.line(curve.recall, curve.ratio, "unlabeled").dot(*curve.read, "cut")
    return chart.draw(percent)


def roc_chart(core: FittedRatio, expected: Performance) -> str:
    """ROC curve from positives and unlabeled rows, with the current point on it."""
    curve = roc(core.tails, core.unlabeled_prior.value)
    chart = Chart(
        "ROC curve",
        f"Recall by false-positive rate, with area {curve.area:.3f} below the curve.",
        UNIT, UNIT, x_label="negatives flagged", y_label="positives flagged", name="roc",
    )  # fmt: skip
    chart.line(UNIT, UNIT, "even").line(curve.false_positive_rate, curve.recall, "positive")
    chart.dot(float(expected.false_positive_rate), float(expected.recall), "cut", name="roc-cut")
    return chart.draw(percent, percent)


def calibration(core: FittedRatio) -> str:
    """Probabilities said and shares seen."""
    bins = calibration_bins(core)
    chart = Chart(
        "Calibration",
        "Share of positives seen in ranges of the score, by the probability said there.",
        UNIT, UNIT, x_label="probability said", y_label="share seen", name="calibration",
    )  # fmt: skip
    chart.line(UNIT, UNIT, "even")
    for said, seen, low, high in zip(bins.said, bins.seen, bins.low, bins.high, strict=True):
        chart.bar(float(said), float(low), float(high), "positive").dot(float(said), float(seen), "positive")
    return chart.draw(percent, percent)


def outlook_chart(classifier: Any, prior: float) -> str:
    """Expected accuracy over test priors, with and without adapting."""
    view = outlook(classifier)
    lowest = min(float(np.min(view.as_trained.accuracy)), float(np.min(view.adapted.accuracy)))
    chart = Chart(
        "Expected accuracy by share of positives",
        "Accuracy to expect when the threshold follows the share of positives, and when it stays as trained.",
        UNIT, (max(0.0, math.floor(10 * lowest) / 10), 1.0), x_label="share of positives in new rows",
        y_label="expected accuracy", name="outlook",
    )  # fmt: skip
    chart.line(view.prior, np.asarray(view.as_trained.accuracy), "unlabeled")
    chart.line(view.prior, np.asarray(view.adapted.accuracy), "new")
    return chart.rule(prior, "cut", name="outlook-cut").draw(percent, percent)
