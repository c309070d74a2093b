"""Free text as a few numbers: weighted words, reduced to their main directions, and the shape of the text."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from drpu._codec import POSITIVE, Array, kept
from drpu._typing import FloatArray, IntArray
from drpu.exceptions import ArtifactError, DataError
from drpu.tables.cells import Cells
from drpu.tables.columns import ColumnPlan, string_shares
from drpu.tables.summaries import ColumnSummary
from drpu.tables.values import different, hash_of, is_missing_cell, level_name

TEXT = "text"
SHARE = 0.5  # minimum number of different strings per row; strings that are repeated more often are levels
BUCKETS = 2**20  # range of the hashes of words
MOST_WORDS = 2**13  # words and parts of words that are used, the most frequent ones
MOST_LETTERS = 40  # letters of a word that are used
PARTS = (3, 4)  # letters of a part of a word
FEWEST_TEXTS = 5  # a word of fewer different texts is not used
DIRECTIONS = 50  # columns that the words of a text are reduced to
PROFILED = 8  # directions whose values are compared with those of new rows
CHUNK = 10_000  # texts whose words are counted at a time

_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
_SHAPES = 4  # columns that describe the shape of a text


@kept("text-column")
@dataclass(frozen=True, eq=False)
class TextColumn(ColumnPlan):
    """Different strings with several words: counts of words, by frequency and rarity, in few columns.

    Words and parts of words are kept as hashes, and only if at least five different training texts have them.
    A text becomes the TF-IDF weights of its words (the logarithm of their counts, times a weight for rarity,
    with length 1), and these are projected on the main directions of the training texts (latent semantic
    analysis). Four more columns describe the shape of the text: its length, and the shares of digits,
    capitals and punctuation.
    """

    kind: ClassVar[str] = TEXT
    # hashes of the words and their parts, in ascending order
    words: Annotated[IntArray, Array("w", dtype="int64", low=0, high=BUCKETS - 1)]
    weights: Annotated[FloatArray, Array("w", low=POSITIVE, high=100)]  # their weights for rarity
    directions: Annotated[FloatArray, Array("wk", low=-2, high=2)]  # the projection

    def __post_init__(self) -> None:
        if (np.diff(self.words) <= 0).any() or self.directions.shape[1] > DIRECTIONS:
            raise DataError(
                f"the words of column {self.name!r:.100} must ascend, with at most {DIRECTIONS} directions."
            )

    @classmethod
    def of(cls, name: str, summary: ColumnSummary) -> Self | None:
        """A text with the words and directions of different training texts, at most 16,384 of them."""
        share, spaced = string_shares(summary)
        if share < SHARE or spaced <= 0.5:
            return None
        texts = summary.some_values()
        counts = _counts(texts)
        frequent = sorted(counts, key=lambda word: (-counts[word], word))[:MOST_WORDS]
        words = np.array(
            sorted(word for word in frequent if counts[word] >= FEWEST_TEXTS), dtype=np.int64
        )
        rows = np.array([counts[word] for word in words.tolist()], dtype=np.float64)
        weights = 1 + np.log((1 + len(texts)) / (1 + rows))
        plan = cls(name, words, weights, np.empty((len(words), 0), dtype=np.float32))
        return cls(name, words, weights, _directions(sparse.vstack(list(plan._weighted(texts)))))

    def values(self, series: nw.Series[Any]) -> FloatArray:  # noqa: D102
        found, rows = different(self.name, series.to_list())
        texts = ["" if is_missing_cell(value) else level_name(value) for value in found]
        parts = [
            np.asarray(part @ self.directions, dtype=np.float64) for part in self._weighted(texts)
        ]
        return np.hstack([np.concatenate(parts), [_shape(text) for text in texts]])[rows]

    @property
    def width(self) -> int:  # noqa: D102
        return int(self.directions.shape[1] + _SHAPES)

    def cells(self) -> list[Cells | None]:
        """Ranges between quantiles for the first directions and the shape; the others are not compared."""
        k = self.directions.shape[1]
        few: list[Cells | None] = [None] * min(k, PROFILED)
        return [*few, *[Cells(np.empty(0))] * (k - len(few)), *[None] * _SHAPES]

    def onnx(self, graph: Any, column: str) -> tuple[str, bool]:
        """Not possible: a graph has no hashes of words."""
        raise ArtifactError(
            f"column {self.name!r} is free text, whose words an ONNX graph cannot find: leave the column out "
            "of the fit, or turn it into numbers before it, and give the numbers to the graph."
        )

    def _weighted(self, texts: Sequence[str]) -> Iterator[sparse.csr_matrix]:
        """TF-IDF weights of the texts, in chunks."""
        column = {word: k for k, word in enumerate(self.words.tolist())}
        known: dict[str, list[int]] = {}
        for start in range(0, max(1, len(texts)), CHUNK):
            found: list[int] = []
            ends = [0]
            for text in texts[start : start + CHUNK]:
                for word in _WORD.findall(text.lower()):
                    if word not in known:
                        known[word] = [column[key] for key in _hashes(word) if key in column]
                    found += known[word]
                ends.append(len(found))
            shape = (len(ends) - 1, len(self.words))
            rows = sparse.csr_matrix(
                (np.ones(len(found)), np.array(found, dtype=np.int32), ends), shape=shape
            )
            rows.sum_duplicates()
            rows.data = (1 + np.log(rows.data)) * self.weights[rows.indices]
            rows.data /= np.repeat(sparse.linalg.norm(rows, axis=1), np.diff(rows.indptr))
            yield rows


def _hashes(word: str) -> list[int]:
    """Hashes of a word and of its parts."""
    return [hash_of(form) % BUCKETS for form in _forms(word[:MOST_LETTERS])]


def _counts(texts: Sequence[str]) -> Counter[int]:
    """Number of texts that have each word, by hash."""
    known: dict[str, list[int]] = {}
    counts: Counter[int] = Counter()
    for text in texts:
        words = set(_WORD.findall(text.lower()))
        known |= {word: _hashes(word) for word in words if word not in known}
        counts.update({key for word in words for key in known[word]})
    return counts


def _forms(word: str) -> Iterator[str]:
    """A word, the same with all digits alike, and its parts of three and four letters, marked as such."""
    yield word
    if _DIGIT.search(word):
        yield "#" + _DIGIT.sub("0", word)
    whole = f"<{word}>"
    for n in PARTS:
        yield from ("+" + whole[k : k + n] for k in range(len(whole) - n + 1))


def _directions(rows: sparse.csr_matrix) -> FloatArray:
    """Right singular vectors of the rows, of single precision."""
    k = min(DIRECTIONS, *rows.shape)
    if k == 0:
        return np.empty((rows.shape[1], 0), dtype=np.float32)
    _, _, vectors = randomized_svd(rows, k, n_iter=5, random_state=0)
    return np.ascontiguousarray(vectors.T, dtype=np.float32)


def _shape(text: str) -> list[float]:
    """The logarithm of the length without spaces, and shares of digits, capitals and punctuation."""
    tests = (str.isspace, str.isdigit, str.isupper, str.isalnum)
    spaces, digits, capitals, letters = (sum(map(test, text)) for test in tests)
    length = len(text) - spaces
    others = (digits, capitals, length - letters)
    return [math.log1p(length), *(n / max(1, length) for n in others)]
