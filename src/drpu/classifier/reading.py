"""Reading of user data: training rows with all arguments of a fit, and new rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from drpu import audits as audits_package
from drpu import periods as periods_package
from drpu._arrays import BoolArray, FloatArray, Rows, as_numpy
from drpu._checks import (
    LARGEST,
    check_numbers,
    check_weights,
    engine_of,
    refuse_frame,
    unit_weights,
)
from drpu._samples import Sample, SamplePair, at_rows, n_rows, stack_rows
from drpu.exceptions import DataError, DataTypeError, LabelError, ParameterError
from drpu.models.crossfit import Known
from drpu.models.learner import Accepts, Function, as_rows, check_image_shape, check_pixels
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import FittedRatio, check_counts
from drpu.state.labels import (
    Classes,
    Labels,
    check_same_rows,
    read_labels,
    split_negatives,
    warn_of_more_positives,
)
from drpu.state.population import (
    LabelCount,
    Population,
    TrainingColumns,
    count_labels,
    scenario_of_table,
)
from drpu.state.rows import Batch, RawRows, TrainingSet
from drpu.tables.copies import copied_rows
from drpu.tables.encoder import Keep, TableEncoder
from drpu.tables.frames import (
    Frame,
    FrameRows,
    RecordFrame,
    aligned,
    as_records,
    collected,
    columns_named,
    composed,
    is_frame,
    read_frame,
    warn_of_order,
)
from drpu.tables.values import group_codes

# -- training rows -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FitArguments:
    """The arguments of ``fit``."""

    X: Any
    y: Any
    sample_weight: Any = None
    groups: Any = None
    periods: Any = None
    audits: Any = None


def read_training(estimator: Any, model: Accepts, arguments: FitArguments) -> TrainingSet:
    """Everything that ``fit`` reads from its arguments, checked and encoded once.

    ``estimator`` has the parameters ``scenario``, ``pos_label``, ``negative_label`` and
    ``label_delay``, and gets the attributes that scikit-learn defines for columns.
    """
    X = collected(as_records(arguments.X))
    weight = arguments.sample_weight
    groups = arguments.groups
    periods = arguments.periods
    warn_of_order(X, y=arguments.y, sample_weight=weight, groups=groups, periods=periods)

    period_column = None
    if isinstance(periods, str):
        period_column = composed(periods)
    X, period_of_rows = periods_package.split_periods(X, periods)
    y, negative, classes = split_negatives(
        arguments.y, estimator.negative_label, estimator.pos_label
    )
    whole, labelled, read_classes = _read_table(estimator, model, X, y, weight, groups)
    pair = SamplePair(_part(whole, labelled), _part(whole, ~labelled))
    if classes is None:
        classes = read_classes
    scenario = scenario_of_table(estimator.scenario, pair, periods=periods is not None)

    if weight is not None:
        weight = check_numbers("sample_weight", weight)
    plan = None
    raw = None
    complete: Any = slice(None)  # rows whose labels are complete
    if periods is not None:
        plan = periods_package.plan_periods(period_of_rows, labelled, estimator.label_delay)
        complete = plan.complete
        if groups is not None:
            groups = np.asarray(as_numpy(groups))
        raw = RawRows(X, labelled, weight, groups)
    label_count = None
    if scenario == "single-sample":
        label_count = count_labels(labelled[complete], at_rows(weight, complete))

    answers = []
    if arguments.audits is not None:
        answers = audits_package.training_answers(arguments.audits, classes, labelled)
    fraction = 0.0
    if scenario == "single-sample":
        fraction = pair.labelled_fraction
    prior = audits_package.prior_from_answers(
        answers, len(pair.positive), len(pair.unlabeled), fraction
    )
    check = partial(check_rows, estimator, model=model, name="audits", like=pair.unlabeled.rows)
    known = audits_package.known_rows(pair, labelled, answers, negative, check)
    if known is not None and negative is not None and scenario == "case-control":
        pair, known = audits_package.beside(pair, known, negative[~labelled])

    return TrainingSet(
        pair=pair,
        known=known,
        population=Population.of(pair, label_count, estimator.label_delay),
        columns=TrainingColumns.of_pair(estimator, pair, scenario, period_column),
        labels=Labels.of(classes),
        prior=prior,
        raw=raw,
        periods=plan,
    )


def read_samples(
    estimator: Any,
    model: Accepts,
    positive: Any,
    unlabeled: Any,
    negative: Any = None,
    *,
    weights: tuple[Any, Any] = (None, None),
) -> TrainingSet:
    """The same for samples that were passed separately; ``weights`` are those of the first two."""
    pair = _pair_samples(estimator, model, positive, unlabeled, weights)
    scenario = estimator.scenario
    if scenario == "auto":
        scenario = "case-control"
    known = None
    if negative is not None:
        rows = check_rows(
            estimator, negative, model=model, name="negative", like=pair.positive.rows
        )
        sample = Sample(rows)
        place = np.full(len(sample), -1)
        if scenario == "single-sample":
            place = len(pair.unlabeled) + np.arange(len(sample))
            pair = SamplePair(pair.positive, pair.unlabeled.joined(sample))
        known = Known(sample, np.zeros(len(sample), bool), place)
    label_count = None
    if scenario == "single-sample":
        label_count = LabelCount(float(len(pair.positive)), float(len(pair)))
    return TrainingSet(
        pair=pair,
        known=known,
        population=Population.of(pair, label_count, estimator.label_delay),
        columns=TrainingColumns.of_pair(estimator, pair, scenario),
        labels=Labels.of(np.array([0, 1])),
    )


def _read_table(
    estimator: Any, model: Accepts, X: Any, y: Any, sample_weight: Any, groups: Any
) -> tuple[Sample, BoolArray, Classes]:
    """All rows, which of them are labelled positive, and the two labels.

    The estimator stores the columns. Weights are scaled to mean 1, so that their scale has no
    effect.
    """
    if y is None:
        raise LabelError(
            "y should be a 1d array of labels, got None: mark labelled positives with 1 and "
            "unlabeled rows with 0."
        )
    _forget(estimator)
    X = check_rows(estimator, X, model=model, reset=True)
    _refuse_keep_without_table(estimator)
    positive, classes = read_labels(y, estimator.pos_label)
    check_same_rows(n_rows(X), len(positive))
    warn_of_more_positives(int(positive.sum()), int((~positive).sum()))
    weight = None
    if sample_weight is not None:
        weight = _mean_one_weights("sample_weight", sample_weight, n_rows(X))
    codes = None
    if groups is not None:
        codes = group_codes("groups", groups, n_rows(X))
    return Sample(X, weight, codes), positive, classes


def _pair_samples(
    estimator: Any, model: Accepts, positive: Any, unlabeled: Any, sample_weights: tuple[Any, Any]
) -> SamplePair:
    """Positive and unlabeled samples that were passed separately.

    The weights of each sample are scaled to mean 1, so they do not change the fraction of labelled
    rows.
    """
    _forget(estimator)
    positive_weight, unlabeled_weight = sample_weights
    warn_of_order(positive, rows="positive", positive_weight=positive_weight)
    warn_of_order(unlabeled, rows="unlabeled", unlabeled_weight=unlabeled_weight)
    positive = as_records(positive)
    unlabeled = as_records(unlabeled)
    if is_frame(positive) and is_frame(unlabeled):
        positive, unlabeled = read_tables(estimator, [positive, unlabeled], model=model, reset=True)
    else:
        positive = check_rows(estimator, positive, model=model, reset=True, name="positive")
        unlabeled = check_rows(estimator, unlabeled, model=model, name="unlabeled", like=positive)
    _refuse_keep_without_table(estimator)
    n_positive = n_rows(positive)
    n_unlabeled = n_rows(unlabeled)
    warn_of_more_positives(n_positive, n_unlabeled)
    weights = None
    if positive_weight is not None or unlabeled_weight is not None:
        of_positive = _mean_one_weights("positive_weight", positive_weight, n_positive)
        of_unlabeled = _mean_one_weights("unlabeled_weight", unlabeled_weight, n_unlabeled)
        weights = np.concatenate([of_positive, of_unlabeled])
    whole = Sample(stack_rows(positive, unlabeled), weights)  # the same array type for both
    first = np.arange(len(whole)) < n_positive
    return SamplePair(_part(whole, first), _part(whole, ~first))


def _refuse_keep_without_table(estimator: Any) -> None:
    """Raise if columns are to be kept and drpu does not read the columns of a table."""
    if estimator.table_ is None and Keep.of(estimator) != Keep():
        raise ParameterError(
            "keep_time and keep_ids name columns of a data frame that drpu reads: leave them out "
            "for arrays, and for a pipeline that reads the frame itself."
        )


def _mean_one_weights(name: str, weight: Any, n: int) -> FloatArray:
    if weight is None:
        return np.ones(n)
    return unit_weights(check_weights(name, weight, n))


def _part(whole: Sample, mask: BoolArray) -> Sample:
    sample = whole.take(np.flatnonzero(mask))
    if sample.weight is not None and sample.weight.sum() <= 0:
        raise DataError(
            "sample_weight leaves one class only: it must not be zero for every positive or for "
            "every unlabeled row."
        )
    return sample


def _forget(estimator: Any) -> None:
    """Make an estimator unfitted: after a failed fit, its old model would read new columns."""
    for name in ("_fitted", "classes_"):
        vars(estimator).pop(name, None)


# -- rows of any kind --------------------------------------------------------------------------


def check_rows(
    estimator: Any,
    X: Any,
    *,
    model: Accepts,
    reset: bool = False,
    name: str = "X",
    like: Rows | None = None,
) -> Rows:
    """Rows in the form that the model accepts, with the columns of training.

    They are a float array or CSR matrix, images of eight bits, or a data frame if the model accepts
    one. ``like`` are training rows, which a learner does not know; a fitted model knows their shape
    and scale.
    """
    if not reset and _is_plain(estimator, X, model):
        return X
    refuse_frame(X, name)
    table = None if reset else getattr(estimator, "table_", None)
    X = as_records(X)
    if not reset and isinstance(X, RecordFrame) and not hasattr(estimator, "feature_names_in_"):
        raise DataTypeError(
            "X must be an array, because the columns of training had no names, got a dict or "
            f"values with the names {columns_named(X.names)}."
        )
    if is_frame(X) and (reset or table is not None or model.accepts_frames):
        return read_tables(estimator, [X], model=model, reset=reset)[0]
    if reset:
        estimator.table_ = None
    if table is not None:
        table.check_array()
    compared = table is None and not reset
    shape = getattr(model, "row_shape", None) if like is None else like.shape[1:]
    if compared:
        check_image_shape(name, X, shape)  # scikit-learn compares the second dimension only
    check = partial(validate_data, estimator)
    advice = f"An array must hold numbers: pass {name} as a data frame (pandas, polars or Arrow)."
    rows = as_rows(model, name, X, check=check, reset=reset, advice=advice)
    if compared:
        check_image_shape(name, rows, shape)
        if like is not None:
            check_pixels(name, rows, like)
        elif isinstance(model, Function):
            model.check_scale(name, rows)
    return rows if table is None else table.transform_array(rows)


# The largest value by type; infinite numbers are larger.
_MOST = {np.dtype(np.float64): LARGEST, np.dtype(np.float32): float(np.finfo(np.float32).max)}


def _is_plain(estimator: Any, X: Any, model: Accepts) -> bool:
    """Whether the checks would return ``X`` itself, so that single rows are scored faster."""
    most = _MOST.get(X.dtype) if type(X) is np.ndarray else None
    if most is None or X.ndim != 2 or X.shape[0] == 0:
        return False
    if hasattr(estimator, "feature_names_in_") or getattr(estimator, "table_", None) is not None:
        return False
    if not X.shape[1:] == (estimator.n_features_in_,) == getattr(model, "row_shape", X.shape[1:]):
        return False
    if model.accepts_nan:
        return not (np.abs(X) > most).any()
    return bool((np.abs(X) <= most).all())


def read_tables(estimator: Any, parts: Sequence[Any], *, model: Accepts, reset: bool) -> list[Rows]:
    """The rows of data frames as ``model`` accepts them, with the columns of training."""
    frames = [read_frame(part) for part in parts]
    if model.accepts_frames:  # a pipeline that encodes them: the tables, with columns in order
        if reset:
            _remember(estimator, frames[0], None)
        return [_aligned(estimator, frame) for frame in frames]
    if reset:
        encoder, matrix = TableEncoder.fit(
            frames, expand=not model.accepts_categories, keep=Keep.of(estimator)
        )
        _remember(estimator, frames[0], encoder)
        sizes = [len(frame) for frame in frames]
        matrices = np.split(matrix, np.cumsum(sizes)[:-1])
    else:
        matrices = [estimator.table_.transform(frame) for frame in frames]
    return [_encoded_rows(estimator, matrix, model) for matrix in matrices]


def _aligned(estimator: Any, frame: Frame) -> FrameRows:
    """The rows of a frame with its columns in the order of training."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        positions = [str(j) for j in range(estimator.n_features_in_)]
        return FrameRows.of(aligned(frame, positions, named=False))
    return FrameRows.of(aligned(frame, list(names), named=True))


