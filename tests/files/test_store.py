import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

from benchmarks._fuzz import repacked, unpacked
from drpu import (
    BoostedRatio,
    DRPUClassifier,
    KernelRatio,
    NetworkRatio,
    VPUClassifier,
    load,
    make_gaussian_pu,
    save,
    verify,
)
from drpu.exceptions import ArtifactError, DataTypeError, ParameterError

# Networks trained for a few seconds separate weakly; the warning is not tested here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::drpu.exceptions.SeparationWarning"),
    pytest.mark.filterwarnings("ignore::drpu.exceptions.PriorBoundaryWarning"),
]


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


def test_a_loaded_classifier_can_be_fitted_again(toy, kernel, path, tmp_path):
    again = load(path).fit(*toy.X_y())
    assert_array_equal(again.decision_function(toy.test), kernel.decision_function(toy.test))
    save(fit(toy, LogisticRegression()), tmp_path / "clf.drpu")
    back = load(tmp_path / "clf.drpu", trusted=True)
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


def test_adaptations_are_saved_too(toy, kernel, tmp_path):
    adapted = kernel.adapt(toy.test).at_cost(0.7)
    save(adapted, tmp_path / "june.drpu")
    back = load(tmp_path / "june.drpu")
    assert (back.prior_, back.train_prior_, back.cost) == (adapted.prior_, adapted.train_prior_, 0.7)
    assert_array_equal(back.predict_proba(toy.test), adapted.predict_proba(toy.test))
    assert back.adapt(toy.test).prior_ == adapted.prior_


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


@pytest.mark.parametrize("labels", [("no", "yes"), (False, True), (-1, 1), (1.0, 2.0)])
def test_labels_and_column_names_survive(toy, tmp_path, labels):
    pandas = pytest.importorskip("pandas")
    X, y = toy.X_y()
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    clf = DRPUClassifier("classifier", pos_label=labels[1], random_state=0).fit(frame, np.array(labels)[y])
    save(clf, tmp_path / "clf.drpu")
    back = load(tmp_path / "clf.drpu", trusted=True)
    assert back.predict(frame).dtype == clf.predict(frame).dtype
    assert_array_equal(back.predict(frame), clf.predict(frame))
    assert back.feature_names_in_.tolist() == ["a", "b", "c"]


def test_a_users_module_needs_its_factory(toy, tmp_path):
    clf = fit(toy, NetworkRatio(network, epochs=2))
    save(clf, tmp_path / "net.drpu")
    with pytest.raises(ArtifactError, match="module"):
        load(tmp_path / "net.drpu")
    back = load(tmp_path / "net.drpu", module=network)
    assert_allclose(back.decision_function(toy.test), clf.decision_function(toy.test), rtol=1e-9)


@pytest.mark.filterwarnings("ignore::drpu.exceptions.ShiftWarning")
def test_adapted_and_loaded_classifiers_with_a_users_module_are_saved(toy, tmp_path):
    clf, rival = fit(toy, NetworkRatio(network, epochs=2)), VPUClassifier(NetworkRatio(network(), epochs=2))
    for one in (clf, clf.adapt(toy.test), rival.fit(*toy.X_y())):
        save(one, tmp_path / "first.drpu")
        save(load(tmp_path / "first.drpu", module=network), tmp_path / "second.drpu")
        back = load(tmp_path / "second.drpu", module=network)
        assert_allclose(back.decision_function(toy.test), one.decision_function(toy.test), rtol=1e-9)


def test_the_same_classifier_gives_the_same_bytes(kernel, path, tmp_path):
    save(kernel, tmp_path / "again.drpu")
    assert (tmp_path / "again.drpu").read_bytes() == path.read_bytes()


# -- writing: all or nothing -------------------------------------------------------------


def test_the_path_is_taken_as_given(kernel, tmp_path):
    save(kernel, str(tmp_path / "no suffix"))
    assert [p.name for p in tmp_path.iterdir()] == ["no suffix"]


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


# -- reading: one error type for every defect ---------------------------------------


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 but no more", b"\x80\x04\x95pickle"])
def test_foreign_files_are_refused(tmp_path, content):
    (tmp_path / "foreign").write_bytes(content)
    with pytest.raises(ArtifactError):
        load(tmp_path / "foreign")


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_truncated_files_are_refused(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ArtifactError):
        load(path)


def test_a_flipped_byte_is_noticed_or_harmless(toy, kernel, path):
    content, expected = path.read_bytes(), kernel.predict_proba(toy.test)
    rng = np.random.default_rng(0)
    for position in rng.integers(len(content), size=60):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        path.write_bytes(bytes(damaged))
        try:
            back = load(path)
        except ArtifactError:
            continue
        assert_array_equal(back.predict_proba(toy.test), expected)


def rewrite(path, change):
    """The artifact with its manifest changed, and every digest made right again."""
    manifest, parts = unpacked(path.read_bytes())
    change(manifest, parts)
    path.write_bytes(repacked(manifest, parts))


def _set(*keys):
    def change(manifest, parts):
        *way, last, value = keys
        for key in way:
            manifest = manifest[key]
        manifest[last] = value

    return change


FITTED = ("tree", "fields", "fitted", "fields")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("schema", 99), "has schema 99, and this drpu reads schema 1"),
        (_set("schema", "one"), "has schema 'one'"),
        (_set("format", "other"), "not written by drpu"),
        (_set("parts", "arrays.safetensors", "sha256", "keep"), "has been changed"),
        (_set("tree", "kind", "Nonsense"), "must be an object of"),
        (
            _set(*FITTED, "prior", "fields", "value", 7.0),
            r"prior\.value: must be from 0 to 1",
        ),
        (_set("tree", "fields", "parameters", "items", "cost", 1.0), "cost must lie strictly between 0 and 1"),
        (
            _set(*FITTED, "population", "fields", "label_delay", -1),
            r"population\.label_delay: must be from 0",
        ),
        (_set(*FITTED, "tails", "fields", "copies", 0), r"tails\.copies: must be from 1"),
        (_set(*FITTED, "model", "kind", "os.system"), r"fitted\.model: must be an object of \['Folds'\]"),
        (lambda manifest, parts: manifest["tree"].clear(), "the object: must be Record"),
        (lambda manifest, parts: parts.update({"x.skops": b"x"}), "not those that its manifest names"),
        (lambda manifest, parts: parts.update(extra=b"x"), "name 'extra', which save does not use"),
        (lambda manifest, parts: parts.pop("arrays.safetensors"), "not written by drpu"),
        (lambda manifest, parts: parts.update({"arrays.safetensors": b"junk"}), "the header of the arrays"),
    ],
)
def test_whatever_is_wrong_inside_is_one_error(path, change, message):
    rewrite(path, change)
    with pytest.raises(ArtifactError, match=message):
        load(path)
