"""ScoreTails: the counts do not depend on sharding, order, type or storage; damaged records are refused."""

import copy
import os
import pickle
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from drpu import ScoreTails
from drpu._codec import decode, encode
from drpu.exceptions import ArtifactError, DataError, DataTypeError, ParameterError
from drpu.priors.tails import remembered
from tails_data import POSITIVE, weighted_tails

# Few distinct values, so that there are many ties between and within the samples.
values = st.sampled_from([-np.inf, -2.5, -1.0, -0.0, 0.0, 0.1, np.float32(0.1).item(), 1.0, 3.0, np.inf])
samples = st.lists(values, max_size=40).map(lambda v: np.array(v, dtype=np.float64))
positives = st.lists(values, min_size=1, max_size=15).map(lambda v: np.array(v, dtype=np.float64))


def brute_force(positive, scores, weight=None):
    """Cell counts by comparing all pairs."""
    levels = np.unique(positive)
    cells = (scores[:, None] >= levels[None, :]).sum(1)
    weight = np.ones(len(scores)) if weight is None else weight
    return np.array([weight[cells == k].sum() for k in range(len(levels) + 1)])


def shards(data, scores, *others):
    """The same scores in random order, cut into random pieces."""
    order = np.array(data.draw(st.permutations(range(len(scores)))), dtype=int)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(scores)), max_size=4)))
    pieces = [np.split(part[order], cuts) for part in (scores, *others)]
    return list(zip(*pieces, strict=True))


# -- counting ----------------------------------------------------------------------


@given(positive=positives, scores=samples)
def test_counts_are_those_of_brute_force(positive, scores):
    tails = ScoreTails(positive).update(scores)
    assert tails.counts.dtype == np.int64
    assert np.array_equal(tails.counts, brute_force(positive, scores))
    assert np.array_equal(tails.positive_counts, brute_force(positive, positive))
    assert tails.n == len(scores)
    assert tails.n_positive == len(positive)


@given(positive=positives, scores=samples.filter(len))
def test_survival_is_the_share_at_or_above_each_level(positive, scores):
    tails = ScoreTails(positive).update(scores)
    levels = np.unique(positive)
    assert_allclose(tails.survival, [(scores >= u).mean() for u in levels], rtol=1e-12)
    assert_allclose(tails.positive_survival, [(positive >= u).mean() for u in levels], rtol=1e-12)
    assert tails.positive_survival[0] == 1.0


@given(data=st.data(), positive=positives, scores=samples)
def test_any_sharding_and_order_gives_equal_tails(data, positive, scores):
    whole = ScoreTails(positive).update(scores)
    stream, merged, added = whole.empty(), whole.empty(), whole.empty()
    for (shard,) in shards(data, scores):
        stream.update(shard)
        merged.merge(whole.empty().update(shard))
        added = whole.empty().update(shard) + added
    for other in (stream, merged, added):
        assert other == whole
        assert np.array_equal(other.counts, whole.counts)
        assert other.n == whole.n


@given(data=st.data(), positive=positives, scores=samples)
def test_weights_add_up_in_any_sharding(data, positive, scores):
    usual = st.just(0.0) | st.floats(1e-6, 100)  # weights that are all tiny are refused
    weight = np.array(data.draw(st.lists(usual, min_size=len(scores), max_size=len(scores))))
    whole = ScoreTails(positive).update(scores, weight)
    merged = whole.empty()
    for shard, shard_weight in shards(data, scores, weight):
        merged.merge(whole.empty().update(shard, shard_weight))
    assert merged == whole
    scale = max(1.0, weight.sum())
    assert_allclose(merged.counts, brute_force(positive, scores, weight), rtol=1e-12, atol=1e-12 * scale)
    assert_allclose(merged.n, whole.n, rtol=1e-11)


def test_few_and_many_scores_are_counted_alike():
    # Scores are looked up in the levels or the levels in the scores, whichever is cheaper, and a part of
    # many scores at a time.
    rng = np.random.default_rng(0)
    positive, scores = rng.normal(size=20).round(1), rng.normal(size=2**20 + 5).round(1)
    whole = ScoreTails(positive).update(scores)
    piecewise = whole.empty()
    for piece in np.array_split(scores, 1000):
        piecewise.update(piece)
    assert piecewise == whole
    assert np.array_equal(whole.counts, brute_force(positive, scores))


