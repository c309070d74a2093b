"""Columns of new files: left out on purpose, renamed, with spaces in their names, empty or scaled."""

import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from cli_answers import answer, refused
from cli_folder import write_folder

from drpu import DRPUClassifier, load, save


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A training file with an identifier, new rows, and a classifier that left the identifier out."""
    return write_folder(tmp_path_factory.mktemp("columns"), "amount", "age")


# -- left out --------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["june.csv", "june.parquet"])
@pytest.mark.parametrize(
    "command", ["adapt toy.drpu {}", "prior toy.drpu {}", "predict toy.drpu {} --out x.csv"]
)
def test_columns_that_a_fit_left_out_are_ignored_silently(run, file, command):
    code, _, err = run(command.format(file))
    assert (code, err) == (0, "")


def test_left_out_columns_survive_an_adapted_file_and_python(run, folder):
    assert run("adapt toy.drpu june.csv --out june.drpu")[0] == 0
    code, _, err = run("predict june.drpu june.csv --out x.csv")
    assert (code, err) == (0, "")
    load(folder / "toy.drpu").predict(pa.csv.read_csv(folder / "june.csv"))  # warnings are errors


def test_columns_that_were_not_chosen_are_ignored_silently(run, folder):
    run("fit train.csv --label y --columns amount,age --model kernel --out chosen.drpu")
    assert load(folder / "chosen.drpu").table_.ignored == ("id",)
    code, _, err = run("predict chosen.drpu june.csv --out x.csv")
    assert (code, err) == (0, "")


def test_columns_that_no_fit_has_seen_are_still_named(run, folder):
    table = pa.csv.read_csv(folder / "june.csv")
    pa.csv.write_csv(table.append_column("branch", table["id"]), folder / "branch.csv")
    _, _, err = run("predict toy.drpu branch.csv --out x.csv")
    assert "[extra-columns]" in err
    assert "'branch'. They are ignored." in err
    assert "'id'" not in err


def test_two_files_remember_what_was_left_out_of_them(run, folder):
    table = pa.csv.read_csv(folder / "train.csv")
    for name, label in (("positive", 1), ("others", 0)):
        part = table.filter(pa.compute.equal(table["y"], label)).drop_columns(["y"])
        pa.csv.write_csv(part, folder / f"{name}.csv")
    run("fit positive.csv --unlabeled others.csv --drop id --model kernel --out two.drpu")
    assert load(folder / "two.drpu").table_.ignored == ("id",)


def test_the_index_of_pandas_is_no_column_to_learn_from(run, folder):
    train = pa.parquet.read_table(folder / "train.parquet")
    index = pa.array(np.arange(len(train)))
    pa.parquet.write_table(train.append_column("__index_level_0__", index), folder / "indexed.parquet")
    fitted = answer(run("fit indexed.parquet --label y --drop id --model kernel --out i.drpu --json"))
    assert fitted["columns"] == ["amount", "age"]
    assert run("adapt i.drpu june.csv --drop id")[0] == 0


def test_an_empty_keep_writes_the_new_columns_only(run):
    code, out, _ = run("predict", "toy.drpu", "june.csv", "--keep", "", "--budget", "2", "--quiet")
    assert code == 0
    header, *lines = out.splitlines()
    assert header.startswith('"drpu_check","drpu_label"')
    assert len(lines) == 2


# -- names -----------------------------------------------------------------------------------------


def test_names_keep_their_spaces_and_have_one_form_of_unicode(run, folder):
    table = pa.csv.read_csv(folder / "train.csv")
    spaced = table.rename_columns(["id", " amount", "âge ", "y"])
    classifier = DRPUClassifier("kernel", random_state=0).fit(spaced.select([1, 2]), table["y"].to_numpy())
    save(classifier, folder / "spaced.drpu")
    june = pa.csv.read_csv(folder / "june.csv").rename_columns(["id", "âge ", " amount"])
    pa.csv.write_csv(june, folder / "spaced.csv")
    expected = answer(run("predict toy.drpu june.csv --keep id --json"))["answers"]
    plain = june.rename_columns(["id", unicodedata.normalize("NFD", "âge"), "amount"])
    pa.csv.write_csv(plain, folder / "plain.csv")
    # A file may also have the names without spaces, and in another form of Unicode.
    for file in ("spaced.csv", "plain.csv"):
        code, _, err = run(f"predict spaced.drpu {file} --drop id --out x.csv")
        assert (code, err) == (0, "")
        found = answer(run(f"predict spaced.drpu {file} --drop id --keep id --json"))["answers"]
        assert found["drpu_label"] == expected["drpu_label"]
    assert pa.csv.read_csv(folder / "x.csv").column_names[:3] == plain.column_names


def test_a_word_means_the_column_with_spaces_around_its_name(run, folder):
    lines = (folder / "train.csv").read_text().splitlines()
    (folder / "spaces.csv").write_text("\n".join(["id, amount,age , y", *lines[1:]]))
    fitted = answer(run("fit spaces.csv --label y --columns amount,age --model kernel --out s.drpu --json"))
    assert fitted["columns"] == [" amount", "age "]
    code, out, _ = run("predict", "s.drpu", "spaces.csv", "--keep", " amount, id", "--quiet")
    assert code == 0
    assert out.splitlines()[0].startswith('" amount","id"')


def test_a_renamed_column_is_suggested(run, folder):
    june = pa.csv.read_csv(folder / "june.csv")
    for kind, write in (("csv", pa.csv.write_csv), ("parquet", pa.parquet.write_table)):
        write(june.rename_columns(["id", "age", "Amount_EUR"]), folder / f"renamed.{kind}")
    for line in ("predict toy.drpu renamed.csv --out x.csv", "adapt toy.drpu renamed.parquet"):
        assert "Did you mean 'Amount_EUR'?" in refused(run(line), "no column 'amount'")


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.usefixtures("few_trees")
def test_a_column_without_values_or_in_another_unit_is_named(run, folder, kind):
    run("fit train.csv --label y --drop id --model boosted --out boosted.drpu")
    june = pa.csv.read_csv(folder / "june.csv")
    empty = june.set_column(2, "amount", pa.nulls(500, pa.float64()))
    cents = june.set_column(2, "amount", pa.array(100 * june["amount"].to_numpy()))
    write = pa.csv.write_csv if kind == "csv" else pa.parquet.write_table
    write(empty, folder / f"empty.{kind}")
    write(cents, folder / f"cents.{kind}")
    write(june, folder / f"plain.{kind}")
    write(pa.concat_tables([empty] * 21 + [june]), folder / f"late.{kind}")  # begins with 10,500 gaps
    for command in ("adapt", "prior", "predict"):
        _, _, err = run(f"{command} boosted.drpu empty.{kind}")
        assert f"empty.{kind}: [empty-columns] 'amount': no row has a value" in err
    code, out, err = run(f"adapt boosted.drpu cents.{kind} --json")
    assert "columns moved more than a new prior explains: 'amount'" in err
    assert [column["name"] for column in answer((code, out, err))["moved_columns"]] == ["amount"]
    for name in ("plain", "late"):
        assert "empty-columns" not in run(f"adapt boosted.drpu {name}.{kind}")[2]


# -- messages --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "line"), [("a,b\n1,2\n1\n", 3), ("a,b\n\n1,2,3\n", 3), ('a,b\n"1\n2",2\n1,2\n1,2,3\n', 5)]
)
def test_a_line_with_more_or_fewer_values_is_named(run, folder, content, line):
    (folder / "ragged.csv").write_text(content)
    refused(run("adapt toy.drpu ragged.csv"), f"ragged.csv cannot be read: line {line} has ")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("adapt toy.drpu june.csv --budget 500%", "--budget must be at most 100%"),
        ("adapt toy.drpu june.csv --budget 2.5", "--budget must be a whole number of rows"),
        ("fit blank.csv --label y --out x.drpu", "at least one label, got missing values only"),
    ],
)
def test_messages_are_about_options_and_files(run, folder, line, words):
    (folder / "blank.csv").write_text("a,y\n1,\n2,\n3,\n")
    assert not {"X", "y"} & set(refused(run(line), words).split())


def test_inspect_speaks_of_blanks_and_of_what_was_read(run, folder):
    lines = "".join(f"{k % 7},{'yes' if k % 3 == 0 else ''}\n" for k in range(200))
    (folder / "yes.csv").write_text("a,y\n" + lines)
    run("fit yes.csv --label y --model kernel --prior 0.4 --out yes.drpu")
    _, out, _ = run("inspect yes.drpu")
    assert "yes is positive; other rows are written as 'not yes'" in out
    assert "its facts; --trusted loads the whole classifier" in out
    assert "None" not in out
    assert "{" not in run("verify yes.drpu")[1]


def test_a_fit_says_which_digits_were_taken_for_codes(run, folder):
    rng = np.random.default_rng(0)
    train = pa.csv.read_csv(folder / "train.csv")
    codes = rng.choice(np.arange(40), len(train))
    table = train.append_column("zip", [[f"{code:05d}" for code in codes]])
    pa.csv.write_csv(table, folder / "codes.csv")
    texts = train.append_column("branch", [[str(700 + code) for code in codes]])
    pa.parquet.write_table(texts, folder / "texts.parquet")
    out = run("fit codes.csv --label y --drop id --model kernel --out codes.drpu")[1]
    assert "'zip' holds digits with leading zeros, as codes have, and is a category" in " ".join(out.split())
    out = run("fit texts.parquet --label y --drop id --model kernel --out texts.drpu")[1]
    assert "'branch' holds numbers as text and is read as numbers" in " ".join(out.split())
