"""The HTML report: its text."""

import base64
import copy
import csv
import hashlib
import html
import io
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import unquote

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from drpu import DRPUClassifier, PriorEstimate, make_gaussian_pu, plots, suspects
from drpu.exceptions import DataError, DataTypeError, DRPUError, FewPositivesWarning, ShiftWarning, silent
from drpu.priors import Figure
from drpu.priors.constants import WIDE_RANGE
from drpu.report import render_report, write_report
from drpu.report.texts import expected_text, share
from drpu.state.population import Backtest, PastPeriod


class Links(HTMLParser):
    """Collects everything that a page would load."""

    def __init__(self):
        super().__init__()
        self.fetched = []

    def handle_starttag(self, tag, attributes):
        self.fetched += [value for name, value in attributes if name in ("src", "href", "srcset")]


def test_nothing_is_fetched(page):
    assert "past periods" not in page  # there are none
    links = Links()
    links.feed(page)
    assert all(link.startswith(("#", "data:")) for link in links.fetched)
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": ["a"]}, "by, audit, beside and level are about new rows"),
        ({"level": 0.9}, "by, audit, beside and level are about new rows"),
        ({"budget": 0}, "budget must be at least 1"),
        ({"budget": 2.5}, "budget must be an integer, got 2.5"),
        ({"budget": -0.5}, "share must lie between 0 and 1"),
        ({"cost": 2}, "cost must lie strictly between 0 and 1"),
    ],
)
def test_options_that_mean_nothing_are_refused(classifier, tmp_path, options, words):
    with pytest.raises(DRPUError, match=words):
        write_report(classifier, None, tmp_path / "x.html", **options)
    assert not list(tmp_path.iterdir())


def test_only_fitted_classifiers_have_a_page(tmp_path):
    with pytest.raises(DataTypeError, match="classifier must be a fitted DRPUClassifier"):
        render_report("toy.drpu")
    with pytest.raises(NotFittedError):
        render_report(DRPUClassifier())
    with pytest.raises(NotFittedError):
        plots.GainDisplay.from_classifier(DRPUClassifier())


def test_names_from_outside_are_escaped(page):
    assert "<h1>June &lt;b&gt; &amp; July</h1>" in page


@pytest.mark.usefixtures("undrawn")
def test_names_of_columns_are_escaped_wherever_they_stand(classifier, data):
    page = render_report(classifier, data.test, beside={'"><b>': ["<i>"] * 600})
    assert '<b>"' not in page
    assert '"><b>' not in page
    assert "<i>" not in page
    assert 'data-label="&#34;&gt;&lt;b&gt;"' in page


def test_both_priors_stand_in_the_page(page, classifier, data):
    june = classifier.adapt(data.test)
    for prior in (classifier.prior_, june.prior_):
        for number in (prior.value, prior.low, prior.high):
            assert f"{100 * number:.1f}%" in page


@pytest.mark.usefixtures("text_only")
def test_the_page_says_how_the_rows_were_collected(data):
    X, y = data.X_y()
    for clf, scenario in (
        (DRPUClassifier("classifier", random_state=0).fit(X, y), "single-sample"),
        (DRPUClassifier("classifier", random_state=0).fit_pu(data.positive, data.unlabeled), "case-control"),
    ):
        facts = re.sub(r"</?span[^>]*>", "", render_report(clf))
        assert f"{scenario}: " in facts


def test_the_page_is_small_and_contains_no_rows(page, data):
    assert len(page) < 600_000
    assert f"{data.test[0, 0]:.6f}" not in page


@pytest.mark.usefixtures("text_only")
def test_a_page_without_new_rows_speaks_of_training_only(classifier):
    page = render_report(classifier)
    assert "in training was" in page
    assert "new rows</span>" not in page


def test_every_chart_has_a_title_and_a_description(page):
    charts = re.findall(r"<svg .*?</svg>", page, flags=re.S)
    assert len(charts) == 8  # without groups and past periods
    for chart in charts:
        assert 'role="img"' in chart
        assert re.search(r"<title id=.*?>.+</title><desc id=.*?>.+</desc>", chart)


@pytest.mark.usefixtures("text_only")
def test_few_positives_are_explained():
    data = make_gaussian_pu(40, 300, prior=0.5, separation=4, random_state=0)
    with pytest.warns(FewPositivesWarning):
        clf = DRPUClassifier("classifier", random_state=0).fit(*data.X_y())
    assert "Only 40 positives were held out" in render_report(clf)


