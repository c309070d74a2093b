"""The page: what was learnt, what moved, and what would happen if."""

from __future__ import annotations

import json
import math
import os
import warnings
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from typing import Any

import numpy as np

from drpu import __version__
from drpu._optional import require
from drpu._output import write_output
from drpu._typing import Rows
from drpu.core.diagnostics import Performance, expected_performance
from drpu.core.interval import ratio_limits
from drpu.core.prior import WEAK_SEPARATION, PriorEstimate
from drpu.core.tails import ScoreTails
from drpu.estimators.adapted import OTHER_SHIFT
from drpu.estimators.fitted import FittedRatio
from drpu.exceptions import DRPUWarning
from drpu.report import charts
from drpu.report.summary import count_rows, level_ratios

__all__ = ["render_report", "write_report"]

MOST_LEVELS = 4000  # thresholds that the page carries; more would only make it heavier
FEW_POSITIVES = 100


def write_report(
    classifier: Any,
    X: Rows | None,
    path: str | os.PathLike[str],
    *,
    cost: float | None = None,
    level: float = 0.95,
    title: str = "drpu report",
) -> Any:
    """Write the page of :func:`render_report` to ``path`` and return the classifier it describes."""
    page, current = _render(classifier, X, cost, level, title)
    write_output(path, page)
    return current


def render_report(
    classifier: Any,
    X: Rows | None = None,
    *,
    cost: float | None = None,
    level: float = 0.95,
    title: str = "drpu report",
) -> str:
    """One self-contained HTML page about a fitted classifier and, if given, new rows.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier
        Fitted.
    X : rows, optional
        New unlabeled rows. The classifier is adapted to them first.
    cost : float, optional
        False-positive cost; that of the classifier when left out.
    level : float, default=0.95
        Confidence level of the interval of the new prior.
    title : str
        Heading of the page.

    Returns
    -------
    page : str
        HTML with its styles, pictures, counts and script inside: it opens without a network.

    Examples
    --------
    >>> from drpu import DRPUClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(200, 500, prior=0.5, test_prior=0.2, separation=4, random_state=0)
    >>> clf = DRPUClassifier("classifier", random_state=0).fit(*data.X_y())
    >>> page = render_report(clf, data.test, title="June")
    >>> "<h1>June</h1>" in page
    True
    """
    return _render(classifier, X, cost, level, title)[0]


def _render(classifier: Any, X: Rows | None, cost: float | None, level: float, title: str) -> tuple[str, Any]:
    jinja2 = require("jinja2", extra="report", for_="the report page")
    classifier._check_fitted()
    view = _look(classifier, X, cost, level)
    template = files("drpu.report").joinpath("template.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"share": _share, "number": _number}
    markup = {name: jinja2.filters.Markup(chart) for name, chart in _charts(view).items()}
    page = environment.from_string(template).render(
        title=title,
        today=date.today().isoformat(),
        version=__version__,
        view=view,
        charts=markup,
        notes=_notes(view),
        rows=_expectations(view),
        facts=_facts(view),
        counts=jinja2.filters.Markup(_counts(view)),
    )
    return page, view.current


# -- what the page is about ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class View:
    """A classifier before and after new rows were seen."""

    core: FittedRatio
    before: Any
    current: Any
    new: ScoreTails | None
    said: list[str]  # warnings that came up on the way

    @property
    def train(self) -> PriorEstimate:
        """Prior of the training population."""
        return self.core.train_prior

    @property
    def prior(self) -> PriorEstimate:
        """Prior that the page is about."""
        found: PriorEstimate = self.current.test_prior_
        return found

    @property
    def cost(self) -> float:
        """False-positive cost that the page starts with."""
        return float(self.current.cost_)

    @property
    def threshold(self) -> float:
        """Ratio above which rows are called positive."""
        return float(self.current.threshold_)

    @property
    def expected(self) -> Performance:
        """What to expect there."""
        performance: Performance = self.current.expected_performance()
        return performance

    @property
    def moved(self) -> str:
        """What happened to the prior, in words that the intervals bear out."""
        if self.prior == self.train:
            return "same"
        if self.prior.low > self.train.high:
            return "rose"
        return "fell" if self.prior.high < self.train.low else "open"


def _look(classifier: Any, X: Rows | None, cost: float | None, level: float) -> View:
    before = classifier.at_prior(classifier.fitted_.train_prior, cost=cost)
    if X is None:
        current = before if cost is None else classifier.at_prior(classifier.test_prior_, cost=cost)
        return View(classifier.fitted_, before, classifier if cost is None else current, None, [])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DRPUWarning)
        current = classifier.adapt(X, cost=cost, level=level)
        new = count_rows(classifier, X)
    for warning in caught:
        warnings.warn(warning.message, stacklevel=4)
    said = [" ".join(str(w.message).split()) for w in caught if isinstance(w.message, DRPUWarning)]
    return View(classifier.fitted_, before, current, new, list(dict.fromkeys(said)))


# -- words -----------------------------------------------------------------------------------------