def test_scores_are_compared_in_float64_whatever_their_type():
    tenth = np.float32(0.1)  # a little above 0.1
    assert ScoreTails([0.1]).update(np.array([tenth])).counts.tolist() == [0, 1]
    assert ScoreTails(np.array([tenth])).update([0.1]).counts.tolist() == [1, 0]
    assert ScoreTails(np.array([tenth])).update(np.array([tenth])).counts.tolist() == [0, 1]
    half = np.float16(0.1)  # a little below
    assert ScoreTails([0.1]).update(np.array([half])).counts.tolist() == [1, 0]


def test_update_leaves_its_input_alone():
    rng = np.random.default_rng(0)
    scores, weight = rng.normal(size=1000), rng.random(1000)
    kept = scores.copy(), weight.copy()
    scores.setflags(write=False)
    weight.setflags(write=False)
    ScoreTails(scores[:20]).update(scores)
    ScoreTails(scores[:20], weight[:20]).update(scores, weight)
    assert np.array_equal(scores, kept[0])
    assert np.array_equal(weight, kept[1])


def test_memory_maps_are_counted_where_they_lie(tmp_path):
    scores = np.random.default_rng(0).normal(size=3000)
    np.save(tmp_path / "scores.npy", scores)
    mapped = np.load(tmp_path / "scores.npy", mmap_mode="r")
    assert ScoreTails(mapped[:50]).update(mapped) == ScoreTails(scores[:50]).update(scores)


def test_a_refused_batch_leaves_the_tails_as_they_were():
    tails = weighted_tails()
    before = tails.copy()
    for batch in (([np.nan], None), ([0.5], [-1.0]), ([0.5], [1.0, 2.0]), ([[0.5]], None)):
        with pytest.raises(DataError):
            tails.update(*batch)
    assert tails == before


# -- weights and sizes -------------------------------------------------------------


def test_the_size_of_weighted_rows_is_kishs():
    weight = np.array([1.0, 2.0, 0.5])
    assert_allclose(weighted_tails().n, weight.sum() ** 2 / (weight**2).sum())
    assert_allclose(ScoreTails([1.0, 2.0, 3.0], weight).n_positive, weight.sum() ** 2 / (weight**2).sum())


def test_rows_without_a_weight_have_weight_one_among_weighted_ones():
    scores, weight = np.array([0.1, 0.5, 0.6]), np.array([1.0, 2.0, 0.5])
    whole = ScoreTails(POSITIVE).update(np.append(scores, [0.3, 0.9]), np.append(weight, [1.0, 1.0]))

    def plain():
        return whole.empty().update([0.3, 0.9])

    def weighted():
        return whole.empty().update(scores, weight)

    for tails in (
        weighted().update([0.3, 0.9]),
        plain().update(scores, weight),
        plain().merge(weighted()),
        weighted().merge(plain()),
    ):
        assert tails.weighted
        assert_allclose(tails.counts, whole.counts, rtol=1e-12)
        assert_allclose(tails.n, whole.n, rtol=1e-12)
        assert tails == whole


def test_a_batch_of_weight_zero_changes_nothing():
    tails = weighted_tails()
    assert tails.copy().update([0.3, 0.7], [0.0, 0.0]) == tails
    assert tails.copy().update([], []) == tails
    assert tails.empty().update([0.3], [0.0]).n == 0.0


def test_copies_divide_the_size_and_nothing_else():
    one, five = ScoreTails(POSITIVE), ScoreTails(POSITIVE, copies=5)
    scores = np.linspace(0, 1, 20)
    one.update(scores)
    for _ in range(5):
        five.update(scores)
    assert five.n == one.n == 20
    assert np.array_equal(five.survival, one.survival)
    assert five.n_positive == one.n_positive
    assert one.empty(copies=5) == five.empty()


# -- equality, copies, emptiness ---------------------------------------------------


