"""Trees of LightGBM as arrays, and the functions of rows that they make."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from drpu._checks import check_integer
from drpu._codec import Array, Kept, NotKept, Number, Whole, kept
from drpu._fork import threads_here
from drpu._samples import SamplePair, is_sparse
from drpu._typing import BoolArray, FloatArray, IntArray, Rows
from drpu.exceptions import ArtifactError, ClusterError, DataError, ParameterError
from drpu.models.function import Function, Scorer, within_limits
from drpu.models.graphs import Graph


def tree_rows(X: Rows) -> Rows:
    """Rows in the form that LightGBM accepts: sparse matrices, not sparse arrays."""
    return sparse.csr_matrix(X) if is_sparse(X) else X


def tree_data(pair: SamplePair, settings: dict[str, Any], categories: Any, reference: Any = None) -> Any:
    """Both samples as a LightGBM data set; dense rows are two blocks, to avoid a copy."""
    import lightgbm

    samples = pair.positive, pair.unlabeled
    rows: Any = [np.ascontiguousarray(sample.rows) for sample in samples if not is_sparse(sample.rows)]
    return lightgbm.Dataset(
        rows if len(rows) == 2 else tree_rows(pair.stacked()),
        pair.flags(),
        weight=pair.unit_weights(),
        params=settings,
        reference=reference,
        categorical_feature=categories,
    )


def category_columns(categories: Sequence[int], columns: int) -> Any:
    """Positions of category codes, in the form that a LightGBM data set accepts."""
    for j in categories:
        if check_integer("categories", j, low=0) >= columns:
            raise ParameterError(f"categories must be positions of columns below {columns}, got {j!r}.")
    return [int(j) for j in categories] or "auto"


def category_settings(categories: Sequence[int]) -> dict[str, Any]:
    """Settings of splits on categories: one level against the others, as for an indicator column.

    Choosing among the very many sets of levels would overfit few positives.
    """
    return {"max_cat_to_onehot": 300} if len(categories) else {}


# -- trees ----------------------------------------------------------------------------------------

MOST_DEPTH = 1000  # most splits between root and leaf, to bound the time for a row

_CATEGORICAL, _LEFT, _ZERO, _NAN = 1, 2, 4, 8  # bits of a decision, as LightGBM numbers them
_LOWEST = -float(np.finfo(np.float64).max)  # an infinite threshold separates numbers from missing values


@kept("trees")
@dataclass(frozen=True, eq=False)
class Trees(Kept):
    """Trees as arrays over all splits and all leaves, one tree after the other.

    Splits and leaves are numbered within a tree; a child is the number of a split, or ``~leaf``. A decision
    has LightGBM's bits: 1 for a split on a category, 2 if missing values go left, 4 or 8 if zeros or NaN are
    missing values. A category goes left if its bit is set. The threshold of the k-th split on a category
    is k, and its 32-bit words are ``bits[bounds[k]:bounds[k + 1]]``.
    """

    leaves: Annotated[NDArray[Any], Array("t", dtype="int32", low=1)]  # of each tree; it has one split less
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
        splits, leaves = len(self.feature), int(self.leaves.sum(dtype=np.int64))
        _need(len(self) > 0, "there must be a tree")
        fit = len(self.value) == leaves and splits == leaves - len(self)
        _need(fit, "a tree must have one leaf more than splits")
        _need(not (self.feature >= self.n_columns).any(), "a split must be on one of the columns")
        _need(not (self.decision & (_ZERO | _NAN) == _ZERO | _NAN).any(), "a split must be of a known kind")
        rows = np.add.reduceat(self.count, self._leaf_start[:-1], dtype=np.int64)
        _need(int(rows.max()) < 2**31, "a tree must have fewer than 2**31 rows")
        self._check_children()
        self._check_categories()

    def __len__(self) -> int:
        return len(self.leaves)

    def _check_children(self) -> None:
        """Raise unless splits and leaves form trees: each comes after its parent and is reached once."""
        of_tree = np.repeat(np.arange(len(self)), self.leaves - 1)
        for child in (self.left, self.right):
            inside = (child < self.leaves[of_tree] - 1) & (~child < self.leaves[of_tree])
            _need(bool(inside.all()), "a child must be a split or a leaf of its tree")
        children, splits = self._children(), len(self.feature)
        early = (children < splits) & (children <= np.arange(splits))
        _need(not early.any(), "a child must come after its parent")
        reached = np.bincount(children.ravel(), minlength=splits + len(self.value))
        reached[self._roots] += 1
        _need(bool((reached == 1).all()), "every split and leaf must be reached once")
        _need(
            len(self._levels(children)) <= MOST_DEPTH, f"a tree must not be deeper than {MOST_DEPTH} splits"
        )

    def _check_categories(self) -> None:
        found = self.threshold[self.decision & _CATEGORICAL == 1]
        ranks = np.arange(len(self.bounds) - 1)
        _need(np.array_equal(found, ranks), "each split on a category must have its own set")
        ends = self.bounds[[0, -1]].tolist() if len(self.bounds) else []
        _need(ends == [0, len(self.bits)], "the sets of categories must be all of their bits")
        _need(not (np.diff(self.bounds) < 0).any(), "the sets of categories must be in order")

    @cached_property
    def _leaf_start(self) -> IntArray:
        return np.concatenate([[0], np.cumsum(self.leaves, dtype=np.int64)])

    @property
    def _split_start(self) -> IntArray:
        return self._leaf_start - np.arange(len(self) + 1)

    @property
    def _roots(self) -> IntArray:
        """The first node of each tree, among the splits of all trees, which are followed by all leaves."""
        leaf = len(self.feature) + self._leaf_start[:-1]
        return np.where(self.leaves > 1, self._split_start[:-1], leaf)

    def _children(self) -> IntArray:
        """Children among the splits and leaves of all trees, (2, splits)."""
        splits = self.leaves - 1
        split, leaf = (np.repeat(start[:-1], splits) for start in (self._split_start, self._leaf_start))
        both = np.stack([self.left, self.right])
        return np.where(both >= 0, both + split, len(self.feature) + ~both + leaf)

    def _levels(self, children: IntArray) -> list[IntArray]:
        """Splits of all trees by their depth; at most one level more than allowed."""
        levels: list[IntArray] = []
        nodes, splits = self._roots, len(self.feature)
        while (nodes := nodes[nodes < splits]).size and len(levels) <= MOST_DEPTH:
            levels.append(nodes)
            nodes = children[:, nodes].ravel()
        return levels

    @classmethod
    def from_lightgbm(cls, text: str, n_columns: int, *, averaged: bool = False) -> Self:
        """Trees from the text that LightGBM wrote in this process or on a worker."""
        blocks = text.partition("\nend of trees")[0].split("\nTree=")[1:]
        trees = [dict(line.split("=", 1) for line in block.split("\n") if "=" in line) for block in blocks]
        for tree in trees:  # earlier versions count no rows in a tree of one leaf
            tree["leaf_count"] = tree.get("leaf_count") or "1"

        def numbers(name: str, dtype: type) -> NDArray[Any]:
            return np.fromstring(" ".join(filter(None, (tree.get(name) for tree in trees))), dtype, sep=" ")

        sets, words = numbers("num_cat", np.int64), []
        for tree in trees:
            if tree["num_cat"] != "0":
                words.append(np.diff(np.fromstring(tree["cat_boundaries"], np.int32, sep=" ")))
        decision, threshold = numbers("decision_type", np.int8), numbers("threshold", np.float64)
        # sets of categories are numbered within a tree
        threshold[decision & _CATEGORICAL == 1] += np.repeat(np.cumsum(sets) - sets, sets)
        found = cls(
            leaves=numbers("num_leaves", np.int32),
            feature=numbers("split_feature", np.int32),
            threshold=threshold,
            decision=decision,
            left=numbers("left_child", np.int32),
            right=numbers("right_child", np.int32),
            value=numbers("leaf_value", np.float64),
            count=np.maximum(numbers("leaf_count", np.int32), 1),
            bounds=np.cumsum(np.concatenate([np.zeros(1), *words])).astype(np.int32),
            bits=numbers("cat_threshold", np.uint32),
            n_columns=n_columns,
            averaged=averaged,
        )
        found.__dict__["booster"] = _booster(text)  # faster than to write the text again
        return found

    def text(self) -> str:
        """The trees as LightGBM reads them."""
        return _model_text(self.blocks(), self.n_columns, averaged=self.averaged)

    @cached_property
    def booster(self) -> Any:
        """A LightGBM booster for predictions."""
        return _booster(self.text())

    def blocks(self) -> list[str]:
        """The lines of each tree in LightGBM's text."""
        threshold = self.threshold.copy()
        categorical = self.decision & _CATEGORICAL == 1
        of_tree = np.repeat(np.arange(len(self)), self.leaves - 1)
        sets = np.bincount(of_tree[categorical], minlength=len(self))
        set_start = np.concatenate([[0], np.cumsum(sets)])
        threshold[categorical] -= np.repeat(set_start[:-1], sets)
        of_splits = {
            "split_feature": _texts(self.feature),
            "threshold": _texts(threshold),
            "decision_type": _texts(self.decision),
            "left_child": _texts(self.left),
            "right_child": _texts(self.right),
            "internal_count": _texts(self._rows_below()),
        }
        of_leaves = {"leaf_value": _texts(self.value), "leaf_count": _texts(self.count)}
        found = []
        for tree in range(len(self)):
            lines = [f"num_leaves={self.leaves[tree]}", f"num_cat={sets[tree]}"]
            for fields, start in ((of_splits, self._split_start), (of_leaves, self._leaf_start)):
                at = slice(start[tree], start[tree + 1])
                lines += [f"{name}={' '.join(texts[at])}" for name, texts in fields.items()]
            if sets[tree]:
                bounds = self.bounds[set_start[tree] : set_start[tree + 1] + 1]
                lines.append(f"cat_boundaries={' '.join(_texts(bounds - bounds[0]))}")
                lines.append(f"cat_threshold={' '.join(_texts(self.bits[bounds[0] : bounds[-1]]))}")
            found.append("\n".join([*lines, "is_linear=0", "shrinkage=1"]))
        return found

    def _rows_below(self) -> IntArray:
        """Training rows below each split."""
        rows = np.concatenate([np.zeros(len(self.feature), dtype=np.int64), self.count])
        children = self._children()
        for level in reversed(self._levels(children)):
            rows[level] = rows[children[:, level]].sum(axis=0)
        return rows[: len(self.feature)]

    def categories(self, k: int) -> IntArray:
        """The categories that the k-th split on a category sends to the left."""
        words = self.bits[self.bounds[k] : self.bounds[k + 1]]
        return np.flatnonzero(words[:, None] >> np.arange(32, dtype=np.uint32) & 1)


