"""What fitted classifiers share: labels, expected performance, decisions, adaptation and audits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import expit, logit
from sklearn.exceptions import NotFittedError

from drpu._checks import check_choice, check_fraction, check_integer, check_real, check_weights
from drpu._samples import n_rows
from drpu._typing import BoolArray, FloatArray, Rows
from drpu.classifier.adapting import adapt_to_counts, arrived_labels, moved_map
from drpu.classifier.audit import Audit, AuditPlan, GroupPlans, check_audit
from drpu.classifier.auditing import adapt_to_answers, evaluate_rows, plan_rows
from drpu.classifier.budget import budget_depth, budget_threshold, share_for_precision, share_for_recall
from drpu.classifier.explain import Reasons, contribution_table, reasons_of
from drpu.classifier.findings import NOTHING_FOUND, Findings
from drpu.classifier.fitted import FittedRatio, FittedRecord, ScoredRows
from drpu.classifier.groups import (
    evaluations_by_group,
    plans_by_group,
    priors_by_group,
    with_one_period,
    without_period,
)
from drpu.classifier.notices import count_there
from drpu.classifier.record import Columns, PUClassifier, Record, Reduction, try_rows
from drpu.classifier.validation import check_rows
from drpu.core.audit.labelling import Sensitivity, sensitivity
from drpu.core.audit.recalibration import MEMORY, LogOddsMap, bounded_log_odds
from drpu.core.audit.results import Evaluation
from drpu.core.decision import Costs, ratio_posterior, ratio_threshold
from drpu.core.diagnostics import Performance, threshold_limits
from drpu.core.limits.exact import Figure
from drpu.core.performance import expect
from drpu.core.prior.estimate import PriorEstimate, as_prior, warn_if_not_identified
from drpu.core.prior.groups import GroupPriors
from drpu.core.tails import ScoreTails
from drpu.exceptions import DataError, ParameterError
from drpu.functions.base import LOG_LIMIT

if TYPE_CHECKING:
    from drpu.classifier.adapted import AdaptedClassifier


class RatioClassifier(PUClassifier):
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
        current, train = self._map(), self.fitted_.train_prior.value
        if current is None:
            return ratio_threshold(train, self._label_prior(), cost=self.cost_)
        level = (logit(self.cost_) - current.intercept) / current.slope
        return float(expit(level) / max(train, 1e-12))

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
        """Label of each row, in the coding of the training labels; a tie is negative.

        If the prior is not identified, its central value is used, and a warning says so, unless there was
        the same one before, from ``fit`` or ``adapt``.
        """
        return self._labels(self.decision_function(X))

    def predict_proba(self, X: Rows) -> FloatArray:
        """Probability of each class under the current prior, in the order of ``classes_``."""
        self._mention_prior()
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

    def _flags(self, scores: FloatArray) -> BoolArray:
        """Whether rows are flagged, from the scores of the model for them."""
        return np.asarray(self._margin(self.fitted_.log_ratio_of(scores)) > 0)

    def _labels(self, margin: FloatArray) -> np.ndarray[Any, Any]:
        self._mention_prior()
        return self.classes_[(margin > 0).astype(np.intp)]

    def _mention_prior(self) -> None:
        """Warn if labels are made at a prior that is not identified, and nobody was told."""
        if self._map() is None and self._labels_at() is None:
            warn_if_not_identified(self.test_prior_, again=False)

    def _posterior(self, log_ratio: FloatArray) -> FloatArray:
        ratio, train = self._below_ceiling(log_ratio), self.fitted_.train_prior.value
        current = self._map()
        if current is None:
            return ratio_posterior(ratio, train, self._label_prior())
        return current.probability(bounded_log_odds(train * ratio))

    def _map(self) -> LogOddsMap | None:
        """Map of the trained log-odds from answers, if there were any."""
        return None

    def _labels_at(self) -> float | None:
        """Prior at which labels are made, if it is not that of the rows."""
        return None

    def _label_prior(self) -> float:
        at = self._labels_at()
        return self.test_prior_.value if at is None else at

    def _below_ceiling(self, log_ratio: FloatArray) -> FloatArray:
        return np.minimum(np.exp(log_ratio), 1 / max(self.fitted_.train_prior.value, 1e-12))

    def _log_ratio(self, X: Rows) -> FloatArray:
        if isinstance(X, ScoredRows):
            return self._checked().log_ratio_of(X.scores)
        return self._checked().log_ratio(self._checked_rows(X))

    def _checked_rows(self, X: Rows) -> Rows:
        """Rows in the form that the model accepts; the column of periods of training is none of it."""
        return check_rows(self, without_period(self, X)[1], model=self._checked().model)

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

    # -- expected performance

    @property
    def _batch_size(self) -> float | None:
        """Number of rows that the prior was estimated on; None if it was not estimated on new rows."""
        return None

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
        ratio = self.threshold_ if self._made_by_counts() else None
        decision = fitted.decision(at, ratio, rows=self._batch_size)
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

    # -- decisions

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
        >>> june = DRPUClassifier("kernel", random_state=0).fit(*data.X_y()).adapt(data.test)
        >>> day = june.at_budget(rows=50, of=data.test)
        >>> int(day.predict(data.test).sum())
        50
        >>> bool(day.budget_.precision.low > 0.5)
        True
        """
        self._check_fitted()
        found = budget_threshold(self, rows, of, share)
        return self._adapted_at(self.test_prior_, findings=replace(self._same_rows(), budget=found))

    def at_recall(self, recall: float) -> AdaptedClassifier:
        """Classifier that flags as few rows as are expected to contain this share of all positives.

        Parameters
        ----------
        recall : float
            Share of the positives to find, in (0, 1).

        Returns
        -------
        adapted : AdaptedClassifier
            As from :meth:`at_budget`, with the expected figures in ``budget_``.
        """
        self._check_fitted()
        return self.at_budget(share=share_for_recall(self, recall))

    def at_precision(self, precision: float) -> AdaptedClassifier:
        """Classifier that flags as many rows as possible with this expected precision.

        Parameters
        ----------
        precision : float
            Share of positives among the flagged rows, in (0, 1).

        Returns
        -------
        adapted : AdaptedClassifier
            As from :meth:`at_budget`, with the expected figures in ``budget_``.
        """
        self._check_fitted()
        return self.at_budget(share=share_for_precision(self, precision))

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
        fitted = self._checked()
        share, prior = fitted.labelled_fraction, fitted.train_prior.value
        return sensitivity(
            fitted.cell_probability(),
            k=check_real("k", k, low=1.0, high=1e6),
            weight=np.asarray(fitted.tails.counts, dtype=np.float64),
            rate=min(share / prior, 1.0) if prior > 0 else 0.0,
            cost=float(self.cost_),
        )

    def adapt_by(
        self,
        X: Rows,
        y: Any = None,
        *,
        by: Any,
        level: float = 0.95,
        audit: Mapping[Any, Audit] | None = None,
        cost: float | None = None,
        budget: float | None = None,
        shift: str = "auto",
        label_delay: int = 0,
    ) -> GroupPriors:
        """Prior of each group of rows, with limits that hold for all groups together, and its classifier.

        Parameters
        ----------
        X : rows of shape (n, d)
            Unlabeled rows.
        y, cost, shift, label_delay
            As in :meth:`adapt`, for each group.
        by : str or array-like of shape (n,)
            Name of a column of ``X``, or one value per row. Dates are grouped by calendar month. The
            column need not have been in the training data.
        level : float, default=0.95
            Level at which the limits of all groups hold together.
        audit : mapping from group to Audit, optional
            Answers about rows of some or all groups, from ``plan_audit_by(...).answer(labels)``. The priors
            of these groups come from them.
        budget : int or float, optional
            Rows of each group that can be checked, or their share as a float up to 1; see :meth:`at_budget`.

        Returns
        -------
        priors : GroupPriors
            For each group its prior, what moved, the warnings about it, and its ``classifier``, which makes
            its labels. The values of small groups are shrunk towards the prior of all rows; see
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
        level, depth = check_fraction("level", level), budget_depth(budget)
        arrived = {"y": y, "label_delay": label_delay}
        return priors_by_group(
            self, X, by, level, audit, depth=depth, arrived=arrived, cost=cost, shift=shift
        )

    def evaluate_by(
        self,
        X: Rows,
        y: Any = None,
        *,
        by: Any,
        audit: Mapping[Any, Audit] | None = None,
        level: float = 0.95,
    ) -> dict[Any, Evaluation]:
        """Measured performance in each group of rows, such as each month.

        Parameters
        ----------
        X, by
            Rows and their groups, as in :meth:`adapt_by`.
        y, level
            True labels and confidence level, as in :meth:`evaluate`.
        audit : mapping from group to Audit, optional
            Instead of ``y``: answers about rows of some groups.

        Returns
        -------
        found : dict of Evaluation
            Groups without answers are left out.
        """
        self._check_fitted()
        if audit is not None:
            return {name: self.evaluate(own, level=level) for name, own in audit.items()}
        return evaluations_by_group(self, X, y, by, level)

    def expected_bill(self, rows: float = 1.0) -> Figure:
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
        value, low, high = (
            unit * float(figures.cost) for figures in (self.expected_performance(), *self.expected_range())
        )
        return Figure(value, min(low, value), max(high, value))

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
            were left out), and a last column with everything else, ``(rest)``. For ``model="boosted"``
            that is the score of an average row. For the default, it also contains the score of the smooth
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
        return contribution_table(self, X)

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

        Examples
        --------
        >>> from drpu import DRPUClassifier, make_gaussian_pu
        >>> X, y = make_gaussian_pu(200, 600, prior=0.4, separation=3, random_state=0).X_y()
        >>> clf = DRPUClassifier("boosted", random_state=0).fit(X, y)
        >>> clf.reasons(X[:1])[0].favour[0][0]
        'column 0'
        """
        self._check_fitted()
        return reasons_of(self, X, check_integer("n", n, low=1))

    # -- adaptation

    @property
    def keeps_rows(self) -> bool:
        """Whether the model contains training rows."""
        return bool(self._checked().model.keeps)

    def count(self, X: Rows, *, sample_weight: Any = None) -> ScoreTails:
        """Counts of the scores of rows, which :meth:`adapt` accepts in place of rows.

        Counts of parts add up exactly to those of the whole: count each shard separately,
        ``merge`` the results, and adapt to the sum.

        Parameters
        ----------
        X : rows of shape (n, d)
            Unlabeled rows; the workers count those of a Dask or Spark data frame.
        sample_weight : array-like of shape (n,), or str, optional
            Weights of the rows in the counts. The name of their column for a Dask or Spark data
            frame.

        Returns
        -------
        tails : ScoreTails
            Each row is counted once per fold model.
        """
        self._check_fitted()
        there = count_there(self, X, sample_weight)
        return self._counted(self._checked_rows(X), sample_weight) if there is None else there

    def adapt(
        self,
        X: Rows | ScoreTails,
        y: Any = None,
        *,
        cost: float | None = None,
        sample_weight: Any = None,
        level: float = 0.95,
        audit: Audit | None = None,
        shift: str = "auto",
        label_delay: int = 0,
        memory: float = MEMORY,
    ) -> AdaptedClassifier:
        """Estimate the prior of the batch ``X`` and return a classifier for it.

        Parameters
        ----------
        X : rows of shape (n, d), or ScoreTails
            Rows with the prior of the rows to classify, or their counts from
            :meth:`count`. The workers count the rows of a Dask or Spark data frame.
        y : array-like of shape (n,), optional
            Labels of these rows that have arrived, as in ``fit``: labelled positives, and all others. Their
            share is a further reading of the prior, if positives are labelled at the rate of training.
            Needs ``scenario="single-sample"``.
        cost : float, optional
            False-positive cost; the default is that of this classifier.
        sample_weight : array-like of shape (n,), or str, optional
            Weights of the rows in the counts; the name of their column for a Dask or Spark data
            frame.
        level : float, default=0.95
            Confidence level of the interval.
        audit : Audit, optional
            True labels of some of these rows, from :meth:`plan_audit` or ``Audit.random``. They
            give the prior of these rows, and a map of the trained log-odds from which labels and
            probabilities come (``map_``). If only the prior has changed since training, they also give the
            training prior. Later adaptations of the result start from the map and compare new rows with
            these rows.
        shift : {"auto", "prior", "none"}, default="auto"
            What may have changed since training. ``"auto"`` decides by two tests: where nothing but the prior
            changed, prior and labels are adapted to it; otherwise they move only as far as the backtest of
            ``fit(..., periods=...)``, labels that arrived or answers support it, and without any of them
            labels stay as trained. ``"prior"`` assumes that only the prior changed, as the paper
            does. ``"none"`` keeps prior and labels.
        label_delay : int, default=0
            Number of periods after which labels are complete. If it is above 0, those in ``y`` are a lower
            bound only.
        memory : float, default=0.5
            With an audit: how much answers of the last period count, relative to those of this one.

        Returns
        -------
        adapted : AdaptedClassifier
            Frozen: later changes of this classifier do not affect it.
        """
        self._check_fitted()
        check_fraction("level", level)
        if audit is not None:
            if sample_weight is not None:
                raise ParameterError(
                    "sample_weight must be None with an audit, whose design gives the weights."
                )
            if y is not None:
                raise ParameterError(
                    "y must be None with an audit: pass the labels that arrived, or the answers."
                )
            return adapt_to_answers(self, X, check_audit(audit), cost=cost, level=level, memory=memory)
        there = count_there(self, X, sample_weight)
        if there is not None:
            X, sample_weight = there, None
        elif sample_weight is None:
            X = with_one_period(self, X)
        seen = self._rows_and_counts(X, sample_weight)[1]
        arrived = None if y is None else arrived_labels(self, y, round(seen.n), label_delay)
        prior = self.fitted_.prior_of(seen, level=level)
        return adapt_to_counts(self, seen, prior, cost=cost, shift=shift, arrived=arrived)

    def _rows_and_counts(self, X: Any, sample_weight: Any) -> tuple[Rows | None, ScoreTails]:
        """The checked rows, where there are any, and their counts."""
        if isinstance(X, ScoreTails):
            return None, self._own_counts(X, sample_weight)
        if isinstance(X, ScoredRows):
            return X.rows, X.counts
        rows = self._checked_rows(X)
        return rows, self._counted(rows, sample_weight)

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

    def _counted(self, rows: Rows, sample_weight: Any) -> ScoreTails:
        weight = None
        if sample_weight is not None:
            weight = check_weights("sample_weight", sample_weight, n_rows(rows))
        return self.fitted_.count(rows, weight)

    def adapt_predict(
        self,
        X: Rows,
        *,
        cost: float | None = None,
        sample_weight: Any = None,
        level: float = 0.95,
        shift: str = "auto",
    ) -> tuple[AdaptedClassifier, np.ndarray[Any, Any]]:
        """Adapt to the batch ``X`` and label its rows, scoring each of them once.

        ``adapted, labels = clf.adapt_predict(X)`` is ``adapted = clf.adapt(X)`` followed by
        ``labels = adapted.predict(X)``, at about half of the computing time.

        Parameters
        ----------
        X, cost, sample_weight, level, shift
            As in :meth:`adapt`; rows only.

        Returns
        -------
        adapted : AdaptedClassifier
            The classifier at the prior of the batch.
        labels : ndarray of shape (n,)
            The labels that it predicts for the rows.
        """
        self._check_fitted()
        X = self._checked_rows(X)
        weight = None if sample_weight is None else check_weights("sample_weight", sample_weight, n_rows(X))
        scores = self.fitted_.scores(X)
        seen = self.fitted_.count_scores(scores, weight, rows=X)
        prior = self.fitted_.prior_of(seen, level=level)
        adapted = adapt_to_counts(self, seen, prior, cost=cost, shift=shift)
        return adapted, adapted._labels(adapted._margin(adapted.fitted_.log_ratio_of(scores)))

    def at_prior(self, prior: float | PriorEstimate, *, cost: float | None = None) -> AdaptedClassifier:
        """Classifier for rows whose prior is known; there is no refit."""
        self._check_fitted()
        moved = as_prior("prior", prior)
        current = self._map()
        if current is not None:
            current = moved_map(current, self.test_prior_.value, moved.value)
        if moved != self.test_prior_:
            return self._adapted_at(moved, cost=cost, findings=Findings(map=current))
        # the prior of the same rows, such as with another cost
        return self._adapted_at(moved, cost=cost, findings=self._same_rows())

    def _same_rows(self) -> Findings:
        """What is known about the rows whatever the threshold is."""
        return replace(getattr(self, "findings", NOTHING_FOUND), evaluation=None, budget=None)

    def _own_counts(self, tails: ScoreTails, sample_weight: Any) -> ScoreTails:
        """``tails``, if they are counts of some rows by this classifier."""
        if sample_weight is not None:
            raise ParameterError(
                "sample_weight must be None with counts: rows are weighted when they are counted."
            )
        if not self.fitted_.no_counts().same_cells(tails):
            raise DataError(
                "these counts were not made by this classifier: make them with its own count method."
            )
        if not tails.counts.any():
            raise DataError("these counts are empty: count at least one row before adapting to them.")
        return tails

    # -- audits

    def plan_audit(
        self,
        X: Rows,
        *,
        n: int | None = None,
        width: float | None = None,
        purpose: str = "both",
        population: str = "auto",
        level: float = 0.95,
        random_state: Any = None,
    ) -> AuditPlan:
        """Choose rows whose true labels are most informative about the share of positives.

        Rows are divided into strata by score, and more rows are chosen where the classifier
        is uncertain. Every row is chosen with a known, positive probability, so estimates from the
        answers are valid even if the classifier is wrong.

        Parameters
        ----------
        X : rows of shape (N, d)
            Unlabeled rows, a sample of the population whose prior is wanted.
        n : int, optional
            Number of rows to label. Give this or ``width``.
        width : float, optional
            Width that the interval of the prior should have: the smallest number of rows
            that is expected to reach it is planned.
        purpose : {"both", "prior", "labels"}, default="both"
            What the answers are for. On tables with real periods one design was the best for both, so the
            same rows are chosen; ``width``, which is about the prior, cannot be given for ``"labels"``.
        population : {"auto", "new", "training", "unlabeled"}, default="auto"
            Where the rows come from. ``"new"``: from any time or place; the counts of their scores
            show how far the prior has changed since training. ``"training"``: new rows of the same
            population that the classifier was trained on. ``"unlabeled"``: the unlabeled
            training rows themselves, or some of them. The last two need no comparison of
            counts, which makes the training prior more precise. ``"auto"`` recognises the
            unlabeled or the whole training sample of this fit, in any order (a loaded classifier
            cannot), and otherwise is ``"new"``, except that the training prior is shrunk towards "nothing
            has changed" as far as the counts agree with it.
        level : float, default=0.95
            Confidence level that ``width`` refers to.
        random_state : int, RandomState or None, default=None
            Seed of the choice of rows.

        Returns
        -------
        plan : AuditPlan
            ``plan.rows`` are the positions of the rows to label.

        See Also
        --------
        adapt : Accepts ``audit=plan.answer(labels)``.
        """
        check_choice("purpose", purpose, ("both", "prior", "labels"))
        if purpose == "labels" and width is not None:
            raise ParameterError("width must be None with purpose='labels': it is about the prior; give n.")
        self._check_fitted()
        return plan_rows(
            self, X, n=n, width=width, population=population, level=level, random_state=random_state
        )

    def plan_audit_by(
        self,
        X: Rows,
        *,
        by: Any,
        n: int | None = None,
        width: float | None = None,
        level: float = 0.95,
        random_state: Any = None,
    ) -> GroupPlans:
        """Choose rows to label in each group of rows, such as each month.

        Parameters
        ----------
        X, by
            Rows and their groups, as in :meth:`adapt_by`.
        n, width, level, random_state
            As in :meth:`plan_audit`, for each group.

        Returns
        -------
        plans : GroupPlans
            ``plans.rows`` are the positions of the rows to label, and ``plans.answer(labels)`` the audits
            that :meth:`adapt_by` accepts.
        """
        self._check_fitted()
        return plans_by_group(
            self, X, by, n=n, width=width, population="auto", level=level, random_state=random_state
        )

    def evaluate(self, X: Rows | Audit, y: Any = None, *, level: float = 0.95) -> Evaluation:
        """Accuracy, precision, recall and cost from true labels, with confidence limits.

        Parameters
        ----------
        X : Audit, or rows of shape (n, d)
            An audit, whose answers are weighted by their design; several parts are
            averaged. Or a simple random sample of rows.
        y : array-like of shape (n,), optional
            The true labels of the rows: yes and no, 1 and 0, true and false, or values of ``classes_``;
            None, NaN and a blank mean: no answer. Left out with an audit.
        level : float, default=0.95
            Confidence level of each interval.

        Returns
        -------
        evaluation : Evaluation
            Figures with limits for the population that the rows were drawn from.
        """
        self._check_fitted()
        return evaluate_rows(self, X, y, level=check_fraction("level", level))


def _log_level(train_prior: float, test_prior: float, cost: float) -> float:
    """Log of the threshold, made finite as in ``decision_function``."""
    threshold = ratio_threshold(train_prior, test_prior, cost=cost)
    if np.isinf(threshold):
        return float(np.copysign(2 * LOG_LIMIT, threshold))
    return float(np.log(threshold))


@dataclass(frozen=True)
class RatioRecord(Record):
    """What a file keeps of a fitted or adapted classifier."""

    columns: Columns
    fitted: FittedRecord

    def __post_init__(self) -> None:
        self.columns.check_model(self.fitted.model)

    def facts(self) -> dict[str, Any]:
        """What the file keeps of the training rows."""
        return self.fitted.facts() | self.columns.facts()

    def reduced(self, reduction: Reduction) -> Self:
        """The record with fewer values of the training rows."""
        return replace(self, columns=self.columns.reduced(reduction), fitted=self.fitted.reduced(reduction))

    def trial(self, classifier: RatioClassifier) -> FloatArray | None:
        """Scores of two artificial rows by all functions."""
        return try_rows(classifier.fitted_.model)
