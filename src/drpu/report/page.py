"""Numbers as text for people."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from datetime import date
from importlib.resources import files
from typing import Any

from drpu import __version__
from drpu._optional import require
from drpu._output import write_output
from drpu._typing import Rows
from drpu.report import charts, story
from drpu.report.explorer import default_budget, explorer_json
from drpu.report.view import View, fitted_of, look

__all__ = ["number", "prior_words", "render_report", "share", "share_range", "write_report"]


def share(value: float) -> str:
    """A share in percent with one decimal; below one percent, with two significant digits.

    Examples
    --------
    >>> [share(value) for value in (0.0, 0.5, 0.0307, 0.003, 0.00042, 1.0)]
    ['0.0%', '50.0%', '3.1%', '0.30%', '0.042%', '100.0%']
    """
    if not 0 < value < 0.01:
        return f"{100 * value:.1f}%"
    decimals = min(1 - math.floor(math.log10(100 * value)), 6)
    return f"{100 * value:.{decimals}f}%"


def share_range(low: float, high: float) -> str:
    """Two shares as a range."""
    return f"{share(low)} to {share(high)}"


def number(value: float) -> str:
    """A number with three digits; an infinite threshold flags no row, or all of them."""
    if math.isinf(value):
        return "none" if value > 0 else "all"
    return f"{value:.3g}"


def prior_words(prior: Any) -> str:
    """A prior as text: its value and limits, or the bound if it is not identified."""
    if prior.method == "given":
        return f"{share(prior.value)} (given)"
    if not prior.identified:
        return f"at most {share(prior.high)}; {share(prior.value)} if the best-scored rows are all positive"
    return f"{share(prior.value)} ({share_range(prior.low, prior.high)} at {prior.level:.0%})"


def write_report(
    classifier: Any,
    X: Rows | None,
    path: str | os.PathLike[str],
    *,
    cost: float | None = None,
    level: float = 0.95,
    title: str = "drpu report",
    by: Any = None,
    by_name: str | None = None,
    audit: Any = None,
    budget: float | None = None,
) -> Any:
    """Write the page of :func:`render_report` to ``path`` and return the classifier it describes."""
    fitted_of(classifier)
    view = look(classifier, X, cost=cost, level=level, by=by, audit=audit, budget=budget)
    write_output(path, _page(view, title, by_name or by))
    return view.current if view.day is None else view.day


def render_report(
    classifier: Any,
    X: Rows | None = None,
    *,
    cost: float | None = None,
    level: float = 0.95,
    title: str = "drpu report",
    by: Any = None,
    by_name: str | None = None,
    audit: Any = None,
    budget: float | None = None,
) -> str:
    """One self-contained HTML page about a fitted classifier and, if given, new rows.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier
        Fitted.
    X : rows, optional
        New unlabeled rows. The classifier is adapted to them first.
    cost : float or Costs, optional
        False-positive cost; that of the classifier when left out.
    level : float, default=0.95
        Confidence level of the interval of the new prior.
    title : str
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

    Returns
    -------
    page : str
        HTML with its styles, pictures, counts and script inside. It opens without a network, and its
        content security policy allows nothing else to run or to be fetched.

    Examples
    --------
    >>> from drpu import DRPUClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(200, 500, prior=0.5, test_prior=0.2, separation=4, random_state=0)
    >>> clf = DRPUClassifier("classifier", random_state=0).fit(*data.X_y())
    >>> page = render_report(clf, data.test, title="June")
    >>> "<h1>June</h1>" in page
    True
    """
    fitted_of(classifier)
    view = look(classifier, X, cost=cost, level=level, by=by, audit=audit, budget=budget)
    return _page(view, title, by_name or by)


def _page(view: View, title: str, by: Any) -> str:
    jinja2 = require("jinja2", extra="report", for_="the report page")
    markup = jinja2.filters.Markup
    css, js = _text("page.css"), _text("expect.js") + _text("page.js")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    drawn = charts.all_charts(view)
    page: str = environment.from_string(_text("template.html")).render(
        title=title,
        today=date.today().isoformat(),
        version=__version__,
        policy=_policy(css, js),
        css=markup(css),
        js=markup(js),
        counts=markup(explorer_json(view)),
        view=view,
        zoom=view.zoom,
        lead=story.lead(view),
        headline=story.headline(view),
        notes=story.notes(view),
        moved=story.moved_table(view),
        groups=story.group_table(view, by),
        audit=story.audit_table(view),
        charts={name: markup(chart) for name, chart in drawn.items()},
        prior_caption=story.prior_caption(view),
        lift_words=story.lift_words(view),
        expectations=story.expectations(view),
        facts=story.facts(view),
        amounts=view.amounts,
        budget=default_budget(view),
        rows=view.rows,
        rows_words=f"{view.rows:,}",
        bill_name=f"Expected bill of {view.rows:,} rows",
    )
    return page


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
