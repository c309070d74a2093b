"""``drpu predict``: labels rows, with probabilities."""

from __future__ import annotations

from typing import Annotated

import typer

from drpu.cli import options as given
from drpu.cli import show
from drpu.cli.reading import PIPE

__all__ = ["predict"]


def predict(
    artifact: given.Artifact,
    data: given.Data,
    out: Annotated[str, typer.Option("--out", "-o", help="Output file; - is CSV on standard output.")] = PIPE,
    adapt: Annotated[bool, typer.Option("--adapt", help="Estimate the share of positives first.")] = False,
    prior: Annotated[float | None, typer.Option(help="The share of positives, if you know it.")] = None,
    cost: given.Cost = None,
    false_alarm: given.FalseAlarm = None,
    miss: given.Miss = None,
    budget: given.Budget = None,
    columns: given.Columns = None,
    drop: given.Drop = None,
    keep: Annotated[
        str | None,
        typer.Option(help="Input columns to keep in the output: id,date; default all.", show_default=False),
    ] = None,
    prefix: Annotated[str, typer.Option(help="Prefix of the names of the new columns.")] = "drpu_",
    level: given.Level = 0.95,
    sep: given.Sep = None,
    encoding: given.Encoding = None,
    decimal: given.Decimal = ".",
    json: given.Json = False,
) -> None:
    """Label rows, with probabilities: columns drpu_label, drpu_probability, drpu_ratio.

    Examples
    --------
    drpu predict fraud.drpu june.parquet --adapt --cost 0.8 --out june-scored.parquet

    drpu predict fraud.drpu june.csv --prior 0.02 --keep id > june-scored.csv

    drpu predict fraud.drpu june.csv --adapt --budget 200 --out look-at.csv

    cat june.csv | drpu predict fraud.drpu - --adapt --json | jq .flagged
    """
    if adapt and prior is not None:
        raise typer.BadParameter("--adapt estimates the prior and --prior sets it: give one of them.")
    from drpu.classifier.fitted import score_once
    from drpu.cli.reading import TextFormat, read
    from drpu.cli.rows import answers_for, chosen_budget, chosen_cost, kept_columns, load_classifier, rows_for
    from drpu.cli.show import beside, check_out, standing, write_table

    form = TextFormat(sep, encoding, decimal)
    check_out(out, [artifact, data], table=True)
    stated, looks = chosen_cost(cost, false_alarm, miss), chosen_budget(budget)
    classifier, loaded = load_classifier(artifact), read(data, form)
    kept = kept_columns(loaded, keep)
    X = score_once(classifier, rows_for(classifier, loaded, columns, drop))
    if adapt:
        classifier = classifier.adapt(X, cost=stated, level=level)
    elif prior is not None or stated is not None:
        classifier = classifier.at_prior(classifier.test_prior_ if prior is None else prior, cost=stated)
    if looks:
        classifier = classifier.at_budget(**looks, of=X)

    answers = answers_for(classifier, X, prefix)
    labels = answers[f"{prefix}label"]
    flagged = int((labels == classifier.classes_[1]).sum())
    summary = standing(classifier) | {"rows": len(labels), "flagged": flagged, "out": out}
    if out == PIPE and json:
        show.as_json(summary | {"answers": answers})
        return
    write_table(out, beside(kept, answers), inputs=[artifact, data])
    if json:
        show.as_json(summary)
        return
    show.say(
        f"{flagged:,} of {len(labels):,} rows flagged ({show.share(flagged / max(len(labels), 1))}); "
        f"share of positives {show.prior(classifier.test_prior_)}"
        + ("" if out == PIPE else f"; written to {out}"),
        aside=out == PIPE,
    )
