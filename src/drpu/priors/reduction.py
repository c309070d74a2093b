"""Counts with fewer levels, for files that shall not keep the score of every held-out positive.

Exact tails have a level at the score of every held-out positive. :func:`coarsen` keeps a chosen number of
levels, none of which is the score of a row, and bounds the error of the curves between them. It hides
single scores, but gives no guarantee against somebody who knows all rows but one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from drpu._checks import check_integer
from drpu._codec import Kept, Number, Whole, kept
from drpu._typing import FloatArray, IntArray
from drpu.priors.tails import ScoreTails

_TIES = 2.0**-30  # levels with a smaller relative difference are treated as ties
_ROOM = 16  # a level is shifted down by at most 1/16 of the gap below it


@kept("coarsening")
@dataclass(frozen=True)
class Coarsening(Kept):
    """How the levels of counts were reduced.

    ``positive_error``, ``unlabeled_error``: The largest difference between the fractions of positives,
    and of unlabeled rows, at or above an exact level and at or above the kept level below it.
    """

    levels: Annotated[int, Whole(1)]  # number of levels kept
    positive_error: Annotated[float, Number(0, 1)]
    unlabeled_error: Annotated[float, Number(0, 1)]


def coarsen(tails: ScoreTails, levels: int = 100) -> tuple[ScoreTails, Coarsening]:
    r"""Tails over at most ``levels`` levels, at quantiles, none of which is a score, and how it was done.

    The levels are quantiles of positives and unlabeled rows in equal parts, so neither
    curve decreases by more than ``2 / levels`` between an exact level and the kept one
    below it: :math:`b(u) \le b_{kept} \le b(u) + 2/\text{levels}`, and the same for a.
    Each kept level is then shifted down to a number with few digits, by at most a
    sixteenth of the gap to the next positive. The counts do not change: no positive lies
    in the gap, and the unlabeled rows in it stay in the cell below. Exact levels that
    agree in nine digits are treated as ties and never separated, even if this exceeds
    the bound; the returned errors include this.
    """
    most = check_integer("levels", levels, low=2)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        near = np.diff(tails.levels) <= _TIES * np.maximum(np.abs(tails.levels[:-1]), 1e-300)
    first = np.flatnonzero(np.concatenate(([True], ~near)))  # of each run of tied levels
    chosen = first[_quantile_starts(tails, first, most)]
    found = _over(tails, chosen, _moved_down(tails.levels, chosen))
    below = chosen[np.searchsorted(chosen, np.arange(len(tails.levels)), side="right") - 1]
    curves = tails.positive_survival, tails.survival if tails.counts.any() else np.zeros(len(below))
    return found, Coarsening(len(found.levels), *(float((b[below] - b).max()) for b in curves))


def coarsen_like(tails: ScoreTails, kept: ScoreTails) -> ScoreTails:
    """Tails over the levels of ``kept``, to which exact tails over the same positives were reduced."""
    return _over(tails, np.searchsorted(tails.levels, kept.levels), kept.levels)


def _over(tails: ScoreTails, chosen: IntArray, levels: FloatArray) -> ScoreTails:
    """Tails over new levels, each of which lies in the gap below the chosen one."""
    cells = np.concatenate(([0], chosen + 1))
    positive, counts = (np.add.reduceat(part, cells) for part in (tails.positive_counts, tails.counts))
    return replace(tails.record(), positive_counts=positive, counts=counts, levels=levels).tails()


def _quantile_starts(tails: ScoreTails, first: IntArray, most: int) -> IntArray:
    """The runs that start a cell: the first one in each of ``most`` parts of equal mass."""
    mass = tails.positive_counts / tails.positive_counts.sum()
    if tails.counts.any():
        mass = (mass + tails.counts / tails.counts.sum()) / 2
    mass = mass[1:]  # the cell below the first level always stays
    before = (np.cumsum(mass) - mass)[first]
    part = np.minimum((before / mass.sum() * most).astype(np.int64), most - 1)
    return np.unique(part, return_index=True)[1].astype(np.int64)


def _moved_down(levels: FloatArray, kept: IntArray) -> FloatArray:
    """Kept levels, rounded down into the gap below them; infinite ones are unchanged."""
    moved = levels[kept]
    finite = levels[np.isfinite(levels)]
    usual = float(finite[-1] - finite[0]) / len(finite) if len(finite) > 1 else 1.0
    for i, k in enumerate(kept):
        if not np.isfinite(moved[i]):
            continue
        gap = float(levels[k] - levels[k - 1]) if k > 0 else np.inf
        gap = gap if np.isfinite(gap) else max(usual, abs(float(moved[i])) * 1e-3)
        step = 2.0 ** np.floor(np.log2(gap / _ROOM))
        moved[i] = step * (np.ceil(moved[i] / step) - 1)  # strictly below, so it is never the score itself
    return moved
