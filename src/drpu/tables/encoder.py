"""ColumnPlan: how one column of a table becomes numbers or category codes."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import narwhals as nw
import numpy as np

from drpu._codec import Items, NotKept, Number, Text, Whole, kept
from drpu._typing import FloatArray
from drpu.core.shift.columns import RANGES, RARE, Cells
from drpu.exceptions import (
    DataError,
    DataTypeError,
    IdColumnWarning,
    UnseenLevelsWarning,
    warn,
)
from drpu.tables.columns import (
    CATEGORY,
    DATE,
    NUMBER,
    Column,
    by_frequency,
    counted,
    is_missing,
    level_name,
    read_column,
    read_numbers,
)
from drpu.tables.frames import Frame, aligned, columns_named
from drpu.tables.summaries import ColumnSummary

__all__ = [
    "FIRST",
    "LEFT_OUT",
    "MISSING",
    "MOST_INDICATORS",
    "OTHER",
    "ColumnPlan",
    "Indicators",
    "TableEncoder",
    "fixed_cells",
]

# Codes of a missing value, of rare and unseen levels, and of the most frequent level.
MISSING, OTHER, FIRST = 0, 1, 2
LEFT_OUT = "left out"
FEWEST_ROWS = 5  # a level with fewer rows is rare
MOST_LEVELS = 255  # maximum number of levels of a column; the others count as rare


@kept("column")
@dataclass(frozen=True)
class ColumnPlan:
    """Name and kind of one column and, for a category, its levels by frequency."""

    name: str
    kind: Annotated[str, Text(choices=(NUMBER, DATE, CATEGORY, LEFT_OUT))]
    levels: Annotated[tuple[str, ...], Items(0, MOST_LEVELS)] = ()
    # Rows of each level; unknown after loading.
    rows: Annotated[tuple[int, ...], NotKept] = field(default=(), compare=False)
    # Share of rows with rare levels to expect.
    rare: Annotated[float, Number(0, 1)] = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        if len(set(self.levels)) != len(self.levels):
            raise DataError(f"column {self.name!r:.100} names a level twice.")

    @classmethod
    def of_column(cls, name: str, column: Column) -> Self:
        """The plan of a column that was read."""
        if column.levels is None:
            return cls(name, column.kind)
        counts = counted(column.levels)
        return cls.category(name, counts, sum(n for _, n in counts))

    @classmethod
    def category(cls, name: str, counts: Sequence[tuple[str, int]], present: int) -> Self:
        """A category with the levels that are frequent enough, of all levels by frequency.

        The share of rows with rare levels that new rows will have is estimated by leaving each training row
        out: a level that is frequent enough by one row only counts as rare.
        """
        kept = [(level, n) for level, n in counts if n >= FEWEST_ROWS][:MOST_LEVELS]
        sure = sum(n for _, n in kept if n > FEWEST_ROWS)
        rare = 1 - sure / present if present else 0.0
        return cls(name, CATEGORY, tuple(level for level, _ in kept), tuple(n for _, n in kept), rare)

    def training_values(self, column: Column) -> FloatArray:
        """Numbers or codes of the column that the plan was made from."""
        if column.numbers is not None:
            return column.numbers
        assert column.levels is not None
        codes = self._codes()
        found = [MISSING if level is None else codes.get(level, OTHER) for level in column.levels]
        return np.array(found, dtype=np.float64)

    def values(self, series: nw.Series[Any], salt: str | None) -> FloatArray:
        """Numbers or codes of a new column; with a salt, levels are digests."""
        if self.kind != CATEGORY:
            return read_numbers(self.name, self.kind, series)
        codes, known, found = self._codes(), dict[Any, int](), []
        for value in series.to_list():
            try:
                code = known.get(value)
            except TypeError as error:
                kind = type(value).__name__
                raise DataTypeError(f"column {self.name!r} holds a {kind}, not a name.") from error
            if code is None:
                code = known[value] = _code(value, codes, salt)
            found.append(code)
        return np.array(found, dtype=np.float64)

    def code_counts(self, summary: ColumnSummary) -> dict[int, int]:
        """Rows of each code of a category."""
        rows = {MISSING: summary.rows - summary.present, OTHER: summary.present - sum(self.rows)}
        rows |= {FIRST + k: n for k, n in enumerate(self.rows)}
        return {code: n for code, n in rows.items() if n > 0}

    def hashed(self, salt: str) -> Self:
        """The same plan with digests in place of levels."""
        return replace(self, levels=tuple(_digest(salt, level) for level in self.levels))

    def without_rare(self, rows: int) -> Self:
        """The same plan without the levels of fewer than ``rows`` training rows."""
        if not self.levels:
            return self
        if not self.rows:
            raise DataError(
                "the rows of each level are not known after loading: leave rare levels out when the fitted "
                "classifier is saved for the first time."
            )
        keep = sum(1 for n in self.rows if n >= rows)
        total = sum(n for n in self.rows if n > FEWEST_ROWS) / max(1 - self.rare, 1e-9)
        rare = min(1.0, self.rare + sum(n for n in self.rows[keep:] if n > FEWEST_ROWS) / max(total, 1.0))
        return replace(self, levels=self.levels[:keep], rows=self.rows[:keep], rare=rare)

    def _codes(self) -> dict[str, int]:
        return {level: FIRST + position for position, level in enumerate(self.levels)}


def _code(value: Any, codes: dict[str, int], salt: str | None) -> int:
    if is_missing(value):
        return MISSING
    name = level_name(value)
    return codes.get(name if salt is None else _digest(salt, name), OTHER)


def _digest(salt: str, level: str) -> str:
    return hashlib.sha256(f"{salt}\0{level}".encode()).hexdigest()[:24]


FREQUENT = 50  # minimum number of training rows of a level for its share to be compared


def fixed_cells(table: TableEncoder | None, columns: int) -> list[Cells | None]:
    """Cells of each encoded column that holds levels or indicators; None for columns of numbers.

    Codes are sorted by frequency in training, and frequent levels were frequent partly by chance. Ranges
    of codes would therefore change even if nothing changed. Levels are put into cells by a hash of
    their names instead, and rare levels are not compared.
    """
    if table is None or columns != table.width:
        return [None] * columns
    if table.indicators is None:
        return [_of_codes(plan) if plan.kind == CATEGORY else None for plan in table.used]
    shown = table.indicators
    cells: list[Cells | None] = [None] * (shown.n_columns - len(shown.categories))
    for j, codes, rest in zip(shown.categories, shown.codes, shown.rest, strict=True):
        frequent = {MISSING} | {FIRST + k for k, n in enumerate(table.used[j].rows) if n >= FREQUENT}
        cells += [_indicator(code in frequent) for code in codes] + [_indicator(False)] * rest
    return cells


def _of_codes(plan: ColumnPlan) -> Cells:
    frequent = [k for k, n in enumerate(plan.rows) if n >= FREQUENT]
    codes = np.full(FIRST + len(plan.levels), RARE, dtype=np.int64)
    codes[MISSING] = 0
    for place, k in enumerate(frequent):
        own = place if len(frequent) <= RANGES else _hash(plan.levels[k]) % RANGES
        codes[FIRST + k] = RARE + 1 + own
    return Cells(np.empty(0), codes)


def _indicator(tested: bool) -> Cells:
    return Cells(np.array([0.5]) if tested else np.empty(0))


def _hash(level: str) -> int:
    return int.from_bytes(hashlib.blake2b(level.encode(), digest_size=8).digest(), "little")


MOST_INDICATORS = 30  # maximum number of columns of a category; its other codes share one more


@kept("indicators")
@dataclass(frozen=True)
class Indicators:
    """One column of zeros and ones for each frequent code of a category.

    Attributes
    ----------
    n_columns : int
        Number of columns with categories as codes.
    categories : tuple of int
        Positions of the categories.
    codes : tuple of tuples of int
        For each category, the codes that have their own column.
    rest : tuple of bool
        Whether the other codes of a category share one more column. This is the case if training had such
        codes. Otherwise an unknown code has a 0 in every column of its category.
    """

    n_columns: Annotated[int, Whole(1, 2**31)]
    categories: Annotated[tuple[int, ...], Items(dim="c")]
    codes: Annotated[tuple[Annotated[tuple[int, ...], Items(1)], ...], Items(dim="c")]
    rest: Annotated[tuple[bool, ...], Items(dim="c")]

    def __post_init__(self) -> None:
        different = len(set(self.categories)) == len(self.categories)
        if not different or not all(0 <= j < self.n_columns for j in self.categories):
            raise DataError("the categories of indicators must be different positions of columns.")
        if any(list(codes) != sorted(set(codes)) for codes in self.codes):
            raise DataError("the codes of indicators must be sorted and different.")

    @classmethod
    def of(cls, rows: FloatArray, categories: Sequence[int], most: int = MOST_INDICATORS) -> Self:
        """Indicators for the most frequent codes in ``rows``; no label is used."""
        counts = {}
        for j in categories:
            values, n = np.unique(rows[:, j], return_counts=True)
            counts[j] = {int(value): int(k) for value, k in zip(values, n, strict=True)}
        return cls.of_counts(rows.shape[1], counts, most)

    @classmethod
    def of_counts(
        cls, n_columns: int, counts: Mapping[int, Mapping[int, int]], most: int = MOST_INDICATORS
    ) -> Self:
        """Indicators for the most frequent codes of each category, from the number of rows of every code."""
        codes = tuple(
            tuple(sorted(sorted(rows, key=lambda code: (-rows[code], code))[:most]))
            for rows in counts.values()
        )
        return cls(n_columns, tuple(counts), codes, tuple(len(rows) > most for rows in counts.values()))

    def __call__(self, rows: FloatArray) -> FloatArray:
        """The numbers of ``rows``, followed by the indicators of each category."""
        numbers = [j for j in range(self.n_columns) if j not in set(self.categories)]
        out = np.zeros((len(rows), self.n_out), dtype=rows.dtype)
        out[:, : len(numbers)] = rows[:, numbers]
        start = len(numbers)
        for j, codes, rest in zip(self.categories, self.codes, self.rest, strict=True):
            known = np.array(codes, dtype=rows.dtype)
            place = np.minimum(np.searchsorted(known, rows[:, j]), len(known) - 1)
            own = known[place] == rows[:, j]
            out[np.flatnonzero(own), start + place[own]] = 1
            if rest:
                out[~own, start + len(known)] = 1
            start += len(known) + rest
        return out

    @property
    def n_out(self) -> int:
        """Number of columns of the result."""
        return self.n_columns - len(self.categories) + sum(map(len, self.codes)) + sum(self.rest)

    @property
    def sources(self) -> list[int]:
        """The column that each column of the result comes from."""
        found = [j for j in range(self.n_columns) if j not in set(self.categories)]
        for j, codes, rest in zip(self.categories, self.codes, self.rest, strict=True):
            found += [j] * (len(codes) + rest)
        return found


MANY_UNSEEN = 0.2  # increase of the share of rare and unseen levels that causes a warning
ENOUGH_ROWS = 50  # minimum number of rows for that warning


@kept("table")
@dataclass(frozen=True)
class TableEncoder:
    """Reads the columns of a table by name and returns numbers and category codes.

    Attributes
    ----------
    columns : tuple of ColumnPlan
        All columns of the training table, in their order.
    named : bool
        Whether columns are found by name; otherwise by position.
    indicators : Indicators or None
        If given, categories become indicator columns instead of codes.
    salt : str or None
        If given, levels are salted SHA-256 digests of the values.

    Notes
    -----
    Numbers and booleans stay numbers, and so do strings that are all plain numbers. Dates, and strings
    that are all dates as in 2026-06-30, become days since 1970-01-01, durations and times of the day
    days. Other strings and declared categories become codes: 0 for a missing value, 1 for a rare or
    unseen level, and 2, 3, ... for the levels by frequency. A level is rare if it has fewer than 5 rows, or
    if 255 others are more frequent. Labels are not used.
    """

    columns: Annotated[tuple[ColumnPlan, ...], Items(1)]
    named: bool
    salt: str | None = None
    indicators: Indicators | None = None

    def __post_init__(self) -> None:
        if len({plan.name for plan in self.columns}) != len(self.columns):
            raise DataError("a table encoder names a column twice.")
        if not self.used:
            raise DataError("a table encoder leaves all columns out.")
        if self.indicators is not None and self.indicators.n_columns != len(self.used):
            raise DataError("the indicators of a table encoder must have its columns.")

    @classmethod
    def fit(cls, parts: Sequence[Frame], *, expand: bool = False) -> tuple[Self, FloatArray]:
        """The encoder of a training table and its encoded rows; the rows may be given in several parts.

        With ``expand`` categories become indicator columns, otherwise codes.
        """
        first = parts[0]
        others = [aligned(part, first.names, named=first.named) for part in parts[1:]]
        parts = [first, *others]
        names = first.names
        read = [read_column(name, [part.column(j) for part in parts]) for j, name in enumerate(names)]
        _refuse_text(names, read, _recipe)
        ids = _left_out(names, read)
        plans = [
            ColumnPlan(name, LEFT_OUT) if name in ids else ColumnPlan.of_column(name, column)
            for name, column in zip(names, read, strict=True)
        ]
        encoder = cls(tuple(plans), first.named)
        pairs = [(p, c) for p, c in zip(plans, read, strict=True) if p.kind != LEFT_OUT]
        matrix = _matrix([plan.training_values(column) for plan, column in pairs], parts)
        if expand and encoder.categories:
            encoder = replace(encoder, indicators=Indicators.of(matrix, encoder.categories))
        return encoder, encoder._expanded(matrix)

    @classmethod
    def of_summaries(cls, summaries: Mapping[str, ColumnSummary], *, expand: bool = False) -> Self:
        """The encoder of a training table in parts with named columns, from their summaries."""
        names, read = list(summaries), [summaries[name].read(name) for name in summaries]
        _refuse_text(names, read, lambda *_: "turn it into columns of numbers before the fit")
        ids = _left_out(names, read)
        plans = []
        for name, column in zip(names, read, strict=True):
            if name in ids or column.kind != CATEGORY:
                plans.append(ColumnPlan(name, LEFT_OUT if name in ids else column.kind))
            else:
                summary = summaries[name]
                plans.append(ColumnPlan.category(name, by_frequency(summary.levels), summary.present))
        encoder = cls(tuple(plans), named=True)
        if not expand or not encoder.categories:
            return encoder
        codes = {j: plan.code_counts(summaries[plan.name]) for j, plan in enumerate(encoder.used)
                 if plan.kind == CATEGORY}  # fmt: skip
        return replace(encoder, indicators=Indicators.of_counts(len(encoder.used), codes))

    @classmethod
    def numbers(cls, names: Sequence[str]) -> Self:
        """An encoder of named columns that are all numeric."""
        return cls(tuple(ColumnPlan(str(name), NUMBER) for name in names), named=True)

    @property
    def used(self) -> tuple[ColumnPlan, ...]:
        """The columns that are used as features."""
        return tuple(plan for plan in self.columns if plan.kind != LEFT_OUT)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the columns that look like identifiers."""
        return tuple(plan.name for plan in self.columns if plan.kind == LEFT_OUT)

    @property
    def categories(self) -> tuple[int, ...]:
        """Positions of the encoded columns that hold category codes."""
        if self.indicators is not None:
            return ()
        return tuple(j for j, plan in enumerate(self.used) if plan.kind == CATEGORY)

    @property
    def plain(self) -> bool:
        """Whether every column is numeric and is used unchanged."""
        return all(plan.kind == NUMBER for plan in self.columns)

    @property
    def width(self) -> int:
        """Number of columns of the encoded rows."""
        return len(self.used) if self.indicators is None else self.indicators.n_out

    def transform(self, frame: Frame, *, warn: bool = True) -> FloatArray:
        """The encoded rows of a table with the columns of training, in any order.

        ``warn`` is whether to warn about many unseen levels.
        """
        names = [plan.name for plan in self.columns]
        frame = aligned(frame, names, named=self.named, optional=frozenset(self.left_out))
        here = dict(zip(frame.names, range(len(frame.names)), strict=True))
        at = here if self.named else dict(zip(names, range(len(names)), strict=True))
        values = [plan.values(frame.column(at[plan.name]), self.salt) for plan in self.used]
        if warn:
            self._warn_of_unseen(frame, values)
        return self._expanded(_matrix(values, [frame.select([at[plan.name] for plan in self.used])]))

    def by_column(self, values: FloatArray) -> FloatArray:
        """Sums of values over the encoded columns of each column of the table; a last column is kept."""
        found = np.zeros((len(values), len(self.columns) + 1))
        position = [j for j, plan in enumerate(self.columns) if plan.kind != LEFT_OUT]
        own = range(len(position)) if self.indicators is None else self.indicators.sources
        for k, j in enumerate(own):
            found[:, position[j]] += values[:, k]
        found[:, -1] = values[:, -1]
        return found

    def check_array(self) -> None:
        """Raise if an array cannot replace the table, because some columns are not numeric."""
        others = [plan.name for plan in self.used if plan.kind != NUMBER]
        if others:
            raise DataTypeError(
                f"X must be a table, not an array: training read {columns_named(others)} as categories or "
                "dates."
            )

    def transform_array(self, X: Any) -> Any:
        """The used columns of an array of numbers, by position."""
        keep = [j for j, plan in enumerate(self.columns) if plan.kind != LEFT_OUT]
        return X if len(keep) == len(self.columns) else X[:, keep]

    def hashed(self, salt: str | None = None) -> TableEncoder:
        """The same encoder with digests in place of levels."""
        if self.salt is not None:
            return self
        salt = salt or secrets.token_hex(16)
        return replace(self, columns=tuple(plan.hashed(salt) for plan in self.columns), salt=salt)

    def without_rare(self, rows: int) -> TableEncoder:
        """The same encoder without the levels of fewer than ``rows`` training rows.

        The other levels keep their codes, because codes are in order of frequency.
        """
        return replace(self, columns=tuple(plan.without_rare(rows) for plan in self.columns))

    def kept_values(self) -> dict[str, int]:
        """Number of values that each category column keeps."""
        return {plan.name: len(plan.levels) for plan in self.used if plan.levels}

    def _expanded(self, matrix: FloatArray) -> FloatArray:
        return matrix if self.indicators is None else self.indicators(matrix)

    def _warn_of_unseen(self, frame: Frame, values: list[FloatArray]) -> None:
        if len(frame) < ENOUGH_ROWS:
            return
        many = []
        for plan, codes in zip(self.used, values, strict=True):
            share = float(np.mean(codes == OTHER))
            if plan.kind == CATEGORY and plan.levels and share - plan.rare > MANY_UNSEEN:
                many.append(f"{plan.name!r} ({share:.0%})")
        if many:
            warn(
                UnseenLevelsWarning(
                    f"many rows have levels that training did not keep, in {', '.join(many[:8])}: they count "
                    "as rare levels. Check whether the coding of the column has changed."
                )
            )


