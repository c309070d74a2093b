"""``drpu inspect``."""

from __future__ import annotations

from drpu.cli import options as given
from drpu.cli import show

__all__ = ["inspect"]


def inspect(artifact: given.Artifact, json: given.Json = False) -> None:
    """Say what a saved classifier is, without any data.

    [bold]Examples[/bold]

    drpu inspect fraud.drpu

    drpu inspect fraud.drpu --json | jq .versions
    """
    from drpu.cli.facts import learnt, train_prior, versions
    from drpu.cli.rows import load_classifier

    classifier = load_classifier(artifact)
    size, wrote, what = artifact.stat().st_size, versions(artifact), learnt(classifier)
    if json:
        show.as_json({"artifact": str(artifact), "bytes": size, "versions": wrote} | what)
        return
    names = what["columns"] or [f"{what['n_columns']} without names"]
    show.facts(
        {
            "kind": what["kind"],
            "model": what["model"],
            "columns": ", ".join(names[:8]) + (", ..." if len(names) > 8 else ""),
            "learnt from": f"{what['positives']:,.0f} positives, {what['unlabeled']:,.0f} unlabeled rows",
            "labels": f"{classifier.classes_[1]!s} is positive, {classifier.classes_[0]!s} is not",
            "training prior": show.prior(train_prior(classifier)),
            "works at prior": show.prior(classifier.test_prior_),
            "cost": f"{classifier.cost_:g}",
            "threshold": f"ratio above {classifier.threshold_:.3g}",
            "to expect": show.performance(classifier),
            "written by": ", ".join(f"{name} {number}" for name, number in wrote.items()),
            "size": show.size(size),
        }
    )
