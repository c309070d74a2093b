"""The HTML report: one file with its figures, tables, style and script inside."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from typing import Any, NamedTuple, TypedDict, Unpack
from urllib.parse import quote
from xml.etree import ElementTree

from drpu import __version__, plots
from drpu._arrays import Rows
from drpu._checks import require
from drpu._colours import IN_PAGES, page_colours
from drpu._output import escape, page_policy, visible, write_output
from drpu._process import ObjectLock, default_errors
from drpu.decisions.point import decision_above
from drpu.report import texts
from drpu.report.data import ReportData, collect, whatif_json


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
    first_row: int


@default_errors
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
    data, page = _render(classifier, X, **options)
    write_output(path, page)
    return data.within_budget or data.current


@default_errors
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
    audit : Audit, optional
        True labels of some of the new rows; see ``plan_audit``.
    budget : int or float, optional
        Rows that can be checked, or their share as a float up to 1; see ``at_budget``. Without new
        rows, a number of rows is one of 10,000.
    beside : mapping of str to array-like, optional
        Columns to show beside the rows to check, such as ``{"id": ids}``: one value for each new
        row. The page has no other values of rows.
    suspects : Suspects or mapping of str to sequence, optional
        Labels that may be wrong: ``suspects(classifier, X, y)``, or its ``to_columns()``.
    first_row : int, default=0
        Number of the first new row on the page: 2 for rows below the header of a file.

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
    _, page = _render(classifier, X, **options)
    return page


def _render(
    classifier: Any, X: Rows | None, *, title: str = "drpu report", **options: Any
) -> tuple[ReportData, str]:
    jinja2 = require("jinja2", extra="report", for_="the report page")
    data = collect(classifier, X, **options)
    download = None  # the address of the rows to check as a file
    if data.row_list is not None:
        download = f"data:text/csv;charset=utf-8,{quote(texts.rows_csv(data.row_list))}"
    figures = page_figures(data)
    markup = jinja2.filters.Markup
    css = page_colours() + _text("page.css")
    js = _text("page.js")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_visible
    )
    page: str = environment.from_string(_text("template.html")).render(
        title=title,
        today=date.today().isoformat(),
        version=__version__,
        policy=page_policy(css, js),
        css=markup(css),
        js=markup(js),
        tables=markup(whatif_json(data, marks_of(figures))),
        data=data,
        texts=texts,
        download=download,
        figures=[(figure, markup(as_svg(figure))) for figure in figures],
    )
    return data, page


def _visible(value: Any) -> Any:
    """The value; in texts, characters that turn the direction of other text are escaped."""
    return visible(value) if type(value) is str else value


def _text(name: str) -> str:
    return files("drpu.report").joinpath(name).read_text(encoding="utf-8")


class Mark(NamedTuple):
    """A mark of a figure that follows the controls of the page.

    ``x`` and ``y`` are numbers of the explorer (``markPlaces`` in ``page.js``); a vertical line has
    no ``y``.
    """

    name: str  # identifier of the mark in the display
    x: str
    y: str | None = None


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A figure of the page."""

    name: str  # identifier, for the script
    title: str  # heading
    caption: str  # sentences below the figure
    display: plots.Display
    marks: tuple[Mark, ...] = ()


def _groups(data: ReportData) -> PageFigure | None:
    if data.groups is None or not data.periods:
        return None
    priors = {str(group.name): group.prior for group in data.groups}
    shifted = [str(group.name) for group in data.groups if group.shift == "other"]
    display = plots.PriorDisplay(priors, whole=data.groups.whole, shifted=shifted)
    caption = "By group, with limits that hold for all groups together."
    return PageFigure("groups", "Share of positives", caption, display)


def _backtest(data: ReportData) -> PageFigure | None:
    if not data.past.periods:
        return None
    title = "How well past periods would have been read"
    display = plots.BacktestDisplay(data.past)
    return PageFigure("backtest", title, texts.backtest_text(data.past), display)


