"""Priors and labels in real periods, where more than the prior moves.

    python -m benchmarks.months --data FOLDER                  # dated Parquet files; minutes a rate at first
    python -m benchmarks.months --data FOLDER --choose         # constants, by tables left out
    python -m benchmarks.months --resampled FOLDER             # tables whose prior is moved by resampling
    python -m benchmarks.months --moving FOLDER                # months whose priors differ widely, and drift
    python -m benchmarks.months --weigh                        # weights of what may have moved; no fits

The protocols "next", "far" and "history" and the cache of fits are those of :mod:`benchmarks._months`. Each
cell is a classifier fitted to earlier periods and one later period. Every figure is measured with 10, 30
and 60 % of the positives labelled, because at one rate a rule can learn the rate, and twice: with the
training prior as estimated, and with the true one given, which separates the error of later readings from the
error of training. Figures are means over tables of the means over their cells.
"""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, logit, ndtri
from scipy.stats import rankdata

from benchmarks._left_out import without_source
from benchmarks._months import (
    CACHE,
    PROTOCOLS,
    RATES,
    RESAMPLED,
    Cell,
    backtest_cells,
    read_cells,
    reported,
    write_missing,
    write_resampled,
)
from benchmarks._results import command_line, commit_of_code, read_results, write_results
from benchmarks._tables import Table, generator, read_tables
from drpu import DRPUClassifier
from drpu.periods.backtest import FEWEST_PERIODS, past_period
from drpu.periods.moves import (
    POOLED,
    MoveEvidence,
    MoveReading,
    Pooled,
    backtest_of,
    odds_move,
    past_reading,
    steady_reading,
)
from drpu.periods.read import compared
from drpu.state.population import PastPeriod

LEFT_OUT = ("bird_strikes", "rain_tomorrow")  # took no part in the choice of constants
KINDS = ("estimated", "given")
LOSS = 0.05  # a cell loses if its accuracy is this much below that of the trained labels

Row = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """Prior of a period by one rule, and the labels of its rows; None where a rule has none."""

    value: float | None
    low: float | None
    high: float | None
    labels: np.ndarray
    moved: str | None = None


# -- one cell --------------------------------------------------------------------------------------


def past_of(cell: Cell, kind: str) -> PastPeriod:
    """A cell as a past period of a later one."""
    return past_period(
        cell.facts["period"], cell.classifier(kind).fitted_, cell.rows.counts, cell.label_counts
    )


def past_cells(cell: Cell, others: Sequence[Cell], kind: str) -> list[PastPeriod]:
    """The periods before a cell; none where there are too few for a backtest."""
    past = [past_of(other, kind) for other in backtest_cells(cell, others)]
    return past if sum(period.used for period in past) >= FEWEST_PERIODS else []


def adapted(
    cell: Cell, others: Sequence[Cell], kind: str, *, periods: bool, labels: bool, shift: str = "auto"
) -> Outcome:
    """The classifier of a cell after ``adapt``."""
    clf = cell.classifier(kind)
    past = past_cells(cell, others, kind) if periods else []
    if past:
        clf = copy.copy(clf)
        clf._keep(replace(clf.fitted_, history=backtest_of(past)))
    found = clf.adapt(cell.rows, cell["label"] if labels else None, shift=shift)
    prior = found.prior_
    return Outcome(prior.value, prior.low, prior.high, found.predict(cell.rows) == 1, found.shift_)


def as_trained(cell: Cell, others: Sequence[Cell], kind: str) -> Outcome:
    clf = cell.classifier(kind)
    prior = clf.train_prior_
    return Outcome(prior.value, prior.low, prior.high, clf.predict(cell.rows) == 1)


def majority(cell: Cell, others: Sequence[Cell], kind: str) -> Outcome:
    """The more frequent class of training, for every row."""
    return Outcome(None, None, None, np.full(len(cell["y"]), cell.facts["train_prior"] > 0.5))


