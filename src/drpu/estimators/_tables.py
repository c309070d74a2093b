"""Data frames as input of an estimator: columns by name, mixed types as numbers and codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_array

from drpu._checks import one_line
from drpu._typing import Rows
from drpu.exceptions import DataError, DataTypeError, ParameterError
from drpu.models.base import RatioModel
from drpu.tables.alignment import aligned
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import Frame, FrameRows, read_frame

__all__ = ["accepts", "read_tables", "with_categories"]


def read_tables(estimator: Any, parts: Sequence[Any], *, model: RatioModel, reset: bool) -> list[Rows]:
    """The rows of data frames in the form that ``model`` accepts, with the columns of training.

    Parameters
    ----------
    estimator : estimator
        Stores the columns: ``n_features_in_``, ``feature_names_in_`` and ``table_``.
    parts : sequence of data frames
        Tables with the same columns; in training their rows are read together.
    model : RatioModel
        Determines which rows are accepted.
    reset : bool
        Whether the columns are those of training.
    """
    frames = [read_frame(part) for part in parts]
    if accepts(model, "frames"):
        return _raw_rows(estimator, frames, reset=reset)
    if reset:
        encoder, matrix = TableEncoder.fit(frames, expand=not accepts(model, "categories"))
        _remember(estimator, frames[0], encoder)
        matrices = np.split(matrix, np.cumsum([len(frame) for frame in frames])[:-1])
    else:
        matrices = [estimator.table_.transform(frame) for frame in frames]
    return [_checked(estimator, matrix, model) for matrix in matrices]


def accepts(model: Any, rows: str) -> bool:
    """Whether a model accepts ``frames`` or ``categories``; score models accept neither."""
    return bool(getattr(model, f"accepts_{rows}", False))


def with_categories(model: RatioModel, table: TableEncoder | None) -> RatioModel:
    """The model with the positions of the encoded columns that hold category codes."""
    if table is None or not accepts(model, "categories") or not table.categories:
        return model
    if len(model.get_params()["categories"]):
        raise ParameterError(
            "categories of the model must be empty for a table, whose own categories are found: declare "
            "further columns as categories in the table."
        )
    told: RatioModel = model.set_params(categories=table.categories)
    return told


def _raw_rows(estimator: Any, frames: list[Frame], *, reset: bool) -> list[Rows]:
    """The tables themselves with their columns in order, for a pipeline that encodes them."""
    if reset:
        _remember(estimator, frames[0], None)
    names = getattr(estimator, "feature_names_in_", None)
    known = [str(j) for j in range(estimator.n_features_in_)] if names is None else list(names)
    found = [aligned(frame, known, named=names is not None) for frame in frames]
    return [FrameRows.of(frame) for frame in found]


def _remember(estimator: Any, frame: Frame, table: TableEncoder | None) -> None:
    estimator.n_features_in_ = len(frame.names)
    estimator.table_ = table
    if frame.named:
        estimator.feature_names_in_ = np.array(frame.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _checked(estimator: Any, matrix: Any, model: RatioModel) -> Rows:
    try:
        return check_array(
            matrix,
            dtype=(np.float64, np.float32),
            ensure_all_finite="allow-nan" if model.accepts_nan else True,
            estimator=estimator,
            input_name="X",
        )
    except TypeError as error:
        raise DataTypeError(one_line(error)) from error
    except ValueError as error:
        raise DataError(one_line(error)) from error