def test_equality_needs_the_same_positives_counts_sizes_and_copies():
    tails = ScoreTails(POSITIVE).update([0.3, 0.6])
    assert tails == ScoreTails(POSITIVE[::-1]).update([0.6, 0.3])
    assert tails != ScoreTails(POSITIVE).update([0.3, 0.95])
    assert tails != ScoreTails([0.2, 0.5, 0.9]).update([0.3, 0.6])
    assert tails != ScoreTails(POSITIVE, copies=2).update([0.3, 0.6])
    assert tails != ScoreTails(POSITIVE).update([0.3, 0.3, 0.6, 0.6], [0.9, 0.1, 0.9, 0.1])
    assert tails != "tails"


def test_sums_copies_and_emptied_tails_leave_their_parts_alone():
    a = ScoreTails(POSITIVE, [1.0, 2.0, 1.0, 1.0]).update([0.3])
    b = a.empty().update([0.6, 0.7])
    total, twin, bare = a + b, a.copy(), a.empty()
    assert (a.n, b.n, total.n) == (1, 2, 3)
    assert a + b == b + a
    assert sum([a, b], start=bare) == total
    assert twin == a
    assert (bare.n, bare.n_positive) == (0, a.n_positive)
    for other in (total, twin, bare):
        other.update([0.3])
    assert (a.n, b.n) == (1, 2)
    assert bare == a


def test_merging_tails_with_themselves_doubles_them():
    tails = weighted_tails()
    double = tails + tails
    assert_allclose(double.counts, 2 * tails.counts)
    assert_allclose(double.n, 2 * tails.n)
    assert tails.merge(tails) == double


def test_tails_print_their_sizes():
    assert repr(ScoreTails(POSITIVE).update([0.3])) == "ScoreTails(n_positive=4, levels=3, n=1, copies=1)"


# -- errors ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ScoreTails([]), DataError, "positive_scores must hold at least one score, got none"),
        (lambda: ScoreTails([0.1], copies=0), ParameterError, "copies must be at least 1, got 0"),
        (lambda: ScoreTails([0.1]).empty(copies=0.5), ParameterError, r"copies must be an integer, got 0\.5"),
        (lambda: ScoreTails([0.1], [0.0]), DataError, "weight must not be zero for every row"),
        (lambda: ScoreTails([0.1]).update([np.nan]), DataError, "scores must not hold NaN"),
        (lambda: ScoreTails([0.1]).update([1.0], ["much"]), DataTypeError, "weight must hold numbers"),
        (lambda: ScoreTails([0.1]).survival, DataError, "tails are empty: update them with unlabeled scores"),
        (lambda: ScoreTails([0.1]) + 1, TypeError, "unsupported operand"),
        (lambda: hash(ScoreTails([0.1])), TypeError, "unhashable"),
        *(
            (
                lambda other=other: ScoreTails(POSITIVE).merge(other),
                DataError,
                r"merged only when they count.*empty\(\)",
            )
            for other in (ScoreTails([0.2]), ScoreTails(POSITIVE, copies=2), "tails", None)
        ),
    ],
)
def test_errors_name_argument_rule_and_value(make, error, words):
    with pytest.raises(error, match=words):
        make()


# -- threads and bounds ----------------------------------------------------------------------


@pytest.mark.parametrize("way", ["update", "weighted", "merge"])
def test_threads_that_share_tails_lose_no_count(way):
    rng = np.random.default_rng(0)
    tails, scores = ScoreTails(rng.normal(1, 1, 300)), rng.normal(0, 1, 500)
    shard = tails.empty().update(scores)

    def count():
        for _ in range(40):
            if way == "merge":
                tails.merge(shard)
            else:
                tails.update(scores, np.ones(500) if way == "weighted" else None)

    threads = [threading.Thread(target=count) for _ in range(8)]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert tails.counts.sum() == 8 * 40 * 500
    assert tails.n == pytest.approx(8 * 40 * 500)


def test_counts_that_would_wrap_are_refused_and_leave_the_tails_as_they_were():
    tails = ScoreTails([0.0, 1.0]).update([0.5])
    record = tails.record()
    full = replace(record, counts=np.array([0, 2**61, 2**61])).tails()
    before = full.counts.copy()
    with pytest.raises(DataError, match="rows can be counted"):
        full.merge(tails.empty().update([0.5, 0.7]))
    assert (full.counts == before).all()
    for counts in ([2**63 - 1, 1, 1], [2**62, 2**62, 0]):
        with pytest.raises(DataError, match="add up"):
            replace(record, counts=np.array(counts))


