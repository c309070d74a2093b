"""Expected performance against the truth, and limits of priors after large moves.

    python -m benchmarks.expected                  # 30 runs a cell, about half an hour on one core
    python -m benchmarks.expected --runs 3         # three minutes, nothing written
    python -m benchmarks.expected --cache CACHE    # fits are kept, to read priors again without fitting

Gaussian classes in one dimension, 1,500 unlabeled rows at a prior of .3, 1,000 new rows. The priors are
estimated (``adapt``), or both are given. The error of an expected figure is its difference from the figure of
the population, which is computed from the densities: of few rows above a threshold, none may be negative by
chance. Its limits should hold the figure of the new rows after ``adapt``, and that of the population where
the prior was given. Precision is compared where rows are expected to be flagged and are. A figure with limits
far apart is printed as a range, so the errors of printed values are also summarised separately.

The second part counts how often the limits of a prior hold after it has moved far.

With ``--cache``, only fits that the folder does not have are made. Their training priors are read again, so
that only a change of the models needs another folder.
"""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks._results import command_line, write_results
from drpu import DRPUClassifier, make_gaussian_pu
from drpu.beliefs.methods import prior_from_tails
from drpu.classifier.reading import read_batch
from drpu.exceptions import DRPUWarning
from drpu.priors.estimate import PriorEstimate
from drpu.priors.figures import Figure
from drpu.state.population import with_labelled

TRAIN_PRIOR, UNLABELED, NEW = 0.3, 1500, 1000
MODELS = {"default": "auto", "boosted": "boosted", "kernel": "kernel", "logistic": LogisticRegression()}
SEPARATIONS, POSITIVES, PRIORS = (2, 3), (100, 200, 1000), (0.05, 0.15, 0.3, 0.6)
LARGEST = {"precision": 0.03, "recall": 0.02, "accuracy": 0.02}  # mean signed error
HELD = 0.9  # share of the runs in which limits should hold
FEWEST_PRINTED = 8  # values of a cell whose mean error counts
POINTS = 2001
COVERED = 0.94
MOVES = 250  # runs of each large move
FULL = 30

Row = dict[str, Any]
Array = np.ndarray


@dataclass(frozen=True)
class Setting:
    """One kind of fit."""

    model: str
    separation: int
    n_positive: int
    cache: Path | None = None

    def fit(self, seed: int) -> DRPUClassifier:
        """A classifier of positives and unlabeled rows."""
        name = f"{self.model}-{self.separation}-{self.n_positive}-{seed}"
        return cached_fit(self.cache, name, lambda: self._fit(seed))

    def _fit(self, seed: int) -> DRPUClassifier:
        data = make_gaussian_pu(
            self.n_positive, UNLABELED, prior=TRAIN_PRIOR, separation=self.separation, random_state=seed
        )
        clf = DRPUClassifier(MODELS[self.model], scenario="case-control", random_state=seed)
        return clf.fit_pu(data.positive, data.unlabeled)

    def new_rows(self, prior: float, seed: int) -> tuple[Array, Array]:
        """New rows, and whether they are positive."""
        separation = self.separation
        data = make_gaussian_pu(
            5, 5, prior=0.5, test_prior=prior, n_test=NEW, separation=separation, random_state=10_000 + seed
        )
        assert data.test is not None
        return data.test, np.asarray(data.test_labels) == 1

    def points(self) -> tuple[Array, Array, Array]:
        """Points across both classes, and the shares of positives and of negatives at them."""
        half = self.separation / 2
        points = np.linspace(-half - 5, half + 5, POINTS)
        positive = np.exp(-((points - half) ** 2) / 2)
        negative = np.exp(-((points + half) ** 2) / 2)
        return points[:, None], positive / positive.sum(), negative / negative.sum()


def cached_fit(cache: Path | None, name: str, fit: Callable[[], DRPUClassifier]) -> DRPUClassifier:
    """The classifier of the cache, which ``fit`` makes if it is not there, with a prior read now."""
    if cache is None:
        return fit()
    path = cache / f"{name}.pkl"
    if not path.exists():
        path.write_bytes(pickle.dumps(fit()))
    clf: DRPUClassifier = pickle.loads(path.read_bytes())
    fitted = clf.fitted_
    fraction = fitted.population.labelled_fraction
    prior = prior_from_tails(fitted.tails, labelled_share=fraction or None, warn=False)
    return clf._keep(fitted.at_train_prior(with_labelled(prior, fraction)))


