"""``drpu adapt``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drpu.cli import options as given
from drpu.cli import show

__all__ = ["adapt"]


def adapt(
    artifact: given.Artifact,
    data: given.Data,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write the outcome.")] = None,
    columns: given.Columns = None,
    drop: given.Drop = None,
    cost: given.Cost = None,
    level: given.Level = 0.95,
    sep: given.Sep = None,
    encoding: given.Encoding = None,
    decimal: given.Decimal = ".",
    json: given.Json = False,
) -> None:
    """Find the share of positives in new rows and move the classifier there.

    [bold]Examples[/bold]

    drpu adapt fraud.drpu june.parquet

    drpu adapt fraud.drpu june.parquet --cost 0.8 --out june.drpu
    """
    from drpu import save
    from drpu.cli.facts import standing
    from drpu.cli.rows import adapted_to, load_classifier
    from drpu.cli.text import TextFormat
    from drpu.cli.writing import check_out

    form = TextFormat(sep, encoding, decimal)
    check_out(out, [artifact, data])
    classifier = load_classifier(artifact)
    adapted = adapted_to(classifier, data, columns, drop, form, cost=cost, level=level)
    if out is not None:
        save(adapted, out)
    if json:
        show.as_json(standing(adapted) | {"artifact": None if out is None else str(out)})
        return
    show.facts(
        {
            "share of positives": show.prior(adapted.prior_),
            "in training": show.prior(adapted.train_prior_),
            "threshold": f"ratio above {adapted.threshold_:.3g} (in training {classifier.threshold_:.3g})",
            "to expect": show.performance(adapted.expected_performance()),
        }
        | ({} if out is None else {"written": str(out)})
    )
