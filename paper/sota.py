"""CIFAR-10 with 1,000 labelled positives and no shift: our result beside published ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paper.configs import DATASETS, FEW
from paper.published import NO_SHIFT, NO_SHIFT_SOURCES, Published
from paper.tables import NAMES, Table

__all__ = ["no_shift_text"]

TEXT = """\
## Few labels and no shift

Most publications on images have no shift: {n} labelled positives, vehicles against animals, and the
usual test images, of which 40 % are positive. Here is `beyond` in this setting, with the candidate that was
chosen for few labels above, {train} of the {n} labels to train on, {held} to hold out, and both
priors estimated. Accuracy in percent on all 10,000 test images, mean over trials; the others as
published:

{table}

{sources} Their networks and training rows differ, so small differences mean little.

The same models on test sets with other priors. A classifier that keeps its training prior gets the
second column; estimating the prior from the unlabeled test rows gives the third. None of the other
methods can follow a changed prior without being told it:

{priors}
"""


def no_shift_text(results: Sequence[dict[str, Any]]) -> str:
    """The section of the page; "" without results."""
    own = [r for r in results if r["experiment"] == "no_shift" and r["dataset"] == "cifar10"]
    if not own:
        return ""
    held = FEW // 5
    return TEXT.format(
        n=f"{FEW:,}",
        train=FEW - held,
        held=held,
        table=_beside(own).markdown(),
        sources=" ".join(f"[{key}]: {text}" for key, text in NO_SHIFT_SOURCES.items()),
        priors=_by_prior(own).markdown(),
    )


def _beside(own: Sequence[dict[str, Any]]) -> Table:
    """Published accuracies and ours, in ascending order within each source."""
    table = Table("", ["method", "network", "labels", "told", "accuracy", "source"])
    prior = DATASETS["cifar10"].prior
    lines = [line for r in own for line in r["tests"] if line["test_prior"] == prior]
    for row in NO_SHIFT:
        table.add(_published_row(row))
    for name, key in (("drpu, beyond", "accuracy"), ("drpu, beyond, as trained", "accuracy_as_trained")):
        values = [100 * line[key] for line in lines]
        spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
        text = f"{np.mean(values):.2f}{spread} ({len(values)} trials)"
        table.add([name, "ResNet-9", f"{FEW:,}", "nothing", text, "here"])
    return table


def _published_row(row: Published) -> list[str]:
    return [row.method, row.network, row.labels, row.told, f"{row.accuracy:.2f}", f"[{row.source}]"]


def _by_prior(own: Sequence[dict[str, Any]]) -> Table:
    """Accuracy with the adapted and with the unchanged prior, and the error of the estimated prior."""
    header = ["test prior", "accuracy as trained", "accuracy adapted", "error of the test prior"]
    table = Table(NAMES["cifar10"], header)
    for prior in sorted({line["test_prior"] for r in own for line in r["tests"]}):
        lines = [line for r in own for line in r["tests"] if line["test_prior"] == prior]
        before, after = (
            100 * float(np.mean([line[key] for line in lines])) for key in ("accuracy_as_trained", "accuracy")
        )
        error = float(np.mean([abs(line["estimated_prior"] - prior) for line in lines]))
        table.add(
            [f"{prior:g}", f"{before:.2f}", f"{after:.2f}", f"{error:.4f}"], [2 if after >= before else 1]
        )
    return table
