r"""A second route to the prior: the covariance of two scores from disjoint halves of the columns.

    python -m benchmarks.halves --tables TABLES --cache CACHE --most 30    # some seconds a table

For scores a and b from two halves of the columns,
:math:`\mathrm{Cov}_U = \rho \mathrm{Cov}_+ + (1 - \rho) \mathrm{Cov}_- + \rho (1 - \rho) D_a D_b`, where
:math:`\rho` is the prior of the unlabeled rows. The covariance among the negatives is unknown. Three
assumptions are compared: equal to that of the positives ("equal"), zero ("none"), and the mean of
both. Halves are drawn at random, or chosen among many such that columns that depend on each
other stay together ("grouped"). The estimate is the median over six pairs of halves. It is compared with the
rules of the library on the same tables, alone and as a further reading of the central value.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.model_selection import StratifiedKFold

from benchmarks._fits import FIRST, Fit, cache_file, training_rows
from benchmarks._results import command_line, write_results
from benchmarks._tables import encode, generator
from drpu.priors.methods import prior_from_tails

PAIRS, TRIED, FOLDS = 6, 60, 4
BOOSTING = {
    "objective": "binary", "num_leaves": 6, "learning_rate": 0.08, "min_data_in_leaf": 10,
    "bagging_fraction": 0.7, "bagging_freq": 1, "lambda_l2": 5.0, "verbose": -1, "num_threads": 1,
}  # fmt: skip
ROUNDS = 60

Array = np.ndarray


def blocks(frame: pd.DataFrame) -> list[Array]:
    """The columns of the table as numbers, those of one original column together."""
    return [np.asarray(encode(frame[[name, name]].set_axis(["a", "b"], axis=1)))[:, :1] if
            pd.api.types.is_numeric_dtype(frame[name]) else _one_hot(frame[name])
            for name in frame.columns]  # fmt: skip


def _one_hot(column: pd.Series) -> Array:
    codes: Array = pd.get_dummies(column.astype(str)).to_numpy(dtype=float)
    return codes[:, np.argsort(-codes.sum(axis=0))[:30]]


def dependence(parts: list[Array]) -> Array:
    """Largest absolute correlation between columns of two blocks, for each pair of blocks."""
    centred = [part - part.mean(axis=0) for part in parts]
    units = [part / np.maximum(np.linalg.norm(part, axis=0), 1e-12) for part in centred]
    found = np.zeros((len(parts), len(parts)))
    for i, left in enumerate(units):
        for j in range(i):
            found[i, j] = found[j, i] = float(np.abs(left.T @ units[j]).max())
    return found


def halves(parts: list[Array], rng: np.random.Generator, *, grouped: bool) -> Iterator[tuple[Array, Array]]:
    """Pairs of halves of the blocks; with ``grouped`` those with the least dependence between them."""
    n = len(parts)
    drawn = [rng.permutation(n) for _ in range(TRIED)]
    pairs = [(np.sort(order[: n // 2]), np.sort(order[n // 2 :])) for order in drawn]
    if grouped:
        between = dependence(parts) ** 2
        pairs.sort(key=lambda pair: float(between[np.ix_(*pair)].mean()))
    yield from pairs[:PAIRS]


def out_of_fold(X: Array, labelled: Array, seed: int) -> Array:
    """Ranks of out-of-fold scores of positive against unlabeled rows, in (0, 1)."""
    scores = np.zeros(len(X))
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, labelled):
        data = lightgbm.Dataset(X[train], labelled[train].astype(float))
        scores[test] = np.asarray(lightgbm.train(BOOSTING | {"seed": seed}, data, ROUNDS).predict(X[test]))
    return np.asarray((rankdata(scores) - 0.5) / len(scores))


def priors_of_pair(a: Array, b: Array, labelled: Array) -> dict[str, float]:
    """Prior of the unlabeled rows by each assumption on the covariance among the negatives."""
    P, U = labelled, ~labelled
    of_positive, of_unlabeled = np.cov(a[P], b[P])[0, 1], np.cov(a[U], b[U])[0, 1]
    gap = (a[P].mean() - a[U].mean()) * (b[P].mean() - b[U].mean())  # (1 - rho)^2 Da Db
    if gap <= 1e-6:
        return {}
    odds = (of_unlabeled - of_positive) / gap
    # Without covariance among the negatives: cov_u = rho cov_p + odds gap.
    grid = np.linspace(0.005, 0.995, 199)
    none = np.abs(grid * of_positive + grid / (1 - grid) * gap - of_unlabeled)
    equal = float(np.clip(odds / (1 + odds), 0, 1)) if odds > 0 else 0.0
    zero = float(grid[np.argmin(none)])
    return {"equal": equal, "none": zero, "mean": (equal + zero) / 2}


def estimates(frame: pd.DataFrame, rows: Array, n_labelled: int, name: str) -> dict[str, float]:
    """Medians over pairs of halves, for random and grouped halves and each assumption."""
    parts = [part[rows] for part in blocks(frame)]
    labelled = np.arange(len(rows)) < n_labelled
    found = {}
    for kind in ("random", "grouped"):
        each: dict[str, list[float]] = {}
        rng = generator(name, kind)
        for number, pair in enumerate(halves(parts, rng, grouped=kind == "grouped")):
            a, b = (out_of_fold(np.column_stack([parts[k] for k in half]), labelled, number) for half in pair)
            for assumption, prior in priors_of_pair(a, b, labelled).items():
                each.setdefault(assumption, []).append(prior)
        for assumption, priors in each.items():
            found[f"{kind} {assumption}"] = float(np.median(priors))
            found[f"{kind} {assumption} spread"] = float(np.std(priors))
    return found


def measure(folder: Path, cache: Path, most: int) -> Iterator[dict[str, Any]]:
    """One row for each table with at least four columns, small ones first, with the fit of the default."""
    for path in sorted(folder.glob("*.parquet"), key=lambda path: (path.stat().st_size, path.name)):
        kept = cache_file(cache, path.stem, FIRST)
        if most == 0 or not kept.exists():
            continue
        frame = pd.read_parquet(path)
        drawn = training_rows(path.stem, frame, FIRST)
        if frame.shape[1] < 5 or drawn is None:
            continue
        most -= 1
        labelled, unlabeled = drawn
        rows = np.concatenate([labelled, unlabeled])
        found = estimates(frame.drop(columns="y"), rows, len(labelled), path.stem)
        fit = Fit.load(kept)
        prior = prior_from_tails(fit.tails, labelled_share=fit.labelled, warn=False)
        upper = prior.value if prior.upper is None else prior.upper
        print(
            path.stem, round(fit.unlabeled_prior, 3), {k: round(v, 3) for k, v in found.items()}, flush=True
        )
        yield {
            "table": path.stem,
            "truth": fit.unlabeled_prior,
            "identified": prior.identified,
            "the library": prior.value,
            "upper reading": upper,
            **{f"{name} covariance": value for name, value in found.items() if "spread" not in name},
            **{
                f"mean of the library and {name} covariance": (value + prior.value) / 2
                for name, value in found.items()
                if "spread" not in name
            },
        }


def summary(rows: list[dict[str, Any]], name: str) -> dict[str, float | None]:
    """Mean absolute errors of one rule over all tables, and over those that are not identified."""
    errors = [(abs(r[name] - r["truth"]), r["identified"]) for r in rows if name in r]
    weak = [e for e, identified in errors if not identified]
    return {
        "error": float(np.mean([e for e, _ in errors])),
        "unidentified": float(np.mean(weak)) if weak else None,
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--tables", type=Path, required=True, help="folder of tables")
    parser.add_argument(
        "--cache", type=Path, required=True, help="folder of benchmarks.central with its fits"
    )
    parser.add_argument("--most", type=int, default=-1, help="number of tables, small ones first")
    options = parser.parse_args()
    rows = list(measure(options.tables, options.cache, options.most))
    names = [name for name in rows[0] if name not in ("table", "truth", "identified")]
    rules = {name: summary(rows, name) for name in names}
    for name, found in rules.items():
        print(f"{name:50s} {found}")
    command = f"python -m benchmarks.halves --tables TABLES --cache CACHE --most {options.most}"
    weak = sum(not row["identified"] for row in rows)
    print(
        "wrote", write_results("halves", command, tables=len(rows), unidentified=weak, rules=rules, rows=rows)
    )


if __name__ == "__main__":
    main()
