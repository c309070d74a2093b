"""Rows, categories and trees in the form that LightGBM accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from drpu._checks import check_integer
from drpu._samples import SamplePair, is_sparse
from drpu._typing import FloatArray, IntArray, Rows
from drpu.exceptions import ArtifactError, ParameterError

__all__ = [
    "EMPTY_TREE",
    "FEW_ROWS",
    "Scorer",
    "Trees",
    "TreesTogether",
    "category_columns",
    "category_settings",
    "model_text",
    "own_trees",
    "pair_rows",
    "read_trees",
    "tree_rows",
]


def tree_rows(X: Rows) -> Rows:
    """Rows in the form that LightGBM accepts: sparse matrices, not sparse arrays."""
    return sparse.csr_matrix(X) if is_sparse(X) else X


def own_trees(trees: str) -> Any:
    """A LightGBM booster from a text written in this process; texts from files have to be checked first."""
    import lightgbm

    return lightgbm.Booster(model_str=trees)


def pair_rows(pair: SamplePair) -> Any:
    """Rows of both samples in the form that LightGBM accepts; dense rows as two blocks, to avoid a copy."""
    if is_sparse(pair.positive.rows) or is_sparse(pair.unlabeled.rows):
        return tree_rows(pair.stacked())
    return [np.ascontiguousarray(sample.rows) for sample in (pair.positive, pair.unlabeled)]


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


MOST_DEPTH = 1000  # most splits between root and leaf, to bound the time for a row
LARGEST = 1e100  # largest absolute leaf value, so that sums stay finite

_CATEGORICAL = 1  # bits of a decision type, as LightGBM numbers them; 2 sends missing values left
_MISSING = 12  # two bits: no missing values (0), zeros (4), NaN (8)
_DECISIONS = frozenset(left | missing | kind for left in (0, 2) for missing in (0, 4, 8) for kind in (0, 1))

_VERSIONS = ("v3", "v4")
_HEADER_NUMBERS = ("num_class", "num_tree_per_iteration", "max_feature_idx")
_UNUSED = {  # fields of a tree that predictions do not need
    "split_gain", "leaf_weight", "internal_value", "internal_weight", "internal_count",
    "shrinkage",
}  # fmt: skip
_USED = {
    "num_leaves", "num_cat", "split_feature", "threshold", "decision_type", "left_child", "right_child",
    "leaf_value", "leaf_count", "cat_boundaries", "cat_threshold", "is_linear",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree: arrays over its splits, the values of its leaves, and the bitsets of categorical splits.

    A child is the number of a split, or ``~leaf``.
    """

    feature: IntArray
    threshold: FloatArray
    decision: IntArray
    left: IntArray
    right: IntArray
    value: FloatArray
    count: IntArray
    bounds: IntArray
    bits: IntArray


@dataclass(frozen=True, slots=True)
class Trees:
    """Checked trees over ``columns`` columns, of which predictions are the sum or the mean."""

    trees: tuple[Tree, ...]
    columns: int
    averaged: bool

    @classmethod
    def from_text(cls, text: str, *, columns: int, averaged: bool) -> Trees:
        """Trees from LightGBM's text.

        Parameters
        ----------
        text : str
            The content of a file, which may be anything.
        columns : int
            Number of columns of the model that contains the trees.
        averaged : bool
            Whether predictions are the mean over the trees, as in a forest.

        Raises
        ------
        ArtifactError
            If the text is not one that LightGBM writes for such trees.
        """
        try:
            header, blocks = _split(text)
            _check_header(header, columns, averaged)
            trees = tuple(_read(block, columns) for block in blocks)
        except (ValueError, OverflowError, KeyError) as error:
            if isinstance(error, ArtifactError):
                raise
            raise ArtifactError(f"the text of the trees is damaged: {error!r}.") from error
        if not trees:
            raise ArtifactError("the text of the trees is damaged: it has no tree.")
        return cls(trees, columns, averaged)

    def text(self) -> str:
        """The trees as LightGBM reads them."""
        return model_text([_write(tree) for tree in self.trees], self.columns, averaged=self.averaged)

    def booster(self) -> Any:
        """A LightGBM booster for predictions."""
        import lightgbm

        try:
            return lightgbm.Booster(model_str=self.text())
        except lightgbm.basic.LightGBMError as error:
            raise ArtifactError(f"the trees cannot be read: {error}") from error


