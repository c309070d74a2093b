"""Files with other encodings, separators and names, and outputs that never replace inputs."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from cli_answers import answer, refused, table_of
from cli_folder import run_in

from drpu import make_gaussian_pu
from drpu.cli.tables import TextFormat, read
from drpu.exceptions import DataError
from drpu.report.texts import share

ROWS = "größe,menge,y\n" + "".join(f"{k / 7:.6f},{k % 5},{k % 3 == 0:d}\n" for k in range(60))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A training file, new rows and a classifier."""
    folder = tmp_path_factory.mktemp("files")
    data = make_gaussian_pu(120, 300, prior=0.5, separation=4, dimensions=2, random_state=1)
    X, y = data.X_y()
    pa.csv.write_csv(pa.table({"a": X[:, 0], "b": X[:, 1], "fraud": y}), folder / "train.csv")
    pa.csv.write_csv(pa.table({"id": np.arange(len(X)), "b": X[:, 1], "a": X[:, 0]}), folder / "june.csv")
    run_in(folder, "fit train.csv --label fraud --model kernel --out toy.drpu")
    return folder


# -- text files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-8-sig", "cp1252"])
def test_every_encoding_gives_the_same_table(tmp_path, encoding):
    (tmp_path / "plain.csv").write_text(ROWS, encoding="utf-8")
    (tmp_path / "other.csv").write_bytes(ROWS.encode(encoding))
    other = read(str(tmp_path / "other.csv"), TextFormat(encoding=encoding))
    assert other.table == read(str(tmp_path / "plain.csv")).table


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (ROWS.encode("latin-1"), "--encoding latin-1"),
        (b"a,b\n1,caf\xe9\n", "--encoding latin-1"),
        (ROWS.encode("utf-16"), "--encoding utf-16"),
        (ROWS.encode("utf-16-le"), "--encoding utf-16-le"),
        (b"a;b\n1;2\n", "--sep ';'"),
        (b"a;b\n1,5;2\n", "--sep ';'"),
        (b"a\tb\n1\t2\n", "--sep tab"),
        (b"a,b,a,b\n1,2,3,4\n", "'a' (2 times), 'b' (2 times)"),
        (b"a,fraud\n1e400,1\n2,0\n", "too large"),
        (b"a,b,fraud\n1e200,1,1\n2,3,0\n", "'a'. Correct them"),
        (b"a,fraud\n1,no\n2,yes\n", "--pos-label no or --pos-label yes"),
        (b"a,fraud\n1,1\n2,1\n", "--unlabeled"),
        (b'a,fraud\n"1,5",1\n"-12,25",0\nNA,0\n,0\n', "--decimal ,"),
        (b"a,fraud\n1,0\n2,1\n3,2\n", "two labels, got 3"),
        (b"", "Empty CSV file"),
    ],
)
def test_what_cannot_be_read_is_told_with_advice(run, folder, content, advice):
    (folder / "odd.csv").write_bytes(content)
    assert refused(run("fit odd.csv --label fraud --out x.drpu"), advice).startswith("error: odd.csv")


def test_the_encoding_is_named_whether_a_column_is_known_as_text_or_not(tmp_path):
    (tmp_path / "odd.csv").write_bytes(b"a,b\n1,caf\xe9\n")
    for texts in ((), ("b",)):  # before a fit, and with a classifier that had texts there
        with pytest.raises(DataError, match="--encoding latin-1"):
            read(str(tmp_path / "odd.csv"), texts=texts)


def test_separators_decimal_marks_and_endings(tmp_path):
    plain = pa.table({"a": [1.5, 2.5], "b": [3, 4]})
    files = {
        "semicolon.csv": (b"a;b\n1,5;3\n2,5;4\n", TextFormat(sep=";", decimal=",")),
        "tab.tsv": (b"a\tb\n1.5\t3\n2.5\t4\n", TextFormat()),
        "tab.txt": (b"a\tb\n1.5\t3\n2.5\t4\n", TextFormat(sep="tab")),
        "packed.csv.gz": (gzip.compress(b"a,b\n1.5,3\n2.5,4\n"), TextFormat()),
        "lines.jsonl": (b'{"a": 1.5, "b": 3}\n{"a": 2.5, "b": 4}\n', TextFormat()),
        "lines.ndjson.gz": (gzip.compress(b'{"a": 1.5, "b": 3}\n{"a": 2.5, "b": 4}\n'), TextFormat()),
    }
    for name, (content, form) in files.items():
        (tmp_path / name).write_bytes(content)
        assert read(str(tmp_path / name), form).table == plain, name


@pytest.mark.parametrize(
    ("values", "form"),
    [
        (["1,5", "2,25"], TextFormat(decimal=".")),  # asked for
        (["1,500", "12,250"], TextFormat()),  # thousands
        (["1,5", "1,5 or 2"], TextFormat()),
    ],
)
def test_texts_with_commas_stay_texts(tmp_path, values, form):
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(f'"{value}",1\n' for value in values))
    assert read(str(tmp_path / "a.csv"), form).table.column("a").to_pylist() == values


