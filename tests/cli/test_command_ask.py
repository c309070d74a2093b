"""``drpu ask``: questions in a terminal, the file of answers, and the page."""

import io
import json
import re
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from cli_answers import table_of
from cli_folder import overlapping, write_overlapping


class Interrupted(io.StringIO):
    """An input in which somebody presses Ctrl-C after the last line."""

    def readline(self, *arguments):
        line = super().readline(*arguments)
        if not line:
            raise KeyboardInterrupt
        return line


@pytest.fixture(scope="module")
def truth():
    return overlapping()


@pytest.fixture(scope="module")
def fitted_folder(tmp_path_factory, truth):
    notes = ["=1+1" if k % 3 == 0 else f"note {k}" for k in range(1000)]
    folder = write_overlapping(tmp_path_factory.mktemp("ask"), truth, note=notes)
    np.savez(folder / "june.npz", X=truth.test)
    return folder


@pytest.fixture
def folder(fitted_folder):
    """The same folder, without the files of earlier tests."""
    for path in fitted_folder.iterdir():
        if path.name not in ("train.csv", "june.csv", "june.npz", "toy.drpu"):
            path.unlink()
    return fitted_folder


@pytest.fixture
def ask(run, monkeypatch):
    """Run ``drpu ask toy.drpu june.csv`` with replies and further options."""

    def ask(replies, options="", stdin=io.StringIO):
        monkeypatch.setattr("sys.stdin", stdin("".join(f"{reply}\n" for reply in replies)))
        return run(f"ask toy.drpu june.csv --quiet {options}")

    return ask


def answers(folder, name="june-answers.csv"):
    """The answers in the file, in the order of its rows."""
    labels = table_of(folder / name).column("drpu_label").to_pylist()
    return [label or None for label in labels]


def given(folder, name="june-answers.csv"):
    return [answer for answer in answers(folder, name) if answer]


def planned(folder, name="june-answers.csv"):
    return table_of(folder / name).column("drpu_row").to_pylist()


def test_twenty_answers_are_enough(ask, folder):
    code, out, err = ask(["n"] * 50)
    assert (code, err) == (0, "")
    assert given(folder) == ["no"] * 20
    assert answers(folder)[:20] == ["no"] * 20
    assert out.count("positive? [y/n/skip/back/quit]") == 20
    for words in ("share of positives", "before", "rows flagged", "30 more would narrow the interval from"):
        assert words in out


def test_it_is_said_what_few_answers_of_one_kind_can_tell(ask, folder):
    for replies, words in [
        (["n"] * 20, "; 0 of them positive: so few limit the prior, but recall"),
        (["y"] * 11 + ["n"] * 9, "; 9 of them negative: so few limit the prior, but the rate of false"),
        (["y"] * 10 + ["n"] * 10, ", 10 of them yes"),
    ]:
        (folder / "june-answers.csv").unlink(missing_ok=True)
        assert f"20 in june-answers.csv{words}" in ask(replies)[1]


def test_one_row_is_shown_at_a_time_with_its_columns_in_order(ask, folder):
    _, out, _ = ask(["y", "q"])
    question = out.split("row ")[2]
    first = int(re.match(r"\d+", out.split("\nrow ")[1])[0])
    assert first == planned(folder)[0]
    assert re.search(r"id +\d+\n +b +\S+\n +a +\S+\n +note ", question)
    assert "probability" not in out  # the opinion of the classifier would lead the answer


@pytest.mark.parametrize(
    ("option", "names"), [("--keep note,id", ["note", "id"]), ("--drop note", ["id", "b", "a"])]
)
def test_columns_are_chosen_with_keep_and_drop(ask, folder, option, names):
    _, out, _ = ask(["y", "q"], option)
    assert re.search("".join(rf"\n +{name} .*" for name in names) + "\npositive", out)
    assert ("\n  note" in out) == ("note" in names)
    written = table_of(folder / "june-answers.csv").column_names
    assert written == [*names, "drpu_row", "drpu_design", "drpu_label"]


