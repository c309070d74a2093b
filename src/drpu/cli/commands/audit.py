"""``drpu audit``: chooses rows for which true labels are needed."""

from __future__ import annotations

from typing import Annotated

import typer

from drpu.cli import options as given
from drpu.cli import show

__all__ = ["audit"]


def audit(
    artifact: given.Artifact,
    data: given.Data,
    out: Annotated[str, typer.Option("--out", "-o", help="The file to fill in, such as to-label.csv.")],
    n: Annotated[int | None, typer.Option("--n", "-n", help="Number of rows to label.")] = None,
    width: Annotated[
        float | None, typer.Option(help="Instead of --n: width that the interval of the prior should have.")
    ] = None,
    population: Annotated[
        str,
        typer.Option(help="auto or new: rows of any time; training: new rows of the training population."),
    ] = "auto",
    columns: given.Columns = None,
    drop: given.Drop = None,
    keep: Annotated[
        str | None, typer.Option(help="Columns to write beside the column to fill in; all if left out.")
    ] = None,
    level: given.Level = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the choice of rows.", min=0, max=2**32 - 1)] = 0,
    sep: given.Sep = None,
    encoding: given.Encoding = None,
    decimal: given.Decimal = ".",
    json: given.Json = False,
) -> None:
    """Choose the rows whose true labels are most informative, and write them with a column to fill in.

    Fill in the column drpu_label with 1 and 0, or with the labels of training; leave it empty where there is
    no answer. Then give the file to drpu adapt --audit.

    Examples
    --------
    drpu audit fraud.drpu june.parquet --n 100 --out to-label.csv

    drpu audit fraud.drpu june.parquet --width 0.04 --keep id,amount --out to-label.csv
    """
    if (n is None) == (width is None):
        raise typer.BadParameter(
            "give a number of rows (--n 100) or the width of the interval (--width 0.04)."
        )
    from drpu.cli.reading import PIPE, TextFormat, read
    from drpu.cli.rows import kept_columns, load_classifier, rows_for
    from drpu.cli.show import beside, check_out, write_table

    form = TextFormat(sep, encoding, decimal)
    check_out(out, [artifact, data], table=True)
    classifier, loaded = load_classifier(artifact), read(data, form)
    kept = kept_columns(loaded, keep)
    X = rows_for(classifier, loaded, columns, drop)
    plan = classifier.plan_audit(X, n=n, width=width, population=population, level=level, random_state=seed)
    rows = None if kept is None else kept.take(plan.rows)
    write_table(out, beside(rows, plan.to_columns()), inputs=[artifact, data])
    if json:
        show.as_json(
            {"out": out, "n": plan.n, "rows": plan.rows, "expected_width": plan.expected_width,
             "population": plan.population, "level": plan.level}
        )  # fmt: skip
        return
    show.say(
        f"{plan.n:,} rows to label; the interval of the prior is expected to be "
        f"{show.share(plan.expected_width)} wide",
        aside=out == PIPE,
    )
    show.say(
        f"fill in the column drpu_label of {out}, then run: drpu adapt {artifact} {data} --audit {out}",
        aside=out == PIPE,
    )
