"""Learners and the functions that they return: the two base classes, and the rows that they accept.

A learner has scikit-learn parameters, and a fit that returns a function of rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import scipy

from drpu import _lazy
from drpu._arrays import FloatArray, Rows, as_numpy
from drpu._checks import check_readable, check_size, check_weights, one_line, unit_weights
from drpu._codec import Items, Kept, Number, kept
from drpu._process import DefaultErrors, matrix_threads_for
from drpu._samples import Sample, SamplePair, n_rows, without_repeats
from drpu.exceptions import (
    ArtifactError,
    DataError,
    DataTypeError,
    DRPUError,
    MissingValuesError,
    ParameterError,
)
from drpu.tables.frames import FrameRows, is_frame, read_frame, warn_of_order

if TYPE_CHECKING:
    from drpu.models.graphs import Graph
    from drpu.models.risks import PUObjective
    from drpu.tables.encoder import TableEncoder

LOG_LIMIT = 690.0  # its exp is finite, so that ratios of 0 and infinity do not give NaN

# Scores of checked rows by several functions, (rows, functions).
Scorer = Callable[[Rows], FloatArray]


class Accepts:
    """The kinds of rows that a learner or a function accepts; a subclass sets what differs."""

    accepts_sparse = True
    accepts_nan = False  # missing values
    accepts_nd = False  # rows of several dimensions, such as images
    accepts_categories = False  # columns of category codes, positions in a parameter ``categories``
    accepts_frames = False  # data frames, as :class:`drpu.tables.frames.FrameRows`


# -- functions ------------------------------------------------------------------------------------


class Function(DefaultErrors, Kept, Accepts, ABC):
    """A log-ratio log p(x | positive) / p(x | unlabeled), or another score, as a function of rows.

    A new kind of function is a frozen dataclass with ``n_columns`` and ``_score``. Its annotations
    are the rules for files, see :mod:`drpu._codec`::

        @kept("line")
        @dataclass(frozen=True, eq=False)
        class Line(Function):
            weights: Annotated[FloatArray, Array("d")]

    What is expensive to make, such as a booster or a torch module, is a
    ``functools.cached_property``. It is made on first use and is not part of copies. A function
    that has ``contributions(X)``, see :class:`Explained`, can be explained. One that has
    ``onnx(graph, X)``, which adds the scores of the rows ``X`` to a graph and returns the name of
    the (rows, 1) result, can be exported.

    Scores are float64: near a posterior of 1, where priors are estimated, ratios in float32 would
    be tied.
    """

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        # The representation of a dataclass would print all arrays.
        cls.__repr__ = Function.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.describe()!r}, row_shape={self.row_shape})"

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Number of columns of the rows; the first dimension of images."""

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return (self.n_columns,)

    @property
    def keeps(self) -> dict[str, str]:
        """Parts that contain values of training rows, and what they contain."""
        return {}

    @property
    def statistics(self) -> tuple[str, ...]:
        """What the function has learnt from many rows, in words."""
        return ()

    def with_module(self, module: Any) -> Self:
        """The same function; ``module`` makes the torch module of a network that no file keeps."""
        return self

    def describe(self) -> str:
        """A few words about the function."""
        return type(self).__name__

    def log_ratio(self, X: Rows) -> FloatArray:
        """Log of the density ratio, one float64 per row."""
        X = read_rows(self, "X", X)
        check_shape("X", X, self.row_shape)
        self.check_scale("X", X)
        return self.score(X)

    def ratio(self, X: Rows) -> FloatArray:
        """Density ratio, one value per row."""
        return np.exp(self.log_ratio(X))

    def score(self, X: Rows) -> FloatArray:
        """Scores of rows that the caller has checked, float64, at most ``LOG_LIMIT`` in size."""
        return within_limits(np.asarray(self._score(X), dtype=np.float64))

    def check_scale(self, name: str, X: Rows) -> None:
        """Raise or warn if images are on another scale than the training rows."""
        return

    @abstractmethod
    def _score(self, X: Rows) -> FloatArray:
        """Scores of checked rows."""

    @classmethod
    def mean_of(cls, functions: Sequence[Self]) -> Self:
        """The mean of functions of a learner that divides the rows several times."""
        raise NotImplementedError

    @classmethod
    def together(cls, functions: Sequence[Self]) -> Scorer:
        """The scores of several functions of this class, bit for bit those of :meth:`score`."""

        def scores(X: Rows) -> FloatArray:
            return np.column_stack([function.score(X) for function in functions])

        return scores


