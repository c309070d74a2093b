"""Real tables as PU samples: reading, encoding, and the two protocols of :mod:`benchmarks.tables`."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from drpu import DRPUClassifier, ScoreTails, make_pu
from drpu.state.fitted import label_offsets

PROTOCOLS = ("A", "B")
LEVELS = 30  # levels of a string column that get their own column
WORDS = 1000  # words of a text column


@dataclass(frozen=True)
class Table:
    """A table as numbers, with its true labels."""

    name: str
    X: Any
    y: np.ndarray


@dataclass(frozen=True)
class Scored:
    """One training sample and its test samples after the model has scored them.

    ``tails`` count the unlabeled training rows, ``scores`` has one row for each test row
    and one column for each fold model, ``label_scores`` those whose ratios are averaged for labels.
    ``samples`` maps a test prior to rows of both.
    """

    table: str
    protocol: str
    seed: int
    columns: int
    prior: float
    labelled: float  # labelled positives over all training rows
    tails: ScoreTails
    scores: np.ndarray
    label_scores: np.ndarray
    y: np.ndarray
    samples: dict[float, np.ndarray]

    @property
    def unlabeled_prior(self) -> float:
        """Share of positives among the training rows without a label."""
        return (self.prior - self.labelled) / (1 - self.labelled)


def read_tables(folder: Path, names: list[str] | None = None) -> Iterator[Table]:
    """Every Parquet file of ``folder`` with a target ``y``."""
    for path in sorted(folder.glob("*.parquet")):
        if names and path.stem not in names:
            continue
        frame = pd.read_parquet(path)
        yield Table(path.stem, encode(frame.drop(columns="y")), frame["y"].to_numpy().astype(int))


def encode(frame: pd.DataFrame) -> Any:
    """A table as numbers: one-hot strings, medians for missing values, TF-IDF for one column of text."""
    if frame.shape[1] == 1 and not pd.api.types.is_numeric_dtype(frame.iloc[:, 0]):
        text = TfidfVectorizer(min_df=3, max_features=WORDS).fit_transform(frame.iloc[:, 0].astype(str))
        return sparse.csr_matrix(text)
    parts = []
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column):
            values = column.to_numpy(dtype=float, na_value=np.nan)
            parts.append(np.where(np.isnan(values), np.nanmedian(values), values)[:, None])
            continue
        known = column.astype(object).where(column.notna(), "missing")
        top = known.value_counts().index[:LEVELS]
        hot = [(known == level).to_numpy(dtype=float) for level in top]
        other = ~known.isin(top).to_numpy(dtype=bool)
        parts.append(np.column_stack([*hot, other] if other.any() else hot))
    return np.column_stack(parts)


def generator(*what: Any) -> np.random.Generator:
    """A separate random generator for each kind of draw."""
    return np.random.default_rng(zlib.crc32(repr(what).encode()))


def test_priors(protocol: str, own: float) -> tuple[float, ...]:
    """Priors of the test samples: fixed ones, or multiples of the table's own odds."""
    if protocol == "A":
        return (0.2, 0.5, 0.8)
    odds = own / (1 - own)
    return tuple(k * odds / (1 + k * odds) for k in (1 / 3, 1.0, 3.0))


def draw(y: np.ndarray, prior: float, most: int, rng: np.random.Generator) -> np.ndarray:
    """Positions in ``y`` of a sample with a prior: as many rows as possible up to ``most``, none twice."""
    pools = [rng.permutation(np.flatnonzero(y == label)) for label in (1, 0)]
    n = int(min(most, len(pools[0]) / prior, len(pools[1]) / (1 - prior)))
    k = round(n * prior)
    return np.concatenate([pools[0][:k], pools[1][: n - k]])


def score(
    table: Table,
    protocol: str,
    seed: int,
    *,
    share: float = 0.3,
    rows: int = 4000,
    columns: int = 0,
    model: Any = "auto",
) -> Scored:
    """Draw the samples of one protocol, fit once, and score all test rows.

    ``columns`` above 0 keeps that many random columns, for a table with a weaker signal.
    """
    rng = generator(table.name, protocol, seed, columns)
    X, y = table.X, table.y
    if columns:
        X = X[:, np.sort(rng.permutation(X.shape[1])[:columns])]
    order = rng.permutation(len(y))
    cut = round(0.6 * len(y))
    first, second = order[:cut], order[cut:]
    prior = 0.5 if protocol == "A" else float(y.mean())
    train = first[draw(y[first], prior, rows, rng)]
    sample = make_pu(X[train], y[train], labelled=share, scenario="single-sample", random_state=seed)
    clf = DRPUClassifier(model, scenario="single-sample", random_state=seed).fit(sample.X, sample.y)

    drawn = {q: second[draw(y[second], q, rows, rng)] for q in test_priors(protocol, float(y.mean()))}
    union = np.unique(np.concatenate(list(drawn.values())))
    return Scored(
        table.name,
        protocol,
        seed,
        columns,
        sample.prior,
        float(sample.y.mean()),
        clf.tails_,
        clf.model_.fold_scores(X[union]),
        (clf.model_.label_scores(X[union])[..., None] + label_offsets(clf.fitted_)).reshape(len(union), -1),
        y[union],
        {q: np.searchsorted(union, at) for q, at in drawn.items()},
    )
