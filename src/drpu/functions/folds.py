"""Functions of folds: each was fitted without one part of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np

from drpu._codec import Items, kept
from drpu._typing import FloatArray, Rows
from drpu.exceptions import DataError, ParameterError
from drpu.functions.base import Explained, Function, Scorer

__all__ = ["Folds"]


@kept("folds")
@dataclass(frozen=True, eq=False)
class Folds(Function):
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

    @property
    def all_functions(self) -> tuple[Function, ...]:
        """The fold functions, and the function of all rows if there is one."""
        return self.functions if self.whole is None else (*self.functions, self.whole)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.functions[0].n_columns

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return self.functions[0].row_shape

    @property
    def keeps(self) -> dict[str, str]:
        """Parts of the functions that contain values of training rows."""
        return {part: values for function in self.all_functions for part, values in function.keeps.items()}

    @property
    def statistics(self) -> tuple[str, ...]:
        """What the functions have learnt, in words."""
        return tuple(dict.fromkeys(word for function in self.all_functions for word in function.statistics))

    def with_module(self, module: Any) -> Self:
        """The same functions with a custom network."""
        whole = None if self.whole is None else self.whole.with_module(module)
        return replace(self, functions=tuple(f.with_module(module) for f in self.functions), whole=whole)

    @property
    def accepts_sparse(self) -> bool:
        """Whether the functions accept sparse rows."""
        return self.functions[0].accepts_sparse

    @property
    def accepts_nan(self) -> bool:
        """Whether the functions accept missing values."""
        return self.functions[0].accepts_nan

    @property
    def accepts_nd(self) -> bool:
        """Whether the functions accept rows of more than one dimension."""
        return self.functions[0].accepts_nd

    @property
    def accepts_categories(self) -> bool:
        """Whether the functions accept category codes."""
        return self.functions[0].accepts_categories

    @property
    def accepts_frames(self) -> bool:
        """Whether the functions accept data frames."""
        return self.functions[0].accepts_frames

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
        found = []
        for function in self.label_functions:
            if not isinstance(function, Explained):
                raise ParameterError(
                    f"contributions of columns exist for trees only, and the model is {function.describe()}: "
                    "use model='boosted' or 'auto', or permutation_importance with AUCScorer for any model."
                )
            found.append(function.contributions(X))
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
