"""verify makes the checks of load, and a signature proves who wrote a file."""

import hashlib
import json
import os
import stat

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
    make_keys,
    save,
    sign,
    verify,
)
from drpu.exceptions import ArtifactError, ParameterError


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
    assert not found.signed
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


def test_contents_are_named(classifier, data, path, tmp_path):
    assert verify(path).contents["scores"].startswith("the score of every held-out positive")
    save(classifier, path, levels=20)
    assert verify(path).contents["scores"].startswith("quantiles")
    scaled = make_pipeline(MinMaxScaler(), LogisticRegression())
    clf = DRPUClassifier(scaled, holdout=2, random_state=0).fit(*data.X_y())
    with pytest.raises(ArtifactError, match=r"MinMaxScaler \(values of training rows\)"):
        save(clf, tmp_path / "b")
    save(clf, tmp_path / "b", keep_rows=True)
    contents = verify(tmp_path / "b", trusted=True).contents
    assert contents["values_of_rows"] == {"MinMaxScaler": "values of training rows"}


@pytest.fixture
def keys(tmp_path):
    pytest.importorskip("cryptography", reason="part of the sign extra")
    make_keys(tmp_path / "key.pem", tmp_path / "key.pub.pem")
    return tmp_path / "key.pem", tmp_path / "key.pub.pem"


def test_a_signature_holds_for_one_file_and_one_key(path, keys, tmp_path):
    private, public = keys
    assert sign(path, private) == tmp_path / "a.drpu.sig"
    assert verify(path, public_key=public).signed
    make_keys(tmp_path / "other.pem", tmp_path / "other.pub.pem")
    with pytest.raises(ArtifactError, match="does not belong"):
        verify(path, public_key=tmp_path / "other.pub.pem")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ArtifactError, match="does not belong"):
        verify(path, public_key=public)


def test_a_signature_can_lie_elsewhere(path, keys, tmp_path):
    sign(path, keys[0], signature=tmp_path / "s")
    assert verify(path, signature=tmp_path / "s", public_key=keys[1]).signed
    with pytest.raises(FileNotFoundError):
        verify(path, public_key=keys[1])
    with pytest.raises(ParameterError, match="public_key"):
        verify(path, signature=tmp_path / "s")


def test_foreign_keys_and_signatures_are_refused(path, keys, tmp_path):
    private, public = keys
    sign(path, private)
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(ArtifactError, match="not a public key"):
        verify(path, public_key=tmp_path / "junk")
    with pytest.raises(ArtifactError, match="not a signature"):
        verify(path, signature=tmp_path / "junk", public_key=public)
    with pytest.raises(ArtifactError, match="not a private key"):
        sign(path, public)


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_a_private_key_is_its_owners_and_is_never_replaced(keys, tmp_path):
    assert stat.S_IMODE(keys[0].stat().st_mode) == 0o600
    with pytest.raises(ParameterError, match="must be new"):
        make_keys(keys[0], tmp_path / "again")
