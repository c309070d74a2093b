"""Warnings of the command line: once each, about a file, in its own words, and strict or quiet."""

import ast
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from cli_answers import answer
from cli_folder import write_folder

import drpu
from drpu import make_gaussian_pu

# Names of arguments and methods, which mean nothing to a user of the command line.
PYTHON = ("plan_audit", "at_prior", "pos_label", "positive_weight", "label_delay", "groups")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = write_folder(tmp_path_factory.mktemp("warnings"))
    june = pa.csv.read_csv(folder / "june.csv").select(["a", "b"])
    moved = [pa.array(0.3 * june[name].to_numpy()) for name in ("a", "b")]
    pa.csv.write_csv(pa.table(dict(zip("ab", moved, strict=True))), folder / "moved.csv")
    pa.csv.write_csv(june.slice(0, 8), folder / "few.csv")
    pa.csv.write_csv(june, folder / "good.csv")
    return folder


def test_a_warning_names_its_file_and_comes_once(run):
    code, _, err = run("prior toy.drpu moved.csv good.csv moved.csv")
    assert code == 0
    (line,) = [line for line in err.splitlines() if "[not-prior-shift]" in line]
    assert line.startswith("warning: moved.csv: ")
    assert "good.csv" not in err


def test_numbers_in_warnings_are_those_of_the_output(run):
    code, out, err = run("adapt toy.drpu few.csv")
    assert code == 0
    ends = out.split("(")[1].split(" at 95%")[0].split(" to ")
    warning = next(line for line in err.splitlines() if "[few-rows]" in line)
    assert all(end in warning for end in ends)
    assert "--prior" in warning


def test_strict_makes_doubt_an_exit_status_and_quiet_hides_warnings(run):
    assert run("adapt toy.drpu good.csv --strict")[0] == 0
    code, out, err = run("adapt toy.drpu moved.csv --strict --quiet --json")
    assert (code, err) == (3, "")
    assert "[not-prior-shift]" in json.loads(out)["warnings"][0]
    assert run("adapt toy.drpu moved.csv --quiet")[0] == 0
    assert run("adapt toy.drpu june.csv --strict")[0] == 0  # an ignored column is no doubt
    assert "Exit status 3" in " ".join(run("adapt --help")[1].split())


def calls_that_warn():
    """The calls of the package that issue a warning, with the file of each."""
    for path in Path(drpu.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("Warning.issue"):
                yield path, call


def test_no_advice_names_an_argument_of_python():
    """Warnings whose text names something of Python have another text for the command line."""
    calls = list(calls_that_warn())
    assert len(calls) > 20
    for path, call in calls:
        told = {word.arg: word.value for word in call.keywords}
        shown = [*call.args, told.get("command", told.get("advice", ast.Constant("")))]
        nodes = [node for part in shown for node in ast.walk(part)]
        text = " ".join(str(node.value) for node in nodes if isinstance(node, ast.Constant))
        assert not [name for name in PYTHON if name in text], (path.name, text)


@pytest.mark.usefixtures("text_only", "few_trees")
def test_sizes_are_those_of_the_training_sample(run, folder):
    data = make_gaussian_pu(3000, 9000, prior=0.4, separation=3, dimensions=2, random_state=0)
    X, y = data.X_y()
    pa.csv.write_csv(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y}), folder / "large.csv")
    fitted = answer(run("fit large.csv --label y --model boosted --out large.drpu --json"))
    assert (fitted["positives"], fitted["unlabeled"]) == (3000, 9000)
    assert fitted["held_out_positives"] < 3000
    assert answer(run("inspect large.drpu --json"))["positives"] == 3000
    assert "3,000 positives, 9,000 unlabeled rows" in run("inspect large.drpu")[1]
    assert run("report large.drpu --out large.html")[0] == 0
    assert "3,000 labelled positives, 9,000 unlabeled rows" in (folder / "large.html").read_text()


def test_what_needs_trust_names_the_options_for_it(run):
    assert run("fit train.csv --label y --drop id --model classifier --out foreign.drpu")[0] == 0
    code, _, err = run("adapt foreign.drpu june.csv")
    assert code == 1
    assert err.startswith("error: foreign.drpu: it contains estimators of scikit-learn")
    assert "--trusted" in err
    assert "trusted=" not in err
    assert run("adapt foreign.drpu june.csv --trusted")[0] == 0
    assert run("inspect foreign.drpu")[0] == 0


def test_a_backtest_is_shown_at_fit_by_inspect_and_in_json(run, folder):
    rng = np.random.default_rng(0)
    month, positive = np.repeat([1, 2, 3, 4], 400), rng.random(1600) < 0.3
    labels = (positive & (rng.random(1600) < 0.4)).astype(int)
    columns = {"a": rng.normal(3.0 * positive), "month": month, "y": labels}
    pa.csv.write_csv(pa.table(columns), folder / "past.csv")
    words = "fit past.csv --label y --period month --scenario single-sample --model kernel --out past.drpu"
    code, out, err = run(words)
    assert code == 0, err
    found = answer(run("inspect past.drpu --json"))
    assert found["period"] == "month"
    n = len(found["backtest"]["periods"])
    assert n >= 2
    for text in (out, run("inspect past.drpu")[1]):
        assert f"{n}. Each period was read by a fit" in text


@pytest.fixture(scope="module")
def monthly(folder):
    """A table with a column of months and weak classes."""
    X, y = make_gaussian_pu(200, 600, prior=0.3, separation=0.5, dimensions=1, random_state=0).X_y()
    months = np.resize(["2026-01", "2026-02", "2026-03"], len(y))
    pa.csv.write_csv(pa.table({"a": X[:, 0], "month": months, "y": y}), folder / "monthly.csv")
    return "monthly.csv"


@pytest.mark.usefixtures("text_only", "few_trees")
def test_what_is_odd_in_a_table_is_said_at_fit_kept_and_gone_with_drop(run, monthly):
    fit = f"fit {monthly} --label y --model boosted --prior 0.3 --out months.drpu --json"
    (note,) = answer(run(fit))["notes"]
    assert note["code"] == "only-time"
    assert "--keep-time month" in note["text"]
    assert [note["code"] for note in answer(run("inspect months.drpu --json"))["notes"]] == ["only-time"]
    assert "'month' has dates of so short a time" in run("inspect months.drpu")[1]
    dropped = answer(run(f"{fit} --drop month"))
    assert dropped["notes"] == []


@pytest.mark.usefixtures("few_trees")
def test_one_screen_shows_one_scenario(run, monthly):
    words = f"fit {monthly} --label y --drop month --model boosted --out scenario.drpu"
    shown = {}
    for scenario in ("case-control", "single-sample"):
        code, out, _ = run(f"{words} --scenario {scenario}")
        assert code == 0
        shown[scenario] = answer(run("inspect scenario.drpu --json"))
        assert f"{scenario}: " in out
        assert f"{scenario}: " in run("inspect scenario.drpu")[1]
    assert "assumed single-sample: " in run(words)[1]
    for scenario, facts in shown.items():
        assert facts["scenario"] == scenario
    assert "single-sample" in " ".join(run("fit --help")[1].split())


def test_known_negatives_that_are_not_there_are_said_once(run):
    _, _, err = run("fit train.csv --label y --drop id --model kernel --negative-label 7 --out n.drpu")
    assert err.count("[few-negatives]") == 1
