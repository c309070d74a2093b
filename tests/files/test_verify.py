"""verify makes the checks of load, and says what a file contains."""

import hashlib
import json
from dataclasses import replace

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from drpu import (
    DRPUClassifier,
    KernelRatio,
    UPUClassifier,
    load,
    make_gaussian_pu,
    save,
    verify,
)
from drpu.exceptions import ArtifactError


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(100, 300, prior=0.4, separation=3, random_state=0)


@pytest.fixture(scope="module")
def classifier(data):
    model = KernelRatio(width=1.0, ridge=0.1, n_centres=10)
    return DRPUClassifier(model, holdout=2, random_state=0).fit(*data.X_y())


@pytest.fixture
def path(classifier, tmp_path):
    save(classifier, tmp_path / "a.drpu")
    return tmp_path / "a.drpu"


def test_what_is_found_can_be_asked_of_load(path):
    found = verify(path)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found.bytes == path.stat().st_size
    assert found.kind == "DRPUClassifier"
    assert json.loads(json.dumps(found.as_dict())) == found.as_dict()
    load(path, expected_sha256=found.sha256)


def test_every_kind_of_classifier_is_verified(classifier, data, tmp_path):
    X, y = data.X_y()
    others = [
        classifier.at_prior(0.2),
        UPUClassifier("linear", prior=0.4, random_state=0).fit(X, y),
        DRPUClassifier("classifier", holdout=2, random_state=0).fit(X, y),
        DRPUClassifier(holdout=2, random_state=0).fit(X, y),
    ]
    for other in others:
        save(other, tmp_path / "b")
        assert verify(tmp_path / "b", trusted=True).kind == type(other).__name__


def test_contents_are_named(data, path, tmp_path):
    assert verify(path).contents["scores"].startswith("the score of every held-out positive")
    scaled = make_pipeline(MinMaxScaler(), LogisticRegression())
    clf = DRPUClassifier(scaled, holdout=2, random_state=0).fit(*data.X_y())
    with pytest.raises(ArtifactError, match=r"MinMaxScaler \(values of training rows\)"):
        save(clf, tmp_path / "b")
    save(clf, tmp_path / "b", keep_rows=True)
    contents = verify(tmp_path / "b", trusted=True).contents
    assert contents["values_of_rows"] == {"MinMaxScaler": "values of training rows"}


def test_a_summary_prints_itself_and_escapes_texts_of_the_file(path):
    summary = verify(path)
    for part in (summary.sha256, summary.kind, "the score of every held-out positive"):
        assert part in str(summary)
    hostile = replace(summary, contents={"category_levels": {"\x1b[31m\u202e": 3}})
    assert all(character.isprintable() or character == "\n" for character in str(hostile))
