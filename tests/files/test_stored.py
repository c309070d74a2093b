"""Files of each schema are read as they were written."""

import json

import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.stored import FOLDER, records

from drpu import load, verify

STORED = sorted(FOLDER.glob("*.drpu"))


def test_there_is_a_stored_file_of_every_schema():
    schemas = {verify(path).schema for path in STORED}
    assert schemas == set(range(1, max(schemas) + 1))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_file_gives_the_labels_that_it_gave(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    classifier = load(path)
    rows = records()[0][:40]
    assert_allclose(classifier.predict_proba(rows)[:, 1], expected["probability"], rtol=1e-6, atol=1e-9)
    assert_array_equal(classifier.predict(rows), expected["label"])
    assert_allclose(classifier.prior_.value, expected["prior"], rtol=1e-9)
