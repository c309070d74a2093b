"""AdaptedClassifier: a fitted classifier at another prior, cost, or both."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Self

import numpy as np

from drpu._checks import check_real
from drpu._schema import Dictionary, Integer, Schema
from drpu._state import ModelState
from drpu.classifier.base import RatioClassifier
from drpu.classifier.budget import BudgetThreshold
from drpu.classifier.findings import NOTHING_FOUND, Findings
from drpu.classifier.fitted import FittedRatio
from drpu.classifier.kept import plain, read_plain, read_prior
from drpu.classifier.notices import adapted_html
from drpu.core.audit.results import Evaluation, FairnessTest, more_precise
from drpu.core.budget import Budget
from drpu.core.decision import check_cost
from drpu.core.diagnostics import MixtureTest, Performance
from drpu.core.prior.estimate import PriorEstimate, as_prior
from drpu.core.shift.columns import ColumnShift

__all__ = ["AdaptedClassifier"]


class AdaptedClassifier(RatioClassifier):
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

    schema = Schema(
        "AdaptedClassifier",
        config={"test_prior": Dictionary(), "columns": Integer(1, 2**31)},
        parts=("fitted",),
    )

    def __init__(
        self,
        classifier: RatioClassifier,
        prior: float | PriorEstimate,
        *,
        cost: float | None = None,
        findings: Findings = NOTHING_FOUND,
        fitted: FittedRatio | None = None,
    ) -> None:
        self.prior = as_prior("prior", prior)
        self.cost = check_cost("cost", classifier.cost_ if cost is None else cost)
        self.findings = findings
        self.fitted_ = classifier.fitted_ if fitted is None else fitted
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

    @property
    def shift_test_(self) -> MixtureTest | None:
        """Test that only the prior has changed."""
        return self.findings.shift_test

    @property
    def moved_columns_(self) -> tuple[ColumnShift, ...]:
        """Columns that changed more than a new prior explains."""
        return self.findings.moved_columns

    @property
    def fairness_test_(self) -> FairnessTest | None:
        """Test that the labelled positives are a random sample of all positives."""
        return self.findings.fairness_test

    @property
    def evaluation_(self) -> Evaluation | None:
        """Performance measured on the audited rows."""
        return self.findings.evaluation

    @property
    def before_audit_(self) -> tuple[PriorEstimate, PriorEstimate] | None:
        """Training and test prior as they were without the answers."""
        return self.findings.before_audit

    @property
    def budget_(self) -> Budget | None:
        """Expected result of ``at_budget``."""
        return None if self.findings.budget is None else self.findings.budget.outlook

    @property
    def _batch_size(self) -> float | None:
        return self.findings.rows

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
        budget = self.findings.budget
        return super().threshold_ if budget is None else float(np.exp(budget.log_ratio))

    def _made_by_counts(self) -> bool:
        return self.findings.budget is None and super()._made_by_counts()

    def _counts_threshold(self) -> tuple[FittedRatio, float]:
        budget = self.findings.budget
        return super()._counts_threshold() if budget is None else (self.fitted_, budget.score)

    def _log_threshold(self) -> float:
        budget = self.findings.budget
        return super()._log_threshold() if budget is None else budget.log_ratio

    def state(self) -> ModelState:  # noqa: D102
        config = {"test_prior": asdict(self.prior), "cost": plain(self.cost)} | self._column_config()
        if self.findings.rows is not None:
            config["rows"] = self.findings.rows
        if self.findings.budget is not None:  # as text, because it may be infinite
            config["cut"] = [
                repr(float(end)) for end in (self.findings.budget.log_ratio, self.findings.budget.score)
            ]
        return ModelState(type(self).__name__, config, parts={"fitted": self.fitted_.state()})

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:  # noqa: D102
        adapted = object.__new__(cls)
        adapted.fitted_ = FittedRatio.from_state(state.parts["fitted"], module=module)
        adapted.prior = read_prior(state.config["test_prior"])
        adapted.cost = check_cost("cost", read_plain(state.config["cost"]))
        rows, budget = None, None
        if "rows" in state.config:
            rows = check_real("rows", state.config["rows"], low=0.0)
        if "cut" in state.config:
            log_ratio, score = (check_real("cut", float(end)) for end in state.config["cut"])
            budget = BudgetThreshold(log_ratio, score)
        adapted.findings = Findings(rows=rows, budget=budget)
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
