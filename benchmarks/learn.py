"""Learn what is usual from tables whose truth is known, and measure it on tables that were left out.

    python -m benchmarks.learn --fits CACHE --tables FOLDERS    # make the fits that CACHE lacks; hours
    python -m benchmarks.learn                                  # learn, write coefficients; minutes
    python -m benchmarks.learn --without tail                   # figures without some evidence

FOLDERS have Parquet files with a target ``y``, dated ones also a column ``period``:
``python -m benchmarks.collect`` and ``benchmarks.more_months`` make some. An interrupted run goes on. The
evidence of all fits and their truth are in ``benchmarks/evidence``, so that learning needs no fits.

Tables of one source are always left out together. Every figure of a table comes from coefficients that
were learned without its source; the coefficients of the package are learned from all of them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy
import torch

from benchmarks._pool import SIMULATED, PoolFit, make_fits, read_pool, simulate
from benchmarks._results import ROOT, command_line, commit_of_code, write_results
from drpu.beliefs.density import LearnedDensity, bounded_log_spread
from drpu.beliefs.priors import (
    FAR_OFF,
    PRIORS,
    STEP,
    PriorDistribution,
    cut_distribution,
    log_odds_of_cut,
    prior_evidence,
)

EVIDENCE = Path(__file__).parent / "evidence" / "training_prior.csv.xz"
COEFFICIENTS = ROOT / "src" / "drpu" / "beliefs" / "learned.json"
COMMAND = "python -m benchmarks.learn"

BASE = "plateau"
FACTORS = ("positives",)
COUNTS = ("positives", "unlabeled")
UNITS = {
    "plateau": "log-odds of the prior by the height of the plateau",
    "slope": "log slope of the plateau",
    "limit": "log-odds of the upper limit at 95 %, which needs no assumption",
    "area": "area under the ROC curve of positives against unlabeled rows",
    "positives": "one over the root of the held-out positives",
    "unlabeled": "one over the root of the unlabeled rows",
    "single": "1 for a single sample, 0 for two samples",
    "labelled": "log-odds of the labelled share of a single sample",
}
FACTS = ("table", "source", "learner", "protocol", "scenario", "labelled_share", "truth", "cut")
RULES = ["rules_value", "rules_low", "rules_high", *(f"rules_{k}" for k in range(10)), "rules_identified"]

# What is usual is a choice: how many fits there are of each prior, and how much simulated ones count.
POWER_OF_PRIORS = 0.75  # of the number of fits with a similar prior, by which a fit is divided
SHARE_OF_SIMULATED = 0.1  # of the weight of the real fits
RIDGE = 0.01  # the penalty of a squared coefficient of standardised evidence
FOLDS = 5
MOST_STEPS = 300

# Of the fits of tables left out whose prior is called identified, at most so many are off by FAR_OFF.
MOST_OFF = 0.06

Figures = dict[str, Any]


# -- evidence --------------------------------------------------------------------------------------


def evidence_of(fit: PoolFit) -> dict[str, Any]:
    """One line of the pool: facts, evidence, and what the rules that were replaced said."""
    facts = fit.facts
    tails = fit.tails
    line: dict[str, Any] = {
        "table": facts.table,
        "source": facts.source,
        "learner": facts.learner,
        "protocol": facts.protocol,
        "scenario": facts.scenario,
        "labelled_share": facts.labelled,
        "truth": facts.truth,
        "cut": log_odds_of_cut(tails),
    }
    line.update(prior_evidence(tails, labelled_share=facts.labelled or None))
    if facts.by_rules:
        line.update(zip(RULES, facts.by_rules, strict=True))
    return line


def write_evidence(fits: list[PoolFit]) -> pd.DataFrame:
    """The evidence of the fits and of the simulated ones, as one small file."""
    pool = pd.DataFrame([evidence_of(fit) for fit in [*fits, *simulate(range(SIMULATED))]])
    EVIDENCE.parent.mkdir(exist_ok=True)
    pool.round(5).to_csv(EVIDENCE, index=False)
    return pool


def read_evidence() -> pd.DataFrame:
    """The pool that :func:`write_evidence` wrote."""
    return pd.read_csv(EVIDENCE)


def evidence_names(pool: pd.DataFrame) -> list[str]:
    """Names of the columns that are evidence, in their order."""
    return [name for name in pool.columns if name in UNITS or name.startswith("tail_")]


# -- learning --------------------------------------------------------------------------------------


def empty_density(pool: pd.DataFrame, names: list[str]) -> LearnedDensity:
    """Ranges and scales of the evidence, with coefficients of zero."""
    values = pool[names].to_numpy(dtype=float)
    missing = np.nanmedian(values, axis=0)
    factors = tuple(name for name in FACTORS if name in names)
    values = np.where(np.isnan(values), missing, values)
    return LearnedDensity(
        names=tuple(names),
        low=values.min(axis=0),
        high=values.max(axis=0),
        centre=values.mean(axis=0),
        scale=values.std(axis=0),
        missing=missing,
        counts=np.array([float(name in COUNTS) for name in names]),
        chance_of_far_off=0.0,
        base=BASE,
        factors=factors,
        coefficients=np.zeros((6, (1 + len(factors)) * len(names) + 1)),
    )


def weights_of(pool: pd.DataFrame) -> np.ndarray:
    """Weights of the fits: those whose prior is common count less, simulated ones little."""
    simulated = (pool["learner"] == "simulated").to_numpy()
    tenth = np.minimum((10 * pool["truth"]).astype(int), 9)
    weight = np.empty(len(pool))
    for kind, share in ((~simulated, 1.0), (simulated, SHARE_OF_SIMULATED)):
        similar = tenth[kind].value_counts()
        of_kind = np.asarray(tenth[kind].map(similar), dtype=float) ** -POWER_OF_PRIORS
        weight[kind] = share * of_kind / of_kind.sum()
    return np.asarray(weight / weight.sum())


def learn(pool: pd.DataFrame, names: list[str]) -> LearnedDensity:
    """The coefficients with the largest penalised likelihood."""
    density = empty_density(pool, names)
    values = pool[names].to_numpy(dtype=float)
    values = np.where(np.isnan(values), density.missing, values)
    columns = torch.tensor(density.columns(values))
    base = torch.tensor(pool[BASE].to_numpy(dtype=float))[:, None]
    log_odds = scipy.special.logit(pool["truth"].clip(PRIORS[0], PRIORS[-1]).to_numpy())
    target = torch.tensor(log_odds)[:, None]
    cut = torch.tensor(np.maximum(pool["cut"].to_numpy(), log_odds) + STEP)[:, None]
    weight = torch.tensor(weights_of(pool))

    def loss_of(flat: np.ndarray) -> tuple[float, np.ndarray]:
        coefficients = torch.tensor(flat.reshape(6, -1), requires_grad=True)
        log_weight, difference, log_spread = torch.split(columns @ coefficients.T, 2, dim=1)
        log_spread = bounded_log_spread(log_spread)
        log_weight = torch.log_softmax(log_weight, 1)
        deviation = (target - base - difference) / log_spread.exp()
        fit = torch.logsumexp(log_weight - deviation**2 / 2 - log_spread, 1)
        below_cut = torch.special.log_ndtr((cut - base - difference) / log_spread.exp())
        possible = torch.logsumexp(log_weight + below_cut, 1)
        penalty = RIDGE * (coefficients[:, :-1] ** 2).sum()
        loss = penalty - (weight * (fit - possible)).sum()
        (gradient,) = torch.autograd.grad(loss, coefficients)
        return float(loss.detach()), gradient.numpy().ravel()

    start = np.zeros_like(density.coefficients)
    start[:, -1] = (1.0, 0.0, 0.0, -1.0, -1.0, 0.3)  # a narrow normal, and a wide one below it
    best, _, _ = scipy.optimize.fmin_l_bfgs_b(loss_of, start.ravel(), maxiter=MOST_STEPS)
    return replace(density, coefficients=best.reshape(6, -1))


def folds_of(pool: pd.DataFrame) -> np.ndarray:
    """The fold of each fit, by its source."""
    sources = np.sort(pool["source"].unique())
    order = np.random.default_rng(1).permutation(len(sources))
    fold = dict(zip(sources[order], np.arange(len(sources)) % FOLDS, strict=True))
    return np.asarray(pool["source"].map(fold))


def chance_of_far_off(pool: pd.DataFrame, distributions: list[PriorDistribution]) -> float:
    """The largest chance of being far off with which identified priors keep their promise."""
    chances = []
    off = []
    for (_, line), distribution in zip(pool.iterrows(), distributions, strict=True):
        if line["learner"] == "simulated":
            continue
        share = float(line["labelled_share"])
        population = distribution.with_labelled(share)
        chances.append(population.chance_of_far_off)
        off.append(abs(population.mean - share - (1 - share) * line["truth"]) > FAR_OFF)
    order = np.argsort(chances)
    share_off = np.cumsum(np.array(off)[order]) / np.arange(1, len(order) + 1)
    kept = np.flatnonzero(share_off <= MOST_OFF)
    return round(float(np.array(chances)[order][kept[-1]]), 3)


def left_out(pool: pd.DataFrame, names: list[str]) -> list[PriorDistribution]:
    """The distribution of each fit by coefficients that were learned without its source."""
    fold = folds_of(pool)
    found: list[PriorDistribution | None] = [None] * len(pool)
    for k in range(FOLDS):
        density = learn(pool[fold != k], names)
        for row in np.flatnonzero(fold == k):
            line = pool.iloc[row]
            evidence = {name: None if np.isnan(line[name]) else float(line[name]) for name in names}
            found[row] = cut_distribution(density.mixture(evidence), float(line["cut"]))
    return [distribution for distribution in found if distribution is not None]


# -- figures ---------------------------------------------------------------------------------------

QUANTILES = (np.arange(10) + 0.5) / 10


def ranked_score(truth: float, quantiles: np.ndarray) -> float:
    """Continuous ranked probability score of ten equally likely values."""
    missed = np.where(truth < quantiles, 1 - QUANTILES, -QUANTILES)
    return float(2 * np.mean(missed * (quantiles - truth)))


def lines_of(pool: pd.DataFrame, distributions: list[PriorDistribution]) -> pd.DataFrame:
    """Error, score, limits and identification of each fit, as learned and by the former rules."""
    found = []
    most = chance_of_far_off(pool, distributions)
    for (_, line), distribution in zip(pool.iterrows(), distributions, strict=True):
        truth = float(line["truth"])
        quantiles = np.array([distribution.quantile(q) for q in QUANTILES])
        low, high = distribution.quantile(0.025), distribution.quantile(0.975)
        figures = {
            "error": abs(distribution.mean - truth),
            "off": (1 - line["labelled_share"]) * abs(distribution.mean - truth) > FAR_OFF,
            "score": ranked_score(truth, quantiles),
            "holds": low - 1e-9 <= truth <= high + 1e-9,
            "width": high - low,
            "identified": distribution.with_labelled(line["labelled_share"]).chance_of_far_off < most,
        }
        if not np.isnan(line["rules_value"]):
            by_rules = line[RULES[3:13]].to_numpy(dtype=float)
            figures["rules_error"] = abs(line["rules_value"] - truth)
            figures["rules_off"] = (1 - line["labelled_share"]) * figures["rules_error"] > FAR_OFF
            figures["rules_score"] = ranked_score(truth, by_rules)
            figures["rules_holds"] = line["rules_low"] <= truth <= line["rules_high"]
            figures["rules_width"] = line["rules_high"] - line["rules_low"]
            figures["rules_identified"] = line["rules_identified"] > 0.5
        found.append(figures)
    return pd.DataFrame(found, index=pool.index)


def groups_of(pool: pd.DataFrame) -> dict[str, np.ndarray]:
    """The groups of fits that are reported, as flags."""
    truth = pool["truth"]
    real = pool["learner"] != "simulated"
    groups = {
        "real tables": real,
        "default model": real & (pool["learner"] == "auto"),
        "other learners": real & (pool["learner"] != "auto"),
        "below .1": real & (truth < 0.1),
        ".1 to .3": real & (truth >= 0.1) & (truth < 0.3),
        ".3 to .6": real & (truth >= 0.3) & (truth < 0.6),
        "above .6": real & (truth >= 0.6),
        "own prior": real & (pool["protocol"] == "own prior"),
        "moved prior": real & (pool["protocol"] == "moved prior"),
        "single sample": real & (pool["scenario"] == "single-sample"),
        "two samples": real & (pool["scenario"] == "case-control"),
        "area above .8": real & (pool["area"] > 0.8),
        "simulated": ~real,
    }
    return {name: flags.to_numpy() for name, flags in groups.items()}


def figures_by_group(pool: pd.DataFrame, lines: pd.DataFrame) -> list[Figures]:
    """Means of each group, and the figures of its identified fits."""
    results = []
    for name, inside in groups_of(pool).items():
        group = lines[inside]
        result: Figures = {"group": name, "fits": len(group)}
        for prefix in ("", "rules_"):
            if f"{prefix}error" not in group or group[f"{prefix}error"].isna().all():
                continue
            for figure in ("error", "score", "holds", "width", "identified"):
                result[prefix + figure] = float(group[prefix + figure].astype(float).mean())
            identified = group[group[f"{prefix}identified"].astype(float) > 0.5]
            result[f"{prefix}off"] = float((identified[f"{prefix}off"].astype(float)).mean())
        results.append({key: None if value != value else value for key, value in result.items()})
    return results


def show(results: list[Figures]) -> None:
    """The groups as a table."""
    print(pd.DataFrame(results).round(3).to_string(index=False))


def loss_without(pool: pd.DataFrame, names: list[str], dropped: str) -> Figures:
    """How much larger the score of real tables is without some evidence, with its standard error."""
    kept = [name for name in names if not name.startswith(dropped)]
    with_all = lines_of(pool, left_out(pool, names))["score"]
    without = lines_of(pool, left_out(pool, kept))["score"]
    real = pool["learner"] != "simulated"
    by_source = (without - with_all)[real].groupby(pool["source"][real]).mean()
    error = float(by_source.std() / np.sqrt(len(by_source)))
    return {
        "without": dropped,
        "score": float(without[real].mean()),
        "loss": float(by_source.mean()),
        "error": error,
    }


# -- the command -----------------------------------------------------------------------------------


def record_of(density: LearnedDensity, pool: pd.DataFrame, score: float, chance: float) -> Figures:
    """What the package keeps of a density."""
    evidence = []
    for k, name in enumerate(density.names):
        unit = UNITS.get(name, "log of the share of unlabeled rows over that of positives, at this recall")
        line = {"name": name, "unit": unit, "is_count": int(density.counts[k])}
        for field in ("low", "high", "centre", "scale", "missing"):
            line[field] = round(float(getattr(density, field)[k]), 6)
        evidence.append(line)
    real = pool[pool["learner"] != "simulated"]
    return {
        "command": COMMAND,
        "commit": commit_of_code(),
        "tables": sorted(real["table"].unique()),
        "fits": len(real),
        "simulated": len(pool) - len(real),
        "score_of_tables_left_out": round(score, 4),
        "chance_of_far_off": chance,
        "base": density.base,
        "factors": list(density.factors),
        "evidence": evidence,
        "coefficients": np.round(density.coefficients, 5).tolist(),
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--tables", type=Path, nargs="+", default=[], help="folders of tables")
    parser.add_argument("--fits", type=Path, help="folder of fits; what it lacks is made")
    parser.add_argument("--seconds", type=float, default=10_800, help="time for making fits")
    parser.add_argument("--without", help="evidence to leave out, by the beginning of its name")
    options = parser.parse_args()
    if options.fits is not None:
        make_fits(options.fits, options.tables, options.seconds)
        write_evidence(read_pool(options.fits))
    pool = read_evidence()
    names = evidence_names(pool)
    torch.set_num_threads(1)
    if options.without:
        print(loss_without(pool, names, options.without))
        return
    distributions = left_out(pool, names)
    groups = figures_by_group(pool, lines_of(pool, distributions))
    show(groups)
    chance = chance_of_far_off(pool, distributions)
    record = {"training_prior": record_of(learn(pool, names), pool, groups[0]["score"], chance)}
    COEFFICIENTS.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    losses = [loss_without(pool, names, name) for name in names if name not in (BASE, "positives")]
    print("wrote", write_results("learn", COMMAND, groups=groups, losses=losses))


if __name__ == "__main__":
    main()
