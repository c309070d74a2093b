"""Fits with known priors, kept as counts: what :mod:`benchmarks.learn` learns from.

Two kinds of fits. Those of *real tables* take samples of every table in a few folders: both classes as
positive, the table's own prior or another one, one sample or two, many sizes, and a fifth of them with
other learners than the default. *Simulated* ones draw counts from two known densities of a score, so that
priors and sizes are covered that no real table has: pure noise and full separation, priors down to .0003,
up to a million rows, and groups of rows that score highest and are mixed all the same.

A fit is one small file without rows: the counts of its scores, and the true share of positives among the
unlabeled rows.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from benchmarks._tables import generator
from benchmarks.collect import lines
from drpu import BoostedRatio, ClassifierRatio, DRPUClassifier, KernelRatio, NetworkRatio, ScoreTails
from drpu.exceptions import DRPUError, DRPUWarning

# README's sets, and what they were made from, are never learned from.
LEFT_OUT = ("breast_cancer", "digits", "optdigits")
DRAWS = 9  # of a table
SIMULATED = 1500
MIXED = 0.03  # share of the simulated fits whose best-scored rows are a mixed group
FEWEST_LABELLED = 12
FEWEST_UNLABELED = 150
OTHER_LEARNERS = 0.2  # share of the fits

# Tables whose names differ, and which come from one source all the same.
ONE_SOURCE = {
    "bank_calls": "bank",
    "wine_color": "wine",
    "wine_quality": "wine",
    "spam7": "spambase",
    "p401k": "wooldridge/k401ksubs",
    "german_health": "COUNT/rwm5yr",
    "happiness": "wooldridge/happiness",
    "computers": "Ecdat/Computers",
}


# -- a fit -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FitFacts:
    """How a fit was made, and the truth."""

    table: str
    source: str
    learner: str
    protocol: str
    scenario: str
    labelled: float  # labelled share of a single sample, 0 for two samples
    truth: float  # share of positives among the unlabeled rows
    # value, limits, quantiles and identification by the rules that were replaced, in older fits
    by_rules: tuple[float, ...] = ()


@dataclass(frozen=True)
class PoolFit:
    """The counts of one fit."""

    facts: FitFacts
    levels: np.ndarray
    positive_counts: np.ndarray
    counts: np.ndarray
    copies: int = 1

    @property
    def tails(self) -> ScoreTails:
        """Counts of the unlabeled training rows over the held-out positives."""
        positive = np.repeat(self.levels, self.positive_counts[1:])
        return ScoreTails(positive, copies=self.copies).add_counts(self.counts)

    def save(self, path: Path) -> None:
        """Write the fit as one file."""
        np.savez_compressed(
            path,
            facts=np.array(json.dumps(asdict(self.facts))),
            levels=self.levels,
            positive_counts=self.positive_counts,
            counts=self.counts,
            copies=np.array(self.copies),
        )

    @classmethod
    def load(cls, path: Path) -> PoolFit:
        """The fit that :meth:`save` wrote."""
        with np.load(path) as kept:
            facts = FitFacts(**json.loads(str(kept["facts"])))
            counts = (kept["levels"], kept["positive_counts"], kept["counts"])
            return cls(facts, *counts, int(kept["copies"]))


def read_pool(folder: Path) -> list[PoolFit]:
    """All fits of the folder."""
    return [PoolFit.load(path) for path in sorted(folder.glob("*.npz")) if path.stat().st_size]


# -- samples of real tables ------------------------------------------------------------------------


@dataclass(frozen=True)
class PoolSample:
    """Positions of the labelled and the unlabeled rows of a table."""

    labelled: np.ndarray
    unlabeled: np.ndarray
    truth: np.ndarray  # classes of all rows of the table
    scenario: str
    protocol: str

    @property
    def labelled_share(self) -> float:
        """Labelled share of a single sample; 0 for two samples."""
        if self.scenario == "case-control":
            return 0.0
        return len(self.labelled) / (len(self.labelled) + len(self.unlabeled))

    @property
    def usable(self) -> bool:
        """Whether there are enough rows, and positives among the unlabeled ones."""
        if len(self.labelled) < FEWEST_LABELLED or len(self.unlabeled) < FEWEST_UNLABELED:
            return False
        return bool(0.002 < self.truth[self.unlabeled].mean() < 0.99)


def draw_sample(frame: pd.DataFrame, rng: np.random.Generator) -> PoolSample:
    """A sample at the table's own prior or at another one, of one kind or of two."""
    truth = frame["y"].to_numpy().astype(int)
    if rng.random() < 0.3:
        truth = 1 - truth
    rows = _window(frame, rng)
    size = int(np.exp(rng.uniform(np.log(200), np.log(5000))))
    protocol = "own prior"
    if rng.random() < 0.45:
        chosen = rng.permutation(rows)[:size]
    else:
        protocol = "moved prior"
        chosen = _rows_at(truth, rows, _any_prior(rng), size, rng)
    if rng.random() < 0.55:
        return _single_sample(truth, chosen, protocol, rng)
    return _two_samples(truth, rows, chosen, protocol, rng)


