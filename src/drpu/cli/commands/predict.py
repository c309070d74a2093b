"""``drpu predict``: labels rows, with probabilities."""

from __future__ import annotations

from typing import Annotated

import typer

from drpu.cli.options import Data, Decision, Keep, Level, Output, Prior, Reading, Saved
from drpu.cli.show import Result, about, standing
from drpu.report.texts import prior_text, share

__all__ = ["predict"]


def predict(
    saved: Saved,
    data: Data,
    out: Annotated[str, typer.Option("--out", "-o", help="Output file; - is CSV on standard output.")] = "-",
    *,
    adapt: Annotated[bool, typer.Option("--adapt", help="Estimate the share of positives first.")] = False,
    prior: Prior = None,
    keep: Keep = None,
    prefix: Annotated[str, typer.Option(help="Prefix of the names of the new columns.")] = "drpu_",
    level: Level = 0.95,
    decision: Decision,
    reading: Reading,
    output: Output,
) -> Result:
    """Label rows, with probabilities: columns drpu_label, drpu_probability, drpu_ratio.

    Examples
    --------
    drpu predict fraud.drpu june.parquet --adapt --cost 0.8 --out june-scored.parquet

    drpu predict fraud.drpu june.csv --prior 0.02 --keep id > june-scored.csv

    drpu predict fraud.drpu june.csv --adapt --budget 200 --out look-at.csv

    cat june.csv | drpu predict fraud.drpu - --adapt --json | jq .flagged
    """
    if adapt and prior is not None:
        raise typer.BadParameter("--adapt estimates the prior and --prior sets it: give one of them.")
    from drpu.classifier.fitted import score_once
    from drpu.cli.tables import PIPE, beside, check_out, write_table

    check_out(out, [saved.artifact, data], table=True)
    cost, depth = decision.stated, decision.depth
    classifier, loaded = saved.load(), reading.read(data)
    kept, rows = loaded.kept(keep), reading.rows(classifier, loaded)
    with about(data):
        X = score_once(classifier, rows)
        classifier = classifier.adapt(X, cost=cost, level=level) if adapt else decision.at(classifier, prior)
        if depth:
            classifier = classifier.at_budget(**depth, of=X)
        found = classifier.outputs(X)
    answers = {f"{prefix}{name}": found[name] for name in ("label", "probability", "ratio")}
    n, flagged = len(found["label"]), int((found["score"] > 0).sum())
    values = standing(classifier) | {"rows": n, "flagged": flagged, "out": out}
    if out == PIPE and output.json:
        return Result(values | {"answers": answers})
    write_table(out, beside(kept, answers), inputs=[saved.artifact, data])
    line = f"{flagged:,} of {n:,} rows flagged ({share(flagged / max(n, 1))}); "
    line += f"share of positives {prior_text(classifier.test_prior_)}"
    return Result(values, [line if out == PIPE else f"{line}; written to {out}"], aside=out == PIPE)
