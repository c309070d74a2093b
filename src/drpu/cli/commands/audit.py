"""``drpu audit``, ``evaluate`` and ``suspects``: rows to label, what labels show, labels that look wrong."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer

from drpu.cli.options import (
    Answers,
    By,
    Costs,
    Data,
    Formulas,
    Keep,
    Level,
    Output,
    Prior,
    Reading,
    Saved,
    Seed,
)
from drpu.cli.show import Result, about, standing
from drpu.report.texts import figure_text, number, share

_FIGURES = ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost", "prior")


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
    """Choose the rows whose true labels are most informative, and write them with a column to fill in.

    Fill in the column drpu_label with yes and no, 1 and 0, or the labels of training, and leave it blank
    where there is no answer. Lines may be sorted or deleted. Then give the file to drpu adapt --audit, with
    the same --by if it was planned by groups.

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
    from drpu.cli.tables import PIPE, beside, check_out, write_table

    check_out(out, [saved.artifact, data], table=True)
    reading.check(data)
    classifier = saved.load()
    loaded = reading.read(data, classifier)
    kept, X = loaded.kept(keep), reading.rows(classifier, loaded, used=[by])
    options: dict[str, Any] = {"n": n, "width": width, "level": level, "random_state": seed}
    with about(data):
        if by is None:
            plan = classifier.plan_audit(X, population=population, **options)
        else:
            plan = classifier.plan_audit_by(X, by=loaded.groups(by), **options)
    rows = None if kept is None else kept.take(plan.rows)
    write_table(out, beside(rows, plan.to_columns()), formulas=formulas)
    if by is None:
        names = ("n", "rows", "expected_width", "population", "level")
        facts = {name: getattr(plan, name) for name in names}
        how = f"the interval of the prior is expected to be {share(plan.expected_width)} wide"
    else:
        widths = {str(name): own.expected_width for name, own in plan.items()}
        facts = {
            "n": plan.n,
            "rows": plan.rows,
            "groups": {str(name): own.n for name, own in plan.items()},
        }
        facts |= {"expected_widths": widths, "level": level}
        how = f"{len(plan)} groups of {by}, whose intervals are expected to be at most "
        how += f"{share(max(widths.values()))} wide"
    grouped = [] if by is None else ["--by", by]
    then = ["drpu", "adapt", str(saved.artifact), data, *grouped, *reading.words]
    return Result(
        {"out": out} | facts,
        [
            f"{plan.n:,} rows to label; {how}",
            f"fill in the column drpu_label of {out} with yes or no, then run: "
            + shlex.join([*then, "--audit", out]),
        ],
        aside=out == PIPE,
    )


def evaluate(
    saved: Saved,
    data: Data,
    label: Annotated[
        str | None,
        typer.Option("--label", "-l", help="Column of true labels; DATA is a random sample."),
    ] = None,
    by: By = None,
    prior: Prior = None,
    level: Level = 0.95,
    *,
    answers: Answers,
    costs: Costs,
    reading: Reading,
) -> Result:
    """Accuracy, precision, recall and cost from true labels, with intervals.

    The labels come from a file that drpu audit wrote and that has been filled in, or from a column of DATA,
    whose rows are then treated as a random sample.

    Examples
    --------
    drpu evaluate june.drpu june.parquet --audit to-label.csv
    drpu evaluate june.drpu checked.csv --label is_fraud --json
    drpu evaluate fraud.drpu year.csv --label is_fraud --by month
    """
    if (label is None) == (answers.audit is None):
        raise typer.BadParameter(
            "give the true labels: a column (--label y) or an audit (--audit to-label.csv)."
        )
    reading.check(data)
    classifier = saved.load()
    loaded = reading.read(data, classifier)
    X = reading.rows(classifier, loaded, used=[label, by])
    classifier, y = costs.at(classifier, prior), None if label is None else loaded.column(label)
    if by is not None:
        with about(data):
            audits = answers.read(classifier, X, by=loaded.groups(by))
            found = classifier.evaluate_by(X, y, by=loaded.groups(by), audit=audits, level=level)
        lines = [
            [
                f"{by}={name}",
                f"{own.n:,}",
                *(_figure(figure, getattr(own, figure)) for figure in _FIGURES),
            ]
            for name, own in found.items()
        ]
        facts = [{"data": f"{by}={name}", "evaluation": own} for name, own in found.items()]
        head = ["data", "rows", *(name.replace("_", " ") for name in _FIGURES)]
        return Result({"found": facts} | standing(classifier), table=(head, lines))
    if y is None:
        found = classifier.evaluate(answers.read(classifier, X), level=level)
    else:
        with about(f"{data}, column {label!r}"):
            found = classifier.evaluate(X, y, level=level)
    rows = f"{found.n:,} rows with true labels; {found.level:.0%} intervals"
    figures = {name.replace("_", " "): _figure(name, getattr(found, name)) for name in _FIGURES}
    return Result({"evaluation": found} | standing(classifier), {"measured on": rows} | figures)


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
    """List labelled rows that look like no other positive, and unlabeled rows that equal a labelled one.

    The most suspicious label comes first, with the probability that it is wrong. The classifier has seen
    these rows, so its ratio is learnt again here, in folds that do not see the rows that they judge.

    Examples
    --------
    drpu suspects fraud.drpu train.parquet --label fraud --out check.csv
    drpu suspects fraud.drpu train.csv --label fraud --n 20 --keep id,amount
    """
    from drpu import suspects as find
    from drpu.cli.tables import PIPE, beside, check_out, write_table

    check_out(out, [saved.artifact, data], table=True)
    reading.check(data)
    classifier = saved.load()
    loaded = reading.read(data, classifier)
    kept, X = loaded.kept(keep), reading.rows(classifier, loaded, used=[label])
    y = loaded.column(label)
    with about(f"{data}, column {label!r}"):
        found = find(classifier, X, y, level=level, verbose=int(not output.json))
    columns = found.to_columns(n)
    values = {
        "expected": found.expected,
        "labelled": len(found.positions),
        "copies": len(found.copies),
    }
    rows = None if kept is None else kept.take(columns["row"])
    if out == PIPE and output.json:
        values |= {"suspects": columns}
        return Result(
            values if rows is None or keep is None else values | {"kept": rows.to_pydict()}
        )
    answers = {f"drpu_{name}": column for name, column in columns.items()}
    write_table(out, beside(rows, answers))
    lines = (
        [str(found)]
        if out == PIPE
        else [str(found), f"{len(columns['row']):,} rows written to {out}"]
    )
    return Result(values | {"out": out}, lines, aside=out == PIPE)


def _figure(name: str, figure: Any) -> str:
    if figure.value != figure.value:
        return "cannot be computed from these labels"
    return figure_text(figure, number if name == "cost" else share)
