"""Learners of the scores of the other methods: linear in features, by full-batch gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from drpu._arrays import BoolArray, FloatArray, IntArray
from drpu._checks import check_integer, check_random_state, check_real
from drpu._samples import Sample, SamplePair, is_sparse
from drpu.exceptions import ParameterError
from drpu.models.features import Basis, Scaling, median_distance
from drpu.models.fourier import Design, LinearFunction, design
from drpu.models.learner import ScoreLearner
from drpu.models.risks import LOSSES, PUObjective, ShiftedRisk, weight_shares

RIDGES = np.logspace(-5, -1, 5)  # of ridge="auto", for features with a mean squared norm of 1
FALLBACK_RIDGE = 1e-3  # used if there are too few rows to choose a ridge
FEWEST_TO_CHOOSE = 10
MOST_ROWS = 50_000  # more unlabeled rows do not improve a fit of a few hundred coefficients
NARROW = 0.4  # smallest width of a kernel, in median distances between rows
WIDE = 1.0  # largest width
MOST_STEPS = 300
FOLDS = 5
MOST_TO_FOLD = 10_000  # with more rows a single split replaces the folds


class Designs(NamedTuple):
    """The features of both samples."""

    positive: Design
    unlabeled: Design

    def scores(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores of both samples, from coefficients and, as the last number, the intercept."""
        positive = self.positive.times(w[:-1]) + w[-1]
        return positive, self.unlabeled.times(w[:-1]) + w[-1]

    def gradient(self, by_positive: FloatArray, by_unlabeled: FloatArray) -> FloatArray:
        """Derivatives by the coefficients and the intercept, from those by the scores."""
        slope = self.positive.adjoint(by_positive) + self.unlabeled.adjoint(by_unlabeled)
        return np.append(slope, by_positive.sum() + by_unlabeled.sum())


@dataclass(eq=False, repr=False)
class LinearScore(ScoreLearner):
    """Learns a score that is linear in the standardised columns."""

    _: KW_ONLY
    ridge: float | str = "auto"  # "auto": chosen by the criterion of held-out rows
    random_state: Any = None

    def fit_score(self, pair: SamplePair, objective: PUObjective) -> LinearFunction:
        """The score that minimises the objective for checked samples."""
        assert isinstance(objective, ShiftedRisk)  # VPU needs a network
        features, designs = self.designs(pair)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        ridge = self._choose_ridge(objective, designs, rng)
        w = next(_path(objective, designs, [ridge], precision=1e-9))
        return LinearFunction(features, w[:-1], float(w[-1]), ridge)

    def designs(self, pair: SamplePair) -> tuple[Scaling | Basis, Designs]:
        """Features, which are set by the unlabeled rows, and those of both samples."""
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        features = self._features(pair.unlabeled, rng)
        unlabeled = pair.unlabeled.at_most(MOST_ROWS, rng)
        return features, Designs(design(features, pair.positive), design(features, unlabeled))

    def _features(self, unlabeled: Sample, rng: np.random.Generator) -> Scaling | Basis:
        return Scaling.of(unlabeled.rows, unlabeled.weight)

    def _choose_ridge(
        self, objective: ShiftedRisk, designs: Designs, rng: np.random.Generator
    ) -> float:
        if not isinstance(self.ridge, str):
            return check_real("ridge", self.ridge, low=1e-12)
        if self.ridge != "auto":
            raise ParameterError(f"ridge must be a positive number or 'auto', got {self.ridge!r}.")
        for rows in designs:
            no_weight = rows.weight is not None and (rows.weight <= 0).any()
            if len(rows) < FEWEST_TO_CHOOSE or no_weight:  # a fold could have no weight at all
                return FALLBACK_RIDGE
        return choose_ridge(objective, designs, RIDGES, rng)