def with_given_prior(clf: DRPUClassifier) -> DRPUClassifier:
    """The classifier that a fit with the true training prior would give, without the fit."""
    given = copy.copy(clf)
    given.prior = TRAIN_PRIOR
    return given._keep(clf.fitted_.at_train_prior(PriorEstimate.given(TRAIN_PRIOR)))


def figures_of(prior: float, recall: float, wrong: float) -> dict[str, float]:
    """The figures of a population."""
    flagged = prior * recall + (1 - prior) * wrong
    return {
        "precision": prior * recall / flagged if flagged > 0 else math.nan,
        "recall": recall,
        "accuracy": prior * recall + (1 - prior) * (1 - wrong),
    }


def runs_of(setting: Setting, seed: int) -> Iterator[Row]:
    """Expected and true figures of one fit at each prior, with priors estimated and given."""
    clf = setting.fit(seed)
    given = with_given_prior(clf)
    rows, positive, negative = setting.points()
    points = read_batch(clf, rows)  # rows are scored once for all priors
    for prior in PRIORS:
        X, y = setting.new_rows(prior, seed)
        batch = read_batch(clf, X)
        for kind, june in (("estimated", clf.adapt(batch)), ("given", given.at_prior(prior))):
            flagged = june.predict(points) == 1
            truth = figures_of(prior, float(positive @ flagged), float(negative @ flagged))
            measured = truth
            if kind == "estimated":
                flagged_rows = june.predict(batch) == 1
                recall = float(flagged_rows[y].mean()) if y.any() else math.nan
                measured = figures_of(float(y.mean()), recall, float(flagged_rows[~y].mean()))
            expected = june.expected_performance()
            yield {
                "priors": kind,
                "test_prior": prior,
                "figures": {
                    name: _compared(getattr(expected, name), truth[name], measured[name]) for name in LARGEST
                },
            }


def _compared(figure: Figure, truth: float, measured: float) -> Row | None:
    """One figure of one run; None if it cannot be computed."""
    if math.isnan(figure.value + truth + measured):
        return None
    return {
        "truth": truth,
        "error": figure.value - truth,
        "held": figure.low <= measured <= figure.high,
        "shown": not figure.is_wide,
        "width": figure.high - figure.low,
    }


def summary(rows: list[Row | None]) -> Row:
    """Means over the runs of a cell for one figure."""
    computed = [row for row in rows if row is not None]
    if not computed:
        return {"runs": 0}
    errors = np.array([row["error"] for row in computed])
    printed = [row["error"] for row in computed if row["shown"]]
    deviation = float(errors.std(ddof=1)) if len(errors) > 1 else 0.0
    return {
        "runs": len(computed),
        "truth": float(np.mean([row["truth"] for row in computed])),
        "error": float(errors.mean()),
        "standard_error": deviation / math.sqrt(len(errors)),
        "held": float(np.mean([row["held"] for row in computed])),
        "shown": len(printed) / len(computed),
        "printed_error": float(np.mean(printed)) if len(printed) >= FEWEST_PRINTED else None,
        "width": float(np.mean([row["width"] for row in computed])),
    }


def cells(runs: int, cache: Path | None) -> Iterator[Row]:
    """All cells, one after the other."""
    for model, separation, n_positive in product(MODELS, SEPARATIONS, POSITIVES):
        setting = Setting(model, separation, n_positive, cache)
        rows = [row for seed in range(runs) for row in runs_of(setting, seed)]
        for kind, prior in product(("estimated", "given"), PRIORS):
            part = [row for row in rows if row["priors"] == kind and row["test_prior"] == prior]
            figures = {name: summary([row["figures"][name] for row in part]) for name in LARGEST}
            what = {"model": model, "separation": separation, "n_positive": n_positive}
            cell = what | {"priors": kind, "test_prior": prior} | figures
            print(
                *what.values(),
                kind,
                prior,
                {k: round(v.get("error", 0), 3) for k, v in figures.items()},
                flush=True,
            )
            yield cell


