"""What true labels of a few rows are worth: in later periods, in training, and for labels at unequal rates.

    python -m benchmarks._months --data MONTHS                 # fits the classifiers, into a cache
    python -m benchmarks.answers --months MONTHS --tables FOLDER

**Periods.** Every cell is a classifier and a later period (see :mod:`benchmarks._months`). Some rows of the
period are answered: at random, in strata by score (``plan_audit``), or mostly near the threshold. ``map`` is
what ``adapt(X, audit=...)`` does: a map of the trained log-odds, and a model-assisted prior; ``adapt`` is
``adapt(X)`` without answers. ``stopped``: answers in strata until the interval is as narrow as stated.
``sampling``: prior and limits from the answers alone, and labels by prior shift to that prior. ``alone``: a
logistic regression trained on the answers alone. ``ppi`` and ``ppi++``: prediction-powered means of the
trained probabilities with normal limits, ++ with the weight of least variance. Accuracy is that of all rows:
answered rows are left out, and every other row has the inverse of its probability of being left in as its
weight. ``harm``: what each run of ``map`` with rows in strata changes in all rows, compared with ``adapt``.
Cells that were measured by the same code are kept, so that a run that was stopped goes on.

**Training.** 4,000 rows of each table, 30 % of the positives labelled, and the area under the ROC curve (AUC)
on 4,000 other rows. ``none`` is a fit without answers and ``all`` the same with all true labels; ``fair``:
true labels of 300 unlabeled rows at random (``audits=``); ``easy`` and ``column``: 300 known negatives
(``negative_label=``) that mostly have low scores, or lie on one side of a random column.

**Rates.** The rate of labelling is .5 or .1 depending on an informative column, or .3 for all. ``weighted``:
rates from 200 answers (``labelling_weights``); ``true rates``: given; ``SAR-EM``: expectation
maximisation over classes with a rate for each cell (Bekker et al. 2019), with boosted trees. Methods that
correct the threshold only (PUSB) rank as ``none`` does; PULSNAR is not compared, because its rules are long.
"""

from __future__ import annotations

import importlib.util
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from benchmarks._left_out import without_source
from benchmarks._months import CACHE, RATES, Cell, read_cells, read_month_tables
from benchmarks._results import command_line, commit_of_code, read_results, write_results
from benchmarks._tables import encode, generator
from drpu import Audit, DRPUClassifier, labelling_weights
from drpu._samples import is_sparse
from drpu.audits.evaluation import Answers, Strata, draw_rows
from drpu.audits.plan import AuditPart, mark_of
from drpu.classifier.drpu import AdaptedClassifier
from drpu.state.reference import LogOddsMap, RowLogOdds, bounded_log_odds

Array = np.ndarray
Row = dict[str, Any]
Found = tuple[float, float, float, float]  # accuracy, value, low, high

NUMBERS = (1, 3, 10, 20, 30, 50, 100)
OTHERS = {"random": (10, 20, 50, 100), "near": (20, 50, 100)}  # numbers of the designs for comparison
WIDTHS = (0.4, 0.3, 0.2)
MOST_STOPPED = 100
COSTS = (0.5, 0.2, 0.8)
CLEAR = 0.05  # of accuracy, or of mean cost
PROTOCOLS = ("next",)
DESIGNS = ("random", "strata", "near")
TAILS = (0.025, 0.025)
FEWEST = 2  # a period has at least this many times as many rows as answers
ROWS, RATE, FAIR, UNFAIR = 4000, 0.3, 300, 200
GAP = 0.02  # tables on which true labels are worth at least this much
KNOWN = CACHE.parent / "answers"


# -- periods ---------------------------------------------------------------------------------------


