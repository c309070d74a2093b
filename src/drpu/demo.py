"""A demonstration: ``python -m drpu.demo``.

Trains on scikit-learn's digits (even against odd, 30 % of the even ones labelled),
changes the share of even digits, and adapts to it: first in this process, then from a
saved file in a new process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from drpu._checks import require
from drpu.classifier.drpu import DRPUClassifier
from drpu.datasets import PUSample, draw_at_prior, make_pu
from drpu.files.store import load, save
from drpu.plots import PriorDisplay
from drpu.priors.estimate import PriorEstimate
from drpu.report.page import write_report

PRIORS = (0.2, 0.5, 0.8)
SEED = 0

INTRO = """\
Even or odd? {labelled} digits are labelled as even, {unlabeled} are not labelled, \
none is labelled as odd.
Share of even digits in training: {truth:.2f}; estimated: {estimate}
"""
HEAD = """\
  share of even digits                        accuracy
  true   est.    95% interval        as trained   adapted   both known"""
OUTRO = """
"as trained" uses the threshold of training. "adapted" estimates the new share from the unlabeled
test digits. "both known" is given the true shares, which is the goal of adapting.
"""


class Row(NamedTuple):
    """Results at one share of positives."""

    truth: float
    estimate: PriorEstimate
    as_trained: float
    adapted: float
    known: float

    def __str__(self) -> str:
        interval = f"[{self.estimate.low:5.3f}, {self.estimate.high:5.3f}]"
        estimate = f"{self.estimate.value:5.3f}   {interval}"
        accuracies = f"{self.as_trained:10.1%}   {self.adapted:7.1%}   {self.known:10.1%}"
        return f"  {self.truth:4.2f}   {estimate}      {accuracies}"


def main(arguments: list[str] | None = None) -> None:
    """Train, change the prior, adapt, save, load, adapt again; print a table and draw it."""
    parser = argparse.ArgumentParser(prog="python -m drpu.demo", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("demo"), help="folder for the files (default: demo)"
    )
    parser.add_argument("--again", type=Path, help=argparse.SUPPRESS)  # the second process
    options = parser.parse_args(arguments)
    if options.again:
        _adapt_again(options.again)
        return

    options.out.mkdir(parents=True, exist_ok=True)
    train, X_test, y_test = _data()
    clf = DRPUClassifier(scenario="single-sample", random_state=SEED).fit(train.X, train.y)
    counts = {"labelled": train.y.sum(), "unlabeled": (train.y == 0).sum()}
    print(INTRO.format(**counts, truth=train.prior, estimate=clf.prior_))

    knows_prior = DRPUClassifier(scenario="single-sample", prior=train.prior, random_state=SEED)
    knows_prior.fit(train.X, train.y)
    samples = _test_samples(X_test, y_test)
    rows = [_row(clf, knows_prior, X, y) for X, y in samples]
    print(HEAD, *rows, OUTRO, sep="\n")

    artifact = options.out / "digits.drpu"
    save(clf, artifact)
    size = f"{artifact.stat().st_size / 1e6:.1f} MB, no training rows"
    print(f"Saved to {artifact} ({size}). In a new process:", flush=True)
    subprocess.run([sys.executable, "-m", "drpu.demo", "--again", str(artifact)], check=True)

    picture = options.out / "shift.png"
    _draw(rows, picture)
    print(f"\nPicture: {picture}")
    page = options.out / "report.html"
    X_rarer, _ = samples[0]
    write_report(clf, X_rarer, page, title="Even digits, rarer than in training")
    print(f"Page:    {page}, with sliders. Open it in a browser; it needs no network.")


def _adapt_again(artifact: Path) -> None:
    """Adapt with the file and new rows only, as on another machine."""
    clf = load(artifact)
    _, X_test, y_test = _data()
    for X, y in _test_samples(X_test, y_test):
        adapted = clf.adapt(X)
        accuracy = float(np.mean(adapted.predict(X) == y))
        print(f"  share of even digits {adapted.prior_}, accuracy {accuracy:.1%}")


def _data() -> tuple[PUSample, Any, Any]:
    """The training sample, and the rows and labels for tests."""
    X, digit = load_digits(return_X_y=True)
    y = (digit % 2 == 0).astype(int)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=SEED
    )
    train = make_pu(X_train, y_train, prior=0.5, labelled=0.3, random_state=SEED)
    return train, X_test, y_test


def _test_samples(X: Any, y: Any) -> list[tuple[Any, Any]]:
    return [draw_at_prior(X, y, prior, random_state=SEED) for prior in PRIORS]


def _row(clf: DRPUClassifier, knows_prior: DRPUClassifier, X: Any, y: Any) -> Row:
    def accuracy(classifier: Any) -> float:
        return float(np.mean(classifier.predict(X) == y))

    truth = float(y.mean())
    adapted = clf.adapt(X)
    known = accuracy(knows_prior.at_prior(truth))
    return Row(truth, adapted.prior_, accuracy(clf), accuracy(adapted), known)


def _draw(rows: list[Row], path: Path) -> None:
    """Write a picture of the estimated shares, and of accuracy with and without adapting."""
    module = require("matplotlib.figure", extra="report", for_="the picture of the demo")
    figure = module.Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    truths = [row.truth for row in rows]
    accuracies = np.array([[row.as_trained, row.adapted, row.known] for row in rows])
    PriorDisplay({f"true {row.truth:.0%}": row.estimate for row in rows}).plot(left)
    left.plot(range(len(rows)), truths, "kx", label="true share")
    left.legend(frameon=False)
    right.plot(truths, accuracies[:, 0], "o--", label="as trained")
    right.plot(truths, accuracies[:, 1], "o-", label="adapted")
    right.plot(truths, accuracies[:, 2], "o:", label="known")
    right.set(xlabel="true share of positives", ylabel="accuracy", ylim=(0.85, 1))
    right.legend(frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
