"""``drpu predict``: labels rows, with probabilities."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from drpu.cli.options import (
    By,
    Data,
    Decision,
    Formulas,
    Keep,
    LevelOfNew,
    Output,
    Prior,
    Reading,
    Saved,
    refuse,
)
from drpu.cli.show import Result, about, by_group, standing
from drpu.report.texts import prior_text, share

# Of more rows only the flagged ones are explained, because this takes longer than labelling.
EXPLAINED = 10_000


def predict(
    saved: Saved,
    data: Data,
    out: Annotated[
        str, typer.Option("--out", "-o", help="Output file; - is CSV on standard output.")
    ] = "-",
    *,
    adapt: Annotated[
        bool, typer.Option("--adapt", help="Estimate the share of positives first.")
    ] = False,
    by: By = None,
    prior: Prior = None,
    keep: Keep = None,
    prefix: Annotated[str, typer.Option(help="Prefix of the names of the new columns.")] = "drpu_",
    explain: Annotated[
        int,
        typer.Option(
            min=0,
            help="Add this many columns that speak for and against each row, as drpu_for and "
            f"drpu_against; of more than {EXPLAINED:,} rows to the flagged ones only.",
        ),
    ] = 0,
    formulas: Formulas = False,
    level: LevelOfNew = None,
    decision: Decision,
    reading: Reading,
    output: Output,
) -> Result:
    """Label rows, with probabilities: columns drpu_label, drpu_probability, drpu_ratio.

    Examples
    --------
    drpu predict fraud.drpu june.parquet --adapt --cost 0.8 --out june-scored.parquet
    drpu predict fraud.drpu year.csv --by month --out year-scored.csv
    drpu predict fraud.drpu june.csv --prior 0.02 --keep id > june-scored.csv
    drpu predict fraud.drpu june.csv --adapt --budget 200 --explain 3 --out look-at.csv
    cat june.csv | drpu predict fraud.drpu - --adapt --json | jq .flagged
    """
    if (adapt or by is not None) and prior is not None:
        raise typer.BadParameter(
            "--adapt and --by estimate the prior and --prior sets it: give one of them."
        )
    if level is None:
        level = 0.95
    elif not adapt and by is None:
        refuse({"--level": True}, "is that of an estimated share: give --adapt, or --by month.")
    from drpu.classifier.groups import outputs_by
    from drpu.cli.tables import PIPE, check_out, with_columns, write_table

    check_out(out, [saved.artifact, data], table=True)
    reading.check(data)
    decision.check()
    classifier = decision.applied_to(saved.load(), prior)
    loaded = reading.read(data, classifier)
    kept = loaded.kept(keep)
    X = reading.scored(classifier, loaded, used=[by], mixed=adapt and by is None)
    with about(data):
        if by is not None:
            groups = loaded.groups(by)
            adapted = classifier.adapt_by(X, by=groups, level=level, budget=decision.checked)
            values, table = by_group(adapted, by)
            outputs = outputs_by(adapted, X, groups)
        else:
            if adapt:
                classifier = classifier.adapt(X, level=level)
            classifier = decision.with_budget(classifier, X)
            if not adapt:
                classifier._warn_of_prior()
            values = standing(classifier)
            table = None
            outputs = classifier._outputs(X)
        is_flagged = outputs["score"] > 0
        names = ["label", "probability", "ratio"]
        if explain:
            outputs |= _reasons(classifier, X, explain, is_flagged)
            names += ["for", "against"]
    new_columns = {f"{prefix}{name}": outputs[name] for name in names}
    n = len(is_flagged)
    flagged = int(is_flagged.sum())
    values |= {"rows": n, "flagged": flagged, "out": out}
    if out == PIPE and output.json:
        values["answers"] = new_columns
        if keep is not None:
            values["kept"] = kept.to_pydict()
        return Result(values)
    write_table(out, with_columns(kept, new_columns), formulas=formulas)
    line = f"{flagged:,} of {n:,} rows flagged ({share(flagged / max(n, 1))})"
    if by is None:
        line += f"; share of positives {prior_text(classifier.test_prior_)}"
    if out != PIPE:
        line += f"; written to {out}"
    return Result(values, [line], table=table, aside=out == PIPE)


def _reasons(classifier: Any, X: Any, n: int, is_flagged: Any) -> dict[str, Any]:
    """Texts of the columns that speak for and against each row; empty if it is not explained."""
    import numpy as np

    n_rows = len(is_flagged)
    speaks_for = np.full(n_rows, "", dtype=object)
    speaks_against = np.full(n_rows, "", dtype=object)
    if n_rows > EXPLAINED:
        explained = np.flatnonzero(is_flagged)
    else:
        explained = np.arange(n_rows)
    if len(explained):
        all_reasons = classifier.reasons(X.take(explained), n)
        for row, reasons in zip(explained, all_reasons, strict=True):
            speaks_for[row], speaks_against[row] = reasons.texts()
    return {"for": speaks_for, "against": speaks_against}
