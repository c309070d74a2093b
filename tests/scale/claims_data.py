"""Claims with columns of all kinds."""

import datetime as dt

import numpy as np
import pandas as pd

KINDS = {
    "number": "long",
    "claim": "string",
    "label": "int",
    "rooms": "long",
    "lawyer": "boolean",
    "opened": "date",
    "region": "string",
    "channel": "string",
    "amount": "double",
}


def claims(n, share, seed):
    """Claims with strings, categories, dates, nullable numbers and gaps; and which of them are fraud."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < share
    start = dt.date(2026, 1, 1)
    days = rng.integers(0, 200, n) + 60 * fraud
    rooms = pd.array(rng.integers(1, 6, n), dtype="Int64")
    rooms[rng.random(n) < 0.1] = pd.NA
    channel = np.where(rng.random(n) < 0.2 + 0.6 * fraud, "web", rng.choice(["desk", "post"], n))
    frame = pd.DataFrame(
        {
            "amount": np.exp(rng.normal(5 + 1.5 * fraud, 0.7)),
            "channel": np.where(rng.random(n) < 0.1, None, channel),
            "region": pd.Categorical(rng.choice(["north", "south"], n)),
            "opened": [start + dt.timedelta(days=int(day)) for day in days],
            "lawyer": rng.random(n) < 0.2,
            "rooms": rooms,
        }
    )
    return frame, fraud


def spark_records(frame):
    """Rows and their types, as Spark makes a frame of them: it knows neither NA nor categories of pandas."""
    records = [
        tuple(None if pd.isna(v) else v.item() if isinstance(v, np.generic) else v for v in row)
        for row in frame.astype(object).itertuples(index=False)
    ]
    return records, ", ".join(f"{name} {KINDS[name]}" for name in frame.columns)
