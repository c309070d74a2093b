"""The texts of the page: the main results, the cautions and the tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from drpu.classifier.adapted import OTHER_SHIFT
from drpu.core.budget import Range, budget_outlook, gain_curve
from drpu.core.diagnostics import Performance
from drpu.core.prior.estimate import FEW_POSITIVES
from drpu.report.explorer import default_budget
from drpu.report.page import number, prior_words, share, share_range
from drpu.report.summary import roc
from drpu.report.view import View, judged

__all__ = ["audit_table", "expectations", "facts", "group_table", "headline", "lead", "lift_words",
           "moved_table", "notes", "prior_caption"]  # fmt: skip

FIGURES = {
    "flagged": "rows that are flagged",
    "precision": "flagged rows that are positive",
    "recall": "positives that are flagged",
    "false_positive_rate": "negatives that are flagged",
    "accuracy": "rows labelled rightly",
    "cost": "mean cost of a row",
}


# -- main results ----------------------------------------------------------------------------------


def lead(view: View) -> str:
    """The page in one sentence."""
    if view.new is None:
        return f"The share of positives in training was {prior_words(view.train)}."
    if not view.prior.identified:
        return (
            f"At most {share(view.prior.high)} of the {view.rows:,} new rows are positive; "
            f"{share(view.prior.value)} if the best-scored rows are all positive."
        )
    trained = share(view.train.value)
    found = f"About {_rows(view, view.prior.value)} of the {view.rows:,} new rows are positive"
    if view.moved == "open":
        return f"{found}. The share may be that of training ({trained}): the intervals overlap."
    return f"{found}. The share of positives {view.moved} from {trained} in training."


def headline(view: View) -> list[dict[str, str]]:
    """Three cards: how many, how sure, what to do."""
    return [
        dict(zip(("question", "answer", "words"), card, strict=True))
        for card in (_how_many(view), _how_sure(view), _what_to_do(view))
    ]


def _how_many(view: View) -> tuple[str, str, str]:
    question, prior = "How many are positive?", view.prior
    if view.new is None:
        words = "of the rows, at the prior that this classifier works at."
        return question, share(prior.value), words
    if not prior.identified:
        words = f"{share(prior.high)} of {view.rows:,} new rows; fewer are possible."
        return question, f"at most {_rows(view, prior.high)}", words
    words = f"{share(prior.value)} of {view.rows:,} new rows; {share(view.train.value)} in training."
    return question, f"about {_rows(view, prior.value)}", words


def _how_sure(view: View) -> tuple[str, str, str]:
    question, prior = "How sure is that?", view.prior
    if prior.method == "given":
        return question, "given", "The share was stated by a person, not estimated."
    if not prior.identified:
        words = (
            "The data do not show how many of the rows with the highest scores are negative. "
            "True labels of about 100 rows show it: see drpu audit."
        )
        return question, "upper bound only", words
    words = f"with {prior.level:.0%} confidence"
    if view.new is not None:
        words += f": {_rows(view, prior.low)} to {_rows(view, prior.high)} rows"
    return question, share_range(prior.low, prior.high), f"{words}."


def _what_to_do(view: View) -> tuple[str, str, str]:
    question = "What to do?"
    if view.other_shift:
        words = "More than the share of positives has changed. Find out why before the labels are used."
        return question, "check the data", words
    if view.budget is not None:
        return question, *_within_budget(view)
    now = view.expected
    flagged = _rows(view, float(now.flagged)) if view.flagged is None else f"{view.flagged:,}"
    if flagged == "0":
        words = (
            "No row is worth a false alarm at these costs. Change them, or check the rows with the highest "
            "scores."
        )
        return question, "nothing to flag", words
    words = (
        f"They are flagged. Expected to be positive: {share(float(now.precision))} of them "
        f"({share_range(*view.limits('precision'))}). Share of all positives among them: "
        f"{share(float(now.recall))} ({share_range(*view.limits('recall'))})."
    )
    of = f" of {view.rows:,}" if view.new is None else ""
    return question, f"check {flagged} row{'' if flagged == '1' else 's'}{of}", words


def _within_budget(view: View) -> tuple[str, str]:
    """What to do with a budget, and the expected result."""
    budget, rows = view.budget, default_budget(view)
    assert budget is not None

    def figure(found: Range) -> str:
        return f"{share(found.value)} ({share_range(found.low, found.high)})"

    words = (
        "They have the highest scores. "
        f"Expected to be positive: {figure(budget.precision)} of them. Share of all positives among them: "
        f"{figure(budget.recall)}, which is {budget.lift.value:.3g} times that of as many random rows "
        f"({budget.lift.low:.3g} to {budget.lift.high:.3g})."
    )
    of = f" of {view.rows:,}" if view.new is None else ""
    return f"check the top {f'{rows:,} rows' if rows > 1 else 'row'}{of}", words


def _rows(view: View, part: float) -> str:
    return f"{round(part * view.rows):,}"


# -- cautions --------------------------------------------------------------------------------------


def notes(view: View) -> list[str]:
    """Cautions for the reader."""
    said = [" ".join(str(warning).split()) for warning in view.caught]
    tails = view.fitted.tails
    if tails.n_positive < FEW_POSITIVES and not any("[few-positives]" in note for note in said):
        said.append(
            f"Only {tails.n_positive:.0f} positives were held out: shares and limits are rough. "
            "Label more, or give the training prior if you know it."
        )
    if not view.train.identified:
        said.append(
            f"The training share is known as an upper bound only: {prior_words(view.train)}. "
            "Expected numbers depend on it."
        )
    if view.train.value >= 0.995:
        said.append("Nearly all training rows are estimated to be positive: check the labels first.")
    return said


def prior_caption(view: View) -> str:
    """What the ends of the intervals mean."""
    if view.prior.identified and view.train.identified:
        return "The upper end is a bound; the lower end assumes that the best scores belong to positives."
    return "If the data give an upper bound only, the lower end has no meaning."


# -- tables ----------------------------------------------------------------------------------------


def expectations(view: View) -> list[dict[str, str]]:
    """Rows of the table of expected performance: the figure, its range, and without adapting."""
    now, kept = view.expected, _as_trained(view)
    lines = []
    for name, words in FIGURES.items():
        form = number if name == "cost" else share
        value = getattr(now, name)
        ends = view.limits(name)
        lines.append(
            {
                "name": name.replace("_", " "),
                "words": words,
                "now": form(value),
                "range": f"{form(ends[0])} to {form(ends[1])}",
                "kept": form(getattr(kept[0], name)),
                "kept_range": " to ".join(form(getattr(end, name)) for end in kept[1:]),
            }
        )
    return lines


def _as_trained(view: View) -> tuple[Performance, Performance, Performance]:
    """Performance and its limits at the current prior if the threshold of training were kept."""
    ratio = float(view.before.threshold_)
    return judged(view.fitted, view.judge, ratio, view.prior, view.cost)


def lift_words(view: View) -> str:
    """Positives found when as many rows are checked as there are positives."""
    gain = gain_curve(view.fitted.tails, view.fitted.unlabeled_prior.value, view.prior, new=view.new)
    depth = min(max(view.prior.value, 0.001), 1.0)
    recall = float(np.interp(depth, gain.share, gain.recall))
    found = budget_outlook(recall, view.fitted.tails.n_positive, view.prior, depth, math.nan)
    return (
        f"The {share(depth)} of the rows with the highest scores contain {share(found.recall.value)} of the "
        f"positives ({share_range(found.recall.low, found.recall.high)}), {found.lift.value:.3g} times as "
        "many as random rows."
    )


def moved_table(view: View) -> list[dict[str, str]]:
    """Columns that moved more than a new prior explains, the largest move first."""
    moved = getattr(view.current, "moved_columns_", ())
    return [
        {"name": shift.name, "misfit": share(shift.misfit), "p_value": f"{shift.p_value:.1g}"}
        for shift in moved
    ]


def group_table(view: View, by: Any) -> dict[str, Any] | None:
    """The table of groups, if there are any."""
    if view.groups is None:
        return None
    rows = [
        {
            "name": str(group.name),
            "n": f"{group.n:,}",
            "value": share(group.prior.value),
            "range": share_range(group.prior.low, group.prior.high),
            "alone": share(group.alone.value),
            "only": "no" if group.p_value < OTHER_SHIFT else "yes",
        }
        for group in view.groups
    ]
    return {"by": by if isinstance(by, str) else "group", "rows": rows}


def audit_table(view: View) -> list[dict[str, str]] | None:
    """Priors before and with the answers of an audit, if there was one."""
    before = getattr(view.current, "before_audit_", None)
    if before is None:
        return None
    pairs = {"new rows": (before[1], view.prior), "training": (before[0], view.train)}
    return [
        {"name": f"share of positives, {name}", "before": prior_words(a), "after": prior_words(b)}
        for name, (a, b) in pairs.items()
    ]


def facts(view: View) -> list[tuple[str, str]]:
    """Facts about the fit and the new rows, as names and values."""
    fitted, classes = view.fitted, view.fitted.classes
    names = getattr(view.current, "feature_names_in_", None)
    columns = f"{view.current.n_features_in_} columns"
    if names is not None:
        columns += ": " + ", ".join(map(str, names[:10])) + (", ..." if len(names) > 10 else "")
    scenario = (
        "case-control: the unlabeled rows are a sample of the population"
        if fitted.labelled_fraction == 0
        else f"single sample: {share(fitted.labelled_fraction)} of the population is labelled"
    )
    found = [
        ("Model", fitted.model.describe()),
        ("Columns", columns),
        ("Positives held out", f"{fitted.tails.n_positive:,.0f}"),
        ("Unlabeled training rows counted", f"{fitted.tails.n:,.0f}"),
        ("Where labels come from", scenario),
        ("Labels", f"{classes[1]} is positive, {classes[0]} is not"),
        ("Training prior", f"{prior_words(view.train)}, method {view.train.method}"),
        ("Area under the ROC curve", f"{roc(fitted.tails, fitted.unlabeled_prior.value).area:.3f}"),
    ]
    if view.new is None:
        return found
    test = view.current.shift_test_
    verdict = "more than the prior has changed" if view.other_shift else "no evidence against it"
    found += [
        ("New rows counted", f"{view.new.n:,.0f}"),
        ("New prior", f"{prior_words(view.prior)}, method {view.prior.method}"),
    ]
    if test is not None:
        found.append(("Did only the prior change?", f"{verdict} (p = {test.p_value:.2g} for the scores)"))
    return found
