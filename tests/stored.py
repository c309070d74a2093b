"""Files of each schema that was ever written, with what their classifiers said when they were written.

    python -m tests.stored    # write the file of the present schema; only before its first release

A release must read the files of earlier ones (RELEASING.md), so a stored file is never rewritten after the
release that wrote its schema.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from drpu import (
    BoostedRatio,
    ClassifierRatio,
    DRPUClassifier,
    ElkanNotoClassifier,
    GenPUClassifier,
    KernelRatio,
    NetworkRatio,
    NNPUClassifier,
    PUaClassifier,
    PULDClassifier,
    UPUClassifier,
    VPUClassifier,
    save,
    verify,
)
from drpu.models.fourier import KernelScore
from drpu.networks.learner import NetworkScore

FOLDER = Path(__file__).parent / "files" / "stored"


def records():
    """Rows of a small table with numbers, categories, dates and gaps, and their labels."""
    rng = np.random.default_rng(0)
    rows, labels = [], []
    for i in range(240):
        positive = rng.random() < 0.4
        rows.append(
            {
                "amount": None if i % 17 == 0 else round(float(rng.lognormal(3 + 1.5 * positive)), 2),
                "kind": str(
                    rng.choice(["car", "home", "phone"], p=[0.2, 0.3, 0.5] if positive else [0.5, 0.3, 0.2])
                ),
                "day": f"2026-{1 + i % 12:02d}-{1 + i % 28:02d}",
            }
        )
        labels.append("yes" if positive and rng.random() < 0.6 else None)
    return rows, labels


TREES = ("auto", "boosted", "adapted", "at-prior", "at-budget", "answers", "periods")  # which accept gaps


def rows_of(name):
    """The rows for a kind of classifier: those without trees get 0 instead of a missing amount."""
    rows = records()[0]
    if name not in TREES:
        for row in rows:
            row["amount"] = row["amount"] or 0.0
    return rows


SINGLE = {"scenario": "single-sample", "random_state": 0}
NET = {"hidden": (4,), "epochs": 2, "batch_size": 60, "device": "cpu", "dtype": "float64"}
GAME = {"steps": 2, "hidden": (4,), "batch_size": 16, "n_generated": 20, "device": "cpu"}


def models():
    """A model of every kind that a classifier can have, small enough to be stored."""
    return {
        "auto": "auto",
        "boosted": BoostedRatio(leaves=4, n_rounds=10),
        "kernel": KernelRatio(width=1.0, ridge=0.1, n_centres=20),
        "classifier": ClassifierRatio(LogisticRegression()),
        "network": NetworkRatio(**NET),
    }


def rivals():
    """A classifier by each of the other methods."""
    smooth = KernelScore(20, ridge=0.01)
    return {
        "upu": UPUClassifier(smooth, prior=0.4, **SINGLE),
        "nnpu": NNPUClassifier(smooth, prior=0.4, **SINGLE),
        "pua": PUaClassifier(smooth, prior=0.4, test_prior=0.3, **SINGLE),
        "vpu": VPUClassifier(NetworkScore(**NET), **SINGLE),
        "genpu": GenPUClassifier(smooth, prior=0.4, **GAME, **SINGLE),
        "puld": PULDClassifier(smooth, rounds=2, prior=0.4, **SINGLE),
        "elkan-noto": ElkanNotoClassifier(LogisticRegression(), **SINGLE),
    }


def fitted():
    """A classifier of every kind, and of every way to decide, by its name."""
    rows, labels = records()
    frame = pd.DataFrame(rows)
    unfitted = rivals()
    for name, model in models().items():
        unfitted[name] = DRPUClassifier(model, holdout=2, random_state=0)
    classifiers = {}
    for name, classifier in unfitted.items():
        n = 60 if name == "auto" else len(rows)  # its forests are as large as there are rows
        classifiers[name] = classifier.fit(pd.DataFrame(rows_of(name)[:n]), labels[:n])

    boosted = classifiers["boosted"]
    classifiers["adapted"] = boosted.adapt(frame[120:])
    classifiers["at-prior"] = boosted.at_prior(0.2).at_cost(0.7)
    classifiers["at-budget"] = boosted.at_budget(10, of=frame)
    plan = boosted.plan_audit(frame, n=40, random_state=0)
    truth = np.array([row["amount"] is None or row["amount"] > 40 for row in rows])
    classifiers["answers"] = boosted.adapt(frame, audit=plan.answer(truth[plan.rows]))
    months = np.arange(len(rows)) // 80
    by_month = DRPUClassifier(models()["boosted"], holdout=2, random_state=0)
    classifiers["periods"] = by_month.fit(frame, labels, periods=months)
    return classifiers


def output_of(classifier, rows):
    """The probability of each row, or its score, by a classifier without probabilities."""
    if hasattr(classifier, "predict_proba"):
        return classifier.predict_proba(rows)[:, 1]
    return classifier.decision_function(rows)


def prior_of(classifier):
    """The prior that a classifier works at, which is a number in some of the other methods."""
    return float(classifier.prior_)


def main():
    FOLDER.mkdir(exist_ok=True)
    warnings.simplefilter("ignore")  # few positives
    for old in FOLDER.iterdir():
        old.unlink()
    for name, classifier in fitted().items():
        path = FOLDER / f"{name}.drpu"
        rows = rows_of(name)[:40]
        save(classifier, path)
        schema = verify(path, trusted=True).schema
        path = path.rename(FOLDER / f"schema-{schema}-{name}.drpu")
        expected = {
            "output": output_of(classifier, rows).tolist(),
            "label": classifier.predict(rows).tolist(),
            "prior": prior_of(classifier),
        }
        path.with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n")
        print("wrote", path.name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
