"""Budgets, amounts and groups on the command line."""

import pytest
from cli_answers import answer
from cli_folder import write_folder
from numpy.testing import assert_allclose


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("cli"))


def test_a_budget_flags_that_many_rows(run):
    result = answer(run("predict toy.drpu june.csv --adapt --budget 50 --out look.csv --json"))
    assert result["flagged"] == 50
    assert result["budget"]["rows"] == 50
    assert result["budget"]["precision"]["low"] <= result["budget"]["precision"]["value"]
    _, out, _ = run("adapt toy.drpu june.csv --budget 2%")
    assert "checking" in out
    assert "10 rows (2.0%)" in out


@pytest.mark.usefixtures("undrawn")
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


def test_expected_numbers_have_ranges(run):
    result = answer(run("adapt toy.drpu june.csv --json"))
    for figure in result["expected"].values():
        assert figure["low"] <= figure["value"] <= figure["high"]
    assert result["prior"]["identified"] in (True, False)
    _, out, _ = run("adapt toy.drpu june.csv")
    assert " to " in out.split("precision")[1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("adapt toy.drpu june.csv --miss 5", "--false-alarm and --miss belong together"),
        ("adapt toy.drpu june.csv --cost 0.3 --miss 5 --false-alarm 1", "not both"),
        ("adapt toy.drpu june.csv --miss 0 --false-alarm 1", "miss must be a finite amount above 0"),
        ("adapt toy.drpu june.csv --budget many", "--budget must be a number of rows"),
        ("adapt toy.drpu june.csv --budget 501", "--budget must not exceed"),
        ("adapt toy.drpu june.csv --budget 0", "budget must be at least 1"),
        ("report toy.drpu june.csv --budget 501 --out x.html", "--budget must not exceed"),
        ("report toy.drpu june.csv --budget 0.5% --miss 5 --out x.html", "belong together"),
        ("report toy.drpu june.csv --budget -3% --out x.html", "share must lie between 0 and 1"),
        ("report toy.drpu june.csv --by week --out x.html", "no column 'week'"),
        ("prior toy.drpu june.csv --by week", "no column 'week'"),
    ],
)
def test_decisions_that_mean_nothing_are_refused(run, folder, line, words):
    code, out, err = run(line)
    assert (code, out) == (1, "")
    assert not (folder / "x.html").exists()
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("undrawn")
def test_the_page_shows_groups_and_columns_beside_the_rows(run, folder):
    code, _, err = run("report toy.drpu year.parquet --by month --beside id --out year.html")
    assert (code, err) == (0, "")
    page = (folder / "year.html").read_text()
    assert "Share of positives by month" in page
    assert "may: about" in page
    assert "and the columns id of the rows to check" in page
    assert run("report toy.drpu --beside id --out x.html")[0] == 2
