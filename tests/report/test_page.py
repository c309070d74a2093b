"""The HTML report: its text, and its numbers in a browser."""

import math
import os
import re
import shutil
from html.parser import HTMLParser

import pytest
from numpy.testing import assert_allclose

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.exceptions import FewPositivesWarning, ShiftWarning
from drpu.report import render_report, write_report

CHROMIUM = os.environ.get("DRPU_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def page(classifier, data):
    return render_report(classifier, data.test, title="June <b> & July")


# -- text -------------------------------------------------------------------------------------------


class Links(HTMLParser):
    """Everything that a page would load."""

    def __init__(self):
        super().__init__()
        self.fetched = []

    def handle_starttag(self, tag, attributes):
        self.fetched += [value for name, value in attributes if name in ("src", "href", "srcset")]


def test_nothing_is_fetched(page):
    links = Links()
    links.feed(page)
    assert links.fetched == ["data:,"]
    assert "url(" not in page
    assert "@import" not in page


def test_names_from_outside_are_escaped(page):
    assert "<h1>June &lt;b&gt; &amp; July</h1>" in page


def test_both_priors_stand_in_the_page(page, classifier, data):
    june = classifier.adapt(data.test)
    for prior in (classifier.prior_, june.prior_):
        for number in (prior.value, prior.low, prior.high):
            assert f"{100 * number:.1f}%" in page


def test_the_counts_weigh_little_and_hold_no_rows(page, data):
    assert len(page) < 200_000
    assert f"{data.test[0, 0]:.6f}" not in page


def test_a_page_without_new_rows_speaks_of_training_only(classifier):
    page = render_report(classifier)
    assert "in training was" in page
    assert "new rows</span>" not in page


def test_every_chart_has_a_title_and_a_description(page):
    charts = re.findall(r"<svg .*?</svg>", page, flags=re.S)
    assert len(charts) == 6
    for chart in charts:
        assert 'role="img"' in chart
        assert re.search(r"<title id=.*?>.+</title><desc id=.*?>.+</desc>", chart)


def test_few_positives_are_said_in_words():
    data = make_gaussian_pu(40, 300, prior=0.5, separation=4, random_state=0)
    with pytest.warns(FewPositivesWarning):
        clf = DRPUClassifier("classifier", random_state=0).fit(*data.X_y())
    assert "Only 40 positives were held out" in render_report(clf)


def test_another_kind_of_shift_is_said_in_words(classifier, data):
    with pytest.warns(ShiftWarning):
        page = render_report(classifier, 0.3 * data.test)
    assert "Read with care" in page
    assert "more than the prior has changed" in page


def test_writing_returns_the_classifier_of_the_page(classifier, data, tmp_path):
    path = tmp_path / "june.html"
    june = write_report(classifier, data.test, path, cost=0.8)
    assert june.cost == 0.8
    assert june.prior_ == classifier.adapt(data.test).prior_
    assert path.read_text().rstrip().endswith("</html>")


# -- numbers, in a browser ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: apt-get install chromium, or set DRPU_CHROMIUM to its path")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open a page and collect its console messages."""
    contexts = []

    def open_page(html, **options):
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.complaints = []
        tab.on("console", lambda message: tab.complaints.append(message.text))
        tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.goto(path.as_uri())
        return tab

    yield open_page
    for context in contexts:
        context.close()


def shown(tab, name):
    return float(tab.locator(f"#out-{name}").get_attribute("data-value"))


def slide(tab, name, value):
    tab.locator(f"#{name}").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", value
    )


def assert_page_says(tab, classifier):
    expected = classifier.expected_performance()
    q = classifier.prior_.value
    numbers = {
        "threshold": classifier.threshold_,
        "accuracy": expected.accuracy,
        "precision": expected.precision,
        "recall": expected.recall,
        "falsePositiveRate": expected.false_positive_rate,
        "flagged": expected.flagged,
        "meanCost": expected.cost,
        "truePositives": q * expected.recall,
        "misses": q * (1 - expected.recall),
        "falseAlarms": (1 - q) * expected.false_positive_rate,
    }
    for name, number in numbers.items():
        if math.isinf(number):
            assert shown(tab, name) == number
        else:
            assert_allclose(shown(tab, name), number, rtol=1e-9, atol=1e-12, err_msg=name)


def test_sliders_move_the_numbers_to_what_python_gives(open_page, classifier, single, data):
    for clf in (classifier, single):
        tab = open_page(render_report(clf, data.test, cost=0.6))
        assert_page_says(tab, clf.adapt(data.test, cost=0.6))
        for prior, cost in ((0.05, 0.5), (0.3, 0.9), (0.75, 0.13), (0.5, 0.01), (0.0, 0.5), (1.0, 0.5)):
            slide(tab, "prior", prior)
            slide(tab, "cost", cost)
            assert_page_says(tab, clf.at_prior(prior, cost=cost))
        assert tab.complaints == []


def test_numbers_can_be_typed_and_put_back(open_page, classifier, data):
    tab = open_page(render_report(classifier, data.test))
    tab.fill("#prior-number", "0.0123")
    assert_page_says(tab, classifier.at_prior(0.0123))
    tab.click("#as-found")
    assert_page_says(tab, classifier.adapt(data.test))
    tab.click("#as-trained")
    assert_page_says(tab, classifier.at_prior(classifier.prior_))


def test_costs_are_said_in_words(open_page, classifier):
    tab = open_page(render_report(classifier))
    for cost, words in (
        (0.5, "a false alarm is as bad as a miss"),
        (0.8, "a false alarm is 4 times as bad as a miss"),
        (0.2, "a miss is 4 times as bad as a false alarm"),
    ):
        slide(tab, "cost", cost)
        assert tab.inner_text("#cost-words") == words


def test_the_keyboard_is_enough(open_page, classifier, data):
    tab = open_page(render_report(classifier, data.test))
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "prior"
    before, said = shown(tab, "threshold"), tab.inner_text("[aria-live=polite]")
    for _ in range(30):
        tab.keyboard.press("ArrowRight")
    assert shown(tab, "threshold") < before  # more positives: a lower threshold
    assert tab.inner_text("[aria-live=polite]") != said
    for name in ("prior-number", "cost", "cost-number", "as-found", "as-trained"):
        tab.keyboard.press("Tab")
        assert tab.evaluate("document.activeElement.id") == name


def test_every_control_has_a_name_for_screen_readers(open_page, page):
    tab = open_page(page)
    for box in tab.locator("input").all():
        named = box.evaluate("box => box.labels.length > 0 || !!box.getAttribute('aria-label')")
        assert named
    assert tab.get_by_role("slider", name="Share of positives in new rows").count() == 1
    assert tab.get_by_role("slider", name="Cost of a false alarm").count() == 1
    assert tab.get_by_role("img", name="ROC curve").count() == 1


@pytest.mark.parametrize("width", [320, 390, 820, 1400])
def test_nothing_scrolls_sideways(open_page, page, width):
    tab = open_page(page, viewport={"width": width, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.complaints == []


def test_light_dark_and_print_differ(open_page, page):
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = (open_page(page, color_scheme=scheme).evaluate(ground) for scheme in ("light", "dark"))
    assert light != dark
    tab = open_page(page, color_scheme="light")
    tab.emulate_media(media="print")
    assert not tab.is_visible("#prior")
    assert tab.evaluate(ground) == "rgb(255, 255, 255)"