@pytest.mark.usefixtures("text_only")
def test_columns_that_moved_are_named(data):
    X, y = data.X_y()
    clf = DRPUClassifier("classifier", random_state=0).fit(pd.DataFrame(X, columns=["<amount>", "km"]), y)
    new = pd.DataFrame(data.test, columns=["<amount>", "km"])
    assert "Columns that moved" not in render_report(clf, new)
    with pytest.warns(ShiftWarning):
        page = render_report(clf, new.assign(km=new["km"] + 2))
    table = page[page.index("<h2>Columns that moved") :]
    assert ">km</th>" in table[: table.index("</table>")]


def number_of_positives(prior, rows):
    """The number as the page states it: a range where the limits are wide."""
    if prior.high - prior.low > WIDE_RANGE:
        return f"{round(prior.low * rows):,} to {round(prior.high * rows):,}"
    return f"about {round(prior.value * rows):,}"


def test_the_page_leads_with_how_many_how_sure_and_what_to_do(page, classifier, data):
    june = classifier.adapt(data.test)
    head = page[: page.index("<main>")]
    for words in ("How many are positive?", "How sure is that?", "What to do?"):
        assert words in head
    assert number_of_positives(june.prior_, 600) in head
    assert f"check {int((june.predict(data.test) == 1).sum())} rows" in head
    assert "ccuracy" not in head


@pytest.mark.usefixtures("text_only")
def test_a_prior_that_is_not_identified_is_a_bound(classifier):
    bound = PriorEstimate(0.3, 0.1, 0.71, 0.95, "matching", identified=False, upper=0.52)
    page = render_report(classifier.at_prior(bound))
    assert "Not identified: at most 52.0% by the counts alone" in page
    cards = page[page.index("How many are positive?") : page.index("What to do?")]
    assert "10.0% to 71.0%" in cards  # wider than .3: the range is the answer
    assert "30.0%" not in cards


def test_nothing_but_the_page_itself_may_run(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert "default-src &#39;none&#39;" in policy
    assert "unsafe" not in policy
    for kind, tag in (("style-src", "style"), ("script-src", "script")):
        text = re.search(rf"<{tag}>(.*?)</{tag}>", page, flags=re.S).group(1)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} &#39;sha256-{digest}&#39;" in policy.replace("&#43;", "+").replace("&#x3D;", "=")
    assert not re.search(r"<[^>]* style=", page)


@pytest.mark.usefixtures("text_only")
def test_every_period_has_a_sentence_with_its_decision(classifier, data):
    months = np.repeat(["may", "june"], 300)
    page = render_report(classifier, data.test, by=months, by_name="month")
    head = page[: page.index("<main>")]
    june = classifier.adapt_by(data.test, by=months)["june"]
    there = classifier.adapt(data.test).at_prior(june.prior)
    flagged = int((there.predict(data.test[months == "june"]) == 1).sum())
    about = f"june: {number_of_positives(june.prior, 300)} of 300 rows are positive"
    assert about in head
    assert f"Check {flagged} rows." in head.split(about)[1].split("</li>")[0]
    with pytest.warns(ShiftWarning):
        page = render_report(classifier, 0.3 * data.test, by=months, budget=40)
    head = page[: page.index("<main>")]
    assert "more than the share of positives; labels move only as far as there is support" in head
    counts = [int(n) for n in re.findall(r"Check the top (\d+) rows", head)]
    assert counts == [40, 40]


@pytest.mark.usefixtures("text_only")
def test_many_periods_have_a_summary(classifier, data):
    weeks = np.empty(600, dtype="U7")
    weeks[np.argsort(data.test_labels)] = np.repeat([f"week {k:02d}" for k in range(12)], 50)
    with silent():
        page = render_report(classifier, data.test, by=weeks, by_name="week")
        groups = classifier.adapt(data.test).adapt_by(data.test, by=weeks)
    sentences = re.findall(r"<li>(.*?)</li>", page[: page.index("<main>")])
    assert len(sentences) <= 3
    values = [group.prior.value for group in groups]
    assert f"between {share(min(values))} (week " in sentences[0]
    assert f" and {share(max(values))} (week " in sentences[0]
    assert f"Check {sum(group.flagged for group in groups):,} rows." in sentences[0]


