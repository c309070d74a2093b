"""Files of every past schema keep loading and score as they did when they were written."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from drpu import load

FOLDER = Path(__file__).parent / "schemas"
SCHEMAS = sorted(path.name for path in FOLDER.iterdir())
FILES = [(schema, path.stem) for schema in SCHEMAS for path in sorted((FOLDER / schema).glob("*.drpu"))]


@pytest.fixture(scope="module")
def answers():
    return {schema: json.loads((FOLDER / schema / "answers.json").read_text()) for schema in SCHEMAS}


@pytest.mark.parametrize(("schema", "name"), FILES, ids=["-".join(file) for file in FILES])
def test_old_files_score_as_when_they_were_written(answers, schema, name):
    rows, written = np.array(answers[schema]["rows"]), answers[schema]["files"][name]
    classifier = load(FOLDER / schema / f"{name}.drpu")
    assert type(classifier).__name__ == written["class"]
    assert classifier.prior_.value == written["prior"]
    assert_allclose(classifier.decision_function(rows), written["scores"], rtol=1e-6, atol=1e-6)
    assert_array_equal(classifier.predict(rows), written["labels"])


@pytest.mark.parametrize(
    ("schema", "name"), [f for f in FILES if f[1] in ("kernel", "auto", "adapted")], ids="-".join
)
def test_old_files_adapt(answers, schema, name):
    rows = np.array(answers[schema]["test"])
    classifier = load(FOLDER / schema / f"{name}.drpu")
    adapted = classifier.adapt(rows)
    assert adapted.train_prior_ == classifier.train_prior_
    assert adapted.test_prior_.low <= adapted.test_prior_.value <= adapted.test_prior_.high
