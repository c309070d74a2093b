"""Tables of the documentation from the result files of ``benchmarks/``: a hook of mkdocs.

A page says ``<!-- results: NAME -->`` where the table NAME goes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
MARK = re.compile(r"<!-- results: (\w+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with its tables."""
    return MARK.sub(lambda mark: TABLES[mark[1]](), markdown)


def _read(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return record


def _table(head: list[str], lines: list[list[str]], source: dict[str, Any]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    versions = ", ".join(f"{name} {number}" for name, number in source["versions"].items())
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{text}\n\nMade by `{source['command']}` with {versions}.\n"


def shift() -> str:
    """Accuracy while the share of positives moves."""
    source = _read("shift")
    lines = []
    for name, part in source["sets"].items():
        s = part["summary"]
        lines.append(
            [
                name.replace("_", " "),
                f"{s['accuracy_as_trained']:.1%}",
                f"{s['accuracy']:.1%} ± {s['accuracy_standard_error']:.1%}",
                f"{s['accuracy_priors_known']:.1%}",
                f"{s['test_prior_error']:.3f}",
                f"{s['test_prior_coverage']:.0%}",
            ]
        )
    head = [
        "data",
        "as trained",
        "adapted",
        "both priors known",
        "error of the new prior",
        "intervals that hold it",
    ]
    return _table(head, lines, source)


def intervals() -> str:
    """Coverage of the limits of priors."""
    source = _read("intervals")
    lines = [
        [
            row["kind"],
            f"{row['level']:.0%}",
            str(row["cells"]),
            f"{row['high_covers_prior']:.1%}",
            f"{row['covers_visible']:.1%}",
            f"{row['covers_prior']:.1%}",
            f"{row['mean_width']:.2f}",
        ]
        for row in source["summary"]
    ]
    head = [
        "prior of",
        "level",
        "settings",
        "`high` holds",
        "visible share covered",
        "prior covered",
        "mean width",
    ]
    return _table(head, lines, source)


def network() -> str:
    """Seconds an epoch of our loop and of a plain one."""
    source = _read("network")
    names = {
        "plain_nnpu": "nnPU, plain loop",
        "nnpu": "nnPU, ours",
        "nnpu_stack": f"nnPU, ours, {source['stack']} models together, a model",
        "plain_ratio": "density ratio, plain loop",
        "ratio": "density ratio, ours",
        "ratio_stack": f"density ratio, ours, {source['stack']} models together, a model",
        "products": "the matrix products alone",
    }
    lines = [
        [
            f"{case} ({part['rows']}, {part['n_unlabeled']} unlabeled)",
            label,
            f"{part['seconds'][name]:.3f}",
            f"{part['cpu_seconds'][name]:.3f}",
            f"{part['faster'][name]:.1f}" if name in part["faster"] else "",
        ]
        for case, part in source["cases"].items()
        for name, label in names.items()
    ]
    head = ["network", "loop", "seconds", "processor seconds", "times as fast as the plain loop"]
    run = f"Threads: {source['threads']}; load of the machine at the start: {source['load']:.1f}."
    return f"{_table(head, lines, source)}\n{run}\n"


TABLES = {"shift": shift, "intervals": intervals, "network": network}
