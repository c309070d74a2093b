"""Small charts as SVG text, with the colours of the page and without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from html import escape

import numpy as np

from drpu._typing import FloatArray
from drpu.core.budget import gain_curve
from drpu.core.prior.groups import GroupPriors
from drpu.report.explorer import default_budget
from drpu.report.page import share
from drpu.report.summary import calibration_bins, outlook, ratio_curve, roc, score_bins
from drpu.report.view import View

__all__ = ["Chart", "all_charts", "percent", "plain"]

WIDTH, HEIGHT = 420, 270
LEFT, RIGHT, TOP, BOTTOM = 64, 18, 12, 42


def percent(value: float) -> str:
    """A share in percent, with the digits that it needs."""
    return f"{100 * value:.4g}%"


def plain(value: float) -> str:
    """A number as text."""
    return f"{value:g}"


class Chart:
    """A frame with two axes, to which marks are added; :meth:`draw` returns the SVG element.

    Parameters
    ----------
    title, description : str
        Read out by screen readers.
    x, y : tuple of float
        Ranges of the axes.
    x_label, y_label : str
        Their names.
    name : str
        Identifier, for scripts in the page.
    """

    def __init__(
        self,
        title: str,
        description: str,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        x_label: str,
        y_label: str,
        name: str,
    ) -> None:
        self.title, self.description, self.name = title, description, name
        self.x, self.y, self.x_label, self.y_label = x, y, x_label, y_label
        self._marks: list[str] = []

    # -- places ------------------------------------------------------------------------

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Position of a point in the drawing; points outside are moved to the frame."""
        share_x = (min(max(x, self.x[0]), self.x[1]) - self.x[0]) / (self.x[1] - self.x[0])
        share_y = (min(max(y, self.y[0]), self.y[1]) - self.y[0]) / (self.y[1] - self.y[0])
        return LEFT + share_x * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - share_y * (HEIGHT - TOP - BOTTOM)

    # -- marks -------------------------------------------------------------------------

    def line(self, x: Iterable[float] | FloatArray, y: Iterable[float] | FloatArray, kind: str) -> Chart:
        """A line through points."""
        path = _path(self.at(float(a), float(b)) for a, b in zip(x, y, strict=True))
        return self._add(f'<path class="line {kind}" d="{path}"/>')

    def steps(self, edges: FloatArray, heights: FloatArray, kind: str) -> Chart:
        """A histogram outline over ``edges``, filled lightly."""
        points = [self.at(float(edges[0]), 0)]
        for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True):
            points += [self.at(float(left), float(height)), self.at(float(right), float(height))]
        points.append(self.at(float(edges[-1]), 0))
        return self._add(f'<path class="area {kind}" d="{_path(points)}"/>')

    def band(self, low: float, high: float, kind: str) -> Chart:
        """A horizontal band."""
        (x0, y0), (x1, y1) = self.at(self.x[0], high), self.at(self.x[1], low)
        size = f'width="{x1 - x0:.1f}" height="{max(y1 - y0, 1):.1f}"'
        return self._add(f'<rect class="band {kind}" x="{x0:.1f}" y="{y0:.1f}" {size}/>')

    def bar(self, x: float, low: float, high: float, kind: str) -> Chart:
        """A vertical interval."""
        (px, y0), (_, y1) = self.at(x, high), self.at(x, low)
        return self._add(f'<path class="bar {kind}" d="M{px:.1f} {y0:.1f}V{y1:.1f}"/>')

    def dot(self, x: float, y: float, kind: str, *, name: str = "") -> Chart:
        """A point."""
        px, py = self.at(x, y)
        identity = f' id="{name}"' if name else ""
        return self._add(f'<circle{identity} class="dot {kind}" cx="{px:.1f}" cy="{py:.1f}" r="5"/>')

    def rule(self, x: float, kind: str, *, name: str) -> Chart:
        """A vertical line over the full height, which a script may move."""
        px, floor = self.at(x, self.y[0])
        place = f'x1="{px:.1f}" x2="{px:.1f}" y1="{TOP}" y2="{floor:.1f}"'
        return self._add(f'<line id="{name}" class="rule {kind}" {place}/>')

    def text(self, x: float, y: float, words: str, kind: str = "", *, anchor: str = "start") -> Chart:
        """Text at a point."""
        return self._add(_text(f"note {kind}", *self.at(x, y), words, anchor))

    def _add(self, mark: str) -> Chart:
        self._marks.append(mark)
        return self

    # -- the chart ---------------------------------------------------------------------

    def draw(
        self,
        x_format: Callable[[float], str] = plain,
        y_format: Callable[[float], str] = plain,
        *,
        x_ticks: Iterable[float] | None = None,
    ) -> str:
        """The chart as an SVG element; ticks at round numbers unless places are given."""
        places = ticks(*self.x) if x_ticks is None else x_ticks
        frame = "".join([*self._x_ticks(places, x_format), *self._y_ticks(y_format)])
        return (
            f'<svg id="{self.name}" role="img" aria-labelledby="{self.name}-t {self.name}-d" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" data-x="{self.x[0]!r} {self.x[1]!r} {LEFT} {WIDTH - RIGHT}" '
            f'data-y="{self.y[0]!r} {self.y[1]!r} {HEIGHT - BOTTOM} {TOP}">'
            f'<title id="{self.name}-t">{escape(self.title)}</title>'
            f'<desc id="{self.name}-d">{escape(self.description)}</desc>'
            f"{frame}{''.join(self._marks)}"
            f"{_text('axis', (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, self.x_label, 'middle')}"
            f'<text class="axis" transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" '
            f'text-anchor="middle">{escape(self.y_label)}</text></svg>'
        )

    def _x_ticks(self, places: Iterable[float], form: Callable[[float], str]) -> Iterable[str]:
        for value in places:
            px, py = self.at(value, self.y[0])
            yield f'<path class="grid" d="M{px:.1f} {TOP}V{py:.1f}"/>'
            yield _text("tick", px, py + 16, form(value), "middle")

    def _y_ticks(self, form: Callable[[float], str]) -> Iterable[str]:
        for value in ticks(*self.y):
            px, py = self.at(self.x[0], value)
            yield f'<path class="grid" d="M{px:.1f} {py:.1f}H{WIDTH - RIGHT}"/>'
            yield _text("tick", px - 6, py + 4, form(value), "end")


def ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Round numbers between ``low`` and ``high``: steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 10) for k in range(first, last + 1)]


def _text(kind: str, x: float, y: float, words: str, anchor: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


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
