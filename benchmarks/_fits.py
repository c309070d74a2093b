"""Fits of the default classifier to samples of real tables, kept as counts.

What is learned from samples of one kind is good for that kind only: without mostly positive samples every
weak signal is taken for a small prior, and with one share of labelled positives that share is taken for
the prior. So samples have unlabeled priors from .05 to .9 in both scenarios, either class of a table is the
positive one, and 5 to 70 % of the positives are labelled.
"""

from __future__ import annotations

import warnings
from ast import literal_eval
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._tables import generator
from drpu import DRPUClassifier, ScoreTails
from drpu.exceptions import DRPUWarning

MOST_ROWS = 2000  # of a single sample
MOST_ROWS_OF_WINDOW = 2500
FEWEST_POSITIVES = 60  # of a single sample at a chosen prior
FEWEST_LABELLED = 20


@dataclass(frozen=True)
class Sample:
    """How a training sample is drawn from a table.

    Attributes
    ----------
    protocol : str
        "case-control", "single sample" (both at ``prior``), "own prior", or "windows" of dated tables.
    prior : float or None
        Share of positives among the unlabeled rows in case-control, and in the whole of a single sample.
    rate : float
        Labelled share of the positives of a single sample.
    sizes : tuple of int
        Labelled and unlabeled rows in case-control.
    flipped : bool
        Whether the negative class of the table is the positive one.
    window : int
        Number of the window.
    """

    protocol: str
    prior: float | None = None
    rate: float = 0.0
    sizes: tuple[int, int] = (0, 0)
    flipped: bool = False
    window: int = 0

    @property
    def group(self) -> str:
        """The protocol with its prior, as results show it."""
        return self.protocol if self.prior is None else f"{self.protocol}, {self.prior:.0%}"

    @property
    def file_name(self) -> str:
        """A name that no other sample of the table has."""
        parts = (self.protocol.replace(" ", "_"), self.prior, self.rate, *self.sizes)
        return "-".join(map(str, (*parts, int(self.flipped), self.window)))


FIRST = Sample("own prior", rate=0.2)


def samples_of_table() -> Iterator[Sample]:
    """The samples of a table without periods."""
    for flipped in (False, True):
        for prior in (0.05, 0.2, 0.5, 0.8, 0.9):
            for sizes in ((75, 1125), (200, 500)):
                yield Sample("case-control", prior, sizes=sizes, flipped=flipped)
        for prior, rate in SINGLE_SAMPLES:
            yield Sample("single sample", prior, rate, flipped=flipped)
        for rate in (0.05, 0.2, 0.5, 0.7):
            yield Sample("own prior", rate=rate, flipped=flipped)


# Priors and labelled shares; the unlabeled rows of the last ones have a prior of .61 and .86.
SINGLE_SAMPLES = ((0.05, 0.4), (0.1, 0.3), (0.5, 0.1), (0.5, 0.5), (0.8, 0.2), (0.8, 0.6), (0.9, 0.3))


def samples_of_dated_table() -> Iterator[Sample]:
    """The samples of a table with periods: its first half and its middle third, at their own priors."""
    for rate in (0.1, 0.3, 0.7):
        for window in (0, 1):
            yield Sample("windows", rate=rate, window=window)


# -- rows ------------------------------------------------------------------------------------------


def training_rows(table: str, frame: pd.DataFrame, sample: Sample) -> tuple[np.ndarray, np.ndarray] | None:
    """Positions of the labelled and of the unlabeled rows; None if the table has too few rows."""
    rng = generator(table, sample)
    truth = true_labels(frame, sample)
    positive = rng.permutation(np.flatnonzero(truth == 1))
    negative = rng.permutation(np.flatnonzero(truth == 0))
    if sample.protocol == "case-control":
        return case_control_rows(positive, negative, sample)
    if sample.protocol == "windows":
        rows = rng.permutation(_window(frame, sample.window))[:MOST_ROWS_OF_WINDOW]
    elif sample.prior is None:
        rows = rng.permutation(len(frame))[:MOST_ROWS]
    else:
        size = min(MOST_ROWS, len(positive) / sample.prior, len(negative) / (1 - sample.prior))
        n_positive = round(size * sample.prior)
        if n_positive < FEWEST_POSITIVES:
            return None
        rows = np.concatenate([positive[:n_positive], negative[: round(size) - n_positive]])
        rows = rng.permutation(rows)

    positive_rows = rng.permutation(rows[truth[rows] == 1])
    n_labelled = round(sample.rate * len(positive_rows))
    if n_labelled < FEWEST_LABELLED:
        return None
    labelled = positive_rows[:n_labelled]
    return labelled, rows[~np.isin(rows, labelled)]


def case_control_rows(
    positive: np.ndarray, negative: np.ndarray, sample: Sample
) -> tuple[np.ndarray, np.ndarray] | None:
    """The first rows of both classes; labelled rows come on top of the unlabeled ones."""
    assert sample.prior is not None
    n_labelled, n_unlabeled = sample.sizes
    n_positive = round(sample.prior * n_unlabeled)
    n_negative = n_unlabeled - n_positive
    if len(positive) < n_labelled + n_positive or len(negative) < n_negative:
        return None
    unlabeled = np.concatenate([positive[n_labelled : n_labelled + n_positive], negative[:n_negative]])
    return positive[:n_labelled], unlabeled


