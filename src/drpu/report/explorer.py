"""The numbers that the what-if explorer of the page uses, as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from drpu._typing import FloatArray, IntArray
from drpu.core.budget import share_limits
from drpu.core.diagnostics import expected_performance
from drpu.core.prior import PriorEstimate
from drpu.report.summary import level_ratios
from drpu.report.view import View

__all__ = ["default_budget", "explorer_json"]

MOST_LEVELS = 4000  # thresholds in the page; more would only make the file larger
KNOTS = 12  # thresholds at which performance is computed by cross-fitting
_KNOTS = ("logRatio", "recall", "recallLow", "recallHigh", "wrong", "wrongLow", "wrongHigh")
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
    """Initial number of rows to check: those that are flagged."""
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
        "knots": _knots(view),
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
    """Recall and false-positive rate from the counts, with a threshold at each level and above all."""
    at = np.append(levels, np.inf)
    tails, prior = view.fitted.tails, view.fitted.unlabeled_prior.value
    found = expected_performance(tails, prior, HALF.value, at, cost=view.cost)
    recall = np.asarray(found.recall)
    limits = np.array([share_limits(float(share), tails.n_positive, view.prior.level) for share in recall])
    return {
        "recall": recall,
        "wrong": np.asarray(found.false_positive_rate),
        "recallLow": limits[:, 0],
        "recallHigh": limits[:, 1],
    }


def _knots(view: View) -> dict[str, list[float]]:
    """Corrections by cross-fitting to the counted rates at some thresholds, and limits of the rates.

    The counts overestimate the performance of a threshold that was chosen with the same counts. The script
    interpolates between the knots, which include the thresholds of the page and of training.
    """
    log_ratios = view.fitted.level_log_ratios()
    some = np.unique(np.linspace(0, len(log_ratios) - 1, KNOTS).astype(np.int64))
    chosen = [float(at) for at in (view.threshold, view.before.threshold_) if 0 < at < np.inf]
    ratios = np.unique(np.concatenate([np.exp(log_ratios[some]) * (1 - 1e-9), chosen]))
    tails, prior = view.fitted.tails, view.fitted.unlabeled_prior.value
    out: dict[str, list[float]] = {name: [] for name in _KNOTS}
    for ratio in ratios:
        now, low, high = view.judged(float(ratio), HALF)
        seen = expected_performance(tails, prior, HALF.value, now.threshold, cost=view.cost)
        out["logRatio"].append(float(np.log(ratio)))
        for name, field in (("recall", "recall"), ("wrong", "false_positive_rate")):
            counted = float(getattr(seen, field))
            for end, part in (("", now), ("Low", low), ("High", high)):
                out[f"{name}{end}"].append(float(getattr(part, field)) - counted)
    return out


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
