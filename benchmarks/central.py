"""Training priors by protocol: case-control, single samples, own priors, windows of dated tables; and PUICL.

    python -m benchmarks.central --tables TABLES --months MONTHS --cache CACHE

TABLES and MONTHS are folders of Parquet files with a target ``y`` (MONTHS also with a column ``period``);
``python -m benchmarks.collect`` makes some. Fits are kept in CACHE, and only those that it does not have
are made. The samples are those of :mod:`benchmarks._fits`. Every figure of a table comes from coefficients
that were learned without its source.

The last part is the protocol of PUICL: case-control samples of seven tables whose unlabeled rows are 80 %
or 20 % positive, and the accuracy of the labels of these rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from benchmarks._fits import (
    Fit,
    Sample,
    case_control_rows,
    fit_default,
    make_fits,
    read_fits,
    true_labels,
)
from benchmarks._left_out import without_source
from benchmarks._results import command_line, write_results
from benchmarks._tables import generator
from benchmarks.learn import QUANTILES, ranked_score
from drpu.beliefs.priors import FAR_OFF, prior_distribution
from drpu.priors.limits import upper_limit

NEAR = 0.03
LEVEL = 0.95
COMMAND = "python -m benchmarks.central --tables TABLES --months MONTHS --cache CACHE"

Figures = dict[str, Any]


# -- figures ---------------------------------------------------------------------------------------


def estimates(fits: list[Fit]) -> pd.DataFrame:
    """Value, limits and identification of every fit."""
    return pd.DataFrame([estimate(fit) for fit in fits])


def estimate(fit: Fit) -> Figures:
    """The estimate of one fit, as a prior of the population."""
    with without_source(fit.table):
        unlabeled = prior_distribution(fit.tails, labelled_share=fit.labelled_share)
    population = unlabeled.with_labelled(fit.labelled)
    low = population.quantile((1 - LEVEL) / 2)
    high = population.quantile((1 + LEVEL) / 2)
    upper = fit.labelled + (1 - fit.labelled) * upper_limit(fit.tails, LEVEL).prior
    quantiles = np.array([population.quantile(q) for q in QUANTILES])
    return {
        "table": fit.table,
        "group": fit.group,
        "bias": population.mean - fit.prior,
        "error": abs(population.mean - fit.prior),
        "score": ranked_score(fit.prior, quantiles),
        "holds": low - 1e-9 <= fit.prior <= high + 1e-9,
        "upper_holds": fit.prior <= upper + 1e-9,
        "width": high - low,
        "identified": population.identified,
    }


def figures(rows: pd.DataFrame) -> Figures:
    """Errors, limits and identification of some fits; None where no fit counts."""
    identified = rows["identified"]
    off = rows["error"] > FAR_OFF
    near = rows["error"] < NEAR
    found: Figures = {"fits": len(rows), "tables": rows["table"].nunique()}
    for name in ("error", "bias", "score", "holds", "upper_holds", "width", "identified"):
        found[name] = _mean(rows[name])
    found["holds_identified"] = _mean(rows["holds"][identified])
    found["identified_and_off"] = _mean(off[identified])
    found["off_and_not_identified"] = _mean(~identified[off])
    found["near_and_identified"] = _mean(identified[near])
    return found


def _mean(values: pd.Series) -> float | None:
    return float(values.mean()) if len(values) else None


def figures_by_group(rows: pd.DataFrame) -> dict[str, Figures]:
    """Figures of all fits and of each protocol."""
    by_group = {"all": figures(rows)}
    for name in sorted(rows["group"].unique(), key=_order):
        by_group[name] = figures(rows[rows["group"] == name])
    return by_group


def _order(group: str) -> tuple[str, float]:
    """Groups of a protocol by their priors."""
    name, _, percent = group.partition(", ")
    return name, float(percent.rstrip(" %") or 0)


# -- the protocol of PUICL -------------------------------------------------------------------------

PUICL_TABLES = ("adult", "credit_default", "magic", "mushroom", "spambase", "wine_quality")
PUICL_SIZES = ((200, 500), (75, 1125))
FEWER_LABELLED = 60  # of a table that is too small for the stated sizes


def puicl_frames(folders: list[Path]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The tables of the protocol that there are."""
    for folder in folders:
        for name in PUICL_TABLES:
            path = folder / f"{name}.parquet"
            if path.exists():
                yield name, pd.read_parquet(path)
    yield "breast_cancer", load_breast_cancer(as_frame=True).frame.rename(columns={"target": "y"})