@runtime_checkable
class Explained(Protocol):
    """A function whose scores are sums over the columns."""

    def contributions(self, X: Rows) -> FloatArray:
        """Contribution of each column to the score of checked rows; the last is the base value."""


def explained(function: Function) -> Explained:
    """The function, if its scores are sums over the columns; ``ParameterError`` for others."""
    if not isinstance(function, Explained):
        raise ParameterError(
            "contributions of columns exist for trees only, and the model is "
            f"{function.describe()}: use model='boosted' or 'auto', or permutation_importance with "
            "AUCScorer for any model."
        )
    return function


def _of_first(name: str) -> Any:
    """A property that has the value of the first function."""

    def value(function: Any) -> Any:
        return getattr(function.all_functions[0], name)

    return property(value)


class LikeFirst(Function):
    """A function made of others, which accepts the rows that the first of them accepts."""

    @property
    @abstractmethod
    def all_functions(self) -> tuple[Function, ...]:
        """The functions it is made of."""

    n_columns = _of_first("n_columns")
    row_shape = _of_first("row_shape")
    accepts_sparse = _of_first("accepts_sparse")
    accepts_nan = _of_first("accepts_nan")
    accepts_nd = _of_first("accepts_nd")
    accepts_categories = _of_first("accepts_categories")
    accepts_frames = _of_first("accepts_frames")
    module = _of_first("module")  # networks only

    def check_scale(self, name: str, X: Rows) -> None:  # noqa: D102
        self.all_functions[0].check_scale(name, X)

    @property
    def keeps(self) -> dict[str, str]:
        """Parts of the functions that contain values of training rows."""
        return all_kept_values(self.all_functions)

    @property
    def statistics(self) -> tuple[str, ...]:
        """What the functions have learnt, in words."""
        different: dict[str, None] = {}  # in their order
        for function in self.all_functions:
            different.update(dict.fromkeys(function.statistics))
        return tuple(different)


def all_kept_values(functions: Sequence[Function]) -> dict[str, str]:
    """Parts of several functions that contain values of training rows, and what they contain."""
    values: dict[str, str] = {}
    for function in functions:
        values.update(function.keeps)
    return values


def exported(function: Function, graph: Any, X: str) -> str:
    """The scores of the rows ``X`` in an ONNX graph; ``ArtifactError`` if there is none."""
    onnx = getattr(function, "onnx", None)
    if onnx is None:
        raise ArtifactError(
            f"{function.describe()} cannot be exported to ONNX: choose the default, or a kernel, "
            "boosted or network model, or deploy with save."
        )
    name: str = onnx(graph, X)
    return name


def within_limits(scores: FloatArray) -> FloatArray:
    """Scores between the limits; raises ``DataError`` for rows whose score is not a number.

    All scores of all functions pass here, so that no such row gets a label. It is the same as
    ``np.clip``, which takes longer for a single row.
    """
    bounded = np.asarray(np.minimum(np.maximum(scores, -LOG_LIMIT), LOG_LIMIT))
    if np.isnan(bounded.sum()):
        n = int(np.isnan(bounded.reshape(len(bounded), -1)).any(axis=1).sum())
        raise DataError(
            f"{n} of {len(bounded)} rows have no score: the model cannot compute with values as "
            "large as theirs. Correct these values, or leave the rows out."
        )
    return bounded


# -- functions of folds ---------------------------------------------------------------------------