@dataclass(eq=False, repr=False)
class KernelScore(LinearScore):
    """Learns a smooth score: linear in random Fourier features, which approximate Gaussian kernels.

    The widths of the kernels are distributed below the median distance between rows, so
    no width has to be chosen. The function contains random numbers and coefficients, no rows.
    """

    n_features: int = 500

    def _features(self, unlabeled: Sample, rng: np.random.Generator) -> Basis:
        scaling = Scaling.of(unlabeled.rows, unlabeled.weight)
        size = check_integer("n_features", self.n_features, low=1)
        typical = median_distance(unlabeled.rows, scaling, rng)
        width = typical * np.exp(rng.uniform(np.log(NARROW), np.log(WIDE), size))
        frequencies = rng.standard_normal((size, unlabeled.rows.shape[1])) / width[:, None]
        return Basis("features", frequencies, rng.uniform(0, 2 * np.pi, size), scaling)


def choose_ridge(
    objective: ShiftedRisk, designs: Designs, ridges: FloatArray, rng: np.random.Generator
) -> float:
    """The ridge with the lowest mean criterion on held-out rows, in five folds or one split."""
    positive, unlabeled = designs
    strongest_first = np.sort(ridges)[::-1]
    n_splits = 1 if len(positive) + len(unlabeled) > MOST_TO_FOLD else FOLDS
    positive_splits = _splits(len(positive), n_splits, rng)
    unlabeled_splits = _splits(len(unlabeled), n_splits, rng)
    risks = np.zeros(len(ridges))
    for k in range(n_splits):
        train_positive, held_positive = positive_splits[k]
        train_unlabeled, held_unlabeled = unlabeled_splits[k]
        train = Designs(positive.take(train_positive), unlabeled.take(train_unlabeled))
        held = Designs(positive.take(held_positive), unlabeled.take(held_unlabeled))
        for i, w in enumerate(_path(objective, train, strongest_first, precision=1e-6)):
            criterion = objective.criterion(
                *held.scores(w), held.positive.weight, held.unlabeled.weight
            )
            risks[i] += float(criterion)
    return float(strongest_first[np.argmin(risks)])


def _splits(n: int, n_splits: int, rng: np.random.Generator) -> list[tuple[IntArray, IntArray]]:
    """Positions of training rows and of held-out rows, of which each is a fifth."""
    parts = np.array_split(rng.permutation(n), FOLDS)[:n_splits]
    return [(np.setdiff1d(np.arange(n), held), np.sort(held)) for held in parts]


def _path(
    objective: ShiftedRisk, designs: Designs, ridges: Iterable[float], *, precision: float
) -> Iterator[FloatArray]:
    """Coefficients, the intercept last, that minimise the objective plus ``ridge / 2 |w|^2``.

    The intercept is not penalised. Each minimisation starts from the solution of the previous
    ridge.
    """
    positive = designs.positive
    start = np.zeros(positive.width + 1)
    loss = objective.loss.name
    dense = positive.scaling is None and not is_sparse(positive.rows)
    for ridge in ridges:
        if loss == "squared" and dense and not objective.corrected:
            yield _solve(objective, designs, ridge)
        elif loss == "sigmoid":
            # The sigmoid loss is flat far from 0, where its gradient vanishes. Therefore only the
            # solutions of the logistic loss serve as starting points.
            convex = replace(objective, loss=LOSSES["logistic"])
            start = _minimise(convex, designs, ridge, start, precision)
            yield _minimise(objective, designs, ridge, start, precision)
        else:
            start = _minimise(objective, designs, ridge, start, precision)
            yield start


def _minimise(
    objective: ShiftedRisk, designs: Designs, ridge: float, start: FloatArray, precision: float
) -> FloatArray:
    def value(w: FloatArray) -> tuple[float, FloatArray]:
        risk, by_positive, by_unlabeled = objective.gradient(
            *designs.scores(w), designs.positive.weight, designs.unlabeled.weight
        )
        slope = designs.gradient(by_positive, by_unlabeled)
        slope[:-1] += ridge * w[:-1]
        return risk + ridge / 2 * float(w[:-1] @ w[:-1]), slope

    options: Any = {"maxiter": MOST_STEPS, "ftol": precision}
    solution = minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(solution.x, dtype=np.float64)