def supervised_em(cell: Cell, others: Sequence[Cell], kind: str) -> Outcome:
    """Boosted trees trained with all true labels, adapted by expectation maximisation."""
    z, train = _log_odds(cell["supervised"]), _log_odds(cell.facts["train_prior"])
    prior = float(cell.facts["train_prior"])
    for _ in range(200):
        prior = float(np.clip(expit(z + _log_odds(prior) - train).mean(), 1e-3, 1 - 1e-3))
    return Outcome(prior, None, None, z + _log_odds(prior) - train > 0)


def _log_odds(share: Any) -> Any:
    return logit(np.clip(share, 1e-9, 1 - 1e-9))


RULES: dict[str, Callable[..., Outcome]] = {
    "majority class": majority,
    "supervised, EM": supervised_em,
    "as trained": as_trained,
    "prior shift": partial(adapted, periods=False, labels=False, shift="prior"),
    "auto": partial(adapted, periods=False, labels=False),
    "auto, periods": partial(adapted, periods=True, labels=False),
    "auto, labels": partial(adapted, periods=False, labels=True),
    "auto, periods and labels": partial(adapted, periods=True, labels=True),
}


# -- figures ---------------------------------------------------------------------------------------


def measured(cell: Cell, others: Sequence[Cell], kind: str, rule: Callable[..., Outcome]) -> Row:
    """One rule in one cell."""
    with without_source(cell.table):
        found = rule(cell, others, kind)
        trained = as_trained(cell, others, kind)
    y, q = cell["y"], float(cell.facts["prior"])
    row: Row = {
        "table": cell.table,
        "accuracy": float(np.mean(found.labels == y)),
        "lost": float(np.mean(trained.labels == y) - np.mean(found.labels == y)),
    }
    if found.value is not None:
        truth, train = float(cell.facts["train_prior"]), float(trained.value or 0.0)
        row |= {"error": abs(found.value - q), "bias": found.value - q}
        row |= {"move": odds_move(train, found.value), "true_move": odds_move(truth, q)}
    if found.low is not None and found.high is not None:
        row |= {"low_holds": found.low <= q, "high_holds": q <= found.high}
        row |= {"holds": found.low <= q <= found.high, "width": found.high - found.low}
    if found.moved is not None:
        row["other"] = found.moved == "other"
    return row


NAMES = ("accuracy", "error", "bias", "holds", "low_holds", "high_holds", "width", "other")


def summary(rows: Sequence[Row]) -> Row:
    """Means over tables, the cells that lose, and how read and true moves agree."""
    tables = sorted({row["table"] for row in rows})
    found: Row = {"tables": len(tables), "cells": len(rows)}
    for name in NAMES:
        parts = [mean(row[name] for row in rows if row["table"] == t and name in row) for t in tables]
        found[name] = mean(part for part in parts if part is not None)
    found["cells_hold"] = mean(row["holds"] for row in rows if "holds" in row)
    found["cells_high_hold"] = mean(row["high_holds"] for row in rows if "high_holds" in row)
    found["losing"] = mean(row["lost"] > LOSS for row in rows)
    found["worst_loss"] = max((row["lost"] for row in rows), default=None)
    moves = np.array([[row["move"], row["true_move"]] for row in rows if "move" in row])
    steady = len(moves) < 3 or min(moves.std(axis=0)) < 1e-9  # a constant reading has no correlation
    found["correlation"] = None if steady else float(np.corrcoef(moves.T)[0, 1])
    return found


def mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return float(np.mean(found)) if found else None


