"""``drpu audit``, ``drpu evaluate`` and ``drpu suspects``: true labels, and doubtful ones."""

from __future__ import annotations

import math
import shlex
from typing import Annotated, Any

import typer

import drpu
from drpu.cli.options import (
    AnswerOptions,
    Data,
    DecisionOptions,
    FormOptions,
    Formulas,
    Keep,
    OutputOptions,
    Prior,
    ReadingOptions,
    SavedOptions,
    option,
    refuse,
)
from drpu.cli.show import PIPE, Result, about, attributes, budget_text, standing, tie_text
from drpu.priors.constants import FEW_ANSWERS
from drpu.report.texts import figure_text, number, share


def audit(
    saved: SavedOptions,
    data: Data,
    out: Annotated[
        str, typer.Option("--out", "-o", help="The file to fill in, such as to-label.csv.")
    ],
    *,
    n: Annotated[
        int | None,
        option(
            "--n",
            "-n",
            help=f"Number of rows to label, {FEW_ANSWERS} if left out.",
        ),
    ] = None,
    width: Annotated[
        float | None,
        typer.Option(help="Instead of --n: width that the interval of the prior should have."),
    ] = None,
    keep: Keep = None,
    formulas: Formulas = False,
    form: FormOptions,
    reading: ReadingOptions,
) -> Result:
    """Choose the rows whose true labels are most informative, and write them to be filled in.

    drpu ask shows the same rows one at a time. Here somebody fills in the column drpu_label with
    yes and no, 1 and 0, or the labels of training, and leaves it blank where there is no answer.
    Lines may be sorted or deleted. Then give the file to drpu adapt --audit.

    Examples
    --------
    drpu audit fraud.drpu june.parquet --out to-label.csv
    drpu audit fraud.drpu june.csv --width 0.04 --keep id --out to-label.csv
    """
    if n is not None and width is not None:
        raise typer.BadParameter(
            "give a number of rows (--n 20) or the width of the interval (--width 0.04)."
        )
    from drpu.audits.plan import ROW
    from drpu.cli.tables import check_out, first_row, numbered, with_columns, write_tables

    check_out(out, [saved.artifact, data], table=True)
    reading.check(data)
    text_form = form.form(out, data, reading)
    classifier = saved.load()
    loaded = reading.open(classifier, data)
    kept = loaded.kept(keep)
    X = reading.scored(classifier, loaded)
    with about(data):
        plan = classifier.plan_audit(X, n=n, width=width, random_state=0)
    facts = attributes(plan, "n", "rows", "expected_width", "population", "level")
    columns = numbered(plan.to_columns(), first_row(data), ROW)
    table = with_columns(kept, columns, rows=plan.rows)
    write_tables(out, [table], formulas=formulas, form=text_form)
    next_command = ["drpu", "adapt", str(saved.artifact), data, *reading.words, "--audit", out]
    width_of_interval = share(plan.expected_width)
    lines = [
        f"{plan.n:,} rows to label; the interval of the prior is expected to be "
        f"{width_of_interval} wide",
        f"fill in the column drpu_label of {out} with yes or no, then run: "
        f"{shlex.join(next_command)}",
    ]
    return Result({"out": out} | facts, lines, aside=out == PIPE)


_FIGURES = ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost", "prior")