def _need(holds: bool, rule: str) -> None:
    if not holds:
        raise DataError(f"the trees are damaged: {rule}.")


def _texts(values: NDArray[Any]) -> list[str]:
    """Numbers as Python writes them: the shortest text that gives the same number again."""
    return list(map(repr, values.tolist()))


def _model_text(blocks: Sequence[str], columns: int, *, averaged: bool, outputs: int = 1) -> str:
    """LightGBM's text of a model, from the lines of each of its trees; outputs take turns."""
    trees = [f"Tree={i}\n{block}\n\n" for i, block in enumerate(blocks)]
    header = [
        "tree",
        "version=v4",
        f"num_class={outputs}",
        f"num_tree_per_iteration={outputs}",
        "label_index=0",
        f"max_feature_idx={columns - 1}",
        *(["average_output"] if averaged else []),
        "feature_names=" + " ".join(f"Column_{i}" for i in range(columns)),
        "feature_infos=" + " ".join(["none"] * columns),
        f"tree_sizes={' '.join(str(len(tree)) for tree in trees)}",
    ]
    return "\n".join(header) + "\n\n" + "".join(trees) + "end of trees\n"


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
    joined: dict[str, Any] = {name: np.concatenate([tree[name] for tree in trees]) for name in trees[0]}
    return Trees(
        leaves=np.array([len(tree["value"]) for tree in trees], dtype=np.int32),
        **joined,
        count=np.ones(len(joined["value"]), dtype=np.int32),
        bounds=np.zeros(1, dtype=np.int32),  # no split on categories
        bits=np.empty(0, dtype=np.uint32),
        n_columns=columns,
    )