def _remember(estimator: Any, frame: Frame, table: TableEncoder | None) -> None:
    estimator.n_features_in_ = len(frame.names)
    estimator.table_ = table
    if frame.named:
        estimator.feature_names_in_ = np.array(frame.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _encoded_rows(estimator: Any, matrix: FloatArray, model: Accepts) -> Rows:
    """The rows of an encoded table; an error names the columns with values that are refused."""
    try:
        return as_rows(model, "X", matrix, estimator=estimator, input_name="X")
    except DataError as error:
        if model.accepts_nan:
            refused = np.abs(matrix) > LARGEST
        else:
            refused = ~(np.abs(matrix) <= LARGEST)
        names = estimator.table_.source_names(refused.any(axis=0))
        if not names:
            raise
        raise type(error)(f"{error} Columns with such values: {columns_named(names)}.") from error


# -- new rows ----------------------------------------------------------------------------------


def read_rows(classifier: Any, X: Any) -> Rows:
    """New rows as the model accepts them; the column of periods of training is none of them."""
    fitted: FittedRatio = classifier.fitted_
    if fitted.columns.period is not None:
        X = periods_package.split_period(fitted.columns, X)[1]
    return check_rows(classifier, X, model=fitted.model)


def rows_with_periods(classifier: Any, X: Any) -> Any:
    """``X``, as scored rows with their periods if training had a column of periods."""
    in_training = classifier.fitted_.columns.period is not None
    if not in_training or isinstance(X, ScoreTails) or engine_of(X) is not None:
        return X
    return read_batch(classifier, X, with_periods=True)


def read_batch(classifier: Any, X: Any, *, with_periods: bool = False) -> Batch:
    """New rows, scored once; with ``with_periods`` they keep their periods, for ``adapt``."""
    if isinstance(X, Batch):
        return X
    if isinstance(X, ScoreTails):
        raise ParameterError(
            "X must be rows, got counts, from which rows cannot be chosen or labelled."
        )
    fitted: FittedRatio = classifier.fitted_
    periods = None
    if fitted.columns.period is not None:
        periods, X = periods_package.split_period(fitted.columns, X)
    X = as_records(X)
    if is_frame(X):
        X = collected(X)
    batch = Batch.of(fitted, check_rows(classifier, X, model=fitted.model))
    if not with_periods:
        periods = None
    return replace(batch, texts=read_texts(fitted, X), periods=periods)


def read_members(classifier: Any, X: Any, by: Any) -> tuple[periods_package.Groups, Batch]:
    """The groups of rows, and the rows."""
    values, X = periods_package.group_values(classifier.fitted_.columns, X, by)
    batch = read_batch(classifier, X)
    if len(values) != len(batch):
        raise DataError(f"by must have one value per row, got {len(values)} for {len(batch)} rows.")
    return periods_package.Groups.of(values), batch


def read_texts(fitted: FittedRatio, X: Any) -> dict[str, Any]:
    """The columns of free text of new rows as they are, for reasons that name words."""
    X = as_records(X)
    if fitted.columns.table is None or not is_frame(X):
        return {}
    return fitted.columns.table.texts_of(X)


def read_counts(
    classifier: Any, X: Any, sample_weight: Any = None, *, copies_once: bool = False
) -> ScoreTails:
    """The counts of rows, which may have been counted or scored before.

    With ``copies_once`` copies of a row are one row for limits, unless rows have weights.
    """
    fitted: FittedRatio = classifier.fitted_
    engine = engine_of(X)
    if engine is not None:
        if sample_weight is not None and not isinstance(sample_weight, str):
            raise ParameterError(
                "sample_weight must be the name of a column for rows on a cluster, got "
                f"{type(sample_weight).__name__}."
            )
        counts: ScoreTails = engine.count(classifier, X, sample_weight)
        return counts
    if isinstance(X, ScoreTails):
        return check_counts(fitted, X, sample_weight)
    if isinstance(X, Batch) and sample_weight is None:
        return X.counts
    rows = X.rows if isinstance(X, Batch) else read_rows(classifier, X)
    weight = None
    if sample_weight is not None:
        weight = check_weights("sample_weight", sample_weight, n_rows(rows))
    if isinstance(X, Batch):
        return fitted.count_scores(X.scores, weight)
    copies = None
    if copies_once and weight is None:
        copies = copied_rows(rows)
    return fitted.count(rows, weight, copies=copies)
