"""The command line: arguments, output and exit codes."""

import io
import re
import shlex
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from cli_answers import answer, refused, table_of
from cli_folder import write_folder
from numpy.testing import assert_allclose
from scipy import sparse

from drpu import DRPUClassifier, load


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("cli"))


# -- commands ----------------------------------------------------------------------------------


def test_fit_gives_the_classifier_that_python_gives(folder):
    table = pa.parquet.read_table(folder / "train.parquet")
    X, y = table.select(["a", "b"]), table.column("y").to_numpy()
    clf = DRPUClassifier("kernel", random_state=0).fit(X, y)
    assert load(folder / "toy.drpu").prior_ == clf.prior_


@pytest.mark.parametrize("file", ["train.csv", "train.parquet"])
def test_every_format_gives_the_same_fit(run, folder, file):
    result = answer(run(f"fit {file} --label y --columns a,b --model kernel --out again.drpu --json"))
    assert_allclose(result["prior"]["value"], load(folder / "toy.drpu").prior_.value, rtol=1e-6)
    assert result["positives"] == 200
    assert result["columns"] == ["a", "b"]


def test_fit_ends_with_the_command_that_asks_about_rows(run, folder, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.r_[np.ones(60, int), np.zeros(300, int)]
    weak = pa.table({"a": rng.normal(0.5 * y), "y": y})
    options = pa.csv.WriteOptions(delimiter=";")
    pa.csv.write_csv(weak, folder / "weak.csv", options)
    identified = run("fit train.csv --label y --columns a,b --model kernel --out new.drpu")[1]
    assert identified.splitlines()[-1].endswith("drpu ask new.drpu NEW_ROWS.csv")
    lines = run("fit weak.csv --label y --model kernel --out weak.drpu --sep ;")[1].splitlines()
    assert lines[-1].endswith("drpu ask weak.drpu weak.csv --sep ';' --drop y")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\nn\n"))
    assert run(*shlex.split(lines[-1].partition(": drpu ")[2]))[0] == 0


def test_numpy_archives_are_read_by_the_names_of_their_arrays(run, folder):
    result = answer(run("fit train.npz --label y --model kernel --out numpy.drpu --json"))
    assert_allclose(result["prior"]["value"], load(folder / "toy.drpu").prior_.value, rtol=1e-6)


def test_positives_and_unlabeled_rows_may_come_in_two_files(run, folder):
    table = pa.parquet.read_table(folder / "train.parquet")
    for name, label in (("positive", 1), ("unlabeled", 0)):
        part = table.filter(pa.compute.equal(table["y"], label)).select(["a", "b"])
        pa.feather.write_feather(part, folder / f"{name}.feather")
    words = "fit positive.feather --unlabeled unlabeled.feather --model kernel --out two.drpu --json"
    result = answer(run(words))
    assert (result["positives"], result["unlabeled"]) == (200, 600)
    assert result["scenario"] == "case-control"


def test_the_scenario_of_one_file_is_that_of_its_rows(run, folder):
    words = "--label y --model kernel --out scenario.drpu"
    table = pa.parquet.read_table(folder / "train.parquet").drop(["id"])
    labelled = table.filter(pa.compute.equal(table["y"], 1))
    everything = table.set_column(2, "y", pa.array(np.zeros(len(table), dtype=np.int64)))
    pa.parquet.write_table(pa.concat_tables([labelled, everything]), folder / "copied.parquet")
    for file, scenario in (("train.parquet --drop id", "single-sample"), ("copied.parquet", "case-control")):
        fitted = answer(run(f"fit {file} {words} --json"))
        assert fitted["scenario"] == answer(run("inspect scenario.drpu --json"))["scenario"] == scenario
        assert any("[scenario]" in line for line in fitted["warnings"]) == (scenario == "case-control")
        assert f"{scenario}: " in run("inspect scenario.drpu")[1]
    code, _, err = run(f"fit copied.parquet {words} --period b")
    assert code == 1
    assert "--scenario single-sample" in err


@pytest.mark.parametrize("file", ["june.csv", "june.arrow", "june.parquet"])
def test_columns_are_found_by_name_whatever_their_order(run, folder, file):
    june = pa.parquet.read_table(folder / "june.parquet").select(["a", "b"])
    expected = load(folder / "toy.drpu").adapt(june)
    result = answer(run(f"adapt toy.drpu {file} --cost 0.8 --json"))
    assert_allclose(result["prior"]["value"], expected.prior_.value, rtol=1e-6)
    assert_allclose(result["threshold"], expected.at_cost(0.8).threshold_, rtol=1e-6)


def test_a_folder_of_parquet_is_one_file(run, folder):
    june = pa.parquet.read_table(folder / "june.parquet")
    (folder / "june").mkdir()
    for i in range(2):
        pa.parquet.write_table(june.slice(250 * i, 250), folder / "june" / f"{i}.parquet")
    whole, parts = (answer(run(f"adapt toy.drpu {name} --json")) for name in ("june.parquet", "june"))
    assert parts["prior"] == whole["prior"]
    found = answer(run("prior toy.drpu june june.csv --json"))["found"]
    assert found[0]["prior"] == whole["prior"]


@pytest.mark.usefixtures("few_trees")
def test_explained_rows_name_the_columns_that_speak_most(run, folder):
    run("fit train.parquet --label y --drop id --model boosted --out boosted.drpu")
    assert run("predict boosted.drpu june.parquet --explain 1 --keep id --out why.parquet")[0] == 0
    why = pa.parquet.read_table(folder / "why.parquet")
    reasons = load(folder / "boosted.drpu").reasons(
        pa.parquet.read_table(folder / "june.parquet").select(["a", "b"]), n=1
    )
    assert why["drpu_for"].to_pylist() == [found.texts()[0] for found in reasons]
    assert why["drpu_against"].to_pylist() == [found.texts()[1] for found in reasons]
    code, _, err = run("predict toy.drpu june.parquet --explain 1 --out x.parquet")
    assert code == 1
    assert "trees only" in err


def test_predictions_stand_beside_the_kept_columns(run, folder):
    code, _, _ = run("predict toy.drpu june.parquet --adapt --cost 0.8 --keep id --out scored.parquet")
    assert code == 0
    scored = pa.parquet.read_table(folder / "scored.parquet")
    assert scored.column_names == ["id", "drpu_label", "drpu_probability", "drpu_ratio"]
    june = pa.parquet.read_table(folder / "june.parquet").select(["a", "b"])
    classifier = load(folder / "toy.drpu").adapt(june).at_cost(0.8)
    np.testing.assert_array_equal(scored["drpu_label"].to_numpy(), classifier.predict(june))


def test_a_known_prior_needs_no_adaptation(run, folder):
    result = answer(run("predict toy.drpu june.csv --prior 0.02 --out scored.csv --json"))
    assert result["prior"]["value"] == 0.02
    assert table_of(folder / "scored.csv").column_names[:3] == ["id", "b", "a"]


def test_a_pipe_carries_rows_in_and_answers_out(run, folder, monkeypatch):
    rows = io.TextIOWrapper(io.BytesIO((folder / "june.csv").read_bytes()))
    monkeypatch.setattr(sys, "stdin", rows)
    code, out, err = run("predict toy.drpu - --adapt --keep id")
    assert code == 0
    answers = pa.csv.read_csv(io.BytesIO(out.encode()))
    assert answers.num_rows == 500
    assert answers.column_names[0] == "id"
    assert "rows flagged" in err
    assert "\x1b" not in out + err  # no colours in a pipe


def test_a_file_without_rows_is_named(run, folder):
    (folder / "names.csv").write_text("a,b,y\n")
    for line in ("fit names.csv --label y --out x.drpu", "adapt toy.drpu names.csv"):
        refused(run(line), "names.csv: the file has the names of columns, but no rows.\n")


def test_an_empty_pipe_is_an_error(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    refused(run("adapt toy.drpu -"), "error: the standard input cannot be read")


def test_priors_come_file_by_file_and_group_by_group(run):
    by_month = answer(run("prior toy.drpu year.parquet --by month --json"))
    assert [item["data"] for item in by_month["found"]] == ["month=june", "month=may"]
    code, out, _ = run("prior toy.drpu june.csv june.arrow")
    assert code == 0
    lines = [line.split("\t") for line in out.splitlines()]
    assert [line[0] for line in lines] == ["data", "(training)", "june.csv", "june.arrow"]
    assert lines[2][1:] == lines[3][1:]


def test_sparse_archives_and_weights_are_read(run, folder):
    rows = sparse.csr_matrix(np.load(folder / "train.npz")["X"])
    y = np.load(folder / "train.npz")["y"]
    sparse.save_npz(folder / "positive.npz", rows[y == 1])
    sparse.save_npz(folder / "unlabeled.npz", rows[y == 0])
    words = "fit positive.npz --unlabeled unlabeled.npz --model kernel --out sparse.drpu --json"
    plain = answer(run(words))
    assert plain["n_columns"] == 2
    table = pa.parquet.read_table(folder / "train.parquet").append_column("w", pa.array(1.0 + (y == 1)))
    pa.parquet.write_table(table, folder / "weighted.parquet")
    words = "fit weighted.parquet --label y --weight w --drop id --model kernel --out weighted.drpu --json"
    weighted = answer(run(words))
    assert weighted["columns"] == ["a", "b"]


def test_the_shell_can_complete_commands(run, monkeypatch):
    monkeypatch.setenv("_DRPU_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "drpu pr")
    monkeypatch.setenv("COMP_CWORD", "1")
    _, out, _ = run("")
    assert out.split() == ["predict", "prior"]


def test_without_a_command_the_help_is_shown(run):
    code, out, err = run("")
    assert (code, err) == (2, "")
    assert out == run("--help")[1]
    assert "\n  fit " in out


# -- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("adapt absent.drpu june.csv", "absent.drpu: no such file"),
        ("adapt june.csv june.csv", "june.csv: this file was not written by drpu.save"),
        ("adapt toy.drpu absent.csv", "absent.csv: no such file"),
        ("adapt toy.drpu june.csv --out absent/june.drpu", "there is no folder absent"),
        ("fit train.csv --label y --out absent/x.drpu", "there is no folder absent"),
        ("report toy.drpu --out absent/x.html", "there is no folder absent"),
        ("predict toy.drpu june.csv --out absent/x.csv", "there is no folder absent"),
        ("adapt toy.drpu toy.drpu", "the ending '.drpu' is not known"),
        ("adapt toy.drpu june.csv --columns a,c", "no column 'c'"),
        ("adapt toy.drpu june.csv --columns a", "training had the column 'b'"),
        ("fit train.csv --label z --out x.drpu", "no column 'z'"),
        ("fit train.csv --label y --model forest --out x.drpu", "model must be one of"),
        ("fit train.csv --label y --prior 30 --out x.drpu", "not a percentage"),
        ("predict toy.drpu june.csv --cost 2 --out x.csv", "cost must lie"),
        ("predict toy.drpu june.csv --out x.xls", "'.xls' is not known"),
        ("adapt toy.drpu june.csv --cost 4", "if a false alarm costs 4 and a miss 1, give --cost 0.8"),
        ("adapt toy.drpu june.csv --miss 5", "--false-alarm and --miss belong together"),
        ("adapt toy.drpu june.csv --cost 0.3 --miss 5 --false-alarm 1", "not both"),
        ("adapt toy.drpu june.csv --miss 0 --false-alarm 1", "miss must be a finite amount above 0"),
        ("adapt toy.drpu june.csv --budget many", "--budget must be a number of rows"),
        ("adapt toy.drpu june.csv --budget 0", "--budget must be at least one row, got '0'"),
        ("adapt toy.drpu june.csv --budget 501", "--budget must not exceed"),
        ("report toy.drpu june.csv --budget 501 --out x.html", "--budget must not exceed"),
        ("report toy.drpu june.csv --budget -3% --out x.html", "--budget must be at least one row"),
        ("prior toy.drpu june.csv --by week", "no column 'week'"),
    ],
)
def test_bad_data_is_one_line_and_exit_code_one(run, folder, line, words):
    refused(run(line), words)
    assert not [path for path in folder.iterdir() if path.stem == "x"]


@pytest.mark.parametrize(
    "line",
    [
        "fit",
        "fit train.csv --out x.drpu",
        "adapt toy.drpu",
        "predict toy.drpu june.csv --adapt --prior 0.1",
        "foo",
    ],
)
def test_wrong_usage_is_exit_code_two(run, line):
    code, out, err = run(line)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("adapt toy.drpu june.parquet --sep ;", "--sep is about files that end in .csv"),
        ("prior toy.drpu june.parquet june.arrow --decimal ,", "--decimal is about files that end in .csv"),
        ("predict toy.drpu june.parquet --encoding utf-8", "--encoding is about files that end in .csv"),
        ("predict toy.drpu train.npz --keep id", "--keep works on tables"),
        ("fit train.npz --label y --drop id --out x.drpu", "--drop works on tables"),
        ("fit train.csv --unlabeled june.csv --pos-label 1 --out x.drpu", "--pos-label needs a column"),
        ("report toy.drpu --drop id", "--drop needs a file of rows"),
        ("fit train.csv --unlabeled ./train.csv --out x.drpu", "--unlabeled must be another file"),
        ("predict toy.drpu june.csv --budget 5000", "--budget must not exceed the number of all rows"),
        ("predict toy.drpu june.csv --all", "--all is about a list of --budget"),
        ("predict toy.drpu june.csv --budget 5 --all --only-flagged", "contradict"),
    ],
)
def test_an_option_without_effect_is_refused(run, line, said):
    code, out, err = run(line)
    assert code in (1, 2)
    assert out == ""
    assert said in err


