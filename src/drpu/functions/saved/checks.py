"""Checks of an estimator from a file, before it may score rows.

scikit-learn checks the arguments of its users but not its own attributes. Compiled code accesses memory
by three kinds of attributes: trees, the trees of histogram gradient boosting, and support vectors. These
are checked completely. In other estimators NumPy checks shapes, and a wrong shape causes an error when the
loaded model scores its first rows, which is done before ``load`` returns it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from numbers import Integral
from typing import Any

import numpy as np

from drpu._typing import IntArray
from drpu.exceptions import ArtifactError
from drpu.functions.saved.allowed import type_name

__all__ = ["MOST_DEPTH", "check_estimator", "check_forest", "refuse"]

MOST_DEPTH = 1000  # most splits between root and leaf, to bound the time for a row
MOST_THREADS = 1024
MOST_FEATURES = 1_000_000  # largest number of columns of the result of a transformer
_FINITE = frozenset(
    {
        "a_", "b_", "center_", "class_prior_", "cluster_centers_", "coef_", "coefs_", "components_",
        "intercept_", "intercepts_", "lambdas_", "mean_", "means_", "scale_", "theta_", "var_",
    }
)  # fmt: skip
# Attributes that determine the sizes of arrays of predictions.
_SMALL = {"n_classes_": (1, 2), "n_outputs_": (1,), "n_trees_per_iteration_": (1,)}


def refuse(name: str, problem: str) -> ArtifactError:
    """The error for an inconsistent part of a file."""
    return ArtifactError(f"the saved {name} is damaged: {problem}.")


def check_estimator(estimator: Any) -> None:
    """Raise unless it is safe to score rows with ``estimator``; its parts are checked separately."""
    name, values = type(estimator).__name__, vars(estimator)
    for attribute in _FINITE & values.keys():
        _check_finite(name, attribute, values[attribute])
    threads = values.get("n_jobs")
    if threads is not None and not (_is_integer(threads) and abs(threads) <= MOST_THREADS):
        raise refuse(name, f"n_jobs must be at most {MOST_THREADS}, got {str(threads)[:40]}")
    for attribute, allowed in _SMALL.items():
        if attribute in values and values[attribute] not in allowed:
            raise refuse(name, f"{attribute} must be {allowed[-1]}")
    if values.get("kw_args") or values.get("inv_kw_args"):
        raise refuse(name, "arguments of a function are not supported in artifacts")
    # An unfitted estimator is a parameter of another one and does not score rows.
    fitted = any(attribute.startswith("_") or attribute.endswith("_") for attribute in values)
    if fitted and type_name(estimator) in _CHECKS:
        columns = values.get("n_features_in_")
        if not _is_integer(columns) or columns < 1:
            raise refuse(name, "n_features_in_ must be the number of its columns")
        try:
            _CHECKS[type_name(estimator)](estimator, int(columns))
        except (AttributeError, TypeError, KeyError, IndexError, ValueError) as error:
            if isinstance(error, ArtifactError):
                raise
            raise refuse(name, f"{error}") from error


def check_forest(name: str, left: IntArray, right: IntArray, leaf: np.ndarray[Any, Any]) -> None:
    """Raise unless the nodes of one tree are reached from node 0, each once and after its parent."""
    parents = np.flatnonzero(~leaf)
    children = np.concatenate([left[parents], right[parents]])
    if not np.array_equal(np.sort(children), np.arange(1, len(leaf))):
        raise refuse(name, "a node of a tree is not reached exactly once")
    if (children <= np.tile(parents, 2)).any():
        raise refuse(name, "a node of a tree comes before its parent")
    level, depth = np.zeros(1, dtype=np.int64), 0
    while True:  # ends, because children come after their parents
        level = level[~leaf[level]]
        if not level.size:
            return
        level, depth = np.concatenate([left[level], right[level]]), depth + 1
        if depth > MOST_DEPTH:
            raise refuse(name, f"a tree is deeper than {MOST_DEPTH} splits")


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _check_finite(name: str, attribute: str, value: Any) -> None:
    arrays = value if isinstance(value, list) else [value]
    for array in arrays:
        if array is None:
            continue
        numbers = np.asarray(array)
        if numbers.dtype.kind not in "iuf" or not np.isfinite(numbers).all():
            raise refuse(name, f"{attribute} must hold finite numbers")


def _require(name: str, **rules: bool) -> None:
    for rule, holds in rules.items():
        if not holds:
            raise refuse(name, f"{rule.replace('_', ' ')}")


def _is_array(value: Any, shape: tuple[int, ...], kinds: str = "f") -> bool:
    return isinstance(value, np.ndarray) and value.shape == shape and value.dtype.kind in kinds


# -- trees -----------------------------------------------------------------------------------


def _check_tree(estimator: Any, columns: int) -> None:
    from sklearn.tree._tree import Tree

    if type(estimator.tree_) is not Tree or estimator.tree_.n_features != columns:
        raise refuse(type(estimator).__name__, "its tree must have the columns of the estimator")
    if hasattr(estimator, "n_classes_") and int(estimator.n_classes_) != estimator.tree_.max_n_classes:
        raise refuse(type(estimator).__name__, "its tree must have the classes of the estimator")


def _check_members(estimator: Any, columns: int) -> None:
    """Check a forest or the stages of gradient boosting, whose trees are passed to compiled code directly."""
    name = type(estimator).__name__
    members = np.asarray(estimator.estimators_, dtype=object)
    if members.size == 0 or (members.ndim == 2 and members.shape[1] != 1) or members.ndim > 2:
        raise refuse(name, "estimators_ must hold its trees")
    for member in members.ravel():
        if type(member).__module__ != "sklearn.tree._classes" or member.n_features_in_ != columns:
            raise refuse(name, "its trees must have the columns of the estimator")


def _check_boosting(estimator: Any, columns: int) -> None:
    _check_members(estimator, columns)
    if any(type(member).__name__ != "DecisionTreeRegressor" for member in estimator.estimators_.ravel()):
        raise refuse(type(estimator).__name__, "its trees must be regression trees")
    _check_start(type(estimator).__name__, estimator.init_)
    if not (isinstance(estimator.learning_rate, float) and np.isfinite(estimator.learning_rate)):
        raise refuse(type(estimator).__name__, "its learning rate must be a finite number")


def _check_start(name: str, start: Any) -> None:
    """Check the initial estimator of boosting: compiled code adds to its result without a check."""
    if isinstance(start, str) and start == "zero":
        return
    prior: Any = getattr(start, "class_prior_", None)
    if (
        type_name(start) != "sklearn.dummy.DummyClassifier"
        or {start.strategy, start._strategy} != {"prior"}
        or start.sparse_output_ is not False
        or not _is_array(prior, (2,))
        or not ((prior > 0) & (prior < 1)).all()
        or vars(start).get("n_classes_") != 2
        or vars(start).get("n_outputs_") != 1
        or not _is_array(getattr(start, "classes_", None), (2,), "iuf")
    ):
        raise refuse(name, "it must start from the shares of the classes, or from zero")


def _check_histograms(estimator: Any, columns: int) -> None:
    name = type(estimator).__name__
    mapper = estimator._bin_mapper
    if estimator.is_categorical_ is not None or np.any(mapper.is_categorical_):
        raise refuse(name, "categorical columns are not supported in artifacts: encode them in a step before")
    if not _is_array(mapper.is_categorical_, (columns,), "bu") or len(mapper.bin_thresholds_) != columns:
        raise refuse(name, "its bins must have the columns of the estimator")
    if not _is_array(estimator._baseline_prediction, (1, 1)) or not np.isfinite(
        estimator._baseline_prediction
    ):
        raise refuse(name, "_baseline_prediction must be one finite number")
    for stage in estimator._predictors:
        (predictor,) = stage
        _check_histogram_tree(name, predictor, columns)


def _check_histogram_tree(name: str, predictor: Any, columns: int) -> None:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    nodes = predictor.nodes
    if nodes.dtype != PREDICTOR_RECORD_DTYPE or nodes.ndim != 1 or not len(nodes):
        raise refuse(name, "the nodes of its trees must have scikit-learn's fields")
    for attribute in ("raw_left_cat_bitsets", "binned_left_cat_bitsets"):
        if not _is_array(getattr(predictor, attribute), (0, 8), "u"):
            raise refuse(name, "its trees must have no categorical splits")
    leaf, splits = nodes["is_leaf"].astype(bool), nodes[nodes["is_leaf"] == 0]
    _require(
        name,
        its_trees_must_have_no_categorical_splits=not nodes["is_categorical"].any(),
        its_splits_must_be_on_its_columns=bool(
            ((splits["feature_idx"] >= 0) & (splits["feature_idx"] < columns)).all()
        ),
        its_thresholds_must_be_numbers=not np.isnan(splits["num_threshold"]).any(),
        its_leaves_must_be_finite=bool(np.isfinite(nodes["value"]).all()),
    )
    check_forest(name, nodes["left"].astype(np.int64), nodes["right"].astype(np.int64), leaf)


# -- others ----------------------------------------------------------------------------------


def _check_support(estimator: Any, columns: int) -> None:
    name, vectors = type(estimator).__name__, estimator.support_vectors_
    n = len(vectors)
    with_probabilities = True in (estimator.probability, getattr(estimator, "_effective_probability", False))
    _require(
        name,
        its_kernel_must_be_one_of_scikit_learn=estimator.kernel in ("linear", "poly", "rbf", "sigmoid"),
        its_rows_must_be_dense=estimator._sparse is False,
        its_degree_must_be_an_integer_up_to_100=_is_integer(estimator.degree)
        and 0 <= estimator.degree <= 100,
        its_gamma_must_be_finite=bool(np.isfinite([estimator._gamma, estimator.coef0]).all()),
        its_support_vectors_must_have_its_columns=_is_array(vectors, (n, columns))
        and vectors.dtype == np.float64,
        its_counts_must_add_up=_is_array(estimator._n_support, (2,), "i")
        and estimator._n_support.dtype == np.int32
        and bool((estimator._n_support >= 0).all() and estimator._n_support.sum() == n),
        its_indices_must_be_one_for_each_vector=_is_array(estimator.support_, (n,), "i")
        and estimator.support_.dtype == np.int32,
        its_coefficients_must_be_one_for_each_vector=all(
            _is_array(array, (1, n)) and array.dtype == np.float64
            for array in (estimator.dual_coef_, estimator._dual_coef_)
        ),
        its_intercepts_must_be_one_number=all(
            _is_array(array, (1,)) for array in (estimator.intercept_, estimator._intercept_)
        ),
        its_probabilities_must_have_two_numbers=all(
            _is_array(array, (1,)) or (_is_array(array, (0,)) and not with_probabilities)
            for array in (estimator._probA, estimator._probB)
        ),
    )
    for attribute in ("support_vectors_", "_dual_coef_", "_intercept_", "_probA", "_probB"):
        _check_finite(name, attribute, getattr(estimator, attribute))


def _check_neighbours(estimator: Any, columns: int) -> None:
    """Check the rows and fit again, because the search tree of a file is not read."""
    name, rows, label = type(estimator).__name__, estimator._fit_X, estimator._y
    if not _is_array(rows, (len(label), columns)) or not np.isfinite(rows).all():
        raise refuse(name, "its rows must be finite numbers in its columns")
    if not _is_array(label, (len(rows),), "iu") or not set(np.unique(label).tolist()) <= {0, 1}:
        raise refuse(name, "its labels must be 0 and 1")
    if estimator.metric not in ("minkowski", "euclidean", "manhattan", "chebyshev", "cosine"):
        raise refuse(name, "its metric must be one of scikit-learn's usual ones")
    if not _is_integer(estimator.n_neighbors) or not 1 <= estimator.n_neighbors <= len(rows):
        raise refuse(name, "it must have at least as many rows as neighbours")
    estimator.fit(rows, np.asarray(estimator.classes_)[label])


def _check_powers(estimator: Any, columns: int) -> None:
    low, high = estimator._min_degree, estimator._max_degree
    if not (_is_integer(low) and _is_integer(high) and 0 <= low <= high <= 20):
        raise refuse(type(estimator).__name__, "its degrees must be integers up to 20")
    powers = sum(
        comb(columns, d) if estimator.interaction_only else comb(columns + d - 1, d)
        for d in range(max(low, 1), high + 1)
    ) + bool(estimator.include_bias)
    if powers != estimator.n_output_features_ or powers > MOST_FEATURES:
        raise refuse(type(estimator).__name__, f"n_output_features_ must be right, at most {MOST_FEATURES}")


def _check_centres(estimator: Any, columns: int) -> None:
    centres = estimator.cluster_centers_
    if not isinstance(centres, np.ndarray) or centres.ndim != 2 or centres.shape[1] != columns:
        raise refuse(type(estimator).__name__, "its centres must have its columns")


def _check_encoder(estimator: Any, columns: int) -> None:
    if len(estimator.categories_) != columns:
        raise refuse(type(estimator).__name__, "its categories must be one array for each column")


_HISTOGRAMS = "sklearn.ensemble._hist_gradient_boosting"
_CHECKS: dict[str, Callable[[Any, int], None]] = {
    "sklearn.cluster._kmeans.KMeans": _check_centres,
    "sklearn.ensemble._forest.ExtraTreesClassifier": _check_members,
    "sklearn.ensemble._forest.RandomForestClassifier": _check_members,
    "sklearn.ensemble._gb.GradientBoostingClassifier": _check_boosting,
    f"{_HISTOGRAMS}.gradient_boosting.HistGradientBoostingClassifier": _check_histograms,
    "sklearn.neighbors._classification.KNeighborsClassifier": _check_neighbours,
    "sklearn.preprocessing._encoders.OneHotEncoder": _check_encoder,
    "sklearn.preprocessing._encoders.OrdinalEncoder": _check_encoder,
    "sklearn.preprocessing._polynomial.PolynomialFeatures": _check_powers,
    "sklearn.svm._classes.SVC": _check_support,
    "sklearn.tree._classes.DecisionTreeClassifier": _check_tree,
    "sklearn.tree._classes.DecisionTreeRegressor": _check_tree,
    "sklearn.tree._classes.ExtraTreeClassifier": _check_tree,
}
