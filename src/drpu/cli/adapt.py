"""``drpu adapt`` and ``drpu prior``: the share of positives in new rows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

import drpu
from drpu.cli.options import (
    AnswerOptions,
    By,
    Data,
    DecisionOptions,
    ReadingOptions,
    SavedOptions,
    refuse,
)
from drpu.cli.show import (
    PIPE,
    PRIOR_HEAD,
    Result,
    about,
    attributes,
    by_group,
    decision_lines,
    prior_cells,
    standing,
)
from drpu.priors.constants import FEW_ANSWERS
from drpu.report.texts import prior_text, share, shift_text


def adapt(
    saved: SavedOptions,
    data: Data,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File for the adapted classifier.")
    ] = None,
    by: By = None,
    label: Annotated[
        str | None, typer.Option(help="Column of labels that have arrived for these rows.")
    ] = None,
    *,
    decision: DecisionOptions,
    answers: AnswerOptions,
    reading: ReadingOptions,
) -> Result:
    """Estimate the share of positives in new rows and adapt the classifier to it.

    Examples
    --------
    drpu adapt fraud.drpu june.parquet
    drpu adapt fraud.drpu june.parquet --cost 0.8 --out june.drpu
    drpu adapt fraud.drpu june.parquet --false-alarm 5 --miss 200
    drpu adapt fraud.drpu june.parquet --budget 200
    drpu adapt fraud.drpu june.parquet --label fraud
    drpu adapt fraud.drpu june.parquet --audit to-label.csv --out june.drpu
    drpu adapt fraud.drpu year.parquet --by month --budget 50
    """
    if by is not None and out is not None:
        raise typer.BadParameter(
            "--out writes one classifier, and --by makes several: give one of them."
        )
    if by is not None:
        refuse({"--audit": answers.files}, "is about all rows: give it without --by.")
    from drpu.cli.tables import check_out

    check_out(out, [saved.artifact, data, *answers.files])
    reading.check(data)
    budget = decision.checked
    trained = saved.load()
    classifier = decision.applied_to(trained)
    if by is None and budget is None and not answers.files and label is None:
        adapted = reading.adapt(classifier, data)
        return _save_adapted(adapted, trained, out, next_step=ask_words(saved, data, reading))
    mixed = by is None and not answers.files
    loaded = reading.open(classifier, data, mixed=mixed)
    group_of_row = loaded.groups(by)
    X = reading.scored(classifier, loaded, used=[label, by], mixed=mixed, by=group_of_row)
    y = loaded.optional_column(label)
    with about(data):
        if by is not None:
            groups = classifier.adapt_by(X, y, by=group_of_row, budget=budget)
            facts, table = by_group(groups, by)
            return Result({"train_prior": classifier.train_prior_} | facts, table=table)
        audit = answers.read(classifier, X)
        adapted = classifier.adapt(X, y, audit=audit)
        adapted = decision.with_budget(adapted, X)
    next_step = None
    if audit is None and y is None:
        next_step = ask_words(saved, data, reading)
    return _save_adapted(adapted, trained, out, next_step=next_step)


def ask_words(saved: SavedOptions, data: str, reading: ReadingOptions) -> str | None:
    """The command that asks about rows of a file; None if they came from a pipe."""
    if data == PIPE:
        return None
    return shlex.join(["drpu", "ask", str(saved.artifact), data, *reading.words])


def _save_adapted(adapted: Any, trained: Any, out: Path | None, *, next_step: str | None) -> Result:
    """Facts about the adapted classifier, which is written if there is a path for it."""
    values = standing(adapted)
    values["moved_columns"] = list(adapted.moved_columns_)
    values["artifact"] = None if out is None else str(out)
    threshold = f"ratio above {adapted.threshold_:.3g} (in training {trained.threshold_:.3g})"
    lines = {
        "share of positives": prior_text(adapted.prior_),
        "in training": prior_text(adapted.train_prior_),
        "what moved": shift_text(adapted),
        "threshold": threshold,
    }
    lines |= decision_lines(values)
    if out is not None:
        with about(out):
            drpu.save(adapted, out)
        lines["written"] = str(out)
    if next_step is not None and adapted.reading_.rows >= FEW_ANSWERS:
        lines["surer"] = f"answers for {FEW_ANSWERS} rows: {next_step}"
    return Result(values, lines)


def prior(
    saved: SavedOptions,
    data: Annotated[list[str], typer.Argument(help="One file or more.", show_default=False)],
    by: By = None,
    *,
    reading: ReadingOptions,
) -> Result:
    """Share of positives in new rows, file by file or group by group, with intervals.

    With --by, the intervals hold for all groups of a file together, and the values of small groups
    are shrunk towards the share of all rows.

    Examples
    --------
    drpu prior fraud.drpu april.csv may.csv june.csv
    drpu prior fraud.drpu year.parquet --by month --json
    """
    reading.check(*data)
    classifier = saved.load()
    train = classifier.train_prior_
    facts: list[dict[str, Any]] = []
    limits = [share(train.value), share(train.low), share(train.high)]
    rows = [["(training)", *limits, "", ""]]
    for path in data:
        if by is None:
            adapted = reading.adapt(classifier, path)
            facts.append(
                {
                    "data": path,
                    "prior": adapted.test_prior_,
                    "p_value": adapted.shift_test_.p_value,
                    "shift": adapted.shift_,
                    "untested": adapted.untested_,
                }
            )
            rows.append([path, *prior_cells(adapted), ""])
            continue
        loaded = reading.open(classifier, path)
        group_of_row = loaded.groups(by)
        X = reading.scored(classifier, loaded, used=[by], by=group_of_row)
        with about(path):
            groups = classifier.adapt_by(X, by=group_of_row)
        for group in groups:
            group_name = f"{by}={group.name}"
            names = ("prior", "alone", "weight", "p_value", "shift", "warnings")
            facts.append({"data": group_name, "rows": group.n} | attributes(group, *names))
            rows.append([group_name, *prior_cells(group), ", ".join(group.warnings)])
    head = ["data", *PRIOR_HEAD, "warnings"]
    return Result({"train_prior": train, "found": facts}, table=(head, rows))
