"""Functions of folds: each was fitted without one part of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np

from drpu._codec import Items, Number, kept
from drpu._typing import FloatArray, Rows
from drpu.exceptions import DataError
from drpu.models.function import Function, LikeFirst, Scorer, explained, exported, within_limits
from drpu.models.graphs import Graph


@kept("folds")
@dataclass(frozen=True, eq=False)
class Folds(LikeFirst):
    """Functions of one kind, each fitted without one fold of the rows.

    Scores have one column per function. Those of all fold functions are counted for priors, because
    held-out rows were scored by the same functions. For labels the calibrated ratios of the fold functions
    are averaged or, if there is a function of all rows, its ratio is used: one function is scored in less
    time than several.
    """

    functions: Annotated[tuple[Function, ...], Items(low=1)]
    whole: Function | None = None  # fitted to all rows; its scores are in the last column

    def __post_init__(self) -> None:
        if len({(type(function), function.row_shape) for function in self.all_functions}) != 1:
            raise DataError("fold functions must be of one kind, and have the same columns.")

    @property
    def label_functions(self) -> tuple[Function, ...]:
        """The functions that labels come from."""
        return self.functions if self.whole is None else (self.whole,)

    @cached_property
    def all_functions(self) -> tuple[Function, ...]:
        """The fold functions, and the function of all rows if there is one."""
        return self.functions if self.whole is None else (*self.functions, self.whole)

    def with_module(self, module: Any) -> Self:  # noqa: D102
        whole = None if self.whole is None else self.whole.with_module(module)
        return replace(self, functions=tuple(f.with_module(module) for f in self.functions), whole=whole)

    def describe(self) -> str:
        """The number of functions, and a description of one."""
        inner = self.functions[0].describe()
        if len(self.functions) == 1:
            return inner
        text = f"{len(self.functions)} folds of {inner}"
        return text if self.whole is None else f"{text}, and one of all rows for labels"

    def scores(self, X: Rows) -> FloatArray:
        """Scores of checked rows by all functions, (rows, functions)."""
        scores = self.fold_scores(X)
        return scores if self.whole is None else np.column_stack([scores, self.label_scores(X)])

    def fold_scores(self, X: Rows) -> FloatArray:
        """Scores by the fold functions, which are counted."""
        return self._fold_scorer(X)

    def label_scores(self, X: Rows) -> FloatArray:
        """Scores by the functions that labels come from."""
        return self._label_scorer(X)

    def counted(self, scores: FloatArray) -> FloatArray:
        """The columns of :meth:`scores` that are counted."""
        return scores[:, : len(self.functions)]

    def labelling(self, scores: FloatArray) -> FloatArray:
        """The columns of :meth:`scores` that labels come from."""
        return scores if self.whole is None else scores[:, len(self.functions) :]

    def contributions(self, X: Rows) -> FloatArray:
        """The mean of the contributions in the functions that labels come from."""
        found = [explained(function).contributions(X) for function in self.label_functions]
        return np.asarray(np.mean(found, axis=0))

    def _score(self, X: Rows) -> FloatArray:
        return np.asarray(self.label_scores(X).mean(axis=1))

    @cached_property
    def _fold_scorer(self) -> Scorer:
        return _scorer(self.functions)

    @cached_property
    def _label_scorer(self) -> Scorer:
        return self._fold_scorer if self.whole is None else _scorer([self.whole])


def _scorer(functions: Sequence[Function]) -> Scorer:
    return type(functions[0]).together(functions)


@kept("blend")
@dataclass(frozen=True, eq=False)
class Blend(LikeFirst):
    """The average of a log-ratio against unlabeled rows and of one against known negatives."""

    unlabeled: Function
    negative: Function
    share: Annotated[float, Number(0, 1)]  # weight of ``negative``; that of ``unlabeled`` is 1 minus it

    def __post_init__(self) -> None:
        if self.unlabeled.row_shape != self.negative.row_shape:
            raise DataError("both functions must have the same columns.")

    @property
    def all_functions(self) -> tuple[Function, ...]:
        """Both functions."""
        return self.unlabeled, self.negative

    @property
    def _weights(self) -> tuple[float, float]:
        return 1 - self.share, self.share

    def with_module(self, module: Any) -> Self:  # noqa: D102
        one, other = (function.with_module(module) for function in self.all_functions)
        return replace(self, unlabeled=one, negative=other)

    def describe(self) -> str:
        """Both functions and their weights."""
        return (
            f"{self.unlabeled.describe()}, averaged with a score against known negatives ({self.share:.1f})"
        )

    def _score(self, X: Rows) -> FloatArray:
        parts = zip(self._weights, self.all_functions, strict=True)
        return np.asarray(sum(weight * function.score(X) for weight, function in parts))

    @classmethod
    def together(cls, functions: Sequence[Self]) -> Scorer:  # noqa: D102
        scorers = [
            _scorer(own) for own in zip(*(function.all_functions for function in functions), strict=True)
        ]
        weights = np.array([function._weights for function in functions]).T

        def scores(X: Rows) -> FloatArray:
            return within_limits(weights[0] * scorers[0](X) + weights[1] * scorers[1](X))

        return scores

    def contributions(self, X: Rows) -> FloatArray:
        """The average of the contributions in both functions."""
        parts = zip(self._weights, self.all_functions, strict=True)
        return np.asarray(sum(weight * explained(function).contributions(X) for weight, function in parts))

    def onnx(self, graph: Graph, X: str) -> str:  # noqa: D102
        return graph.mean(*(exported(one, graph, X) for one in self.all_functions), weights=self._weights)
