"""save, load, verify and inspect_file over records: one decoding, and trust for estimators of others."""

import hashlib
import re
import threading
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

import drpu
from codec_laws import check_kept, edits, same
from drpu._codec import KINDS, Array, Items, Kept, Number, encode, kept, rules_of
from drpu._typing import FloatArray
from drpu.exceptions import ArtifactError, DataError, DataTypeError, MissingExtraError, ParameterError
from drpu.files.archive import write_archive
from drpu.files.store import KIND_MODULES, inspect_file, load, save, verify
from drpu.state.record import Record, record_of


@kept("test-lines")
@dataclass(frozen=True)
class Lines(Kept):
    weights: Annotated[FloatArray, Array("md")]

    def __post_init__(self):
        if self.weights.size == 0:
            raise DataError("weights must have a row and a column.")

    @cached_property
    def mean(self):
        return self.weights.mean(axis=0)


@kept("test-steps")
@dataclass(frozen=True)
class Steps(Kept):
    archive: bytes


@kept("test-classifier")
@dataclass(frozen=True)
class LinesRecord(Record):
    lines: Lines
    share: Annotated[float, Number(0, 1)]
    names: Annotated[tuple[str, ...], Items(high=9)]
    steps: Steps | None = None
    kept_rows: dict[str, str] | None = None

    def classifier(self, module=None):
        if self.share == 0.125:
            raise ParameterError("share must not be an eighth.")
        if self.share == 0.25:
            raise MissingExtraError("torch is not installed.")
        return LinesClassifier(self)

    def facts(self):
        return {"values_of_rows": self.kept_rows or {}, "columns": len(self.names)}

    def trial(self, classifier):
        return classifier.decision_function(np.stack([np.zeros(2), np.ones(2)]))


class LinesClassifier:
    def __init__(self, record):
        self.fitted = record
        self.n_features_in_ = record.lines.weights.shape[1]

    def record(self):
        return self.fitted

    def decision_function(self, X):
        scores = X @ self.fitted.lines.mean + self.fitted.share
        return scores * np.nan if self.fitted.names == ("broken",) else scores


def classifier(**values):
    lines = Lines(np.random.default_rng(0).normal(size=(3, 2)))
    return LinesClassifier(replace(LinesRecord(lines, 0.5, ("a", "b")), **values))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.drpu"


@pytest.fixture
def foreign(path):
    """A file that holds estimators of another library."""
    save(classifier(steps=Steps(b"PK" * 100)), path)
    return path


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def rewritten(path, encoded):
    """Write any encoded object with right digests."""
    with open(path, "wb") as file:
        write_archive(file, encoded, {})


def test_a_saved_classifier_comes_back_as_it_was(path):
    save(classifier(), path)
    found = load(path)
    assert same(found.record(), classifier().record())
    assert (found.decision_function(np.eye(2)) == classifier().decision_function(np.eye(2))).all()
    first = path.read_bytes()
    save(found, path)
    assert path.read_bytes() == first


def test_verify_and_inspect_decode_the_same_record(path):
    save(classifier(), path)
    found = verify(path)
    assert (found.kind, found.schema, found.estimators) == ("test-classifier", 1, False)
    assert (found.sha256, found.bytes) == (digest(path), path.stat().st_size)
    assert found.contents == {"values_of_rows": {}, "columns": 2}
    assert found.as_dict()["versions"]["drpu"] == drpu.__version__
    again, record = inspect_file(path)
    assert again == found
    assert same(record, classifier().record())


def test_verify_accepts_what_load_accepts_and_nothing_else_is_raised(path):
    read = 0
    for encoded in edits(encode(classifier().record())):
        try:
            rewritten(path, encoded)
        except Exception:  # an edit that no file can hold
            continue
        try:
            verify(path)
        except ArtifactError:
            with pytest.raises(ArtifactError):
                load(path)
        else:
            load(path)
            read += 1
    assert read > 10


def test_a_record_that_makes_no_classifier_is_an_artifact_error(path):
    rewritten(path, encode(classifier(share=0.125).record()))
    with pytest.raises(ArtifactError, match="cannot be read as a drpu artifact: share must not"):
        load(path)
    rewritten(path, encode(classifier(share=0.25).record()))
    with pytest.raises(MissingExtraError):
        load(path)


def test_a_classifier_that_cannot_score_two_rows_is_refused(path):
    rewritten(path, encode(classifier(names=("broken",)).record()))
    verify(path)
    with pytest.raises(ArtifactError, match="cannot score rows"):
        load(path)


def test_an_object_that_is_no_record_is_refused(path):
    rewritten(path, encode(Lines(np.eye(2))))
    for read in (load, verify, inspect_file):
        with pytest.raises(ArtifactError, match=r"must be an object of \['Record'\]"):
            read(path)


def test_only_classifiers_are_saved(path):
    with pytest.raises(DataTypeError, match="classifier of drpu, got dict"):
        save({}, path)
    assert not path.exists()


