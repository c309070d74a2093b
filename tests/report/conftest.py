import os
import shutil
from pathlib import Path

import pytest

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.report import render_report

SEED = 5
CHROMIUM = (
    os.environ.get("DRPU_CHROMIUM")
    or shutil.which("chromium")
    or shutil.which("chromium-browser")
    # where "playwright install chromium" puts it
    or next(map(str, Path.home().glob(".cache/ms-playwright/chromium-*/chrome-linux*/chrome")), None)
)
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="session")
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
    """Open a page in one tab, which collects its console messages.

    Each test has a profile of its own: what an earlier one kept in the storage of the browser may still be on
    its way to the disk when the next page reads it.
    """
    profile = browser.new_context(offline=True, accept_downloads=True)
    tab = profile.new_page()
    tab.complaints = []
    tab.on("console", lambda message: tab.complaints.append(message.text))
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    tab.emulate_media(media="screen", color_scheme="light")

    def open_page(html):
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        tab.complaints.clear()
        tab.goto(path.as_uri())
        return tab

    yield open_page
    profile.close()


@pytest.fixture(scope="session")
def data():
    return make_gaussian_pu(
        120, 600, prior=0.5, test_prior=0.2, n_test=600, separation=3, dimensions=2, random_state=SEED
    )


@pytest.fixture(scope="session")
def classifier(data):
    return DRPUClassifier("classifier", scenario="case-control", random_state=0).fit(*data.X_y())


@pytest.fixture(scope="session")
def single(data):
    """A classifier fitted to a single sample."""
    return DRPUClassifier("classifier", scenario="single-sample", random_state=0).fit(*data.X_y())


@pytest.fixture(scope="session")
def page(classifier, data):
    return render_report(classifier, data.test, title="June <b> & July")
