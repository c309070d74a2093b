"""Labels that look wrong: planted errors come first, their number is expected, and copies are found."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from drpu import (
    AdaptedClassifier,
    BoostedRatio,
    ClassifierRatio,
    NetworkRatio,
    UPUClassifier,
    load,
    make_gaussian_pu,
    save,
    suspects,
)
from drpu.exceptions import DataError, DataTypeError, FewPositivesWarning, LabelError, ParameterError
from drpu.suspects import _wrong_labels
from shared_fixtures import case_control

WRONG = 20


def planted(seed, wrong=WRONG, separation=4):
    """Rows and labels with some negatives among the labelled rows, and their true labels."""
    data = make_gaussian_pu(400, 1500, prior=0.3, separation=separation, dimensions=3, random_state=seed)
    X, y = data.X_y()
    truth = np.r_[np.ones(400, dtype=int), data.unlabeled_labels]
    y[:wrong] = 0
    y[np.random.default_rng(seed).choice(np.flatnonzero(truth == 0), wrong, replace=False)] = 1
    return X, y, truth


@pytest.fixture(scope="module")
def world():
    X, y, truth = planted(0)
    return case_control().fit(X, y), X, y, truth


def test_wrong_labels_come_first_and_have_high_probabilities(world):
    clf, X, y, truth = world
    found = suspects(clf, X, y)
    np.testing.assert_array_equal(np.sort(found.positions), np.flatnonzero(y == 1))
    # the error of the best classifier is Phi(-2) = 2 %, so about 19 of 20 negatives score below all positives
    assert np.mean(truth[found.positions[:WRONG]] == 0) >= 0.8
    assert (np.diff(found.probability) <= 1e-12).all()
    assert np.mean(found.probability[truth[found.positions] == 0]) > 0.5
    assert np.mean(found.probability[truth[found.positions] == 1]) < 0.05
    assert found.copies.shape == (0, 2)


@pytest.mark.parametrize("wrong", [0, pytest.param(WRONG, marks=pytest.mark.slow), 60])
def test_the_expected_number_is_that_of_the_planted_rows(wrong):
    numbers = []
    for seed in range(4):
        X, y, _ = planted(seed, wrong)
        expected = suspects(case_control().fit(X, y), X, y).expected
        assert expected.low == 0
        assert wrong <= expected.high
        numbers.append(expected.value)
    # each number is a count in the lowest quarter of the scores times four: deviation 2 sqrt(wrong + 1)
    assert abs(np.mean(numbers) - wrong) < 3 * np.sqrt(wrong + 1)


@pytest.mark.parametrize("seed", range(4))
def test_where_classes_overlap_only_an_upper_limit_is_known(seed):
    X, y, _ = planted(seed, wrong=0, separation=1)
    found = suspects(case_control().fit(X, y), X, y, repeats=1)
    assert not found.identified
    assert found.expected.low == 0
    high = f"{found.expected.high:.0f}"
    assert str(found).startswith(f"at most {high} of 400 labels are wrong, these rows cannot tell how many")
    columns = found.to_columns(5)
    assert columns["row"] == found.positions[:5].tolist()
    assert columns["probability"] == [None] * 5


def test_probabilities_add_up_to_the_expected_number(world):
    clf, X, y, _ = world
    found = suspects(clf, X, y)
    assert found.probability.sum() == pytest.approx(found.expected.value, rel=0.35)
    rng = np.random.default_rng(0)
    wrong, expected, _ = _wrong_labels(rng.normal(3, 1, 300), rng.normal(0, 1, 2000), 0.9)
    assert wrong.sum() <= expected.value < 3


def test_rows_are_judged_by_fits_that_did_not_see_them(world):
    """A model that remembers its rows cannot tell wrong labels from right ones, and suspects can."""
    _, X, y, truth = world
    learner = BoostedRatio(n_rounds=150, leaves=60, min_leaf=1)
    boosted = case_control(learner, holdout=2).fit(X, y)
    found = suspects(boosted, X, y)
    assert np.mean(truth[found.positions[:WRONG]] == 0) > 0.5


def test_unlabeled_copies_of_labelled_rows_are_listed(world):
    clf, X, y, _ = world
    some = np.flatnonzero(y == 1)[[3, 8]]
    rows, labels = np.vstack([X, X[some], X[-5:]]), np.r_[y, np.zeros(7, dtype=int)]
    found = suspects(clf, rows, labels)
    assert found.copies.tolist() == [[len(X), some[0]], [len(X) + 1, some[1]]]
    table = pd.DataFrame(found.to_columns(n=2))
    assert table["suspicion"].tolist() == ["label", "label", "copy", "copy"]
    assert table["copy_of"].tolist()[2:] == some.tolist()
    coarse = suspects(clf, np.round(rows / 4), labels)  # equal rows are the rule
    assert coarse.copies is None
    assert "copies were not looked for" in str(coarse)
    assert "copy" not in coarse.to_columns()["suspicion"]


def test_tables_files_adaptations_and_missing_labels_are_accepted(world, tmp_path):
    _, X, y, truth = world
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(word=np.where(truth == 1, "x", "y"))
    labels = np.where(y == 1, "yes", None)
    clf = case_control("boosted", holdout=2).fit(frame, labels)
    save(clf, tmp_path / "c.drpu")
    loaded = load(tmp_path / "c.drpu")
    first = suspects(clf, frame, labels)
    np.testing.assert_array_equal(first.positions, suspects(loaded, frame, labels).positions)
    assert (truth[first.positions[:WRONG]] == 0).all()  # the column tells everything
    assert isinstance(clf.at_prior(0.2), AdaptedClassifier)
    small = np.r_[np.flatnonzero(y == 1)[:120], np.flatnonzero(y == 0)[:200]]
    adapted = suspects(clf.at_prior(0.2), frame.iloc[small], labels[small])
    assert len(adapted.positions) == 120
    assert "labels are expected to be wrong" in str(adapted)


def test_a_table_is_judged_without_its_pipeline(world, tmp_path):
    """Neither an adapted classifier nor a file has the pipeline that learns; the default reads the table."""
    X, y, truth = (values[::2] for values in world[1:])
    frame = pd.DataFrame({"a": X[:, 0], "word": np.where(truth == 1, "x", "y"), "id": range(len(y))})
    encode = make_column_transformer((OneHotEncoder(), ["word"]), ("passthrough", ["a"]))
    clf = case_control(make_pipeline(encode, LogisticRegression()), holdout=2)
    clf.fit(frame, y)
    save(clf, tmp_path / "c.drpu", keep_rows=True)
    for one in (clf.at_prior(0.2), load(tmp_path / "c.drpu", trusted=True)):
        found = suspects(one, frame, y, repeats=1)
        wrong = np.sum(truth[y == 1] == 0)
        assert (truth[found.positions[:wrong]] == 0).all()  # the column tells everything


def test_images_are_judged_with_their_network_or_with_the_default_one(monkeypatch):
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    truth = np.r_[np.zeros(6), np.ones(54), rng.random(200) < 0.3]
    y = np.repeat([1, 0], [60, 200])
    bright = np.zeros((260, 1, 8, 8))
    bright[truth == 1, :, 2:6, 2:6] = 120
    X = np.clip(rng.normal(60, 20, bright.shape) + bright, 0, 255).astype(np.uint8)
    X[-1] = X[59]
    options = {"hidden": (8,), "epochs": 20, "batch_size": 25, "alpha": 0.2}
    clf = case_control(NetworkRatio(**options), holdout=2)
    with pytest.warns(FewPositivesWarning):
        clf.fit(X, y)
    fit = NetworkRatio.fit_checked  # the default network takes as long as all other tests of this file
    monkeypatch.setattr(
        NetworkRatio, "fit_checked", lambda self, *rows: fit(self.set_params(**options), *rows)
    )
    for one in (clf, clf.at_prior(0.3)):
        found = suspects(one, X, y, repeats=1)
        assert np.mean(truth[found.positions[:6]] == 0) > 0.6
        assert found.copies.tolist() == [[259, 59]]


def test_the_number_of_fits_is_that_of_the_folds_times_the_repeats(world, monkeypatch):
    clf, X, y, _ = world
    fits, fit = [], ClassifierRatio.fit_checked
    monkeypatch.setattr(ClassifierRatio, "fit_checked", lambda *args: fits.append(0) or fit(*args))
    for repeats, number in (("auto", 15), (1, 5), (2, 10)):
        fits.clear()
        suspects(clf, X, y, repeats=repeats)
        assert len(fits) == number


def test_rows_that_cannot_be_judged_are_refused(world):
    clf, X, y, _ = world
    with pytest.raises(ParameterError, match="repeats must be at least 1"):
        suspects(clf, X, y, repeats=0)
    with pytest.raises(ParameterError, match="n_jobs must be None"):
        suspects(clf, X, y, n_jobs=0)
    with pytest.raises(DataTypeError, match=r"classifier must be a DRPUClassifier .*, got UPUClassifier"):
        suspects(UPUClassifier(scenario="case-control"), X, y)
    with pytest.raises(DataError, match="at least 4 labelled positives"):
        suspects(clf, X[380:500], np.r_[1, np.zeros(119, dtype=int)])
    with pytest.raises(DataError, match="same number of rows"):
        suspects(clf, X, y[:-1])
    with pytest.raises(LabelError, match="labels of training"):
        suspects(clf, X, y + 4)