def test_a_pipe_may_be_compressed(monkeypatch):
    packed = io.TextIOWrapper(io.BytesIO(gzip.compress(b"a,b\n1,2\n")))
    monkeypatch.setattr(sys, "stdin", packed)
    assert read("-").table.to_pydict() == {"a": [1], "b": [2]}


def test_digits_with_leading_zeros_are_codes_in_every_format(tmp_path):
    zips = [f"{k:05d}" for k in range(2000)]
    pa.csv.write_csv(pa.table({"zip": zips, "n": range(2000)}), tmp_path / "zips.csv")
    (tmp_path / "zips.csv.gz").write_bytes(gzip.compress((tmp_path / "zips.csv").read_bytes()))
    for name in ("zips.csv", "zips.csv.gz"):
        found = read(str(tmp_path / name), TextFormat(decimal=".")).table
        assert found.schema.types == [pa.string(), pa.int64()]
        assert found["zip"].to_pylist() == zips


def test_half_a_compressed_file_is_an_error(run, folder):
    (folder / "half.csv.gz").write_bytes(gzip.compress(ROWS.encode())[:-20])
    refused(run("adapt toy.drpu half.csv.gz"), "not a whole gzip file")


def test_types_are_guessed_from_the_whole_file(tmp_path):
    lines = "".join(f"{k},{k}\n" for k in range(200_000))  # more than the first block
    (tmp_path / "late.csv").write_text(f"a,b\n{lines}0.5,x1\n")
    table = read(str(tmp_path / "late.csv")).table
    assert pa.types.is_floating(table.column("a").type)
    assert pa.types.is_string(table.column("b").type)


def test_blank_names_get_the_number_of_their_column(tmp_path):
    (tmp_path / "index.csv").write_text(",a\n0,1.5\n")
    assert read(str(tmp_path / "index.csv")).names == ["column_1", "a"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("adapt toy.drpu june.csv --encoding klingon", "--encoding must name an encoding"),
        ("adapt toy.drpu june.csv --encoding rot13", "--encoding must name an encoding"),
        ("adapt toy.drpu june.csv --encoding utf-16", "try another --encoding"),
        ("adapt toy.drpu june.csv --cost nan", "cost must be a number, got nan"),
        ("fit train.csv --label a --out x.drpu", "train.csv, column 'a': "),
        ("adapt toy.drpu june.csv --sep ab", "--sep must be one ASCII character"),
        ("adapt toy.drpu june.csv --sep é", "--sep must be one ASCII character"),
        ("adapt toy.drpu june.csv --decimal x", "--decimal must be"),
        ("fit train.csv --label frod --out x.drpu", "Did you mean 'fraud'?"),
        ("fit train.csv --label FRAUD --out x.drpu", "Did you mean 'fraud'?"),
        ("predict toy.drpu june.csv --keep ids --out x.csv", "Did you mean 'id'?"),
        ("adapt toy.drpu june.csv --drop a", "training had the column 'a'"),
        ("adapt toy.drpu .", "the folder . must hold Parquet files, got"),
    ],
)
def test_advice_is_one_line(run, line, words):
    refused(run(line), words)


def test_all_refused_columns_come_in_one_message_whose_advice_works(run, folder):
    (folder / "nested.jsonl").write_text(
        "".join(json.dumps({"a": k, "p": [k], "q": {"r": k}, "y": k % 2}) + "\n" for k in range(40))
    )
    code, _, err = run("fit nested.jsonl --label y --model kernel --out nested.drpu")
    assert code == 1
    advice = err.split("--drop ")[1].split()[0].rstrip(",.")
    assert advice == "p,q"
    code, _, _ = run(f"fit nested.jsonl --label y --model kernel --drop {advice} --out nested.drpu")
    assert code == 0


def test_dropped_columns_leave_the_others_matched_by_name(run):
    plain = answer(run("adapt toy.drpu june.csv --json"))
    dropped = answer(run("adapt toy.drpu june.csv --drop id --json"))
    remaining = dropped.pop("warnings")
    (warning,) = (text for text in plain.pop("warnings") if text not in remaining)
    assert "'id'. They are ignored" in warning
    assert dropped == plain


# -- outputs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "fit train.csv --label fraud --out train.csv",
        "adapt toy.drpu june.csv --out toy.drpu",
        "adapt toy.drpu june.csv --out june.csv",
        "predict toy.drpu june.csv --out june.csv",
        "predict toy.drpu june.csv --out ./link.csv",
        "report toy.drpu june.csv --out toy.drpu",
        "report toy.drpu --out toy.drpu",
    ],
)
def test_an_input_is_never_written_over(run, folder, line):
    if not (folder / "link.csv").exists():
        (folder / "link.csv").symlink_to(folder / "june.csv")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    code, out, err = run(line)
    assert code == 1
    assert out == ""
    assert "must not be one of the inputs" in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "name", ["out.csv", "out.tsv", "out.csv.gz", "out.jsonl", "out.parquet", "out.arrow"]
)
def test_what_is_written_can_be_read_again(run, folder, name):
    code, _, _ = run(f"predict toy.drpu june.csv --prior 0.3 --keep id --out {name}")
    assert code == 0
    table = table_of(folder / name)
    assert table.column_names == ["id", "drpu_label", "drpu_probability", "drpu_ratio"]
    assert table.num_rows == 420
    assert not [path for path in folder.iterdir() if path.name.endswith(".drpu-part")]


