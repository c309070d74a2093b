"""AdaptedClassifier: a fitted classifier at another prior, cost, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from drpu._codec import Number, kept
from drpu.audits.evaluation import Evaluation, FairnessTest
from drpu.audits.recalibration import LogOddsMap
from drpu.classifier.base import RatioClassifier, RatioRecord
from drpu.classifier.decisions import RatioDecisions
from drpu.classifier.notices import adapted_html
from drpu.decisions.gain import Budget
from drpu.decisions.thresholds import KeptCosts, check_cost
from drpu.exceptions import ParameterError
from drpu.periods.columns import ColumnShift
from drpu.periods.mixture_test import MixtureTest
from drpu.periods.read import NOTHING_FOUND, Findings, Shift
from drpu.priors.estimate import PriorEstimate, as_prior
from drpu.state.fitted import FittedRatio
from drpu.state.record import Columns


class AdaptedClassifier(RatioClassifier):
    """A fitted classifier at another prior, cost, or both.

    Returned by ``adapt``, ``at_prior``, ``at_cost`` and ``at_budget``. It is frozen, has the methods of the
    original classifier, and can be adapted again: every adaptation starts from the training prior or
    from answers, never from another adaptation.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier
        A fitted classifier.
    prior : float or PriorEstimate
        Prior of the rows to classify.
    cost : float, optional
        False-positive cost; the default is that of ``classifier``.
    """

    def __init__(
        self,
        classifier: RatioDecisions,
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
        Columns.of(classifier).set_on(self)

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
        """Test that the rows are a mixture of the two training classes: that only the prior has changed.

        None without rows, and after loading.
        """
        return self.findings.shift_test

    @property
    def moved_columns_(self) -> tuple[ColumnShift, ...]:
        """Columns that changed more than a new prior explains, the largest change first.

        Empty if no column changed, if rows had weights, if the given counts have no counts of columns, and
        after loading.
        """
        return self.findings.moved_columns

    @property
    def fairness_test_(self) -> FairnessTest | None:
        """Test that the labelled positives are a random sample of all positives.

        None without an audit of new rows, and after loading.
        """
        return self.findings.fairness_test

    @property
    def evaluation_(self) -> Evaluation | None:
        """Performance measured on the audited rows; None without an audit, and after loading."""
        return self.findings.evaluation

    @property
    def before_audit_(self) -> tuple[PriorEstimate, PriorEstimate] | None:
        """Training and test prior as they were without the answers; None without them, and after loading."""
        return self.findings.before_audit

    @property
    def budget_(self) -> Budget | None:
        """Expected result of ``at_budget``; None otherwise, and after loading."""
        return None if self.findings.budget is None else self.findings.budget.outlook

    @property
    def shift_(self) -> Shift:
        """What moved, and so what was done: "prior", "other", "answers" or "none".

        The classifier was adapted to another prior; more than the prior moved, so prior and labels moved only
        as far as there is support for it; answers recalibrated it; or nothing was done, on request. It is
        "prior", too, if there were too few rows to test what moved (``shift_test_.degrees`` is 0): prior and
        labels then move as far as the rows determine the prior.
        """
        return self.findings.shift

    @property
    def map_(self) -> LogOddsMap | None:
        """Map a + b z of the trained log-odds that answers gave, with its uncertainty; None without them."""
        return self.findings.map

    def _intake(self) -> Any:
        return self.fitted_.model

    def record(self) -> AdaptedRecord:
        """What a file keeps of the classifier."""
        return AdaptedRecord(Columns.of(self), self.fitted_, self.prior, self.cost, self.findings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The prior and the cost."""
        return {"prior": self.prior, "cost": self.cost}

    def set_params(self, **params: Any) -> Self:
        """Raise an error: an adapted classifier is frozen."""
        raise ParameterError(
            "parameters must not be changed here: at_prior(prior) and at_cost(cost) make another."
        )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Raise an error: an adapted classifier is frozen. scikit-learn requires the method of estimators."""
        raise ParameterError("fit must not be called here: fit a DRPUClassifier and adapt it.")

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return (
            f"AdaptedClassifier(prior={self.prior}, train_prior={self.train_prior_}, cost={self.cost:g}, "
            f"shift={self.shift_!r}, scenario={self.scenario_!r})"
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
    cost: Annotated[float, Number(0, 1)] | KeptCosts
    findings: Findings

    def __post_init__(self) -> None:
        super().__post_init__()
        check_cost("cost", self.cost)

    def classifier(self, module: Any = None) -> AdaptedClassifier:  # noqa: D102
        adapted = object.__new__(AdaptedClassifier)
        adapted.fitted_, adapted.findings = self.fitted.with_module(module), self.findings
        adapted.prior = self.prior
        adapted.cost = self.cost
        self.columns.set_on(adapted)
        return adapted
