"""Expected precision and recall where positives are rare, against the truth.

    python -m benchmarks.rare                    # 50 seeds a cell, kernel and default model, an hour
    python -m benchmarks.rare --seeds 5 --dry    # a few minutes, nothing written

Gaussian classes, the training prior known, 1,000 unlabeled training rows. The truth is measured on 20,000
rows of each class. Precision is compared where both flag rows; the share of runs in which nothing is
flagged is shown beside it. A second part counts how often the 95 % interval of the prior of new rows without
positives excludes 0.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks._results import write_results
from drpu import DRPUClassifier, make_gaussian_pu
from drpu.exceptions import DRPUWarning

PRIOR, UNLABELED = 0.4, 1000
SEPARATIONS, PRIORS, POSITIVES = (2, 3), (0.02, 0.05, 0.2), (100, 300, 1000)
LARGEST = {"precision": 0.05, "recall": 0.03}  # mean signed error

Row = dict[str, Any]


def runs(model: str, separation: float, n_positive: int, seed: int) -> Iterator[Row]:
    """Expected and true figures of one fit at each test prior."""
    data = make_gaussian_pu(
        n_positive, UNLABELED, prior=PRIOR, separation=separation, test_prior=0.5, n_test=40_000,
        random_state=seed,
    )  # fmt: skip
    clf = DRPUClassifier(model, prior=PRIOR, random_state=seed).fit(*data.X_y())
    truth = np.asarray(data.test_labels)
    for test_prior in PRIORS:
        adapted = clf.at_prior(test_prior)
        flagged = np.asarray(adapted.predict(data.test)) == 1
        recall, wrong = flagged[truth == 1].mean(), flagged[truth == 0].mean()
        share = test_prior * recall + (1 - test_prior) * wrong
        found = adapted.expected_performance()
        yield {
            "test_prior": test_prior,
            "precision": float(test_prior * recall / share) if share else math.nan,
            "recall": float(recall),
            "expected_precision": float(found.precision),
            "expected_recall": float(found.recall),
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
    }


def measure(models: list[str], seeds: int) -> Iterator[Row]:
    """All cells of all models."""
    for model in models:
        for separation in SEPARATIONS:
            for n_positive in POSITIVES:
                found = [r for seed in range(seeds) for r in runs(model, separation, n_positive, seed)]
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
        clf = DRPUClassifier(model, random_state=seed).fit(*data.X_y())
        excluded.append(clf.adapt(data.test).prior_.low > 0)
    return {"model": model, "runs": seeds, "excludes_0": float(np.mean(excluded))}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--models", nargs="*", default=["kernel", "auto"])
    parser.add_argument("--dry", action="store_true", help="write nothing")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DRPUWarning)
    cells = list(measure(options.models, options.seeds))
    zero = [without_positives(model, min(options.seeds, 40)) for model in options.models]
    for name, most in LARGEST.items():
        worst = max((abs(c["error"][name]) for c in cells if c["error"][name] is not None), default=0.0)
        print(f"{name}: largest mean error {worst:.3f}, at most {most} is wanted")
    print(zero)
    if not options.dry:
        command = f"python -m benchmarks.rare --seeds {options.seeds} --models {' '.join(options.models)}"
        print("wrote", write_results("rare", command, prior=PRIOR, cells=cells, without_positives=zero))


if __name__ == "__main__":
    main()
