"""The default: a forest, boosted trees and a smooth fit, averaged or weighted by held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone

from drpu._checks import check_random_state
from drpu._progress import progress
from drpu._samples import SamplePair, is_sparse
from drpu._typing import FloatArray
from drpu.exceptions import ParameterError
from drpu.models.average import Average, Filling, has_gaps, warn_of_gaps
from drpu.models.boosted import BoostedRatio
from drpu.models.forest import ForestRatio
from drpu.models.fourier import FourierRatio, LinearRatio
from drpu.models.function import Function
from drpu.models.learner import RatioLearner
from drpu.models.splits import TrainAndHeld, hold_out
from drpu.models.trees import BoostedFunction, category_columns
from drpu.periods.columns import smooth_medians
from drpu.tables.encoder import Indicators

FEW = 10  # with fewer positives trees would overfit
ENOUGH = 1000  # members are weighted from this number of positives on
WIDE = 1000  # sparse rows with more columns get a linear fit only
LINEAR_ROWS = 50_000  # unlabeled rows from which on the smooth member also has a linear part
MANY_ROWS = 5000  # above this number of rows the forest has smaller trees, which are scored faster
HELD = 0.1, 0.2  # fraction of the rows that determine the weights: a tenth if it has ENOUGH_HELD positives
ENOUGH_HELD = 400
MOST_HELD = 20_000  # more rows of either sample do not improve the weights
REFIT_ROWS = 50_000  # with at most this many rows the members are fitted again to all rows
REGROW_ROWS = 200_000  # the same for boosting, the only member that uses more rows than that
FOREST_TREES, FOREST_ROWS, FOREST_LEAF = 60, 50_000, 50  # where members are weighted; rows of each sample
MOST_LEAVES = 64  # of a tree where members are averaged: more add to the time of a score, not its accuracy
FOREST_WEIGHT = 2.0  # in the average: the forest has the smallest error with few positives


@dataclass(frozen=True, slots=True)
class Size:
    """Decisions that follow from the size of the samples.

    They are made once for all folds and for the function of all rows, because the scores of all of them are
    compared.

    ``linear``: Whether the smooth member also has a linear part. With fewer rows it is fitted to one
    sample, whose error is larger than the gain.
    """

    trees: bool  # whether there are enough positives for trees, and not too many columns
    weighted: bool  # whether there are enough positives to determine the weights of the members
    many_rows: bool  # whether there are so many rows that trees have to be small
    linear: bool

    @classmethod
    def of(cls, pair: SamplePair, folds: int = 1) -> Size:
        """The decisions for two samples of which each of several folds leaves out a part."""
        positives = len(pair.positive)
        if folds > 1:
            positives -= -(-positives // folds)  # the largest fold is left out
        rows = pair.positive.rows
        wide = is_sparse(rows) and rows.shape[1] > WIDE
        weighted = positives >= ENOUGH and not wide
        linear = weighted and len(pair.unlabeled) >= LINEAR_ROWS
        return cls(positives >= FEW and not wide, weighted, len(pair) > MANY_ROWS, linear)


# With half of these, errors of priors on tables with a weak signal are larger.
FOLD_TREES = 100
ROUNDS = 100  # of boosting without early stopping
TRAVEL = 9.0  # rounds times learning rate of boosting without early stopping
STOPPED_RATE, FASTEST_RATE = 0.05, 0.25  # learning rates with early stopping: of one fold, of many


class Fold(NamedTuple):
    """One of several folds, whose functions are used for priors.

    Their scores are counted, and the counts of all folds are added up. So each fold needs fewer trees
    than the function of all rows, from which labels come, and boosting makes fewer and larger steps.
    """

    number: int
    folds: int
    filling: Filling


class AutoRatio(RatioLearner):
    """Log-ratios of a forest, boosted trees and a smooth logistic fit, averaged or weighted.

    Each member separates positives from unlabeled rows, and their errors differ: the forest
    has a small variance on few rows, boosting finds steps and interactions, the smooth fit
    extrapolates where trees are constant. It is linear for sparse rows.

    ===========================================  ====================================================
    rows                                         what is done
    ===========================================  ====================================================
    fewer than 10 positives                      the smooth fit alone
    sparse rows with more than 1000 columns      the linear fit alone
    fewer than 1000 positives                    the average, in which the forest has twice the
                                                 weight: so few positives cannot determine weights
    from 1000 positives on                       weights of the lowest logistic loss on held-out rows,
                                                 shrunk towards the average if positives are few; a
                                                 member that does not lower that loss is dropped
    ... held out for this                        a fifth of the rows, a tenth above 200,000 rows, at
                                                 most 20,000 of either sample
    ... up to 50,000 rows                        members are then fitted again to all rows
    ... up to 200,000 rows                       boosting is
    ... above                                    the forest uses 50,000 rows of either sample, boosting
                                                 grows larger trees on all rows
    from 50,000 unlabeled rows on                the smooth fit averages fits to 20,000 rows and is
                                                 also linear in the columns
    ===========================================  ====================================================

    Rows from which the prior is estimated do not determine weights: the classifier holds them out. If a
    classifier has several folds, their functions have fewer trees and are used for priors; one more
    function, fitted to all rows, is used for labels (for sparse rows, the average of the folds). Trees
    handle missing values and categories themselves; for the smooth fit, missing values are filled with
    column medians, and categories become indicator columns.

    Parameters
    ----------
    categories : sequence of int, default=()
        Positions of the columns that hold category codes, as in :class:`drpu.BoostedRatio`.
    n_jobs : int, default=1
        Threads of the trees.
    random_state : int, RandomState or None, default=None
        Seed of the members.
    """

    accepts_nan = True
    fits_in_threads: ClassVar[bool] = True
    accepts_categories = True

    _fold: Fold | None = None
    _size: Size | None = None

    def __init__(self, *, categories: Sequence[int] = (), n_jobs: int = 1, random_state: Any = None) -> None:
        self.categories = categories
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> Average:
        """The density ratio of checked samples."""
        self._check_categories(pair)
        gaps = has_gaps(pair.positive.rows) or has_gaps(pair.unlabeled.rows)
        if gaps:
            warn_of_gaps()
        rng = check_random_state(self.random_state)
        seeds = [int(seed) for seed in rng.randint(2**31 - 1, size=3)]
        size = self._size or Size.of(pair)
        split = TrainAndHeld(pair, None)
        if size.weighted:  # rows for fitting the members, and rows for their weights
            fraction = min(max(HELD[0], ENOUGH_HELD / len(pair.positive)), HELD[1])
            if len(pair) <= REGROW_ROWS:  # the held-out rows are used in the end
                fraction = HELD[1]
            split = hold_out(pair, None, fraction, np.random.default_rng(seeds[0]), most=MOST_HELD)
        filling = self._filling(pair, seeds[0]) if self._fold is None else self._fold.filling
        learners = self._choose(split.train, seeds, size)
        start = np.array([FOREST_WEIGHT if isinstance(one, ForestRatio) else 1.0 for one in learners])
        if split.held is None:
            each = progress(learners, total=len(learners))
            members = [learner.fit_checked(filling.pair(pair, learner)) for learner in each]
            weights = Weights(start / start.sum(), 0.0)
        else:
            members, weights = _fit_weighted(filling, pair, split, learners, start=start)
        used = np.flatnonzero(weights.members)
        kept = tuple(members[i] for i in used)
        return Average(kept, weights.members[used], weights.constant, filling, gaps)

    def for_folds(self, pair: SamplePair, folds: int) -> list[Self]:
        """Copies that have fewer trees each, and the same medians and indicators."""
        copies = super().for_folds(pair, folds)
        if folds == 1:
            return copies
        self._check_categories(pair)
        filling = self._filling(pair, int(check_random_state(self.random_state).randint(2**31 - 1)))
        size = Size.of(pair, folds)
        for number, copy in enumerate(copies):
            copy._fold, copy._size = Fold(number, folds, filling), size
        return copies

    def for_labels(self, pair: SamplePair, folds: int) -> Self | None:
        """A copy with the same kind of members as the folds, because they determine its calibration.

        None for sparse rows: with many columns the average of the folds ranks better than one function.
        """
        if is_sparse(pair.positive.rows):
            return None
        copy: Self = clone(self)
        copy._size = Size.of(pair, folds)
        return copy

    def _check_categories(self, pair: SamplePair) -> None:
        if len(self.categories) and is_sparse(pair.positive.rows):
            raise ParameterError("categories must be empty for sparse rows: pass dense rows.")
        category_columns(self.categories, pair.positive.rows.shape[1])  # checks them

    def _filling(self, pair: SamplePair, seed: int) -> Filling:
        """Indicators and smooth medians of the columns; medians of sparse rows are 0.

        If a sample has more than 20,000 rows, the medians are those of a random part of it.
        """
        indicators = Indicators.of(pair.stacked(), self.categories) if len(self.categories) else None
        if is_sparse(pair.positive.rows):
            return Filling(np.zeros(pair.positive.rows.shape[1]), indicators)
        if len(pair) > MOST_HELD:
            rng = np.random.default_rng(seed)
            pair = SamplePair(pair.positive.at_most(MOST_HELD, rng), pair.unlabeled.at_most(MOST_HELD, rng))
        return Filling(smooth_medians(pair.stacked()), indicators)

    def _choose(self, pair: SamplePair, seeds: list[int], size: Size) -> list[RatioLearner]:
        """The learners that are suitable for the rows."""
        smooth: RatioLearner = LinearRatio()
        if not is_sparse(pair.positive.rows):
            smooth = FourierRatio(linear=size.linear, random_state=seeds[0])
        if not size.trees:
            return [smooth]
        forest = ForestRatio(categories=self.categories, n_jobs=self.n_jobs, random_state=seeds[1])
        boosted = BoostedRatio(categories=self.categories, n_jobs=self.n_jobs, random_state=seeds[2])
        if size.weighted:  # fewer and larger trees, which are faster to score
            rows = sum(min(len(sample), FOREST_ROWS) for sample in (pair.positive, pair.unlabeled))
            leaf = min(max(2, rows // 500), FOREST_LEAF)
            forest.set_params(n_trees=FOREST_TREES, most_rows=FOREST_ROWS, min_leaf=leaf)
        elif size.many_rows:
            forest.set_params(most_leaves=MOST_LEAVES)
        if self._fold is not None:
            steps = {"n_rounds": ROUNDS, "learning_rate": TRAVEL / ROUNDS}
            if size.weighted:
                steps = {"learning_rate": min(STOPPED_RATE * self._fold.folds, FASTEST_RATE)}
            # Trees of different folds make different errors.
            own, other = ((seed + self._fold.number) % (2**31 - 1) for seed in seeds[1:])
            forest.set_params(n_trees=FOLD_TREES, random_state=own)
            boosted.set_params(random_state=other, **steps)
        return [forest, boosted, smooth]


def _fit_weighted(
    filling: Filling,
    pair: SamplePair,
    split: TrainAndHeld,
    learners: list[RatioLearner],
    *,
    start: FloatArray,
) -> tuple[list[Function], Weights]:
    """Members fitted to a part of the rows, or again to all of them, and their weights on the others."""
    held = split.held
    assert held is not None
    members: list[Function] = []
    for learner in progress(learners, total=2 * len(learners)):
        unseen = filling.pair(held, learner) if learner.uses_holdout else None
        members.append(learner.fit_checked(filling.pair(split.train, learner), unseen))
    scores = [
        np.column_stack([member.score(filling.rows(sample.rows, member)) for member in members])
        for sample in (held.positive, held.unlabeled)
    ]
    shares = [sample.weights() / sample.total for sample in (held.positive, held.unlabeled)]
    weights = stack(Evidence(*scores, *shares), start)
    for i, learner in enumerate(progress(learners, total=2 * len(learners))):
        boosted, most = members[i], REFIT_ROWS
        if isinstance(learner, BoostedRatio) and isinstance(boosted, BoostedFunction):
            learner, most = learner.as_grown(boosted, split.train, held), REGROW_ROWS
        if weights.members[i] > 0 and len(pair) <= most:
            members[i] = learner.fit_checked(filling.pair(pair, learner))
    return members, weights


# -- weights of the members -----------------------------------------------------------------------

_PULL = 12.0  # number of positives at which weights are halfway between their start and the optimum
_WORTH = 1e-4  # a member is kept if it lowers the held-out loss by at least this


@dataclass(frozen=True, slots=True)
class Evidence:
    """Log-ratios of held-out rows, one column per member, with weights that sum to 1 over either sample."""

    positive: FloatArray
    unlabeled: FloatArray
    positive_weight: FloatArray
    unlabeled_weight: FloatArray

    def columns(self, kept: list[int]) -> Evidence:
        """The scores of some of the members."""
        return replace(self, positive=self.positive[:, kept], unlabeled=self.unlabeled[:, kept])

    def mean(self, weights: FloatArray) -> Evidence:
        """The weighted sum of the members, as the scores of a single member."""
        positive, unlabeled = ((rows @ weights)[:, None] for rows in (self.positive, self.unlabeled))
        return replace(self, positive=positive, unlabeled=unlabeled)

    def loss(self, weights: FloatArray, constant: float) -> tuple[float, FloatArray]:
        """Logistic loss of positive against unlabeled rows at equal masses, and its gradient."""
        z_p, z_u = self.positive @ weights + constant, self.unlabeled @ weights + constant
        value = self.positive_weight @ np.logaddexp(0, -z_p) + self.unlabeled_weight @ np.logaddexp(0, z_u)
        g_p, g_u = -self.positive_weight * expit(-z_p), self.unlabeled_weight * expit(z_u)
        slope = np.append(g_p @ self.positive + g_u @ self.unlabeled, g_p.sum() + g_u.sum())
        return float(value), slope


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each member (0 for one that is left out) and the constant that is added."""

    members: FloatArray
    constant: float


