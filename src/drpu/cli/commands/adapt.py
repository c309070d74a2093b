"""``drpu adapt``: estimates the share of positives in new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import drpu
from drpu.cli.options import Answers, By, Data, Decision, Level, Reading, Saved
from drpu.cli.show import Result, about, by_group, decision_lines, standing
from drpu.report.texts import prior_text, shift_text


def adapt(
    saved: Saved,
    data: Data,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File for the adapted classifier.")
    ] = None,
    by: By = None,
    level: Level = 0.95,
    shift: Annotated[
        str,
        typer.Option(
            help="auto: decide what moved. prior: assume that only the share of positives did."
        ),
    ] = "auto",
    label: Annotated[
        str | None, typer.Option(help="Column of labels that have arrived for these rows.")
    ] = None,
    *,
    decision: Decision,
    answers: Answers,
    reading: Reading,
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
    from drpu.cli.tables import check_out

    check_out(out, [saved.artifact, data, answers.audit])
    reading.check(data)
    decision.check()
    budget = decision.checked
    trained = saved.load()
    classifier = decision.applied_to(trained)
    options: dict[str, Any] = {"level": level, "shift": shift}
    if by is None and budget is None and answers.audit is None and label is None:
        adapted = reading.adapt(classifier, data, **options)
        return _save_adapted(adapted, trained, out)
    loaded = reading.read(data, classifier)
    mixed = by is None and answers.audit is None
    X = reading.scored(classifier, loaded, used=[label, by], mixed=mixed)
    y = loaded.optional_column(label)
    with about(data):
        if by is not None:
            values = loaded.groups(by)
            options |= {"audit": answers.read(classifier, X, by=values), "budget": budget}
            groups = classifier.adapt_by(X, y, by=values, **options)
            facts, table = by_group(groups, by)
            return Result({"train_prior": classifier.train_prior_} | facts, table=table)
        audit = answers.read(classifier, X)
        adapted = classifier.adapt(X, y, audit=audit, **options)
        adapted = decision.with_budget(adapted, X)
    return _save_adapted(adapted, trained, out)


def _save_adapted(adapted: Any, trained: Any, out: Path | None) -> Result:
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
    return Result(values, lines)
