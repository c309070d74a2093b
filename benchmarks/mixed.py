"""Mixed tables without preprocessing, compared with one-hot columns made by hand.

    python -m benchmarks.mixed --data FOLDER [--seeds 5]

FOLDER holds Parquet files with a target column ``y``; those with columns of strings are used, and tables of
free text are left out. Protocol A of ``benchmarks.tables``: a single training sample of at most 4,000 rows
with half positives, 30 % of them labelled, and test samples with 20, 50 and 80 % positives. By
hand, a string column becomes indicators of its 30 most frequent levels and one for the others, and missing
values are replaced by medians. Both use the same rows. Times are processor seconds.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._results import command_line, write_results
from benchmarks._tables import draw, encode, generator, test_priors
from drpu import DRPUClassifier, make_pu
from drpu.exceptions import DRPUWarning

ROWS = 4000


def string_tables(folder: Path) -> dict[str, pd.DataFrame]:
    """Tables with columns of strings beside others."""
    frames = {path.stem: pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))}
    return {name: frame for name, frame in frames.items() if frame.shape[1] > 2 and _strings(frame)}


def _strings(frame: pd.DataFrame) -> int:
    return sum(not pd.api.types.is_numeric_dtype(dtype) for dtype in frame.dtypes)


def trial(name: str, frame: pd.DataFrame, hot: Any, seed: int) -> dict[str, dict[str, float]]:
    """Accuracy and seconds of both, on the same rows."""
    rng, y = generator(name, "mixed", seed), frame["y"].to_numpy().astype(int)
    order, cut = rng.permutation(len(y)), round(0.6 * len(y))
    first, second = order[:cut], order[cut:]
    train = first[draw(y[first], 0.5, ROWS, rng)]
    sample = make_pu(train[:, None], y[train], labelled=0.3, scenario="single-sample", random_state=seed)
    rows = sample.X[:, 0]
    tests = [second[draw(y[second], prior, ROWS, rng)] for prior in test_priors("A", 0.5)]
    ways = {"table": frame.drop(columns="y").iloc, "by_hand": hot}
    found = {}
    for way, source in ways.items():
        start = time.process_time()
        clf = DRPUClassifier(scenario="single-sample", random_state=seed).fit(source[rows], sample.y)
        seconds = time.process_time() - start
        accuracy = [np.mean(clf.adapt(source[test]).predict(source[test]) == y[test]) for test in tests]
        found[way] = {"accuracy": float(np.mean(accuracy)), "seconds": seconds}
    return found


def summary(trials: list[dict[str, dict[str, float]]]) -> dict[str, float]:
    """Means over seeds, and the gain of the table with its standard error."""
    accuracy, seconds = (
        {way: np.array([t[way][what] for t in trials]) for way in ("table", "by_hand")}
        for what in ("accuracy", "seconds")
    )
    gain = accuracy["table"] - accuracy["by_hand"]
    return {
        "accuracy_table": float(accuracy["table"].mean()),
        "accuracy_by_hand": float(accuracy["by_hand"].mean()),
        "gain": float(gain.mean()),
        "gain_standard_error": float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else 0.0,
        "fit_ratio": float(seconds["table"].sum() / seconds["by_hand"].sum()),
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of Parquet files with a target y")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", DRPUWarning)
    sets: dict[str, Any] = {}
    for name, frame in string_tables(options.data).items():
        hot = encode(frame.drop(columns="y"))
        trials = [trial(name, frame, hot, seed) for seed in range(options.seeds)]
        sets[name] = {"columns_of_strings": _strings(frame), "summary": summary(trials), "trials": trials}
        print(name, sets[name]["summary"], flush=True)
    command = f"python -m benchmarks.mixed --data FOLDER --seeds {options.seeds}"
    print("wrote", write_results("mixed", command, sets=sets))


if __name__ == "__main__":
    main()
