"""Counts of groups, made where the rows are, give the priors of the rows in memory."""

import numpy as np
import pandas as pd
import pytest
from scale_data import COLUMNS, NAMED, PLAIN, TABLE

from drpu import count_batches, load, save, verify
from drpu.exceptions import DataError, ParameterError
from drpu.periods.counts import GroupCounts

pytestmark = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas",
    "ignore:Running on a single-machine scheduler",
    "ignore::drpu.exceptions.DRPUWarning",
)

DAYS = pd.Timestamp("2026-04-20") + pd.to_timedelta(np.arange(len(TABLE)) % 60, unit="D")
BRANCHES = np.array(["north", "south", "west"])[np.arange(len(TABLE)) % 3]
ROWS = TABLE.assign(day=DAYS, branch=BRANCHES)
IN_MEMORY = NAMED.adapt_by(ROWS[COLUMNS], by=ROWS["day"])


def assert_same_priors(counts):
    adapted = NAMED.adapt_by(counts)
    assert adapted.names == IN_MEMORY.names == ["2026-04", "2026-05", "2026-06"]
    assert adapted.whole == IN_MEMORY.whole
    for group, expected in zip(adapted, IN_MEMORY, strict=True):
        assert group.prior == expected.prior
        assert group.weight == expected.weight
        assert group.warnings == expected.warnings
        assert group.n == expected.n
        assert group.classifier.threshold_ == expected.classifier.threshold_
        assert group.flagged is None  # no row is known
    return adapted


@pytest.mark.parametrize("batch_size", [7, 100, 1000])
def test_groups_of_batches_have_the_priors_of_rows_in_memory(batch_size):
    counts = count_batches(NAMED, ROWS, by="day", batch_size=batch_size)
    assert_same_priors(counts)
    assert counts.total == NAMED.count(ROWS[COLUMNS])


def test_groups_on_dask_have_the_priors_of_rows_in_memory():
    frame = pytest.importorskip("dask.dataframe").from_pandas(ROWS, npartitions=7)
    assert_same_priors(count_batches(NAMED, frame, by="day"))


def test_groups_on_spark_have_the_priors_of_rows_in_memory(spark):
    frame = spark.createDataFrame(ROWS).repartition(5)
    assert_same_priors(count_batches(NAMED, frame, by="day"))


def test_an_empty_spark_frame_is_an_empty_count(spark):
    no_rows = spark.createDataFrame([], "a double, b double, branch string")
    assert count_batches(NAMED, no_rows).n == 0
    assert len(count_batches(NAMED, no_rows, by="branch")) == 0
    with pytest.raises(DataError, match="counts are empty"):
        NAMED.adapt(no_rows)


def test_weighted_groups_are_counted_by_weight():
    counts = count_batches(NAMED, ROWS, by="branch", weight="w", batch_size=100)
    for name in ("north", "south", "west"):
        rows = ROWS[ROWS["branch"] == name]
        assert counts[name] == NAMED.count(rows[COLUMNS], sample_weight=rows["w"])


def test_counts_of_groups_can_be_added_in_any_order():
    parts = [count_batches(NAMED, ROWS[k::4], by="branch") for k in range(4)]
    whole = count_batches(NAMED, ROWS, by="branch")
    assert parts[3] + parts[0] + parts[2] + parts[1] == whole
    assert GroupCounts.none(NAMED.fitted_.no_counts()) + whole == whole
    assert list(whole) == ["north", "south", "west"]
    with pytest.raises(KeyError):
        whole["east"]


def test_there_may_be_more_groups_than_in_memory():
    twice = pd.concat([ROWS.assign(group=ROWS["id"]), ROWS.assign(group=ROWS["id"] + 101)])
    counts = count_batches(NAMED, twice, by="group")
    assert len(counts) == 1001
    adapted = NAMED.adapt_by(counts)
    assert len(adapted) == 1001
    with pytest.raises(DataError, match=r"at most 1000 .* adapt_by\(count_batches"):
        NAMED.adapt_by(twice[COLUMNS], by=twice["group"])


def test_too_many_groups_for_memory_are_refused(monkeypatch):
    monkeypatch.setattr("drpu.periods.counts.MOST_BYTES", 10_000)
    with pytest.raises(DataError, match="group them further"):
        count_batches(NAMED, ROWS, by="id")
    with pytest.raises(DataError, match="group them further"):
        count_batches(NAMED, ROWS, by="id", batch_size=2)


def test_missing_values_are_a_group_in_every_batch():
    rows = ROWS.assign(branch=ROWS["branch"].where(ROWS["branch"] != "west"))
    counts = count_batches(NAMED, rows, by="branch", batch_size=50)
    assert list(counts) == ["north", "south", "(missing)"]


def test_counts_by_name_that_were_made_one_by_one_are_groups():
    counts = {}
    for day in ("2026-04", "2026-05", "2026-06"):
        counts[day] = NAMED.count(ROWS[ROWS["day"].dt.strftime("%Y-%m") == day][COLUMNS])
    assert_same_priors(counts)


def test_a_budget_of_counted_groups_is_a_threshold_for_each():
    counts = count_batches(NAMED, ROWS, by="branch")
    for group in NAMED.adapt_by(counts, budget=20):
        assert group.classifier.budget_.rows is None
        expected = NAMED.adapt_by(counts)[group.name].classifier.at_budget(20, of=counts[group.name])
        assert group.classifier.threshold_ == expected.threshold_


def test_counts_are_saved_and_sent(tmp_path):
    tails = NAMED.count(ROWS[COLUMNS])
    save(tails, tmp_path / "june.drpu")
    sent = load(tmp_path / "june.drpu")
    assert sent == tails
    assert NAMED.adapt(sent).prior_ == NAMED.adapt(tails).prior_
    np.testing.assert_array_equal(sent.columns, tails.columns)
    assert verify(tmp_path / "june.drpu").contents["rows"] == len(ROWS)

    save(count_batches(NAMED, ROWS, by="day"), tmp_path / "days.drpu")
    assert_same_priors(load(tmp_path / "days.drpu"))
    assert verify(tmp_path / "days.drpu").contents == {
        "values_of_rows": {},
        "groups": 3,
        "rows": len(ROWS),
    }


def test_arguments_are_checked():
    counts = count_batches(NAMED, ROWS, by="branch")
    with pytest.raises(ParameterError, match="by must be None with counts"):
        NAMED.adapt_by(counts, by="branch")
    with pytest.raises(ParameterError, match="y must be None with counts"):
        NAMED.adapt_by(counts, np.zeros(len(ROWS)))
    with pytest.raises(ParameterError, match="by must be the name of a column of X"):
        NAMED.adapt_by(ROWS[COLUMNS])
    with pytest.raises(DataError, match="no column 'street'"):
        count_batches(NAMED, ROWS, by="street")
    with pytest.raises(ParameterError, match="by must be the name"):
        count_batches(NAMED, ROWS, by=BRANCHES)
    with pytest.raises(ParameterError, match="by must be None for batches"):
        count_batches(PLAIN, ROWS[COLUMNS].to_numpy(), by="branch")
    with pytest.raises(DataError, match="not made by this classifier"):
        PLAIN.at_cost(0.4).adapt_by(
            {"a": PLAIN.at_cost(0.4).count(ROWS[COLUMNS].to_numpy()), "b": NAMED.fitted_.tails}
        )
