"""AdaptedClassifier: a fitted classifier at another prior, cost, or both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np

from drpu._codec import Items, Number, kept
from drpu.classifier.base import RatioClassifier, RatioRecord
from drpu.classifier.budget import BudgetThreshold
from drpu.classifier.findings import NOTHING_FOUND, Findings, Shift
from drpu.classifier.fitted import FittedRatio
from drpu.classifier.notices import adapted_html
from drpu.classifier.record import Amounts, Columns, plain_cost
from drpu.core.audit.recalibration import LogOddsMap
from drpu.core.audit.results import Evaluation, FairnessTest, more_precise
from drpu.core.budget import Budget
from drpu.core.decision import check_cost
from drpu.core.diagnostics import MixtureTest, Performance
from drpu.core.prior.estimate import PriorEstimate, as_prior
from drpu.core.shift.columns import ColumnShift

_Unbounded = Annotated[float, Number(-math.inf, math.inf)]


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
    shift_ : {"prior", "other", "answers", "none"}
        What moved, and so what was done: the classifier was adapted to another prior; more than the prior
        moved, so prior and labels moved only as far as there is support for it; answers recalibrated it; or
        nothing was done, on request.
    map_ : LogOddsMap or None
        Map a + b z of the trained log-odds that answers gave, with its uncertainty; None without answers.
    moved_columns_ : tuple of ColumnShift
        Columns that changed more than a new prior explains, the largest change first. Empty if no column
        changed, if rows had weights, if the given counts have no counts of columns, and after loading.
    budget_ : Budget or None
        Expected result of ``at_budget``; None otherwise, and after loading.
    before_audit_ : tuple of two PriorEstimate, or None
        Training and test prior as they were without the answers; None without an audit,
        and after loading.
    """

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
    def shift_(self) -> Shift:
        """What moved, and so what was done: "prior", "other", "answers", or "none" on request."""
        return self.findings.shift

    @property
    def map_(self) -> LogOddsMap | None:
        """Map a + b z of the trained log-odds that answers gave, with its uncertainty."""
        return self.findings.map

    def _map(self) -> LogOddsMap | None:
        return self.findings.map

    def _labels_at(self) -> float | None:
        return self.findings.labels_at

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

    def _mention_prior(self) -> None:
        if self.findings.budget is None:
            super()._mention_prior()

    def record(self) -> AdaptedRecord:
        """What a file keeps of the classifier."""
        budget = self.findings.budget
        return AdaptedRecord(
            Columns.of(self),
            self.fitted_.record(),
            self.prior,
            plain_cost(self.cost),
            self.findings.rows,
            None if budget is None else budget.rounded(self.fitted_.tails.levels),
            self.findings.shift,
            self.findings.labels_at,
            self.findings.sources,
            self.findings.map,
        )

    @classmethod
    def _of(
        cls, fitted: FittedRatio, columns: Columns, prior: PriorEstimate, cost: float, findings: Findings
    ) -> Self:
        """The classifier with these parts, of which a file keeps records."""
        adapted = object.__new__(cls)
        adapted.fitted_, adapted.prior, adapted.cost, adapted.findings = fitted, prior, cost, findings
        columns.set_on(adapted)
        return adapted

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The prior and the cost; parameters cannot be changed."""
        return {"prior": self.prior, "cost": self.cost}

    def __repr__(self) -> str:
        return (
            f"AdaptedClassifier(prior={self.prior}, train_prior={self.train_prior_}, cost={self.cost:g}, "
            f"shift={self.shift_!r})"
        )

    def _repr_html_(self) -> str:
        return adapted_html(self)

    def __sklearn_clone__(self) -> Self:
        return self


@kept("AdaptedClassifier")
@dataclass(frozen=True)
class AdaptedRecord(RatioRecord):
    """What a file keeps of an :class:`AdaptedClassifier`."""

    prior: PriorEstimate
    cost: Annotated[float, Number(0, 1)] | Amounts
    rows: Annotated[float, Number(above=0)] | None
    budget: tuple[_Unbounded, _Unbounded] | None  # log-ratio and score of the threshold of a budget
    shift: Literal["prior", "other", "none", "answers"]
    labels_at: Annotated[float, Number(0, 1)] | None
    sources: Annotated[tuple[str, ...], Items(0, 10)]
    map: LogOddsMap | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.cost, float):
            check_cost("cost", self.cost)

    def classifier(self, module: Any = None) -> AdaptedClassifier:
        """The classifier; ``module`` makes the torch module of a custom network."""
        cost = self.cost.costs() if isinstance(self.cost, Amounts) else self.cost
        budget = None if self.budget is None else BudgetThreshold(*self.budget)
        findings = Findings(
            rows=self.rows, budget=budget, shift=self.shift, labels_at=self.labels_at, sources=self.sources,
            map=self.map,
        )  # fmt: skip
        return AdaptedClassifier._of(self.fitted.fitted(module), self.columns, self.prior, cost, findings)
