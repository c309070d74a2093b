"""``drpu prior``: estimates the share of positives by file, group or month."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from drpu.cli.options import Answers, By, Level, Reading, Saved
from drpu.cli.show import PRIOR_HEAD, Result, about, attributes, prior_cells
from drpu.report.texts import share


def prior(
    saved: Saved,
    data: Annotated[list[str], typer.Argument(help="One file or more.", show_default=False)],
    by: By = None,
    level: Level = 0.95,
    *,
    answers: Answers,
    reading: Reading,
) -> Result:
    """Share of positives in new rows, file by file or group by group, with intervals.

    With --by, the intervals hold for all groups of a file together, and the values of small groups
    are shrunk towards the share of all rows. With --audit, the shares come from answers: give the
    file that drpu audit --by wrote, filled in.

    Examples
    --------
    drpu prior fraud.drpu april.csv may.csv june.csv
    drpu prior fraud.drpu year.parquet --by month --json
    drpu prior fraud.drpu year.parquet --by month --audit to-label.csv
    """
    if answers.audit is not None and (by is None or len(data) > 1):
        raise typer.BadParameter(
            "--audit needs one file and the column of its groups (--by month)."
        )
    reading.check(*data)
    classifier = saved.load()
    train = classifier.train_prior_
    facts: list[dict[str, Any]] = []
    limits = [share(train.value), share(train.low), share(train.high)]
    rows = [["(training)", *limits, "", ""]]
    for path in data:
        if by is None:
            adapted = reading.adapt(classifier, path, level=level)
            facts.append(
                {
                    "data": path,
                    "prior": adapted.test_prior_,
                    "p_value": adapted.shift_test_.p_value,
                    "shift": adapted.shift_,
                }
            )
            rows.append([path, *prior_cells(adapted), ""])
            continue
        loaded = reading.read(path, classifier)
        X = reading.rows(classifier, loaded, used=[by])
        groups_of_rows = loaded.groups(by)
        with about(path):
            audit = answers.read(classifier, X, by=groups_of_rows)
            groups = classifier.adapt_by(X, by=groups_of_rows, level=level, audit=audit)
        for group in groups:
            group_name = f"{by}={group.name}"
            names = ("prior", "alone", "weight", "p_value", "shift", "warnings")
            facts.append({"data": group_name, "rows": group.n} | attributes(group, *names))
            rows.append([group_name, *prior_cells(group), ", ".join(group.warnings)])
    head = ["data", *PRIOR_HEAD, "warnings"]
    return Result({"train_prior": train, "found": facts}, table=(head, rows))
