"""Known failures, measured: what happens where an assumption of the method is wrong.

    python -m benchmarks.wrong    # some minutes; writes benchmarks/results/wrong.json

**A group of mixed rows.** One group of rows can be told from all others, but nothing inside it tells
positives from negatives. It looks like a region of pure positives, so its share is read as the prior.

**Labels that are no fair sample.** Positives above the median of one column are labelled up to nine times as
often as those below. The classifier learns what labelled positives look like.

**Wrong answers.** Twenty rows are answered as planned, and a tenth of the answers is wrong. Where positives
are rare, most answers "yes" are then wrong.

**Other change.** Between training and new rows one column moves by one standard deviation, for both classes,
which no new prior explains. ``adapt`` with ``shift="prior"`` assumes that it does.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from benchmarks._results import command_line, write_results
from drpu import DRPUClassifier
from drpu.exceptions import DRPUWarning

Row = dict[str, Any]
Rows = tuple[np.ndarray, np.ndarray]

ROWS = 3000
COLUMNS = 5
RATE = 0.3
RUNS = 10


def gaussian_rows(rng: np.random.Generator, n: int, prior: float, separation: float) -> Rows:
    """Rows of two Gaussian classes, and their true classes."""
    truth = rng.random(n) < prior
    X = rng.normal(size=(n, COLUMNS))
    X[:, 0] += separation * truth
    return X, truth


def fit(X: np.ndarray, labelled: np.ndarray, seed: int) -> DRPUClassifier:
    """The default classifier of one table."""
    return DRPUClassifier(random_state=seed).fit(X, labelled.astype(int))


def prior_figures(clf: DRPUClassifier, truth: float) -> Row:
    """The training prior beside the true one."""
    prior = clf.prior_
    return {
        "prior": truth,
        "told": prior.value,
        "identified": prior.identified,
        "holds": prior.low <= truth <= prior.high,
    }


def mixed_group(seed: int, share: float, positive_inside: float) -> Row:
    """Training prior where positives are a fixed part of a group that is easy to recognise."""
    rng = np.random.default_rng(seed)
    inside = rng.random(ROWS) < share
    truth = inside & (rng.random(ROWS) < positive_inside)
    X = rng.normal(size=(ROWS, COLUMNS))
    X[:, 0] += 4 * inside
    clf = fit(X, truth & (rng.random(ROWS) < RATE), seed)
    return {"setting": f"{positive_inside:.0%} of the group positive", **prior_figures(clf, truth.mean())}


def unfair_labels(seed: int, ratio: float) -> Row:
    """Ranking and prior where the rate of labelling depends on a column."""
    rng = np.random.default_rng(seed)
    X, truth = gaussian_rows(rng, ROWS, 0.3, 2.0)
    rate = np.where(X[:, 1] > 0, 0.45, 0.45 / ratio)
    clf = fit(X, truth & (rng.random(ROWS) < rate), seed)
    X_new, truth_new = gaussian_rows(rng, ROWS, 0.3, 2.0)
    area = roc_auc_score(truth_new, clf.decision_function(X_new))
    return {
        "setting": f"rates differ by a factor of {ratio:g}",
        "auc": area,
        **prior_figures(clf, truth.mean()),
    }


def wrong_answers(seed: int, prior: float, error_rate: float) -> Row:
    """Prior of new rows by twenty answers, some of which are wrong."""
    rng = np.random.default_rng(seed)
    X, truth = gaussian_rows(rng, ROWS, 0.3, 3.0)
    clf = fit(X, truth & (rng.random(ROWS) < RATE), seed)
    X_new, truth_new = gaussian_rows(rng, ROWS, prior, 3.0)
    plan = clf.plan_audit(X_new, n=20, random_state=seed)
    answers = truth_new[plan.rows] ^ (rng.random(len(plan.rows)) < error_rate)
    later = clf.adapt(X_new, audit=plan.answer(answers.astype(int)))
    return {
        "setting": f"{error_rate:.0%} of the answers wrong",
        **prior_figures(later, truth_new.mean()),
        "accuracy": (later.predict(X_new) == truth_new).mean(),
    }


def other_change(seed: int, shift: str) -> Row:
    """Prior and accuracy after a column has moved."""
    rng = np.random.default_rng(seed)
    X, truth = gaussian_rows(rng, ROWS, 0.3, 2.0)
    clf = fit(X, truth & (rng.random(ROWS) < RATE), seed)
    X_new, truth_new = gaussian_rows(rng, ROWS, 0.3, 2.0)
    X_new[:, 0] += 1
    later = clf.adapt(X_new, shift=shift)
    return {
        "setting": f'`adapt(shift="{shift}")`',
        **prior_figures(later, truth_new.mean()),
        "accuracy": (later.predict(X_new) == truth_new).mean(),
    }


def failures() -> dict[str, list[Row]]:
    """Rows of all runs, by kind of failure."""
    runs = range(RUNS)
    return {
        "a group of mixed rows": [mixed_group(k, 0.3, inside) for k in runs for inside in (1.0, 0.5, 0.2)],
        "labels that are no fair sample": [
            unfair_labels(k, ratio) for k in runs for ratio in (1.0, 3.0, 9.0)
        ],
        "wrong answers at a prior of 2 %": [
            wrong_answers(k, 0.02, rate) for k in runs for rate in (0.0, 0.1)
        ],
        "a column that moved": [other_change(k, shift) for k in runs for shift in ("auto", "prior")],
    }


def means(rows: list[Row]) -> list[Row]:
    """Means over the runs of each setting, in the order of the settings."""
    frame = pd.DataFrame(rows)
    by_setting = frame.groupby("setting", sort=False).mean()
    records: list[Row] = by_setting.astype(float).reset_index().to_dict("records")
    return records


def main() -> None:
    parser = command_line(__doc__)
    parser.parse_args()
    warnings.simplefilter("ignore", DRPUWarning)  # what the library warns of is what is measured
    summary = {name: means(rows) for name, rows in failures().items()}
    for name, lines in summary.items():
        print(name)
        print(pd.DataFrame(lines).round(3).to_string())
    print("wrote", write_results("wrong", "python -m benchmarks.wrong", runs=RUNS, failures=summary))


if __name__ == "__main__":
    main()