def test_columns_that_are_shown_need_no_warning(run, folder, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert run("ask toy.drpu june.csv")[2] == ""


def test_starting_again_goes_on_where_it_stopped(ask, folder):
    ask(["y", "n", "s", "n", "quit"])
    assert answers(folder)[:5] == ["yes", "no", None, "no", None]
    rows = planned(folder)
    code, out, _ = ask(["y", "q"])
    assert code == 0
    assert "answers that june-answers.csv has already: 3" in out
    assert f"row {rows[4]}: 3 of 20 answers, 1 skipped" in out
    assert answers(folder)[:5] == ["yes", "no", None, "no", "yes"]
    assert planned(folder) == rows


def test_more_answers_can_be_asked_for_later(ask, folder):
    ask(["n"] * 20)
    rows = planned(folder)
    assert len(given(folder)) == 20
    code, out, _ = ask([])
    assert code == 0
    assert "[y/n/skip/back/quit]" not in out  # enough is known
    ask(["n"] * 99, "--n 50")
    assert len(given(folder)) == 50
    assert planned(folder) == rows


def test_it_stops_when_the_interval_is_narrow(ask, folder):
    _, out, _ = ask(["n"] * 500, "--width 0.2 --json")
    found = json.loads(out)
    assert found["width"] <= 0.2
    assert 10 <= found["answers"] < 100


def test_an_interruption_loses_nothing(ask, folder):
    code, out, err = ask(["y", "n", "n"], stdin=Interrupted)
    assert code == 130
    assert "3 answers are in june-answers.csv: start again to go on." in out
    assert "Traceback" not in err
    assert given(folder) == ["yes", "no", "no"]
    assert [path.name for path in folder.iterdir() if "part" in path.name] == []


def test_the_end_of_the_input_is_quit_and_no_answer_writes_no_file(ask, folder):
    code, out, _ = ask([])
    assert code == 0
    assert "no answers: nothing changed." in out
    assert not (folder / "june-answers.csv").exists()


def test_the_printed_command_uses_the_answers(ask, folder, run, truth):
    code, out, _ = ask(["y"] * 3 + ["n"] * 17, "--out our-answers.csv")
    assert code == 0
    line = re.search(r"use them +(drpu .*)", out)[1]
    code, out, err = run(*shlex.split(line)[1:])
    assert code == 0
    assert "missing-answers" not in err  # rows after the last answer were not asked about
    assert "answers were used" in out


def test_adapt_without_answers_ends_with_the_command_that_asks(ask, folder, run):
    code, out, _ = run("adapt toy.drpu june.csv")
    assert code == 0
    assert out.splitlines()[-1].endswith("answers for 20 rows: drpu ask toy.drpu june.csv")
    ask(["n"] * 20)
    assert "drpu ask" not in run("adapt toy.drpu june.csv --audit june-answers.csv")[1]


def test_the_summary_is_what_adapt_says(ask, folder, run, truth):
    _, out, _ = ask(["n"], "--json")  # finds the order of the rows
    rows = planned(folder)
    (folder / "june-answers.csv").unlink()
    replies = ["yn"[int(truth.test_labels[line - 2] == 0)] for line in rows]
    found = json.loads(ask(replies, "--json")[1])
    adapted = json.loads(run("adapt toy.drpu june.csv --audit june-answers.csv --json --quiet")[1])
    assert found["prior"] == adapted["prior"]
    assert found["answers"] == 20
    code, out, _ = run("predict toy.drpu june.csv --adapt --json --quiet")
    assert code == 0
    assert json.loads(out)["flagged"] == found["flagged_before"]


def test_many_skipped_rows_are_warned_of(run, folder, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ns\ns\ns\nn\nq\n"))
    code, _, err = run("ask toy.drpu june.csv")
    assert code == 0
    assert "3 of 5 rows were skipped" in err


def test_a_file_that_others_filled_in_goes_on_in_any_order(ask, folder, run):
    run("audit toy.drpu june.csv --n 40 --out to-label.csv")
    head, *lines = (folder / "to-label.csv").read_text().splitlines()
    filled = [f"{line}Yes" if k < 6 else line for k, line in enumerate(lines)]
    rows = planned(folder, "to-label.csv")
    mixed = [filled[k] for k in np.random.default_rng(0).permutation(40)]
    (folder / "to-label.csv").write_text("\n".join([f"{head},comment", *(f"{line},so" for line in mixed)]))
    code, out, err = ask(["n", "q"], "--out to-label.csv")
    assert code == 0, err
    assert f"row {rows[6]}: 6 of 20 answers" in out
    table = table_of(folder / "to-label.csv")
    assert table.column("comment").to_pylist() == ["so"] * 40  # what others wrote stays
    assert sorted(given(folder, "to-label.csv")) == ["no"] + ["yes"] * 6


def test_values_stay_as_they_were_written(ask, folder):
    ask(["y", "q"])
    before = (folder / "june-answers.csv").read_text().replace('"', "")
    ask(["n", "q"])
    after = (folder / "june-answers.csv").read_text().replace('"', "")
    assert [line.rpartition(",")[0] for line in after.splitlines()] == [
        line.rpartition(",")[0] for line in before.splitlines()
    ]
    assert "'=1+1" in after  # protected once, not twice
    assert "''=1+1" not in after


@pytest.mark.parametrize("name", ["june-answers.parquet", "june-answers.jsonl", "june-answers.csv.gz"])
def test_answers_in_other_formats_go_on_too(ask, folder, name):
    ask(["y", "n", "q"], f"--out {name}")
    assert given(folder, name) == ["yes", "no"]
    ask(["n", "q"], f"--out {name}")
    assert given(folder, name) == ["yes", "no", "no"]


def test_rows_of_arrays_are_shown(run, folder, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    np.savez(folder / "train.npz", X=np.random.default_rng(0).normal(size=(300, 2)), y=np.arange(300) < 90)
    words = "fit train.npz --label y --model kernel --scenario case-control --quiet --out array.drpu"
    assert run(words)[0] == 0
    code, out, _ = run("ask array.drpu june.npz --quiet")
    assert code == 0
    assert re.search(r"column 0 +\S+\n +column 1", out)


# -- bad input -----------------------------------------------------------------------------------


def refused(result, folder, content, *words):
    """The error line; the file is as it was."""
    code, out, err = result
    assert code == 1
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("error: june-answers.csv")
    for word in words:
        assert word in err
    assert (folder / "june-answers.csv").read_bytes() == content
    return err


@pytest.fixture
def started(ask, folder):
    ask(["y", "n", "n", "q"])
    return (folder / "june-answers.csv").read_bytes()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b'"yes"', b'"perhaps"', ["yes and no", "'perhaps'"]),
        (b"2-", b"3-", ["was changed"]),
        (b"drpu_design", b"design", ["must have a column 'drpu_design'"]),
        (b"drpu_row", b"row", ["must have a column 'drpu_row'"]),
    ],
)
def test_a_file_that_was_edited_by_hand_is_one_clear_line(ask, folder, started, old, new, words):
    content = started.replace(old, new, 1)
    (folder / "june-answers.csv").write_bytes(content)
    refused(ask(["y"]), folder, content, *words)


