"""HTML of an adapted classifier for notebooks: priors, limits, expected performance and warnings."""

from __future__ import annotations

from html import escape
from typing import Any

from drpu.core.budget import Budget
from drpu.core.prior import PriorEstimate
from drpu.estimators._profiles import OTHER_SHIFT

__all__ = ["adapted_html"]


def adapted_html(classifier: Any) -> str:
    """A small table, with the mark that scikit-learn's diagrams use for fitted estimators."""
    rows = {
        "prior of the rows": _prior(classifier.test_prior_),
        "prior in training": _prior(classifier.train_prior_),
        "cost": escape(str(classifier.cost_)),
        "threshold": f"ratio above {classifier.threshold_:.3g}",
    }
    rows |= _expected(classifier) if classifier.budget_ is None else _budget(classifier.budget_)
    warnings = _warnings(classifier)
    if warnings:
        rows["warnings"] = "<br>".join(map(escape, warnings))
    cells = "".join(f"<tr><th scope=row>{name}</th><td>{value}</td></tr>" for name, value in rows.items())
    return f"<table><caption><b>AdaptedClassifier</b>, fitted</caption><tbody>{cells}</tbody></table>"


def _prior(prior: PriorEstimate) -> str:
    return prior._repr_html_().removeprefix("<p>prior ").removesuffix("</p>")


def _expected(classifier: Any) -> dict[str, str]:
    now, (low, high) = classifier.expected_performance(), classifier.expected_range()
    rows = {}
    for name in ("flagged", "precision", "recall"):
        value, least, most = (float(getattr(part, name)) for part in (now, low, high))
        rows[f"expected {name}"] = f"{value:.1%} ({min(least, value):.1%} to {max(most, value):.1%})"
    return rows


def _budget(budget: Budget) -> dict[str, str]:
    """Expected result of checking the rows of a budget, which replaces that of the threshold by cost."""
    number = "" if budget.rows is None else f"{budget.rows:,} rows, "
    rows = {"budget": f"{number}{budget.share:.2%} of all"}
    for name in ("precision", "recall"):
        figure = getattr(budget, name)
        rows[f"expected {name}"] = f"{figure.value:.1%} ({figure.low:.1%} to {figure.high:.1%})"
    lift = budget.lift
    return rows | {"expected lift": f"{lift.value:.3g} ({lift.low:.3g} to {lift.high:.3g})"}


def _warnings(classifier: Any) -> list[str]:
    said = []
    if not classifier.test_prior_.identified:
        said.append("The data give an upper bound of the prior only.")
    test = classifier.shift_test_
    if test is not None and test.p_value < OTHER_SHIFT:
        said.append(f"More than the prior has changed (p = {test.p_value:.1g}).")
    if classifier.moved_columns_:
        names = ", ".join(repr(shift.name) for shift in classifier.moved_columns_[:8])
        said.append(f"Columns moved more than a new prior explains: {names}.")
    return said
