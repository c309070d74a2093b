"""The HTML report in a browser: its numbers are those of Python, and its controls work."""

import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from drpu import Costs, DRPUClassifier
from drpu.report import render_report
from drpu.report.whatif import EXACT, FIGURES

CHROMIUM = (
    os.environ.get("DRPU_CHROMIUM")
    or shutil.which("chromium")
    or shutil.which("chromium-browser")
    # where "playwright install chromium" puts it
    or next(map(str, Path.home().glob(".cache/ms-playwright/chromium-*/chrome-linux*/chrome")), None)
)
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: apt-get install chromium, or set DRPU_CHROMIUM to its path")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        tab = browser.new_context(offline=True, accept_downloads=True).new_page()
        tab.complaints = []
        tab.on("console", lambda message: tab.complaints.append(message.text))
        tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
        yield tab
        browser.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open a page in the one tab of the browser, which collects its console messages."""

    def open_page(html):
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        browser.complaints.clear()
        browser.emulate_media(media="screen", color_scheme="light")
        browser.set_viewport_size({"width": 1280, "height": 720})
        browser.goto(path.as_uri())
        return browser

    return open_page


def shown(tab, name):
    return float(tab.locator(f"#out-{name}").get_attribute("data-value"))


def slide(tab, name, value):
    tab.locator(f"#{name}").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", value
    )


def shown_range(tab, name):
    ends = tab.locator(f"#range-{name}")
    return [float(ends.get_attribute(f"data-{end}")) for end in ("low", "high")]


def assert_page_says(tab, classifier):
    """The figures of the page are those of Python, with their ranges."""
    expected, (low, high) = classifier.expected_performance(), classifier.expected_range()
    assert shown(tab, "threshold") == pytest.approx(classifier.threshold_)
    for name in FIGURES:
        value, least, most = (getattr(part, name) for part in (expected, low, high))
        assert_allclose([shown(tab, name), *shown_range(tab, name)], [value, least, most], atol=EXACT)


@pytest.mark.usefixtures("undrawn")
def test_a_share_below_one_percent_can_be_chosen(open_page, data):
    rare = DRPUClassifier("classifier", prior=0.004, scenario="case-control", random_state=0).fit(*data.X_y())
    tab = open_page(render_report(rare))
    assert float(tab.locator("#prior").get_attribute("max")) <= 0.02
    slide(tab, "prior", 0.003)
    assert_page_says(tab, rare.at_prior(0.003))
    assert "0.30% positives" in tab.inner_text("#said")
    tab.fill("#prior-number", "0.4")  # beyond the slider, which makes room
    assert_page_says(tab, rare.at_prior(0.4))
    assert tab.complaints == []


def test_the_confusion_table_holds_whole_rows_that_add_up(open_page, page):
    tab = open_page(page)
    for prior in (0.2, 0.0031, 0.77):
        slide(tab, "prior", prior)
        names = ("truePositives", "misses", "falseAlarms", "trueNegatives")
        rows = [int(tab.inner_text(f"#out-{name}").replace(",", "")) for name in names]
        assert sum(rows) == 600
        for name, count in zip(names, rows, strict=True):
            low, high = tab.inner_text(f"#range-{name}").split(" to ")
            assert int(low) <= count <= int(high)


def test_ranges_stand_beside_the_expected_numbers(open_page, classifier, data, page):
    tab = open_page(page)
    low, high = classifier.adapt(data.test).expected_range()
    words = tab.inner_text("#range-precision")
    assert words == f"{100 * low.precision:.1f}% to {100 * high.precision:.1f}%"
    slide(tab, "prior", 0.5)
    for name in ("flagged", "precision", "recall", "accuracy", "cost", "bill", "budgetPrecision"):
        least, most = (
            float(end.strip("%").replace(",", "")) for end in tab.inner_text(f"#range-{name}").split(" to ")
        )
        value = float(tab.inner_text(f"#out-{name}").strip("%").replace(",", ""))
        assert least <= value <= most, name


@pytest.mark.usefixtures("undrawn")
def test_the_number_really_flagged_is_counted(open_page, classifier, data, monkeypatch, page):
    tab = open_page(page)
    assert shown(tab, "reallyFlagged") == (classifier.adapt(data.test).predict(data.test) == 1).sum()
    monkeypatch.setattr("drpu.report.whatif.NEW_ROWS", 200)  # then the page has some of the rows
    tab = open_page(render_report(classifier, data.test))
    tab.fill("#prior-number", "0.3")
    assert tab.inner_text("#out-reallyFlagged").startswith("about ")


@pytest.mark.usefixtures("undrawn")
def test_amounts_give_a_bill(open_page, classifier, data):
    costs = Costs(false_alarm=5, miss=200)
    tab = open_page(render_report(classifier, data.test, cost=costs))
    assert_allclose(shown(tab, "bill"), classifier.adapt(data.test).at_cost(costs).expected_bill(600).value)
    tab.fill("#false-alarm", "50")
    bill = classifier.adapt(data.test).at_cost(Costs(false_alarm=50, miss=200)).expected_bill(600)
    assert_allclose(
        [shown(tab, "bill"), *shown_range(tab, "bill")], [bill.value, bill.low, bill.high], rtol=1e-3
    )


def test_the_keyboard_is_enough(open_page, page):
    tab = open_page(page)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.hasAttribute('download')")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "prior"
    before, said = shown(tab, "threshold"), tab.inner_text("[aria-live=polite]")
    for _ in range(30):
        tab.keyboard.press("ArrowRight")
    assert shown(tab, "threshold") < before  # more positives: a lower threshold
    assert tab.inner_text("[aria-live=polite]") != said
    for name in (
        "prior-number",
        "cost",
        "cost-number",
        "false-alarm",
        "miss",
        "budget",
        "as-found",
        "as-trained",
    ):
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


@pytest.fixture(scope="module")
def full_page(classifier, data):
    """A page with everything on it, and with long names."""
    plan = classifier.plan_audit(data.test, n=80, random_state=0)
    branches = np.repeat(["a branch with a very long name", "anotherbranchwithoutanyspaceinitslongname"], 300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return render_report(
            classifier, data.test, by=branches, by_name="branch", budget=40, title="June" * 30,
            audit=plan.answer(data.test_labels[plan.rows]),
            beside={"identifier": [f"id-{k:012d}" for k in range(600)], "amount": data.test[:, 0]},
        )  # fmt: skip


def test_nothing_scrolls_sideways(open_page, full_page):
    tab = open_page(full_page)
    outside = "!e.closest('svg') && e.getBoundingClientRect().right > innerWidth"
    wide = f"[...document.querySelectorAll('body *')].filter(e => {outside})"
    for width in (320, 400, 820, 1400):
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.evaluate(f"{wide}.map(e => e.outerHTML.slice(0, 80))") == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.complaints == []


def test_a_period_can_be_chosen(open_page, full_page):
    tab = open_page(full_page)
    assert shown(tab, "truePositives") + shown(tab, "misses") + shown(tab, "falseAlarms") > 0
    tab.select_option("#period", "2")
    names = ("truePositives", "misses", "falseAlarms", "trueNegatives")
    assert sum(int(tab.inner_text(f"#out-{name}").replace(",", "")) for name in names) == 300
    assert "Of 300 new rows" in tab.inner_text(".confusion caption")
    tab.fill("#prior-number", "0.5")
    assert tab.evaluate("document.getElementById('period').value") == ""
    tab.click("#as-found")
    assert tab.evaluate("document.getElementById('period').value") == "0"
    assert tab.complaints == []


def test_the_list_of_rows_is_downloaded(open_page, full_page):
    tab = open_page(full_page)
    with tab.expect_download() as download:
        tab.click("a[download]")
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == 81  # 40 rows of each of two branches, and the names
    assert lines[0].endswith("identifier,amount")


def test_light_dark_and_print_differ(open_page, page):
    tab = open_page(page)
    ground = "getComputedStyle(document.body).backgroundColor"
    mark = "getComputedStyle(document.querySelector('#roc-cut use')).fill"
    light = tab.evaluate(ground), tab.evaluate(mark)
    tab.emulate_media(color_scheme="dark")
    dark = tab.evaluate(ground), tab.evaluate(mark)
    assert light[0] != dark[0]
    assert (light[1], dark[1]) == (
        "rgb(138, 28, 124)",
        "rgb(240, 139, 224)",
    )  # figures have those of the page
    tab.emulate_media(media="print", color_scheme="light")
    assert not tab.is_visible("#prior")
    assert tab.evaluate(ground) == "rgb(255, 255, 255)"
    mark = "getComputedStyle(document.querySelector('#roc path'))"
    assert tab.evaluate(f"{mark}.printColorAdjust || {mark}.webkitPrintColorAdjust") == "exact"