def test_a_function_of_counts_is_computed_once_until_they_change():
    calls = []

    @remembered
    def size(tails, more=None):
        calls.append(more)
        return tails.n + (more or 0)

    tails = ScoreTails([1.0, 2.0]).update([0.0, 1.5])
    assert size(tails) == size(tails) == size(tails.copy()) == 2
    assert size(tails, 0.5) == size(tails, more=0.5) == 2.5
    assert calls == [None, 0.5]
    copy = tails.copy()
    assert size(tails.update([3.0])) == 3
    assert size(copy) == 2
    assert calls == [None, 0.5, None]
    assert size(ScoreTails([1.0, 2.0]).update([0.0, 1.5])) == 2  # other tails keep their own results
    assert calls == [None, 0.5, None, None]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")  # that is what is tested
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_can_count_although_the_parent_was_counting():
    tails = ScoreTails([1.0, 2.0])
    with tails._lock:
        child = os.fork()
        if child == 0:
            tails.update([1.5])
            os._exit(int(tails.n))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


# -- records, pickles and copies ----------------------------------------------------------------

KEEPERS = {
    "record": lambda t: t.record().tails(),
    "pickle": lambda t: pickle.loads(pickle.dumps(t)),
    "file": lambda t: decode(*encode(t.record()), type(t.record())).tails(),
    "deepcopy": copy.deepcopy,
}
TAILS = {
    "empty": lambda: ScoreTails(POSITIVE),
    "counts": lambda: ScoreTails(POSITIVE, copies=3).update([0.1, 0.5, 0.95]),
    "weights": weighted_tails,
    "weighted positives": lambda: ScoreTails(POSITIVE, [1.0, 0.0, 2.0, 0.5]).update([0.3]),
    "infinite": lambda: ScoreTails([-np.inf, np.inf]).update([0.0, np.inf]),
}


@pytest.mark.parametrize("keep", KEEPERS)
@pytest.mark.parametrize("make", TAILS)
def test_kept_tails_are_equal_and_go_on_counting(keep, make):
    tails = TAILS[make]()
    kept = KEEPERS[keep](tails)
    assert kept == tails
    assert (kept.n, kept.n_positive, kept.copies) == (tails.n, tails.n_positive, tails.copies)
    kept.update([0.4])
    assert kept != tails
    assert kept == tails.update([0.4])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"levels": np.array([0.2, 0.9, 0.5])}, "levels of tails must ascend"),
        ({"levels": np.array([0.2, 0.5, 0.5])}, "levels of tails must ascend"),
        ({"levels": np.array([0.2, np.inf, np.inf])}, "levels of tails must ascend"),
        ({"levels": np.array([0.2, 0.5])}, "positive_counts must have one more cell than levels, 3"),
        ({"levels": np.array([])}, "there must be one"),
        ({"counts": np.array([1, 1, 1])}, "counts must have one more cell than levels, 4"),
        ({"counts": np.array([1, -1, 0, 0])}, "counts must be finite numbers that are not negative"),
        ({"counts": np.array([1.0, np.nan, 0, 0])}, "counts must be finite"),
        ({"counts": np.array([1.0, 1.0, 0, 0])}, "counts and weight_squares of tails do not agree"),
        ({"positive_counts": np.array([1, 1, 1, 1])}, "positive_counts and n_positive of tails do not agree"),
        ({"positive_counts": np.array([0, 0, 0, 0])}, "positive_counts and n_positive of tails do not agree"),
        ({"n_positive": 5.0}, "positive_counts and n_positive of tails do not agree"),
        ({"columns": np.array([1, 2**62])}, "must not have more rows than are counted"),
        ({"columns": np.array([1, -1])}, "columns"),
        ({"n_positive": 0.0}, "n_positive"),
        ({"copies": 0}, "copies"),
        ({"weight_squares": -1.0}, "weight_squares"),
    ],
)
def test_counts_that_do_not_agree_are_not_written(damage, words):
    record = ScoreTails(POSITIVE).update([0.1, 0.5], columns=np.array([1, 1])).record()
    with pytest.raises((DataError, ArtifactError), match=words):
        encode(replace(record, **damage))
