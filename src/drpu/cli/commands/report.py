"""``drpu report``: writes an HTML report with a what-if explorer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drpu.cli import options as given
from drpu.cli import show

__all__ = ["report"]


def report(
    artifact: given.Artifact,
    data: Annotated[str | None, typer.Argument(help="New rows, if any.", show_default=False)] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("report.html"),
    columns: given.Columns = None,
    drop: given.Drop = None,
    cost: given.Cost = None,
    false_alarm: given.FalseAlarm = None,
    miss: given.Miss = None,
    budget: given.Budget = None,
    by: Annotated[str | None, typer.Option(help="Column to group the new rows by, such as month.")] = None,
    audit: given.Audit = None,
    audit_label: given.AuditLabel = "drpu_label",
    level: given.Level = 0.95,
    title: Annotated[str | None, typer.Option(help="Heading of the page.", show_default=False)] = None,
    sep: given.Sep = None,
    encoding: given.Encoding = None,
    decimal: given.Decimal = ".",
    json: given.Json = False,
) -> None:
    """Write a self-contained HTML page: the fit, the change in new rows, and a what-if explorer.

    Examples
    --------
    drpu report fraud.drpu june.parquet --out june.html

    drpu report fraud.drpu june.parquet --budget 200 --out june.html

    drpu report fraud.drpu year.parquet --by month --false-alarm 5 --miss 200 --out year.html

    drpu report fraud.drpu --cost 0.9 --out fraud.html
    """
    from drpu.classifier.fitted import score_once
    from drpu.cli.reading import TextFormat, read
    from drpu.cli.rows import audit_in, chosen_budget, chosen_cost, group_values, load_classifier, rows_for
    from drpu.cli.show import check_out, standing
    from drpu.report import write_report

    if data is None and (by is not None or audit is not None):
        raise typer.BadParameter("--by and --audit need new rows: give a file with them.")
    form = TextFormat(sep, encoding, decimal)
    check_out(out, [artifact, data, audit])
    stated, looks = chosen_cost(cost, false_alarm, miss), chosen_budget(budget)
    classifier = load_classifier(artifact)
    loaded = None if data is None else read(data, form)
    X = None if loaded is None else rows_for(classifier, loaded, columns, drop, used=by)
    groups = None if by is None or loaded is None else group_values(loaded, by)
    heading = title or (artifact.name if data is None else f"{artifact.stem} on {Path(data).stem}")
    answers = None
    if audit is not None:
        X = score_once(classifier, X)
        answers = audit_in(classifier, X, audit, audit_label, form)
    at = write_report(
        classifier, X, out, cost=stated, level=level, title=heading, by=groups, by_name=by, audit=answers,
        budget=looks.get("rows", looks.get("share")),
    )  # fmt: skip
    if json:
        show.as_json({"report": str(out), "bytes": out.stat().st_size} | standing(at))
        return
    show.say(f"{out} ({show.size(out.stat().st_size)}): open it in a browser, it needs no network")
