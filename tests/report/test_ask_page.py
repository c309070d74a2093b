"""The page that asks about planned rows, in a browser: keys, answers that stay, and the saved file."""

import csv
import io
import re
from html import unescape

import pandas as pd
import pytest

from drpu._output import escape
from drpu.audits.ask import Conversation, Goal, ShownRows
from drpu.audits.ask_page import PageTexts, ask_page
from hostile_texts import HOSTILE


@pytest.fixture(scope="module")
def plan(classifier, data):
    return classifier.plan_audit(data.test, n=8, random_state=0)


def frame_of(data):
    columns = {"identifier": [f"id-{k:012d}" for k in range(600)], "amount": data.test[:, 0]}
    return pd.DataFrame(
        columns | {"a long name of a column": [HOSTILE[k % len(HOSTILE)] for k in range(600)]}
    )


def make_page(plan, data, goal=3, answers=None, **texts):
    rows = ShownRows.of(frame_of(data), plan.rows)
    conversation = Conversation(plan, Goal(goal), answers or {})
    return ask_page(conversation, rows, PageTexts(**texts))


@pytest.fixture
def tab(open_page, plan, data):
    return open_page(make_page(plan, data))


def saved(tab, path):
    with tab.expect_download() as download:
        tab.click("#save")
    download.value.save_as(path)
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_the_keyboard_answers_and_the_file_has_the_answers(tab, plan, tmp_path):
    for key in ("y", "n", "s", "Y"):
        tab.keyboard.press(key)
    assert tab.inner_text("#progress") == "3 of 3 answers, 1 skipped"
    assert tab.is_visible("#enough")
    lines = saved(tab, tmp_path / "answers.csv")
    assert [int(line["drpu_row"]) for line in lines] == plan.rows.tolist()
    assert [line["drpu_label"] for line in lines] == ["yes", "no", "", "yes", "", "", "", ""]
    assert tab.complaints == []


def test_the_saved_file_is_read_in_python(tab, plan, tmp_path):
    for key in ("y", "n", "n"):
        tab.keyboard.press(key)
    saved(tab, tmp_path / "answers.csv")
    audit = plan.answer(pd.read_csv(tmp_path / "answers.csv"))
    assert audit.n == 3
    assert audit.parts[0].answers.positive.tolist() == [True, False, False]


def progress_kept(tab):
    """Progress after reloading, until something was kept: a busy browser keeps it a moment later."""
    for _ in range(200):
        tab.reload()
        if tab.inner_text("#progress") != "0 of 3 answers":
            break
    return tab.inner_text("#progress")


def test_answers_stay_in_the_browser_by_plan(tab, classifier, data, open_page, plan):
    for key in ("y", "s", "n"):
        tab.keyboard.press(key)
    assert progress_kept(tab) == "2 of 3 answers, 1 skipped"
    assert f"(row {plan.rows[3]})" in tab.inner_text("#where")
    other = classifier.plan_audit(data.test, n=8, random_state=1)
    assert open_page(make_page(other, data)).inner_text("#progress") == "0 of 3 answers"
    assert progress_kept(open_page(make_page(plan, data))) == "2 of 3 answers, 1 skipped"


def test_arrows_go_back_and_forward_and_an_answer_can_be_changed(tab, plan, tmp_path):
    for key in ("y", "y", "ArrowLeft", "ArrowLeft"):
        tab.keyboard.press(key)
    assert f"(row {plan.rows[0]})" in tab.inner_text("#where")
    assert tab.inner_text("#earlier") == "Your reply was yes."
    assert tab.get_attribute("#yes", "aria-pressed") == "true"
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("n")  # the second row, then the first that was not asked about
    assert f"(row {plan.rows[2]})" in tab.inner_text("#where")
    tab.keyboard.press("ArrowRight")  # a row without a reply is not passed over
    assert f"(row {plan.rows[2]})" in tab.inner_text("#where")
    labels = [line["drpu_label"] for line in saved(tab, tmp_path / "answers.csv")]
    assert labels[:3] == ["yes", "no", ""]


def test_keys_with_modifiers_answer_nothing(tab):
    for key in ("Control+s", "Alt+y", "x", "Enter"):
        tab.keyboard.press(key)
    assert tab.inner_text("#progress") == "0 of 3 answers"
    assert tab.is_disabled("#save")


def test_the_last_row_ends_the_questions(tab):
    for _ in range(12):
        tab.keyboard.press("n")
    assert tab.inner_text("#progress") == "8 answers"
    assert tab.inner_text("#where") == "All planned rows were shown."
    assert tab.is_disabled("#yes")
    tab.keyboard.press("ArrowLeft")
    assert tab.is_enabled("#yes")


def test_values_are_texts_and_never_run(tab, plan, data):
    frame = frame_of(data)
    for place, row in enumerate(plan.rows):
        shown = tab.locator("#values dd").nth(2).text_content()
        expected = ShownRows.of(frame, plan.rows).values[place][2]
        assert shown == expected
        assert tab.locator("#values *").count() == 6  # three names and three values, no other elements
        assert tab.locator("#values dd").first.text_content() == f"id-{row:012d}"
        tab.keyboard.press("n")
    assert tab.complaints == []


@pytest.mark.parametrize("hostile", HOSTILE)
def test_titles_names_and_commands_are_escaped(plan, data, hostile):
    page = make_page(plan, data, title=hostile, command=hostile, file="answers.csv")
    assert f"<h1>{escape(hostile)}</h1>" in page
    assert len(re.findall(r"<script", page)) == 2


def test_answers_of_a_file_are_there_at_the_start(open_page, plan, data):
    tab = open_page(make_page(plan, data, answers={0: True, 2: False}))
    assert tab.inner_text("#progress") == "2 of 3 answers, 1 skipped"
    assert f"(row {plan.rows[3]})" in tab.inner_text("#where")


@pytest.mark.parametrize("width", [320, 400, 1000])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_phones_and_desktops_in_light_and_dark(tab, width, scheme):
    tab.set_viewport_size({"width": width, "height": 800})
    tab.emulate_media(color_scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    for name in ("yes", "no", "skip", "back", "next", "save"):
        box = tab.locator(f"#{name}").bounding_box()
        assert box["height"] >= 44  # a finger
        assert box["y"] + box["height"] <= 800  # in view without scrolling
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 27)"
    assert dark == (scheme == "dark")


def test_a_page_in_a_notebook_works_inside_its_frame(open_page, plan, data, tmp_path):
    shown = plan.ask(frame_of(data), page=True, n=3, keep=["amount"])
    tab = open_page(f"<!doctype html><title>notebook</title>{shown._repr_html_()}")
    frame = tab.frame_locator("iframe")
    frame.locator("#yes").click()
    assert frame.locator("#progress").inner_text() == "1 of 3 answers"
    with tab.expect_download() as download:
        frame.locator("#save").click()
    download.value.save_as(tmp_path / "answers.csv")
    assert plan.answer(pd.read_csv(tmp_path / "answers.csv")).n == 1


def test_the_page_loads_and_sends_nothing(plan, data):
    page = make_page(plan, data)
    assert "default-src 'none'" in unescape(page)
    for word in ("http:", "fetch(", "XMLHttpRequest", "sendBeacon", "innerHTML", "eval("):
        assert word not in page.partition('id="plan">')[0]
        assert word not in page.rpartition("</script>\n<script>")[2]