def _priors(data: ReportData) -> PageFigure:
    priors = {"training": data.train}
    if data.new:
        priors["new rows"] = data.prior
    shifted = ["new rows"] if data.other_shift else []
    display = plots.PriorDisplay(priors, shifted=shifted)
    if data.prior.identified and data.train.identified:
        limits = (
            "The upper end is a bound; the lower end assumes that the best scores belong to "
            "positives."
        )
    else:
        limits = "A prior that is not identified may lie anywhere in its interval."
    return PageFigure("priors", "Shares of positives", f"With their intervals. {limits}", display)


def _gain(data: ReportData) -> PageFigure:
    checked = data.to_check / data.rows
    display = plots.GainDisplay(data.gain, data.figure("flagged").value, checked)
    marks = (Mark("cut", "flagged"), Mark("checked", "checked"))
    title = "Positives found by checking rows"
    return PageFigure("gain", title, texts.lift_text(data), display, marks)


def _precision(data: ReportData) -> PageFigure:
    point = (data.figure("recall").value, data.figure("precision").value)
    n_positive = data.fitted.tails.n_positive
    display = plots.PrecisionRecallDisplay.from_gain(data.gain, n_positive, data.prior, point=point)
    caption = (
        "For every threshold, with limits that include the interval of the share of positives."
    )
    marks = (Mark("cut", "recall"),)
    return PageFigure("precision", "Precision and recall", caption, display, marks)


def _scores(data: ReportData) -> PageFigure:
    threshold = decision_above(data.fitted, float(data.current.threshold_)).score
    display = plots.ScoreDisplay.from_counts(data.fitted.tails, data.new, threshold=threshold)
    caption = "The leftmost block contains all scores below those of the positives."
    return PageFigure("scores", "Score distributions", caption, display, (Mark("cut", "score"),))


def _tail_ratio(data: ReportData) -> PageFigure:
    fitted = data.fitted
    display = plots.TailRatioDisplay.from_counts(fitted.tails, fitted.unlabeled_prior)
    caption = (
        "Above any threshold, the share of unlabeled rows divided by that of positives is at least "
        "the prior, except for noise. The dot marks the threshold that bounds it best; the band is "
        "the interval of the unlabeled rows."
    )
    return PageFigure("ratio", "Where the prior was estimated", caption, display)


def _roc(data: ReportData) -> PageFigure:
    title = "ROC curve from positives and unlabeled rows"
    caption = (
        "No negative was labelled: the rates of negatives follow from those of unlabeled and "
        "positive rows."
    )
    marks = (Mark("cut", "false_positive_rate", "recall"),)
    return PageFigure("roc", title, caption, data.roc, marks)


def _calibration(data: ReportData) -> PageFigure:
    display = plots.CalibrationDisplay.from_fitted(data.fitted)
    caption = (
        "On the diagonal, predicted probabilities equal the shares of positives that the counts "
        "lead to expect. From the rows that the calibration was fitted to, with two standard "
        "errors."
    )
    return PageFigure("calibration", "Calibration in training", caption, display)


def _outlook(data: ReportData) -> PageFigure:
    display = plots.PerformanceDisplay.from_fitted(
        data.fitted, cost=data.cost, top=data.zoom, figure="cost", prior=data.prior.value
    )
    caption = (
        "Mean cost of a row when the threshold follows the share of positives, and when it stays "
        "as trained."
    )
    marks = (Mark("cut", "prior"),)
    return PageFigure("outlook", "Effect of adapting", caption, display, marks)


# A new figure is a display in ``drpu.plots`` and a function here; the functions return None where
# the figure does not apply.
FIGURES = (
    _groups,
    _backtest,
    _priors,
    _gain,
    _precision,
    _scores,
    _tail_ratio,
    _roc,
    _calibration,
    _outlook,
)


def page_figures(data: ReportData) -> list[PageFigure]:
    """The figures that apply to the data, in the order of the page."""
    figures = [make_figure(data) for make_figure in FIGURES]
    return [figure for figure in figures if figure is not None]


