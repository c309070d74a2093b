"""Trees as arrays: they predict as LightGBM's own, and only checked trees reach LightGBM."""

from contextlib import nullcontext
from dataclasses import replace

import lightgbm
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from codec_laws import check_kept, round_trip
from drpu._codec import decode, encode
from drpu._samples import Sample, SamplePair
from drpu.exceptions import ArtifactError, DataError
from drpu.models import BoostedFunction
from drpu.models.ensembles import LeafMasks
from drpu.models.trees import SharedBins, Trees


def rows(rng, n=300):
    X = np.column_stack([rng.integers(0, 40, n), rng.normal(size=n), rng.normal(size=n)])
    X[::9, 1] = np.nan
    return X


@pytest.fixture(scope="module")
def booster():
    rng = np.random.default_rng(0)
    X = rows(rng)
    y = np.isin(X[:, 0], (1, 3, 5, 33, 39)) ^ (np.nan_to_num(X[:, 1]) > 0.5)
    settings = {"objective": "binary", "num_leaves": 6, "min_data_in_leaf": 2, "min_data_per_group": 1}
    data = lightgbm.Dataset(X, y, categorical_feature=[0], params={"verbosity": -1})
    return lightgbm.train(settings | {"cat_smooth": 1, "verbosity": -1, "num_threads": 1}, data, 5)


@pytest.fixture(scope="module")
def trees(booster):
    return Trees.from_lightgbm(booster.model_to_string(), 3)


def test_arrays_predict_as_the_original_trees(booster, trees):
    assert len(trees.bounds) > 2  # splits on categories are among them
    new = rows(np.random.default_rng(1))
    new[:50, 0] = np.arange(-10, 40) * 3
    again = round_trip(trees)
    # Values of leaves are rounded, so that sums are exact.
    expected = booster.predict(new, raw_score=True)
    assert_allclose(again.booster.predict(new, raw_score=True), expected, rtol=0, atol=1e-14)


def test_the_text_is_its_own_image(trees):
    assert Trees.from_lightgbm(trees.text(), 3).text() == trees.text()


def test_ranges_gains_and_settings_are_left_out(booster, trees):
    assert "[" in booster.model_to_string()
    assert "[" not in trees.text()  # ranges of columns and settings
    assert "gain" not in trees.text()


def test_contributions_of_columns_stay_the_same(booster, trees):
    new = rows(np.random.default_rng(1))
    found = round_trip(trees).booster.predict(new, pred_contrib=True)
    assert_allclose(found, booster.predict(new, pred_contrib=True), atol=1e-12)


@pytest.mark.parametrize("leaves", [2, 31])
@pytest.mark.parametrize("averaged", [False, True])
def test_parts_of_columns_are_close_to_shapley_values_and_equal_to_those_of_stumps(leaves, averaged):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 4))
    y = rng.random(800) < 1 / (1 + np.exp(-2 * X[:, 0] + X[:, 1] * X[:, 2]))
    forest = {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1} if averaged else {}
    settings = {"objective": "binary", "verbosity": -1, "num_leaves": leaves, **forest}
    grown = lightgbm.train(settings, lightgbm.Dataset(X, y, params=settings), 30)
    trees = Trees.from_lightgbm(grown.model_to_string(), 4, averaged=averaged)
    parts, mean = trees.contributions(trees.reached_leaves(X[:100], threads=1))
    shapley = grown.predict(X[:100], pred_contrib=True)
    if averaged:
        shapley = shapley / 30
    assert_allclose(mean, shapley[:, -1], rtol=1e-6)
    assert_allclose(parts.sum(axis=1), shapley[:, :-1].sum(axis=1), atol=1e-8)
    if leaves == 2:
        assert_allclose(parts, shapley[:, :-1], atol=1e-8)
    assert np.corrcoef(parts.ravel(), shapley[:, :-1].ravel())[0, 1] > 0.95


def test_a_tree_of_one_leaf_is_read():
    data = lightgbm.Dataset(np.zeros((50, 1)), np.arange(50) % 5 == 0, params={"verbosity": -1})
    flat = lightgbm.train({"objective": "binary", "verbosity": -1}, data, 2)
    again = round_trip(Trees.from_lightgbm(flat.model_to_string(), 1)).booster
    new = np.zeros((2, 1))
    expected = flat.predict(new, raw_score=True)
    assert_allclose(again.predict(new, raw_score=True), expected, rtol=0, atol=1e-14)


def sets(trees):
    return np.split(trees.bits, trees.bounds[1:-1])


