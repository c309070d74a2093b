"""Operating points: how a density ratio becomes a probability and a label."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

import numpy as np
import scipy

from drpu import decisions, priors
from drpu._arrays import BoolArray, FloatArray
from drpu._codec import Items, Kept, Number, kept
from drpu.exceptions import DataError
from drpu.models.learner import LOG_LIMIT
from drpu.priors.calibration import ratio_threshold
from drpu.priors.estimate import PriorEstimate
from drpu.priors.tails import ScoreTails
from drpu.state.costs import KeptCosts, check_cost
from drpu.state.fitted import FittedRatio, level_log_ratios, level_offsets, tie_break
from drpu.state.reference import (
    FARTHEST,
    NEAREST,
    LogOddsMap,
    Reference,
    RowLogOdds,
    bounded_log_odds,
)

if TYPE_CHECKING:
    from drpu.decisions.budget import Gain
    from drpu.decisions.performance import Decision, Performance


# ruff: noqa: D102  (the docstrings of overridden methods are those of OperatingPoint)


ALL_FLAGGED = 1e-320  # a threshold below the ratio of every row


class OperatingPoint(Kept, ABC):
    """How a density ratio becomes a probability and a label.

    Predictions, expected performance, budgets, pages and files ask the point; nobody else asks
    which kind it is.
    """

    prior: PriorEstimate  # of the rows to classify
    cost: float  # false-positive cost
    train_prior: float  # of the training population, to which ratios refer
    map: LogOddsMap | None  # of the trained log-odds, which answers gave; None without answers

    @property
    @abstractmethod
    def threshold(self) -> float:
        """Ratio above which a row is flagged."""

    @property
    @abstractmethod
    def log_threshold(self) -> float:
        """Log of the threshold, finite."""

    @property
    @abstractmethod
    def uses_prior(self) -> bool:
        """Whether labels depend on the value of the prior, which may not be identified."""

    @property
    def label_noise(self) -> float | None:
        """Noise of the flagged share that the page adds to limits; None for the usual rule."""
        return None

    @abstractmethod
    def probability(self, ratio: FloatArray) -> FloatArray:
        """P(positive) of rows with these ratios."""

    @abstractmethod
    def decision(self, fitted: FittedRatio, rows: float | None) -> Decision:
        """The decision on scores; ``rows`` is the number that the prior was estimated on."""

    @abstractmethod
    def expected_of(
        self, decision: Decision, fitted: FittedRatio, reference: Reference
    ) -> Performance:
        """Expected performance of a decision at this prior and cost."""

    @abstractmethod
    def at_cost(self, cost: float) -> CostPoint:
        """The point with another cost, which decides again if a budget did."""

    @abstractmethod
    def at_limits(self, reference: Reference) -> tuple[OperatingPoint, OperatingPoint]:
        """The points at both limits of the prior."""

    @abstractmethod
    def for_page(self, reference: Reference) -> dict[str, Any]:
        """What the script of the page needs to compute probabilities at any prior."""

    def expected(
        self, fitted: FittedRatio, reference: Reference, rows: float | None
    ) -> Performance:
        """Expected performance, with limits of each figure."""
        return self.expected_of(self.decision(fitted, rows), fitted, reference)

    def gain(
        self, fitted: FittedRatio, reference: Reference, counts: ScoreTails | None = None
    ) -> Gain:
        """The gain of checking rows, which are counted in ``counts``, or of the prior."""
        return decisions.gain_curve(
            fitted.tails,
            fitted.unlabeled_prior.value,
            self.prior,
            new=counts,
            curves=map_curves(fitted, reference),
        )

    def bounded_ratio(self, log_ratio: FloatArray) -> FloatArray:
        """The ratio, which is at most 1 / training prior."""
        return np.minimum(np.exp(log_ratio), 1 / max(self.train_prior, 1e-12))

    def margin(self, log_ratio: FloatArray) -> FloatArray:
        """Log of the ratio divided by the threshold."""
        return np.asarray(log_ratio - self.log_threshold)

    def is_positive(self, log_ratio: FloatArray) -> BoolArray:
        """Whether rows are flagged."""
        return np.asarray(self.margin(log_ratio) > 0)


@dataclass(frozen=True)
class CostPoint(OperatingPoint):
    """A point whose threshold follows from the cost."""

    prior: PriorEstimate
    cost: Annotated[float, Number(0, 1)] | KeptCosts
    train_prior: Annotated[float, Number(0, 1)]

    def __post_init__(self) -> None:
        check_cost("cost", self.cost)

    @property
    def log_threshold(self) -> float:
        threshold = self.threshold
        if math.isinf(threshold):  # only one class; finite, so that the ranking is kept
            return math.copysign(2 * LOG_LIMIT, threshold)
        return float(np.log(threshold)) + tie_break(self.train_prior)  # broken ties stay negative

    def decision(self, fitted: FittedRatio, rows: float | None) -> Decision:
        threshold = self.threshold
        ratio = None if fitted.calibration is None else threshold
        if threshold <= ALL_FLAGGED:
            return decision_at(fitted, -math.inf, ratio, rows)
        if math.isinf(threshold):
            return decision_at(fitted, threshold, ratio, rows)
        return decision_at(fitted, score_above(fitted, self.log_threshold), ratio, rows)

    def at_cost(self, cost: float) -> Self:
        return replace(self, cost=check_cost("cost", cost))

    def at_limits(self, reference: Reference) -> tuple[OperatingPoint, OperatingPoint]:
        return self._at_limit(self.prior.low, reference), self._at_limit(self.prior.high, reference)

    @abstractmethod
    def _at_limit(self, limit: float, reference: Reference) -> OperatingPoint:
        """The point whose labels have moved as the prior moves from its value to a limit."""

    def _moved_to(self, limit: float, prior: float) -> float:
        """A prior, moved by as much as the log-odds between the value and a limit."""
        if limit in (0.0, 1.0) or prior == self.prior.value:
            return limit
        inside = np.clip([prior, limit, self.prior.value], NEAREST, 1 - NEAREST)
        return float(scipy.special.expit(scipy.special.logit(inside) @ [1, 1, -1]))


@kept("node")
@dataclass(frozen=True, slots=True)
class Node:
    """A pair of priors that is possible, with its probability."""

    weight: Annotated[float, Number(0, 1)]
    train_prior: Annotated[float, Number(0, 1)]  # of the training population
    test_prior: Annotated[float, Number(0, 1)]  # of the rows to classify


@kept("hypothesis")
@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What may have moved since training: the prior at which labels are made if it is true.

    ``growth``: The measured growth of the negatives, with its standard error, by which every
    training prior that is possible moves (:func:`drpu.priors.matching.later_priors`). None if all
    of them move by as much as their central value moves to ``prior``.
    """

    weight: Annotated[float, Number(0, 1)]
    prior: Annotated[float, Number(0, 1)]
    growth: Annotated[float, Number(0)] | None = None
    growth_error: Annotated[float, Number(0)] = 0.0

    def moved_to(self, prior: float) -> Hypothesis:
        """The hypothesis with another prior, which the growth of the negatives follows."""
        growth = self.growth
        if growth is not None:
            growth *= (1 - prior) / max(1 - self.prior, 1e-9)
        return replace(self, prior=prior, growth=growth)