def figures(cells: Sequence[Cell], others: Sequence[Cell], rules: Iterable[str] = RULES) -> Row:
    """Rules on some cells, for both kinds of training priors: in all, left out, and by table."""
    names = sorted({cell.table for cell in cells})
    result: Row = {}
    for kind, rule in itertools.product(KINDS, rules):
        rows = [measured(cell, others, kind, RULES[rule]) for cell in cells]
        parts = {"all": rows, "left out": [row for row in rows if row["table"] in LEFT_OUT]}
        parts |= {name: [row for row in rows if row["table"] == name] for name in names}
        result.setdefault(kind, {})[rule] = {name: summary(part) for name, part in parts.items() if part}
    return result


def by_protocol(cells: Sequence[Cell]) -> Row:
    """Figures by protocol and rate, and over all rates."""
    result: Row = {}
    shown = reported(cells)
    for protocol in PROTOCOLS:
        mine = [cell for cell in shown if cell.facts["protocol"] == protocol]
        rates = sorted({cell.facts["rate"] for cell in mine})
        parts = {f"{rate:.0%}": [cell for cell in mine if cell.facts["rate"] == rate] for rate in rates}
        result[protocol] = {name: figures(part, cells) for name, part in (parts | {"all": mine}).items()}
    return result


def resampled_figures(cells: Sequence[Cell]) -> Row:
    """Tables whose prior is moved by resampling: what the guard says, and what it costs."""
    result: Row = {}
    for protocol in sorted({cell.facts["protocol"] for cell in cells}):
        mine = [cell for cell in cells if cell.facts["protocol"] == protocol]
        result[protocol] = figures(mine, (), ("as trained", "prior shift", "auto", "auto, labels"))
    return result


# -- months whose priors differ widely -------------------------------------------------------------

MOVING, LATER, MONTH_ROWS = 14, 4, 700  # months, the last of them that are read, rows of a month
WIDE = (0.01, 0.8)  # priors of months
DRIFT = 1.2  # of the first column that has many values, inside both classes, as a log of weights


def moving_months(table: Table, rate: float, seed: int) -> Row:
    """Accuracy in the last months of a table made of rows drawn with wide priors and a drifting column."""
    rng = generator(table.name, "moving", rate, seed)
    drift = rankdata(table.X[:, varied_columns(table)[0]]) / len(table.y)
    months = []
    for k, prior in enumerate(rng.uniform(*WIDE, MOVING)):
        n = rng.binomial(MONTH_ROWS, prior)
        for label, size in ((1, n), (0, MONTH_ROWS - n)):
            at = np.flatnonzero(table.y == label)
            weight = np.exp(DRIFT * np.sin(k) * drift[at])
            months.append(rng.choice(at, size, p=weight / weight.sum()))
    rows = np.concatenate(months)
    month = np.repeat(np.arange(MOVING), MONTH_ROWS)
    X, y = table.X[rows], table.y[rows]
    label = y * (rng.random(len(y)) < rate)
    past = month < MOVING - LATER
    clf = DRPUClassifier(scenario="single-sample", random_state=seed)
    clf.fit(X[past], label[past], periods=month[past])
    found: dict[str, list[float]] = {}
    for now in range(MOVING - LATER, MOVING):
        here = month == now
        for name, other in _moved_classifiers(clf, X[here], label[here], float(y[here].mean())).items():
            found.setdefault(name, []).append(float(np.mean(other.predict(X[here]) == y[here])))
    return {name: float(np.mean(values)) for name, values in found.items()}


def varied_columns(table: Table) -> list[int]:
    """Columns with more than ten values, of which the first drifts."""
    return [k for k in range(table.X.shape[1]) if len(np.unique(table.X[:, k])) > 10]


def _moved_classifiers(clf: DRPUClassifier, X: Any, label: np.ndarray, prior: float) -> Row:
    plain = copy.copy(clf)
    plain._keep(replace(clf.fitted_, history=None))
    return {
        "as trained": clf,
        "prior shift": clf.adapt(X, shift="prior"),
        "auto": plain.adapt(X),
        "auto, periods": clf.adapt(X),
        "auto, labels": plain.adapt(X, label),
        "auto, periods and labels": clf.adapt(X, label),
        "test prior known": clf.at_prior(float(np.clip(prior, 0.001, 0.999))),
    }


