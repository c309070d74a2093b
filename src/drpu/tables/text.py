"""Free text as numbers: weighted words, reduced to main directions, and the shape of the text."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, ClassVar, Self

import narwhals as nw
import numpy as np
import scipy

from drpu import _lazy
from drpu._arrays import FloatArray, IntArray
from drpu._codec import POSITIVE, Array, kept
from drpu.exceptions import ArtifactError, DataError
from drpu.tables.columns import Column
from drpu.tables.summaries import ColumnSummary
from drpu.tables.values import (
    Cells,
    distinct_values,
    hash_of,
    is_missing_cell,
    level_name,
    most_frequent,
)

TEXT = "text"
SHARE = 0.5  # minimum number of different strings per row; with fewer they are levels
BUCKETS = 2**20  # range of the hashes of words
MOST_WORDS = 2**13  # words and parts of words that are used, the most frequent ones
MOST_LETTERS = 40  # letters of a word that are used
PARTS = (3, 4)  # letters of a part of a word
FEWEST_TEXTS = 5  # a word of fewer different texts is not used
DIRECTIONS = 50  # columns that the words of a text are reduced to
DECIMALS = 6  # of the directions, which float32 has
LEAST_SIZE = 10.0**-DECIMALS  # of a direction, relative to that of the first
PROFILED = 8  # directions whose values are compared with those of new rows
MOST_EXPLAINED = 200  # words of a text whose effect on the score is computed
CHUNK = 10_000  # texts whose words are counted at a time

_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
_DIGITS = string.digits.encode("ascii")
_CAPITALS = string.ascii_uppercase.encode("ascii")
_LETTERS_AND_DIGITS = (string.ascii_letters + string.digits).encode("ascii")
_SHAPES = 4  # columns that describe the shape of a text


@kept("text-column")
@dataclass(frozen=True, eq=False)
class TextColumn(Column):
    """Different strings with several words: weighted counts of words, reduced to few columns.

    Words and parts of words are kept as hashes, and only if at least five different training texts
    have them. A text becomes the TF-IDF weights of its words (the logarithm of their counts, times
    a weight for rarity, with length 1), and these are projected on the main directions of the
    training texts (latent semantic analysis). Four more columns describe the shape of the text: its
    length, and the shares of digits, capitals and punctuation.
    """

    kind: ClassVar[str] = TEXT
    # hashes of the words and their parts, in ascending order
    words: Annotated[IntArray, Array("w", dtype="int64", low=0, high=BUCKETS - 1)]
    weights: Annotated[FloatArray, Array("w", low=POSITIVE, high=100)]  # their weights for rarity
    directions: Annotated[FloatArray, Array("wk", low=-2, high=2)]  # the projection

    def __post_init__(self) -> None:
        if (np.diff(self.words) <= 0).any() or self.directions.shape[1] > DIRECTIONS:
            raise DataError(
                f"the words of column {self.name!r:.100} must ascend, "
                f"with at most {DIRECTIONS} directions."
            )

    @classmethod
    def learn(cls, name: str, summary: ColumnSummary) -> Self | None:
        """A text with the words and directions of at most 16,384 different training texts."""
        if summary.share_of_different < SHARE or summary.spaced <= 0.5:
            return None
        texts = summary.sampled_values()
        counts = _text_counts(texts)
        words = sorted(most_frequent(counts, MOST_WORDS, least=FEWEST_TEXTS))
        n_texts = np.array([counts[word] for word in words], dtype=np.float64)
        weights = 1 + np.log((1 + len(texts)) / (1 + n_texts))
        hashes = np.array(words, dtype=np.int64)
        no_directions: FloatArray = np.empty((len(words), 0), dtype=np.float32)
        unprojected = cls(name, hashes, weights, no_directions)
        rows = scipy.sparse.vstack(list(unprojected._weighted(texts)))
        return cls(name, hashes, weights, _directions(rows))

    def encode(self, series: nw.Series[Any]) -> FloatArray:  # noqa: D102
        distinct, rows = distinct_values(self.name, series.to_list())
        return self.encode_texts([_text_of(value) for value in distinct])[rows]

    def encode_texts(self, texts: Sequence[str]) -> FloatArray:
        """The encoded columns of texts, one row for each."""
        projected = []
        for weighted in self._weighted(texts):
            projected.append(np.asarray(weighted @ self.directions, dtype=np.float64))
        shapes = np.array(list(map(_shape, texts)), dtype=np.float64).reshape(-1, _SHAPES)
        return np.hstack([np.concatenate(projected), shapes])

    def without_each_word(self, value: Any) -> Iterator[tuple[str, str]]:
        """Each different word of a text, and the text without it; of at most 200 words."""
        text = _text_of(value)
        words = dict.fromkeys(_WORD.findall(text.lower()))
        for word in list(words)[:MOST_EXPLAINED]:
            whole_word = rf"\b{re.escape(word)}\b"
            yield word, re.sub(whole_word, " ", text, flags=re.IGNORECASE)

    @property
    def width(self) -> int:  # noqa: D102
        return int(self.directions.shape[1] + _SHAPES)

    @property
    def note(self) -> str:  # noqa: D102
        return "text"

    def cells(self) -> list[Cells | None]:
        """Quantiles for the first directions and the shape; other directions are not compared."""
        k = self.directions.shape[1]
        compared = min(k, PROFILED)
        cells: list[Cells | None] = [None] * compared
        cells += [Cells(np.empty(0))] * (k - compared)
        cells += [None] * _SHAPES
        return cells

    def sortable(self, encoded: FloatArray) -> FloatArray | None:
        """None, because a direction of words mixes many words."""
        return None

    def onnx(self, graph: Any, inputs: Mapping[str, str]) -> tuple[str, bool]:
        """Not possible: a graph has no hashes of words."""
        raise ArtifactError(
            f"column {self.name!r} is free text, whose words an ONNX graph cannot find: leave the "
            "column out of the fit, or turn it into numbers before it, and give the numbers to the "
            "graph."
        )

    def _weighted(self, texts: Sequence[str]) -> Iterator[scipy.sparse.csr_matrix]:
        """TF-IDF weights of the texts, in chunks."""
        position = {word: k for k, word in enumerate(self.words.tolist())}
        positions_of_words: dict[str, list[int]] = {}
        for start in range(0, max(1, len(texts)), CHUNK):
            positions: list[int] = []
            ends = [0]
            for text in texts[start : start + CHUNK]:
                words = _WORD.findall(text.lower())
                for word in set(words).difference(positions_of_words):
                    hashes = _hashes(word)
                    positions_of_words[word] = [position[h] for h in hashes if h in position]
                positions.extend(chain.from_iterable(map(positions_of_words.__getitem__, words)))
                ends.append(len(positions))
            counts = _count_positions(positions, ends, len(self.words))
            counts.data = (1 + np.log(counts.data)) * self.weights[counts.indices]
            counts.data /= np.repeat(
                scipy.sparse.linalg.norm(counts, axis=1), np.diff(counts.indptr)
            )
            yield counts


def _count_positions(
    positions: Sequence[int], ends: Sequence[int], width: int
) -> scipy.sparse.csr_matrix:
    """How often each row has each position; a row has the positions between two ``ends``.

    One sorted array is much faster than the sorting of a sparse matrix row by row.
    """
    n_rows = len(ends) - 1
    rows = np.repeat(np.arange(n_rows), np.diff(ends))
    keys, counts = np.unique(rows * width + np.array(positions, np.int64), return_counts=True)
    starts = np.searchsorted(keys, width * np.arange(n_rows + 1))
    columns = (keys % max(1, width)).astype(np.int32)
    return scipy.sparse.csr_matrix(
        (counts.astype(np.float64), columns, starts), shape=(n_rows, width)
    )


def _text_of(value: Any) -> str:
    if is_missing_cell(value):
        return ""
    return level_name(value)


def _hashes(word: str) -> list[int]:
    return [hash_of(form) % BUCKETS for form in _forms(word[:MOST_LETTERS])]


def _text_counts(texts: Sequence[str]) -> Counter[int]:
    """Number of texts that have each word or part of a word, by hash."""
    hashes_of_words: dict[str, list[int]] = {}
    counts: Counter[int] = Counter()
    for text in texts:
        hashes_of_text: set[int] = set()
        for word in set(_WORD.findall(text.lower())):
            if word not in hashes_of_words:
                hashes_of_words[word] = _hashes(word)
            hashes_of_text.update(hashes_of_words[word])
        counts.update(hashes_of_text)
    return counts


def _forms(word: str) -> Iterator[str]:
    """A word, the same with all digits alike, and its parts of three and four letters."""
    yield word
    if _DIGIT.search(word):
        yield "#" + _DIGIT.sub("0", word)
    whole = f"<{word}>"  # parts at the start and at the end of a word are marked
    for n in PARTS:
        for start in range(len(whole) - n + 1):
            yield "+" + whole[start : start + n]


def _directions(rows: scipy.sparse.csr_matrix) -> FloatArray:
    """Right singular vectors of the rows, rounded so that they do not depend on threads."""
    k = min(DIRECTIONS, *rows.shape)
    if k == 0:
        return np.empty((rows.shape[1], 0), dtype=np.float32)
    _, sizes, vectors = _lazy.randomized_svd(rows, k, n_iter=5, random_state=0)
    # The others are rounding noise, which trees would split on.
    vectors = vectors[sizes > LEAST_SIZE * sizes[0]]
    return np.ascontiguousarray(vectors.T.round(DECIMALS), dtype=np.float32)


def _shape(text: str) -> list[float]:
    """Logarithm of the length without spaces, and shares of digits, capitals and punctuation."""
    length = sum(map(len, text.split()))
    if text.isascii():  # counting bytes is much faster
        characters = text.encode("ascii")
        digits = _count_bytes(_DIGITS, characters)
        capitals = _count_bytes(_CAPITALS, characters)
        letters_and_digits = _count_bytes(_LETTERS_AND_DIGITS, characters)
    else:
        digits = _count(str.isdigit, text)
        capitals = _count(str.isupper, text)
        letters_and_digits = _count(str.isalnum, text)
    punctuation = length - letters_and_digits
    divisor = max(1, length)
    return [math.log1p(length), digits / divisor, capitals / divisor, punctuation / divisor]


def _count_bytes(counted: bytes, characters: bytes) -> int:
    return len(characters) - len(characters.translate(None, counted))


def _count(test: Callable[[str], bool], text: str) -> int:
    return sum(map(test, text))
