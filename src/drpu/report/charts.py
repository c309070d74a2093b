"""The charts of the HTML report, one function each."""

from __future__ import annotations

import math

import numpy as np

from drpu.core.budget import gain_curve
from drpu.core.groups import GroupPriors
from drpu.report.explorer import default_budget
from drpu.report.summary import calibration_bins, outlook, ratio_curve, roc, score_bins
from drpu.report.svg import Chart, percent
from drpu.report.view import View
from drpu.report.words import share

__all__ = ["all_charts"]

UNIT = (0.0, 1.0)
LETTERS = 50  # characters that fit below an axis; with longer names some are omitted


def all_charts(view: View) -> dict[str, str]:
    """The charts by their names in the template."""
    drawn = {
        "priors": _priors(view),
        "gain": _gain(view),
        "scores": _scores(view),
        "ratio": _ratio(view),
        "roc": _roc(view),
        "calibration": _calibration(view),
        "outlook": _outlook(view),
    }
    if view.groups is not None:
        drawn["groups"] = _groups(view.groups)
    return drawn


def _top(value: float) -> float:
    """A round number above ``value`` for the end of an axis, 1 at most."""
    size = 10.0 ** math.floor(math.log10(max(value, 1e-6)))
    return min(1.0, next(size * k for k in (1.2, 1.5, 2, 3, 4, 5, 6, 8, 10, 12) if size * k >= 1.08 * value))


def _priors(view: View) -> str:
    """Training and new prior with their intervals, on an axis that ends above the largest limit."""
    train, test = view.train, view.prior if view.new is not None else None
    words = f"Training share {train}." + (f" New share {test}." if test is not None else "")
    top = _top(max(prior.high for prior in (train, test) if prior is not None))
    chart = Chart(
        "Share of positives", words, (0, 3), (0.0, top),
        x_label="", y_label="share of positives", name="priors",
    )  # fmt: skip
    for x, prior, kind in ((1, train, "unlabeled"), (2, test, "new")):
        if prior is not None:
            chart.bar(x, prior.low, prior.high, kind).dot(x, prior.value, kind)
            chart.text(x + 0.12, prior.value, share(prior.value), kind)
    names = {1.0: "training"} | ({2.0: "new rows"} if test is not None else {})
    return chart.draw(lambda x: names.get(x, ""), percent, x_ticks=list(names))


