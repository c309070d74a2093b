"""``drpu fit``: fits a classifier to the rows of a file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import drpu
from drpu.cli.options import (
    CostOptions,
    Data,
    OutputOptions,
    ReadingOptions,
    number_or_text,
    option,
    refuse,
)
from drpu.cli.show import Result, about, decision_lines, learnt, size, standing, table_lines
from drpu.exceptions import (
    DataTypeError,
    MissingValuesError,
    silent,
)
from drpu.priors.constants import FEW_ANSWERS
from drpu.report.texts import prior_text, scenario_text

# Those that no warning repeats.
_NOTES = (
    "case-control", "dates", "only-time", "different-numbers", "sorted", "left-out",
    "numbers-as-text", "codes", "text",
)  # fmt: skip


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
            "case-control (assumed with --unlabeled): unlabeled rows are a sample of the "
            "population beside the labelled ones."
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
    keep_time: Annotated[
        str | None,
        typer.Option(help="Columns of dates whose time itself is used: opened,closed; or all."),
    ] = None,
    keep_ids: Annotated[
        str | None,
        typer.Option(help="Identifiers to use, which are left out otherwise: case; or all."),
    ] = None,
    costs: CostOptions,
    reading: ReadingOptions,
    output: OutputOptions,
) -> Result:
    """Fit a classifier to labelled positives and unlabeled rows.

    Examples
    --------
    drpu fit train.parquet --label fraud --drop id,date --out fraud.drpu
    drpu fit confirmed.csv --unlabeled everything.csv --out fraud.drpu
    drpu fit train.csv.gz --label y --sep ';' --encoding latin-1 --out y.drpu
    drpu fit rows.csv --label y --pos-label yes --negative-label no --out y.drpu
    drpu fit two-years.csv --label fraud --period month --out fraud.drpu
    """
    _check_samples(train, label, unlabeled)
    if label is None:
        needing_labels = {
            "--pos-label": pos_label,
            "--negative-label": negative_label,
            "--period": period,
            "--label-delay": label_delay,
        }
        refuse(needing_labels, "needs a column of labels, --label y.")
    from drpu.cli.tables import check_out

    check_out(out, [train, unlabeled])
    reading.check(train, unlabeled)
    cost = 0.5 if costs.stated is None else costs.stated
    classifier = drpu.DRPUClassifier(
        model, prior=number_or_text(prior), cost=cost,
        scenario=scenario or "auto", label_delay=label_delay, random_state=0,
        verbose=int(sys.stderr.isatty() and not output.json),
    )  # fmt: skip
    known_negatives = 0
    if label is None:
        assert unlabeled is not None
        _fit_two_files(classifier, reading, train, unlabeled, weight, (keep_time, keep_ids))
    else:
        loaded = reading.read(train)
        classifier.set_params(**_columns_to_keep(loaded, keep_time, keep_ids))
        X, weights = reading.training_rows(loaded, weight, label=label)
        y = loaded.column(label)
        if period is not None and loaded.table is not None:
            period = loaded.name_of(period)
        with about(f"{train}, column {label!r}"):
            labels = _label_parameters(y, pos_label, negative_label)
        with about(train), _advice_for_columns():
            classifier.set_params(**labels).fit(X, y, sample_weight=weights, periods=period)
        if negative_label is not None:
            known_negatives = int((y == labels["negative_label"]).sum())
        _remember_left_out(classifier, reading.left_out(loaded, label))
    with about(out):
        drpu.save(classifier, out)
    written = out.stat().st_size
    facts = learnt(classifier.fitted_, type(classifier).__name__)
    values = facts | standing(classifier) | {"artifact": str(out), "bytes": written}
    assumed = scenario is None and unlabeled is None and classifier.scenario_ == "single-sample"
    lines = _lines(classifier, values, assumed=assumed, known_negatives=known_negatives)
    lines["written"] = f"{out} ({size(written)}, no training rows)"
    lines |= _next_step(classifier, out, unlabeled or train, label, reading)
    return Result(values, lines)


def _check_samples(train: str, label: str | None, unlabeled: str | None) -> None:
    """Raise unless labels or a second file tell the positives from the unlabeled rows."""
    if (label is None) == (unlabeled is None):
        raise typer.BadParameter(
            "give a column of labels (--label y) or a second file (--unlabeled u.csv)."
        )
    if unlabeled is not None and Path(unlabeled).resolve() == Path(train).resolve():
        raise typer.BadParameter(
            f"--unlabeled must be another file than that of the positives, {train}."
        )


def _columns_to_keep(
    loaded: Any, keep_time: str | None, keep_ids: str | None
) -> dict[str, bool | list[str]]:
    """Parameters of the classifier about columns that are used although new rows differ."""
    parameters: dict[str, bool | list[str]] = {}
    for name, words in (("keep_time", keep_time), ("keep_ids", keep_ids)):
        if words == "all":
            parameters[name] = True
        elif words is not None:
            parameters[name] = loaded.names_of(words)
    return parameters


def _fit_two_files(
    classifier: Any,
    reading: ReadingOptions,
    train: str,
    unlabeled: str,
    weight: str | None,
    keep: tuple[str | None, str | None],
) -> None:
    positives = reading.read(train)
    classifier.set_params(**_columns_to_keep(positives, *keep))
    others = reading.read(unlabeled)
    texts = positives.texts | others.texts  # a column that is text in one is text in both
    positives = reading.with_texts(positives, texts)
    others = reading.with_texts(others, texts)
    positive_rows, positive_weight = reading.training_rows(positives, weight)
    other_rows, other_weight = reading.training_rows(others, weight)
    weights = {"positive_weight": positive_weight, "unlabeled_weight": other_weight}
    with about(train), _advice_for_columns():
        classifier.fit_pu(positive_rows, other_rows, **weights)
    _remember_left_out(classifier, reading.left_out(positives) + reading.left_out(others))


def _remember_left_out(classifier: Any, names: list[str]) -> None:
    """Let later tables have the columns that were left out of this one, without a warning."""
    if names and classifier.table_ is not None:
        classifier._ignore_columns(names)


def _lines(
    classifier: Any, values: dict[str, Any], *, assumed: bool, known_negatives: int
) -> dict[str, str]:
    """What people read about a fit, without the file."""
    counts = f"{values['positives']:,.0f} positives and {values['unlabeled']:,.0f} unlabeled rows"
    if known_negatives:
        from drpu.models.crossfit import negative_part

        part = negative_part(classifier.model_)
        counts += f"; {known_negatives:,} known negatives have {part:.0%} of the score"
    scenario = scenario_text(classifier.fitted_)
    if assumed:
        scenario = f"assumed {scenario}"
    lines = {
        "fitted to": counts,
        "scenario": scenario,
        "share of positives": prior_text(classifier.prior_),
        "threshold": f"ratio above {classifier.threshold_:.3g}",
    }
    lines |= decision_lines(values)
    notes = [note for note in values["notes"] if note["code"] in _NOTES]
    return lines | table_lines(values | {"notes": notes})


def _next_step(
    classifier: Any, out: Path, rows: str, label: str | None, reading: ReadingOptions
) -> dict[str, str]:
    """The command that asks about rows: of training, if they do not identify the prior."""
    from drpu.cli.tables import NUMPY, ending_of

    if classifier.train_prior_.identified:
        words = ["drpu", "ask", str(out), "NEW_ROWS.csv"]
        return {"next": f"for new rows, answer for {FEW_ANSWERS} of them: {shlex.join(words)}"}
    hidden = None
    if ending_of(rows) not in NUMPY:
        hidden = label  # it would lead the answers
    words = ["drpu", "ask", str(out), rows, *replace(reading, columns=None, drop=hidden).words]
    answers = f"answers for {FEW_ANSWERS} rows identify the share of positives"
    return {"next": f"{answers}: {shlex.join(words)}"}


def _typed(y: Any, text: str | None) -> Any:
    """A label from the command line in the type of the labels."""
    if text is None or y.dtype.kind not in "iuf":
        return text
    number = number_or_text(text)
    if y.dtype.kind == "f" or isinstance(number, str) or not number.is_integer():
        return number
    return int(number)


def _label_parameters(y: Any, positive: str | None, negative: str | None) -> dict[str, Any]:
    """Parameters of the classifier about labels, in the type of the labels ``y``.

    Raises if it is not clear which label is that of the positives.
    """
    from drpu.state.labels import read_labels, split_negatives

    pos_label = _typed(y, positive)
    negative_label = _typed(y, negative)
    with silent():  # the fit warns of the same
        without_negatives = split_negatives(y, negative_label, pos_label)[0]
        read_labels(without_negatives, pos_label)
    return {"pos_label": pos_label, "negative_label": negative_label}


@contextmanager
def _advice_for_columns() -> Iterator[None]:
    """Errors about columns that cannot be used name the option that helps."""
    try:
        yield
    except MissingValuesError as error:
        raise MissingValuesError(
            f"{error} On the command line: use --model auto or boosted, or leave the columns out "
            "with --drop."
        ) from error
    except DataTypeError as error:
        raise DataTypeError(
            f"{error} On the command line: leave such columns out with --drop."
        ) from error
