"""Excel files are read with an extra, and named by an error without it."""

import datetime as dt
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from cli_answers import answer, refused
from cli_folder import write_folder

from drpu.cli.tables import read

BOOK = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def cell(value):
    if value is None:
        return "<c/>"
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
    if isinstance(value, bool):
        return f'<c t="b"><v>{value:d}</v></c>'
    if isinstance(value, dt.date):  # days since the end of 1899, with the format of dates
        return f'<c s="1"><v>{(value - dt.date(1899, 12, 30)).days}</v></c>'
    return f"<c><v>{value!r}</v></c>"


def write_workbook(path, *sheets):
    """Write the rows of each sheet to a workbook with the parts that every reader needs."""
    numbers = range(1, len(sheets) + 1)
    sheet = "application/vnd.openxmlformats-officedocument.spreadsheetml."
    types = "".join(
        f'<Override PartName="/xl/worksheets/s{k}.xml" ContentType="{sheet}worksheet+xml"/>' for k in numbers
    )
    book = "".join(f'<sheet name="sheet {k}" sheetId="{k}" r:id="r{k}"/>' for k in numbers)
    links = "".join(
        f'<Relationship Id="r{k}" Type="{OFFICE}/worksheet" Target="worksheets/s{k}.xml"/>' for k in numbers
    )
    links += f'<Relationship Id="r0" Type="{OFFICE}/styles" Target="styles.xml"/>'
    with zipfile.ZipFile(path, "w") as parts:
        parts.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{sheet}sheet.main+xml"/>{types}</Types>',
        )
        root = f'<Relationship Id="r1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
        for name, content in (("_rels/.rels", root), ("xl/_rels/workbook.xml.rels", links)):
            parts.writestr(name, f'<Relationships xmlns="{PACKAGE}/relationships">{content}</Relationships>')
        parts.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{BOOK}" xmlns:r="{OFFICE}"><sheets>{book}</sheets></workbook>',
        )
        parts.writestr(
            "xl/styles.xml",
            f'<styleSheet xmlns="{BOOK}"><cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
            "</styleSheet>",
        )
        for k, rows in zip(numbers, sheets, strict=True):
            lines = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
            parts.writestr(
                f"xl/worksheets/s{k}.xml",
                f'<worksheet xmlns="{BOOK}"><sheetData>{lines}</sheetData></worksheet>',
            )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("excel"))


def test_a_missing_reader_names_the_extra_and_another_way(run, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    (folder / "june.xlsx").write_bytes(b"PK")
    code, _, err = run("adapt toy.drpu june.xlsx")
    assert code == 1
    assert '[excel]"' in err
    assert "save the sheet as CSV" in err


def test_a_workbook_gives_the_result_of_the_same_csv(run, folder):
    pytest.importorskip("python_calamine")
    table = pa.csv.read_csv(folder / "june.csv")
    rows = [table.column_names, *zip(*(column.to_pylist() for column in table.columns), strict=True)]
    write_workbook(folder / "june.xlsx", rows)
    expected = answer(run("adapt toy.drpu june.csv --json"))
    assert answer(run("adapt toy.drpu june.xlsx --json"))["prior"] == expected["prior"]
    write_workbook(folder / "two.xlsx", rows, [["note"], ["a remark"]])
    _, _, err = run("adapt toy.drpu two.xlsx")
    assert err == "warning: two.xlsx: the first of 2 sheets is read, 'sheet 1'.\n"


def test_cells_of_one_kind_are_numbers_dates_and_texts(folder):
    pytest.importorskip("python_calamine")
    day = dt.date(2026, 6, 30)
    rows = [
        ["whole", "part", "code", "day", "flag", "zip"],
        [1, 0.5, "A", day, True, 7],
        [None, "NA", "NA", None, False, "x"],
        [3, 1.5, 7, day, True, 8],
    ]
    write_workbook(folder / "kinds.xlsx", rows)
    table = read(str(folder / "kinds.xlsx"), texts=["zip"]).table
    assert table["whole"].to_pylist() == [1, None, 3]
    assert table["part"].to_pylist() == [0.5, None, 1.5]
    assert table["code"].to_pylist() == ["A", "NA", "7"]
    assert [value and str(value)[:10] for value in table["day"].to_pylist()] == [
        "2026-06-30",
        None,
        "2026-06-30",
    ]
    assert table["flag"].to_pylist() == [True, False, True]
    assert table["zip"].to_pylist() == ["7", "x", "8"]
    labels = read(str(folder / "kinds.xlsx")).column("code")
    np.testing.assert_array_equal(labels, np.array(["A", None, "7"], dtype=object))


def test_a_damaged_workbook_is_one_line(run, folder):
    pytest.importorskip("python_calamine")
    (folder / "damaged.xlsx").write_bytes(b"no workbook")
    refused(run("adapt toy.drpu damaged.xlsx"), "error: damaged.xlsx cannot be read as Excel")
