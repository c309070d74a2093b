"""Cost of privacy: errors of priors from artifacts with fewer levels or noisy counts.

    python -m benchmarks.privacy [--runs 20]
    python -m benchmarks.privacy --docs    # write the table of the result file into docs/privacy.md

Scores are log-ratios of two normal classes 2.5 apart, with added noise of 0.3 to imitate a
model. Training and test rows have different priors; both are estimated from the counts of
an artifact. Means over the priors and the runs.
"""

from __future__ import annotations

import argparse
import time
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import read_results, write_results
from drpu.core.prior.estimate import prior_from_tails
from drpu.core.reduction import GridCounts, coarsen, privatize
from drpu.core.tails import ScoreTails
from drpu.exceptions import DataError, DRPUWarning

SIZES = ((100, 1000), (500, 5000), (2500, 25_000), (10_000, 100_000))
PRIORS = ((0.1, 0.5), (0.3, 0.1), (0.5, 0.8), (0.8, 0.3))  # training and test
FORMS: dict[str, dict[str, Any]] = {
    "exact": {},
    **{f"levels={k}": {"levels": k} for k in (25, 50, 100, 200)},
    **{f"epsilon={e:g}": {"epsilon": e} for e in (0.1, 0.5, 1.0, 5.0)},
}
APART, BLUR = 2.5, 0.3
DOCS = Path(__file__).parent.parent / "docs" / "privacy.md"
MARKS = "<!-- table -->", "<!-- end of table -->"


def scores(rng: np.random.Generator, n: int, share: float, train_prior: float) -> Any:
    """Log-ratios with noise, relative to the training population, of rows with the prior ``share``."""
    latent = rng.normal(0, 1, n) + APART * (rng.random(n) < share)
    ratio = np.exp(APART * latent - APART**2 / 2)
    return np.log(ratio / (train_prior * ratio + 1 - train_prior)) + rng.normal(0, BLUR, n)


def protected(exact: ScoreTails, grid: GridCounts, form: dict[str, Any], seed: int) -> ScoreTails:
    if "levels" in form:
        return coarsen(exact, form["levels"]).tails
    if "epsilon" in form:
        return privatize(grid, form["epsilon"], random_state=seed)
    return exact


def cell(n_positive: int, n: int, runs: int) -> list[dict[str, Any]]:
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in FORMS}
    lost = dict.fromkeys(FORMS, 0)
    for priors in PRIORS:
        for run in range(runs):
            seed = zlib.crc32(repr((n_positive, priors, run)).encode())
            rng = np.random.default_rng(seed)
            positive, unlabeled = scores(rng, n_positive, 1, priors[0]), scores(rng, n, priors[0], priors[0])
            new = scores(rng, n, priors[1], priors[0])
            exact, grid = ScoreTails(positive).update(unlabeled), GridCounts.of(positive, unlabeled)
            for name, form in FORMS.items():
                try:
                    tails = protected(exact, grid, form, seed)
                except DataError:
                    lost[name] += 1
                    continue
                found[name].append(_errors(tails, new, priors))
    rows = []
    for name, errors in found.items():
        row: dict[str, Any] = {"n_positive": n_positive, "n": n, "form": name, "lost": lost[name]}
        if errors:
            keys = ("train_error", "test_error", "train_covered", "test_covered", "levels")
            row |= dict(zip(keys, np.mean(errors, axis=0).tolist(), strict=True))
        rows.append(row)
        print(line(row), flush=True)
    return rows


def _errors(tails: ScoreTails, new: Any, priors: tuple[float, float]) -> tuple[float, ...]:
    train = prior_from_tails(tails)
    test = prior_from_tails(tails.empty().update(new), reference=tails, train_prior=train)
    return (
        abs(train.value - priors[0]),
        abs(test.value - priors[1]),
        train.low <= priors[0] <= train.high,
        test.low <= priors[1] <= test.high,
        len(tails.levels),
    )


def line(row: dict[str, Any]) -> str:
    start = f"{row['n_positive']:6d} {row['n']:7d}  {row['form']:12s}"
    if "train_error" not in row:
        return f"{start}  nothing left"
    return (
        f"{start}  train {row['train_error']:.3f}  test {row['test_error']:.3f}  covered "
        f"{row['train_covered']:.2f} {row['test_covered']:.2f}  levels {row['levels']:5.0f}  "
        f"lost {row['lost']}"
    )


def write_docs(record: dict[str, Any]) -> None:
    """Replace the text between the marks of the page."""
    columns = ("train_error", "test_error", "train_covered", "test_covered", "lost")
    lines = ["| positives | unlabeled | kept | " + " | ".join(c.replace("_", " ") for c in columns) + " |"]
    lines.append("|---:|---:|---|" + "---:|" * len(columns))
    for row in record["rows"]:
        cells = [f"{row[c]:.3f}" if c in row else "" for c in columns[:-1]]
        lost = f"{row['lost']} of {record['runs'] * len(record['priors'])}" if row["lost"] else ""
        lines.append(f"| {row['n_positive']} | {row['n']} | {row['form']} | {' | '.join([*cells, lost])} |")
    start, rest = DOCS.read_text().split(MARKS[0])
    end = rest.split(MARKS[1])[1]
    DOCS.write_text("\n".join([start + MARKS[0], *lines, MARKS[1] + end]))
    print("wrote", DOCS)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--docs", action="store_true", help="only write the page")
    options = parser.parse_args()
    if options.docs:
        return write_docs(read_results("privacy"))
    warnings.simplefilter("ignore", DRPUWarning)  # overlapping classes are intended here
    start = time.perf_counter()
    rows = [row for size in SIZES for row in cell(*size, options.runs)]
    print(f"{time.perf_counter() - start:.0f} s")
    command = f"python -m benchmarks.privacy --runs {options.runs}"
    print("wrote", write_results("privacy", command, priors=PRIORS, runs=options.runs, rows=rows))


if __name__ == "__main__":
    main()
