"""Adaptation of a fitted classifier to another prior."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Self

import numpy as np

from drpu._checks import check_fraction, check_real, check_weights
from drpu._samples import Sample, n_rows
from drpu._schema import Dictionary, Integer, Schema
from drpu._state import ModelState
from drpu._typing import Rows
from drpu.classifier.audit import Audit, check_audit
from drpu.classifier.auditing import Auditable, audited_priors, resolve_audit, warn_of_unfair_labels
from drpu.classifier.decisions import DecisionMethods, ExpectedMethods
from drpu.classifier.fitted import FittedRatio, ScoredRows
from drpu.classifier.kept import plain, read_plain, read_prior
from drpu.classifier.notices import adapted_html, count_there, warn_of_few_rows
from drpu.classifier.profiles import OTHER_SHIFT, warn_of_other_shift
from drpu.core.audit.results import Evaluation, FairnessTest, more_precise
from drpu.core.budget import Budget
from drpu.core.decision import check_cost
from drpu.core.diagnostics import MixtureTest, Performance, mixture_test
from drpu.core.prior.estimate import PriorEstimate, as_prior
from drpu.core.shift.columns import ColumnShift
from drpu.core.tails import ScoreTails
from drpu.exceptions import DataError, ParameterError

__all__ = ["OTHER_SHIFT", "Adaptable", "AdaptedClassifier"]


class Adaptable(DecisionMethods, ExpectedMethods, Auditable):
    """Classifiers that can be adapted to another prior without a refit."""

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
        *,
        cost: float | None = None,
        sample_weight: Any = None,
        level: float = 0.95,
        audit: Audit | None = None,
    ) -> AdaptedClassifier:
        """Estimate the prior of the batch ``X`` and return a classifier for it.

        Parameters
        ----------
        X : rows of shape (n, d), or ScoreTails
            Unlabeled rows with the prior of the rows to classify, or their counts from
            :meth:`count`. The workers count the rows of a Dask or Spark data frame.
        cost : float, optional
            False-positive cost; the default is that of this classifier.
        sample_weight : array-like of shape (n,), or str, optional
            Weights of the rows in the counts; the name of their column for a Dask or Spark data
            frame.
        level : float, default=0.95
            Confidence level of the interval.
        audit : Audit, optional
            True labels of some of these rows, from :meth:`plan_audit` or ``Audit.random``. They
            give the prior of these rows and, through the counts, that of the training
            population; the returned classifier and all its adaptations use both. An audited
            training prior that this classifier already has is replaced: add audits to
            combine them.

        Returns
        -------
        adapted : AdaptedClassifier
            Frozen: later changes of this classifier do not affect it.
        """
        self._check_fitted()
        check_fraction("level", level)
        if audit is not None:
            return self._adapt_to_answers(X, check_audit(audit), cost, sample_weight, level)
        there = count_there(self, X, sample_weight)
        if there is not None:
            X, sample_weight = there, None
        rows, seen = self._rows_and_counts(X, sample_weight)
        return self._adapted_to(seen, rows, cost=cost, sample_weight=sample_weight, level=level)

    def _rows_and_counts(self, X: Any, sample_weight: Any) -> tuple[Rows | None, ScoreTails]:
        """The checked rows, where there are any, and their counts."""
        if isinstance(X, ScoreTails):
            return None, self._own_counts(X, sample_weight)
        if isinstance(X, ScoredRows):
            return X.rows, X.counts
        rows = self._checked_rows(X)
        return rows, self._counted(rows, sample_weight)

    def _adapted_to(
        self, seen: ScoreTails, rows: Rows | None, *, cost: float | None, sample_weight: Any, level: float
    ) -> AdaptedClassifier:
        """The classifier for rows that have been counted; tests of columns need the rows themselves."""
        matched = self._rows_to_match(rows, sample_weight)
        prior = self.fitted_.prior_of(seen, level=level, rows=matched)
        adapted = AdaptedClassifier(self, prior, cost=cost)
        adapted._batch_size = seen.n
        warn_of_few_rows(seen.n, adapted.prior)
        adapted.shift_test_ = mixture_test(seen, self.fitted_.tails)
        adapted.moved_columns_ = self.fitted_.moved_columns(seen, adapted.test_prior_)
        warn_of_other_shift(adapted.shift_test_, adapted.moved_columns_)
        return adapted

    def _counted(self, rows: Rows, sample_weight: Any) -> ScoreTails:
        weight = None
        if sample_weight is not None:
            weight = check_weights("sample_weight", sample_weight, n_rows(rows))
        return self.fitted_.count(rows, weight)

    def _rows_to_match(self, rows: Rows | None, sample_weight: Any) -> Sample | None:
        """The checked rows themselves, if the method of adapting needs them."""
        if self.fitted_.means is None or rows is None:
            return None
        weight = None
        if sample_weight is not None:
            weight = check_weights("sample_weight", sample_weight, n_rows(rows))
        return Sample(rows, weight)

    def _adapt_to_answers(
        self, X: Rows | ScoreTails, audit: Audit, cost: float | None, sample_weight: Any, level: float
    ) -> AdaptedClassifier:
        if sample_weight is not None:
            raise ParameterError("sample_weight must be None with an audit, whose design gives the weights.")
        rows, seen = self._rows_and_counts(X, None)
        parts = resolve_audit(self, audit, rows, seen)
        own = [part for part in parts if part.counts == seen]
        if not own:
            raise DataError(
                "the audit was planned on other rows than these: adapt to the rows of the plan first, and "
                "then adapt the result to new rows, which uses the audited training prior."
            )
        test = mixture_test(seen, self.fitted_.tails)
        if not any(part.seen_in_training for part in own):  # training rows have lower scores than new rows
            warn_of_other_shift(test, (), stacklevel=4)
        priors = audited_priors(
            parts, seen, self.fitted_, prior_shift=test.p_value >= OTHER_SHIFT, level=level
        )
        warn_of_unfair_labels(priors.fairness)
        adapted = AdaptedClassifier(self, priors.test, cost=cost)
        adapted.fitted_ = self.fitted_.at_train_prior(priors.train)
        adapted._batch_size = seen.n
        adapted.before_audit_ = self.fitted_.train_prior, self._rough_prior(seen, level)
        adapted.shift_test_, adapted.fairness_test_ = test, priors.fairness
        adapted.evaluation_ = adapted.evaluate(Audit(tuple(own)), level=level)
        return adapted

    def adapt_predict(
        self,
        X: Rows,
        *,
        cost: float | None = None,
        sample_weight: Any = None,
        level: float = 0.95,
    ) -> tuple[AdaptedClassifier, np.ndarray[Any, Any]]:
        """Adapt to the batch ``X`` and label its rows, scoring each of them once.

        ``adapted, labels = clf.adapt_predict(X)`` is ``adapted = clf.adapt(X)`` followed by
        ``labels = adapted.predict(X)``, at about half of the computing time.

        Parameters
        ----------
        X, cost, sample_weight, level
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
        adapted = self._adapted_to(seen, X, cost=cost, sample_weight=sample_weight, level=level)
        return adapted, adapted._labels(adapted._margin(adapted.fitted_.log_ratio_of(scores)))

    def at_prior(self, prior: float | PriorEstimate, *, cost: float | None = None) -> AdaptedClassifier:
        """Classifier for rows whose prior is known; there is no refit."""
        self._check_fitted()
        adapted = AdaptedClassifier(self, prior, cost=cost)
        if prior == self.test_prior_:  # the prior of the same batch, such as with another cost
            adapted._batch_size = self._batch_size
        return adapted

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