def moving_figures(folder: Path, rates: Iterable[float]) -> Row:
    """Mean accuracy over the tables of a folder with rows of numbers, and each table's own."""
    result: Row = {}
    for table, rate in itertools.product(read_tables(folder), rates):
        if not sparse.issparse(table.X) and varied_columns(table):
            result.setdefault(f"{rate:.0%}", {})[table.name] = moving_months(table, rate, 0)
    for tables in result.values():
        rules = next(iter(tables.values()))
        tables["all"] = {rule: mean(found[rule] for found in tables.values()) for rule in rules}
    return result


# -- targets ---------------------------------------------------------------------------------------


def targets(protocols: Row, resampled: Row | None, moving: Row | None) -> list[Row]:
    """The aims of the design with what was measured; ``reached`` is None where nothing was."""
    found: list[Row] = []

    def aim(what: str, value: float | None, least: float | None = None, most: float | None = None) -> None:
        ok = value is not None and (least is None or value >= least) and (most is None or value <= most)
        reached = None if value is None else bool(ok)
        found.append({"what": what, "value": value, "least": least, "most": most, "reached": reached})

    for protocol, rate in itertools.product(("next", "far"), (f"{r:.0%}" for r in RATES)):
        part = protocols.get(protocol, {}).get(rate)
        if part is None:
            continue
        auto, trained = (part["estimated"][rule]["all"] for rule in ("auto", "as trained"))
        name = f"{protocol}, {rate} labelled"
        aim(f"{name}: accuracy of auto minus trained", auto["accuracy"] - trained["accuracy"], least=-0.003)
        aim(f"{name}: cells that lose more than 0.05", auto["losing"], most=0.02)
        aim(f"{name}: error of auto minus trained", auto["error"] - trained["error"], most=0.005)
        aim(f"{name}: cells whose limits hold", auto["cells_hold"], least=0.90)
        aim(f"{name}: cells whose high holds", auto["cells_high_hold"], least=0.95)
        given, base = (part["given"][rule]["all"] for rule in ("auto, labels", "as trained"))
        aim(f"{name}: error with labels over trained, prior given", given["error"] / base["error"], most=0.5)
    for rate, part in protocols.get("history", {}).items():
        given, base = (part["given"][rule]["all"] for rule in ("auto, periods", "as trained"))
        aim(f"history, {rate}: error with periods over trained, prior given",
            given["error"] / base["error"], most=0.9)  # fmt: skip
        aim(f"history, {rate}: correlation of read and true moves", given["correlation"], least=0.0)
    for protocol, part in (resampled or {}).items():
        auto, now = (part["estimated"][rule]["all"] for rule in ("auto", "prior shift"))
        aim(f"resampled {protocol}: cells said to be prior shift", 1 - auto["other"], least=0.98)
        aim(f"resampled {protocol}: accuracy lost", now["accuracy"] - auto["accuracy"], most=0.002)
    for rate, tables in (moving or {}).items():
        means = tables["all"]
        for rule in ("auto, periods", "auto, labels"):
            aim(
                f"moving months, {rate}: {rule} minus prior shift",
                means[rule] - means["prior shift"],
                least=0.0,
            )
    return found


# -- constants -------------------------------------------------------------------------------------

GRID = {
    "slope": (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1),
    "slope_spread": (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.2),
    "spread": (0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7),
    "spread_weight": (1.0, 2.0, 3.0, 4.0, 6.0, 8.0),
    "doubt": (0.0, 1.0, 2.0, 3.0),
}
ROUNDS = 3
# Of these the smallest value is taken whose loss is within one per cent: limits are then no wider than
# needed, and a table's own past counts for as much as possible.
SMALLEST, WITHIN = ("spread", "spread_weight"), 1.01


