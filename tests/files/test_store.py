"""save, load, verify and inspect_file: one decoding, and trust for estimators of others."""

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from changed_files import rewrite, setting
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from tests.stored import FOLDER, output_of, prior_of, rows_of
from torch import nn

import drpu
from codec_laws import same
from drpu import (
    BoostedRatio,
    DRPUClassifier,
    KernelRatio,
    NetworkRatio,
    UPUClassifier,
    VPUClassifier,
    load,
    make_gaussian_pu,
    save,
    verify,
)
from drpu._codec import KINDS, encode
from drpu.exceptions import ArtifactError, DataTypeError, MissingExtraError, ParameterError
from drpu.files.archive import write_archive
from drpu.files.store import inspect_file
from drpu.models.registry import RATIOS
from drpu.rivals.rival import RIVALS

# Networks trained for a few seconds separate weakly; the warning is not tested here.
pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.PriorBoundaryWarning")


@pytest.fixture(scope="module")
def toy():
    return make_gaussian_pu(
        150, 400, prior=0.5, n_test=500, test_prior=0.2, separation=3, dimensions=3, random_state=0
    )


def fit(toy, model, **parameters):
    return DRPUClassifier(model, holdout=2, random_state=0, **parameters).fit(*toy.X_y())


@pytest.fixture(scope="module")
def kernel(toy):
    return fit(toy, KernelRatio(width=1.0, ridge=0.1, n_centres=30))


@pytest.fixture
def path(kernel, tmp_path):
    save(kernel, tmp_path / "toy.drpu")
    return tmp_path / "toy.drpu"


@pytest.fixture(scope="module")
def logistic(toy):
    return fit(toy, LogisticRegression())


@pytest.fixture
def foreign(logistic, tmp_path):
    """A file that holds estimators of another library."""
    save(logistic, tmp_path / "foreign.drpu")
    return tmp_path / "foreign.drpu"


def network():
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))


MODELS = {
    "auto": "auto",
    "kernel": KernelRatio(n_centres=30),
    "centroids": KernelRatio("centroids", n_centres=10),
    "boosted": BoostedRatio(n_rounds=20),
    "network": NetworkRatio(hidden=(8,), epochs=2),
    "logistic": LogisticRegression(),
    "forest": RandomForestClassifier(5),
}
ESTIMATORS = {"logistic", "forest"}  # of scikit-learn, so the file must be trusted


@pytest.fixture(scope="module", params=MODELS)
def named(request, toy):
    """The name of a model, and a classifier with it."""
    return request.param, fit(toy, MODELS[request.param], scenario="single-sample", cost=0.3)


def test_a_saved_classifier_comes_back_as_it_was(toy, tmp_path, named):
    name, clf = named
    save(clf, tmp_path / "clf.drpu")
    if name in ESTIMATORS:
        with pytest.raises(ArtifactError, match="trusted=True"):
            load(tmp_path / "clf.drpu")
    back = load(tmp_path / "clf.drpu", trusted=name in ESTIMATORS)
    assert_allclose(back.decision_function(toy.test), clf.decision_function(toy.test), rtol=1e-12, atol=1e-12)
    assert back.prior_ == clf.prior_
    assert back.tails_ == clf.tails_
    assert_allclose(back.adapt(toy.test).prior_.value, clf.adapt(toy.test).prior_.value, rtol=1e-12)
    assert_array_equal(back.adapt(toy.test).predict(toy.test), clf.adapt(toy.test).predict(toy.test))
    assert (back.cost, back.scenario, back.holdout) == (0.3, "single-sample", 2)


def test_a_loaded_classifier_can_be_fitted_again(toy, kernel, path, foreign):
    again = load(path).fit(*toy.X_y())
    assert_array_equal(again.decision_function(toy.test), kernel.decision_function(toy.test))
    back = load(foreign, trusted=True)
    with pytest.raises(ParameterError, match=r"set_params\(model="):
        back.fit(*toy.X_y())
    back.set_params(model=kernel.model).fit(*toy.X_y())
    assert_array_equal(back.decision_function(toy.test), kernel.decision_function(toy.test))


def test_no_training_row_is_inside(toy, tmp_path, named):
    save(named[1], tmp_path / "clf.drpu")
    with zipfile.ZipFile(tmp_path / "clf.drpu") as archive:
        content = b"".join(archive.read(part) for part in archive.namelist())
    for row in np.vstack([toy.positive, toy.unlabeled]):
        assert row.tobytes() not in content
        assert row.astype(np.float32).tobytes() not in content


