"""The output of a command of the command line, and the files that it writes."""

import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet


def answer(result):
    """The JSON object that a command printed; it must have succeeded."""
    code, out, err = result
    assert code == 0, err
    return json.loads(out)


def refused(result, words):
    """The error of a command, one line with these words; nothing else was printed."""
    code, out, err = result
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert words in err
    assert err.count("\n") == 1
    return err


def table_of(path):
    """The Arrow table in a file, by its ending."""
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path)
    if path.suffix == ".arrow":
        return pa.feather.read_table(path)
    if path.suffix == ".jsonl":
        return pa.json.read_json(path)
    separator = "\t" if path.suffix == ".tsv" else ","
    return pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(delimiter=separator))
