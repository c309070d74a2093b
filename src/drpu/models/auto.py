"""The default: forests, boosted trees and a smooth fit, averaged or weighted by held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy

from drpu import _lazy
from drpu._arrays import FloatArray, Rows
from drpu._checks import check_random_state
from drpu._codec import Array, Items, kept
from drpu._progress import progress
from drpu._samples import SamplePair, is_sparse, n_rows
from drpu.exceptions import DataError, ParameterError
from drpu.models.boosted import BoostedFunction, BoostedRatio, ForestRatio
from drpu.models.choices import AUTO
from drpu.models.crossfit import FEW_TO_SPLIT, TrainAndHeld, hold_out
from drpu.models.ensembles import TreeFunction, TreesTogether
from drpu.models.fourier import FourierRatio, LinearRatio, SharedCosines
from drpu.models.graphs import Graph, onnx_indicators
from drpu.models.learner import (
    Accepts,
    Explained,
    Function,
    RatioLearner,
    Scorer,
    all_kept_values,
    exported,
    within_limits,
)
from drpu.models.trees import SharedBins, category_columns
from drpu.tables.encoder import Indicators
from drpu.tables.values import smooth_medians

# -- the function ---------------------------------------------------------------------------------


@kept("filling")
@dataclass(frozen=True, eq=False)
class Filling:
    """Rows for a function that accepts no missing values, or no category codes."""

    medians: Annotated[FloatArray, Array("d")]  # replace missing values; in sparse rows 0 does
    indicators: Indicators | None = None  # replace category codes

    def __post_init__(self) -> None:
        if self.indicators is not None and self.indicators.n_columns != len(self.medians):
            raise DataError(
                f"indicators must have {len(self.medians)} columns, "
                f"got {self.indicators.n_columns}."
            )

    def n_columns(self, taker: Accepts) -> int:
        """Number of columns of the rows for ``taker``."""
        if taker.accepts_categories or self.indicators is None:
            return len(self.medians)
        return self.indicators.n_out

    def rows(self, X: Rows, taker: Accepts, gaps: bool | None = None) -> Rows:
        """Rows in the form that ``taker`` accepts.

        ``gaps`` is whether values are missing, if that is known.
        """
        if gaps is None:
            gaps = not taker.accepts_nan and has_gaps(X)
        if gaps and not taker.accepts_nan:
            X = self._without_gaps(X)
        if taker.accepts_categories or self.indicators is None:
            return X
        return self.indicators(X)

    def same(self, other: Filling) -> bool:
        """Whether rows get the same form from both."""
        if self is other:
            return True
        if not np.array_equal(self.medians, other.medians):
            return False
        return self.indicators == other.indicators

    def _without_gaps(self, X: Rows) -> Rows:
        if not is_sparse(X):
            return np.where(np.isnan(X), self.medians, X)
        X = X.copy()
        X.data[np.isnan(X.data)] = 0
        return X

    def pair(self, pair: SamplePair, taker: Accepts) -> SamplePair:
        """Both samples in the form that ``taker`` accepts."""
        positive = self.rows(pair.positive.rows, taker)
        return pair.with_rows(positive, self.rows(pair.unlabeled.rows, taker))


@kept("average")
@dataclass(frozen=True, eq=False)
class Average(Function):
    """A weighted sum of the log-ratios of members, such as a forest and a smooth fit."""

    accepts_nan = True
    accepts_categories = True

    members: Annotated[tuple[Function, ...], Items(low=1, dim="m")]
    weights: Annotated[FloatArray, Array("m", low=0)]  # they sum to 1 if the members are averaged
    constant: float  # added to the weighted sum; 0 if the members are averaged
    filling: Filling  # replaces missing values and category codes for members that accept none

    def __post_init__(self) -> None:
        for member in self.members:
            columns = self.filling.n_columns(member)
            if member.row_shape != (columns,):
                raise DataError(f"members must have {columns} columns, got {member.n_columns}.")

    @property
    def statistics(self) -> tuple[str, ...]:  # noqa: D102
        words = ["means of the six middle values of the columns"]
        for member in self.members:
            words += member.statistics
        return tuple(words)

    @property
    def n_columns(self) -> int:  # noqa: D102
        return len(self.filling.medians)

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        """Whether all members accept sparse rows."""
        return all(member.accepts_sparse for member in self.members)

    @property
    def keeps(self) -> dict[str, str]:
        """Parts of the members that contain values of training rows."""
        return all_kept_values(self.members)

    def describe(self) -> str:
        """The members and their weights."""
        if len(self.members) == 1:
            return f"{self.members[0].describe()} alone"
        pairs = zip(self.weights, self.members, strict=True)
        terms = [f"{weight:.2g} x {member.describe()}" for weight, member in pairs]
        return f"log-ratio of {' + '.join(terms)}"

    def _score(self, X: Rows) -> FloatArray:
        return self._alone.scores(X)[:, 0]

    @cached_property
    def _alone(self) -> AveragesTogether:
        return AveragesTogether([self])

    @classmethod
    def together(cls, functions: Sequence[Self]) -> Scorer:
        """The scores of several functions; what their members have in common is computed once."""
        return AveragesTogether(functions).scores

    @classmethod
    def mean_of(cls, functions: Sequence[Self]) -> Self:
        """The mean of several averages with the same filling, as one with the members of all."""
        members = [member for function in functions for member in function.members]
        weights = np.concatenate([function.weights for function in functions]) / len(functions)
        constant = float(np.mean([function.constant for function in functions]))
        return cls(tuple(members), weights, constant, functions[0].filling)

    def contributions(self, X: Rows) -> FloatArray:
        """Contributions of the columns in the trees; the last has the smooth score, too."""
        if not any(isinstance(member, Explained) for member in self.members):
            raise ParameterError(
                "the fitted model has no trees, which have contributions of columns: the default "
                "has its smooth member only if there are fewer than ten positives, or very wide "
                "sparse rows. Use model='boosted', or permutation_importance with AUCScorer for "
                "any model."
            )
        gaps = has_gaps(X)
        total = np.zeros((n_rows(X), self.n_columns + 1))
        total[:, -1] = self.constant
        for weight, member in zip(self.weights, self.members, strict=True):
            rows = self.filling.rows(X, member, gaps)
            if isinstance(member, Explained):
                total += weight * member.contributions(rows)
            else:
                total[:, -1] += weight * member.score(rows)
        return total

    def onnx(self, graph: Graph, X: str) -> str:  # noqa: D102
        filled = graph.op("Where", graph.op("IsNaN", X), self.filling.medians, X)
        if self.filling.indicators is not None:
            filled = onnx_indicators(graph, self.filling.indicators, filled)
        parts = []
        for member in self.members:
            parts.append(exported(member, graph, X if member.accepts_nan else filled))
        mean = graph.mean(*parts, weights=self.weights.tolist())
        return graph.op("Add", graph.op("Mul", mean, float(self.weights.sum())), self.constant)


class AveragesTogether:
    """Scores of several averages: all trees are scored at once, and all members of other kinds."""

    def __init__(self, functions: Sequence[Average]) -> None:
        self._functions = list(functions)
        trees: list[TreeFunction] = []
        self._groups: list[_Group] = []
        # for each member of each function, its group (None: the trees) and its place there
        self._places: list[list[tuple[_Group | None, int]]] = []
        for function in functions:
            places: list[tuple[_Group | None, int]] = []
            for member in function.members:
                if isinstance(member, TreeFunction):
                    places.append((None, len(trees)))
                    trees.append(member)
                    continue
                group = self._group_of(member, function.filling)
                places.append((group, len(group.members)))
                group.members.append(member)
            self._places.append(places)
        self._trees = TreesTogether(trees) if trees else None

    def _group_of(self, member: Function, filling: Filling) -> _Group:
        """The group of members of one kind that get the same rows; a new one if there is none."""
        for group in self._groups:
            if type(group.members[0]) is type(member) and group.filling.same(filling):
                return group
        self._groups.append(_Group(filling, []))
        return self._groups[-1]

    def scores(self, X: Rows) -> FloatArray:
        """Scores of checked rows, (rows, functions)."""
        gaps = has_gaps(X)
        columns: dict[_Group | None, Sequence[FloatArray]] = {}
        if self._trees is not None:
            columns[None] = self._trees.columns(X)
        for smooth in self._groups:
            rows = smooth.filling.rows(X, smooth.members[0], gaps)
            columns[smooth] = list(smooth.scorer(rows).T)
        sums = np.empty((n_rows(X), len(self._functions)))
        for i, function in enumerate(self._functions):
            total: Any = function.constant
            for weight, (group, place) in zip(
                function.weights.tolist(), self._places[i], strict=True
            ):
                total = total + weight * columns[group][place]
            sums[:, i] = total
        return within_limits(sums)


@dataclass(frozen=True, eq=False)
class _Group:
    """Members of one kind that get rows of the same form."""

    filling: Filling
    members: list[Function]

    @cached_property
    def scorer(self) -> Scorer:
        return type(self.members[0]).together(self.members)


def has_gaps(X: Rows) -> bool:
    """Whether any value is missing."""
    values = X.data if is_sparse(X) else X
    return bool(np.isnan(values).any())


# -- the learner ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SizeDecisions:
    """Decisions that follow from the size of the samples.

    They are made once for all folds and for the function of all rows, because the scores of all of
    them are compared.

    ``linear``: Whether the smooth member also has a linear part. With fewer rows it is fitted to
    one sample, whose error is larger than the gain.
    """

    trees: bool  # whether there are enough positives for trees, and not too many columns
    balanced: bool  # whether half of the forest is balanced
    weighted: bool  # whether there are enough positives to determine the weights of the members
    linear: bool

    @classmethod
    def of(cls, pair: SamplePair, folds: int = 1) -> SizeDecisions:
        """The decisions for two samples of which each of several folds leaves out a part."""
        positives = len(pair.positive)
        if folds > 1:
            positives -= -(-positives // folds)  # the largest fold is left out
        rows = pair.positive.rows
        wide = is_sparse(rows) and rows.shape[1] > AUTO.wide
        weighted = positives >= AUTO.enough_positives and not wide
        return cls(
            trees=positives >= AUTO.few_positives and not wide,
            balanced=positives < AUTO.balanced_positives,
            weighted=weighted,
            linear=weighted and len(pair.unlabeled) >= AUTO.linear_rows,
        )


class Fold(NamedTuple):
    """One of several folds, whose functions are used for priors.

    Their scores are counted, and the counts of all folds are added up. So each fold needs fewer
    trees than the function of all rows, from which labels come, and boosting makes fewer and larger
    steps.
    """

    number: int
    folds: int


@dataclass(frozen=True, eq=False)
class Shared:
    """What fits to parts of the same samples have in common; labels do not determine it."""

    rows: SamplePair
    filling: Filling
    cosines: SharedCosines | None = None
    bins: SharedBins | None = None

    def give_to(self, learner: RatioLearner) -> None:
        """Let a learner use what it can."""
        if isinstance(learner, FourierRatio):
            learner.shared = self.cosines
        if isinstance(learner, BoostedRatio):
            learner.bins = self.bins
        # A forest uses few of very many rows, so it has its own bins of them.
        if isinstance(learner, ForestRatio) and len(self.rows) <= 2 * AUTO.forest_rows:
            learner.bins = self.bins


class AutoRatio(RatioLearner):
    """Log-ratios of forests, boosted trees and a smooth logistic fit, averaged or weighted.

    Each member separates positives from unlabeled rows, and their errors differ: the forest
    has a small variance, boosting finds steps and interactions, the smooth fit
    extrapolates where trees are constant. It is linear for sparse rows.

    =======================================  ====================================================
    rows                                     what is done
    =======================================  ====================================================
    fewer than 10 positives                  the smooth fit alone
    sparse rows with more than 1000 columns  the linear fit alone
    fewer than 200 positives                 half of the forest is balanced and is a member of its
                                             own: each tree gets as many unlabeled rows as
                                             positives, and takes the best splits
    fewer than 1000 positives                the average, in which all members have the same
                                             weight: so few positives cannot determine weights
    from 1000 positives on                   weights of the lowest logistic loss on held-out rows,
                                             shrunk towards the average if positives are few; a
                                             member that does not lower that loss is dropped
    ... held out for this                    a fifth of the rows, a tenth above 200,000 rows, at
                                             most 20,000 of either sample
    ... up to 50,000 rows                    members are then fitted again to all rows
    ... up to 200,000 rows                   boosting is
    ... above                                the forest uses 50,000 rows of either sample, boosting
                                             grows larger trees on all rows
    from 50,000 unlabeled rows on            the smooth fit averages fits to 20,000 rows and is
                                             also linear in the columns
    =======================================  ====================================================

    Rows from which the prior is estimated do not determine weights: the classifier holds them out.
    If a classifier has several folds, their functions have fewer trees and are used for priors; one
    more function, fitted to all rows, is used for labels (for sparse rows, the average of the
    folds). Trees handle missing values and categories themselves; for the smooth fit, missing
    values are filled with column medians, and categories become indicator columns. A column without
    two different values changes nothing.

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
    _size: SizeDecisions | None = None
    _shared: Shared | None = None

    def __init__(
        self, *, categories: Sequence[int] = (), n_jobs: int = 1, random_state: Any = None
    ) -> None:
        self.categories = categories
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> Average:
        """The density ratio of checked samples."""
        self._check_categories(pair)
        rng = check_random_state(self.random_state)
        seeds = [int(seed) for seed in rng.randint(2**31 - 1, size=3)]
        size = self._size or SizeDecisions.of(pair)
        shared = self._shared
        if shared is None:
            pair = pair.placed()
            # Weighted members are fitted to parts of the samples first.
            shared = self._share(pair, seeds[0], bins=size.weighted)
        filling = shared.filling
        split = TrainAndHeld(pair, None)
        if size.weighted:
            split = _hold_out_for_weights(pair, seeds[0])

        learners = self._choose(split.train, seeds, size)
        for learner in learners:
            shared.give_to(learner)
        start = np.ones(len(learners))
        if split.held is None:
            members = []
            for learner in progress(learners, total=len(learners)):
                members.append(learner.fit_checked(filling.pair(pair, learner)))
            weights = MemberWeights(start / start.sum())
        else:
            members, weights = _fit_weighted(filling, pair, split, learners, start=start)
        used = np.flatnonzero(weights.members)
        used_members = tuple(members[i] for i in used)
        return Average(used_members, weights.members[used], weights.constant, filling)

    def for_divisions(self, pair: SamplePair) -> list[Self]:
        """With few positives, learners with different seeds for several divisions into folds."""
        if len(pair.positive) >= FEW_TO_SPLIT or len(pair) > AUTO.most_divided:
            return [self]
        rng = check_random_state(self.random_state)
        learners = []
        for seed in rng.randint(2**31 - 1, size=AUTO.divisions).tolist():
            learners.append(_lazy.clone(self).set_params(random_state=seed))
        return learners

    def prepared(self, pair: SamplePair, fits: int) -> Self:
        """A copy that has medians, indicators, bins of columns and cosines for all fits."""
        if fits == 1:
            return self
        self._check_categories(pair)
        copy: Self = _lazy.clone(self)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        shared = self._share(pair, seed, bins=SizeDecisions.of(pair).trees)
        if not is_sparse(pair.positive.rows):
            smooth = FourierRatio()
            rng = np.random.default_rng(seed)
            cosines = smooth.share(shared.filling.pair(pair, smooth), rng, fits=fits)
            shared = replace(shared, cosines=cosines)
        copy._shared = shared
        return copy

    def _share(self, pair: SamplePair, seed: int, *, bins: bool) -> Shared:
        """What all fits share, except cosines."""
        shared = Shared(pair, self._filling(pair, seed))
        if not bins:
            return shared
        columns = category_columns(self.categories, pair.positive.rows.shape[1])
        return replace(shared, bins=SharedBins(pair, columns))

    def for_folds(self, pair: SamplePair, folds: int) -> list[Self]:
        """Copies that have fewer trees each, and share what labels do not determine."""
        copies = super().for_folds(pair, folds)
        if folds == 1:
            return copies
        size = SizeDecisions.of(pair, folds)
        for number, copy in enumerate(copies):
            copy._fold = Fold(number, folds)
            copy._size = size
            copy._shared = self._shared
        return copies

    def for_labels(self, pair: SamplePair, folds: int) -> Self | None:
        """A copy with the kind of members that the folds have, because these calibrate it.

        None for sparse rows: with many columns the average of the folds ranks better than one
        function.
        """
        if is_sparse(pair.positive.rows):
            return None
        copy: Self = _lazy.clone(self)
        copy._size = SizeDecisions.of(pair, folds)
        copy._shared = self._shared
        return copy

    def _check_categories(self, pair: SamplePair) -> None:
        if len(self.categories) and is_sparse(pair.positive.rows):
            raise ParameterError("categories must be empty for sparse rows: pass dense rows.")
        category_columns(self.categories, pair.positive.rows.shape[1])  # checks them

    def _filling(self, pair: SamplePair, seed: int) -> Filling:
        """Indicators and smooth medians of the columns; medians of sparse rows are 0.

        If a sample has more than 20,000 rows, the medians are those of a random part of it.
        """
        indicators = None
        if len(self.categories):
            indicators = Indicators.of(pair.stacked(), self.categories)
        if is_sparse(pair.positive.rows):
            return Filling(np.zeros(pair.positive.rows.shape[1]), indicators)
        if len(pair) > AUTO.most_held:
            pair = pair.at_most(AUTO.most_held, np.random.default_rng(seed))
        return Filling(smooth_medians(pair.stacked()), indicators)

    def _choose(
        self, pair: SamplePair, seeds: list[int], size: SizeDecisions
    ) -> list[RatioLearner]:
        """The learners that are suitable for the rows."""
        smooth: RatioLearner = LinearRatio()
        if not is_sparse(pair.positive.rows):
            smooth = FourierRatio(linear=size.linear, random_state=seeds[0])
        if not size.trees:
            return [smooth]
        forest = ForestRatio(categories=self.categories, n_jobs=self.n_jobs, random_state=seeds[1])
        boosted = BoostedRatio(
            categories=self.categories, n_jobs=self.n_jobs, random_state=seeds[2]
        )
        if size.weighted:  # fewer and larger trees, which are faster to score
            rows = min(len(pair.positive), AUTO.forest_rows)
            rows += min(len(pair.unlabeled), AUTO.forest_rows)
            min_leaf = min(max(2, rows // 500), AUTO.forest_leaf)
            forest.set_params(
                n_trees=AUTO.forest_trees, most_rows=AUTO.forest_rows, min_leaf=min_leaf
            )
        else:
            forest.set_params(most_leaves=AUTO.most_leaves)
        if self._fold is not None:
            # Trees of different folds make different errors.
            forest_seed = (seeds[1] + self._fold.number) % (2**31 - 1)
            boosted_seed = (seeds[2] + self._fold.number) % (2**31 - 1)
            forest.set_params(n_trees=AUTO.fold_trees, random_state=forest_seed)
            if not size.weighted:
                forest.set_params(most_leaves=AUTO.fold_leaves)
            boosted.set_params(random_state=boosted_seed, **_fold_steps(self._fold, size))
        if not size.balanced:
            return [forest, boosted, smooth]
        forest.set_params(n_trees=forest.n_trees // 2)
        balanced = _lazy.clone(forest).set_params(balanced=True)
        return [forest, balanced, boosted, smooth]


def _fold_steps(fold: Fold, size: SizeDecisions) -> dict[str, Any]:
    """Settings of boosting in a fold: fewer and larger steps."""
    if size.weighted:  # with early stopping
        return {"learning_rate": min(AUTO.stopped_rate * fold.folds, AUTO.fastest_rate)}
    learning_rate = AUTO.fold_travel / AUTO.fold_rounds
    return {"n_rounds": AUTO.fold_rounds, "learning_rate": learning_rate}


def _hold_out_for_weights(pair: SamplePair, seed: int) -> TrainAndHeld:
    """Rows for fitting the members, and rows for their weights."""
    fraction = max(AUTO.least_held, AUTO.enough_held / len(pair.positive))
    fraction = min(fraction, AUTO.largest_held)
    if len(pair) <= AUTO.regrow_rows:  # the held-out rows are used in the end
        fraction = AUTO.largest_held
    rng = np.random.default_rng(seed)
    return hold_out(pair, None, fraction, rng, most=AUTO.most_held)


def _fit_weighted(
    filling: Filling,
    pair: SamplePair,
    split: TrainAndHeld,
    learners: list[RatioLearner],
    *,
    start: FloatArray,
) -> tuple[list[Function], MemberWeights]:
    """Members fitted to a part of the rows, or again to all of them, and weights on the others."""
    held = split.held
    assert held is not None
    members: list[Function] = []
    for learner in progress(learners, total=2 * len(learners)):
        holdout = filling.pair(held, learner) if learner.uses_holdout else None
        members.append(learner.fit_checked(filling.pair(split.train, learner), holdout))
    weights = stack(_held_out_scores(filling, held, members), start)
    for i, learner in enumerate(progress(learners, total=2 * len(learners))):
        member = members[i]
        most_rows = AUTO.refit_rows
        if isinstance(learner, BoostedRatio) and isinstance(member, BoostedFunction):
            learner = learner.as_grown(member, split.train, held)
            most_rows = AUTO.regrow_rows
        if weights.members[i] > 0 and len(pair) <= most_rows:
            members[i] = learner.fit_checked(filling.pair(pair, learner))
    return members, weights


# -- weights of the members -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldOutScores:
    """Log-ratios of held-out rows, one column per member; weights sum to 1 over either sample."""

    positive: FloatArray
    unlabeled: FloatArray
    positive_weight: FloatArray
    unlabeled_weight: FloatArray

    def columns(self, members: list[int]) -> HeldOutScores:
        """The scores of some of the members."""
        return replace(
            self, positive=self.positive[:, members], unlabeled=self.unlabeled[:, members]
        )

    def mean(self, weights: FloatArray) -> HeldOutScores:
        """The weighted sum of the members, as the scores of a single member."""
        return replace(
            self,
            positive=(self.positive @ weights)[:, None],
            unlabeled=(self.unlabeled @ weights)[:, None],
        )

    def loss(self, weights: FloatArray, constant: float) -> tuple[float, FloatArray]:
        """Logistic loss of positive against unlabeled rows at equal masses, and its gradient."""
        z_p = self.positive @ weights + constant
        z_u = self.unlabeled @ weights + constant
        value = self.positive_weight @ np.logaddexp(0, -z_p)
        value += self.unlabeled_weight @ np.logaddexp(0, z_u)
        g_p = -self.positive_weight * scipy.special.expit(-z_p)
        g_u = self.unlabeled_weight * scipy.special.expit(z_u)
        slope = np.append(g_p @ self.positive + g_u @ self.unlabeled, g_p.sum() + g_u.sum())
        return float(value), slope


def _held_out_scores(filling: Filling, held: SamplePair, members: list[Function]) -> HeldOutScores:
    positive = []
    unlabeled = []
    for member in members:
        positive.append(member.score(filling.rows(held.positive.rows, member)))
        unlabeled.append(member.score(filling.rows(held.unlabeled.rows, member)))
    return HeldOutScores(
        np.column_stack(positive),
        np.column_stack(unlabeled),
        held.positive.weights() / held.positive.total,
        held.unlabeled.weights() / held.unlabeled.total,
    )


class MemberWeights(NamedTuple):
    """Weight of each member (0 for one that is left out), the constant, and the held-out loss."""

    members: FloatArray
    constant: float = 0.0
    loss: float = np.nan


def stack(scores: HeldOutScores, start: FloatArray) -> MemberWeights:
    """Non-negative weights that minimise the held-out logistic loss.

    The loss has a penalty on the squared distance from ``start`` times a common factor. The penalty
    decreases with the square of the number of positives: with few positives the members keep the
    proportions of ``start``. Members whose removal hardly increases the loss are removed, the least
    useful first.
    """
    used = np.flatnonzero(start > 0).tolist()
    fit = _fit(scores, start, used)
    while len(used) > 1:
        candidates = [[i for i in used if i != removed] for removed in used]
        fits = [_fit(scores, start, members) for members in candidates]
        best = int(np.argmin([candidate.loss for candidate in fits]))
        if fits[best].loss - fit.loss > AUTO.worth:
            break
        used = candidates[best]
        fit = fits[best]
    if not (fit.members > 0).any():  # no member ranks held-out rows better than chance
        return MemberWeights(start / start.sum())
    members = np.zeros(len(start))
    members[used] = fit.members
    return fit._replace(members=members)


def _fit(scores: HeldOutScores, start: FloatArray, members: list[int]) -> MemberWeights:
    """The fit of some of the members; its loss is without the penalty."""
    scores = scores.columns(members)
    start = start[members]
    scale, _ = _minimum(scores.mean(start), np.ones(1), 0.0)
    centre = start * max(float(scale), 1e-3)
    point = _minimum(scores, centre, (AUTO.pull / len(scores.positive)) ** 2)
    weights = point[:-1]
    constant = float(point[-1])
    loss, _ = scores.loss(weights, constant)
    return MemberWeights(weights, constant, loss)


def _minimum(scores: HeldOutScores, centre: FloatArray, pull: float) -> FloatArray:
    """Weights and, as the last number, the constant of the lowest loss with the penalty."""

    def penalised(point: FloatArray) -> tuple[float, FloatArray]:
        value, slope = scores.loss(point[:-1], float(point[-1]))
        away = point[:-1] - centre
        slope[:-1] += 2 * pull * away
        return value + pull * float(away @ away), slope

    bounds = [(0.0, None)] * len(centre) + [(None, None)]
    start = np.append(centre, 0.0)
    solution = scipy.optimize.minimize(penalised, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(solution.x)