def test_the_search_for_rows_would_find_one(toy, tmp_path):
    clf = fit(toy, KNeighborsClassifier(20))
    save(clf, tmp_path / "clf.drpu", keep_rows=True)
    with zipfile.ZipFile(tmp_path / "clf.drpu") as outer:
        blobs = [outer.read(part) for part in outer.namelist()]
    (tmp_path / "blob").write_bytes(max(blobs, key=len))
    with zipfile.ZipFile(tmp_path / "blob") as inner:
        content = b"".join(inner.read(part) for part in inner.namelist())
    assert any(row.tobytes() in content for row in toy.positive)


@pytest.mark.parametrize("model", [KNeighborsClassifier(20), KernelRatio("rows", n_centres=20)])
def test_models_made_of_rows_are_refused_unless_asked_for(toy, tmp_path, model):
    clf = fit(toy, model)
    with pytest.raises(ArtifactError, match="keep_rows=True"):
        save(clf, tmp_path / "clf.drpu")
    assert not list(tmp_path.iterdir())
    save(clf, tmp_path / "clf.drpu", keep_rows=True)
    assert_array_equal(load(tmp_path / "clf.drpu", trusted=True).predict(toy.test), clf.predict(toy.test))


ANOTHER_PROCESS = """
import sys
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
import drpu

kernel, rows, out = sys.argv[1:]
X, y = drpu.make_gaussian_pu(60, 200, prior=0.4, separation=3, random_state=0).X_y()
model = drpu.KernelRatio(n_centres=8, width=1.0, ridge=0.1)
pipe = make_pipeline(StandardScaler(), drpu.DRPUClassifier(model, holdout=2, random_state=0)).fit(X, y)
drpu.save(pipe, out)  # nothing else of drpu has been imported
X = np.load(rows)
june = drpu.load(kernel).adapt(X)
print(repr(june.prior_.value), june.predict(X).tolist())
"""


def test_another_process_saves_a_pipeline_and_finds_the_same_prior_and_labels(toy, kernel, path, tmp_path):
    np.save(tmp_path / "rows.npy", toy.test)
    files = [path, tmp_path / "rows.npy", tmp_path / "pipe.drpu"]
    out = subprocess.run(
        [sys.executable, "-c", ANOTHER_PROCESS, *files], capture_output=True, text=True, check=True
    )
    assert verify(files[2], trusted=True).kind == "Pipeline"
    value, _, labels = out.stdout.partition(" ")
    here = kernel.adapt(toy.test)
    assert_allclose(float(value), here.prior_.value, rtol=1e-12)
    assert json.loads(labels) == here.predict(toy.test).tolist()


@pytest.mark.filterwarnings("ignore::drpu.exceptions.ShiftWarning")
def test_adapted_and_loaded_classifiers_with_a_users_module_are_saved(toy, tmp_path):
    clf, rival = fit(toy, NetworkRatio(network, epochs=2)), VPUClassifier(NetworkRatio(network(), epochs=2))
    for one in (clf, clf.adapt(toy.test), rival.fit(*toy.X_y())):
        save(one, tmp_path / "first.drpu")
        save(load(tmp_path / "first.drpu", module=network), tmp_path / "second.drpu")
        back = load(tmp_path / "second.drpu", module=network)
        assert_allclose(back.decision_function(toy.test), one.decision_function(toy.test), rtol=1e-9)


def test_the_same_classifier_gives_the_same_bytes(kernel, path, tmp_path):
    for classifier in (kernel, load(path)):
        save(classifier, tmp_path / "again.drpu")
        assert (tmp_path / "again.drpu").read_bytes() == path.read_bytes()


