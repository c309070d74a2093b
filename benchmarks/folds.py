"""Accuracy, priors and limits with the trees of folds as they are, and with more and larger ones.

    python -m benchmarks.folds --data FOLDER --months FOLDER [--seeds 4] [--last 3] [--records FILE]

The functions of folds are only counted, so they have fewer and smaller trees than the function that labels.
Every training sample is fitted twice: with the present numbers, and with the hundred trees and rounds of at
most 64 leaves that folds had before fits and ``adapt`` were made faster. The pool has the tables and the two
protocols of :mod:`benchmarks.tables`, the dated tables have the last periods of the protocol "next" of
:mod:`benchmarks._months`. With ``--records`` each sample is written as soon as it is measured, and not
measured again.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks._months import fit, labels_of, read_month_tables, splits
from benchmarks._results import command_line, write_results
from benchmarks._tables import PROTOCOLS, read_tables, score
from benchmarks.tables import cells, training
from drpu.exceptions import DRPUWarning
from drpu.models import auto
from drpu.models.choices import AUTO

BEFORE = {"fold_trees": 100, "fold_rounds": 100, "fold_leaves": 64}
RATE = 0.3  # labelled positives of dated tables

Figures = dict[str, list[float]]  # one value for each cell, or for each sample


def figures_of(rows: list[dict[str, Any]], name: str) -> Figures:
    """Errors of the priors in some rows, and whether their limits hold."""
    return {
        f"{name}_error": [abs(row["value"] - row["prior"]) for row in rows],
        f"{name}_held": [float(row["low"] <= row["prior"] <= row["high"]) for row in rows],
    }


def of_pool(table: Any, protocol: str, seed: int) -> Figures:
    """Figures of one training sample of a table and of its test samples."""
    scored = score(table, protocol, seed)
    read = list(cells(scored))
    found = figures_of([training(scored)], "training") | figures_of(read, "later")
    return found | {"accuracy": [row["accuracy"] for row in read]}


def of_period(name: str, table: Any, split: Any) -> Figures:
    """Figures of a fit to the periods before one, and of this period."""
    y = table["y"].to_numpy().astype(int)
    X = table.drop(columns=["y", "period"])
    label = labels_of(name, y, RATE, 0)
    clf = fit(X.iloc[split.train], label[split.train])
    new = X.iloc[split.read]
    adapted = clf.adapt(new)
    priors = {"training": (clf.prior_, split.train), "later": (adapted.prior_, split.read)}
    found: Figures = {"accuracy": [float(np.mean(adapted.predict(new) == y[split.read]))]}
    for when, (prior, rows) in priors.items():
        row = {"value": prior.value, "low": prior.low, "high": prior.high, "prior": float(y[rows].mean())}
        found |= figures_of([row], when)
    return found


def samples(options: Any) -> Iterator[tuple[str, str, Any]]:
    """Group and name of each training sample, and the function that measures it."""
    for table in read_tables(options.data):
        for protocol in PROTOCOLS:
            for seed in range(options.seeds):
                yield (
                    f"protocol {protocol}",
                    f"{table.name} {protocol} {seed}",
                    lambda t=table, p=protocol, s=seed: of_pool(t, p, s),
                )
    for name, table in read_month_tables(options.months):
        for split in list(splits(name, table["period"].to_numpy(), "next"))[-options.last :]:
            yield "dated", f"{name} {split.period}", lambda n=name, t=table, s=split: of_period(n, t, s)


def measured(options: Any) -> list[dict[str, Any]]:
    """Every training sample with both settings."""
    records = {}
    if options.records and options.records.exists():
        for line in options.records.read_text().splitlines():
            record = json.loads(line)
            records[record["sample"]] = record
    for group, name, measure in samples(options):
        if name in records:
            continue
        with patch.object(auto, "AUTO", replace(AUTO, **BEFORE)):
            before = measure()
        records[name] = {"group": group, "sample": name, "before": before, "now": measure()}
        print(name, flush=True)
        if options.records:
            with options.records.open("a") as file:
                file.write(json.dumps(records[name]) + "\n")
    return list(records.values())


def compared(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Means of both settings, and the mean difference of samples with its standard error."""
    found: dict[str, Any] = {
        "samples": len(records),
        "cells": sum(len(r["now"]["accuracy"]) for r in records),
    }
    for name in records[0]["now"]:
        before = np.array([np.mean(record["before"][name]) for record in records])
        now = np.array([np.mean(record["now"][name]) for record in records])
        gain = now - before
        error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else 0.0
        found[name] = {
            "before": float(before.mean()),
            "now": float(now.mean()),
            "difference": float(gain.mean()),
            "standard_error": error,
        }
    return found


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of Parquet files with a target y")
    parser.add_argument("--months", type=Path, required=True, help="folder of dated Parquet files")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--last", type=int, default=3, help="periods of each dated table")
    parser.add_argument("--records", type=Path, help="file of finished samples")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DRPUWarning)  # weak signals are part of the protocols
    records = measured(options)
    groups = dict.fromkeys(record["group"] for record in records)
    content = {group: compared([r for r in records if r["group"] == group]) for group in groups}
    numbers = {"before": BEFORE, "now": {name: getattr(AUTO, name) for name in BEFORE}}
    command = "python -m benchmarks.folds --data FOLDER --months FOLDER"
    command += f" --seeds {options.seeds} --last {options.last}"
    print("wrote", write_results("folds", command, numbers=numbers, groups=content))


if __name__ == "__main__":
    main()
