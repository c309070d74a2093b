"""``drpu prior``: estimates the share of positives by file, group or month."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from drpu.cli import options as given
from drpu.cli import show

__all__ = ["prior"]


def prior(
    artifact: given.Artifact,
    data: Annotated[list[str], typer.Argument(help="One file or more.", show_default=False)],
    by: Annotated[str | None, typer.Option(help="Column to group by, such as month.")] = None,
    columns: given.Columns = None,
    drop: given.Drop = None,
    level: given.Level = 0.95,
    sep: given.Sep = None,
    encoding: given.Encoding = None,
    decimal: given.Decimal = ".",
    json: given.Json = False,
) -> None:
    """Share of positives in new rows, file by file or group by group, with intervals.

    With --by, the intervals hold for all groups of a file together, and the values of small groups
    are shrunk towards the share of all rows.

    Examples
    --------
    drpu prior fraud.drpu april.csv may.csv june.csv

    drpu prior fraud.drpu year.parquet --by month --json
    """
    from drpu.classifier.profiles import OTHER_SHIFT
    from drpu.cli.reading import TextFormat, read
    from drpu.cli.rows import adapted_to, group_values, load_classifier, rows_for
    from drpu.cli.show import train_prior

    form = TextFormat(sep, encoding, decimal)
    classifier = load_classifier(artifact)
    found: list[dict[str, Any]] = []
    for path in data:
        if by is None:
            adapted = adapted_to(classifier, path, columns, drop, form, level=level)
            found.append({"data": path, "prior": adapted.test_prior_, "p_value": adapted.shift_test_.p_value})
            continue
        loaded = read(path, form)
        X = rows_for(classifier, loaded, columns, drop, used=by)
        for group in classifier.adapt_by(X, by=group_values(loaded, by), level=level):
            found.append(
                {
                    "data": f"{by}={group.name}",
                    "rows": group.n,
                    "prior": group.prior,
                    "alone": group.alone,
                    "weight": group.weight,
                    "p_value": group.p_value,
                }
            )
    if json:
        show.as_json({"train_prior": train_prior(classifier), "found": found})
        return
    lines = [["(training)", *_numbers(train_prior(classifier)), ""]]
    for item in found:
        only = "no" if item["p_value"] < OTHER_SHIFT else "yes"
        lines.append([item["data"], *_numbers(item["prior"]), only])
    show.table(["data", "prior", "low", "high", "only the prior changed"], lines)


def _numbers(prior: Any) -> list[str]:
    return [f"{number:.4f}" for number in (prior.value, prior.low, prior.high)]
