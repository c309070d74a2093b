"""Tables for the what-if explorer of the page, in which its script looks up and interpolates.

A decision depends on the prior and the cost through its threshold on the ratio only, and its rates change in
jumps, where the threshold passes the ratio of a held-out positive. Therefore the tables are over thresholds:
a grid over priors and costs would miss the jumps.

- ``steps``: between two jumps, recall and false-positive rate, and the alternatives to them that the limits
  of figures are made of (:class:`drpu.decisions.performance.DecisionRates`; after answers those of the map),
- ``gain``: shares of the positives and of the negatives above each level, for a number of rows to check;
  after answers by their map, with limits,
- ``shareLimits``: confidence limits of a share of the held-out positives,
- ``newRows``: log-ratios of the new rows.

With at most ``LEVELS`` held-out positives, shares on the page differ from those of Python by ``EXACT`` at
most. With more of them some jumps are left out: figures differ by ``CLOSE`` at most, limits by twice that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from drpu._typing import FloatArray, IntArray
from drpu.decisions.gain import negative_survival
from drpu.decisions.performance import decision_rates
from drpu.decisions.point import decision_at, map_curves
from drpu.models.learner import LOG_LIMIT
from drpu.priors.estimate import PriorEstimate
from drpu.priors.figures import exact_limits
from drpu.report.data import ReportData
from drpu.state.fitted import tie_break

LEVELS = 250
EXACT, CLOSE = 1e-4, 0.02
DIGITS = 5  # of the numbers in the tables
GAIN_LEVELS = 1000
NEW_ROWS = 1000  # new rows whose log-ratios are tabulated
FIGURES = ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost")
_SAME = 1e-7  # log-ratios that differ by less belong to one jump


def whatif_json(data: ReportData) -> str:
    """The tables as JSON that is safe inside a script element."""
    text = json.dumps(whatif_tables(data), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def whatif_tables(data: ReportData) -> dict[str, Any]:
    """The tables, the priors with limits, and the state that the page starts with."""
    current = data.current
    threshold, decisions = float(current.threshold_), _Decisions(data)
    return {
        "cost": data.cost,
        "miss": data.amounts.miss,
        "rows": data.rows,
        "budget": data.to_check,
        "trainPrior": data.train.value,
        "known": [
            _known(data.prior, data.rows, current, batch=current.reading_.rows),
            _known(data.train, data.rows, current) | {"labelsAt": data.train.value},
            *(_known(p.prior, p.n, p.classifier, batch=p.n) for p in data.periods),
        ],
        "labelNoise": current.point_.label_noise,
        "found": {
            "figures": [
                [None if math.isnan(x) else x for x in (figure.value, figure.low, figure.high)]
                for figure in map(data.figure, FIGURES)
            ],
            "threshold": threshold if math.isfinite(threshold) else None,
            "flagged": data.flagged,
        },
        "steps": decisions.steps(),
        "gain": _gain(data, decisions.curves),
        "shareLimits": _share_limits(data),
        "newRows": _new_rows(data),
    }


def _known(
    prior: PriorEstimate, rows: int, classifier: Any, *, batch: float | None = None
) -> dict[str, Any]:
    """A prior with limits: rows to show, those it was read from, and where the classifier makes labels."""
    limits = {"value": prior.value, "low": prior.low, "high": prior.high, "level": str(prior.level)}
    of_point: dict[str, Any] = classifier.point_.for_page(classifier.reference_)
    return limits | {"rows": rows, "batch": batch} | of_point


class _Decisions:
    """All decisions of a classifier, in ascending order of their thresholds."""

    def __init__(self, data: ReportData) -> None:
        self.data, self.prior = data, data.fitted.unlabeled_prior
        self.curves = map_curves(data.fitted, data.current.reference_)
        self.levels = np.maximum.accumulate(data.fitted.level_log_ratios())
        curves = [self.levels - tie_break(data.fitted.prior.value)]
        if data.prepared.folds is not None:
            curves += list(np.log(np.maximum(data.prepared.folds.ratios, 1e-300)))
        kept = _some_levels(data, LEVELS)
        jumps = np.sort(np.concatenate([curve[kept] for curve in curves]))
        self.jumps = jumps[
            np.append(np.diff(jumps) > _SAME, True)
        ]  # log-ratios at which rates jump
        self.whole = len(kept) == len(self.levels)  # whether these are all jumps

    def steps(self) -> dict[str, Any]:
        """Rates just after each jump and, where jumps were left out, just before the next one."""
        after = [self._row(x) for x in (self.jumps[0] - 1, *(self.jumps + _SAME / 2))]
        before = [] if self.whole else [self._row(x) for x in self.jumps[1:] - _SAME / 2]
        return {
            "at": _short(self.jumps, 10),
            "after": after,
            "before": [after[0], *before, after[-1]] if before else None,
        }

    def _row(self, log_ratio: float) -> list[float]:
        """Score of a threshold, its rates at the training prior and at its limits, and the alternatives."""
        data, tails = self.data, self.data.fitted.tails
        k = int(np.searchsorted(self.levels, log_ratio + tie_break(data.fitted.prior.value), side="right"))
        score = float(tails.levels[k]) if k < len(tails.levels) else math.inf
        ratio = None if data.fitted.calibration is None else math.exp(min(log_ratio, LOG_LIMIT))
        shown = min(score, float(tails.levels[-1]) + 1)
        if self.curves:
            return _short([shown, *(float(part[k + 1]) for pair in self.curves for part in pair)])
        rates = decision_rates(decision_at(data.fitted, score, ratio), self.prior.value, data.prepared)
        ends = [rates.at(0.5, end).wrong for end in (self.prior.low, self.prior.high)]
        # five alternatives to the rates within the limits of the counts, then the decisions of the folds
        others = [(point.recall, point.wrong) for point in rates.moved(0.5)]
        others += [(rates.recall, rates.wrong)] * (5 - len(others))
        others += rates.parts if len(rates.parts) > 1 else []
        return _short(
            [shown, rates.recall, rates.wrong, *ends, *(rate for pair in others for rate in pair)]
        )


def _some_levels(data: ReportData, most: int) -> IntArray:
    """All levels, or some of them: evenly in positives, in rows and in the logarithm of the rows above."""
    tails, n = data.fitted.tails, len(data.fitted.tails.levels)
    if n <= most:
        return np.arange(n)
    rare = np.log(np.maximum(tails.survival, 0.5 / tails.n)) / np.log(0.5 / tails.n)
    at = (1 - tails.positive_survival) + (1 - tails.survival) + rare
    even = np.searchsorted(at, np.linspace(at[0], at[-1], most // 2)).clip(0, n - 1)
    return np.unique(np.concatenate(([0, n - 1], even)))


def _gain(data: ReportData, curves: Sequence[tuple[FloatArray, FloatArray]]) -> dict[str, Any]:
    """Shares of positives, of negatives and of new rows above each level, the highest level first."""
    fitted, kept = data.fitted, _some_levels(data, GAIN_LEVELS)[::-1]
    positive = fitted.tails.positive_survival
    negative = negative_survival(fitted.tails, fitted.unlabeled_prior.value)
    limits = dict[str, Any]()
    if curves:
        positive, negative = (part[1:-1] for part in curves[0])
        ends = {"low": data.gain.low, "high": data.gain.high}
        limits = {name: _short(end[::-1][1:-1][kept]) for name, end in ends.items()}
    return limits | {
        "logRatio": _short(fitted.level_log_ratios()[kept], 8),
        "positive": _short(positive[kept]),
        "negative": _short(negative[kept]),
        "newRows": None if data.new is None else _short(data.new.survival[kept]),
    }


def _share_limits(data: ReportData) -> dict[str, Any]:
    """Limits of a share of the held-out positives by level, at shares that are dense near the ends."""
    near = np.geomspace(1e-4, 0.1, 80)
    shares = np.concatenate(([0.0], near, np.linspace(0.1, 0.9, 81)[1:-1], 1 - near[::-1], [1.0]))
    n, found = data.fitted.tails.n_positive, {}
    for level in {0.95, data.prior.level, data.train.level, *(p.prior.level for p in data.periods)}:
        limits = [exact_limits(float(share), n, (1 - level) / 2) for share in shares]
        low, high = (_short(ends) for ends in zip(*limits, strict=True))
        found[str(level)] = {"at": _short(shares, 8), "low": low, "high": high}
    return found


def _new_rows(data: ReportData) -> dict[str, Any] | None:
    """Ranks of some new rows and their log-ratios, the largest first."""
    if data.log_ratios is None:
        return None
    n = len(data.log_ratios)
    places = np.arange(n)
    if n > NEW_ROWS:
        single = NEW_ROWS // 5
        wider = np.geomspace(single, n, NEW_ROWS - single).astype(np.int64) - 1
        places = np.unique(np.concatenate((np.arange(single), wider)))
    return {"rank": (places + 1).tolist(), "logRatio": _short(data.log_ratios[places], 10)}


def _short(values: Iterable[float] | FloatArray, digits: int = DIGITS) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]