def chosen(cells: Sequence[Cell]) -> Pooled:
    """Constants with the smallest loss on some cells, one after the other in three rounds."""
    prepared = [row for cell in reported(cells) for row in _prepared(cell, cells)]
    pooled = POOLED
    for _, (name, values) in itertools.product(range(ROUNDS), GRID.items()):
        tried = [replace(pooled, **{name: value}) for value in values]
        losses = np.array([_loss(prepared, other) for other in tried], dtype=float)
        enough = losses <= losses.min() * (WITHIN if name in SMALLEST else 1.0)
        pooled = tried[int(np.argmax(enough))]
    return pooled


def _prepared(cell: Cell, others: Sequence[Cell]) -> list[Row]:
    """What the loss needs of a cell, computed once, with the true training prior given.

    There is one row without the past, and one with it where there are past periods.
    """
    rows, past = past_of(cell, "given"), past_cells(cell, others, "given")
    clf = cell.classifier("given")
    moved = clf.adapt(cell.rows).shift_
    return [
        {
            "train_prior": float(cell.facts["train_prior"]),
            "prior": float(cell.facts["prior"]),
            "rows": rows,
            "moved": moved,
            "past": known,
            "part": (cell.table, cell.facts["protocol"], bool(known)),
        }
        for known in ([[], past] if past else [[]])
    ]


def _loss(prepared: Sequence[Row], pooled: Pooled) -> float | None:
    """Mean over tables and protocols of the weighted interval score of the prior; None without other shift.

    Cells are read twice where they have a past: with a backtest and without.

    The score is half the absolute error plus, for each level, half the width of the interval at 1 - level and
    the distance by which it misses: slopes are chosen for small errors, spreads for limits that are as
    narrow as they can be and hold.
    """
    losses: dict[Any, list[float]] = {}
    for row in prepared:
        if row["moved"] == "prior":  # constants take no part
            continue
        reading = past_reading(backtest_of(row["past"], pooled=pooled), row["rows"])
        losses.setdefault(row["part"], []).append(_interval_score(row, reading))
    return mean(float(np.mean(part)) for part in losses.values())


def _interval_score(row: Row, reading: MoveReading) -> float:
    start, spread, q = _log_odds(row["train_prior"]), reading.variance**0.5, row["prior"]
    score = abs(float(expit(start + reading.move)) - q) / 2
    for alpha in (0.05, 0.2, 0.5):
        margin = float(ndtri(1 - alpha / 2)) * spread
        low, high = (float(expit(start + reading.move + side)) for side in (-margin, margin))
        score += alpha / 2 * (high - low) + max(low - q, 0.0) + max(q - high, 0.0)
    return float(score / 3.5)


def choose(cells: Sequence[Cell]) -> Row:
    """Constants from all tables but those left out, and from all but each one in turn."""
    pool = [cell for cell in cells if cell.table not in LEFT_OUT]
    names = sorted({cell.table for cell in pool})
    constants = chosen(pool)
    turns = {}
    for name in names:
        part = chosen([cell for cell in pool if cell.table != name])
        own = [cell for cell in pool if cell.table == name]
        mine = [row for cell in reported(own) for row in _prepared(cell, own)]
        scores = [_loss(mine, each) for each in (part, constants)]
        turns[name] = {"constants": asdict(part), "loss": scores[0], "loss_of_all": scores[1]}
    return {"tables": names, "constants": asdict(constants), "without": turns}


# -- what may have moved ---------------------------------------------------------------------------
#
# The weight of "only the prior moved" is chosen on both kinds of cells in the caches: in resampled tables it
# is true, and in dated tables more has usually changed.

UNSEEN = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0, 3.0)
MOST_COST = 0.0025  # accuracy that resampled tables may lose on average against full moves
COSTS = (0.5, 0.2, 0.8)
DATED, MOVED = ("next", "far"), ("A", "B")


