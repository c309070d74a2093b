"""Audits on the command line: the file to fill in, its answers, and their effect."""

import contextlib
import io
import json
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from cli_answers import answer, table_of
from cli_folder import overlapping, run_in, write_overlapping

from drpu import load


@pytest.fixture(scope="module")
def truth():
    return overlapping()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, truth):
    """A classifier, rows of June, and an audit of them with and without answers."""
    folder = write_overlapping(tmp_path_factory.mktemp("audit"), truth)
    june = pa.csv.read_csv(folder / "june.csv")
    pa.csv.write_csv(june.append_column("true", pa.array(truth.test_labels)), folder / "checked.csv")
    run_in(folder, "audit toy.drpu june.csv --n 80 --keep id --out to-label.csv")
    questions = table_of(folder / "to-label.csv")
    answers = truth.test_labels[questions.column("id").to_numpy()]
    place = questions.column_names.index("drpu_label")
    pa.csv.write_csv(questions.set_column(place, "drpu_label", pa.array(answers)), folder / "answers.csv")
    return folder


def test_the_file_holds_the_rows_and_a_column_to_fill_in(folder):
    table = table_of(folder / "to-label.csv")
    assert table.column_names == ["id", "drpu_row", "drpu_design", "drpu_label"]
    assert table.num_rows == 80
    numbers = np.array(table.column("drpu_row").to_pylist())
    assert (numbers - table.column("id").to_numpy() == 2).all()  # lines, below the header
    assert table.column("drpu_label").null_count == 80


def test_the_answers_set_both_priors(run, truth):
    result = answer(run("adapt toy.drpu june.csv --audit answers.csv --out june.drpu --json"))
    assert result["prior"]["method"] == "audit"
    half = (result["prior"]["high"] - result["prior"]["low"]) / 2  # one draw must not miss it
    assert result["prior"]["low"] - half <= 0.2 <= result["prior"]["high"] + half
    assert result["train_prior"]["low"] <= 0.4 <= result["train_prior"]["high"]
    assert load("june.drpu").train_prior_.value == result["train_prior"]["value"]