def _xgboost_arrays(tree: dict[str, Any]) -> dict[str, NDArray[Any]]:
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    condition = np.array(tree["split_conditions"], dtype=np.float64)
    leaf = left < 0
    split = ~leaf
    # splits and leaves are numbered separately, in the order of the nodes
    number = np.where(leaf, ~(np.cumsum(leaf) - 1), np.cumsum(split) - 1)
    default_left = np.array(tree["default_left"]).astype(bool)
    single = condition[split].astype(np.float32)
    before = np.nextafter(single, np.float32(-np.inf))
    return {
        "feature": np.array(tree["split_indices"], dtype=np.int32)[split],
        # between the condition and the float32 before it, which values that round to that one do not exceed
        "threshold": (before.astype(np.float64) + single.astype(np.float64)) / 2,
        "decision": (_NAN + _LEFT * default_left[split]).astype(np.int8),
        "left": number[left[split]].astype(np.int32),
        "right": number[right[split]].astype(np.int32),
        "value": condition[leaf],
    }


# -- functions ------------------------------------------------------------------------------------

FEW_ROWS = 32  # up to this number of rows one call for all functions is faster than one for each
_MANY_ROWS = 2000  # LightGBM's threads wait for each other longer than they score fewer rows
_TINY = 1e-7  # a smaller change of the output has the slope of a change of this size


