"""``drpu audit``: chooses rows for which true labels are needed."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer

from drpu.cli.options import By, Data, Formulas, Keep, Level, Reading, Saved, Seed
from drpu.cli.show import Result, about, attributes
from drpu.report.texts import share


def audit(
    saved: Saved,
    data: Data,
    out: Annotated[
        str, typer.Option("--out", "-o", help="The file to fill in, such as to-label.csv.")
    ],
    *,
    n: Annotated[
        int | None,
        typer.Option("--n", "-n", help="Number of rows to label; with --by, in each group."),
    ] = None,
    width: Annotated[
        float | None,
        typer.Option(help="Instead of --n: width that the interval of the prior should have."),
    ] = None,
    population: Annotated[
        str,
        typer.Option(
            help="auto or new: rows of any time; training: new rows of the training population."
        ),
    ] = "auto",
    by: By = None,
    keep: Keep = None,
    formulas: Formulas = False,
    level: Level = 0.95,
    seed: Seed = 0,
    reading: Reading,
) -> Result:
    """Choose the rows whose true labels are most informative, and write them to be filled in.

    Fill in the column drpu_label with yes and no, 1 and 0, or the labels of training, and leave it
    blank where there is no answer. Lines may be sorted or deleted. Then give the file to drpu adapt
    --audit, with the same --by if it was planned by groups.

    Examples
    --------
    drpu audit fraud.drpu june.parquet --n 100 --out to-label.csv
    drpu audit fraud.drpu june.parquet --width 0.04 --keep id,amount --out to-label.csv
    drpu audit fraud.drpu year.parquet --by month --n 50 --out to-label.csv
    """
    if (n is None) == (width is None):
        raise typer.BadParameter(
            "give a number of rows (--n 100) or the width of the interval (--width 0.04)."
        )
    if by is not None and population != "auto":
        raise typer.BadParameter("--population is about all rows: give it without --by.")
    from drpu.cli.tables import PIPE, check_out, with_columns, write_table

    check_out(out, [saved.artifact, data], table=True)
    reading.check(data)
    classifier = saved.load()
    loaded = reading.read(data, classifier)
    kept = loaded.kept(keep)
    X = reading.rows(classifier, loaded, used=[by])
    options: dict[str, Any] = {"n": n, "width": width, "level": level, "random_state": seed}
    with about(data):
        if by is None:
            plan = classifier.plan_audit(X, population=population, **options)
            facts, expectation = _plan_facts(plan)
        else:
            plan = classifier.plan_audit_by(X, by=loaded.groups(by), **options)
            facts, expectation = _group_facts(plan, by, level)
    table = with_columns(kept, plan.to_columns(), rows=plan.rows)
    write_table(out, table, formulas=formulas)
    next_command = ["drpu", "adapt", str(saved.artifact), data]
    if by is not None:
        next_command += ["--by", by]
    next_command += [*reading.words, "--audit", out]
    lines = [
        f"{plan.n:,} rows to label; {expectation}",
        f"fill in the column drpu_label of {out} with yes or no, then run: "
        f"{shlex.join(next_command)}",
    ]
    return Result({"out": out} | facts, lines, aside=out == PIPE)


def _plan_facts(plan: Any) -> tuple[dict[str, Any], str]:
    """Values of a plan for JSON, and what is expected of it."""
    facts = attributes(plan, "n", "rows", "expected_width", "population", "level")
    return facts, f"the interval of the prior is expected to be {share(plan.expected_width)} wide"


def _group_facts(plans: Any, by: str, level: float) -> tuple[dict[str, Any], str]:
    """The same for the plans of groups."""
    sizes = {}
    widths = {}
    for name, plan in plans.items():
        sizes[str(name)] = plan.n
        widths[str(name)] = plan.expected_width
    facts = {
        "n": plans.n,
        "rows": plans.rows,
        "groups": sizes,
        "expected_widths": widths,
        "level": level,
    }
    widest = share(max(widths.values()))
    expectation = f"{len(plans)} groups of {by}, whose intervals are expected to be at most "
    return facts, f"{expectation}{widest} wide"
