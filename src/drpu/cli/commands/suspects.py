"""``drpu suspects``: lists labels that look wrong, and copies of labelled rows."""

from __future__ import annotations

from typing import Annotated

import typer

import drpu
from drpu.cli.options import Data, Keep, Level, Output, Reading, Saved
from drpu.cli.show import Result, about


def suspects(
    saved: Saved,
    data: Data,
    label: Annotated[str, typer.Option("--label", "-l", help="Column of labels, as in training.")],
    out: Annotated[
        str, typer.Option("--out", "-o", help="Output file; - is CSV on standard output.")
    ] = "-",
    *,
    n: Annotated[
        int | None,
        typer.Option(
            "--n", "-n", min=0, help="Labelled rows to list; default: as many as may be wrong."
        ),
    ] = None,
    keep: Keep = None,
    level: Level = 0.95,
    reading: Reading,
    output: Output,
) -> Result:
    """List labelled rows unlike other positives, and unlabeled rows that equal a labelled one.

    The most suspicious label comes first, with the probability that it is wrong. The classifier has
    seen these rows, so its ratio is learnt again here, in folds that do not see the rows that they
    judge.

    Examples
    --------
    drpu suspects fraud.drpu train.parquet --label fraud --out check.csv
    drpu suspects fraud.drpu train.csv --label fraud --n 20 --keep id,amount
    """
    from drpu.cli.tables import PIPE, check_out, with_columns, write_table

    check_out(out, [saved.artifact, data], table=True)
    reading.check(data)
    classifier = saved.load()
    loaded = reading.read(data, classifier)
    kept = loaded.kept(keep)
    X = reading.rows(classifier, loaded, used=[label])
    y = loaded.column(label)
    with about(f"{data}, column {label!r}"):
        suspicious = drpu.suspects(classifier, X, y, level=level, verbose=int(not output.json))
    columns = suspicious.to_columns(n)
    values = {
        "expected": suspicious.expected,
        "labelled": len(suspicious.positions),
        "copies": len(suspicious.copies),
    }
    if out == PIPE and output.json:
        values["suspects"] = columns
        if keep is not None:
            values["kept"] = kept.take(columns["row"]).to_pydict()
        return Result(values)
    new_columns = {f"drpu_{name}": column for name, column in columns.items()}
    write_table(out, with_columns(kept, new_columns, rows=columns["row"]))
    lines = [str(suspicious)]
    if out != PIPE:
        lines.append(f"{len(columns['row']):,} rows written to {out}")
    return Result(values | {"out": out}, lines, aside=out == PIPE)
