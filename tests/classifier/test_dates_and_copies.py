"""Columns that grow harm no later rows, and copies of rows count once."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from drpu import DRPUClassifier, export_onnx, load, make_gaussian_pu, save, suspects
from drpu.cli import main
from drpu.exceptions import CopiedPositivesWarning, IdColumnWarning, ParameterError, ShiftWarning
from drpu.periods.backtest import plan_periods
from drpu.tables.copies import copied_rows

DATA = make_gaussian_pu(
    300, 900, prior=0.4, test_prior=0.2, n_test=600, separation=3, dimensions=3, random_state=0
)
X, Y = DATA.X_y()


def table(rows, start, days=90, seed=0):
    """Rows with a date in a year of their own, and with numbers of cases in no order."""
    rng = np.random.default_rng(seed)
    opened = pd.Timestamp(start) + pd.to_timedelta(rng.integers(0, days, len(rows)), unit="D")
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    return frame.assign(opened=opened, case_no=rng.choice(10**7, len(rows), replace=False))


def fit(frame, **parameters):
    clf = DRPUClassifier("boosted", scenario="case-control", random_state=0, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdColumnWarning)
        return clf.fit(frame, Y)


TRAIN = table(X, "2026-01-01")
LATER = table(DATA.test, "2026-06-01", seed=1)


@pytest.fixture(scope="module")
def clf():
    return fit(TRAIN)


# -- dates -----------------------------------------------------------------------------------------


def test_later_dates_change_nothing_unless_time_is_kept(clf):
    same_weekdays = LATER.assign(opened=LATER["opened"] + pd.Timedelta(weeks=500))
    assert_array_equal(clf.predict_proba(same_weekdays), clf.predict_proba(LATER))
    later = clf.adapt(LATER)
    assert later.moved_columns_ == ()
    with_time = fit(TRAIN, keep_time=["opened"])
    with pytest.warns(ShiftWarning, match="'opened'"):
        later = with_time.adapt(LATER)
    assert [column.name for column in later.moved_columns_] == ["opened"]


def test_dates_as_text_are_grouped_by_month(clf):
    months = LATER["opened"].dt.strftime("%Y-%m")
    for form in ("%Y-%m-%d", "%d.%m.%Y", "%b %d, %Y"):
        groups = clf.adapt_by(LATER, by=LATER["opened"].dt.strftime(form))
        assert groups.names == sorted(set(months))


def test_a_graph_computes_the_parts_of_dates(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    rng = np.random.default_rng(2)
    train = table(X, "2023-01-01", 800)
    hours = pd.to_timedelta(rng.integers(0, 24, len(train)) + 4 * Y, unit="h")
    train = train.assign(opened=train["opened"] + hours)
    closed = train["opened"] + pd.to_timedelta(rng.integers(0, 30, len(train)) + 4 * Y, unit="D")
    frame = train.assign(closed=closed).drop(columns="case_no")
    clf = fit(frame)
    export_onnx(clf, tmp_path / "a.onnx")
    inputs = {"prior": np.array([clf.prior_.value]), "cost": np.array([0.5])}
    for name in frame:
        values = frame[name]
        if values.dtype.kind == "M":
            values = (values - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
        inputs[f"X.{name}"] = values.to_numpy(dtype=float)[:, None]
    session = onnxruntime.InferenceSession(tmp_path / "a.onnx")
    (ratio,) = session.run(["ratio"], inputs)
    assert_allclose(ratio, clf.ratio(frame), rtol=1e-6)


def test_columns_to_keep_need_a_table():
    with pytest.raises(ParameterError, match="keep_time and keep_ids name columns of a data frame"):
        DRPUClassifier("boosted", keep_time=True).fit(X, Y)
    with pytest.raises(ParameterError, match="keep_ids must be True, False or a list of names"):
        DRPUClassifier("boosted", keep_ids=3).fit(TRAIN, Y)


def test_the_command_line_keeps_columns(tmp_path, capsys):
    TRAIN.assign(y=Y).to_csv(tmp_path / "train.csv", index=False)
    words = ["fit", str(tmp_path / "train.csv"), "--label", "y", "--model", "boosted"]
    words += ["--scenario", "case-control", "--out", str(tmp_path / "a.drpu")]
    assert main([*words, "--keep-time", "opened", "--keep-ids", "all"]) == 0
    assert main(["inspect", str(tmp_path / "a.drpu")]) == 0
    kept = capsys.readouterr().out
    assert "different whole number" in kept
    assert main([*words, "--keep-time", "a"]) != 0
    assert "--keep-time must be names of columns of dates, got 'a'" in capsys.readouterr().err
    assert main(words) == 0
    assert main(["inspect", str(tmp_path / "a.drpu")]) == 0
    usual = capsys.readouterr().out
    assert "--keep-ids case_no" in usual
    assert "--keep-time opened" in usual


def test_the_parameters_are_kept_in_files(tmp_path):
    path = tmp_path / "a.drpu"
    save(fit(TRAIN, keep_time=["opened"], keep_ids=True), path)
    assert load(path).get_params()["keep_time"] == ("opened",)


# -- copies ----------------------------------------------------------------------------------------


def test_copies_of_new_rows_count_once_in_limits(clf):
    once = clf.adapt(LATER).prior_
    others = [LATER.assign(case_no=LATER["case_no"] + k) for k in range(3)]  # copies, but for the number
    thrice = clf.adapt(pd.concat(others, ignore_index=True)).prior_
    assert_allclose(thrice.value, once.value, atol=1e-9)
    assert_allclose((thrice.low, thrice.high), (once.low, once.high), atol=1e-9)
    assert once.high - once.low > 0.02
    adapted, labels = clf.adapt_predict(pd.concat(others, ignore_index=True))
    assert adapted.prior_ == thrice
    assert len(labels) == 3 * len(LATER)


@pytest.mark.parametrize("seed", range(5))
def test_equal_cases_of_coarse_tables_are_no_copies(seed):
    rng = np.random.default_rng(seed)
    n = 2000
    kind = rng.integers(0, 6, n)
    coarse = np.column_stack([kind, kind + rng.integers(0, 2, n), rng.integers(0, 3, (n, 2))])
    assert copied_rows(coarse.astype(float)) is None
    assert copied_rows(rng.integers(0, 2, (n, 10)).astype(float)) is None
    assert copied_rows(rng.normal(size=(n, 2))) is None
    copies = copied_rows(np.repeat(rng.normal(size=(n, 2)), 2, axis=0))
    assert len(np.unique(copies)) == n


def test_suspects_finds_copies_whatever_number_they_have(clf):
    twice = pd.concat([TRAIN, TRAIN.assign(case_no=TRAIN["case_no"] + 1)], ignore_index=True)
    labels = np.r_[Y, np.zeros(len(Y), dtype=int)]
    found = suspects(clf, twice, labels, repeats=1)
    positives = np.flatnonzero(Y == 1)
    assert sorted(found.copies.tolist()) == sorted([[len(Y) + k, k] for k in positives])
    thrice = pd.concat([TRAIN] * 3, ignore_index=True)  # most unlabeled rows have a copy
    labels = np.r_[Y, np.zeros(2 * len(Y), dtype=int)]
    assert len(suspects(clf, thrice, labels, repeats=1).copies) == 2 * len(positives)


def test_copies_are_found_without_numbers_that_a_pipeline_reads():
    twice = pd.concat([TRAIN, TRAIN.assign(case_no=TRAIN["case_no"] + 1)], ignore_index=True)
    labels = np.r_[Y, Y]
    numbers = make_column_transformer(("passthrough", ["a", "b", "c"]))
    clf = DRPUClassifier(make_pipeline(numbers, LogisticRegression()), holdout=2, random_state=0)
    with pytest.warns(CopiedPositivesWarning, match=f"{len(DATA.positive)} of the"):
        clf.set_params(scenario="case-control").fit(twice, labels)


# -- texts among numbers ---------------------------------------------------------------------------


def test_a_later_file_may_have_a_few_texts_among_numbers(tmp_path, capsys):
    rng = np.random.default_rng(0)
    train = TRAIN.assign(rooms=rng.integers(1, 5, len(X)), y=Y)
    later = LATER.assign(rooms=rng.integers(1, 5, len(LATER)).astype(str))
    later.loc[:9, "rooms"] = ">3"
    train.to_csv(tmp_path / "train.csv", index=False)
    later.to_csv(tmp_path / "june.csv", index=False)
    file = str(tmp_path / "a.drpu")
    words = ["fit", str(tmp_path / "train.csv"), "--label", "y", "--model", "boosted"]
    assert main([*words, "--scenario", "case-control", "--out", file]) == 0
    june = str(tmp_path / "june.csv")
    assert main(["adapt", file, june, "--out", str(tmp_path / "june.drpu")]) == 0
    assert "10 of 600 rows have other values, which are read as missing: '>3'" in capsys.readouterr().err
    assert main(["predict", file, june, "--out", str(tmp_path / "labels.csv")]) == 0
    later.loc[:99, "rooms"] = ">3"
    later.to_csv(june, index=False)
    assert main(["predict", file, june, "--out", str(tmp_path / "labels.csv")]) != 0
    assert "fit again with rows that have such values" in capsys.readouterr().err


# -- periods and labels of files -------------------------------------------------------------------


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S", "%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M:%S %p"])
def test_periods_of_moments_are_months(form):
    seconds = np.random.default_rng(0).integers(0, 200 * 86_400, 300)
    moments = pd.Timestamp("2024-01-01") + pd.to_timedelta(seconds, unit="s")
    plan = plan_periods(moments.strftime(form), np.arange(300) % 3 == 0, 0)
    assert list(plan.names) == sorted(set(moments.strftime("%Y-%m")))


def test_a_file_with_yes_no_and_blank_is_told_the_option(tmp_path, capsys):
    labels = np.where(Y == 1, "yes", "")
    labels[-9:] = "no"
    TRAIN.assign(y=labels).to_csv(tmp_path / "train.csv", index=False)
    words = ["fit", str(tmp_path / "train.csv"), "--label", "y", "--out", str(tmp_path / "a.drpu")]
    assert main(words) != 0
    assert "name that of known negatives, with --negative-label no." in capsys.readouterr().err
