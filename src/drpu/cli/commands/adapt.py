"""``drpu adapt``: estimates the share of positives in new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drpu.cli.options import Answers, Data, Decision, Level, Reading, Saved, Saving
from drpu.cli.show import SHIFTS, Result, about, decision_lines, standing
from drpu.report.texts import prior_text

__all__ = ["adapt"]


def adapt(
    saved: Saved,
    data: Data,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File for the adapted classifier.")] = None,
    level: Level = 0.95,
    shift: Annotated[
        str, typer.Option(help="auto: decide what moved. prior: assume that only the share of positives did.")
    ] = "auto",
    label: Annotated[
        str | None, typer.Option(help="Column of labels that have arrived for these rows.")
    ] = None,
    label_delay: Annotated[int, typer.Option(help="Above 0 if more of these labels are to come.")] = 0,
    *,
    decision: Decision,
    answers: Answers,
    reading: Reading,
    saving: Saving,
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
    """
    from drpu.classifier.fitted import score_once
    from drpu.cli.tables import check_out

    check_out(out, [saved.artifact, data, answers.audit])
    cost, depth = decision.stated, decision.depth
    classifier = saved.load()
    if depth or answers.audit is not None or label is not None:
        loaded = reading.read(data)
        rows = reading.rows(classifier, loaded, used=[label])
        with about(data):
            X = score_once(classifier, rows)
            audit = answers.read(classifier, X, reading)
            y = None if label is None else loaded.column(label)
            adapted = classifier.adapt(
                X, y, cost=cost, level=level, audit=audit, shift=shift, label_delay=label_delay
            )
            adapted = adapted.at_budget(**depth, of=X) if depth else adapted
    else:
        adapted = reading.adapt(classifier, data, cost=cost, level=level, shift=shift)
    if out is not None:
        saving.save(adapted, out)
    values = standing(adapted) | {
        "moved_columns": list(adapted.moved_columns_),
        "artifact": None if out is None else str(out),
    }
    return Result(
        values,
        {
            "share of positives": prior_text(adapted.prior_),
            "in training": prior_text(adapted.train_prior_),
            "what moved": SHIFTS[adapted.shift_],
            "threshold": f"ratio above {adapted.threshold_:.3g} (in training {classifier.threshold_:.3g})",
        }
        | decision_lines(values)
        | ({} if out is None else {"written": str(out)}),
    )
