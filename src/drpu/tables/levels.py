"""Cells of the levels of categories, by which the columns of new rows are compared with training."""

from __future__ import annotations

import hashlib

import numpy as np

from drpu.core.columns import RANGES, RARE, Cells
from drpu.tables.columns import CATEGORY
from drpu.tables.encoder import FIRST, MISSING, ColumnPlan, TableEncoder

__all__ = ["fixed_cells"]

FREQUENT = 50  # minimum number of training rows of a level for its share to be compared


def fixed_cells(table: TableEncoder | None, columns: int) -> list[Cells | None]:
    """Cells of each encoded column that holds levels or indicators; None for columns of numbers.

    Codes are sorted by frequency in training, and frequent levels were frequent partly by chance. Ranges
    of codes would therefore change even if nothing changed. Levels are put into cells by a hash of
    their names instead, and rare levels are not compared.
    """
    if table is None or columns != table.width:
        return [None] * columns
    if table.indicators is None:
        return [_of_codes(plan) if plan.kind == CATEGORY else None for plan in table.used]
    shown = table.indicators
    cells: list[Cells | None] = [None] * (shown.n_columns - len(shown.categories))
    for j, codes, rest in zip(shown.categories, shown.codes, shown.rest, strict=True):
        frequent = {MISSING} | {FIRST + k for k, n in enumerate(table.used[j].rows) if n >= FREQUENT}
        cells += [_indicator(code in frequent) for code in codes] + [_indicator(False)] * rest
    return cells


def _of_codes(plan: ColumnPlan) -> Cells:
    frequent = [k for k, n in enumerate(plan.rows) if n >= FREQUENT]
    codes = np.full(FIRST + len(plan.levels), RARE, dtype=np.int64)
    codes[MISSING] = 0
    for place, k in enumerate(frequent):
        own = place if len(frequent) <= RANGES else _hash(plan.levels[k]) % RANGES
        codes[FIRST + k] = RARE + 1 + own
    return Cells(np.empty(0), codes)


def _indicator(tested: bool) -> Cells:
    return Cells(np.array([0.5]) if tested else np.empty(0))


def _hash(level: str) -> int:
    return int.from_bytes(hashlib.blake2b(level.encode(), digest_size=8).digest(), "little")