@pytest.mark.usefixtures("text_only")
def test_a_budget_of_tied_rows_says_how_many_are_listed(classifier, data):
    tied = np.repeat(data.test[:30], 20, axis=0)
    months = np.repeat(["may", "june"], 300)
    with silent():
        page = render_report(classifier, tied, by=months, by_name="month", budget=50)
        groups = classifier.adapt_by(tied, by=months, budget=50)
    assert [group.flagged for group in groups] == [60, 60]
    head = page[: page.index("<main>")]
    assert re.findall(r"Check the top (\d+) rows", head) == ["50", "50"]
    assert "check 100 rows" in head


@pytest.mark.usefixtures("text_only")
def test_warnings_are_sentences_that_are_not_repeated(classifier, data):
    with pytest.warns(ShiftWarning):
        page = render_report(classifier, 0.3 * data.test, by=np.repeat(["may", "june"], 300))
    cautions = page.split("<h2>Read with care</h2>")[1].split("</ul>")[0]
    starts = re.findall(r"(?:<li>|\. )(\w)", cautions)
    assert starts
    assert all(start.isupper() or start.isdigit() for start in starts)
    assert cautions.lower().count("more than the prior has changed") == 1
    assert "[not-prior-shift]" not in page
    assert "plan_audit" not in page


def test_a_wide_range_is_printed_without_its_value():
    assert expected_text(Figure(0.66, 0.0, 1.0)) == "0.0% to 100.0%"
    assert expected_text(Figure(0.66, 0.6, 0.7)) == "66.0% (60.0% to 70.0%)"
    assert expected_text(Figure(np.nan, 0.0, 1.0)) == "cannot be computed"
    assert Figure(0.66, 0.0, 1.0).as_expected() == "[0.000, 1.000]"
    assert Figure(0.66, 0.6, 0.7).as_expected() == "0.660 [0.600, 0.700]"


@pytest.mark.usefixtures("text_only")
def test_page_and_notebook_print_the_same_expected_figures(data):
    clf = DRPUClassifier("kernel", random_state=0).fit(*data.X_y())
    rare = clf.at_prior(PriorEstimate(0.05, 0.005, 0.4, 0.95, "matching"))
    precision = rare.expected_performance().precision
    assert precision.high - precision.low > 0.3  # so wide a range is printed without its value
    page = render_report(rare)
    tables = page.index('<script type="application/json"')  # where the script finds all numbers
    for text in (page[:tables], rare._repr_html_()):
        assert share(precision.value) not in text
        assert f"{share(precision.low)} to {share(precision.high)}" in text


@pytest.mark.usefixtures("text_only", "few_trees")
def test_the_rows_to_check_are_listed_with_reasons_and_a_download(data):
    X, y = data.X_y()
    frame = pd.DataFrame(X, columns=["<amount>", "km"])
    clf = DRPUClassifier("boosted", random_state=0).fit(frame, y)
    new = pd.DataFrame(data.test, columns=["<amount>", "km"])
    ids = [f"id-{k}" for k in range(len(new))]
    page = render_report(clf, new, budget=30, beside={"id": ids})
    link = re.search(r'href="data:text/csv;charset=utf-8,([^"]*)"', page).group(1)
    rows = list(csv.reader(io.StringIO(unquote(html.unescape(link)))))
    assert rows[0] == ["row", "probability", "for it", "against it", "id"]
    june = clf.adapt(new)
    top = june.at_budget(rows=30, of=new).budget_.rows
    assert [int(row[0]) for row in rows[1:]] == top.tolist()
    assert [row[4] for row in rows[1:]] == [ids[k] for k in top]
    np.testing.assert_allclose(
        [float(row[1]) for row in rows[1:]], june.predict_proba(new)[top, 1], rtol=1e-5
    )
    assert [tuple(row[2:4]) for row in rows[1:]] == [r.texts() for r in clf.reasons(new.iloc[top])]
    assert page.count("id-") < 2 * 30 + 11  # the page shows ten of them
    assert "and the columns id of the rows to check" in page