def _groups(groups: GroupPriors) -> str:
    """Priors of groups as a line with intervals."""
    top = _top(max(group.prior.high for group in groups))
    chart = Chart(
        "Share of positives by group",
        "; ".join(f"{group.name}: {group.prior.value:.4f}" for group in groups) + ".",
        (0.5, len(groups) + 0.5), (0.0, top), x_label="", y_label="share of positives", name="groups",
    )  # fmt: skip
    places = range(1, len(groups) + 1)
    chart.line((0.5, len(groups) + 0.5), (groups.whole.value, groups.whole.value), "even")
    chart.line(places, [group.prior.value for group in groups], "new")
    for x, group in zip(places, groups, strict=True):
        chart.bar(x, group.prior.low, group.prior.high, "new").dot(x, group.prior.value, "new")
    names = {float(x): _short_name(str(name)) for x, name in zip(places, groups.names, strict=True)}
    step = -(-len(groups) * (max(map(len, names.values())) + 1) // LETTERS)
    return chart.draw(lambda x: names.get(x, ""), percent, x_ticks=[float(x) for x in places][::step])


def _short_name(name: str) -> str:
    """A name for an axis: the ends of a long one, where most names differ."""
    return name if len(name) <= 12 else f"{name[:5]}…{name[-6:]}"


def _scores(view: View) -> str:
    """Score distributions of positives, training rows and new rows, and the threshold."""
    bins, cut = score_bins(view.fitted.tails, view.new), view.cut(view.threshold)
    samples = [(bins.unlabeled, "unlabeled"), (bins.positive, "positive")]
    if bins.new is not None:
        samples.insert(1, (bins.new, "new"))
    heights = [bins.density(shares) for shares, _ in samples]
    top = float(np.max([height[1:].max(initial=0) for height in heights])) or 1.0
    chart = Chart(
        "Score distributions",
        "Density of the score for held-out positives, training rows and new rows. "
        "The first block contains all scores below those of the positives.",
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


def _ratio(view: View) -> str:
    """The tail ratio, and the point at which the prior was estimated."""
    curve, prior = ratio_curve(view.fitted.tails), view.fitted.unlabeled_prior
    top = min(1.4, max(1.3 * prior.high, 4 * curve.read[1]))
    chart = Chart(
        "Ratio curve",
        f"Share of unlabeled rows over share of positives above each threshold. At recall "
        f"{curve.read[0]:.2f}, where the prior was estimated, it is {curve.read[1]:.3g}; the prior of the "
        f"unlabeled rows is {prior}.",
        UNIT, (0, top), x_label="share of positives above the threshold (recall)",
        y_label="unlabeled share / positive share", name="ratio",
    )  # fmt: skip
    chart.band(prior.low, prior.high, "unlabeled").line(UNIT, (prior.value, prior.value), "prior")
    shown = curve.ratio <= top
    chart.line(curve.recall[shown], curve.ratio[shown], "unlabeled").dot(*curve.read, "cut")
    return chart.draw(percent)


def _roc(view: View) -> str:
    """ROC curve from positives and unlabeled rows, with the current point on it."""
    curve, expected = roc(view.fitted.tails, view.fitted.unlabeled_prior.value), view.expected
    chart = Chart(
        "ROC curve",
        f"Recall by false-positive rate, with area {curve.area:.3f} below the curve.",
        UNIT, UNIT, x_label="negatives flagged", y_label="positives flagged", name="roc",
    )  # fmt: skip
    chart.line(UNIT, UNIT, "even").line(curve.false_positive_rate, curve.recall, "positive")
    chart.dot(float(expected.false_positive_rate), float(expected.recall), "cut", name="roc-cut")
    return chart.draw(percent, percent)


def _gain(view: View) -> str:
    """Share of the positives by share of the rows checked, in descending order of the score."""
    fitted, expected = view.fitted, view.expected
    gain = gain_curve(fitted.tails, fitted.unlabeled_prior.value, view.prior, new=view.new)
    reach = float(gain.share[int(np.searchsorted(gain.recall, 0.9))])
    end = _top(min(1.0, max(reach, 1.5 * float(expected.flagged), 2 * view.prior.value)))
    chart = Chart(
        "Gain curve",
        "Share of the positives found by share of the rows checked, the highest scores first.",
        (0.0, end), UNIT, x_label="rows checked", y_label="positives found", name="gain",
    )  # fmt: skip
    shown = gain.share <= end
    chart.line((0.0, end), (0.0, end), "unlabeled").line(gain.share[shown], gain.recall[shown], "positive")
    chart.dot(float(expected.flagged), float(expected.recall), "cut", name="gain-cut")
    depth = default_budget(view) / view.rows
    chart.dot(depth, float(np.interp(depth, gain.share, gain.recall)), "new", name="gain-checked")
    return chart.draw(percent, percent)


def _calibration(view: View) -> str:
    """Predicted probabilities and observed proportions."""
    bins = calibration_bins(view.fitted)
    top = _top(float(max(bins.said.max(), bins.high.max())))
    chart = Chart(
        "Calibration",
        "Observed share of positives in ranges of the score, by predicted probability.",
        (0.0, top), (0.0, top), x_label="predicted probability", y_label="observed share", name="calibration",
    )  # fmt: skip
    chart.line((0.0, top), (0.0, top), "even")
    for said, seen, low, high in zip(bins.said, bins.seen, bins.low, bins.high, strict=True):
        chart.bar(float(said), float(low), float(high), "positive").dot(float(said), float(seen), "positive")
    return chart.draw(percent, percent)


def _outlook(view: View) -> str:
    """Expected cost over test priors, with and without adapting."""
    found = outlook(view.current, top=view.zoom, judge=view.judge)
    adapted, kept = np.asarray(found.adapted.cost), np.asarray(found.as_trained.cost)
    chart = Chart(
        "Expected cost by share of positives",
        "Mean cost of a row when the threshold follows the share of positives, and when it stays as trained.",
        (0.0, view.zoom), (0.0, 1.1 * float(max(adapted.max(), kept.max(), 1e-9))),
        x_label="share of positives in new rows", y_label="expected cost of a row", name="outlook",
    )  # fmt: skip
    chart.line(found.prior, kept, "unlabeled").line(found.prior, adapted, "new")
    return chart.rule(view.prior.value, "cut", name="outlook-cut").draw(percent)
