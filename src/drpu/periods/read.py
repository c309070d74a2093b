"""Adaptation to new rows: what moved, how far prior and labels follow, and a test of it on past periods."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import narwhals as nw
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone

from drpu._arrays import as_numpy
from drpu._checks import check_choice
from drpu._codec import POSITIVE, Items, NotKept, Number, kept
from drpu._progress import progress
from drpu._samples import indexable
from drpu._typing import BoolArray, FloatArray
from drpu.audits.evaluation import Evaluation, FairnessTest
from drpu.audits.plan import labelled_flags, labels_of
from drpu.audits.recalibration import LogOddsMap
from drpu.classifier.notices import (
    warn_of_contradicted,
    warn_of_few_rows,
    warn_of_late_labels,
    warn_of_other_shift,
    warn_of_untested_shift,
)
from drpu.decisions.budget import BudgetThreshold
from drpu.exceptions import BacktestWarning, DataError, DRPUError, ParameterError, silent
from drpu.periods.columns import ColumnShift
from drpu.periods.mixture_test import MixtureTest, mixture_test
from drpu.periods.moves import (
    FEWEST_LABELS,
    POOLED,
    Arrived,
    Backtest,
    BacktestPlan,
    Evidence,
    LabelCount,
    PastPeriod,
    PeriodDecision,
    backtest_of,
    decide,
    labelled_reading,
    late_periods,
    plan_backtest,
    what_moved,
)
from drpu.priors.estimate import PriorEstimate, as_prior, warn_if_not_identified
from drpu.priors.tails import ScoreTails, effective_size
from drpu.state.fitted import FittedRatio
from drpu.tables.frames import is_frame, take_frame
from drpu.tables.values import NULL_WORDS, by_month, flat_values, is_missing_cell

if TYPE_CHECKING:
    from drpu.classifier.adapted import AdaptedClassifier
    from drpu.classifier.base import RatioClassifier
    from drpu.classifier.drpu import DRPUClassifier

SHIFTS = ("auto", "prior", "none")
FEWEST_PERIODS = 2  # fewer past periods that can be used say nothing
Shift: TypeAlias = Literal["prior", "other", "none", "answers"]


@kept("findings")
@dataclass(frozen=True, slots=True)
class Findings:
    """Facts about the rows that a classifier was adapted to; tests and measurements are not kept in files."""

    # number of rows that the prior was estimated on
    rows: Annotated[float, Number(low=POSITIVE)] | None = None
    shift_test: Annotated[MixtureTest | None, NotKept] = None
    moved_columns: Annotated[tuple[ColumnShift, ...], NotKept] = ()
    fairness_test: Annotated[FairnessTest | None, NotKept] = None
    evaluation: Annotated[Evaluation | None, NotKept] = None
    before_audit: Annotated[tuple[PriorEstimate, PriorEstimate] | None, NotKept] = None
    budget: BudgetThreshold | None = (
        None  # the threshold of a budget, which replaces that of the cost
    )
    shift: Shift = "prior"
    # prior at which labels are made, if it is not the prior of the rows
    labels_at: Annotated[float, Number(0, 1)] | None = None
    # what the prior is based on: the rows, the backtest, labels that arrived
    sources: Annotated[tuple[str, ...], Items(0, 10)] = ()
    map: LogOddsMap | None = None  # map of the trained log-odds that answers gave


NOTHING_FOUND = Findings()


def adapt_to_counts(
    classifier: RatioClassifier,
    seen: ScoreTails,
    adapted: PriorEstimate,
    *,
    shift: str = "auto",
    arrived: Arrived | None = None,
) -> AdaptedClassifier:
    """The classifier for rows that have been counted."""
    check_choice("shift", shift, SHIFTS)
    test, moved, decision = read_counts(classifier.fitted_, seen, adapted, arrived)
    warn_of_few_rows(seen.n, decision.prior if shift == "auto" else adapted)
    found = Findings(rows=seen.n, shift_test=test, moved_columns=moved)
    if shift == "none":
        before = classifier.findings
        kept = replace(found, shift="none", labels_at=before.labels_at, map=before.map)
        return classifier._adapted_at(classifier.test_prior_, findings=kept)
    if shift == "prior":
        warn_of_other_shift(test, moved, done="prior")
        warn_if_not_identified(adapted)
        moved_prior = PeriodDecision("prior", adapted, adapted.value, ("rows",))
        return at_decision(classifier, found, moved_prior)
    if decision.late:
        warn_of_late_labels()
    if decision.moved == "other":
        warn_of_other_shift(test, moved, done="supported" if len(decision.sources) > 1 else "kept")
    else:
        if test.degrees == 0:
            warn_of_untested_shift()
        warn_if_not_identified(decision.prior)
    if classifier.fitted_.anchor is not None:
        warn_of_contradicted(classifier.fitted_.anchor.prior, decision.prior)
    return at_decision(classifier, found, decision)


def tested(
    fitted: FittedRatio, seen: ScoreTails, adapted: PriorEstimate
) -> tuple[MixtureTest, tuple[ColumnShift, ...], Evidence]:
    """Both tests of what moved, and what the rows show; ``adapted`` is the prior if only the prior moved."""
    test = mixture_test(seen, fitted.reference, most_prior=fitted.reference_prior.high)
    moved = fitted.moved_columns(seen, adapted)
    evidence = evidence_of(fitted, seen, adapted, what_moved(test.p_value, moved))
    return test, moved, replace(evidence, tested=test.degrees > 0)


def read_counts(
    fitted: FittedRatio, seen: ScoreTails, adapted: PriorEstimate, arrived: Arrived | None = None
) -> tuple[MixtureTest, tuple[ColumnShift, ...], PeriodDecision]:
    """Both tests, and the decision that follows from them, the past and labels that arrived."""
    test, moved, evidence = tested(fitted, seen, adapted)
    return test, moved, decide(evidence, backtest=fitted.backtest, arrived=arrived)


def at_decision(
    classifier: RatioClassifier, found: Findings, decision: PeriodDecision
) -> AdaptedClassifier:
    """The classifier that a decision gives; labels move from where ``classifier`` makes them."""
    labels_at = None if decision.labels_at == decision.prior.value else decision.labels_at
    findings = replace(
        found,
        shift=decision.moved,
        labels_at=labels_at,
        sources=decision.sources,
        map=classifier.fitted_.map_at(decision.labels_at),
    )
    return classifier._adapted_at(decision.prior, findings=findings)


def evidence_of(
    fitted: FittedRatio, seen: ScoreTails, adapted: PriorEstimate, moved: Any
) -> Evidence:
    """What counted rows show without labels."""
    train = fitted.train_prior if fitted.anchor is None else fitted.anchor.prior
    return Evidence(
        train,
        adapted,
        moved,
        fitted.cell_probability(),
        fitted.mean_probability_before(),
        seen.counts,
        fitted.labelled_fraction,
        seen.n,
        fitted.explained_share(),
    )


def sampling_error(
    fitted: FittedRatio, seen: ScoreTails, adapted: AdaptedClassifier, arrived: Arrived | None
) -> float:
    """Standard error of the prior of counted rows by their number alone, as if training were exact."""
    prior = adapted.prior_.value
    evidence = evidence_of(
        fitted, seen, adapted.prior_, "other" if adapted.shift_ == "other" else "prior"
    )
    slope = POOLED.slope if fitted.backtest is None else fitted.backtest.slope
    error = evidence.noise(prior, slope=slope)
    return error if arrived is None else max(error, prior * math.sqrt(arrived.now.noise))


def arrived_labels(
    classifier: RatioClassifier, y: Any, n: int, weight: FloatArray | None = None
) -> Arrived | None:
    """Labels of ``n`` new rows that have arrived, and those of training; None without labels."""
    if y is None:
        return None
    check_single_sample(classifier.fitted_, "y")
    positive = labelled_flags(labels_of(y, n), classifier.classes_)
    return beside_training(classifier.fitted_, count_labels(positive, weight))


def beside_training(fitted: FittedRatio, now: LabelCount) -> Arrived:
    """Labels of new rows beside those of the training sample.

    If labels arrive with a delay, those of new rows are not complete yet.
    """
    before = fitted.label_count or LabelCount(0.0, 0.0)
    complete = fitted.label_delay == 0
    return Arrived(now, before, complete, None if fitted.anchor is None else fitted.train_prior)


def check_single_sample(fitted: FittedRatio, argument: str) -> None:
    """Raise if labels were given as ``argument`` in a case-control study."""
    if fitted.label_count is None:
        raise ParameterError(
            f"{argument} must be None with scenario='case-control', where the share of labelled rows says "
            "nothing about the prior: fit with scenario='single-sample' if labelled rows are part of the "
            "sample."
        )


def without_periods(X: Any, periods: Any) -> tuple[Any, Any]:
    """The rows without the column of periods, and the value of each row."""
    if periods is None or not isinstance(periods, str):
        return X, periods
    if not is_frame(X):
        raise ParameterError(
            f"periods must have one value per row if X is no table, got {periods!r}."
        )
    table = nw.from_native(X, eager_only=True)
    if periods not in table.columns:
        raise DataError(f"periods must be a column of X, or one value per row, got {periods!r}.")
    return table.drop(periods).to_native(), table[periods].to_native()


def plan_periods(periods: Any, labelled: BoolArray, label_delay: int) -> BacktestPlan | None:
    """The periods in the order of time, and those that a backtest reads; None without periods."""
    if periods is None:
        return None
    values = by_month(flat_values("periods", periods)).tolist()
    if len(values) != len(labelled):
        raise DataError(f"periods must have one value per row, {len(labelled)}, got {len(values)}.")
    values = [None if is_missing_cell(value) or value in NULL_WORDS else value for value in values]
    return plan_backtest(values, labelled, label_delay=label_delay)


def count_labels(labelled: BoolArray, weight: FloatArray | None = None) -> LabelCount:
    """Labelled rows among all rows; with weights, their share by weight of the effective number of rows."""
    if weight is None:
        return LabelCount(float(labelled.sum()), float(len(labelled)))
    total = float(weight.sum())
    rows = effective_size(total, float(weight @ weight))
    return LabelCount(rows * (float(weight[labelled].sum()) / total if rows else 0.0), rows)


def run_backtest(
    classifier: DRPUClassifier,
    X: Any,
    labelled: BoolArray,
    plan: BacktestPlan,
    weight: FloatArray | None = None,
    **columns: Any,
) -> Backtest | None:
    """The backtest over past periods, each read by a fit to the rows before it.

    ``weight`` are the weights of the rows, and ``columns`` arguments of these fits with one value per row,
    such as weights in which labelled rows represent all positives. None, with a warning, if there are too
    few periods or labels.
    """
    if plan.reason:
        _warn_of_backtest(plan.reason)
        return None
    settings = clone(classifier).set_params(
        pos_label=None, negative_label=None, label_delay=0, n_jobs=None, verbose=0
    )
    settings.set_params(scenario="single-sample")  # as decided for all rows
    columns = {
        name: np.asarray(as_numpy(values)) for name, values in columns.items() if values is not None
    }
    frame = is_frame(X) or hasattr(X, "iloc")  # also those of pandas with sparse columns
    take: Any = partial(take_frame, X) if frame else indexable(X).__getitem__
    work = []
    for t in plan.read:
        before = np.flatnonzero((plan.number >= 0) & (plan.number < t))
        now = np.flatnonzero(plan.number == t)
        own = {name: values[before] for name, values in columns.items()}
        parts = [
            (take(at), labelled[at], None if weight is None else weight[at]) for at in (before, now)
        ]
        one = clone(settings)
        if not isinstance(one.prior, str) and not callable(one.prior):
            # a prior that was given has moved like the labelled share, at a constant labelling rate
            counted = count_labels(*parts[0][1:]), count_labels(labelled, weight)
            growth = counted[0].mean / counted[1].mean
            one.prior = min(as_prior("prior", one.prior).value * growth, 1.0)
        work.append((one, *parts, str(plan.names[t]), own))
    jobs = min(effective_n_jobs(classifier.n_jobs), len(work))
    done = Parallel(n_jobs=jobs, return_as="generator")(
        delayed(_read_period)(*part) for part in work
    )
    past = [period for period in progress(done, total=len(work)) if period is not None]
    if sum(period.used for period in past) < FEWEST_PERIODS:
        _warn_of_backtest("fewer than two past periods have enough labels to be read")
        return None
    late = late_periods(past)
    if late:
        reason = (
            f"the last {late} periods have far fewer labels than their rows suggest, as if labels arrive "
            "late, and are left out"
        )
        _warn_of_backtest(
            reason,
            advice=f"Set label_delay={late} of the classifier.",
            command=f"Give --label-delay {late}.",
        )
        past = [*past[:-late], *(replace(period, used=False) for period in past[-late:])]
    return backtest_of(past)


_Part: TypeAlias = tuple[
    Any, BoolArray, FloatArray | None
]  # rows, whether they are labelled, and weights


def _read_period(
    settings: DRPUClassifier, before: _Part, now: _Part, name: str, columns: dict[str, Any]
) -> PastPeriod | None:
    """One past period, read by a fit to the rows before it; None if these cannot be fitted to."""
    labels = count_labels(*now[1:]), count_labels(*before[1:])
    with silent():  # nobody uses this fit for predictions
        try:
            fitted = settings.fit(before[0], before[1].astype(int), **columns).fitted_
            seen = settings.count(now[0], sample_weight=now[2])
        except DRPUError:  # such as rows that are all labelled, or have no weight
            return None
        return past_period(name, fitted, seen, labels)


def past_period(
    name: str, fitted: FittedRatio, seen: ScoreTails, labels: tuple[LabelCount, LabelCount]
) -> PastPeriod:
    """A past period, from a fit to rows before it, counts of its rows, and labels of both, its own first."""
    prior = fitted.prior_of(seen)
    shown, (now, before) = tested(fitted, seen, prior)[2], labels
    reading = labelled_reading(now, before, fitted.train_prior.value)
    return PastPeriod(
        name,
        round(now.rows),
        round(now.labels),
        reading.move,
        reading.variance,
        shown.guarded,
        shown.matched,
        min(now.labels, before.labels) >= FEWEST_LABELS,
    )


def _warn_of_backtest(reason: str, *, advice: str = "", command: str = "") -> None:
    finding = (
        f"there is no complete backtest: {reason}. Everything else is fitted as without periods."
    )
    BacktestWarning.issue(finding, advice=advice, command=command)
