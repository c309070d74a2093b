"""Artifacts with reduced counts work, record how they were reduced, and contain no score of a row."""

import json
import zipfile
from dataclasses import asdict

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import LogisticRegression

from drpu import DRPUClassifier, KernelRatio, PriorEstimate, load, make_gaussian_pu, save
from drpu.core.prior.estimate import prior_from_tails
from drpu.exceptions import DataError, ParameterError

FORMS = {"levels": {"levels": 50}, "epsilon": {"epsilon": 2.0, "random_state": 0}}


@pytest.fixture(scope="module")
def toy():
    return make_gaussian_pu(
        500, 3000, prior=0.4, n_test=3000, test_prior=0.2, separation=3, dimensions=3, random_state=0
    )


def fit(toy, **parameters):
    model = KernelRatio(width=1.0, ridge=0.1, n_centres=30)
    return DRPUClassifier(model, holdout=2, random_state=0, **parameters).fit(*toy.X_y())


@pytest.fixture(scope="module")
def exact(toy):
    return fit(toy)


def contents(path):
    with zipfile.ZipFile(path) as archive:
        return {part: archive.read(part) for part in archive.namelist()}


def manifest(path):
    return json.loads(contents(path)["manifest.json"])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
def test_a_protected_classifier_adapts_as_usual(toy, tmp_path, form, scenario):
    clf = fit(toy, scenario=scenario)
    save(clf, tmp_path / "a", **FORMS[form])
    back = load(tmp_path / "a")
    was, now = clf.adapt(toy.test), back.adapt(toy.test)
    assert abs(now.prior_.value - was.prior_.value) < 0.06
    assert abs(back.prior_.value - clf.prior_.value) < 0.06
    assert (now.predict(toy.test) == was.predict(toy.test)).mean() > 0.95
    assert (back.at_prior(0.5).predict(toy.test) == clf.at_prior(0.5).predict(toy.test)).mean() > 0.95
    assert 0 < back.expected_performance().accuracy <= 1


@pytest.mark.parametrize("form", FORMS)
def test_no_positive_score_is_inside(toy, exact, tmp_path, form):
    save(exact, tmp_path / "exact")
    save(exact, tmp_path / "a", **FORMS[form])
    scores = exact.tails_.levels
    open_content, content = (b"".join(contents(tmp_path / name).values()) for name in ("exact", "a"))
    assert all(score.tobytes() in open_content for score in scores)  # the search finds what is there
    assert not any(score.tobytes() in content for score in scores)
    assert not any(repr(float(score)).encode() in content for score in scores)


def protection(path):
    return manifest(path)["state"]["parts"]["fitted"]["config"]["protection"]


def test_the_manifest_states_the_error_of_quantiles(exact, tmp_path):
    save(exact, tmp_path / "a", levels=50)
    note = protection(tmp_path / "a")
    assert note["mechanism"] == "quantiles"
    assert note["levels"] <= 50
    assert 0 < note["positive_error"] <= 2 / 50
    assert 0 < note["unlabeled_error"] <= 2 / 50


@pytest.mark.parametrize(("seed", "randomness"), [(None, "operating system"), (7, "seeded")])
def test_the_manifest_states_budget_and_mechanism_but_no_seed(exact, tmp_path, seed, randomness):
    save(exact, tmp_path / "a", epsilon=1.5, random_state=seed)
    note = protection(tmp_path / "a")
    assert (note["mechanism"], note["epsilon"], note["randomness"]) == ("discrete-laplace", 1.5, randomness)
    assert note["neighbours"].startswith("data sets that differ by one row")
    assert note["not_covered"] == ["model"]
    assert not [key for key in note if "seed" in key or "state" in key]


def test_all_that_was_read_from_exact_counts_is_read_again(toy, tmp_path):
    clf = fit(toy, scenario="single-sample")
    save(clf, tmp_path / "a", epsilon=1.0, random_state=0)
    back = load(tmp_path / "a")
    core = back.fitted_
    labelled = back.tails_.positive_counts.sum()
    assert core.labelled_fraction == labelled / (labelled + back.tails_.n)
    assert core.labelled_fraction != clf.fitted_.labelled_fraction
    assert core.unlabeled_prior.value == pytest.approx(prior_from_tails(back.tails_).value)
    assert core.grid is None
    assert_array_equal(core.calibration.levels, back.tails_.levels)
    config = json.dumps(manifest(tmp_path / "a")["state"])
    assert repr(clf.prior_.value) not in config


