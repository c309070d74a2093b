"""The functions of the page's script, run without a browser: their numbers are those of Python."""

import json
from importlib.resources import files

import numpy as np
import pytest
import quickjs
from numpy.testing import assert_allclose

from drpu import Costs, DRPUClassifier, make_gaussian_pu
from drpu.exceptions import ShiftWarning
from drpu.report.data import collect
from drpu.report.whatif import CLOSE, EXACT, FIGURES, LEVELS, whatif_json

SCRIPT = files("drpu.report").joinpath("page.js").read_text()
CALLS = """
var explorer = Explorer(JSON.parse(tables));
function ask(state) {
  state = JSON.parse(state);
  return JSON.stringify([explorer.expect(state), explorer.atBudget(state)]);
}
"""
PLACES = [
    (0.05, 0.5), (0.3, 0.9), (0.75, 0.13), (0.5, 0.01), (0.003, 0.5), (0.997, 0.2), (0.123, 0.0244),
]  # fmt: skip


class Explorer:
    """The explorer of a page, asked in Python."""

    def __init__(self, classifier, X=None, **options):
        self.data = collect(classifier, X, **options)
        self.tables = whatif_json(self.data)
        self._engine = quickjs.Context()
        self._engine.set("tables", self.tables)
        self._engine.eval(SCRIPT + CALLS)

    def __call__(self, *, known=None, prior=None, cost=None, budget=1):
        cost = self.data.cost if cost is None else cost
        state = {"known": known, "prior": prior, "cost": cost, "budget": budget}
        return json.loads(self._engine.get("ask")(json.dumps(state)))

    def expect(self, **state):
        return self(**state)[0]

    def budget(self, **state):
        return self(**state)[1]


def assert_same(found, classifier, atol, limits=None):
    """The figures are those that ``classifier`` expects, with their limits."""
    expected, (low, high) = classifier.expected_performance(), classifier.expected_range()
    for name in FIGURES:
        wanted = [getattr(part, name) for part in (expected, low, high)]
        value, *ends = np.array(found["figures"][name], dtype=float)  # null is NaN
        assert_allclose(value, wanted[0], atol=atol, err_msg=name)
        assert_allclose(ends, wanted[1:], atol=limits or atol, err_msg=name)


@pytest.fixture(scope="module")
def explorer(classifier, data):
    return Explorer(classifier, data.test, cost=0.6)


def test_figures_and_limits_are_those_of_python(explorer, classifier, single, data):
    for clf, ask in ((classifier, explorer), (single, Explorer(single))):
        for prior, cost in PLACES:
            found = ask.expect(prior=prior, cost=cost)
            there = clf.at_prior(prior).at_cost(cost)
            assert_same(found, there, EXACT)
            assert_allclose(found["threshold"], there.threshold_)


@pytest.mark.filterwarnings("ignore::drpu.exceptions.ContradictionWarning")
def test_uncalibrated_and_weighted_counts_give_the_figures_of_python(data):
    X, y = data.X_y()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    for clf in (
        DRPUClassifier("kernel", calibrate=False, random_state=0).fit(X, y),
        DRPUClassifier("kernel", random_state=0).fit(X, y, sample_weight=weight),
        DRPUClassifier("kernel", prior=1.0, random_state=0).fit(X, y),
    ):
        ask = Explorer(clf)
        for prior, cost in PLACES:
            assert_same(ask.expect(prior=prior, cost=cost), clf.at_prior(prior).at_cost(cost), EXACT)


def test_with_many_positives_figures_are_as_close_as_stated():
    data = make_gaussian_pu(10 * LEVELS, 30_000, prior=0.3, separation=3, dimensions=2, random_state=0)
    clf = DRPUClassifier("classifier", random_state=0).fit(*data.X_y())
    assert len(clf.fitted_.tails.levels) > LEVELS
    ask, rng = Explorer(clf), np.random.default_rng(0)
    assert len(ask.tables) < 500_000
    for prior, cost in [*PLACES, *rng.uniform(0.01, 0.99, (30, 2)).tolist()]:
        clf_there = clf.at_prior(prior).at_cost(cost)
        assert_same(ask.expect(prior=prior, cost=cost), clf_there, CLOSE, 2 * CLOSE)
        budget = clf_there.at_budget(rows=500, of=10_000).budget_
        found = ask.budget(prior=prior, budget=500)
        assert_allclose(
            found["recall"], [budget.recall.value, budget.recall.low, budget.recall.high], atol=CLOSE
        )


def test_a_known_prior_brings_its_limits_and_its_batch(explorer, classifier, data):
    june = classifier.adapt(data.test).at_cost(0.6)
    assert_same(explorer.expect(known=0), june, 1e-12)
    assert_same(explorer.expect(known=0, cost=0.85), classifier.adapt(data.test).at_cost(0.85), EXACT)
    assert_same(explorer.expect(known=1, cost=0.3), classifier.at_cost(0.3), EXACT)


