r"""Reduced counts for artifacts: fewer levels, or differentially private counts.

Exact tails have a level at the score of every held-out positive. There are two ways to
store less.

:func:`coarsen` keeps a chosen number of levels, none of which is the score of a row, and
bounds the error of the curves between them. It hides single scores, but gives no
guarantee against somebody who knows all rows but one.

:func:`privatize` gives one. Rows are counted on a grid that is the same for all data,
:math:`-\infty, -4, -3.75, \dots, 4`, and each count gets two-sided geometric noise,
:math:`P(k) \propto e^{-\varepsilon |k|}`. A row is in one cell of one of the two
histograms, so adding or removing it changes one count by one. Everything computed from
the noisy counts is :math:`\varepsilon`-differentially private: sizes, tails, prior,
calibration. Replacing a row means removing one and adding one, :math:`2 \varepsilon`.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from drpu._checks import check_integer, check_real, check_scores
from drpu._schema import Integer, List, Number, Optional, Schema, Text
from drpu._state import ModelState
from drpu._typing import FloatArray, IntArray
from drpu.core.tails import ScoreTails
from drpu.exceptions import DataError

__all__ = ["GRID", "Coarse", "GridCounts", "Protection", "coarsen", "discrete_laplace", "privatize"]

GRID_END, GRID_STEP = 4.0, 0.25
# Lower edges of the cells. Log-ratios beyond the ends are in the outer cells. A log-ratio is at
# most log(1/prior), so an end of 4 suffices for priors from 2 % on. Finer cells would add noise.
GRID: FloatArray = np.concatenate(
    ([-np.inf], np.arange(-round(GRID_END / GRID_STEP), round(GRID_END / GRID_STEP) + 1) * GRID_STEP)
)

_CLEAR = 3.0  # the positives of a cell must exceed this many standard deviations of the noise
_TIES = 2.0**-30  # levels with a smaller relative difference are treated as ties
_ROOM = 16  # a level is shifted down by at most 1/16 of the gap below it


@dataclass(frozen=True, slots=True)
class Protection:
    """How the counts of an artifact were reduced; stored in its manifest.

    Attributes
    ----------
    mechanism : {"quantiles", "discrete-laplace"}
        Fewer levels with exact counts, or noisy counts on a fixed grid.
    levels : int
        Number of levels kept.
    positive_error, unlabeled_error : float or None
        Quantiles: the largest error of either curve between two levels.
    epsilon : float or None
        Noise: the privacy budget that was used.
    neighbours : str or None
        Noise: the definition of neighbouring data sets.
    grid : tuple of three floats or None
        Noise: the first and the last edge of the cells, and their width.
    randomness : {"operating system", "seeded"} or None
        Noise: its source. Somebody who knows the seed can subtract the noise.
    not_covered : tuple of str
        Other content of the file that was learnt from rows.
    """

    mechanism: str
    levels: int
    positive_error: float | None = None
    unlabeled_error: float | None = None
    epsilon: float | None = None
    neighbours: str | None = None
    grid: tuple[float, float, float] | None = None
    randomness: str | None = None
    not_covered: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # JSON has lists, not tuples.
        object.__setattr__(self, "grid", None if self.grid is None else tuple(self.grid))
        object.__setattr__(self, "not_covered", tuple(self.not_covered))

    @classmethod
    def from_state(cls, state: Any) -> Protection:
        """The protection from its dictionary, made by ``asdict``; raises ``DataError`` if it is invalid."""
        if not isinstance(state, dict) or state.keys() - {field.name for field in fields(cls)}:
            raise DataError(f"the state of a protection is damaged: {state!r:.100}.")
        _PROTECTION.check(ModelState("", state))
        return cls(**state)


_PROTECTION = Schema(
    "protection",
    config={
        "mechanism": Text(("quantiles", "discrete-laplace")),
        "levels": Integer(1),
        "positive_error": Optional(Number(0, 1)),
        "unlabeled_error": Optional(Number(0, 1)),
        "epsilon": Optional(Number(above=0)),
        "neighbours": Optional(Text()),
        "grid": Optional(List(Number(), 3, 3)),
        "randomness": Optional(Text(("operating system", "seeded"))),
        "not_covered": Optional(List(Text(), high=100)),
    },
)

# -- fewer levels --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Coarse:
    """Tails over fewer levels, and their largest error.

    Attributes
    ----------
    tails : ScoreTails
        Exact counts over the kept levels.
    positive_error, unlabeled_error : float
        The largest difference between the fractions of positives, and of unlabeled rows,
        at or above an exact level and at or above the kept level below it.
    """

    tails: ScoreTails
    positive_error: float
    unlabeled_error: float


def coarsen(tails: ScoreTails, levels: int = 100) -> Coarse:
    r"""Tails over at most ``levels`` levels, at quantiles, none of which is a score.

    Parameters
    ----------
    tails : ScoreTails
        Exact tails; weights are allowed.
    levels : int, default=100
        Largest number of levels to keep.

    Returns
    -------
    coarse : Coarse

    Notes
    -----
    The levels are quantiles of positives and unlabeled rows in equal parts, so neither
    curve decreases by more than ``2 / levels`` between an exact level and the kept one
    below it: :math:`b(u) \le b_{kept} \le b(u) + 2/\text{levels}`, and the same for a.
    Each kept level is then shifted down to a number with few digits, by at most a
    sixteenth of the gap to the next positive. The counts do not change: no positive lies
    in the gap, and the unlabeled rows in it stay in the cell below. Exact levels that
    agree in nine digits are treated as ties and never separated, even if this exceeds
    the bound; the returned errors include this.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> tails = ScoreTails(rng.normal(3, 1, 500)).update(rng.normal(1, 2, 5000))
    >>> coarse = coarsen(tails, 50)
    >>> len(coarse.tails.levels) <= 50, coarse.positive_error <= 0.04
    (True, True)
    """
    most = check_integer("levels", levels, low=2)
    first = _tie_starts(tails.levels)
    kept = first[_quantile_starts(tails, first, most)]
    cells = np.concatenate(([0], kept + 1))
    state = tails.state().replaced(
        positive_counts=np.add.reduceat(tails.positive_counts, cells),
        counts=np.add.reduceat(tails.counts, cells),
        levels=_moved_down(tails.levels, kept),
    )
    below = kept[np.searchsorted(kept, np.arange(len(tails.levels)), side="right") - 1]
    return Coarse(
        ScoreTails.from_state(state),
        _largest_drop(tails.positive_survival, below),
        _largest_drop(tails.survival, below) if tails.counts.any() else 0.0,
    )


def _tie_starts(levels: FloatArray) -> IntArray:
    """Index of the first level of each run of tied levels."""
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        gap = np.diff(levels)
    near = gap <= _TIES * np.maximum(np.abs(levels[:-1]), 1e-300)
    return np.flatnonzero(np.concatenate(([True], ~near)))


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


def _largest_drop(survival: FloatArray, below: IntArray) -> float:
    return float((survival[below] - survival).max())


# -- counts under noise ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GridCounts:
    """Exact counts of held-out positives and unlabeled rows in the cells of ``GRID``.

    Counts between positive scores cannot be made private in this way: removing a positive
    moves all unlabeled rows above it to another cell. Therefore rows are counted a second
    time, in cells that do not depend on the data.
    """

    positive: IntArray
    unlabeled: IntArray

    def __post_init__(self) -> None:
        for name in ("positive", "unlabeled"):
            counts = np.asarray(getattr(self, name))
            if counts.shape != GRID.shape or counts.dtype.kind not in "iu" or (counts < 0).any():
                raise DataError(f"{name} must hold {len(GRID)} non-negative counts.")
            object.__setattr__(self, name, counts.astype(np.int64))

    def state(self) -> ModelState:
        """The counts, as :meth:`from_state` reads them."""
        return ModelState("grid", arrays={"positive": self.positive, "unlabeled": self.unlabeled})

    @classmethod
    def from_state(cls, state: ModelState) -> GridCounts:
        """The counts restored from ``state``."""
        return cls(state.arrays["positive"], state.arrays["unlabeled"])

    @classmethod
    def of(cls, positive_scores: Any, unlabeled_scores: Any) -> GridCounts:
        """Counts of two samples of log-ratios."""
        return cls(
            _grid_counts(check_scores("positive_scores", positive_scores)),
            _grid_counts(check_scores("unlabeled_scores", unlabeled_scores)),
        )


def _grid_counts(scores: FloatArray) -> IntArray:
    cells = np.searchsorted(GRID, scores, side="right") - 1
    return np.bincount(cells, minlength=len(GRID)).astype(np.int64)


def privatize(counts: GridCounts, epsilon: float, *, random_state: int | None = None) -> ScoreTails:
    r"""Tails computed from noisy counts, which are :math:`\varepsilon`-differentially private.

    Parameters
    ----------
    counts : GridCounts
        Exact counts on the fixed grid, each row counted once.
    epsilon : float
        The privacy budget, above 0; a smaller one is more private. Each call uses the
        whole budget.
    random_state : int, optional
        A seed for reproducible experiments. Somebody who knows it can subtract the noise.
        By default the noise comes from the operating system.

    Returns
    -------
    tails : ScoreTails
        Its sizes are those of the noisy counts. ``n_positive`` is an effective number that
        is reduced according to the noise, so that intervals become wider.

    Notes
    -----
    Noise is drawn with integer arithmetic only, because rounding of floats could reveal
    it. From the top, cells are merged until their positives exceed three standard
    deviations of the noise: a cell with positives from noise alone would look like a
    region without negatives and bias the prior downwards. Cumulative unlabeled counts
    are then made monotone by isotonic regression, and non-negative. Processing after the
    noise does not weaken the guarantee.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> counts = GridCounts.of(rng.normal(1, 1, 2000), rng.normal(-1, 1, 20_000))
    >>> private = privatize(counts, 1.0, random_state=0)
    >>> abs(private.n - 20_000) < 200
    True
    """
    check_real("epsilon", epsilon, low=1e-6, high=1e6)
    if random_state is not None:
        check_integer("random_state", random_state, low=0)
    rng = random.SystemRandom() if random_state is None else random.Random(random_state)
    positive = counts.positive + discrete_laplace(epsilon, len(GRID), rng)
    unlabeled = counts.unlabeled + discrete_laplace(epsilon, len(GRID), rng)
    kept = _clear_levels(positive, epsilon)
    if len(kept) == 0 or unlabeled.sum() <= 0:
        raise DataError(
            f"no count exceeds the noise of epsilon={epsilon:g}: use a larger epsilon, or more rows."
        )
    return _tails(positive, unlabeled, kept, epsilon)


def discrete_laplace(epsilon: float, size: int, rng: random.Random) -> IntArray:
    r"""Integers with :math:`P(k) \propto e^{-\varepsilon |k|}`, drawn exactly.

    Notes
    -----
    The rejection sampler of Canonne, Kamath and Steinke (2020) with rational numbers. The
    float ``epsilon`` is converted to a fraction exactly.
    """
    rate = Fraction(epsilon)
    return np.array([_discrete_laplace(rate, rng) for _ in range(size)], dtype=np.int64)


def _discrete_laplace(rate: Fraction, rng: random.Random) -> int:
    s, t = rate.numerator, rate.denominator
    while True:
        low = rng.randrange(t)
        if not _bernoulli_exp(Fraction(low, t), rng):
            continue
        high = 0
        while _bernoulli_exp(Fraction(1), rng):
            high += 1
        size, negative = (low + t * high) // s, rng.randrange(2) == 1
        if size or not negative:  # -0 and 0 are the same number, so one of them is rejected
            return -size if negative else size


def _bernoulli_exp(rate: Fraction, rng: random.Random) -> bool:
    """True with probability exp(-rate), for a rate in [0, 1]."""
    k = 1
    while rng.randrange(rate.denominator * k) < rate.numerator:
        k += 1
    return k % 2 == 1


def _clear_levels(positive: IntArray, epsilon: float) -> IntArray:
    """Cells whose positives, together with merged cells above them, exceed the noise."""
    deviation = math.sqrt(_noise_variance(epsilon))
    kept, total, cells = [], 0, 0
    for cell in range(len(positive) - 1, -1, -1):
        total, cells = total + int(positive[cell]), cells + 1
        if total >= max(_CLEAR * deviation * math.sqrt(cells), 1):
            kept.append(cell)
            total, cells = 0, 0
    return np.array(kept[::-1], dtype=np.int64)


def _noise_variance(epsilon: float) -> float:
    return 2 * math.exp(-epsilon) / math.expm1(-epsilon) ** 2


def _tails(positive: IntArray, unlabeled: IntArray, kept: IntArray, epsilon: float) -> ScoreTails:
    """Tails over the kept levels; positives below the lowest level are counted with it."""
    P = np.add.reduceat(positive, kept)
    P[0] = max(positive.sum() - P[1:].sum(), 1)
    U = _fallen(np.concatenate(([unlabeled[: kept[0]].sum()], np.add.reduceat(unlabeled, kept))))
    # Noise has the effect of fewer rows: n rows with a variance of n + noise.
    size = float(P.sum())
    effective = size**2 / (size + len(GRID) * _noise_variance(epsilon))
    return ScoreTails.from_state(
        ModelState(
            "tails",
            {"n_positive": effective, "copies": 1, "weight_squares": 0.0},
            {"levels": GRID[kept], "positive_counts": np.concatenate(([0], P)), "counts": U},
        )
    )


def _fallen(noisy: IntArray) -> IntArray:
    """Non-negative counts whose cumulative sums from the top are closest to the noisy ones."""
    above = noisy[::-1].cumsum()[::-1].astype(np.float64)
    falling = np.rint(np.maximum(isotonic_regression(above, increasing=False).x, 0))
    return np.asarray(falling - np.append(falling[1:], 0), dtype=np.int64)
