"""``drpu fit``: fits a classifier to the rows of a file."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from drpu.cli.options import Costs, Data, Output, Reading, Seed, number_or_text, option, refuse
from drpu.cli.show import Result, about, decision_lines, learnt, size, standing, table_lines
from drpu.exceptions import (
    DataTypeError,
    LabelError,
    MissingValuesError,
    PositiveLabelWarning,
    heard,
)
from drpu.report.texts import prior_text, scenario_text

_SAID = ("case-control", "left-out", "text")  # notes that no warning repeats


def fit(
    train: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write the classifier to.")],
    *,
    label: Annotated[
        str | None,
        typer.Option("--label", "-l", help="Column that marks labelled positives with 1."),
    ] = None,
    unlabeled: Annotated[
        str | None,
        typer.Option(help="Second file with the unlabeled rows; then TRAIN holds positives only."),
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of row weights.")] = None,
    pos_label: Annotated[
        str | None,
        typer.Option(help="Label of the positives; the larger of two numbers if left out."),
    ] = None,
    negative_label: Annotated[
        str | None,
        typer.Option(help="Label of rows known to be negative; a blank is unlabeled then."),
    ] = None,
    model: Annotated[
        str, typer.Option(help="auto, boosted, classifier, kernel or network.")
    ] = "auto",
    scenario: Annotated[
        str | None,
        option(
            help="single-sample (assumed for one file): some positives of one sample are labelled. "
            "case-control (assumed with --unlabeled): unlabeled rows are a sample of the population beside "
            "the labelled ones."
        ),
    ] = None,
    prior: Annotated[str, typer.Option(help="Share of positives, or how to estimate it.")] = "auto",
    period: Annotated[
        str | None,
        typer.Option(
            help="Column of periods, such as months: past ones are read as a test; no feature."
        ),
    ] = None,
    label_delay: Annotated[
        int,
        typer.Option(
            help="Periods after which labels are complete; then those of new rows are a bound."
        ),
    ] = 0,
    seed: Seed = 0,
    jobs: Annotated[
        int, typer.Option(help="Folds fitted at the same time; -1 takes all cores.")
    ] = 1,
    costs: Costs,
    reading: Reading,
    output: Output,
) -> Result:
    """Fit a classifier to labelled positives and unlabeled rows.

    Examples
    --------
    drpu fit train.parquet --label fraud --drop id,date --out fraud.drpu
    drpu fit confirmed.csv --unlabeled everything.csv --out fraud.drpu
    drpu fit train.csv.gz --label y --sep ';' --encoding latin-1 --out y.drpu
    drpu fit train.csv --label checked --negative-label no --pos-label yes --out fraud.drpu
    drpu fit two-years.csv --label fraud --period month --out fraud.drpu
    """
    if (label is None) == (unlabeled is None):
        raise typer.BadParameter(
            "give a column of labels (--label y) or a second file (--unlabeled u.csv)."
        )
    if label is None:
        given = {"--pos-label": pos_label, "--negative-label": negative_label, "--period": period}
        refuse(given | {"--label-delay": label_delay}, "needs a column of labels, --label y.")
    if unlabeled is not None and Path(unlabeled).resolve() == Path(train).resolve():
        raise typer.BadParameter(
            f"--unlabeled must be another file than that of the positives, {train}."
        )
    if jobs == 0:
        raise typer.BadParameter(
            "--jobs must be a number of processes, or -1 for all cores, got 0."
        )
    from drpu import DRPUClassifier, save
    from drpu.cli.tables import PIPE, check_out

    check_out(out, [train, unlabeled])
    reading.check(train, unlabeled)
    cost = costs.stated
    classifier = DRPUClassifier(
        model, prior=number_or_text(prior), cost=0.5 if cost is None else cost,
        scenario=scenario or "auto", label_delay=label_delay, random_state=seed, n_jobs=jobs,
        verbose=int(sys.stderr.isatty() and not output.json),
    )  # fmt: skip
    loaded = reading.read(train)
    if label is not None:
        X, w = reading.training_rows(loaded, weight, without=label)
        y = loaded.column(label)
        negative = None if negative_label is None else _typed(y, negative_label)
        with about(f"{train}, column {label!r}"):
            positive = _positive_label(y, pos_label, negative)
        classifier.set_params(pos_label=positive, negative_label=negative)
        with about(train):
            _fitted(classifier.fit, X, y, sample_weight=w, periods=period)
    else:
        assert unlabeled is not None
        both = [loaded, reading.read(unlabeled)]
        texts = both[0].texts | both[1].texts  # NA or 1.0 means the same in both files
        again = [side.path != PIPE and side.texts < texts for side in both]
        pairs = zip(both, again, strict=True)
        both = [
            reading.read(side.path, texts=[*texts]) if differs else side for side, differs in pairs
        ]
        (P, w_p), (U, w_u) = (reading.training_rows(side, weight) for side in both)
        with about(train):
            _fitted(classifier.fit_pu, P, U, positive_weight=w_p, unlabeled_weight=w_u)
    with about(out):
        save(classifier, out)
    written = out.stat().st_size
    values = learnt(classifier) | standing(classifier) | {"artifact": str(out), "bytes": written}
    assumed = scenario is None and unlabeled is None and classifier.scenario_ == "single-sample"
    counted = f"{values['positives']:,.0f} positives and {values['unlabeled']:,.0f} unlabeled rows"
    known = ""
    if label is not None and negative is not None:
        part = sum(getattr(function, "share", 0.0) for function in classifier.model_.functions)
        part /= len(classifier.model_.functions)
        known = f"; {(y == negative).sum():,} known negatives have {part:.0%} of the score"
    return Result(
        values,
        {
            "fitted to": counted + known,
            "scenario": ("assumed " if assumed else "") + scenario_text(classifier.fitted_),
            "share of positives": prior_text(classifier.prior_),
            "threshold": f"ratio above {classifier.threshold_:.3g}",
        }
        | decision_lines(values)
        | table_lines(
            values | {"notes": [note for note in values["notes"] if note["code"] in _SAID]}
        )
        | {"written": f"{out} ({size(written)}, no training rows)"}
        | _next_step(classifier, out, train if unlabeled is None else unlabeled, reading),
    )


def _next_step(classifier: Any, out: Path, rows: str, reading: Reading) -> dict[str, str]:
    """The command that writes rows to label, if the data do not identify the prior."""
    if classifier.train_prior_.identified:
        return {}
    n = str(min(50, int(learnt(classifier)["unlabeled"])))
    command = shlex.join(
        ["drpu", "audit", str(out), rows, "--n", n, *reading.words, "--out", "to-label.csv"]
    )
    return {"next": f"true labels of {n} rows identify the share of positives: {command}"}


def _typed(y: Any, text: str) -> Any:
    """A label from the command line in the type of the labels."""
    if y.dtype.kind not in "iuf":
        return text
    number = number_or_text(text)
    whole = y.dtype.kind != "f" and not isinstance(number, str) and number.is_integer()
    return int(number) if whole else number


def _positive_label(y: Any, text: str | None, negative: Any = None) -> Any:
    """The positive label in the type of the labels; raises if it is not clear which one it is."""
    from drpu.classifier.labels import read_labels, split_negatives

    label: Any = None if text is None else _typed(y, text)
    y = split_negatives(y, negative, label)[0]
    with heard() as found:
        read_labels(y, label)
    if any(isinstance(warning, PositiveLabelWarning) for warning in found):
        import numpy as np

        values, counts = np.unique(y.astype(str), return_counts=True)
        pairs = zip(values.tolist(), counts, strict=True)
        shown = " and ".join(f"{value!r} ({n:,} rows)" for value, n in pairs)
        raise LabelError(
            f"the labels are {shown}: say which one marks the positives, with "
            f"--pos-label {' or --pos-label '.join(map(shlex.quote, values))}."
        )
    return label


def _fitted(fit: Any, *rows: Any, **weights: Any) -> None:
    """Fit; errors about columns that cannot be used name the option that helps."""
    try:
        fit(*rows, **weights)
    except MissingValuesError as error:
        raise MissingValuesError(
            f"{error} On the command line: use --model auto or boosted, or leave the columns out with --drop."
        ) from error
    except DataTypeError as error:
        raise DataTypeError(
            f"{error} On the command line: leave such columns out with --drop."
        ) from error