def design(kind: str, z: Array, n: int) -> Strata:
    """Strata of the rows and the number of answers in each, at random or near the threshold."""
    if kind == "random":
        return Strata(np.empty(0), np.array([len(z)]), np.array([n]), np.array([0.5]), np.ones(1))
    far = float(np.quantile(np.abs(z), 1 / 3))  # a third of the rows is near the threshold
    cuts = np.array([-far, np.nextafter(far, np.inf)])
    cuts = np.unique(cuts[(cuts > z.min()) & (cuts <= z.max())])
    stratum = np.searchsorted(cuts, z, side="right")
    rows = np.bincount(stratum, minlength=len(cuts) + 1)
    near = np.bincount(stratum, weights=np.abs(z) <= far, minlength=len(rows)) > rows / 2
    spread = np.where(near, 4.0, 1.0)  # a row near it is chosen four times as often
    return Strata(cuts, rows, np.zeros_like(rows), np.full(len(rows), 0.5), spread).first(n)


class Period:
    """Rows of a period, a design, and the answers of one draw."""

    def __init__(self, cell: Cell, X: Array, kind: str, n: int, seed: int) -> None:
        self.clf, self.X, self.y = cell.classifier("estimated"), X, cell["y"] == 1
        self.rows = cell.rows
        self.probability = self.clf.predict_proba(cell.rows)[:, 1]
        self.z = bounded_log_odds(self.probability)
        if kind == "strata":
            plan = self.clf.plan_audit(cell.rows, n=n, random_state=seed)
            strata, self.at, place = plan.strata, plan.rows, plan.strata.of(self._ratio)
        else:
            strata = design(kind, self.z, n)
            self.at, place = draw_rows(strata, self.z, np.random.RandomState(seed)), strata.of(self.z)
        self.answers = Answers(self.y[self.at], place[self.at], strata.rows)
        self.weight = 1 / np.maximum(1 - (strata.planned / strata.rows)[place], 1e-9)
        self.weight[self.at] = 0

    @property
    def _ratio(self) -> Array:
        return np.exp(self.clf.fitted_.log_ratio_of(self.rows.scores))

    def accuracy(self, flagged: Array) -> float:
        """Accuracy of all rows, estimated on those without an answer."""
        return float(np.average(flagged == self.y, weights=self.weight))

    @cached_property
    def adapted(self) -> AdaptedClassifier:
        """The classifier with the answers, of any design."""
        scores, counts = self.rows.scores[self.at], self.rows.counts
        part = AuditPart(self.answers, scores, counts, mark_of(self.clf.fitted_), "auto", self.at)
        return self.clf.adapt(self.rows, audit=Audit((part,)))


def with_map(period: Period) -> Found:
    """What ``adapt`` does."""
    prior = period.adapted.test_prior_
    flagged = period.adapted.predict(period.rows) == 1
    return period.accuracy(flagged), prior.value, prior.low, prior.high


def changes(period: Period, without: AdaptedClassifier) -> Row:
    """What the answers change in all rows: accuracy, mean costs, and whether recall is lost."""
    before = without.predict_proba(period.rows)[:, 1]
    after = period.adapted.predict_proba(period.rows)[:, 1]
    line: Row = {}
    for cost in COSTS:
        of_rows = np.where(period.y, 1 - cost, -cost)  # what a flagged row saves
        line[f"cost {cost:g}"] = float(np.mean(of_rows * ((before > cost) * 1.0 - (after > cost))))
    line["accuracy"] = -2 * line["cost 0.5"]
    n_before, n_after = (int((p > 0.5)[period.y].sum()) for p in (before, after))
    prior, value = period.adapted.test_prior_, without.test_prior_.value
    line["lost recall"] = n_after < n_before / 3 and prior.low <= value <= prior.high
    return line


def with_sampling(period: Period) -> Found:
    """The share of the answers, and labels by prior shift to it."""
    share = period.answers.share(period.answers.positive, TAILS)
    at = period.clf.at_prior(min(max(share.value, 1e-3), 1 - 1e-3))
    return period.accuracy(at.predict(period.rows) == 1), share.value, share.low, share.high


def with_answers_alone(period: Period) -> Found:
    """A logistic regression of the answers alone."""
    y = period.y[period.at]
    flagged = np.full(len(period.y), bool(y[0]))
    if y.any() and not y.all():
        rows = StandardScaler().fit_transform(period.X)
        model = LogisticRegression(C=0.1, max_iter=500).fit(rows[period.at], y)
        flagged = model.decision_function(rows) > 0
    share = period.answers.share(period.answers.positive, TAILS)
    return period.accuracy(flagged), share.value, share.low, share.high


