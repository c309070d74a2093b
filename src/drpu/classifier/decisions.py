"""Decisions of a fitted ratio: labels, probabilities, expected performance, budgets and explanations."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from scipy.special import expit, logit
from sklearn.exceptions import NotFittedError

from drpu._checks import check_integer, check_real
from drpu._typing import BoolArray, FloatArray, Rows
from drpu.audits.labelling import Sensitivity, sensitivity
from drpu.audits.recalibration import FARTHEST, bounded_log_odds
from drpu.classifier.explain import REST, Reasons, column_names, column_parts
from drpu.classifier.validation import check_rows
from drpu.decisions.budget import budget_threshold, share_for_precision, share_for_recall
from drpu.decisions.performance import Performance, expect, expect_mapped
from drpu.decisions.thresholds import Costs, ratio_threshold
from drpu.exceptions import DataError, ParameterError
from drpu.models.learner import LOG_LIMIT
from drpu.periods.groups import without_period
from drpu.periods.read import NOTHING_FOUND, Findings
from drpu.priors.calibration import ratio_posterior
from drpu.priors.estimate import PriorEstimate, as_prior, warn_if_not_identified
from drpu.priors.figures import Figure
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import NEAREST, FittedRatio, ScoredRows
from drpu.state.record import PUClassifier
from drpu.tables.frames import collected, is_frame, read_frame

if TYPE_CHECKING:
    from drpu.classifier.adapted import AdaptedClassifier


class RatioDecisions(PUClassifier):
    """Decisions from a fitted ratio, the prior of the rows to classify, and a cost.

    Each row is treated alone: a row gets the same label in every batch.
    """

    findings: Findings = NOTHING_FOUND  # about the rows that it was adapted to
    _fitted: FittedRatio | None = None

    @property
    def fitted_(self) -> FittedRatio:
        """The stored part of training, without rows; raises ``NotFittedError`` before it."""
        if self._fitted is None:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit or fit_pu first."
            )
        return self._fitted

    @fitted_.setter
    def fitted_(self, fitted: FittedRatio) -> None:
        self._fitted = fitted

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

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
        return self.fitted_.train_prior

    @property
    def prior_(self) -> PriorEstimate:
        """Shorthand for ``test_prior_``, the prior that :meth:`predict` uses."""
        return self.test_prior_

    @property
    def scenario_(self) -> str:
        """How the labelled rows were collected: "single-sample" or "case-control", as said or found."""
        return self.fitted_.scenario

    @property
    def threshold_(self) -> float:
        """Ratio above which a row is flagged."""
        found, train = self.findings, self.fitted_.train_prior.value
        if found.budget is not None:
            return float(np.exp(found.budget.log_ratio))
        if found.map is None:
            return ratio_threshold(train, self._label_prior(), cost=self.cost_)
        level = (logit(self.cost_) - found.map.intercept) / found.map.slope
        if (
            not -FARTHEST <= level < FARTHEST
        ):  # the map clips log-odds there, so all rows have one label
            return math.copysign(math.inf, level)
        return float(expit(level) / max(train, 1e-12))

    @property
    def classes_(self) -> np.ndarray[Any, Any]:
        """The two labels of the training data, the positive one last."""
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
        """Label of each row, in the coding of the training labels; a tie is negative.

        If the prior is not identified, its central value is used, of which ``fit``, ``adapt`` and
        :func:`drpu.load` warn.
        """
        return self._labels(self.decision_function(X))

    def predict_proba(self, X: Rows) -> FloatArray:
        """Probability of each class under the current prior, in the order of ``classes_``."""
        posterior = self._posterior(self._log_ratio(X))
        both = np.empty((len(posterior), 2))
        both[:, 0], both[:, 1] = 1 - posterior, posterior
        return both

    def _outputs(self, X: Rows) -> dict[str, np.ndarray[Any, Any]]:
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
        budget, threshold = self.findings.budget, self.threshold_
        if budget is not None:
            return budget.log_ratio
        if math.isinf(threshold):  # there is only one class; finite, so that the ranking is kept
            return math.copysign(2 * LOG_LIMIT, threshold)
        return float(np.log(threshold)) + self.fitted_.tie_break  # broken ties stay negative

    def _flags(self, scores: FloatArray) -> BoolArray:
        """Whether rows are flagged, from the scores of the model for them."""
        return np.asarray(self._margin(self.fitted_.log_ratio_of(scores)) > 0)

    def _labels(self, margin: FloatArray) -> np.ndarray[Any, Any]:
        return self.classes_[(margin > 0).astype(np.intp)]

    def _warn_of_prior(self) -> None:
        """Warn if labels are made at a prior that is not identified."""
        findings = self.findings
        if findings.map is None and findings.labels_at is None and findings.budget is None:
            warn_if_not_identified(self.test_prior_)

    def _posterior(self, log_ratio: FloatArray) -> FloatArray:
        ratio, train = self._below_ceiling(log_ratio), self.fitted_.train_prior.value
        current = self.findings.map
        if current is None:
            return ratio_posterior(ratio, train, self._label_prior())
        return current.probability(bounded_log_odds(train * ratio))

    def _label_prior(self) -> float:
        at = self.findings.labels_at
        return self.test_prior_.value if at is None else at

    def _below_ceiling(self, log_ratio: FloatArray) -> FloatArray:
        return np.minimum(np.exp(log_ratio), 1 / max(self.fitted_.train_prior.value, 1e-12))

    def _log_ratio(self, X: Rows) -> FloatArray:
        if isinstance(X, ScoredRows):
            return self.fitted_.log_ratio_of(X.scores)
        return self.fitted_.log_ratio(self._checked_rows(X))

    def _checked_rows(self, X: Rows) -> Rows:
        """Rows in the form that the model accepts; the column of periods of training is none of it."""
        return check_rows(self, without_period(self, X)[1], model=self.fitted_.model)

    # -- expected performance

    def expected_performance(self) -> Performance:
        """Expected accuracy, precision, recall and cost at the current prior, without labels.

        Computed from held-out positives and unlabeled training rows, which is valid if only the
        prior has changed. The threshold is evaluated on counts that did not determine it. After answers the
        figures follow their map, over the rows that they are about; ``evaluation_`` has measured ones.
        """
        return self._expected()[0]

    def expected_range(self) -> tuple[Performance, Performance]:
        """Lower and upper 95 % limit of each expected quantity.

        They include the limits of both priors, the sampling error of the training counts and
        that of the threshold. They hold for the population that new rows are drawn from.
        """
        return self._expected()[1:]

    def _expected(self) -> tuple[Performance, Performance, Performance]:
        found, fitted, threshold = self.findings, self.fitted_, self.threshold_
        ratio: float | None = None
        if found.budget is not None:
            score = found.budget.score
        else:
            score = threshold if np.isinf(threshold) else fitted.score_above(self._log_threshold())
            ratio = None if fitted.calibration is None else threshold
        decision = fitted.decision(score, ratio, found.rows)
        if found.map is not None:
            return expect_mapped(
                decision, fitted.map_curves(), self.test_prior_, cost=float(self.cost_)
            )
        return expect(decision, fitted.unlabeled_prior, self.test_prior_, cost=self.cost_)

    def uncertain(self, X: Rows) -> BoolArray:
        """Rows whose label changes within the interval of the current prior; none with a budget.

        The uncertainty of the training prior is not taken into account.
        """
        prior, found, log_ratio = self.test_prior_, self.findings, self._log_ratio(X)
        flags = []
        for end in (prior.low, prior.high):
            at = end
            if found.labels_at is not None:  # labels move by as much as the log-odds of the prior
                inside = np.clip([found.labels_at, end, prior.value], NEAREST, 1 - NEAREST)
                at = float(expit(logit(inside) @ [1, 1, -1]))
            own = replace(found, labels_at=at, map=self.fitted_.map_at(at))
            flags.append(self._adapted_at(prior, findings=own)._margin(log_ratio) > 0)
        return np.asarray(flags[0] != flags[1])

    def expected_bill(self, rows: float = 1.0) -> Figure:
        """Expected cost of classifying ``rows`` rows, in the unit of the two amounts.

        Needs a cost that was given as :class:`drpu.Costs`.
        """
        costs = self.cost_
        if not isinstance(costs, Costs):
            raise ParameterError(
                f"expected_bill needs the cost as two amounts, got cost={float(costs):g}: pass "
                "Costs(false_alarm=5, miss=200) to at_cost."
            )
        unit = check_real("rows", rows, low=0.0) * (costs.false_alarm + costs.miss)
        value, low, high = (
            unit * float(figures.cost)
            for figures in (self.expected_performance(), *self.expected_range())
        )
        return Figure(value, min(low, value), max(high, value))

    def sensitivity(self, k: float) -> Sensitivity:
        """Bounds of the training prior and of the flagged rows if some positives are labelled more often.

        Parameters
        ----------
        k : float
            At least 1: the rate at which any positive is labelled differs from the mean rate by a factor
            from 1/k to k.

        Returns
        -------
        sensitivity : Sensitivity
            Both figures as estimated, and their bounds over all such rates.
        """
        fitted = self.fitted_
        share, prior, tails = fitted.labelled_fraction, fitted.train_prior.value, fitted.tails
        positive = share * tails.positive_counts / tails.positive_counts.sum()
        return sensitivity(
            fitted.cell_probability(),
            k=check_real("k", k, low=1.0, high=1e6),
            weight=positive + (1 - share) * tails.counts / tails.counts.sum(),
            rate=min(share / prior, 1.0) if prior > 0 else 0.0,
            cost=float(self.cost_),
        )

    # -- operating points: another prior, cost or budget

    def at_prior(self, prior: float | PriorEstimate) -> AdaptedClassifier:
        """Classifier for rows whose prior is known; there is no refit.

        Parameters
        ----------
        prior : float or PriorEstimate
            Prior of the rows to classify.

        Returns
        -------
        adapted : AdaptedClassifier
            Frozen, with the cost of this classifier, which decides again after :meth:`at_budget`.

        Examples
        --------
        >>> from drpu import DRPUClassifier, make_gaussian_pu
        >>> X, y = make_gaussian_pu(300, 1000, prior=0.3, separation=3, random_state=0).X_y()
        >>> clf = DRPUClassifier("kernel", random_state=0).fit(X, y)
        >>> rare = clf.at_prior(0.05).at_cost(0.8)
        >>> rare.prior_.value, rare.cost_
        (0.05, 0.8)
        """
        moved = as_prior("prior", prior)
        if moved == self.test_prior_:  # of the same rows
            findings = self._same_rows()
        else:
            findings = Findings(map=self.fitted_.map_at(moved.value))
        return self._adapted_at(moved, findings=findings)

    def at_cost(self, cost: float) -> AdaptedClassifier:
        """Classifier with another cost and the same prior; there is no refit.

        Of several operating points the later call decides: after :meth:`at_budget`, :meth:`at_recall` or
        :meth:`at_precision`, the threshold is again that of the prior and the cost.

        Parameters
        ----------
        cost : float or Costs
            False-positive cost in (0, 1), or two amounts.

        Returns
        -------
        adapted : AdaptedClassifier
            Frozen. Figures that were measured on answers (``evaluation_``) belong to the old threshold, so
            it has none: call ``evaluate`` again.
        """
        return self._adapted_at(self.test_prior_, cost=cost, findings=self._same_rows())

    def at_budget(
        self, rows: int | None = None, *, of: Any = None, share: float | None = None
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
        >>> clf = DRPUClassifier("kernel", random_state=0).fit_pu(data.positive, data.unlabeled)
        >>> june = clf.adapt(data.test)
        >>> day = june.at_budget(rows=50, of=data.test)
        >>> int(day.predict(data.test).sum())
        50
        >>> bool(day.budget_.precision.low > 0.5)
        True
        """
        found = budget_threshold(self, rows, of, share)
        return self._adapted_at(self.test_prior_, findings=replace(self._same_rows(), budget=found))

    def at_recall(self, recall: float) -> AdaptedClassifier:
        """Classifier that flags as few rows as are expected to contain this share of all positives.

        The expected figures are in ``budget_``, as from :meth:`at_budget`.
        """
        return self.at_budget(share=share_for_recall(self, recall))

    def at_precision(self, precision: float) -> AdaptedClassifier:
        """Classifier that flags as many rows as possible with this expected share of positives among them.

        The expected figures are in ``budget_``, as from :meth:`at_budget`.
        """
        return self.at_budget(share=share_for_precision(self, precision))

    def _adapted_at(
        self,
        prior: float | PriorEstimate,
        *,
        cost: float | None = None,
        findings: Findings = NOTHING_FOUND,
        fitted: FittedRatio | None = None,
    ) -> AdaptedClassifier:
        """The classifier at a prior, with what was found out about its rows."""
        from drpu.classifier.adapted import AdaptedClassifier

        return AdaptedClassifier(self, prior, cost=cost, findings=findings, fitted=fitted)

    def _same_rows(self) -> Findings:
        """What is known about the rows whatever the threshold is."""
        return replace(self.findings, evaluation=None, budget=None)

    def _own_counts(self, tails: ScoreTails, sample_weight: Any) -> ScoreTails:
        """``tails``, if they are counts of some rows by this classifier."""
        if sample_weight is not None:
            raise ParameterError(
                "sample_weight must be None with counts: rows are weighted when counted."
            )
        if not self.fitted_.no_counts().same_cells(tails):
            raise DataError(
                "these counts were not made by this classifier: make them with its count method."
            )
        if not tails.counts.any():
            raise DataError(
                "these counts are empty: count at least one row before adapting to them."
            )
        return tails

    # -- explanations

    def contributions(self, X: Rows) -> Any:
        """How much each column adds to the score of each row, for models with trees.

        These are the contributions that LightGBM computes (Shapley values of its trees). For the
        default they are averaged over its members with their weights, for ``"boosted"`` over the folds.

        Parameters
        ----------
        X : rows of shape (n, d)
            Rows to explain.

        Returns
        -------
        contributions : ndarray of shape (n, d + 1), or a frame like ``X``
            One column for each column of ``X`` in the order of training (zeros for identifiers, which
            were left out), and a last column with everything else, ``(rest)``, in more parentheses if ``X``
            has a column of this name. For ``model="boosted"`` that is the score of an average row. For the
            default, it also contains the score of the smooth member, which cannot be divided among the
            columns. The sum of a row is its score: the log-ratio before calibration. Where the log-ratio is
            not linear in the output of the trees, as for a forest, contributions are scaled to it.

        Raises
        ------
        ParameterError
            If the model has no trees: use ``model="boosted"`` or the default.

        Examples
        --------
        >>> from drpu import DRPUClassifier, make_gaussian_pu
        >>> X, y = make_gaussian_pu(200, 600, prior=0.4, separation=3, random_state=0).X_y()
        >>> clf = DRPUClassifier("boosted", scenario="case-control", random_state=0).fit(X, y)
        >>> clf.contributions(X[:3]).shape
        (3, 2)
        """
        X = collected(X) if is_frame(X) else X
        parts = column_parts(self, X)
        if not is_frame(X):
            return parts
        source = read_frame(X).columns
        names = column_names(self, parts)
        rest = REST
        while rest in names:
            rest = f"({rest})"
        columns = dict(zip([*names, rest], parts.T, strict=True))
        table = nw.from_dict(columns, backend=source.implementation).to_native()
        index = nw.maybe_get_index(source)
        if index is not None:  # frames of pandas
            table.index = index
        return table

    def reasons(self, X: Rows, n: int = 3) -> list[Reasons]:
        """The columns that speak most for and against each row, from :meth:`contributions`.

        Parameters
        ----------
        X : rows of shape (n_rows, d)
            Rows to explain.
        n : int, default=3
            Most columns that are named for each side.

        Returns
        -------
        reasons : list of Reasons
            One for each row, with the attributes ``favour`` and ``against``.
        """
        most, parts = check_integer("n", n, low=1), column_parts(self, X)
        names, parts = column_names(self, parts), parts[:, :-1]

        def chosen(row: FloatArray, at: Any, sign: int) -> tuple[tuple[str, float], ...]:
            return tuple((names[j], float(row[j])) for j in at[:most] if sign * row[j] > 0)

        order = np.argsort(-parts, axis=1, kind="stable")
        pairs = zip(parts, order, strict=True)
        return [Reasons(chosen(row, at, 1), chosen(row, at[::-1], -1)) for row, at in pairs]
