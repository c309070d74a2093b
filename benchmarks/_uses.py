"""Uses that few people try: one core, audits of equal rows and of small tables, and ONNX row by row."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from drpu import Audit, DRPUClassifier, KernelRatio, export_onnx, make_gaussian_pu
from drpu.exceptions import DRPUError

ROWS = 100_000  # rows of the comparison with ONNX


# -- one core --------------------------------------------------------------------------------------


def one_core(models: tuple[str, ...] = ("auto", "boosted", "kernel")) -> dict[str, Any]:
    """Rows whose ratio differs if all threads share one core, as in a small container."""
    X, y = make_gaussian_pu(200, 3000, prior=0.4, separation=2, random_state=0).X_y()
    cores = os.sched_getaffinity(0)
    results = {}
    for model in models:
        ratios = {}
        for n_jobs in (1, -1):
            if n_jobs == -1:
                os.sched_setaffinity(0, {min(cores)})
            try:
                clf = DRPUClassifier(model, holdout=3, random_state=0, n_jobs=n_jobs).fit(X, y)
                ratios[n_jobs] = clf.adapt(X).ratio(X)
            finally:
                os.sched_setaffinity(0, cores)
        results[model] = {"rows": len(X), "different": int((ratios[1] != ratios[-1]).sum())}
    return results


# -- audits ----------------------------------------------------------------------------------------


def odd_audits(trials: int, seed: int) -> dict[str, Any]:
    """Outcomes of audits of few rows, of equal rows, and of rows that are asked about twice."""
    data = make_gaussian_pu(100, 400, prior=0.4, separation=3, dimensions=2, random_state=0)
    model = KernelRatio(width=1.0, ridge=0.1, n_centres=10)
    clf = DRPUClassifier(model, holdout=2, random_state=0).fit_pu(data.positive, data.unlabeled)
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    faults = []
    for trial in range(trials):
        outcome = _odd_audit(clf, rng)
        counts[outcome if outcome in ("works", "refused") else "faults"] += 1
        if outcome not in ("works", "refused"):
            faults.append(f"trial {trial}: {outcome}")
    return {"trials": trials, **counts, "faults": len(faults), "examples": faults[:5]}


def _odd_audit(clf: Any, rng: np.random.Generator) -> str:
    n = int(rng.integers(1, 60))
    distinct = int(rng.integers(1, n + 1))
    X = rng.normal(1, 1.5, size=(distinct, 2))[rng.integers(0, distinct, n)]
    y = (X[:, 0] > rng.normal(1, 1)).astype(int)
    asked = int(rng.integers(1, n + 1))
    try:
        if rng.random() < 0.5:
            plan = clf.plan_audit(X, n=asked, random_state=int(rng.integers(1000)))
            if len(set(plan.rows.tolist())) != len(plan.rows):
                return "a row is planned twice"
            audit = plan.answer(y[plan.rows])
        else:
            rows = rng.integers(0, n, asked)  # some of them twice
            audit = Audit.random(rows, y[rows])
        prior = clf.adapt(X, audit=audit).prior_
    except DRPUError:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error!s:.200}"
    if not 0 <= prior.low <= prior.value <= prior.high <= 1:
        return f"the prior is {prior}"
    return "works"


# -- ONNX ------------------------------------------------------------------------------------------


def onnx_rows(models: tuple[str, ...] = ("boosted", "auto"), rows: int = ROWS) -> dict[str, Any]:
    """Rows of tables with texts, dates, gaps and unseen levels whose label differs in a graph."""
    import onnxruntime

    train = onnx_table(1500, 0, ["north", "south", "Ñuñoa", "007"])
    y = (train["amount"].fillna(0) + 2 * (train["ward"] == "north") > 2).to_numpy()
    new = onnx_table(rows, 1, ["north", "south", "Ñuñoa", "007", "unseen", "NORTH", ""])
    days = (new["day"] - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    feed = {
        "X.amount": new["amount"].to_numpy()[:, None],
        "X.ward": new["ward"].fillna("").to_numpy(dtype=object)[:, None],
        "X.day": days.to_numpy(dtype=np.float64)[:, None],
        "prior": np.array([0.3]),
        "cost": np.array([0.5]),
    }
    results = {}
    for model in models:
        clf = DRPUClassifier(model, holdout=2, random_state=0).fit(train, y).at_prior(0.3)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph.onnx"
            export_onnx(clf, path)
            session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
        label, probability = session.run(["label", "probability"], feed)
        expected = clf.predict_proba(new)[:, 1]
        results[model] = {
            "rows": rows,
            "other_label": int((label != clf.predict(new)).sum()),
            "probability_off": int((np.abs(probability - expected) > 1e-6).sum()),
            "largest_difference": float(np.abs(probability - expected).max()),
        }
    return results


def onnx_table(n: int, seed: int, wards: list[str]) -> Any:
    """A table with numbers, texts of few levels, dates and gaps."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 120 * 24, n), unit="h")
    frame = pd.DataFrame(
        {
            "amount": np.where(rng.random(n) < 0.1, np.nan, rng.normal(1, 1, n)),
            "ward": rng.choice(np.array([*wards, None], dtype=object), n),
            "day": days,
        }
    )
    return frame.mask(pd.DataFrame({"amount": False, "ward": False, "day": rng.random(n) < 0.05}))


def odd_uses(seed: int) -> dict[str, Any]:
    """All of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"one_core": one_core(), "audits": odd_audits(500, seed), "onnx": onnx_rows()}