def test_priors_that_were_estimated_and_handed_in_are_left_out(toy, tmp_path):
    estimate = PriorEstimate(0.4123456789, 0.3, 0.5, 0.95, "km2")
    for prior in (estimate, lambda tails: 0.4123456789):
        save(fit(toy, prior=prior), tmp_path / "a", epsilon=1.0, random_state=0)
        assert b"4123456789" not in b"".join(contents(tmp_path / "a").values())


@pytest.mark.parametrize("form", FORMS)
def test_a_known_prior_stays(toy, tmp_path, form):
    clf = fit(toy, prior=0.4)
    save(clf, tmp_path / "a", **FORMS[form])
    assert load(tmp_path / "a").prior_ == clf.prior_ == PriorEstimate.given(0.4)


def test_an_adaptation_keeps_its_prior_and_says_so(toy, exact, tmp_path):
    june = exact.adapt(toy.test)
    save(june, tmp_path / "a", epsilon=1.0, random_state=0)
    assert load(tmp_path / "a").prior_ == june.prior_
    assert protection(tmp_path / "a")["not_covered"] == [
        "model",
        "adapted prior",
    ]
    save(exact.at_prior(0.3), tmp_path / "b", epsilon=1.0, random_state=0)
    assert protection(tmp_path / "b")["not_covered"] == ["model"]


@pytest.mark.parametrize("form", FORMS)
def test_saving_changes_nothing_in_the_classifier(toy, tmp_path, form):
    clf = fit(toy)
    before = asdict(clf.prior_), clf.tails_.state(), clf.predict_proba(toy.test)
    save(clf, tmp_path / "a", **FORMS[form])
    assert asdict(clf.prior_) == before[0]
    assert_array_equal(clf.tails_.levels, before[1].arrays["levels"])
    assert_array_equal(clf.predict_proba(toy.test), before[2])


def test_an_exact_artifact_can_be_protected_later(exact, tmp_path):
    save(exact, tmp_path / "exact")
    for path, clf in (("a", exact), ("b", load(tmp_path / "exact"))):
        save(clf, tmp_path / path, epsilon=1.0, random_state=0)
    assert load(tmp_path / "a").tails_ == load(tmp_path / "b").tails_


@pytest.mark.parametrize("form", FORMS)
def test_a_protected_artifact_is_saved_as_it_is_and_not_protected_again(exact, tmp_path, form):
    save(exact, tmp_path / "a", **FORMS[form])
    back = load(tmp_path / "a")
    save(back, tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    for again in FORMS.values():
        with pytest.raises(ParameterError, match="Save it without levels"):
            save(back, tmp_path / "c", **again)


def test_weighted_rows_have_no_private_form(toy, tmp_path):
    X, y = toy.X_y()
    model = KernelRatio(width=1.0, ridge=0.1, n_centres=30)
    weight = np.random.default_rng(0).random(len(y))
    clf = DRPUClassifier(model, holdout=2, random_state=0).fit(X, y, weight)
    with pytest.raises(DataError, match="sample_weight"):
        save(clf, tmp_path / "a", epsilon=1.0)
    assert not list(tmp_path.iterdir())
    save(clf, tmp_path / "a", levels=50)
    assert load(tmp_path / "a").tails_.n == pytest.approx(clf.tails_.n)


@pytest.mark.parametrize(
    "options", [{"levels": 10, "epsilon": 1.0}, {"levels": 10, "random_state": 0}, {"random_state": 0}]
)
def test_one_protection_at_a_time(exact, tmp_path, options):
    with pytest.raises(ParameterError):
        save(exact, tmp_path / "a", **options)


def test_only_classifiers_with_held_out_scores_are_protected(tmp_path):
    for clf in (LogisticRegression(), DRPUClassifier()):
        with pytest.raises(ParameterError, match="not fitted"):
            save(clf, tmp_path / "a", levels=10)
