"""Public calls do not depend on the floating-point state of their caller, and leave it as it was."""

import inspect
import traceback

import numpy as np
import pytest

import drpu
from drpu import (
    DRPUClassifier,
    KernelMeanPrior,
    PriorMonitor,
    ScoreTails,
    UPUClassifier,
    _process,
    estimate_prior,
    load,
    make_gaussian_pu,
    plots,
    ratio_threshold,
    save,
    suspects,
    verify,
)
from drpu._process import DefaultErrors, default_errors
from drpu.beliefs.methods import prior_from_tails
from drpu.exceptions import DataError, ParameterError
from drpu.report import render_report, write_report

# Objects of numbers that compute nothing, and folds.
PLAIN = {"Costs", "PriorEstimate", "PUStratifiedKFold"}

pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")


@pytest.fixture
def raising():
    before = np.seterr(all="raise")
    yield
    assert set(np.geterr().values()) == {"raise"}
    np.seterr(**before)


PUBLIC = {name: getattr(drpu, name) for name in drpu.__all__ if name not in PLAIN | {"exceptions", "plots"}}
PUBLIC |= {name: getattr(plots, name) for name in plots.__all__}
PUBLIC |= {function.__name__: function for function in (write_report, render_report)}


def public_methods(cls):
    for name, value in vars(cls).items():
        function = value.__func__ if isinstance(value, classmethod) else value
        if not name.startswith("_") and inspect.isfunction(function):
            yield name, function


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_call_sets_its_own_state(name):
    public = PUBLIC[name]
    if not isinstance(public, type):
        assert hasattr(public, "has_default_errors")
        return
    bases = [cls for cls in public.__mro__ if cls.__module__.startswith("drpu.") and cls is not DefaultErrors]
    methods = [method for cls in bases if issubclass(cls, DefaultErrors) for method in public_methods(cls)]
    methods += public_methods(public)
    assert [name for name, method in methods if not hasattr(method, "has_default_errors")] == []


def test_the_state_is_set_once_by_the_outermost_call(monkeypatch, raising):
    entered = []
    errstate = np.errstate
    monkeypatch.setattr(_process.np, "errstate", lambda **state: entered.append(state) or errstate(**state))

    @default_errors
    def inner():
        return np.geterr()["divide"]

    @default_errors
    def outer():
        return [inner() for _ in range(3)]

    assert outer() == ["warn"] * 3
    assert len(entered) == 1
    outer()
    assert len(entered) == 2


def test_the_outermost_call_is_known_again_after_an_error(raising):
    @default_errors
    def failing():
        raise ParameterError("no")

    for _ in range(2):
        with pytest.raises(ParameterError):
            failing()
        assert np.geterr()["divide"] == "raise"
    assert default_errors(np.geterr)()["divide"] == "warn"


def test_a_traceback_shows_each_step_once(toy_of_floats):
    X, clf = toy_of_floats
    with pytest.raises(DataError) as caught:
        clf.adapt_predict(X[:, :0])
    steps = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert steps[0] == "test_a_traceback_shows_each_step_once"
    assert steps[1] == "adapt_predict"
    assert "call" not in steps
    assert len(steps) == len(set(steps))


@pytest.fixture
def toy_of_floats():
    """Rows, and a classifier that was fitted to them."""
    data = make_gaussian_pu(60, 240, prior=0.4, separation=3, random_state=0)
    X, y = data.X_y()
    return X, DRPUClassifier("kernel", holdout=2, random_state=0).fit(X, y)


@pytest.mark.parametrize("model", ["auto", "kernel"])
def test_classifiers_work_where_floating_point_errors_raise(model, raising, tmp_path):
    data = make_gaussian_pu(60, 240, prior=0.4, separation=3, random_state=0)
    X, y = data.X_y()
    clf = DRPUClassifier(model, holdout=2, random_state=0).fit(X, y)
    adapted = clf.adapt(X)
    plan = clf.plan_audit(X, n=20, random_state=0)
    answered = clf.adapt(X, audit=plan.answer((X[plan.rows, 0] > 1).astype(int)))
    for each in (clf, adapted, answered, clf.at_prior(0.1).at_cost(0.9), clf.at_budget(share=0.1)):
        each.predict(X)
        each.predict_proba(np.full((2, X.shape[1]), 1e90))
        each.expected_performance()
        each._repr_html_()
    answered.evaluate(X[:50], (X[:50, 0] > 1).astype(int))
    clf.adapt_by(X, by=np.arange(len(X)) % 2)
    clf.sensitivity(2.0)
    suspects(clf, X, y, repeats=1)
    PriorMonitor(clf).update(X)
    render_report(answered, X)
    save(adapted, tmp_path / "a.drpu")
    verify(tmp_path / "a.drpu")
    np.testing.assert_array_equal(load(tmp_path / "a.drpu").predict(X), adapted.predict(X))


def test_functions_work_where_floating_point_errors_raise(raising):
    assert ratio_threshold(0.0, 1.0) == -np.inf
    rng = np.random.default_rng(0)
    scores = rng.normal(1, 1, 200) * 300
    estimate_prior(scores, np.concatenate([scores, -scores]))
    prior_from_tails(ScoreTails(scores).update(-scores))
    X, y = make_gaussian_pu(60, 240, prior=0.4, random_state=0).X_y()
    KernelMeanPrior().estimate(X[y == 1], X[y == 0])
    UPUClassifier("linear", prior=0.4, random_state=0).fit(X, y).predict(X)
