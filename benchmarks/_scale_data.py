"""Any number of rows for measurements of speed and memory: five distributions, and sparse text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

COLUMNS = 30
LAWS = ("network", "steps", "waves", "clusters", "gaussian")
BLOCK = 100_000  # rows drawn at a time: drawing never holds more than the rows that it returns
Rows = NDArray[np.float64]


def draw(law: str, n: int, seed: int = 0, dtype: Any = np.float64) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Rows of a distribution with their true classes, half of them positive."""
    X, y = np.empty((n, COLUMNS), dtype=dtype), np.empty(n, dtype=bool)
    for number, start in enumerate(range(0, n, BLOCK)):
        at = slice(start, min(start + BLOCK, n))
        X[at], y[at] = _block(law, at.stop - at.start, np.random.default_rng([seed, number]))
    return X, y


def _block(law: str, n: int, rng: np.random.Generator) -> tuple[Rows, NDArray[np.bool_]]:
    X = rng.standard_normal((n, COLUMNS))
    if law == "gaussian":
        y = rng.random(n) < 0.5
        X[y] += 0.9 * np.linspace(0.05, 0.6, COLUMNS)
        return X, y
    log_odds = LOG_ODDS[law](X, np.random.default_rng(5)) - _middle(law)
    return X, rng.random(n) < 1 / (1 + np.exp(-log_odds))


@cache
def _middle(law: str) -> float:
    """Log-odds that half of the rows exceed."""
    X = np.random.default_rng(6).standard_normal((50_000, COLUMNS))
    return float(np.median(LOG_ODDS[law](X, np.random.default_rng(5))))


def _steps(X: Rows, fixed: np.random.Generator) -> Rows:
    """Products of the signs of three columns."""
    total = np.zeros(len(X))
    for _ in range(25):
        columns, cuts, size = fixed.choice(COLUMNS, 3, replace=False), fixed.normal(size=3), fixed.normal()
        total += size * np.prod(
            [np.where(X[:, j] > 0.7 * c, 1, -1) for j, c in zip(columns, cuts, strict=True)], 0
        )
    return np.asarray(total / 1.6)


def _waves(X: Rows, fixed: np.random.Generator) -> Rows:
    """A sum of sines, one for each column, and of products of neighbours."""
    total = np.zeros(len(X))
    for j in range(COLUMNS):
        total += fixed.normal() * np.sin(fixed.uniform(0.5, 3) * X[:, j] + fixed.uniform(0, 6))
        total += 0.5 * fixed.normal() * X[:, j] * X[:, (j + 1) % COLUMNS]
    return np.asarray(0.77 * total)


def _network(X: Rows, fixed: np.random.Generator) -> Rows:
    """A network of 20 hidden units."""
    inner = fixed.normal(size=(COLUMNS, 20)) / np.sqrt(COLUMNS) * 1.7
    return np.asarray(1.05 * np.tanh(X @ inner) @ fixed.normal(size=20))


def _clusters(X: Rows, fixed: np.random.Generator) -> Rows:
    """The class is that of the nearest of 12 centres in the first 10 columns; half of them are positive."""
    centres = fixed.normal(size=(12, 10)) * 1.2
    distance = np.stack([((X[:, :10] - centre) ** 2).sum(axis=1) for centre in centres], axis=1)
    return np.asarray((distance[:, 6:].min(axis=1) - distance[:, :6].min(axis=1)) / 2)


LOG_ODDS: dict[str, Callable[[Rows, np.random.Generator], Rows]] = {
    "steps": _steps,
    "waves": _waves,
    "network": _network,
    "clusters": _clusters,
}


def labelled(
    law: str, n: int, seed: int = 0, dtype: Any = np.float64
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Rows and labels of a single sample: a tenth of the rows are labelled positives."""
    X, y = draw(law, n, seed, dtype)
    return X, first_labelled(y, n // 10)


def first_labelled(y: NDArray[np.bool_], positives: int) -> NDArray[np.int64]:
    """Labels of the first positives."""
    label = np.zeros(len(y), dtype=np.int64)
    label[np.flatnonzero(y)[:positives]] = 1
    return label


def sparse_text(n: int, words: int, seed: int = 0) -> tuple[Any, NDArray[np.int64], NDArray[np.bool_]]:
    """Counts of words, 1/1000 of them not 0; 1/50 of the words are more frequent in one class."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    each = max(1, words // 1000)
    popular = np.minimum((words * rng.random((n, each)) ** 2).astype(np.int64), words - 1)
    shift = words // 50
    telling = rng.random((n, each)) < 0.1
    own = np.where(
        y[:, None], rng.integers(0, shift, (n, each)), words - 1 - rng.integers(0, shift, (n, each))
    )
    columns = np.where(telling, own, popular)
    rows = np.repeat(np.arange(n), each)
    X = sparse.csr_matrix((np.ones(n * each), (rows, columns.ravel())), shape=(n, words))
    return X, first_labelled(y, len(y) // 10), y
