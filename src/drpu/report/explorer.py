"""The numbers that the what-if explorer of the page uses, as JSON.

The script computes the same formulas as :mod:`drpu.core.performance` and :mod:`drpu.core.budget` from the
same counts, so the page shows the results of ``expected_performance``, ``at_budget`` and ``expected_bill``
in Python. With more than 20,000 held-out positives the page has 20,000 levels, and figures between them are
interpolated.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from drpu._typing import FloatArray, IntArray
from drpu.core.prior.estimate import PriorEstimate
from drpu.report.view import View

__all__ = ["default_budget", "explorer_json"]

# Largest number of levels and rows in the page; with more, the script interpolates between some of them.
MOST_LEVELS = 20_000
MOST_ROWS = 5000
DIGITS = 10

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
    """Number of rows to check: the budget of the page, or the rows that are flagged."""
    if view.budget is not None:
        wanted = view.budget.rows
        return round(view.budget.share * view.rows) if wanted is None else wanted
    flagged = round(float(view.expected.flagged) * view.rows) if view.flagged is None else view.flagged
    return min(max(1, flagged), view.rows)


def explorer_json(view: View) -> str:
    """JSON that is safe inside a script element."""
    data: dict[str, Any] = _counts(view) | {
        "newRows": None if view.log_ratios is None else _rows(view.log_ratios - view.fitted.tie_break),
        "flagged": view.flagged,
        "batch": view.current._batch_size,
        "models": len(view.fitted.model.functions),
        "rows": view.rows,
        "budget": default_budget(view),
        "trainPrior": _prior(view.train),
        "unlabeledPrior": _prior(view.fitted.unlabeled_prior),
        "prior": _prior(view.prior),
        "cost": view.cost,
        "miss": view.amounts.miss,
        "threshold": view.threshold if np.isfinite(view.threshold) else None,
        "found": {
            name: [float(getattr(view.expected, field)), *view.limits(field)]
            for name, field in _FIGURES.items()
        },
    }
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _counts(view: View) -> dict[str, Any]:
    """Numbers from the counts of training and of new rows, at every level or at those kept."""
    tails, judge = view.fitted.tails, view.judge
    kept = _kept_levels(view)
    cells = np.concatenate(([0], kept + 1))
    folds = judge.folds
    return {
        "exact": len(kept) == len(tails.levels),
        "levels": _short(tails.levels[kept], 4),
        "logRatio": _short(_log_ratios(view)[kept]),
        "tieBreak": view.fitted.tie_break,
        "positive": _merged(tails.positive_counts, cells),
        "unlabeled": _merged(tails.counts, cells),
        "nPositive": tails.n_positive,
        "nUnlabeled": tails.n,
        "plateau": _short(judge.plateau[np.append(cells, len(judge.plateau) - 1)]),
        "folds": None
        if folds is None
        else [
            {
                "ratio": _short(ratios[kept]),
                "positive": _merged(positive, cells),
                "unlabeled": _merged(unlabeled, cells),
            }
            for positive, unlabeled, ratios in zip(folds.positive, folds.unlabeled, folds.ratios, strict=True)
        ],
        "newCounts": None if view.new is None else _merged(view.new.counts, cells),
    }


def _log_ratios(view: View) -> FloatArray:
    """Log-ratios at the levels, such that a level is flagged if it exceeds the log of the threshold."""
    return np.maximum.accumulate(view.fitted.level_log_ratios() - view.fitted.tie_break)


def _kept_levels(view: View) -> IntArray:
    """All levels, or some: where ratios jump, and otherwise dense in the positives and in the best rows.

    The script interpolates between two kept levels, which is accurate where ratios increase steadily.
    """
    tails, n = view.fitted.tails, len(view.fitted.tails.levels)
    if n <= MOST_LEVELS:
        return np.arange(n)
    curves = [_log_ratios(view)]
    if view.judge.folds is not None:
        curves += list(np.log(np.maximum(view.judge.folds.ratios, 1e-300)))
    jumps = np.diff(np.array(curves), axis=1).max(axis=0)
    before = np.argsort(jumps)[-MOST_LEVELS // 3 :]
    rare = np.log(np.maximum(tails.survival, 0.5 / tails.n)) / np.log(0.5 / tails.n)
    at = (1 - tails.positive_survival + rare) / 2
    even = np.searchsorted(at, np.linspace(0, at[-1], MOST_LEVELS // 3)).clip(0, n - 1)
    return np.unique(np.concatenate(([0, n - 1], even, before, before + 1)))


def _rows(log_ratios: FloatArray) -> dict[str, Any]:
    """Log-ratios of new rows in descending order, with their ranks from 1 on."""
    n = len(log_ratios)
    places = np.arange(n)
    if n > MOST_ROWS:
        one_by_one = MOST_ROWS // 5
        wider = np.geomspace(one_by_one, n, MOST_ROWS - one_by_one).astype(np.int64) - 1
        places = np.unique(np.concatenate((np.arange(one_by_one), wider)))
    return {"place": (places + 1).tolist(), "logRatio": _short(log_ratios[places])}


def _merged(counts: IntArray | FloatArray, cells: IntArray) -> list[float]:
    """Counts of the cells, with the cells between two kept levels merged."""
    merged = np.add.reduceat(counts, cells)
    return merged.tolist() if merged.dtype.kind == "i" else _short(merged)


def _prior(prior: PriorEstimate) -> dict[str, float]:
    return {"value": prior.value, "low": prior.low, "high": prior.high, "level": prior.level}


def _short(values: Any, digits: int = DIGITS) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]
