"""The HTML report: one file with its figures, tables, style and script inside."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from html import escape
from importlib.resources import files
from typing import Any, TypedDict, Unpack
from urllib.parse import quote
from xml.etree import ElementTree

from drpu import __version__, plots
from drpu._optional import require
from drpu._output import write_output
from drpu._typing import Rows
from drpu.decisions.point import decision_above
from drpu.report import texts
from drpu.report.data import ReportData, collect
from drpu.report.whatif import whatif_json


class ReportOptions(TypedDict, total=False):
    """Options of a report; see :func:`render_report`."""

    cost: float | None
    level: float | None
    title: str
    by: Any
    by_name: str | None
    audit: Any
    budget: float | None
    beside: Mapping[str, Any] | None
    suspects: Any


def write_report(
    classifier: Any, X: Rows | None, path: str | os.PathLike[str], **options: Unpack[ReportOptions]
) -> Any:
    """Write the page of :func:`render_report` to ``path`` and return the classifier it describes.

    Parameters
    ----------
    classifier, X, **options
        As in :func:`render_report`.
    path : path-like
        The file.
    """
    data, page = _page(classifier, X, **options)
    write_output(path, page)
    return data.current if data.within_budget is None else data.within_budget


def render_report(classifier: Any, X: Rows | None = None, **options: Unpack[ReportOptions]) -> str:
    """One self-contained HTML page about a fitted classifier and, if given, new rows.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier
        Fitted.
    X : rows, optional
        New unlabeled rows. The classifier is adapted to them first.
    cost : float or Costs, optional
        False-positive cost; that of the classifier when left out.
    level : float, optional
        Confidence level of the interval of the new prior, 0.95 when left out.
    title : str, default="drpu report"
        Heading of the page.
    by : str or array-like, optional
        Column or values to group the new rows by; see ``adapt_by``.
    by_name : str, optional
        Heading of the groups; the name of the column when left out.
    audit : Audit or mapping of Audit, optional
        True labels of some of the new rows, or of rows of each group; see ``plan_audit``.
    budget : int or float, optional
        Rows that can be checked, or their share as a float up to 1; see ``at_budget``. Without new
        rows, a number of rows is one of 10,000.
    beside : mapping of str to array-like, optional
        Columns to show beside the rows to check, such as ``{"id": ids}``: one value for each new row. The
        page has no other values of rows.
    suspects : Suspects or mapping of str to sequence, optional
        Labels that may be wrong: ``suspects(classifier, X, y)``, or its ``to_columns()``.

    Returns
    -------
    page : str
        HTML with its styles, figures, tables and script inside. It opens without a network, and its
        content security policy allows nothing else to run or to be fetched.

    Examples
    --------
    >>> from drpu import DRPUClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(200, 500, prior=0.5, test_prior=0.2, separation=4, random_state=0)
    >>> clf = DRPUClassifier("classifier", random_state=0).fit_pu(data.positive, data.unlabeled)
    >>> page = render_report(clf, data.test, title="June")
    >>> "<h1>June</h1>" in page
    True
    """
    return _page(classifier, X, **options)[1]


def _page(
    classifier: Any,
    X: Rows | None,
    *,
    title: str = "drpu report",
    by_name: str | None = None,
    suspects: Any = None,
    **options: Any,
) -> tuple[ReportData, str]:
    jinja2 = require("jinja2", extra="report", for_="the report page")
    data = collect(classifier, X, **options)
    data.suspects = suspects.to_columns() if hasattr(suspects, "to_columns") else suspects
    by = by_name or options.get("by")
    markup = jinja2.filters.Markup
    css, js = _text("page.css"), _text("page.js")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page: str = environment.from_string(_text("template.html")).render(
        title=title,
        today=date.today().isoformat(),
        version=__version__,
        policy=_policy(css, js),
        css=markup(css),
        js=markup(js),
        tables=markup(whatif_json(data)),
        data=data,
        texts=texts,
        by=by if isinstance(by, str) else "group",
        download=None
        if data.listed is None
        else f"data:text/csv;charset=utf-8,{quote(texts.rows_csv(data))}",
        figures=[
            (figure, markup(as_svg(figure, data))) for figure in FIGURES if figure.applies(data)
        ],
    )
    return data, page


def _text(name: str) -> str:
    return files("drpu.report").joinpath(name).read_text(encoding="utf-8")


def _policy(css: str, js: str) -> str:
    """Content security policy: the style and the script of this page, and nothing else."""
    style, script = (
        "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
        for text in (css, js)
    )
    nothing = "default-src 'none'; base-uri 'none'; form-action 'none'"
    return f"{nothing}; style-src {style}; script-src {script}; img-src data:"


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A display of the page."""

    name: str  # identifier, for the script
    title: str  # heading
    caption: str  # a sentence below the figure
    display: Callable[[ReportData], plots.Display]  # makes the display from the data
    more: Callable[[ReportData], str] = lambda data: (
        ""
    )  # a sentence from the data, after the caption
    applies: Callable[[ReportData], bool] = lambda data: (
        True
    )  # whether the data have what the figure shows