@kept("folds")
@dataclass(frozen=True, eq=False)
class Folds(LikeFirst):
    """Functions of one kind, each fitted without one fold of the rows.

    Scores have one column per function. Those of all fold functions are counted for priors, because
    held-out rows were scored by the same functions. For labels the calibrated ratios of the fold
    functions are averaged or, if there is a function of all rows, its ratio is used: one function
    is scored in less time than several.
    """

    functions: Annotated[tuple[Function, ...], Items(low=1)]
    whole: Function | None = None  # fitted to all rows; its scores are in the last column

    def __post_init__(self) -> None:
        kinds = {(type(function), function.row_shape) for function in self.all_functions}
        if len(kinds) != 1:
            raise DataError("fold functions must be of one kind, and have the same columns.")

    @classmethod
    def mean_of(cls, parts: Sequence[Self]) -> Self:
        """Functions that are the means of those of several divisions into as many folds."""
        together = zip(*[folds.functions for folds in parts], strict=True)
        functions = tuple(type(group[0]).mean_of(group) for group in together)
        wholes = [folds.whole for folds in parts if folds.whole is not None]
        return cls(functions, type(wholes[0]).mean_of(wholes) if wholes else None)

    @property
    def label_functions(self) -> tuple[Function, ...]:
        """The functions that labels come from."""
        return self.functions if self.whole is None else (self.whole,)

    @cached_property
    def all_functions(self) -> tuple[Function, ...]:
        """The fold functions, and the function of all rows if there is one."""
        return self.functions if self.whole is None else (*self.functions, self.whole)

    def with_module(self, module: Any) -> Self:  # noqa: D102
        functions = tuple(function.with_module(module) for function in self.functions)
        whole = None if self.whole is None else self.whole.with_module(module)
        return replace(self, functions=functions, whole=whole)

    def describe(self) -> str:
        """The number of functions, and a description of one."""
        inner = self.functions[0].describe()
        if len(self.functions) == 1:
            return inner
        text = f"{len(self.functions)} folds of {inner}"
        if self.whole is None:
            return text
        return f"{text}, and one of all rows for labels"

    def scores(self, X: Rows) -> FloatArray:
        """Scores of checked rows by all functions, (rows, functions)."""
        scores = self.fold_scores(X)
        if self.whole is None:
            return scores
        return np.column_stack([scores, self.label_scores(X)])

    def fold_scores(self, X: Rows) -> FloatArray:
        """Scores by the fold functions, which are counted."""
        with matrix_threads_for(n_rows(X)):
            return self._fold_scorer(X)

    def label_scores(self, X: Rows) -> FloatArray:
        """Scores by the functions that labels come from."""
        with matrix_threads_for(n_rows(X)):
            return self._label_scorer(X)

    def counted(self, scores: FloatArray) -> FloatArray:
        """The columns of :meth:`scores` that are counted."""
        return scores[:, : len(self.functions)]

    def labelling(self, scores: FloatArray) -> FloatArray:
        """The columns of :meth:`scores` that labels come from."""
        return scores if self.whole is None else scores[:, len(self.functions) :]

    def contributions(self, X: Rows) -> FloatArray:
        """The mean of the contributions in the functions that labels come from."""
        parts = [explained(function).contributions(X) for function in self.label_functions]
        return np.asarray(np.mean(parts, axis=0))

    def _score(self, X: Rows) -> FloatArray:
        return np.asarray(self.label_scores(X).mean(axis=1))

    @cached_property
    def _fold_scorer(self) -> Scorer:
        return _scorer(self.functions)

    @cached_property
    def _label_scorer(self) -> Scorer:
        if self.whole is None:
            return self._fold_scorer
        return _scorer([self.whole])


def _scorer(functions: Sequence[Function]) -> Scorer:
    return type(functions[0]).together(functions)


