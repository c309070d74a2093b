"""Image sets are read from a folder or from OpenML, and must be the published ones."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from drpu.exceptions import DataError
from paper import image_sets as loaders
from paper.image_sets import load_image_set

PARTS = ("x_train", "y_train", "x_test", "y_test")


def fake(shape=(28, 28), n_train=6, n_test=4, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "x_train": rng.integers(0, 256, (n_train, *shape), dtype=np.uint8),
        "y_train": rng.integers(0, 10, n_train, dtype=np.uint8),
        "x_test": rng.integers(0, 256, (n_test, *shape), dtype=np.uint8),
        "y_test": rng.integers(0, 10, n_test, dtype=np.uint8),
    }


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    def fetch(data_id):
        raise OSError("no network")

    monkeypatch.delenv("DRPU_DATA", raising=False)
    monkeypatch.setattr(loaders, "_fetch", fetch)


@pytest.fixture
def publish(monkeypatch):
    """Treat a small set as the published one."""

    def publish(name, arrays):
        digest = loaders.image_digest(loaders.ImageSet(name, *(arrays[part] for part in PARTS)))
        source = replace(loaders.IMAGE_SETS[name], digest=digest, n_train=len(arrays["y_train"]))
        monkeypatch.setitem(loaders.IMAGE_SETS, name, source)

    return publish


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "kmnist", "cifar10"])
@pytest.mark.parametrize("by_variable", [False, True])
def test_a_set_in_the_folder_is_read(tmp_path, publish, monkeypatch, name, by_variable):
    arrays = fake((32, 32, 3) if name == "cifar10" else (28, 28))
    np.savez(tmp_path / f"{name}.npz", **arrays)
    publish(name, arrays)
    if by_variable:
        monkeypatch.setenv("DRPU_DATA", str(tmp_path))
    images = load_image_set(name, data_dir=None if by_variable else tmp_path)
    assert images.name == name
    for part in PARTS:
        assert np.array_equal(getattr(images, part), arrays[part])


def test_bytes_that_are_not_the_published_ones_are_refused(tmp_path, publish):
    arrays = fake()
    publish("mnist", arrays)
    arrays["x_test"][0, 0, 0] ^= 1
    np.savez(tmp_path / "mnist.npz", **arrays)
    with pytest.raises(DataError, match=r"mnist\.npz does not hold the published mnist: its digest is"):
        load_image_set("mnist", data_dir=tmp_path)


def test_the_digest_is_that_of_the_bytes_one_after_the_other():
    arrays = fake()
    joined = b"".join(arrays[part].tobytes() for part in PARTS)
    images = loaders.ImageSet("mnist", *(arrays[part] for part in PARTS))
    assert loaders.image_digest(images) == hashlib.sha256(joined).hexdigest()


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_openml_rows_become_the_same_arrays(monkeypatch, publish, name):
    arrays = fake((32, 32, 3) if name == "cifar10" else (28, 28))
    publish(name, arrays)
    images = np.concatenate([arrays["x_train"], arrays["x_test"]])
    stored = np.moveaxis(images, -1, 1) if name == "cifar10" else images  # OpenML has the colour axis first
    labels = np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(str)
    asked = []

    def fetch(data_id):
        asked.append(data_id)
        return stored.reshape(10, -1).astype(np.float64), labels.astype(object)

    monkeypatch.setattr(loaders, "_fetch", fetch)
    loaded = load_image_set(name)
    assert asked == [{"mnist": 554, "cifar10": 40927}[name]]
    for part in PARTS:
        assert np.array_equal(getattr(loaded, part), arrays[part])


def test_a_set_found_nowhere_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(
        DataError, match=r"no data_dir is given and DRPU_DATA is not set.*OSError: no network"
    ):
        load_image_set("mnist")
    with pytest.raises(DataError, match=r"mnist\.npz does not exist.*Put mnist\.npz with x_train"):
        load_image_set("mnist", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda a: a.pop("y_test"), "must be an npz file with x_train, y_train, x_test, y_test"),
        (lambda a: a.update(x_test=a["x_test"][:, :27]), r"uint8 images of shape \(n, 28, 28\)"),
        (lambda a: a.update(x_train=a["x_train"].astype(float)), "got float64"),
        (lambda a: a.update(y_train=a["y_train"][:-1]), r"got uint8 \(6, 28, 28\) and uint8 \(5,\)"),
        (lambda a: a.update(y_test=np.array([None] * 4)), "must be an npz file"),
        (lambda a: b"PK\x03\x04 cut short", r"kmnist\.npz must be an npz file"),
    ],
)
def test_spoilt_files_are_refused(tmp_path, spoil, words):
    arrays = fake()
    spoilt = spoil(arrays)
    np.savez(tmp_path / "kmnist.npz", **arrays)
    if isinstance(spoilt, bytes):
        (tmp_path / "kmnist.npz").write_bytes(spoilt)
    with pytest.raises(DataError, match=words):
        load_image_set("kmnist", data_dir=tmp_path)