def test_other_classes_register_their_record(path):
    class Around:
        n_features_in_ = 2

    record_of.register(Around, lambda around: classifier().record())
    assert same(record_of(Around()), classifier().record())


def test_models_that_keep_rows_are_refused_unless_asked_for(path):
    kept_rows = classifier(kept_rows={"Neighbours": "training rows"})
    with pytest.raises(ArtifactError, match=r"Neighbours \(training rows\).*keep_rows=True"):
        save(kept_rows, path)
    assert not path.exists()
    save(kept_rows, path, keep_rows=True)
    assert verify(path).contents["values_of_rows"] == {"Neighbours": "training rows"}


def test_the_permission_to_keep_rows_is_true_or_false(path):
    with pytest.raises(ParameterError, match="keep_rows must be True or False"):
        save(classifier(), path, keep_rows="no")
    assert not path.exists()


def test_a_file_that_does_not_reproduce_the_scores_is_not_written(path, monkeypatch):
    path.write_text("before")
    other = classifier()
    other.decision_function = lambda X: np.ones(2)
    with pytest.raises(ArtifactError, match="does not reproduce the scores"):
        save(other, path)
    assert path.read_text() == "before"


# -- trust -------------------------------------------------------------------------------------


def test_estimators_of_others_need_trust_and_the_error_names_the_ways(foreign):
    for read in (load, verify):
        with pytest.raises(ArtifactError, match=r"expected_sha256=.*trusted=True"):
            read(foreign)


def test_trust_is_a_word_or_a_digest(foreign):
    steps = Steps(b"PK" * 100)
    for way in ({"trusted": True}, {"expected_sha256": digest(foreign)}):
        assert same(load(foreign, **way).record().steps, steps)
        assert verify(foreign, **way).estimators
    with pytest.raises(ParameterError, match="trusted must be True or False"):
        load(foreign, trusted=1)


def test_a_wrong_digest_is_no_trust(foreign):
    with pytest.raises(ArtifactError, match="not the file that was expected"):
        load(foreign, expected_sha256="0" * 64)
    with pytest.raises(ParameterError, match="expected_sha256"):
        load(foreign, expected_sha256="é" * 64)


def test_without_trust_estimators_are_not_even_read(foreign):
    content = bytearray(foreign.read_bytes())
    at = content.index(b"PK" * 50)
    content[at : at + 4] = b"XXXX"
    foreign.write_bytes(content)
    found, record = inspect_file(foreign)
    assert found.estimators
    assert record.steps.archive == b""
    with pytest.raises(ArtifactError, match="cannot be read"):
        load(foreign, trusted=True)


def test_bytes_of_any_name_need_trust_and_belong_to_their_place(path):
    encoded = encode(classifier(steps=Steps(b"x")).record())
    rewritten(path, encoded._replace(blobs={"other": b"x"}))
    with pytest.raises(ArtifactError, match="trusted=True"):
        load(path)
    with pytest.raises(ArtifactError, match=r"steps\.archive: must be bytes"):
        load(path, trusted=True)


# -- files -------------------------------------------------------------------------------------


def test_the_file_is_read_once(path, monkeypatch):
    save(classifier(), path)
    opened = []
    real = open

    def counted(name, *args, **options):
        opened.append(str(name))
        return real(name, *args, **options)

    monkeypatch.setattr("drpu.files.archive.open", counted, raising=False)
    load(path, expected_sha256=digest(path))
    assert opened == [str(path)]


def test_sizes_are_bounded(path):
    save(classifier(), path)
    with pytest.raises(ArtifactError, match="max_bytes"):
        load(path, max_bytes=path.stat().st_size - 1)
    with pytest.raises(ParameterError, match="max_bytes"):
        verify(path, max_bytes=0)


def test_loading_in_threads_leaves_the_filters_of_warnings_alone(path):
    save(classifier(), path)
    before = list(warnings.filters)
    threads = [threading.Thread(target=lambda: [load(path) for _ in range(10)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before


# -- kinds -------------------------------------------------------------------------------------


def test_every_module_that_declares_a_kind_is_imported_before_a_file_is_read():
    source = Path(drpu.__file__).parent
    others = {"drpu.scale.monitor"}  # read by itself
    declaring = {
        ".".join(("drpu", *file.relative_to(source).with_suffix("").parts))
        for file in source.rglob("*.py")
        if re.search(r"^@kept\(", file.read_text(), re.MULTILINE)
    }
    assert declaring - others == set(KIND_MODULES)


def test_every_kind_is_one_frozen_dataclass_with_rules():
    for name in KIND_MODULES:
        import_module(name)
    declared = [
        kind
        for file in Path(drpu.__file__).parent.rglob("*.py")
        for kind in re.findall(r"^@kept\(\"(.+)\"\)", file.read_text(), re.MULTILINE)
    ]
    assert len(set(declared)) == len(declared)
    for cls in KINDS.values():
        rules_of(cls)
        assert vars(cls)["__dataclass_params__"].frozen


def test_records_keep_the_laws_of_kept_objects():
    assert check_kept(classifier(steps=Steps(b"x")).record())