@kept("at-prior")
@dataclass(frozen=True)
class AtPrior(CostPoint):
    r"""Probabilities from the ratio and two priors, averaged over what is not known about these.

    With nodes of weight :math:`w_k`, training prior :math:`\pi_k` and test prior
    :math:`\pi'_k`, the probability of a row with the ratio r is

    .. math:: \sum_k w_k \frac{\pi'_k (1 - \pi_k) r}
                              {\pi'_k (1 - \pi_k) r + (1 - \pi'_k) (1 - \pi_k r)},

    in which r is at most :math:`1 / \pi_k`. It increases with r, so labels need a threshold only.
    """

    nodes: Annotated[tuple[Node, ...], Items(1, 1000)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if abs(sum(node.weight for node in self.nodes) - 1) > 1e-6:
            raise DataError("the weights of the nodes of a point must sum to 1.")

    @property
    def map(self) -> None:  # type: ignore[override]
        return None

    @cached_property
    def threshold(self) -> float:
        if len(self.nodes) == 1:
            return ratio_threshold(
                self.nodes[0].train_prior, self.nodes[0].test_prior, cost=self.cost
            )
        return self._mean_threshold()

    def _mean_threshold(self) -> float:
        """The largest ratio whose probability is not above the cost, by bisection."""
        low = 0.0
        high = 1 / max(self.train_prior, 1e-12)
        if self._mean(low) > self.cost:
            return -math.inf
        if self._mean(high) <= self.cost:
            return math.inf
        while True:
            middle = low + (high - low) / 2
            if not low < middle < high:  # neighbours among the floating-point numbers
                return low
            if self._mean(middle) > self.cost:
                high = middle
            else:
                low = middle

    def _mean(self, ratio: float) -> float:
        return float(mean_posterior(np.array([ratio]), self._columns)[0])

    @cached_property
    def _columns(self) -> NodeColumns:
        return node_columns(self.nodes)

    @property
    def uses_prior(self) -> bool:
        as_trained = all(node.test_prior == node.train_prior for node in self.nodes)
        return not as_trained or self.prior.value == self.train_prior

    def probability(self, ratio: FloatArray) -> FloatArray:
        # ties are broken by scores, and a row that is tied with the threshold is not above it
        untied = np.asarray(ratio, dtype=np.float64) * (1 - tie_break(self.train_prior))
        return mean_posterior(untied, self._columns)

    def expected_of(
        self, decision: Decision, fitted: FittedRatio, reference: Reference
    ) -> Performance:
        return decisions.expect(decision, fitted.unlabeled_prior, self.prior, cost=self.cost)

    def for_page(self, reference: Reference) -> dict[str, Any]:
        nodes = [[node.weight, node.train_prior, node.test_prior] for node in self.nodes]
        return {"nodes": nodes, "map": None}

    def _at_limit(self, limit: float, reference: Reference) -> OperatingPoint:
        nodes = []
        for node in self.nodes:
            nodes.append(replace(node, test_prior=self._moved_to(limit, node.test_prior)))
        return replace(self, nodes=tuple(nodes))


_BLOCK = 4096  # rows whose posteriors at all nodes are computed together
NodeColumns: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]


