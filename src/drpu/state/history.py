"""What is kept of labelled rows and of past periods, by which later readings are judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from drpu._codec import Kept, Number, Whole, kept
from drpu._results import TableColumns, TableResult
from drpu.exceptions import DataError

Kind: TypeAlias = Literal["guarded", "matched"]


@kept("label-count")
@dataclass(frozen=True)
class LabelCount(Kept):
    """Labelled rows among all rows of a sample."""

    labels: Annotated[float, Number(0)]
    rows: Annotated[float, Number(0)]

    def __post_init__(self) -> None:
        if self.labels > self.rows:
            raise DataError(
                f"there must not be more labels than rows, got {self.labels:g} of {self.rows:g}."
            )

    def __add__(self, other: LabelCount) -> LabelCount:
        return LabelCount(self.labels + other.labels, self.rows + other.rows)

    @property
    def mean(self) -> float:
        """Share of labelled rows; 0 without rows."""
        if self.rows == 0:
            return 0.0
        return self.labels / self.rows

    @property
    def share(self) -> float:
        """Share of labelled rows, with half a label added so that it is not zero."""
        return (self.labels + 0.5) / (self.rows + 1)

    @property
    def noise(self) -> float:
        """Variance of the log of the share by the noise of the count."""
        return (1 - self.share) / (self.labels + 0.5)


@kept("past-period")
@dataclass(frozen=True)
class PastPeriod(Kept):
    """A past period, read by a classifier that was fitted to rows before it."""

    name: str
    rows: Annotated[int, Whole(0)]
    labels: Annotated[int, Whole(0)]  # labelled ones among them
    seen: float  # move of the prior by the labelled share, from the rows of that fit to the period
    noise: Annotated[float, Number(0)]  # variance of ``seen`` by the noise of both counts
    guarded: float  # move of the prior that the rows alone show, with the guard
    matched: float  # the same as if only the prior had moved
    used: bool = True  # false if its labels may be late, or if there are too few of them


@kept("backtest")
@dataclass(frozen=True, repr=False)
class Backtest(Kept, TableResult):
    """How well rows of past periods were read without labels.

    Its length is the number of periods; iterating gives them.

    ``spread``: Standard deviation of the move that slope and noise do not explain.
    """

    periods: tuple[PastPeriod, ...]  # the past periods, in the order of time
    kind: Kind  # the reading that explains the past moves better
    slope: float  # how far the prior moved when this reading moved by one
    spread: Annotated[float, Number(0)]

    def __len__(self) -> int:
        return len(self.periods)

    def __iter__(self) -> Iterator[PastPeriod]:
        return iter(self.periods)

    def read_move(self, guarded: float, matched: float) -> float:
        """The move to expect from what the rows of a period show, with the guard and without it."""
        if self.kind == "guarded":
            return self.slope * guarded
        return self.slope * matched

    def to_columns(self) -> TableColumns:
        """One row per period, with the move of its log-odds by the labels and as read from rows."""
        columns: TableColumns = {
            name: [] for name in ("period", "rows", "labels", "seen", "read", "used")
        }
        for period in self.periods:
            columns["period"].append(period.name)
            columns["rows"].append(period.rows)
            columns["labels"].append(period.labels)
            columns["seen"].append(period.seen)
            columns["read"].append(self.read_move(period.guarded, period.matched))
            columns["used"].append(period.used)
        return columns

    def _title(self) -> str:
        moves = "moves of the log-odds seen by labels and read without them"
        return (
            f"{len(self)} past periods, {moves}; slope {self.slope:.2f}, spread {self.spread:.2f}"
        )
