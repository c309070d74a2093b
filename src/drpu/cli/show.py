"""Facts about a classifier and its current prior, as plain values."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drpu._codec import kind_of
from drpu._optional import require
from drpu._output import check_output, output_file
from drpu.cli.reading import ARROW, JSON_LINES, KNOWN, PARQUET, PIPE, ending_of
from drpu.core.prior.estimate import PriorEstimate
from drpu.exceptions import DataError, DataTypeError, DRPUWarning, ExtraColumnsWarning
from drpu.report.texts import prior_text, share, share_range

__all__ = [
    "as_json",
    "beside",
    "check_out",
    "error_as_json",
    "facts",
    "learnt",
    "performance",
    "printable",
    "prior",
    "quiet_warnings",
    "say",
    "share",
    "size",
    "standing",
    "table",
    "train_prior",
    "write_table",
]

FIGURES = ("accuracy", "precision", "recall", "flagged", "cost")


def train_prior(classifier: Any) -> PriorEstimate:
    """Prior of the population that the classifier learnt from."""
    prior: PriorEstimate = getattr(classifier, "train_prior_", classifier.prior_)
    return prior


def standing(classifier: Any) -> dict[str, Any]:
    """The current prior, cost and threshold of the classifier, for JSON."""
    expected, (low, high) = classifier.expected_performance(), classifier.expected_range()
    return {
        "train_prior": train_prior(classifier),
        "prior": classifier.test_prior_,
        "cost": classifier.cost_,
        "threshold": classifier.threshold_,
        "expected": {name: getattr(expected, name) for name in FIGURES},
        "expected_range": {name: [getattr(low, name), getattr(high, name)] for name in FIGURES},
    } | _by_amounts(classifier)


def _by_amounts(classifier: Any) -> dict[str, Any]:
    """Figures that depend on two amounts and on a budget, if these were given."""
    found: dict[str, Any] = {}
    if hasattr(classifier.cost_, "bill"):
        costs = classifier.cost_
        found["costs"] = {"false_alarm": costs.false_alarm, "miss": costs.miss}
        found["expected_bill_per_row"] = classifier.expected_bill()
    budget = getattr(classifier, "budget_", None)
    if budget is not None:
        names = ("rows", "share", "threshold", "precision", "recall", "lift")
        found["budget"] = {name: getattr(budget, name) for name in names}
    return found


def learnt(classifier: Any) -> dict[str, Any]:
    """Facts about the fit of the classifier, for JSON."""
    core = classifier.fitted_
    names = getattr(classifier, "feature_names_in_", None)
    return {
        "kind": type(classifier).__name__,
        "model": f"{len(core.model.functions)} x {kind_of(type(core.model.functions[0])) or 'network'}",
        "n_columns": classifier.n_features_in_,
        "columns": None if names is None else names.tolist(),
        "classes": classifier.classes_,
        "positives": core.tails.n_positive,
        "unlabeled": core.tails.n,
        "labelled_share": core.labelled_fraction,
    } | standing(classifier)


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
        return prior_text(estimate)
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


_TEXT = (".csv", ".tsv", ".txt")
_KNOWN = (*_TEXT, *ARROW, *PARQUET, *JSON_LINES, ".npz")


def check_out(path: str | os.PathLike[str] | None, inputs: Iterable[Any], *, table: bool = False) -> None:
    """Raise before any work is done if ``path`` cannot be written, or is one of the inputs.

    Parameters
    ----------
    path : path-like or None
        The output; None and ``-`` are not files.
    inputs : iterable of path-like
        Files that the command reads.
    table : bool
        Whether a table is written; its format depends on the ending.
    """
    if path is None or os.fspath(path) == PIPE:
        return
    target = Path(path)
    if not target.parent.is_dir():
        raise DataError(f"{target} cannot be written: there is no folder {target.parent}, create it first.")
    if table and ending_of(str(target)) not in _KNOWN:
        raise DataTypeError(f"{target}: the ending {target.suffix!r} is not known. Supported are {KNOWN}.")
    check_output(target, inputs=[given for given in inputs if given is not None])


def beside(kept: Any, answers: dict[str, Any]) -> Any:
    """The kept columns followed by the predictions, as an Arrow table."""
    pa = require("pyarrow", extra="cli", for_="writing tables")
    if kept is None:
        return pa.table(answers)
    for name, values in answers.items():
        if name in kept.column_names:
            raise DataError(f"the input has a column {name!r} already: choose another --prefix.")
        kept = kept.append_column(name, pa.array(values))
    return kept


def write_table(path: str, table: Any, *, inputs: Iterable[Any] = ()) -> None:
    """Write an Arrow table in the format of the ending of ``path``, or as CSV to the standard output."""
    if path == PIPE:
        _to_pipe(table)
        return
    with output_file(path, inputs=[given for given in inputs if given is not None]) as file:
        if path.lower().endswith(".gz"):
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
                _encode(table, ending_of(path), packed)
        else:
            _encode(table, ending_of(path), file)


def _to_pipe(table: Any) -> None:
    if not sys.stdout.isatty():
        sys.stdout.flush()
        _encode(table, ".csv", sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    text = io.BytesIO()
    _encode(table, ".csv", text)
    for line in text.getvalue().decode().splitlines():  # values must not control the terminal
        print(printable(line))


def _encode(table: Any, ending: str, sink: Any) -> None:
    """Write the bytes of the file to ``sink``."""
    if ending in _TEXT:
        csv = require("pyarrow.csv", extra="cli", for_="writing CSV")
        csv.write_csv(table, sink, csv.WriteOptions(delimiter="\t" if ending == ".tsv" else ","))
    elif ending in JSON_LINES:
        for row in table.to_pylist():
            sink.write(json.dumps(row, default=str).encode() + b"\n")
    elif ending in ARROW:
        require("pyarrow.feather", extra="cli", for_="writing Arrow").write_feather(table, sink)
    elif ending in PARQUET:
        require("pyarrow.parquet", extra="cli", for_="writing Parquet").write_table(table, sink)
    else:
        np.savez_compressed(sink, **{name: table.column(name).to_numpy() for name in table.column_names})
