"""The call says how rows were collected; labelled rows that reappear as unlabeled ones say it, too."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from drpu import DRPUClassifier, load, make_gaussian_pu, make_pu, ratio_risk_scorer, save
from drpu.exceptions import DataError, ScenarioWarning
from drpu.report.texts import scenario_text
from drpu.tables.copies import reappearing_share
from rival_settings import TINY

# Any other warning about these small data is correct; one about the scenario is an error where none is due.
pytestmark = [
    pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning"),
    pytest.mark.filterwarnings("error::drpu.exceptions.ScenarioWarning"),
]
CLASSIFIERS = {"drpu": DRPUClassifier("classifier", holdout=2)} | TINY
methods = pytest.mark.parametrize("name", CLASSIFIERS)


def classifier(name, **parameters):
    parameters = {"scenario": "auto", "random_state": 0} | parameters
    if "prior" in parameters or name in ("vpu", "elkan-noto"):
        return clone(CLASSIFIERS[name]).set_params(**parameters)
    return clone(CLASSIFIERS[name]).set_params(prior=0.6, **parameters)


@pytest.fixture(scope="module")
def table():
    """One sample in which some positives are labelled."""
    rows = make_gaussian_pu(1, 600, prior=0.4, separation=4, random_state=0)
    return make_pu(rows.unlabeled, rows.unlabeled_labels, labelled=0.4, random_state=0)


@pytest.fixture(scope="module")
def copied(table):
    """All rows as unlabeled ones, and the labelled rows once more."""
    labelled = table.X[table.y == 1]
    y = np.repeat([0, 1], [len(table.X), len(labelled)])
    return np.concatenate([table.X, labelled]), y


@methods
def test_one_table_is_a_single_sample_two_are_case_control_and_what_is_said_holds_for_both(
    name, table, tmp_path
):
    X, y = table.X, table.y

    def fits(scenario):
        together = classifier(name, scenario=scenario).fit(X, y)
        return together, classifier(name, scenario=scenario).fit_pu(X[y == 1], X[y == 0])

    auto, single, control = (fits(scenario) for scenario in ("auto", "single-sample", "case-control"))
    assert [clf.scenario_ for clf in auto] == ["single-sample", "case-control"]
    assert [clf.scenario_ for clf in single] == ["single-sample"] * 2
    assert [clf.scenario_ for clf in control] == ["case-control"] * 2
    for found, told in ((auto[0], single[0]), (auto[1], control[1])):
        assert_array_equal(found.decision_function(X), told.decision_function(X))
    for clf in (auto[0], single[0], control[0]):
        save(clf, tmp_path / "clf.drpu")
        loaded = load(tmp_path / "clf.drpu", trusted=True)
        assert (loaded.scenario_, loaded.scenario) == (clf.scenario_, clf.scenario)
        assert_array_equal(loaded.predict(X), clf.predict(X))


@methods
def test_labelled_rows_that_reappear_mean_case_control(name, copied):
    X, y = copied
    with pytest.warns(ScenarioWarning, match="100% of the labelled positives .* case-control"):
        clf = classifier(name).fit(X, y)
    assert clf.scenario_ == "case-control"
    told = classifier(name, scenario="case-control").fit(X, y)
    assert_array_equal(clf.decision_function(X), told.decision_function(X))


def test_where_the_rows_cannot_tell_it_is_a_single_sample(copied):
    X, y = copied
    few = np.append(np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:19])
    coarse = np.sign(X[:, :1])
    for rows, labels in ((X[few], y[few]), (sparse.csr_matrix(X), y), (coarse, y)):
        assert classifier("drpu").fit(rows, labels).scenario_ == "single-sample"


def test_a_positive_class_with_few_values_is_a_single_sample():
    """Rows of such positives coincide by chance, and those of the other class never do."""
    rng = np.random.default_rng(0)
    mistakes = 0
    for _ in range(200):
        positive = rng.random(4000) < 0.1
        X = np.where(positive, rng.integers(0, 300, 4000), rng.normal(size=4000))[:, None]
        y = positive & (rng.random(4000) < 0.1)
        mistakes += reappearing_share(X[y], X[~y]) is not None
    assert mistakes <= 2  # the level of the test is one percent


@methods
def test_the_text_of_a_fitted_classifier_names_the_scenario_that_was_chosen(name, table):
    clf = classifier(name)
    assert "scenario" not in repr(clf)
    assert repr(clf.fit(table.X, table.y)) == repr(clf)
    assert "scenario_='single-sample')" in repr(clf)
    assert repr(clf.set_params(scenario="single-sample")).count("single-sample") == 1
    assert repr(type(clf)()) == f"{type(clf).__name__}()"


def test_adapted_classifiers_have_the_scenario_of_the_fit(table):
    clf = classifier("drpu").fit(table.X, table.y)
    for adapted in (clf.adapt(table.X), clf.at_prior(0.2)):
        assert adapted.scenario_ == "single-sample"
        assert "scenario='single-sample'" in repr(adapted)
        assert "single-sample" in adapted._repr_html_()
    assert scenario_text(clf.fitted_).startswith("single-sample: ")


def test_a_search_scores_the_population_of_the_scenario_that_was_chosen(table):
    scores = []
    for scenario in ("auto", "single-sample"):
        search = GridSearchCV(
            classifier("drpu", scenario=scenario), {"calibrate": [True]}, scoring=ratio_risk_scorer, cv=2
        )
        scores.append(search.fit(table.X, table.y).best_score_)
    assert search.best_estimator_.scenario_ == "single-sample"
    assert scores[0] == scores[1]
    adapted = search.best_estimator_.at_prior(0.2)
    fitted = search.best_estimator_
    assert ratio_risk_scorer(adapted, table.X, table.y) == ratio_risk_scorer(fitted, table.X, table.y)


def test_a_backtest_inherits_the_scenario_of_all_rows(table):
    months = np.arange(len(table.X)) % 5
    found, told = (
        classifier("drpu", scenario=scenario, prior="auto").fit(table.X, table.y, periods=months).backtest_
        for scenario in ("auto", "single-sample")
    )
    assert found == told
    # labelled rows of the first months reappear, but hardly any of all of them
    X, y, months = _copied_in_the_first_months(table)
    clf = classifier("drpu", prior="auto").fit(X, y, periods=months)
    assert clf.scenario_ == "single-sample"
    told = classifier("drpu", scenario="single-sample", prior="auto").fit(X, y, periods=months)
    assert clf.backtest_ == told.backtest_


def _copied_in_the_first_months(table):
    """Five periods; all rows of the last ones are there twice, so that equal rows say nothing there."""
    labelled = table.X[table.y == 1]
    rest = table.X[table.y == 0]
    twice = np.repeat(rest, 2, axis=0)
    X = np.concatenate([labelled[:60], labelled[:60], rest[:80], labelled, twice])
    y = np.concatenate([np.ones(60), np.zeros(140), np.ones(len(labelled)), np.zeros(len(twice))])
    months = np.concatenate([np.zeros(200), 1 + np.arange(len(labelled)) % 4, 1 + np.arange(len(twice)) % 4])
    return X, y, months


def test_periods_need_a_table_without_copies_of_labelled_rows(copied):
    X, y = copied
    months = np.arange(len(y)) % 4
    with pytest.raises(DataError, match=r"periods need one sample, but 100% .* say scenario='single-sample'"):
        classifier("drpu").fit(X, y, periods=months)
    clf = classifier("drpu", scenario="single-sample").fit(X, y, periods=months)
    assert clf.scenario_ == "single-sample"
