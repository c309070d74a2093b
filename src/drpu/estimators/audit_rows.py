"""Recognising the training rows without keeping them.

Scores of rows that were used in training are lower than those of new rows, so counts of
training rows must not be compared with held-out counts. One number for each of the two
training samples, a sum of hashes, is enough to recognise a sample when it is passed again, in
any order. The numbers stay in memory and are not written to artifacts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import sparse

from drpu._samples import n_rows
from drpu._typing import Rows
from drpu.tables.frames import FrameRows

__all__ = ["TrainingMark", "row_digest"]

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True, slots=True)
class TrainingMark:
    """Numbers of rows and digests of the positive and the unlabeled training sample."""

    n_positive: int
    n_unlabeled: int
    positive: int
    unlabeled: int

    @classmethod
    def of(cls, positive: Rows, unlabeled: Rows) -> TrainingMark:
        """The mark of two samples."""
        return cls(n_rows(positive), n_rows(unlabeled), row_digest(positive), row_digest(unlabeled))

    def population_of(self, X: Rows) -> str:
        """``"unlabeled"``, ``"fitted"`` (both samples), or ``"auto"`` if X is neither."""
        n = n_rows(X)
        if n not in (self.n_unlabeled, self.n_unlabeled + self.n_positive):
            return "auto"
        digest = row_digest(X)
        if n == self.n_unlabeled and digest == self.unlabeled:
            return "unlabeled"
        both = (self.unlabeled + self.positive) & (2**64 - 1)
        return "fitted" if n == self.n_unlabeled + self.n_positive and digest == both else "auto"


def row_digest(X: Rows) -> int:
    """A 64-bit hash of a set of rows, which does not depend on their order."""
    if isinstance(X, FrameRows):
        X = (X.keys() >> 11).astype(np.float64)[:, None]  # 53 bits fit into float64
    if sparse.issparse(X):
        rows = cast(Any, X).tocsr(copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        cells = _mixed(np.asarray(rows.data, dtype=np.float64).view(np.uint64), rows.indices)
        first = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        hashes = np.zeros(rows.shape[0], dtype=np.uint64)
        np.add.at(hashes, first, cells)
        return _total(hashes)
    total = 0
    dense = np.asarray(X).reshape(n_rows(X), -1)
    columns = np.arange(dense.shape[1])
    for start in range(0, len(dense), 4096):  # in blocks, to limit memory
        block = np.ascontiguousarray(dense[start : start + 4096], dtype=np.float64) + 0.0  # -0 becomes 0
        hashes = _mixed(block.view(np.uint64), columns).sum(axis=1, dtype=np.uint64)
        total = (total + _total(hashes)) & (2**64 - 1)
    return total


def _mixed(bits: Any, columns: Any) -> Any:
    """A hash of each value in its column; integers wrap around."""
    with np.errstate(over="ignore"):
        x = bits ^ ((columns.astype(np.uint64) + np.uint64(1)) * _ODD)
        x = (x ^ (x >> np.uint64(30))) * _MIX
        return x ^ (x >> np.uint64(27))


def _total(hashes: Any) -> int:
    """Sum of the hashes, mixed again so that exchanging values between rows changes the sum."""
    with np.errstate(over="ignore"):
        x = (hashes ^ (hashes >> np.uint64(29))) * _ODD
        return int((x ^ (x >> np.uint64(32))).sum(dtype=np.uint64))
