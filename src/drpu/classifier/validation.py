"""Labels of the user: the rows that are positive, and the two labels that predictions use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from drpu._arrays import as_numpy
from drpu._checks import LARGEST, check_weights, one_line, refuse_mask, unit_weights
from drpu._samples import Sample, SamplePair, is_sparse, n_rows, stack_rows
from drpu._typing import BoolArray, FloatArray, IntArray, Rows
from drpu.audits.plan import check_same_rows
from drpu.exceptions import (
    CopiedPositivesWarning,
    DataError,
    FewNegativesWarning,
    LabelError,
    MorePositivesWarning,
    ParameterError,
    PositiveLabelWarning,
    ScenarioWarning,
)
from drpu.models.clusters import refuse_frame
from drpu.models.learner import Accepts, Function, RatioLearner, as_rows, check_pixels, check_shape
from drpu.state.record import LONGEST_LABEL
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import Frame, FrameRows, aligned, is_frame, read_frame, warn_of_order
from drpu.tables.notes import reappearing_share
from drpu.tables.values import as_series, is_missing, missing

LARGEST_LABEL = 2**63  # numbers are smaller
NUMBERS = (int, float, np.number, np.bool_)
Classes = np.ndarray[Any, Any]  # the two labels: (unlabeled or negative, positive)


def read_labels(y: Any, pos_label: Any = None, *, warn: bool = True) -> tuple[BoolArray, Classes]:
    """Which rows are labelled positives, and the two labels in the order (rest, positive).

    Of two values, ``pos_label`` is the positive one. Without it, the positive label is the larger of two
    numbers or booleans. Of two strings it is the one that is not blank. If neither is blank, it is the last
    in alphabetical order, with a warning. If there is a single label, missing values are the unlabeled rows.
    """
    labels = _flat(y, warn=warn)
    gaps = missing(labels)
    if gaps.any():
        return ~gaps, _storable(_classes_with_gaps(labels[~gaps], pos_label, _declared(y)))
    if labels.dtype == object and all(isinstance(label, NUMBERS) for label in labels):
        labels = np.array(labels.tolist())  # numbers in a column of objects
    elif labels.dtype.kind == "f":  # pandas has integers and booleans that NumPy reads as floats
        labels = labels.astype(_declared(y) or f"f{min(labels.itemsize, 8)}")
    if labels.dtype.kind == "f" and (np.abs(labels) >= LARGEST_LABEL).any():
        raise LabelError("y must not hold infinite or huge values: a label is a name, not a size.")
    try:
        check_classification_targets(labels)
        values = np.unique(labels)
    except (TypeError, ValueError) as error:
        if labels.dtype.kind == "f":
            part = labels[labels % 1 != 0][0].item()
            raise LabelError(
                f"Unknown label type: y must hold two labels, names or whole numbers, got {part!r}. "
                "Mark labelled positives with 1 and every other row with 0."
            ) from error
        raise LabelError(f"y must hold two labels of one type: {one_line(error)}") from error
    if len(values) != 2:
        raise LabelError(_wrong_number_of_labels(values))
    if pos_label is not None and pos_label not in values:
        raise LabelError(
            f"pos_label must be one of the labels {values.tolist()}, got {pos_label!r}."
        )
    positive = values[1] if pos_label is None else pos_label
    rest = values[0] if positive == values[1] else values[1]
    flags = np.asarray(labels == positive)
    classes = _storable(np.array([rest, positive], dtype=values.dtype))
    if warn and pos_label is None:
        warn_of_guess(classes, int(flags.sum()), int((~flags).sum()))
    return flags, classes


def _storable(classes: Classes) -> Classes:
    """The two labels; raises if files cannot keep one of them."""
    for label in classes.tolist():
        if isinstance(label, str) and len(label) > LONGEST_LABEL:
            rule, got = f"of at most {LONGEST_LABEL:,} characters", f"one of {len(label):,}"
        elif isinstance(label, str) and any("\ud800" <= letter <= "\udfff" for letter in label):
            rule, got = "that can be written as UTF-8", ascii(label)
        elif isinstance(label, (int, float)) and abs(label) >= LARGEST_LABEL:
            rule, got = "that are text or numbers below 2**63", f"{label}"
        else:
            continue
        raise LabelError(f"y must hold labels {rule}, got {got}: use short names, or 1 and 0.")
    # an array of text may be wider than its labels
    return np.array(classes.tolist()) if classes.dtype.itemsize > 4 * LONGEST_LABEL else classes


def warn_of_more_positives(positive: int, unlabeled: int) -> None:
    """Warn if there are more labelled positives than unlabeled rows, which is rarely intended."""
    if positive > unlabeled:
        MorePositivesWarning.issue(
            f"there are more labelled positives ({positive:,}) than unlabeled rows ({unlabeled:,}):",
            advice="check whether the two labels were exchanged (pos_label).",
            command="check whether the two labels were exchanged (--pos-label).",
        )


def _flat(y: Any, *, warn: bool = True) -> np.ndarray[Any, Any]:
    refuse_mask("y", y)
    if isinstance(y, str):
        raise LabelError(
            f"y must have one label per row, got the text {y!r}: pass the column itself, as in "
            f"fit(X.drop(columns={y!r}), X[{y!r}])."
        )
    try:
        labels: np.ndarray[Any, Any] = column_or_1d(as_numpy(y), warn=warn)
    except ValueError as error:
        raise LabelError(one_line(error)) from error
    if len(labels) == 0:
        raise LabelError("y must hold at least one label, got none.")
    if labels.dtype.kind == "T":  # text of variable length, which scikit-learn does not know
        labels = labels.astype(object)
    dates = labels.dtype.kind in "mM"
    varied = labels if dates or labels.dtype == object else ()
    for label in {type(label): label for label in varied if not is_missing(label)}.values():
        if dates or not isinstance(label, (str, *NUMBERS)):
            raise LabelError(
                f"y must hold names, numbers or booleans, got {label!r:.100}: pass y.astype(str), or "
                "y.notna() if the rows with a value are the positives."
            )
    return labels


def _declared(y: Any) -> Any:
    """The type of integers and booleans with missing values (pandas, polars, Arrow), unknown to NumPy."""
    masked = getattr(
        getattr(y, "dtype", None), "numpy_dtype", None
    )  # arrays of pandas, which are no series
    if isinstance(masked, np.dtype) and masked.kind in "biu":
        return masked
    series = as_series(y)
    if series is not None and series.dtype == nw.Boolean:
        return np.dtype(bool)
    if series is not None and series.dtype.is_integer():
        return np.dtype(str(series.dtype).lower())
    return None


def _classes_with_gaps(present: np.ndarray[Any, Any], pos_label: Any, declared: Any) -> Classes:
    """The label of the unlabeled rows and the single label of the other rows.

    If the single label is 1 or True, unlabeled rows have 0 or False; for another number they have NaN, and
    for a string None.
    """
    values = list(dict.fromkeys(present.tolist()))
    if not values:
        raise LabelError("y must hold at least one label, got missing values only.")
    if len(values) != 1:
        shown = ", ".join(map(repr, values[:5]))
        raise LabelError(
            f"y holds missing values, which mean unlabeled beside a single label, got the labels {shown}: "
            "keep the label of the positives and set all other rows to missing."
        )
    label = values[0]
    if pos_label is not None and pos_label != label:
        raise LabelError(f"pos_label must be {label!r}, the only label in y, got {pos_label!r}.")
    if isinstance(label, (bool, np.bool_)):
        dtype = np.dtype(bool)
    elif isinstance(label, (int, float, np.number)):
        dtype = declared or np.dtype(float if present.dtype.kind == "f" else int)
    else:
        return np.array([None, label], dtype=object)
    if label == 0 and pos_label is None:
        raise LabelError(
            f"y holds {label!r} and missing values: {label!r} usually marks rows without a label. "
            f"Set pos_label={label!r} if it marks the positives."
        )
    return np.array([0, 1], dtype=dtype) if label == 1 else np.array([np.nan, label], dtype=float)


def warn_of_guess(classes: Classes, n_positive: int, n_rest: int) -> None:
    """Warn that the positive one of two strings was guessed, unless the other one is blank or missing."""
    rest, positive = classes.tolist()
    if not isinstance(positive, str) or not isinstance(rest, str) or not rest.strip():
        return
    PositiveLabelWarning.issue(
        f"the labels are strings, and none was named as positive: {positive!r} ({n_positive:,} rows) is "
        f"taken as the label of the positives and {rest!r} ({n_rest:,} rows) as unlabeled.",
        advice="Set pos_label.",
        command="Give --pos-label.",
    )


def _wrong_number_of_labels(values: np.ndarray[Any, Any]) -> str:
    shown = ", ".join(map(repr, values[:5].tolist())) + (", ..." if len(values) > 5 else "")
    if len(values) == 1:
        return (
            f"y must hold two labels, got one class only: {shown}. Labelled positives and unlabeled rows "
            "are both needed; they may be two tables (fit_pu, or --unlabeled on the command line)."
        )
    return (
        f"Only binary classification is supported: y must hold two labels, got {len(values)}: {shown}. "
        "Mark labelled positives with 1 and every other row with 0."
    )


def read_tables(estimator: Any, parts: Sequence[Any], *, model: Accepts, reset: bool) -> list[Rows]:
    """The rows of data frames in the form that ``model`` accepts, with the columns of training."""
    frames = [read_frame(part) for part in parts]
    if (
        model.accepts_frames
    ):  # a pipeline that encodes them: the tables themselves, with columns in order
        if reset:
            _remember(estimator, frames[0], None)
        names = getattr(estimator, "feature_names_in_", None)
        known = [str(j) for j in range(estimator.n_features_in_)] if names is None else list(names)
        return [FrameRows.of(aligned(frame, known, named=names is not None)) for frame in frames]
    if reset:
        encoder, matrix = TableEncoder.fit(frames, expand=not model.accepts_categories)
        _remember(estimator, frames[0], encoder)
        matrices = np.split(matrix, np.cumsum([len(frame) for frame in frames])[:-1])
    else:
        matrices = [estimator.table_.transform(frame) for frame in frames]
    return [_encoded_rows(estimator, matrix, model) for matrix in matrices]


def _encoded_rows(estimator: Any, matrix: FloatArray, model: Accepts) -> Rows:
    """The rows of an encoded table; an error names the columns with values that are refused."""
    try:
        return as_rows(model, "X", matrix, estimator=estimator, input_name="X")
    except DataError as error:
        refused = np.abs(matrix) > LARGEST if model.accepts_nan else ~(np.abs(matrix) <= LARGEST)
        pairs = zip(estimator.table_.sources, np.asarray(refused.any(axis=0)), strict=True)
        names = list(dict.fromkeys(repr(plan.name) for plan, found in pairs if found))
        if not names:
            raise
        shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        raise type(error)(f"{error} Columns with such values: {shown}.") from error


def with_categories(model: RatioLearner, table: TableEncoder | None) -> RatioLearner:
    """The model with the positions of the encoded columns that hold category codes."""
    if table is None or not model.accepts_categories or not table.categories:
        return model
    if len(model.get_params()["categories"]):
        raise ParameterError(
            "categories of the model must be empty for a table, whose own categories are found: declare "
            "further columns as categories in the table."
        )
    told: RatioLearner = model.set_params(categories=table.categories)
    return told


def _remember(estimator: Any, frame: Frame, table: TableEncoder | None) -> None:
    estimator.n_features_in_ = len(frame.names)
    estimator.table_ = table
    if frame.named:
        estimator.feature_names_in_ = np.array(frame.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def split_pu(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, model: Accepts, groups: Any = None
) -> tuple[SamplePair, Classes]:
    """Positive and unlabeled samples from rows and labels, and the two labels.

    The estimator stores the columns. Weights are scaled to mean 1, so that their scale has no effect.
    """
    if y is None:
        raise LabelError(
            "y should be a 1d array of labels, got None: mark labelled positives with 1 and unlabeled rows "
            "with 0."
        )
    _forget(estimator)
    X = check_rows(estimator, X, model=model, reset=True)
    positive, classes = read_labels(y, getattr(estimator, "pos_label", None))
    check_same_rows(n_rows(X), len(positive))
    warn_of_more_positives(int(positive.sum()), int((~positive).sum()))
    weight = None
    if sample_weight is not None:
        weight = unit_weights(check_weights("sample_weight", sample_weight, n_rows(X)))
    codes = None if groups is None else read_groups("groups", groups, n_rows(X))
    whole = Sample(X, weight, codes)
    return SamplePair(_some(whole, positive), _some(whole, ~positive)), classes


def scenario_of_table(scenario: str, pair: SamplePair, *, periods: bool = False) -> str:
    """How the rows of one table were collected: as the parameter ``scenario`` says, or as "auto" finds.

    A table is a single sample, unless labelled rows reappear among the unlabeled ones, which a sample that
    was drawn separately explains. ``periods`` says whether the rows have periods, which need a single sample.
    """
    if scenario != "auto":
        return scenario
    share = reappearing_share(pair.positive.rows, pair.unlabeled.rows)
    if share is None:
        return "single-sample"
    finding = f"{share:.0%} of the labelled positives are also among the unlabeled rows, more than by chance"
    if periods:
        meaning = (
            f"periods need one sample, but {finding}, as in two samples that were drawn separately:"
        )
        raise DataError(
            f"{meaning} leave these unlabeled rows out, or say scenario='single-sample'.",
            command=f"{meaning} leave these unlabeled rows out, or give --scenario single-sample.",
        )
    ScenarioWarning.issue(
        f"{finding}: the labelled positives are taken as a sample that was drawn separately, "
        "scenario case-control, and priors are those of the unlabeled rows.",
        advice="Say scenario='case-control', or 'single-sample' if the copies are mistakes.",
        command="Give --scenario case-control, or single-sample if the copies are mistakes.",
    )
    return "case-control"


def scenario_of_samples(scenario: str) -> str:
    """How two samples that were passed separately were collected: "auto" is case-control."""
    return "case-control" if scenario == "auto" else scenario


def _forget(estimator: Any) -> None:
    """Make an estimator unfitted: after a fit that fails, its old model would read the new columns."""
    for name in ("_fitted", "classes_"):
        vars(estimator).pop(name, None)


def pair_pu(
    estimator: Any,
    positive: Any,
    unlabeled: Any,
    positive_weight: Any,
    unlabeled_weight: Any,
    *,
    model: Accepts,
) -> tuple[SamplePair, Classes]:
    """Positive and unlabeled samples that were passed separately; labels are 1 and 0.

    The weights of each sample are scaled to mean 1, so they do not change the fraction of
    labelled rows.
    """
    _forget(estimator)
    warn_of_order(positive, rows="positive", positive_weight=positive_weight)
    warn_of_order(unlabeled, rows="unlabeled", unlabeled_weight=unlabeled_weight)
    if is_frame(positive) and is_frame(unlabeled):
        positive, unlabeled = read_tables(estimator, [positive, unlabeled], model=model, reset=True)
    else:
        positive = check_rows(estimator, positive, model=model, reset=True, name="positive")
        unlabeled = check_rows(estimator, unlabeled, model=model, name="unlabeled", like=positive)
    warn_of_more_positives(n_rows(positive), n_rows(unlabeled))
    n, n_unlabeled, weights = n_rows(positive), n_rows(unlabeled), None
    if positive_weight is not None or unlabeled_weight is not None:
        given = (
            ("positive_weight", positive_weight, n),
            ("unlabeled_weight", unlabeled_weight, n_unlabeled),
        )
        parts = [
            np.ones(k) if w is None else unit_weights(check_weights(name, w, k))
            for name, w, k in given
        ]
        weights = np.concatenate(parts)
    whole = Sample(stack_rows(positive, unlabeled), weights)  # the same array type for both
    first = np.arange(len(whole)) < n
    return SamplePair(_some(whole, first), _some(whole, ~first)), np.array([0, 1])


def read_groups(name: str, groups: Any, n: int) -> IntArray:
    """Group numbers from values of any type, one per row."""
    try:
        values = column_or_1d(as_numpy(groups))
    except ValueError as error:
        given = repr(groups) if isinstance(groups, str) else f"shape {np.shape(groups)}"
        raise DataError(
            f"{name} must have one value per row, as X['customer'] has, got {given}."
        ) from error
    if len(values) != n:
        raise DataError(f"{name} must have one value per row, {n}, got {len(values)}.")
    if missing(values).any():
        raise DataError(
            f"{name} must not hold missing values: give a row without a group its own value."
        )
    try:
        _, codes = np.unique(values, return_inverse=True)
    except TypeError:  # values of several types cannot be sorted
        _, codes = np.unique(values.astype(str), return_inverse=True)
    return np.asarray(codes, dtype=np.int64)


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

    They are a float array or CSR matrix, images of eight bits, or a data frame if the model accepts one.
    ``like`` are training rows, which a learner does not know; a fitted model knows their shape and scale.
    """
    if not reset and _is_plain(estimator, X, model):
        return X
    refuse_frame(X, name)
    table = None if reset else getattr(estimator, "table_", None)
    if is_frame(X) and (reset or table is not None or model.accepts_frames):
        return read_tables(estimator, [X], model=model, reset=reset)[0]
    if reset:
        estimator.table_ = None
    if table is not None:
        table.check_array()
    compared = table is None and not reset
    shape = getattr(model, "row_shape", None) if like is None else like.shape[1:]
    if compared:
        _check_image_shape(name, X, shape)  # scikit-learn compares the second dimension only
    advice = f"An array must hold numbers: pass {name} as a data frame (pandas, polars or Arrow)."
    rows = as_rows(
        model, name, X, check=partial(validate_data, estimator), reset=reset, advice=advice
    )
    if compared:
        _check_image_shape(name, rows, shape)
        if like is not None:
            check_pixels(name, rows, like)
        elif isinstance(model, Function):
            model.check_scale(name, rows)
    return rows if table is None else table.transform_array(rows)