@kept("blend")
@dataclass(frozen=True, eq=False)
class Blend(LikeFirst):
    """The average of a log-ratio against unlabeled rows and of one against known negatives."""

    unlabeled: Function
    negative: Function
    share: Annotated[float, Number(0, 1)]  # weight of ``negative``; ``unlabeled`` has 1 minus it

    def __post_init__(self) -> None:
        if self.unlabeled.row_shape != self.negative.row_shape:
            raise DataError("both functions must have the same columns.")

    @property
    def all_functions(self) -> tuple[Function, ...]:
        """Both functions."""
        return self.unlabeled, self.negative

    def with_module(self, module: Any) -> Self:  # noqa: D102
        return replace(
            self,
            unlabeled=self.unlabeled.with_module(module),
            negative=self.negative.with_module(module),
        )

    def describe(self) -> str:
        """Both functions and their weights."""
        return (
            f"{self.unlabeled.describe()}, averaged with a score against known negatives "
            f"({self.share:.1f})"
        )

    def _score(self, X: Rows) -> FloatArray:
        unlabeled = (1 - self.share) * self.unlabeled.score(X)
        negative = self.share * self.negative.score(X)
        return np.asarray(unlabeled + negative)

    @classmethod
    def together(cls, functions: Sequence[Self]) -> Scorer:  # noqa: D102
        unlabeled = _scorer([function.unlabeled for function in functions])
        negative = _scorer([function.negative for function in functions])
        share = np.array([function.share for function in functions])

        def scores(X: Rows) -> FloatArray:
            return within_limits((1 - share) * unlabeled(X) + share * negative(X))

        return scores

    def contributions(self, X: Rows) -> FloatArray:
        """The average of the contributions in both functions."""
        unlabeled = (1 - self.share) * explained(self.unlabeled).contributions(X)
        negative = self.share * explained(self.negative).contributions(X)
        return np.asarray(unlabeled + negative)

    def onnx(self, graph: Graph, X: str) -> str:  # noqa: D102
        unlabeled = exported(self.unlabeled, graph, X)
        negative = exported(self.negative, graph, X)
        return graph.mean(unlabeled, negative, weights=(1 - self.share, self.share))


# -- learners -------------------------------------------------------------------------------------