def test_a_period_is_read_at_its_own_prior(classifier, data):
    months = np.repeat(["may", "june"], 300)
    ask = Explorer(classifier, data.test, by=months)
    june = classifier.adapt_by(data.test, by=months)["june"]
    found = ask.expect(known=2, cost=0.7)  # groups come in the order of their names, after found and training
    assert found["rows"] == 300
    assert found["flaggedRows"] is None
    expected = classifier.at_prior(june.prior).at_cost(0.7).expected_performance()
    for name in FIGURES:
        assert_allclose(found["figures"][name][0], getattr(expected, name), atol=EXACT)
    budget = classifier.at_prior(june.prior).at_budget(rows=30, of=300).budget_
    assert_budget(ask.budget(known=2, budget=30), budget)


def test_without_one_class_everything_or_nothing_is_flagged(explorer, classifier):
    for prior in (0.0, 1.0):
        found = explorer.expect(prior=prior, cost=0.5)
        assert_same(found, classifier.at_prior(prior), EXACT)
        assert found["flaggedRows"] == 600 * prior
        assert found["threshold"] is None  # infinite, which JSON does not have


def test_the_four_cells_add_up(explorer):
    for prior, cost in PLACES:
        cells = explorer.expect(prior=prior, cost=cost)["cells"]
        assert_allclose(sum(cell[0] for cell in cells.values()), 1)
        for value, low, high in cells.values():
            assert low <= value + 1e-12
            assert value <= high + 1e-12


def test_new_rows_that_are_flagged_are_counted(explorer, classifier, data, monkeypatch):
    for prior in (0.01, 0.3, 0.9):
        flagged = (classifier.at_prior(prior).predict(data.test) == 1).sum()
        assert explorer.expect(prior=prior, cost=0.5)["flaggedRows"] == flagged
    monkeypatch.setattr("drpu.report.whatif.NEW_ROWS", 200)  # then the page has some of the rows
    some = Explorer(classifier, data.test)
    assert (
        abs(some.expect(prior=0.3)["flaggedRows"] - (classifier.at_prior(0.3).predict(data.test) == 1).sum())
        < 6
    )


def assert_budget(found, budget):
    for name in ("precision", "recall", "lift"):
        figure = getattr(budget, name)
        assert_allclose(found[name][0], figure.value, rtol=EXACT, err_msg=name)
        assert_allclose(found[name][1:], [figure.low, figure.high], rtol=0.01, atol=0.001, err_msg=name)
    assert_allclose(found["threshold"], budget.threshold, rtol=1e-6)


def test_a_number_of_rows_gives_the_budget_of_python(explorer, classifier, data):
    june = classifier.adapt(data.test).at_cost(0.6)
    for rows in (1, 20, 100, 300, 600):
        assert_budget(explorer.budget(known=0, budget=rows), june.at_budget(rows=rows, of=data.test).budget_)
        for prior in (0.003, 0.6):  # the depth of rows that nobody has seen follows from the prior
            there = classifier.at_prior(prior).at_budget(rows=rows, of=600).budget_
            assert_budget(explorer.budget(prior=prior, budget=rows), there)


def test_an_audit_changes_the_figures_as_in_python(classifier, data):
    plan = classifier.plan_audit(data.test, n=80, random_state=0)
    audit = plan.answer(data.test_labels[plan.rows])
    ask, june = Explorer(classifier, data.test, audit=audit), classifier.adapt(data.test, audit=audit)
    assert_same(ask.expect(known=0), june, 1e-12)
    for cost in (0.2, 0.9):  # labels follow the map that the answers gave
        assert_same(ask.expect(known=0, cost=cost), june.at_cost(cost), EXACT)
        for prior in (1e-6, 0.1, 1 - 1e-6):  # where the map clips log-odds, and between
            assert_same(ask.expect(prior=prior, cost=cost), june.at_prior(prior).at_cost(cost), EXACT)
    for rows in (20, 300):
        assert_budget(ask.budget(known=0, budget=rows), june.at_budget(rows=rows, of=data.test).budget_)
        there = june.at_prior(0.3).at_budget(rows=rows, of=600).budget_
        assert_budget(ask.budget(prior=0.3, budget=rows), there)


def test_labels_that_stay_as_trained_stay_so_at_other_costs(classifier, data):
    with pytest.warns(ShiftWarning):
        ask, june = Explorer(classifier, 0.3 * data.test), classifier.adapt(0.3 * data.test)
    assert june.shift_ == "other"
    for cost in (0.3, 0.8):
        assert_same(ask.expect(known=0, cost=cost), june.at_cost(cost), EXACT)


def test_amounts_are_a_cost(classifier, data):
    costs = Costs(false_alarm=5, miss=200)
    ask = Explorer(classifier, data.test, cost=costs)
    june = classifier.adapt(data.test).at_cost(costs)
    unit = 600 * (costs.false_alarm + costs.miss)
    assert_allclose(unit * ask.expect(known=0)["figures"]["cost"][0], june.expected_bill(600).value)
