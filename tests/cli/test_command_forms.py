"""Output has the form of the input: separator, decimal mark, encoding, and workbooks."""

import datetime as dt
import io

import numpy as np
import pandas as pd
import pytest
from cli_answers import refused
from cli_folder import write_folder
from numpy.testing import assert_allclose

from drpu import load
from drpu.cli.excel import write_workbook

GERMAN = "--sep ; --decimal , --encoding latin-1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = write_folder(tmp_path_factory.mktemp("forms"))
    june = pd.read_csv(folder / "june.csv").assign(Ort="Köln")
    june.to_csv(folder / "german.csv", index=False, sep=";", decimal=",", encoding="latin-1")
    return folder


def expected(folder):
    june = pd.read_csv(folder / "june.csv")
    return load(folder / "toy.drpu").predict_proba(june[["a", "b"]])[:, 1]


def test_a_file_is_written_in_the_form_in_which_it_was_read(run, folder):
    code, _, err = run(f"predict toy.drpu german.csv {GERMAN} --drop Ort,id --out out.csv")
    assert code == 0, err
    written = pd.read_csv(folder / "out.csv", sep=";", decimal=",", encoding="latin-1")
    assert set(written["Ort"]) == {"Köln"}
    assert_allclose(written["drpu_probability"], expected(folder), rtol=1e-5)
    again = pd.read_csv(folder / "june.csv")
    assert_allclose(written["a"], again["a"])


def test_the_form_of_the_output_can_be_another_one(run, folder):
    form = "--out-sep tab --out-decimal . --out-encoding utf-16"
    run(f"predict toy.drpu german.csv {GERMAN} --drop Ort,id {form} --out other.csv")
    written = pd.read_csv(folder / "other.csv", sep="\t", encoding="utf-16")
    assert set(written["Ort"]) == {"Köln"}
    assert_allclose(written["drpu_probability"], expected(folder), rtol=1e-5)


def test_probabilities_of_a_text_file_have_six_digits(run, folder):
    run("predict toy.drpu june.csv --out six.csv")
    written = pd.read_csv(folder / "six.csv", dtype=str)
    for name in ("drpu_probability", "drpu_ratio"):
        values = written[name].astype(float)
        assert values.tolist() == [float(f"{value:.6g}") for value in values]
    assert run("predict toy.drpu june.csv --out exact.parquet")[0] == 0
    exact = pd.read_parquet(folder / "exact.parquet")["drpu_probability"]
    assert_allclose(exact, expected(folder), rtol=1e-12)


def test_a_workbook_can_be_written_and_read_again(run, folder):
    assert run("predict toy.drpu june.csv --out june.xlsx")[0] == 0
    run("predict toy.drpu june.csv --out june-out.csv")
    code, _, err = run("predict toy.drpu june.xlsx --drop drpu_label --prefix again_ --out again.csv --quiet")
    assert code == 0, err
    again = pd.read_csv(folder / "again.csv")
    written = pd.read_csv(folder / "june-out.csv")
    assert_allclose(again["drpu_probability"], written["drpu_probability"])
    assert again["id"].tolist() == written["id"].tolist()


def test_every_kind_of_value_has_a_cell():
    calamine = pytest.importorskip("python_calamine")
    file = io.BytesIO()
    day = dt.date(2026, 6, 1)
    row = ["=1+1 <&> ä\x00", 1, 0.5, True, None, float("nan"), day, dt.datetime(2026, 6, 1, 12)]
    write_workbook(file, [f"c{k}" for k in range(len(row))], [row])
    file.seek(0)
    _, cells = calamine.CalamineWorkbook.from_filelike(file).get_sheet_by_index(0).to_python()
    assert cells[:4] == ["=1+1 <&> ä ", 1.0, 0.5, True]
    assert cells[4:6] == ["", ""]
    assert np.datetime64(cells[6], "D") == np.datetime64(day)
    assert cells[7] == dt.datetime(2026, 6, 1, 12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--out-sep ;; --out x.csv", "--out-sep must be one ASCII character"),
        ("--out-encoding no --out x.csv", "--out-encoding must name an encoding"),
        ("--out-encoding ascii --keep Ort --out x.csv", "cannot be written as ascii"),
    ],
)
def test_forms_that_cannot_be_written_are_named(run, folder, options, words):
    refused(run(f"predict toy.drpu german.csv {GERMAN} --drop Ort,id {options}"), words)


def test_a_form_has_no_effect_on_files_that_are_no_texts(run, folder):
    code, _, err = run("predict toy.drpu june.csv --out-sep ; --out x.parquet")
    assert code == 2
    assert "--out-sep" in err