def with_ppi(period: Period, *, tuned: bool) -> Found:
    """Prediction-powered mean for answers at random."""
    f, y = period.probability, period.y[period.at].astype(float)
    seen, n, rows = f[period.at], len(period.at), len(f)
    weight = 1.0
    if tuned:
        weight = float(np.cov(seen, y)[0, 1] / max((1 + n / rows) * f.var(), 1e-12))
        weight = min(max(weight, 0.0), 1.0)
    value = weight * float(f.mean()) + float(np.mean(y - weight * seen))
    spread = np.sqrt(np.var(y - weight * seen, ddof=1) / n + weight**2 * f.var() / rows)
    far = -float(ndtri(TAILS[0])) * float(spread)
    at = LogOddsMap().with_share(float(np.clip(value, 1e-3, 1 - 1e-3)), RowLogOdds.of(period.z))
    return period.accuracy(at.log_odds(period.z) > 0), value, value - far, value + far


METHODS: dict[str, tuple[tuple[str, ...], Callable[[Period], Found]]] = {
    "map": (DESIGNS, with_map),
    "sampling": (("random",), with_sampling),
    "alone": (("random",), with_answers_alone),
    "ppi": (("random",), lambda period: with_ppi(period, tuned=False)),
    "ppi++": (("random",), lambda period: with_ppi(period, tuned=True)),
}


def measure(cell: Cell, X: Array, draws: int) -> list[Row]:
    """Every design, number of answers and method of one cell, averaged over draws."""
    with without_source(cell.table):
        return list(_measured(cell, X, draws))


def _measured(cell: Cell, X: Array, draws: int) -> Iterator[Row]:
    clf, truth = cell.classifier("estimated"), float(np.mean(cell["y"] == 1))
    about = {name: cell.facts[name] for name in ("table", "protocol", "rate", "period")}
    adapted = clf.adapt(cell.rows)
    for name, one, prior in (("trained", clf, clf.train_prior_), ("adapt", adapted, adapted.test_prior_)):
        yield about | {
            "method": name,
            "design": "none",
            "n": 0,
            "accuracy": float(np.mean((one.predict(cell.rows) == 1) == (cell["y"] == 1))),
            "error": abs(prior.value - truth),
            "holds": float(prior.low <= truth <= prior.high),
            "width": prior.high - prior.low,
        }
    yield from _stopped(cell, about, truth)
    for n in (n for n in NUMBERS if FEWEST * n <= len(cell["y"])):
        for kind in DESIGNS:
            if n not in OTHERS.get(kind, NUMBERS):
                continue
            periods = [Period(cell, X, kind, n, seed) for seed in range(draws)]
            if kind == "strata":
                for period in periods:
                    yield about | {"method": "harm", "n": n} | changes(period, adapted)
            for name in (name for name, (designs, _) in METHODS.items() if kind in designs):
                found = np.array([METHODS[name][1](period) for period in periods])
                yield about | {
                    "method": name,
                    "design": kind,
                    "n": n,
                    "accuracy": float(found[:, 0].mean()),
                    "error": float(np.abs(found[:, 1] - truth).mean()),
                    "holds": float(((found[:, 2] <= truth) & (truth <= found[:, 3])).mean()),
                    "width": float((np.minimum(found[:, 3], 1) - np.maximum(found[:, 2], 0)).mean()),
                }


def harm_summary(rows: list[Row]) -> list[Row]:
    """By number of answers: mean changes over tables, and the share of runs that lose clearly."""
    frame = pd.DataFrame([row for row in rows if row["method"] == "harm"])
    figures = ["accuracy", *(f"cost {cost:g}" for cost in COSTS)]
    lines = []
    for n, runs in frame.groupby("n"):
        line: Row = {"n": int(n), "runs": len(runs), "worst": float(runs["accuracy"].min())}
        line |= runs.groupby("table")[figures].mean().mean().to_dict()
        line["lost accuracy"] = float((runs["accuracy"] < -CLEAR).mean())
        for name in figures[1:]:
            line[f"lost {name}"] = float((runs[name] > CLEAR).mean())
        lines.append(line | {"lost recall": float(runs["lost recall"].mean())})
    return lines


