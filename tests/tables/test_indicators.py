"""Codes become indicator columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from drpu._codec import decode, encode
from drpu.exceptions import ArtifactError
from drpu.tables.encoder import Indicators

codes = st.lists(st.integers(0, 6), min_size=1, max_size=30)


@given(train=codes, new=codes)
def test_a_row_has_one_in_the_column_of_its_code_and_nowhere_else(train, new):
    rows = np.column_stack([np.arange(len(train)), train]).astype(float)
    indicators = Indicators.of(rows, [1])
    out = indicators(np.column_stack([np.zeros(len(new)), new]).astype(float))
    assert out.shape == (len(new), indicators.n_out) == (len(new), 1 + len(set(train)))
    expected = np.equal.outer(new, sorted(set(train)))
    assert_array_equal(out[:, 1:], expected)  # a code that training did not have is 0 everywhere


def test_beyond_the_most_frequent_codes_the_rest_share_a_column():
    rows = np.array([[0.0]] * 5 + [[1.0]] * 4 + [[2.0]] * 3 + [[3.0]])
    indicators = Indicators.of(rows, [0], most=2)
    assert indicators(np.array([[0.0], [1.0], [2.0], [3.0], [9.0]])).tolist() == [
        [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]
    ]  # fmt: skip
    assert decode(*encode(indicators), Indicators) == indicators


@pytest.mark.parametrize(
    "damage",
    [{"categories": [5]}, {"categories": [0, 0]}, {"codes": [[2, 1]]}, {"codes": [[]]}, {"rest": []}],
)
def test_a_damaged_file_is_refused(damage):
    tree, arrays, blobs = encode(Indicators.of(np.array([[0.0], [1.0]]), [0]))
    tree["fields"] |= damage
    with pytest.raises(ArtifactError):
        decode(tree, arrays, blobs, Indicators)
