"""Commands with --by: each period has its own reading, decision, budget and warnings."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from cli_answers import answer

from drpu import DRPUClassifier, load, make_gaussian_pu, save
from drpu.exceptions import silent

MONTHS = ("2026-04", "2026-05", "2026-06")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three later months: positives are rare, frequent, and in the last one the columns shrank."""
    folder = tmp_path_factory.mktemp("periods")
    data = make_gaussian_pu(400, 1600, prior=0.4, separation=4, dimensions=2, random_state=0)
    X, y = data.X_y()
    train = pd.DataFrame(X, columns=["a", "b"]).assign(
        month=np.resize(["2026-01", "2026-02", "2026-03"], len(y))
    )
    clf = DRPUClassifier("kernel", scenario="single-sample", random_state=0)
    clf.fit(train, y, periods="month")
    clf._keep(replace(clf.fitted_, history=None))  # labels then stay as trained where others move
    save(clf, folder / "toy.drpu")
    parts = []
    for month, prior in zip(MONTHS, (0.1, 0.7, 0.4), strict=True):
        some = make_gaussian_pu(
            2, 2, prior=0.4, test_prior=prior, n_test=500, separation=4, dimensions=2, random_state=len(parts)
        )
        rows = 0.3 * some.test if month == MONTHS[-1] else some.test
        parts.append(pd.DataFrame(rows, columns=["a", "b"]).assign(month=month, truth=some.test_labels))
    pd.concat(parts).to_csv(folder / "new.csv", index=False)
    pd.concat(parts[:2]).to_parquet(folder / "good.parquet", index=False)
    parts[0].to_csv(folder / "one.csv", index=False)
    return folder


@pytest.fixture
def python(folder):
    """The classifier, the rows, and what Python finds in their months."""
    clf, new = load(folder / "toy.drpu"), pd.read_csv(folder / "new.csv")
    with silent():
        return clf, new, clf.adapt_by(new[["a", "b"]], by=new["month"])


def test_every_command_states_the_same_fact_about_each_period(run, python):
    _, _, groups = python
    assert [group.shift for group in groups] == ["prior", "prior", "other"]
    prior = answer(run("prior toy.drpu new.csv --by month --json"))["found"]
    adapted = answer(run("adapt toy.drpu new.csv --by month --json"))["found"]
    labelled = answer(run("predict toy.drpu new.csv --by month --out all.csv --json"))["found"]
    for found in (prior, adapted, labelled):
        assert [item["data"] for item in found] == [f"month={month}" for month in MONTHS]
        assert [item["shift"] for item in found] == [group.shift for group in groups]
        for item, group in zip(found, groups, strict=True):
            unsure = group.shift == "prior" and not group.prior.identified
            assert ("weak-separation" in item["warnings"]) == unsure
            assert ("not-prior-shift" in item["warnings"]) == (group.shift == "other")
        for item, group in zip(found, groups, strict=True):
            assert item["prior"]["value"] == pytest.approx(group.prior.value)
    assert [item["flagged"] for item in adapted] == [group.flagged for group in groups]
    for words in ("prior toy.drpu new.csv --by month", "adapt toy.drpu new.csv --by month"):
        code, out, err = run(words)
        verdicts = [line.split("\t")[-2 if "prior toy" in words else -4] for line in out.splitlines()[-3:]]
        assert (code, verdicts) == (0, ["yes", "yes", "no"])
        assert err.count("[not-prior-shift]") == 1
        assert "in 2026-06 (1 of 3 groups)" in err


def test_labels_of_a_period_are_those_of_its_own_classifier(run, folder, python):
    clf, new, groups = python
    assert answer(run("predict toy.drpu new.csv --by month --out labels.csv --json"))["rows"] == len(new)
    labels = pd.read_csv(folder / "labels.csv")
    for group in groups:
        rows = new[new["month"] == group.name][["a", "b"]]
        expected = group.classifier.predict(rows)
        assert (labels.loc[labels["month"] == group.name, "drpu_label"].to_numpy() == expected).all()
        assert expected.sum() == group.flagged
    # where more than the prior moved, labels stay as trained
    last = new[new["month"] == MONTHS[-1]][["a", "b"]]
    assert (groups[MONTHS[-1]].classifier.predict(last) == clf.predict(last)).all()


