"""``drpu evaluate``: measures performance with true labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from drpu.cli.options import Answers, By, Costs, Data, Level, Prior, Reading, Saved, option, refuse
from drpu.cli.show import Result, about, standing
from drpu.report.texts import figure_text, number

_FIGURES = ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost", "prior")


def evaluate(
    saved: Saved,
    data: Data,
    label: Annotated[
        str | None,
        typer.Option("--label", "-l", help="Column of true labels; DATA is a random sample."),
    ] = None,
    blank: Annotated[
        str | None, option(help="What a blank label means: no, if only positives were marked.")
    ] = None,
    by: By = None,
    prior: Prior = None,
    level: Level = 0.95,
    *,
    answers: Answers,
    costs: Costs,
    reading: Reading,
) -> Result:
    """Accuracy, precision, recall and cost from true labels, with intervals.

    The labels come from a file that drpu audit wrote and that has been filled in, or from a column
    of DATA, whose rows are then treated as a random sample.

    Examples
    --------
    drpu evaluate june.drpu june.parquet --audit to-label.csv
    drpu evaluate june.drpu checked.csv --label is_fraud --json
    drpu evaluate fraud.drpu year.csv --label is_fraud --by month
    drpu evaluate fraud.drpu checked.csv --label confirmed --blank no
    """
    if (label is None) == (answers.audit is None):
        raise typer.BadParameter(
            "give the true labels: a column (--label y) or an audit (--audit to-label.csv)."
        )
    if label is None:
        refuse({"--blank": blank}, "is about a column of labels: give --label.")
    if blank not in (None, "no"):
        raise typer.BadParameter(
            f"--blank must be no, or be left out if a blank is no answer, got {blank!r}."
        )
    meaning = {}
    if blank is not None:
        meaning["blank"] = "negative"
    reading.check(data)
    trained = saved.load()
    loaded = reading.read(data, trained)
    X = reading.rows(trained, loaded, used=[label, by])
    classifier = costs.applied_to(trained, prior)
    y = loaded.optional_column(label)
    if by is not None:
        with about(data):
            groups = loaded.groups(by)
            audits = answers.read(classifier, X, by=groups)
            evaluations = classifier.evaluate_by(
                X, y, by=groups, audit=audits, level=level, **meaning
            )
        return _by_group(evaluations, by, classifier)
    if y is None:
        evaluation = classifier.evaluate(answers.read(classifier, X), level=level)
    else:
        with about(f"{data}, column {label!r}"):
            evaluation = classifier.evaluate(X, y, level=level, **meaning)
    rows = f"{evaluation.n:,} rows with true labels; {evaluation.level:.0%} intervals"
    lines = {"measured on": rows}
    for name in _FIGURES:
        lines[name.replace("_", " ")] = _figure(name, evaluation)
    return Result({"evaluation": evaluation} | standing(classifier), lines)


def _by_group(evaluations: Mapping[Any, Any], by: str, classifier: Any) -> Result:
    """A table with a line for each group."""
    facts = []
    rows = []
    for name, evaluation in evaluations.items():
        group_name = f"{by}={name}"
        facts.append({"data": group_name, "evaluation": evaluation})
        figures = [_figure(figure, evaluation) for figure in _FIGURES]
        rows.append([group_name, f"{evaluation.n:,}", *figures])
    head = ["data", "rows", *(name.replace("_", " ") for name in _FIGURES)]
    return Result({"found": facts} | standing(classifier), table=(head, rows))


def _figure(name: str, evaluation: Any) -> str:
    figure = getattr(evaluation, name)
    if math.isnan(figure.value):
        return "cannot be computed from these labels"
    if name == "cost":
        return figure_text(figure, number)
    return figure_text(figure)
