"""What a command prints: lines for people, one JSON object for programs, and warnings."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from drpu._output import printable
from drpu._progress import say_above
from drpu.exceptions import DRPUError, DRPUWarning, ExtraColumnsWarning
from drpu.report.texts import (
    ONLY_PRIOR,
    backtest_text,
    expected_text,
    figure_text,
    only_prior_text,
    share,
)

PIPE = "-"  # a path: the standard input, or the standard output
SHOWN_FIGURES = ("accuracy", "precision", "recall", "flagged", "cost")
PRIOR_HEAD = ["prior", "low", "high", "only the prior changed"]
COST_ONLY_EXPECTED = "the cost is used for expected costs only"
PRIOR_SHIFT_ONLY = " (ranges that hold for a change of the prior only)"

Table = tuple[list[str], list[list[str]]]  # names of columns, and lines of cells


@dataclass(frozen=True, slots=True)
class Result:
    """What a command found."""

    values: dict[str, Any]  # plain values, for JSON
    lines: Mapping[str, Any] | Sequence[str] = ()  # names with values, or sentences, for people
    table: Table | None = None
    aside: bool = False  # people read it on the standard error, because the output carries data


def print_result(result: Result, *, in_json: bool) -> None:
    """Print a result for programs or for people."""
    if in_json:
        print_json(result.values)
        return
    if result.table is not None:
        head, rows = result.table
        _print_table(head, rows, aside=result.aside)
    if isinstance(result.lines, Mapping):
        width = max(map(len, result.lines), default=0)
        for name, value in result.lines.items():
            say(f"{name:<{width}}  {value}", aside=result.aside)
    else:
        for line in result.lines:
            say(line, aside=result.aside)


# -- facts about a classifier ----------------------------------------------------------------------


def position(classifier: Any) -> dict[str, Any]:
    """The current prior, cost and threshold of the classifier, and what moved."""
    reading = classifier.reading_ if hasattr(classifier, "shift_") else None
    return position_at(classifier.fitted_, classifier.point_, reading)


def position_at(fitted: Any, point: Any, reading: Any = None) -> dict[str, Any]:
    """Priors, cost and threshold at an operating point; of new rows also what moved."""
    values = {
        "train_prior": fitted.prior,
        "prior": point.prior,
        "cost": point.cost,
        "threshold": point.threshold,
    }
    if reading is not None:
        values |= {"shift": reading.shift, "untested": reading.untested}
    return values


def standing(classifier: Any) -> dict[str, Any]:
    """The position of the classifier, and what to expect from it."""
    expected = classifier.expected_performance()
    values = position(classifier)
    values["expected"] = attributes(expected, *SHOWN_FIGURES)
    costs = classifier.cost_
    if hasattr(costs, "miss"):
        values["costs"] = {"false_alarm": costs.false_alarm, "miss": costs.miss}
        values["expected_bill_per_row"] = classifier.expected_bill()
    budget = getattr(classifier, "budget_", None)
    if budget is not None:
        names = ("share", "threshold", "precision", "recall", "lift", "flagged", "tied")
        values["budget"] = {"rows": budget.n} | attributes(budget, *names)
    return values


def attributes(described: Any, *names: str) -> dict[str, Any]:
    """Attributes of an object by name, for JSON."""
    return {name: getattr(described, name) for name in names}


def learnt(fitted: Any, kind: str) -> dict[str, Any]:
    """Facts about the fit of a classifier of this kind."""
    row_shape = fitted.model.row_shape
    if len(row_shape) == 1:
        row_shape = None
    notes = [asdict(note) | {"text": note.text(command_line=True)} for note in fitted.columns.notes]
    return {
        "kind": kind,
        "model": fitted.model.describe(),
        "n_columns": fitted.columns.n,
        "row_shape": row_shape,
        "columns": fitted.columns.names,
        "classes": fitted.classes,
        "positives": fitted.population.sizes[0],
        "unlabeled": fitted.population.sizes[1],
        "held_out_positives": fitted.tails.n_positive,
        "counted_unlabeled": fitted.tails.n,
        "labelled_share": fitted.population.labelled_fraction,
        "scenario": fitted.population.scenario,
        "period": fitted.columns.period,
        "backtest": fitted.history,
        "notes": notes,
    }


def by_group(groups: Any, by: str) -> tuple[dict[str, Any], Table]:
    """Values and a table about groups of rows: priors, what moved, decisions and warnings."""
    facts = []
    rows = []
    for group in groups:
        group_name = f"{by}={group.name}"
        values = {"data": group_name, "rows": group.n} | standing(group.classifier)
        values |= attributes(group, "flagged", "alone", "weight", "p_value", "warnings")
        values["moved_columns"] = list(group.classifier.moved_columns_)
        facts.append(values)
        decision = [f"{group.flagged:,}", f"{group.classifier.threshold_:.3g}"]
        warnings_of_group = ", ".join(group.warnings)
        cells = [f"{group.n:,}", *prior_cells(group), *decision, warnings_of_group]
        rows.append([group_name, *cells])
    head = ["data", "rows", *PRIOR_HEAD, "flagged", "ratio above", "warnings"]
    return {"found": facts, "differ": groups.differ}, (head, rows)


def prior_cells(estimated: Any) -> list[str]:
    """The cells of :data:`PRIOR_HEAD`, for an adapted classifier or a group."""
    if hasattr(estimated, "shift_"):
        only_prior = only_prior_text(estimated)
    else:
        only_prior = ONLY_PRIOR[estimated.shift]
    prior = estimated.prior
    return [share(prior.value), share(prior.low), share(prior.high), only_prior]


# -- lines about a classifier ----------------------------------------------------------------------


def table_lines(values: dict[str, Any]) -> dict[str, str]:
    """What was found in the training table and in past periods, from :func:`learnt`."""
    lines = {}
    past = values["backtest"]
    if past is not None:
        lines["past periods"] = f"{len(past.periods)}. {backtest_text(past)}"
    for number, note in enumerate(values["notes"], start=1):
        name = "table" if number == 1 else f"table ({number})"
        lines[name] = note["text"]
    return lines


def decision_lines(values: dict[str, Any]) -> dict[str, str]:
    """What to expect, the bill and the budget, from :func:`standing`."""
    lines = {}
    if "budget" in values:
        lines["decided by"] = budget_text(values["budget"])
        precision = expected_text(values["budget"]["precision"])
        recall = expected_text(values["budget"]["recall"])
        lift = figure_text(values["budget"]["lift"], "{:.3g}".format)
        expected = f"precision {precision}, recall {recall}, lift {lift}"
        lines["to expect"] = expected + tie_text(values)
    else:
        texts = []
        for name in ("flagged", "precision", "recall"):
            texts.append(f"{name} {expected_text(values['expected'][name])}")
        lines["to expect"] = ", ".join(texts)
        if values.get("shift") == "other":
            lines["to expect"] += PRIOR_SHIFT_ONLY
    if "costs" in values:
        lines["expected bill"] = _bill_line(values["expected_bill_per_row"], values["costs"])
    return lines


def budget_text(budget: dict[str, Any]) -> str:
    """The budget as the reason of a threshold."""
    depth = f"{share(budget['share'])} of the rows"
    if budget["rows"] is not None:
        depth = f"{budget['rows']:,} rows ({share(budget['share'])})"
    return f"a budget of {depth}; {COST_ONLY_EXPECTED}"


def tie_text(values: dict[str, Any]) -> str:
    """How many rows share the last score of a budget, if more rows than it are flagged."""
    budget = values.get("budget")
    if budget is None or budget["flagged"] in (None, budget["rows"]):
        return ""
    return f"; {budget['tied']:,} rows share the last score, so {budget['flagged']:,} are flagged"


def _bill_line(bill: Any, costs: dict[str, float]) -> str:
    digits = 0 if 1000 * bill.high >= 100 else 2
    for_1000_rows = figure_text(bill, lambda amount: f"{1000 * amount:,.{digits}f}")
    return (
        f"{for_1000_rows} for 1000 rows; "
        f"a false alarm costs {costs['false_alarm']:g}, a miss {costs['miss']:g}"
    )


def levels_line(levels: Mapping[str, int]) -> dict[str, str]:
    """How many levels of which categories a file names; no line if there are none."""
    if not levels:
        return {}
    counts = [f"{n} of {name}" for name, n in levels.items()]
    text = ", ".join(counts[:8])
    if len(counts) > 8:
        text += f" and of {len(counts) - 8} more columns"
    return {"names levels": f"{text}: those of at least five training rows"}


def listed(names: Iterable[Any], most: int = 12) -> str:
    """The first names on one line, and the number of others."""
    texts = [str(name) for name in names]
    line = ", ".join(texts[:most])
    if len(texts) > most:
        line += f" and {len(texts) - most} more"
    return line


def size(n_bytes: int) -> str:
    """Size of a file as text."""
    if n_bytes >= 1e6:
        return f"{n_bytes / 1e6:.1f} MB"
    return f"{n_bytes / 1e3:.0f} kB"


# -- errors and warnings ---------------------------------------------------------------------------

# The library calls rows X and labels y, where a user of the command line has a file with columns.
_PYTHON_WORDS = {"X": "the table", "y": "the column of labels"}
_VERBS = "must|has|have|had|holds|hold|is|are|cannot|contains|and"
_PYTHON_WORD = re.compile(
    rf"\b[Xy](?= (?:{_VERBS})\b)|(?:(?<=\bof )|(?<=\bin )|(?<=\band ))[Xy]\b(?!')"
)

_subjects: list[str] = []  # names of the files that the running command works on
# Warnings of the running command, and whether they are about an assumption.
_issued: dict[str, bool] = {}


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
        if error.filename is None:
            return reason
        return f"{os.fsdecode(error.filename)}: {reason}"
    if isinstance(error, MemoryError):
        return "not enough memory for this data: read fewer columns (--columns), or a Parquet file."
    text = getattr(error, "command", None) or _in_command_words(str(error))
    text = _one_line(text) or type(error).__name__
    if not isinstance(error, (DRPUError, OSError)):
        return f"{type(error).__name__}: {text} (run again with --traceback and report it)"
    name = getattr(error, "about", None)
    if name is None or text.lstrip("'").startswith(name):
        return text
    return f"{name}: {text}"


def print_error(
    kind: str, message: str, *, code: int, in_json: bool, usage: Sequence[str] = ()
) -> None:
    """Print an error for people, after lines about the usage, and for programs with ``in_json``."""
    if in_json:
        print_json({"error": {"type": kind, "exit_code": code, "message": message}})
    for line in (*usage, f"error: {message}"):
        say(line, aside=True)


@contextmanager
def warnings_as_lines(*, quiet: bool = False) -> Iterator[None]:
    """Show each warning as one line on the standard error, without repetition.

    Warnings about ignored columns are shown at the end, and not at all if the command fails. With
    ``quiet``, warnings are in the JSON only.
    """
    _issued.clear()
    last = []

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        text = _warning_text(message)
        if text in _issued:
            return
        _issued[text] = isinstance(message, DRPUWarning) and message.assumption
        if quiet:
            return
        if issubclass(category, ExtraColumnsWarning):
            last.append(text)
        else:
            say(f"warning: {text}", aside=True)

    with warnings.catch_warnings():  # which also puts the function below back
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
    for text in last:
        say(f"warning: {text}", aside=True)


def _warning_text(warning: Any) -> str:
    """A warning in one line, with the name of the file that it is about."""
    text = str(warning)
    if isinstance(warning, DRPUWarning):
        text = _in_command_words(warning.for_command_line(share))
    if _subjects:
        text = f"{_subjects[-1]}: {text}"
    return _one_line(text)


def _in_command_words(text: str) -> str:
    return _PYTHON_WORD.sub(lambda word: _PYTHON_WORDS[word.group()], text)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def doubtful() -> bool:
    """Whether the last command warned that an assumption may be violated."""
    return any(_issued.values())


# -- printing --------------------------------------------------------------------------------------


def print_json(values: dict[str, Any]) -> None:
    """Print the values with the warnings as one JSON object; infinite numbers become null."""
    print(json.dumps(plain(values | {"warnings": list(_issued)}), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """The value in types of JSON; infinite numbers and NaN become None."""
    if is_dataclass(value) and not isinstance(value, type):
        # fields that a text does not show, such as a whole distribution, are left out
        value = {field.name: getattr(value, field.name) for field in fields(value) if field.repr}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(plain, value))
    if hasattr(value, "tolist"):  # NumPy arrays and numbers
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def say(text: str, *, aside: bool = False) -> None:
    """Print a line for people; with ``aside`` on the standard error, as the output is data."""
    stream = sys.stderr if aside else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    say_above(printable(text).encode(encoding, "backslashreplace").decode(encoding), stream)


def _print_table(head: list[str], rows: list[list[str]], *, aside: bool) -> None:
    """Print a table on a terminal, tab-separated lines in a pipe."""
    stream = sys.stderr if aside else sys.stdout
    if not stream.isatty():
        for row in (head, *rows):
            print("\t".join(map(printable, row)), file=stream)
        return
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(*head, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        # as Text, because rich treats square brackets in strings as markup
        grid.add_row(*(Text(printable(cell)) for cell in row))
    Console(file=stream).print(grid)
