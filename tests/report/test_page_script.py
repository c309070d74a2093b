"""The script of the page, run without a browser: its numbers are those of Python."""

import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest
import quickjs
from numpy.testing import assert_allclose

from drpu import Costs, DRPUClassifier, make_gaussian_pu
from drpu.exceptions import ShiftWarning, silent
from drpu.report import render_report
from drpu.report.texts import share
from shared_fixtures import empty_figure

SCRIPT = files("drpu.report").joinpath("page.js").read_text()
DOCUMENT = """
var elements = {};
function Element(attributes, text) {
  var listeners = {}, self = this;
  this.textContent = text;
  this.value = attributes.value || "";
  this.max = attributes.max || "";
  this.getAttribute = function (name) { return name in attributes ? attributes[name] : null; };
  this.setAttribute = function (name, value) { attributes[name] = String(value); };
  this.removeAttribute = function (name) { delete attributes[name]; };
  this.addEventListener = function (kind, listener) { listeners[kind] = listener; };
  this.fire = function (kind) { listeners[kind].call(self); };
}
JSON.parse(markup).forEach(function (part) { elements[part[0]] = new Element(part[1], part[2]); });
var document = {
  getElementById: function (id) { return elements[id] || null; }, querySelectorAll: function () { return []; }
};
function read(id, name) {
  if (name === "value") { return elements[id].value; }
  return name === "text" ? elements[id].textContent : elements[id].getAttribute(name);
}
function act(id, kind, value) { if (value !== null) { elements[id].value = value; } elements[id].fire(kind); }
"""
ASK = """
var explorer = Explorer(JSON.parse(tables));
function ask(name, state) { return JSON.stringify(explorer[name](JSON.parse(state))); }
"""
EXACT = 1e-4  # largest difference from Python with up to 250 different scores of held-out positives
CLOSE = 0.02  # and with more of them
WIDE_RANGE = 0.3  # a wider range is shown without its value
TABLE_FIGURES = ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost")
PLACES = [
    (0.05, 0.5), (0.3, 0.9), (0.75, 0.13), (0.5, 0.01), (0.003, 0.5), (0.997, 0.2), (0.123, 0.0244),
]  # fmt: skip
CELLS = ("truePositives", "misses", "falseAlarms", "trueNegatives")


