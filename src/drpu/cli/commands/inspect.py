"""``drpu inspect``: describes a saved classifier."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from drpu.cli.options import Saved
from drpu.cli.show import (
    Result,
    about,
    decision_lines,
    learnt,
    levels_line,
    listed,
    position,
    size,
    standing,
    table_lines,
)
from drpu.report.texts import prior_text, scenario_text


def inspect(
    saved: Saved,
    expected: Annotated[
        bool, typer.Option("--expected", help="Also show the expected performance.")
    ] = False,
) -> Result:
    """Describe a saved classifier, without any data.

    Estimators of scikit-learn in the file are read only with --trusted, which loads the whole
    classifier.

    Examples
    --------
    drpu inspect fraud.drpu
    drpu inspect fraud.drpu --json | jq .versions
    """
    from drpu.files.store import inspect_file

    with about(saved.artifact):
        file, record = inspect_file(saved.artifact)
        saved.check_digest(file.sha256)
        if saved.trusted:
            classifier = saved.load()
        else:
            classifier = saved.check_kind(record.classifier())
    values: dict[str, Any] = {
        "artifact": str(saved.artifact),
        "bytes": file.bytes,
        "versions": file.versions,
        "contents": file.contents,
        "loaded": saved.trusted,
    }
    values |= learnt(classifier) | position(classifier)
    lines = _lines(values, scenario_text(classifier.fitted_))
    lines |= levels_line(file.contents["category_levels"])
    lines |= table_lines(values)
    if expected:
        values |= standing(classifier)
        lines |= decision_lines(values)
    return Result(values, lines)


def _lines(values: dict[str, Any], scenario: str) -> dict[str, str]:
    from drpu.tables.values import is_missing_cell

    positives = f"{values['positives']:,.0f} positives"
    unlabeled = f"{values['unlabeled']:,.0f} unlabeled rows"
    not_positive, positive = values["classes"].tolist()
    if is_missing_cell(not_positive):
        not_positive = "a blank"
    versions = [f"{name} {version}" for name, version in values["versions"].items()]
    extent = "its facts; --trusted loads the whole classifier"
    if values["loaded"]:
        extent = "the whole classifier"
    return {
        "kind": values["kind"],
        "model": values["model"],
        "columns": _columns_text(values),
        "learnt from": f"{positives}, {unlabeled}",
        "labels": f"{positive!s} is positive, {not_positive!s} is not",
        "scenario": scenario,
        "training prior": prior_text(values["train_prior"]),
        "works at prior": prior_text(values["prior"]),
        "cost": str(values["cost"]),
        "threshold": f"ratio above {values['threshold']:.3g}",
        "written by": ", ".join(versions),
        "size": size(values["bytes"]),
        "read": extent,
    }


def _columns_text(values: dict[str, Any]) -> str:
    if values["row_shape"]:
        return f"none; rows of shape ({', '.join(map(str, values['row_shape']))})"
    if not values["columns"]:
        return f"{values['n_columns']} without names"
    return listed(values["columns"], most=8)
