"""``drpu inspect``, ``verify``, ``report`` and ``demo``: what a file holds and what it does."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import drpu
from drpu.cli.options import (
    AnswerOptions,
    By,
    DecisionOptions,
    OutputOptions,
    ReadingOptions,
    SavedOptions,
    option,
)
from drpu.cli.show import (
    COST_ONLY_EXPECTED,
    Result,
    about,
    learnt,
    levels_line,
    listed,
    position,
    position_at,
    size,
    standing,
    table_lines,
)
from drpu.report.texts import labels_text, prior_text, scenario_text


def inspect(saved: SavedOptions) -> Result:
    """Describe a saved classifier, without any data.

    Estimators of scikit-learn in the file are read only with --trusted, which loads the whole
    classifier.

    Examples
    --------
    drpu inspect fraud.drpu
    drpu inspect fraud.drpu --json | jq .versions
    """
    from drpu._codec import kind_of
    from drpu.classifier.records import AdaptedRecord, DRPURecord
    from drpu.files.store import inspect_file

    with about(saved.artifact):
        file, record = inspect_file(saved.artifact)
        saved.check_digest(file.sha256)
        is_ratio = isinstance(record, (DRPURecord, AdaptedRecord))
        classifier = None
        if saved.trusted:
            classifier = saved.load()
        elif not is_ratio:
            classifier = saved.check_kind(record.classifier())
    values: dict[str, Any] = {
        "artifact": str(saved.artifact),
        "bytes": file.bytes,
        "versions": file.versions,
        "contents": file.contents,
        "loaded": saved.trusted,
    }
    if classifier is None:  # none is made, because that needs scikit-learn
        assert isinstance(record, (DRPURecord, AdaptedRecord))
        fitted = record.fitted
        point: Any = record.point
        reading = getattr(record, "reading", None)
        values |= learnt(fitted, file.kind) | position_at(fitted, point, reading)
    else:
        fitted = classifier.fitted_
        point = getattr(classifier, "point_", None)
        values |= learnt(fitted, type(classifier).__name__) | position(classifier)
    lines = _lines(values, scenario_text(fitted))
    if kind_of(type(point)) == "at-budget":  # the class would import what measures budgets
        lines["decided by"] = f"the threshold of a budget; {COST_ONLY_EXPECTED}"
    lines |= levels_line(file.contents["category_levels"])
    lines |= table_lines(values)
    return Result(values, lines)


def _lines(values: dict[str, Any], scenario: str) -> dict[str, str]:
    positives = f"{values['positives']:,.0f} positives"
    unlabeled = f"{values['unlabeled']:,.0f} unlabeled rows"
    versions = [f"{name} {version}" for name, version in values["versions"].items()]
    if values["row_shape"]:
        columns = f"none; rows of shape ({', '.join(map(str, values['row_shape']))})"
    elif values["columns"]:
        columns = listed(values["columns"], most=8)
    else:
        columns = f"{values['n_columns']} without names"
    extent = "its facts; --trusted loads the whole classifier"
    if values["loaded"]:
        extent = "the whole classifier"
    return {
        "kind": values["kind"],
        "model": values["model"],
        "columns": columns,
        "learnt from": f"{positives}, {unlabeled}",
        "labels": labels_text(values["classes"]),
        "scenario": scenario,
        "training prior": prior_text(values["train_prior"]),
        "works at prior": prior_text(values["prior"]),
        "cost": str(values["cost"]),
        "threshold": f"ratio above {values['threshold']:.3g}",
        "written by": ", ".join(versions),
        "size": size(values["bytes"]),
        "read": extent,
    }


def verify(saved: SavedOptions) -> Result:
    """Check a saved classifier without loading it: sizes, names, digests, types, states and trees.

    Digests inside the file detect accidental damage only. To detect a file that was changed on
    purpose, give the digest that you expect.

    Examples
    --------
    drpu verify fraud.drpu
    drpu verify fraud.drpu --sha256 DIGEST --json
    """
    with about(saved.artifact):
        summary = drpu.verify(
            saved.artifact,
            trusted=saved.trusted,
            expected_sha256=saved.sha256,
        )
    values = {"artifact": str(saved.artifact), "verified": True} | summary.as_dict()
    lines = {"verified": str(saved.artifact)} | summary.lines()
    return Result(values, lines | {"size": size(summary.bytes)})


def report(
    saved: SavedOptions,
    data: Annotated[
        str | None, typer.Argument(help="New rows, if any.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("report.html"),
    by: By = None,
    beside: Annotated[
        str | None,
        option(
            help="Columns to show beside the rows to check: id,amount. Identifiers that training "
            "left out by default."
        ),
    ] = None,
    suspects: Annotated[
        str | None, option(help="File that drpu suspects wrote, for the page.")
    ] = None,
    *,
    decision: DecisionOptions,
    answers: AnswerOptions,
    reading: ReadingOptions,
) -> Result:
    """Write a self-contained HTML page: the fit, the change in new rows, and a what-if explorer.

    Examples
    --------
    drpu report fraud.drpu june.parquet --out june.html
    drpu report fraud.drpu june.csv --budget 200 --beside id,amount --out x.html
    drpu report fraud.drpu year.csv --by month --false-alarm 5 --miss 200
    drpu report fraud.drpu --cost 0.9 --suspects check.csv --out fraud.html
    """
    from drpu.cli.tables import check_out, first_row, read_written
    from drpu.report import write_report

    if data is None and (by is not None or answers.files or beside is not None):
        raise typer.BadParameter("--by, --audit and --beside need new rows: give a file with them.")
    check_out(out, [saved.artifact, data, *answers.files, suspects])
    reading.check(data)
    cost = decision.stated
    classifier = saved.load()
    heading = saved.artifact.name
    X = groups = audit = columns = None
    first = 0
    if data is not None:
        heading = f"{saved.artifact.stem} on {Path(data).stem}"
        loaded = reading.read(data, classifier)
        first = first_row(data)
        beside_names = loaded.names_of(beside)
        if beside is None:
            beside_names = _identifiers(classifier, loaded)
        if beside_names:
            columns = {name: loaded.column(name) for name in beside_names}
        if by is not None:
            groups = loaded.groups(by)
        used = [by, *beside_names]
        X = reading.scored(classifier, loaded, used=used, mixed=by is None)
        audit = answers.read(classifier, X)
    suspicious = None
    if suspects is not None:
        suspicious = read_written(suspects).suspects()
    with about(data or saved.artifact):
        described = write_report(
            classifier, X, out, cost=cost, title=heading, by=groups,
            by_name=by, audit=audit, budget=decision.checked, beside=columns, suspects=suspicious,
            first_row=first,
        )  # fmt: skip
    written = out.stat().st_size
    values = {"report": str(out), "bytes": written} | standing(described)
    line = f"{out} ({size(written)}): open it in a browser, it needs no network"
    return Result(values, [line])


def _identifiers(classifier: Any, loaded: Any) -> list[str]:
    """The columns of a file that training left out as identifiers."""
    names = []
    for note in classifier.fitted_.columns.notes:
        if note.code == "left-out" and note.column in loaded.names:
            names.append(note.column)
    return names


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the files.")] = Path("demo"),
    *,
    output: OutputOptions,
) -> Result:
    """Train on images of digits, change the share of even ones, and show the adapted classifier.

    Example

    drpu demo --out demo
    """
    from drpu.demo import main

    progress = sys.stderr if output.json else sys.stdout
    with contextlib.redirect_stdout(progress):
        main(["--out", str(out)])
    return Result({"files": sorted(str(path) for path in out.iterdir())})