def test_a_text_option_is_accepted_if_one_of_the_files_is_a_text(run, folder):
    table = pa.parquet.read_table(folder / "train.parquet").drop_columns(["id"])
    parts = [table.filter(pa.compute.equal(table["y"], label)).select(["a", "b"]) for label in (1, 0)]
    pa.csv.write_csv(parts[0], folder / "confirmed.csv", pa.csv.WriteOptions(delimiter=";"))
    pa.parquet.write_table(parts[1], folder / "others.parquet")
    words = "fit confirmed.csv --unlabeled others.parquet --sep ; --model kernel --out mixed.drpu"
    assert run(words)[0] == 0


def test_inspect_loads_a_file_that_is_trusted(run):
    facts, loaded = (answer(run(f"inspect toy.drpu --json {words}")) for words in ("", "--trusted"))
    assert (facts.pop("loaded"), loaded.pop("loaded")) == (False, True)
    assert facts == loaded


def test_kept_columns_are_in_json_too(run):
    assert "kept" not in answer(run("predict toy.drpu june.csv --json"))
    assert answer(run("predict toy.drpu june.csv --keep id --json"))["kept"] == {"id": [*range(500)]}
    found = answer(run("suspects toy.drpu train.csv --label y --drop id --n 3 --keep id --json"))
    assert found["kept"] == {"id": [line - 2 for line in found["suspects"]["row"]]}  # the first row is line 2