@dataclass(frozen=True, eq=False)
class TreeFunction(Function):
    """A log-ratio that is a function of the output of trees and an offset."""

    statistics: ClassVar[tuple[str, ...]] = ("thresholds of splits and values of leaves",)
    accepts_nan = True
    accepts_categories = True

    trees: Trees
    offset: Annotated[float, Number(-1e6, 1e6)]
    n_jobs: Annotated[int, NotKept] = 1

    @property
    def n_columns(self) -> int:  # noqa: D102
        return self.trees.n_columns

    @abstractmethod
    def convert(self, output: FloatArray) -> FloatArray:
        """Log-ratios from outputs of the trees."""

    def output(self, X: Rows) -> FloatArray:
        """Sum or mean of the trees for each row."""
        output = self.trees.booster.predict(
            tree_rows(X), raw_score=not self.trees.averaged, num_threads=self._threads(X)
        )
        return np.asarray(output, dtype=np.float64)

    def _threads(self, X: Rows) -> int:
        if X.shape[0] < _MANY_ROWS:
            return 1
        return threads_here(0 if self.n_jobs == -1 else self.n_jobs)

    def _score(self, X: Rows) -> FloatArray:
        return self.convert(self.output(X))

    def contributions(self, X: Rows) -> FloatArray:
        """LightGBM's contributions of the columns, scaled to the log-ratio; the last is the base value.

        They add up to the output of the trees. If the log-ratio is not a sum of that output and a constant,
        the contributions of a row are multiplied by the change of the log-ratio from the average row
        to this one, relative to the change of the output: then they add up to the log-ratio.
        """
        found = self.trees.booster.predict(tree_rows(X), pred_contrib=True, num_threads=self._threads(X))
        found = np.array(found.toarray() if is_sparse(found) else found, dtype=np.float64)
        if self.trees.averaged:  # LightGBM returns the sum over the trees of a forest as well
            found /= len(self.trees)
        base, rise = found[:, -1:], found[:, :-1].sum(axis=1, keepdims=True)
        start = self.convert(base)
        step = np.where(np.abs(rise) > _TINY, rise, _TINY)
        slope = (self.convert(base + step) - start) / step
        return np.column_stack([found[:, :-1] * slope, start])

    @classmethod
    def together(cls, functions: Sequence[Self]) -> Scorer:
        """The scores of several functions; those of few rows with one call of LightGBM."""
        return TreesTogether(functions).scores


