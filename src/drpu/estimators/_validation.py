"""Validation of user data: rows, labels, weights and groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import column_or_1d, validate_data

from drpu._arrays import as_numpy
from drpu._checks import check_choice, check_weights, one_line, unit_weights
from drpu._samples import Sample, SamplePair, n_rows, stack_rows
from drpu._typing import BoolArray, FloatArray, IntArray, Rows
from drpu.estimators._tables import accepts, read_tables
from drpu.estimators.labels import Classes, missing_labels, read_labels, warn_of_more_positives
from drpu.exceptions import DataError, DataTypeError, LabelError
from drpu.models.base import RatioModel
from drpu.models.distributed import refuse_frame
from drpu.models.rows import is_images
from drpu.tables.frames import is_frame

__all__ = ["SCENARIOS", "Classes", "check_rows", "pair_pu", "split_pu"]

SCENARIOS = ("case-control", "single-sample")


def split_pu(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, model: RatioModel, groups: Any = None
) -> tuple[SamplePair, Classes]:
    """Positive and unlabeled samples from rows and labels, and the two labels.

    Parameters
    ----------
    estimator : estimator
        Stores the columns; its ``pos_label`` is the positive label.
    X, y, sample_weight, groups : array-like
        Arguments of ``fit``. Weights are scaled to mean 1 here, so that their scale has no
        effect.
    model : RatioModel
        Determines which rows are accepted.
    """
    if y is None:
        raise LabelError(
            "y must be given: requires y to be passed, but the target y is None. "
            "Mark labelled positives with 1 and unlabeled rows with 0."
        )
    X = check_rows(estimator, X, model=model, reset=True)
    positive, classes = read_labels(y, getattr(estimator, "pos_label", None))
    if len(positive) != n_rows(X):
        raise DataError(f"X and y must have the same number of rows, got {n_rows(X)} and {len(positive)}.")
    warn_of_more_positives(int(positive.sum()), int((~positive).sum()))
    weight = None
    if sample_weight is not None:
        weight = unit_weights(check_weights("sample_weight", sample_weight, n_rows(X)))
    codes = None if groups is None else read_groups("groups", groups, n_rows(X))
    whole = Sample(X, weight, codes)
    return SamplePair(_some(whole, positive), _some(whole, ~positive)), classes


def pair_pu(
    estimator: Any,
    positive: Any,
    unlabeled: Any,
    positive_weight: Any,
    unlabeled_weight: Any,
    *,
    model: RatioModel,
    positive_groups: Any = None,
    unlabeled_groups: Any = None,
) -> tuple[SamplePair, Classes]:
    """Positive and unlabeled samples that were passed separately; labels are 1 and 0.

    The weights of each sample are scaled to mean 1, so they do not change the fraction of
    labelled rows.
    """
    if is_frame(positive) and is_frame(unlabeled):
        positive, unlabeled = read_tables(estimator, [positive, unlabeled], model=model, reset=True)
    else:
        positive = check_rows(estimator, positive, model=model, reset=True, name="positive")
        unlabeled = check_rows(estimator, unlabeled, model=model, reset=False, name="unlabeled")
    warn_of_more_positives(n_rows(positive), n_rows(unlabeled))
    n = n_rows(positive)
    rows = stack_rows(positive, unlabeled)  # the same array type for both
    weights = _both_weights(n, n_rows(unlabeled), positive_weight, unlabeled_weight)
    groups = _both_groups(n, n_rows(unlabeled), positive_groups, unlabeled_groups)
    whole = Sample(rows, weights, groups)
    first = np.arange(len(whole)) < n
    return SamplePair(_some(whole, first), _some(whole, ~first)), np.array([0, 1])


def _both_weights(n_positive: int, n_unlabeled: int, positive: Any, unlabeled: Any) -> FloatArray | None:
    if positive is None and unlabeled is None:
        return None
    parts = []
    for name, given, n in (
        ("positive_weight", positive, n_positive),
        ("unlabeled_weight", unlabeled, n_unlabeled),
    ):
        parts.append(np.ones(n) if given is None else unit_weights(check_weights(name, given, n)))
    return np.concatenate(parts)


def _both_groups(n_positive: int, n_unlabeled: int, positive: Any, unlabeled: Any) -> IntArray | None:
    """Group numbers of all rows; the same value in both samples is the same group."""
    if positive is None and unlabeled is None:
        return None
    if positive is None or unlabeled is None:
        name = "positive_groups" if positive is None else "unlabeled_groups"
        raise DataError(
            f"{name} must be given too: the rows of a group can be in both samples. "
            "Give a row without a group a value of its own."
        )
    parts = [column_or_1d(as_numpy(part)) for part in (positive, unlabeled)]
    for name, part, n in zip(
        ("positive_groups", "unlabeled_groups"), parts, (n_positive, n_unlabeled), strict=True
    ):
        if len(part) != n:
            raise DataError(f"{name} must have one value per row, {n}, got {len(part)}.")
    return read_groups("groups", np.concatenate(parts), n_positive + n_unlabeled)


def read_groups(name: str, groups: Any, n: int) -> IntArray:
    """Group numbers from values of any type, one per row."""
    try:
        values = column_or_1d(as_numpy(groups))
    except ValueError as error:
        raise DataError(f"{name} must have one value per row: {error}") from error
    if len(values) != n:
        raise DataError(f"{name} must have one value per row, {n}, got {len(values)}.")
    if missing_labels(values).any():
        raise DataError(
            f"{name} must not hold missing values: give a row without a group a value of its own."
        )
    try:
        _, codes = np.unique(values, return_inverse=True)
    except TypeError:  # values of several types cannot be sorted
        _, codes = np.unique(values.astype(str), return_inverse=True)
    return np.asarray(codes, dtype=np.int64)


def check_rows(estimator: Any, X: Any, *, model: RatioModel, reset: bool = False, name: str = "X") -> Rows:
    """Rows in the form that the model accepts, with the columns of training.

    They are a float array or CSR matrix, or a data frame if the model accepts one.
    """
    if not reset and _is_plain(estimator, X, model):
        plain: Rows = X
        return plain
    refuse_frame(X, name)
    table = None if reset else getattr(estimator, "table_", None)
    if is_frame(X) and (reset or table is not None or accepts(model, "frames")):
        return read_tables(estimator, [X], model=model, reset=reset)[0]
    if sparse.issparse(X) and not model.accepts_sparse:
        raise DataTypeError(
            f"{name} is sparse, which {type(model).__name__} does not support: pass {name}.toarray(), "
            "or choose a model that supports it (kernel, linear, boosted)."
        )
    X = as_numpy(X)
    images = model.accepts_nd and is_images(X)  # the model converts images batch by batch
    if reset:
        estimator.table_ = None
    if table is not None:
        table.check_array()
    try:
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr" if model.accepts_sparse else False,
            dtype=None if images else (np.float64, np.float32),
            ensure_all_finite="allow-nan" if model.accepts_nan else True,
            allow_nd=model.accepts_nd,
        )
    except TypeError as error:
        raise DataTypeError(one_line(error)) from error
    except ValueError as error:
        raise DataError(one_line(error)) from error
    return X if table is None else table.transform_array(X)


def _is_plain(estimator: Any, X: Any, model: RatioModel) -> bool:
    """Whether the checks would return ``X`` itself; then they are skipped to score single rows faster."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype in (np.float64, np.float32)
        and X.shape[0] > 0
        and X.shape[1] == estimator.n_features_in_
        and not hasattr(estimator, "feature_names_in_")
        and getattr(estimator, "table_", None) is None
        and not (np.isinf(X).any() if model.accepts_nan else not np.isfinite(X).all())
    )


def _some(whole: Sample, mask: BoolArray) -> Sample:
    sample = whole.take(np.flatnonzero(mask))
    if sample.weight is not None and sample.weight.sum() <= 0:
        raise DataError(
            "sample_weight leaves one class only: it must not be zero for every positive or for every "
            "unlabeled row."
        )
    return sample


def check_scenario(scenario: Any) -> str:
    """The scenario, which must be one of the two."""
    return check_choice("scenario", scenario, SCENARIOS)