def node_columns(nodes: Sequence[Node]) -> NodeColumns:
    """Factors of the posterior at each node, and the weights of the nodes."""
    weight, pi, pi_test = np.array([(n.weight, n.train_prior, n.test_prior) for n in nodes]).T
    positive = pi_test * (1 - pi)
    return weight, pi[:, None], positive[:, None], (1 - pi_test)[:, None], pi_test[:, None]


def mean_posterior(ratio: FloatArray, columns: NodeColumns) -> FloatArray:
    """Mean over nodes of the probability of the positive class, from ratios in one dimension."""
    if len(ratio) > _BLOCK:
        parts = []
        for start in range(0, len(ratio), _BLOCK):
            parts.append(mean_posterior(ratio[start : start + _BLOCK], columns))
        return np.concatenate(parts)
    weight, pi, positive_factor, negative_factor, pi_test = columns
    posterior_in_training = np.minimum(pi * ratio, 1)
    positive = positive_factor * np.minimum(ratio, 1 / np.maximum(pi, 1e-300))
    total = positive + negative_factor * (1 - posterior_in_training)
    with np.errstate(invalid="ignore"):
        posterior = positive / total
    if not total.all():  # a ratio at which both classes are impossible
        posterior = np.where(total > 0, posterior, pi_test)
    # Cumulative sums have the same order in any batch, which products of matrices do not.
    return np.asarray(np.cumsum(weight[:, None] * posterior, axis=0)[-1])


@kept("at-answers")
@dataclass(frozen=True)
class AtAnswers(CostPoint):
    """Probabilities from a map of the trained log-odds, which answers gave."""

    labels_at: Annotated[float, Number(0, 1)]
    map: LogOddsMap

    @property
    def threshold(self) -> float:
        level = (scipy.special.logit(self.cost) - self.map.intercept) / self.map.slope
        largest_ratio = 1 / max(self.train_prior, 1e-12)
        if level >= FARTHEST:  # where log-odds are clipped: one label for all rows
            return 2 * largest_ratio
        if level < -FARTHEST:
            return ALL_FLAGGED
        return float(scipy.special.expit(level) * largest_ratio)

    @property
    def uses_prior(self) -> bool:
        return False

    @property
    def label_noise(self) -> float:
        return decisions.LABEL_NOISE

    def probability(self, ratio: FloatArray) -> FloatArray:
        return self.map.probability(bounded_log_odds(self.train_prior * ratio))

    def expected_of(
        self, decision: Decision, fitted: FittedRatio, reference: Reference
    ) -> Performance:
        curves = map_curves(fitted, reference)
        return decisions.expect_mapped(decision, curves, self.prior, cost=float(self.cost))

    def for_page(self, reference: Reference) -> dict[str, Any]:
        even = reference.map_at(0.5)
        assert even is not None  # the reference has the map of the answers
        answers = {"intercept": even.intercept, "slope": even.slope, "farthest": FARTHEST}
        return {"labelsAt": self.labels_at, "map": answers}

    def _at_limit(self, limit: float, reference: Reference) -> OperatingPoint:
        labels_at = self._moved_to(limit, self.labels_at)
        moved_map = reference.map_at(labels_at)
        assert moved_map is not None  # as above
        return replace(self, labels_at=labels_at, map=moved_map)


def operating_point(
    fitted: FittedRatio,
    reference: Reference,
    prior: PriorEstimate,
    *,
    cost: float,
    hypotheses: Sequence[Hypothesis] = (),
) -> AtPrior | AtAnswers:
    """The point for rows with a prior.

    Labels are made at the priors of the ``hypotheses``, or at ``prior`` as if it were known.
    """
    train = fitted.prior
    labels_at = prior.value
    if hypotheses:
        labels_at = sum(hypothesis.weight * hypothesis.prior for hypothesis in hypotheses)
    answers_map = reference.map_at(labels_at)
    if answers_map is not None:
        return AtAnswers(prior, cost, train.value, labels_at, answers_map)
    if not hypotheses:
        nodes = nodes_at(train, prior.value)
    else:
        nodes = hypothesis_nodes(train, hypotheses)
    return AtPrior(prior, cost, train.value, nodes)


