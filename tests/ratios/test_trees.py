"""LightGBM gets only checked trees, which contain splits and leaves and no other values of rows."""

import re

import lightgbm
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from drpu.exceptions import ArtifactError
from drpu.functions.trees import MOST_DEPTH, Trees, read_trees


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
def text(booster):
    return booster.model_to_string()


def read(text):
    return Trees.from_text(text, columns=3, averaged=False)


def test_checked_trees_predict_as_the_original_ones(booster, text):
    assert re.search(r"num_cat=[1-9]", text)  # categorical splits are among them
    new = rows(np.random.default_rng(1))
    new[:50, 0] = np.arange(-10, 40) * 3
    assert_array_equal(
        read(text).booster().predict(new, raw_score=True), booster.predict(new, raw_score=True)
    )


def test_the_text_is_its_own_image(text):
    assert read(read(text).text()).text() == read(text).text()


def test_ranges_gains_and_settings_are_left_out(text):
    clean = read(text).text()
    assert "[" in text
    assert "[" not in clean  # ranges of columns and settings
    assert "gain" not in clean


def test_contributions_of_columns_stay_the_same(booster, text):
    new = rows(np.random.default_rng(1))
    assert_allclose(
        read(text).booster().predict(new, pred_contrib=True),
        booster.predict(new, pred_contrib=True),
        atol=1e-12,
    )


def test_a_tree_of_one_leaf_is_read():
    data = lightgbm.Dataset(np.zeros((50, 1)), np.arange(50) % 5 == 0, params={"verbosity": -1})
    flat = lightgbm.train({"objective": "binary", "verbosity": -1}, data, 2)
    again = Trees.from_text(flat.model_to_string(), columns=1, averaged=False).booster()
    assert_array_equal(
        again.predict(np.zeros((2, 1)), raw_score=True), flat.predict(np.zeros((2, 1)), raw_score=True)
    )


def field(name, change):
    """An edit of the first line of that name."""

    def edit(text):
        return re.sub(rf"^{name}=(.*)$", lambda m: f"{name}={change(m.group(1))}", text, count=1, flags=re.M)

    return edit


def first(value):
    return lambda old: " ".join([value, *old.split(" ")[1:]])


EDITS = {
    "a column that is not there": field("split_feature", first("3")),
    "a column far away": field("split_feature", first("100000000")),
    "a negative column": field("split_feature", first("-1")),
    "a NaN threshold": field("threshold", first("nan")),
    "an infinite threshold": field("threshold", first("-1e999")),
    "a child before its parent": field("left_child", lambda old: " ".join(["0"] * len(old.split()))),
    "a child beyond the end": field("right_child", first("99")),
    "a leaf beyond the end": field("right_child", first("-99")),
    "a NaN leaf": field("leaf_value", first("nan")),
    "a huge leaf": field("leaf_value", first("1e300")),
    "leaves without counts": field("leaf_count", lambda old: old[: old.index(" ")]),
    "counts beyond measure": field("leaf_count", first("4000000000")),
    "no leaves": field("num_leaves", lambda _: "0"),
    "more leaves": field("num_leaves", lambda _: "1000000000"),
    "another number of bitsets": field("num_cat", lambda _: "7"),
    "a bitset beyond the end": field("cat_boundaries", lambda old: f"{old}000"),
    "bitsets that fall": field("cat_boundaries", lambda old: " ".join(old.split()[::-1])),
    "a negative bitset": field("cat_threshold", first("-1")),
    "an unknown kind of split": field("decision_type", first("64")),
    "an unknown kind of gap": field("decision_type", first("12")),
    "linear leaves": field("is_linear", lambda _: "1"),
    "many classes": field("num_class", lambda _: "1000000000"),
    "no tree in a round": field("num_tree_per_iteration", lambda _: "0"),
    "more columns": field("max_feature_idx", lambda _: "1000000000"),
    "another version": field("version", lambda _: "v99"),
    "a mean": lambda text: text.replace("max_feature_idx", "average_output\nmax_feature_idx"),
    "a doubled field": lambda text: text.replace("is_linear=0", "is_linear=0\nis_linear=1", 1),
    "a strange field": lambda text: text.replace("is_linear=0", "leaf_const=1", 1),
    "a missing field": lambda text: re.sub("leaf_value=.*\n", "", text, count=1),
    "a number that is none": field("left_child", first("x")),
    "a number too large": field("left_child", first("9" * 30)),
    "trees in another order": lambda text: text.replace("Tree=0", "Tree=7"),
    "no trees": lambda text: text[: text.index("Tree=0")] + "\nend of trees",
    "no end": lambda text: text[:900],
    "nothing": lambda text: "",
}


@pytest.mark.parametrize("name", EDITS)
def test_damaged_trees_never_reach_lightgbm(name, text):
    edited = EDITS[name](text)
    assert edited != text
    with pytest.raises(ArtifactError, match="tree"):
        read(edited)


def test_sizes_and_settings_of_the_file_are_not_read(booster, text):
    edited = field("tree_sizes", lambda _: "999999999999")(text).replace(
        "[num_threads: 1]", "[num_threads: -7]"
    )
    new = rows(np.random.default_rng(1))
    assert_array_equal(read(edited).booster().predict(new), booster.predict(new, raw_score=True))


def test_trees_that_would_take_forever_are_refused():
    splits = MOST_DEPTH + 1
    chain = {
        "num_leaves": [splits + 1],
        "num_cat": [0],
        "split_feature": [0] * splits,
        "threshold": range(splits),
        "decision_type": [2] * splits,
        "left_child": [~i for i in range(splits)],
        "right_child": [*range(1, splits), ~splits],
        "leaf_value": [0.5] * (splits + 1),
    }
    tree = "\n".join(f"{name}={' '.join(map(str, values))}" for name, values in chain.items())
    head = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=0\nfeature_names=a"
    with pytest.raises(ArtifactError, match="deeper"):
        Trees.from_text(f"{head}\n\nTree=0\n{tree}\n\n\nend of trees\n", columns=1, averaged=False)


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(ArtifactError, match="text of the trees"):
        read_trees(b"\xff\xfe", columns=1, averaged=False)
