"""DRPUClassifier on two Gaussians: priors, decisions, adaptation, expected performance."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from drpu import (
    AdaptedClassifier,
    BoostedRatio,
    ClassifierRatio,
    DRPUClassifier,
    KernelRatio,
    NetworkRatio,
    PriorEstimate,
    load,
    make_gaussian_pu,
    make_pu,
    ratio_risk_scorer,
    ratio_threshold,
    save,
    shift_posterior,
)
from drpu.datasets import draw_at_prior
from drpu.exceptions import (
    AlphaWarning,
    ContradictionWarning,
    FewPositivesWarning,
    ParameterError,
    PriorError,
    SeenPositivesWarning,
    SeparationWarning,
    heard,
)
from shared_fixtures import case_control

# -- priors are estimated, and labels follow from them ------------------------------------


def test_adapting_gains_accuracy_when_the_prior_has_moved(toy, fitted):
    labels = toy.test_labels
    assert fitted.adapt(toy.test).score(toy.test, labels) > fitted.score(toy.test, labels)


def test_the_ratio_is_close_to_the_true_one_at_its_bulk(toy, fitted):
    assert np.mean(np.abs(fitted.ratio(toy.unlabeled) - toy.ratio(toy.unlabeled))) < 0.15


@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
def test_prior_and_ratio_refer_to_the_population_in_both_scenarios(scenario):
    gauss = make_gaussian_pu(1000, 2000, prior=0.4, n_test=4000, test_prior=0.4, separation=3, random_state=1)
    X, y, y_true = make_pu(gauss.test, gauss.test_labels, labelled=0.5, scenario=scenario, random_state=0)
    clf = DRPUClassifier("classifier", scenario=scenario, random_state=0).fit(X, y)
    population = slice(None) if scenario == "single-sample" else y == 0
    truth = y_true[population].mean()
    assert clf.prior_.low <= truth <= clf.prior_.high
    # E[p+/p] over the population is 1, and the ratio is at most 1/prior.
    assert_allclose(clf.ratio(X[population]).mean(), 1, atol=0.05)
    assert clf.ratio(X).max() <= 1 / clf.prior_.value + 1e-9


# -- decisions ---------------------------------------------------------------------------


def test_decision_is_zero_where_the_ratio_meets_the_threshold(toy, fitted):
    decision, ratio = fitted.decision_function(toy.test), fitted.ratio(toy.test)
    below_ceiling = ratio < 1 / fitted.prior_.value * (1 - 1e-9)
    assert_allclose(decision[below_ceiling], np.log(ratio / fitted.threshold_)[below_ceiling], atol=1e-9)
    assert_array_equal(decision > 0, ratio > fitted.threshold_)


def test_probabilities_are_a_distribution_under_the_current_prior(toy, fitted):
    proba = fitted.at_prior(0.1).predict_proba(toy.test)
    assert_allclose(proba.sum(axis=1), 1)
    ratio = fitted.ratio(toy.test)
    shifted = [shift_posterior(prior * ratio, prior, 0.1) for prior in fitted.prior_.quantiles]
    assert_allclose(proba[:, 1], np.mean(shifted, axis=0), atol=1e-7)


@pytest.mark.parametrize(("prior", "label"), [(0.0, 0), (1.0, 1)])
def test_one_class_left_means_one_label(toy, fitted, prior, label):
    adapted = fitted.at_prior(prior)
    assert (adapted.predict(toy.test) == label).all()
    assert np.isfinite(adapted.decision_function(toy.test)).all()
    assert_allclose(adapted.predict_proba(toy.test)[:, 1], prior)


def test_prior_and_cost_move_the_threshold_without_a_refit(fitted):
    assert fitted.prior_ == fitted.test_prior_ == fitted.train_prior_
    assert fitted.cost_ == 0.5
    for clf in (fitted.at_prior(0.2).at_cost(0.7), fitted.at_cost(0.7).at_prior(0.2)):
        assert clf.prior_ == clf.test_prior_ == PriorEstimate.given(0.2)
        assert clf.cost_ == 0.7
        possible = [ratio_threshold(prior, 0.2, cost=0.7) for prior in fitted.prior_.quantiles]
        assert min(possible) < clf.threshold_ < max(possible)
    assert fitted.at_cost(0.7).prior_ == fitted.prior_


def test_the_last_of_several_operating_points_decides(toy, fitted):
    june = fitted.adapt(toy.test)
    checked = june.at_cost(0.8).at_budget(30, of=toy.test)
    assert checked.predict(toy.test).sum() == 30
    assert checked.cost_ == 0.8
    assert checked.at_cost(0.3).budget_ is None
    assert checked.at_cost(0.3).threshold_ == june.at_cost(0.3).threshold_
    assert checked.at_prior(0.1).budget_ is None
    assert checked.at_prior(0.1).threshold_ == june.at_prior(0.1).at_cost(0.8).threshold_
    assert june.at_cost(0.3).shift_test_ == june.shift_test_  # what is known about the rows stays


@pytest.mark.filterwarnings("ignore::drpu.exceptions.ContradictionWarning")
@pytest.mark.parametrize("train_prior", [0.3, 1.0])
@pytest.mark.parametrize("test_prior", [0.2, 0.8])
def test_labels_and_probabilities_agree(toy, train_prior, test_prior):
    clf = case_control(prior=train_prior).fit(*toy.X_y()).at_prior(test_prior)
    probability = clf.predict_proba(toy.test)[:, 1]
    apart = np.abs(probability - 0.5) > 1e-9
    assert_array_equal(clf.predict(toy.test)[apart] == 1, (probability > 0.5)[apart])


# in a single sample, the 400 labelled rows belong to the population
@pytest.mark.parametrize(("scenario", "prior"), [("case-control", 0.3), ("single-sample", 1000 / 2400)])
def test_a_given_prior_above_what_the_rows_allow_is_named(scenario, prior):
    data = make_gaussian_pu(400, 2000, prior=0.3, separation=3, random_state=0)
    for given in (prior - 0.03, prior, prior + 0.03):  # so few rows cannot tell these apart
        DRPUClassifier("classifier", prior=given, scenario=scenario, random_state=0).fit(*data.X_y())
    with pytest.warns(ContradictionWarning, match=r"given prior of 0.700 .* at most 0.[345].. can be"):
        DRPUClassifier("classifier", prior=0.7, scenario=scenario, random_state=0).fit(*data.X_y())


def test_a_small_prior_with_a_narrow_interval_is_no_reason_to_warn():
    data = make_gaussian_pu(400, 60_000, prior=0.003, separation=8, random_state=0)
    clf = case_control().fit(*data.X_y())  # warnings are errors
    assert 0.001 < clf.train_prior_.value < 0.005
    assert clf.train_prior_.low > 0


# -- adaptation --------------------------------------------------------------------------


def test_an_adaptation_is_frozen(toy):
    X, y = toy.X_y()
    clf = case_control().fit(X, y)
    adapted = clf.adapt(toy.test)
    before = adapted.predict_proba(toy.test)
    clf.set_params(cost=0.9).fit(X[::-1] + 1, y[::-1])
    assert_array_equal(adapted.predict_proba(toy.test), before)
    with pytest.raises(ParameterError, match="at_prior"):
        adapted.set_params(cost=0.9)
    with pytest.raises(ParameterError, match="fit a DRPUClassifier and adapt it"):
        adapted.fit(X, y)
    assert adapted.cost == 0.5


def test_scikit_learn_can_freeze_an_adaptation_in_a_pipeline_and_calibrate_it(toy, fitted):
    X, y = toy.test, toy.test_labels
    adapted = fitted.adapt(X)
    pipeline = make_pipeline(FunctionTransformer(), FrozenEstimator(adapted)).fit(X, y)
    assert_array_equal(pipeline.predict(X), adapted.predict(X))
    calibrated = CalibratedClassifierCV(FrozenEstimator(adapted)).fit(X, y)
    assert calibrated.score(X, y) > adapted.score(X, y) - 0.02


def test_every_adaptation_starts_from_training(toy, fitted):
    twice = fitted.at_prior(0.9).adapt(toy.test)
    once = fitted.adapt(toy.test)
    assert twice.prior_ == once.prior_
    assert twice.train_prior_ == fitted.prior_
    assert isinstance(twice.at_prior(0.5), AdaptedClassifier)


def test_weights_of_two_count_like_rows_seen_twice(toy, fitted):
    weight = np.where(toy.test_labels == 1, 2.0, 1.0)
    weighted = fitted.adapt(toy.test, sample_weight=weight)
    repeated = fitted.adapt(np.repeat(toy.test, weight.astype(int), axis=0))
    assert_allclose(weighted.prior_.value, repeated.prior_.value, atol=0.01)  # effective sizes differ


def test_a_known_training_prior_is_used_as_it_is(toy):
    clf = case_control(prior=0.5).fit(*toy.X_y())
    assert clf.prior_ == PriorEstimate.given(0.5)
    assert abs(clf.adapt(toy.test).prior_.value - toy.test_labels.mean()) < 0.03


def test_a_single_sample_has_no_prior_below_its_labelled_share(toy):
    clf = DRPUClassifier("classifier", scenario="single-sample", prior=0.1)
    with pytest.raises(PriorError, match=r"at least 0\.25"):
        clf.fit(*toy.X_y())


@pytest.mark.parametrize("weighted", [False, True])
def test_adapting_and_labelling_in_one_call_is_one_after_the_other(toy, fitted, weighted):
    weight = np.random.default_rng(0).integers(1, 4, len(toy.test)) if weighted else None
    adapted, labels = fitted.at_cost(0.7).adapt_predict(toy.test, sample_weight=weight, level=0.9)
    apart = fitted.adapt(toy.test, sample_weight=weight, level=0.9).at_cost(0.7)
    assert adapted.prior_ == apart.prior_
    assert adapted.cost_ == 0.7
    assert_array_equal(labels, apart.predict(toy.test))


def test_every_row_is_scored_once(toy, fitted, scored_rows):
    fitted.adapt_predict(toy.test)
    assert sum(scored_rows) == len(toy.test)


# -- uncertain rows ----------------------------------------------------------------------------


def test_uncertain_rows_are_those_whose_label_changes_inside_the_interval(toy, fitted):
    adapted = fitted.adapt(toy.test)
    ends = [fitted.at_prior(end).predict(toy.test) for end in (adapted.prior_.low, adapted.prior_.high)]
    # both average over the training prior, of which the interval moves every value a little differently
    assert (adapted.uncertain(toy.test) != (ends[0] != ends[1])).mean() < 0.005
    assert not fitted.at_prior(0.3).uncertain(toy.test).any()


# -- a prior that is not identified ---------------------------------------------------------


def heard_in(action):
    with heard() as found:
        result = action()
    return result, [warning for warning in found if isinstance(warning, SeparationWarning)]


def test_fit_adapt_and_load_warn_of_an_unidentified_prior_each_time(tmp_path):
    data = make_gaussian_pu(150, 400, prior=0.3, separation=0.5, random_state=0)
    X, path = data.unlabeled, tmp_path / "c.drpu"
    clf = heard_in(lambda: DRPUClassifier("kernel", random_state=0).fit(*data.X_y()))[0]
    assert not clf.prior_.identified
    assert "not identified" in repr(clf)
    save(clf, path)
    pipe = heard_in(lambda: make_pipeline(StandardScaler(), clone(clf)).fit(*data.X_y()))[0]
    save(pipe, tmp_path / "pipe.drpu")
    calls = (
        lambda: clone(clf).fit(*data.X_y()),
        lambda: clf.adapt(X, shift="prior"),
        lambda: load(path),
        lambda: load(tmp_path / "pipe.drpu", trusted=True),
    )
    for call in calls:
        for _ in range(2):
            _, said = heard_in(call)
            assert len(said) == 1
            assert all(name in str(said[0]) for name in ("at_prior", "at_budget", "plan_audit"))


def test_predictions_and_operating_points_do_not_warn_of_the_prior(tmp_path):
    data = make_gaussian_pu(150, 400, prior=0.3, separation=0.5, random_state=0)
    X, path = data.unlabeled, tmp_path / "c.drpu"
    clf = heard_in(lambda: DRPUClassifier("kernel", random_state=0).fit(*data.X_y()))[0]
    known, checked = clf.at_prior(0.3), clf.at_budget(20, of=X)
    for other in (clf, known, checked, clf.at_cost(0.8)):
        assert heard_in(lambda other=other: (other.predict(X), other.predict_proba(X)))[1] == []
    for other in (known, checked):  # labels do not depend on the prior that is not identified
        save(other, path)
        assert heard_in(lambda: load(path))[1] == []


# -- few positives -----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::drpu.exceptions.SeparationWarning")
def test_fifty_positives_work_and_warn(toy):
    with pytest.warns(FewPositivesWarning, match="50 labelled positives"):
        clf = DRPUClassifier(random_state=0).fit_pu(toy.positive[:50], toy.unlabeled)
    # The prior is not identified, so that its value is a central one; 85 % are of the majority class.
    assert clf.adapt(toy.test).score(toy.test, toy.test_labels) > 0.86


@pytest.mark.filterwarnings("ignore::drpu.exceptions.SeparationWarning")
@pytest.mark.filterwarnings("ignore::drpu.exceptions.PriorBoundaryWarning")
@pytest.mark.filterwarnings("ignore::drpu.exceptions.FewPositivesWarning")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_handful_of_positives_fit_without_a_split(toy, n):
    def fit():
        return DRPUClassifier(random_state=0).fit_pu(toy.positive[:n], toy.unlabeled[:200])

    with pytest.warns(SeenPositivesWarning, match="no rows were held out"):
        clf = fit()
    with pytest.warns(SeenPositivesWarning):
        again = fit()
    assert len(clf.model_.functions) == 1
    assert_array_equal(clf.ratio(toy.test), again.ratio(toy.test))


@pytest.mark.filterwarnings("ignore::drpu.exceptions.SeparationWarning")
def test_a_correction_above_the_prior_is_noticed(toy):
    network = NetworkRatio(hidden=(8,), epochs=3, alpha=0.95)
    with pytest.warns(AlphaWarning, match=r"alpha = 0\.95"):
        case_control(network, holdout=0.5).fit(*toy.X_y())


# -- settings ----------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["classifier", "boosted"])
def test_parallel_folds_change_nothing(toy, model):
    X, y = toy.X_y()
    one, two = (case_control(model, holdout=3, n_jobs=n).fit(X, y) for n in (1, 2))
    assert one.prior_ == two.prior_
    assert one.tails_ == two.tails_
    assert_array_equal(one.decision_function(X), two.decision_function(X))


@pytest.mark.parametrize(
    "model",
    [
        "kernel",
        KernelRatio(width=1.0, ridge=0.1),
        BoostedRatio(n_rounds=20),
        ClassifierRatio(LogisticRegression()),
        LogisticRegression(),
        RandomForestClassifier(20, min_samples_leaf=5),
    ],
    ids=lambda model: model if isinstance(model, str) else type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::drpu.exceptions.SeparationWarning")
def test_models_come_as_names_ratios_or_classifiers(toy, model):
    clf = case_control(model, holdout=0.3).fit(*toy.X_y())
    assert clf.adapt(toy.test).score(toy.test, toy.test_labels) > 0.85  # the majority class has 0.84


def test_folds_score_every_row_once_in_training_and_with_each_model_later(toy):
    clf = case_control(holdout=4).fit(*toy.X_y())
    assert (clf.tails_.n_positive, clf.tails_.n) == (300, 900)
    counted = clf.fitted_.count(toy.test)
    assert counted.counts.sum() == 4 * len(toy.test)
    assert counted.n == len(toy.test)


def test_without_calibration_the_model_speaks_for_itself(toy):
    clf = case_control(holdout=0.3, calibrate=False).fit(*toy.X_y())
    ratio, model = clf.ratio(toy.test), clf.model_.ratio(toy.test)
    assert_allclose(ratio, np.minimum(model, 1 / clf.prior_.value))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"cost": 1.0}, "cost must lie strictly between 0 and 1, got 1.0"),
        ({"scenario": "both"}, "scenario must be one of 'auto', 'case-control', 'single-sample', got 'both'"),
        ({"prior": "magic"}, "prior must be one of 'auto'"),
        ({"prior": "matching"}, "prior must be one of 'auto'"),
        ({"prior": 30}, "a prior is the share of positives, not a percentage"),
        ({"label_delay": -1, "scenario": "single-sample"}, "label_delay must be .*at least 0, got -1"),
        (
            {"label_delay": 1, "scenario": "case-control"},
            "label_delay must be 0 with scenario='case-control'",
        ),
        ({"model": "deep"}, "model must be one of 'auto'"),
        ({"model": KernelRatio}, r"write KernelRatio\(\)"),
        ({"model": LogisticRegression}, r"write LogisticRegression\(\)"),
        *(
            ({"model": wrong}, "model must be a name, a density ratio")
            for wrong in (3, None, LinearSVC(), StandardScaler(), len)
        ),
        ({"holdout": 1}, "holdout must be at least 2, got 1"),
        ({"holdout": 0.0}, "holdout must lie strictly between 0 and 1"),
        ({"holdout": "half"}, "holdout must be 'auto'"),
        ({"holdout": 10_000}, "more folds than there are positives"),
        ({"calibrate": "yes"}, "calibrate must be True or False"),
        ({"n_jobs": 0}, "n_jobs must be None"),
        ({"n_jobs": "all"}, "n_jobs must be None"),
        ({"verbose": "yes"}, "verbose must be an integer"),
        ({"random_state": -1}, "random_state must be None"),
    ],
)
def test_a_wrong_setting_is_named_before_any_work(toy, parameters, message):
    with pytest.raises(ParameterError, match=message):
        DRPUClassifier(**parameters).fit(*toy.X_y())


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "ratio", "adapt"])
def test_nothing_works_before_fit(toy, method):
    with pytest.raises(NotFittedError, match="call fit"):
        getattr(DRPUClassifier(scenario="case-control"), method)(toy.test)
    for attribute in ("prior_", "threshold_", "tails_", "model_"):
        with pytest.raises(NotFittedError):
            getattr(DRPUClassifier(scenario="case-control"), attribute)


# -- scikit-learn's tools ----------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::drpu.exceptions.SeparationWarning")
def test_grid_search_needs_no_true_labels(toy):
    X, y = toy.X_y()
    pipe = make_pipeline(
        StandardScaler(),
        case_control(KernelRatio(ridge=0.1, n_centres=50), holdout=0.3),
    )
    grid = {"drpuclassifier__model__width": [0.02, 1.0]}
    search = GridSearchCV(pipe, grid, scoring=ratio_risk_scorer, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_["drpuclassifier__model__width"] == 1.0


def test_the_scorer_prefers_the_true_ratio(toy, fitted):
    X, y = toy.X_y()

    class Fixed:
        def __init__(self, ratio):
            self.ratio = ratio

    true = ratio_risk_scorer(Fixed(toy.ratio), X, y)
    assert true > ratio_risk_scorer(Fixed(lambda rows: np.ones(len(rows))), X, y)
    assert true > ratio_risk_scorer(fitted, X, y) - 0.02
    with pytest.raises(ParameterError, match="must have a ratio method"):
        ratio_risk_scorer(LogisticRegression(), X, y)


def test_a_test_set_at_another_prior_is_recognised_at_every_prior(toy, fitted):
    pool = make_gaussian_pu(
        10, 10, prior=0.5, n_test=8000, test_prior=0.5, separation=3, dimensions=2, random_state=5
    )
    for prior in (0.02, 0.3, 0.7, 0.98):
        X, _ = draw_at_prior(pool.test, pool.test_labels, prior, 2000, random_state=0)
        assert abs(fitted.adapt(X).prior_.value - prior) < 0.1


def test_the_default_says_what_it_did(toy, caplog):
    with caplog.at_level("INFO", logger="drpu"):
        clf = case_control("auto", holdout=2, verbose=1).fit(*toy.X_y())
    members = (
        "log-ratio of 0.25 x a forest of 35 trees + 0.25 x a forest of 35 trees + 0.25 x 65 boosted trees"
    )
    assert clf.model_.describe().startswith(f"2 folds of {members}")
    said = caplog.text
    assert "300 positives, 900 unlabeled rows" in said
    assert members in said
    assert str(clf.prior_) in said


def test_rows_are_scored_in_parts_without_a_trace(toy, fitted):
    many = np.tile(toy.test, (60, 1))  # 90,000 rows, which are more than are scored at a time
    assert_array_equal(fitted.decision_function(many), np.tile(fitted.decision_function(toy.test), 60))
    assert_array_equal(fitted.count(many).counts, 60 * fitted.count(toy.test).counts)
