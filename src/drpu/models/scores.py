"""Scores that are linear in features, fitted with full-batch gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from drpu._checks import check_integer, check_random_state, check_real
from drpu._samples import Sample, SamplePair, is_sparse
from drpu._typing import BoolArray, FloatArray, IntArray
from drpu.exceptions import ParameterError
from drpu.models.features import Basis, Design, LinearFunction, Scaling, design, median_distance
from drpu.models.learner import ScoreLearner
from drpu.models.risks import LOSSES, PUObjective, ShiftedRisk, weight_shares

MOST_STEPS = 300
FOLDS = 5
MOST_TO_FOLD = 10_000  # with more rows a single split replaces the folds


def choose_ridge(
    objective: PUObjective, positive: Design, unlabeled: Design, ridges: FloatArray, rng: np.random.Generator
) -> float:
    """The ridge with the lowest mean criterion on held-out rows, in five folds or one split."""
    strongest_first = np.sort(ridges)[::-1]
    risks = np.zeros(len(ridges))
    once = len(positive) + len(unlabeled) > MOST_TO_FOLD
    splits = zip(_splits(len(positive), once, rng), _splits(len(unlabeled), once, rng), strict=True)
    for (seen_p, kept_p), (seen_u, kept_u) in splits:
        held_p, held_u = positive.take(kept_p), unlabeled.take(kept_u)
        path = _path(
            objective, positive.take(seen_p), unlabeled.take(seen_u), strongest_first, precision=1e-6
        )
        for i, w in enumerate(path):
            scores = held_p.times(w[:-1]) + w[-1], held_u.times(w[:-1]) + w[-1]
            risks[i] += float(objective.criterion(*scores, held_p.weight, held_u.weight))
    return float(strongest_first[np.argmin(risks)])


def _path(
    objective: PUObjective, positive: Design, unlabeled: Design, ridges: Iterable[float], *, precision: float
) -> Iterator[FloatArray]:
    """Coefficients, the intercept last, that minimise the objective plus ``ridge / 2 |w|^2``, by ridge.

    The intercept is not penalised. Each minimisation starts from the previous solution.
    """
    start = np.zeros(positive.width + 1)
    dense = positive.scaling is None and not is_sparse(positive.rows)
    for ridge in ridges:
        match objective:
            case ShiftedRisk(corrected=False) if objective.loss.name == "squared" and dense:
                yield _solve(objective, positive, unlabeled, ridge)
            case ShiftedRisk() if objective.loss.name == "sigmoid":
                # The sigmoid loss is flat far from 0, where its gradient vanishes. Therefore
                # only the solutions of the logistic loss serve as starting points.
                convex = replace(objective, loss=LOSSES["logistic"])
                start = _minimise(convex, positive, unlabeled, ridge, start, precision)
                yield _minimise(objective, positive, unlabeled, ridge, start, precision)
            case _:
                start = _minimise(objective, positive, unlabeled, ridge, start, precision)
                yield start


def _minimise(
    objective: PUObjective,
    positive: Design,
    unlabeled: Design,
    ridge: float,
    start: FloatArray,
    precision: float,
) -> FloatArray:
    def value(w: FloatArray) -> tuple[float, FloatArray]:
        risk, by_p, by_u = objective.gradient(
            positive.times(w[:-1]) + w[-1], unlabeled.times(w[:-1]) + w[-1], positive.weight, unlabeled.weight
        )
        slope = positive.adjoint(by_p) + unlabeled.adjoint(by_u) + ridge * w[:-1]
        return risk + ridge / 2 * float(w[:-1] @ w[:-1]), np.append(slope, by_p.sum() + by_u.sum())

    options: Any = {"maxiter": MOST_STEPS, "ftol": precision}
    found = minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=np.float64)


def _splits(n: int, once: bool, rng: np.random.Generator) -> Iterator[tuple[IntArray, IntArray]]:
    """Positions of training rows and of held-out rows."""
    parts = np.array_split(rng.permutation(n), FOLDS)
    for kept in parts[:1] if once else parts:
        yield np.setdiff1d(np.arange(n), kept), np.sort(kept)


def _solve(objective: ShiftedRisk, positive: Design, unlabeled: Design, ridge: float) -> FloatArray:
    """Closed form for the squared loss: one Newton step from zero, because the gradient is linear."""
    hessian = np.diag(np.append(np.full(positive.width, ridge), 0.0))
    slope = np.zeros(positive.width + 1)
    zeros = np.zeros(len(positive)), np.zeros(len(unlabeled))
    ones = np.ones(len(positive)), np.ones(len(unlabeled))
    at_zero = objective.gradient(*zeros, positive.weight, unlabeled.weight)[1:]
    at_one = objective.gradient(*ones, positive.weight, unlabeled.weight)[1:]
    for part, low, high in zip((positive, unlabeled), at_zero, at_one, strict=True):
        F = np.column_stack([part.rows, np.ones(len(part))])
        hessian += F.T @ ((high - low)[:, None] * F)
        slope += F.T @ low
    return np.asarray(np.linalg.lstsq(hessian, -slope, rcond=None)[0])


RIDGES = np.logspace(-5, -1, 5)  # candidates of ridge="auto", for features with a mean squared norm of 1
FALLBACK_RIDGE = 1e-3  # used if there are too few rows to choose a ridge
FEWEST_TO_CHOOSE = 10
MOST_ROWS = 50_000  # more unlabeled rows do not improve a fit of a few hundred coefficients
NARROW, WIDE = 0.4, 1.0  # kernel widths, in median distances between rows


@dataclass(eq=False, repr=False)
class LinearScore(ScoreLearner):
    """Learns a score that is linear in the standardised columns."""

    _: KW_ONLY
    ridge: float | str = "auto"  # "auto": chosen by the criterion of the objective on held-out rows
    random_state: Any = None

    def fit_score(self, pair: SamplePair, objective: PUObjective) -> LinearFunction:
        """The score that minimises the objective for checked samples."""
        features, positive, unlabeled = self.designs(pair)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        ridge = self._choose(objective, positive, unlabeled, rng)
        w = next(_path(objective, positive, unlabeled, [ridge], precision=1e-9))
        return LinearFunction(features, w[:-1], float(w[-1]), ridge)

    def designs(self, pair: SamplePair) -> tuple[Scaling | Basis, Design, Design]:
        """Features, which are set by the unlabeled rows, and those of both samples."""
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        features = self._features(pair.unlabeled, rng)
        unlabeled = pair.unlabeled.at_most(MOST_ROWS, rng)
        return features, design(features, pair.positive), design(features, unlabeled)

    def _features(self, unlabeled: Sample, rng: np.random.Generator) -> Scaling | Basis:
        return Scaling.of(unlabeled.rows, unlabeled.weight)

    def _choose(
        self, objective: PUObjective, positive: Design, unlabeled: Design, rng: np.random.Generator
    ) -> float:
        if not isinstance(self.ridge, str):
            return check_real("ridge", self.ridge, low=1e-12)
        if self.ridge != "auto":
            raise ParameterError(f"ridge must be a positive number or 'auto', got {self.ridge!r}.")
        weights = [part.weight for part in (positive, unlabeled) if part.weight is not None]
        weightless = any((weight <= 0).any() for weight in weights)  # then a fold could have no weight at all
        if min(len(positive), len(unlabeled)) < FEWEST_TO_CHOOSE or weightless:
            return FALLBACK_RIDGE
        return choose_ridge(objective, positive, unlabeled, RIDGES, rng)


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
    features, P, U = learner.designs(pair)
    w_p, w_u = weight_shares(P, P.weight), weight_shares(U, U.weight)
    w = np.zeros(P.width + 1)
    labels = np.zeros(len(U), dtype=bool)
    for share in np.geomspace(FAINTEST, 1.0, rounds) if rounds > 1 else [1.0]:
        for turn in range(MOST_TURNS):
            first = turn == 0 and not w.any()
            found = labels if first else label_by_rank(U.times(w[:-1]), w_u, prior)
            if turn > 0 and np.array_equal(found, labels):
                break
            labels = found
            pull_p = 2 * (1 - cost) * strengths[0] * w_p
            side = np.where(labels, 2 * (1 - cost), 2 * cost)
            w = _margin(P, U, labels, pull_p, strengths[1] * share * side * w_u, w)
    return LinearFunction(features, w[:-1], float(w[-1]))


def label_by_rank(scores: FloatArray, weight: FloatArray, prior: float) -> BoolArray:
    """The optimal labels for given scores: the largest ones, a weighted fraction ``prior``, are positive."""
    order = np.argsort(-scores, kind="stable")
    before = np.cumsum(weight[order]) - weight[order] / 2
    labels = np.zeros(len(scores), dtype=bool)
    labels[order] = before < prior
    return labels


def _margin(
    P: Design, U: Design, labels: BoolArray, pull_p: FloatArray, pull_u: FloatArray, start: FloatArray
) -> FloatArray:
    """Coefficients of the large-margin fit to these labels, the intercept last."""
    sign = np.where(labels, 1.0, -1.0)

    def value(w: FloatArray) -> tuple[float, FloatArray]:
        loss_p, slope_p = _hinge(P.times(w[:-1]) + w[-1])
        loss_u, slope_u = _hinge(sign * (U.times(w[:-1]) + w[-1]))
        by_p, by_u = pull_p * slope_p, pull_u * slope_u * sign
        total = float(pull_p @ loss_p + pull_u @ loss_u + w[:-1] @ w[:-1] / 2)
        return total, np.append(P.adjoint(by_p) + U.adjoint(by_u) + w[:-1], by_p.sum() + by_u.sum())

    options: Any = {"maxiter": MARGIN_STEPS, "ftol": 1e-7}
    found = minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=np.float64)


def _hinge(margin: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[1 - z]_+ with a smoothed corner, and its derivative."""
    lack = 1 - margin
    round_part = np.clip(lack + ROUNDING, 0, 2 * ROUNDING)
    value = round_part**2 / (4 * ROUNDING) + np.maximum(lack - ROUNDING, 0)
    return value, -round_part / (2 * ROUNDING)
