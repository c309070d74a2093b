"""A table of claims with every kind of column, in every library; columns with their kinds."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

N = 120


def claims(n=N, seed=0):
    rng = np.random.default_rng(seed)
    amount = rng.normal(100, 20, n)
    amount[::9] = np.nan
    day = [dt.date(2026, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 90, n)]
    return pd.DataFrame(
        {
            "claim": [f"C{i:08d}" for i in range(n)],
            "amount": amount,
            "ward": np.where(rng.random(n) < 0.2, None, rng.choice(["north", "south", "east"], n)),
            "urgent": rng.random(n) < 0.3,
            "day": day,
            "rooms": rng.integers(1, 6, n),
        }
    )


def as_string(frame):
    return frame.astype({"claim": "string", "ward": "string"})


def as_category(frame):
    return frame.assign(ward=frame["ward"].astype("category"))


def as_nullable(frame):
    return frame.convert_dtypes()


def as_timestamps(frame):
    return frame.assign(day=pd.to_datetime(frame["day"]))


def as_texts(frame):
    return frame.assign(day=frame["day"].map(lambda day: day.isoformat()), rooms=frame["rooms"].astype(str))


def as_polars(frame):
    return pl.DataFrame(frame.replace({np.nan: None}).to_dict(orient="list"))


def as_polars_categories(frame):
    return as_polars(frame).with_columns(pl.col("ward").cast(pl.Categorical))


def as_arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def as_batch(frame):
    return pa.RecordBatch.from_pandas(frame, preserve_index=False)


CONTAINERS = [
    as_string,
    as_category,
    as_nullable,
    as_timestamps,
    as_texts,
    as_polars,
    as_polars_categories,
    as_arrow,
    as_batch,
]

# Columns of objects, and their kind.
KINDS = [
    (["1.5", "2", None] * 20, "number"),
    (["-3", "+4e2"] * 20, "number"),
    (["01234", "98765"] * 20, "category"),  # codes, not numbers: their zeros matter
    (["12345678901234567", "2"] * 20, "number"),  # as the integers are
    ([1, 2.5, None, True] * 20, "number"),
    ([1, "two", None] * 20, "category"),
    ([None] * 40, "number"),
    (["2026-06-30", None] * 20, "date"),
    (["2026-06-31", "2026-06-30"] * 20, "category"),
    (["30.06.2026", "01.07.2026"] * 20, "date"),
    (["2026/06/30", "Nov 16, 2004", "01. January 2023", "1-Feb-24"] * 10, "date"),
    (["Jan-23", "Feb-23"] * 20, "date"),
    (["2026-06", "2026-07"] * 20, "date"),
    (["20260630", "20260701"] * 20, "date"),
    ([20260630, 20260701, None] * 20, "date"),
    ([20260630, 20260732] * 20, "number"),
    (["30/06/2026", "01/07/2026"] * 20, "date"),
    (["06/30/2026", "07/01/2026"] * 20, "date"),
    (["06/07/2026", "07/06/2026"] * 20, "category"),  # which is the day?
    (["30/06/2026", "06/30/2026"] * 20, "category"),
    ([f"id{i % 30}" for i in range(60)], "category"),
]

# Columns, and whether they are left out as identifiers.
IDENTIFIERS = [
    (range(40), True),
    (range(40, 0, -1), True),
    ([str(i) for i in range(1000, 1040)], True),
    ([f"u{i}" for i in range(40)], True),
    ([*range(39), 5], True),  # almost all different
    ([1, 0, *range(2, 40)], True),  # in no order, and still hardly by chance
    ([*range(20), *range(20)], False),  # not all different
    ([k * k * 9973 % 100_003 for k in range(40)], False),  # as different as amounts may be
    (np.arange(40.0), False),  # not whole by its type
    (pd.Categorical([f"u{i}" for i in range(40)]), False),  # declared to be a category
]
