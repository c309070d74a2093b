"""How much each column adds to the scores of rows, and the columns that speak for and against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from drpu._arrays import FloatArray, IntArray, Rows
from drpu._progress import progress
from drpu._results import TableColumns, TableResult
from drpu._samples import n_rows
from drpu.exceptions import ParameterError
from drpu.state.fitted import FittedRatio
from drpu.tables.frames import is_frame, read_frame

REST = "(rest)"  # what is not a part of any column
BLOCK = 5000  # rows that are explained at a time, and fewer if they are wide
BLOCK_VALUES = 140_000
LEAST_PART = 0.005  # smaller parts of a score, which would be shown as 0.00, are no reasons
NAMED_WORDS = 3  # words that are named for a column of texts

WordParts = list[tuple[str, float]]  # words of a text, with what each adds to the score


@dataclass(frozen=True, slots=True)
class Reasons(TableResult):
    """The columns that speak most for and against a row being positive.

    Attributes
    ----------
    favour, against : tuple of (str, float)
        Columns that raise and that lower the score, each with its part of it, the largest part
        first. After the name of a column of texts come the words that matter most, as in
        ``"message: winner, prize"``.
    """

    favour: tuple[tuple[str, float], ...]
    against: tuple[tuple[str, float], ...]

    def texts(self) -> tuple[str, str]:
        """The two lists as texts, such as ``"amount (+1.20), country (+0.45)"``."""
        return _text(self.favour), _text(self.against)

    def __str__(self) -> str:
        favour, against = self.texts()
        parts = []
        if favour:
            parts.append(f"for: {favour}")
        if against:
            parts.append(f"against: {against}")
        return "; ".join(parts)

    def __repr__(self) -> str:  # one line, as they come in lists
        return f"Reasons({self})"

    def to_columns(self) -> TableColumns:
        """The columns with their parts of the score: those that raise it come first."""
        pairs = [*self.favour, *self.against]
        return {"column": [name for name, _ in pairs], "part": [part for _, part in pairs]}

    def _title(self) -> str:
        return "parts of columns in the score"


def _text(parts: tuple[tuple[str, float], ...]) -> str:
    return ", ".join(f"{name} ({part:+.2f})" for name, part in parts)


def contributions_of(fitted: FittedRatio, X: Any, rows: Rows) -> Any:
    """The part of each column in the score of each row, as a frame if ``X`` is one.

    ``rows`` are the rows of ``X`` as the model reads them.
    """
    blocks = _blocks(rows)
    parts_of_blocks = []
    for place in progress(blocks, total=len(blocks)):
        parts_of_blocks.append(_column_parts(fitted, rows[place]))
    parts = np.concatenate(parts_of_blocks)
    if not is_frame(X):
        return parts
    names = _column_names(fitted, parts)
    rest = REST
    while rest in names:
        rest = f"({rest})"
    columns = dict(zip([*names, rest], parts.T, strict=True))
    source = read_frame(X).columns
    table = nw.from_dict(columns, backend=source.implementation).to_native()
    index = nw.maybe_get_index(source)
    if index is not None:  # frames of pandas
        table.index = index
    return table


def reasons_of(
    fitted: FittedRatio, rows: Rows, most: int, texts: Mapping[str, Any] | None = None
) -> list[Reasons]:
    """The columns that speak most for and against each row, at most ``most`` of each.

    ``texts`` are the values of columns of texts, whose words are named.
    """
    blocks = _blocks(rows)
    reasons_of_rows = []
    for place in progress(blocks, total=len(blocks)):
        texts_of_block = {name: values[place] for name, values in (texts or {}).items()}
        reasons_of_rows += _reasons_of_block(fitted, rows[place], most, texts_of_block)
    return reasons_of_rows


def _reasons_of_block(
    fitted: FittedRatio, rows: Rows, most: int, texts: Mapping[str, Any]
) -> list[Reasons]:
    parts = _column_parts(fitted, rows)
    names = _column_names(fitted, parts)
    parts = parts[:, :-1]
    order = np.argsort(-parts, axis=1, kind="stable")
    favour = order[:, :most]
    against = order[:, ::-1][:, :most]
    words = {}
    for name, values in texts.items():
        position = names.index(name)
        named = ((favour == position) | (against == position)).any(axis=1)
        words[position] = _word_parts(fitted, rows, name, values, np.flatnonzero(named))
    reasons_of_rows = []
    for k, row in enumerate(parts):
        raising = []
        for j in favour[k]:
            if row[j] >= LEAST_PART:
                raising.append((_named(names, words, j, k, 1), float(row[j])))
        lowering = []
        for j in against[k]:
            if row[j] <= -LEAST_PART:
                lowering.append((_named(names, words, j, k, -1), float(row[j])))
        reasons_of_rows.append(Reasons(tuple(raising), tuple(lowering)))
    return reasons_of_rows


def _named(
    names: list[str], words: Mapping[int, dict[int, WordParts]], column: int, row: int, sign: int
) -> str:
    """The name of a column; after that of a column of texts, the words that matter most."""
    name = names[column]
    word_parts = words.get(column, {}).get(row, [])
    speaking = [(sign * part, word) for word, part in word_parts if sign * part > 0]
    speaking.sort(key=lambda pair: -pair[0])
    if not speaking:
        return name
    return f"{name}: {', '.join(word for _, word in speaking[:NAMED_WORDS])}"


def _word_parts(
    fitted: FittedRatio, rows: Rows, name: str, texts: Any, positions: IntArray
) -> dict[int, WordParts]:
    """For each row, how much each word of its text adds: the score less that without the word."""
    table = fitted.columns.table
    assert table is not None  # it has the column of texts
    place, column = table.text_place(name)
    words = []
    rows_of_words = []
    shorter_texts = []
    for row in positions.tolist():
        for word, shorter in column.without_each_word(texts[row]):
            words.append(word)
            rows_of_words.append(row)
            shorter_texts.append(shorter)
    if not words:
        return {}
    without_word = np.array(rows[rows_of_words])
    without_word[:, place] = column.encode_texts(shorter_texts)
    scores = fitted.model.label_scores(rows).mean(axis=1)
    changes = scores[rows_of_words] - fitted.model.label_scores(without_word).mean(axis=1)
    parts: dict[int, WordParts] = {}
    for row, word, change in zip(rows_of_words, words, changes.tolist(), strict=True):
        parts.setdefault(row, []).append((word, change))
    return parts


def importances_of(fitted: FittedRatio, rows: Rows) -> FloatArray | None:
    """Mean absolute part of each column in the scores of rows; None if the model has no trees."""
    total: Any = 0.0
    try:
        for place in _blocks(rows):
            total = total + np.abs(_column_parts(fitted, rows[place])).sum(axis=0)
    except ParameterError:
        return None
    return np.asarray(total[:-1] / n_rows(rows))


def _blocks(rows: Rows) -> list[slice]:
    """Places of rows that are explained together; sparse rows must not be filled all at once."""
    size = min(BLOCK, max(1, BLOCK_VALUES // rows.shape[1]))
    return [slice(start, start + size) for start in range(0, n_rows(rows), size)]


def _column_parts(fitted: FittedRatio, rows: Rows) -> FloatArray:
    """The part of each column of the training table in the score of each row, and the rest."""
    parts: FloatArray = fitted.model.contributions(rows)
    table = fitted.columns.table
    if table is None:
        return parts
    return table.by_column(parts)


def _column_names(fitted: FittedRatio, parts: FloatArray) -> list[str]:
    """The names of the columns of :func:`_column_parts`, without the rest."""
    names = fitted.columns.names
    if names is None:
        return [f"column {k}" for k in range(parts.shape[1] - 1)]
    return list(names)
