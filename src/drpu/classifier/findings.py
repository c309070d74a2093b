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

Shift: TypeAlias = Literal["prior", "other", "none", "answers"]


@dataclass(frozen=True, slots=True)
class Findings:
    """Facts about the rows that a classifier was adapted to.

    ``fairness_test``: Test that the labelled positives are a random sample of all positives.
    ``before_audit``: Training and test prior without the answers.
    ``shift``: What moved, and so what was done: everything was adapted to another prior; more moved, so
    prior and labels moved only as far as there is support for it; nothing was done on request; answers
    were used.
    """

    rows: float | None = None  # number of rows that the prior was estimated on
    shift_test: MixtureTest | None = None  # test that only the prior has changed
    moved_columns: tuple[ColumnShift, ...] = ()  # columns that changed more than a new prior explains
    fairness_test: FairnessTest | None = None
    evaluation: Evaluation | None = None  # performance measured on audited rows
    before_audit: tuple[PriorEstimate, PriorEstimate] | None = None
    budget: BudgetThreshold | None = None  # the threshold of a budget, which replaces that of the cost
    shift: Shift = "prior"
    labels_at: float | None = None  # prior at which labels are made, if it is not the prior of the rows
    sources: tuple[str, ...] = ()  # what the prior is based on: the rows, the backtest, labels that arrived
    map: LogOddsMap | None = None  # map of the trained log-odds that answers gave


NOTHING_FOUND = Findings()