def _window(frame: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """All rows of a table, or those of some neighbouring periods if it has periods."""
    if "period" not in frame:
        return np.arange(len(frame))
    periods = frame["period"].astype(str)
    names = np.sort(periods.unique())
    width = int(rng.integers(max(len(names) // 3, 1), len(names) + 1))
    start = int(rng.integers(0, len(names) - width + 1))
    return np.flatnonzero(periods.isin(names[start : start + width]))


def _any_prior(rng: np.random.Generator) -> float:
    """A prior from .003 to .97; a third of them are small."""
    if rng.random() < 0.35:
        return float(np.exp(rng.uniform(np.log(0.003), np.log(0.15))))
    return float(rng.uniform(0.03, 0.97))


def _rows_at(
    truth: np.ndarray, rows: np.ndarray, prior: float, size: int, rng: np.random.Generator
) -> np.ndarray:
    positive = rng.permutation(rows[truth[rows] == 1])
    negative = rng.permutation(rows[truth[rows] == 0])
    size = int(min(size, 0.8 * len(positive) / prior, len(negative) / (1 - prior)))
    n_positive = round(prior * size)
    return np.concatenate([positive[:n_positive], negative[: size - n_positive]])


def _single_sample(
    truth: np.ndarray, chosen: np.ndarray, protocol: str, rng: np.random.Generator
) -> PoolSample:
    """5 to 75 % of the positives are labelled."""
    positive = rng.permutation(chosen[truth[chosen] == 1])
    rate = np.exp(rng.uniform(np.log(0.05), np.log(0.75)))
    labelled = positive[: max(FEWEST_LABELLED, round(rate * len(positive)))]
    unlabeled = np.setdiff1d(chosen, labelled)
    return PoolSample(labelled, unlabeled, truth, "single-sample", protocol)


def _two_samples(
    truth: np.ndarray, rows: np.ndarray, chosen: np.ndarray, protocol: str, rng: np.random.Generator
) -> PoolSample:
    """Labelled rows that are not among the unlabeled ones."""
    left = np.setdiff1d(rows[truth[rows] == 1], chosen)
    size = np.exp(rng.uniform(np.log(15), np.log(2000)))
    if len(left) < FEWEST_LABELLED:  # take some of the positives away from the unlabeled rows
        left = rng.permutation(chosen[truth[chosen] == 1])
        left = left[: len(left) // 2]
        chosen = np.setdiff1d(chosen, left)
    labelled = rng.permutation(left)[: int(size)]
    return PoolSample(labelled, chosen, truth, "case-control", protocol)


# -- fits of real tables ---------------------------------------------------------------------------


def any_learner(rng: np.random.Generator) -> tuple[str, Any]:
    """The default, or one of the other learners."""
    if rng.random() >= OTHER_LEARNERS:
        return "auto", "auto"
    name = str(rng.choice(["boosted", "kernel", "logistic", "network"], p=[0.3, 0.3, 0.3, 0.1]))
    learners = {
        "boosted": BoostedRatio(),
        "kernel": KernelRatio(),
        "logistic": ClassifierRatio(LogisticRegression(max_iter=200)),
        "network": NetworkRatio(),
    }
    return name, learners[name]


def fit_sample(frame: pd.DataFrame, sample: PoolSample, learner: Any) -> DRPUClassifier:
    """The fit of a sample, its rows in a random order."""
    rows = np.concatenate([sample.labelled, sample.unlabeled])
    labels = np.repeat([1, 0], [len(sample.labelled), len(sample.unlabeled)])
    order = np.random.default_rng(0).permutation(len(rows))
    X = frame.drop(columns=["y", "period"], errors="ignore").iloc[rows[order]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)  # weak signals are part of the pool
        classifier = DRPUClassifier(learner, scenario=sample.scenario, random_state=0)
        return classifier.fit(X.reset_index(drop=True), labels[order])


def make_fit(path: Path, number: int) -> PoolFit | None:
    """One fit of a table; None if the table has too few rows for the sample that is drawn."""
    frame = pd.read_parquet(path)
    rng = generator(path.stem, number, "pool")
    sample = draw_sample(frame, rng)
    name, learner = any_learner(rng)
    if not sample.usable:
        return None
    try:
        classifier = fit_sample(frame, sample, learner)
    except (DRPUError, ValueError):  # such as missing values, which this learner cannot use
        return None
    share = sample.labelled_share
    facts = FitFacts(
        table=path.stem,
        source=source_of(path.stem),
        learner=name,
        protocol=sample.protocol,
        scenario=sample.scenario,
        labelled=share,
        truth=float(sample.truth[sample.unlabeled].mean()),
    )
    tails = classifier.tails_
    return PoolFit(facts, tails.levels, tails.positive_counts, tails.counts, tails.copies)


def source_of(table: str) -> str:
    """The source of a table; tables of one source are never on both sides of a fold."""
    sources = {name: source for name, source, _, _ in lines()}
    return ONE_SOURCE.get(table, sources.get(table, table))


def make_fits(folder: Path, tables: list[Path], seconds: float) -> None:
    """Make the fits that ``folder`` does not have, until the time is over."""
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    for file, path, number in jobs(folder, tables):
        if time.monotonic() > end:
            break
        if file.exists():
            continue
        fit = make_fit(path, number)
        if fit is None:
            file.touch()
        else:
            fit.save(file)


def jobs(folder: Path, tables: list[Path]) -> list[tuple[Path, Path, int]]:
    """The file of each fit with its table and number, in an order that mixes tables."""
    found = []
    for place in tables:
        for path in sorted(place.glob("*.parquet")):
            if path.stem in LEFT_OUT:
                continue
            for number in range(DRAWS):
                found.append((folder / f"{path.stem}-{number}.npz", path, number))
    order = generator("order").permutation(len(found))
    return [found[k] for k in order]


# -- simulated counts ------------------------------------------------------------------------------

_CELLS = 400  # of the true log-ratio
_ERRORS = norm.ppf((np.arange(15) + 0.5) / 15)  # of a score, in standard deviations
_MOST_LEVELS = 1000


def simulated(number: int) -> PoolFit:
    """Counts of a score whose densities are known."""
    rng = generator("simulated", number)
    positive, negative, score = _score_densities(rng)
    prior = _simulated_prior(rng)
    n_positive = int(np.exp(rng.uniform(np.log(20), np.log(1e5 if rng.random() < 0.3 else 3000))))
    n = int(np.exp(rng.uniform(np.log(20), np.log(1e6 if rng.random() < 0.5 else 5000))))
    labelled = 0.0
    scenario = "case-control"
    rate = np.exp(rng.uniform(np.log(0.05), np.log(0.75)))
    n_labelled = int(prior * n * rate / (1 - rate))
    if rng.random() < 0.5 and n_labelled >= FEWEST_LABELLED:
        scenario = "single-sample"
        n_positive = n_labelled
        labelled = n_positive / (n_positive + n)
    n_true = rng.binomial(n, prior)
    order = np.argsort(score)
    cells = np.minimum(np.arange(len(score)) * _MOST_LEVELS // len(score), _MOST_LEVELS - 1)
    of_positive = np.bincount(cells, weights=positive[order])
    of_negative = np.bincount(cells, weights=negative[order])
    held_out = rng.multinomial(n_positive, of_positive / of_positive.sum())
    unlabeled = rng.multinomial(n_true, of_positive / of_positive.sum())
    unlabeled = unlabeled + rng.multinomial(n - n_true, of_negative / of_negative.sum())
    facts = FitFacts(
        table=f"simulated {number}",
        source=f"simulated {number}",
        learner="simulated",
        protocol="simulated",
        scenario=scenario,
        labelled=labelled,
        truth=n_true / n,
    )
    return PoolFit(facts, *_cells_of_levels(held_out, unlabeled))


def _simulated_prior(rng: np.random.Generator) -> float:
    """A prior from .0003 to .97, half of them uniform."""
    if rng.random() < 0.5:
        return float(rng.uniform(0.01, 0.97))
    return float(np.exp(rng.uniform(np.log(0.0003), np.log(0.3))))


def _score_densities(
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares of both classes in cells of a score, and the score of each cell."""
    kind = rng.random()
    distance = float(rng.uniform(0, 3))
    if kind < 0.1:
        distance = 0.0  # pure noise
    elif kind < 0.25:
        distance = float(rng.uniform(3, 7))
    spread = float(np.exp(rng.normal(0, 0.3))) if distance > 0 else 1.0  # of the positives
    edges = np.linspace(-6, max(distance, 0) + 6 * max(spread, 1), _CELLS)
    positive = norm.pdf(edges, distance, spread)
    negative = norm.pdf(edges, 0, 1)
    positive = positive / positive.sum()
    negative = negative / negative.sum()
    ratio = np.log(np.maximum(positive, 1e-300)) - np.log(np.maximum(negative, 1e-300))
    if rng.random() < MIXED:  # a group of rows that score highest, and of which only a part is positive
        share = float(rng.uniform(0.05, 0.6))
        positive = np.append(positive * (1 - share), share)
        of_negative = share * float(np.exp(rng.uniform(np.log(0.01), np.log(1))))
        negative = np.append(negative * (1 - of_negative), of_negative)
        ratio = np.append(ratio, 50.0)
    error = float(np.exp(rng.uniform(np.log(0.02), np.log(1.5))))
    score = (np.clip(ratio, -60, 60)[:, None] + error * _ERRORS).ravel()
    repeated = np.full(len(_ERRORS), 1 / len(_ERRORS))
    return np.outer(positive, repeated).ravel(), np.outer(negative, repeated).ravel(), score


def _cells_of_levels(
    held_out: np.ndarray, unlabeled: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Levels are cells with a held-out positive; other cells belong to the level below."""
    levels = np.flatnonzero(held_out)
    cell_of = np.searchsorted(levels, np.arange(len(held_out)), side="right")
    counts = np.bincount(cell_of, weights=unlabeled, minlength=len(levels) + 1).astype(np.int64)
    positive_counts = np.append(0, held_out[levels]).astype(np.int64)
    return levels.astype(float), positive_counts, counts


def simulate(numbers: Iterator[int] | range) -> list[PoolFit]:
    """Simulated fits, with the numbers given."""
    return [simulated(number) for number in numbers]