def misses(rows: list[Row]) -> list[Row]:
    """For priors estimated and given, and each figure, the cells whose mean error is too large."""
    table = []
    for kind, name in product(("estimated", "given"), LARGEST):
        figures = [row[name] for row in rows if row["priors"] == kind and row[name]["runs"]]
        errors = np.abs([figure["error"] for figure in figures])
        printed = [figure["printed_error"] for figure in figures if figure["printed_error"] is not None]
        table.append(
            {
                "priors": kind,
                "figure": name,
                "cells": len(figures),
                "too_large": int((errors > LARGEST[name]).sum()),
                "largest": float(errors.max()),
                "mean_error": float(np.mean([figure["error"] for figure in figures])),
                "held": float(np.mean([figure["held"] for figure in figures])),
                "least_held": float(min(figure["held"] for figure in figures)),
                "shown": float(np.mean([figure["shown"] for figure in figures])),
                "printed_cells": len(printed),
                "printed_too_large": int((np.abs(printed) > LARGEST[name]).sum()),
            }
        )
    return table


# -- limits of priors after large moves --------------------------------------------------------------


def from_rare_to_frequent(
    model: str, separation: int, seed: int, cache: Path | None
) -> tuple[PriorEstimate, float]:
    """The prior of new rows, .6, read by a fit to a single sample at .05 with 50 labelled rows."""
    rng = np.random.default_rng([seed, separation])
    y = rng.random(2000) < 0.05
    labelled = np.zeros(len(y), dtype=int)
    labelled[rng.permutation(np.flatnonzero(y))[:50]] = 1
    rows = rng.normal(y * separation, 1)[:, None]
    new = rng.random(NEW) < 0.6
    new_rows = rng.normal(new * separation, 1)[:, None]

    def fit() -> DRPUClassifier:
        return DRPUClassifier(MODELS[model], scenario="single-sample", random_state=seed).fit(rows, labelled)

    clf = cached_fit(cache, f"rare-{model}-{separation}-{seed}", fit)
    return clf.adapt(new_rows).test_prior_, 0.6


def to_half(model: str, separation: int, seed: int, cache: Path | None) -> tuple[PriorEstimate, float]:
    """The prior of new rows, .15, read by a fit at .3 with 200 positives."""
    setting = Setting(model, separation, 200, cache)
    return setting.fit(seed).adapt(setting.new_rows(0.15, seed)[0]).test_prior_, 0.15


def moves(runs: int, cache: Path | None) -> Iterator[Row]:
    """How often the limits of a prior hold after a large move."""
    for name, read, models in (
        ("single sample, 50 labelled, .05 to .6", from_rare_to_frequent, ("default", "boosted", "logistic")),
        ("case-control, 200 positives, .3 to .15", to_half, ("default", "boosted")),
    ):
        for model, separation in product(models, SEPARATIONS):
            priors = [read(model, separation, seed, cache) for seed in range(runs)]
            held = float(np.mean([prior.low <= truth <= prior.high for prior, truth in priors]))
            width = float(np.mean([prior.high - prior.low for prior, _ in priors]))
            error = float(np.mean([prior.value - truth for prior, truth in priors]))
            row = {"move": name, "model": model, "separation": separation, "runs": runs}
            print(row | {"held": round(held, 3)}, flush=True)
            yield row | {"held": held, "width": width, "mean_error": error}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--runs", type=int, default=FULL, help="runs a cell; fewer than 30 write nothing")
    parser.add_argument("--moves", type=int, default=MOVES, help="runs of each large move")
    parser.add_argument("--cache", type=Path, help="folder of fits")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DRPUWarning)
    if options.cache is not None:
        options.cache.mkdir(parents=True, exist_ok=True)
    rows = list(cells(options.runs, options.cache))
    table = misses(rows)
    for line in table:
        print(line)
    far = list(moves(options.moves, options.cache))
    if options.runs >= FULL:
        command = f"python -m benchmarks.expected --runs {options.runs} --moves {options.moves}"
        print("wrote", write_results("expected", command, cells=rows, summary=table, moves=far))


if __name__ == "__main__":
    main()
