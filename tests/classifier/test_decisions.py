"""Budgets, amounts, groups and contributions, against true labels and against arithmetic."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone

from drpu import BoostedRatio, Costs, DRPUClassifier, PriorEstimate, load, make_gaussian_pu, save
from drpu.classifier import read_batch, read_rows
from drpu.exceptions import (
    DataError,
    IdColumnWarning,
    ParameterError,
    SeparationWarning,
    ShiftWarning,
    TrainingTableWarning,
)
from drpu.state.fitted import FittedRatio
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import read_frame
from learners import ForestRatio
from shared_fixtures import case_control

SETTINGS = {"prior": 0.3, "separation": 3, "dimensions": 2}


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(300, 1500, test_prior=0.1, n_test=4000, random_state=0, **SETTINGS)


@pytest.fixture(scope="module")
def june(data):
    return case_control("kernel").fit(*data.X_y()).adapt(data.test)


# -- budgets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 7, 200, 3999, 4000])
def test_exactly_as_many_rows_are_flagged_as_can_be_looked_at(june, data, rows):
    day = june.at_budget(rows=rows, of=data.test)
    flagged = day.predict(data.test) == 1
    assert flagged.sum() == rows
    assert_array_equal(np.sort(day.budget_.rows), np.flatnonzero(flagged))
    others = day.decision_function(data.test)[~flagged]
    assert others.size == 0 or others.max() <= day.decision_function(data.test)[flagged].min()


def test_ties_are_flagged_as_a_whole_and_the_list_holds_exactly_the_budget():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (2000, 2)).astype(float)  # four different rows
    positive = rng.random(2000) < np.array([0.05, 0.2, 0.5, 0.9])[(2 * X[:, 0] + X[:, 1]).astype(int)]
    clf = DRPUClassifier("boosted", random_state=0, prior=0.4).fit(X, positive & (rng.random(2000) < 0.5))
    best = np.flatnonzero(X.all(axis=1))
    for rows in (1, 50, len(best) - 1, len(best)):
        day = clf.at_budget(rows=rows, of=X)
        assert_array_equal(day.budget_.rows, best[:rows])  # ties are broken by position
        assert_array_equal(np.flatnonzero(day.predict(X)), best)
        assert_array_equal(day.predict(X[best[-1:]]), [True])  # a row alone as in the batch
        assert (day.budget_.n, day.budget_.flagged, day.budget_.tied) == (rows, len(best), len(best))
        shared = f"{len(best)} rows share the last score"
        assert (shared in str(day.budget_)) == (shared in repr(day)) == (rows < len(best))
        assert (shared in repr(day.budget_)) == (rows < len(best))
    beyond = clf.at_budget(rows=len(best) + 1, of=X)
    assert beyond.budget_.flagged == len(best) + beyond.budget_.tied
    # one model, whose scores are those of the counts
    clf = DRPUClassifier("boosted", holdout=0.5, random_state=0, prior=0.5).fit(X, positive)
    without_rows = [{"share": 0.01}, {"rows": 20, "of": 2000}, {"rows": 20, "of": clf.count(X)}]
    for budget in without_rows:
        day = clf.at_budget(**budget)
        assert_array_equal(np.flatnonzero(day.predict(X)), best)
        assert day.expected_performance().flagged.value > 0.1


def test_rows_of_equal_ratios_are_listed_by_the_score_and_by_position(june, data, monkeypatch):
    rows = np.repeat(data.test[:50], 2, axis=0)
    score = june.fitted_.model.label_scores(rows).mean(axis=1)
    monkeypatch.setattr(FittedRatio, "log_ratio_of", lambda self, scores: np.zeros(len(scores)))
    best = june.at_budget(rows=100, of=rows).budget_.rows
    assert (np.diff(score[best]) <= 0).all()
    assert (np.diff(best)[np.diff(score[best]) == 0] > 0).all()


@pytest.mark.parametrize("rows", [50, 400, 1500])
def test_expected_precision_and_recall_hold_the_truth(june, data, rows):
    budget = june.at_budget(rows=rows, of=data.test).budget_
    truth = data.test_labels[budget.rows]
    precision, recall = truth.mean(), truth.sum() / data.test_labels.sum()
    noise = 2 * np.sqrt(precision * (1 - precision) / rows)  # of the rows themselves
    assert budget.precision.low - noise <= precision <= budget.precision.high + noise
    assert budget.recall.low - 0.05 <= recall <= budget.recall.high + 0.05
    assert_allclose(budget.lift.value, budget.recall.value / budget.share)


def test_a_share_a_number_and_counts_agree_with_the_rows(june, data):
    by_rows = june.at_budget(rows=200, of=data.test)
    counted = june.at_budget(rows=200, of=june.count(data.test))
    expected = june.at_budget(rows=200, of=4000)
    assert expected.threshold_ == june.at_budget(share=0.05).threshold_
    # Without counts of the new rows, the share above a threshold follows from both priors and the
    # curve of the positives, each with an error of its own.
    for other, rows, recall in ((counted, 60, 0.1), (expected, 100, 0.15)):
        assert abs((other.predict(data.test) == 1).sum() - 200) < rows
        assert_allclose(other.budget_.recall.value, by_rows.budget_.recall.value, atol=recall)
        assert other.budget_.threshold == other.threshold_
    assert june.at_budget(share=0.05, of=data.test).budget_.n == 200


def test_a_budget_sets_the_threshold_and_nothing_else(june, data):
    day = june.at_budget(rows=100, of=data.test)
    assert day.prior_ == june.prior_
    assert day.cost_ == june.cost_
    assert day.threshold_ == day.budget_.threshold
    assert_array_equal(day.predict_proba(data.test), june.predict_proba(data.test))
    assert_allclose(day.expected_performance().recall.value, day.budget_.recall.value, atol=0.05)
    assert day.adapt(data.test).threshold_ == june.threshold_  # the next month decides by cost again


def test_another_cost_keeps_the_batch_in_the_ranges(june, data):
    again = june.at_cost(0.6)
    assert again.expected_performance() == june.adapt(data.test).at_cost(0.6).expected_performance()
    known = june.at_prior(june.prior_.value).at_cost(0.6)  # a prior that is known belongs to no batch
    precision, precision_of_batch = (c.expected_performance().precision for c in (known, again))
    assert (
        abs(precision.value - precision_of_batch.value) < 0.12
    )  # other labels: the batch has two hypotheses
    of_population = again.point_.expected(again.fitted_, again.reference_, None).precision
    assert precision_of_batch.low <= of_population.low
    assert precision_of_batch.value == of_population.value


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "rows .* or share"),
        ({"share": 2}, "share must lie between 0 and 1, got 2"),
        ({"rows": 5, "of": "june.csv"}, "of must be rows, their counts or their number, got 'june.csv'"),
        ({"rows": 5, "of": 300.5}, "of must be rows, their counts or their number, got 300.5"),
        ({"rows": 1, "of": True}, "of must be rows, their counts or their number, got True"),
        ({"rows": 5, "share": 0.1}, "not both"),
        ({"rows": 5}, "rows needs of"),
        ({"rows": 0, "of": 10}, "rows must be at least 1"),
        ({"rows": 2.5, "of": 10}, "rows must be an integer"),
        ({"rows": 11, "of": 10}, "must not exceed"),
        ({"share": 0.0}, "share must be above 0"),
        ({"share": 1.5}, "share must lie"),
        ({"rows": 1, "of": -3}, "of must be at least 1"),
    ],
)
def test_budgets_that_mean_nothing_are_refused(june, arguments, words):
    with pytest.raises(ParameterError, match=words):
        june.at_budget(**arguments)


# -- amounts ---------------------------------------------------------------------------------------


def test_amounts_are_taken_wherever_a_cost_is(data, tmp_path):
    costs = Costs(false_alarm=5, miss=200)
    X, y = data.X_y()
    clf = case_control("kernel", cost=costs).fit(X, y)
    assert clone(clf).cost == costs
    assert clf.cost_ is costs
    june = clf.adapt(data.test)
    assert (june.cost_.false_alarm, june.cost_.miss) == (5, 200)
    assert june.threshold_ == june.at_cost(float(costs)).threshold_
    for kept in (clf, june):
        save(kept, tmp_path / "kept.drpu")
        assert repr(load(tmp_path / "kept.drpu").cost_) == "Costs(false_alarm=5, miss=200)"


def test_the_bill_is_what_true_labels_would_cost(june, data):
    at = june.at_prior(0.1).at_cost(Costs(false_alarm=5, miss=200))
    flagged, truth = at.predict(data.test) == 1, data.test_labels == 1
    paid = 5 * (flagged & ~truth).sum() + 200 * (truth & ~flagged).sum()
    bill = at.expected_bill(4000)
    assert bill.low <= bill.value <= bill.high
    assert bill.low <= paid <= bill.high
    with pytest.raises(ParameterError, match=r"pass Costs\(false_alarm=5, miss=200\) to at_cost"):
        june.expected_bill()


# -- groups ----------------------------------------------------------------------------------------


def test_groups_are_found_in_every_kind_of_frame(data):
    X, y = data.X_y()
    names = ["a", "b"]
    clf = case_control("kernel").fit(pd.DataFrame(X, columns=names), y)
    months = np.where(np.arange(4000) % 4 == 0, "may", "june")
    frame = pd.DataFrame(data.test, columns=names).assign(month=months)
    kinds = (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame, preserve_index=False))
    found = [clf.adapt_by(kind, by="month") for kind in kinds]
    assert found[0].names == ["june", "may"]
    assert found[0] == found[1] == found[2] == clf.adapt_by(frame[names], by=months)
    assert [group.n for group in found[0]] == [3000, 1000]


def test_limits_pay_for_the_number_of_groups(june, data):
    few = june.adapt_by(data.test, by=np.arange(4000) % 2)
    many = june.adapt_by(data.test, by=np.arange(4000) % 40)
    assert_allclose(1 - few[0].prior.level, 0.05 / 2)
    assert_allclose(1 - many[0].prior.level, 0.05 / 40)
    for groups in (few, many):
        assert all(group.prior.low <= 0.1 + 1e-9 for group in groups)
        assert groups.whole == june.adapt(data.test).prior_


def test_groups_of_the_same_prior_are_shrunk_together(june, data):
    groups = june.adapt_by(data.test, by=np.arange(4000) % 40)
    alone = np.array([group.alone.value for group in groups])
    shrunk = np.array([group.prior.value for group in groups])
    assert np.std(shrunk) < 0.5 * np.std(alone)


def test_groups_of_another_prior_stay_apart(june, data):
    order = np.argsort(data.test_labels, kind="stable")  # the positives last
    half = np.zeros(4000, dtype=int)
    half[order[3500:]] = 1
    groups = june.adapt_by(data.test, by=half)
    assert groups[1].prior.low > groups[0].prior.high
    assert groups[1].weight > 0.9


def test_dates_are_grouped_by_month_in_their_own_time_zone(june, data):
    days = np.datetime64("2026-05-30") + np.arange(4000) % 4
    assert june.adapt_by(data.test, by=days).names == ["2026-05", "2026-06"]
    gaps = np.where(np.arange(4000) % 2, None, "a").astype(object)
    assert june.adapt_by(data.test, by=gaps).names == ["a", "(missing)"]
    utc = pd.Series(pd.date_range("2026-02-01 02:00", periods=4000, freq="s", tz="UTC"))
    clocks = utc.dt.tz_convert("America/New_York")  # still January there
    chunked = pa.chunked_array([pa.array(clocks)])
    for by in (clocks, clocks.astype(object), pl.Series(clocks), chunked, pa.array(clocks), list(clocks)):
        assert june.adapt_by(data.test, by=by).names == ["2026-01"]
    for by in (utc, pl.Series(utc), pa.array(utc), utc.dt.tz_localize(None)):
        assert june.adapt_by(data.test, by=by).names == ["2026-02"]


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("month", "by must be a column of X"),
        (np.zeros(3), "one value per row"),
        (np.zeros((4000, 2)), "one dimension"),
        (np.arange(4000), "at most 1000"),
        ([{"month": 5}] * 4000, "by must hold names, numbers or dates"),
    ],
)
def test_groups_that_cannot_be_are_refused(june, data, by, words):
    with pytest.raises((DataError, TypeError), match=words):
        june.adapt_by(data.test, by=by)


# -- contributions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "holdout", "margin"),
    [("boosted", "auto", 1e-6), (ForestRatio(20), 0.3, 1e-5), ("auto", 2, 1e-6)],
)
def test_contributions_add_up_to_the_score_of_the_trees(data, model, holdout, margin):
    X, y = data.X_y()
    X = np.column_stack([X, np.random.default_rng(0).normal(size=len(X))])
    clf = case_control(model, holdout=holdout).fit(X, y)
    found = clf.contributions(X[:200])
    assert found.shape == (200, 4)
    function = clf.model_.whole if model == "auto" else clf.model_
    assert_allclose(found.sum(axis=1), function.log_ratio(X[:200]), rtol=margin, atol=margin)
    assert np.abs(found[:, 2]).mean() < 0.3 * np.abs(found[:, 0]).mean()  # a column of noise
    if model == "auto":  # the smooth member has a score and no contributions
        assert np.ptp(found[:, 3]) > 0.1


def test_contributions_have_the_columns_of_the_table(data):
    X, y = data.X_y()
    rng = np.random.default_rng(0)
    ward = np.where(rng.random(len(X)) < 0.2 + 0.6 * (X[:, 0] > 1), "north", rng.choice(["a", "b"], len(X)))
    frame = pd.DataFrame(X, columns=["x", "y"]).assign(ward=ward)
    frame.insert(0, "id", [f"C{k}" for k in range(len(X))])
    with pytest.warns(IdColumnWarning):
        clf = case_control(BoostedRatio(n_rounds=20), holdout=2).fit(frame, y)
    table = clf.contributions(frame[7:57])
    assert list(table) == ["id", "x", "y", "ward", "(rest)"]
    assert_array_equal(table.index, frame.index[7:57])
    reasons = clf.reasons(frame[7:57], n=2)
    for (_, parts), found in zip(table.drop(columns="(rest)").iterrows(), reasons, strict=True):
        assert [name for name, _ in found.favour] == list(parts[parts > 0].sort_values()[::-1].index[:2])
        assert [name for name, _ in found.against] == list(parts[parts < 0].sort_values().index[:2])
        assert all(part == parts[name] for name, part in found.favour + found.against)
    found = clf.contributions(frame[:50]).to_numpy()
    assert not found[:, 0].any()
    assert found[:, 1:4].any(axis=0).all()
    assert_allclose(found.sum(axis=1), clf.model_.fold_scores(read_rows(clf, frame[:50])).mean(axis=1))
    # indicators of a category are added up
    wide = TableEncoder.fit([read_frame(frame[["x", "ward"]])], expand=True)[0]
    assert wide.by_column(np.arange(5.0)[None]).tolist() == [[0.0, 1.0 + 2 + 3, 4.0]]


@pytest.mark.parametrize("kind", [pl.from_pandas, pa.Table.from_pandas])
def test_contributions_are_a_frame_of_the_library_of_the_rows(data, kind):
    X, y = data.X_y()
    frame = pd.DataFrame(X, columns=["x", "y"])
    clf = case_control(BoostedRatio(n_rounds=5), holdout=2).fit(frame, y)
    found = clf.contributions(kind(frame[:9]))
    assert type(found) is type(kind(frame[:9]))
    assert_allclose(np.column_stack([found["x"], found["y"]]), clf.contributions(frame[:9])[["x", "y"]])
    named = frame.rename(columns={"y": "(rest)"})
    again = clf.fit(named, y).contributions(kind(named[:9]))
    assert_array_equal(np.column_stack([again[name] for name in ("x", "(rest)", "((rest))")]), found)


@pytest.mark.filterwarnings("ignore::drpu.exceptions.FewPositivesWarning")
def test_a_default_without_trees_says_so(data):
    clf = DRPUClassifier(holdout=2, random_state=0).fit_pu(data.positive[:8], data.unlabeled[:300])
    with pytest.raises(ParameterError, match=r"has no trees.*model='boosted'"):
        clf.contributions(data.test[:5])


def test_importances_are_mean_absolute_contributions_also_from_a_file(data, tmp_path):
    X, y = data.X_y()
    frame = pd.DataFrame(X, columns=["x", "y"]).assign(noise=np.arange(len(X)) % 7, same=1.0)
    for model in ("auto", "boosted"):
        with pytest.warns(TrainingTableWarning):
            clf = DRPUClassifier(model, scenario="case-control", holdout=2, random_state=0).fit(frame, y)
        parts = clf.contributions(frame).to_numpy()[:, :-1]
        assert len(frame) < 2000  # so that all rows are used
        assert_allclose(clf.feature_importances_, np.abs(parts).mean(axis=0))
        assert clf.feature_importances_.argmax() < 2
        assert clf.feature_importances_[3] == 0
        save(clf, tmp_path / "a.drpu")
        assert_array_equal(load(tmp_path / "a.drpu").feature_importances_, clf.feature_importances_)
        assert_array_equal(clf.at_prior(0.1).feature_importances_, clf.feature_importances_)


def test_models_without_trees_have_no_importances(june):
    assert not hasattr(june, "feature_importances_")
    assert not hasattr(DRPUClassifier(), "feature_importances_")


def test_rows_are_explained_alike_in_any_number_of_blocks(data):
    X, y = data.X_y()
    clf = DRPUClassifier("boosted", scenario="case-control", holdout=2, random_state=0).fit(X, y)
    many = np.tile(X[:1100], (5, 1))  # more rows than are explained at a time
    assert_array_equal(clf.contributions(many), np.tile(clf.contributions(X[:1100]), (5, 1)))
    assert clf.reasons(many) == 5 * clf.reasons(X[:1100])


def test_reasons_of_a_text_name_the_words_that_matter():
    rng = np.random.default_rng(0)
    fillers = ["meet", "later", "home", "call", "today", "lunch", "there", "soon"]
    spam = rng.random(900) < 0.4
    texts = [
        " ".join(rng.choice(fillers, 6)) + (" Winner!" if s else "") + f" {k}" for k, s in enumerate(spam)
    ]
    frame = pd.DataFrame({"text": texts, "hour": rng.integers(0, 24, 900)})
    clf = DRPUClassifier("boosted", holdout=2, random_state=0).fit(frame, spam & (rng.random(900) < 0.5))
    new = {"text": "meet later WINNER today home", "hour": 3}
    (reasons,) = clf.reasons(new)
    name, part = reasons.favour[0]
    assert name.startswith("text: winner")
    assert part == clf.contributions(new)[0, 0]
    assert clf.reasons(frame[:20]) == clf.reasons(read_batch(clf, frame[:20]))
    assert clf.reasons({"text": None, "hour": 3})[0].against[0][0] == "text"


def test_models_without_contributions_say_so(june, data):
    with pytest.raises(
        ParameterError, match="contributions of columns exist for trees only, and the model is a kernel ratio"
    ):
        june.contributions(data.test)


# -- notebooks -------------------------------------------------------------------------------------


def test_notebooks_show_priors_and_limits(june):
    prior = PriorEstimate(0.3, 0.1, 0.71, 0.95, "x", identified=False, upper=0.52)
    assert "at most 52.0%" in prior._repr_html_()
    html = june._repr_html_()
    assert "AdaptedClassifier" in html
    assert f"{100 * june.prior_.value:.1f}%" in html
    assert f"{100 * june.train_prior_.low:.1f}%" in html
    assert ("do not identify the prior" in html) == (not june.train_prior_.identified)


def test_notebooks_show_what_a_fit_found(june, data):
    assert june._repr_mimebundle_()["text/html"] == june._repr_html_()
    clf = DRPUClassifier("kernel", random_state=0)
    assert "prior in training" not in clf._repr_mimebundle_()["text/html"]
    with pytest.warns(SeparationWarning):
        clf.fit_pu(data.unlabeled[:150], data.unlabeled[150:450])  # no signal
    html = clf._repr_mimebundle_()["text/html"]
    for text in ("prior in training", "case-control", "The data do not identify the prior.", "sk-container"):
        assert text in html
    with config_context(display="text"):
        assert set(clf._repr_mimebundle_()) == {"text/plain"}


def test_notebooks_show_a_budget_and_warnings(june, data):
    budget = june.at_budget(rows=40, of=data.test).budget_
    html = june.at_budget(rows=40, of=data.test)._repr_html_()
    assert "40 rows (1.00%)" in html
    assert budget.precision.as_expected() in html
    with pytest.warns(ShiftWarning):
        moved = june.adapt(data.test * [1, 3])
    html = moved._repr_html_()
    assert "More than the prior has changed" in html
    assert "Columns moved more than a new prior explains: &#x27;" in html


@pytest.mark.parametrize("recall", [0.3, 0.6, 0.9])
def test_a_wanted_recall_is_the_expected_one(june, recall):
    # the share of checked rows is flat where a few held-out positives have no unlabeled row between them
    assert recall - 0.005 < june.at_recall(recall).budget_.recall.value < recall + 0.04


def test_a_wanted_precision_is_reached_with_as_many_rows_as_possible(june, data):
    strict, loose = june.at_precision(0.9), june.at_precision(0.6)
    assert strict.budget_.precision.value >= 0.9 - 0.02
    assert loose.budget_.precision.value >= 0.6 - 0.02
    assert strict.predict(data.test).sum() < loose.predict(data.test).sum()
    with pytest.raises(ParameterError, match="precision must lie"):
        june.at_precision(1.0)
