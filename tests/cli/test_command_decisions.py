"""Budgets, amounts and groups on the command line."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from cli_answers import answer
from cli_folder import run_in, write_folder
from numpy.testing import assert_allclose

from drpu import load


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("cli"))


def test_a_budget_flags_that_many_rows(run):
    result = answer(run("predict toy.drpu june.csv --adapt --budget 50 --out look.csv --json"))
    assert result["written"] == 50
    assert result["flagged"] == answer(run("predict toy.drpu june.csv --adapt --out x.csv --json"))["flagged"]
    assert result["budget"]["rows"] == 50
    assert result["budget"]["precision"]["low"] <= result["budget"]["precision"]["value"]
    _, out, _ = run("adapt toy.drpu june.csv --budget 2% --drop id --out ten.drpu")
    assert "decided by          a budget of 10 rows (2.0%)" in out
    assert "to expect           precision" in out
    assert "drpu ask toy.drpu june.csv --drop id\n" in out
    _, out, _ = run("inspect ten.drpu")
    assert "the threshold of a budget; the cost is used for expected costs only" in out


@pytest.fixture(scope="module")
def boosted(folder):
    run_in(folder, "fit train.parquet --label y --drop id --model boosted --out boosted.drpu")


def written(folder, name):
    return pa.csv.read_csv(folder / name).to_pydict()


@pytest.mark.usefixtures("boosted")
def test_a_budget_writes_the_list_to_check_the_best_first_with_reasons(run, folder):
    found = answer(run("predict boosted.drpu june.csv --adapt --budget 40 --out check.csv --json"))
    assert (found["rows"], found["written"]) == (500, 40)
    rows = written(folder, "check.csv")
    clf = load(folder / "boosted.drpu").adapt(table := pa.csv.read_csv(folder / "june.csv").drop("id"))
    best = clf.at_budget(rows=40, of=table).budget_.rows
    assert rows["id"] == best.tolist()
    assert rows["drpu_check"] == list(range(1, 41))
    assert_allclose(rows["drpu_probability"], clf.predict_proba(table)[best, 1], rtol=1e-5)
    assert rows["drpu_label"] == clf.predict(table.take(best)).tolist()  # not what the budget flags
    assert rows["drpu_for"] == [reasons.texts()[0] for reasons in clf.reasons(table.take(best))]
    answers = answer(run("predict boosted.drpu june.csv --adapt --budget 40 --keep id --json"))
    assert answers["kept"]["id"] == best.tolist()
    assert answers["answers"]["drpu_check"] == rows["drpu_check"]


@pytest.mark.usefixtures("boosted")
def test_every_row_can_be_written_and_sorted_and_explained(run, folder):
    assert run("predict boosted.drpu june.csv --adapt --budget 40 --all --out all.csv")[0] == 0
    rows = written(folder, "all.csv")
    assert rows["id"] == list(range(500))
    places = [place for place in rows["drpu_check"] if place is not None]
    assert sorted(places) == list(range(1, 41))
    run("predict boosted.drpu june.csv --adapt --out plain.csv")
    assert rows["drpu_label"] == written(folder, "plain.csv")["drpu_label"]
    assert "drpu_for" not in rows
    run("predict boosted.drpu june.csv --adapt --sort --only-flagged --explain 1 --out flagged.csv")
    flagged = written(folder, "flagged.csv")
    assert set(flagged["drpu_label"]) == {1}
    assert flagged["drpu_rank"] == list(range(1, len(flagged["id"]) + 1))
    assert all(b <= a for a, b in itertools.pairwise(flagged["drpu_probability"]))
    assert all("(+" in text for text in flagged["drpu_for"])
    run("predict boosted.drpu june.csv --adapt --sort --out sorted.csv")
    assert written(folder, "sorted.csv")["drpu_rank"] == list(range(1, 501))
    run("predict boosted.drpu june.csv --adapt --only-flagged --out some.csv")
    assert written(folder, "some.csv")["id"] == sorted(flagged["id"])


def test_a_label_in_a_file_is_never_blank(run, folder):
    train = pa.csv.read_csv(folder / "train.csv")
    words = ["fraud" if label else "" for label in train["y"].to_pylist()]
    blank = train.drop(["y"]).append_column("state", pa.array(words))
    pa.csv.write_csv(blank, folder / "blank.csv")
    assert run("fit blank.csv --label state --drop id --model kernel --out blank.drpu")[0] == 0
    assert run("predict blank.drpu june.csv --budget 200 --all --out words.csv")[0] == 0
    assert set(written(folder, "words.csv")["drpu_label"]) == {"fraud", "not fraud"}


def test_ties_do_not_make_the_list_longer(run, folder):
    june = pa.csv.read_csv(folder / "june.csv")
    same = pa.concat_tables([june.slice(0, 1)] * 60 + [june])
    pa.csv.write_csv(same, folder / "same.csv")
    first = load(folder / "toy.drpu").ratio(same.drop("id"))
    better = int((first > first[0]).sum())
    code, out, _ = run(f"predict toy.drpu same.csv --prior 0.2 --budget {better + 5} --out check.csv")
    assert code == 0
    assert f"{better + 5} rows written to" in out
    listed = written(folder, "check.csv")
    assert len(listed["id"]) == better + 5
    assert "drpu_for" not in listed  # a model without trees has no reasons
    tied = f"61 rows share the last score, so {better + 61} are flagged"
    assert f"{better + 5} rows to check (61 rows share the last score)" in out
    assert tied in run(f"adapt toy.drpu same.csv --budget {better + 5}")[1]
    truth = ["no"] * 5 + ["yes"] * (len(same) - 5)  # the last five rows of the list are negative
    pa.csv.write_csv(same.append_column("truth", pa.array(truth)), folder / "same-truth.csv")
    words = f"evaluate toy.drpu same-truth.csv --label truth --budget {better + 5}"
    measured = answer(run(f"{words} --json"))["budget"]["measured_precision"]
    assert_allclose(measured["value"], better / (better + 5))
    _, out, _ = run(words)
    assert tied in out
    assert f"{better + 5} rows, precision" in out


def test_evaluate_gives_the_precision_of_the_rows_of_a_budget(run, folder):
    june = pa.csv.read_csv(folder / "june.csv")
    clf = load(folder / "toy.drpu")
    truth = np.where(np.arange(500) % 3 == 0, "yes", "no")
    pa.csv.write_csv(june.append_column("truth", pa.array(truth)), folder / "checked.csv")
    found = answer(run("evaluate toy.drpu checked.csv --label truth --budget 60 --json"))
    best = clf.at_budget(rows=60, of=june.drop("id")).budget_.rows
    assert_allclose(found["evaluation"]["precision"]["value"], np.mean(truth[best] == "yes"))
    assert found["budget"]["rows"] == 60
    assert found["budget"]["measured_precision"]["value"] == found["evaluation"]["precision"]["value"]


@pytest.mark.usefixtures("text_only")
def test_the_page_and_its_json_show_the_budget_and_the_amounts(run, folder):
    line = "june.csv --budget 20 --false-alarm 5 --miss 200"
    found = answer(run(f"report toy.drpu {line} --out day.html --json"))
    assert found["budget"] == answer(run(f"adapt toy.drpu {line} --json"))["budget"]
    page = (folder / "day.html").read_text()
    assert "check the top 20 rows" in page[: page.index("<main>")]
    assert answer(run("report toy.drpu --budget 2% --out day.html --json"))["budget"]["share"] == 0.02


def test_amounts_give_a_cost_and_a_bill(run):
    result = answer(run("adapt toy.drpu june.csv --false-alarm 5 --miss 200 --json"))
    assert_allclose(result["cost"], 5 / 205)
    assert result["costs"] == {"false_alarm": 5.0, "miss": 200.0}
    assert result["expected_bill_per_row"]["value"] > 0
    _, out, _ = run("adapt toy.drpu june.csv --false-alarm 5 --miss 200")
    assert "expected bill" in out


@pytest.mark.usefixtures("text_only")
def test_the_page_shows_groups_and_columns_beside_the_rows(run, folder):
    code, _, err = run("report toy.drpu year.parquet --by month --beside id --out year.html")
    assert (code, err) == (0, "")
    page = (folder / "year.html").read_text()
    assert "Share of positives by month" in page
    assert "may: about" in page
    assert "and the columns id of the rows to check" in page
    assert run("report toy.drpu --beside id --out x.html")[0] == 2