def _check_image_shape(name: str, X: Any, shape: tuple[int, ...] | None) -> None:
    """Raise if rows or those of training are images, and their shapes differ."""
    found = getattr(X, "shape", ())
    if shape is not None and len(found) > 1 and max(len(shape), len(found) - 1) > 1:
        check_shape(name, X, shape)


# The largest value by type; infinite numbers are larger.
_MOST = {np.dtype(np.float64): LARGEST, np.dtype(np.float32): float(np.finfo(np.float32).max)}


def _is_plain(estimator: Any, X: Any, model: Accepts) -> bool:
    """Whether the checks would return ``X`` itself; then they are skipped to score single rows faster."""
    most = _MOST.get(X.dtype) if type(X) is np.ndarray else None
    return (
        most is not None
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1:] == (estimator.n_features_in_,) == getattr(model, "row_shape", X.shape[1:])
        and not hasattr(estimator, "feature_names_in_")
        and getattr(estimator, "table_", None) is None
        and not ((np.abs(X) > most).any() if model.accepts_nan else not (np.abs(X) <= most).all())
    )


def _some(whole: Sample, mask: BoolArray) -> Sample:
    sample = whole.take(np.flatnonzero(mask))
    if sample.weight is not None and sample.weight.sum() <= 0:
        raise DataError(
            "sample_weight leaves one class only: it must not be zero for every positive or for every "
            "unlabeled row."
        )
    return sample


