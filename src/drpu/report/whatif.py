"""Tables for the what-if explorer of the page, in which its script looks up and interpolates.

A decision depends on the prior and the cost through its threshold on the ratio only, and its rates
change in jumps, where the threshold passes the ratio of a held-out positive. Therefore the tables
are over thresholds: a grid over priors and costs would miss the jumps.

- ``steps``: between two jumps, recall and false-positive rate, and the alternatives to them that
  the limits of figures are made of (:class:`drpu.decisions.performance.DecisionRates`; after
  answers those of the map),
- ``gain``: shares of the positives and of the negatives above each level, for a number of rows to
  check; after answers by their map, with limits,
- ``shareLimits``: confidence limits of a share of the held-out positives,
- ``newRows``: log-ratios of the new rows.

With at most ``LEVELS`` held-out positives, shares on the page differ from those of Python by
``EXACT`` at most. With more of them some jumps are left out: figures differ by ``CLOSE`` at most,
limits by twice that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from drpu._typing import FloatArray, IntArray
from drpu.decisions.gain import negative_survival
from drpu.decisions.performance import decision_rates
from drpu.decisions.point import decision_at, map_curves
from drpu.models.learner import LOG_LIMIT
from drpu.priors.estimate import PriorEstimate
from drpu.priors.figures import WIDE_RANGE, exact_limits_of
from drpu.report.data import ReportData
from drpu.state.fitted import tie_break

LEVELS = 250
EXACT = 1e-4
CLOSE = 0.02
DIGITS = 5  # of the numbers in the tables
GAIN_LEVELS = 1000
NEW_ROWS = 1000  # new rows whose log-ratios are tabulated
FIGURES = ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost")
ALTERNATIVES = 5  # to the rates of a step, within the limits of the counts
_SAME = 1e-7  # log-ratios that differ by less belong to one jump


def whatif_json(data: ReportData, marks: Sequence[Mapping[str, str | None]] = ()) -> str:
    """The tables and the marks of figures as JSON that is safe inside a script element."""
    tables = whatif_tables(data) | {"marks": marks}
    text = json.dumps(tables, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def whatif_tables(data: ReportData) -> dict[str, Any]:
    """The tables, the priors with limits, and the state that the page starts with."""
    current = data.current
    decisions = _Decisions(data)
    known = [
        _known(data.prior, data.rows, current, batch=current.reading_.rows),
        _known(data.train, data.rows, current) | {"labelsAt": data.train.value},
    ]
    for period in data.periods:
        known.append(_known(period.prior, period.n, period.classifier, batch=period.n))
    return {
        "cost": data.cost,
        "miss": data.amounts.miss,
        "rows": data.rows,
        "budget": data.to_check,
        "trainPrior": data.train.value,
        "wideRange": WIDE_RANGE,
        "known": known,
        "labelNoise": current.point_.label_noise,
        "found": _as_found(data),
        "steps": decisions.steps(),
        "gain": _gain(data, decisions.curves),
        "shareLimits": _share_limits(data),
        "newRows": _new_rows(data),
    }


def _as_found(data: ReportData) -> dict[str, Any]:
    """The figures that Python computed; JSON has null for NaN and for infinite thresholds."""
    figures = []
    for name in FIGURES:
        figure = data.figure(name)
        figures.append([_finite(x) for x in (figure.value, figure.low, figure.high)])
    threshold = _finite(float(data.current.threshold_))
    return {"figures": figures, "threshold": threshold, "flagged": data.flagged}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _known(
    prior: PriorEstimate, rows: int, classifier: Any, *, batch: float | None = None
) -> dict[str, Any]:
    """A prior with limits, and where the classifier makes labels.

    ``rows`` is the number of rows to show, ``batch`` that of the rows the prior was read from.
    """
    facts = {
        "value": prior.value,
        "low": prior.low,
        "high": prior.high,
        "level": str(prior.level),
        "rows": rows,
        "batch": batch,
    }
    of_point: dict[str, Any] = classifier.point_.for_page(classifier.reference_)
    return facts | of_point


class _Decisions:
    """All decisions of a classifier, in ascending order of their thresholds."""

    def __init__(self, data: ReportData) -> None:
        fitted = data.fitted
        self.fitted = fitted
        self.prepared = data.prepared
        self.prior = fitted.unlabeled_prior
        self.curves = map_curves(fitted, data.current.reference_)
        self.levels = np.maximum.accumulate(fitted.level_log_ratios())
        log_ratios = [self.levels - tie_break(fitted.prior.value)]
        if data.prepared.folds is not None:
            log_ratios += list(np.log(np.maximum(data.prepared.folds.ratios, 1e-300)))
        chosen = _choose_levels(data, LEVELS)
        jumps = np.sort(np.concatenate([values[chosen] for values in log_ratios]))
        last_of_equal = np.append(np.diff(jumps) > _SAME, True)
        self.jumps = jumps[last_of_equal]  # log-ratios at which rates jump
        self.complete = len(chosen) == len(self.levels)  # whether these are all jumps

    def steps(self) -> dict[str, Any]:
        """Rates just after each jump and, where jumps were left out, just before the next one."""
        after = [self._rates(self.jumps[0] - 1)]
        for jump in self.jumps:
            after.append(self._rates(jump + _SAME / 2))
        before = None
        if not self.complete and len(self.jumps) > 1:
            before = [after[0]]
            for jump in self.jumps[1:]:
                before.append(self._rates(jump - _SAME / 2))
            before.append(after[-1])
        return {"at": _short(self.jumps, 10), "after": after, "before": before}

    def _rates(self, log_ratio: float) -> list[float]:
        """Score of a threshold, its rates at the training prior and its limits, and alternatives.

        The alternatives are those within the limits of the counts, then the decisions of the folds.
        """
        fitted = self.fitted
        levels = fitted.tails.levels
        k = int(
            np.searchsorted(self.levels, log_ratio + tie_break(fitted.prior.value), side="right")
        )
        score = math.inf
        if k < len(levels):
            score = float(levels[k])
        numbers = [min(score, float(levels[-1]) + 1)]
        if self.curves:
            for positive, negative in self.curves:
                numbers += [float(positive[k + 1]), float(negative[k + 1])]
            return _short(numbers)

        ratio = None
        if fitted.calibration is not None:
            ratio = math.exp(min(log_ratio, LOG_LIMIT))
        decision = decision_at(fitted, score, ratio)
        rates = decision_rates(decision, self.prior.value, self.prepared)
        numbers += [rates.recall, rates.wrong]
        numbers += [rates.at(0.5, self.prior.low).wrong, rates.at(0.5, self.prior.high).wrong]
        alternatives = list(rates.moved(0.5))
        for point in alternatives:
            numbers += [point.recall, point.wrong]
        numbers += [rates.recall, rates.wrong] * (ALTERNATIVES - len(alternatives))
        if len(rates.parts) > 1:
            for recall, wrong in rates.parts:
                numbers += [recall, wrong]
        return _short(numbers)


def _choose_levels(data: ReportData, most: int) -> IntArray:
    """All levels, or some: evenly in positives, in rows and in the logarithm of the rows above."""
    tails = data.fitted.tails
    n = len(tails.levels)
    if n <= most:
        return np.arange(n)
    rarest = 0.5 / tails.n
    rarity = np.log(np.maximum(tails.survival, rarest)) / np.log(rarest)
    path = (1 - tails.positive_survival) + (1 - tails.survival) + rarity
    even_steps = np.linspace(path[0], path[-1], most // 2)
    even = np.searchsorted(path, even_steps).clip(0, n - 1)
    return np.unique(np.concatenate(([0, n - 1], even)))


def _gain(data: ReportData, curves: Sequence[tuple[FloatArray, FloatArray]]) -> dict[str, Any]:
    """Shares of positives, negatives and new rows above each level, the highest level first."""
    fitted = data.fitted
    chosen = _choose_levels(data, GAIN_LEVELS)[::-1]
    gain: dict[str, Any] = {}
    if curves:
        positive = curves[0][0][1:-1]
        negative = curves[0][1][1:-1]
        gain["low"] = _short(data.gain.low[::-1][1:-1][chosen])
        gain["high"] = _short(data.gain.high[::-1][1:-1][chosen])
    else:
        positive = fitted.tails.positive_survival
        negative = negative_survival(fitted.tails, fitted.unlabeled_prior.value)
    gain["logRatio"] = _short(fitted.level_log_ratios()[chosen], 8)
    gain["positive"] = _short(positive[chosen])
    gain["negative"] = _short(negative[chosen])
    gain["newRows"] = None
    if data.new is not None:
        gain["newRows"] = _short(data.new.survival[chosen])
    return gain


def _share_limits(data: ReportData) -> dict[str, Any]:
    """Limits of a share of the held-out positives by level, at shares dense near the ends."""
    near = np.geomspace(1e-4, 0.1, 80)
    middle = np.linspace(0.1, 0.9, 81)[1:-1]
    shares = np.concatenate(([0.0], near, middle, 1 - near[::-1], [1.0]))
    levels = {0.95, data.prior.level, data.train.level}
    for period in data.periods:
        levels.add(period.prior.level)
    limits = {}
    for level in levels:
        low, high = exact_limits_of(shares, data.fitted.tails.n_positive, (1 - level) / 2)
        limits[str(level)] = {"at": _short(shares, 8), "low": _short(low), "high": _short(high)}
    return limits


def _new_rows(data: ReportData) -> dict[str, Any] | None:
    """Ranks of some new rows and their log-ratios, the largest first."""
    if data.log_ratios is None:
        return None
    n = len(data.log_ratios)
    places = np.arange(n)
    if n > NEW_ROWS:  # the first rows one by one, then fewer and fewer
        n_single = NEW_ROWS // 5
        sparse = np.geomspace(n_single, n, NEW_ROWS - n_single).astype(np.int64) - 1
        places = np.unique(np.concatenate((np.arange(n_single), sparse)))
    return {"rank": (places + 1).tolist(), "logRatio": _short(data.log_ratios[places], 10)}


def _short(values: Iterable[float] | FloatArray, digits: int = DIGITS) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]
