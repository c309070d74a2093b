"""``drpu inspect`` and ``drpu verify``: describe and check a saved classifier."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from drpu.cli.options import Saved, option
from drpu.cli.show import (
    Result,
    about,
    decision_lines,
    learnt,
    levels_line,
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

    Estimators of scikit-learn in the file are read only with --trusted, which loads the whole classifier.

    Examples
    --------
    drpu inspect fraud.drpu
    drpu inspect fraud.drpu --json | jq .versions
    """
    from drpu.files.store import inspect_file

    with about(saved.artifact):
        file, record = inspect_file(saved.artifact)
        saved.check_digest(file.sha256)
        classifier = saved.load() if saved.trusted else saved.check_kind(record.classifier())
    values: dict[str, Any] = {
        "artifact": str(saved.artifact),
        "bytes": file.bytes,
        "versions": file.versions,
    }
    values |= (
        {"contents": file.contents, "loaded": saved.trusted}
        | learnt(classifier)
        | position(classifier)
    )
    names = values["columns"] or [f"{values['n_columns']} without names"]
    if values["row_shape"]:
        names = [f"none; rows of shape ({', '.join(map(str, values['row_shape']))})"]
    lines = {
        "kind": values["kind"],
        "model": values["model"],
        "columns": ", ".join(map(str, names[:8])) + (", ..." if len(names) > 8 else ""),
        "learnt from": f"{values['positives']:,.0f} positives, {values['unlabeled']:,.0f} unlabeled rows",
        "labels": f"{values['classes'][1]!s} is positive, {values['classes'][0]!s} is not",
        "scenario": scenario_text(classifier.fitted_),
        "training prior": prior_text(values["train_prior"]),
        "works at prior": prior_text(values["prior"]),
        "cost": f"{values['cost']!s}",
        "threshold": f"ratio above {values['threshold']:.3g}",
        "written by": ", ".join(f"{name} {number}" for name, number in values["versions"].items()),
        "size": size(values["bytes"]),
        "loaded": "yes, with all that it holds"
        if values["loaded"]
        else "no: only its facts were read",
    }
    lines |= levels_line(file.contents["category_levels"]) | table_lines(values)
    if expected:
        values |= standing(classifier)
        lines |= decision_lines(values)
    return Result(values, lines)


def verify(
    saved: Saved,
    max_bytes: Annotated[
        int | None, option(help="Maximum bytes of the file and its content.", min=1)
    ] = None,
) -> Result:
    """Check a saved classifier without loading it: sizes, names, digests, types, states and trees.

    Digests inside the file detect accidental damage only. To detect a file that was changed on purpose, give
    the digest that you expect.

    Examples
    --------
    drpu verify fraud.drpu
    drpu verify fraud.drpu --sha256 DIGEST --json
    """
    from drpu import verify as check
    from drpu.files.archive import MAX_BYTES

    with about(saved.artifact):
        summary = check(
            saved.artifact,
            trusted=saved.trusted,
            max_bytes=MAX_BYTES if max_bytes is None else max_bytes,
            expected_sha256=saved.sha256,
        )
    values = {"artifact": str(saved.artifact), "verified": True} | summary.as_dict()
    lines = {"verified": str(saved.artifact)} | summary.lines()
    return Result(values, lines | {"size": size(summary.bytes)})