@kept("boosted")
@dataclass(frozen=True, eq=False)
class BoostedFunction(TreeFunction):
    """Log-ratio that is the sum of an offset and of trees, their number given or found by early stopping."""

    holdout_risk: Annotated[float, Number(nan=True)] = np.nan  # on the holdout rows; NaN without them

    @property
    def n_rounds(self) -> int:
        """Number of trees."""
        return len(self.trees)

    def describe(self) -> str:
        """The number of trees."""
        return f"{self.n_rounds} boosted trees"

    def convert(self, output: FloatArray) -> FloatArray:
        """Log-ratios from sums of the trees."""
        return output + self.offset

    def onnx(self, graph: Graph, X: str) -> str:  # noqa: D102
        return graph.op("Add", onnx_tree_sum(graph, self.trees, X), self.offset)


@kept("forest")
@dataclass(frozen=True, eq=False)
class ForestFunction(TreeFunction):
    """Log-odds of the mean of a forest, minus the offset; a mean of 0 or 1 is moved inwards."""

    def describe(self) -> str:
        """The number of trees."""
        return f"a forest of {len(self.trees)} trees"

    def convert(self, output: FloatArray) -> FloatArray:
        """Log-ratios from means of the trees."""
        least = 0.25 / len(self.trees)
        shares = np.minimum(np.maximum(output, least), 1 - least)
        return np.asarray(np.log(shares / (1 - shares)) - self.offset)

    def onnx(self, graph: Graph, X: str) -> str:  # noqa: D102
        op, n = graph.op, len(self.trees)
        least = 0.25 / n
        share = op("Div", onnx_tree_sum(graph, self.trees, X), float(n))
        share = op("Min", op("Max", share, [[least]]), [[1 - least]])
        odds = op("Div", share, op("Sub", 1.0, share))
        return op("Sub", op("Log", odds), self.offset)


class TreesTogether:
    """Outputs of the trees of several functions with the same columns."""

    def __init__(self, functions: Sequence[TreeFunction]) -> None:
        self._functions = list(functions)
        self._divisors = np.array([len(f.trees) if f.trees.averaged else 1 for f in functions])

    def scores(self, X: Rows) -> FloatArray:
        """Scores of checked rows, (rows, functions)."""
        return np.column_stack(self.columns(X))

    def columns(self, X: Rows) -> list[FloatArray]:
        """Scores of checked rows by each function."""
        # contiguous, because the logarithm of a strided array may differ in its last bits
        outputs = np.ascontiguousarray(self.outputs(X).T)
        return [within_limits(f.convert(own)) for f, own in zip(self._functions, outputs, strict=True)]

    def outputs(self, X: Rows) -> FloatArray:
        """Sum of the trees of each function, or their mean in forests, (rows, functions)."""
        if not isinstance(X, np.ndarray) or len(X) > FEW_ROWS:
            return np.column_stack([function.output(X) for function in self._functions])
        sums = np.asarray(self._joined.predict(X, raw_score=True, num_threads=1), dtype=np.float64)
        return np.asarray(sums.reshape(len(X), -1) / self._divisors)

    @cached_property
    def _joined(self) -> Any:
        """The trees of all functions as one booster with an output for each; shorter ones add zeros."""
        parts = [function.trees.blocks() for function in self._functions]
        rounds = max(len(part) for part in parts)
        parts = [part + [_NO_SPLIT] * (rounds - len(part)) for part in parts]
        blocks = [block for one_of_each in zip(*parts, strict=True) for block in one_of_each]
        columns = self._functions[0].n_columns
        return _booster(_model_text(blocks, columns, averaged=False, outputs=len(parts)))


_NO_SPLIT = "num_leaves=1\nnum_cat=0\nleaf_value=0.0\nleaf_count=1\nis_linear=0\nshrinkage=1"