def _priors(data: ReportData) -> plots.Display:
    priors = {"training": data.train} | ({"new rows": data.prior} if data.new else {})
    return plots.PriorDisplay(priors, shifted=["new rows"] if data.other_shift else [])


def _groups(data: ReportData) -> plots.Display:
    assert data.groups is not None
    shifted = [str(group.name) for group in data.groups if group.shift == "other"]
    priors = {str(group.name): group.prior for group in data.groups}
    return plots.PriorDisplay(priors, whole=data.groups.whole, shifted=shifted)


def _prior_limits(data: ReportData) -> str:
    if data.prior.identified and data.train.identified:
        return "The upper end is a bound; the lower end assumes that the best scores belong to positives."
    return "A prior that is not identified may lie anywhere in its interval."


def _gain(data: ReportData) -> plots.Display:
    depth = data.to_check / data.rows
    now = data.figure("flagged").value, data.figure("recall").value
    return plots.GainDisplay(data.gain, now, (depth, data.found_at(depth).recall.value))


def _scores(data: ReportData) -> plots.Display:
    cut = decision_above(data.fitted, float(data.current.threshold_)).score
    return plots.ScoreDisplay.from_counts(data.fitted.tails, data.new, threshold=cut)


FIGURES = (
    PageFigure(
        "groups",
        "Share of positives",
        "By group, with limits that hold for all groups together.",
        _groups,
        applies=lambda data: bool(data.periods),
    ),
    PageFigure(
        "backtest",
        "How well past periods would have been read",
        "",
        lambda data: plots.BacktestDisplay(data.past),
        lambda data: texts.backtest_text(data.past),
        applies=lambda data: bool(data.past.periods),
    ),
    PageFigure("priors", "Shares of positives", "With their intervals.", _priors, _prior_limits),
    PageFigure("gain", "Positives found by checking rows", "", _gain, texts.lift_text),
    PageFigure(
        "precision",
        "Precision and recall",
        "For every threshold, with limits that include the interval of the share of positives.",
        lambda data: plots.PrecisionRecallDisplay.from_gain(
            data.gain,
            data.fitted.tails.n_positive,
            data.prior,
            point=(data.figure("recall").value, data.figure("precision").value),
        ),
    ),
    PageFigure(
        "scores",
        "Score distributions",
        "The leftmost block contains all scores below those of the positives.",
        _scores,
    ),
    PageFigure(
        "ratio",
        "Where the prior was estimated",
        "Above any threshold, the share of unlabeled rows divided by that of positives is at least the "
        "prior, except for noise. The dot marks the threshold that bounds it best; the band is the interval "
        "of the unlabeled rows.",
        lambda data: plots.TailRatioDisplay.from_counts(
            data.fitted.tails, data.fitted.unlabeled_prior
        ),
    ),
    PageFigure(
        "roc",
        "ROC curve from positives and unlabeled rows",
        "No negative was labelled: the rates of negatives follow from those of unlabeled and positive rows.",
        lambda data: data.roc,
    ),
    PageFigure(
        "calibration",
        "Calibration in training",
        "On the diagonal, predicted probabilities equal observed shares. From the rows that the calibration "
        "was fitted to, with two standard errors.",
        lambda data: plots.CalibrationDisplay.from_fitted(data.fitted),
    ),
    PageFigure(
        "outlook",
        "Effect of adapting",
        "Mean cost of a row when the threshold follows the share of positives, and when it stays as trained.",
        lambda data: plots.PerformanceDisplay.from_fitted(
            data.fitted,
            cost=data.cost,
            top=data.zoom,
            prepared=data.prepared,
            figure="cost",
            prior=data.prior.value,
        ),
    ),
)