def marks_of(figures: Iterable[PageFigure]) -> list[dict[str, str | None]]:
    """The marks that the script moves."""
    marks: list[dict[str, str | None]] = []
    for figure in figures:
        for mark in figure.marks:
            marks.append({"figure": figure.name, **mark._asdict()})
    return marks


WIDTH, HEIGHT = 4.9, 3.2  # inches
POINTS = 72  # in an inch
_SVG = "{http://www.w3.org/2000/svg}"
_STYLE = {
    "svg.fonttype": "none",  # text stays text, in the font of the page
    "svg.hashsalt": "drpu",  # the same figure gives the same bytes
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
# The settings of matplotlib belong to the process: only one thread at a time replaces them.
_DRAWING = ObjectLock()


def as_svg(figure: PageFigure) -> str:
    """The figure as an SVG element without styles, whose colours are those of the page.

    ``data-x`` and ``data-y`` hold the ends of the axes: their values and their places.
    """
    matplotlib = require("matplotlib", extra="report", for_="the report page")
    module = require("matplotlib.figure", extra="report", for_="the report page")
    with _DRAWING, matplotlib.rc_context(_STYLE):
        drawing = module.Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        ax = figure.display.plot(drawing.subplots()).ax_
        text = io.StringIO()
        drawing.savefig(text, format="svg", transparent=True)
        box = ax.get_window_extent().transformed(drawing.dpi_scale_trans.inverted())
    x = (*ax.get_xlim(), POINTS * box.x0, POINTS * box.x1)
    y = (*ax.get_ylim(), POINTS * (HEIGHT - box.y0), POINTS * (HEIGHT - box.y1))
    return (
        f'<svg id="{figure.name}" role="img" aria-labelledby="{figure.name}-t {figure.name}-d" '
        f'viewBox="0 0 {POINTS * WIDTH:g} {POINTS * HEIGHT:g}" '
        f'data-x="{_numbers(x)}" data-y="{_numbers(y)}">'
        f'<title id="{figure.name}-t">{escape(figure.title)}</title>'
        f'<desc id="{figure.name}-d">{escape(figure.caption)}</desc>'
        f"{_elements(text.getvalue(), figure.name)}</svg>"
    )


def _numbers(values: Iterable[float]) -> str:
    return " ".join([f"{float(value):.6g}" for value in values])


def _elements(svg: str, name: str) -> str:
    """The drawn elements, without metadata, style sheets and the names of namespaces."""
    root = ElementTree.fromstring(svg)
    elements = []
    for child in root:
        for style in child.findall(f"{_SVG}style"):
            child.remove(style)
        if child.tag == f"{_SVG}metadata" or (child.tag == f"{_SVG}defs" and len(child) == 0):
            continue
        for element in child.iter():
            _styles_to_attributes(element)
            _adapt_attributes(element, f"{name}-")
            element.tail = None
            if element.text and not element.tag.endswith("text"):
                element.text = element.text.strip()
            element.text = _visible(element.text)
        text = ElementTree.tostring(child, encoding="unicode")
        text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)
        elements.append(text.replace("ns0:", ""))
    return "".join(elements)


def _styles_to_attributes(element: ElementTree.Element) -> None:
    """Styles become attributes, which the content security policy allows."""
    for declaration in element.attrib.pop("style", "").split(";"):
        name, _, value = declaration.strip().partition(": ")
        if name.startswith(("fill", "stroke", "opacity", "text-anchor", "font-size")):
            element.set(name, value)
        elif name == "font":  # the size comes first; the family is that of the page
            element.set("font-size", value.split()[0])


def _adapt_attributes(element: ElementTree.Element, prefix: str) -> None:
    """Colours become variables, coordinates short, and identifiers get a prefix."""
    for name, value in list(element.attrib.items()):
        del element.attrib[name]
        value = IN_PAGES.get(value, value)
        if name in ("d", "x", "y", "transform"):
            value = re.sub(r"(\d\.\d)\d+", r"\1", value)
        if name == "id":
            value = prefix + value
        elif "#" in value:
            value = value.replace("#", f"#{prefix}")
        element.set(name.rpartition("}")[2], value)