def _matrix(values: list[FloatArray], parts: list[Frame]) -> FloatArray:
    """The columns side by side, in single precision only if all of them have it."""
    single = all(dtype == nw.Float32 for part in parts for dtype in part.columns.schema.values())
    matrix = np.empty((sum(map(len, parts)), len(values)), dtype=np.float32 if single else np.float64)
    for j, column in enumerate(values):
        matrix[:, j] = column
    return matrix


def _left_out(names: list[str], read: list[Column]) -> set[str]:
    """Columns that look like identifiers; at least one column is always kept."""
    ids = [name for name, column in zip(names, read, strict=True) if column.is_id]
    if len(ids) == len(names):
        ids = ids[:-1]
    if ids:
        warn(
            IdColumnWarning(
                f"{columns_named(ids)}: every row has a different value, as in an identifier, which says "
                "nothing about new rows. It is left out:",
                advice="drop it from X, or declare it a category to keep it.",
                command="name it in --drop and this warning goes away.",
            )
        )
    return set(ids)


def _refuse_text(
    names: list[str], read: list[Column], advice: Callable[[list[str], list[Column]], str]
) -> None:
    texts = [name for name, column in zip(names, read, strict=True) if column.is_text]
    if texts:
        others = [column for column in read if not column.is_text]
        raise DataTypeError(
            f"free text (different strings with spaces) in {columns_named(texts)} is not a category: drop "
            f"it, or {advice(texts, others)}."
        )


def _recipe(texts: list[str], others: list[Column]) -> str:
    """A pipeline that accepts the table: of scikit-learn if the other columns are numbers, else of skrub."""
    steps = "TableVectorizer(), HistGradientBoostingClassifier()"
    numbers = [column.numbers for column in others if column.kind == NUMBER and column.numbers is not None]
    if len(numbers) == len(others) and all(np.isfinite(values).all() for values in numbers):
        pairs = ", ".join(f"(TfidfVectorizer(), {name!r})" for name in texts[:3])
        steps = f"make_column_transformer({pairs}, remainder='passthrough'), LogisticRegression()"
    source = ", with TableVectorizer of skrub" if steps.startswith("Table") else ""
    return f"turn it into numbers in a pipeline, DRPUClassifier(make_pipeline({steps})){source}"