# -- errors for programs and for terminals -------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "kind", "code"),
    [
        ("adapt absent.drpu june.csv --json", "FileNotFoundError", 1),
        ("adapt june.csv june.csv --json", "ArtifactError", 1),
        ("fit train.csv --label frod --out x.drpu --json", "DataError", 1),
        ("predict toy.drpu june.csv --prior 7 --json", "PriorError", 1),
        ("adapt toy.drpu --json", "UsageError", 2),
        ("predict toy.drpu june.csv --adapt --prior 0.1 --json", "UsageError", 2),
    ],
)
def test_errors_are_one_json_object_where_json_was_asked_for(run, line, kind, code):
    found, out, err = run(line)
    assert found == code
    error = json.loads(out)["error"]
    assert (error["type"], error["exit_code"]) == (kind, code)
    assert error["message"] in err


def test_control_characters_of_files_are_written_out(run, folder):
    name = "\x1b]0;owned\x07größe \u202e\x9b1m"
    (folder / "evil.csv").write_text(f"{name},b\n1,2\n", encoding="utf-8")
    code, out, err = run("adapt toy.drpu evil.csv --columns a")
    assert code == 1
    assert "\x1b" not in out + err
    assert "\x07" not in out + err
    assert "\\x1b]0;owned\\x07größe \\u202e\\x9b1m" in err


def test_small_shares_keep_two_digits():
    said = [share(value) for value in (0.0, 0.5, 0.0307, 0.003, 0.00042, 1.0)]
    assert said == ["0.0%", "50.0%", "3.1%", "0.30%", "0.042%", "100.0%"]


@pytest.mark.skipif(os.name == "nt", reason="no shell and no pipes of POSIX")
def test_a_closed_standard_output_is_an_error():
    script = f'"{sys.executable}" -m drpu.cli --version'
    for redirect, code in ((">&-", 1), ("> /dev/full", 1)):
        if redirect.endswith("full") and not os.path.exists("/dev/full"):
            continue
        done = subprocess.run(["sh", "-c", f"{script} {redirect}"], capture_output=True, check=False)
        assert done.returncode == code
        assert done.stderr.startswith(b"error: ")
        assert b"Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="no shell and no pipes of POSIX")
def test_a_reader_that_goes_away_is_told_by_the_exit_code():
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as out:
        done = subprocess.run(
            [sys.executable, "-m", "drpu.cli", "--version"], stdout=out, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b""


def test_an_interrupt_ends_without_a_traceback(run, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("drpu.cli._command", interrupted)
    assert run("--help") == (128 + signal.SIGINT, "", "error: interrupted.\n")


def imported_by(heavy, *words):
    """Those of the heavy modules that a new process has imported after a command."""
    tell = f"print([name for name in {heavy} if name in sys.modules])"
    watch = f"import sys; from drpu.cli import main; main({list(words)!r}); {tell}"
    done = subprocess.run([sys.executable, "-c", watch], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_help_and_version_import_no_numerical_library():
    heavy = ("numpy", "scipy", "sklearn", "lightgbm", "pyarrow", "torch")
    for flag in ("--help", "--version"):
        assert imported_by(heavy, flag) == "[]"


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_file_is_described_without_libraries_that_learn(command, folder):
    heavy = ("sklearn", "scipy.special", "scipy.sparse", "lightgbm", "torch", "pandas")
    assert imported_by(heavy, command, str(folder / "toy.drpu")) == "[]"


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "jsonl"])
def test_texts_that_a_spreadsheet_would_run_are_protected_in_csv(ending, folder, run):
    pd = pytest.importorskip("pandas")
    texts = ["=1+1", "+cmd|' /C calc'!A0", "-1+1", "@SUM(A1)", "\t=1", "-5", "+2.5e3", "plain", "a=b"]
    rows = pd.read_csv(folder / "june.csv").head(len(texts)).assign(note=texts, **{"=name": 1})
    table = pa.Table.from_pandas(rows, preserve_index=False)
    table = table.append_column("gap", pa.array([float("nan"), float("inf")] * 4 + [0.5]))
    pa.parquet.write_table(table, folder / "notes.parquet")
    out = folder / f"notes-out.{ending}"
    for option, marks in (("", ["'"] * 5), ("--formulas", [""] * 5)):
        assert run(f"predict toy.drpu notes.parquet --quiet --out {out.name} {option}")[0] == 0
        if ending == "jsonl":
            lines = [json.loads(line, parse_constant=pytest.fail) for line in out.read_text().splitlines()]
            assert [line["note"] for line in lines] == texts
            assert [line["gap"] for line in lines] == [None] * 8 + [0.5]
        else:
            back = pd.read_csv(out, sep="\t" if ending == "tsv" else ",", dtype={"note": str})
            assert back["note"].tolist() == [
                m + t for m, t in zip([*marks, "", "", "", ""], texts, strict=True)
            ]
            assert f"{marks[0]}=name" in back.columns
