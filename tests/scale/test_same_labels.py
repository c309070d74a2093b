"""A row has one label in every library and file, in any order and division, or there is an error."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drpu import BoostedRatio, DRPUClassifier, count_batches, load, save, score_batches
from drpu.exceptions import DataError
from drpu.models.clusters import Plan
from drpu.scale.spark import FOLD, _with_folds
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import read_frame

pytestmark = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas",
    "ignore:Running on a single-machine scheduler",  # earlier Dask, if other tests have a client
    "ignore::drpu.exceptions.DRPUWarning",
)


def rows(n, shift, seed):
    """Columns whose values look like those of another type when other rows are left out."""
    rng = np.random.default_rng(seed)
    wards = ["1.0", "2.0", "2.1-beta", "NA", "true", "007"]
    mixed = rng.choice(np.array(["true", "false", "unknown"]), n, p=[0.3 + shift, 0.4 - shift, 0.3])
    return pd.DataFrame(
        {
            "amount": np.where(rng.random(n) < 0.1, np.nan, rng.normal(shift, 1, n).round(3)),
            "count": rng.integers(0, 5, n),
            "flag": mixed.astype(object),
            "ward": rng.choice(
                np.array(wards), n, p=np.array([1, 1, 1, 1 + 4 * shift, 1, 1]) / (6 + 4 * shift)
            ),
            "country": rng.choice(np.array(["NA", "DE", "None", "nan"]), n).astype(object),
            "day": pd.Timestamp("2026-04-01") + pd.to_timedelta(rng.integers(0, 60 * 24, n), unit="h"),
            "open": rng.random(n) < 0.5 + shift / 2,
        }
    ).astype({"ward": object})


TRAIN = pd.concat([rows(150, 0.3, 0), rows(500, 0.0, 1)], ignore_index=True)
CLF = DRPUClassifier(BoostedRatio(n_rounds=25), holdout=2, random_state=0)
CLF.fit(TRAIN, np.repeat([1, 0], [150, 500]))
NEW = rows(120, 0.2, 2)
RATIO = CLF.ratio(NEW)
ORDER = np.random.default_rng(3).permutation(len(NEW))
PIECES = np.array_split(ORDER, [1, 3, 10, 11, 60])


@pytest.fixture
def folder(tmp_path):
    """The folder of commands."""
    return tmp_path


def ratios(source, **options):
    return np.concatenate([batch["ratio"] for batch in score_batches(CLF, source, **options)])


def test_parquet_files_and_folders_have_one_label(tmp_path):
    for k, piece in enumerate(PIECES):
        NEW.iloc[piece].to_parquet(tmp_path / f"{k}.parquet", index=False)
    whole = np.concatenate(PIECES)
    np.testing.assert_array_equal(ratios(tmp_path), RATIO[whole])
    np.testing.assert_array_equal(ratios(tmp_path, batch_size=7), RATIO[whole])
    np.testing.assert_array_equal(ratios(tmp_path / "4.parquet"), RATIO[PIECES[4]])


def test_a_file_with_an_empty_column_does_not_change_the_others(tmp_path):
    empty = NEW[:40].assign(amount=None)
    table = pa.Table.from_pandas(empty, preserve_index=False)
    assert pa.types.is_null(table.schema.field("amount").type)
    pq.write_table(table, tmp_path / "0.parquet")
    NEW[40:].to_parquet(tmp_path / "1.parquet", index=False)
    expected = np.concatenate([CLF.ratio(empty.astype({"amount": float})), RATIO[40:]])
    np.testing.assert_array_equal(ratios(tmp_path), expected)


@pytest.mark.parametrize("change", [lambda f: f.drop(columns="flag"), lambda f: f.rename(columns=str.upper)])
@pytest.mark.parametrize("place", ["0", "2"])
def test_a_file_of_a_folder_that_lacks_a_column_is_refused(change, place, tmp_path, run):
    NEW[:60].to_parquet(tmp_path / "1.parquet", index=False)
    change(NEW[60:]).to_parquet(tmp_path / f"{place}.parquet", index=False)
    with pytest.raises(DataError, match=r"columns of the other files|no column"):
        count_batches(CLF, tmp_path)
    save(CLF, tmp_path / "a.drpu")
    assert run("predict a.drpu .")[0] != 0


REPEATED = [pytest.param(ending, marks=pytest.mark.slow) for ending in ("tsv", "csv.gz")]


@pytest.mark.parametrize("ending", ["csv", "parquet", *REPEATED])
def test_files_of_the_command_line_have_one_label(ending, tmp_path, run):
    """The classifier is fitted by the command line as well: words such as NA are levels there, too."""
    train = TRAIN.assign(y=np.repeat([1, 0], [150, 500]))
    for name, table in (("train", train), *((f"new-{k}", NEW.iloc[piece]) for k, piece in enumerate(PIECES))):
        write = table.to_parquet if ending == "parquet" else table.to_csv
        options = {"sep": "\t" if ending == "tsv" else ","} if ending != "parquet" else {}
        write(tmp_path / f"{name}.{ending}", index=False, **options)
    assert run(f"fit train.{ending} --label y --model boosted --out a.drpu")[0] == 0
    clf = load(tmp_path / "a.drpu")
    assert dict.fromkeys(clf.table_.text_columns) == dict.fromkeys(["flag", "ward", "country"])
    found = np.empty(len(NEW))
    for k, piece in enumerate(PIECES):
        assert run(f"predict a.drpu new-{k}.{ending} --out out.parquet")[0] == 0
        found[piece] = pd.read_parquet(tmp_path / "out.parquet")["drpu_ratio"]
    np.testing.assert_array_equal(found, clf.ratio(NEW))


@pytest.fixture
def set_zone(spark):
    """Set the time zone of the session for one test."""
    before = spark.conf.get("spark.sql.session.timeZone")
    yield lambda zone: spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.session.timeZone", before)


SPARK_TYPES = "amount double, count long, flag string, ward string, country string, day string, open boolean"


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_spark_has_one_label_in_every_zone_of_the_session(zone, spark, set_zone):
    set_zone(zone)
    table = NEW.assign(day=NEW["day"].astype(str), place=np.arange(len(NEW))).astype(object)
    records = table.where(table.notna(), None).to_numpy().tolist()
    frame = spark.createDataFrame(records, f"{SPARK_TYPES}, place long")
    frame = frame.withColumn("day", frame["day"].cast("timestamp")).repartition(3)
    scored = score_batches(CLF, frame, columns=list(NEW.columns)).select("place", "ratio").collect()
    found = {line["place"]: line["ratio"] for line in scored}
    np.testing.assert_array_equal([found[k] for k in range(len(NEW))], RATIO)


@pytest.mark.parametrize("key", [None, "day"])
def test_spark_has_the_same_folds_in_every_zone_of_the_session(spark, set_zone, key):
    days = [f"2026-06-{1 + k % 28} {k % 24:02d}:30:00" for k in range(100)]
    encoder, _ = TableEncoder.fit([read_frame(pd.DataFrame({"day": pd.to_datetime(days)}))])
    plan = Plan(encoder, "y", None, key, np.array([1]), 5, 0)
    folds = []
    for zone in ("UTC", "Asia/Tokyo"):
        set_zone(zone)
        frame = spark.createDataFrame([(day, 1) for day in days], "day string, y int").coalesce(1)
        frame = frame.withColumn("day", frame["day"].cast("timestamp"))
        folds.append([row[FOLD] for row in _with_folds(frame, plan).collect()])
    assert len(set(folds[0])) == 5
    assert folds[0] == folds[1]


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_spark_keeps_the_instants_of_dates_with_a_zone(zone, spark, set_zone):
    rng = np.random.default_rng(0)
    hours = pd.to_timedelta(rng.integers(0, 2000, 300), unit="h")
    frame = pd.DataFrame({"day": pd.Timestamp("2026-01-01", tz="UTC") + hours, "a": rng.normal(size=300)})
    y = (frame["day"].dt.hour < 6).to_numpy() & (rng.random(300) < 0.8)
    clf = DRPUClassifier(BoostedRatio(n_rounds=5), holdout=2, random_state=0).fit(frame, y)
    set_zone(zone)
    texts = [day.isoformat() for day in frame["day"]]
    lines = list(zip(texts, frame["a"].tolist(), range(300), strict=True))
    rows = spark.createDataFrame(lines, "day string, a double, place long")
    rows = rows.withColumn("day", rows["day"].cast("timestamp")).repartition(3)
    scored = score_batches(clf, rows, columns=["day", "a"]).select("place", "ratio").collect()
    found = {line["place"]: line["ratio"] for line in scored}
    np.testing.assert_array_equal([found[k] for k in range(300)], clf.ratio(frame))
