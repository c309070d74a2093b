"""The function of the default: a weighted sum of the log-ratios of different kinds of functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np

from drpu._codec import Array, Items, kept
from drpu._samples import Sample, SamplePair, is_sparse, n_rows
from drpu._typing import FloatArray, Rows
from drpu.exceptions import DataError, ImputationWarning, ParameterError
from drpu.models.function import Accepts, Explained, Function, Scorer, exported, within_limits
from drpu.models.graphs import Graph, onnx_indicators
from drpu.models.trees import TreeFunction, TreesTogether
from drpu.tables.encoder import Indicators


@kept("filling")
@dataclass(frozen=True, eq=False)
class Filling:
    """Rows for a function that accepts no missing values, or no category codes."""

    medians: Annotated[FloatArray, Array("d")]  # replace missing values; in sparse rows 0 does
    indicators: Indicators | None = None  # replace category codes

    def __post_init__(self) -> None:
        if self.indicators is not None and self.indicators.n_columns != len(self.medians):
            raise DataError(
                f"indicators must have {len(self.medians)} columns, got {self.indicators.n_columns}."
            )

    def n_columns(self, taker: Accepts) -> int:
        """Number of columns of the rows for ``taker``."""
        if taker.accepts_categories or self.indicators is None:
            return len(self.medians)
        return self.indicators.n_out

    def rows(self, X: Rows, taker: Accepts, gaps: bool | None = None) -> Rows:
        """Rows in the form that ``taker`` accepts; ``gaps`` says whether values are missing, if known."""
        if not taker.accepts_nan and (has_gaps(X) if gaps is None else gaps):
            if is_sparse(X):
                X = X.copy()
                X.data[np.isnan(X.data)] = 0
            else:
                X = np.where(np.isnan(X), self.medians, X)
        return X if taker.accepts_categories or self.indicators is None else self.indicators(X)

    def pair(self, pair: SamplePair, taker: Accepts) -> SamplePair:
        """Both samples in the form that ``taker`` accepts."""
        samples = (pair.positive, pair.unlabeled)
        return SamplePair(*(Sample(self.rows(sample.rows, taker), sample.weight) for sample in samples))


@kept("average")
@dataclass(frozen=True, eq=False)
class Average(Function):
    """A weighted sum of the log-ratios of members, such as a forest and a smooth fit, and a constant."""

    accepts_nan = True
    accepts_categories = True

    members: Annotated[tuple[Function, ...], Items(low=1, dim="m")]
    weights: Annotated[FloatArray, Array("m", low=0)]  # they sum to 1 if the members are averaged
    constant: float  # added to the weighted sum; 0 if the members are averaged
    filling: Filling  # replaces missing values and category codes for members that accept none
    saw_gaps: bool = False  # whether training rows had missing values

    def __post_init__(self) -> None:
        for member in self.members:
            columns = self.filling.n_columns(member)
            if member.row_shape != (columns,):
                raise DataError(f"members must have {columns} columns, got {member.n_columns}.")

    @property
    def statistics(self) -> tuple[str, ...]:  # noqa: D102
        words = (word for member in self.members for word in member.statistics)
        return ("means of the six middle values of the columns", *words)

    @property
    def n_columns(self) -> int:  # noqa: D102
        return len(self.filling.medians)

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        """Whether all members accept sparse rows."""
        return all(member.accepts_sparse for member in self.members)

    @property
    def keeps(self) -> dict[str, str]:
        """Parts of the members that contain values of training rows."""
        return {part: values for member in self.members for part, values in member.keeps.items()}

    def describe(self) -> str:
        """The members and their weights."""
        if len(self.members) == 1:
            return f"{self.members[0].describe()} alone"
        parts = zip(self.weights, self.members, strict=True)
        return f"log-ratio of {' + '.join(f'{w:.2g} x {member.describe()}' for w, member in parts)}"

    def _score(self, X: Rows) -> FloatArray:
        gaps = has_gaps(X)
        if gaps and not self.saw_gaps:
            warn_of_gaps()
        return self._sum(X, gaps, (tree.score(X) for tree in self._trees))

    @cached_property
    def _trees(self) -> list[TreeFunction]:
        return [member for member in self.members if isinstance(member, TreeFunction)]

    def _sum(self, X: Rows, gaps: bool, of_trees: Iterator[FloatArray]) -> FloatArray:
        """The weighted sum of the members' scores, of which those of the trees are given in order."""
        total: Any = self.constant
        for weight, member in zip(self.weights.tolist(), self.members, strict=True):
            is_tree = isinstance(member, TreeFunction)
            scores = next(of_trees) if is_tree else member.score(self.filling.rows(X, member, gaps))
            total = total + weight * scores
        return np.asarray(total)

    @classmethod
    def together(cls, functions: Sequence[Self]) -> Scorer:
        """The scores of several functions; all trees are scored with one call of LightGBM."""
        trees = [tree for function in functions for tree in function._trees]
        together = TreesTogether(trees) if trees else None
        told = all(function.saw_gaps for function in functions)

        def scores(X: Rows) -> FloatArray:
            gaps = has_gaps(X)
            if gaps and not told:
                warn_of_gaps()
            of_trees = iter([] if together is None else together.columns(X))
            sums = np.array([f._sum(X, gaps, of_trees) for f in functions])
            return within_limits(np.ascontiguousarray(sums.T))

        return scores

    def contributions(self, X: Rows) -> FloatArray:
        """Contributions of the columns in the trees; the score of the smooth member is in the last column."""
        if not any(isinstance(member, Explained) for member in self.members):
            raise ParameterError(
                "the fitted model has no trees, which have contributions of columns: the default has its "
                "smooth member only if there are fewer than ten positives, or very wide sparse rows. Use "
                "model='boosted', or permutation_importance with AUCScorer for any model."
            )
        gaps = has_gaps(X)
        total = np.zeros((n_rows(X), self.n_columns + 1))
        total[:, -1] = self.constant
        for weight, member in zip(self.weights, self.members, strict=True):
            rows = self.filling.rows(X, member, gaps)
            if isinstance(member, Explained):
                total += weight * member.contributions(rows)
            else:
                total[:, -1] += weight * member.score(rows)
        return total

    def onnx(self, graph: Graph, X: str) -> str:  # noqa: D102
        filled = graph.op("Where", graph.op("IsNaN", X), self.filling.medians, X)
        if self.filling.indicators is not None:
            filled = onnx_indicators(graph, self.filling.indicators, filled)
        parts = [exported(member, graph, X if member.accepts_nan else filled) for member in self.members]
        mean = graph.mean(*parts, weights=self.weights.tolist())
        return graph.op("Add", graph.op("Mul", mean, float(self.weights.sum())), self.constant)


def has_gaps(X: Rows) -> bool:
    """Whether any value is missing."""
    return bool(np.isnan(X.data if is_sparse(X) else X).any())


def warn_of_gaps() -> None:
    """Warn that the smooth member gets medians in place of missing values."""
    ImputationWarning.issue(
        "the rows have missing values: the trees use them as they are, the smooth member gets column "
        "medians instead (zeros in sparse rows)."
    )
