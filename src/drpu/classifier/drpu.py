"""DRPUClassifier and AdaptedClassifier: a density ratio learnt once and used at every prior."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, estimator_html_repr

from drpu import audits, classifier, decisions, models, periods, priors
from drpu._arrays import BoolArray, FloatArray, Rows
from drpu._callbacks import CallbackSupport, run_fit, without_callbacks
from drpu._checks import (
    SCENARIO_CHOICES,
    check_choice,
    check_flag,
    check_fraction,
    check_integer,
    check_jobs,
    check_random_state,
    check_real,
    check_weights,
    engine_of,
)
from drpu._output import escape
from drpu._process import DefaultErrors
from drpu._progress import inform, part, progress_bar
from drpu._samples import n_rows, stack_rows
from drpu.decisions.point import OperatingPoint, operating_point, trained_point
from drpu.exceptions import DataTypeError, ParameterError
from drpu.models.learner import Folds, RatioLearner, seeded, with_categories
from drpu.models.registry import resolve_model
from drpu.priors.calibration import Calibration, calibrate
from drpu.priors.estimate import PriorEstimate, as_prior, warn_if_not_identified
from drpu.priors.tails import ScoreTails
from drpu.state.costs import Costs, check_cost
from drpu.state.fitted import FittedRatio, check_counts
from drpu.state.labels import (
    Classes,
    Labels,
    check_same_rows,
    labelled_flags,
    read_labels,
    say_which_is_unlabeled,
    warn_of_more_positives,
)
from drpu.state.population import Backtest, Columns, LabelCount, Population, TrainingColumns
from drpu.state.record import Record, parameters_of
from drpu.state.reference import LogOddsMap, Reference
from drpu.state.rows import Batch, RawRows, TrainingSet
from drpu.tables.copies import grouped_copies
from drpu.tables.encoder import Keep, TableEncoder
from drpu.tables.frames import collected, is_frame, warn_of_order
from drpu.tables.notes import warn_of_notes

if TYPE_CHECKING:  # modules that a fit does not need
    from drpu.audits.evaluation import Evaluation, FairnessTest
    from drpu.audits.labelling import Sensitivity
    from drpu.audits.plan import Audit, AuditPlan
    from drpu.classifier.reading import FitArguments
    from drpu.classifier.records import AdaptedRecord, DRPURecord
    from drpu.decisions.budget import Budget
    from drpu.decisions.contributions import Reasons
    from drpu.decisions.performance import Performance
    from drpu.periods.counts import GroupCounts
    from drpu.periods.groups import GroupPriors
    from drpu.periods.read import Reading, Shift
    from drpu.periods.shift_tests import ColumnShift, MixtureTest

IMPORTANCE_ROWS = 2000  # most training rows from which importances of columns are computed
BACKTEST_SHARE = 0.8  # of the time of a fit with a backtest: up to six fits to fewer rows


class PUClassifier(DefaultErrors, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the classifiers of drpu, which know their columns and can be saved."""

    n_features_in_: int
    table_: TableEncoder | None = None  # how the columns of a data frame are read; None for arrays
    _used: Any = None  # an unfitted copy with the parameters of the last fit

    @abstractmethod
    def record(self) -> Record:
        """What a file keeps of the fitted classifier."""

    def _keep_parameters(self) -> None:
        """Keep a copy of the parameters of a fit, so that later changes have no effect on it."""
        self._used = without_callbacks(clone(self))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The parameters, and the scenario if the fit has chosen it."""
        text = str(super().__repr__(N_CHAR_MAX))
        scenario = getattr(self, "scenario_", None)  # None before a fit
        if scenario is None or self.get_params(deep=False).get("scenario") != "auto":
            return text
        separator = "" if text.endswith("()") else ", "
        return f"{text[:-1]}{separator}scenario_={scenario!r})"

    @abstractmethod
    def _intake(self) -> Any:
        """The learner, or another object that says which rows are accepted."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # Rows with the smaller label are unlabeled, not negative: for two separated classes the
        # correct prior is 0, so accuracy is not meaningful.
        tags.classifier_tags.poor_score = True
        model = getattr(self, "model_", None)
        if model is None:  # a loaded classifier may have no learner
            model = self._intake()
        tags.input_tags.sparse = model.accepts_sparse
        tags.input_tags.allow_nan = model.accepts_nan
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of ``predict`` against true labels; a missing label means not positive.

        Labels are those of training, yes and no, 1 and 0, or true and false. Pass
        ``scoring=ratio_risk_scorer`` to searches: without ``scoring`` they call this method with
        training labels, and prefer what flags few unlabeled rows.
        """
        warn_of_order(X, y=y, sample_weight=sample_weight)
        positive = labelled_flags(y, self.classes_)
        flagged = self.predict(X) == self.classes_[1]
        check_same_rows(len(flagged), len(positive))
        if sample_weight is not None:
            sample_weight = check_weights("sample_weight", sample_weight, len(flagged))
        return float(np.average(positive == flagged, weights=sample_weight))


class RatioClassifier(PUClassifier):
    """A fitted ratio, the prior of the rows to classify, and a cost.

    Each row is treated alone: a row gets the same label in every batch. Adapting returns a new
    :class:`drpu.AdaptedClassifier`; there is no refit.
    """

    _fitted: FittedRatio | None = None
    _point: OperatingPoint
    _reference: Reference

    @property
    def fitted_(self) -> FittedRatio:
        """The stored part of training, without rows; raises ``NotFittedError`` before it."""
        if self._fitted is None:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit or fit_pu first."
            )
        return self._fitted

    @property
    def point_(self) -> OperatingPoint:
        """How a ratio becomes a probability and a label."""
        _ = self.fitted_  # raises before a fit
        return self._point

    @property
    def reference_(self) -> Reference:
        """The rows that new rows are compared with: of training, or of the last answers."""
        _ = self.fitted_  # raises before a fit
        return self._reference

    @property
    @abstractmethod
    def reading_(self) -> Reading:
        """What is known about the rows to classify."""

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    @property
    def classes_(self) -> Classes:
        """The two labels of the training data, the positive one last."""
        return self.fitted_.classes

    @property
    def scenario_(self) -> str:
        """How the labelled rows were collected: "single-sample" or "case-control"."""
        return self.fitted_.population.scenario

    @property
    def train_prior_(self) -> PriorEstimate:
        """Prior of the training population."""
        return self.fitted_.prior

    @property
    def test_prior_(self) -> PriorEstimate:
        """Prior of the rows to classify, which :meth:`predict` uses."""
        return self.point_.prior

    @property
    def prior_(self) -> PriorEstimate:
        """Shorthand for ``test_prior_``, the prior that :meth:`predict` uses."""
        return self.point_.prior

    @property
    def cost_(self) -> float:
        """False-positive cost in use."""
        return self.point_.cost

    @property
    def threshold_(self) -> float:
        """Ratio above which a row is flagged."""
        return self.point_.threshold

    # -- predictions ---------------------------------------------------------------------------

    def ratio(self, X: Rows) -> FloatArray:
        """Density ratio p(x | positive) / p(x) relative to the training population.

        It lies between 0 and 1 / training prior, and does not depend on the prior of the
        rows to classify.
        """
        return self.point_.bounded_ratio(self._log_ratio(X))

    def decision_function(self, X: Rows) -> FloatArray:
        """Log of the ratio divided by the threshold: above 0 for flagged rows."""
        return self.point_.margin(self._log_ratio(X))

    def predict(self, X: Rows) -> np.ndarray[Any, Any]:
        """Label of each row, in the coding of the training labels; a tie is negative.

        If the prior is not identified, its central value is used, of which ``fit``, ``adapt`` and
        :func:`drpu.load` warn.
        """
        return self._labels(self.decision_function(X))

    def predict_proba(self, X: Rows) -> FloatArray:
        """Probability of each class under the current prior, in the order of ``classes_``."""
        positive = self.point_.probability(self.ratio(X))
        return np.column_stack([1 - positive, positive])

    def uncertain(self, X: Rows) -> BoolArray:
        """Rows whose label changes within the interval of the current prior; none with a budget.

        The uncertainty of the training prior is not taken into account.
        """
        log_ratio = self._log_ratio(X)
        low, high = self.point_.at_limits(self.reference_)
        return np.asarray(low.is_positive(log_ratio) != high.is_positive(log_ratio))

    def _outputs(self, X: Rows) -> dict[str, np.ndarray[Any, Any]]:
        """Label, probability, ratio and score of each row, from one pass over them.

        The score is that of ``decision_function``.
        """
        log_ratio = self._log_ratio(X)
        margin = self.point_.margin(log_ratio)
        ratio = self.point_.bounded_ratio(log_ratio)
        return {
            "label": self._labels(margin),
            "probability": self.point_.probability(ratio),
            "ratio": ratio,
            "score": margin,
        }

    def _log_ratio(self, X: Rows) -> FloatArray:
        if isinstance(X, Batch):
            return self.fitted_.log_ratio_of(X.scores)
        return self.fitted_.log_ratio(classifier.read_rows(self, X))

    def _labels(self, margin: FloatArray) -> np.ndarray[Any, Any]:
        return self.classes_[(margin > 0).astype(np.intp)]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """The forms for notebooks, which ask for these before ``_repr_html_``."""
        forms = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            forms["text/html"] = self._repr_html_()
        return forms

    def _warn_of_prior(self) -> None:
        """Warn if labels are made at a prior that is not identified."""
        if self.point_.uses_prior:
            warn_if_not_identified(self.test_prior_)

    # -- expected performance ------------------------------------------------------------------

    def expected_performance(self) -> Performance:
        """Expected accuracy, precision, recall and cost at the current prior, without labels.

        Each figure has a value and 95 % limits. They are computed from held-out positives and
        unlabeled training rows, which is valid if only the prior has changed. The threshold is
        evaluated on counts that did not determine it. The limits include those of both priors, the
        sampling error of the training counts and that of the threshold, and after ``adapt`` that of
        the rows which were read. After answers the figures follow their map, over the rows that
        they are about; ``evaluation_`` has measured ones.
        """
        return self.point_.expected(self.fitted_, self.reference_, self.reading_.rows)

    def expected_bill(self, rows: float = 1.0) -> priors.Figure:
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
        cost = self.expected_performance().cost
        return priors.Figure(unit * cost.value, unit * cost.low, unit * cost.high)

    def sensitivity(self, k: float) -> Sensitivity:
        """Bounds of training prior and flagged rows if some positives are labelled more often.

        Parameters
        ----------
        k : float
            At least 1: the rate at which any positive is labelled differs from the mean rate by a
            factor from 1/k to k.

        Returns
        -------
        sensitivity : Sensitivity
            Both figures as estimated, and their bounds over all such rates.
        """
        return audits.sensitivity_of(self.fitted_, k=k, cost=float(self.cost_))

    # -- operating points: another prior, cost or budget ---------------------------------------

    def at_prior(self, prior: float | PriorEstimate) -> AdaptedClassifier:
        """Classifier for rows whose prior is known; there is no refit.

        Where the training prior is not known exactly, probabilities are averaged over its
        distribution.

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
            return self._at_point(self.point_.at_cost(self.cost_))
        return self._at_reading(periods.Reading(moved))

    def at_cost(self, cost: float) -> AdaptedClassifier:
        """Classifier with another cost and the same prior; there is no refit.

        Of several operating points the later call decides: after :meth:`at_budget`,
        :meth:`at_recall` or :meth:`at_precision`, the threshold is again that of the prior and the
        cost.

        Parameters
        ----------
        cost : float or Costs
            False-positive cost in (0, 1), or two amounts.

        Returns
        -------
        adapted : AdaptedClassifier
            Frozen. Figures that were measured on answers (``evaluation_``) belong to the old
            threshold, so it has none: call ``evaluate`` again.
        """
        return self._at_point(self.point_.at_cost(cost))

    def at_budget(
        self, rows: int | None = None, *, of: Any = None, share: float | None = None
    ) -> AdaptedClassifier:
        """Classifier that flags as many rows as can be checked, those with the highest scores.

        Parameters
        ----------
        rows : int, optional
            Number of rows that can be checked.
        of : rows of shape (n, d), ScoreTails or int, optional
            The rows to choose from: the rows themselves, their counts, or their number. The workers
            count those of a Dask or Spark data frame, and ``budget_`` then has no ``rows``.
        share : float, optional
            Share of the rows that can be checked, instead of ``rows``.

        Returns
        -------
        adapted : AdaptedClassifier
            Has the same prior and cost, and the threshold of the budget. Its ``budget_`` has the
            expected precision, recall and lift with their limits and, if rows were given, the
            positions of the rows to check as ``budget_.rows``, the best first: exactly as many as
            can be checked. ``predict`` treats each row alone, so it flags all rows with the score
            of the last one, also if they are more; ``budget_`` and its text say how many.

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
        >>> bool(day.budget_.precision.value > 0.5)
        True
        """
        decisions.check_budget(rows, of, share)
        if of is not None and not np.isscalar(of):
            of = self._batch_or_counts(of)
        point = self.point_.at_cost(self.cost_)  # without an earlier budget
        budget = decisions.budget_threshold(
            self.fitted_, self.reference_, point, of, rows=rows, share=share
        )
        return self._at_point(decisions.AtBudget(point, budget))

    def at_recall(self, recall: float) -> AdaptedClassifier:
        """Classifier that flags as few rows as are expected to contain this share of all positives.

        The expected figures are in ``budget_``, as from :meth:`at_budget`.
        """
        gain = self.point_.gain(self.fitted_, self.reference_)
        return self.at_budget(share=decisions.share_for_recall(gain, recall))

    def at_precision(self, precision: float) -> AdaptedClassifier:
        """Classifier that flags most rows with this expected share of positives among them.

        The expected figures are in ``budget_``, as from :meth:`at_budget`.
        """
        gain = self.point_.gain(self.fitted_, self.reference_)
        return self.at_budget(share=decisions.share_for_precision(gain, precision))

    def _at_point(self, point: OperatingPoint) -> AdaptedClassifier:
        """The classifier for the same rows at another operating point."""
        return AdaptedClassifier(self.fitted_, self.reference_, self.reading_, point)

    def _batch_or_counts(self, X: Any) -> Batch | ScoreTails:
        if isinstance(X, ScoreTails):
            return check_counts(self.fitted_, X)
        if engine_of(X) is not None:
            return classifier.read_counts(self, X)
        return classifier.read_batch(self, X)

    # -- adaptation ----------------------------------------------------------------------------

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
        warn_of_order(X, sample_weight=sample_weight)
        return classifier.read_counts(self, X, sample_weight)

    def adapt(
        self,
        X: Rows | ScoreTails,
        y: Any = None,
        *,
        audit: Any = None,
        sample_weight: Any = None,
        shift: str = "auto",
        level: float = 0.95,
    ) -> AdaptedClassifier:
        """Estimate the prior of the batch ``X`` and return a classifier for it.

        Parameters
        ----------
        X : rows of shape (n, d), or ScoreTails
            Rows with the prior of the rows to classify, or their counts from
            :meth:`count`. The workers count the rows of a Dask or Spark data frame.
        y : array-like of shape (n,), optional
            Labels of these rows that have arrived, as in ``fit``: labelled positives, and all
            others. Their share, by weight, is a further reading of the prior, if positives are
            labelled at the rate of training, and a lower bound only if the classifier was fitted
            with a ``label_delay`` above 0. Needs a single sample (``scenario_``).
        audit : Audit or data frame, optional
            True labels of some of these rows, from :meth:`plan_audit` or ``Audit.random``, or the
            table of answers that ``drpu ask``, ``drpu audit`` or ``plan.ask`` saved. They
            give the prior of these rows, and a map of the trained log-odds from which labels and
            probabilities come (``map_``). If only the prior has changed since training, they also
            give the training prior. Later adaptations of the result start from the map and compare
            new rows with these rows. Few answers move labels only as far as they support it; those
            that contradict everything else cause a ``ContradictionWarning``.
        sample_weight
            As in :meth:`count`.
        shift : {"auto", "prior", "none"}, default="auto"
            What may have changed since training. ``"auto"`` decides by two tests: where these find
            nothing but a new prior, prior and probabilities are means over "only the prior
            changed" and "P(positive | x) stayed", with weights by the evidence for each (see
            docs/months.md); otherwise they move only as far as a backtest, labels that arrived or
            answers support it, and without these labels stay as trained. ``"prior"`` assumes that
            only the prior changed, as the paper does. ``"none"`` keeps prior and labels.
        level : float, default=0.95
            Confidence level of the interval.

        Returns
        -------
        adapted : AdaptedClassifier
            Frozen, with the cost of this classifier: later changes of this classifier do not affect
            it.
        """
        check_fraction("level", level)
        if audit is not None:
            audits.refuse_beside_audit(sample_weight=sample_weight, y=y, shift=shift)
            return self._adapted_to_answers(X, audit, level=level)
        check_choice("shift", shift, periods.SHIFTS)
        warn_of_order(X, y=y, sample_weight=sample_weight)

        fitted = self.fitted_
        reference = self.reference_
        if sample_weight is None:
            X = classifier.rows_with_periods(self, X)
        counts = classifier.read_counts(self, X, sample_weight, copies_once=True)
        if engine_of(X) is not None:
            check_counts(fitted, counts)  # a frame may be empty
        arrived = periods.arrived_labels(fitted, reference, y, counts, sample_weight)
        parts: Sequence[Reading] = ()
        if isinstance(X, Batch) and X.periods is not None and sample_weight is None:
            parts = periods.read_periods(fitted, reference, X)

        reading = periods.read_new_rows(
            fitted, reference, counts, shift=shift, level=level, arrived=arrived, parts=parts
        )
        periods.warn_about_reading(reading, reference, shift=shift)
        if shift == "none":
            reading = reading.keeping(self.reading_)
        return self._at_reading(reading)

    def adapt_predict(
        self, X: Rows, *, sample_weight: Any = None, shift: str = "auto", level: float = 0.95
    ) -> tuple[AdaptedClassifier, np.ndarray[Any, Any]]:
        """Adapt to the batch ``X`` and label its rows, scoring each of them once.

        ``adapted, labels = clf.adapt_predict(X)`` is ``adapted = clf.adapt(X)`` followed by
        ``labels = adapted.predict(X)``, at about half of the computing time. The options are those
        of :meth:`adapt`.
        """
        warn_of_order(X, sample_weight=sample_weight)
        batch = classifier.read_batch(self, X, with_periods=sample_weight is None)
        adapted = self.adapt(batch, sample_weight=sample_weight, shift=shift, level=level)
        return adapted, adapted.predict(batch)

    def adapt_by(
        self,
        X: Rows | GroupCounts,
        y: Any = None,
        *,
        by: Any = None,
        level: float = 0.95,
        budget: float | None = None,
        shift: str = "auto",
    ) -> GroupPriors:
        """Prior of each group of rows, with limits for all groups together, and its classifier.

        Parameters
        ----------
        X : rows of shape (n, d), or GroupCounts
            Unlabeled rows, or their counts from ``count_batches(classifier, X, by=...)``, of which
            there may be more than the 1,000 groups of rows in memory, at a few milliseconds each.
        y, shift
            As in :meth:`adapt`, for each group.
        by : str or array-like of shape (n,), optional
            Name of a column of ``X``, or one value per row. Dates are grouped by calendar month.
            The column need not have been in the training data. Left out with counts.
        level : float, default=0.95
            Level at which the limits of all groups hold together.
        budget : int or float, optional
            Rows of each group that can be checked, or their share as a float up to 1; see
            :meth:`at_budget`.

        Returns
        -------
        priors : GroupPriors
            For each group its prior, what moved, the warnings about it, and its ``classifier``,
            which makes its labels. The values of small groups are shrunk towards the prior of all
            rows; see :class:`drpu.periods.groups.GroupPriors` for the rule.

        Examples
        --------
        >>> from drpu import DRPUClassifier, make_gaussian_pu
        >>> data = make_gaussian_pu(
        ...     300, 1000, prior=0.3, test_prior=0.2, n_test=2000, separation=3, random_state=0
        ... )
        >>> clf = DRPUClassifier("kernel", random_state=0).fit_pu(data.positive, data.unlabeled)
        >>> months = ["may", "june"] * 1000
        >>> clf.adapt_by(data.test, by=months).names
        ['june', 'may']
        """
        check_choice("shift", shift, periods.SHIFTS)
        if by is None and not classifier.are_group_counts(X):
            raise ParameterError(
                "by must be the name of a column of X, or one value per row, got None: only counts "
                "of groups, from count_batches(classifier, X, by=...), need no by."
            )
        options = classifier.GroupOptions(check_fraction("level", level), budget, shift)
        warn_of_order(X, y=y)
        return classifier.adapt_by_group(self, X, y, by, options)

    def _at_reading(self, reading: Reading) -> AdaptedClassifier:
        """The classifier for rows that were read, at the cost of this one."""
        point = operating_point(
            self.fitted_,
            self.reference_,
            reading.prior,
            cost=self.cost_,
            hypotheses=reading.hypotheses,
        )
        return AdaptedClassifier(self.fitted_, self.reference_, reading, point)

    def _adapted_to_answers(
        self, X: Rows | ScoreTails, audit: Any, *, level: float
    ) -> AdaptedClassifier:
        """The classifier recalibrated by answers."""
        batch = self._batch_or_counts(X)
        read_rows = partial(classifier.read_rows, self)
        parts = audits.resolve_audit(self.fitted_, audit, read_rows, batch)
        answered = audits.combine_answers(
            self.fitted_, self.reference_, batch, parts, self.point_, level=level
        )
        return AdaptedClassifier(
            answered.fitted,
            answered.reference,
            answered.reading,
            answered.point,
            answered.evaluation,
        )

    # -- audits --------------------------------------------------------------------------------

    def plan_audit(
        self,
        X: Rows,
        *,
        n: int | None = None,
        width: float | None = None,
        population: str = "auto",
        groups: Any = None,
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
            Number of rows to label; 20 if neither this nor ``width`` is given.
        width : float, optional
            Width that the interval of the prior should have: the smallest number of rows
            that is expected to reach it is planned.
        population : {"auto", "new", "training", "unlabeled"}, default="auto"
            Where the rows come from. ``"new"``: from any time or place; the counts of their scores
            show how far the prior has changed since training. ``"training"``: new rows of the
            training population. ``"unlabeled"``: unlabeled training rows. The last two need no
            comparison of counts, which makes the training prior more precise. ``"auto"`` recognises
            the unlabeled or the whole training sample of this fit, in any order (a loaded
            classifier cannot), and otherwise is ``"new"``, except that the training prior is shrunk
            towards "nothing has changed" as far as the counts agree with it.
        groups : array-like of shape (N,), optional
            What rows have in common that are not independent, such as patient or shop. The same
            rows are planned, and limits from their answers are wider as far as answers about one
            group agree. ``width`` counts rows as independent, because this is not known before.
        level : float, default=0.95
            Confidence level that ``width`` refers to.
        random_state : int, RandomState or None, default=None
            Seed of the choice of rows.

        Returns
        -------
        plan : AuditPlan
            ``plan.rows`` are the positions of the rows to label, and ``plan.answer(labels)`` is the
            audit that :meth:`adapt` accepts.
        """
        request = audits.PlanRequest.of(n, width, population, level, groups)
        batch = classifier.read_batch(self, X)
        rng = check_random_state(random_state)
        return audits.plan_audit(self.fitted_, self.reference_, batch, request, rng)

    def evaluate(
        self,
        X: Rows | Audit,
        y: Any = None,
        *,
        groups: Any = None,
        blank: str | None = None,
        level: float = 0.95,
    ) -> Evaluation:
        """Accuracy, precision, recall and cost from true labels, with confidence limits.

        Parameters
        ----------
        X : Audit, or rows of shape (n, d)
            An audit, whose answers are weighted by their design; several parts are
            averaged. Or a simple random sample of rows.
        y : array-like of shape (n,), optional
            The true labels of the rows: yes and no, 1 and 0, true and false, or values of
            ``classes_``; None, NaN and a blank mean: no answer. Left out with an audit.
        groups : array-like of shape (n,), optional
            What rows have in common that are not independent, such as patient or shop, beside
            rows. Then the sample may be one of groups, and limits are wider as far as labels of
            one group agree. A plan knows the groups that :meth:`plan_audit` was told.
        blank : {"negative"}, optional
            What a missing label means: ``"negative"`` if only positives were marked. Otherwise
            there is no answer, and labels of one class beside missing ones are refused.
        level : float, default=0.95
            Confidence level of each interval.

        Returns
        -------
        evaluation : Evaluation
            Figures with limits for the population that the rows were drawn from.
        """
        level = check_fraction("level", level)
        audit = audits.audit_of_labels(X, y, self.classes_, blank=blank, groups=groups)
        parts = audits.resolve_audit(self.fitted_, audit, partial(classifier.read_rows, self))
        return audits.evaluate_parts(self.fitted_, self.point_, parts, level=level)

    # -- explanations --------------------------------------------------------------------------

    @property
    def feature_importances_(self) -> FloatArray:
        """Mean absolute contribution of each column in at most 2000 training rows.

        In the order of the columns in training, in units of the log-ratio; they do not sum to 1.
        They are computed by ``fit`` for models with trees, and kept in files.
        """
        importances = self.fitted_.columns.importances
        if importances is None:
            raise AttributeError(
                "feature_importances_ exist for models with trees only, fitted to rows in memory: "
                "use permutation_importance with AUCScorer for any model."
            )
        return importances.copy()

    def contributions(self, X: Rows) -> Any:
        """How much each column adds to the score of each row, for models with trees.

        On the way of a row from the root of a tree to its leaf, each split changes the mean output
        of the training rows in the node; the change is added to the column of the split. The sums
        over the trees are close to the Shapley values of the trees, and computed in about the time
        of a prediction (docs/benchmarks.md compares both). For the default they are averaged over
        its members with their weights, for ``"boosted"`` over the folds.

        Parameters
        ----------
        X : rows of shape (n, d)
            Rows to explain.

        Returns
        -------
        contributions : ndarray of shape (n, d + 1), or a frame like ``X``
            One column for each column of ``X`` in the order of training (zeros for identifiers,
            which were left out), and a last column with everything else, ``(rest)``, in more
            parentheses if ``X`` has a column of this name. For ``model="boosted"`` that is the
            score of an average row. For the default, it also contains the score of the smooth
            member, which cannot be divided among the columns. The sum of a row is its score: the
            log-ratio before calibration. Where the log-ratio is not linear in the output of the
            trees, as for a forest, contributions are scaled to it.

        Raises
        ------
        ParameterError
            If the model has no trees: use ``model="boosted"`` or the default.
        """
        if is_frame(X):
            X = collected(X)
        return decisions.contributions_of(self.fitted_, X, classifier.read_rows(self, X))

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
            One for each row, with the attributes ``favour`` and ``against``. A column of texts is
            followed by up to three of its words, those without which the score changes most.
        """
        most = check_integer("n", n, low=1)
        if isinstance(X, Batch):
            return decisions.reasons_of(self.fitted_, X.rows, most, X.texts)
        if is_frame(X):
            X = collected(X)
        texts = classifier.read_texts(self.fitted_, X)
        return decisions.reasons_of(self.fitted_, classifier.read_rows(self, X), most, texts)


class AdaptedClassifier(RatioClassifier):
    """A fitted classifier at another prior, cost, or both.

    It is frozen, has the methods of the original classifier, and can be adapted again: every
    adaptation starts from the training prior or from answers, never from another adaptation.

    Parameters
    ----------
    fitted, reference, reading, point, evaluation
        Its attributes ``fitted_``, ``reference_``, ``reading_``, ``point_`` and ``evaluation_``.
    """

    def __init__(
        self,
        fitted: FittedRatio,
        reference: Reference,
        reading: Reading,
        point: OperatingPoint,
        evaluation: Evaluation | None = None,
    ) -> None:
        self._fitted = fitted
        self._reference = reference
        self._reading = reading
        self._point = point
        self._evaluation = evaluation
        fitted.columns.set_on(self)

    @property
    def reading_(self) -> Reading:
        """What is known about the rows that it was adapted to."""
        return self._reading

    @property
    def prior(self) -> PriorEstimate:
        """Prior of the rows to classify."""
        return self._point.prior

    @property
    def cost(self) -> float:
        """False-positive cost in use."""
        return self._point.cost

    @property
    def shift_test_(self) -> MixtureTest | None:
        """Test that only the prior has changed: that the rows are a mixture of the two classes.

        None without rows, and after loading.
        """
        return self._reading.shift_test

    @property
    def moved_columns_(self) -> tuple[ColumnShift, ...]:
        """Columns that changed more than a new prior explains, the largest change first.

        Empty if no column changed, if rows had weights, if the given counts have no counts of
        columns, and after loading.
        """
        return self._reading.moved_columns

    @property
    def shift_(self) -> Shift:
        """What moved, and so what was done: "prior", "other", "answers" or "none".

        The classifier was adapted to another prior; more than the prior moved, so prior and labels
        moved only as far as there is support for it; answers recalibrated it; or nothing was done,
        on request. It is "prior", too, if there were too few rows to test what moved
        (:attr:`untested_`): prior and labels then move as far as the rows determine the prior.
        """
        return self._reading.shift

    @property
    def untested_(self) -> bool:
        """Whether there were too few rows to test if only the prior has changed.

        False without rows, and after loading.
        """
        return self._reading.untested

    @property
    def map_(self) -> LogOddsMap | None:
        """Map a + b z of the trained log-odds that answers gave, with its uncertainty; or None."""
        return self._point.map

    @property
    def fairness_test_(self) -> FairnessTest | None:
        """Test that the labelled positives are a random sample of all positives.

        None without an audit of new rows, with a stated rate of wrong answers, and after loading.
        """
        return getattr(self._reading, "fairness_test", None)

    @property
    def before_audit_(self) -> tuple[PriorEstimate, PriorEstimate] | None:
        """Training and test prior as they were without the answers; None without, after loading."""
        return getattr(self._reading, "before_audit", None)

    @property
    def evaluation_(self) -> Evaluation | None:
        """Performance measured on the audited rows; None without an audit, and after loading."""
        return self._evaluation

    @property
    def budget_(self) -> Budget | None:
        """Expected result of ``at_budget``; None otherwise, and after loading."""
        if isinstance(self._point, decisions.AtBudget):
            return self._point.budget.outlook
        return None

    def _intake(self) -> Any:
        return self.fitted_.model

    def record(self) -> AdaptedRecord:
        """What a file keeps of the classifier."""
        reference = None if self._reference.map is None else self._reference
        return classifier.AdaptedRecord(self.fitted_, reference, self._reading, self._point)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The prior and the cost."""
        return {"prior": self.prior, "cost": self.cost}

    def set_params(self, **params: Any) -> Self:
        """Raise an error: an adapted classifier is frozen."""
        raise ParameterError(
            "parameters must not be changed here: at_prior(prior) and at_cost(cost) make another."
        )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Raise an error: an adapted classifier is frozen; scikit-learn requires the method."""
        raise ParameterError("fit must not be called here: fit a DRPUClassifier and adapt it.")

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        shift = f"shift={self.shift_!r}"
        if self.untested_:
            shift += " (untested)"
        parts = [
            f"prior={self.test_prior_}",
            f"train_prior={self.train_prior_}",
            f"cost={self.cost_:g}",
            shift,
            f"scenario={self.scenario_!r}",
        ]
        if self.budget_ is not None:
            parts.append(f"budget={str(self.budget_)!r}")
        return f"AdaptedClassifier({', '.join(parts)})"

    def _repr_html_(self) -> str:
        priors_of_rows = {
            "prior of the rows": self.test_prior_,
            "prior in training": self.train_prior_,
        }
        return _box(self, priors_of_rows)

    def __sklearn_clone__(self) -> Self:
        return self


def _box(classifier: RatioClassifier, priors_of_rows: dict[str, PriorEstimate]) -> str:
    """A table with the priors, decisions, expected figures and what is not known."""
    rows = {}
    for name, prior in priors_of_rows.items():
        rows[name] = prior._repr_html_().removeprefix("<p>prior ").removesuffix("</p>")
    rows["scenario"] = classifier.scenario_
    rows["cost"] = escape(str(classifier.cost_))
    rows["threshold"] = f"ratio above {classifier.threshold_:.3g}"
    budget = getattr(classifier, "budget_", None)
    if budget is None:
        rows |= _expected_html(classifier)
    else:
        rows["budget"] = str(budget)
    doubts = classifier.reading_.doubts()
    if not classifier.test_prior_.identified:
        doubts.insert(0, "The data do not identify the prior.")
    if doubts:
        rows["warnings"] = "<br>".join(map(escape, doubts))
    cells = [f"<tr><th scope=row>{name}</th><td>{text}</td></tr>" for name, text in rows.items()]
    # the caption has the mark of scikit-learn's diagrams for fitted estimators
    caption = f"<caption><b>{type(classifier).__name__}</b>, fitted</caption>"
    return f"<table>{caption}<tbody>{''.join(cells)}</tbody></table>"


def _expected_html(classifier: RatioClassifier) -> dict[str, str]:
    expected = classifier.expected_performance()
    rows = {}
    for name in ("flagged", "precision", "recall"):
        figure = getattr(expected, name)
        text = "cannot be computed: no row is flagged"
        if not math.isnan(figure.value):
            text = f"{figure.low:.1%} to {figure.high:.1%}"
            if not figure.is_wide:
                text = f"{figure.value:.1%} ({text})"
        rows[f"expected {name}"] = text
    return rows


@dataclass(eq=False, repr=False)
class DRPUClassifier(CallbackSupport, RatioClassifier):
    """Classifier from positive and unlabeled rows that can be adapted to a changed prior.

    It learns the density ratio p(x | positive) / p(x) of the training population. The prior of
    the rows to classify is needed only afterwards: :meth:`predict` uses that of the training
    population, :meth:`adapt` estimates it from new unlabeled rows, and :meth:`at_prior` accepts a
    known value. No refit is needed.

    Parameters
    ----------
    model : str, RatioLearner, scikit-learn classifier or torch module, default="auto"
        How the ratio is learnt. ``"auto"`` averages different kinds of models, with weights from
        held-out rows if there are many positives; ``"kernel"``, ``"boosted"``, ``"network"``
        and ``"classifier"`` are single kinds.
    scenario : {"auto", "single-sample", "case-control"}, default="auto"
        How the labelled rows were collected. In a single sample some positives of the sample are
        labelled, and the population is that of all rows together. In a case-control study the
        unlabeled rows are a sample of the population, and the positives were collected separately.
        ``"auto"``: the one table of :meth:`fit` is a single sample, and the two samples of
        :meth:`fit_pu` are a case-control study. If labelled rows of a table reappear among its
        unlabeled ones more often than by chance, it is a case-control study, and a
        :class:`drpu.exceptions.ScenarioWarning` says so. ``scenario_`` is the result.
    prior : "auto", str, float, PriorEstimate or callable, default="auto"
        Class prior of the training population: how to estimate it, or its value. The
        methods are those of :func:`drpu.estimate_prior` for one sample, and ``"km2"`` and
        ``"km1"`` (kernel means of the rows, :class:`drpu.KernelMeanPrior`).
    cost : float or Costs, default=0.5
        False-positive cost in (0, 1); 0.5 maximises accuracy. :meth:`at_cost` changes it after the
        fit.
    pos_label : label, optional
        The label of the positives. The default is the larger of two numbers or booleans, and the
        word beside a blank or "unknown", "unlabeled", "none" or "na". Other pairs of words need it.
    negative_label : label, optional
        A third label in ``y``, of rows that are known to be negative; rows with a missing label are
        unlabeled. The negatives are part of the population in a single sample and come beside it in
        a case-control study. They may be a biased sample: they are used as far as they help to rank
        labelled positives.
    holdout : "auto", float or int, default="auto"
        Fraction of the rows to hold out, or number of folds. Priors and calibration are estimated
        from scores of rows that the model was not trained on. ``"auto"`` uses ten folds below 100
        positives, five up to 2000, and a fifth of the rows above; below four positives nothing is
        held out, and the training rows are scored. With the default model, fewer than 100 positives
        and at most 20,000 rows, the functions of four divisions into folds are averaged. A fraction
        that leaves fewer than ten rows of either kind to train on, or holds out fewer, is a
        warning.
    calibrate : bool, default=True
        Whether scores are calibrated to ratios on held-out rows. This does not change the
        priors. It keeps the order of rows, except that some rows become ties.
    label_delay : int, default=0
        Number of periods after which labels are complete. The labels of as many last ``periods`` of
        ``fit`` are not used as shares, and those that :meth:`adapt` gets are a lower bound if it is
        above 0. It has no meaning in a case-control study.
    keep_time : bool or list of str, default=False
        Columns of dates whose time itself is a feature; True for all of them. Later rows have later
        dates than any training row, so only parts of dates are used otherwise, and differences
        between the dates of a row.
    keep_ids : bool or list of str, default=False
        Identifiers to use although they have another value in almost every row; True for all.
    random_state : int, RandomState or None, default=None
        Seeds the folds and the models.
    n_jobs : int, optional
        Most folds fitted at the same time. Threads and processes are used where they save time.
    verbose : int, default=0
        1 shows a progress bar with the time left, in a terminal or a notebook, and the chosen
        settings.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray
        Their names, if the training rows had any.
    table_ : TableEncoder or None
        How the columns of a data frame are read; None for arrays, and for a pipeline that reads
        them itself.

    Notes
    -----
    Pass ``scoring=ratio_risk_scorer`` to ``GridSearchCV`` and other searches, because their default
    counts unlabeled positives as errors.

    Parameters are read by ``fit``: changing one afterwards has no effect until the next
    ``fit``, except for ``n_jobs`` and ``verbose``.

    Examples
    --------
    >>> from drpu import DRPUClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(300, 1000, prior=0.5, test_prior=0.1, separation=3, random_state=0)
    >>> X, y = data.X_y()
    >>> clf = DRPUClassifier("kernel", scenario="case-control", random_state=0).fit(X, y)
    >>> june = clf.adapt(data.test)
    >>> june.prior_.value < clf.prior_.value
    True
    """

    model: Any = "auto"
    _: KW_ONLY
    scenario: str = "auto"
    prior: Any = "auto"
    cost: float = 0.5
    pos_label: Any = None
    negative_label: Any = None
    holdout: Any = "auto"
    calibrate: bool = True
    label_delay: int = 0
    keep_time: Any = False
    keep_ids: Any = False
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(
        self,
        X: Rows,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        periods: Any = None,
        audits: Any = None,
    ) -> Self:
        """Fit the classifier to rows of which some are labelled positive.

        Parameters
        ----------
        X : rows of shape (n, d)
            NumPy, pandas, polars, Arrow, scipy sparse or torch. A Dask or Spark data frame with
            ``model=DaskBoosted()`` or ``SparkBoosted()``, which are fitted on the cluster.
        y : array-like of shape (n,), or str
            Two labels: labelled positive, and unlabeled. The name of their
            column for a Dask or Spark data frame.
        sample_weight : array-like of shape (n,), or str, optional
            Weights, in the loss and in the counts. Multiplying all of them by a constant changes
            nothing. The name of their column for a Dask or Spark data frame. Where some positives
            are labelled more often than others, :func:`drpu.labelling_weights` makes weights.
        groups : array-like of shape (n,), optional
            Which rows depend on each other, as in scikit-learn: a customer's rows share a
            value. They stay in one fold, and intervals count groups. Without it, copies
            of a labelled positive are found and treated as one group.
        periods : array-like of shape (n,), or str, optional
            The period of each row, a value that sorts by time, as "2024-05"; or the name of its
            column in a table, which is then no feature. Dates are grouped by calendar month. Past
            periods are read by fits to the rows before them, at most six, and the labelled shares
            show how well (``backtest_``). Later, ``adapt`` believes its readings as far as they
            were right. Needs a single sample and a constant labelling rate.
        audits : list of Audit, optional
            Answers about rows of ``X``, or about its unlabeled rows, by which the training prior is
            set if ``prior`` is ``"auto"``, and which are used in training with their design
            weights. ``(rows, audit)`` for answers about other rows, which are used in training
            only.

        Returns
        -------
        self : DRPUClassifier
        """
        self._check_parameters()
        learner = resolve_model(self.model)
        arguments = classifier.FitArguments(X, y, sample_weight, groups, periods, audits)
        on_cluster = isinstance(learner, models.FrameLearner)
        if periods is not None and (on_cluster or self.scenario == "case-control"):
            raise ParameterError(
                "periods must be None with scenario='case-control' or on a cluster: the share of "
                "labelled rows shows how the prior moved only with scenario='single-sample' and "
                "rows in memory."
            )
        if isinstance(learner, models.FrameLearner):
            return self._fit_frame(learner, arguments)

        def read_and_learn() -> None:
            training = classifier.read_training(self, learner, arguments)
            self._learn(learner, training)

        run_fit(self, read_and_learn, X=X, y=y)
        return self

    def fit_pu(
        self,
        positive: Rows,
        unlabeled: Rows,
        negative: Rows | None = None,
        *,
        positive_weight: Any = None,
        unlabeled_weight: Any = None,
    ) -> Self:
        """Fit the classifier to a positive and an unlabeled sample; labels are 1 and 0.

        The samples were drawn separately, unless ``scenario="single-sample"`` says that both are
        parts of one sample; then ``unlabeled`` contains the unlabeled rows only.

        Parameters
        ----------
        positive, unlabeled : rows
            The two samples.
        negative : rows, optional
            Rows that are known to be negative, which may be a biased sample. They are part of the
            population in a single sample and come beside it in a case-control study.
        positive_weight : array-like of shape (n_positive,), optional
            Weights of the positives. If positives were labelled with different, known
            probabilities, use their inverses, which correct for the selection. Weights do not
            change the labelled fraction of the population.
        unlabeled_weight : array-like of shape (n_unlabeled,), optional
            Weights of the unlabeled rows.

        Returns
        -------
        self : DRPUClassifier
        """
        self._check_parameters()
        if self.negative_label is not None:
            raise ParameterError(
                "negative_label must be None for fit_pu, which has no labels: pass the rows as "
                "negative."
            )
        learner = resolve_model(self.model)
        if isinstance(learner, models.FrameLearner):
            raise DataTypeError(
                f"{type(learner).__name__} is fitted to a {learner.engine} data frame, by "
                "fit(frame, y='label'): for rows in memory use BoostedRatio."
            )
        weights = (positive_weight, unlabeled_weight)

        def read_and_learn() -> None:
            training = classifier.read_samples(
                self, learner, positive, unlabeled, negative, weights=weights
            )
            self._learn(learner, training)

        run_fit(self, read_and_learn)
        return self

    def _learn(self, learner: RatioLearner, training: TrainingSet) -> Self:
        with progress_bar("fit", show=self.verbose):
            fitted = self._fit_ratio(learner, training)
            return self._keep(_with_importances(fitted, training))

    def _fit_ratio(self, learner: RatioLearner, training: TrainingSet) -> FittedRatio:
        """The steps of a fit after its arguments were read."""
        rng = check_random_state(self.random_state)
        columns = classifier.with_leaks_found(training.columns, training.pair)
        warn_of_notes(columns.notes)
        pair = grouped_copies(training.pair)
        n_positive = pair.positive.n_independent
        grouped = pair.positive.groups is not None or pair.unlabeled.groups is not None
        holdout = models.resolve_holdout(
            self.holdout, n_positive, pair.unlabeled.n_independent, grouped=grouped
        )
        models.warn_of_few_positives(n_positive, split=holdout != 0)
        models.warn_of_few_known(training.known, n_positive, split=holdout != 0)

        learner = seeded(with_categories(learner, self.table_), rng)
        with part(1 if training.periods is None else 1 - BACKTEST_SHARE):
            folds, held_out = models.cross_fit(
                learner,
                pair,
                known=training.known,
                holdout=holdout,
                random_state=rng,
                n_jobs=self.n_jobs,
            )
        # Answers are not without effect, because they set the prior.
        if training.known is not None and training.prior is None and holdout != 0:
            models.warn_of_unused_known(folds, training.known, n_positive)
        tails = models.tails_of(held_out)

        population = training.population
        self._inform_of_sizes(population.sizes)
        prior = training.prior
        if prior is None or self.prior != "auto":
            fraction = population.labelled_fraction
            prior = classifier.training_prior(self.prior, tails, fraction, pair, rng)
            prior = classifier.identified_by(prior, columns.notes)
        return FittedRatio(
            model=folds,
            calibration=self._calibrated(folds, tails, prior, population),
            tails=tails,
            prior=prior,
            population=population,
            columns=columns,
            labels=training.labels,
            history=self._backtest(training),
        )

    def _calibrated(
        self, folds: Folds, tails: ScoreTails, prior: PriorEstimate, population: Population
    ) -> Calibration | None:
        """The calibration from held-out rows, if it is asked for."""
        unlabeled = population.unlabeled_prior(prior)
        models.warn_of_alpha(folds, unlabeled)
        if self.verbose:
            inform(f"{folds.describe()}; training prior {prior} ({prior.method})")
        if not self.calibrate:
            return None
        return calibrate(tails, unlabeled.value, labelled_share=population.labelled_fraction)

    def _backtest(self, training: TrainingSet) -> Backtest | None:
        """How well past periods would have been read; None without periods."""
        if training.periods is None:
            return None
        with part(BACKTEST_SHARE):
            return periods.run_backtest(
                training,
                partial(_fit_and_count, without_callbacks(clone(self))),
                n_jobs=self.n_jobs,
            )

    def _fit_frame(self, learner: models.FrameLearner, arguments: FitArguments) -> Self:
        """Fit on a cluster, where the rows are."""
        learner.refuse_arguments(
            negative_label=self.negative_label, audits=arguments.audits, groups=arguments.groups
        )
        learner = seeded(learner, check_random_state(self.random_state))
        read = partial(read_labels, pos_label=self.pos_label, warn=False)
        with progress_bar("fit", show=self.verbose):
            frame_fit = learner.fit_frame(
                arguments.X, arguments.y, arguments.sample_weight, self.holdout, read, Keep.of(self)
            )
        sizes = (frame_fit.n_positive, frame_fit.n_unlabeled)
        if self.pos_label is None:
            say_which_is_unlabeled(frame_fit.classes, *sizes)
        warn_of_more_positives(*sizes)
        models.warn_of_few_positives(frame_fit.n_positive, split=True)
        names = tuple(plan.name for plan in frame_fit.table.columns)
        Columns(len(names), names, frame_fit.table).set_on(self)
        self._inform_of_sizes(sizes)

        fraction = 0.0
        label_count = None
        if self.scenario != "case-control":
            fraction = frame_fit.labelled_fraction
            label_count = LabelCount(float(sizes[0]), float(sum(sizes)))
        population = Population(fraction, sizes, label_count, self.label_delay)
        rng = check_random_state(self.random_state)
        prior = classifier.training_prior(self.prior, frame_fit.tails, fraction, None, rng)
        fitted = FittedRatio(
            model=frame_fit.folds,
            calibration=self._calibrated(frame_fit.folds, frame_fit.tails, prior, population),
            tails=frame_fit.tails,
            prior=prior,
            population=population,
            columns=TrainingColumns.of_ranges(self, frame_fit.ranges),
            labels=Labels.of(frame_fit.classes),
        )
        return self._keep(fitted)

    def _ignore_columns(self, names: list[str]) -> None:
        """Let later tables have these columns, which a command left out of the training table."""
        fitted = self.fitted_
        if fitted.columns.table is not None:
            self.table_ = fitted.columns.table.ignoring(names)
            self._fitted = replace(fitted, columns=replace(fitted.columns, table=self.table_))

    def _keep(self, fitted: FittedRatio) -> Self:
        """Keep what was learnt, the cost, and the parameters of this fit."""
        self._fitted = fitted
        self._reference = Reference.of_training(fitted)
        self._point = trained_point(fitted.prior, check_cost("cost", self.cost))
        self._keep_parameters()
        return self

    def _inform_of_sizes(self, sizes: tuple[int, int]) -> None:
        if self.verbose:
            inform(f"{sizes[0]} positives, {sizes[1]} unlabeled rows")

    def _check_parameters(self) -> None:
        check_cost("cost", self.cost)
        check_choice("scenario", self.scenario, SCENARIO_CHOICES)
        check_integer("label_delay", self.label_delay, low=0)
        if self.label_delay > 0 and self.scenario == "case-control":
            raise ParameterError(
                f"label_delay must be 0 with scenario='case-control', got {self.label_delay}: "
                "labels of later rows are used with scenario='single-sample' only.",
                command="--label-delay needs --scenario single-sample, where labels of later rows "
                "count.",
            )
        if not callable(self.prior):
            classifier.check_prior_parameter("prior", self.prior)
        check_flag("calibrate", self.calibrate)
        check_jobs(self.n_jobs)

    @property
    def reading_(self) -> Reading:
        """What is known about the rows to classify: that they have the training prior."""
        return periods.Reading.as_trained(self.fitted_.prior)

    @property
    def backtest_(self) -> Backtest | None:
        """How well past periods would have been read; None without periods."""
        return self.fitted_.history

    @property
    def model_(self) -> Folds:
        """The fitted models, one per fold."""
        return self.fitted_.model

    @property
    def tails_(self) -> ScoreTails:
        """Held-out positive scores, and the unlabeled training rows counted over them."""
        return self.fitted_.tails

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        parameters: str = super().__repr__(N_CHAR_MAX)
        if not self.__sklearn_is_fitted__():
            return parameters
        text = f"{parameters} with prior {self.prior_}"
        negative_part = models.negative_part(self.fitted_.model)
        if negative_part > 0:
            text += f"; known negatives have {negative_part:.0%} of the score"
        return text

    def _repr_html_(self) -> str:
        """What a fit found, above the diagram of scikit-learn with the parameters."""
        diagram: str = estimator_html_repr(self)
        if not self.__sklearn_is_fitted__():
            return diagram
        return _box(self, {"prior in training": self.train_prior_}) + diagram

    def _intake(self) -> Any:
        return resolve_model(self.model)

    def record(self) -> DRPURecord:
        """What a file keeps of the fitted classifier."""
        fitted = self.fitted_
        parameters = parameters_of(self._used)
        if callable(self._used.prior):  # a prior by the user's own function is kept as a value
            parameters["prior"] = fitted.prior
        return classifier.DRPURecord(fitted, parameters)


def _with_importances(fitted: FittedRatio, training: TrainingSet) -> FittedRatio:
    """The fitted ratio with the importances of its columns, if its model has trees."""
    pair = training.pair
    step = -(-len(pair) // IMPORTANCE_ROWS)
    rows = stack_rows(pair.positive.rows[::step], pair.unlabeled.rows[::step])
    importances = decisions.importances_of(fitted, rows)
    return replace(fitted, columns=replace(fitted.columns, importances=importances))


def _fit_and_count(
    template: DRPUClassifier, before: RawRows, now: RawRows, growth: float
) -> tuple[FittedRatio, ScoreTails]:
    """A fit to the rows before a past period, and counts of the rows of the period.

    A prior that was given is multiplied by ``growth``: it has moved like the labelled share, at a
    constant labelling rate.
    """
    settings: DRPUClassifier = clone(template).set_params(
        scenario="single-sample",  # as decided for all rows
        pos_label=None,
        negative_label=None,
        label_delay=0,
        n_jobs=None,
        verbose=0,
    )
    if not isinstance(settings.prior, str) and not callable(settings.prior):
        settings.prior = min(as_prior("prior", settings.prior).value * growth, 1.0)
    learner = resolve_model(settings.model)
    assert isinstance(learner, RatioLearner)  # periods are refused on a cluster
    arguments = classifier.FitArguments(
        before.X, before.labelled.astype(int), before.sample_weight, before.groups
    )
    training = classifier.read_training(settings, learner, arguments)
    fitted = settings._fit_ratio(learner, training)
    rows = classifier.check_rows(settings, now.X, model=fitted.model)
    weight = now.sample_weight
    if weight is not None:
        weight = check_weights("sample_weight", weight, n_rows(rows))
    return fitted, fitted.count(rows, weight)
