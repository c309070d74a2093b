"""What the commands say: JSON for programs, a few aligned lines for people."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from drpu.core.prior import PriorEstimate
from drpu.exceptions import DRPUWarning

__all__ = ["as_json", "facts", "performance", "prior", "quiet_warnings", "say", "size", "table"]

_seen: list[str] = []  # warnings of the command that is running, for its JSON


@contextmanager
def quiet_warnings() -> Iterator[None]:
    """Warnings as one short line each on the standard error, and no line twice."""
    _seen.clear()

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in _seen:
            _seen.append(text)
            print(f"warning: {text}", file=sys.stderr)

    warnings.simplefilter("ignore")
    warnings.simplefilter("always", UserWarning)
    warnings.simplefilter("always", DRPUWarning)
    before, warnings.showwarning = warnings.showwarning, show
    try:
        yield
    finally:
        warnings.showwarning = before


def as_json(result: dict[str, Any]) -> None:
    """The result with its warnings as one JSON object; infinite numbers become null."""
    print(json.dumps(_plain(result | {"warnings": list(_seen)}), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, PriorEstimate):
        return asdict(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy arrays and numbers
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say(text: str, *, aside: bool = False) -> None:
    """A line for people; ``aside`` when the standard output belongs to the data."""
    print(text, file=sys.stderr if aside else sys.stdout)


def facts(pairs: dict[str, Any], *, aside: bool = False) -> None:
    """Names and values, aligned."""
    width = max(map(len, pairs))
    for name, value in pairs.items():
        say(f"{name:<{width}}  {value}", aside=aside)


def prior(estimate: PriorEstimate) -> str:
    """The prior for people: share, interval, and how it was found."""
    if estimate.method == "given":
        return f"{estimate.value:.1%} (given)"
    return f"{estimate.value:.1%}, {estimate.level:.0%} interval {estimate.low:.1%} to {estimate.high:.1%}"


def size(n_bytes: int) -> str:
    """Size of a file for people."""
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"


def performance(expected: Any) -> str:
    """What to expect, in one line."""
    return (
        f"accuracy {expected.accuracy:.1%}, precision {expected.precision:.1%}, "
        f"recall {expected.recall:.1%}, flagged {expected.flagged:.1%}"
    )


def table(head: list[str], lines: list[list[str]]) -> None:
    """A table on a terminal, tab-separated lines in a pipe."""
    console = Console()
    if not console.is_terminal:
        for line in (head, *lines):
            print("\t".join(line))
        return
    grid = Table(*head, box=None, pad_edge=False, header_style="bold")
    for line in lines:
        grid.add_row(*line)
    console.print(grid)
