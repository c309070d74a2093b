"""Errors of priors on real tables with true labels of a few rows.

``python -m benchmarks.audit --data FOLDER`` fits the default once for each table and protocol (see
:mod:`benchmarks.tables`), and repeats the audit many times: planned rows and rows at random, among the
unlabeled training rows and, a quarter as often, among new rows whose prior has moved.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks._results import command_line, write_results
from benchmarks._tables import PROTOCOLS, Table, draw, generator, read_tables, test_priors
from drpu import DRPUClassifier, PriorEstimate, ScoreTails, make_pu
from drpu.audits.combine import leaning_to
from drpu.audits.evaluation import Strata, draw_rows, make_strata, stratified_share
from drpu.audits.plan import bound_level
from drpu.beliefs.methods import prior_from_tails
from drpu.exceptions import DRPUWarning
from drpu.periods.read import matched_prior
from drpu.priors.calibration import ratio_posterior
from drpu.priors.figures import Figure
from drpu.priors.matching import Growth, carry_share, negative_growth, settled_growth
from drpu.state.fitted import FittedRatio
from drpu.state.reference import Reference

Array = np.ndarray
Row = dict[str, Any]

LEVEL = 0.95
TAILS = (0.025, 0.02)  # error probabilities that `adapt` uses for the answers besides the bound


@dataclass(frozen=True)
class Place:
    """Rows to audit: scores, true labels, counts, and the growth of the negatives."""

    name: str
    ratio: Array
    y: Array
    prior: float
    counts: ScoreTails
    growth: Growth
    rough: PriorEstimate
    bound: float


@dataclass(frozen=True)
class Cell:
    """A fitted classifier, the places to audit, and later samples."""

    fitted: FittedRatio
    train_prior: float
    unlabeled_prior: float
    alone: PriorEstimate  # prior of the unlabeled training rows without answers
    auc: float
    places: list[Place]
    later: dict[float, tuple[Growth, float]]  # true prior: growth since training, estimate without answers


def make_cell(table: Table, protocol: str, seed: int, rows: int) -> Cell:
    """Draw the samples, fit once, and score everything."""
    rng = generator(table.name, protocol, seed, 0)
    X, y = table.X, table.y
    order = rng.permutation(len(y))
    cut = round(0.6 * len(y))
    first, second = order[:cut], order[cut:]
    prior = 0.5 if protocol == "A" else float(y.mean())
    train = first[draw(y[first], prior, rows, rng)]
    sample = make_pu(X[train], y[train], labelled=0.3, scenario="single-sample", random_state=seed)
    clf = DRPUClassifier(scenario="single-sample", random_state=seed).fit(sample.X, sample.y)
    fitted = clf.fitted_
    fraction = float(sample.y.mean())
    unlabeled = sample.y == 0
    unlabeled_prior = (sample.prior - fraction) / (1 - fraction)

    later, places = {}, []
    for k, q in enumerate(test_priors(protocol, float(y.mean()))):
        at = second[draw(y[second], q, rows, rng)]
        scores = fitted.model.scores(X[at])
        counts = fitted.count_scores(scores)
        estimate = matched_prior(fitted, clf.reference_, counts)
        growth = negative_growth(counts, fitted.tails, estimate.value) or Growth(1.0)
        later[q] = growth, estimate.value
        if k == 0:
            places.append(make_place("new rows", fitted, scores, y[at], q, counts, growth))
        if k == 1:
            auc = float(roc_auc_score(y[at], fitted.log_ratio_of(scores)))
    scores = fitted.model.scores(sample.X[unlabeled])
    place = make_place(
        "training rows",
        fitted,
        scores,
        sample.y_true[unlabeled],
        unlabeled_prior,
        fitted.tails,
        Growth(1.0),
    )
    share = fitted.population.labelled_fraction or None
    alone = prior_from_tails(fitted.tails, level=bound_level(LEVEL), labelled_share=share)
    return Cell(fitted, sample.prior, unlabeled_prior, alone, auc, [place, *places], later)


def make_place(
    name: str,
    fitted: FittedRatio,
    scores: Array,
    y: Array,
    prior: float,
    counts: ScoreTails,
    growth: Growth,
) -> Place:
    rough = fitted.unlabeled_prior
    if counts is not fitted.tails:
        rough = matched_prior(fitted, Reference.of_training(fitted), counts)
    reference = None if counts is fitted.tails else fitted.tails
    bound = prior_from_tails(counts, reference=reference, level=bound_level(LEVEL)).high
    ratio = np.exp(fitted.log_ratio_of(scores))
    return Place(name, ratio, np.asarray(y), prior, counts, growth, rough, bound)


# -- repetitions -------------------------------------------------------------------------------


def planned(cell: Cell, place: Place, n: int) -> Strata:
    posterior = ratio_posterior(place.ratio, cell.fitted.prior.value, place.rough.value)
    return make_strata(place.ratio, posterior, n, place.bound)


def at_random(cell: Cell, place: Place, n: int) -> Strata:
    return Strata(
        np.empty(0), np.array([len(place.y)]), np.array([n]), np.array([place.rough.value]), np.ones(1)
    )


def limited(share: Figure, bound: float) -> Figure:
    """The share, computed as in ``adapt``."""
    high = min(share.high, bound) if bound > share.low else share.high
    return Figure(min(share.value, high), share.low, high, share.variance)


def trained(cell: Cell, place: Place, share: Figure) -> Figure:
    """The training prior, computed as in ``adapt``."""
    figure = carry_share(share, place.growth.inverse, TAILS)
    if place.growth.spread == 0:
        return figure
    settled = settled_growth(place.growth, (1.0, 1 - cell.fitted.population.labelled_fraction))
    value = min(max(1 - (1 - share.value) / settled, figure.low), figure.high)
    return leaning_to(replace(figure, value=value), cell.alone)


def repeat(cell: Cell, place: Place, strata: Strata, runs: int, rng: np.random.RandomState) -> Row:
    """Mean errors, coverages and widths over many audits of one place."""
    stratum, found = strata.of(place.ratio), []
    for _ in range(runs):
        rows = draw_rows(strata, place.ratio, rng)
        hits = np.bincount(stratum[rows], weights=place.y[rows], minlength=len(strata.rows))
        share = stratified_share(strata.weight, hits, strata.planned, tails=TAILS, rows=float(len(place.y)))
        train = limited(trained(cell, place, share), cell.alone.high)
        here = limited(share, place.bound)
        later = [(q, carry_share(train, growth, (0.025, 0.025))) for q, (growth, _) in cell.later.items()]
        fraction = cell.fitted.population.labelled_fraction
        found.append(
            [
                abs(here.value - place.prior),
                here.low <= place.prior <= here.high,
                here.high - here.low,
                (1 - fraction) * abs(train.value - cell.unlabeled_prior),
                train.low <= cell.unlabeled_prior <= train.high,
                (1 - fraction) * (train.high - train.low),
                np.mean([abs(prior.value - q) for q, prior in later]),
                np.mean([prior.low <= q <= prior.high for q, prior in later]),
            ]
        )
    names = (
        "error",
        "covers",
        "width",
        "train_error",
        "train_covers",
        "train_width",
        "later_error",
        "later_covers",
    )
    return dict(zip(names, (float(x) for x in np.mean(np.array(found, dtype=float), axis=0)), strict=True))


FIGURES = (
    "error", "covers", "width", "train_error", "train_covers", "train_width", "later_error", "later_covers"
)  # fmt: skip

DESIGNS: dict[str, tuple[Callable[[Cell, Place, int], Strata], int]] = {
    "planned 100": (planned, 100),
    "random 100": (at_random, 100),
    "planned 50": (planned, 50),
}


def measure(table: Table, protocol: str, seed: int, options: argparse.Namespace) -> list[Row]:
    cell = make_cell(table, protocol, seed, options.rows)
    fraction = cell.fitted.population.labelled_fraction
    base = {
        "table": table.name,
        "protocol": protocol,
        "seed": seed,
        "auc": cell.auc,
        "identified": cell.fitted.prior.identified,
        "train_error_without": abs(cell.fitted.prior.value - cell.train_prior),
        "later_error_without": float(np.mean([abs(q - value) for q, (_, value) in cell.later.items()])),
        "labelled_fraction": fraction,
    }
    rng, rows = np.random.RandomState(seed), []
    for k, place in enumerate(cell.places):
        for design, (make, n) in DESIGNS.items():
            if k > 0 and n < 100:  # new rows are for comparison only
                continue
            n = min(n, len(place.y))
            runs = options.runs if k == 0 else max(options.runs // 4, 1)
            result = repeat(cell, place, make(cell, place, n), runs, rng)
            rows.append({**base, "place": place.name, "design": design, **result})
    print(f"{table.name:15s} {protocol} {seed}  AUC {cell.auc:.3f}", end="")
    for row in rows[:3]:
        print(
            f"  {row['design']}: {row['train_error']:.3f} {row['train_covers']:.3f} {row['width']:.3f}",
            end="",
        )
    print(flush=True)
    return rows


def summarise(rows: list[Row]) -> list[Row]:
    """Means over tables, by place and design."""
    lines = []
    for place in dict.fromkeys(row["place"] for row in rows):
        for design in DESIGNS:
            chosen = [row for row in rows if (row["place"], row["design"]) == (place, design)]
            if not chosen:
                continue
            random = [row for row in rows if (row["place"], row["design"]) == (place, "random 100")]
            relative = np.array([a["width"] / b["width"] for a, b in zip(chosen, random, strict=True)])
            strong = np.array([row["auc"] > 0.9 for row in chosen])
            open_prior = [row for row in chosen if not row["identified"]]
            line: Row = {name: float(np.mean([row[name] for row in chosen])) for name in FIGURES}
            line |= {
                "place": place,
                "design": design,
                "cells": len(chosen),
                "worst_covers": min(min(row["covers"], row["train_covers"]) for row in chosen),
                "relative_width_strong": float(relative[strong].mean()) if strong.any() else None,
                "relative_width_weak": float(relative[~strong].mean()) if (~strong).any() else None,
                "widest_weak": float(relative[~strong].max()) if (~strong).any() else None,
                "train_error_without": float(np.mean([row["train_error_without"] for row in chosen])),
                "later_error_without": float(np.mean([row["later_error_without"] for row in chosen])),
                "not_identified": len(open_prior),
                "better_where_not_identified": sum(
                    row["train_error"] < row["train_error_without"] for row in open_prior
                ),
            }
            lines.append(line)
    return lines


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of Parquet files with a target y")
    parser.add_argument("--tables", nargs="*", default=None, help="names of the tables; all when left out")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--runs", type=int, default=200, help="audits in each cell")
    parser.add_argument("--rows", type=int, default=4000, help="most rows of a sample")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DRPUWarning)  # priors that are not identified are intended here
    rows: list[Row] = []
    for table in read_tables(options.data, options.tables):
        for protocol in PROTOCOLS:
            for seed in range(options.seeds):
                rows += measure(table, protocol, seed, options)
    lines = summarise(rows)
    for line in lines:
        print({name: round(v, 3) if isinstance(v, float) else v for name, v in line.items()})
    command = f"python -m benchmarks.audit --data FOLDER --seeds {options.seeds} --runs {options.runs}"
    command += f" --tables {' '.join(options.tables)}" if options.tables else ""
    print("wrote", write_results("audit", command, runs=options.runs, summary=lines, cells=rows))


if __name__ == "__main__":
    main()
