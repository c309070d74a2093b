"""Tasks for the workers of a Dask cluster while trees are trained there."""

from __future__ import annotations

from typing import Any

import numpy as np

from drpu._typing import FloatArray, IntArray
from drpu.core.columns import Cells, column_quantiles, count_columns
from drpu.core.tails import ScoreTails
from drpu.models.boosting import BoostedRatio
from drpu.models.distributed import Part, PartCounts
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import read_frame
from drpu.tables.summaries import TableSummary

__all__ = ["MOST_LABELS", "Plan", "fold_of"]

MOST_LABELS = 100  # a column with more values than this is not a label
MOST_SORTED = 50_000  # rows of a part that are sorted for quantiles

Survey = tuple[list[tuple[list[Any], list[int]]], TableSummary]


class Plan:
    """How the rows of partitions are encoded, and assigned to folds and workers."""

    def __init__(
        self,
        table: TableEncoder,
        label: str,
        weight: str | None,
        key: str | None,
        positive: np.ndarray[Any, Any],
        held: int | float,
        salt: int,
    ) -> None:
        self.table, self.label, self.weight, self.key = table, label, weight, key
        self.columns = [plan.name for plan in table.used]
        self.positive, self.held, self.salt = positive, held, salt

    def pieces(self, part: Any, places: int) -> list[Part]:
        """The rows of a partition, grouped by the worker that their hash assigns them to."""
        import pandas as pd

        rows = self.table.transform(read_frame(part[self.columns]), warn=False)
        named = part[self.columns if self.key is None else [self.key]]
        hashed = pd.util.hash_pandas_object(named, index=False, hash_key=f"{self.salt:016d}").to_numpy()
        mixed = hashed * np.uint64(0x9E3779B97F4A7C15) + np.uint64(self.salt)
        place = (mixed >> np.uint64(40)) % np.uint64(places)
        weight = None if self.weight is None else part[self.weight].to_numpy(dtype=np.float64)
        positive = part[self.label].isin(self.positive).to_numpy(dtype=bool)
        whole = Part(rows, positive, fold_of(mixed, self.held), weight)
        return [whole.take(np.flatnonzero(place == k)) for k in range(places)]


def fold_of(hashed: np.ndarray[Any, np.dtype[np.uint64]], held: int | float) -> IntArray:
    """Fold of each row by the low bits of its hash; -1 for rows that are used for training only."""
    unit = (hashed & np.uint64(2**32 - 1)).astype(np.float64) / 2**32
    if isinstance(held, float):
        return np.where(unit < held, 0, -1).astype(np.int64)
    return np.minimum((unit * held).astype(np.int64), held - 1)


def survey(part: Any, place: int, columns: list[str], label: str) -> Survey:
    """Labels of a partition, and summaries of its columns whose kind depends on their values."""
    found = part[label].value_counts(dropna=False).head(MOST_LABELS + 1)
    table = TableSummary.of(read_frame(part[columns]), (place, 0))
    return [(found.index.tolist(), found.tolist())], table


def add_surveys(parts: list[Survey]) -> Survey:
    """The sum of surveys."""
    (labels, table), *more = parts
    for other_labels, other_table in more:
        labels, table = labels + other_labels, table + other_table
    return labels, table


def join(pieces: list[Part]) -> Part:
    """One part of the pieces from all partitions."""
    weights = [piece.weight for piece in pieces if piece.weight is not None]
    return Part(
        np.concatenate([piece.rows for piece in pieces]),
        np.concatenate([piece.positive for piece in pieces]),
        np.concatenate([piece.fold for piece in pieces]),
        np.concatenate(weights) if weights else None,
    )


def totals(part: Part, folds: int) -> tuple[IntArray, FloatArray]:
    """Rows and weights by fold and kind."""
    fold = np.where(part.fold < 0, folds, part.fold)
    cell = 2 * fold + part.positive
    size = 2 * (folds + 1)
    counts = np.bincount(cell, minlength=size).reshape(-1, 2)
    mass = np.bincount(cell, weights=part.weight, minlength=size).reshape(-1, 2)
    return counts.astype(np.int64), mass.astype(np.float64)


def dtype(part: Part) -> Any:
    """Type of the rows."""
    return part.rows.dtype


def train_rows(part: Part, without: int, mass: tuple[float, float]) -> FloatArray:
    """Training rows of a fold."""
    return np.asarray(part.rows[part.fold != without])


def train_flags(part: Part, without: int, mass: tuple[float, float]) -> FloatArray:
    """1 for the positives among them."""
    return np.asarray(part.positive[part.fold != without], dtype=np.float64)


def train_weights(part: Part, without: int, mass: tuple[float, float]) -> FloatArray:
    """Their weights, scaled so that positive and unlabeled rows have equal totals."""
    seen = part.take(part.fold != without)
    weight = np.where(seen.positive, mass[1], mass[0])
    return weight if seen.weight is None else weight * seen.weight


def positive_scores(
    part: Part, model: BoostedRatio, fold: int, share: float, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Scores and weights of held-out positives, or of a share of them."""
    chosen = np.flatnonzero((part.fold == fold) & part.positive)
    if share < 1:
        chosen = chosen[np.random.default_rng(seed).random(len(chosen)) < share]
    weight = np.ones(len(chosen)) if part.weight is None else part.weight[chosen]
    return (model.score_checked(part.rows[chosen]) if len(chosen) else np.empty(0)), weight


def count(part: Part, model: BoostedRatio, fold: int, empty: ScoreTails) -> PartCounts:
    """Counts of the unlabeled rows of a fold."""
    chosen = np.flatnonzero((part.fold == fold) & ~part.positive)
    scores = model.score_checked(part.rows[chosen]) if len(chosen) else np.empty(0)
    return PartCounts.of(empty, scores, None if part.weight is None else part.weight[chosen])


def quantiles(part: Part) -> list[tuple[int, FloatArray]]:
    """Number of rows and quantiles of the columns, unlabeled and positive; of many rows from a sample."""
    found = []
    for kind in (False, True):
        chosen = np.flatnonzero(part.positive == kind)
        chosen = chosen[:: max(1, len(chosen) // MOST_SORTED)]
        found.append((len(chosen), column_quantiles(part.rows[chosen])))
    return found


def ranges(part: Part, cells: list[Cells]) -> tuple[IntArray, IntArray]:
    """Unlabeled rows and positives in the cells of the columns."""
    return count_columns(cells, part.rows[~part.positive]), count_columns(cells, part.rows[part.positive])


def add(parts: list[PartCounts]) -> PartCounts:
    """The sum of counts."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
