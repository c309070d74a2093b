"""Log-ratios from trees, and the outputs of several ensembles of trees for many rows at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from drpu._arrays import FloatArray, IntArray, Rows
from drpu._codec import NotKept, Number
from drpu._process import threads_here
from drpu.models.learner import Function, Scorer, within_limits
from drpu.models.trees import WORD, Trees, joined_booster, tree_rows, tree_threads

ROWS_OF_ONE_CALL = 32  # up to this number of rows one call of LightGBM is faster than masks
_MANY_ROWS = 2000  # LightGBM's threads wait for each other longer than they score fewer rows
_TINY = 1e-7  # a smaller change of the output has the slope of a change of this size

# -- functions ------------------------------------------------------------------------------------


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

    def threads(self, X: Rows) -> int:
        """Number of threads with which LightGBM scores these rows."""
        if X.shape[0] < _MANY_ROWS:
            return 1
        return threads_here(tree_threads(self.n_jobs))

    def _score(self, X: Rows) -> FloatArray:
        return self._alone.columns(X)[0]

    @cached_property
    def _alone(self) -> TreesTogether:
        return TreesTogether([self])

    def reached_leaves(self, X: Rows) -> IntArray:
        """The leaf that each row reaches in each tree, among those of all trees, (rows, trees)."""
        masks = self._alone.masks_for(X)
        if masks is None:
            return self.trees.reached_leaves(X, self.threads(X))
        return masks.leaves(X)

    def contributions(self, X: Rows) -> FloatArray:
        """What the columns add on the paths of the trees, scaled to the log-ratio; last, the base.

        They add up to the output of the trees. If the log-ratio is not a sum of that output and a
        constant, the contributions of a row are multiplied by the change of the log-ratio from the
        average row to this one, relative to the change of the output: then they add up to the
        log-ratio.
        """
        of_columns, mean_output = self.trees.contributions(self.reached_leaves(X))
        base = np.full((len(of_columns), 1), mean_output)
        rise = of_columns.sum(axis=1, keepdims=True)
        start = self.convert(base)
        step = np.where(np.abs(rise) > _TINY, rise, _TINY)
        slope = (self.convert(base + step) - start) / step
        return np.column_stack([of_columns * slope, start])

    @classmethod
    def together(cls, functions: Sequence[Self]) -> Scorer:
        """The scores of several functions, whose trees are scored at once."""
        return TreesTogether(functions).scores


class TreesTogether:
    """Outputs of the trees of several functions with the same columns.

    Few rows are scored by one booster of LightGBM that has all trees, many dense rows by masks, and
    other rows by one booster for each function. The outputs are the same, because sums of the
    values of leaves are exact, see :attr:`drpu.models.trees.Trees.exact_value`.
    """

    def __init__(self, functions: Sequence[TreeFunction]) -> None:
        self._functions = list(functions)
        divisors = np.ones(len(self._functions), dtype=np.int64)
        for i, function in enumerate(self._functions):
            if function.trees.averaged:
                divisors[i] = len(function.trees)
        self._divisors = divisors

    def scores(self, X: Rows) -> FloatArray:
        """Scores of checked rows, (rows, functions)."""
        return np.column_stack(self.columns(X))

    def columns(self, X: Rows) -> list[FloatArray]:
        """Scores of checked rows by each function."""
        # contiguous, because the logarithm of a strided array may differ in its last bits
        outputs = np.ascontiguousarray((self._sums(X) / self._divisors).T)
        pairs = zip(self._functions, outputs, strict=True)
        return [within_limits(function.convert(output)) for function, output in pairs]

    def _sums(self, X: Rows) -> FloatArray:
        """Sum of the trees of each function, (rows, functions)."""
        if isinstance(X, np.ndarray) and len(X) <= ROWS_OF_ONE_CALL:
            sums = self._joined.predict(X, raw_score=True, num_threads=1)
            return np.asarray(sums, dtype=np.float64).reshape(len(X), len(self._functions))
        masks = self.masks_for(X)
        if masks is not None:
            return masks.sums(X)
        rows = tree_rows(X)
        sums_of_each = []
        for function in self._functions:
            booster = function.trees.booster
            sums = booster.predict(rows, raw_score=True, num_threads=function.threads(X))
            sums_of_each.append(sums)
        return np.column_stack(sums_of_each)

    def masks_for(self, X: Rows) -> LeafMasks | None:
        """Masks of all trees, if they are faster than LightGBM for these rows."""
        if not isinstance(X, np.ndarray) or len(X) <= ROWS_OF_ONE_CALL:
            return None
        return self._masks

    @cached_property
    def _masks(self) -> LeafMasks | None:
        """Masks of all trees; None if LightGBM is expected to be faster."""
        return LeafMasks.of([function.trees for function in self._functions])

    @cached_property
    def _joined(self) -> Any:
        """The trees of all functions as one booster with an output for each."""
        return joined_booster([function.trees for function in self._functions])


# -- masks of leaves ------------------------------------------------------------------------------

_MOST_BYTES = 2**26  # of all masks
# Bytes of masks of one tree that are read for a row; with more of them, LightGBM is faster.
_MOST_TREE_BYTES = 1500
_MOST_CODES = 2**21  # to be looked up in the sets of all splits on categories
_BUFFER_BYTES = 2**18  # of the masks of a chunk of rows, which stay in the cache
_CELL_ROWS = 4096  # rows whose cells are computed at a time
_WORDS = (np.uint8, np.uint16, np.uint32, np.uint64)
_BITS_BELOW = np.array([(1 << k) - 1 for k in range(65)], dtype=np.uint64)  # the lowest k bits


class LeafMasks:
    """Sums of the leaves that rows reach in the trees of several ensembles.

    A leaf is a bit of a word of its tree. The thresholds of all trees divide each column into
    cells. Each cell has a mask of the leaves that a row with a value in the cell can reach, and the
    conjunction of the masks of its cells is the leaf that a row reaches. So there is no branch,
    and all trees of a word size are evaluated in a few operations on whole arrays. Trees with more
    leaves than the largest word has bits have several words, of which all but one become 0.
    """

    def __init__(self, ensembles: Sequence[Trees], cells: _Cells) -> None:
        self._cells = cells
        self._n_ensembles = len(ensembles)
        positions_of_size: dict[type, list[int]] = {}
        for position, trees in enumerate(ensembles):
            positions_of_size.setdefault(_word_of(trees), []).append(position)
        self._parts: list[tuple[list[int], _WordMasks]] = []
        for word, positions in positions_of_size.items():
            part = _WordMasks([ensembles[position] for position in positions], cells, word)
            self._parts.append((positions, part))

    @classmethod
    def of(cls, ensembles: Sequence[Trees]) -> LeafMasks | None:
        """Masks of the trees; None if they would be too large, or slower than LightGBM."""
        if any(trees.zero_is_missing for trees in ensembles):
            return None
        cells = _Cells(ensembles)
        if cells.thresholds.keys() & cells.n_codes.keys():
            return None
        if cells.n_codes_of_splits > _MOST_CODES:
            return None
        bytes_of_row = 0
        n_trees = 0
        for trees in ensembles:
            size = np.dtype(_word_of(trees)).itemsize
            bytes_of_row += size * int(_words_of_trees(trees, 8 * size).sum())
            n_trees += len(trees)
        if bytes_of_row * cells.n_cells > _MOST_BYTES:
            return None
        if bytes_of_row * len(cells.columns) > n_trees * _MOST_TREE_BYTES:
            return None
        return cls(ensembles, cells)

    def sums(self, X: FloatArray) -> FloatArray:
        """The sum of the trees of each ensemble, (rows, ensembles)."""
        sums = np.empty((len(X), self._n_ensembles))
        for start in range(0, len(X), _CELL_ROWS):
            chunk = slice(start, start + _CELL_ROWS)
            cells = self._cells.of_rows(X[chunk])
            for positions, part in self._parts:
                sums[chunk, positions] = part.sums(cells)
        return sums

    def leaves(self, X: FloatArray) -> IntArray:
        """The leaf that rows reach in each tree of a single ensemble, (rows, trees)."""
        ((_, masks),) = self._parts
        parts = []
        for start in range(0, len(X), _CELL_ROWS):
            parts.append(masks.leaves(self._cells.of_rows(X[start : start + _CELL_ROWS])))
        return np.concatenate(parts)


def _word_of(trees: Trees) -> type:
    """The type of the words of an ensemble: the smallest that has a bit for each leaf."""
    most = int(trees.leaves.max())
    for word in _WORDS:
        if most <= 8 * np.dtype(word).itemsize:
            return word
    return np.uint64


def _words_of_trees(trees: Trees, bits: int) -> IntArray:
    return np.asarray(-(-trees.leaves.astype(np.int64) // bits))


class _Cells:
    """The cells into which the splits of all trees divide the columns, numbered over all columns.

    A column of numbers with m thresholds has m + 1 cells between them and one of missing values, a
    column of categories one for each code up to the largest in any split, and one for all others.
    """

    def __init__(self, ensembles: Sequence[Trees]) -> None:
        features = np.concatenate([trees.feature for trees in ensembles])
        thresholds = np.concatenate([trees.threshold for trees in ensembles])
        categorical = np.concatenate([trees.is_categorical for trees in ensembles])
        self.columns = np.unique(features).tolist()
        self.thresholds: dict[int, FloatArray] = {}  # of the columns of numbers
        self.n_codes: dict[int, int] = {}  # of the columns of categories
        for column in np.unique(features[~categorical]).tolist():
            self.thresholds[column] = np.unique(thresholds[(features == column) & ~categorical])
        for trees in ensembles:
            columns = trees.feature[trees.is_categorical].tolist()
            all_codes = WORD * np.diff(trees.bounds)  # the codes in a set are below these
            for column, n_codes in zip(columns, all_codes.tolist(), strict=True):
                self.n_codes[column] = max(self.n_codes.get(column, 0), n_codes)
        # the codes to be looked up in all sets
        self.n_codes_of_splits = 0
        for column in features[categorical].tolist():
            self.n_codes_of_splits += self.n_codes[column]
        self.first: dict[int, int] = {}  # the first cell of each column
        self.n_cells = 0
        for column in self.columns:
            self.first[column] = self.n_cells
            if column in self.n_codes:
                self.n_cells += self.n_codes[column] + 1
            else:
                self.n_cells += len(self.thresholds[column]) + 2

    def of_splits(self, trees: Trees, splits: IntArray) -> IntArray:
        """The cell whose upper end is the threshold of each of these splits on numbers."""
        cells = np.empty(len(splits), dtype=np.int64)
        features = trees.feature[splits]
        for column, thresholds in self.thresholds.items():
            here = features == column
            rank = np.searchsorted(thresholds, trees.threshold[splits[here]])
            cells[here] = self.first[column] + rank
        return cells

    def between_thresholds(self, column: int) -> slice:
        """The cells of a column of numbers without that of missing values."""
        first = self.first[column]
        return slice(first, first + len(self.thresholds[column]) + 1)

    def of_rows(self, X: FloatArray) -> IntArray:
        """The cells of each row, (columns, rows)."""
        cells = np.empty((len(self.columns), len(X)), dtype=np.int64)
        for i, column in enumerate(self.columns):
            values = X[:, column]
            if column in self.n_codes:
                cells[i] = _codes(values, self.n_codes[column])
            else:
                thresholds = self.thresholds[column]
                cells[i] = np.searchsorted(thresholds, values)
                cells[i, np.isnan(values)] = len(thresholds) + 1
            cells[i] += self.first[column]
        return cells


def _codes(values: FloatArray, n_codes: int) -> IntArray:
    """Category codes as LightGBM reads them; ``n_codes`` where a value is in no set."""
    whole = np.trunc(values)
    inside = (whole >= 0) & (whole < n_codes)
    return np.where(inside, whole, n_codes).astype(np.int64)


class _WordMasks:
    """The masks of ensembles with words of one size, and the values of their leaves."""

    def __init__(self, ensembles: Sequence[Trees], cells: _Cells, word: type) -> None:
        bits = 8 * np.dtype(word).itemsize
        tables = []
        values = []
        widths = []
        all_leaves: list[NDArray[Any]] = []
        self._ranges = [_LeafRanges(trees, bits) for trees in ensembles]
        for trees, leaves in zip(ensembles, self._ranges, strict=True):
            tables.append(_mask_table(trees, leaves, cells, word))
            values.append(leaves.values(trees.exact_value))
            widths.append(len(leaves.used_bits))
            all_leaves.append(_BITS_BELOW[leaves.used_bits].astype(word))
        self._table = np.concatenate(tables, axis=1)
        self._values = np.concatenate(values)
        self._all_leaves = np.concatenate(all_leaves)
        self._first_word = np.cumsum([0, *widths[:-1]])
        self._several = any(int(trees.leaves.max()) > bits for trees in ensembles)
        # The exponent of a mask with one bit, as a floating-point number, is the number of the bit.
        self._float: type = np.float64 if bits == 64 else np.float32
        self._integer: type = np.int64 if bits == 64 else np.int32
        self._mantissa = np.finfo(self._float).nmant
        self._no_bit = np.finfo(self._float).maxexp - 2  # exponent of the place before the first
        n_words = self._table.shape[1]
        self._place = np.arange(n_words) * (bits + 1) - self._no_bit

    def sums(self, cells: IntArray) -> FloatArray:
        """The sum of the trees of each ensemble for rows in these cells, (rows, ensembles)."""
        return self._added(cells, self._values, self._first_word)

    def leaves(self, cells: IntArray) -> IntArray:
        """The leaf that rows in these cells reach in each tree of the ensemble, (rows, trees)."""
        (ranges,) = self._ranges
        numbers = ranges.values(np.arange(ranges.n_leaves, dtype=np.float64))
        return self._added(cells, numbers, ranges.first_word).astype(np.int64)

    def _added(self, cells: IntArray, values: FloatArray, first_word: IntArray) -> FloatArray:
        """The sums of ``values`` of reached leaves over words that start at ``first_word``."""
        n_rows = cells.shape[1]
        n_words = self._table.shape[1]
        sums = np.empty((n_rows, len(first_word)))
        size = min(max(_BUFFER_BYTES // (n_words * self._table.itemsize), 64), 512, n_rows)
        masks = np.empty((size, n_words), dtype=self._table.dtype)
        more_masks = np.empty_like(masks)
        for start in range(0, n_rows, size):
            chunk = cells[:, start : start + size]
            n = chunk.shape[1]
            places = self._reached(chunk, masks[:n], more_masks[:n])
            reached = np.take(values, places, mode="clip")
            sums[start : start + n] = np.add.reduceat(reached, first_word, axis=1)
        return sums

    def _reached(self, cells: IntArray, masks: NDArray[Any], more: NDArray[Any]) -> IntArray:
        """Places of the values of reached leaves, (rows, words); that of a 0 without a leaf."""
        masks[:] = self._all_leaves
        for of_column in cells:
            np.take(self._table, of_column, axis=0, out=more, mode="clip")
            np.bitwise_and(masks, more, out=masks)
        exponents = masks.astype(self._float).view(self._integer) >> self._mantissa
        if self._several:
            np.maximum(exponents, self._no_bit, out=exponents)
        return np.asarray(exponents + self._place)


class _LeafRanges:
    """Leaves of trees numbered from left to right: those below a split are a range of numbers.

    ``start``, ``stop``: The range of each split and leaf, in the order of ``Trees.children``.
    ``first_word``: The first word of each tree.
    ``used_bits``: The number of leaves in each word.
    """

    def __init__(self, trees: Trees, bits: int) -> None:
        self._bits = bits
        n_splits = len(trees.feature)
        children = trees.children()
        levels = trees.levels(children)
        size = np.ones(n_splits + len(trees.value), dtype=np.int64)
        for level in reversed(levels):
            size[level] = size[children[:, level]].sum(axis=0)
        self.start = np.zeros_like(size)
        for level in levels:
            left, right = children[:, level]
            self.start[left] = self.start[level]
            self.start[right] = self.start[level] + size[left]
        self.stop = self.start + size
        self._leaf_start = self.start[n_splits:]
        self.n_leaves = len(self._leaf_start)
        self._tree_of_leaf = np.repeat(np.arange(len(trees)), trees.leaves)
        n_words = _words_of_trees(trees, bits)
        self.first_word = np.cumsum(n_words) - n_words
        self.most_words = int(n_words.max())
        leaves = np.repeat(trees.leaves, n_words)
        rank = np.arange(len(leaves)) - np.repeat(self.first_word, n_words)
        self.used_bits = np.minimum(leaves - bits * rank, bits)

    def values(self, leaf_values: FloatArray) -> FloatArray:
        """The value of each bit of each word; before the bits of a word is a 0."""
        values = np.zeros((len(self.used_bits), self._bits + 1))
        word = self.first_word[self._tree_of_leaf] + self._leaf_start // self._bits
        values[word, 1 + self._leaf_start % self._bits] = leaf_values
        return values.ravel()

    def remove(
        self, masks: NDArray[Any], cells: IntArray, nodes: IntArray, trees: IntArray
    ) -> None:
        """Remove the leaves below ``nodes``, which are of ``trees``, from the masks of ``cells``.

        ``masks`` has the shape (cells, words).
        """
        n_words = masks.shape[1]
        flat = masks.reshape(-1)
        start = self.start[nodes]
        stop = self.stop[nodes]
        word = self.first_word[trees]
        for k in range(self.most_words):
            low = np.clip(start - k * self._bits, 0, self._bits)
            high = np.clip(stop - k * self._bits, 0, self._bits)
            touched = low < high
            removed = _BITS_BELOW[high[touched]] ^ _BITS_BELOW[low[touched]]
            place = cells[touched] * n_words + word[touched] + k
            np.bitwise_and.at(flat, place, ~removed.astype(flat.dtype))


def _mask_table(trees: Trees, leaves: _LeafRanges, cells: _Cells, word: type) -> NDArray[Any]:
    """The mask of each cell and each word of the trees: the leaves that can be reached."""
    shape = (cells.n_cells, len(leaves.used_bits))
    most = np.iinfo(word).max
    above: NDArray[Any] = np.full(shape, most, dtype=word)  # for a cell and all that follow
    below = above.copy()  # for a cell and all before
    left, right = trees.children()
    numeric = np.flatnonzero(~trees.is_categorical)
    cell = cells.of_splits(trees, numeric)
    of_tree = trees.tree_of_split
    leaves.remove(above, cell + 1, left[numeric], of_tree[numeric])
    leaves.remove(below, cell, right[numeric], of_tree[numeric])
    for column in cells.thresholds:
        place = cells.between_thresholds(column)
        np.bitwise_and.accumulate(above[place], axis=0, out=above[place])
        upwards = below[place][::-1]
        np.bitwise_and.accumulate(upwards, axis=0, out=upwards)
    missing_of_column = np.zeros(trees.n_columns, dtype=np.int64)
    for column in cells.thresholds:
        missing_of_column[column] = cells.between_thresholds(column).stop
    excluded = np.where(trees.missing_left(), right, left)
    missing = missing_of_column[trees.feature[numeric]]
    leaves.remove(above, missing, excluded[numeric], of_tree[numeric])
    categorical = np.flatnonzero(trees.is_categorical)
    for k, split in enumerate(categorical.tolist()):
        column = int(trees.feature[split])
        codes = np.arange(cells.n_codes[column] + 1)
        nodes = np.where(trees.in_set(k, codes), right[split], left[split])
        tree = np.full(len(codes), of_tree[split])
        leaves.remove(above, cells.first[column] + codes, nodes, tree)
    return np.asarray(above & below)