SIZE = (4.9, 3.2)  # inches
_SVG = "{http://www.w3.org/2000/svg}"
_STYLE = {
    "svg.fonttype": "none",  # text stays text, in the font of the page
    "svg.hashsalt": "drpu",  # the same figure gives the same bytes
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
# Colours of the displays, as variables of the style sheet that differ between light and dark.
_COLOURS = {
    plots.POSITIVE: "var(--positive)",
    plots.UNLABELED: "var(--unlabeled)",
    plots.NEW: "var(--new)",
    plots.DECISION: "var(--decision)",
    plots.EVEN: "var(--even)",
    "#000000": "var(--ink)",
    "#ffffff": "var(--sheet)",
}


def as_svg(figure: PageFigure, data: ReportData) -> str:
    """The display as an SVG element without styles, whose colours are those of the page."""
    matplotlib = require("matplotlib", extra="report", for_="the report page")
    module = require("matplotlib.figure", extra="report", for_="the report page")
    with matplotlib.rc_context(_STYLE):
        drawing = module.Figure(figsize=SIZE)
        drawing.subplots_adjust(left=0.14, right=0.96, bottom=0.16, top=0.97)
        ax = figure.display(data).plot(drawing.subplots()).ax_
        text = io.StringIO()
        drawing.savefig(text, format="svg", transparent=True)
        box = ax.get_window_extent().transformed(drawing.dpi_scale_trans.inverted())
    root = ElementTree.fromstring(text.getvalue())
    for element in root.iter():
        _plain(element, f"{figure.name}-")
    width, height = (72 * inches for inches in SIZE)
    x = (*ax.get_xlim(), 72 * box.x0, 72 * box.x1)
    y = (*ax.get_ylim(), height - 72 * box.y0, height - 72 * box.y1)
    body, caption = "".join(_inside(root)), f"{figure.caption} {figure.more(data)}".strip()
    return (
        f'<svg id="{figure.name}" role="img" aria-labelledby="{figure.name}-t {figure.name}-d" '
        f'viewBox="0 0 {width:g} {height:g}" data-x="{_numbers(x)}" data-y="{_numbers(y)}">'
        f'<title id="{figure.name}-t">{escape(figure.title)}</title>'
        f'<desc id="{figure.name}-d">{escape(caption)}</desc>'
        f"{body}</svg>"
    )


def _numbers(values: tuple[float, ...]) -> str:
    return " ".join(f"{float(value):.6g}" for value in values)


def _inside(root: ElementTree.Element) -> Iterator[str]:
    """The drawn elements, without metadata, style sheets and the names of namespaces."""
    for child in root:
        for style in child.findall(f"{_SVG}style"):
            child.remove(style)
        if child.tag == f"{_SVG}metadata" or (child.tag == f"{_SVG}defs" and not len(child)):
            continue
        text = ElementTree.tostring(child, encoding="unicode")
        yield re.sub(r' xmlns(:\w+)?="[^"]*"', "", text).replace("ns0:", "")


def _plain(element: ElementTree.Element, prefix: str) -> None:
    """Styles become attributes, which the content security policy allows; identifiers get a prefix."""
    style = element.attrib.pop("style", "")
    for name, _, value in (part.strip().partition(": ") for part in style.split(";")):
        if name.startswith(("fill", "stroke", "opacity", "text-anchor", "font-size")):
            element.set(name, value)
        elif name == "font":  # the size comes first; the family is that of the page
            element.set("font-size", value.split()[0])
    for name, value in list(element.attrib.items()):
        del element.attrib[name]
        value = _COLOURS.get(value, value)
        if name in ("d", "x", "y", "transform"):
            value = re.sub(r"(\d\.\d)\d+", r"\1", value)
        if name == "id":
            value = prefix + value
        elif "#" in value:
            value = value.replace("#", f"#{prefix}")
        element.set(name.rpartition("}")[2], value)
    if not element.tag.endswith("text"):
        element.text = element.text and element.text.strip()
    element.tail = None
