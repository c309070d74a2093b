"""Files that end or mislead the readers of other libraries are read or refused."""

import gzip
import os
import signal
import subprocess
import sys

import pyarrow as pa
import pytest

from drpu.cli.tables import TextFormat, read
from drpu.exceptions import DataError

DEEP = "[" * 50_000 + "]" * 50_000

NESTED = {
    "in a value": '{"a": 1, "b": ' + DEEP + "}\n",
    "without an end": '{"a": ' + "[" * 50_000,
    "objects": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "over lines": '{"a":\n[' * 50_000,
    "after a text with quotation marks": '{"a": "\\"]]", "b": ' + DEEP + "}\n",
    "after a text that does not end": '{"a": "x\n' + DEEP,
    "after brackets that close": "]" * 100_000 + "\n" + DEEP,
    "after other rows": ('{"a": "' + "x" * 1000 + '"}\n') * 20_000 + DEEP,
}


@pytest.mark.parametrize("case", NESTED)
@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_json_that_is_nested_deeply_is_refused(case, ending, tmp_path):
    path = tmp_path / f"rows{ending}"
    content = NESTED[case].encode()
    path.write_bytes(gzip.compress(content, 1) if ending.endswith(".gz") else content)
    with pytest.raises(DataError, match="nested deeper than 64 levels"):
        read(str(path))


def test_nested_json_of_other_encodings_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(NESTED["in a value"].encode("utf-16"))
    with pytest.raises(DataError, match="nested deeper than 64 levels"):
        read(str(path), TextFormat(encoding="utf-16"))


def test_brackets_in_texts_are_not_nested(tmp_path):
    text = "[{" * 1000 + '\\"\\\\'
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"a": "{text}", "b": [[1]]}}\n' * 3)
    assert read(str(path)).table.column("a").to_pylist() == ["[{" * 1000 + '"\\'] * 3


@pytest.mark.parametrize("values", [["1", "2", "3"], ["007", "2", "3"], ["1", "2.5", "x"]])
@pytest.mark.parametrize("size", [1_000, 3_000_000])
def test_a_cell_of_any_size_changes_no_other_column(values, size, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("note,number\n" + "".join(f"{'x' * size},{value}\n" for value in values))
    table = read(str(path)).table
    assert [len(text) for text in table.column("note").to_pylist()] == [size] * 3
    if values[0] == "1" and values[2] == "3":
        assert table.column("number").to_pylist() == [1, 2, 3]
    else:
        assert table.column("number").to_pylist() == values


def test_a_late_value_of_another_type_is_read_beside_codes(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("code,number\n" + "007,1\n" * 300_000 + "008,2.5\n")
    table = read(str(path)).table
    assert table.column("code").to_pylist()[0] == "007"
    assert table.column("number").type == pa.float64()


WAITS_WHILE_WRITING = """
import signal, sys
from drpu import cli
from drpu._output import output_file

def command(words, flags):
    with output_file(sys.argv[1]) as file:
        file.write(b"values of rows")
        file.flush()
        print("ready", flush=True)
        signal.pause()

cli._command = command
sys.exit(cli.main([]))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_command_that_is_ended_leaves_no_hidden_file(number, tmp_path):
    words = [sys.executable, "-c", WAITS_WHILE_WRITING, str(tmp_path / "out.csv")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_a_name_of_spaces_is_a_name_as_in_python(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(" ,a,\n1,2,3\n")
    assert read(str(path)).names == [" ", "a", "column_3"]