class AdaptedClassifier(Adaptable):
    """A fitted classifier at another prior, cost, or both.

    Returned by ``adapt`` and ``at_prior``. It is frozen, has the methods of the original
    classifier, and can be adapted again: every adaptation starts from the training prior,
    never from another adaptation.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier
        A fitted classifier.
    prior : float or PriorEstimate
        Prior of the rows to classify.
    cost : float, optional
        False-positive cost; the default is that of ``classifier``.

    Attributes
    ----------
    test_prior_, prior_ : PriorEstimate
        Prior of the rows to classify; ``prior_`` is the shorthand.
    train_prior_ : PriorEstimate
        Prior of the training population.
    cost_ : float
        False-positive cost.
    fitted_ : FittedRatio
        The stored part of training, shared with the original classifier.
    threshold_ : float
        Ratio above which a row is flagged.
    classes_ : ndarray of shape (2,)
        The labels, the positive one last.
    shift_test_ : MixtureTest or None
        Test that the rows are a mixture of the two training classes, that is, that only the
        prior has changed; None without rows, and after loading.
    fairness_test_ : FairnessTest or None
        Test that the labelled positives are a random sample of all positives; None without
        an audit of new rows, and after loading.
    evaluation_ : Evaluation or None
        Performance measured on the audited rows; None without an audit, and after loading.
    moved_columns_ : tuple of ColumnShift
        Columns that changed more than a new prior explains, the largest change first. Empty if no column
        changed, if rows had weights, if the given counts have no counts of columns, and after loading.
    budget_ : Budget or None
        Expected result of ``at_budget``; None otherwise, and after loading.
    before_audit_ : tuple of two PriorEstimate, or None
        Training and test prior as they were without the answers; None without an audit,
        and after loading.
    """

    shift_test_: MixtureTest | None = None
    moved_columns_: tuple[ColumnShift, ...] = ()
    fairness_test_: FairnessTest | None = None
    evaluation_: Evaluation | None = None
    budget_: Budget | None = None
    _cut: tuple[float, float] | None = None  # threshold of a budget: log-ratio for rows, score for counts
    before_audit_: tuple[PriorEstimate, PriorEstimate] | None = None

    schema = Schema(
        "AdaptedClassifier",
        config={"test_prior": Dictionary(), "columns": Integer(1, 2**31)},
        parts=("fitted",),
    )

    def __init__(
        self, classifier: Adaptable, prior: float | PriorEstimate, *, cost: float | None = None
    ) -> None:
        classifier._check_fitted()
        self.prior = as_prior("prior", prior)
        self.cost = check_cost("cost", classifier.cost_ if cost is None else cost)
        self.fitted_ = classifier.fitted_
        self.n_features_in_: int = classifier.n_features_in_
        self.table_ = classifier.table_
        if hasattr(classifier, "feature_names_in_"):
            self.feature_names_in_ = classifier.feature_names_in_

    @property
    def prior_(self) -> PriorEstimate:
        """Prior of the rows to classify."""
        return self.prior

    @property
    def train_prior_(self) -> PriorEstimate:
        """Prior of the training population."""
        return self.fitted_.train_prior

    @property
    def test_prior_(self) -> PriorEstimate:
        """Prior of the rows to classify."""
        return self.prior

    @property
    def cost_(self) -> float:
        """False-positive cost in use."""
        return self.cost

    def expected_performance(self) -> Performance:
        """Expected accuracy, precision, recall and cost at the current prior.

        Computed from held-out positives and unlabeled training rows, which is valid if only the
        prior has changed. After an audit of these rows, each quantity that the answers
        determine more precisely is measured on them.
        """
        return self._known_performance()[0]

    def expected_range(self) -> tuple[Performance, Performance]:
        """Minimum and maximum of each quantity over the intervals of both priors, or of the answers."""
        return self._known_performance()[1:]

    def _known_performance(self) -> tuple[Performance, Performance, Performance]:
        return more_precise(*self._expected(), self.evaluation_)

    @property
    def threshold_(self) -> float:
        """Ratio above which a row is flagged."""
        return super().threshold_ if self._cut is None else float(np.exp(self._cut[0]))

    def _made_by_counts(self) -> bool:
        return self._cut is None and super()._made_by_counts()

    def _counts_threshold(self) -> tuple[FittedRatio, float]:
        return super()._counts_threshold() if self._cut is None else (self._checked(), self._cut[1])

    def _log_threshold(self) -> float:
        return super()._log_threshold() if self._cut is None else self._cut[0]

    def state(self) -> ModelState:  # noqa: D102
        config = {"test_prior": asdict(self.prior), "cost": plain(self.cost)} | self._column_config()
        if self._batch_size is not None:
            config["rows"] = self._batch_size
        if self._cut is not None:
            config["cut"] = [repr(float(end)) for end in self._cut]  # as text, because it may be infinite
        return ModelState(type(self).__name__, config, parts={"fitted": self.fitted_.state()})

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:  # noqa: D102
        adapted = object.__new__(cls)
        adapted.fitted_ = FittedRatio.from_state(state.parts["fitted"], module=module)
        adapted.prior = read_prior(state.config["test_prior"])
        adapted.cost = check_cost("cost", read_plain(state.config["cost"]))
        if "rows" in state.config:
            adapted._batch_size = check_real("rows", state.config["rows"], low=0.0)
        if "cut" in state.config:
            log_ratio, score = (check_real("cut", float(end)) for end in state.config["cut"])
            adapted._cut = log_ratio, score
        adapted._read_columns(state.config)
        return adapted

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The prior and the cost; parameters cannot be changed."""
        return {"prior": self.prior, "cost": self.cost}

    def __repr__(self) -> str:
        return f"AdaptedClassifier(prior={self.prior}, train_prior={self.train_prior_}, cost={self.cost:g})"

    def _repr_html_(self) -> str:
        return adapted_html(self)

    def __sklearn_clone__(self) -> Self:
        return self
