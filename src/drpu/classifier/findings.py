"""What adapting found out about new rows, beside their prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from drpu._codec import Items, NotKept, Number, kept
from drpu.classifier.budget import BudgetThreshold
from drpu.core.audit.recalibration import LogOddsMap
from drpu.core.audit.results import Evaluation, FairnessTest
from drpu.core.diagnostics import MixtureTest
from drpu.core.prior.estimate import PriorEstimate
from drpu.core.shift.columns import ColumnShift

Shift: TypeAlias = Literal["prior", "other", "none", "answers"]


@kept("findings")
@dataclass(frozen=True, slots=True)
class Findings:
    """Facts about the rows that a classifier was adapted to; tests and measurements are not kept in files."""

    rows: Annotated[float, Number(above=0)] | None = None  # number of rows that the prior was estimated on
    shift_test: Annotated[MixtureTest | None, NotKept] = None
    moved_columns: Annotated[tuple[ColumnShift, ...], NotKept] = ()
    fairness_test: Annotated[FairnessTest | None, NotKept] = None
    evaluation: Annotated[Evaluation | None, NotKept] = None
    before_audit: Annotated[tuple[PriorEstimate, PriorEstimate] | None, NotKept] = None
    budget: BudgetThreshold | None = None  # the threshold of a budget, which replaces that of the cost
    shift: Shift = "prior"
    # prior at which labels are made, if it is not the prior of the rows
    labels_at: Annotated[float, Number(0, 1)] | None = None
    # what the prior is based on: the rows, the backtest, labels that arrived
    sources: Annotated[tuple[str, ...], Items(0, 10)] = ()
    map: LogOddsMap | None = None  # map of the trained log-odds that answers gave


NOTHING_FOUND = Findings()
