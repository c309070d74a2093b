"""Results that are tables: a data frame, a text and an HTML table made of their columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from importlib.util import find_spec
from itertools import islice
from typing import Any, TypeAlias

import narwhals as nw

from drpu._checks import require
from drpu._output import escape, printable

TableColumns: TypeAlias = dict[str, list[Any]]  # lists of one length; the first names the rows

MOST_SHOWN = 30  # rows in a text and in an HTML table
_SMALL = 0.001  # smaller numbers would be rounded to 0


class TableResult(ABC):
    """Base of results that are tables."""

    __slots__ = ()

    @abstractmethod
    def to_columns(self) -> TableColumns:
        """Columns of the table, by name."""

    @abstractmethod
    def _title(self) -> str:
        """One line about the table."""

    def _shown_columns(self) -> TableColumns:
        """The columns in texts, where some values may be left out."""
        return self.to_columns()

    def to_frame(self) -> Any:
        """The table as a data frame: of pandas if it is installed, otherwise of polars or Arrow."""
        return frame_of(self.to_columns())

    def __repr__(self) -> str:
        return text_table(f"{type(self).__name__}: {self._title()}", self._shown_columns())

    def _repr_html_(self) -> str:
        return html_table(f"{type(self).__name__}: {self._title()}", self._shown_columns())


def html_text(described: Any) -> str:
    """A result of one line as HTML: the name of its class, and its text."""
    name = type(described).__name__
    return f"<p><b>{name}</b>: {escape(printable(str(described)))}</p>"


def figure_columns(figures: Iterable[Any]) -> TableColumns:
    """The columns ``value``, ``low`` and ``high`` of figures or priors."""
    columns: TableColumns = {"value": [], "low": [], "high": []}
    for figure in figures:
        columns["value"].append(figure.value)
        columns["low"].append(figure.low)
        columns["high"].append(figure.high)
    return columns


def columns_of(rows: Iterable[dict[str, Any]]) -> TableColumns:
    """Columns by name, from rows with the same names; there must be at least one row."""
    columns: TableColumns = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return columns


def frame_of(columns: TableColumns) -> Any:
    """A data frame of the columns, in the first library that is installed."""
    for library in ("pandas", "polars"):
        if find_spec(library) is not None:
            return nw.from_dict(columns, backend=library).to_native()
    require("pyarrow", extra="data", for_="to_frame without pandas and polars")
    return nw.from_dict(columns, backend="pyarrow").to_native()


def text_table(title: str, columns: TableColumns) -> str:
    """The title, the names of the columns and the first rows, with rounded numbers."""
    rows = []
    for cells in (list(columns), *_first_rows(columns)):
        rows.append([printable(cell) for cell in cells])
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = [printable(title)]
    for name, *cells in rows:
        aligned = [name.ljust(widths[0])]
        for cell, width in zip(cells, widths[1:], strict=True):
            aligned.append(cell.rjust(width))
        lines.append("  ".join(aligned).rstrip())
    n_more = _n_more(columns)
    if n_more:
        lines.append(f"and {n_more} more")
    return "\n".join(lines)


def html_table(title: str, columns: TableColumns) -> str:
    """The same as an HTML table; texts are escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = ""
    for name, *cells in _first_rows(columns):
        values = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        body += f"<tr><th scope=row>{escape(name)}</th>{values}</tr>"
    n_more = _n_more(columns)
    if n_more:
        body += f"<tr><td colspan={len(columns)}>and {n_more} more</td></tr>"
    return (
        f"<table><caption>{escape(title)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _n_more(columns: TableColumns) -> int:
    n_rows = len(next(iter(columns.values())))
    return max(n_rows - MOST_SHOWN, 0)


def _first_rows(columns: TableColumns) -> list[list[str]]:
    rows = []
    for name, *cells in islice(zip(*columns.values(), strict=True), MOST_SHOWN):
        # a number that names a row, such as a year or a level, has no fixed digits
        row_name = f"{name:g}" if isinstance(name, float) else str(name)
        rows.append([row_name, *map(_cell, cells)])
    return rows


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    if 0 < abs(value) < _SMALL:
        return f"{value:.1g}"
    return f"{value:.3f}"