@pytest.mark.parametrize("left", [0, 10, 0.5])
def test_a_half_written_file_is_one_clear_line(ask, folder, started, left):
    size = left if isinstance(left, int) else int(left * len(started)) // 7 * 7 + 3
    content = started[:size]
    (folder / "june-answers.csv").write_bytes(content)
    refused(ask(["y"]), folder, content)


def test_a_file_of_another_classifier_is_one_clear_line(ask, folder, started, run):
    words = "fit train.csv --label y --model kernel --scenario case-control --drop b --quiet --out other.drpu"
    assert run(words)[0] == 0
    refused(run("ask other.drpu june.csv"), folder, started, "another classifier")


def test_a_file_of_other_rows_is_one_clear_line(ask, folder, started, run):
    table = table_of(folder / "june.csv")
    pa.csv.write_csv(table.slice(0, 900), folder / "fewer.csv")
    refused(run("ask toy.drpu fewer.csv --out june-answers.csv"), folder, started, "planned on 1000 rows")
    pa.csv.write_csv(table.take(np.arange(1000)[::-1]), folder / "turned.csv")
    refused(run("ask toy.drpu turned.csv --out june-answers.csv"), folder, started, "not those")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("ask toy.drpu -", 2),
        ("ask toy.drpu june.csv --n 0", 2),
        ("ask toy.drpu june.csv --width 2", 1),
        ("ask toy.drpu june.csv --width 0.000001", 1),
        ("ask toy.drpu june.csv --out june.csv", 1),
        ("ask toy.drpu june.csv --out answers.docx", 1),
        ("ask toy.drpu june.csv --page june-answers.csv", 1),
        ("ask toy.drpu june.csv --page ask.html --out answers.parquet", 2),
        ("ask toy.drpu june.csv --keep nothing", 1),
        ("ask toy.drpu june.csv --show-reasons", 1),  # a kernel model has no reasons
    ],
)
def test_wrong_questions_are_refused(run, line, code):
    found, out, err = run(line)
    assert (found, out) == (code, "")
    assert "Traceback" not in err


def test_a_width_that_cannot_be_reached_is_no_fault_of_the_answers(ask, folder):
    ask(["n", "q"])
    code, _, err = ask([], "--width 0.000001")
    assert code == 1
    assert err.startswith("error: june.csv: width must be at least")


# -- the page ------------------------------------------------------------------------------------


def plan_of(folder, name="ask.html"):
    page = (folder / name).read_text()
    return json.loads(re.search(r'id="plan">(.*?)</script>', page, re.S)[1])


def test_the_page_says_what_it_holds(run, folder):
    code, out, _ = run("ask toy.drpu june.csv --page ask.html --keep id,a --quiet")
    assert code == 0
    assert "it holds values of 100 rows (2 columns; --keep chooses them)" in out
    assert "sends nothing" in out
    plan = plan_of(folder)
    assert plan["names"] == ["id", "a"]
    assert len(plan["lines"]) == len(plan["values"]) == 100
    assert plan["goal"] == 20
    assert not (folder / "june-answers.csv").exists()


def test_the_page_has_the_rows_and_the_lines_of_the_terminal(ask, run, folder):
    run("ask toy.drpu june.csv --page ask.html --quiet")
    plan = plan_of(folder)
    ask(["y", "n", "s", "y", "q"])
    assert plan["rows"] == planned(folder)
    words = ["yes", "no", "", "yes"] + [""] * 96
    lines = [line + (word and f'"{word}"') for line, word in zip(plan["lines"], words, strict=True)]
    assert (folder / "june-answers.csv").read_text() == "\n".join([plan["head"], *lines, ""])


def test_a_page_for_a_width_asks_for_the_answers_that_are_expected_to_reach_it(run, folder):
    assert run("ask toy.drpu june.csv --width 0.2 --page ask.html --quiet")[0] == 0
    assert 1 < plan_of(folder)["goal"] < 100


def test_the_page_goes_on_with_the_answers_of_a_file(ask, run, folder):
    ask(["y", "n", "s", "y", "q"])
    assert run("ask toy.drpu june.csv --page ask.html --quiet")[0] == 0
    assert plan_of(folder)["answers"][:5] == [True, False, None, True, None]
