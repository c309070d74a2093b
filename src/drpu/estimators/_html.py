"""HTML of an adapted classifier for notebooks: priors, limits, expected performance and warnings."""

from __future__ import annotations

from html import escape
from typing import Any

from drpu.core.prior import PriorEstimate

__all__ = ["adapted_html"]


def adapted_html(classifier: Any) -> str:
    """A small table, with the mark that scikit-learn's diagrams use for fitted estimators."""
    low, high = classifier.expected_range()
    now = classifier.expected_performance()
    rows = {
        "prior of the rows": _prior(classifier.test_prior_),
        "prior in training": _prior(classifier.train_prior_),
        "cost": escape(str(classifier.cost_)),
        "threshold": f"ratio above {classifier.threshold_:.3g}",
    }
    for name in ("flagged", "precision", "recall"):
        value, least, most = (float(getattr(part, name)) for part in (now, low, high))
        rows[f"expected {name}"] = f"{value:.1%} ({min(least, value):.1%} to {max(most, value):.1%})"
    if classifier.budget_ is not None:
        rows["budget"] = escape(str(classifier.budget_))
    warnings = _warnings(classifier)
    if warnings:
        rows["warnings"] = "<br>".join(map(escape, warnings))
    cells = "".join(f"<tr><th scope=row>{name}</th><td>{value}</td></tr>" for name, value in rows.items())
    return f"<table><caption><b>AdaptedClassifier</b>, fitted</caption><tbody>{cells}</tbody></table>"


def _prior(prior: PriorEstimate) -> str:
    return prior._repr_html_().removeprefix("<p>prior ").removesuffix("</p>")


def _warnings(classifier: Any) -> list[str]:
    said = []
    if not classifier.test_prior_.identified:
        said.append("The data give an upper bound of the prior only.")
    test = classifier.shift_test_
    if test is not None and test.p_value < 0.001:
        said.append(f"More than the prior has changed (p = {test.p_value:.1g}).")
    return said