class Elements(HTMLParser):
    """The elements of a page that have an id: the id, the attributes, and the text at their beginning."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self._open = None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self._open = None
        if "id" in dict(attributes):
            self._open = [dict(attributes)["id"], dict(attributes), ""]
            self.found.append(self._open)

    def handle_data(self, data):
        if self._open is not None:
            self._open[2] += data


class Script:
    """The script in an engine, with the elements of a page."""

    def __init__(self, tables, html):
        self.tables = tables
        self.cost = json.loads(tables)["cost"]
        self._engine = quickjs.Context()
        self._engine.set("tables", tables)
        self._engine.set("markup", json.dumps(Elements(html).found))
        self._engine.eval(DOCUMENT + SCRIPT + ASK)

    @classmethod
    def of(cls, classifier, X=None, *, drawn=False, **options):
        """The script of the page about a classifier and new rows, which has run."""
        with pytest.MonkeyPatch.context() as patch:
            if not drawn:  # figures take most of the time
                patch.setattr("drpu.report.page.as_svg", empty_figure)
            html = render_report(classifier, X, **options)
        return cls(re.search(r'id="tables">(.*?)</script>', html, flags=re.S).group(1), html)

    def _ask(self, function, known=None, prior=None, cost=None, budget=1):
        cost = self.cost if cost is None else cost
        state = {"known": known, "prior": prior, "cost": cost, "budget": budget}
        return json.loads(self._engine.get("ask")(function, json.dumps(state)))

    def expect(self, **state):
        return self._ask("expect", **state)

    def budget(self, **state):
        return self._ask("atBudget", **state)

    def read(self, id, name="text"):
        return self._engine.get("read")(id, name)

    def act(self, id, kind="input", value=None):
        self._engine.get("act")(id, kind, value)

    def shown(self, name):
        """A number of the page with its limits, without rounding."""
        value = self.read(f"out-{name}", "data-value")
        ends = [self.read(f"range-{name}", f"data-{end}") for end in ("low", "high")]
        return [float(x) for x in (value, *ends)]

    def words(self, name):
        """The text of a number of the page, and of its range."""
        return self.read(f"out-{name}"), self.read(f"range-{name}")

    def rows(self, name):
        """A number of rows as the page writes it, and its range."""
        words, ends = self.words(name)
        numbers = [int(text.replace(",", "")) for text in (ends or words).split(" to ")]
        if ends == "":  # a wide range is shown without its value
            return [round(self.shown(name)[0]), *numbers]
        return [int(words.replace(",", "")), *numbers]

    def assert_says(self, classifier):
        """The figures of the page are those of Python, with their limits."""
        expected = classifier.expected_performance()
        assert float(self.read("out-threshold", "data-value")) == pytest.approx(classifier.threshold_)
        for name in TABLE_FIGURES:
            figure = getattr(expected, name)
            wanted = [figure.value, figure.low, figure.high]
            assert_allclose(self.shown(name), wanted, atol=EXACT, err_msg=name)


def assert_same(found, classifier, atol, limits=None):
    """The figures are those that ``classifier`` expects, with their limits."""
    expected = classifier.expected_performance()
    for name in TABLE_FIGURES:
        figure = getattr(expected, name)
        wanted = [figure.value, figure.low, figure.high]
        value, *ends = np.array(found["figures"][name], dtype=float)  # null is NaN
        assert_allclose(value, wanted[0], atol=atol, err_msg=name)
        assert_allclose(ends, wanted[1:], atol=limits or atol, err_msg=name)


@pytest.fixture(scope="module")
def explorer(classifier, data):
    return Script.of(classifier, data.test, cost=0.6)


def test_figures_and_limits_are_those_of_python(explorer, classifier, single, data):
    for clf, ask in ((classifier, explorer), (single, Script.of(single))):
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
        ask = Script.of(clf)
        for prior, cost in PLACES:
            assert_same(ask.expect(prior=prior, cost=cost), clf.at_prior(prior).at_cost(cost), EXACT)


def test_with_many_positives_figures_are_as_close_as_stated():
    data = make_gaussian_pu(2500, 30_000, prior=0.3, separation=3, dimensions=2, random_state=0)
    clf = DRPUClassifier("classifier", random_state=0).fit(*data.X_y())
    assert len(clf.fitted_.tails.levels) > 250
    ask, rng = Script.of(clf), np.random.default_rng(0)
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
    with silent():
        tab = Script.of(classifier, data.test, by=months)
    june = classifier.adapt_by(data.test, by=months)["june"]
    found = tab.expect(known=2, cost=0.7)  # groups come in the order of their names, after found and training
    assert found["rows"] == 300
    assert found["flaggedRows"] is None
    expected = june.classifier.at_cost(0.7).expected_performance()
    for name in TABLE_FIGURES:
        assert_allclose(found["figures"][name][0], getattr(expected, name).value, atol=EXACT)
    budget = classifier.at_prior(june.prior).at_budget(rows=30, of=300).budget_
    assert_budget(tab.budget(known=2, budget=30), budget)
    tab.act("period", "change", "2")
    assert sum(tab.shown(name)[0] for name in CELLS) == 300
    assert tab.read("out-reallyFlagged") == "\N{EN DASH}"
    tab.act("prior-number", value="0.5")
    assert tab.read("period", "value") == ""
    tab.act("as-found", "click")
    assert tab.read("period", "value") == "0"


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


def test_flagged_new_rows_are_counted_or_estimated_from_some(explorer, classifier, data, monkeypatch):
    found = classifier.adapt(data.test).at_cost(0.6)
    assert explorer.read("out-reallyFlagged") == str((found.predict(data.test) == 1).sum())
    monkeypatch.setattr("drpu.report.data.NEW_ROWS", 200)  # then the page has some of the rows
    some = Script.of(classifier, data.test)
    for prior in (0.01, 0.3, 0.9):
        flagged = (classifier.at_prior(prior).predict(data.test) == 1).sum()
        assert explorer.expect(prior=prior, cost=0.5)["flaggedRows"] == flagged
        assert abs(some.expect(prior=prior)["flaggedRows"] - flagged) < 6
    some.act("prior-number", value="0.3")
    assert some.read("out-reallyFlagged").startswith("about ")


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
    ask, june = Script.of(classifier, data.test, audit=audit), classifier.adapt(data.test, audit=audit)
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
        ask, june = Script.of(classifier, 0.3 * data.test), classifier.adapt(0.3 * data.test)
    assert june.shift_ == "other"
    for cost in (0.3, 0.8):
        assert_same(ask.expect(known=0, cost=cost), june.at_cost(cost), EXACT)


@pytest.fixture
def tab(classifier, data):
    return Script.of(classifier, data.test, cost=0.6)


def test_controls_move_the_numbers_to_what_python_gives(tab, classifier, data):
    tab.assert_says(classifier.adapt(data.test).at_cost(0.6))
    tab.act("prior", value="0.05")
    tab.act("cost-number", value="0.13")
    tab.assert_says(classifier.at_prior(0.05).at_cost(0.13))
    tab.act("as-trained", "click")
    tab.assert_says(classifier.at_cost(0.6))
    tab.act("as-found", "click")
    tab.assert_says(classifier.adapt(data.test).at_cost(0.6))
    tab.act("false-alarm", value="3")
    tab.act("miss", value="1")
    tab.assert_says(classifier.adapt(data.test).at_cost(0.75))


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        ("0.5", "a false alarm is as bad as a miss"),
        ("0.8", "a false alarm is 4 times as bad as a miss"),
        ("0.2", "a miss is 4 times as bad as a false alarm"),
    ],
)
def test_costs_are_explained(tab, cost, words):
    tab.act("cost", value=cost)
    assert tab.read("cost-words") == words


def test_marks_in_figures_move_with_the_numbers(classifier, data):
    tab = Script.of(classifier, data.test, drawn=True)
    marks = [f"{mark['figure']}-{mark['name']}" for mark in json.loads(tab.tables)["marks"]]
    assert len(marks) == 6
    assert {tab.read(mark, "transform") for mark in marks} == {"translate(0 0)"}
    tab.act("prior", value="0.7")
    tab.act("budget", value="40")
    assert all(tab.read(mark, "transform") != "translate(0 0)" for mark in marks)
    assert not any("NaN" in tab.read(mark, "transform") for mark in marks)


@pytest.mark.parametrize(
    ("control", "value", "rule"),
    [
        ("prior-number", "1.2", "between 0 and 1"),
        ("cost", "0", "without the ends"),
        ("miss", "-3", "above 0"),
        ("budget", "2.5", "whole number from 1 to 600"),
    ],
)
def test_a_value_that_cannot_be_used_changes_nothing(tab, control, value, rule):
    before = tab.read("out-accuracy"), tab.read("out-budgetRecall")
    tab.act(control, value=value)
    assert rule in tab.read("refused")
    assert f"got {value}" in tab.read("refused")
    assert tab.read(control, "aria-invalid") == "true"
    assert (tab.read("out-accuracy"), tab.read("out-budgetRecall")) == before
    tab.act("as-found", "click")
    assert tab.read("refused") == ""
    assert tab.read(control, "aria-invalid") is None


def test_a_number_of_rows_can_be_written(tab, classifier, data):
    tab.act("budget", value="40")
    budget = classifier.adapt(data.test).at_cost(0.6).at_budget(rows=40, of=data.test).budget_
    assert float(tab.read("out-budgetRecall", "data-value")) == pytest.approx(budget.recall.value, abs=EXACT)
    assert float(tab.read("out-budgetFound", "data-value")) == pytest.approx(
        40 * budget.precision.value, abs=40 * EXACT
    )


def test_a_share_below_one_percent_can_be_chosen(data):
    rare = DRPUClassifier("classifier", prior=0.004, scenario="case-control", random_state=0).fit(*data.X_y())
    tab = Script.of(rare)
    assert float(tab.read("prior", "max")) <= 0.02
    tab.act("prior", value="0.003")
    tab.assert_says(rare.at_prior(0.003))
    assert "0.30% positives" in tab.read("said")
    tab.act("prior-number", value="0.4")  # beyond the slider, which makes room
    tab.assert_says(rare.at_prior(0.4))


def test_the_confusion_table_holds_whole_rows_that_add_up(tab):
    for prior in ("0.2", "0.0031", "0.77"):
        tab.act("prior", value=prior)
        cells = [tab.rows(name) for name in CELLS]
        assert sum(rows for rows, _, _ in cells) == 600
        for rows, low, high in cells:
            assert low <= rows <= high


def test_where_a_range_is_wide_the_page_shows_the_range_alone(tab):
    seen = set()
    for prior in ("0.002", "0.01", "0.1", "0.5"):
        tab.act("prior", value=prior)
        for name in ("flagged", "precision", "recall", "accuracy", "budgetPrecision", "budgetRecall"):
            value, low, high = tab.shown(name)
            if np.isnan(value):  # no row is flagged
                assert tab.words(name) == ("cannot be computed", "")
                continue
            limits = f"{share(low)} to {share(high)}"
            wide = high - low > WIDE_RANGE
            assert tab.words(name) == ((limits, "") if wide else (share(value), limits))
            seen.add(wide)
            if name == "precision":
                assert (f"; {limits if wide else share(value)} of them") in tab.read("said")
        for name in CELLS:
            _, low, high = tab.shown(name)
            assert (tab.read(f"range-{name}") == "") == (high - low > 600 * WIDE_RANGE)
        _, low, high = tab.shown("budgetPrecision")
        assert (tab.read("range-budgetFound") == "") == (high - low > WIDE_RANGE)
    assert seen == {True, False}


def test_amounts_give_a_bill(classifier, data):
    june = classifier.adapt(data.test)
    costs = Costs(false_alarm=5, miss=200)
    tab = Script.of(classifier, data.test, cost=costs)
    assert_allclose(tab.shown("bill")[0], june.at_cost(costs).expected_bill(600).value)
    tab.act("false-alarm", value="50")
    bill = june.at_cost(Costs(false_alarm=50, miss=200)).expected_bill(600)
    assert_allclose(tab.shown("bill"), [bill.value, bill.low, bill.high], rtol=5e-3)


def test_each_function_of_the_script_is_declared_once_and_called():
    names = re.findall(r"\bfunction (\w+)", SCRIPT)
    assert len(names) == len(set(names))
    assert [name for name in names if len(re.findall(rf"\b{name}\b", SCRIPT)) == 1] == []
