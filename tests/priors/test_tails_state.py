"""Tails are restored from records, pickles and copies; damaged records are refused."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

from drpu._codec import decode, encode
from drpu.exceptions import ArtifactError, DataError
from drpu.priors.tails import ScoreTails, TailsRecord
from tails_data import POSITIVE, weighted_tails

KEEPERS = {
    "record": lambda t: t.record().tails(),
    "pickle": lambda t: pickle.loads(pickle.dumps(t)),
    "file": lambda t: decode(*encode(t.record()), TailsRecord).tails(),
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


def test_a_record_does_not_change_when_counting_goes_on():
    tails = ScoreTails(POSITIVE).update([0.3])
    record = tails.record()
    restored = record.tails()
    tails.update([0.3])
    assert restored.n == record.tails().n == 1


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
    ],
)
def test_counts_that_do_not_agree_are_no_record(damage, words):
    record = ScoreTails(POSITIVE).update([0.1, 0.5], columns=np.array([1, 1])).record()
    with pytest.raises(DataError, match=words):
        replace(record, **damage)


@pytest.mark.parametrize(
    "damage", [{"n_positive": 0.0}, {"copies": 0}, {"weight_squares": -1.0}, {"columns": np.array([1, -1])}]
)
def test_numbers_outside_of_their_rules_are_not_written(damage):
    record = ScoreTails(POSITIVE).update([0.1, 0.5], columns=np.array([1, 1])).record()
    with pytest.raises(ArtifactError, match=next(iter(damage))):
        encode(replace(record, **damage))