def test_a_set_of_categories_holds_the_codes_that_go_left(booster, trees):
    dumped, waiting = [], [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]
    while waiting:
        part = waiting.pop(0)
        if "split_feature" in part:
            waiting += [part["left_child"], part["right_child"]]
            if part["decision_type"] == "==":
                dumped.append(part["threshold"])
    codes = [np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")) for words in sets(trees)]
    assert sorted("||".join(map(str, each)) for each in codes) == sorted(dumped)


# -- damaged trees ------------------------------------------------------------------------------


def first(name, value):
    """An edit of the first value of an array."""

    def edit(arrays):
        changed = arrays[name].copy()
        changed[0] = value
        return arrays | {name: changed}

    return edit


def with_array(name, change):
    return lambda arrays: arrays | {name: change(arrays[name])}


EDITS = {
    "a column that is not there": first("feature", 3),
    "a column far away": first("feature", 10**8),
    "a negative column": first("feature", -1),
    "a NaN threshold": first("threshold", np.nan),
    "an infinite threshold": first("threshold", -np.inf),
    "a child before its parent": with_array("left", np.zeros_like),
    "a child beyond the end": first("right", 99),
    "a leaf beyond the end": first("right", -99),
    "a child of the next tree": first("right", 5),
    "a NaN leaf": first("value", np.nan),
    "a huge leaf": first("value", 1e300),
    "leaves without counts": with_array("count", lambda old: old[:-1]),
    "leaves without rows": first("count", 0),
    "counts beyond measure": with_array("count", lambda old: np.full_like(old, 2**31 - 1)),
    "no leaves": first("leaves", 0),
    "more leaves": first("leaves", 10**9),
    "leaves of another tree": lambda arrays: arrays | {"leaves": arrays["leaves"][::-1] - [0, 0, 0, 1, -1]},
    "another number of sets": with_array("bounds", lambda old: old[:-1]),
    "a set beyond the end": with_array("bounds", lambda old: old + (old == old[-1]).astype(np.int32)),
    "sets that fall": with_array("bounds", lambda old: old[::-1]),
    "no sets": with_array("bounds", lambda old: old[:0]),
    "an unknown kind of split": first("decision", 64),
    "an unknown kind of gap": first("decision", 12),
    "no trees": lambda arrays: {name: array[:0] for name, array in arrays.items()},
}


@pytest.mark.parametrize("name", EDITS)
def test_damaged_trees_never_reach_lightgbm(name, trees):
    tree, arrays, blobs = encode(trees)
    edited = {key: array.astype(arrays[key].dtype) for key, array in EDITS[name](arrays).items()}
    assert any(not np.array_equal(edited[key], arrays[key], equal_nan=True) for key in arrays)
    with pytest.raises(ArtifactError):
        decode(tree, edited, blobs, Trees)


def test_no_edit_gives_another_error(trees):
    check_kept(trees)


def test_trees_that_would_take_forever_are_refused():
    splits = np.arange(1001)
    n = len(splits)
    chain = {
        "leaves": np.array([n + 1], dtype=np.int32),
        "feature": np.zeros(n, dtype=np.int32),
        "threshold": splits.astype(float),
        "decision": np.full(n, 2, dtype=np.int8),
        "left": (~splits).astype(np.int32),
        "right": np.append(splits[1:], ~n).astype(np.int32),
        "value": np.full(n + 1, 0.5),
        "count": np.ones(n + 1, dtype=np.int32),
        "bounds": np.zeros(1, dtype=np.int32),
        "bits": np.empty(0, dtype=np.uint32),
    }
    with pytest.raises(DataError, match="deeper"):
        Trees(**chain, n_columns=1)
    allowed = {
        name: array[:-1] if name not in ("leaves", "bounds") else array for name, array in chain.items()
    }
    allowed |= {"leaves": np.array([n], dtype=np.int32), "right": np.append(splits[1:-1], ~(n - 1))}
    assert len(Trees(**allowed, n_columns=1)) == 1


def test_a_set_has_no_more_bits_than_a_column_has_codes(trees):
    (k, *_) = np.flatnonzero(np.diff(trees.bounds))
    for words, refused in ((2048, False), (2049, True)):
        added = words - (trees.bounds[k + 1] - trees.bounds[k])
        bounds = trees.bounds + np.where(np.arange(len(trees.bounds)) > k, added, 0)
        grown = np.insert(trees.bits, [trees.bounds[k + 1]] * added, 1)
        with pytest.raises(DataError, match="below") if refused else nullcontext():
            replace(trees, bounds=bounds.astype(np.int32), bits=grown.astype(np.uint32))


def test_damaged_trees_are_refused_in_memory_too(trees):
    with pytest.raises(DataError, match="columns"):
        replace(trees, n_columns=1)


def test_a_part_of_shared_bins_is_that_of_its_rows():
    rng = np.random.default_rng(0)
    weight = rng.uniform(1, 2, 400)
    pair = SamplePair(Sample(rng.normal(1, 1, (100, 3))), Sample(rng.normal(0, 1, (400, 3)), weight)).placed()
    part = pair.take(np.arange(0, 100, 3), np.arange(50, 300))
    moved = SamplePair(replace(part.positive, place=None), part.unlabeled)  # rows without a place
    settings = {
        "objective": "binary", "max_bin": 31, "min_data_in_bin": 1, "feature_pre_filter": False,
        "data_random_seed": 1, "verbosity": -1, "num_threads": 1,
    }  # fmt: skip
    bins = SharedBins(pair, "auto")
    texts = []
    for some in (part, moved):
        data = bins.data(some, settings)
        assert_array_equal(data.get_label(), part.flags())
        assert_allclose(data.get_weight(), part.unit_weights(), rtol=1e-6)
        texts.append(lightgbm.train(settings | {"seed": 3}, data, 5).model_to_string())
    assert texts[0] == texts[1]


# -- outputs of trees by masks of their leaves -------------------------------------------------------


COLUMNS = 6
LEAVES = (2, 8, 9, 16, 31, 64, 65, 200)  # the sizes of words, and trees with several words


def rows_with_codes(n: int, seed: int, *, gaps: bool, whole: bool) -> np.ndarray:
    """Four columns of numbers, and two of codes of which some are in no training row."""
    rng = np.random.default_rng(seed)
    X = 2 * rng.standard_normal((n, COLUMNS))
    if whole:
        X = np.round(X)
    X[:, 4] = rng.integers(-2, 60, n)
    X[:, 5] = rng.integers(0, 10, n) / 2
    if gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
        X[rng.random(X.shape) < 0.02] = np.inf
    return X


def ensembles(*, gaps: bool, whole: bool, one_hot: int) -> list[Trees]:
    X = np.where(np.isinf(X := rows_with_codes(1500, 0, gaps=gaps, whole=whole)), 0, X)
    X[:, 4:] = np.maximum(np.floor(X[:, 4:]), 0)
    rng = np.random.default_rng(1)
    y = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 4]) % 3 + rng.standard_normal(len(X)) > 1
    found = []
    for leaves in LEAVES:
        settings = {
            "objective": "binary", "num_leaves": leaves, "min_data_in_leaf": 2, "verbosity": -1,
            "max_cat_to_onehot": one_hot, "num_threads": 1,
        }  # fmt: skip
        data = lightgbm.Dataset(X, y.astype(float), categorical_feature=[4, 5])
        text = lightgbm.train(settings, data, 7).model_to_string()
        found.append(Trees.from_lightgbm(text, COLUMNS))
    return found


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("one_hot", [4, 300])
def test_masks_give_the_sums_and_leaves_of_lightgbm(gaps, whole, one_hot):
    some = ensembles(gaps=gaps, whole=whole, one_hot=one_hot)
    assert max(int(trees.leaves.max()) for trees in some) > 64
    new = rows_with_codes(300, 2, gaps=True, whole=whole)
    masks = LeafMasks.of(some)
    expected = np.column_stack([trees.booster.predict(new, raw_score=True) for trees in some])
    assert_array_equal(masks.sums(new), expected)
    assert_array_equal(masks.sums(np.asfortranarray(new[:77])), expected[:77])
    assert_array_equal(masks.sums(new.astype(np.float32)), masks.sums(new.astype(np.float32).astype(float)))
    for trees in some:
        assert_array_equal(LeafMasks.of([trees]).leaves(new), trees.reached_leaves(new, 1))


