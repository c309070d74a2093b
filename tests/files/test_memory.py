"""What is made from a file is at most a stated multiple of its content, whatever its arrays are."""

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest

from benchmarks._memory import _grown_trees
from drpu import BoostedRatio, DRPUClassifier, KernelRatio, export_onnx, load, make_gaussian_pu, save, verify
from drpu._codec import decode, encode
from drpu.exceptions import ArtifactError, ParameterError
from drpu.files.archive import open_archive
from drpu.models.trees import Trees

pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")
MEMORY_FACTOR = 16  # what is made of a file takes at most this multiple of its content
MOST_RATIO = 20  # largest ratio of the sizes of a part after and before decompression
MOST_TREES = 10_000  # of one function; all functions of a file have at most ten times as many
SIZE = 2**19
MANY_SETS = 2**21  # so that codes in place of bits would exceed the slack
SLACK = 2**25  # bytes of Python, of imported packages and of the most trees
REPEATED = [
    pytest.param(way, marks=pytest.mark.slow) for way in ("one leaf each", "one split each", "one large tree")
]
WAYS = ["many trees", "large sets", "one large tree of sets", "one deep tree", *REPEATED]


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(60, 200, prior=0.4, separation=3, dimensions=3, random_state=0)


@pytest.fixture(scope="module")
def clf(data):
    return DRPUClassifier(BoostedRatio(n_rounds=3), holdout=0.3, random_state=0).fit(*data.X_y())


def with_trees(clf, way):
    """The classifier with other trees in all of its functions."""
    tree, arrays, blobs = encode(clf.record())
    places = [name.removesuffix(".leaves") for name in arrays if name.endswith(".leaves")]
    first = {name.removeprefix(places[0] + "."): array for name, array in arrays.items() if places[0] in name}
    size = MANY_SETS if way == "large sets" else SIZE
    grown = dict(_grown_trees(first, size))[way]
    for place in places:
        arrays |= {f"{place}.{name}": array for name, array in grown.items()}
    return decode(tree, arrays, blobs, type(clf.record())).classifier()


@pytest.mark.parametrize("way", WAYS)
def test_what_is_made_from_trees_is_a_multiple_of_them(way, clf, data, tmp_path):
    pytest.importorskip("onnx", reason="part of the onnx extra")
    path = tmp_path / "a.drpu"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(with_trees(clf, way), path)
        export_onnx(clf, tmp_path / "a.onnx")  # imports what it needs
        archive = open_archive(path.read_bytes())
        content = sum(array.nbytes for array in archive.arrays.values())
        back = load(path)
        for use in (
            lambda: verify(path),
            lambda: load(path),
            lambda: back.predict(data.unlabeled),
            lambda: back.contributions(data.unlabeled[:2]),
            lambda: export_onnx(back, tmp_path / "a.onnx"),
        ):
            tracemalloc.start()
            use()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < MEMORY_FACTOR * content + SLACK


def test_a_file_has_no_more_trees_than_fit_into_memory(clf, tmp_path):
    one_leaf = {
        "leaves": np.ones(MOST_TREES + 1, dtype=np.int32),
        "value": np.zeros(MOST_TREES + 1),
        "count": np.ones(MOST_TREES + 1, dtype=np.int32),
    }
    tree, arrays, blobs = encode(clf.record())
    (place,) = {name.removesuffix(".leaves") for name in arrays if name.endswith("[0].trees.leaves")}
    empty = {
        name: arrays[f"{place}.{name}"][:0] for name in ("feature", "threshold", "decision", "left", "right")
    }
    empty |= {"bounds": np.zeros(1, dtype=np.int32), "bits": np.zeros(0, dtype=np.uint32)}
    for name, array in (one_leaf | empty).items():
        arrays[f"{place}.{name}"] = array
    with pytest.raises(ArtifactError, match="1 to 10000 trees"):
        decode(tree, arrays, blobs, type(clf.record()))
    allowed = Trees(**{name: array[:MOST_TREES] for name, array in (one_leaf | empty).items()}, n_columns=3)
    function = clf.fitted_.model.functions[0]
    functions = (type(function)(allowed, 0.0),) * 11
    with pytest.raises(ArtifactError, match="fewer trees"):
        encode(replace(clf.fitted_.model, functions=functions))


def test_no_fit_makes_more_trees_than_a_file_may_have(data):
    with pytest.raises(ParameterError, match="at most 10000"):
        BoostedRatio(n_rounds=MOST_TREES + 1).fit_ratio(data.positive, data.unlabeled)


def test_a_small_file_expands_to_at_most_a_stated_multiple(clf, tmp_path):
    save(with_trees(clf, "large sets"), tmp_path / "a.drpu")
    size = (tmp_path / "a.drpu").stat().st_size
    archive = open_archive((tmp_path / "a.drpu").read_bytes())
    assert sum(array.nbytes for array in archive.arrays.values()) <= MOST_RATIO * size


def test_a_file_has_no_more_past_periods_than_a_page_shows(data):
    X, y = data.X_y()
    model = KernelRatio(width=1.0, ridge=0.1, n_centres=10)
    fitted = DRPUClassifier(model, holdout=2, random_state=0).fit(X, y, periods=np.arange(len(y)) % 4)
    past = fitted.backtest_
    assert encode(replace(past, periods=past.periods[:1] * 1000))
    with pytest.raises(ArtifactError, match="from 0 to 1000"):
        encode(replace(past, periods=past.periods[:1] * 1001))