_MOST_ROWS = 20_000  # unlabeled rows that are compared with the positives
# Rows of a coarse table coincide by chance. If chance is the reason, positives coincide with
# unlabeled rows at least prior times as often as with each other; priors below this are ignored.
_LEAST_PRIOR = 0.02
_LEAST_EXCESS = 5  # number of coinciding rows above chance before there is a warning


def grouped_copies(pair: SamplePair) -> SamplePair:
    """The pair with copies of a labelled positive in one group, unless the user gave groups."""
    if pair.positive.groups is not None:
        return pair
    groups = copied_positives(pair, np.random.RandomState(0))
    if groups is None:
        return pair
    positive = Sample(pair.positive.rows, pair.positive.weight, groups)
    CopiedPositivesWarning.issue(
        f"{len(positive) - positive.n_independent} of the {len(positive)} labelled positives are copies "
        "of others. Copies stay in one fold and count once in intervals.",
        advice="If they are different cases with equal values, pass groups with a value for each row.",
        command="",
    )
    return SamplePair(positive, pair.unlabeled)


def copied_positives(pair: SamplePair, rng: np.random.RandomState) -> IntArray | None:
    """Group numbers of the positives, in which copies of a row share one; None without copies.

    Rows that coincide only because columns take few values are independent and
    are not grouped. Let q be the chance that two positives coincide and c the chance
    that a positive and an unlabeled row do. A fraction of the unlabeled rows, the prior,
    are positives, so q is at most c / prior. Positives that coincide more often than that
    have been copied.
    """
    n = len(pair.positive)
    if n < 2:
        return None
    keys, groups, counts = np.unique(
        _keys(pair.positive.rows), return_inverse=True, return_counts=True
    )
    repeated = n - len(counts)
    if repeated < _LEAST_EXCESS:
        return None
    pairs = float((counts.astype(np.float64) * (counts - 1)).sum()) / 2
    unlabeled = pair.unlabeled.rows
    if len(pair.unlabeled) > _MOST_ROWS:
        unlabeled = unlabeled[np.sort(rng.permutation(len(pair.unlabeled))[:_MOST_ROWS])]
    others, other_counts = np.unique(_keys(unlabeled), return_counts=True)
    _, at, other_at = np.intersect1d(keys, others, assume_unique=True, return_indices=True)
    met = int((counts[at].astype(np.int64) * other_counts[other_at]).sum())  # pairs of equal rows
    by_chance = (met + 1) / (n * unlabeled.shape[0]) / _LEAST_PRIOR * n * (n - 1) / 2
    return groups.ravel() if pairs > by_chance + _LEAST_EXCESS else None