def model_text(trees: Sequence[str], columns: int, *, averaged: bool, outputs: int = 1) -> str:
    """LightGBM's text of a model, from the lines of each of its trees; outputs take turns."""
    blocks = [f"Tree={i}\n{tree}\n\n" for i, tree in enumerate(trees)]
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
        f"tree_sizes={' '.join(str(len(block)) for block in blocks)}",
    ]
    return "\n".join(header) + "\n\n" + "".join(blocks) + "end of trees\n"


def read_trees(blob: bytes, *, columns: int, averaged: bool) -> Trees:
    """Trees from the bytes of a file; see :meth:`Trees.from_text`."""
    try:
        text = blob.decode("ascii")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"the text of the trees is damaged: {error}.") from error
    return Trees.from_text(text, columns=columns, averaged=averaged)


# -- reading ---------------------------------------------------------------------------------


def _split(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Fields of the header and of each tree; text after the trees is not read."""
    body, end, _ = text.partition("\nend of trees")
    if not end:
        raise ArtifactError("the text of the trees is damaged: it has no end.")
    first, *rest = body.split("\nTree=")
    blocks = []
    for number, block in enumerate(rest):
        title, _, fields = block.partition("\n")
        if title != str(number):
            raise ArtifactError(f"the text of the trees is damaged: tree {number} is called {title[:20]!r}.")
        blocks.append(_fields(fields))
    return _fields(first), blocks


def _fields(block: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in block.split("\n"):
        name, _, value = line.strip().partition("=")
        if not name:
            continue
        if name in found:
            raise ArtifactError(f"the text of the trees is damaged: {name[:40]!r} occurs twice.")
        found[name] = value
    return found


def _check_header(header: dict[str, str], columns: int, averaged: bool) -> None:
    if "tree" not in header or header["version"] not in _VERSIONS:
        raise ArtifactError(
            f"the trees must be in LightGBM's format {' or '.join(_VERSIONS)}, "
            f"got {header.get('version', 'none')[:20]!r}: save the model with such a version."
        )
    numbers = [int(header[name]) for name in _HEADER_NUMBERS]
    if numbers != [1, 1, columns - 1] or len(header["feature_names"].split(" ")) != columns:
        raise ArtifactError(
            f"the trees must have one output and {columns} columns, as the model that contains them: "
            f"got {dict(zip(_HEADER_NUMBERS, numbers, strict=True))}."
        )
    if ("average_output" in header) is not averaged:
        raise ArtifactError("the trees must be averaged in a forest, and summed otherwise.")


def _read(fields: dict[str, str], columns: int) -> Tree:
    strange = sorted(set(fields) - _USED - _UNUSED)
    if strange:
        raise ArtifactError(f"the text of the trees is damaged: a tree has the field {strange[0][:40]!r}.")
    if int(fields.get("is_linear", "0")) != 0:
        raise ArtifactError("the trees must have one number in each leaf: linear trees are not supported.")
    categorical = int(fields["num_cat"]) > 0
    tree = Tree(
        feature=_integers(fields["split_feature"]),
        threshold=_floats(fields["threshold"]),
        decision=_integers(fields["decision_type"]),
        left=_integers(fields["left_child"]),
        right=_integers(fields["right_child"]),
        value=_floats(fields["leaf_value"]),
        count=_counts(fields),
        bounds=_integers(fields["cat_boundaries"]) if categorical else np.zeros(1, dtype=np.int64),
        bits=_integers(fields["cat_threshold"]) if categorical else np.zeros(0, dtype=np.int64),
    )
    if int(fields["num_leaves"]) != len(tree.value) or int(fields["num_cat"]) != len(tree.bounds) - 1:
        raise ArtifactError(
            "the trees are damaged: the numbers of leaves or categorical splits do not agree."
        )
    _check(tree, columns)
    return tree


def _counts(fields: dict[str, str]) -> IntArray:
    """Rows of each leaf, which weight the contributions of columns; at least 1, so that these are finite."""
    if not fields.get("leaf_count"):  # earlier versions count no rows in a tree of one leaf
        return np.ones(len(fields["leaf_value"].split()), dtype=np.int64)
    return np.maximum(_integers(fields["leaf_count"]), 1)


def _rows_below(tree: Tree) -> IntArray:
    """Rows below each split, added up from the leaves; children come after their parents."""
    left, right, leaf = tree.left.tolist(), tree.right.tolist(), tree.count.tolist()
    below = [0] * len(left)
    for i in range(len(left) - 1, -1, -1):
        a, b = left[i], right[i]
        below[i] = (below[a] if a >= 0 else leaf[~a]) + (below[b] if b >= 0 else leaf[~b])
    return np.array(below, dtype=np.int64)


def _integers(text: str) -> IntArray:
    return np.array(text.split(), dtype=np.int64)


def _floats(text: str) -> FloatArray:
    return np.array(text.split(), dtype=np.float64)


# -- checking --------------------------------------------------------------------------------


def _check(tree: Tree, columns: int) -> None:
    splits, leaves = len(tree.feature), len(tree.value)
    arrays = (tree.threshold, tree.decision, tree.left, tree.right)
    problems = {
        "the arrays of a tree do not agree in length": leaves != splits + 1
        or any(len(array) != splits for array in arrays),
        "a split is on a column that does not exist": _outside(tree.feature, 0, columns),
        "a split is of an unknown kind": not set(tree.decision.tolist()) <= _DECISIONS,
        # an infinite threshold separates numbers from missing values
        "a threshold is not a number": not (tree.threshold > -np.inf).all(),
        "a leaf value is not a finite number": not (np.abs(tree.value) <= LARGEST).all(),
        "a leaf has no positive number of rows": len(tree.count) != leaves or _outside(tree.count, 0, 2**31),
        "there are too many rows": int(tree.count.sum()) >= 2**31,
    }
    _report(problems)
    _check_children(tree.left, tree.right, splits)
    _check_bitsets(tree)


def _report(problems: dict[str, bool]) -> None:
    for problem, holds in problems.items():
        if holds:
            raise ArtifactError(f"the trees are damaged: {problem}.")


def _outside(values: IntArray, low: int, end: int) -> bool:
    return bool(((values < low) | (values >= end)).any())


def _check_children(left: IntArray, right: IntArray, splits: int) -> None:
    """Whether splits and leaves form a tree: each comes after its parent and is reached once."""
    children = np.concatenate([left, right])
    parents = np.tile(np.arange(splits), 2)
    expected = np.concatenate([np.arange(1, splits), ~np.arange(splits + 1)]) if splits else children
    _report(
        {
            "a split or a leaf is not reached exactly once": not np.array_equal(
                np.sort(children), np.sort(expected)
            ),
            "a split comes before its parent": bool(((children >= 0) & (children <= parents)).any()),
        }
    )
    level, depth = np.zeros(min(splits, 1), dtype=np.int64), 0
    while level.size:  # ends, because children come after their parents
        level = np.concatenate([left[level], right[level]])
        level, depth = level[level >= 0], depth + 1
        _report({f"a tree is deeper than {MOST_DEPTH} splits": depth > MOST_DEPTH})


def _check_bitsets(tree: Tree) -> None:
    categorical = (tree.decision & _CATEGORICAL) == 1
    which = tree.threshold[categorical]
    _report(
        {
            "a categorical split has no bitset": bool(
                ((which != np.floor(which)) | (which < 0) | (which >= len(tree.bounds) - 1)).any()
            ),
            "the bitsets of categorical splits do not agree": bool(
                tree.bounds[0] != 0 or (np.diff(tree.bounds) < 0).any() or tree.bounds[-1] != len(tree.bits)
            ),
            "a bitset is not made of 32-bit numbers": _outside(tree.bits, 0, 2**32),
        }
    )


# -- writing ---------------------------------------------------------------------------------


def _write(tree: Tree) -> str:
    return "\n".join(f"{name}={value}" for name, value in _lines(tree))


def _lines(tree: Tree) -> Iterator[tuple[str, str]]:
    categories = len(tree.bounds) - 1
    yield "num_leaves", str(len(tree.value))
    yield "num_cat", str(categories)
    yield "split_feature", _join(tree.feature)
    yield "threshold", _join(tree.threshold)
    yield "decision_type", _join(tree.decision)
    yield "left_child", _join(tree.left)
    yield "right_child", _join(tree.right)
    yield "leaf_value", _join(tree.value)
    yield "leaf_count", _join(tree.count)
    yield "internal_count", _join(_rows_below(tree))
    if categories:
        yield "cat_boundaries", _join(tree.bounds)
        yield "cat_threshold", _join(tree.bits)
    yield "is_linear", "0"
    yield "shrinkage", "1"


def _join(values: IntArray | FloatArray) -> str:
    """Numbers as Python writes them: the shortest text that gives the same number again."""
    return " ".join(map(repr, values.tolist()))


_NOTHING, _ZERO = np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
EMPTY_TREE = _write(  # adds 0 to every row
    Tree(_NOTHING, np.empty(0), _NOTHING, _NOTHING, _NOTHING, np.zeros(1), _ZERO + 1, _ZERO, _NOTHING)
)


Scorer = Callable[[Rows], FloatArray]  # scores of shape (rows, models)

FEW_ROWS = 32  # up to this number of rows one call for all models is faster than one for each


class TreesTogether:
    """Outputs of the trees of several models.

    Parameters
    ----------
    models : sequence of TreeRatio
        Fitted, with the same columns.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        self._models = list(models)
        self._joined: _Joined | None = None  # made when it is first needed

    def outputs(self, X: Rows) -> FloatArray:
        """Sum of the trees of each model, or their mean in forests, (rows, models)."""
        if not isinstance(X, np.ndarray) or len(X) > FEW_ROWS:
            return np.column_stack([model.tree_output(X) for model in self._models])
        if self._joined is None:  # two threads may both make one; both are correct
            self._joined = _Joined(self._models)
        return self._joined.outputs(X)


class _Joined:
    """The trees of all models as one LightGBM object with an output for each model."""

    def __init__(self, models: list[Any]) -> None:
        import lightgbm

        parts = [_trees(model.trees_) for model in models]
        rounds = max(len(part) for part in parts)
        parts = [part + [EMPTY_TREE] * (rounds - len(part)) for part in parts]
        trees = [tree for one_of_each in zip(*parts, strict=True) for tree in one_of_each]
        text = model_text(trees, models[0].n_features_in_, averaged=False, outputs=len(models))
        self._booster = lightgbm.Booster(model_str=text)
        self._divisors = np.array([model.n_trees_ if model.averaged else 1 for model in models])

    def outputs(self, X: FloatArray) -> FloatArray:
        sums = np.asarray(self._booster.predict(X, raw_score=True, num_threads=1), dtype=np.float64)
        return np.asarray(sums.reshape(len(X), -1) / self._divisors)


def _trees(text: str) -> list[str]:
    """The lines of each tree in LightGBM's text, without its number."""
    body = text.partition("\nend of trees")[0]
    return [tree.partition("\n")[2].rstrip() for tree in body.split("\nTree=")[1:]]