def evaluate(
    saved: SavedOptions,
    data: Data,
    label: Annotated[
        str | None,
        typer.Option("--label", "-l", help="Column of true labels; DATA is a random sample."),
    ] = None,
    blank: Annotated[
        str | None, option(help="What a blank label means: no, if only positives were marked.")
    ] = None,
    prior: Prior = None,
    *,
    answers: AnswerOptions,
    decision: DecisionOptions,
    reading: ReadingOptions,
) -> Result:
    """Accuracy, precision, recall and cost from true labels, with intervals.

    The labels come from a file that drpu audit wrote and that has been filled in, or from a column
    of DATA, whose rows are then treated as a random sample. With --budget 200, the precision of the
    200 rows with the highest scores is measured.

    Examples
    --------
    drpu evaluate june.drpu june.parquet --audit to-label.csv
    drpu evaluate june.drpu checked.csv --label is_fraud --json
    drpu evaluate fraud.drpu checked.csv --label confirmed --blank no
    drpu evaluate fraud.drpu checked.csv --label is_fraud --budget 200
    """
    _check_labels(label, answers, blank)
    meaning = {} if blank is None else {"blank": "negative"}
    reading.check(data)
    trained = saved.load()
    if label is None:
        loaded = reading.open(trained, data)
        X = reading.scored(trained, loaded)
    else:
        loaded = reading.read(data, trained)
        X = reading.rows(trained, loaded, used=[label])
    classifier = decision.applied_to(trained, prior)
    with about(data):
        classifier = decision.with_budget(classifier, X)
    y = loaded.optional_column(label)
    if y is None:
        evaluation = classifier.evaluate(answers.read(classifier, X))
    else:
        with about(f"{data}, column {label!r}"):
            evaluation = classifier.evaluate(X, y, **meaning)
    rows = f"{evaluation.n:,} rows with true labels; {evaluation.level:.0%} intervals"
    lines = {"measured on": rows}
    for name in _FIGURES:
        lines[name.replace("_", " ")] = _figure(name, evaluation)
    values = {"evaluation": evaluation} | standing(classifier)
    if decision.budget is not None:
        lines["decided by"] = budget_text(values["budget"]) + tie_text(values)
        if y is not None:
            listed = classifier.budget_.rows
            precision = _precision_of_list(classifier, y, blank, evaluation.level)
            values["budget"]["measured_precision"] = precision
            text = "cannot be computed: none of them has a true label"
            if precision is not None:
                text = figure_text(precision)
            lines["in the list"] = f"{len(listed):,} rows, precision {text}"
    return Result(values, lines)


def _check_labels(label: str | None, answers: AnswerOptions, blank: str | None) -> None:
    """Raise unless one of the options says where true labels are, and ``--blank`` fits them."""
    if (label is None) == (not answers.files):
        raise typer.BadParameter(
            "give the true labels: a column (--label y) or an audit (--audit to-label.csv)."
        )
    if label is None:
        refuse({"--blank": blank}, "is about a column of labels: give --label.")
    if blank not in (None, "no"):
        raise typer.BadParameter(
            f"--blank must be no, or be left out if a blank is no answer, got {blank!r}."
        )


def _precision_of_list(classifier: Any, y: Any, blank: str | None, level: float) -> Any:
    """The share of positives among the rows of the budget that have a true label, or None.

    More rows than these are flagged if several share the last score.
    """
    import numpy as np

    from drpu.priors.figures import Figure, exact_limits
    from drpu.state.labels import read_answers

    has_label, positive_labels = read_answers(y, classifier.classes_, name="y")
    positive = np.zeros(len(has_label), dtype=bool)
    positive[has_label] = positive_labels
    rows = classifier.budget_.rows
    if blank is None:  # otherwise a blank label is that of a negative
        rows = rows[has_label[rows]]
    if len(rows) == 0:
        return None
    precision = float(positive[rows].mean())
    low, high = exact_limits(precision, len(rows), (1 - level) / 2)
    return Figure(precision, low, high)


def _figure(name: str, evaluation: Any) -> str:
    figure = getattr(evaluation, name)
    if math.isnan(figure.value):
        return "cannot be computed from these labels"
    if name == "cost":
        return figure_text(figure, number)
    return figure_text(figure)


def suspects(
    saved: SavedOptions,
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
    form: FormOptions,
    reading: ReadingOptions,
    output: OutputOptions,
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
    from drpu.cli.tables import check_out, first_row, numbered, with_columns, write_tables

    check_out(out, [saved.artifact, data], table=True)
    reading.check(data)
    text_form = form.form(out, data, reading)
    classifier = saved.load()
    loaded = reading.read(data, classifier)
    kept = loaded.kept(keep)
    X = reading.rows(classifier, loaded, used=[label])
    y = loaded.column(label)
    with about(f"{data}, column {label!r}"):
        suspicious = drpu.suspects(classifier, X, y, verbose=int(not output.json))
    positions = suspicious.to_columns(n)
    columns = numbered(positions, first_row(data), "row", "copy_of")
    values = {
        "expected": suspicious.expected,
        "identified": suspicious.identified,
        "labelled": len(suspicious.positions),
        "copies": None if suspicious.copies is None else len(suspicious.copies),
    }
    if out == PIPE and output.json:
        values["suspects"] = columns
        if keep is not None:
            values["kept"] = kept.take(positions["row"]).to_pydict()
        return Result(values)
    new_columns = {f"drpu_{name}": column for name, column in columns.items()}
    table = with_columns(kept, new_columns, rows=positions["row"])
    write_tables(out, [table], form=text_form, six_digits=["drpu_probability"])
    lines = [str(suspicious)]
    if out != PIPE:
        lines.append(f"{len(columns['row']):,} rows written to {out}")
    return Result(values | {"out": out}, lines, aside=out == PIPE)
