"""Summaries of parts give the encoder of the whole table, whatever the parts are."""

import warnings
from dataclasses import fields
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from tables_data import CONTAINERS, IDENTIFIERS, KINDS, N, claims

from drpu.exceptions import DataTypeError, IdColumnWarning
from drpu.tables.encoder import Indicators, TableEncoder
from drpu.tables.frames import read_frame, take_frame
from drpu.tables.summaries import TableSummary, summarize


def parts_of(frame, cuts):
    ends = [0, *sorted(cuts), len(frame)]
    return [read_frame(take_frame(frame, np.arange(a, b))) for a, b in pairwise(ends)]


def facts(plan):
    return {field.name: getattr(plan, field.name) for field in fields(plan)}


def summary(frame, cuts=()):
    """The sum of the summaries of the parts between the cuts, the last part first."""
    found = [TableSummary.of(part, (k, 0)) for k, part in enumerate(parts_of(frame, cuts))]
    return reduce(add, found[::-1]).columns


def both(frame, cuts=(), **options):
    """The encoder of the whole frame, and that of the summaries, with their warnings."""
    encoders, notices = [], []
    for make in (
        lambda: TableEncoder.fit([read_frame(frame)], **options)[0],
        lambda: TableEncoder.of_summaries(summary(frame, cuts), **options),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            encoders.append(make())
        notices.append([str(w.message) for w in caught])
    assert notices[0] == notices[1]
    return encoders


@pytest.mark.parametrize("container", [lambda frame: frame, *CONTAINERS[:-1]])
def test_parts_of_a_table_give_the_encoder_of_the_whole(container):
    whole, parts = both(container(claims()), (0, 17, 17, 80))
    assert parts == whole
    assert [facts(plan) for plan in parts.columns] == [facts(plan) for plan in whole.columns]


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, N), max_size=6))
def test_every_division_gives_the_same_encoder(cuts):
    whole, parts = both(claims(), cuts, expand=True)
    assert parts == whole
    assert isinstance(parts.indicators, Indicators)


COLUMNS = [values for values, _ in IDENTIFIERS]
COLUMNS += [pd.Series(values, dtype=object) for values, _ in KINDS]
COLUMNS += [[*range(20, 40), *range(20)], pd.Series([*range(39), None], dtype="Int64"), ["1"] * 39 + ["x"]]


@pytest.mark.parametrize("values", COLUMNS)
def test_the_rules_of_a_column_are_those_of_a_whole_table(values):
    frame = pd.DataFrame({"x": values, "other": 0.0})
    whole, parts = both(frame, (1, 2, 13, 30))
    assert parts == whole


def test_strange_values_are_refused_by_name():
    odd = pd.DataFrame({"odd": pd.Series([1j, 2] * 20, dtype=object)})
    with pytest.raises(DataTypeError, match="'odd' holds a complex"):
        TableEncoder.of_summaries(summary(odd, (9,)))
    with pytest.raises(DataTypeError, match="'x' holds a list"):
        summary(pd.DataFrame({"x": [[1], [2]]}))
    types = [TableSummary.of(read_frame(pd.DataFrame({"x": x}))) for x in ([1.0, 2.0], ["a", "b"])]
    with pytest.raises(DataTypeError, match="'x' holds number and values in different partitions"):
        TableEncoder.of_summaries((types[0] + types[1]).columns)


def test_memory_is_bounded_and_frequent_levels_survive():
    rng = np.random.default_rng(0)
    n = 6000
    frequent = rng.choice([f"common{k}" for k in range(8)], n)
    values = np.where(rng.random(n) < 0.5, frequent, [f"rare{k}" for k in range(n)])
    parts = parts_of(pd.DataFrame({"x": values}), range(500, n, 500))
    found = reduce(add, (summarize("x", part.column(0), (0, k), most=64) for k, part in enumerate(parts)))
    assert len(found.levels) <= 64
    assert len(found.sample) == 64
    true = pd.Series(values).value_counts()
    for k in range(8):  # too low by at most one row in 64
        assert 0 <= true[f"common{k}"] - found.levels[f"common{k}"] <= n / 64
    # the 64 smallest of so many hashes give their number with a standard error of an eighth
    assert abs(found.different / len(true) - 1) < 0.5


def test_an_identifier_of_many_rows_is_recognised():
    frame = pd.DataFrame({"id": [f"C{k:07d}" for k in range(40_000)], "x": 0.0})
    with pytest.warns(IdColumnWarning, match="'id'"):
        encoder = TableEncoder.of_summaries(summary(frame, (10_000, 30_000)))
    assert encoder.left_out == ("id",)
    rows = encoder.transform(read_frame(frame.iloc[:5]))
    assert_array_equal(rows, np.zeros((5, 1)))