def _notes(view: View) -> list[str]:
    """What the reader should be careful about."""
    notes = list(view.said)
    tails = view.core.tails
    if tails.n_positive < FEW_POSITIVES and not any("[few-positives]" in note for note in notes):
        notes.append(
            f"Only {tails.n_positive:.0f} positives were held out: shares and limits are rough. "
            "Label more, or give the training prior if you know it."
        )
    weak = ratio_limits(tails, 0.95).separation < WEAK_SEPARATION
    if weak and not any("[weak-separation]" in note for note in notes):
        notes.append(
            "The score separates the classes weakly: the upper limits of the shares hold, "
            "the lower ones may not."
        )
    if not 0.005 < view.train.value < 0.995:
        notes.append("The training share lies at the edge of what it can be: look at the labels first.")
    return notes


def _expectations(view: View) -> list[dict[str, Any]]:
    """Rows of the table of expected performance: the figure, its range, and without adapting."""
    now = view.current.expected_performance()
    low, high = view.current.expected_range()
    kept = _kept_threshold(view)
    names = {
        "accuracy": "rows labelled rightly",
        "precision": "flagged rows that are positive",
        "recall": "positives that are flagged",
        "flagged": "rows that are flagged",
        "cost": "mean cost of a row",
    }
    return [
        {
            "name": name,
            "words": words,
            "now": getattr(now, name),
            "low": min(getattr(low, name), getattr(now, name)),
            "high": max(getattr(high, name), getattr(now, name)),
            "kept": getattr(kept, name),
            "form": "number" if name == "cost" else "share",
        }
        for name, words in names.items()
    ]


def _kept_threshold(view: View) -> Performance:
    """Performance at the current prior if the threshold of training were kept."""
    theta = view.before.threshold_
    at = theta if math.isinf(theta) else view.core.score_above(theta)
    return expected_performance(
        view.core.tails, view.core.unlabeled_prior.value, view.prior.value, at, cost=view.cost
    )


def _facts(view: View) -> list[tuple[str, str]]:
    core, classes = view.core, view.core.classes
    names = getattr(view.current, "feature_names_in_", None)
    columns = f"{view.current.n_features_in_} columns"
    if names is not None:
        columns += ": " + ", ".join(map(str, names[:10])) + (", ..." if len(names) > 10 else "")
    scenario = (
        "case-control: the unlabeled rows are a sample of the population"
        if core.labelled_fraction == 0
        else f"single sample: {core.labelled_fraction:.1%} of the population carry a label"
    )
    facts = [
        ("Model", f"{type(core.model.models[0]).__name__}, {len(core.model.models)} fitted"),
        ("Columns", columns),
        ("Positives held out", f"{core.tails.n_positive:,.0f}"),
        ("Unlabeled training rows counted", f"{core.tails.n:,.0f}"),
        ("Where labels come from", scenario),
        ("Labels", f"{classes[1]} is positive, {classes[0]} is not"),
        ("Training prior found by", view.train.method),
        ("Area under the ROC curve", f"{charts.area(core):.3f}"),
    ]
    if view.new is not None:
        test = view.current.shift_test_
        verdict = (
            "more than the prior has moved" if test.p_value < OTHER_SHIFT else "nothing speaks against it"
        )
        facts += [
            ("New rows counted", f"{view.new.n:,.0f}"),
            ("New prior found by", view.prior.method),
            ("Is it prior shift alone?", f"{verdict} (p = {test.p_value:.2g})"),
        ]
    return facts


def _share(value: float) -> str:
    return f"{100 * value:.1f}%"


def _number(value: float) -> str:
    if math.isinf(value):
        return "none" if value > 0 else "all"
    return f"{value:.3g}"


# -- pictures and counts ---------------------------------------------------------------------------


def _charts(view: View) -> dict[str, str]:
    cut = _cut(view)
    return {
        "priors": charts.priors(view.train, view.prior if view.new is not None else None),
        "scores": charts.scores(view.core.tails, view.new, cut),
        "ratio": charts.ratio(view.core),
        "roc": charts.roc_chart(view.core, view.expected),
        "calibration": charts.calibration(view.core),
        "outlook": charts.outlook_chart(view.current, view.prior.value),
    }


def _cut(view: View) -> float:
    return view.threshold if math.isinf(view.threshold) else view.core.score_above(view.threshold)


def _counts(view: View) -> str:
    """The counts that the explorer works on, as JSON that is safe inside a script element."""
    core = view.core
    ratio = level_ratios(core)
    first = np.arange(len(ratio))
    if len(first) > MOST_LEVELS:
        first = np.unique(np.linspace(0, len(ratio) - 1, MOST_LEVELS).round().astype(np.int64))

    def pooled(counts: Any) -> list[float]:
        whole: list[float] = np.add.reduceat(counts, np.concatenate(([0], first + 1))).tolist()
        return whole

    data = {
        "levels": [float(f"{score:.6g}") for score in core.tails.levels[first]],
        "ratio": ratio[first].tolist(),
        "positive": pooled(core.tails.positive_counts),
        "unlabeled": pooled(core.tails.counts),
        "trainPrior": view.train.value,
        "unlabeledPrior": core.unlabeled_prior.value,
        "prior": view.prior.value,
        "cost": view.cost,
    }
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
