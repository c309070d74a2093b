"""Parameters of a classifier: a fit reads them, and later changes have no effect until the next fit."""

from copy import deepcopy
from inspect import signature

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from drpu import AUCScorer, Audit, Costs, DRPUClassifier, KernelRatio, load, ratio_risk_scorer, save, suspects
from rival_settings import TINY, fitted, labelled_toy, make_toy

pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")

AT_ANY_TIME = ("n_jobs", "verbose")  # parameters that may be changed at any time
# Another value of each parameter, which a later fit would accept, or one that it would refuse.
OTHERS = {
    "model": "boosted", "scenario": "case-control", "prior": 0.7, "cost": 0.9, "pos_label": "no",
    "negative_label": "no", "holdout": 0.5, "calibrate": False, "label_delay": 3, "keep_time": True,
    "keep_ids": True, "random_state": 7,
}  # fmt: skip
OTHERS_OF_RIVALS = {
    "model": "linear", "classifier": LogisticRegression(C=1e-3), "loss": "squared", "prior": 0.7, "cost": 0.9,
    "scenario": "single-sample", "pos_label": 0, "random_state": 7, "beta": 0.5, "gamma": 0.1,
    "test_prior": 0.8, "mixup": 9.0, "concentration": 3.0, "rounds": 9, "positive_strength": 1.0,
    "unlabeled_strength": 1.0, "steps": 1, "batch_size": 4, "learning_rate": 0.5, "noise": 3,
    "hidden": (3,), "strengths": (9.0, 9.0, 9.0), "n_generated": 11, "device": "meta",
}  # fmt: skip


def results(clf, X, y):
    """Everything that a fitted classifier says about rows."""
    found = [clf.predict(X), clf.decision_function(X), clf.ratio(X), clf.predict_proba(X)]
    june = clf.adapt(X, y)
    found += [june.prior_, june.cost_, june.threshold_, june.predict(X), clf.at_prior(0.1).threshold_]
    found += [
        clf.prior_,
        clf.cost_,
        clf.classes_,
        clf.expected_performance(),
        clf.at_budget(5, of=X).threshold_,
    ]
    found += [
        clf.plan_audit(X, n=20, random_state=0).rows,
        clf.evaluate(X, y, blank="negative"),
        clf.score(X, y),
    ]
    found += [AUCScorer()(clf, X, y), ratio_risk_scorer(clf, X, y), clf.sensitivity(2.0), clf.count(X)]
    return [*found, str(suspects(clf, X, y, repeats=1))]


@pytest.fixture(scope="module")
def rows():
    X, label = labelled_toy()
    known = label & (np.arange(len(label)) % 3 == 0)
    return X, np.where(known, "yes", None)


@pytest.fixture(scope="module")
def clf(rows):
    settings = {"scenario": "single-sample", "pos_label": "yes", "random_state": 0}
    return DRPUClassifier(KernelRatio(width=1.0, ridge=0.1, n_centres=30), holdout=3, **settings).fit(*rows)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (
            DRPUClassifier,
            "model scenario prior cost pos_label negative_label holdout calibrate label_delay keep_time "
            "keep_ids random_state n_jobs verbose",
        ),
        (DRPUClassifier.fit, "self X y sample_weight groups periods audits"),
        (DRPUClassifier.adapt, "self X y audit sample_weight shift level"),
        (DRPUClassifier.at_prior, "self prior"),
        (DRPUClassifier.at_cost, "self cost"),
    ],
)
def test_arguments_have_their_order(function, names):
    assert list(signature(function).parameters) == names.split()


def test_every_parameter_is_tried():
    assert {*OTHERS, *AT_ANY_TIME} == {*DRPUClassifier().get_params(deep=False)}


def same_results(clf, rows, wanted):
    for found, value in zip(results(clf, *rows), wanted, strict=True):
        assert_array_equal(found, value)


