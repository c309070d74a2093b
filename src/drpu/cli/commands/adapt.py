"""``drpu adapt``: estimates the share of positives in new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drpu.cli import options as given
from drpu.cli import show

__all__ = ["adapt"]


def adapt(
    artifact: given.Artifact,
    data: given.Data,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File for the adapted classifier.")] = None,
    columns: given.Columns = None,
    drop: given.Drop = None,
    cost: given.Cost = None,
    false_alarm: given.FalseAlarm = None,
    miss: given.Miss = None,
    budget: given.Budget = None,
    audit: given.Audit = None,
    audit_label: given.AuditLabel = "drpu_label",
    level: given.Level = 0.95,
    sep: given.Sep = None,
    encoding: given.Encoding = None,
    decimal: given.Decimal = ".",
    json: given.Json = False,
) -> None:
    """Estimate the share of positives in new rows and adapt the classifier to it.

    Examples
    --------
    drpu adapt fraud.drpu june.parquet

    drpu adapt fraud.drpu june.parquet --cost 0.8 --out june.drpu

    drpu adapt fraud.drpu june.parquet --false-alarm 5 --miss 200

    drpu adapt fraud.drpu june.parquet --budget 200

    drpu adapt fraud.drpu june.parquet --audit to-label.csv --out june.drpu
    """
    from drpu import save
    from drpu.classifier.fitted import score_once
    from drpu.cli.reading import TextFormat, read
    from drpu.cli.rows import adapted_to, audit_in, chosen_budget, chosen_cost, load_classifier, rows_for
    from drpu.cli.show import check_out, standing

    form = TextFormat(sep, encoding, decimal)
    check_out(out, [artifact, data, audit])
    stated, looks = chosen_cost(cost, false_alarm, miss), chosen_budget(budget)
    classifier = load_classifier(artifact)
    if looks or audit is not None:
        X = score_once(classifier, rows_for(classifier, read(data, form), columns, drop))
        answers = None if audit is None else audit_in(classifier, X, audit, audit_label, form)
        adapted = classifier.adapt(X, cost=stated, level=level, audit=answers)
        adapted = adapted.at_budget(**looks, of=X) if looks else adapted
    else:
        adapted = adapted_to(classifier, data, columns, drop, form, cost=stated, level=level)
    if out is not None:
        save(adapted, out)
    if json:
        moved = {"moved_columns": list(adapted.moved_columns_)}
        show.as_json(standing(adapted) | moved | {"artifact": None if out is None else str(out)})
        return
    show.facts(
        {
            "share of positives": show.prior(adapted.prior_),
            "in training": show.prior(adapted.train_prior_),
            "threshold": f"ratio above {adapted.threshold_:.3g} (in training {classifier.threshold_:.3g})",
        }
        | ({} if looks else {"to expect": show.performance(adapted)})
        | show.bill(adapted)
        | show.budget(adapted)
        | ({} if out is None else {"written": str(out)})
    )
