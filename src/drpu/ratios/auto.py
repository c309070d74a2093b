"""What the default does with few and with many rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.utils import check_random_state

from drpu._samples import Sample, SamplePair, is_sparse, n_rows
from drpu._schema import Array, Flag, List, Number, Optional, Schema
from drpu._state import ModelState
from drpu._typing import FloatArray, Rows
from drpu.exceptions import DataError, ImputationWarning, ParameterError
from drpu.functions.trees import Scorer, category_columns
from drpu.ratios.base import RatioModel, model_from_state
from drpu.ratios.boosted import BoostedRatio
from drpu.ratios.classifier import ClassifierRatio
from drpu.ratios.forest import ForestRatio
from drpu.ratios.fourier import FourierRatio
from drpu.ratios.splits import TrainAndHeld, hold_out
from drpu.ratios.tree_model import TreeRatio
from drpu.tables.encoder import Indicators

__all__ = ["AutoRatio", "Evidence", "FoldPlan", "Size", "Weights", "has_gaps", "stack", "warn_of_gaps"]

FEW = 10  # with fewer positives trees would overfit
ENOUGH = 1000  # members are weighted from this number of positives on
WIDE = 1000  # sparse rows with more columns get a linear fit only
LINEAR_ROWS = 50_000  # unlabeled rows from which on the smooth member also has a linear part
MANY_ROWS = 5000  # above this number of rows the forest has smaller trees, which are scored faster


@dataclass(frozen=True, slots=True)
class Size:
    """Decisions that follow from the size of the samples.

    They are made once for all folds and for the model of all rows, because the scores of all of them are
    compared.

    Attributes
    ----------
    trees : bool
        Whether there are enough positives for trees, and not too many columns.
    weighted : bool
        Whether there are enough positives to determine the weights of the members.
    many_rows : bool
        Whether there are so many rows that trees have to be small.
    linear : bool
        Whether the smooth member also has a linear part. With fewer rows it is fitted to one sample, whose
        error is larger than the gain.
    """

    trees: bool
    weighted: bool
    many_rows: bool
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


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """The plan of one of several folds, whose models are used for priors.

    Their scores are counted, and the counts of all folds are added up. So each fold needs fewer trees
    than the model of all rows, from which labels come.
    """

    number: int
    folds: int
    medians: FloatArray
    indicators: Indicators | None

    @property
    def trees(self) -> int:
        """Number of trees of the forest."""
        return FOLD_TREES

    def seed(self, seed: int) -> int:
        """A seed for the trees of this fold: trees of different folds make different errors."""
        return (seed + self.number) % (2**31 - 1)

    def boosting(self, *, stopped: bool) -> dict[str, Any]:
        """Rounds and learning rate: fewer and larger steps than in a single model."""
        if stopped:
            return {"learning_rate": min(STOPPED_RATE * self.folds, FASTEST_RATE)}
        return {"n_rounds": ROUNDS, "learning_rate": TRAVEL / ROUNDS}


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
        return Evidence(
            self.positive[:, kept], self.unlabeled[:, kept], self.positive_weight, self.unlabeled_weight
        )

    def mean(self, weights: FloatArray) -> Evidence:
        """The weighted sum of the members, as the scores of a single member."""
        return Evidence(
            (self.positive @ weights)[:, None],
            (self.unlabeled @ weights)[:, None],
            self.positive_weight,
            self.unlabeled_weight,
        )

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


HELD, ENOUGH_HELD = (
    (0.1, 0.2),
    400,
)  # fraction of the rows that determine the weights: a tenth if it has 400 positives
MOST_HELD = 20_000  # more rows of either sample do not improve the weights
REFIT_ROWS = 50_000  # with at most this many rows the members are fitted again to all rows
REGROW_ROWS = 200_000  # the same for boosting, the only member that uses more rows than that
FOREST_TREES, FOREST_ROWS, FOREST_LEAF = 60, 50_000, 50  # where members are weighted; rows of each sample
MOST_LEAVES = (
    64  # of a tree, where members are averaged: more add to the time of a score, not to its accuracy
)
FOREST_WEIGHT = 2.0  # in the average: the forest has the smallest error with few positives


class AutoRatio(RatioModel, kind="auto", named=True):
    """Log-ratios of a forest, boosted trees and a smooth logistic fit, averaged or weighted.

    Each member separates positives from unlabeled rows, and their errors differ: the forest
    has a small variance on few rows, boosting finds steps and interactions, the smooth fit
    extrapolates where trees are constant (it is linear for sparse rows). Below 1000
    positives the log-ratios are averaged and the forest has twice the weight, because so few
    positives cannot determine weights. From 1000 on, a fifth of the rows (a tenth above 200,000 rows,
    and at most 20,000 of either sample) is held out and the weights are those of the lowest
    logistic loss on it, shrunk towards the average if positives are few. A member that does not
    lower that loss is dropped. Up to 50,000 rows the members are then fitted again to all
    rows, and boosting up to 200,000. Beyond 50,000 rows, the forest uses at most so many of
    either sample, and the smooth fit averages fits to 20,000 and is also linear in the columns, while
    boosting uses all rows and grows larger trees. Rows from which the prior is estimated do not
    determine weights: the classifier holds them out.

    Below ten positives only the smooth fit is used, and only the linear fit for sparse rows
    with more than 1000 columns. If a classifier has several folds, their models have fewer trees and
    are used for priors; one more model, fitted to all rows, is used for labels (for sparse rows, the
    average of the folds). Trees handle missing
    values and categories themselves; for the smooth fit, missing values are filled with column
    medians, and categories become indicator columns.

    Parameters
    ----------
    categories : sequence of int, default=()
        Positions of the columns that hold category codes, as in :class:`drpu.BoostedRatio`.
    n_jobs : int, default=1
        Threads of the trees.
    random_state : int, RandomState or None, default=None
        Seed of the members.

    Attributes
    ----------
    members_ : list of RatioModel
        The fitted members with a weight above 0.
    weights_ : array of shape (n_members,)
        Their weights. They sum to 1 if the members are averaged.
    constant_ : float
        Added to the weighted sum; 0 if the members are averaged.
    """

    schema = Schema(
        "AutoRatio",
        config={
            "saw_gaps": Flag(),
            "weights": Optional(List(Number(low=0), low=1)),
            "constant": Optional(Number()),
        },
        arrays={"medians": Array("d")},
        parts=None,
    )
    accepts_nan: ClassVar[bool] = True
    fits_in_threads: ClassVar[bool] = True
    accepts_categories: ClassVar[bool] = True

    indicators_: Indicators | None = None
    _plan: FoldPlan | None = None
    _size: Size | None = None

    def __init__(self, *, categories: Sequence[int] = (), n_jobs: int = 1, random_state: Any = None) -> None:
        self.categories = categories
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, pair: SamplePair, holdout: SamplePair | None) -> None:
        self._check_categories(pair)
        self.saw_gaps_ = has_gaps(pair.positive.rows) or has_gaps(pair.unlabeled.rows)
        if self.saw_gaps_:
            warn_of_gaps()
        rng = check_random_state(self.random_state)
        seeds = [int(seed) for seed in rng.randint(2**31 - 1, size=3)]
        size = self._size or Size.of(pair)
        split = self._split(pair, seeds[0]) if size.weighted else TrainAndHeld(pair, None)
        self._read_columns(pair, seeds[0])
        if split.held is None:
            members = [self._fit_member(member, pair) for member in self._choose(pair, seeds, size)]
            start = self._start(members)
            self._keep(members, Weights(start / start.sum(), 0.0))
            return
        self._fit_weighted(pair, split, seeds, size)

    def for_folds(self, pair: SamplePair, folds: int) -> list[Self]:
        """Copies that have fewer trees each, and the same medians and indicators."""
        copies = super().for_folds(pair, folds)
        if folds == 1:
            return copies
        self._check_categories(pair)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._read_columns(pair, seed)
        size = Size.of(pair, folds)
        for number, copy in enumerate(copies):
            copy._plan, copy._size = FoldPlan(number, folds, self.medians_, self.indicators_), size
        return copies

    def for_labels(self, pair: SamplePair, folds: int) -> Self | None:
        """A copy with the same kind of members as the folds, because they determine its calibration.

        None for sparse rows: with many columns the average of the folds ranks better than one model.
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

    def _read_columns(self, pair: SamplePair, seed: int) -> None:
        """Set medians and indicators of the columns; with several folds, those of all folds."""
        if self._plan is not None:
            self.medians_, self.indicators_ = self._plan.medians, self._plan.indicators
            return
        self.medians_ = _medians(pair, np.random.default_rng(seed))
        self.indicators_ = Indicators.of(pair.stacked(), self.categories) if len(self.categories) else None

    def _split(self, pair: SamplePair, seed: int) -> TrainAndHeld:
        """Rows for fitting the members, and rows for their weights."""
        fraction = min(max(HELD[0], ENOUGH_HELD / len(pair.positive)), HELD[1])
        if len(pair) <= REGROW_ROWS:  # the held-out rows are used in the end
            fraction = HELD[1]
        return hold_out(pair, None, fraction, np.random.default_rng(seed), most=MOST_HELD)

    def _choose(self, pair: SamplePair, seeds: list[int], size: Size) -> list[RatioModel]:
        """The unfitted members that are suitable for the rows."""
        smooth: RatioModel = ClassifierRatio()
        if not is_sparse(pair.positive.rows):
            smooth = FourierRatio(linear=size.linear, random_state=seeds[0])
        if not size.trees:
            return [smooth]
        forest = ForestRatio(categories=self.categories, n_jobs=self.n_jobs, random_state=seeds[1])
        boosted = BoostedRatio(categories=self.categories, n_jobs=self.n_jobs, random_state=seeds[2])
        if size.weighted:
            forest.set_params(**_large_forest(pair))
        elif size.many_rows:
            forest.set_params(most_leaves=MOST_LEAVES)
        if self._plan is not None:
            forest.set_params(n_trees=self._plan.trees, random_state=self._plan.seed(seeds[1]))
            boosted.set_params(**self._plan.boosting(stopped=size.weighted))
            boosted.set_params(random_state=self._plan.seed(seeds[2]))
        return [forest, boosted, smooth]

    def _fit_weighted(self, pair: SamplePair, split: TrainAndHeld, seeds: list[int], size: Size) -> None:
        """Fit members to the larger part and determine their weights on the held-out rows."""
        assert split.held is not None
        held, members = split.held, self._choose(split.train, seeds, size)
        for member in members:
            self._fit_member(member, split.train, held)
        scores = [
            np.column_stack([member.score_checked(self.filled(sample.rows, member)) for member in members])
            for sample in (held.positive, held.unlabeled)
        ]
        shares = [sample.weights() / sample.total for sample in (held.positive, held.unlabeled)]
        weights = stack(Evidence(*scores, *shares), self._start(members))
        for member, weight in zip(members, weights.members, strict=True):
            if isinstance(member, BoostedRatio):
                member.set_params(**member.as_grown())
            most = REGROW_ROWS if isinstance(member, BoostedRatio) else REFIT_ROWS
            if weight > 0 and len(pair) <= most:
                self._fit_member(member, pair)
        self._keep(members, weights)

    def _fit_member(
        self, member: RatioModel, pair: SamplePair, holdout: SamplePair | None = None
    ) -> RatioModel:
        """The member, fitted to rows in a form that it accepts."""
        filled = self._filled_pair(pair, member)
        if holdout is None or not member.uses_holdout:
            return member.fit_checked(filled)
        return member.fit_checked(filled, self._filled_pair(holdout, member))

    @staticmethod
    def _start(members: list[RatioModel]) -> FloatArray:
        """Weights in the average."""
        return np.array([FOREST_WEIGHT if isinstance(member, ForestRatio) else 1.0 for member in members])

    def _keep(self, members: list[RatioModel], weights: Weights) -> None:
        used = np.flatnonzero(weights.members)
        self.members_ = [members[i] for i in used]
        self.weights_, self.constant_ = weights.members[used], weights.constant

    def describe(self) -> str:
        """The members and their weights."""
        if len(self.members_) == 1:
            return f"{self.members_[0].describe()} alone"
        parts = [
            f"{weight:.2g} x {member.describe()}"
            for weight, member in zip(self.weights_, self.members_, strict=True)
        ]
        return f"log-ratio of {' + '.join(parts)}"

    def member_scores(self, X: Rows) -> FloatArray:
        """Log-ratios of checked rows, one column for each member."""
        scores = [member.score_checked(self.filled(X, member)) for member in self.members_]
        return np.column_stack(scores)

    def _log_ratio(self, X: Rows) -> FloatArray:
        gaps = has_gaps(X)
        if gaps and not self.saw_gaps_:
            warn_of_gaps()
        total = np.full(n_rows(X), self.constant_)
        for weight, member in zip(self.weights_, self.members_, strict=True):
            total += weight * member.score_checked(self.filled(X, member, gaps))
        return total

    @classmethod
    def together(cls, models: Sequence[Any]) -> Scorer | None:  # noqa: D102
        from drpu.ratios.auto_scores import auto_together

        return auto_together(models)

    def contributions(self, X: Rows) -> FloatArray:
        """Contributions of the columns in the trees; the score of the smooth member is in the last column."""
        trees = [isinstance(member, TreeRatio) for member in self.members_]
        if not any(trees):
            raise ParameterError(
                "the fitted model has no trees, which have contributions of columns: the default has its "
                "smooth member only if there are fewer than ten positives, or very wide sparse rows. Use "
                "model='boosted', or permutation_importance with AUCScorer for any model."
            )
        gaps = has_gaps(X)
        total = np.zeros((n_rows(X), self.n_features_in_ + 1))
        total[:, -1] = self.constant_
        for weight, member, grown in zip(self.weights_, self.members_, trees, strict=True):
            rows = self.filled(X, member, gaps)
            if grown:
                total += weight * member.contributions(rows)
            else:
                total[:, -1] += weight * member.score_checked(rows)
        return total

    def onnx_scores(self, graph: Any, X: str) -> str:  # noqa: D102
        filled = graph.op("Where", graph.op("IsNaN", X), self.medians_, X)
        if self.indicators_ is not None:
            from drpu.functions.onnx import indicator_columns

            filled = indicator_columns(graph, self.indicators_, filled)
        parts = [member.onnx_scores(graph, X if member.accepts_nan else filled) for member in self.members_]
        scale = float(self.weights_.sum())
        mean = graph.mean(*parts, weights=self.weights_.tolist())
        return str(graph.op("Add", graph.op("Mul", mean, scale), self.constant_))

    def _filled_pair(self, pair: SamplePair, member: RatioModel) -> SamplePair:
        samples = (pair.positive, pair.unlabeled)
        return SamplePair(*(Sample(self.filled(s.rows, member), s.weight) for s in samples))

    def filled(self, X: Rows, member: RatioModel, gaps: bool | None = None) -> Rows:
        """Rows in the form that the member accepts: the smooth one gets medians and indicators."""
        if not member.accepts_nan and (has_gaps(X) if gaps is None else gaps):
            X = _fill_gaps(X, self.medians_)
        return X if member.accepts_categories or self.indicators_ is None else self.indicators_(X)

    def state(self) -> ModelState:
        """The states of the members, their weights, and the values that replace missing ones."""
        return ModelState(
            self.kind,
            {
                "saw_gaps": self.saw_gaps_,
                "weights": [float(weight) for weight in self.weights_],
                "constant": float(self.constant_),
            }
            | ({} if self.indicators_ is None else {"indicators": self.indicators_.state()}),
            {"medians": self.medians_},
            parts={str(i): member.state() for i, member in enumerate(self.members_)},
        )

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:
        """A fitted model from its state."""
        model = cls()
        if "indicators" in state.config:
            model.indicators_ = Indicators.from_state(state.config["indicators"])
            model.categories = model.indicators_.categories
        model.saw_gaps_, model.medians_ = bool(state.config["saw_gaps"]), state.arrays["medians"]
        model.members_ = [model_from_state(state.parts[str(i)]) for i in range(len(state.parts))]
        start = cls._start(model.members_)  # weights of states without weights
        model.weights_ = np.array(state.config.get("weights", start / start.sum()), dtype=np.float64)
        model.constant_ = float(state.config.get("constant", 0.0))
        if model.weights_.shape != (len(model.members_),):
            raise DataError(f"weights must be {len(model.members_)} numbers, got {model.weights_.shape}.")
        model.n_features_in_ = len(model.medians_)
        numbers = model.n_features_in_ if model.indicators_ is None else model.indicators_.n_out
        for member in model.members_:
            columns = model.n_features_in_ if member.accepts_categories else numbers
            if member.n_features_in_ != columns:
                raise DataError(f"members must have {columns} columns, got {member.n_features_in_}.")
        return model