# -- writing: all or nothing -------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_and_nothing_else(kernel, path, monkeypatch):
    before = path.read_bytes()

    def full_disk(*_):
        raise OSError("no space left")

    monkeypatch.setattr("drpu._output.os.fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        save(kernel, path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_only_classifiers_are_saved(tmp_path):
    with pytest.raises(DataTypeError, match="must be a classifier of drpu, got LogisticRegression"):
        save(LogisticRegression(), tmp_path / "x")
    with pytest.raises(ValueError, match="not fitted"):
        save(DRPUClassifier(), tmp_path / "x")
    with pytest.raises(ParameterError, match="keep_rows must be True or False"):
        save(DRPUClassifier(), tmp_path / "x", keep_rows="no")
    assert not list(tmp_path.iterdir())


def test_a_file_that_does_not_reproduce_the_scores_is_not_written(kernel, path, monkeypatch):
    before = path.read_bytes()
    score = iter([0.0, 1.0])  # of the classifier, and of what was read back
    monkeypatch.setattr("drpu.models.crossfit.Folds.scores", lambda _, X: np.full((len(X), 2), next(score)))
    with pytest.raises(ArtifactError, match="does not reproduce the scores"):
        save(kernel, path)
    assert path.read_bytes() == before


# -- reading: one error type for every defect ---------------------------------------


FITTED = ("tree", "fields", "fitted", "fields")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (setting("schema", 99), "has schema 99, and this drpu reads schema 1"),
        (setting("parts", "arrays.safetensors", "sha256", "keep"), "has been changed"),
        (setting("tree", "kind", "Nonsense"), "must be an object of"),
        (setting(*FITTED, "prior", "fields", "value", 7.0), r"prior\.value: must be from 0 to 1"),
        (
            setting("tree", "fields", "parameters", "items", "cost", 1.0),
            "cost must lie strictly between 0 and 1",
        ),
        (
            setting(*FITTED, "population", "fields", "label_delay", -1),
            r"population\.label_delay: must be from 0",
        ),
        (setting(*FITTED, "tails", "fields", "copies", 0), r"tails\.copies: must be from 1"),
        (setting(*FITTED, "model", "kind", "os.system"), r"fitted\.model: must be an object of \['Folds'\]"),
        (lambda manifest, parts: manifest["tree"].clear(), "the object: must be Record"),
        (lambda manifest, parts: parts.update({"arrays.safetensors": b"junk"}), "the header of the arrays"),
    ],
)
def test_whatever_is_wrong_inside_is_one_error(path, change, message):
    rewrite(path, change)
    with pytest.raises(ArtifactError, match=message):
        load(path)


def test_a_classifier_that_cannot_score_two_rows_is_refused(path, monkeypatch):
    monkeypatch.setattr("drpu.models.crossfit.Folds.scores", lambda *_: np.full((2, 2), np.nan))
    verify(path)
    with pytest.raises(ArtifactError, match="cannot score rows"):
        load(path)


def test_a_record_that_makes_no_classifier_is_an_artifact_error(kernel, path, monkeypatch):
    def damaged(*_):
        raise ValueError("parts do not fit")

    monkeypatch.setattr(type(kernel.record()), "classifier", damaged)
    with pytest.raises(ArtifactError, match="cannot be read as a drpu artifact: parts do not fit"):
        load(path)


def test_a_package_that_is_missing_is_named(toy, tmp_path, monkeypatch):
    save(fit(toy, NetworkRatio(hidden=(2,), epochs=1)), tmp_path / "net.drpu")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match="torch"):
        load(tmp_path / "net.drpu")


def written(path, encoded):
    """Write any encoded object with right digests."""
    with open(path, "wb") as file:
        write_archive(file, encoded, {})


def test_an_object_that_is_no_record_is_refused(kernel, path):
    written(path, encode(kernel.model_))
    for read in (load, verify, inspect_file):
        with pytest.raises(ArtifactError, match=r"must be an object of \['Record'\]"):
            read(path)


# -- verify and inspect --------------------------------------------------------------------


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_is_found_can_be_asked_of_load(kernel, path):
    found = verify(path)
    assert (found.sha256, found.bytes) == (digest(path), path.stat().st_size)
    assert (found.kind, found.schema, found.estimators) == ("DRPUClassifier", 1, False)
    assert found.versions["drpu"] == drpu.__version__
    assert json.loads(json.dumps(found.as_dict())) == found.as_dict()
    again, record = inspect_file(path)
    assert again == found
    assert same(record, kernel.record())
    load(path, expected_sha256=found.sha256)


def test_every_kind_of_classifier_is_verified(kernel, logistic, toy, tmp_path):
    upu = UPUClassifier("linear", prior=0.4, random_state=0).fit(*toy.X_y())
    for classifier in (kernel.at_prior(0.2), upu, logistic):
        save(classifier, tmp_path / "b")
        assert verify(tmp_path / "b", trusted=True).kind == type(classifier).__name__


def test_contents_are_named(toy, path, tmp_path):
    assert verify(path).contents["scores"].startswith("the score of every held-out positive")
    clf = fit(toy, make_pipeline(MinMaxScaler(), LogisticRegression()))
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


# -- trust ---------------------------------------------------------------------------------