def trained_point(prior: PriorEstimate, cost: float) -> AtPrior:
    """The point for rows of the training population, which has this prior."""
    nodes = hypothesis_nodes(prior, (Hypothesis(1.0, prior.value),))
    return AtPrior(prior, cost, prior.value, nodes)


def nodes_at(train: PriorEstimate, test_prior: float) -> tuple[Node, ...]:
    """The possible training priors, with one test prior."""
    possible = train.possible_values
    return tuple(Node(1 / len(possible), value, test_prior) for value in possible)


def hypothesis_nodes(train: PriorEstimate, hypotheses: Sequence[Hypothesis]) -> tuple[Node, ...]:
    """The possible pairs of a training prior and a test prior."""
    possible = train.possible_values
    nodes = []
    for hypothesis in hypotheses:
        weights, test_priors = _priors_after(hypothesis, train)
        for value, weight, test_prior in zip(possible, weights, test_priors, strict=True):
            nodes.append(Node(hypothesis.weight * float(weight), value, float(test_prior)))
    return tuple(nodes)


def _priors_after(
    hypothesis: Hypothesis, train: PriorEstimate
) -> tuple[FloatArray, FloatArray | Sequence[float]]:
    """Weights of the possible training priors by a hypothesis, and the test prior at each."""
    possible = train.possible_values
    equal = np.full(len(possible), 1 / len(possible))
    if len(possible) == 1:
        return equal, [hypothesis.prior]
    if hypothesis.growth is not None:
        growth_of_negatives = priors.Growth(hypothesis.growth, hypothesis.growth_error)
        return priors.later_priors(possible, growth_of_negatives)
    if hypothesis.prior == train.value or train.value == 1:
        return equal, possible
    growth = (1 - hypothesis.prior) / (1 - train.value)
    return equal, np.clip(1 - growth * (1 - np.array(possible)), 0.0, 1.0)


def score_above(fitted: FittedRatio, log_ratio: float) -> float:
    """Smallest held-out positive score with a larger log-ratio; infinite if there is none."""
    above = np.flatnonzero(level_log_ratios(fitted) > log_ratio)
    if not above.size:
        return math.inf
    return float(fitted.tails.levels[above[0]])


def decision_at(
    fitted: FittedRatio, score: float, ratio: float | None, rows: float | None = None
) -> Decision:
    """The decision that flags rows from a score on; ``ratio`` if a calibrated one determines it.

    ``rows`` is the number of rows that the prior was estimated on.
    """
    return decisions.Decision(
        reference=fitted.tails,
        score=score,
        ratio=ratio,
        labelled_fraction=fitted.population.labelled_fraction,
        models=len(fitted.model.functions),
        rows=rows,
        offsets=level_offsets(fitted),
        whole=fitted.model.whole is not None,
    )


def decision_above(fitted: FittedRatio, ratio: float) -> Decision:
    """The decision that flags rows above the ratio ``ratio``."""
    score = ratio
    if not math.isinf(ratio):
        log_ratio = -math.inf
        if ratio > 0:
            log_ratio = float(np.log(ratio)) + tie_break(fitted.prior.value)
        score = score_above(fitted, log_ratio)
    return decision_at(fitted, score, None if fitted.calibration is None else ratio)


def map_curves(fitted: FittedRatio, reference: Reference) -> list[tuple[FloatArray, FloatArray]]:
    """Shares of positives and negatives in or above each cell by the map of answers, if any.

    For the slope and its limits in turn, at the prior of the answers and at its limits.
    """
    answers_map = reference.map
    if answers_map is None:
        return []
    prior = reference.prior
    counts = reference.tails.counts
    z = bounded_log_odds(fitted.cell_probability())
    rows = RowLogOdds.of(z, counts / reference.tails.copies)
    slope = answers_map.slope
    error = 1.96 * np.sqrt(answers_map.covariance[2])
    curves = []
    for possible_slope in (slope, max(slope - error, slope / 10), slope + error):
        sloped_map = replace(answers_map, slope=possible_slope)
        for share in (prior.value, prior.low, prior.high):
            inside = float(np.clip(share, NEAREST, 1 - NEAREST))
            p = sloped_map.with_share(inside, rows).probability(z)
            curves.append((_share_above(counts * p), _share_above(counts * (1 - p))))
    return curves


def _share_above(mass: FloatArray) -> FloatArray:
    """Share of the mass in or above each cell, and 0 above all of them."""
    share = (mass / mass.sum())[::-1].cumsum()[::-1]
    return np.append(share, 0.0)
