"""What new rows show: what moved since training, their prior, and how far labels follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np

from drpu._checks import check_numbers
from drpu._codec import POSITIVE, Items, NotKept, Number, kept
from drpu.beliefs.methods import prior_from_tails
from drpu.decisions.point import Hypothesis
from drpu.exceptions import (
    ContradictionWarning,
    FewPositivesWarning,
    FewRowsWarning,
    LateLabelsWarning,
    ParameterError,
    ShiftWarning,
)
from drpu.periods.moves import (
    POOLED,
    Arrived,
    Moved,
    MoveEvidence,
    decide,
    mean_probability,
    moved_prior,
    odds_move,
    what_moved,
)
from drpu.periods.shift_tests import (
    OTHER_SHIFT,
    ColumnShift,
    MixtureTest,
    Tested,
    mixture_test,
    moved_columns,
    tested_columns,
)
from drpu.priors.constants import FEW_ANSWERS
from drpu.priors.estimate import PriorEstimate, warn_if_not_identified
from drpu.priors.figures import Figure
from drpu.priors.matching import carried_prior, growth_since
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import FittedRatio
from drpu.state.labels import labelled_flags, labels_of
from drpu.state.population import LabelCount, count_labels
from drpu.state.reference import Reference

SHIFTS = ("auto", "prior", "none")
MOST_NAMED = 6  # columns that a warning names
FEW_ROWS = 30  # with fewer new rows, adapt warns that the prior is rough
Shift: TypeAlias = Literal["prior", "other", "none", "answers"]


@kept("reading")
@dataclass(frozen=True, slots=True)
class Reading:
    """What is known about the rows that a classifier was adapted to.

    ``rows``: Number of rows that the prior was estimated on; None if there were none.
    ``hypotheses``: Priors at which labels are made, by what may have moved; the first is that only
    the prior moved, unless this was rejected. Empty if labels are made at the prior, as if it were
    known.
    ``sources``: What the prior is based on: the rows, the backtest, labels that arrived.
    ``tested``: What could be tested; None if no rows were read.
    """

    prior: PriorEstimate
    hypotheses: Annotated[tuple[Hypothesis, ...], Items(0, 10)] = ()
    shift: Shift = "prior"  # what moved
    sources: Annotated[tuple[str, ...], Items(0, 10)] = ()
    rows: Annotated[float, Number(low=POSITIVE)] | None = None
    shift_test: Annotated[MixtureTest | None, NotKept] = None
    moved_columns: Annotated[tuple[ColumnShift, ...], NotKept] = ()
    tested: Annotated[Tested | None, NotKept] = None
    late: Annotated[bool, NotKept] = False  # whether labels may arrive late

    @classmethod
    def as_trained(cls, prior: PriorEstimate) -> Reading:
        """The reading of rows that were not seen, which are of the training population."""
        return cls(prior, (Hypothesis(1.0, prior.value),))

    @property
    def untested(self) -> bool:
        """Whether there were too few rows to test what moved, so that nothing was rejected."""
        return self.tested is not None and self.shift == "prior" and not self.tested.anything

    def doubts(self) -> list[str]:
        """What makes the prior and expected figures doubtful, as sentences."""
        doubts = []
        if self.untested:
            doubts.append("Untested: there are too few rows to test if only the prior has changed.")
        if self.shift_test is not None and self.shift_test.p_value < OTHER_SHIFT:
            doubts.append(
                "More than the prior has changed: expected figures hold for prior shift only."
            )
        if self.moved_columns:
            names = ", ".join(repr(column.name) for column in self.moved_columns[:8])
            doubts.append(f"Columns moved more than a new prior explains: {names}.")
        return doubts

    def keeping(self, before: Reading) -> Reading:
        """The reading with the prior of ``before``, which ``shift="none"`` asks for."""
        return replace(self, prior=before.prior, hypotheses=before.hypotheses)

    def with_prior(self, prior: PriorEstimate) -> Reading:
        """The reading with another prior of the rows, which labels follow if only it moved."""
        if self.shift != "prior" or prior.value == self.prior.value or not self.hypotheses:
            return replace(self, prior=prior)
        only_prior, *others = self.hypotheses
        move = odds_move(self.prior.value, prior.value)
        followed = only_prior.moved_to(moved_prior(only_prior.prior, move))
        return replace(self, prior=prior, hypotheses=(followed, *others))


def read_new_rows(
    fitted: FittedRatio,
    reference: Reference,
    counts: ScoreTails,
    *,
    shift: str = "auto",
    level: float = 0.95,
    arrived: Arrived | None = None,
    parts: Sequence[Reading] = (),
) -> Reading:
    """The reading of counted rows; ``shift`` says what may have changed, as in ``adapt``.

    With ``shift="none"`` it has the prior of the rows if only the prior moved, which is not used.
    ``parts`` are readings of parts of the rows, such as their periods: the test of all rows must
    not accept what the tests of the parts reject.
    """
    rows = compared(fitted, reference, counts, level=level)
    if rows.evidence.moved == "prior":
        rows = _with_findings(rows, parts)
    common: dict[str, Any] = {
        "rows": counts.n,
        "shift_test": rows.test,
        "moved_columns": rows.moved_columns,
        "tested": rows.tested,
    }
    if shift == "auto":
        decision = decide(rows.evidence, backtest=fitted.history, arrived=arrived)
        return Reading(
            prior=decision.prior,
            hypotheses=decision.hypotheses,
            shift=decision.moved,
            sources=decision.sources,
            late=decision.late,
            **common,
        )
    prior = rows.evidence.adapted
    hypotheses = (rows.evidence.only_prior_moved(1.0),)
    if shift == "prior":
        return Reading(prior, hypotheses, "prior", ("rows",), **common)
    return Reading(prior, hypotheses, "none", **common)


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """Both tests of what moved, what they could test, and what the rows show."""

    test: MixtureTest
    moved_columns: tuple[ColumnShift, ...]
    tested: Tested
    evidence: MoveEvidence


def compared(
    fitted: FittedRatio, reference: Reference, counts: ScoreTails, *, level: float = 0.95
) -> ComparedRows:
    """Both tests of counted rows, and what they show without labels."""
    adapted = matched_prior(fitted, reference, counts, level=level)
    test = mixture_test(counts, reference.tails, most_prior=reference.prior.most)
    # small moves do not matter, but they may explain what the test of the scores has found
    columns = columns_moved(
        fitted, reference, counts, adapted, small_moves=test.p_value < OTHER_SHIFT
    )
    moved = what_moved(test.p_value, columns)
    n_columns = tested_columns(fitted.columns.profiles, counts.columns)
    tested = Tested(test.degrees, n_columns, test.detectable)
    evidence = evidence_of(fitted, reference, counts, adapted, moved)
    growth = growth_since(counts, reference.tails, reference.prior.value)
    if growth is not None and reference.map is None:
        growth = growth.of_population(fitted.population.labelled_fraction)
    evidence = replace(
        evidence,
        tested=tested.anything,
        p_value=test.p_value,
        detectable=test.detectable,
        growth=growth,
    )
    return ComparedRows(test, columns, tested, evidence)


def _with_findings(rows: ComparedRows, parts: Sequence[Reading]) -> ComparedRows:
    """Rows whose parts reject what the test of all rows accepts, with the findings of the parts.

    A single part rejects at a level divided by the number of parts, so that many parts find no
    more by chance than one does. Several parts that reject are no chance.
    """
    rejecting = sum(part.shift == "other" for part in parts)
    level = OTHER_SHIFT
    if rejecting <= 1 + 3 * OTHER_SHIFT * len(parts):
        level = OTHER_SHIFT / max(len(parts), 1)
    test = rows.test
    moved: dict[str, ColumnShift] = {}
    for part in parts:
        if part.shift_test is not None and part.shift_test.p_value < min(level, test.p_value):
            test = part.shift_test
        for column in part.moved_columns:
            largest = moved.get(column.name)
            if column.p_value < level and (largest is None or column.misfit > largest.misfit):
                moved[column.name] = column
    if test is rows.test and not moved:
        return rows
    columns = tuple(sorted(moved.values(), key=lambda column: -column.misfit))
    evidence = replace(rows.evidence, moved="other")
    return replace(rows, test=test, moved_columns=columns, evidence=evidence)


def matched_prior(
    fitted: FittedRatio, reference: Reference, counts: ScoreTails, *, level: float = 0.95
) -> PriorEstimate:
    """Prior of counted rows if only the prior moved."""
    prior = reference.prior
    if reference.map is None and prior.method != "audit":
        return prior_from_tails(
            counts,
            level=level,
            reference=reference.tails,
            train_prior=prior,
            warn=False,
        )
    # answers gave the prior of the reference: nothing is assumed about the highest scores
    known = Figure(prior.value, prior.low, prior.high)
    carried = carried_prior(counts, reference.tails, known, prior_level=prior.level, level=level)
    return PriorEstimate(carried.value, carried.low, carried.high, level, "efficient")


def columns_moved(
    fitted: FittedRatio,
    reference: Reference,
    counts: ScoreTails,
    prior: PriorEstimate,
    *,
    small_moves: bool = False,
) -> tuple[ColumnShift, ...]:
    """Columns of counted rows that moved more than their ``prior`` explains.

    Columns that had moved before the last answers are not named again.
    """
    profiles = fitted.columns.profiles
    if reference.map is None or reference.tails.columns is None:
        return moved_columns(
            profiles, counts.columns, fitted.unlabeled_prior, prior, small_moves=small_moves
        )
    ends = np.cumsum([profile.cells.n for profile in profiles])[:-1]
    counts_by_column = np.split(reference.tails.columns.astype(np.float64), ends)
    answered = []
    for profile, column in zip(profiles, counts_by_column, strict=True):
        answered.append(profile.with_unlabeled(column))
    shifts = moved_columns(
        answered, counts.columns, reference.prior, prior, small_moves=small_moves
    )
    return tuple(shift for shift in shifts if shift.name not in reference.moved)


def evidence_of(
    fitted: FittedRatio,
    reference: Reference,
    counts: ScoreTails,
    adapted: PriorEstimate,
    moved: Moved,
) -> MoveEvidence:
    """What counted rows show without labels."""
    return MoveEvidence(
        train=reference.base_prior(fitted),
        adapted=adapted,
        moved=moved,
        probability=fitted.cell_probability(),
        before=_mean_before(fitted, reference),
        counts=counts.counts,
        rows=counts.n,
        explained=explained_share(fitted),
    )


def explained_share(fitted: FittedRatio) -> float:
    """Share of the variance of the classes that the trained probability explains in training.

    It is (a - m) / (1 - m) with the mean a over held-out positives and the mean m over all rows,
    if the probabilities are calibrated.
    """
    of_positives, of_all = _training_means(fitted)
    return (of_positives - of_all) / max(1 - of_all, 1e-9)


def _mean_before(fitted: FittedRatio, reference: Reference) -> float:
    """Mean of the trained probability over the training population, or over audited rows."""
    if reference.map is not None:
        return mean_probability(fitted.cell_probability(), reference.tails.counts)
    return _training_means(fitted)[1]


def _training_means(fitted: FittedRatio) -> tuple[float, float]:
    """Means of the trained probability over the positives and over the population of training."""
    probability = fitted.cell_probability()
    share = fitted.population.labelled_fraction
    of_positives = mean_probability(probability, fitted.tails.positive_counts)
    of_unlabeled = mean_probability(probability, fitted.tails.counts)
    return of_positives, (1 - share) * of_unlabeled + share * of_positives


def sampling_error(
    fitted: FittedRatio,
    reference: Reference,
    counts: ScoreTails,
    reading: Reading,
    arrived: Arrived | None,
) -> float:
    """Standard error of a prior by the number of rows alone, as if training were exact."""
    moved: Moved = "other" if reading.shift == "other" else "prior"
    evidence = evidence_of(fitted, reference, counts, reading.prior, moved)
    slope = POOLED.slope if fitted.history is None else fitted.history.slope
    prior = reading.prior.value
    error = evidence.noise(prior, slope=slope)
    if arrived is None:
        return error
    return max(error, prior * math.sqrt(arrived.now.noise))


# -- labels that arrive ------------------------------------------------------------------------


def arrived_labels(
    fitted: FittedRatio,
    reference: Reference,
    y: Any,
    counts: ScoreTails,
    sample_weight: Any = None,
) -> Arrived | None:
    """Labels of counted rows that have arrived, and those of training; None without labels.

    ``sample_weight`` are the weights of the counted rows, or the name of their column on a cluster.
    """
    if y is None:
        return None
    weight = None
    if sample_weight is not None and not isinstance(sample_weight, str):
        weight = check_numbers("sample_weight", sample_weight)
        n = len(weight)
    elif counts.weighted:
        raise ParameterError(
            "y must be None with weighted counts, in which rows are not told apart."
        )
    else:
        n = round(counts.counts.sum() / counts.copies)
    check_single_sample(fitted, "y")
    positive = labelled_flags(labels_of(y, n), fitted.classes)
    return beside_training(fitted, reference, count_labels(positive, weight))


def beside_training(fitted: FittedRatio, reference: Reference, now: LabelCount) -> Arrived:
    """Labels of new rows beside those of the training sample.

    If labels arrive with a delay, those of new rows are not complete yet.
    """
    population = fitted.population
    return Arrived(
        now=now,
        before=population.label_count or LabelCount(0.0, 0.0),
        complete=population.label_delay == 0,
        trained=None if reference.map is None else fitted.prior,
    )


def check_single_sample(fitted: FittedRatio, argument: str) -> None:
    """Raise if labels were given as ``argument`` in a case-control study."""
    if fitted.population.label_count is None:
        raise ParameterError(
            f"{argument} must be None with scenario='case-control', where the share of labelled "
            "rows says nothing about the prior: fit with scenario='single-sample' if labelled rows "
            "are part of the sample."
        )


# -- warnings ----------------------------------------------------------------------------------


def warn_about_reading(reading: Reading, reference: Reference, *, shift: str = "auto") -> None:
    """Warn of everything that is doubtful in a reading; ``shift`` is the argument of ``adapt``."""
    few_rows = reading.rows is not None and reading.rows < FEW_ROWS
    if few_rows:
        _warn_of_few_rows(reading)
    if shift == "none":
        return
    test = reading.shift_test
    assert test is not None  # rows were read
    if shift == "prior":
        warn_of_other_shift(test, reading.moved_columns, action="prior")
        warn_if_not_identified(reading.prior)
        return
    if reading.late:
        _warn_of_late_labels()
    if reading.shift == "other":
        supported = len(reading.sources) > 1
        action = "supported" if supported else "kept"
        warn_of_other_shift(test, reading.moved_columns, action=action)
    else:
        if not few_rows:  # otherwise the cause has been named, and more rows are the remedy
            if reading.untested:
                _warn_of_untested_shift()
            warn_if_not_identified(reading.prior)
    if reference.map is not None:
        _warn_of_contradicted(reference.prior, reading.prior)


# What was done about it, and what helps.
_ACTIONS = {
    "prior": "The prior and the labels were adapted all the same, as was asked for: neither can be "
    "trusted.",
    "kept": "The labels stay as trained, and the prior is a rough reading.",
    "supported": "The prior and the labels were moved as far as the backtest or labels that "
    "arrived support.",
    "answers": "The answers were used for these rows only.",
}
_HELP = f"Two things help: answers for {FEW_ANSWERS} rows ({{}}), or a new fit with recent rows."
_REFIT = "If this goes on, a new fit with recent rows helps."  # where there are answers


def warn_of_other_shift(test: MixtureTest, moved: Sequence[ColumnShift], *, action: str) -> None:
    """Warn if scores or columns changed more than the prior explains, and say what was done."""
    if test.p_value >= OTHER_SHIFT and not moved:
        return
    help_text = _REFIT if action == "answers" else _HELP
    ShiftWarning.issue(
        f"{_what_was_seen(test, moved)} {_ACTIONS[action]}",
        advice=help_text.format("plan_audit(X).ask(X)"),
        command=help_text.format("drpu ask"),
    )


def _what_was_seen(test: MixtureTest, moved: Sequence[ColumnShift]) -> str:
    shares = [f"{shift.name!r} ({shift.misfit:.0%} of the rows)" for shift in moved[:MOST_NAMED]]
    names = ", ".join(shares)
    if len(moved) > MOST_NAMED:
        names += ", ..."
    if test.p_value >= OTHER_SHIFT:
        return (
            f"columns moved more than a new prior explains: {names}: more than the prior has "
            "changed."
        )
    if test.needs_prior is not None and not moved:
        return (
            f"these rows contradict the training prior (p = {test.p_value:.1g}): if only the prior "
            f"has changed, at least {test.needs_prior:.0%} of the unlabeled training rows are "
            "positive. The training prior is too low, or more than the prior has changed."
        )
    columns = "Compare the columns with those of training."
    if moved:
        columns = f"Columns that moved: {names}."
    return (
        f"these rows do not look like a mixture of the two training classes (p = "
        f"{test.p_value:.1g}; about {test.misfit:.0%} of them would have to move): more than the "
        f"prior has changed. {columns}"
    )


def _warn_of_untested_shift() -> None:
    FewPositivesWarning.issue(
        "untested: there are too few labelled positives or new rows to test whether only the prior "
        "has changed. The prior and the labels moved as far as the rows determine the prior.",
        advice=_HELP.format("plan_audit(X).ask(X)"),
        command=_HELP.format("drpu ask"),
    )


def _warn_of_few_rows(reading: Reading) -> None:
    """Warn that few new rows say little about their prior, and if nothing could be tested."""
    subject = f"{reading.rows:g} new rows say little about their prior"
    if reading.rows == 1:
        subject = "1 new row says little about its prior"
    untested = ""
    if reading.untested:
        untested = " It cannot be tested whether only the prior has changed."
    FewRowsWarning.issue(
        f"{subject}, which lies between {{low}} and {{high}}: labels and expected figures depend "
        f"on a rough value.{untested}",
        advice="Adapt to more rows, or give the prior with at_prior.",
        command="Adapt to more rows, or give --prior to drpu predict.",
        low=reading.prior.low,
        high=reading.prior.high,
    )


def _warn_of_late_labels() -> None:
    LateLabelsWarning.issue(
        "far fewer labels have arrived than the rows suggest: if labels arrive late,",
        advice="leave y out until they are complete, or fit with DRPUClassifier(label_delay=1), "
        "and labels of new rows are used as a lower bound only.",
        command="leave --label out until they are complete, or run drpu fit with --label-delay 1, "
        "and labels of new rows are used as a lower bound only.",
    )


def _warn_of_contradicted(answered: PriorEstimate, now: PriorEstimate) -> None:
    """Warn of a prior of later rows that is far from what answers said about earlier ones.

    It is far if the intervals have nothing in common and the odds differ by a factor of more than
    three.
    """
    apart = now.low > answered.high or now.high < answered.low
    growth = _odds(now.value) / _odds(answered.value)
    if apart and not 1 / 3 <= growth <= 3:
        ContradictionWarning.issue(
            f"answers gave {answered} for the audited rows, and the prior is now read as {now} "
            "without answers: it moved a lot, or the reading is wrong.",
            advice="Ask for answers about the new rows, with plan_audit(X).ask(X).",
            command="Ask for answers about the new rows, with drpu ask.",
        )


def _odds(prior: float) -> float:
    return (prior + 1e-6) / (1 - prior + 1e-6)
