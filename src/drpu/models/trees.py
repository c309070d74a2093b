"""Trees of LightGBM as arrays, and the functions of rows that they make."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from drpu._arrays import BoolArray, FloatArray, IntArray, Rows
from drpu._checks import check_integer
from drpu._codec import Array, Kept, Whole, kept
from drpu._samples import SamplePair, is_sparse
from drpu.exceptions import ArtifactError, ClusterError, DataError, ParameterError
from drpu.models.graphs import Graph


def tree_rows(X: Rows) -> Rows:
    """Rows in the form that LightGBM accepts: sparse matrices, not sparse arrays."""
    return scipy.sparse.csr_matrix(X) if is_sparse(X) else X


def tree_threads(n_jobs: int) -> int:
    """Number of threads as LightGBM counts them, where 0 is one for each core."""
    return 0 if n_jobs == -1 else n_jobs


# Settings of a LightGBM data set, which have to be those of the one that it is a part of.
_BIN_SETTINGS = (
    "max_bin",
    "min_data_in_bin",
    "feature_pre_filter",
    "num_threads",
    "verbosity",
    "max_cat_to_onehot",
    "data_random_seed",
    "bin_construct_sample_cnt",
)
BIN_ROWS = 50_000  # rows that determine the bounds of at most 63 bins; more change them little


def tree_data(
    pair: SamplePair, settings: dict[str, Any], categories: Any, reference: Any = None
) -> Any:
    """Both samples as a LightGBM data set; dense rows are two blocks, to avoid a copy."""
    import lightgbm

    positive = pair.positive.rows
    unlabeled = pair.unlabeled.rows
    _check_codes((positive, unlabeled), categories)
    if is_sparse(positive) or is_sparse(unlabeled):
        rows = tree_rows(pair.stacked())
    else:
        rows = _without_constants([positive, unlabeled], pair.varied())
    return lightgbm.Dataset(
        rows,
        pair.flags(),
        weight=pair.unit_weights(),
        params=settings,
        reference=reference,
        categorical_feature=categories,
    )


def _without_constants(parts: Sequence[FloatArray], varied: BoolArray) -> list[FloatArray]:
    """Contiguous parts, with zeros in columns that are not varied.

    LightGBM would draw a constant column, which could separate its value from zeros or gaps.
    """
    if not varied.all():
        parts = [np.where(varied, rows, 0.0) for rows in parts]
    return [np.ascontiguousarray(rows) for rows in parts]


class SharedBins:
    """The columns of two samples, divided into bins once for several fits to parts of the samples.

    Labels do not determine the bins.
    """

    def __init__(self, pair: SamplePair, categories: Any) -> None:
        self._pair = pair
        self._categories = categories
        self._whole: dict[int, Any] = {}  # LightGBM data sets of all rows, by the number of bins
        self._lock = threading.Lock()

    def data(self, pair: SamplePair, settings: dict[str, Any]) -> Any:
        """A part of the samples, whose rows have places in them, as a LightGBM data set."""
        bin_settings = {name: settings[name] for name in _BIN_SETTINGS if name in settings}
        key = int(settings["max_bin"])
        with self._lock:
            if key not in self._whole:
                data = tree_data(self._pair, bin_settings, self._categories)
                self._whole[key] = data.construct()
            whole = self._whole[key]
        rows = self._rows(pair)
        if rows is None:
            data = tree_data(pair, bin_settings, self._categories, reference=whole)
            return data.construct()
        part = whole.subset(rows.tolist()).construct()
        weight = pair.unit_weights()
        if weight is not None:
            part.set_weight(weight)
        return part

    def _rows(self, pair: SamplePair) -> IntArray | None:
        """Places in both samples, ascending; None if some rows have none."""
        positive = pair.positive.place
        unlabeled = pair.unlabeled.place
        if positive is None or unlabeled is None:
            return None
        rows = np.concatenate([positive, len(self._pair.positive) + unlabeled])
        if (np.diff(rows) <= 0).any() or (positive < 0).any() or (unlabeled < 0).any():
            return None
        return rows


def category_columns(categories: Sequence[int], columns: int) -> Any:
    """Positions of category codes, in the form that a LightGBM data set accepts."""
    for j in categories:
        if check_integer("categories", j, low=0) >= columns:
            raise ParameterError(
                f"categories must be positions of columns below {columns}, got {j!r}."
            )
    return [int(j) for j in categories] or "auto"


def _check_codes(samples: Sequence[Rows], categories: Any) -> None:
    """Raise unless the codes of categories are small enough for their sets of bits."""
    if categories == "auto":
        return
    for rows in samples:
        for j in categories:
            codes = rows[:, [j]]
            if is_sparse(codes):
                codes = codes.toarray()
            largest = np.fmax.reduce(codes, axis=None, initial=0.0)  # not NaN
            if largest >= MOST_CODES:
                raise DataError(
                    f"column {j} has the category code {largest:.0f}: codes must be below "
                    f"{MOST_CODES}. Number the levels from 0."
                )


def category_settings(categories: Sequence[int]) -> dict[str, Any]:
    """Settings of splits on categories: one level against the others, as for an indicator column.

    Choosing among the very many sets of levels would overfit few positives.
    """
    return {"max_cat_to_onehot": 300} if len(categories) else {}


# -- trees ----------------------------------------------------------------------------------------

_MANTISSA = 53  # bits of a float64
_LEAST_EXPONENT = -900  # smaller sums are 0
MOST_DEPTH = 1000  # most splits between root and leaf, to bound the time for a row
MOST_TREES = 10_000  # LightGBM takes kilobytes for each, however small it is
MOST_CODES = 2**16  # codes of a category are whole numbers below this, so a set has 2048 words
WORD = 32  # bits of a word of a set of categories
_PATHS_AT_ONCE = 2**20  # splits on paths to leaves that are in memory together
_TEXTS_AT_ONCE = 4096  # a number as a Python object takes many times the bytes of its text

_CATEGORICAL, _LEFT, _ZERO, _NAN = 1, 2, 4, 8  # bits of a decision, as LightGBM numbers them
# An infinite threshold separates numbers from missing values.
_LOWEST = -float(np.finfo(np.float64).max)


@kept("trees")
@dataclass(frozen=True, eq=False)
class Trees(Kept):
    """Trees as arrays over all splits and all leaves, one tree after the other.

    Splits and leaves are numbered within a tree; a child is the number of a split, or ``~leaf``. A
    decision has LightGBM's bits: 1 for a split on a category, 2 if missing values go left, 4 or 8
    if zeros or NaN are missing values. A category goes left if its bit is set. The threshold of the
    k-th split on a category is k, and its 32-bit words are ``bits[bounds[k]:bounds[k + 1]]``.
    """

    leaves: Annotated[NDArray[Any], Array("t", dtype="int32", low=1)]  # of each tree; splits + 1
    feature: Annotated[NDArray[Any], Array("s", dtype="int32", low=0)]  # the column of each split
    threshold: Annotated[FloatArray, Array("s", low=_LOWEST, high=np.inf)]
    decision: Annotated[NDArray[Any], Array("s", dtype="int8", low=0, high=11)]
    left: Annotated[NDArray[Any], Array("s", dtype="int32")]
    right: Annotated[NDArray[Any], Array("s", dtype="int32")]
    value: Annotated[FloatArray, Array("l")]  # of the leaves
    # training rows in the leaves, which weight the contributions of columns
    count: Annotated[NDArray[Any], Array("l", dtype="int32", low=1)]
    bounds: Annotated[NDArray[Any], Array("b", dtype="int32", low=0)]  # of the sets of categories
    bits: Annotated[NDArray[Any], Array("w", dtype="uint32")]
    n_columns: Annotated[int, Whole(1, 2**31)]
    averaged: bool = False  # whether the output is the mean of the trees, or their sum

    def __post_init__(self) -> None:
        n_splits = len(self.feature)
        n_leaves = int(self.leaves.sum(dtype=np.int64))
        _need(0 < len(self) <= MOST_TREES, f"there must be 1 to {MOST_TREES} trees")
        sizes_fit = len(self.value) == n_leaves and n_splits == n_leaves - len(self)
        _need(sizes_fit, "a tree must have one leaf more than splits")
        _need(not (self.feature >= self.n_columns).any(), "a split must be on one of the columns")
        both_missing = self.decision & (_ZERO | _NAN) == _ZERO | _NAN
        _need(not both_missing.any(), "a split must be of a known kind")
        rows = np.add.reduceat(self.count, self._leaf_start[:-1], dtype=np.int64)
        _need(int(rows.max()) < 2**31, "a tree must have fewer than 2**31 rows")
        self._check_children()
        self._check_categories()

    def __len__(self) -> int:
        return len(self.leaves)

    @property
    def n_compiled(self) -> int:  # type: ignore[override]
        """Number of trees, of which LightGBM makes objects."""
        return len(self)

    def _check_children(self) -> None:
        """Raise unless splits and leaves form trees: each is reached once, after its parent."""
        leaves_of_tree = self.leaves[self.tree_of_split]
        for child in (self.left, self.right):
            inside = (child < leaves_of_tree - 1) & (~child < leaves_of_tree)
            _need(bool(inside.all()), "a child must be a split or a leaf of its tree")
        children = self.children()
        n_splits = len(self.feature)
        early = (children < n_splits) & (children <= np.arange(n_splits))
        _need(not early.any(), "a child must come after its parent")
        reached = np.bincount(children.ravel(), minlength=n_splits + len(self.value))
        reached[self._roots] += 1
        _need(bool((reached == 1).all()), "every split and leaf must be reached once")
        depth = len(self.levels(children))
        _need(depth <= MOST_DEPTH, f"a tree must not be deeper than {MOST_DEPTH} splits")

    def _check_categories(self) -> None:
        sets = self.threshold[self.is_categorical]
        ranks = np.arange(len(self.bounds) - 1)
        _need(np.array_equal(sets, ranks), "each split on a category must have its own set")
        ends = self.bounds[[0, -1]].tolist() if len(self.bounds) else []
        _need(ends == [0, len(self.bits)], "the sets of categories must be all of their bits")
        words = np.diff(self.bounds)
        _need(not (words < 0).any(), "the sets of categories must be in order")
        few_codes = not (words > MOST_CODES // WORD).any()
        _need(few_codes, f"the codes of categories must be below {MOST_CODES}")

    @property
    def is_categorical(self) -> BoolArray:
        """Whether each split is one on a category."""
        return np.asarray(self.decision & _CATEGORICAL == 1)

    @property
    def tree_of_split(self) -> IntArray:
        """The tree of each split."""
        return np.repeat(np.arange(len(self)), self.leaves - 1)

    @cached_property
    def _leaf_start(self) -> IntArray:
        return np.concatenate([[0], np.cumsum(self.leaves, dtype=np.int64)])

    @property
    def _split_start(self) -> IntArray:
        return self._leaf_start - np.arange(len(self) + 1)

    @property
    def _roots(self) -> IntArray:
        """The first node of each tree; all splits of all trees are followed by all leaves."""
        leaf = len(self.feature) + self._leaf_start[:-1]
        return np.where(self.leaves > 1, self._split_start[:-1], leaf)

    def children(self) -> IntArray:
        """Children among the splits and leaves of all trees, (2, splits)."""
        first_split = np.repeat(self._split_start[:-1], self.leaves - 1)
        first_leaf = np.repeat(self._leaf_start[:-1], self.leaves - 1)
        child = np.stack([self.left, self.right])
        leaf = len(self.feature) + ~child + first_leaf
        return np.where(child >= 0, child + first_split, leaf)

    def levels(self, children: IntArray) -> list[IntArray]:
        """Splits of all trees by their depth; at most one level more than allowed."""
        n_splits = len(self.feature)
        levels: list[IntArray] = []
        splits = self._roots[self._roots < n_splits]
        while splits.size and len(levels) <= MOST_DEPTH:
            levels.append(splits)
            nodes = children[:, splits].ravel()
            splits = nodes[nodes < n_splits]
        return levels

    @classmethod
    def from_lightgbm(cls, text: str, n_columns: int, *, averaged: bool = False) -> Self:
        """Trees from the text that LightGBM wrote in this process or on a worker."""
        of_trees, _, _ = text.partition("\nend of trees")
        fields = [_fields_of_tree(block) for block in of_trees.split("\nTree=")[1:]]
        n_sets = _joined_numbers(fields, "num_cat", np.int64)
        words_of_sets = [np.zeros(1)]
        for tree in fields:
            if tree["num_cat"] != "0":
                boundaries = np.fromstring(tree["cat_boundaries"], np.int32, sep=" ")
                words_of_sets.append(np.diff(boundaries))
        decision = _joined_numbers(fields, "decision_type", np.int8)
        threshold = _joined_numbers(fields, "threshold", np.float64)
        # LightGBM numbers the sets of categories within a tree.
        first_set = np.cumsum(n_sets) - n_sets
        threshold[decision & _CATEGORICAL == 1] += np.repeat(first_set, n_sets)
        return cls(
            leaves=_joined_numbers(fields, "num_leaves", np.int32),
            feature=_joined_numbers(fields, "split_feature", np.int32),
            threshold=threshold,
            decision=decision,
            left=_joined_numbers(fields, "left_child", np.int32),
            right=_joined_numbers(fields, "right_child", np.int32),
            value=_joined_numbers(fields, "leaf_value", np.float64),
            count=np.maximum(_joined_numbers(fields, "leaf_count", np.int32), 1),
            bounds=np.cumsum(np.concatenate(words_of_sets)).astype(np.int32),
            bits=_joined_numbers(fields, "cat_threshold", np.uint32),
            n_columns=n_columns,
            averaged=averaged,
        )

    def with_constant(self, value: float) -> Self:
        """The same trees; those without a split have this value."""
        alone = np.repeat(self.leaves == 1, self.leaves)
        if not alone.any():
            return self
        return replace(self, value=np.where(alone, value, self.value))

    def text(self) -> str:
        """The trees as LightGBM reads them."""
        return _model_text(self.blocks(), self.n_columns)

    @cached_property
    def exact_value(self) -> FloatArray:
        """Values of the leaves, rounded so that sums over all trees are exact in any order.

        This changes them by less than the number of trees times the rounding of the largest value.
        """
        _, of_value = math.frexp(float(np.abs(self.value).max()))
        _, of_number = math.frexp(len(self))
        step = math.ldexp(1.0, max(of_value + of_number, _LEAST_EXPONENT) - _MANTISSA)
        return np.asarray(np.rint(self.value / step) * step)

    @property
    def zero_is_missing(self) -> bool:
        """Whether a split treats zeros as missing values."""
        return bool((self.decision[~self.is_categorical] & _ZERO).any())

    def missing_left(self) -> BoolArray:
        """Whether missing values go left at each split on numbers.

        If training had no missing values, LightGBM treats a later one as 0.
        """
        has_side = self.decision & _NAN > 0
        return np.where(has_side, self.decision & _LEFT > 0, self.threshold >= 0)

    @cached_property
    def booster(self) -> Any:
        """A LightGBM booster whose raw scores are sums of the trees."""
        return _booster(self.text())

    def blocks(self) -> list[str]:
        """The lines of each tree in LightGBM's text."""
        n_sets = np.bincount(self.tree_of_split[self.is_categorical], minlength=len(self))
        first_set = np.concatenate([[0], np.cumsum(n_sets)])
        threshold = self.threshold.copy()
        threshold[self.is_categorical] -= np.repeat(first_set[:-1], n_sets)
        of_splits = {
            "split_feature": self.feature,
            "threshold": threshold,
            "decision_type": self.decision,
            "left_child": self.left,
            "right_child": self.right,
            "internal_count": self._sums_below(self.count.astype(np.int64))[: len(self.feature)],
        }
        of_leaves = {"leaf_value": self.exact_value, "leaf_count": self.count}
        split_start = self._split_start
        leaf_start = self._leaf_start
        blocks = []
        for tree in range(len(self)):
            lines = [f"num_leaves={self.leaves[tree]}", f"num_cat={n_sets[tree]}"]
            for name, numbers in of_splits.items():
                lines.append(f"{name}={_text(numbers[split_start[tree] : split_start[tree + 1]])}")
            for name, numbers in of_leaves.items():
                lines.append(f"{name}={_text(numbers[leaf_start[tree] : leaf_start[tree + 1]])}")
            if n_sets[tree]:
                bounds = self.bounds[first_set[tree] : first_set[tree + 1] + 1]
                lines.append(f"cat_boundaries={_text(bounds - bounds[0])}")
                lines.append(f"cat_threshold={_text(self.bits[bounds[0] : bounds[-1]])}")
            blocks.append("\n".join([*lines, "is_linear=0", "shrinkage=1"]))
        return blocks

    def _sums_below(self, values: NDArray[Any]) -> NDArray[Any]:
        """The sum of values of the leaves below each split; after the splits, the values."""
        sums = np.concatenate([np.zeros(len(self.feature), dtype=values.dtype), values])
        children = self.children()
        for level in reversed(self.levels(children)):
            sums[level] = sums[children[:, level]].sum(axis=0)
        return sums

    def in_set(self, k: int, codes: IntArray) -> BoolArray:
        """Whether the k-th split on a category sends these codes, from 0 on, to the left."""
        words = np.append(self.bits[self.bounds[k] : self.bounds[k + 1]], np.uint32(0))
        word = words[np.minimum(codes // WORD, len(words) - 1)]
        return np.asarray(word >> (codes % WORD).astype(np.uint32) & 1 == 1)

    @cached_property
    def _outputs(self) -> tuple[FloatArray, IntArray, int]:
        """The output and the parent of each node, and the most splits on the way to a leaf.

        The output of a node is the mean of its leaves, weighted by their training rows. The parent
        of a root is -1.
        """
        rows = self._sums_below(self.count.astype(np.float64))
        output = self._sums_below(self.exact_value * self.count) / rows
        parent = np.full(len(rows), -1)
        children = self.children()
        parent[children] = np.arange(len(self.feature))
        return output, parent, len(self.levels(children))

    def _path_parts(self, leaves: IntArray) -> scipy.sparse.csr_matrix:
        """What the columns add on the way to each of these leaves, (leaves, columns).

        A split adds the difference between the child on the path and the split to its column.
        """
        output, parent, _ = self._outputs
        place = np.arange(len(leaves))
        nodes = leaves + len(self.feature)
        shape = (len(leaves), self.n_columns)
        entries = [(place[:0], self.feature[:0], output[:0])]
        while len(nodes):
            below_root = parent[nodes] >= 0
            place = place[below_root]
            nodes = nodes[below_root]
            above = parent[nodes]
            entries.append((place, self.feature[above], output[nodes] - output[above]))
            nodes = above
        of_leaf, of_column, part = (np.concatenate(arrays) for arrays in zip(*entries, strict=True))
        return scipy.sparse.csr_matrix((part, (of_leaf, of_column)), shape=shape)

    def reached_leaves(self, X: Rows, threads: int) -> IntArray:
        """The leaf that each row reaches in each tree, among those of all trees, (rows, trees)."""
        leaf = self.booster.predict(tree_rows(X), pred_leaf=True, num_threads=threads)
        of_tree = np.asarray(leaf, dtype=np.int64).reshape(X.shape[0], len(self))
        return of_tree + self._leaf_start[:-1]

    def contributions(self, leaves: IntArray) -> tuple[FloatArray, float]:
        """What each column adds to the mean output, (rows, columns), and the mean output.

        The sum of all of them is the output for a row that reaches these leaves.
        """
        is_reached = np.zeros(len(self.value), dtype=bool)
        is_reached[leaves] = True
        reached = np.flatnonzero(is_reached)
        place = (np.cumsum(is_reached) - 1)[leaves]
        output, _, depth = self._outputs
        mean_output = float(output[self._roots].sum())
        at_once = max(_PATHS_AT_ONCE // max(depth, 1), 1)
        blocks = []
        for start in range(0, len(reached), at_once):
            blocks.append(self._path_parts(reached[start : start + at_once]))
        ends = np.arange(0, leaves.size + 1, len(self))
        shape = (len(leaves), len(reached))
        of_row = scipy.sparse.csr_matrix((np.ones(leaves.size), place.ravel(), ends), shape=shape)
        parts = (of_row @ scipy.sparse.vstack(blocks, format="csr")).toarray()
        if self.averaged:
            return parts / len(self), mean_output / len(self)
        return parts, mean_output


def _need(holds: bool, rule: str) -> None:
    if not holds:
        raise DataError(f"the trees are damaged: {rule}.")


def _text(numbers: NDArray[Any]) -> str:
    """Numbers as Python writes them: the shortest text that gives the same number again.

    Few of them are Python objects at a time, because a file may contain very many.
    """
    texts = []
    for start in range(0, len(numbers), _TEXTS_AT_ONCE):
        some = numbers[start : start + _TEXTS_AT_ONCE].tolist()
        texts.append(" ".join(map(repr, some)))
    return " ".join(texts)


def _fields_of_tree(block: str) -> dict[str, str]:
    words = re.split(r"\n(\w+)=", block)  # before the first name is the number of the tree
    fields = dict(zip(words[1::2], words[2::2], strict=True))
    # Earlier versions count no rows in a tree of one leaf.
    fields["leaf_count"] = fields.get("leaf_count") or "1"
    return fields


def _joined_numbers(trees: list[dict[str, str]], name: str, dtype: type) -> NDArray[Any]:
    """The numbers of a field of all trees, some of which may not have it."""
    texts = [tree[name] for tree in trees if tree.get(name)]
    return np.fromstring(" ".join(texts), dtype, sep=" ")


def _model_text(blocks: Sequence[str], columns: int, *, outputs: int = 1) -> str:
    """LightGBM's text of a model, from the lines of each of its trees; outputs take turns."""
    lines: list[str] = []  # joined once, because the text of a large file is large
    sizes = []
    for i, block in enumerate(blocks):
        title = f"Tree={i}\n"
        lines += [title, block, "\n\n"]
        sizes.append(str(len(title) + len(block) + 2))
    names = [f"Column_{i}" for i in range(columns)]
    header = [
        "tree",
        "version=v4",
        f"num_class={outputs}",
        f"num_tree_per_iteration={outputs}",
        "label_index=0",
        f"max_feature_idx={columns - 1}",
    ]
    header += [
        "feature_names=" + " ".join(names),
        "feature_infos=" + " ".join(["none"] * columns),
        "tree_sizes=" + " ".join(sizes),
    ]
    return "".join(["\n".join(header), "\n\n", *lines, "end of trees\n"])


def _booster(text: str) -> Any:
    import lightgbm

    try:
        return lightgbm.Booster(model_str=text)
    except lightgbm.basic.LightGBMError as error:
        raise ArtifactError(f"the trees cannot be read: {error}") from error


def trees_from_xgboost(model: bytes | bytearray, columns: int) -> Trees:
    """Trees of a binary classifier in XGBoost's JSON.

    XGBoost compares in float32 and sends a value left if it is below the condition. LightGBM
    sends it left if it is at most the threshold, so the threshold lies between the
    condition and the float32 before it. XGBoost does not store the rows of a leaf.
    """
    learner = json.loads(bytes(model).decode())["learner"]
    base = float(str(learner["learner_model_param"]["base_score"]).strip("[]"))
    if base != 0.5:
        raise ClusterError(f"XGBoost trees must start at a base_score of 0.5, got {base}.")
    trees = [_xgboost_arrays(tree) for tree in learner["gradient_booster"]["model"]["trees"]]
    joined: dict[str, Any] = {}
    for name in trees[0]:
        joined[name] = np.concatenate([tree[name] for tree in trees])
    return Trees(
        leaves=np.array([len(tree["value"]) for tree in trees], dtype=np.int32),
        **joined,
        count=np.ones(len(joined["value"]), dtype=np.int32),
        bounds=np.zeros(1, dtype=np.int32),  # no split on categories
        bits=np.empty(0, dtype=np.uint32),
        n_columns=columns,
    )


def _xgboost_arrays(tree: dict[str, Any]) -> dict[str, NDArray[Any]]:
    left = np.array(tree["left_children"])
    right = np.array(tree["right_children"])
    condition = np.array(tree["split_conditions"], dtype=np.float64)
    default_left = np.array(tree["default_left"]).astype(bool)
    is_leaf = left < 0
    is_split = ~is_leaf
    # Splits and leaves are numbered separately, in the order of the nodes.
    number = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(is_split) - 1)
    single = condition[is_split].astype(np.float32)
    before = np.nextafter(single, np.float32(-np.inf))
    # Between the condition and the float32 before it: values that round to the latter do not
    # exceed it.
    threshold = (before.astype(np.float64) + single.astype(np.float64)) / 2
    return {
        "feature": np.array(tree["split_indices"], dtype=np.int32)[is_split],
        "threshold": threshold,
        "decision": (_NAN + _LEFT * default_left[is_split]).astype(np.int8),
        "left": number[left[is_split]].astype(np.int32),
        "right": number[right[is_split]].astype(np.int32),
        "value": condition[is_leaf],
    }


_NO_SPLIT = "num_leaves=1\nnum_cat=0\nleaf_value=0.0\nleaf_count=1\nis_linear=0\nshrinkage=1"


def joined_booster(ensembles: Sequence[Trees]) -> Any:
    """The trees of several ensembles as one booster with a sum for each.

    The outputs take turns. Ensembles with fewer trees than others get trees that add zeros.
    """
    blocks_of_ensembles = [trees.blocks() for trees in ensembles]
    rounds = max(len(blocks) for blocks in blocks_of_ensembles)
    in_turn = []
    for i in range(rounds):
        for blocks in blocks_of_ensembles:
            in_turn.append(blocks[i] if i < len(blocks) else _NO_SPLIT)
    columns = ensembles[0].n_columns
    return _booster(_model_text(in_turn, columns, outputs=len(ensembles)))


# -- ONNX -----------------------------------------------------------------------------------------

_INT64, _UINT32 = 7, 12  # numbers of types in ONNX


def onnx_tree_sum(graph: Graph, trees: Trees, X: str) -> str:
    """The sum of the trees for each row, of shape (rows, 1) in float64.

    The operator sums in float64 and rounds the sum to float32. Each leaf value is therefore split
    into a multiple of a power of two, whose sums are exact in float32, and a small remainder,
    summed separately.
    """
    categorical = trees.is_categorical
    if trees.zero_is_missing:
        raise ArtifactError(
            "these trees treat zeros as missing values, which ONNX export cannot do."
        )
    feature, X = _onnx_columns(graph, trees, categorical, X)
    nodes = _OnnxNodes(trees)
    # A code of the set is 1 in its column, so it is not at most 0.5; LightGBM sends it to the left.
    if_true = np.where(categorical, trees.right, trees.left)
    if_false = np.where(categorical, trees.left, trees.right)
    threshold = np.where(categorical, 0.5, np.minimum(trees.threshold, 1e300))
    branch, leaf = np.array(["BRANCH_LEQ", "LEAF"], dtype=object)
    modes = nodes.values(np.full(len(feature), branch), np.full(len(trees.value), leaf))
    n_leaves = len(trees.value)
    sums = graph.op(
        "TreeEnsembleRegressor",
        X,
        domain="ai.onnx.ml",
        n_targets=2,
        nodes_treeids=nodes.tree_of_node,
        nodes_nodeids=nodes.numbers(),
        nodes_featureids=nodes.of_splits(feature),
        nodes_modes=modes,
        nodes_truenodeids=nodes.of_splits(nodes.children(if_true)),
        nodes_falsenodeids=nodes.of_splits(nodes.children(if_false)),
        nodes_missing_value_tracks_true=nodes.of_splits(
            (trees.missing_left() & ~categorical).astype(np.int64)
        ),
        nodes_values_as_tensor=_onnx_tensor(graph, nodes.of_splits(threshold), "values"),
        target_treeids=np.tile(nodes.tree_of_leaf, 2),
        target_nodeids=np.tile(nodes.leaf_number, 2),
        target_ids=np.repeat([0, 1], n_leaves),
        target_weights_as_tensor=_onnx_tensor(
            graph, np.concatenate(_exact_parts(trees)), "weights"
        ),
    )
    return graph.total(graph.double(sums))


class _OnnxNodes:
    """Splits and leaves of trees in the order of ONNX: tree by tree, the splits of a tree first."""

    def __init__(self, trees: Trees) -> None:
        self._n_splits = trees.leaves - 1
        self._first_split = trees._split_start
        self.tree_of_split = trees.tree_of_split
        self.tree_of_leaf = np.repeat(np.arange(len(trees)), trees.leaves)
        tree_of_node = np.concatenate([self.tree_of_split, self.tree_of_leaf])
        self._order = np.argsort(tree_of_node, kind="stable")
        self.tree_of_node = tree_of_node[self._order]
        # Within a tree, leaves are numbered after its splits.
        place = np.arange(len(trees.value)) - trees._leaf_start[self.tree_of_leaf]
        self.leaf_number = self._n_splits[self.tree_of_leaf] + place

    def values(self, splits: NDArray[Any], leaves: NDArray[Any]) -> NDArray[Any]:
        """A value of each node."""
        return np.concatenate([splits, leaves])[self._order]

    def of_splits(self, splits: NDArray[Any]) -> NDArray[Any]:
        """A value of each node, which is 0 for leaves."""
        return self.values(splits, np.zeros(len(self.tree_of_leaf), splits.dtype))

    def numbers(self) -> NDArray[Any]:
        """The number of each node within its tree."""
        n_splits = len(self.tree_of_split)
        place = np.arange(n_splits) - self._first_split[self.tree_of_split]
        return self.values(place, self.leaf_number)

    def children(self, child: NDArray[Any]) -> NDArray[Any]:
        """The numbers of children, which are splits or ``~leaf``."""
        return np.where(child >= 0, child, self._n_splits[self.tree_of_split] + ~child)


def _onnx_tensor(graph: Graph, numbers: Any, name: str) -> Any:
    return graph.onnx.numpy_helper.from_array(np.asarray(numbers, dtype=np.float64), name)


def _exact_parts(trees: Trees) -> tuple[FloatArray, FloatArray]:
    """Multiples of a power of two whose sum over all trees has at most 23 bits, and remainders."""
    most = max(float(np.abs(trees.value).max()) * len(trees), 1e-30)
    step = 2.0 ** (np.ceil(np.log2(most)) - 23)
    whole = np.round(trees.value / step) * step
    return whole, trees.value - whole


def _onnx_columns(
    graph: Graph, trees: Trees, categorical: BoolArray, X: str
) -> tuple[IntArray, str]:
    """The column of each split, and rows with a column for each set of categories, 1 if inside.

    The operator has a mode for equality, but runtimes merge such nodes, and not always correctly.
    Equal sets of a column share one. The bits are looked up as LightGBM does, so the graph is not
    larger than the trees.
    """
    feature = trees.feature.astype(np.int64)
    places: dict[tuple[int, bytes], int] = {}
    different = []
    for k, split in enumerate(np.flatnonzero(categorical)):
        words = trees.bits[trees.bounds[k] : trees.bounds[k + 1]]
        key = int(feature[split]), words.tobytes()
        if key not in places:
            places[key] = len(places)
            different.append(k)
        feature[split] = trees.n_columns + places[key]
    if not different:
        return feature, X
    column_of_set = trees.feature[categorical][different]
    codes = graph.op("Gather", X, graph.constant(column_of_set, np.int64), axis=1)
    inside = _onnx_in_sets(graph, trees, different, codes)
    return feature, graph.op("Concat", X, inside, axis=1)


def _onnx_in_sets(graph: Graph, trees: Trees, sets: Sequence[int], codes: str) -> str:
    """Whether the code in each column is in the set of that column, as 0 or 1 in float64."""
    op = graph.op

    def whole(values: Any) -> str:
        return graph.constant(values, np.int64)

    first_word = trees.bounds[:-1][sets]
    n_words = np.diff(trees.bounds)[sets]
    is_code = op("GreaterOrEqual", codes, 0.0)  # not NaN
    code = op("Cast", op("Min", op("Where", is_code, codes, 0.0), float(MOST_CODES)), to=_INT64)
    word = op("Div", code, whole(WORD))
    known = op("And", is_code, op("Less", word, whole(n_words)))
    no_code = len(trees.bits)  # the position of a word without bits, after all others
    position = op("Where", known, op("Add", word, whole(first_word)), whole(no_code))
    words = op("Gather", graph.constant(np.append(trees.bits, 0), np.uint32), position)
    bit = op("Cast", op("Mod", code, whole(WORD)), to=_UINT32)
    shifted = op("BitShift", words, bit, direction="RIGHT")
    return graph.double(op("Mod", shifted, graph.constant(2, np.uint32)))
