"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Artifact",
    "Audit",
    "AuditLabel",
    "Budget",
    "Columns",
    "Cost",
    "Data",
    "Decimal",
    "Drop",
    "Encoding",
    "FalseAlarm",
    "Json",
    "Level",
    "Miss",
    "Sep",
]

Artifact = Annotated[Path, typer.Argument(help="A classifier that drpu fit wrote.", show_default=False)]
Data = Annotated[
    str,
    typer.Argument(
        help="CSV, TSV, JSON lines (each also .gz), Parquet, Arrow, npz; - is CSV on the standard input.",
        show_default=False,
    ),
]
Columns = Annotated[str | None, typer.Option("--columns", "-c", help="Use these columns only: a,b,c.")]
Drop = Annotated[str | None, typer.Option("--drop", "-d", help="Leave these columns out: id,date.")]
Sep = Annotated[
    str | None,
    typer.Option(help="Separator of text files: ';', '|', tab. A comma if left out; a tab for .tsv."),
]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of text files, such as latin-1 or utf-16. UTF-8 if left out.")
]
Decimal = Annotated[str, typer.Option(help="Decimal mark of text files: . or ,")]
Cost = Annotated[
    float | None,
    typer.Option(help="False-positive cost in (0, 1); k/(1+k) for k times a miss.", show_default=False),
]
FalseAlarm = Annotated[
    float | None, typer.Option(help="Cost of a false alarm, as an amount; with --miss.", show_default=False)
]
Miss = Annotated[
    float | None, typer.Option(help="Cost of a miss, as an amount; with --false-alarm.", show_default=False)
]
Budget = Annotated[
    str | None,
    typer.Option(help="Rows that can be checked: a number, or a share such as 2%.", show_default=False),
]
Audit = Annotated[
    str | None,
    typer.Option(help="File that drpu audit wrote for these rows, filled in.", show_default=False),
]
AuditLabel = Annotated[str, typer.Option(help="Column of that file with the answers.")]
Level = Annotated[float, typer.Option(help="Confidence level of the interval.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, also for errors.")]