def test_trees_without_a_split_have_their_value():
    X = np.zeros((50, 2))
    text = lightgbm.train(
        {"objective": "binary", "verbosity": -1}, lightgbm.Dataset(X, np.arange(50) % 2), 1
    ).model_to_string()
    trees = Trees.from_lightgbm(text, 2)
    assert_array_equal(LeafMasks.of([trees, trees]).sums(X), np.full((50, 2), trees.exact_value[0]))


def test_sums_of_values_are_exact_in_any_order():
    trees = ensembles(gaps=False, whole=False, one_hot=300)[-1]
    rng = np.random.default_rng(0)
    first_leaf = np.cumsum(trees.leaves) - trees.leaves
    chosen = trees.exact_value[first_leaf + rng.integers(0, trees.leaves, (1000, len(trees)))]
    backwards = chosen[:, ::-1].cumsum(axis=1)[:, -1]
    assert_array_equal(chosen.cumsum(axis=1)[:, -1], backwards)
    assert np.abs(trees.exact_value - trees.value).max() < 1e-14


def test_masks_are_not_used_where_they_would_be_large_or_slow():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 400))
    settings = {"objective": "regression", "verbosity": -1, "num_leaves": 300, "num_threads": 1}
    booster = lightgbm.train(settings | {"min_data_in_leaf": 1}, lightgbm.Dataset(X, rng.random(500)), 3)
    trees = Trees.from_lightgbm(booster.model_to_string(), 400)
    assert LeafMasks.of([trees]) is None
    function = BoostedFunction(trees, 0.0)
    expected = np.concatenate([function.score(row[None]) for row in X[:20]])
    assert_array_equal(function.score(X[:100])[:20], expected)
