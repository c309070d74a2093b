"""Functions: what learners return, and what scores rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from drpu._arrays import as_numpy
from drpu._checks import check_size, one_line, refuse_mask
from drpu._codec import Kept
from drpu._samples import without_repeats
from drpu._typing import FloatArray, Rows
from drpu.exceptions import ArtifactError, DataError, DataTypeError, MissingValuesError, ParameterError
from drpu.tables.frames import FrameRows, is_frame, read_frame

LOG_LIMIT = 690.0  # its exp is finite, so that ratios of 0 and infinity do not give NaN

Scorer = Callable[[Rows], FloatArray]  # scores of checked rows by several functions, (rows, functions)


class Accepts:
    """The kinds of rows that a learner or a function accepts; a subclass sets what differs."""

    accepts_sparse = True
    accepts_nan = False  # missing values
    accepts_nd = False  # rows of several dimensions, such as images
    accepts_categories = False  # columns of category codes, whose positions are a parameter ``categories``
    accepts_frames = False  # data frames, as :class:`drpu.tables.frames.FrameRows`


class Function(Kept, Accepts, ABC):
    """A log-ratio log p(x | positive) / p(x | unlabeled), or another score, as a function of rows.

    A new kind of function is a frozen dataclass with ``n_columns`` and ``_score``. Its annotations are the
    rules for files, see :mod:`drpu._codec`::

        @kept("line")
        @dataclass(frozen=True, eq=False)
        class Line(Function):
            weights: Annotated[FloatArray, Array("d")]

    What is expensive to make, such as a booster or a torch module, is a ``functools.cached_property``. It is
    made on first use and is not part of copies. A function that has ``contributions(X)``, see
    :class:`Explained`, can be explained. One that has ``onnx(graph, X)``, which adds the scores of the rows
    ``X`` to a graph and returns the name of the (rows, 1) result, can be exported.

    Scores are float64: near a posterior of 1, where priors are estimated, ratios in float32 would be tied.
    """

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.__repr__ = Function.__repr__  # type: ignore[method-assign]  # a dataclass would print all arrays

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
        """The same function; ``module`` makes the torch module of a custom network, which no file keeps."""
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
        """Raise or warn if checked rows are on another scale than the training rows; only images are."""
        return

    @abstractmethod
    def _score(self, X: Rows) -> FloatArray:
        """Scores of checked rows."""

    @classmethod
    def together(cls, functions: Sequence[Self]) -> Scorer:
        """The scores of several functions of this class, bit for bit those of :meth:`score`."""
        return lambda X: np.column_stack([function.score(X) for function in functions])


@runtime_checkable
class Explained(Protocol):
    """A function whose scores are sums over the columns."""

    def contributions(self, X: Rows) -> FloatArray:
        """Contribution of each column to the score of checked rows; the last column is the base value."""


def explained(function: Function) -> Explained:
    """The function, if its scores are sums over the columns; raises ``ParameterError`` for others."""
    if not isinstance(function, Explained):
        raise ParameterError(
            f"contributions of columns exist for trees only, and the model is {function.describe()}: "
            "use model='boosted' or 'auto', or permutation_importance with AUCScorer for any model."
        )
    return function


def _of_first(name: str) -> Any:
    """A property that has the value of the first function."""
    return property(lambda function: getattr(function.all_functions[0], name))


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
        return {part: values for function in self.all_functions for part, values in function.keeps.items()}

    @property
    def statistics(self) -> tuple[str, ...]:
        """What the functions have learnt, in words."""
        return tuple(dict.fromkeys(word for function in self.all_functions for word in function.statistics))


def exported(function: Function, graph: Any, X: str) -> str:
    """The scores of the rows ``X`` in an ONNX graph; raises ``ArtifactError`` for other functions."""
    onnx = getattr(function, "onnx", None)
    if onnx is None:
        raise ArtifactError(
            f"{function.describe()} cannot be exported to ONNX: choose the default, or a kernel, boosted or "
            "network model, or deploy with save."
        )
    found: str = onnx(graph, X)
    return found


def within_limits(scores: FloatArray) -> FloatArray:
    """Scores between the two limits; the same as ``np.clip``, which takes longer for a single row."""
    return np.asarray(np.minimum(np.maximum(scores, -LOG_LIMIT), LOG_LIMIT))


def check_shape(name: str, X: Rows, shape: tuple[int, ...]) -> None:
    """Raise unless the rows of ``X`` have this shape, that of the rows in training."""
    found = tuple(X.shape[1:])
    if found == shape:
        return
    if len(shape) == len(found) == 1:
        raise DataError(f"{name} must have {shape[0]} columns, as in training, got {found[0]}.")
    text = f"{name} must have rows of shape {shape}, as in training, got {found}"
    if tuple(X.shape) == shape:
        raise DataError(f"{text}: for a single row pass {name}[None].")
    if len(shape) == 3 and found == (*shape[1:], shape[0]):
        raise DataError(f"{text}: pass numpy.moveaxis({name}, -1, 1).")
    flat = 1 in (len(found), len(shape)) and math.prod(found) == math.prod(shape)
    if flat or [side for side in found if side > 1] == [side for side in shape if side > 1]:
        raise DataError(f"{text}: pass {name}.reshape({', '.join(map(str, (-1, *shape)))}).")
    raise DataError(f"{text}.")


def check_pixels(name: str, X: Rows, others: Rows) -> None:
    """Raise if only one of two arrays of images has eight bits, which networks read on another scale."""
    if len(X.shape) > 2 and (X.dtype == np.uint8) is not (others.dtype == np.uint8):
        raise DataError(
            f"{name} must have pixels of the type of the other images, {others.dtype}, got {X.dtype}: those "
            "of uint8 are divided by 255, and others are not. Convert one of them."
        )


def read_rows(taker: Accepts, name: str, X: Any) -> Rows:
    """``X`` in a form that a learner or function accepts; raises an error that explains the problem."""
    if taker.accepts_frames and is_frame(X):
        return FrameRows.of(read_frame(X))
    return as_rows(taker, name, X, input_name=name)


def as_rows(
    taker: Accepts,
    name: str,
    X: Any,
    *,
    check: Callable[..., Any] = check_array,
    advice: str = "An array must hold numbers.",
    **more: Any,
) -> Rows:
    """``X`` as an array or CSR matrix that ``taker`` accepts, or an error that explains why it is not one.

    ``check`` is scikit-learn's function that checks an array, with ``more`` options of it; ``advice`` is for
    arrays that hold something else than numbers.
    """
    if X is None:
        raise DataTypeError(f"{name} must be rows, as an array or a data frame, got None.")
    if sparse.issparse(X) and not taker.accepts_sparse:
        raise DataTypeError(
            f"{name} is sparse, which {type(taker).__name__} does not support: pass {name}.toarray(), "
            "or choose a model that supports it (kernel, linear, boosted)."
        )
    X = _stacked(X) if taker.accepts_nd else as_numpy(X)
    refuse_mask(name, X)
    if isinstance(X, np.ndarray) and X.ndim > 2 and not taker.accepts_nd:
        text = f"{name} must have two dimensions, rows and columns, got shape {X.shape}: "
        raise DataError(
            f"{text}for images use DRPUClassifier(NetworkRatio()), or pass {name}.reshape(len({name}), -1).",
            command=f"{text}for images use --model network.",
        )
    nd = isinstance(X, np.ndarray) and X.ndim > 2
    images = nd and X.dtype == np.uint8 and X.size  # which a network converts batch by batch
    short = nd and X.dtype.itemsize <= 2  # float32 has all of their values, and needs less memory
    try:
        found = check(
            X,
            accept_sparse="csr" if taker.accepts_sparse else False,
            dtype=None if images else (np.float32, np.float64) if short else (np.float64, np.float32),
            order="C" if images else None,
            ensure_all_finite="allow-nan" if taker.accepts_nan else True,
            allow_nd=taker.accepts_nd,
            **more,
        )
    except (TypeError, ValueError, OverflowError) as error:
        text, kind = one_line(error), DataTypeError if isinstance(error, TypeError) else DataError
        if "setting an array element with a sequence" in text:
            raise DataError(
                f"{name} must be one array of numbers, got several arrays or lists: make them one shape and "
                f"pass numpy.stack({name})."
            ) from error
        numbers = kind is DataError and isinstance(X, np.ndarray) and X.dtype.kind == "f"
        if numbers and not taker.accepts_nan and np.isnan(X).any():
            kind = MissingValuesError
            text = (  # scikit-learn would recommend other estimators
                f"{name} contains NaN, and this model does not accept missing values: fill them, or choose a "
                "model that accepts them (auto, boosted)."
            )
        if any(words in text for words in ("could not convert", "argument must be", "Cannot cast")):
            text += f". {advice}"
        raise kind(text if name in text else f"{name}: {text}") from error
    check_size(name, found)
    return without_repeats(found)


def _stacked(X: Any) -> Any:
    """``X`` as NumPy has it; a list of images is one array, whose type is that of the images."""
    if isinstance(X, (list, tuple)) and X and hasattr(X[0], "__array_interface__"):
        try:
            return np.stack(X)
        except ValueError:  # of different shapes, which the checks refuse
            return X
    return as_numpy(X)