@pytest.mark.usefixtures("undrawn")
def test_the_rows_of_a_file_have_the_numbers_of_its_lines(classifier, data):
    best = classifier.adapt(data.test).at_budget(rows=5, of=data.test).budget_.rows
    for first, meaning in [(0, "position from 0 on"), (2, "line in the file")]:
        page = render_report(classifier, data.test, budget=5, first_row=first)
        link = re.search(r'href="data:text/csv;charset=utf-8,([^"]*)"', page).group(1)
        rows = list(csv.reader(io.StringIO(unquote(html.unescape(link)))))
        assert [int(row[0]) for row in rows[1:]] == (best + first).tolist()
        assert f"by their {meaning}" in page


@pytest.mark.usefixtures("undrawn")
def test_the_backtest_is_a_section_of_the_page(classifier):
    past = [PastPeriod(f"2026-0{k}", 500, 40, 0.02 * k, 1e-4, 0.03 * k, 0.0) for k in range(1, 5)]
    with_past = copy.copy(classifier)
    with_past._fitted = replace(classifier.fitted_, history=Backtest(tuple(past), "guarded", 0.8, 0.1))
    page = render_report(with_past)
    section = page[page.index("<h2>How well past periods would have been read") :].split("</section>")[0]
    assert '<svg id="backtest"' in section
    assert ">2026-04</th>" in section
    assert f"{np.exp(0.08):.2f} times" in section
    assert page.count('<svg id="backtest"') == 1


def test_values_beside_the_rows_must_fit_them(classifier, data):
    with pytest.raises(DataError, match="beside must have one value per row, 600, got 3 in 'id'"):
        render_report(classifier, data.test, beside={"id": [1, 2, 3]})
    with pytest.raises(DataTypeError, match="beside must be a mapping"):
        render_report(classifier, data.test, beside=["id"])


@pytest.mark.usefixtures("text_only")
def test_suspicious_labels_are_shown_from_the_object_or_its_columns(classifier, data):
    found = suspects(classifier, *data.X_y())
    page = render_report(classifier, suspects=found)
    section = page[page.index("<h2>Suspicious labels") :].split("</section>")[0]
    assert f">{found.positions[0]}</th>" in section
    assert render_report(classifier, suspects=found.to_columns()) == page


def test_groups_are_a_line_and_a_table_and_long_names_keep_both_ends(classifier, data):
    branches = np.repeat(["branch office number 1", "<june>"], 300)
    page = render_report(classifier, data.test, by=branches, by_name="month")
    assert "Share of positives by month" in page
    assert page.count("<svg ") == 9  # without past periods
    assert '>&lt;june&gt;</th><td class="number whole">300</td>' in page
    assert ">branch …number 1</text>" in page
    assert ">branch office number 1</th>" in page


@pytest.mark.usefixtures("text_only")
@pytest.mark.parametrize(("budget", "words"), [(1, "top row"), (40, "top 40 rows"), (0.05, "top 30 rows")])
def test_a_budget_is_what_the_page_says_to_do(classifier, data, budget, words):
    assert f"<b>check the {words}</b>" in render_report(classifier, data.test, budget=budget)


@pytest.mark.usefixtures("text_only")
def test_writing_returns_the_classifier_of_the_page(classifier, data, tmp_path):
    path = tmp_path / "june.html"
    june = write_report(classifier, data.test, path, cost=0.8)
    assert june.cost == 0.8
    assert june.prior_ == classifier.adapt(data.test).prior_
    assert path.read_text().rstrip().endswith("</html>")


@pytest.mark.usefixtures("undrawn")
def test_every_new_row_is_scored_once(classifier, data, scored_rows):
    plan = classifier.plan_audit(data.test, n=60, random_state=0)
    audit = plan.answer(data.test_labels[plan.rows])
    months = np.repeat(["may", "june"], 300)
    for options in ({}, {"by": months, "budget": 50, "audit": audit}):
        scored_rows.clear()
        render_report(classifier, data.test, **options)
        assert sum(scored_rows) == 600


def test_pages_that_threads_draw_at_once_are_the_same_and_change_no_setting(classifier, data):
    settings = dict(matplotlib.rcParams)
    alone = render_report(classifier, data.test)
    with ThreadPoolExecutor(4) as threads:
        drawing = [threads.submit(render_report, classifier, data.test) for _ in range(8)]
        pages = [each.result() for each in drawing]
    assert pages == [alone] * 8
    assert dict(matplotlib.rcParams) == settings