@dataclass(frozen=True)
class Weighed:
    """What the choice needs of a cell: probabilities by each hypothesis, and the evidence."""

    cell: Cell
    evidence: MoveEvidence
    trained: np.ndarray
    moved: np.ndarray

    @classmethod
    def of(cls, cell: Cell) -> Weighed:
        """The cell, with the training prior estimated."""
        clf = cell.classifier("estimated")
        evidence = compared(clf.fitted_, clf.reference_, cell.rows.counts).evidence
        moved = clf.adapt(cell.rows, shift="prior")
        return cls(cell, evidence, _probability(clf, cell), _probability(moved, cell))

    def weight(self, pooled: Pooled) -> float:
        """Weight of "only the prior moved"."""
        return self.evidence.weight_of_prior_shift(steady_reading(self.evidence, None), pooled=pooled)

    def probability(self, weight: float) -> np.ndarray:
        """Mean over both hypotheses."""
        return np.asarray(weight * self.moved + (1 - weight) * self.trained)


def _probability(clf: Any, cell: Cell) -> np.ndarray:
    ratio = clf.point_.bounded_ratio(clf.fitted_.log_ratio_of(cell.rows.scores))
    return np.asarray(clf.point_.probability(ratio))


def quality(probability: np.ndarray, y: np.ndarray) -> Row:
    """Accuracy, the part of the largest cost that labels avoid at other costs, log loss and Brier score."""
    inside = np.clip(probability, 1e-3, 1 - 1e-3)
    result: Row = {}
    for cost in COSTS:
        flagged = probability > cost
        paid = np.where(y == 1, (1 - cost) * ~flagged, cost * flagged)
        result[f"cost {cost:g}"] = float(1 - 2 * paid.mean())
    result["log loss"] = float(-np.mean(np.where(y == 1, np.log(inside), np.log(1 - inside))))
    result["brier"] = float(np.mean((probability - y) ** 2))
    return result


def by_cells(cells: Sequence[Weighed], weights: Sequence[float]) -> Row:
    """Means over tables by protocol, and the cells that lose against the labels as trained."""
    result: Row = {}
    for protocol in (*DATED, *MOVED):
        rows = []
        for cell, weight in zip(cells, weights, strict=True):
            if cell.cell.facts["protocol"] == protocol:
                y = cell.cell["y"]
                figures = quality(cell.probability(weight), y)
                lost = quality(cell.trained, y)["cost 0.5"] - figures["cost 0.5"]
                rows.append(figures | {"table": cell.cell.table, "loses": lost > LOSS, "lost": lost})
        tables = sorted({row["table"] for row in rows})
        means: Row = {"cells": len(rows), "tables": len(tables)}
        for name in (*(f"cost {cost:g}" for cost in COSTS), "log loss", "brier"):
            means[name] = mean(mean(r[name] for r in rows if r["table"] == t) or 0.0 for t in tables)
        means["losing"] = mean(row["loses"] for row in rows)
        means["worst_loss"] = max((row["lost"] for row in rows), default=None)
        result[protocol] = means
    return result


def _accuracy(figures: Row, protocols: Sequence[str]) -> float:
    return float(np.mean([figures[protocol]["cost 0.5"] for protocol in protocols]))


def weigh(cells: Sequence[Cell]) -> Row:
    """The constants of the weight from all tables and without each third of them, and figures.

    "left out" has the figures of each table with the constants that were chosen without it.
    """
    prepared = [Weighed.of(cell) for cell in cells]
    third: dict[str, int] = {}
    for protocols in (DATED, MOVED):
        names = sorted({cell.table for cell in cells if cell.facts["protocol"] in protocols})
        third |= {name: k % 3 for k, name in enumerate(names)}
    chosen_without = []
    for k in range(3):
        chosen_without.append(chosen_weights([cell for cell in prepared if third[cell.cell.table] != k]))
    only_prior = [float(cell.evidence.moved == "prior") for cell in prepared]
    left_out = [cell.weight(chosen_without[third[cell.cell.table]]) for cell in prepared]
    chosen_by_all = chosen_weights(prepared)
    return {
        "chosen": _constants(chosen_by_all),
        "chosen_without_a_third": [_constants(pooled) for pooled in chosen_without],
        "used": _constants(POOLED),
        "as trained": by_cells(prepared, [0.0] * len(prepared)),
        "full moves": by_cells(prepared, only_prior),
        "auto": by_cells(prepared, [cell.weight(POOLED) for cell in prepared]),
        "left out": by_cells(prepared, left_out),
    }


