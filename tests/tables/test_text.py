"""Free text becomes a few numbers; words are kept as hashes only."""

import json
import math
from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from codec_laws import check_kept
from drpu._codec import encode
from drpu.tables.encoder import TableEncoder, fixed_cells
from drpu.tables.frames import read_frame
from drpu.tables.summaries import TableSummary
from drpu.tables.text import _shape

DIRECTIONS = 50  # columns that the words of a text are reduced to
WORDS = {
    1: ["refund", "chargeback", "stolen", "card", "dispute", "unauthorised", "fraud", "claim"],
    0: ["delivery", "parcel", "size", "colour", "exchange", "invoice", "thanks", "address"],
}
SHARED = ["hello", "order", "number", "please", "today", "account", "payment", "question"]


def letters(n, seed):
    """A frame with letters and numbers, and what the letters are about."""
    rng = np.random.default_rng(seed)
    about = (rng.random(n) < 0.5).astype(int)
    notes = [
        " ".join([*rng.choice(WORDS[k], 4), *rng.choice(SHARED, 6), f"no {i}"]) for i, k in enumerate(about)
    ]
    return pd.DataFrame({"note": notes, "amount": rng.normal(size=n)}), about


@pytest.fixture(scope="module")
def encoder():
    return TableEncoder.fit([read_frame(letters(300, 0)[0])])[0]


def test_different_strings_with_spaces_are_text(encoder):
    text, amount = encoder.columns
    assert (text.kind, amount.kind) == ("text", "number")
    assert text.width == DIRECTIONS + 4
    assert encoder.width == len(encoder.sources) == len(fixed_cells(encoder, encoder.width)) == text.width + 1
    city = pd.DataFrame({"city": ["New York", "San Jose"] * 20})
    assert TableEncoder.fit([read_frame(city)])[0].used[0].kind == "category"


def test_a_direction_tells_what_new_letters_are_about(encoder):
    frame, about = letters(400, 1)
    rows = encoder.transform(read_frame(frame))
    found = [roc_auc_score(about, rows[:, k]) for k in range(3)]
    assert max(abs(auc - 0.5) for auc in found) > 0.45


def test_each_text_is_read_alone_in_every_library(encoder):
    frame, _ = letters(60, 2)
    whole = encoder.transform(read_frame(frame))
    for part in (frame.iloc[::-1], pl.from_pandas(frame)[::-1]):
        assert_array_equal(encoder.transform(read_frame(part)), whole[::-1])
    alone = [encoder.transform(read_frame(frame.iloc[[k]])) for k in range(60)]
    assert_array_equal(np.concatenate(alone), whole)


def test_any_order_and_division_gives_the_same_encoder(encoder):
    frame, _ = letters(300, 0)
    mixed = frame.sample(frac=1, random_state=1)
    assert TableEncoder.fit([read_frame(mixed)])[0] == encoder
    assert TableEncoder.fit([read_frame(mixed.iloc[:70]), read_frame(mixed.iloc[70:])])[0] == encoder
    parts = [TableSummary.of(read_frame(mixed.iloc[k::7]), (k,)) for k in range(7)]
    assert TableEncoder.of_summaries(reduce(add, parts).columns) == encoder


def test_texts_without_known_words_and_missing_ones_have_no_direction(encoder):
    frame = pd.DataFrame({"note": [None, "", " ", "zzz qqq", np.nan], "amount": 0.0})
    rows = encoder.transform(read_frame(frame))
    assert_array_equal(rows[:, :DIRECTIONS], 0.0)
    assert_array_equal(rows[[0, 1, 2, 4], DIRECTIONS:], 0.0)
    assert rows[3, DIRECTIONS] == pytest.approx(np.log(7))
    assert np.isfinite(rows).all()


def test_the_shape_of_a_text_is_its_length_and_shares_of_characters(encoder):
    frame = pd.DataFrame({"note": ["AB 12 c!"], "amount": 0.0})
    shape = encoder.transform(read_frame(frame))[0, DIRECTIONS:-1]
    assert_allclose(shape, [np.log(7), 2 / 6, 2 / 6, 1 / 6])


def test_texts_of_words_that_never_repeat_keep_their_shape_only():
    frame = pd.DataFrame({"note": [f"{chr(97 + k) * 5} {chr(65 + k) * 5}x{k}" for k in range(25)]})
    encoder, rows = TableEncoder.fit([read_frame(frame)])
    assert len(encoder.columns[0].words) == 0
    assert rows.shape == (25, 4)


def test_memory_is_bounded_whatever_the_texts(monkeypatch):
    monkeypatch.setattr("drpu.tables.text.MOST_WORDS", 40)
    monkeypatch.setattr("drpu.tables.text.CHUNK", 7)
    frame, _ = letters(100, 3)
    encoder, rows = TableEncoder.fit([read_frame(frame)])
    words, directions = encoder.columns[0].directions.shape
    assert words == 40
    assert directions <= words
    monkeypatch.undo()
    assert_array_equal(encoder.transform(read_frame(frame)), rows)  # chunks do not matter


def test_the_plan_is_plain_data_without_words(encoder):
    plan = encoder.columns[0]
    check_kept(plan)
    tree, arrays, _ = encode(plan)
    kept = json.dumps(tree).encode() + b"".join(array.tobytes() for array in arrays.values())
    assert not [word for word in [*WORDS[0], *WORDS[1], *SHARED] if word.encode() in kept]
    assert encoder.kept_values() == {}


def test_words_of_fewer_than_five_texts_are_not_kept():
    frame, _ = letters(100, 4)
    secret = frame.assign(
        note=[f"{note} geheimnis" if k < 4 else note for k, note in enumerate(frame["note"])]
    )
    plans = [TableEncoder.fit([read_frame(f)])[0].columns[0] for f in (frame, secret)]
    assert_array_equal(plans[0].words, plans[1].words)


def test_contributions_of_directions_are_added_up(encoder):
    values = np.ones((3, encoder.width + 1))
    assert_array_equal(encoder.by_column(values), [[DIRECTIONS + 4, 1, 1]] * 3)


def test_directions_of_few_words_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    words = ["late", "parcel", "refund", "broken", "again", "thanks", "order", "twice", "cold", "wrong"]
    texts = [" ".join(rng.choice(words, rng.integers(2, 9))) for _ in range(2000)]
    frame = read_frame(pd.DataFrame({"note": texts}))
    encoded = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            encoder, rows = TableEncoder.fit([frame])
        encoded.append(rows)
    np.testing.assert_array_equal(*encoded)
    (column,) = encoder.columns
    assert column.directions.shape[1] <= np.linalg.matrix_rank(encoded[0][:, :-4])


@given(st.text(max_size=60) | st.text(st.characters(codec="ascii"), max_size=60))
def test_the_shape_of_a_text_counts_its_characters(text):
    length = sum(not character.isspace() for character in text)
    digits = sum(map(str.isdigit, text))
    capitals = sum(map(str.isupper, text))
    punctuation = length - sum(map(str.isalnum, text))
    expected = [math.log1p(length)]
    expected += [count / max(1, length) for count in (digits, capitals, punctuation)]
    assert _shape(text) == expected