def true_labels(frame: pd.DataFrame, sample: Sample) -> Any:
    """The classes of all rows of a table, 1 for the positive one."""
    truth = frame["y"].to_numpy().astype(int)
    return 1 - truth if sample.flipped else truth


def _window(frame: pd.DataFrame, number: int) -> np.ndarray:
    """Rows of the first half or of the middle third of the periods."""
    periods = sorted(frame["period"].unique())
    n = len(periods)
    start = 0 if number == 0 else n // 3
    end = n // 2 if number == 0 else 2 * n // 3
    return np.flatnonzero(frame["period"].isin(periods[start : max(end, start + 1)]))


def fit_default(
    frame: pd.DataFrame, labelled: np.ndarray, unlabeled: np.ndarray, scenario: str
) -> DRPUClassifier:
    """The default classifier, fitted to these rows."""
    rows = np.concatenate([labelled, unlabeled])
    labels = np.repeat([1, 0], [len(labelled), len(unlabeled)])
    order = np.random.default_rng(0).permutation(len(rows))
    X = frame.drop(columns=["y", "period"], errors="ignore").iloc[rows[order]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)  # weak signals are part of the protocol
        clf = DRPUClassifier(scenario=scenario, random_state=0)
        return clf.fit(X.reset_index(drop=True), labels[order])


# -- fits ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """One fit.

    Attributes
    ----------
    table, group : str
        The table, and the group of the sample.
    prior : float
        True prior of the population: of the unlabeled rows in case-control, else of all rows.
    labelled : float
        Labelled share of the population; 0 in case-control.
    levels, positive_counts, counts : ndarray
        The tails: held-out positives, and unlabeled training rows counted over them.
    """

    table: str
    group: str
    prior: float
    labelled: float
    levels: np.ndarray
    positive_counts: np.ndarray
    counts: np.ndarray

    @cached_property
    def tails(self) -> ScoreTails:
        """Counts of the unlabeled training rows."""
        positive = np.repeat(self.levels, self.positive_counts[1:])
        return ScoreTails(positive).add_counts(self.counts)

    @property
    def labelled_share(self) -> float | None:
        """The labelled share that the rule is told; None in case-control."""
        return self.labelled or None

    @property
    def unlabeled_prior(self) -> float:
        """Share of positives among the training rows without a label."""
        return (self.prior - self.labelled) / (1 - self.labelled)

    def save(self, path: Path) -> None:
        """Write the fit as one file."""
        facts = (self.table, self.group, self.prior, self.labelled)
        np.savez(
            path,
            facts=np.array(repr(facts)),
            levels=self.levels,
            positive_counts=self.positive_counts,
            counts=self.counts,
        )

    @classmethod
    def load(cls, path: Path) -> Fit:
        """The fit that :meth:`save` wrote."""
        with np.load(path) as kept:
            table, group, prior, labelled = literal_eval(str(kept["facts"]))[:4]  # older files have more
            tails = (kept["levels"], kept["positive_counts"], kept["counts"])
            return cls(table, group, prior, labelled, *tails)


def fit_sample(table: str, frame: pd.DataFrame, sample: Sample) -> Fit | None:
    """The fit of one sample; None if the table has too few rows for it."""
    rows = training_rows(table, frame, sample)
    if rows is None:
        return None
    labelled, unlabeled = rows
    truth = true_labels(frame, sample)
    if sample.protocol == "case-control":
        clf = fit_default(frame, labelled, unlabeled, "case-control")
        prior = float(truth[unlabeled].mean())
        share = 0.0
    else:
        clf = fit_default(frame, labelled, unlabeled, "single-sample")
        population = np.concatenate(rows)
        prior = float(truth[population].mean())
        share = len(labelled) / len(population)
    tails = clf.tails_
    counts = (tails.levels, tails.positive_counts, tails.counts)
    return Fit(table, sample.group, prior, share, *counts)


def make_fits(cache: Path, tables: list[Path], months: list[Path]) -> None:
    """Make every fit that ``cache`` does not have yet; a sample with too few rows has an empty file."""
    cache.mkdir(parents=True, exist_ok=True)
    for folders, samples in ((tables, samples_of_table), (months, samples_of_dated_table)):
        for path in (path for folder in folders for path in sorted(folder.glob("*.parquet"))):
            files = {cache_file(cache, path.stem, sample): sample for sample in samples()}
            missing = [file for file in files if not file.exists()]
            if not missing:
                continue
            frame = pd.read_parquet(path)
            for file in missing:
                fit = fit_sample(path.stem, frame, files[file])
                if fit is None:
                    file.touch()
                else:
                    fit.save(file)
            print(path.stem, len(missing), "samples", flush=True)


def cache_file(cache: Path, table: str, sample: Sample) -> Path:
    """Where the fit of a sample is kept."""
    return cache / f"{table}-{sample.file_name}.npz"


def read_fits(cache: Path) -> list[Fit]:
    """All fits of the cache."""
    return [Fit.load(path) for path in sorted(cache.glob("*.npz")) if path.stat().st_size]
