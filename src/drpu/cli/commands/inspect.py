"""``drpu inspect``: describes a saved classifier."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from drpu.cli import options as given
from drpu.cli import show

__all__ = ["inspect"]


def inspect(
    artifact: given.Artifact,
    expected: Annotated[
        bool, typer.Option("--expected", help="Also load the model and show its expected performance.")
    ] = False,
    json: given.Json = False,
) -> None:
    """Describe a saved classifier, without any data and without loading its model.

    Examples
    --------
    drpu inspect fraud.drpu

    drpu inspect fraud.drpu --json | jq .versions
    """
    from drpu.cli.peek import peek

    what = peek(artifact)
    values, words = _expected(artifact) if expected else ({}, {})
    if json:
        show.as_json(what | values)
        return
    show.facts(_lines(what) | words)


def _expected(artifact: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The figures that need the model: for JSON, and as text."""
    from drpu.cli.rows import load_classifier
    from drpu.cli.show import standing

    classifier = load_classifier(artifact)
    return standing(classifier), {"to expect": show.performance(classifier)}


def _lines(what: dict[str, Any]) -> dict[str, str]:
    from drpu.core.prior.estimate import PriorEstimate

    names = what["columns"] or [f"{what['n_columns']} without names"]
    return {
        "kind": what["kind"],
        "model": what["model"],
        "columns": ", ".join(map(str, names[:8])) + (", ..." if len(names) > 8 else ""),
        "learnt from": f"{what['positives']:,.0f} positives, {what['unlabeled']:,.0f} unlabeled rows",
        "labels": f"{what['classes'][1]!s} is positive, {what['classes'][0]!s} is not",
        "training prior": show.prior(PriorEstimate(**what["train_prior"])),
        "works at prior": show.prior(PriorEstimate(**what["prior"])),
        "cost": f"{what['cost']:g}",
        "threshold": f"ratio above {what['threshold']:.3g}",
        "written by": ", ".join(f"{name} {number}" for name, number in what["versions"].items()),
        "size": show.size(what["bytes"]),
    }