class Parameters:
    """The parameters of a constructor, read and set as those of estimators of scikit-learn.

    Its base class is not used, because the functions of files are declared in the modules of their
    learners, and files are read without scikit-learn.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, with ``deep`` also those of parameters that have some."""
        parameters: dict[str, Any] = {}
        for name in sorted(signature(type(self)).parameters):
            value = getattr(self, name)
            parameters[name] = value
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                for inner, inner_value in value.get_params().items():
                    parameters[f"{name}__{inner}"] = inner_value
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters, also those of parameters as ``name__inner``."""
        known = signature(type(self)).parameters
        for key in sorted(parameters):  # an object before its own parameters
            name, _, inner = key.partition("__")
            if name not in known:
                raise ParameterError(
                    f"{name!r} is no parameter of {type(self).__name__}: it has {sorted(known)}."
                )
            if inner:
                getattr(self, name).set_params(**{inner: parameters[key]})
            else:
                setattr(self, name, parameters[key])
        return self

    def __repr__(self) -> str:
        changed = []
        for name, parameter in sorted(signature(type(self)).parameters.items()):
            value = repr(getattr(self, name))
            if value != repr(parameter.default):
                changed.append(f"{name}={value}")
        return f"{type(self).__name__}({', '.join(changed)})"


class RatioLearner(DefaultErrors, Parameters, Accepts, ABC):
    """A way to learn a density ratio p(x | positive) / p(x | unlabeled) from the two samples.

    A new learner is one file with one subclass, which implements ``fit_checked``, and with the
    function that it returns, if none of ``drpu.models`` fits. One line in the table of
    ``drpu.models.registry`` makes both known to files, and to ``model="name"``. A fit sets no
    attributes.
    """

    uses_holdout: ClassVar[bool] = False
    fits_in_threads: ClassVar[bool] = False  # whether several fits can run at once in one process

    def fit_ratio(
        self,
        positive: Rows,
        unlabeled: Rows,
        *,
        holdout: tuple[Rows, Rows] | None = None,
        positive_weight: Any = None,
        unlabeled_weight: Any = None,
    ) -> Function:
        """The density ratio of a positive and an unlabeled sample.

        Parameters
        ----------
        positive, unlabeled : rows of shape (n_positive, d) and (n_unlabeled, d)
            The two samples.
        holdout : pair of rows (positive, unlabeled), optional
            Rows for choosing among fits, which are not used for training. Without them a
            learner that needs holdout rows takes a fraction of the given rows.
        positive_weight, unlabeled_weight : array-like, optional
            Weights of the rows. Multiplying them by a constant changes nothing.

        Returns
        -------
        function : Function
            Has ``log_ratio(X)`` and ``ratio(X)``.
        """
        pair = SamplePair(
            self._sample("positive", positive, positive_weight),
            self._sample("unlabeled", unlabeled, unlabeled_weight),
        )
        columns = pair.positive.rows.shape[1:]
        if columns != pair.unlabeled.rows.shape[1:]:
            raise DataError(
                f"positive and unlabeled must have the same columns, "
                f"got {columns} and {pair.unlabeled.rows.shape[1:]}."
            )
        check_pixels("unlabeled", pair.unlabeled.rows, pair.positive.rows)
        return self.fit_checked(pair, self._holdout_pair(holdout, pair.positive.rows))

    @abstractmethod
    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> Function:
        """The density ratio of samples whose rows and weights have been checked by the caller."""

    def prepared(self, pair: SamplePair, fits: int) -> Self:
        """A learner for several fits to parts of the samples.

        It may have what these fits share and what does not depend on labels.
        """
        return self

    def for_divisions(self, pair: SamplePair) -> list[Self]:
        """A learner for each division of the samples into folds, whose functions are averaged."""
        return [self]

    def for_folds(self, pair: SamplePair, folds: int) -> list[Self]:
        """Copies, one for each fold; they may share what does not depend on labels."""
        return [_lazy.clone(self) for _ in range(folds)]

    def for_labels(self, pair: SamplePair, folds: int) -> Self | None:
        """A copy for all rows, from which labels come; None if they come from all folds."""
        return None

    def _sample(self, name: str, X: Any, weight: Any = None) -> Sample:
        rows = read_rows(self, name, X)
        warn_of_order(X, rows=name, **{f"{name}_weight": weight})
        if weight is None:
            return Sample(rows)
        weights = check_weights(f"{name}_weight", weight, rows.shape[0])
        return Sample(rows, unit_weights(weights))

    def _holdout_pair(self, holdout: tuple[Rows, Rows] | None, train: Rows) -> SamplePair | None:
        if holdout is None:
            return None
        if not self.uses_holdout:
            raise ParameterError(
                f"holdout must be None for {type(self).__name__}, which does not use holdout rows."
            )
        if len(holdout) != 2:
            raise ParameterError(
                f"holdout must be a pair (positive, unlabeled), got {len(holdout)} parts."
            )
        positive = self._sample("holdout[0]", holdout[0])
        unlabeled = self._sample("holdout[1]", holdout[1])
        for sample in (positive, unlabeled):
            if sample.rows.shape[1:] != train.shape[1:]:
                raise DataError(
                    f"holdout must have the columns of the training rows, {train.shape[1:]}."
                )
            check_pixels("holdout", sample.rows, train)
        return SamplePair(positive, unlabeled)


class ScoreLearner(Parameters, Accepts, ABC):
    """A way to learn a score g(x) that minimises an objective of the two samples."""

    random_state: Any

    @abstractmethod
    def fit_score(self, pair: SamplePair, objective: PUObjective) -> Function:
        """The score that minimises the objective for checked samples."""


def seeded(model: Any, rng: np.random.RandomState) -> Any:
    """A copy in which random states that are None are seeded, also inner ones."""
    model = _lazy.clone(model)
    parameters = model.get_params()
    seeds = {}
    for name in sorted(parameters):
        if name.split("__")[-1] == "random_state" and parameters[name] is None:
            seeds[name] = int(rng.randint(2**31 - 1))
    model.set_params(**seeds)
    return model


def with_categories(learner: RatioLearner, table: TableEncoder | None) -> RatioLearner:
    """The learner with the positions of the encoded columns that hold category codes."""
    if table is None or not learner.accepts_categories or not table.categories:
        return learner
    if len(learner.get_params()["categories"]):
        raise ParameterError(
            "categories of the model must be empty for a table, whose own categories are found: "
            "declare further columns as categories in the table."
        )
    learner.set_params(categories=table.categories)
    return learner


# -- rows -----------------------------------------------------------------------------------------


def check_shape(name: str, X: Rows, shape: tuple[int, ...]) -> None:
    """Raise unless the rows of ``X`` have this shape, that of the rows in training."""
    row_shape = tuple(X.shape[1:])
    if row_shape == shape:
        return
    if len(shape) == len(row_shape) == 1:
        raise DataError(f"{name} must have {shape[0]} columns, as in training, got {row_shape[0]}.")
    text = f"{name} must have rows of shape {shape}, as in training, got {row_shape}"
    if tuple(X.shape) == shape:
        raise DataError(f"{text}: for a single row pass {name}[None].")
    if len(shape) == 3 and row_shape == (*shape[1:], shape[0]):
        raise DataError(f"{text}: pass numpy.moveaxis({name}, -1, 1).")
    if _can_be_reshaped(row_shape, shape):
        new_shape = ", ".join(str(side) for side in (-1, *shape))
        raise DataError(f"{text}: pass {name}.reshape({new_shape}).")
    raise DataError(f"{text}.")


def check_image_shape(name: str, X: Any, shape: tuple[int, ...] | None) -> None:
    """Raise if rows or those of training are images, and their shapes differ."""
    n_dimensions = len(getattr(X, "shape", ()))
    if shape is not None and n_dimensions > 1 and max(len(shape), n_dimensions - 1) > 1:
        check_shape(name, X, shape)


def _can_be_reshaped(row_shape: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether rows are those of the other shape, flattened or with other sides of length 1."""
    if 1 in (len(row_shape), len(shape)) and math.prod(row_shape) == math.prod(shape):
        return True
    return [side for side in row_shape if side > 1] == [side for side in shape if side > 1]


