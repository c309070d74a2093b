"""Six laws of 30 columns on which settings are chosen; none of them is reported elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

COLUMNS = 30
Rows = NDArray[np.float64]
Law = Callable[[Rows, np.random.Generator], Rows]


def draw(law: str, n: int, seed: int, structure: int) -> tuple[Rows, NDArray[np.bool_]]:
    """Rows with their classes, about half of them positive; ``structure`` chooses the coefficients."""
    rng = np.random.default_rng([seed, 77])
    X = rng.standard_normal((n, COLUMNS))
    if law == "heavy":
        X /= np.sqrt(rng.chisquare(4, (n, 1)) / 4)
    log_odds = LAWS[law](X, np.random.default_rng([structure, 1234]))
    log_odds = 2.2 * (log_odds - np.median(log_odds)) / log_odds.std()
    return X, rng.random(n) < 1 / (1 + np.exp(-log_odds))


def _additive(X: Rows, fixed: np.random.Generator) -> Rows:
    total = np.zeros(len(X))
    for j in range(15):
        total += fixed.normal() * np.sin(fixed.uniform(0.5, 2.5) * X[:, j] + fixed.uniform(0, 6))
    return total


def _heavy(X: Rows, fixed: np.random.Generator) -> Rows:
    """A saturated linear score of correlated columns with heavy tails."""
    mixed = X @ (fixed.normal(size=(COLUMNS, COLUMNS)) / np.sqrt(COLUMNS) + np.eye(COLUMNS))
    return np.asarray(np.tanh(mixed @ (fixed.normal(size=COLUMNS) * (fixed.random(COLUMNS) < 0.4)) / 2))


def _pairs(X: Rows, fixed: np.random.Generator) -> Rows:
    total = np.zeros(len(X))
    for _ in range(20):
        i, j = fixed.choice(COLUMNS, 2, replace=False)
        total += fixed.normal() * np.where(X[:, i] > 0.5 * fixed.normal(), 1, -1) * np.tanh(2 * X[:, j])
    return total


def _radial(X: Rows, fixed: np.random.Generator) -> Rows:
    """The distance to the nearest of five points in eight columns."""
    points = fixed.normal(size=(5, 8))
    return np.asarray(-np.min([((X[:, :8] - point) ** 2).sum(axis=1) for point in points], axis=0))


def _trees(X: Rows, fixed: np.random.Generator) -> Rows:
    """Thirty trees of four levels."""
    total, rows = np.zeros(len(X)), np.arange(len(X))
    for _ in range(30):
        node = np.zeros(len(X), dtype=np.int64)
        for level in range(4):
            columns, cuts = fixed.integers(0, COLUMNS, 2**level), 0.8 * fixed.normal(size=2**level)
            node = 2 * node + (X[rows, columns[node]] > cuts[node])
        total += fixed.normal(size=16)[node]
    return total


def _triples(X: Rows, fixed: np.random.Generator) -> Rows:
    total = np.zeros(len(X))
    for _ in range(12):
        i, j, k = fixed.choice(COLUMNS, 3, replace=False)
        on, side = X[:, i] > 0.6 * fixed.normal(), X[:, j] > 0.6 * fixed.normal()
        total += fixed.normal() * on * np.where(side, 1, -1) * np.clip(X[:, k], -1, 1)
    return total


LAWS: dict[str, Law] = {
    "additive": _additive,
    "heavy": _heavy,
    "pairs": _pairs,
    "radial": _radial,
    "trees": _trees,
    "triples": _triples,
}
