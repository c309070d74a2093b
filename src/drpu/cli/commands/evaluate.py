"""``drpu evaluate``: measures performance with true labels."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from drpu.cli import options as given
from drpu.cli import show

__all__ = ["evaluate"]

_FIGURES = ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost", "prior")


def evaluate(
    artifact: given.Artifact,
    data: given.Data,
    label: Annotated[
        str | None, typer.Option("--label", "-l", help="Column of true labels; DATA is a random sample.")
    ] = None,
    audit: given.Audit = None,
    audit_label: given.AuditLabel = "drpu_label",
    prior: Annotated[float | None, typer.Option(help="The share of positives, if you know it.")] = None,
    cost: given.Cost = None,
    false_alarm: given.FalseAlarm = None,
    miss: given.Miss = None,
    columns: given.Columns = None,
    drop: given.Drop = None,
    level: given.Level = 0.95,
    sep: given.Sep = None,
    encoding: given.Encoding = None,
    decimal: given.Decimal = ".",
    json: given.Json = False,
) -> None:
    """Accuracy, precision, recall and cost from true labels, with intervals.

    The labels come from a file that drpu audit wrote and that has been filled in, or from a column of DATA,
    whose rows are then treated as a random sample.

    Examples
    --------
    drpu evaluate june.drpu june.parquet --audit to-label.csv

    drpu evaluate june.drpu checked.csv --label is_fraud --json
    """
    if (label is None) == (audit is None):
        raise typer.BadParameter(
            "give the true labels: a column (--label y) or an audit (--audit to-label.csv)."
        )
    from drpu.cli.reading import TextFormat, read
    from drpu.cli.rows import audit_in, chosen_cost, load_classifier, rows_for
    from drpu.cli.show import standing

    form = TextFormat(sep, encoding, decimal)
    stated = chosen_cost(cost, false_alarm, miss)
    classifier, loaded = load_classifier(artifact), read(data, form)
    X = rows_for(classifier, loaded, columns, drop, used=label)
    if prior is not None or stated is not None:
        classifier = classifier.at_prior(classifier.test_prior_ if prior is None else prior, cost=stated)
    if audit is not None:
        found = classifier.evaluate(audit_in(classifier, X, audit, audit_label, form), level=level)
    else:
        assert label is not None
        found = classifier.evaluate(X, loaded.column(label), level=level)
    if json:
        show.as_json({"evaluation": found} | standing(classifier))
        return
    show.say(f"{found.n:,} rows with true labels; {found.level:.0%} intervals")
    show.facts({name.replace("_", " "): _figure(name, getattr(found, name)) for name in _FIGURES})


def _figure(name: str, figure: Any) -> str:
    if figure.value != figure.value:
        return "cannot be computed from these labels"
    if name == "cost":
        return f"{figure.value:.3g} ({figure.low:.3g} to {figure.high:.3g})"
    return f"{show.share(figure.value)} ({show.share(figure.low)} to {show.share(figure.high)})"