def has_gaps(X: Rows) -> bool:
    """Whether any value is missing."""
    return bool(np.isnan(X.data if is_sparse(X) else X).any())


def _large_forest(pair: SamplePair) -> dict[str, int]:
    """Parameters of a forest on many rows: fewer and larger trees, which are faster to score."""
    rows = sum(min(len(sample), FOREST_ROWS) for sample in (pair.positive, pair.unlabeled))
    leaf = min(max(2, rows // 500), FOREST_LEAF)
    return {"n_trees": FOREST_TREES, "most_rows": FOREST_ROWS, "min_leaf": leaf}


def _medians(pair: SamplePair, rng: np.random.Generator) -> FloatArray:
    """Median of each column without missing values; 0 for a column without values, and for sparse rows.

    If a sample has more than 20,000 rows, a random part of it is used.
    """
    if is_sparse(pair.positive.rows):
        return np.zeros(pair.positive.rows.shape[1])
    if len(pair) > MOST_HELD:
        pair = SamplePair(pair.positive.at_most(MOST_HELD, rng), pair.unlabeled.at_most(MOST_HELD, rng))
    imputer = SimpleImputer(strategy="median", keep_empty_features=True).fit(pair.stacked())
    return np.asarray(imputer.statistics_, dtype=np.float64)


def _fill_gaps(X: Rows, medians: FloatArray) -> Rows:
    if is_sparse(X):
        X = X.copy()
        X.data[np.isnan(X.data)] = 0
        return X
    return np.where(np.isnan(X), medians, X)


def warn_of_gaps() -> None:
    """Warn that the smooth member gets medians in place of missing values."""
    warnings.warn(
        "the rows have missing values: the trees use them as they are, the smooth member gets column "
        "medians instead (zeros in sparse rows).",
        ImputationWarning,
        stacklevel=2,
    )
