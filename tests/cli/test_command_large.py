"""Large files: read, counted, scored and written in batches, with the results of one table."""

import csv
import gzip
import io
import re
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from cli_answers import answer, table_of
from cli_folder import run_in

from drpu._progress import Step
from drpu.cli import large
from drpu.cli.tables import TextFormat
from drpu.exceptions import DataError

N = 900


def columns_of(n, seed, *, positives=0.5):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < positives
    score = rng.normal(size=n) + 2.5 * y
    days = np.datetime64("2026-01-01") + rng.integers(0, 300, n)
    columns = {
        "amount": [f"{value:.4f}" for value in score],
        "count": [str(value) for value in rng.integers(0, 9, n) + 2 * y],
        "city": np.where(rng.random(n) < 0.3 + 0.4 * y, "Zürich", "Oslo").tolist(),
        "day": days.astype(str).tolist(),
    }
    for name in ("amount", "count"):
        for row in rng.integers(0, n, n // 20):
            columns[name][row] = ["", "NA"][row % 2]
    return columns, y


def write_csv(path, columns, *, sep=",", encoding="utf-8"):
    lines = [sep.join(columns)]
    lines += [sep.join(row) for row in zip(*columns.values(), strict=True)]
    content = ("\n".join(lines) + "\n").encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def with_decimal_commas(columns):
    return columns | {"amount": [value.replace(".", ",") for value in columns["amount"]]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A classifier of mixed columns, and the same new rows in several formats."""
    folder = tmp_path_factory.mktemp("large")
    columns, y = columns_of(800, 0)
    label = y & (np.random.default_rng(1).random(800) < 0.6)
    write_csv(folder / "train.csv", columns | {"y": [str(int(value)) for value in label]})
    run_in(folder, "fit train.csv --label y --model boosted --quiet --out toy.drpu")

    columns, _ = columns_of(N, 2, positives=0.2)
    columns["count"][-1] = "2.5"  # whole numbers before
    columns |= {  # columns that training did not have
        "id": [f"{row:04d}" if row > N - 50 else str(1000 + row) for row in range(N)],
        "note": ["=1+1" if row % 7 == 0 else f"n{row}" for row in range(N)],
        "late": ["" if row < N - 5 else str(row) for row in range(N)],
        "when": ["2026-01-01" if row < N - 3 else "2026-01-01 10:00:00" for row in range(N)],
        "zone": ["2026-01-01T10:00:00Z"] * N,
        "flag": [["true", "false"][row % 2] for row in range(N)],
        "mixed": ["7" if row < N - 9 else "seven" for row in range(N)],
        "void": [""] * N,
    }
    write_csv(folder / "new.csv", columns)
    write_csv(folder / "packed.csv.gz", columns)
    write_csv(folder / "latin.csv", columns, encoding="latin-1")
    write_csv(folder / "comma.csv", with_decimal_commas(columns), sep=";")
    pa.parquet.write_table(table_of(folder / "new.csv"), folder / "new.parquet")
    return folder


@pytest.fixture
def in_batches(monkeypatch):
    """Read every file in small batches, and fail if one is read as a whole."""

    def refuse(*_args, **_options):
        raise AssertionError("the file was read as a whole")

    def switch(*, whole=False):
        monkeypatch.setattr(large, "LARGE", 0)
        monkeypatch.setattr(large, "BLOCK", 4096)
        monkeypatch.setattr(large, "ROWS", 100)
        if not whole:
            monkeypatch.setattr("drpu.cli.tables.read", refuse)

    return switch


FILES = {
    "new.csv": "",
    "packed.csv.gz": "",
    "latin.csv": " --encoding latin-1",
    "comma.csv": " --sep ; --decimal ,",
    "new.parquet": "",
}


def content_of(path):
    """The types and the text of an output; numbers have 12 digits.

    The last digit of a probability depends on the place of the row in its batch.
    """
    types = None
    if path.suffix == ".gz":
        content = gzip.decompress(path.read_bytes())
    elif path.suffix in (".parquet", ".arrow"):
        table = table_of(path)
        types = table.schema
        text = io.BytesIO()
        pa.csv.write_csv(table, text)
        content = text.getvalue()
    else:
        content = path.read_bytes()
    return types, rounded(content.decode("latin-1"))  # one of the files is in it


def rounded(text):
    return re.sub(r"\d+\.\d{10,}(e-\d+)?", lambda number: f"{float(number[0]):.12g}", text)


COMMANDS = [
    "predict toy.drpu {file} --adapt --out {out}.csv.gz",
    "predict toy.drpu {file} --out {out}.parquet --only-flagged",
    "predict toy.drpu {file} --out {out}.arrow --keep id,note --cost 0.8",
    "predict toy.drpu {file} --out {out}.jsonl --prior 0.3 --prefix p_ --drop note",
    "predict toy.drpu {file} --out {out}.tsv --formulas --adapt",
    # rows that are chosen by all of them are read again
    "audit toy.drpu {file} --n 30 --keep id,city --out {out}.csv",
    "ask toy.drpu {file} --page {out}.html --n 30 --show-reasons",
    "predict toy.drpu {file} --budget 20 --adapt --out {out}.csv",
    "predict toy.drpu {file} --sort --only-flagged --out {out}.parquet --keep id,note",
    "predict toy.drpu {file} --budget 20 --all --out {out}.csv",
    "predict toy.drpu {file} --by city --out {out}.parquet",
    "predict toy.drpu {file} --by day --budget 5 --out {out}.csv --keep id",
    "adapt toy.drpu {file} --budget 20 --json",
    "adapt toy.drpu {file} --by city --json",
    "adapt toy.drpu {file} --label flag --json",
    "prior toy.drpu {file} --by day --json",
]
OF_EACH_FILE = [
    "predict toy.drpu {file} --out {out}.csv",
    "predict toy.drpu {file} --keep id",  # to a pipe
    "adapt toy.drpu {file} --json",
    "prior toy.drpu {file} --json",
]
CASES = [*product(["new.csv", "new.parquet"], COMMANDS), *product(FILES, OF_EACH_FILE)]


@pytest.mark.parametrize(("file", "command"), CASES)
def test_commands_give_the_same_in_batches_and_of_the_whole(run, folder, in_batches, command, file):
    words = command.format(file=file + FILES[file], out="same")

    def outcome():
        result = run(words)
        assert result[0] == 0
        contents = {}
        for path in folder.glob("same.*"):
            contents[path.name] = content_of(path)
            path.unlink()
        return rounded(str(result)), contents

    whole = outcome()
    in_batches()
    assert outcome() == whole


def test_answers_about_a_large_file_count_as_before(run, folder, in_batches, monkeypatch):
    assert run("audit toy.drpu new.csv --n 30 --out answers.csv")[0] == 0
    lines = (folder / "answers.csv").read_text().splitlines()
    rows = list(csv.DictReader(lines))
    with (folder / "answers.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for row in rows:
            writer.writerow(row | {"drpu_label": "yes" if "Zürich" in row["city"] else "no"})
    adapt = "adapt toy.drpu new.csv --audit answers.csv --json"
    evaluate = "evaluate toy.drpu new.csv --audit answers.csv --json"
    whole = [run(adapt), run(evaluate)]
    in_batches(whole=True)  # the file of answers
    monkeypatch.delattr("drpu.cli.options.ReadingOptions.read")  # reads a file of rows as a whole
    in_parts = [run(adapt), run(evaluate)]
    assert in_parts == whole
    assert [code for code, _, _ in whole] == [0, 0]


@pytest.mark.parametrize("words", ["--explain 2", "--by city --explain 1", "--sort"])
def test_what_depends_on_all_rows_reads_them_as_a_whole(run, folder, in_batches, words):
    command = f"predict toy.drpu new.csv --out {{}}.csv {words}"
    assert run(command.format("whole"))[0] == 0
    in_batches(whole=True)
    assert run(command.format("batches"))[0] == 0
    assert content_of(folder / "whole.csv") == content_of(folder / "batches.csv")


def changed(folder, name, change):
    lines = (folder / "new.csv").read_text().splitlines()
    (folder / name).write_text("\n".join(change(lines)) + "\n")


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines, "1,2"],  # ragged
        lambda lines: [*lines, lines[-1].replace(lines[-1].split(",")[0], "1e300", 1)],
        lambda lines: [line.replace(",", ";") for line in lines],
        lambda lines: ["amount" + lines[0][6:].replace("count", "amount"), *lines[1:]],
        lambda lines: lines[:1],
        lambda lines: [lines[0].replace("city", "town"), *lines[1:]],
    ],
)
def test_errors_are_the_same_in_batches_and_leave_no_file(run, folder, in_batches, change):
    changed(folder, "bad.csv", change)
    whole = run("predict toy.drpu bad.csv --out bad-scored.csv")
    in_batches(whole=True)
    assert run("predict toy.drpu bad.csv --out bad-scored.csv") == whole
    assert whole[0] != 0
    assert [path for path in Path(folder).iterdir() if "bad-scored" in path.name] == []


@pytest.mark.parametrize(("file", "words"), [("cut.csv.gz", ""), ("latin.csv", "--encoding ascii")])
def test_bytes_that_cannot_be_read_give_the_same_error(run, folder, in_batches, file, words):
    (folder / "cut.csv.gz").write_bytes((folder / "packed.csv.gz").read_bytes()[:-2000])
    whole = run(f"predict toy.drpu {file} {words} --out bad-scored.csv")
    in_batches(whole=True)
    assert run(f"predict toy.drpu {file} {words} --out bad-scored.csv") == whole
    assert whole[0] != 0


def test_an_error_in_a_late_batch_writes_nothing_to_a_pipe(run, folder, in_batches):
    changed(folder, "bad.csv", lambda lines: [*lines, "1e300" + lines[-1][lines[-1].index(",") :]])
    in_batches()
    code, out, err = run("predict toy.drpu bad.csv")
    assert code != 0
    assert out == ""
    assert "too large" in err


def test_an_empty_column_is_named_and_a_late_value_counts(run, folder, in_batches):
    def without_cities(lines):
        rows = [line.split(",") for line in lines]
        emptied = [[*row[:2], "", *row[3:]] for row in rows[1:]]
        return [lines[0], *(",".join(row) for row in emptied)]

    changed(folder, "empty.csv", without_cities)
    changed(folder, "late.csv", lambda lines: [*without_cities(lines), lines[-1]])
    in_batches()
    assert "'city': no row has a value" in run("predict toy.drpu empty.csv --out x.csv")[2]
    assert "no row has a value" not in run("predict toy.drpu late.csv --out x.csv")[2]


@pytest.mark.parametrize("rows", [slice(None, -1), [*range(N + 1), N]], ids=["fewer", "more"])
def test_a_file_that_changes_while_it_is_read_is_an_error(folder, in_batches, rows):
    in_batches()
    changed(folder, "grows.csv", lambda lines: lines)
    source = large.open_large(str(folder / "grows.csv"), TextFormat(), ["city"])
    changed(folder, "grows.csv", lambda lines: np.array(lines)[rows].tolist())
    with pytest.raises(DataError, match="was changed while it was read: it had 900 rows"):
        list(source.batches())


def test_small_files_are_read_as_a_whole(folder):
    assert large.open_large(str(folder / "new.csv"), TextFormat(), []) is None


def test_the_answer_has_the_numbers_of_rows(run, in_batches):
    in_batches()
    values = answer(run("predict toy.drpu new.csv --out x.csv --only-flagged --json"))
    assert values["rows"] == N
    assert values["written"] == values["flagged"] < N


@pytest.mark.parametrize("file", ["new.csv", "packed.csv.gz", "new.parquet"])
def test_progress_reaches_the_end_with_the_last_batch(folder, in_batches, file):
    class Bar:
        done = 0.0

        def advance(self, share):
            self.done += share

    in_batches()
    source = large.open_large(str(folder / file), TextFormat(), ["city"])
    bar = Bar()
    shares = []
    whole = Step(bar, 1.0)
    with whole.inside():
        for _ in source.batches():
            shares.append(bar.done)
        assert bar.done == pytest.approx(1)
    assert shares == sorted(shares)
