"""Workbooks of one sheet, written without another library."""

from __future__ import annotations

import datetime as dt
import re
import zipfile
from collections.abc import Iterable, Sequence
from typing import Any
from xml.sax.saxutils import escape

from drpu.exceptions import DataError

MOST_ROWS = 1_048_576  # of a sheet, with its header
_BOOK = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_FIRST_DAY = dt.datetime(1899, 12, 30)  # day 0 of the calendar of workbooks
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
    '<Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_KIND}.sheet.main+xml"/>'
    f'<Override PartName="/xl/styles.xml" ContentType="{_KIND}.styles+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_KIND}.worksheet+xml"/>'
    "</Types>",
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
    "</Relationships>",
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="r1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
    f'<Relationship Id="r2" Type="{_OFFICE}/styles" Target="styles.xml"/>'
    "</Relationships>",
    "xl/workbook.xml": f'<workbook xmlns="{_BOOK}" xmlns:r="{_OFFICE}">'
    '<sheets><sheet name="rows" sheetId="1" r:id="r1"/></sheets></workbook>',
    # the second format is that of dates
    "xl/styles.xml": f'<styleSheet xmlns="{_BOOK}">'
    '<fonts count="1"><font/></fonts><fills count="1"><fill/></fills>'
    '<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>'
    '<cellXfs count="2"><xf/><xf numFmtId="22" applyNumberFormat="1"/></cellXfs></styleSheet>',
}


def write_workbook(file: Any, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a header and rows of values to a binary file as the sheet of a workbook.

    Texts are cells of texts, which no program runs as formulas.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as parts:
        for name, content in _PARTS.items():
            parts.writestr(name, content)
        with parts.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as sheet:
            sheet.write(f'<worksheet xmlns="{_BOOK}"><sheetData>'.encode())
            sheet.write(_row(names))
            for number, row in enumerate(rows, start=2):
                if number > MOST_ROWS:
                    raise DataError(
                        f"a sheet of a workbook has at most {MOST_ROWS:,} rows: write a .csv or "
                        ".parquet file."
                    )
                sheet.write(_row(row))
            sheet.write(b"</sheetData></worksheet>")


def _row(values: Iterable[Any]) -> bytes:
    return f"<row>{''.join(map(_cell, values))}</row>".encode()


def _cell(value: Any) -> str:
    if value is None or value != value:
        return "<c/>"
    if isinstance(value, bool):
        return f'<c t="b"><v>{value:d}</v></c>'
    if isinstance(value, dt.date):
        return _date_cell(value)
    if isinstance(value, (int, float)) and abs(value) < float("inf"):
        return f"<c><v>{value!r}</v></c>"
    text = escape(_NOT_IN_XML.sub(" ", str(value)))
    return f'<c t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'


def _date_cell(day: dt.date) -> str:
    if not isinstance(day, dt.datetime):
        day = dt.datetime(day.year, day.month, day.day)
    days = (day.replace(tzinfo=None) - _FIRST_DAY) / dt.timedelta(days=1)
    return f'<c s="1"><v>{days!r}</v></c>'
