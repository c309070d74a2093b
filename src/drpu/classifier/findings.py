"""What adapting found out about new rows, beside their prior."""

from __future__ import annotations

from dataclasses import dataclass

from drpu.classifier.budget import BudgetThreshold
from drpu.core.audit.results import Evaluation, FairnessTest
from drpu.core.diagnostics import MixtureTest
from drpu.core.prior.estimate import PriorEstimate
from drpu.core.shift.columns import ColumnShift

__all__ = ["NOTHING_FOUND", "Findings"]


@dataclass(frozen=True, slots=True)
class Findings:
    """Facts about the rows that a classifier was adapted to.

    Attributes
    ----------
    rows : float or None
        Number of rows that the prior was estimated on.
    shift_test : MixtureTest or None
        Test that only the prior has changed.
    moved_columns : tuple of ColumnShift
        Columns that changed more than a new prior explains.
    fairness_test : FairnessTest or None
        Test that the labelled positives are a random sample of all positives.
    evaluation : Evaluation or None
        Performance measured on audited rows.
    before_audit : tuple of two PriorEstimate, or None
        Training and test prior without the answers.
    budget : BudgetThreshold or None
        The threshold of a budget, which replaces that of the cost.
    """

    rows: float | None = None
    shift_test: MixtureTest | None = None
    moved_columns: tuple[ColumnShift, ...] = ()
    fairness_test: FairnessTest | None = None
    evaluation: Evaluation | None = None
    before_audit: tuple[PriorEstimate, PriorEstimate] | None = None
    budget: BudgetThreshold | None = None


NOTHING_FOUND = Findings()
