"""The central value and the limits of priors that are not identified, on real tables.

    python -m benchmarks.collect --out OTHERS                          # tables from packages
    python -m benchmarks.central --make --pool POOL --others OTHERS --months MONTHS --cache CACHE
    python -m benchmarks.central --make --quick --pool POOL --others OTHERS --cache QUICK
    python -m benchmarks.central --choose --cache CACHE --quick-cache QUICK    # constants
    python -m benchmarks.central --cache CACHE --quick-cache QUICK     # measure, write the result file

POOL and MONTHS are folders of Parquet files with a target ``y`` (MONTHS also with a column ``period``). A fit
of the default takes two seconds, a quick one 40 ms. ``--choose`` chooses the constants of
:mod:`drpu.priors.central` on both kinds of fits, leaving out one table after the other, and reports the
errors on the tables left out. Other figures are measured on fits of the default. The share of labelled
positives is 5 to 70 %.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from benchmarks._fits import Fit, make_fits, read_fits
from benchmarks._results import command_line, write_results
from drpu.decisions.thresholds import ratio_threshold
from drpu.exceptions import DRPUWarning
from drpu.priors import central, constants
from drpu.priors.calibration import calibrate
from drpu.priors.estimate import PriorEstimate, prior_from_tails
from drpu.priors.limits import ratio_limits
from drpu.priors.plateau import fit_plateau, separation_of
from drpu.priors.readings import adaptive

NEAR, FAR = 0.03, 0.10
FEWEST = 10  # fits of a table for which its own coverage is shown
COMMAND = "python -m benchmarks.central --cache CACHE --quick-cache QUICK"
HALF = 0.35  # weight of fits at a prior of 0.5, which is nobody's own prior, in the choice of constants

Row = dict[str, Any]


# -- measuring -------------------------------------------------------------------------------------


def found_and_before(fit: Fit) -> tuple[PriorEstimate, PriorEstimate]:
    """The training prior of one fit, and the upper reading with its limits, which was the value before."""
    share = fit.labelled if fit.scenario == "single-sample" else None
    limits = ratio_limits(fit.tails, 0.95)
    reading = min(max(adaptive(fit.tails), limits.low), limits.high)
    enough = limits.separation >= constants.ENOUGH_SEPARATION
    before = PriorEstimate(reading, limits.low, limits.high, 0.95, "adaptive", enough, reading)
    return prior_from_tails(fit.tails, labelled_share=share), before


def training(fit: Fit) -> Row:
    """The training prior of one fit: the upper reading with its limits, and the central value."""
    found, before = found_and_before(fit)

    limits = ratio_limits(fit.tails, 0.95)
    likely = central.prior_distribution(
        fit_plateau(fit.tails).prior,
        limits.separation,
        fit.tails.n_positive,
        labelled_share=fit.labelled if fit.scenario == "single-sample" else None,
        high=limits.high,
    )

    def whole(prior: float) -> float:
        return fit.labelled + (1 - fit.labelled) * prior

    return {
        "strength": limits.separation,
        "expected_error": likely.error(before.value) * (1 - fit.labelled),
        "table": fit.table,
        "set": fit.kind,
        "scenario": fit.scenario,
        "drawn": fit.drawn if fit.kind != "months" else "own",
        "rate": fit.rate,
        "positives": fit.tails.n_positive,
        "prior": fit.prior,
        "identified": found.identified,
        "value": whole(found.value),
        "low": whole(found.low),
        "high": whole(found.high),
        "upper": whole(found.value if found.upper is None else found.upper),
        "identified_before": before.identified,
        "value_before": whole(before.value),
        "low_before": whole(before.low),
        "high_before": whole(before.high),
    }


def later(fit: Fit) -> Iterator[Row]:
    """Priors of the later samples of one fit, and the accuracy of their labels."""
    train, before = found_and_before(fit)
    for name, at in fit.samples.items():
        if name == "next":  # not prior shift alone
            continue
        y, new = fit.y[at], fit.test_tails(name)
        carried = replace(before, identified=True)  # so that it is read as it was before
        old = prior_from_tails(new, reference=fit.tails, train_prior=carried)
        now = prior_from_tails(new, reference=fit.tails, train_prior=train)
        yield {
            "table": fit.table,
            "set": fit.kind,
            "scenario": fit.scenario,
            "drawn": fit.drawn,
            "rate": fit.rate,
            "prior": float(y.mean()),
            "identified": now.identified,
            "value": now.value,
            "low": now.low,
            "high": now.high,
            "identified_before": before.identified,
            "value_before": old.value,
            "low_before": old.low,
            "high_before": old.high,
            "accuracy": _accuracy(fit, at, train.value, now.value),
            "accuracy_before": _accuracy(fit, at, before.value, old.value),
            "accuracy_known": _accuracy(fit, at, fit.unlabeled_prior, float(y.mean())),
        }


def windows(fit: Fit) -> Row:
    """Accuracy of the trained labels in the period after a window, and of its majority class."""
    train, before = found_and_before(fit)
    y = fit.y[fit.samples["next"]]
    at = fit.samples["next"]

    def kept(prior: float) -> float:
        return _accuracy(fit, at, prior, fit.labelled + (1 - fit.labelled) * prior)

    return {
        "table": fit.table,
        "accuracy": kept(train.value),
        "accuracy_before": kept(before.value),
        "accuracy_known": kept(fit.unlabeled_prior),
        "majority": float(max(y.mean(), 1 - y.mean())),
    }


def _accuracy(fit: Fit, at: np.ndarray, unlabeled_prior: float, test_prior: float) -> float:
    """Accuracy of the labels of test rows for a prior of the unlabeled training rows and a test prior."""
    prior = min(max(unlabeled_prior, 1e-6), 1.0)
    whole = fit.labelled + (1 - fit.labelled) * prior
    calibration = calibrate(fit.tails, prior, labelled_share=fit.labelled)
    scores = fit.label_scores[at]
    ratio = calibration(scores.ravel()).reshape(scores.shape).mean(axis=1)
    return float(np.mean((ratio > ratio_threshold(whole, test_prior)) == fit.y[at]))


# -- summaries -------------------------------------------------------------------------------------


def mean(values: Iterable[float]) -> float | None:
    found = [float(value) for value in values]
    return float(np.mean(found)) if found else None


def by_table(rows: list[Row], value: Callable[[Row], float]) -> float | None:
    """Mean over tables of the mean over their fits."""
    tables: dict[str, list[float]] = {}
    for row in rows:
        tables.setdefault(row["table"], []).append(value(row))
    return mean(float(np.mean(values)) for values in tables.values())


def error(row: Row, end: str, *, signed: bool = False) -> float:
    difference = float(row[f"value{end}"] - row["prior"])
    return difference if signed else abs(difference)


def holds(row: Row, end: str = "") -> bool:
    return bool(row[f"low{end}"] - 1e-9 <= row["prior"] <= row[f"high{end}"] + 1e-9)


def summary(rows: list[Row]) -> Row:
    """Errors, limits and identification of a set of rows, before and now."""
    unidentified = [r for r in rows if not r["identified"]]
    identified = [r for r in rows if r["identified_before"] and r["identified"]]
    found: Row = {"rows": len(rows), "tables": len({r["table"] for r in rows})}
    for end in ("_before", ""):
        tables: dict[str, list[bool]] = {}
        for r in rows:
            tables.setdefault(r["table"], []).append(holds(r, end))
        worst = {name: float(np.mean(h)) for name, h in tables.items() if len(h) >= FEWEST}
        reading = [abs(r["value_before"] - r["prior"]) for r in rows]
        flags = [r[f"identified{end}"] for r in rows]
        found[end.strip("_") or "now"] = {
            "error": by_table(rows, partial(error, end=end)),
            "unidentified_error": by_table(unidentified, partial(error, end=end)),
            "unidentified_bias": by_table(unidentified, partial(error, end=end, signed=True)),
            "holds": mean(holds(r, end) for r in rows),
            "low_holds": mean(r[f"low{end}"] <= r["prior"] + 1e-9 for r in rows),
            "high_holds": mean(r[f"high{end}"] >= r["prior"] - 1e-9 for r in rows),
            "holds_identified": mean(holds(r, end) for r in rows if r[f"identified{end}"]),
            "worst_table": min(worst.items(), key=lambda item: item[1]) if worst else None,
            "tables_below": sum(value < 0.75 for value in worst.values()),
            "width": mean(r[f"high{end}"] - r[f"low{end}"] for r in rows),
            "width_identified": mean(r[f"high{end}"] - r[f"low{end}"] for r in identified),
            "identified": mean(flags),
            "near_identified": mean(f for f, e in zip(flags, reading, strict=True) if e < NEAR),
            "far_not_identified": mean(not f for f, e in zip(flags, reading, strict=True) if e > FAR),
            **({"accuracy": by_table(rows, itemgetter(f"accuracy{end}"))} if "accuracy" in rows[0] else {}),
        }
    found["unidentified"] = len(unidentified)
    if "accuracy" in rows[0]:
        found["accuracy_known"] = by_table(rows, lambda r: r["accuracy_known"])
    return found


GROUPS: dict[str, Callable[[Row], bool]] = {
    "all": lambda r: True,
    "own prior, single sample": lambda r: r["drawn"] == "own" and r["scenario"] == "single-sample",
    "own prior, case-control": lambda r: r["drawn"] == "own" and r["scenario"] == "case-control",
    "prior 0.5, single sample": lambda r: r["drawn"] == "half" and r["scenario"] == "single-sample",
    "prior 0.5, case-control": lambda r: r["drawn"] == "half" and r["scenario"] == "case-control",
    "labelled 5 to 10 %": lambda r: r["drawn"] == "own" and r["rate"] <= 0.1,
    "labelled 20 to 30 %": lambda r: r["drawn"] == "own" and 0.1 < r["rate"] <= 0.3,
    "labelled 50 to 70 %": lambda r: r["drawn"] == "own" and r["rate"] >= 0.5,
    "windows": lambda r: r["set"] == "months",
    "pool": lambda r: r["set"] == "pool",
    "others": lambda r: r["set"] == "others",
}


def trade_off(rows: list[Row]) -> list[Row]:
    """What other limits of the expected error would tell apart."""
    found = []
    for most in (0.0, 0.05, 0.06, constants.EXPECTED_ERROR, 0.09, 0.11):
        flags = [r["strength"] >= constants.ENOUGH_SEPARATION or r["expected_error"] <= most for r in rows]
        told = [(flag, error(r, "_before")) for flag, r in zip(flags, rows, strict=True)]
        found.append(
            {
                "expected_error": most,
                "identified": mean(flags),
                "far_not_identified": mean(not flag for flag, e in told if e > FAR),
                "near_identified": mean(flag for flag, e in told if e < NEAR),
                "error_identified": mean(e for flag, e in told if flag),
            }
        )
    return found


def summaries(rows: list[Row]) -> Row:
    parts = {name: [r for r in rows if test(r)] for name, test in GROUPS.items()}
    return {name: summary(part) for name, part in parts.items() if part}


def show(title: str, found: Row) -> None:
    print(f"\n{title}")
    for name, part in found.items():
        for when in ("before", "now"):
            p = part[when]
            text = " ".join(
                f"{k} {'-' if p[k] is None else format(p[k], '+.3f' if 'bias' in k else '.3f')}"
                for k in p
                if k != "worst_table"
            )
            print(f"{name:26s}{when:7s}{part['rows']:5d} {text} worst {p['worst_table']}")
        if "accuracy_known" in part:
            print(f"{'':26s}known accuracy {part['accuracy_known']:.3f}")


def curve() -> list[Row]:
    """The central value for some readings, strengths and numbers of positives: the curve behind the rule."""
    found = []
    for scenario, share in (("case-control", None), ("single sample, 5 % labelled", 0.05)):
        for n, strength, reading in product((30, 300), (0.0, 0.2, 0.4, 0.6), (0.1, 0.3, 0.6, 0.9)):
            value = central.prior_distribution(reading, strength, float(n), labelled_share=share).mean
            whole = value if share is None else share + (1 - share) * value
            found.append(
                {
                    "scenario": scenario,
                    "positives": n,
                    "strength": strength,
                    "reading": reading,
                    "value": whole,
                }
            )
    return found


# -- choosing constants ----------------------------------------------------------------------------


def evidence(cache: Path) -> pd.DataFrame:
    """What the constants depend on, for every fit of a cache."""
    rows = []
    for fit in read_fits(cache):
        design = ratio_limits(fit.tails, 0.95)
        rows.append(
            {
                "table": fit.table,
                "drawn": fit.drawn,
                "single": fit.scenario == "single-sample",
                "share": fit.labelled,
                "prior": fit.prior,
                "reading": min(max(fit_plateau(fit.tails).prior, 1e-3), 1 - 1e-3),
                "strength": min(max(design.separation, 0.0), 1.0),
                "n": fit.tails.n_positive,
                "high": design.high,
                "upper": min(max(adaptive(fit.tails), design.low), design.high),
            }
        )
    return pd.DataFrame(rows)


def central_values(
    d: pd.DataFrame, usual: tuple[float, float], spread: tuple[float, float, float]
) -> np.ndarray:
    """Central values of the population for all fits at once, as by ``central_prior``."""
    grid = np.linspace(-7.0, 7.0, 71)
    rho, share = expit(grid), d["share"].to_numpy()[:, None]
    prior = share + (1 - share) * rho
    sd = spread[0] * np.exp(-spread[1] * d["strength"].to_numpy()) + spread[2] / np.sqrt(d["n"].to_numpy())
    log = (usual[0] - 1) * np.log(prior) + (usual[1] - 1) * np.log1p(-prior) + np.log(rho * (1 - rho))
    log = log - np.where(d["single"].to_numpy()[:, None], np.log(prior), 0.0)
    log = log - ((grid - logit(d["reading"].to_numpy())[:, None]) / sd[:, None]) ** 2 / 2
    log = np.where(rho <= d["high"].to_numpy()[:, None], log, -np.inf)
    weight = np.exp(log - log.max(axis=1, keepdims=True))
    mean = (weight * prior).sum(axis=1) / weight.sum(axis=1)
    weak, enough = constants.WEAK_SEPARATION, constants.ENOUGH_SEPARATION
    near = np.clip((d["strength"] - weak) / (enough - weak), 0.0, 1.0)
    upper = d["share"] + (1 - d["share"]) * d["upper"]
    return np.asarray(mean + near * (upper - mean))


CANDIDATES = list(product((0.4, 0.6, 0.8), (1.0, 1.6, 2.2, 3.4), (1.2, 1.6, 2.2, 3.2), (1.2, 2.0, 2.8)))


def choose(caches: list[Path]) -> Row:
    """Constants with the smallest error over tables, and the errors of tables that took no part.

    Only fits count whose score does not identify the prior alone, and each table of a cache has the same
    weight. The error is the mean absolute one plus the absolute mean one.
    """
    found = pd.concat([evidence(cache).assign(cache=str(cache)) for cache in caches])
    d = found[found["strength"] < constants.ENOUGH_SEPARATION].reset_index(drop=True)
    size = d.groupby(["cache", "table"])["table"].transform("size")
    weight = (np.where(d["drawn"] == "half", HALF, 1.0) / size).to_numpy()
    values = np.array([central_values(d, (a, b), (s, k, 1.0)) for a, b, s, k in CANDIDATES])
    errors = values - d["prior"].to_numpy()
    tables = d["table"].to_numpy()
    names = np.unique(tables)
    absolute, signed = (
        np.array([[(weight * e)[tables == t].sum() for t in names] for e in part])
        for part in (np.abs(errors), errors)
    )
    best = _smallest(absolute, signed)
    left_out = np.zeros(len(d))
    for t, k in zip(names, best, strict=True):
        left_out[tables == t] = errors[k, tables == t]
    overall = int(np.argmin(absolute.sum(axis=1) + np.abs(signed.sum(axis=1))))
    chosen = {str(CANDIDATES[k]): int((best == k).sum()) for k in np.unique(best)}
    result: Row = {
        "fits": len(d),
        "tables": len(names),
        "constants": CANDIDATES[overall],
        "chosen_without_a_table": chosen,
    }
    for cache, name, kind in product(caches, ("own", "half"), ("single sample", "case-control")):
        at = (d["cache"] == str(cache)) & ((d["drawn"] == "half") == (name == "half"))
        at = (at & (d["single"] == (kind == "single sample"))).to_numpy()
        if at.any():
            result[f"{'default' if cache == caches[0] else 'quick'}, {name}, {kind}"] = {
                "error": float(np.abs(left_out[at]).mean()),
                "error_in_use": float(np.abs(errors[overall, at]).mean()),
                "bias": float(left_out[at].mean()),
                "fits": int(at.sum()),
            }
    return result


# Youden indices between which tails lose their weight in ``adaptive``; at the last ones they keep it.
APART = [(0.75, 0.85), (0.8, 0.9), (0.85, 0.9), (0.85, 0.95), (0.9, 1.0), (1.0, 1.1)]
WELL_SEPARATED = 0.75


def choose_apart(caches: list[Path]) -> Row:
    """The range of separations with the smallest mean error of the reading, each table of equal weight.

    The error of a table that took no part is that of the range which the other tables choose.
    """
    rows = []
    for cache in caches:
        for fit in read_fits(cache):
            if separation_of(fit.tails).least_youden < WELL_SEPARATED:
                continue
            for ends in APART:
                with patch.object(constants, "CLASSES_APART", ends):
                    error = abs(adaptive(fit.tails) - fit.unlabeled_prior)
                rows.append({"table": fit.table, "range": str(ends), "error": error})
    d = pd.DataFrame(rows).pivot_table(index="table", columns="range", values="error")
    best = (d.sum() - d).idxmin(axis=1)
    return {
        "fits": len(rows) // len(APART),
        "tables": len(d),
        "range": d.mean().idxmin(),
        "chosen_without_a_table": best.value_counts().to_dict(),
        "errors": d.mean().to_dict(),
        "error_of_tables_left_out": float(np.mean([d.loc[t, k] for t, k in best.items()])),
    }


def _smallest(absolute: np.ndarray, signed: np.ndarray) -> np.ndarray:
    """The best candidate for each table, by the errors of all other tables."""
    loss = absolute.sum(axis=1, keepdims=True) - absolute
    bias = signed.sum(axis=1, keepdims=True) - signed
    return np.asarray(np.argmin(loss + np.abs(bias), axis=0))


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--pool", type=Path)
    parser.add_argument("--others", type=Path)
    parser.add_argument("--months", type=Path)
    parser.add_argument("--cache", type=Path, help="folder of fits of the default")
    parser.add_argument("--quick-cache", type=Path, help="folder of quick fits")
    parser.add_argument("--make", action="store_true", help="make the fits that the folder does not have")
    parser.add_argument("--quick", action="store_true", help="with --make: quick fits")
    parser.add_argument("--choose", action="store_true", help="only choose constants")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    options = parser.parse_args()
    if not (options.cache or options.quick_cache or options.choose):
        parser.error("at least one of --cache, --quick-cache and --choose is required")
    warnings.simplefilter("ignore", DRPUWarning)  # weak signals are part of the protocol
    if options.make:
        make_fits(options.cache, options.pool, options.others, options.months, quick=options.quick)
        return
    caches = [cache for cache in (options.cache, options.quick_cache) if cache]
    chosen, apart = choose(caches), choose_apart(caches)
    for name, value in (*chosen.items(), *apart.items()):
        print(f"{name}: {value}")
    if options.choose:
        return
    content: Row = {
        "constants": {
            "usual_priors": constants.USUAL_PRIORS,
            "spread": constants.READING_SPREAD,
            "expected_error": constants.EXPECTED_ERROR,
            "weak": constants.WEAK_SEPARATION,
            "apart": constants.CLASSES_APART,
        },
        "choice": chosen,
        "choice_of_apart": apart,
    }
    for name, cache in (("default", options.cache), ("quick", options.quick_cache)):
        if cache is None:
            continue
        fits = list(read_fits(cache))
        each = [training(fit) for fit in fits]
        content[name] = {"training": summaries(each), "trade_off": trade_off(each)}
        content[name]["list"] = sorted({fit.table for fit in fits})
        show(f"{name}: training prior", content[name]["training"])
        if name == "quick":  # its labels are not those of the library
            continue
        content[name]["later"] = summaries([row for fit in fits for row in later(fit)])
        dated = [windows(fit) for fit in fits if fit.kind == "months"]
        tables = sorted({row["table"] for row in dated})
        content[name]["windows"] = {
            t: {k: mean(r[k] for r in dated if r["table"] == t) for k in list(dated[0])[1:]} for t in tables
        }
        show(f"{name}: later priors", content[name]["later"])
        for t, part in content[name]["windows"].items():
            print(t, {k: round(v, 3) for k, v in part.items() if v is not None})
    content["curve"] = curve()
    if not options.dry:
        print("wrote", write_results("central", COMMAND, **content))


if __name__ == "__main__":
    main()