def copies_of_labelled(pair: SamplePair) -> IntArray:
    """Positions of unlabeled rows that equal a labelled positive, and of the first such positive, (n, 2).

    Empty for a coarse table, in which at least half of the unlabeled rows coincide: equal rows are then
    different cases with equal values.
    """
    keys = np.concatenate([_keys(pair.positive.rows), _keys(pair.unlabeled.rows)])
    _, codes = np.unique(keys, return_inverse=True)
    labelled, others = np.split(codes.ravel(), [len(pair.positive)])
    if 2 * len(np.unique(others)) <= len(others):
        return np.empty((0, 2), dtype=np.int64)
    known, first = np.unique(labelled, return_index=True)
    place = np.full(len(keys), -1)
    place[known] = first
    found = np.flatnonzero(place[others] >= 0)
    return np.column_stack([found, place[others[found]]])


def _keys(rows: Rows) -> np.ndarray[Any, Any]:
    """One comparable value for each row, equal where the rows are equal."""
    if isinstance(rows, FrameRows):
        return rows.keys()
    if is_sparse(rows):
        rows = rows.tocsr()
        parts = [
            rows.indices[a:b].tobytes() + rows.data[a:b].tobytes()
            for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        ]
        return np.array([hash(part) for part in parts], dtype=np.int64)
    flat = np.ascontiguousarray(np.asarray(rows).reshape(rows.shape[0], -1))
    return flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()


