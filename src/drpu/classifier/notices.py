"""Warnings about the data and the settings of a fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from drpu.exceptions import (
    AlphaWarning,
    ContradictionWarning,
    FewNegativesWarning,
    FewPositivesWarning,
    FewRowsWarning,
    LateLabelsWarning,
    ParameterError,
    SeenPositivesWarning,
    ShiftWarning,
    TrainingTableWarning,
)
from drpu.models.clusters import engine_of
from drpu.models.crossfit import FEWEST_KNOWN, Folds
from drpu.periods.columns import OTHER_SHIFT, ColumnShift
from drpu.periods.mixture_test import MixtureTest
from drpu.priors.estimate import FEW_POSITIVES, PriorEstimate
from drpu.priors.figures import Figure
from drpu.priors.tails import ScoreTails
from drpu.tables.notes import Note, list_of_notes

MOST_NAMED = 6  # columns that a warning names
FEW_ROWS = 30  # with fewer new rows, adapt warns that the prior is rough


def warn_of_alpha(folds: Folds, prior: PriorEstimate) -> None:
    """Warn if alpha exceeds the prior of the unlabeled rows, because the correction is then wrong."""
    alpha = max(getattr(model, "alpha", None) or 0.0 for model in folds.functions)
    if alpha > prior.high:
        AlphaWarning.issue(
            f"the model was corrected with alpha = {alpha:.3g}, above the prior of the unlabeled rows "
            f"({prior}): its ratios are too small. Use a smaller alpha, or 'auto'."
        )


def warn_of_large_prior(given: PriorEstimate, read: PriorEstimate) -> None:
    """Warn of a given training prior above the upper limit of the prior that the training rows show."""
    if given.low > read.high:
        ContradictionWarning.issue(
            "the given prior of {given} contradicts the training rows, of which at most {most} can be "
            "positive: it is too large, or the labelled positives are not a fair sample of all positives.",
            advice="Leave it out (prior='auto'), or find out how the positives were labelled.",
            command="Leave --prior out, or find out how the positives were labelled.",
            given=given.value,
            most=read.high,
        )


def warn_of_contradicted(answered: PriorEstimate, read: PriorEstimate) -> None:
    """Warn of a prior of later rows that is far from what answers said about earlier ones.

    It is far if the intervals have nothing in common and the odds differ by a factor of more than three.
    """
    odds = [(prior.value + 1e-6) / (1 - prior.value + 1e-6) for prior in (read, answered)]
    if (read.low > answered.high or read.high < answered.low) and not 1 / 3 <= odds[0] / odds[
        1
    ] <= 3:
        ContradictionWarning.issue(
            f"answers gave {answered} for the audited rows, and the prior is now read as {read} without "
            "answers: it moved a lot, or the reading is wrong.",
            advice="Ask for answers about the new rows, with plan_audit.",
            command="Ask for answers about the new rows, with drpu audit.",
        )


def warn_of_answered_positives(n: int) -> None:
    """Warn of rows that are labelled as positive and were answered as negative."""
    if n:
        finding = (
            f"{n} labelled rows were answered as negative. They are used as positives, as y says."
        )
        ContradictionWarning.issue(finding, advice="Correct y if the answers are right.")


def warn_of_few_known(negatives: int, positives: int, *, split: bool) -> None:
    """Warn that known negatives are too few to be used."""
    if negatives and (min(negatives, positives) < FEWEST_KNOWN or not split):
        FewNegativesWarning.issue(
            f"{negatives} known negatives beside {positives} labelled positives: with fewer than "
            f"{FEWEST_KNOWN} of either kind, the negatives are not used for the score. Label more."
        )


def warn_of_few_positives(n: int, *, split: bool) -> None:
    """Warn that the prior is rough because of few positives, or because no rows were held out."""
    if n < FEW_POSITIVES:
        FewPositivesWarning.issue(
            f"{n} labelled positives: the prior and its interval are rough. Label more, or give the "
            "prior if you know it."
        )
    if not split:
        SeenPositivesWarning.issue(
            "no rows were held out, so the prior is estimated from scores of training rows: it is too "
            "low, and its interval too narrow. Pass at least four positives and four unlabeled rows."
        )


def warn_of_notes(notes: tuple[Note, ...]) -> None:
    """Warn once of everything in a training table that there is something to do about."""
    doubtful = [note for note in notes if note.doubtful]
    if doubtful:
        advice, command = (list_of_notes(doubtful, command_line=flag) for flag in (False, True))
        finding = "look at the training table before this classifier is used:"
        TrainingTableWarning.issue(finding, advice=f"{advice}.", command=f"{command}.")


def warn_of_late_labels() -> None:
    """Warn that fewer labels have arrived than rows and past suggest."""
    LateLabelsWarning.issue(
        "far fewer labels have arrived than the rows suggest: if labels arrive late,",
        advice="leave y out until they are complete, or fit with DRPUClassifier(label_delay=1), and labels "
        "of new rows are used as a lower bound only.",
        command="leave --label out until they are complete, or run drpu fit with --label-delay 1, and labels "
        "of new rows are used as a lower bound only.",
    )


# What was done about it, and what helps.
_DONE = {
    "prior": "The prior and the labels were adapted all the same, as was asked for: neither can be trusted.",
    "kept": "The labels stay as trained, and the prior is a rough reading.",
    "supported": "The prior and the labels were moved as far as the backtest or labels that arrived support.",
    "answers": "The answers were used for these rows only.",
}
_HELP = "Two things help: answers for 50 rows ({}), or a new fit with recent rows."
_REFIT = "If this goes on, a new fit with recent rows helps."  # where there are answers


def warn_of_other_shift(test: MixtureTest, moved: Sequence[ColumnShift], *, done: str) -> None:
    """Warn if the scores or some columns changed more than the prior explains, and say what was done."""
    if test.p_value >= OTHER_SHIFT and not moved:
        return
    names = ", ".join(
        f"{shift.name!r} ({shift.misfit:.0%} of the rows)" for shift in moved[:MOST_NAMED]
    )
    if len(moved) > MOST_NAMED:
        names += ", ..."
    columns = ""
    if test.p_value < OTHER_SHIFT and test.needs_prior is not None and not moved:
        seen = (
            f"these rows contradict the training prior (p = {test.p_value:.1g}): if only the prior has "
            f"changed, at least {test.needs_prior:.0%} of the unlabeled training rows are positive. The "
            "training prior is too low, or more than the prior has changed"
        )
    elif test.p_value < OTHER_SHIFT:
        seen = (
            f"these rows do not look like a mixture of the two training classes (p = {test.p_value:.1g}; "
            f"about {test.misfit:.0%} of them would have to move): more than the prior has changed"
        )
        columns = (
            f" Columns that moved: {names}."
            if moved
            else " Compare the columns with those of training."
        )
    else:
        seen = f"columns moved more than a new prior explains: {names}: more than the prior has changed"
    text = _REFIT if done == "answers" else _HELP
    advice, command = (text.format(name) for name in ("plan_audit", "drpu audit"))
    ShiftWarning.issue(f"{seen}.{columns} {_DONE[done]}", advice=advice, command=command)


def warn_of_untested_shift() -> None:
    """Warn that there were too few rows to test whether only the prior has changed."""
    FewPositivesWarning.issue(
        "untested: there are too few labelled positives or new rows to test whether only the prior has "
        "changed. The prior and the labels moved as far as the rows determine the prior.",
        advice=_HELP.format("plan_audit"),
        command=_HELP.format("drpu audit"),
    )


def warn_of_few_rows(n: float, prior: PriorEstimate) -> None:
    """Warn that few new rows say little about their prior."""
    if n < FEW_ROWS:
        FewRowsWarning.issue(
            f"{n:g} new rows say little about their prior, which lies between {{low}} and {{high}}: "
            "labels and expected figures depend on a rough value.",
            advice="Adapt to more rows, or give the prior with at_prior.",
            command="Adapt to more rows, or give --prior to drpu predict.",
            low=prior.low,
            high=prior.high,
        )


def adapted_html(classifier: Any) -> str:
    """A small table, with the mark that scikit-learn's diagrams use for fitted estimators."""
    rows = {
        "prior of the rows": _prior(classifier.test_prior_),
        "prior in training": _prior(classifier.train_prior_),
        "scenario": classifier.scenario_,
        "cost": escape(str(classifier.cost_)),
        "threshold": f"ratio above {classifier.threshold_:.3g}",
    }
    rows |= (
        _expected(classifier) if classifier.budget_ is None else {"budget": str(classifier.budget_)}
    )
    said = [] if classifier.test_prior_.identified else ["The data do not identify the prior."]
    if classifier.shift_test_ is not None and classifier.shift_test_.p_value < OTHER_SHIFT:
        said.append("More than the prior has changed: expected figures hold for prior shift only.")
    if classifier.moved_columns_:
        names = ", ".join(repr(shift.name) for shift in classifier.moved_columns_[:8])
        said.append(f"Columns moved more than a new prior explains: {names}.")
    if said:
        rows["warnings"] = "<br>".join(map(escape, said))
    cells = "".join(
        f"<tr><th scope=row>{name}</th><td>{value}</td></tr>" for name, value in rows.items()
    )
    return (
        f"<table><caption><b>AdaptedClassifier</b>, fitted</caption><tbody>{cells}</tbody></table>"
    )


def _prior(prior: PriorEstimate) -> str:
    return prior._repr_html_().removeprefix("<p>prior ").removesuffix("</p>")


def _expected(classifier: Any) -> dict[str, str]:
    now, (low, high) = classifier.expected_performance(), classifier.expected_range()
    rows = {}
    for name in ("flagged", "precision", "recall"):
        value, least, most = (float(getattr(part, name)) for part in (now, low, high))
        figure = Figure(value, min(least, value), max(most, value))
        text = f"{figure.low:.1%} to {figure.high:.1%}"
        if math.isnan(value):
            text = "cannot be computed: no row is flagged"
        elif not figure.is_wide:
            text = f"{value:.1%} ({text})"
        rows[f"expected {name}"] = text
    return rows


def count_there(classifier: Any, frame: Any, weight: Any) -> ScoreTails | None:
    """Counts of a Dask or Spark collection, made by its workers; None for rows in memory."""
    engine = engine_of(frame)
    if engine is None:
        return None
    if weight is not None and not isinstance(weight, str):
        raise ParameterError(
            f"sample_weight must be the name of a column for rows on a cluster, got {type(weight).__name__}."
        )
    return engine.count(classifier, frame, None, weight)
