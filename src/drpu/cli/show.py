"""Output of the commands: JSON for programs, a few aligned lines for people."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import Any

from drpu.exceptions import DRPUWarning, ExtraColumnsWarning
from drpu.report.words import prior_words, share, share_range

__all__ = [
    "as_json", "error_as_json", "facts", "performance", "printable", "prior", "quiet_warnings", "say",
    "share", "size", "table",
]  # fmt: skip

_seen: list[str] = []  # warnings of the command that is running, for its JSON


# -- warnings ------------------------------------------------------------------------------------


@contextmanager
def quiet_warnings() -> Iterator[None]:
    """Show each warning as one short line on the standard error, without repetition.

    Warnings about ignored columns are shown at the end, and not at all if the command fails.
    """
    _seen.clear()
    ignored = []

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        text = _with_options(" ".join(str(message).split()))
        if text not in _seen:
            _seen.append(text)
            if issubclass(category, ExtraColumnsWarning):
                ignored.append(text)
            else:
                say(f"warning: {text}", aside=True)

    warnings.simplefilter("ignore")
    warnings.simplefilter("always", UserWarning)
    warnings.simplefilter("always", DRPUWarning)
    before, warnings.showwarning = warnings.showwarning, show
    try:
        yield
        for text in ignored:
            say(f"warning: {text}", aside=True)
    finally:
        warnings.showwarning = before


# Advice of the library in the words of the command line.
_OPTIONS = {
    "pass column_values='keep' to": "give --column-values keep to",
    "'hash' to write digests": "--column-values hash to write digests",
    "rare_values=20 to": "--rare-values 20 to",
    "drop it from X, or declare it a category to keep it": "name it in --drop and this warning goes away",
}


def _with_options(text: str) -> str:
    for python, option in _OPTIONS.items():
        text = text.replace(python, option)
    return text


# -- for programs --------------------------------------------------------------------------------


def as_json(result: dict[str, Any]) -> None:
    """The result with its warnings as one JSON object; infinite numbers become null."""
    print(json.dumps(_plain(result | {"warnings": list(_seen)}), indent=2, allow_nan=False))


def error_as_json(kind: str, code: int, message: str) -> None:
    """The error as one JSON object on the standard output."""
    as_json({"error": {"type": kind, "exit_code": code, "message": message}})


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy arrays and numbers
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


# -- for people ----------------------------------------------------------------------------------


def printable(text: str) -> str:
    """``text`` with control characters escaped, so that a file cannot control the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: str, *, aside: bool = False) -> None:
    """Print a line for people; ``aside`` prints to the standard error, because the output is data."""
    stream = sys.stderr if aside else sys.stdout
    line = printable(text)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    line = line.encode(encoding, "backslashreplace").decode(encoding)
    bars = sys.modules.get("tqdm.std")
    if aside and bars is not None:
        bars.tqdm.write(line, file=stream)  # above a progress bar, not in its line
    else:
        print(line, file=stream)


def facts(pairs: dict[str, Any], *, aside: bool = False) -> None:
    """Names and values, aligned."""
    width = max(map(len, pairs))
    for name, value in pairs.items():
        say(f"{name:<{width}}  {value}", aside=aside)


def prior(estimate: Any) -> str:
    """The prior as text: share, interval, and whether it is an upper bound only."""
    if estimate.method == "given" or not estimate.identified:
        return prior_words(estimate)
    interval = share_range(estimate.low, estimate.high)
    return f"{share(estimate.value)}, {estimate.level:.0%} interval {interval}"


def size(n_bytes: int) -> str:
    """Size of a file as text."""
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"


def performance(classifier: Any) -> str:
    """Expected performance in one line, each figure with its range."""
    now, (low, high) = classifier.expected_performance(), classifier.expected_range()

    def figure(name: str) -> str:
        value, least, most = (float(getattr(part, name)) for part in (now, low, high))
        return f"{name} {share(value)} ({share(min(least, value))} to {share(max(most, value))})"

    return ", ".join(figure(name) for name in ("flagged", "precision", "recall"))


def bill(classifier: Any) -> dict[str, str]:
    """The expected costs, if the cost was given as two amounts."""
    costs = classifier.cost_
    if not hasattr(costs, "bill"):
        return {}
    bill = classifier.expected_bill(rows=1000)
    value, low, high = (
        f"{amount:,.{0 if bill.high >= 100 else 2}f}" for amount in (bill.value, bill.low, bill.high)
    )
    amounts = f"a false alarm costs {costs.false_alarm:g}, a miss {costs.miss:g}"
    return {"expected bill": f"{value} ({low} to {high}) for 1000 rows; {amounts}"}


def budget(classifier: Any) -> dict[str, str]:
    """Expected precision and recall with the budget, if one was set."""
    found = getattr(classifier, "budget_", None)
    if found is None:
        return {}
    rows = share(found.share) if found.rows is None else f"{found.rows:,} rows ({share(found.share)})"
    precision = (
        f"{share(found.precision.value)} ({share(found.precision.low)} to {share(found.precision.high)})"
    )
    recall = f"{share(found.recall.value)} ({share(found.recall.low)} to {share(found.recall.high)})"
    lift = f"{found.lift.value:.3g} ({found.lift.low:.3g} to {found.lift.high:.3g})"
    return {"checking": f"{rows}: precision {precision}, recall {recall}, lift {lift}"}


def table(head: list[str], lines: list[list[str]]) -> None:
    """A table on a terminal, tab-separated lines in a pipe."""
    rows = [[printable(cell) for cell in line] for line in lines]
    if not sys.stdout.isatty():
        for line in (head, *rows):
            print("\t".join(line))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(*head, box=None, pad_edge=False, header_style="bold")
    for line in rows:
        grid.add_row(*map(Text, line))  # as Text, because rich treats square brackets in strings as markup
    Console().print(grid)
