"""Free text as it is encoded by default, compared with the words of a sparse matrix.

    python -m benchmarks.text --data FOLDER [--seeds 5]

FOLDER holds ``sms_spam.parquet`` with columns ``text`` and ``y``. The second table is made here: the first
sentences of the documentation of installed packages, of which those of scipy are the positives. A single
training sample of at most 4,000 rows with half positives, 30 % of them labelled; the AUC is that of the rows
that are left. ``words`` is ``TfidfVectorizer`` before ``DRPUClassifier``, ``logistic`` the same with
``LogisticRegression`` as its model, ``text`` the table itself, and ``directions_N`` the same with another
number of directions. Times are processor seconds of fit and scores.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks._results import command_line, write_results
from benchmarks._tables import draw, generator
from drpu import DRPUClassifier, make_pu
from drpu.exceptions import DRPUWarning

ROWS = 4000
PACKAGES = ("scipy", "sklearn", "numpy", "pandas", "polars")
OTHERS = (25, 100)  # numbers of directions to compare with the default


def sentences() -> pd.DataFrame:
    """First sentences of the documentation of public functions, classes and methods; y is 1 for scipy."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        for member in _members(package):
            first = (inspect.getdoc(member) or "").strip().split("\n\n")[0]
            if len(first.split()) >= 4:
                found.setdefault(" ".join(first.split()), package)
    return pd.DataFrame({"text": list(found), "y": [int(name == "scipy") for name in found.values()]})


def _members(package: str) -> Iterator[Any]:
    for module in _modules(package):
        for value in [value for name, value in vars(module).items() if not name.startswith("_")]:
            if callable(value) and str(getattr(value, "__module__", "")).split(".")[0] == package:
                yield value
                names = vars(value) if inspect.isclass(value) else ()
                yield from (getattr(value, name) for name in names if not name.startswith("_"))


def _modules(package: str) -> Iterator[ModuleType]:
    whole = importlib.import_module(package)
    yield whole
    for info in pkgutil.iter_modules(whole.__path__, f"{package}."):
        if not info.name.rpartition(".")[2].startswith(("_", "test", "conftest")):
            yield importlib.import_module(info.name)


def ways() -> dict[str, Any]:
    """For each way, a function from the texts of training to a function that encodes texts."""

    def tfidf(texts: pd.DataFrame) -> Any:
        vectorizer = TfidfVectorizer().fit(texts["text"])
        return lambda frame: vectorizer.transform(frame["text"])

    def as_it_is(_: pd.DataFrame) -> Any:
        return lambda frame: frame

    encoded = dict.fromkeys(("text", *map(_name, OTHERS)), as_it_is)
    return {"words": tfidf, "logistic": tfidf, **encoded}


def _name(directions: int) -> str:
    return f"directions_{directions}"


def trial(name: str, frame: pd.DataFrame, seed: int) -> dict[str, dict[str, float]]:
    """AUC and seconds of each way, on the same rows."""
    rng, y = generator(name, "text", seed), frame["y"].to_numpy().astype(int)
    order, cut = rng.permutation(len(y)), round(0.6 * len(y))
    first, second = order[:cut], order[cut:]
    train = first[draw(y[first], 0.5, ROWS, rng)]
    sample = make_pu(train[:, None], y[train], labelled=0.3, scenario="single-sample", random_state=seed)
    texts, new = frame[["text"]].iloc[sample.X[:, 0]], frame[["text"]].iloc[second]
    found = {}
    for way, fit in ways().items():
        directions = int(way.rpartition("_")[2]) if way.startswith("directions") else 50
        model: Any = LogisticRegression() if way == "logistic" else "auto"
        start = time.process_time()
        with mock.patch("drpu.tables.text.DIRECTIONS", directions):
            rows = fit(texts)
            clf = DRPUClassifier(model, scenario="single-sample", random_state=seed)
            clf.fit(rows(texts), sample.y)
            scores = clf.decision_function(rows(new))
        seconds = time.process_time() - start
        found[way] = {"auc": float(roc_auc_score(y[second], scores)), "seconds": seconds}
    return found


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with sms_spam.parquet")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    tables = {"sms_spam": pd.read_parquet(options.data / "sms_spam.parquet"), "sentences": sentences()}
    results: dict[str, Any] = {}
    for name, frame in tables.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DRPUWarning)
            trials = [trial(name, frame, seed) for seed in range(options.seeds)]
        results[name] = {"rows": len(frame), "positives": int(frame["y"].sum())} | {
            way: {key: float(np.mean([one[way][key] for one in trials])) for key in ("auc", "seconds")}
            | {"auc_of_each_seed": [round(one[way]["auc"], 4) for one in trials]}
            for way in ways()
        }
        print(name, {way: round(results[name][way]["auc"], 4) for way in ways()}, flush=True)
    command = f"python -m benchmarks.text --data FOLDER --seeds {options.seeds}"
    print(write_results("text", command, seeds=options.seeds, tables=results))


if __name__ == "__main__":
    main()