@pytest.fixture(scope="module")
def audited(folder):
    """The prior by the answers as they were written."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        run_in(folder, "adapt toy.drpu june.csv --audit answers.csv --json")
    return json.loads(out.getvalue())["prior"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("sep", [",", pytest.param(";", marks=pytest.mark.slow), "\t"])
def test_answers_are_read_whatever_a_spreadsheet_made_of_the_file(run, folder, audited, sep, encoding):
    lines = (folder / "answers.csv").read_text().replace(",", sep).splitlines()
    lines = [f"{line}{sep}{note}" for line, note in zip(lines, ["Größe", *['"1,5"'] * 80], strict=True)]
    (folder / "saved.csv").write_text("\n".join(lines), encoding=encoding)
    (folder / "june.txt").write_text((folder / "june.csv").read_text().replace(",", "|"), encoding="utf-16")
    other = answer(run("adapt toy.drpu june.txt --sep | --encoding utf-16 --audit saved.csv --json"))
    assert other["prior"] == audited


def test_answers_of_two_people_have_to_be_settled_first(run, folder):
    lines = (folder / "answers.csv").read_text().splitlines()
    last = "0" if lines[1].endswith("1") else "1"
    (folder / "second.csv").write_text("\n".join([lines[0], f"{lines[1][:-1]}{last}", *lines[2:41]]))
    code, _, err = run("adapt toy.drpu june.csv --audit answers.csv --audit second.csv")
    assert code == 1
    assert "settle it first" in err
    head, *rows = lines
    (folder / "two.csv").write_text("\n".join([f"{head},answer_2", *(f"{line}," for line in rows)]))
    code, _, err = run("adapt toy.drpu june.csv --audit two.csv")
    assert code == 1
    assert "two.csv" in err
    assert "a column 'answer_2': settle it first" in err


def test_the_command_that_reads_the_answers_works_as_printed(run, folder):
    (folder / "in june.txt").write_text((folder / "june.csv").read_text().replace(",", ";"))
    words = ["audit", "toy.drpu", "in june.txt", "--n", "20", "--sep", ";", "--out", "our answers.csv"]
    out = run(*words)[1]
    filled = (folder / "our answers.csv").read_text().splitlines()
    (folder / "our answers.csv").write_text("\n".join([filled[0], *(f"{line}no" for line in filled[1:])]))
    assert run(*shlex.split(out.partition(": drpu ")[2]))[0] == 0


def test_known_negatives_have_a_label_of_their_own(run, folder, truth):
    X, y = truth.X_y()
    negative = np.zeros(len(y), dtype=bool)
    negative[200:] = truth.unlabeled_labels == 0
    words = np.where(y == 1, "yes", np.where(negative & (np.arange(len(y)) % 2 == 0), "no", None))
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": pa.array(words.tolist())})
    pa.csv.write_csv(table, folder / "three.csv")
    line = "fit three.csv --label y --pos-label yes --negative-label no --model kernel --out three.drpu"
    assert run(line)[0] == 0
    assert load(folder / "three.drpu").classes_.tolist() == ["no", "yes"]
    code, _, err = run("fit three.csv --label y --pos-label yes --model kernel --out two.drpu")
    assert code == 1
    assert "missing values" in err


def test_performance_is_measured_with_answers_and_with_labels(run, truth):
    rows = pa.table({"a": truth.test[:, 0], "b": truth.test[:, 1]})
    flagged = load("toy.drpu").predict(rows) == 1
    accuracy = (flagged == (truth.test_labels == 1)).mean()
    for line in ("--audit answers.csv", "--label true"):
        data = "checked.csv" if "label" in line else "june.csv"
        found = answer(run(f"evaluate toy.drpu {data} {line} --json"))["evaluation"]
        assert found["accuracy"]["low"] <= accuracy <= found["accuracy"]["high"]
    _, out, _ = run("evaluate toy.drpu checked.csv --label true --cost 0.8")
    assert "1,000 rows with true labels" in out
    assert "precision" in out


def test_labels_of_one_class_beside_blanks_are_refused(run, folder, truth):
    table = pa.csv.read_csv(folder / "june.csv")
    marked = pa.array(["yes" if label == 1 else None for label in truth.test_labels])
    pa.csv.write_csv(table.append_column("truth", marked), folder / "marked.csv")
    code, out, err = run("evaluate toy.drpu marked.csv --label truth")
    assert (code, out) == (1, "")
    assert "write no for negatives, or --blank no" in err
    expected = answer(run("evaluate toy.drpu checked.csv --label true --json"))["evaluation"]
    found = answer(run("evaluate toy.drpu marked.csv --label truth --blank no --json"))
    assert found["evaluation"] == expected
    assert run("evaluate toy.drpu marked.csv --label truth --blank yes")[0] == 2
    assert run("evaluate toy.drpu june.csv --audit answers.csv --blank no")[0] == 2


@pytest.mark.usefixtures("text_only")
def test_the_page_shows_priors_before_and_after(run, folder):
    code, _, _ = run("report toy.drpu june.csv --audit answers.csv --out audited.html")
    assert code == 0
    page = (folder / "audited.html").read_text()
    assert "What the audit changed" in page
    assert "before the audit" in page


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "line",
    [
        "report toy.drpu june.csv --audit answers.csv --budget 30 --out audited.html",
        "adapt toy.drpu june.csv --audit answers.csv --budget 30",
        "predict toy.drpu june.csv --adapt --budget 30 --out scored.csv",
    ],
)
def test_every_row_is_scored_once(run, scored_rows, line):
    assert run(line)[0] == 0
    assert [n for n in scored_rows if n > 10] == [1000]  # loading tries the model on a few rows


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("audit toy.drpu june.csv --n 5 --width 0.1 --out x.csv", 2),
        ("audit toy.drpu june.csv --n 5000 --out x.csv", 1),
        ("audit toy.drpu june.csv --n 5 --out june.csv", 1),
        ("evaluate toy.drpu june.csv", 2),
        ("evaluate toy.drpu checked.csv --label y", 1),
        ("report toy.drpu --audit answers.csv --out x.html", 2),
        ("adapt toy.drpu june.csv --audit to-label.csv", 1),
    ],
)
def test_wrong_questions_are_refused(run, line, code):
    found, out, err = run(line)
    assert (found, out) == (code, "")
    assert "Traceback" not in err


def test_labels_that_look_wrong_are_listed(run, folder):
    train = pa.csv.read_csv(folder / "train.csv")
    y, rows = train["y"].to_numpy().copy(), np.column_stack([train["a"], train["b"]])
    wrong = int(rows.sum(axis=1).argmin())  # far from all positives
    y[wrong] = 1
    rows = np.vstack([rows, rows[5]])  # a copy of a labelled row
    labels = pa.array(["yes" if label else None for label in [*y, 0]])
    table = pa.table({"id": np.arange(1001), "a": rows[:, 0], "b": rows[:, 1], "y": labels})
    pa.csv.write_csv(table, folder / "labels.csv")
    run("fit labels.csv --label y --drop id --model classifier --out labels.drpu")
    words = "suspects labels.drpu labels.csv --trusted --label y --drop id"
    code, out, _ = run(f"{words} --n 3 --keep id --out odd.csv")
    assert code == 0
    assert "labels are expected to be wrong; 1 unlabeled rows are copies of labelled ones" in out
    odd = pa.csv.read_csv(folder / "odd.csv").to_pydict()
    assert odd["drpu_row"] == [row + 2 for row in odd["id"]]  # lines, below the header
    assert (odd["id"][0], odd["id"][3]) == (wrong, 1000)
    assert odd["drpu_suspicion"] == ["label", "label", "label", "copy"]
    assert odd["drpu_copy_of"][3] == 5 + 2
    found = answer(run(f"{words} --json"))
    assert found["labelled"] == 201
    assert found["suspects"]["row"][0] == wrong + 2
    code, _, err = run("report toy.drpu june.csv --suspects june.csv --out page.html")
    assert code == 1
    assert "june.csv: no column 'drpu_row'" in err