def stack(evidence: Evidence, start: FloatArray) -> Weights:
    """Non-negative weights that minimise the held-out logistic loss.

    The loss has a penalty on the squared distance from ``start`` times a common factor. The penalty
    decreases with the square of the number of positives: with few positives the members keep the
    proportions of ``start``. Members whose removal hardly increases the loss are removed, the least useful
    first.
    """
    kept = [i for i in range(len(start)) if start[i] > 0]
    fitted = _fit(evidence.columns(kept), start[kept])
    while len(kept) > 1:
        shorter = [[i for i in kept if i != out] for out in kept]
        trials = [_fit(evidence.columns(some), start[some]) for some in shorter]
        best = int(np.argmin([loss for _, loss in trials]))
        if trials[best][1] - fitted[1] > _WORTH:
            break
        kept, fitted = shorter[best], trials[best]
    if not (fitted[0][:-1] > 0).any():  # no member ranks held-out rows better than chance
        return Weights(start / start.sum(), 0.0)
    members = np.zeros(len(start))
    members[kept] = fitted[0][:-1]
    return Weights(members, float(fitted[0][-1]))


def _fit(evidence: Evidence, start: FloatArray) -> tuple[FloatArray, float]:
    """Weights and the constant, and the loss without the penalty."""
    scale = _minimum(evidence.mean(start), np.ones(1), 0.0)[0]
    centre = start * max(float(scale), 1e-3)
    found = _minimum(evidence, centre, (_PULL / len(evidence.positive)) ** 2)
    return found, evidence.loss(found[:-1], float(found[-1]))[0]


def _minimum(evidence: Evidence, centre: FloatArray, pull: float) -> FloatArray:
    def penalised(point: FloatArray) -> tuple[float, FloatArray]:
        value, slope = evidence.loss(point[:-1], float(point[-1]))
        away = point[:-1] - centre
        slope[:-1] += 2 * pull * away
        return value + pull * float(away @ away), slope

    bounds = [(0.0, None)] * len(centre) + [(None, None)]
    done = minimize(penalised, np.append(centre, 0.0), jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(done.x)