def test_a_budget_is_one_of_each_period(run, folder):
    answer(run("predict toy.drpu new.csv --by month --budget 20 --out top.csv --json"))
    top = pd.read_csv(folder / "top.csv")
    assert top.groupby("month")["drpu_check"].apply(list).tolist() == [list(range(1, 21))] * 3
    found = answer(run("adapt toy.drpu new.csv --by month --budget 2% --json"))["found"]
    assert [item["budget"]["share"] for item in found] == pytest.approx([0.02] * 3)
    assert [item["shift"] for item in found] == ["prior", "prior", "other"]


def test_periods_with_other_priors_are_not_adapted_to_at_once_without_a_word(run):
    for words in ("adapt toy.drpu good.parquet", "predict toy.drpu good.parquet --adapt --out x.csv"):
        code, _, err = run(words)
        assert code == 0
        assert err.count("[mixed-periods]") == 1
        assert "Use --by month." in err
        assert "'month'" not in err.replace("periods ('month')", "")  # and it is no ignored column
    assert "[mixed-periods]" not in run("adapt toy.drpu one.csv")[2]


def test_labels_that_arrived_are_used_in_each_period(run, python):
    clf, new, _ = python
    found = answer(run("adapt toy.drpu new.csv --by month --label truth --json"))["found"]
    with silent():
        expected = clf.adapt_by(new[["a", "b"]], new["truth"], by=new["month"])
    for item, group in zip(found, expected, strict=True):
        assert item["prior"]["value"] == pytest.approx(group.prior.value)
    assert run("adapt toy.drpu new.csv --by month --out x.drpu")[0] == 2


@pytest.mark.usefixtures("text_only")
def test_the_page_shows_periods_beside_answers_and_suspicious_labels(run, folder):
    assert run("audit toy.drpu new.csv --n 40 --quiet --out to-label.csv")[0] == 0
    plan, new = pd.read_csv(folder / "to-label.csv"), pd.read_csv(folder / "new.csv")
    plan["drpu_label"] = new["truth"].to_numpy()[plan["drpu_row"] - 2]
    plan.to_csv(folder / "answers.csv", index=False)
    pd.DataFrame({"drpu_row": [7, 9], "drpu_suspicion": ["label", "copy"]}).to_csv(
        folder / "check.csv", index=False
    )
    words = "report toy.drpu new.csv --by month --audit answers.csv --suspects check.csv --quiet"
    code, _, err = run(f"{words} --out page.html")
    assert code == 0, err
    page = (folder / "page.html").read_text()
    section = page[page.index("<h2>Suspicious labels") :].split("</section>")[0]
    assert re.search(r">7</th><td [^>]*>label</td>", section)
    groups = page[page.index("<h2>Share of positives by month") :].split("</section>")[0]
    assert all(month in groups for month in MONTHS)
    assert "What the audit changed" in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "fit one.csv --label truth --scenario case-control --label-delay 1 --out x.drpu",
            "--label-delay needs --scenario single-",
        ),
        ("fit one.csv --unlabeled new.csv --period month --out x.drpu", "--period needs a column of labels"),
        ("adapt toy.drpu new.csv --by month --audit answers.csv", "without --by"),
    ],
)
def test_an_option_without_effect_is_an_error(run, words, said):
    code, _, err = run(words)
    assert code in (1, 2)
    assert said in err


def test_a_missing_column_of_groups_is_named_with_its_file_once(run):
    code, _, err = run("adapt toy.drpu new.csv --by nope")
    assert code == 1
    assert err.count("new.csv") == 1
