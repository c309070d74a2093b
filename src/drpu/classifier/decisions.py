"""Labels and probabilities from a ratio, a prior and a cost."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import NotFittedError

from drpu._checks import check_fraction, check_integer, check_real
from drpu._typing import BoolArray, FloatArray, IntArray, Rows
from drpu.classifier.fitted import FittedRatio, ScoredRows, score_once
from drpu.classifier.groups import priors_by_group
from drpu.classifier.kept import KeptClassifier
from drpu.classifier.validation import check_rows
from drpu.core.budget import Budget, Range, budget_outlook, gain_curve
from drpu.core.decision import Costs, ratio_posterior, ratio_threshold
from drpu.core.diagnostics import Performance, threshold_limits
from drpu.core.performance import Decision, expect
from drpu.core.prior.estimate import PriorEstimate
from drpu.core.prior.groups import GroupPriors
from drpu.core.tails import ScoreTails
from drpu.exceptions import ParameterError
from drpu.functions.base import LOG_LIMIT

if TYPE_CHECKING:
    from drpu.classifier.adapted import AdaptedClassifier

__all__ = ["DecisionMethods", "ExpectedMethods", "RatioDecision", "Spent", "spend"]


class RatioDecision(KeptClassifier):
    """Decisions from a fitted ratio, the prior of the rows to classify, and a cost.

    Each row is treated alone: a row gets the same label in every batch.
    """

    fitted_: FittedRatio

    @property
    @abstractmethod
    def test_prior_(self) -> PriorEstimate:
        """Prior of the rows to classify, which :meth:`predict` uses."""

    @property
    @abstractmethod
    def cost_(self) -> float:
        """False-positive cost in use."""

    @property
    def train_prior_(self) -> PriorEstimate:
        """Prior of the training population."""
        self._check_fitted()
        return self.fitted_.train_prior

    @property
    def prior_(self) -> PriorEstimate:
        """Shorthand for ``test_prior_``, the prior that :meth:`predict` uses."""
        return self.test_prior_

    @property
    def threshold_(self) -> float:
        """Ratio above which a row is flagged."""
        self._check_fitted()
        return ratio_threshold(self.fitted_.train_prior.value, self.test_prior_.value, cost=self.cost_)

    @property
    def classes_(self) -> np.ndarray[Any, Any]:
        """The two labels of the training data, the positive one last."""
        self._check_fitted()
        return self.fitted_.classes

    def ratio(self, X: Rows) -> FloatArray:
        """Density ratio p(x | positive) / p(x) relative to the training population.

        It lies between 0 and 1 / training prior, and does not depend on the prior of the
        rows to classify.
        """
        return self._below_ceiling(self._log_ratio(X))

    def decision_function(self, X: Rows) -> FloatArray:
        """Log of the ratio divided by the threshold: above 0 for flagged rows."""
        return self._margin(self._log_ratio(X))

    def predict(self, X: Rows) -> np.ndarray[Any, Any]:
        """Label of each row, in the coding of the training labels; a tie is negative."""
        return self._labels(self.decision_function(X))

    def predict_proba(self, X: Rows) -> FloatArray:
        """Probability of each class under the current prior, in the order of ``classes_``."""
        posterior = self._posterior(self._log_ratio(X))
        both = np.empty((len(posterior), 2))
        both[:, 0], both[:, 1] = 1 - posterior, posterior
        return both

    def outputs(self, X: Rows) -> dict[str, np.ndarray[Any, Any]]:
        """Label, probability of the positive class, ratio and score of each row, from one pass over them.

        The score is that of ``decision_function``.
        """
        log_ratio = self._log_ratio(X)
        margin = self._margin(log_ratio)
        return {
            "label": self._labels(margin),
            "probability": self._posterior(log_ratio),
            "ratio": self._below_ceiling(log_ratio),
            "score": margin,
        }

    def _margin(self, log_ratio: FloatArray) -> FloatArray:
        return np.asarray(log_ratio - self._log_threshold())

    def _log_threshold(self) -> float:
        """Log of the threshold; finite if there is only one class, so that the ranking is kept."""
        threshold = self.threshold_
        if np.isinf(threshold):
            return float(np.copysign(2 * LOG_LIMIT, threshold))
        return float(np.log(threshold)) + self.fitted_.tie_break  # broken ties stay negative

    def _labels(self, margin: FloatArray) -> np.ndarray[Any, Any]:
        return self.classes_[(margin > 0).astype(np.intp)]

    def _posterior(self, log_ratio: FloatArray) -> FloatArray:
        ratio = self._below_ceiling(log_ratio)
        return ratio_posterior(ratio, self.fitted_.train_prior.value, self.test_prior_.value)

    def _below_ceiling(self, log_ratio: FloatArray) -> FloatArray:
        return np.minimum(np.exp(log_ratio), 1 / max(self.fitted_.train_prior.value, 1e-12))

    def _log_ratio(self, X: Rows) -> FloatArray:
        if isinstance(X, ScoredRows):
            return self._checked().log_ratio_of(X.scores)
        return self._checked().log_ratio(self._checked_rows(X))

    def _checked_rows(self, X: Rows) -> Rows:
        """Rows in the form that the model accepts."""
        return check_rows(self, X, model=self._checked().model)

    def _checked(self) -> FittedRatio:
        self._check_fitted()
        return self.fitted_

    def _check_fitted(self) -> None:
        if not hasattr(self, "fitted_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit or fit_pu first."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")


@dataclass(frozen=True, slots=True)
class Spent:
    """The threshold that corresponds to a budget.

    Attributes
    ----------
    log_ratio : float
        Log of the ratio above which rows are checked.
    score : float
        Held-out positive score at the same depth of the counts. It is a separate value because a row is
        labelled by the mean of the fold models, whereas the counts are of the scores of single models.
    budget : Budget
        Expected precision, recall and lift of the rows that are checked.
    """

    log_ratio: float
    score: float
    budget: Budget


def spend(classifier: Any, rows: Any, of: Any, share: Any) -> Spent:
    """The threshold of a budget and the expected results; arguments as in ``at_budget``."""
    if (rows is None) == (share is None):
        raise ParameterError(
            "give rows (a number of rows, with of=X) or share (of all rows), and not both: "
            f"got rows={rows!r} and share={share!r}."
        )
    if of is None and rows is not None:
        raise ParameterError("rows needs of: the rows to choose from, their counts, or their number.")
    if isinstance(of, (bool, str, bytes)) or (np.isscalar(of) and not isinstance(of, Integral)):
        raise ParameterError(f"of must be rows, their counts or their number, got {of!r:.80}.")
    if of is None or isinstance(of, Integral):
        return _by_counts(classifier, None, *_depth(rows, share, of))
    if isinstance(of, ScoreTails):
        return _by_counts(classifier, classifier._own_counts(of, None), *_depth(rows, share, int(of.n)))
    return _by_rows(classifier, of, rows, share)


def _depth(rows: Any, share: Any, n: Any) -> tuple[int | None, float]:
    """The number of rows, if it is known, and their share."""
    if share is not None:
        depth = check_real("share", share, low=0.0, high=1.0)
        if depth == 0:
            raise ParameterError("share must be above 0, got 0: no row would be checked.")
        return (None if n is None else max(1, int(depth * check_integer("of", n, low=1)))), depth
    wanted = check_integer("rows", rows, low=1)
    total = check_integer("of", n, low=1)
    if wanted > total:
        raise ParameterError(f"rows must not exceed the number of all rows, got {wanted} of {total}.")
    return wanted, wanted / total


def _by_rows(classifier: Any, X: Any, rows: Any, share: Any) -> Spent:
    """The threshold between two rows of ``X``."""
    scored = X if isinstance(X, ScoredRows) else score_once(classifier, X)
    log_ratio: FloatArray = classifier.fitted_.log_ratio_of(scored.scores)
    wanted, depth = _depth(rows, share, len(log_ratio))
    assert wanted is not None
    order: IntArray = np.argsort(-log_ratio, kind="stable")
    first = float(log_ratio[order[wanted - 1]])
    after = float(log_ratio[order[wanted]]) if wanted < len(order) else first - 1.0
    cut = first - (first - after) / 2
    return _by_counts(classifier, scored.counts, wanted, depth, cut=cut, positions=order[:wanted])


def _by_counts(
    classifier: Any,
    new: ScoreTails | None,
    rows: int | None,
    depth: float,
    *,
    cut: float | None = None,
    positions: IntArray | None = None,
) -> Spent:
    """The threshold at a level of the counts: those of new rows, or those expected at the prior.

    ``cut`` is the log-ratio between two rows, if the rows are known.
    """
    fitted, prior = classifier.fitted_, classifier.test_prior_
    gain = gain_curve(fitted.tails, fitted.unlabeled_prior.value, prior, new=new)
    within = np.flatnonzero(gain.share[1:-1][::-1] <= depth)
    k = int(within[0]) if within.size else len(fitted.tails.levels)  # the first level that keeps the depth
    score = float(fitted.tails.levels[k]) if within.size else float("inf")
    log_ratio = _between_levels(fitted.level_log_ratios(), k) if cut is None else cut
    budget = budget_outlook(
        float(np.interp(depth, gain.share, gain.recall)), fitted.tails.n_positive, prior, depth,
        float(np.exp(log_ratio)), rows=rows, positions=positions,
    )  # fmt: skip
    return Spent(log_ratio, score, budget)


def _between_levels(log_ratios: FloatArray, k: int) -> float:
    """Log-ratio between level ``k`` and the one below it."""
    if k == len(log_ratios):  # more rows than the budget lie above the highest level
        return float(log_ratios[-1])
    below = float(log_ratios[k - 1]) if k > 0 else float(log_ratios[0]) - 1.0
    return (below + float(log_ratios[k])) / 2


class DecisionMethods:
    """Methods for decisions by budget, for expected costs, and for groups of rows.

    A part of ``Adaptable``, whose attributes it uses.
    """

    def at_budget(
        self: Any, rows: int | None = None, *, of: Any = None, share: float | None = None
    ) -> AdaptedClassifier:
        """Classifier that flags as many rows as can be checked, those with the highest scores.

        Parameters
        ----------
        rows : int, optional
            Number of rows that can be checked.
        of : rows of shape (n, d), ScoreTails or int, optional
            The rows to choose from: the rows themselves, their counts, or their number.
        share : float, optional
            Share of the rows that can be checked, instead of ``rows``.

        Returns
        -------
        adapted : AdaptedClassifier
            Has the same prior and cost, and the threshold of the budget. Its ``budget_`` has the
            expected precision, recall and lift with their limits and, if rows were given, the
            positions of the rows to check, in descending order of the score.

        Examples
        --------
        >>> from drpu import DRPUClassifier, make_gaussian_pu
        >>> data = make_gaussian_pu(
        ...     300, 1000, prior=0.3, test_prior=0.1, n_test=2000, separation=3, random_state=0
        ... )
        >>> june = DRPUClassifier("kernel", random_state=0).fit(*data.X_y()).adapt(data.test)
        >>> day = june.at_budget(rows=50, of=data.test)
        >>> int(day.predict(data.test).sum())
        50
        >>> bool(day.budget_.precision.low > 0.5)
        True
        """
        self._check_fitted()
        spent = spend(self, rows, of, share)
        adapted: AdaptedClassifier = self.at_prior(self.test_prior_)
        adapted._cut, adapted.budget_ = (spent.log_ratio, spent.score), spent.budget
        return adapted

    def adapt_by(self: Any, X: Rows, *, by: Any, level: float = 0.95) -> GroupPriors:
        """Prior of each group of rows, with limits that hold for all groups together.

        Parameters
        ----------
        X : rows of shape (n, d)
            Unlabeled rows.
        by : str or array-like of shape (n,)
            Name of a column of ``X``, or one value per row. Dates are grouped by calendar month. The
            column need not have been in the training data.
        level : float, default=0.95
            Level at which the limits of all groups hold together.

        Returns
        -------
        priors : GroupPriors
            The values of small groups are shrunk towards the prior of all rows; see
            :class:`drpu.GroupPriors` for the rule.

        Examples
        --------
        >>> from drpu import DRPUClassifier, make_gaussian_pu
        >>> data = make_gaussian_pu(
        ...     300, 1000, prior=0.3, test_prior=0.2, n_test=2000, separation=3, random_state=0
        ... )
        >>> clf = DRPUClassifier("kernel", random_state=0).fit(*data.X_y())
        >>> months = ["may", "june"] * 1000
        >>> clf.adapt_by(data.test, by=months).names
        ['june', 'may']
        """
        self._check_fitted()
        return priors_by_group(self, X, by, check_fraction("level", level))

    def expected_bill(self: Any, rows: float = 1.0) -> Range:
        """Expected cost of classifying ``rows`` rows, in the unit of the two amounts.

        Needs a cost that was given as :class:`drpu.Costs`.
        """
        self._check_fitted()
        costs = self.cost_
        if not isinstance(costs, Costs):
            raise ParameterError(
                f"expected_bill needs the cost as two amounts, got cost={float(costs):g}: pass "
                "cost=Costs(false_alarm=5, miss=200) to adapt or at_prior."
            )
        unit = check_real("rows", rows, low=0.0) * (costs.false_alarm + costs.miss)
        low, high = self.expected_range()
        value = unit * self.expected_performance().cost
        return Range(value, min(unit * low.cost, value), max(unit * high.cost, value))

    def contributions(self: Any, X: Rows) -> FloatArray:
        """How much each column adds to the score of each row, for models with trees.

        These are the contributions that LightGBM computes (Shapley values of its trees). For the
        default they are averaged over its members with their weights, for ``"boosted"`` over the folds.

        Parameters
        ----------
        X : rows of shape (n, d)
            Rows to explain.

        Returns
        -------
        contributions : ndarray of shape (n, d + 1)
            One column for each column of ``X`` in the order of training (zeros for identifiers, which
            were left out), and a last column with everything else. For ``model="boosted"`` that is the
            score of an average row. For the default, it also contains the score of the smooth
            member, which cannot be divided among the columns. The sum of a row is its score: the
            log-ratio before calibration. Where the log-ratio is not
            linear in the output of the trees, as for a forest, contributions are scaled to it.

        Raises
        ------
        ParameterError
            If the model has no trees: use ``model="boosted"`` or the default.

        Examples
        --------
        >>> from drpu import DRPUClassifier, make_gaussian_pu
        >>> X, y = make_gaussian_pu(200, 600, prior=0.4, separation=3, random_state=0).X_y()
        >>> clf = DRPUClassifier("boosted", random_state=0).fit(X, y)
        >>> clf.contributions(X[:3]).shape
        (3, 2)
        """
        self._check_fitted()
        found: FloatArray = self.fitted_.model.contributions(self._checked_rows(X))
        return found if self.table_ is None else self.table_.by_column(found)


class ExpectedMethods(RatioDecision):
    """Expected performance, its range, and the rows whose label is uncertain."""

    _batch_size: float | None = None  # number of rows that the prior was estimated on

    def expected_performance(self) -> Performance:
        """Expected accuracy, precision, recall and cost at the current prior, without labels.

        Computed from held-out positives and unlabeled training rows, which is valid if only the
        prior has changed. The threshold is evaluated on counts that did not determine it.
        """
        return self._expected()[0]

    def expected_range(self) -> tuple[Performance, Performance]:
        """Lower and upper 95 % limit of each expected quantity.

        They include the limits of both priors, the sampling error of the training counts and
        that of the threshold. They hold for the population that new rows are drawn from.
        """
        return self._expected()[1:]

    def _expected(self) -> tuple[Performance, Performance, Performance]:
        fitted, at = self._counts_threshold()
        decision = Decision(
            fitted.tails,
            at,
            self.threshold_ if self._made_by_counts() else None,
            fitted.labelled_fraction,
            len(fitted.model.functions),
            self._batch_size,
        )
        return expect(decision, fitted.unlabeled_prior, self.test_prior_, cost=self.cost_)

    def _made_by_counts(self) -> bool:
        """Whether the threshold on scores comes from a calibration on the training counts."""
        return self.fitted_.calibration is not None

    @property
    def threshold_interval_(self) -> tuple[float, float]:
        """Smallest and largest threshold over the intervals of both priors."""
        self._check_fitted()
        return threshold_limits(self.fitted_.train_prior, self.test_prior_, cost=self.cost_)

    def uncertain(self, X: Rows) -> BoolArray:
        """Rows whose label changes within the interval of the current prior.

        The uncertainty of the training prior is not taken into account.
        """
        prior, train = self.test_prior_, self._checked().train_prior.value
        level = self._log_ratio(X)
        ends = [_log_level(train, end, self.cost_) for end in (prior.high, prior.low)]
        return np.asarray((level > ends[0]) & (level <= ends[1]))

    def _counts_threshold(self) -> tuple[FittedRatio, float]:
        fitted = self._checked()
        if np.isinf(self.threshold_):
            return fitted, self.threshold_
        return fitted, fitted.score_above_log(self._log_threshold())


def _log_level(train_prior: float, test_prior: float, cost: float) -> float:
    """Log of the threshold, made finite as in ``decision_function``."""
    threshold = ratio_threshold(train_prior, test_prior, cost=cost)
    if np.isinf(threshold):
        return float(np.copysign(2 * LOG_LIMIT, threshold))
    return float(np.log(threshold))