def check_pixels(name: str, X: Rows, others: Rows) -> None:
    """Raise if only one of two arrays of images has eight bits, which networks scale by 255."""
    if len(X.shape) > 2 and (X.dtype == np.uint8) is not (others.dtype == np.uint8):
        raise DataError(
            f"{name} must have pixels of the type of the other images, {others.dtype}, got "
            f"{X.dtype}: those of uint8 are divided by 255, and others are not. Convert one of "
            "them."
        )


def read_rows(taker: Accepts, name: str, X: Any) -> Rows:
    """``X`` in a form that a learner or function accepts; raises an error with the reason."""
    if taker.accepts_frames and is_frame(X):
        return FrameRows.of(read_frame(X))
    return as_rows(taker, name, X, input_name=name)


def as_rows(
    taker: Accepts,
    name: str,
    X: Any,
    *,
    check: Callable[..., Any] | None = None,
    advice: str = "An array must hold numbers.",
    **more: Any,
) -> Rows:
    """``X`` as an array or CSR matrix that ``taker`` accepts, or an error that says why it is none.

    ``check`` checks an array, with ``more`` options: scikit-learn's ``check_array`` by default, or
    ``validate_data``. ``advice`` is for arrays that hold something else than numbers.
    """
    check_sparse(name, X)
    X = _numpy_rows(taker, name, X)
    if check is None:
        check = _lazy.check_array
    try:
        rows = check(
            X,
            accept_sparse="csr" if taker.accepts_sparse else False,
            ensure_all_finite="allow-nan" if taker.accepts_nan else True,
            allow_nd=taker.accepts_nd,
            **_types_in_memory(X),
            **more,
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise _with_reason(error, taker, name, X, advice) from error
    check_size(name, rows)
    return without_repeats(rows)


def _numpy_rows(taker: Accepts, name: str, X: Any) -> Any:
    """``X`` as NumPy has it; raises an error if ``taker`` accepts nothing of this form."""
    if X is None:
        raise DataTypeError(f"{name} must be rows, as an array or a data frame, got None.")
    if scipy.sparse.issparse(X) and not taker.accepts_sparse:
        raise DataTypeError(
            f"{name} is sparse, which {type(taker).__name__} does not support: pass "
            f"{name}.toarray(), or choose a model that supports it (kernel, linear, boosted)."
        )
    X = _stacked(X) if taker.accepts_nd else as_numpy(X)
    check_readable(name, X)
    if isinstance(X, np.ndarray) and X.ndim > 2 and not taker.accepts_nd:
        text = f"{name} must have two dimensions, rows and columns, got shape {X.shape}: "
        raise DataError(
            f"{text}for images use DRPUClassifier(NetworkRatio()), or pass "
            f"{name}.reshape(len({name}), -1).",
            command=f"{text}for images use --model network.",
        )
    return X


def check_sparse(name: str, X: Any) -> None:
    """Raise if the positions of a sparse matrix are outside of it: compiled code would use them."""
    if not scipy.sparse.issparse(X):
        return
    matrix: Any = X
    try:
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)
        elif matrix.format == "coo" and matrix.nnz:
            for positions, length in zip(matrix.coords, matrix.shape, strict=True):
                if positions.min() < 0 or positions.max() >= length:
                    raise ValueError("a position is outside of the matrix")
    except ValueError as error:
        raise DataError(f"{name} must be a valid sparse matrix: {one_line(error)}.") from error