def test_parameters_that_are_changed_after_the_fit_have_no_effect(clf, rows, tmp_path):
    before = results(clf, *rows)
    changed = deepcopy(clf).set_params(model__width=9.0)
    same_results(changed, rows, before)
    changed.set_params(**OTHERS)
    same_results(changed, rows, before)
    save(changed, tmp_path / "changed.drpu")
    same_results(load(tmp_path / "changed.drpu"), rows, before)


def test_the_next_fit_reads_the_parameters(clf, rows):
    changed = deepcopy(clf).set_params(cost=Costs(false_alarm=9, miss=1), label_delay=2)
    assert changed.cost_ == 0.5
    assert changed.fit(*rows).cost_ == Costs(false_alarm=9, miss=1)
    assert changed.fitted_.population.label_delay == 2


@pytest.mark.parametrize("name", [name for name in TINY if name not in ("upu-squared", "nnpu-network")])
def test_rivals_keep_the_parameters_of_their_fit(name, tmp_path):
    toy = make_toy()
    clf = fitted(TINY[name], toy)
    before = rival_results(clf, toy.test)
    others = {p: OTHERS_OF_RIVALS[p] for p in clf.get_params(deep=False) if p not in AT_ANY_TIME}
    changed = deepcopy(clf).set_params(**others)
    assert_array_equal(rival_results(changed, toy.test), before)
    save(changed, tmp_path / "changed.drpu")
    assert_array_equal(rival_results(load(tmp_path / "changed.drpu", trusted=True), toy.test), before)
    assert not np.array_equal(rival_results(clf.set_params(cost=0.9).fit(*toy.X_y()), toy.test), before)


def rival_results(clf, X):
    found = [clf.decision_function(X), clf.predict(X)]
    if hasattr(clf, "predict_proba"):
        found.append(clf.predict_proba(X)[:, 1])
    if hasattr(clf, "at_prior"):
        found.append(clf.at_prior(0.2).decision_function(X))
    return np.array(found)


# -- metadata routing ------------------------------------------------------------------------------


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def months():
    """Rows, labels, the month of each row, and answers about other rows."""
    X, label = labelled_toy()
    rng = np.random.default_rng(1)
    y = (label & (rng.random(len(label)) < 0.5)).astype(int)
    return X, y, np.arange(len(y)) % 4, [(X[:60], Audit.random(np.arange(60), label[:60]))]


def routed():
    clf = DRPUClassifier(KernelRatio(n_centres=30), scenario="single-sample", holdout=2, random_state=0)
    return clf.set_fit_request(periods=True, audits=True)


def test_a_pipeline_passes_periods_and_audits_on(routing, months):
    X, y, month, audits = months
    pipe = make_pipeline(StandardScaler(), routed()).fit(X, y, periods=month, audits=audits)
    direct = clone(routed()).fit(StandardScaler().fit_transform(X), y, periods=month, audits=audits)
    assert pipe[-1].backtest_ == direct.backtest_
    assert_array_equal(pipe.predict_proba(X), direct.predict_proba(StandardScaler().fit_transform(X)))


def test_a_search_divides_periods_among_its_folds_and_passes_audits_on(routing, months):
    X, y, month, audits = months
    search = GridSearchCV(routed(), {"model__width": [0.5, 1.0]}, scoring=ratio_risk_scorer, cv=2)
    search.set_params(error_score="raise").fit(X, y, periods=month, audits=audits)
    best = clone(routed()).set_params(**search.best_params_).fit(X, y, periods=month, audits=audits)
    assert search.best_estimator_.backtest_ == best.backtest_
    assert_array_equal(search.predict_proba(X), best.predict_proba(X))


def test_arguments_that_were_not_asked_for_are_refused(routing, months):
    X, y, month, audits = months
    clf = DRPUClassifier("kernel", scenario="single-sample")
    for given in ({"periods": month}, {"audits": audits}):
        with pytest.raises(ValueError, match=f"{next(iter(given))}.* not explicitly set as requested"):
            make_pipeline(StandardScaler(), clf).fit(X, y, **given)