def test_trust_is_a_word_or_a_digest(foreign, logistic, toy):
    for read in (load, verify):
        with pytest.raises(ArtifactError, match=r"expected_sha256=.*trusted=True"):
            read(foreign)
    for way in ({"trusted": True}, {"expected_sha256": digest(foreign)}):
        assert_array_equal(load(foreign, **way).predict(toy.test), logistic.predict(toy.test))
        assert verify(foreign, **way).estimators
    with pytest.raises(ParameterError, match="trusted must be True or False"):
        load(foreign, trusted=1)
    with pytest.raises(ArtifactError, match="not the file that was expected"):
        load(foreign, expected_sha256="0" * 64)


def test_without_trust_estimators_are_not_even_read(foreign):
    content = bytearray(foreign.read_bytes())
    inner = content.index(b"schema.json")  # a name inside the archive of the estimators
    content[inner : inner + 4] = b"XXXX"
    foreign.write_bytes(content)
    found, _ = inspect_file(foreign)
    assert found.estimators
    with pytest.raises(ArtifactError, match="cannot be read"):
        load(foreign, trusted=True)


def test_bytes_of_any_name_need_trust_and_belong_to_their_place(logistic, path):
    encoded = encode(logistic.record())
    written(path, encoded._replace(blobs={"other": b"x"}))
    with pytest.raises(ArtifactError, match="trusted=True"):
        load(path)
    with pytest.raises(ArtifactError, match=r"archive: must be bytes"):
        load(path, trusted=True)


# -- files ---------------------------------------------------------------------------------


def test_the_file_is_read_once(path, monkeypatch):
    opened = []
    real = open

    def counted(name, *args, **options):
        opened.append(str(name))
        return real(name, *args, **options)

    monkeypatch.setattr("drpu.files.archive.open", counted, raising=False)
    load(path, expected_sha256=digest(path))
    assert opened == [str(path)]


def test_sizes_are_bounded(path):
    with pytest.raises(ArtifactError, match="max_bytes"):
        load(path, max_bytes=path.stat().st_size - 1)
    with pytest.raises(ParameterError, match="max_bytes"):
        verify(path, max_bytes=0)


# -- kinds ---------------------------------------------------------------------------------


KINDS_AFTER_READING = """
import contextlib, sys
import drpu

with contextlib.suppress(drpu.exceptions.ArtifactError):
    drpu.verify(sys.argv[1])
print(*sys.modules["drpu._codec"].KINDS)
"""


def test_every_kind_is_one_frozen_dataclass_that_a_file_may_name(path):
    source = Path(drpu.__file__).parent
    declared = {}
    for file in source.rglob("*.py"):
        declared[file] = re.findall(r'^@kept\("(.+)"\)', file.read_text(), re.MULTILINE)
    kinds = [kind for names in declared.values() for kind in names]
    assert len(set(kinds)) == len(kinds)
    rewrite(path, setting("tree", "kind", "Nonsense"))  # it is searched in all modules
    words = [sys.executable, "-c", KINDS_AFTER_READING, path]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    monitors = declared[source / "scale" / "monitor.py"]  # read by themselves
    assert set(kinds) - set(monitors) == {kind for kind in found if kind in kinds}
    with pytest.raises(ArtifactError, match="must be an object of"):
        verify(path)
    for cls in KINDS.values():
        assert vars(cls)["__dataclass_params__"].frozen


# -- files of each schema ----------------------------------------------------------------------------


STORED = sorted(FOLDER.glob("*.drpu"))


def kind_of(path):
    """``genpu`` of ``schema-1-genpu.drpu``."""
    return path.stem.split("-", 2)[2]


def test_there_is_a_stored_file_of_every_schema_and_of_every_kind_of_classifier():
    schemas = {verify(path, trusted=True).schema for path in STORED}
    assert schemas == set(range(1, max(schemas) + 1))
    kinds = {kind_of(path) for path in STORED}
    assert set(RATIOS) <= kinds
    assert {name.removesuffix("Classifier").lower() for name in RIVALS} <= {k.replace("-", "") for k in kinds}


# scikit-learn says so of its own estimators, and whether they are then right is for it to know.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_file_gives_the_labels_that_it_gave(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    classifier = load(path, trusted=True)
    rows = rows_of(kind_of(path))[:40]
    assert_allclose(output_of(classifier, rows), expected["output"], rtol=1e-6, atol=1e-9)
    assert_array_equal(classifier.predict(rows), expected["label"])
    assert_allclose(prior_of(classifier), expected["prior"], rtol=1e-9)
