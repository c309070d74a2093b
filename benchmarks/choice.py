"""Which settings of boosted trees are best where held-out rows stop them.

    python -m benchmarks.choice [--rows 20000 60000] [--structures 2] [--processes 8] [--records FILE]

Each setting differs in one parameter from the default of ``BoostedRatio``. AUC is that on new
rows, and is given as the difference to the default on the same rows, averaged over six laws
that appear in no other table. A tenth of the rows are labelled positives.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._choice_laws import LAWS, draw
from benchmarks._results import command_line, write_results
from benchmarks._scale_data import first_labelled
from benchmarks._scale_run import Runner, Task, command_of, key

TEST_ROWS = 30_000
SETTINGS: dict[str, Task] = {
    "default": {},
    "half of the columns": {"column_share": 0.5},
    "80 % of the columns": {"column_share": 0.8},
    "all rows in each tree": {"row_share": 1.0},
    "learning rate 0.1": {"learning_rate": 0.1},
    "learning rate 0.03": {"learning_rate": 0.03},
    "32 leaves": {"leaves": 32},
    "50 rows a leaf": {"min_leaf": 50},
    "l2 = 5": {"l2": 5.0},
}


def fit_choice(task: Task) -> Task:
    """AUC, rounds and seconds of every setting on the same rows."""
    from sklearn.metrics import roc_auc_score

    from drpu import BoostedRatio
    from drpu.models.boosted import BoostedFunction

    law, structure = task["law"], task["structure"]
    X, y = draw(law, task["rows"], 0, structure)
    label = first_labelled(y, len(y) // 10) == 1
    new, truth = draw(law, TEST_ROWS, 1, structure)
    found: Task = {}
    for name, settings in SETTINGS.items():
        start = time.process_time()
        function = BoostedRatio(random_state=0, **settings).fit_ratio(X[label], X[~label])
        assert isinstance(function, BoostedFunction)
        seconds = time.process_time() - start
        auc = float(roc_auc_score(truth, function.log_ratio(new)))
        found[name] = {"auc": auc, "rounds": function.n_rounds, "seconds": seconds}
    return found


def summary(tasks: list[Task], known: dict[str, Task]) -> list[Task]:
    """Mean difference to the default, the worst one, and the mean cost, for each size and setting."""
    rows = []
    for n in sorted({task["rows"] for task in tasks}):
        found = [known[key(task)] for task in tasks if task["rows"] == n and key(task) in known]
        for name in SETTINGS if found else ():
            gains = [one[name]["auc"] - one["default"]["auc"] for one in found]
            cost = np.mean([one[name]["seconds"] / one["default"]["seconds"] for one in found])
            entry: Task = {"rows": n, "setting": name, "cases": len(found), "gain": float(np.mean(gains))}
            rows.append(entry | {"least": min(gains), "most": max(gains), "cost": float(cost)})
    return rows


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 60_000])
    parser.add_argument("--structures", type=int, default=2)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--records", type=Path, help="file of finished measurements")
    options = parser.parse_args()
    tasks: list[Task] = [
        {"kind": "choice", "law": law, "rows": n, "structure": structure}
        for structure in range(options.structures)
        for n in options.rows
        for law in LAWS
    ]
    known = Runner(options.processes, records=options.records).all(tasks)
    content: dict[str, Any] = {"laws": list(LAWS), "summary": summary(tasks, known)}
    print("wrote", write_results("choice", command_of("choice"), **content))


if __name__ == "__main__":
    main()
