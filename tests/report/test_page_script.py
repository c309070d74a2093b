"""The whole script of the page, run without a browser: its controls change the numbers that it writes."""

import json
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest
import quickjs

from drpu.report.whatif import EXACT, FIGURES

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
JSON.parse(found).forEach(function (one) { elements[one[0]] = new Element(one[1], one[2]); });
var document = {
  getElementById: function (id) { return elements[id] || null; }, querySelectorAll: function () { return []; }
};
function read(id, name) {
  return name === "text" ? elements[id].textContent : elements[id].getAttribute(name);
}
function act(id, kind, value) { if (value !== null) { elements[id].value = value; } elements[id].fire(kind); }
"""


class Elements(HTMLParser):
    """The elements of a page that have an id: the id, the attributes, and the text at their beginning."""

    def __init__(self, html):
        super().__init__()
        self.found, self._open = [], None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self._open = None
        if "id" in dict(attributes):
            self._open = [dict(attributes)["id"], dict(attributes), ""]
            self.found.append(self._open)

    def handle_data(self, data):
        if self._open is not None:
            self._open[2] += data


class Page:
    """A page whose script has run in an engine with a small document."""

    def __init__(self, html):
        self._engine = quickjs.Context()
        self._engine.set("found", json.dumps(Elements(html).found))
        self._engine.eval(DOCUMENT + SCRIPT)

    def read(self, id, name="text"):
        return self._engine.get("read")(id, name)

    def act(self, id, kind="input", value=None):
        self._engine.get("act")(id, kind, value)

    def assert_says(self, classifier):
        """The figures are those of Python, with their limits."""
        expected, (low, high) = classifier.expected_performance(), classifier.expected_range()
        assert float(self.read("out-threshold", "data-value")) == pytest.approx(classifier.threshold_)
        for name in FIGURES:
            shown = [self.read(f"out-{name}", "data-value")]
            shown += [self.read(f"range-{name}", f"data-{end}") for end in ("low", "high")]
            wanted = [getattr(part, name) for part in (expected, low, high)]
            np.testing.assert_allclose([float(x) for x in shown], wanted, atol=EXACT, err_msg=name)


@pytest.fixture
def tab(costly_page):
    return Page(costly_page)


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


def test_marks_in_figures_move_with_the_numbers(tab):
    marks = ("scores-cut", "outlook-cut", "roc-cut", "gain-cut")
    assert {tab.read(mark, "transform") for mark in marks} == {"translate(0 0)"}
    tab.act("prior", value="0.7")
    assert all(tab.read(mark, "transform") != "translate(0 0)" for mark in marks)


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


def test_a_number_of_rows_gives_the_budget_of_python(tab, classifier, data):
    tab.act("budget", value="40")
    budget = classifier.adapt(data.test).at_cost(0.6).at_budget(rows=40, of=data.test).budget_
    assert float(tab.read("out-budgetRecall", "data-value")) == pytest.approx(budget.recall.value, abs=EXACT)
    assert float(tab.read("out-budgetFound", "data-value")) == pytest.approx(
        40 * budget.precision.value, abs=40 * EXACT
    )