def puicl_samples() -> Iterator[Sample]:
    """Both sizes, either class as positive, unlabeled rows that are 80 % or 20 % positive."""
    for prior, sizes, flipped in product((0.8, 0.2), PUICL_SIZES, (False, True)):
        yield Sample("case-control", prior, sizes=sizes, flipped=flipped)


def puicl_rows(table: str, frame: pd.DataFrame, sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """Labelled and unlabeled rows, fewer of both where the table is too small."""
    rng = generator(table, sample, "puicl")
    truth = true_labels(frame, sample)
    positive = rng.permutation(np.flatnonzero(truth == 1))
    negative = rng.permutation(np.flatnonzero(truth == 0))
    rows = case_control_rows(positive, negative, sample)
    if rows is not None:
        return rows
    assert sample.prior is not None
    n_labelled = min(sample.sizes[0], FEWER_LABELLED)
    positives_left = len(positive) - n_labelled
    n_unlabeled = int(0.95 * min(positives_left / sample.prior, len(negative) / (1 - sample.prior)))
    smaller = Sample("case-control", sample.prior, sizes=(n_labelled, min(n_unlabeled, sample.sizes[1])))
    rows = case_control_rows(positive, negative, smaller)
    assert rows is not None
    return rows


def puicl(folders: list[Path]) -> list[Figures]:
    """Accuracy on the unlabeled rows and error of the prior, by prior and sizes."""
    lines = []
    for table, frame in puicl_frames(folders):
        X = frame.drop(columns="y")
        for sample in puicl_samples():
            labelled, unlabeled = puicl_rows(table, frame, sample)
            with without_source(table):
                clf = fit_default(frame, labelled, unlabeled, "case-control")
            truth = true_labels(frame, sample)[unlabeled]
            labels = clf.predict(X.iloc[unlabeled].reset_index(drop=True))
            line = {"table": table, "prior": sample.prior, "labelled": sample.sizes[0]}
            line["accuracy"] = float(np.mean(labels == truth))
            line["majority"] = max(truth.mean(), 1 - truth.mean())
            line["error"] = abs(clf.prior_.value - truth.mean())
            line["identified"] = clf.prior_.identified
            lines.append(line)
    rows = pd.DataFrame(lines)
    numbers = ["accuracy", "majority", "error", "identified"]
    means = rows.groupby(["prior", "labelled"])[numbers].mean().astype(float).reset_index()
    means["samples"] = rows.groupby(["prior", "labelled"]).size().to_numpy()
    print(means.round(3).to_string())
    print(rows.groupby("prior")[numbers].mean().astype(float).round(3).to_string())
    records: list[Figures] = means.to_dict("records")
    return records


# -- the command -----------------------------------------------------------------------------------


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--tables", type=Path, nargs="+", required=True, help="folders of tables")
    parser.add_argument("--months", type=Path, nargs="*", default=[], help="folders of dated tables")
    parser.add_argument("--cache", type=Path, required=True, help="folder of fits")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    options = parser.parse_args()
    make_fits(options.cache, options.tables, options.months)
    rows = estimates(read_fits(options.cache))
    groups = figures_by_group(rows)
    print(pd.DataFrame(groups).T.astype(float).round(3).to_string())
    accuracies = puicl(options.tables)
    if not options.dry:
        tables = sorted(rows["table"].unique())
        print("wrote", write_results("central", COMMAND, tables=tables, groups=groups, puicl=accuracies))


if __name__ == "__main__":
    main()
