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

EXPLAINED = (
    10_000  # of more rows only the flagged ones are explained, which takes longer than labels
)


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
            help="Add this many columns that speak for and against each row, as drpu_for and drpu_against; "
            f"of more than {EXPLAINED:,} rows to the flagged ones only.",
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
    if not adapt and by is None:
        refuse(
            {"--level": level is not None},
            "is that of an estimated share: give --adapt, or --by month.",
        )
    level = 0.95 if level is None else level
    from drpu.classifier.groups import outputs_by
    from drpu.cli.tables import PIPE, beside, check_out, write_table

    check_out(out, [saved.artifact, data], table=True)
    reading.check(data)
    decision.check()
    table = None
    facts: dict[str, Any] = {}
    classifier = decision.at(saved.load(), prior)
    loaded = reading.read(data, classifier)
    kept, X = (
        loaded.kept(keep),
        reading.scored(classifier, loaded, used=[by], mixed=adapt and by is None),
    )
    with about(data):
        if by is not None:
            values = loaded.groups(by)
            groups = classifier.adapt_by(X, by=values, level=level, budget=decision.checked)
            facts, table = by_group(groups, by)
            found = outputs_by(groups, X, values)
        else:
            moved = classifier.adapt(X, level=level) if adapt else classifier
            classifier = decision.on(moved, X)
            if not adapt:
                classifier._warn_of_prior()
            found = classifier._outputs(X)
        positive = found["score"] > 0
        names = ["label", "probability", "ratio"]
        if explain:
            found |= _reasons(classifier, X, explain, positive)
            names += ["for", "against"]
    answers = {f"{prefix}{name}": found[name] for name in names}
    n, flagged = len(positive), int(positive.sum())
    values = (facts or standing(classifier)) | {"rows": n, "flagged": flagged, "out": out}
    if out == PIPE and output.json:
        return Result(
            values | {"answers": answers} | ({} if keep is None else {"kept": kept.to_pydict()})
        )
    write_table(out, beside(kept, answers), formulas=formulas)
    line = f"{flagged:,} of {n:,} rows flagged ({share(flagged / max(n, 1))})"
    if by is None:
        line += f"; share of positives {prior_text(classifier.test_prior_)}"
    lines = [line if out == PIPE else f"{line}; written to {out}"]
    return Result(values, lines, table=table, aside=out == PIPE)


def _reasons(classifier: Any, X: Any, n: int, flagged: Any) -> dict[str, Any]:
    """Texts of the columns that speak for and against each row; empty for rows that are not explained."""
    import numpy as np

    chosen = np.flatnonzero(flagged) if len(flagged) > EXPLAINED else np.arange(len(flagged))
    texts = {name: np.full(len(flagged), "", dtype=object) for name in ("for", "against")}
    if len(chosen):
        for at, reasons in zip(chosen, classifier.reasons(X.take(chosen), n), strict=True):
            texts["for"][at], texts["against"][at] = reasons.texts()
    return texts
