"""The HTML report in a browser: what its script alone cannot show (see ``test_page_script.py``)."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from drpu import DRPUClassifier
from drpu.exceptions import silent
from drpu.report import render_report


def shown(tab, name):
    return float(tab.locator(f"#out-{name}").get_attribute("data-value"))


def test_the_script_runs_and_says_nothing_on_the_console(open_page, page, classifier, data):
    tab = open_page(page)
    assert shown(tab, "threshold") == pytest.approx(classifier.adapt(data.test).threshold_)
    tab.fill("#prior-number", "0.4")
    assert shown(tab, "threshold") == pytest.approx(classifier.at_prior(0.4).threshold_)
    assert tab.complaints == []


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
    with silent():
        return render_report(
            classifier, data.test, by=branches, by_name="branch", budget=40, title="June" * 30,
            audit=plan.answer(data.test_labels[plan.rows]),
            beside={"identifier": [f"id-{k:012d}" for k in range(600)], "amount": data.test[:, 0]},
        )  # fmt: skip


@pytest.fixture(scope="module")
def months_page(data):
    """A page with many periods, reasons, and values beside the rows."""
    X, y = data.X_y()
    clf = DRPUClassifier("boosted", random_state=0).fit(pd.DataFrame(X, columns=["amount_of_june", "km"]), y)
    months = np.array([f"{2024 + k // 12}-{k % 12 + 1:02d}" for k in range(25)])[np.arange(600) % 25]
    beside = {
        "case": [f"2024-{k:05d}/1" for k in range(600)],
        "amount": np.round(1e4 * np.abs(data.test[:, 0]), 2),
        "client": ["Ermintrude Featherstonehaugh & Co."] * 600,
        "date": ["2024-01-31"] * 600,
    }
    with silent():
        new = pd.DataFrame(data.test, columns=["amount_of_june", "km"])
        return render_report(clf, new, by=months, by_name="month", beside=beside)


def test_nothing_scrolls_sideways(open_page, full_page):
    tab = open_page(full_page)
    outside = "!e.closest('svg') && e.getBoundingClientRect().right > innerWidth"
    wide = f"[...document.querySelectorAll('body *')].filter(e => {outside})"
    for width in (320, 400, 820, 1400):
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.evaluate(f"{wide}.map(e => e.outerHTML.slice(0, 80))") == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.complaints == []


BROKEN_WORDS = """
() => {
  const broken = [];
  for (const cell of document.querySelectorAll("td, th")) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      for (const word of walker.currentNode.data.matchAll(/\\S+/g)) {
        const range = document.createRange();
        range.setStart(walker.currentNode, word.index);
        range.setEnd(walker.currentNode, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (lines.size > 1 && word[0].length <= 24) { broken.push(word[0]); }
      }
    }
  }
  return broken;
}
"""


@pytest.mark.parametrize("width", [400, 700, 1000, 1300])
def test_no_cell_breaks_a_number_or_a_name(open_page, full_page, months_page, width):
    for html in (full_page, months_page):
        tab = open_page(html)
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.evaluate(BROKEN_WORDS) == []
        hidden = "[...document.querySelectorAll('.table')].filter(e => e.scrollWidth > e.clientWidth)"
        assert tab.evaluate(f"{hidden}.length") == 0


def test_choosing_a_period_changes_the_number_of_rows(open_page, full_page):
    tab = open_page(full_page)
    tab.select_option("#period", "2")
    assert "Of 300 new rows" in tab.inner_text(".confusion caption")
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