def _types_in_memory(X: Any) -> dict[str, Any]:
    """Options of scikit-learn's checks: the types of values, and their order in memory."""
    is_nd = isinstance(X, np.ndarray) and X.ndim > 2
    if is_nd and X.dtype == np.uint8 and X.size:  # images, which a network converts in batches
        return {"dtype": None, "order": "C"}
    if is_nd and X.dtype.itemsize <= 2:  # float32 has all of their values, and needs less memory
        return {"dtype": (np.float32, np.float64)}
    return {"dtype": (np.float64, np.float32)}


def _with_reason(error: Exception, taker: Accepts, name: str, X: Any, advice: str) -> DRPUError:
    """The error of scikit-learn's checks as one of ours, with what to do."""
    text = one_line(error)
    if "setting an array element with a sequence" in text:
        return DataError(
            f"{name} must be one array of numbers, got several arrays or lists: make them one "
            f"shape and pass numpy.stack({name})."
        )
    kind: type[DRPUError] = DataTypeError if isinstance(error, TypeError) else DataError
    is_float = isinstance(X, np.ndarray) and X.dtype.kind == "f"
    if kind is DataError and is_float and not taker.accepts_nan and np.isnan(X).any():
        kind = MissingValuesError
        text = (  # scikit-learn would recommend other estimators
            f"{name} contains NaN, and this model does not accept missing values: fill them, or "
            "choose a model that accepts them (auto, boosted)."
        )
    if any(words in text for words in ("could not convert", "argument must be", "Cannot cast")):
        text += f". {advice}"
    if name not in text:
        text = f"{name}: {text}"
    return kind(text)


def _stacked(X: Any) -> Any:
    """``X`` as NumPy has it; a list of images is one array, whose type is that of the images."""
    if isinstance(X, (list, tuple)) and X and hasattr(X[0], "__array_interface__"):
        try:
            return np.stack(X)
        except ValueError:  # of different shapes, which the checks refuse
            return X
    return as_numpy(X)
