"""The distribution of a training prior on real tables: its value, its limits, and ``identified``.

    python -m benchmarks.central --tables TABLES --months MONTHS --cache CACHE             # measure and write
    python -m benchmarks.central --tables TABLES --months MONTHS --cache CACHE --choose    # constants only

TABLES and MONTHS are folders of Parquet files with a target ``y`` (MONTHS also with a column ``period``);
``python -m benchmarks.collect`` makes some. Fits are kept in CACHE, and only those that it does not have
are made. The samples are those of :mod:`benchmarks._fits`. ``--choose`` compares a grid of the constants of
:mod:`drpu.priors.central` by leaving out one table after the other, and reports the figures of the tables
left out.

The last part is the protocol of PUICL: case-control samples of seven tables whose unlabeled rows are 80 %
or 20 % positive, and the accuracy of the labels of these rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

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
from benchmarks._results import command_line, write_results
from benchmarks._tables import generator
from drpu.priors import constants
from drpu.priors.central import PriorDistribution, PriorEvidence, prior_distribution, share_of_upper_bounds
from drpu.priors.limits import Limits, ratio_limits
from drpu.priors.readings import adaptive

NEAR, FAR = 0.03, 0.10
LEVEL = 0.95
COMMAND = "python -m benchmarks.central --tables TABLES --months MONTHS --cache CACHE"

Figures = dict[str, Any]
Constants = dict[str, Any]


# -- figures ---------------------------------------------------------------------------------------


class Known(NamedTuple):
    """A fit with what does not depend on the constants."""

    fit: Fit
    limits: Limits
    evidence: PriorEvidence


def known_of(fit: Fit) -> Known:
    """The fit with its limits and its evidence."""
    limits = ratio_limits(fit.tails, LEVEL)
    return Known(fit, limits, PriorEvidence.of(fit.tails, limits, fit.score_error))


def estimates(pool: list[Known], setting: Constants) -> pd.DataFrame:
    """Value, limits and identification of every fit, with these constants."""
    with patch.multiple(constants, **setting):
        return pd.DataFrame([_estimate(known) for known in pool])


def _estimate(known: Known) -> dict[str, Any]:
    """The estimate of one fit, as a prior of the population."""
    fit, limits, evidence = known
    distribution = prior_distribution(evidence, labelled_share=fit.labelled_share)
    population = distribution.with_labelled(fit.labelled)
    value = population.mean
    counted_low = fit.labelled + (1 - fit.labelled) * limits.low
    low = min(population.quantile((1 - LEVEL) / 2), counted_low, value)
    high = fit.labelled + (1 - fit.labelled) * limits.high
    reading = fit.labelled + (1 - fit.labelled) * min(evidence.reading, limits.high)
    return {
        "table": fit.table,
        "group": fit.group,
        "prior": fit.prior,
        "bias": value - fit.prior,
        "error": abs(value - fit.prior),
        "score": ranked_score(population, fit.prior),
        "reading_error": abs(reading - fit.prior),
        "holds": low <= fit.prior + 1e-9 and fit.prior <= high + 1e-9,
        "width": high - low,
        "identified": population.identified,
    }


def ranked_score(distribution: PriorDistribution, truth: float) -> float:
    """Continuous ranked probability score: the error of a distribution, in units of the prior.

    It is smallest on average if the distribution is the right one, so that it pays neither to be too sure
    nor to be too careful. That of a single value is its distance from the truth.
    """
    below = np.cumsum(distribution.weight)[:-1]
    above_truth = distribution.prior[:-1] >= truth
    return float((below - above_truth) ** 2 @ np.diff(distribution.prior))


def figures(rows: pd.DataFrame) -> Figures:
    """Errors, limits and identification of some fits; None where no fit counts."""
    identified = rows["identified"]
    off = rows["error"] > FAR
    near = rows["error"] < NEAR
    return {
        "fits": len(rows),
        "tables": rows["table"].nunique(),
        "error": _mean(rows["error"]),
        "bias": _mean(rows["bias"]),
        "reading_error": _mean(rows["reading_error"]),
        "holds": _mean(rows["holds"]),
        "holds_identified": _mean(rows["holds"][identified]),
        "width": _mean(rows["width"]),
        "identified": _mean(identified),
        "identified_and_off": _mean(off[identified]),
        "off_and_not_identified": _mean(~identified[off]),
        "near_and_identified": _mean(identified[near]),
    }


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


def other_limits(pool: list[Known]) -> list[Figures]:
    """What other limits of the expected error would call identified."""
    lines = []
    for limit in (0.03, 0.04, constants.EXPECTED_ERROR, 0.06, 0.08, 0.10):
        rows = estimates(pool, {"EXPECTED_ERROR": limit})
        lines.append({"expected_error": limit, **figures(rows)})
    return lines


STRENGTHS = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)  # ends of ranges of the separation


def too_high(pool: list[Known]) -> list[Figures]:
    """How often the reading is far above the truth, by separation, and what allowing for it costs.

    A group of rows that are equally likely to be positive looks like pure positives, and then the reading is
    an upper bound only. No counts tell, so the share of such tables is measured.
    """
    separation = np.array([known.evidence.separation for known in pool])
    excess = np.array([known.evidence.reading - known.fit.unlabeled_prior for known in pool])
    rows = estimates(pool, in_use())
    assumed = np.array([share_of_upper_bounds(value) for value in separation])
    without = estimates(pool, {"UPPER_BOUND_ONLY": (1e-6, 1e-6, constants.UPPER_BOUND_ONLY[2])})
    lines = []
    for start, end in pairwise(STRENGTHS):
        inside = (separation >= start) & (separation < end + (end == 1))
        if inside.any():
            lines.append(
                {
                    "from": start,
                    "to": end,
                    "fits": int(inside.sum()),
                    "tables": int(rows["table"][inside].nunique()),
                    "too_high": float(np.mean(excess[inside] > FAR)),
                    "assumed": float(np.mean(assumed[inside])),
                    "width": _mean(rows["width"][inside]),
                    "width_without": _mean(without["width"][inside]),
                    "holds": _mean(rows["holds"][inside]),
                    "holds_without": _mean(without["holds"][inside]),
                }
            )
    return lines


def show(by_group: dict[str, Figures]) -> None:
    """Print a table of figures."""
    print(pd.DataFrame(by_group).T.astype(float).round(3).to_string())


# -- choosing constants ----------------------------------------------------------------------------

GRID = {
    "USUAL_PRIORS_CASE_CONTROL": ((0.6, 0.4), (0.6, 0.8)),
    "USUAL_PRIORS_SINGLE_SAMPLE": ((0.4, 0.6), (0.4, 1.0), (0.6, 0.8)),
    "READING_SPREAD": ((2.0, 2.0, 0.5), (2.75, 2.25, 0.35), (4.0, 2.5, 0.5)),
    "UPPER_BOUND_ONLY": ((0.2, 0.06, 3.4), (0.35, 0.06, 3.4), (0.5, 0.06, 3.4), (0.7, 0.06, 3.4)),
    "USUAL_SEPARABILITY": ((2.0, 1.0), (2.5, 1.0), (3.0, 1.0)),
    "AREA_NOISE": (0.3, 0.5),
}
POPULATIONS = ("own prior", "windows")  # samples at their real priors count as much as three others


def in_use() -> Constants:
    """The constants of the library."""
    return {name: getattr(constants, name) for name in GRID}


def loss(rows: pd.DataFrame) -> float:
    """Weighted mean over the protocols of the score of the distribution and half the error of its mean."""
    of_group = rows.groupby("group")[["score", "error"]].mean()
    weight = np.where(of_group.index.isin(POPULATIONS), 3.0, 1.0)
    return float(np.average(of_group["score"] + of_group["error"] / 2, weights=weight))


def choose(pool: list[Known]) -> Figures:
    """The constants with the smallest loss, and figures of tables that took no part in the choice."""
    settings = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]
    results = [estimates(pool, setting) for setting in settings]
    print(len(settings), "settings", flush=True)
    table = results[0]["table"]
    left_out = []
    votes: Counter[int] = Counter()
    for name in table.unique():
        best = int(np.argmin([loss(rows[table != name]) for rows in results]))
        left_out.append(results[best][table == name])
        votes[best] += 1
    losses = [loss(rows) for rows in results]
    best = int(np.argmin(losses))
    return {
        "best": settings[best],
        "loss_of_best": losses[best],
        "used": in_use(),
        "loss_of_used": loss(estimates(pool, in_use())),
        "chosen_without_a_table": [{**settings[k], "tables": n} for k, n in votes.most_common()],
        "left_out": figures_by_group(pd.concat(left_out)),
        "best_on_all": figures_by_group(results[best]),
    }


# Shares of tables with clearly separated classes in which the reading is an upper bound only. Such tables are
# rare, so that the loss above hardly depends on them, but the promise of identified fits does: in every
# protocol, limits hold and few values are far off.
SEPARATED_SHARES = (0.001, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15)
PROMISED = {"holds": 0.92, "off": 0.06}
FEWEST_IDENTIFIED = 20  # of a protocol that counts


def choose_separated(pool: list[Known]) -> Figures:
    """The smallest share with which identified fits keep their promise, and what larger ones cost."""
    without_signal, _, width = constants.UPPER_BOUND_ONLY
    separation = np.array([known.evidence.separation for known in pool])
    results = {}
    lines = []
    for share in SEPARATED_SHARES:
        rows = estimates(pool, {"UPPER_BOUND_ONLY": (without_signal, share, width)})
        results[share] = rows
        of_separated = figures(rows[separation >= WELL_SEPARATED])
        line = {"share": share, **worst_of_identified(rows), **figures(rows)}
        line["width_separated"] = of_separated["width"]
        line["identified_separated"] = of_separated["identified"]
        lines.append(line)
    table = results[SEPARATED_SHARES[0]]["table"]
    votes: Counter[float] = Counter()
    for name in table.unique():
        votes[smallest_that_keeps({share: rows[table != name] for share, rows in results.items()})] += 1
    return {
        "used": constants.UPPER_BOUND_ONLY[1],
        "best": smallest_that_keeps(results),
        "chosen_without_a_table": {str(share): n for share, n in votes.most_common()},
        "shares": lines,
    }


def worst_of_identified(rows: pd.DataFrame) -> Figures:
    """How often limits of identified fits hold, and how many are far off, in the worst protocols."""
    identified = rows[rows["identified"]]
    groups = identified.assign(off=identified["error"] > FAR).groupby("group")
    of_group = groups[["holds", "off"]].mean()[groups.size() >= FEWEST_IDENTIFIED]
    return {"least_holds": float(of_group["holds"].min()), "most_off": float(of_group["off"].max())}


def smallest_that_keeps(results: dict[float, pd.DataFrame]) -> float:
    """The smallest share with which identified fits keep their promise; if none does, the largest."""
    for share, rows in results.items():
        worst = worst_of_identified(rows)
        if worst["least_holds"] >= PROMISED["holds"] and worst["most_off"] <= PROMISED["off"]:
            return share
    return SEPARATED_SHARES[-1]


# Youden indices between which tails lose their weight in ``adaptive``; at the last ones they keep it.
APART = [(0.75, 0.85), (0.8, 0.9), (0.85, 0.9), (0.85, 0.95), (0.9, 1.0), (1.0, 1.1)]
WELL_SEPARATED = 0.75


def choose_apart(pool: list[Known]) -> Figures:
    """Errors of the reading of well separated tables, by the range in which tails lose their weight."""
    strong = [known.fit for known in pool if known.evidence.separation >= WELL_SEPARATED]
    errors = {}
    for ends in APART:
        with patch.object(constants, "CLASSES_APART", ends):
            readings = np.array([adaptive(fit.tails) for fit in strong])
        errors[str(ends)] = np.abs(readings - [fit.unlabeled_prior for fit in strong])
    by_table = pd.DataFrame(errors).groupby([fit.table for fit in strong]).mean()
    without_table = by_table.sum() - by_table
    return {
        "used": str(constants.CLASSES_APART),
        "fits": len(strong),
        "tables": len(by_table),
        "errors": by_table.mean().to_dict(),
        "chosen_without_a_table": without_table.idxmin(axis=1).value_counts().to_dict(),
    }


# Readings between which the correction by the error of the scores ends: nowhere, early, late, never.
CORRECTED = [(0.0, 1e-9), (0.2, 0.4), (0.3, 0.5), (0.4, 0.6), (0.3, 0.7), (1.0, 2.0)]


def choose_corrected(pool: list[Known]) -> Figures:
    """The loss by the readings that are corrected by the error of the scores."""
    results = {}
    for ends in CORRECTED:
        with patch.object(constants, "READINGS_WITH_ERROR", ends):
            corrected = [known_of(known.fit) for known in pool]
        results[str(ends)] = estimates(corrected, in_use())
    without_table = []
    for name in sorted({known.fit.table for known in pool}):
        losses = {ends: loss(rows[rows["table"] != name]) for ends, rows in results.items()}
        without_table.append(min(losses, key=losses.__getitem__))
    return {
        "used": str(constants.READINGS_WITH_ERROR),
        "losses": {ends: loss(rows) for ends, rows in results.items()},
        "errors": {ends: _mean(rows["error"]) for ends, rows in results.items()},
        "chosen_without_a_table": dict(Counter(without_table)),
    }


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
    parser.add_argument("--choose", action="store_true", help="only choose constants")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    options = parser.parse_args()
    make_fits(options.cache, options.tables, options.months)
    pool = [known_of(fit) for fit in read_fits(options.cache)]
    if options.choose:
        choice = choose(pool)
        show(choice["left_out"])
        show(choice["best_on_all"])
        print("best:", choice["best"], choice["loss_of_best"], "in use:", choice["loss_of_used"])
        print(choice["chosen_without_a_table"], choose_apart(pool), choose_separated(pool), sep="\n")
        print(choose_corrected(pool))
        return

    rows = estimates(pool, in_use())
    groups = figures_by_group(rows)
    content = {
        "tables": sorted(rows["table"].unique()),
        "groups": groups,
        "other_limits": other_limits(pool),
        "too_high": too_high(pool),
        "used_expected_error": constants.EXPECTED_ERROR,
        "puicl": puicl(options.tables),
        "choice": choose(pool),
        "choice_of_apart": choose_apart(pool),
        "choice_of_separated": choose_separated(pool),
        "choice_of_corrected": choose_corrected(pool),
    }
    show(groups)
    if not options.dry:
        print("wrote", write_results("central", COMMAND, **content))


if __name__ == "__main__":
    main()