def onnx_tree_sum(graph: Graph, trees: Trees, X: str) -> str:
    """The sum of the trees for each row, of shape (rows, 1) in float64.

    The operator sums in float64 and rounds the sum to float32. Each leaf value is therefore split into a
    multiple of a power of two, whose sums are exact in float32, and a small remainder, summed separately.
    """
    leaves, categorical = len(trees.value), trees.decision & _CATEGORICAL == 1
    if (trees.decision[~categorical] & _ZERO).any():
        raise ArtifactError("these trees treat zeros as missing values, which ONNX export cannot do.")
    feature, X = _onnx_columns(graph, trees, categorical, X)
    of_split, of_leaf = (np.repeat(np.arange(len(trees)), n) for n in (trees.leaves - 1, trees.leaves))
    of_node = np.concatenate([of_split, of_leaf])
    order = np.argsort(of_node, kind="stable")  # nodes of a tree are together, the splits first
    leaf = (trees.leaves - 1)[of_leaf] + np.arange(leaves) - trees._leaf_start[of_leaf]

    def nodes(of_splits: NDArray[Any], of_leaves: NDArray[Any] | None = None) -> list[Any]:
        rest = np.zeros(leaves, of_splits.dtype) if of_leaves is None else of_leaves
        return list(np.concatenate([of_splits, rest])[order].tolist())

    def node(child: NDArray[Any]) -> NDArray[Any]:
        return np.where(child >= 0, child, (trees.leaves - 1)[of_split] + ~child)

    def tensor(numbers: Any, name: str) -> Any:
        return graph.onnx.numpy_helper.from_array(np.asarray(numbers, dtype=np.float64), name)

    # A code of the set is 1 in its column, so it is not at most 0.5; LightGBM sends it to the left.
    yes, no = (np.where(categorical, trees.right, trees.left), np.where(categorical, trees.left, trees.right))
    # If training had no missing values, LightGBM treats a later one as 0.
    to_left = np.where(trees.decision & _NAN > 0, trees.decision & _LEFT > 0, trees.threshold >= 0)
    sums = graph.op(
        "TreeEnsembleRegressor",
        X,
        domain="ai.onnx.ml",
        n_targets=2,
        nodes_treeids=of_node[order].tolist(),
        nodes_nodeids=nodes(np.arange(len(feature)) - trees._split_start[of_split], leaf),
        nodes_featureids=nodes(feature),
        nodes_modes=nodes(np.full(len(feature), "BRANCH_LEQ"), np.full(leaves, "LEAF")),
        nodes_truenodeids=nodes(node(yes)),
        nodes_falsenodeids=nodes(node(no)),
        nodes_missing_value_tracks_true=nodes((to_left & ~categorical).astype(np.int64)),
        nodes_values_as_tensor=tensor(
            nodes(np.where(categorical, 0.5, np.minimum(trees.threshold, 1e300))), "values"
        ),
        target_treeids=of_leaf.tolist() * 2,
        target_nodeids=leaf.tolist() * 2,
        target_ids=[0] * leaves + [1] * leaves,
        target_weights_as_tensor=tensor(np.concatenate(_exact_parts(trees)), "weights"),
    )
    return graph.total(graph.double(sums))


def _exact_parts(trees: Trees) -> tuple[FloatArray, FloatArray]:
    """Multiples of a power of two whose sum over all trees has at most 23 bits, and the remainders."""
    most = max(float(np.abs(trees.value).max()) * len(trees), 1e-30)
    step = 2.0 ** (np.ceil(np.log2(most)) - 23)
    whole = np.round(trees.value / step) * step
    return whole, trees.value - whole


def _onnx_columns(graph: Graph, trees: Trees, categorical: BoolArray, X: str) -> tuple[IntArray, str]:
    """The column of each split, and the rows with a column for each set of categories, 1 for those inside.

    The operator has a mode for equality, but runtimes merge such nodes, and not always correctly.
    """
    feature = trees.feature.astype(np.int64)
    places: dict[tuple[int, bytes], int] = {}
    columns = []
    for k, at in enumerate(np.flatnonzero(categorical)):
        codes = trees.categories(k)
        key = int(feature[at]), codes.tobytes()
        if key not in places:
            places[key] = trees.n_columns + len(places)
            own = graph.op("Gather", X, graph.constant([feature[at]], np.int64), axis=1)
            columns.append(graph.total(graph.double(graph.op("Equal", own, codes[None].astype(np.float64)))))
        feature[at] = places[key]
    return feature, graph.op("Concat", X, *columns, axis=1) if columns else X