def test_a_traceback_comes_only_when_asked_for(run):
    with pytest.raises(FileNotFoundError):
        run("adapt absent.drpu june.csv --traceback")


def test_a_missing_extra_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "drpu.cli.app", raising=False)
    code, _, err = run("--help")
    assert code == 1
    assert re.search(r'pip install ".*\[cli\]"', err)


def test_help_has_examples_and_fits_80_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    listed = run("--help")[1].partition("Commands:\n")[2].partition("\n\n")[0]
    commands = re.findall(r"^  (\w+)  ", listed, flags=re.MULTILINE)
    assert {"fit", "predict", "ask"} < set(commands)
    for command in commands:
        code, out, _ = run(f"{command} --help")
        assert code == 0
        assert f"Examples:\n    drpu {command}" in out
        assert "--json" in out
        assert max(map(len, out.splitlines())) <= 80


# -- inspect --------------------------------------------------------------------------------------


def test_inspect_says_what_the_classifier_says(run, folder):
    answer(run("adapt toy.drpu june.csv --false-alarm 5 --miss 200 --out amounts.drpu --json"))
    answer(run("adapt toy.drpu june.csv --cost 0.7 --budget 20 --out budget.drpu --json"))
    for name in ("toy.drpu", "budget.drpu", "amounts.drpu"):
        quick, whole = (answer(run(f"inspect {name} {flag} --json")) for flag in ("", "--trusted"))
        classifier = load(folder / name)
        assert_allclose(quick["threshold"], classifier.threshold_, rtol=1e-12)
        assert quick["positives"] == classifier.fitted_.tails.n_positive
        assert quick["unlabeled"] == classifier.fitted_.tails.n
        assert quick["classes"] == [0, 1]
        for key in ("prior", "train_prior", "kind", "model", "columns"):
            assert quick[key] == whole[key]
        assert "expected" not in quick
