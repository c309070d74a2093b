"""The part of the page that lists the planned trials that have no result, with the commands that run them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paper.configs import AUGMENTED, DATASETS
from paper.tables import NAMES, Table

__all__ = ["unfinished_text"]

PLANNED, PLANNED_FEW = 10, 5  # trials of the benchmark, and of the experiment without shift

TEXT = """\
## What has not been run

Ten trials of each data set are planned for the two augmented flavours, and five trials of CIFAR-10 with
few labels and no shift. These are missing, because the time on the GPU ran out:

{table}

The commands skip the trials that have a result, and they need the images (`--data`). `choose` has to come
first where a flavour has no chosen candidate yet.
"""


def unfinished_text(results: Sequence[dict[str, Any]]) -> str:
    """The section of the page; "" when nothing is missing, or when no augmented flavour has a result."""
    if not any(r["flavour"] in AUGMENTED for r in results):
        return ""
    table = Table("", ["flavour", "data set", "trials", "command"])
    for flavour in reversed(AUGMENTED):
        lacking = {dataset: PLANNED - _count(results, "benchmark", flavour, dataset) for dataset in DATASETS}
        if len(set(lacking.values())) == 1 and PLANNED in lacking.values():
            table.add([flavour, "all", f"0 of {PLANNED}", _commands(flavour)])
            continue
        for dataset, n in lacking.items():
            if n > 0:
                counts = f"{PLANNED - n} of {PLANNED}"
                table.add([flavour, NAMES[dataset], counts, _run(f"--dataset {dataset} --flavour {flavour}")])
    few = _count(results, "no_shift", "beyond", "cifar10")
    if few < PLANNED_FEW:
        command = f"`python -m paper run --experiment no_shift --trials {PLANNED_FEW}`"
        table.add(["beyond", "CIFAR-10, few labels, no shift", f"{few} of {PLANNED_FEW}", command])
    return TEXT.format(table=table.markdown()) if table.rows else ""


def _count(results: Sequence[dict[str, Any]], experiment: str, flavour: str, dataset: str) -> int:
    wanted = (experiment, flavour, dataset)
    return sum((r["experiment"], r["flavour"], r["dataset"]) == wanted for r in results)


def _commands(flavour: str) -> str:
    return f"`python -m paper choose --trials 2 --flavour {flavour}`, then {_run(f'--flavour {flavour}')}"


def _run(options: str) -> str:
    return f"`python -m paper run --experiment benchmark --method drpu --trials {PLANNED} {options}`"
