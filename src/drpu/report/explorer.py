"""The numbers that the what-if explorer of the page works on, as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from drpu._typing import FloatArray, IntArray
from drpu.core.diagnostics import expected_performance, performance_limits
from drpu.core.prior import PriorEstimate
from drpu.report.summary import level_ratios
from drpu.report.view import View

__all__ = ["default_budget", "explorer_json"]

MOST_LEVELS = 4000  # thresholds that the page carries; more would only make it heavier
MOST_LIMITS = 120  # thresholds whose limits are computed; those between are interpolated
HALF = PriorEstimate.given(0.5)  # recall and false-positive rate do not depend on the test prior

# Fields of Performance by their names in the script.
_FIGURES = {
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "falsePositiveRate": "false_positive_rate",
    "flagged": "flagged",
    "meanCost": "cost",
}


def default_budget(view: View) -> int:
    """Rows to look at before anybody says: those that are flagged."""
    flagged = round(float(view.expected.flagged) * view.rows) if view.flagged is None else view.flagged
    return min(max(1, flagged), view.rows)


def explorer_json(view: View) -> str:
    """JSON that is safe inside a script element."""
    kept = _kept_levels(len(view.fitted.tails.levels))
    levels = view.fitted.tails.levels[kept]
    rates = _rates(view, levels)
    low, high = view.current.expected_range()
    now = view.expected
    data: dict[str, Any] = {
        "levels": _rounded(levels),
        "ratio": level_ratios(view.fitted)[kept].tolist(),
        **{name: values.tolist() for name, values in rates.items()},
        **{name: _rounded(values) for name, values in _limits(view, levels, rates).items()},
        "newShare": None if view.new is None else [*_rounded(view.new.survival[kept]), 0.0],
        "flagged": view.flagged,
        "rows": view.rows,
        "budget": default_budget(view),
        "trainPrior": view.train.value,
        "prior": {"value": view.prior.value, "low": view.prior.low, "high": view.prior.high},
        "cost": view.cost,
        "miss": view.amounts.miss,
        "found": {
            name: [
                min(float(getattr(low, field)), float(getattr(now, field))),
                max(float(getattr(high, field)), float(getattr(now, field))),
            ]
            for name, field in _FIGURES.items()
        },
    }
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _kept_levels(n: int) -> IntArray:
    if n <= MOST_LEVELS:
        return np.arange(n)
    return np.unique(np.linspace(0, n - 1, MOST_LEVELS).round().astype(np.int64))


def _rates(view: View, levels: FloatArray) -> dict[str, FloatArray]:
    """Recall and false-positive rate with a threshold at each level, and with none flagged."""
    at = np.append(levels, np.inf)
    tails, prior = view.fitted.tails, view.fitted.unlabeled_prior.value
    found = expected_performance(tails, prior, HALF.value, at, cost=view.cost)
    return {"recall": np.asarray(found.recall), "wrong": np.asarray(found.false_positive_rate)}


def _limits(view: View, levels: FloatArray, rates: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Limits of the two rates at each level."""
    some = np.unique(np.linspace(0, len(levels) - 1, min(len(levels), MOST_LIMITS)).astype(np.int64))
    tails, prior = view.fitted.tails, view.fitted.unlabeled_prior
    pairs = [performance_limits(tails, prior, HALF, float(levels[k]), cost=view.cost) for k in some]
    found = {}
    for rate, field in (("recall", "recall"), ("wrong", "false_positive_rate")):
        for end, which, pick in (("Low", 0, np.minimum), ("High", 1, np.maximum)):
            at_some = np.array([float(getattr(pair[which], field)) for pair in pairs])
            values = np.append(np.interp(np.arange(len(levels)), some, at_some), at_some[-1])
            found[rate + end] = pick(values, rates[rate])
    return found


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
