"""What adapting found out about new rows, beside their prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from drpu.classifier.budget import BudgetThreshold
from drpu.core.audit.recalibration import LogOddsMap
from drpu.core.audit.results import Evaluation, FairnessTest
from drpu.core.diagnostics import MixtureTest
from drpu.core.prior.estimate import PriorEstimate
from drpu.core.shift.columns import ColumnShift

__all__ = ["NOTHING_FOUND", "Findings", "Shift"]

Shift: TypeAlias = Literal["prior", "other", "none", "answers"]


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
    shift : {"prior", "other", "none", "answers"}
        What moved, and so what was done: everything was adapted to another prior; more moved, so prior and
        labels moved only as far as there is support for it; nothing was done on request; answers were used.
    labels_at : float or None
        Prior at which labels are made, if it is not the prior of the rows.
    sources : tuple of str
        What the prior is based on: the rows, the backtest, labels that arrived.
    map : LogOddsMap or None
        Map of the trained log-odds that answers gave.
    """

    rows: float | None = None
    shift_test: MixtureTest | None = None
    moved_columns: tuple[ColumnShift, ...] = ()
    fairness_test: FairnessTest | None = None
    evaluation: Evaluation | None = None
    before_audit: tuple[PriorEstimate, PriorEstimate] | None = None
    budget: BudgetThreshold | None = None
    shift: Shift = "prior"
    labels_at: float | None = None
    sources: tuple[str, ...] = ()
    map: LogOddsMap | None = None


NOTHING_FOUND = Findings()
