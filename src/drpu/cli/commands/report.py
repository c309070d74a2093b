"""``drpu report``: writes an HTML report with a what-if explorer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drpu.cli.options import Answers, By, Decision, LevelOfNew, Reading, Saved, option, refuse
from drpu.cli.show import Result, about, size, standing


def report(
    saved: Saved,
    data: Annotated[
        str | None, typer.Argument(help="New rows, if any.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("report.html"),
    by: By = None,
    title: Annotated[str | None, option(help="Heading of the page.")] = None,
    beside: Annotated[
        str | None,
        option(help="Columns to show beside the rows to check: id,amount; none if left out."),
    ] = None,
    suspects: Annotated[
        str | None, option(help="File that drpu suspects wrote, for the page.")
    ] = None,
    *,
    level: LevelOfNew = None,
    decision: Decision,
    answers: Answers,
    reading: Reading,
) -> Result:
    """Write a self-contained HTML page: the fit, the change in new rows, and a what-if explorer.

    Examples
    --------
    drpu report fraud.drpu june.parquet --out june.html
    drpu report fraud.drpu june.parquet --budget 200 --beside id,amount --out june.html
    drpu report fraud.drpu year.parquet --by month --false-alarm 5 --miss 200 --out year.html
    drpu report fraud.drpu --cost 0.9 --suspects check.csv --out fraud.html
    """
    from drpu.cli.tables import check_out, read_written
    from drpu.report import write_report

    if data is None:
        if by is not None or answers.audit is not None or beside is not None:
            raise typer.BadParameter(
                "--by, --audit and --beside need new rows: give a file with them."
            )
        reason = "is that of the share in new rows: give a file with them."
        refuse({"--level": level is not None}, reason)
    check_out(out, [saved.artifact, data, answers.audit, suspects])
    reading.check(data)
    cost = decision.stated
    classifier = saved.load()
    heading = saved.artifact.name
    X = groups = audit = columns = None
    if data is not None:
        heading = f"{saved.artifact.stem} on {Path(data).stem}"
        loaded = reading.read(data, classifier)
        beside_names = loaded.names_of(beside)
        if beside_names:
            columns = {name: loaded.column(name) for name in beside_names}
        if by is not None:
            groups = loaded.groups(by)
        used = [by, *beside_names]
        X = reading.scored(classifier, loaded, used=used, mixed=by is None)
        audit = answers.read(classifier, X, by=groups, either=True)
    suspicious = None
    if suspects is not None:
        suspicious = read_written(suspects).suspects()
    with about(data or saved.artifact):
        described = write_report(
            classifier, X, out, cost=cost, level=level, title=title or heading, by=groups,
            by_name=by, audit=audit, budget=decision.checked, beside=columns, suspects=suspicious,
        )  # fmt: skip
    written = out.stat().st_size
    values = {"report": str(out), "bytes": written} | standing(described)
    line = f"{out} ({size(written)}): open it in a browser, it needs no network"
    return Result(values, [line])
