"""Results that are tables: frames, texts and HTML tables of all of them."""

import sys
from dataclasses import dataclass
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from drpu import PriorEstimate
from drpu._results import TableResult, frame_of
from drpu.audits import Audit, Evaluation
from drpu.audits.labelling import Sensitivity
from drpu.audits.training import LabellingWeights
from drpu.decisions import Budget, Performance, Reasons
from drpu.exceptions import MissingExtraError
from drpu.periods import GroupPriors
from drpu.periods.groups import GroupPrior
from drpu.periods.shift_tests import MixtureTest
from drpu.priors import Figure
from drpu.state.population import Backtest, PastPeriod
from drpu.suspects import Suspects
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import read_frame

NAME = "<b>north & south</b>"
FIGURE = Figure(0.123456789, 0.0123456789, 0.3456789)
PRIOR = PriorEstimate(0.123456789, 0.0123456789, 0.3456789, 0.95, "auto")
PERIOD = PastPeriod(NAME, 500, 40, 0.123456789, 0.01, 0.1, 0.2)
GROUP = GroupPrior(NAME, 500, PRIOR, PRIOR, 0.5, 1.23e-9, warnings=("few-rows",), flagged=7)
SUSPECTS = Suspects(
    np.array([7, 3]), np.array([0.987654, 0.2]), Figure(1.1, 0.0, 1.5), True, np.array([[5, 3]])
)

RESULTS = {
    "suspects": SUSPECTS,
    "reasons": Reasons(((NAME, 1.23456789),), (("amount", -0.4567891),)),
    "groups": GroupPriors((GROUP,), PRIOR, 0.95, 0.0),
    "budget": Budget(50, 0.0251234, 3.456789, FIGURE, FIGURE, Figure(4.56789, 1.0, 7.0)),
    "share": Budget(None, 0.0251234, 3.456789, FIGURE, FIGURE, Figure(4.56789, 1.0, 7.0)),
    "evaluation": Evaluation(*[FIGURE] * 6, Figure(np.nan, 0.0, 1.0), n=33, level=0.95),
    "performance": Performance(-np.inf, *[FIGURE] * 6),
    "backtest": Backtest((PERIOD, PERIOD), "guarded", 0.7654321, 0.1234567),
    "weights": LabellingWeights(np.ones(60), {0.0: FIGURE, 1.0: FIGURE}, ("branch",), {0.0: 8, 1.0: 9}),
    "several": LabellingWeights(np.ones(9), {(NAME, 2.0): FIGURE}, ("branch", 3), {(NAME, 2.0): 8}),
}
each_result = pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)


class _Cells(HTMLParser):
    """The texts of the cells of a table, row by row, and the number of open elements."""

    def __init__(self, html):
        super().__init__()
        self.rows = []
        self.open = 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open += 1
        assert tag in {"table", "caption", "thead", "tbody", "tr", "th", "td"}
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.open -= 1

    def handle_data(self, data):
        if self.rows:
            self.rows[-1][-1] += data


@each_result
def test_the_frame_has_one_row_per_row_of_the_columns(result):
    frame = result.to_frame()
    assert isinstance(frame, pd.DataFrame)
    columns = result.to_columns()
    assert list(frame.columns) == list(columns)
    assert len(frame) == len(next(iter(columns.values())))


@each_result
def test_the_html_table_has_the_rows_of_the_frame_and_no_other_markup(result):
    cells = _Cells(result._repr_html_())
    assert cells.open == 0
    head, *rows = cells.rows
    columns = result.to_columns()
    assert head == list(columns)
    assert [row[0] for row in rows] == [
        f"{name:g}" if isinstance(name, float) else str(name) for name in columns[head[0]]
    ]
    assert all(len(row) == len(head) for row in rows)


