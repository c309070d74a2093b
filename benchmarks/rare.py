"""Expected precision and recall where positives are rare, against the truth.

    python -m benchmarks.rare --cache CACHE                            # 50 seeds a cell, an hour
    python -m benchmarks.rare --cache CACHE --kernel 5 --auto 0 --dry  # a minute, nothing written

Gaussian classes in one dimension, the training prior known, 1,000 unlabeled training rows. The truth is
computed from the densities, at points across both classes: of few rows above a threshold, none may be
negative by chance. Precision is compared where both flag rows; the share of runs in which nothing is flagged
is shown beside it. A second part counts how often the 95 % interval of the prior of new rows without
positives excludes 0.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import command_line, write_results
from drpu import DRPUClassifier, PriorEstimate, ScoreTails, make_gaussian_pu
from drpu.classifier.reading import read_rows
from drpu.decisions.performance import Decision, expect
from drpu.exceptions import DRPUWarning
from drpu.priors.calibration import calibrate, ratio_threshold
from drpu.state.fitted import AVERAGE_OFFSETS, label_offsets

PRIOR, UNLABELED = 0.4, 1000
POINTS = 4001
SEPARATIONS, PRIORS, POSITIVES = (2, 3), (0.02, 0.05, 0.2), (100, 300, 1000)
LARGEST = {"precision": 0.05, "recall": 0.03}  # mean signed error

Row = dict[str, Any]


def fit(model: str, separation: float, n_positive: int, seed: int) -> dict[str, Any]:
    """One fit as arrays: counts, offsets, scores of points for labels, and shares of either class there."""
    data = make_gaussian_pu(n_positive, UNLABELED, prior=PRIOR, separation=separation, random_state=seed)
    half = separation / 2
    points = np.linspace(-half - 5, half + 5, POINTS)
    shares = [np.exp(-((points - mean) ** 2) / 2) for mean in (-half, half)]
    clf = DRPUClassifier(model, prior=PRIOR, scenario="case-control", random_state=seed).fit(*data.X_y())
    return {
        "levels": clf.tails_.levels,
        "pos": clf.tails_.positive_counts,
        "cnt": clf.tails_.counts,
        "off": label_offsets(clf.fitted_),
        "ls": clf.model_.label_scores(read_rows(clf, points[:, None])),
        "share": np.array([part / part.sum() for part in shares]),
    }


def runs(kept: Mapping[str, Any]) -> Iterator[Row]:
    """Expected and true figures of one fit at each test prior."""
    tails = ScoreTails(np.repeat(kept["levels"], kept["pos"][1:])).add_counts(kept["cnt"])
    scores = kept["ls"]
    averaged = scores.shape[1] > 1
    calibration = calibrate(tails, PRIOR)

    def ratios(at: np.ndarray, offsets: Any) -> np.ndarray:
        each = (at[..., None] + np.asarray(offsets)).reshape(len(at), -1)
        return np.asarray(calibration(each.ravel()).reshape(each.shape).mean(axis=1))

    offsets = tuple((AVERAGE_OFFSETS if averaged else kept["off"]).tolist())
    at_points = ratios(scores, [0.0] if averaged else offsets)
    at_levels = ratios(tails.levels[:, None], offsets)
    for test_prior in PRIORS:
        ratio = ratio_threshold(PRIOR, test_prior)
        above = np.flatnonzero(at_levels > ratio)
        wrong, recall = kept["share"] @ (at_points > ratio)
        share = test_prior * recall + (1 - test_prior) * wrong
        score = float(tails.levels[above[0]]) if above.size else math.inf
        given = PriorEstimate.given
        found = expect(
            Decision(
                tails,
                score,
                ratio,
                models=5,
                offsets=offsets,
                whole=not averaged,
            ),
            given(PRIOR),
            given(test_prior),
        )
        true = float(test_prior * recall / share) if share else math.nan
        yield {
            "test_prior": test_prior,
            "precision": true,
            "recall": float(recall),
            "expected_precision": found.precision.value,
            "expected_recall": found.recall.value,
            "held_precision": bool(found.precision.low <= true <= found.precision.high),
            "held_recall": bool(found.recall.low <= recall <= found.recall.high),
        }


def cell(rows: list[Row]) -> Row:
    """Means of a cell, and mean signed errors."""
    both = [r for r in rows if not math.isnan(r["precision"] + r["expected_precision"])]

    def mean(name: str, part: list[Row]) -> float | None:
        return float(np.mean([r[name] for r in part])) if part else None

    def error(name: str, figure: str, part: list[Row]) -> float | None:
        return float(np.mean([r[name] - r[figure] for r in part])) if part else None

    return {
        "runs": len(rows),
        "flagged": float(np.mean([not math.isnan(r["precision"]) for r in rows])),
        "expected_flagged": float(np.mean([not math.isnan(r["expected_precision"]) for r in rows])),
        "precision": mean("precision", both),
        "recall": mean("recall", rows),
        "error": {
            "precision": error("expected_precision", "precision", both),
            "recall": error("expected_recall", "recall", rows),
        },
        "range_holds": {"precision": mean("held_precision", both), "recall": mean("held_recall", rows)},
    }


def measure(cache: Path, models: list[str], seeds: int) -> Iterator[Row]:
    """All cells of all models; fits that the cache does not have are made."""
    cache.mkdir(parents=True, exist_ok=True)
    for model, separation, n_positive in product(models, SEPARATIONS, POSITIVES):
        found = []
        for seed in range(seeds):
            path = cache / f"{model}_{separation}_{n_positive}_{seed}.npz"
            if not path.exists():
                np.savez(path, **fit(model, separation, n_positive, seed))
            with np.load(path) as kept:
                found += list(runs(kept))
        for test_prior in PRIORS:
            part = [r for r in found if r["test_prior"] == test_prior]
            what: Row = {"model": model, "separation": separation, "n_positive": n_positive}
            row = what | {"test_prior": test_prior} | cell(part)
            errors = {k: None if v is None else round(v, 3) for k, v in row["error"].items()}
            print(*what.values(), test_prior, errors, flush=True)
            yield row


# -- new rows without positives --------------------------------------------------------------------


def without_positives(model: str, seeds: int) -> Row:
    """Share of runs in which the interval of the prior of new negatives excludes 0."""
    excluded = []
    for seed in range(seeds):
        data = make_gaussian_pu(
            300, 1500, prior=PRIOR, separation=2 + seed % 2, test_prior=0.0, n_test=1000, random_state=seed
        )
        clf = DRPUClassifier(model, scenario="case-control", random_state=seed).fit(*data.X_y())
        excluded.append(clf.adapt(data.test).prior_.low > 0)
    return {"model": model, "runs": seeds, "excludes_0": float(np.mean(excluded))}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder of fits; missing ones are made")
    parser.add_argument("--kernel", type=int, default=50, help="seeds of the kernel model")
    parser.add_argument("--auto", type=int, default=50, help="seeds of the default model")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DRPUWarning)
    seeds = {"kernel": options.kernel, "auto": options.auto}
    cells = [row for model, n in seeds.items() for row in measure(options.cache, [model], n)]
    zero = [without_positives(model, min(n, 40)) for model, n in seeds.items()]
    for name, most in LARGEST.items():
        worst = max((abs(c["error"][name]) for c in cells if c["error"][name] is not None), default=0.0)
        print(f"{name}: largest mean error {worst:.3f}, at most {most} is wanted")
    print(zero)
    if not options.dry:
        command = f"python -m benchmarks.rare --cache CACHE --kernel {options.kernel} --auto {options.auto}"
        print("wrote", write_results("rare", command, prior=PRIOR, cells=cells, without_positives=zero))


if __name__ == "__main__":
    main()
