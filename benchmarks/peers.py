"""Accuracy, priors and time compared with other libraries.

    python -m benchmarks.peers [--seeds 10]

The protocol of ``benchmarks.shift`` with a single sample, on standardised rows. All classifiers are
fitted to the same rows and tested on the same rows, one after the other, so that times are
comparable. drpu does not require the other libraries; those not installed are left out and named:

    pip install pulearn==0.2.0 pu-toolbox==1.11.0 quapy==0.2.3
"""

from __future__ import annotations

import warnings
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import drpu
from benchmarks._peer_methods import PEERS, SINGLE, Contender, Sample, ours
from benchmarks._results import command_line, read_results, write_results
from benchmarks.shift import PRIORS, load
from drpu.datasets import draw_at_prior

MODULES = {"pulearn": "pulearn", "pu-toolbox": "pu_toolbox", "QuaPy": "quapy"}
DATA = ("digits", "breast_cancer")


def draw(X: Any, y: Any, seed: int) -> Sample:
    """Training rows of prior 0.5 with 30 % of the positives labelled, and three test samples."""
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    train = drpu.make_pu(X_train, y_train, prior=0.5, labelled=0.3, scenario=SINGLE, random_state=seed)
    scale = StandardScaler().fit(train.X).transform
    tests = [draw_at_prior(X_test, y_test, prior, random_state=seed) for prior in PRIORS]
    return Sample(scale(train.X), train.y, train.y_true, [(scale(rows), truth) for rows, truth in tests])


def installed() -> dict[str, str]:
    """Versions of the installed libraries; prints a line for every other one."""
    found = {}
    for library, module in MODULES.items():
        if find_spec(module) is None:
            print(f"{library} is not installed, so its rows are left out. Run: pip install {library.lower()}")
        else:
            found[library] = version(library)
    return found


def compete(contenders: list[Contender], sample: Sample, seed: int) -> list[dict[str, Any]]:
    """Results of all methods on one sample, with the times of the first; errors are kept as text."""
    rows: list[dict[str, Any]] = []
    for c in contenders:
        if c.seeds is not None and seed >= c.seeds:
            continue
        row: dict[str, Any] = {"library": c.library, "name": c.name, "told": c.told, "seed": seed}
        row["prior"] = sample.prior
        try:
            row |= asdict(c.run(sample, seed))
        except (ValueError, RuntimeError, TypeError) as error:
            row["error"] = f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
        rows.append(row)
    for row in rows:
        row["first_seconds"] = [rows[0]["fit_seconds"], rows[0]["predict_seconds"]]
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line per method, in order; times are compared with the first one."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["library"], row["name"], row["told"]), []).append(row)
    first = {row["seed"]: row for row in next(iter(groups.values()))}
    lines = []
    for (library, name, told), mine in groups.items():
        line = {"library": library, "name": name, "told": told, "seeds": len(mine)}
        errors = [row["error"] for row in mine if "error" in row]
        if errors:
            lines.append(line | {"failed": len(errors), "error": errors[0]})
        else:
            lines.append(line | _accuracies(mine, first) | _prior_errors(mine) | _times(mine))
    return lines


def _accuracies(mine: list[dict[str, Any]], first: dict[int, dict[str, Any]]) -> dict[str, Any]:
    if mine[0]["accuracy"] is None:
        return {}
    accuracy = np.array([row["accuracy"] for row in mine])
    means = accuracy.mean(axis=1)
    error = float(means.std(ddof=1) / np.sqrt(len(mine))) if len(mine) > 1 else None
    return {
        "accuracy": accuracy.mean(axis=0).tolist(),
        "accuracy_mean": float(means.mean()),
        "accuracy_standard_error": error,
        "ahead_of_first": int(np.sum(means > [np.mean(first[row["seed"]]["accuracy"]) for row in mine])),
    }


def _prior_errors(mine: list[dict[str, Any]]) -> dict[str, float]:
    errors = {}
    if mine[0]["train_prior"] is not None:
        errors["train_prior_error"] = np.mean([abs(row["train_prior"] - row["prior"]) for row in mine])
    if mine[0]["test_priors"] is not None:
        errors["test_prior_error"] = np.mean(np.abs(np.array([r["test_priors"] for r in mine]) - PRIORS))
    return {name: float(error) for name, error in errors.items()}


def _times(mine: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds of the first method divided by those of this one: the median over seeds."""
    first = np.array([row["first_seconds"] for row in mine])
    ratios = first / [[row["fit_seconds"], row["predict_seconds"]] for row in mine]
    return dict(zip(("fit_ratio", "predict_ratio"), np.median(ratios, axis=0).tolist(), strict=True))


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--again", nargs="+", default=[], help="libraries or classifiers to run again; other rows are kept"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # few positives are intended here, and other libraries warn often

    peers = installed()
    if not peers:
        print("None of the other libraries is installed; the result file is not changed.")
        return
    contenders = [*ours(), *(c for library in peers for c in PEERS[library]())]
    kept: dict[str, list[dict[str, Any]]] = {}
    if options.again:
        contenders = [contenders[0], *(c for c in contenders[1:] if {c.library, c.name} & {*options.again})]
        before = read_results("peers")
        peers = before["peers"] | peers
        kept = {
            name: [r for r in part["trials"] if not {r["library"], r["name"]} & {*options.again}]
            for name, part in before["sets"].items()
        }
    _import_all(peers)
    sets = {}
    command = f"python -m benchmarks.peers --seeds {options.seeds}"
    keeps_first = bool(kept) and not {contenders[0].library, contenders[0].name} & {*options.again}
    for name in DATA:
        X, y = load(name)
        new: list[dict[str, Any]] = []
        for seed in range(options.seeds):
            found = compete(contenders, draw(X, y, seed), seed)
            new += found[1:] if keeps_first else found
            print(f"{name}, seed {seed} done", flush=True)
        rows = [*kept.get(name, []), *new] if keeps_first else [*new, *kept.get(name, [])]
        sets[name] = {"summary": summary(rows), "trials": rows}
    again = sorted({*before.get("again", []), *options.again}) if options.again else []
    print("wrote", write_results("peers", command, again=again, peers=peers, priors=PRIORS, sets=sets))


def _import_all(peers: dict[str, str]) -> None:
    """Import everything now, so that import times are not part of fitting times."""
    for module in ("torch", "lightgbm", *(MODULES[library] for library in peers)):
        if find_spec(module) is not None:
            import_module(module)


if __name__ == "__main__":
    main()