def chosen_weights(cells: Sequence[Weighed]) -> Pooled:
    """The constants with the best labels in dated tables that cost resampled tables little accuracy."""
    full = by_cells(cells, [float(cell.evidence.moved == "prior") for cell in cells])
    least = _accuracy(full, MOVED) - MOST_COST
    best, best_accuracy = POOLED, 0.0
    for unseen in UNSEEN:
        pooled = replace(POOLED, unseen=unseen)
        figures = by_cells(cells, [cell.weight(pooled) for cell in cells])
        accuracy = _accuracy(figures, DATED)
        if _accuracy(figures, MOVED) >= least and accuracy > best_accuracy:
            best, best_accuracy = pooled, accuracy
    return best


def _constants(pooled: Pooled) -> Row:
    return {"unseen": pooled.unseen}


# -- the command -----------------------------------------------------------------------------------


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--data", type=Path, help="folder of dated Parquet files")
    parser.add_argument("--resampled", type=Path, help="folder of Parquet files without a calendar")
    parser.add_argument("--moving", type=Path, help="folder of files from which months are drawn")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of the cells of dated files")
    parser.add_argument("--rates", type=float, nargs="*", default=list(RATES))
    parser.add_argument("--no-fits", action="store_true", help="use the cells that the cache has")
    parser.add_argument("--weigh", action="store_true", help="choose weights from the cells of both caches")
    parser.add_argument("--choose", action="store_true", help="choose constants, and write them only")
    options = parser.parse_args()
    if not (options.data or options.resampled or options.moving or options.weigh):
        parser.error("at least one of --data, --resampled, --moving and --weigh is required")
    warnings.simplefilter("ignore")  # weak signals and other shift are what is measured
    try:
        content = {k: v for k, v in read_results("months").items() if k not in ("command", "versions")}
    except FileNotFoundError:
        content = {}
    if options.data is not None and not options.no_fits:
        write_missing(options.data, options.cache, rates=options.rates)
    if options.resampled is not None:
        if not options.no_fits:
            write_resampled(options.resampled, RESAMPLED, options.rates, 0, None)
        content["resampled"] = resampled_figures(read_cells(RESAMPLED))
    if options.moving is not None:
        content["moving"] = moving_figures(options.moving, options.rates)
    if options.data is not None:
        cells = read_cells(options.cache)
        if options.choose:
            content["choice"] = choose(cells)
        else:
            content["protocols"] = by_protocol(cells)
            content.pop("commit", None)  # that of the protocols; weights have their own
    if options.weigh:
        dated = [cell for cell in read_cells(options.cache) if cell.facts["protocol"] in DATED]
        content["weights"] = weigh([*dated, *read_cells(RESAMPLED)]) | {"commit": commit_of_code()}
    content["targets"] = targets(
        content.get("protocols", {}), content.get("resampled"), content.get("moving")
    )
    content |= {"constants": asdict(POOLED), "left_out": list(LEFT_OUT)}
    command = "python -m benchmarks.months --data FOLDER --resampled FOLDER --moving FOLDER"
    print("wrote", write_results("months", command, **content))
    for aim in content["targets"]:
        print({True: "reached", False: "MISSED ", None: "?      "}[aim["reached"]], aim["what"], aim["value"])


if __name__ == "__main__":
    main()
