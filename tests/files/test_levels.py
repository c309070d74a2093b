"""Artifacts with fewer levels work, state the error of this, and contain no score of a row."""

import zipfile
from dataclasses import asdict

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import LogisticRegression

from drpu import DRPUClassifier, KernelRatio, PriorEstimate, load, make_gaussian_pu, save
from drpu.exceptions import DataTypeError, ParameterError
from drpu.files.store import inspect_file


@pytest.fixture(scope="module")
def toy():
    return make_gaussian_pu(
        500, 3000, prior=0.4, n_test=3000, test_prior=0.2, separation=3, dimensions=3, random_state=0
    )


def fit(toy, sample_weight=None, **parameters):
    model = KernelRatio(width=1.0, ridge=0.1, n_centres=30)
    clf = DRPUClassifier(model, holdout=2, random_state=0, **parameters)
    return clf.fit(*toy.X_y(), sample_weight)


@pytest.fixture(scope="module")
def exact(toy):
    return fit(toy)


def content(path):
    with zipfile.ZipFile(path) as archive:
        return b"".join(archive.read(part) for part in archive.namelist())


@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
def test_a_coarse_classifier_adapts_as_usual(toy, tmp_path, scenario):
    clf = fit(toy, scenario=scenario)
    save(clf, tmp_path / "a", levels=50)
    back = load(tmp_path / "a")
    was, now = clf.adapt(toy.test), back.adapt(toy.test)
    assert abs(now.prior_.value - was.prior_.value) < 0.06
    assert abs(back.prior_.value - clf.prior_.value) < 0.06
    assert (now.predict(toy.test) == was.predict(toy.test)).mean() > 0.95
    assert (back.at_prior(0.5).predict(toy.test) == clf.at_prior(0.5).predict(toy.test)).mean() > 0.95
    assert 0 < back.expected_performance().accuracy <= 1


def test_no_positive_score_is_inside(exact, tmp_path):
    save(exact, tmp_path / "exact")
    save(exact, tmp_path / "a", levels=50)
    scores = exact.tails_.levels
    open_content, coarse = content(tmp_path / "exact"), content(tmp_path / "a")
    assert all(score.tobytes() in open_content for score in scores)  # the search finds what is there
    assert not any(score.tobytes() in coarse for score in scores)
    assert not any(repr(float(score)).encode() in coarse for score in scores)


def test_the_record_states_the_error(exact, tmp_path):
    save(exact, tmp_path / "a", levels=50)
    coarsening = inspect_file(tmp_path / "a")[1].fitted.coarsening
    assert coarsening.levels <= 50
    assert 0 < coarsening.positive_error <= 2 / 50
    assert 0 < coarsening.unlabeled_error <= 2 / 50


def test_a_known_prior_stays(toy, tmp_path):
    clf = fit(toy, prior=0.4)
    save(clf, tmp_path / "a", levels=50)
    assert load(tmp_path / "a").prior_ == clf.prior_ == PriorEstimate.given(0.4)


def test_saving_changes_nothing_in_the_classifier(toy, exact, tmp_path):
    before = asdict(exact.prior_), exact.tails_.levels.copy(), exact.predict_proba(toy.test)
    save(exact, tmp_path / "a", levels=50)
    assert asdict(exact.prior_) == before[0]
    assert_array_equal(exact.tails_.levels, before[1])
    assert_array_equal(exact.predict_proba(toy.test), before[2])


def test_an_exact_artifact_can_be_made_coarse_later(exact, tmp_path):
    save(exact, tmp_path / "exact")
    for path, clf in (("a", exact), ("b", load(tmp_path / "exact"))):
        save(clf, tmp_path / path, levels=50)
    assert load(tmp_path / "a").tails_ == load(tmp_path / "b").tails_


def test_a_coarse_artifact_is_saved_as_it_is_and_not_reduced_again(exact, tmp_path):
    save(exact, tmp_path / "a", levels=50)
    back = load(tmp_path / "a")
    save(back, tmp_path / "b")
    assert content(tmp_path / "a") == content(tmp_path / "b")
    with pytest.raises(ParameterError, match="levels must be None"):
        save(back, tmp_path / "c", levels=20)


def test_weighted_rows_can_be_made_coarse(toy, tmp_path):
    clf = fit(toy, np.random.default_rng(0).random(3500))
    save(clf, tmp_path / "a", levels=50)
    assert load(tmp_path / "a").tails_.n == pytest.approx(clf.tails_.n)


def test_only_fitted_classifiers_of_drpu_are_written(tmp_path):
    for clf, error in ((LogisticRegression(), DataTypeError), (DRPUClassifier(), ValueError)):
        with pytest.raises(error):
            save(clf, tmp_path / "a", levels=10)
    assert not list(tmp_path.iterdir())
