"""Equal rows: copies of labelled positives, and labelled rows that reappear as unlabeled ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy

from drpu._arrays import IntArray, Rows
from drpu._samples import Sample, SamplePair, is_matrix, is_sparse, row_keys
from drpu.exceptions import CopiedPositivesWarning
from drpu.tables.columns import LeftOutColumn
from drpu.tables.frames import FrameRows, read_frame
from drpu.tables.summaries import TableSummary

FEWEST_OF_CLASS = 20  # minimum number of labelled rows, and of unlabeled ones
COPIES = 0.01  # minimum share of copies to be noted
BY_CHANCE = 1000  # copies are so much more frequent than equal rows of independent columns
MOST_COMPARED = 20_000  # rows of a class that are ranked or compared in pairs
_COPIED = 5  # minimum number of positives that are copies of unlabeled rows
# Quantile of chi-squared at 99 %: more pairs of equal rows between two samples than by chance.
_EXCESS = 6.63
_MOST_ROWS = 20_000  # unlabeled rows that are compared with the positives
# Rows of a coarse table coincide by chance. If chance is the reason, positives coincide with
# unlabeled rows at least prior times as often as with each other; priors below this are ignored.
_LEAST_PRIOR = 0.02
_LEAST_EXCESS = 5  # number of coinciding rows above chance before there is a warning


# -- copies, and rows that are equal by chance --


def copied_rows(rows: Rows) -> IntArray | None:
    """The number of each row, which copies of a row share; None if no rows are copies.

    None also for sparse rows, images, and data frames that a model reads.
    """
    if not is_matrix(rows) or rows.shape[0] < FEWEST_OF_CLASS:
        return None
    keys = row_keys(rows)
    different, codes = np.unique(keys, return_inverse=True)
    if 1 - len(different) / len(keys) < COPIES or not are_copies(rows, keys):
        return None
    return np.asarray(codes.ravel())


def are_copies(rows: Any, keys: Any) -> bool:
    """Whether equal rows are copies, and not different cases with equal values.

    There are many more of them than if columns were independent. However columns depend on each
    other, cases that are equal in all columns are no more frequent than cases that are equal in
    one: of the rows that agree in the column with the most values, most must agree in the others.
    """
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    pairs = equal_pairs(counts)
    if pairs <= BY_CHANCE * _pairs_by_chance(rows):
        return False
    different = rows[first]
    in_one_column = []
    for k in range(rows.shape[1]):
        _, counts_of_values = np.unique(different[:, k], return_counts=True)
        in_one_column.append(equal_pairs(counts_of_values))
    return bool(pairs >= min(in_one_column))


def _pairs_by_chance(rows: Any) -> float:
    """Expected pairs of equal rows if the columns were independent."""
    compared = every_kth(rows)
    n = len(compared)
    chance = 1.0
    for k in range(rows.shape[1]):
        _, counts = np.unique(compared[:, k], return_counts=True)
        chance *= max(2 * equal_pairs(counts), 1.0) / (n * (n - 1))
    return chance * len(rows) * (len(rows) - 1) / 2


def every_kth(rows: Any) -> Any:
    """At most 20,000 of the rows, evenly spaced."""
    k = math.ceil(len(rows) / MOST_COMPARED)
    return rows[::k]


# -- copies of labelled positives --


def grouped_copies(pair: SamplePair) -> SamplePair:
    """The pair with copies of a labelled positive in one group, unless the user gave groups."""
    if pair.positive.groups is not None:
        return pair
    groups = copied_positives(pair, np.random.RandomState(0))
    if groups is None:
        return pair
    positive = Sample(pair.positive.rows, pair.positive.weight, groups)
    CopiedPositivesWarning.issue(
        f"{len(positive) - positive.n_independent} of the {len(positive)} labelled positives are "
        "copies of others. Copies stay in one fold and count once in intervals.",
        advice="If they are different cases with equal values, pass groups with a value for each "
        "row.",
        command="",
    )
    return SamplePair(positive, pair.unlabeled)


def copied_positives(pair: SamplePair, rng: np.random.RandomState) -> IntArray | None:
    """Group numbers of the positives, in which copies of a row share one; None without copies.

    Rows that coincide only because columns take few values are independent and are not grouped.
    Let q be the chance that two positives coincide and c the chance that a positive and an
    unlabeled row do. A fraction of the unlabeled rows, the prior, are positives, so q is at most
    c / prior. Positives that coincide more often than that have been copied.
    """
    n = len(pair.positive)
    if n < 2:
        return None
    identifiers = _identifiers(pair)
    keys, groups, counts = np.unique(
        _keys(pair.positive.rows, identifiers), return_inverse=True, return_counts=True
    )
    if n - len(counts) < _LEAST_EXCESS:
        return None
    unlabeled = pair.unlabeled.rows
    if len(pair.unlabeled) > _MOST_ROWS:
        unlabeled = unlabeled[np.sort(rng.permutation(len(pair.unlabeled))[:_MOST_ROWS])]
    between = _pairs_between(keys, counts, *_values_with_counts(unlabeled, identifiers))
    chance = (between + 1) / (n * unlabeled.shape[0]) / _LEAST_PRIOR
    by_chance = chance * n * (n - 1) / 2
    if equal_pairs(counts) > by_chance + _LEAST_EXCESS:
        return np.asarray(groups.ravel())
    return None


def copies_of_labelled(pair: SamplePair) -> IntArray | None:
    """Positions of unlabeled rows that equal a labelled positive, and of that positive, (n, 2).

    None if at least half of the unlabeled rows coincide, and not as copies: equal rows may then be
    different cases with equal values.
    """
    identifiers = _identifiers(pair)
    parts = [_keys(sample.rows, identifiers) for sample in (pair.positive, pair.unlabeled)]
    keys = np.concatenate(parts)
    _, codes = np.unique(keys, return_inverse=True)
    labelled, others = np.split(codes.ravel(), [len(pair.positive)])
    if 2 * len(np.unique(others)) <= len(others):
        rows = pair.unlabeled.rows
        if not is_matrix(rows) or not are_copies(rows, others):
            return None
    known, first = np.unique(labelled, return_index=True)
    place = np.full(len(keys), -1)
    place[known] = first
    copies = np.flatnonzero(place[others] >= 0)
    return np.column_stack([copies, place[others[copies]]])


def _identifiers(pair: SamplePair) -> tuple[str, ...]:
    """Columns with a value for each row, in data frames that a model reads itself."""
    parts = [pair.positive.rows, pair.unlabeled.rows]
    if not all(isinstance(rows, FrameRows) for rows in parts):
        return ()
    summaries = TableSummary.of_samples([read_frame(rows.native) for rows in parts]).columns
    names = []
    for name, summary in summaries.items():
        if LeftOutColumn.learn(name, summary) is not None:
            names.append(name)
    return tuple(names) if len(names) < len(summaries) else ()


def _values_with_counts(rows: Rows, identifiers: Sequence[str]) -> tuple[Any, Any]:
    """The different rows by their keys, and how many there are of each."""
    values, counts = np.unique(_keys(rows, identifiers), return_counts=True)
    return values, counts


def _keys(rows: Rows, identifiers: Sequence[str] = ()) -> np.ndarray[Any, Any]:
    """One comparable value for each row, equal where the rows are equal but for ``identifiers``."""
    if isinstance(rows, FrameRows):
        return rows.keys(without=identifiers)
    if is_sparse(rows):
        rows = rows.tocsr()
        keys = []
        for start, end in pairwise(rows.indptr):
            keys.append(hash(rows.indices[start:end].tobytes() + rows.data[start:end].tobytes()))
        return np.array(keys, dtype=np.int64)
    flat = np.ascontiguousarray(np.asarray(rows).reshape(rows.shape[0], -1))
    return flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()


# -- labelled rows among the unlabeled ones --


def reappearing_share(positive: Any, unlabeled: Any) -> float | None:
    """Share of the labelled rows that are also among the unlabeled ones, if not by chance.

    None if it is not, and if it cannot be told: with few rows, sparse rows and images.
    """
    if not is_matrix(positive) or not is_matrix(unlabeled):
        return None
    if min(len(positive), len(unlabeled)) < FEWEST_OF_CLASS:
        return None
    return reappearing(row_keys(positive), row_keys(unlabeled))


def reappearing(positive_keys: Any, unlabeled_keys: Any) -> float | None:
    """The same from the keys of the rows.

    Rows of a coarse table coincide by chance. Then rows of one sample coincide with each other as
    well: with the probabilities p and u of a value in the two samples, sum(p u) is at most
    sqrt(sum(p^2) sum(u^2)), so the expected pairs between the samples are at most twice the
    geometric mean of those within them. This is tested by a likelihood ratio.
    """
    copied = np.isin(positive_keys, unlabeled_keys)
    share = float(copied.mean())
    twins = max(_twins(positive_keys), _twins(unlabeled_keys))
    if copied.sum() < _COPIED or share <= max(COPIES, _COPIED * twins):
        return None
    positive_values, positive_counts = np.unique(positive_keys, return_counts=True)
    unlabeled_values, unlabeled_counts = np.unique(unlabeled_keys, return_counts=True)
    between = _pairs_between(positive_values, positive_counts, unlabeled_values, unlabeled_counts)
    within_positive = equal_pairs(positive_counts)
    within_unlabeled = equal_pairs(unlabeled_counts)
    if _excess_between(within_positive, within_unlabeled, between) < _EXCESS:
        return None
    return share


def _excess_between(within_positive: float, within_unlabeled: float, between: float) -> float:
    """Likelihood ratio statistic of more pairs between two samples than those within them explain.

    With all pairs divided by the shares s and 1 - s of the samples, at most s^2, (1 - s)^2 and
    2 s (1 - s) of them are expected within and between, as for genotypes. 0 if there are not more
    pairs between them.
    """
    pairs = np.array([within_positive, within_unlabeled, between])
    total = pairs.sum()
    s = (within_positive + between / 2) / total
    expected = total * np.array([s**2, (1 - s) ** 2, 2 * s * (1 - s)])
    if between <= expected[2]:
        return 0.0
    return float(2 * scipy.special.xlogy(pairs, pairs / expected).sum())


def equal_pairs(counts: Any) -> float:
    """Pairs of equal rows, from the number of rows of each value."""
    return float((counts * (counts - 1.0)).sum()) / 2


def _pairs_between(values: Any, counts: Any, other_values: Any, other_counts: Any) -> float:
    """Pairs of equal rows in two samples, from their different values and the numbers of rows."""
    _, place, other_place = np.intersect1d(
        values, other_values, assume_unique=True, return_indices=True
    )
    return float(counts[place] @ other_counts[other_place])


def _twins(keys: Any) -> float:
    """Share of the rows that equal another one."""
    _, member, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return float((counts[member] > 1).mean())