def split_negatives(
    y: Any, negative_label: Any, pos_label: Any
) -> tuple[Any, BoolArray | None, Classes | None]:
    """Labels in which known negatives are unlabeled, which rows they are, and the two labels.

    The labels are None if unlabeled rows have one of their own, which is then that of predicted negatives.
    """
    if negative_label is None:
        return y, None, None
    if not np.isscalar(negative_label):
        raise LabelError(f"negative_label must be one label, got {negative_label!r:.100}.")
    if pos_label is not None and negative_label == pos_label:
        raise LabelError(f"negative_label must not be pos_label, got {negative_label!r} for both.")
    labels, declared = _flat(y), _declared(y)
    gaps = missing(labels)
    known = ~gaps  # a comparison with a missing label may have no answer
    known[known] = [bool(label == negative_label) for label in labels[known].tolist()]
    if not known.any():
        shown = ", ".join(map(repr, dict.fromkeys(labels[~gaps].tolist())))
        text = (
            f"no row has the label {negative_label!r:.100} of known negatives, only {shown:.100}."
        )
        FewNegativesWarning.issue(text)
        return y, None, None
    if not gaps.any():
        labels = labels if declared is None else labels.astype(declared)
        rest = read_labels(labels[~known], pos_label, warn=False)[1][0]
        return np.where(known, rest, labels), known, None
    classes = _classes_with_gaps(labels[~known & ~gaps], pos_label, declared)
    if isinstance(negative_label, str) != isinstance(classes[1], str):
        raise LabelError(
            f"negative_label must be a name or a number, as the label {classes.tolist()[1]!r} of the "
            f"positives is, got {negative_label!r:.100}: give both labels one type."
        )
    left = labels.astype(object)
    left[known] = None
    dtype = declared or next(
        (one.dtype for one in (labels, classes) if one.dtype.kind in "iufb"), object
    )
    return left, known, _storable(np.array([negative_label, classes[1]], dtype=dtype))