def _solve(objective: ShiftedRisk, designs: Designs, ridge: float) -> FloatArray:
    """Closed form for the squared loss: one Newton step from zero, as the gradient is linear."""
    positive, unlabeled = designs
    weights = (positive.weight, unlabeled.weight)
    zeros = (np.zeros(len(positive)), np.zeros(len(unlabeled)))
    ones = (np.ones(len(positive)), np.ones(len(unlabeled)))
    _, *slopes_at_zero = objective.gradient(*zeros, *weights)
    _, *slopes_at_one = objective.gradient(*ones, *weights)
    hessian = np.diag(np.append(np.full(positive.width, ridge), 0.0))
    slope = np.zeros(positive.width + 1)
    for part, at_zero, at_one in zip(designs, slopes_at_zero, slopes_at_one, strict=True):
        F = np.column_stack([part.rows, np.ones(len(part))])
        hessian += F.T @ ((at_one - at_zero)[:, None] * F)
        slope += F.T @ at_zero
    solution, *_ = np.linalg.lstsq(hessian, -slope, rcond=None)
    return np.asarray(solution)


# -- large margins --------------------------------------------------------------------------------

FAINTEST = 1e-3  # weight of the unlabeled rows in the first round, relative to the last
MOST_TURNS = 10  # alternations between labels and score in one round
MARGIN_STEPS = 200
ROUNDING = 0.1  # half width of the smoothed corner of the hinge


def fit_margin(
    learner: LinearScore,
    pair: SamplePair,
    *,
    prior: float,
    strengths: tuple[float, float],
    rounds: int,
    cost: float,
) -> LinearFunction:
    """The score, fitted alternately with the labels of the unlabeled rows."""
    features, designs = learner.designs(pair)
    share_p = weight_shares(designs.positive, designs.positive.weight)
    share_u = weight_shares(designs.unlabeled, designs.unlabeled.weight)
    pull_p = 2 * (1 - cost) * strengths[0] * share_p
    w = np.zeros(designs.positive.width + 1)
    labels = np.zeros(len(designs.unlabeled), dtype=bool)
    schedule = np.geomspace(FAINTEST, 1.0, rounds) if rounds > 1 else np.ones(1)
    for strength in schedule:
        for turn in range(MOST_TURNS):
            new_labels = labels
            if turn > 0 or w.any():
                scores = designs.unlabeled.times(w[:-1])
                new_labels = label_by_rank(scores, share_u, prior)
            if turn > 0 and np.array_equal(new_labels, labels):
                break
            labels = new_labels
            cost_of_label = np.where(labels, 2 * (1 - cost), 2 * cost)
            pull_u = strengths[1] * strength * cost_of_label * share_u
            w = _margin(designs, labels, pull_p, pull_u, w)
    return LinearFunction(features, w[:-1], float(w[-1]))


def label_by_rank(scores: FloatArray, weight: FloatArray, prior: float) -> BoolArray:
    """The optimal labels of scores: the largest, a weighted fraction ``prior``, are positive."""
    order = np.argsort(-scores, kind="stable")
    before = np.cumsum(weight[order]) - weight[order] / 2
    labels = np.zeros(len(scores), dtype=bool)
    labels[order] = before < prior
    return labels


def _margin(
    designs: Designs, labels: BoolArray, pull_p: FloatArray, pull_u: FloatArray, start: FloatArray
) -> FloatArray:
    """Coefficients of the large-margin fit to these labels, the intercept last."""
    sign = np.where(labels, 1.0, -1.0)

    def value(w: FloatArray) -> tuple[float, FloatArray]:
        scores_p, scores_u = designs.scores(w)
        loss_p, slope_p = _hinge(scores_p)
        loss_u, slope_u = _hinge(sign * scores_u)
        slope = designs.gradient(pull_p * slope_p, pull_u * slope_u * sign)
        slope[:-1] += w[:-1]
        total = float(pull_p @ loss_p + pull_u @ loss_u + w[:-1] @ w[:-1] / 2)
        return total, slope

    options: Any = {"maxiter": MARGIN_STEPS, "ftol": 1e-7}
    solution = minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(solution.x, dtype=np.float64)


def _hinge(margin: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[1 - z]_+ with a smoothed corner, and its derivative."""
    lack = 1 - margin
    round_part = np.clip(lack + ROUNDING, 0, 2 * ROUNDING)
    value = round_part**2 / (4 * ROUNDING) + np.maximum(lack - ROUNDING, 0)
    return value, -round_part / (2 * ROUNDING)
