"""What a command prints: lines for people, one JSON object for programs, and warnings."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from drpu._progress import say_above
from drpu.exceptions import DRPUError, DRPUWarning, ExtraColumnsWarning
from drpu.report.texts import (
    ONLY_PRIOR,
    backtest_text,
    figure_text,
    only_prior_text,
    share,
    value_text,
)

FIGURES = ("accuracy", "precision", "recall", "flagged", "cost")


@dataclass(frozen=True, slots=True)
class Result:
    """What a command found."""

    values: dict[str, Any]  # plain values, for JSON
    lines: Mapping[str, Any] | Sequence[str] = ()  # names with values, or sentences, for people
    table: tuple[list[str], list[list[str]]] | None = None  # names of columns, and lines of cells
    aside: bool = (
        False  # whether people read it on the standard error, because the output carries data
    )


def print_result(result: Result, *, in_json: bool) -> None:
    """Print a result for programs or for people."""
    if in_json:
        as_json(result.values)
        return
    if result.table is not None:
        _table(*result.table, aside=result.aside)
    if isinstance(result.lines, Mapping):
        width = max(map(len, result.lines), default=0)
        for name, value in result.lines.items():
            say(f"{name:<{width}}  {value}", aside=result.aside)
    else:
        for line in result.lines:
            say(line, aside=result.aside)


def position(classifier: Any) -> dict[str, Any]:
    """The current prior, cost and threshold of the classifier."""
    names = ("train_prior", "test_prior", "cost", "threshold", "shift")
    known = [name for name in names if hasattr(classifier, f"{name}_")]
    return {name.removeprefix("test_"): getattr(classifier, f"{name}_") for name in known}


def standing(classifier: Any) -> dict[str, Any]:
    """The position of the classifier, and what to expect from it."""
    expected, (low, high) = classifier.expected_performance(), classifier.expected_range()
    values = position(classifier) | {
        "expected": {name: getattr(expected, name) for name in FIGURES},
        "expected_range": {name: [getattr(low, name), getattr(high, name)] for name in FIGURES},
    }
    if hasattr(classifier.cost_, "miss"):
        costs = classifier.cost_
        values["costs"] = {"false_alarm": costs.false_alarm, "miss": costs.miss}
        values["expected_bill_per_row"] = classifier.expected_bill()
    budget = getattr(classifier, "budget_", None)
    if budget is not None:
        parts = ("rows", "share", "threshold", "precision", "recall", "lift")
        values["budget"] = {name: getattr(budget, name) for name in parts}
    return values


def learnt(classifier: Any) -> dict[str, Any]:
    """Facts about the fit of the classifier."""
    from drpu.state.fitted import prior_in_other_scenario

    fitted = classifier.fitted_
    columns = getattr(classifier, "feature_names_in_", None)
    return {
        "kind": type(classifier).__name__,
        "model": fitted.model.describe(),
        "n_columns": classifier.n_features_in_,
        "row_shape": list(fitted.model.row_shape) if len(fitted.model.row_shape) > 1 else None,
        "columns": None if columns is None else columns.tolist(),
        "classes": classifier.classes_,
        "positives": fitted.population.sizes[0],
        "unlabeled": fitted.population.sizes[1],
        "held_out_positives": fitted.tails.n_positive,
        "counted_unlabeled": fitted.tails.n,
        "labelled_share": fitted.population.labelled_fraction,
        "scenario": fitted.population.scenario,
        "other_scenario_prior": prior_in_other_scenario(fitted),
        "period": fitted.columns.period,
        "backtest": fitted.history,
        "notes": [asdict(note) | {"text": note.text(command_line=True)} for note in fitted.columns.notes],
    }


def by_group(groups: Any, by: str) -> tuple[dict[str, Any], tuple[list[str], list[list[str]]]]:
    """Values and a table about groups of rows: priors, what moved, decisions and warnings."""
    facts, lines = [], []
    for group in groups:
        name, names = f"{by}={group.name}", ("flagged", "alone", "weight", "p_value", "warnings")
        own = {name: getattr(group, name) for name in names}
        own |= {"moved_columns": list(group.classifier.moved_columns_)}
        facts.append({"data": name, "rows": group.n} | standing(group.classifier) | own)
        decided = [
            f"{group.flagged:,}",
            f"{group.classifier.threshold_:.3g}",
            ", ".join(group.warnings),
        ]
        lines.append([name, f"{group.n:,}", *prior_cells(group), *decided])
    head = ["data", "rows", *PRIOR_HEAD, "flagged", "ratio above", "warnings"]
    return {"found": facts, "differ": groups.differ}, (head, lines)


PRIOR_HEAD = ["prior", "low", "high", "only the prior changed"]


def prior_cells(found: Any) -> list[str]:
    """The cells of :data:`PRIOR_HEAD`, from something with a prior and with what moved."""
    prior = found.prior
    if hasattr(found, "shift_"):
        only_prior = only_prior_text(found)
    else:
        only_prior = ONLY_PRIOR[found.shift]
    return [share(prior.value), share(prior.low), share(prior.high), only_prior]


def table_lines(values: dict[str, Any]) -> dict[str, str]:
    """What was found in the training table and in past periods, from :func:`learnt`."""
    notes, past = values["notes"], values["backtest"]
    lines = {} if past is None else {"past periods": f"{len(past.periods)}. {backtest_text(past)}"}
    return lines | {
        "table" if k == 0 else f"table ({k + 1})": note["text"] for k, note in enumerate(notes)
    }


PRIOR_SHIFT_ONLY = " (ranges that hold for a change of the prior only)"


def decision_lines(values: dict[str, Any]) -> dict[str, str]:
    """What to expect, the bill and the budget, from :func:`standing`."""
    lines = {}
    if "budget" in values:
        found = values["budget"]
        rows = "" if found["rows"] is None else f"{found['rows']:,} rows "
        depth = f"({share(found['share'])})" if rows else share(found["share"])
        lift = figure_text(found["lift"], "{:.3g}".format)
        lines["decided by"] = "the budget; the cost is used for expected costs only"
        lines["checking"] = (
            f"{rows}{depth}: precision {figure_text(found['precision'])}, "
            f"recall {figure_text(found['recall'])}, lift {lift}"
        )
    else:
        lines["to expect"] = ", ".join(
            _expected(values, name) for name in ("flagged", "precision", "recall")
        )
        lines["to expect"] += PRIOR_SHIFT_ONLY if values.get("shift") == "other" else ""
    if "costs" in values:
        bill, costs = values["expected_bill_per_row"], values["costs"]
        digits = 0 if 1000 * bill.high >= 100 else 2
        lines["expected bill"] = (
            f"{figure_text(bill, lambda amount: f'{1000 * amount:,.{digits}f}')} for 1000 rows; "
            f"a false alarm costs {costs['false_alarm']:g}, a miss {costs['miss']:g}"
        )
    return lines


def _expected(values: dict[str, Any], name: str) -> str:
    value, (low, high) = values["expected"][name], values["expected_range"][name]
    return f"{name} {value_text(value, min(low, value), max(high, value))}"


def levels_line(levels: Mapping[str, int]) -> dict[str, str]:
    """How many levels of which categories a file names; no line if there are none."""
    if not levels:
        return {}
    counts = [f"{n} of {name}" for name, n in levels.items()]
    more = f" and of {len(counts) - 8} more columns" if len(counts) > 8 else ""
    return {"names levels": f"{', '.join(counts[:8])}{more}: those of at least five training rows"}


def size(n_bytes: int) -> str:
    """Size of a file as text."""
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"


_seen: dict[
    str, bool
] = {}  # warnings of the running command, and whether they are about an assumption
_subjects: list[str] = []  # names of the files that it works on


@contextmanager
def about(name: Any) -> Iterator[None]:
    """Errors and warnings inside are about the file ``name``, and are shown with its name."""
    _subjects.append(str(name))
    try:
        yield
    except DRPUError as error:
        if not hasattr(error, "about"):
            error.about = str(name)  # type: ignore[attr-defined]
        raise
    finally:
        _subjects.pop()


def message_of(error: BaseException) -> str:
    """The message of an error in one line, with the name of the file that it is about."""
    if isinstance(error, OSError) and error.strerror is not None:
        reason = f"{error.strerror[:1].lower()}{error.strerror[1:]}."
        return reason if error.filename is None else f"{os.fsdecode(error.filename)}: {reason}"
    if isinstance(error, MemoryError):
        return "not enough memory for this data: read fewer columns (--columns), or a Parquet file."
    text = " ".join((getattr(error, "command", None) or str(error)).split()) or type(error).__name__
    if not isinstance(error, (DRPUError, OSError)):
        return f"{type(error).__name__}: {text} (run again with --traceback and report it)"
    name = getattr(error, "about", None)
    return text if name is None or text.lstrip("'").startswith(name) else f"{name}: {text}"


@contextmanager
def shown_warnings(*, quiet: bool = False) -> Iterator[None]:
    """Show each warning as one line on the standard error, without repetition.

    Warnings about ignored columns are shown at the end, and not at all if the command fails. With ``quiet``,
    warnings are in the JSON only.
    """
    _seen.clear()
    ignored = []

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        text = message.for_command_line(share) if isinstance(message, DRPUWarning) else str(message)
        text = " ".join((f"{_subjects[-1]}: {text}" if _subjects else text).split())
        if text in _seen:
            return
        _seen[text] = isinstance(message, DRPUWarning) and message.assumption
        if issubclass(category, ExtraColumnsWarning):
            ignored.append(text)
        elif not quiet:
            say(f"warning: {text}", aside=True)

    with warnings.catch_warnings():  # which also puts the function below back
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
    for text in ignored if not quiet else ():
        say(f"warning: {text}", aside=True)


def doubtful() -> bool:
    """Whether the last command warned that an assumption may be violated."""
    return any(_seen.values())


def as_json(values: dict[str, Any]) -> None:
    """The values with the warnings as one JSON object; infinite numbers become null."""
    print(json.dumps(_plain(values | {"warnings": list(_seen)}), indent=2, allow_nan=False))


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


def printable(text: str) -> str:
    """``text`` with control characters escaped, so that a file cannot control the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: str, *, aside: bool = False) -> None:
    """Print a line for people; ``aside`` prints to the standard error, because the output is data."""
    stream = sys.stderr if aside else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    say_above(printable(text).encode(encoding, "backslashreplace").decode(encoding), stream)


def _table(head: list[str], lines: list[list[str]], *, aside: bool) -> None:
    """A table on a terminal, tab-separated lines in a pipe."""
    rows, stream = (
        [[printable(cell) for cell in line] for line in lines],
        sys.stderr if aside else sys.stdout,
    )
    if not stream.isatty():
        for line in (head, *rows):
            print("\t".join(line), file=stream)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(*head, box=None, pad_edge=False, header_style="bold")
    for line in rows:
        grid.add_row(
            *map(Text, line)
        )  # as Text, because rich treats square brackets in strings as markup
    Console(file=stream).print(grid)
