"""Outputs of trees by masks of their leaves, which are those of LightGBM bit for bit."""

import lightgbm
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from drpu.models import BoostedFunction
from drpu.models.ensembles import LeafMasks
from drpu.models.trees import Trees

COLUMNS = 6
LEAVES = (2, 8, 9, 16, 31, 64, 65, 200)  # the sizes of words, and trees with several words


def rows(n: int, seed: int, *, gaps: bool, whole: bool) -> np.ndarray:
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
    X = np.where(np.isinf(X := rows(1500, 0, gaps=gaps, whole=whole)), 0, X)
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
    new = rows(300, 2, gaps=True, whole=whole)
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