def _stopped(cell: Cell, about: Row, truth: float) -> Iterator[Row]:
    """Answers until the interval is narrow enough, or until there are too many."""
    clf, y = cell.classifier("estimated"), cell["y"] == 1
    plan = clf.plan_audit(cell.rows, n=min(MOST_STOPPED, len(y) // FEWEST), random_state=17)
    labels = y[plan.rows].tolist()
    for width in WIDTHS:
        n = 1
        while n < plan.n and plan.progress(labels[:n]).width > width:
            n += 2
        n = min(n, plan.n)
        adapted = clf.adapt(cell.rows, audit=plan.answer(labels[:n]))
        prior = adapted.test_prior_
        yield about | {
            "method": f"stopped at {width:g}",
            "design": "strata",
            "n": -1,
            "answers": n,
            "accuracy": float(np.mean((adapted.predict(cell.rows) == 1) == y)),
            "error": abs(prior.value - truth),
            "holds": float(prior.low <= truth <= prior.high),
            "width": prior.high - prior.low,
        }


def ceilings(cells: list[Cell], draws: int) -> Row:
    """Accuracy of answers, and what other labels of the same rows reach: means over tables.

    ``true prior``: the prior of the period given; ``both priors``: that of training, too; ``threshold``: the
    best one for the scores, by all true labels of the period; ``supervised``: boosted trees that were
    trained with all true labels of training.
    """
    lines = []
    for cell in cells:
        with without_source(cell.table):
            lines.append({"table": cell.table, **_accuracies(cell, draws)})
    by_table = pd.DataFrame(lines).groupby("table").mean()
    return {"cells": len(lines), "tables": len(by_table), "accuracy": by_table.mean().to_dict()}


def _accuracies(cell: Cell, draws: int) -> Row:
    """Accuracy in one cell by each kind of labels."""
    clf, y = cell.classifier("estimated"), cell["y"] == 1
    truth = min(max(float(y.mean()), 1e-3), 1 - 1e-3)
    labels = {
        "trained": clf.predict(cell.rows),
        "adapt": clf.adapt(cell.rows).predict(cell.rows),
        "true prior": clf.at_prior(truth).predict(cell.rows),
        "both priors": cell.classifier("given").at_prior(truth).predict(cell.rows),
        "supervised": cell["supervised"] > 0.5,
    }
    line = {name: float(np.mean((found == 1) == y)) for name, found in labels.items()}
    line["threshold"] = _best_accuracy(clf.predict_proba(cell.rows)[:, 1], y)
    for n in (10, 20, 50):
        if FEWEST * n > len(y):
            continue
        right = []
        for seed in range(draws):
            plan = clf.plan_audit(cell.rows, n=n, random_state=seed)
            adapted = clf.adapt(cell.rows, audit=plan.answer(y[plan.rows]))
            right.append(np.mean((adapted.predict(cell.rows) == 1) == y))
        line[f"{n} answers"] = float(np.mean(right))
    return line


def _best_accuracy(score: Array, y: Array) -> float:
    """Accuracy at the best threshold."""
    order = np.argsort(-score, kind="stable")
    gain = np.where(y[order], 1, -1).cumsum()
    last_of_ties = np.append(np.diff(score[order]) != 0, True)
    return float((max(gain[last_of_ties].max(), 0) + (~y).sum()) / len(y))


def summarise(rows: list[Row]) -> list[Row]:
    """Means over tables, by protocol and rate, and over the rates (``rate`` 0)."""
    frame = pd.DataFrame([row for row in rows if row["method"] != "harm"])
    both = pd.concat([frame, frame.assign(rate=0.0)])
    keys, figures = ["protocol", "rate", "design", "n", "method"], ["accuracy", "error", "holds", "width"]
    if "answers" not in both:
        both["answers"] = np.nan
    both["answers"] = both["answers"].fillna(both["n"])
    figures.append("answers")
    tables = both.groupby([*keys, "table"])[figures].mean()
    cells = both.groupby(keys)["holds"].agg(["mean", "size"])
    lines = []
    for key, part in tables.groupby(level=keys):
        facts = {"holds_cells": float(cells.loc[key, "mean"]), "cells": int(cells.loc[key, "size"])}
        lines.append(dict(zip(keys, key, strict=True)) | {k: float(part[k].mean()) for k in figures} | facts)
    return lines


# -- training --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draw:
    """Training rows with their classes and a number that decides about labels, and test rows."""

    table: str
    model: str
    X: Any
    y: Array
    luck: Array
    X_test: Any
    y_test: Array

    def auc(self, clf: DRPUClassifier) -> float:
        """Area under the curve on the test rows."""
        return float(roc_auc_score(self.y_test, clf.decision_function(self.X_test)))

    def fit(self, label: Array, negative_label: int | None = None, **options: Any) -> DRPUClassifier:
        """A classifier of a single sample."""
        settings: Row = {"scenario": "single-sample", "negative_label": negative_label, "random_state": 0}
        with without_source(self.table):
            return DRPUClassifier(self.model, **settings).fit(self.X, label.astype(int), **options)


def draws(folders: list[Path], model: str) -> Iterator[Draw]:
    """The sample of every table."""
    for path in sorted(path for folder in folders for path in folder.glob("*.parquet")):
        frame = pd.read_parquet(path)
        y = frame["y"].to_numpy().astype(int) == 1
        X = encode(frame.drop(columns=[name for name in ("y", "period") if name in frame]))
        rng = generator("known", path.stem, 0)
        order, cut = rng.permutation(len(y)), min(ROWS, round(0.6 * len(y)))
        train, test = order[:cut], order[cut : cut + ROWS]
        yield Draw(path.stem, model, X[train], y[train], rng.random(cut), X[test], y[test])


def side(X: Any, column: int) -> Array:
    """Whether rows lie above the median of a column, or not at its smallest value."""
    values = np.asarray(X[:, [column]].toarray() if is_sparse(X) else X[:, [column]]).ravel()
    above = values > np.median(values)
    return np.asarray(above if above.any() else values >= np.median(values))


def measure_training(draw: Draw) -> Row:
    """AUC with answers and with known negatives."""
    label = draw.y & (draw.luck < RATE)
    base = draw.fit(label)
    rng = generator("answers", draw.table)
    rest, negative = rng.permutation(np.flatnonzero(~label))[:FAIR], np.flatnonzero(~draw.y)
    supervised = DRPUClassifier(draw.model, scenario="case-control", random_state=0).fit(
        draw.X, draw.y.astype(int)
    )
    found = {"none": draw.auc(base), "all": draw.auc(supervised)}
    found["fair"] = draw.auc(draw.fit(label, audits=[Audit.random(rest, draw.y[rest])]))
    rank = base.decision_function(draw.X)[negative].argsort().argsort() / len(negative)
    column = side(draw.X, int(rng.integers(draw.X.shape[1])))[negative]
    for case, chance in (("easy", (1 - rank) ** 4 + 1e-6), ("column", np.where(column, 10.0, 1.0))):
        n = min(FAIR, len(negative) // 2)
        codes = label.astype(int)
        codes[rng.choice(negative, n, replace=False, p=chance / chance.sum())] = -1
        found[case] = draw.auc(draw.fit(codes, negative_label=-1))
    return {"table": draw.table} | found


def informative(draw: Draw) -> int:
    """The column whose halves differ most but one in their share of positives."""
    found = []
    for column in range(draw.X.shape[1]):
        half = side(draw.X, column)
        gap = abs(draw.y[half].mean() - draw.y[~half].mean()) if 0.2 < half.mean() < 0.8 else -1.0
        found.append((gap, column))
    return sorted(found)[-2][1]


def sar_em(draw: Draw, label: Array, cell: Array, rounds: int = 5) -> float:
    """AUC by expectation maximisation over classes with a rate of labelling for each cell."""
    rows, test = (X.toarray() if is_sparse(X) else X for X in (draw.X, draw.X_test))
    rate, chance = np.array([0.5, 0.5]), np.where(label, 1.0, label.mean())
    target = np.repeat([1, 0], len(label))
    for _ in range(rounds):
        model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=0)
        model.fit(np.vstack([rows] * 2), target, sample_weight=np.concatenate([chance, 1 - chance]))
        p = model.predict_proba(rows)[:, 1]
        hidden = p * (1 - rate[cell]) / np.maximum(1 - p * rate[cell], 1e-6)
        chance = np.where(label, 1.0, hidden)
        rate = np.array([label[cell == c].sum() / max(chance[cell == c].sum(), 1.0) for c in (0, 1)])
    return float(roc_auc_score(draw.y_test, model.predict_proba(test)[:, 1]))


def measure_rates(draw: Draw) -> Row | None:
    """AUC with labels whose rate depends on a column, and with fair ones; None with too few positives."""
    if is_sparse(draw.X):
        return None
    n, last = len(draw.y), draw.X.shape[1]
    both = np.vstack([draw.X, draw.X_test])
    both = np.column_stack([both, side(both, informative(draw))])
    cell, found = both[:n, -1].astype(int), Row(table=draw.table)
    wide = replace(draw, X=both[:n], X_test=both[n:])
    for case, rates in (("column", (0.1, 0.5)), ("fair", (RATE, RATE))):
        label = draw.y & (draw.luck < np.array(rates)[cell])
        if min(np.bincount(cell[label], minlength=2)) < 10:
            return None
        at = generator("unfair", draw.table).permutation(np.flatnonzero(~label))[:UNFAIR]
        audits = [Audit.random(at, draw.y[at])]
        weight = labelling_weights(wide.X, label, by=[last], audits=audits).weights
        found[case] = {
            "none": wide.auc(wide.fit(label)),
            "weighted": wide.auc(wide.fit(label, audits=audits, sample_weight=weight)),
        }
        if case == "column":
            known = dict(zip((0.0, 1.0), rates, strict=True))
            weight = labelling_weights(wide.X, label, by=[last], rates=known).weights
            found[case]["true rates"] = wide.auc(wide.fit(label, sample_weight=weight))
            found[case]["SAR-EM"] = sar_em(wide, label, cell)
    return found


def training_summary(rows: list[Row]) -> Row:
    """Gains over tables, the part of the gap that is won back, and the largest loss of a table."""
    frame = pd.DataFrame(rows).set_index("table")
    gap = frame["all"] - frame["none"]
    wide = gap > GAP
    found: Row = {"tables": len(frame), "with_gap": int(wide.sum()), "gap": float(gap[wide].mean())}
    for case in ("fair", "easy", "column"):
        gain = frame[case] - frame["none"]
        found[case] = {
            "gain": float(gain.mean()),
            "least": float(gain.min()),
            "worst": str(gain.idxmin()),
            "won_back": float((gain[wide] / gap[wide]).mean()) if wide.any() else None,
        }
    return found | {"mean": {name: float(frame[name].mean()) for name in frame.columns}}


def rates_summary(rows: list[Row]) -> Row:
    """Mean AUC of each method for unfair and fair labels, and the part of the loss that is won back."""
    mean = {
        case: {name: float(np.mean([row[case][name] for row in rows])) for name in rows[0][case]}
        for case in ("column", "fair")
    }
    lost = mean["fair"]["none"] - mean["column"]["none"]
    won = {name: (value - mean["column"]["none"]) / lost for name, value in mean["column"].items()}
    fair = [row["fair"]["weighted"] - row["fair"]["none"] for row in rows]
    return {"tables": len(rows), "auc": mean, "won_back": won, "least_if_fair": float(min(fair))}


# -- command -------------------------------------------------------------------------------------


def kept(name: str, make: Callable[[], Any]) -> Any:
    """The content of a file, which is written first if it does not exist."""
    path = KNOWN / f"{name.replace('/', '-')}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / ".gitignore").write_text("*\n")
        path.write_text(json.dumps(make()))
    return json.loads(path.read_text())


def last_cells(cells: list[Cell], last: int | None) -> list[Cell]:
    """The cells of the last periods of each table."""
    if last is None:
        return cells
    chosen = []
    for name in sorted({cell.table for cell in cells}):
        chosen += [cell for cell in cells if cell.table == name][-last:]
    return chosen


def periods(folder: Path, cache: Path, draws: int, last: int | None) -> list[Row]:
    """All rows of all cells."""
    columns = {
        name: np.asarray(encode(table.drop(columns=["y", "period"])))
        for name, table in read_month_tables(folder)
    }
    rows: list[Row] = []
    commit = commit_of_code()
    for rate in RATES:
        for protocol in PROTOCOLS:
            for cell in last_cells(read_cells(cache, protocol=protocol, rate=rate, seed=0), last):
                X = columns[cell.table][cell["rows"]]
                name = f"{cell.table}_{rate}_{cell.facts['period']}_{draws}_{commit}"
                rows += kept(f"periods_{name}", partial(measure, cell, X, draws))
            print("measured", rate, protocol, len(rows), flush=True)
    return rows


def main() -> None:
    """Measure, print and write the result file."""
    parser = command_line(__doc__)
    parser.add_argument("--months", type=Path, required=True, help="folder of dated Parquet files")
    parser.add_argument("--tables", type=Path, required=True, help="folder of Parquet files")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of the cells")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--last", type=int, help="only so many of the last periods of a table")
    parser.add_argument("--model", default="boosted", help="model of the parts about training and rates")
    parser.add_argument("--only", choices=("periods", "training", "ceilings"), help="one part")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    command = f"python -m benchmarks.answers --months MONTHS --tables FOLDER --draws {options.draws}"
    if options.last is not None:
        command += f" --last {options.last}"
    content: Row = {"draws": options.draws, "model": options.model}
    made: Row = {"commit": commit_of_code()}
    if options.only in (None, "ceilings"):
        cells = []
        for rate in RATES:
            of_rate = read_cells(options.cache, protocol="next", rate=rate, seed=0)
            cells += last_cells(of_rate, options.last)
        content["ceilings"] = ceilings(cells, options.draws)
        print(content["ceilings"])
        content["ceilings"] |= made | {"command": f"{command} --only ceilings"}
    if options.only in (None, "periods"):
        rows = periods(options.months, options.cache, options.draws, options.last)
        content |= {"periods": summarise(rows), "harm": harm_summary(rows)}
    if options.only in (None, "training"):
        training, rates = [], []
        for one in draws([options.months, options.tables], options.model):
            name = f"{one.model}_{one.table}"
            training.append(kept(f"training_{name}", partial(measure_training, one)))
            rates.append(kept(f"rates_{name}", partial(measure_rates, one)))
            print(one.table, training[-1], rates[-1], flush=True)
        content |= {"training": training_summary(training) | made, "training_tables": training}
        content |= {"rates": rates_summary([r for r in rates if r]), "rates_tables": [r for r in rates if r]}
    for line in [line for line in content.get("periods", []) if line["n"] in (0, 50) and line["rate"] == 0]:
        print({name: round(v, 3) if isinstance(v, float) else v for name, v in line.items()})
    for name in ("training", "rates"):
        print(name, content.get(name))
    if options.only is not None:  # the other parts stay; the command of the file is that of periods
        before = read_results("answers")
        del before["versions"]
        if options.only == "periods":
            before |= made | {"command": command}
        else:
            content = {name: content[name] for name in content.keys() - {"draws", "model"}}
        content = before | content
        command = content.pop("command")
    print("wrote", write_results("answers", command, **content))
    print("wrote", write_picture())


def write_picture() -> Path:
    """Draw the curve of the result file, for README and the documentation."""
    root = Path(__file__).parent.parent
    spec = importlib.util.spec_from_file_location("docs_results", root / "docs" / "results.py")
    assert spec is not None
    assert spec.loader is not None
    results = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(results)
    path = root / "docs" / "images" / "answers.svg"
    head, end_of_head, rest = results.answers_picture(read_results("answers")).partition(">")
    paper = '<rect width="100%" height="100%" fill="#fff"/>'  # README may be shown on a dark page
    path.write_text(f"{head}{end_of_head}{paper}{rest}\n")
    return path


if __name__ == "__main__":
    main()