@each_result
def test_texts_begin_with_the_name_of_the_class_and_figures_are_rounded(result):
    assert repr(result).startswith(type(result).__name__)
    for text in (repr(result), str(result), result._repr_html_()):
        digits = [word.rpartition(".")[2] for word in text.replace("<", " ").split() if "." in word]
        assert not [word for word in digits if len(word.rstrip("],;)%")) > 6], text


def test_lists_have_a_length_and_can_be_divided():
    assert {name: len(RESULTS[name]) for name in ("suspects", "groups", "backtest")} == {
        "suspects": 2, "groups": 1, "backtest": 2
    }  # fmt: skip
    assert list(RESULTS["backtest"]) == [PERIOD, PERIOD]
    assert SUSPECTS.to_frame(n=1)["row"].tolist() == [7, 5]


@dataclass(frozen=True, repr=False)
class Shown(TableResult):
    """A table of these columns."""

    columns: dict
    title: str = "T"

    def to_columns(self):
        return self.columns

    def _title(self):
        return self.title


def test_cells_are_short_blank_or_escaped():
    rows = {"name": ["a"], "p_value": [1.23e-9], "zero": [0.0], "none": [None], "flag": [True]}
    assert repr(Shown(rows)).splitlines()[-1].split() == ["a", "1e-09", "0.000", "yes"]
    assert repr(Shown({"row": [], "value": []})).splitlines() == ["Shown: T", "row  value"]
    assert "<b>" not in Shown({"<b>": ["<b>"], "<b>2": ["<b>"]}, "<b>T")._repr_html_()


def test_long_tables_show_their_first_rows_and_the_number_of_others():
    long = Shown({"row": list(range(300))})
    assert repr(long).endswith("\nand 270 more")
    assert long._repr_html_().count("<tr>") == 30 + 2
    assert "and 270 more" in long._repr_html_()


@each_result
@pytest.mark.parametrize("absent", [["pandas"], ["pandas", "polars"]])
def test_the_frame_is_made_by_a_library_that_is_installed(result, absent, monkeypatch):
    for library in absent:
        monkeypatch.setitem(sys.modules, library, None)
    expected = pa.Table if "polars" in absent else pl.DataFrame
    assert isinstance(result.to_frame(), expected)


def test_without_a_library_the_error_names_the_extra(monkeypatch):
    for library in ("pandas", "polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r'pip install ".*\[data\]"'):
        frame_of({"row": [1]})


def test_expected_shares_with_a_wide_range_are_shown_without_their_value():
    wide = Figure(0.6543, 0.2, 0.9)
    for result in (Budget(50, 0.025, 3.4, wide, FIGURE, FIGURE), Performance(0.5, wide, *[FIGURE] * 5)):
        assert result.to_columns()["value"][0] == wide.value
        assert "0.654" not in repr(result) + str(result) + result._repr_html_()
        assert "0.900" in result._repr_html_()


def test_results_of_one_line_have_rounded_figures_in_notebooks():
    results = [
        (FIGURE, "0.123 [0.012, 0.346]"),
        (Sensitivity(2.0, 0.123456, 0.1, 0.2, 0.3, 0.2, 0.4), "prior 0.123 [0.100, 0.200]"),
        (MixtureTest(12.3456, 5, 0.123456, 0.0123456, 1.0, (0.0, 1.0)), "p = 0.12"),
        (Audit.random([0, 1, 2], ["yes", "no", "no"]), "3 answers, parts: 1"),
    ]
    for result, words in results:
        html = result._repr_html_()
        assert html.startswith(f"<p><b>{type(result).__name__}</b>: ")
        assert words in html


def test_the_encoder_of_a_table_names_its_columns_as_text():
    table = pd.DataFrame({NAME: np.arange(6.0) / 7, "city": ["a", "b"] * 3})
    encoder, _ = TableEncoder.fit([read_frame(table)])
    html = encoder._repr_html_()
    assert "&lt;b&gt;north &amp; south&lt;/b&gt;, city" in html
    assert "uses 2 of 2 columns" in html
