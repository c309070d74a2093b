"""The page about the paper, written from result files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paper.choice import how_chosen
from paper.configs import AUGMENTED, DATASETS, FLAVOURS, N_POSITIVE, TEST_PRIORS
from paper.figures import write_figures
from paper.published import ACCURACY, PRIOR_ERROR
from paper.sota import no_shift_text
from paper.store import RESULTS, read_results
from paper.tables import NAMES, Table, all_tables
from paper.timing import alone_seconds, km2_seconds, measured_seconds, projected_minutes

__all__ = ["page", "write_page"]

HEAD = """\
# The paper, run again

This page is written by `python -m paper page` from the files in `paper/results`, and `python -m paper
run` computes the results that are missing there.

<!-- results: paper_made -->

It shows the experiments of the DRPU paper in five flavours:

- **as-run** does what the authors' code does. The code never sets gradients to zero, so every step of
  Adam receives the sum of all gradients so far. Its positives of Fashion-MNIST include *Shirt*, not the
  *Bag* of the text, and its networks have batch norm. Two things differ from the code: a score equal to
  the threshold is a negative prediction, where the code counts it as correct for either label; and
  matrix products are computed in tf32, for CIFAR-10 in bfloat16.
- **as-written** follows the text: ordinary gradients, and no batch norm for MNIST. The text describes
  independent samples, which do not fit into 60,000 images, so the labelled rows are rows of U in every
  flavour.
- **ours** has the same networks and rows. It minimises the logistic Bregman risk for 20 epochs with
  AdamW, a weight decay of 1 and a cosine schedule, averages the weights and keeps the epoch with the
  lowest holdout risk. Ten such networks, from two learning rates and five strengths of the correction,
  are trained first. Their mean ratio, calibrated on holdout rows, gives each unlabeled row a weight as
  a positive, and one student network is trained on these weights in place of the labelled sample. That
  student is the model. Its ratio is calibrated, and both priors are the library's default estimates.
- **ours-augmented** has the same networks, trained on images that are shifted, mirrored or deformed at
  random.
- **beyond** has the same rows, labels and test sets, the library's residual network
  (`network="resnet9"`), augmented images, and teachers and students (`paper/teaching.py`). Except on
  Kuzushiji-MNIST, students also replace the weights of the rows by their own ratio while they train. The
  mean output of the last students is the model, its ratio is calibrated, and both priors are the
  library's default estimates.{folds}{before}
"""

FOLDS = """ The rows of a trial are divided into folds ({folds}), one model is
  fitted without each fold, and the mean calibrated ratio is used. `DRPUClassifier` with `holdout=5` does
  the same, except that it stops the training by other rows than those of the fold."""

BEFORE = """ Where a network is
  trained without labels first ({before}), all models start from it."""


def write_page(folder: Path = RESULTS, to: Path | None = None) -> None:
    """Write the page, and its figures beside it."""
    target = to or folder.parents[1] / "docs" / "paper.md"
    figures = write_figures(folder, target.parent / "images", prefix="paper-", kinds=["svg"])
    names = [path.name for path in figures]
    target.write_text(page(read_results(folder), names, choice=how_chosen(folder)))


def page(results: Sequence[dict[str, Any]], figures: Sequence[str] = (), *, choice: str = "") -> str:
    """The page as Markdown."""
    tables = all_tables(results)
    parts = [_head(results), "## In one table", summary(results).markdown(), _reading(results), _why(results)]
    parts = [part for part in [*parts, choice, no_shift_text(results)] if part]
    parts += ["## Accuracy in percent", _LEGEND]
    parts += [_shown(t) for name, t in tables.items() if name.startswith("accuracy")]
    parts += ["## AUC at a test prior of .6", tables["auc"].markdown()]
    parts += ["## Mean absolute error of the test prior"]
    parts += [_shown(t) for name, t in tables.items() if name.startswith("prior")]
    titles = {
        "paper-figure1.svg": "Figure 1. Decision boundaries of uPU and DRPU in the two synthetic settings.",
        "paper-figure2.svg": "Figure 2. Classification error by epoch.",
        "paper-figure3.svg": "Figure 3. Error against the number of labelled positives, prior known.",
    }
    parts += ["## Figures"] + [f"![{titles[name]}](images/{name})\n\n{titles[name]}" for name in figures]
    parts += ["The errors of figure 3 in percent, with the trials in brackets:", numbers(results).markdown()]
    return "\n\n".join([*parts, _times(results)]) + "\n"


def _head(results: Sequence[dict[str, Any]]) -> str:
    """The flavours, with what differs between the data sets of `beyond`."""
    own = [r for r in results if (r["experiment"], r["flavour"]) == ("benchmark", "beyond")]
    options = {NAMES[r["dataset"]]: r["settings"]["options"] for r in own}
    folds = ", ".join(f"{name}: {o['folds']}" for name, o in options.items() if o.get("folds", 1) > 1)
    before = ", ".join(f"{name}: {o['pretrain']} epochs" for name, o in options.items() if o.get("pretrain"))
    return HEAD.format(
        folds=folds and FOLDS.format(folds=folds), before=before and BEFORE.format(before=before)
    )


_LEGEND = """\
Mean ± standard deviation over trials; in brackets, the distance from the published number in standard errors
of the difference. Bold are, among the published columns and among ours, those that a one-sided t-test at 5 %
does not call worse than the best; for averages, the best."""


def summary(results: Sequence[dict[str, Any]]) -> Table:
    """Average accuracy, and mean error of the prior, of DRPU in every flavour."""
    table = Table("DRPU", ["data set", "", "paper", *(f"{f} (trials)" for f in FLAVOURS)])
    for dataset, data in DATASETS.items():
        own = [
            r
            for r in results
            if (r["experiment"], r["dataset"], r["method"], r["labels"])
            == ("benchmark", dataset, "drpu", data.labels)
        ]
        name = NAMES[dataset] + (" (reduced)" if any(r["protocol"] == "reduced" for r in own) else "")
        accuracy, errors = [], []
        for flavour in FLAVOURS:
            lines = [line for r in own if r["flavour"] == flavour for line in r["tests"]]
            n = len(lines) // len(TEST_PRIORS)
            right = [line["accuracy"] for line in lines]
            off = [abs(line["estimated_prior"] - line["test_prior"]) for line in lines]
            accuracy.append(f"{100 * np.mean(right):.2f} ({n})" if lines else "")
            errors.append(f"{np.mean(off):.4f} ({n})" if lines else "")
        published = 100 * np.mean([ACCURACY[dataset, p, "drpu"][0] for p in TEST_PRIORS])
        error = np.mean([PRIOR_ERROR[dataset, p, "drpu"][0] for p in TEST_PRIORS])
        table.add([name, "accuracy, average", f"{published:.2f}", *accuracy])
        table.add(["", "error of the test prior", f"{error:.4f}", *errors])
    return table


def numbers(results: Sequence[dict[str, Any]]) -> Table:
    """The numbers of figure 3: error in percent by the number of labelled positives."""
    table = Table("", ["data set", "flavour", "method", *(f"{n:,} positives" for n in N_POSITIVE)])
    cells: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    for r in results:
        if r["experiment"] == "n_positive":
            own = cells.setdefault((r["dataset"], r["flavour"], r["method"]), {})
            own.setdefault(r["n_positive"], []).append(100 * (1 - r["tests"][0]["accuracy"]))
    for (dataset, flavour, method), own in cells.items():
        texts = [f"{np.mean(own[n]):.2f} ({len(own[n])})" if n in own else "" for n in N_POSITIVE]
        table.add([NAMES[dataset], flavour, NAMES[method], *texts])
    return table


def _reading(results: Sequence[dict[str, Any]]) -> str:
    """Which cells of the as-run flavour lie within two published standard deviations, in words."""
    cells = []
    for dataset, data in DATASETS.items():
        for prior in TEST_PRIORS:
            values = [
                line["accuracy"]
                for r in results
                for line in r["tests"]
                if (r["experiment"], r["dataset"], r["method"], r["flavour"], r["labels"], r["protocol"])
                == ("benchmark", dataset, "drpu", "as-run", data.labels, "full")
                and line["test_prior"] == prior
            ]
            if values:
                mean, spread = ACCURACY[dataset, prior, "drpu"]
                cells.append((f"{NAMES[dataset]} at {prior:g}", (np.mean(values) - mean) / spread))
    outside = [f"{name} ({distance:+.1f})" for name, distance in cells if abs(distance) > 2]
    count = f"{len(cells) - len(outside)} of {len(cells)}"
    within = f"As run, {count} cells lie within two published standard deviations"
    if outside:
        within += "; outside, in standard deviations: " + ", ".join(outside)
    return (
        f"{within}. The published tables agree with accumulated gradients and with the Shirt labels. "
        "Kuzushiji-MNIST has a reduced protocol: only its 10,000 test images were available, of which "
        "7,000 are used for training and 3,000 for testing. Compare its numbers with each other only, not "
        "with those of the paper. Ten trials are planned for the augmented flavours; where a "
        "bracket has fewer, the time on the GPU ran out."
    )


WHY = """\
## Why they differ

- **Gradients that are never set to zero** act as momentum without decay. Adam divides by their size, so
  every step of 2e-5 has the direction of the sum over all batches so far. With ordinary
  gradients at the same rate, errors are still high after the last epoch (figure 2), and on MNIST {dead}
  trials end with a ratio of 0 for every row, because no ReLU output is positive; this explains the
  spread. nnPU and PUa, for which the text has a larger rate there, do not have this problem.
- **Shirt or Bag** is a different problem: with Bag among the positives every flavour is less accurate,
  and the published accuracy is not reached.
- **VPU** depends on which epoch is kept. Its curves in figure 2 show every epoch, and the errors rise. The
  tables use the epoch with the lowest holdout risk and do not show this.
- **Ours** trains for a short time with larger steps, a large weight decay and averaged weights.
  Networks overfit the few labelled positives early: of 20 epochs the median epoch with the lowest
  holdout risk is {first} for networks trained on the labelled rows, and {student} for students, which are
  trained on all unlabeled rows.
"""


def _why(results: Sequence[dict[str, Any]]) -> str:
    """Explanation of the differences; "" without results of ours."""
    own = [r for r in results if (r["experiment"], r["flavour"]) == ("benchmark", "ours") and "final" in r]
    if not own:
        return ""
    first, student = [], []
    for dataset in dict.fromkeys(r["dataset"] for r in own):
        of_set = [r for r in own if r["dataset"] == dataset]
        epochs = [network["best_epoch"] for r in of_set for network in r["networks"]]
        first.append(f"{np.median(epochs):.0f} ({NAMES[dataset]})")
        student.append(f"{np.median([r['final']['best_epoch'] for r in of_set]):.0f} ({NAMES[dataset]})")
    written = [
        r["tests"]
        for r in results
        if (r["experiment"], r["dataset"], r["method"], r["flavour"])
        == ("benchmark", "mnist", "drpu", "as-written")
    ]
    dead = f"{sum(all(line['auc'] == 0.5 for line in tests) for tests in written)} of {len(written)}"
    return WHY.format(first=", ".join(first), student=", ".join(student), dead=dead)


def _shown(table: Table) -> str:
    return f"### {table.title}\n\n{table.markdown()}"


def _times(results: Sequence[dict[str, Any]]) -> str:
    table = Table("", ["data set", "method", "seconds a trial"])
    for (dataset, method), seconds in sorted(measured_seconds(results).items()):
        table.add([NAMES[dataset], NAMES[method], f"{seconds:.2f}"])
    minutes = projected_minutes(results)
    parts = ", ".join(f"{NAMES[d]} {m:.1f}" for d, m in minutes.items())
    km2 = ", ".join(f"{NAMES[d]} {s:.0f} s" for d, s in km2_seconds(results).items())
    ours = ", ".join(f"{NAMES[d]} {s:.1f} s" for (d, _), s in measured_seconds(results, "ours").items())
    text = [
        "## Time on one H200",
        "Seconds of training for one trial as run, with ten trials at a time (CIFAR-10: three to five); "
        "a trial of PUa has four models. The time for loading and scoring rows is not included.",
        table.markdown(),
    ]
    if alone := alone_seconds(results, "cifar10"):
        text.append(
            f"A network of CIFAR-10 that is trained alone takes {alone[0]:.1f} to {alone[-1]:.1f} s "
            "(those of figure 3)."
        )
    if ours:
        text.append(f"A trial of ours, eleven networks of 20 epochs and their scores: {ours}.")
    for flavour in AUGMENTED:
        for shared, where in ((False, ""), (True, ", beside other trials on the same GPU")):
            found = measured_seconds(results, flavour, protocols=("full", "reduced"), shared=shared)
            if found:
                each = ", ".join(f"{NAMES[d]} {s:.0f} s" for (d, _), s in found.items())
                text.append(f"A trial of {flavour}, all its networks{where}: {each}.")
    text.append(
        f"Four methods, ten trials and four data sets take about {sum(minutes.values()):.0f} minutes "
        f"({parts}). This is a projection: ten times the seconds of one trial. Methods that were not run on "
        "a data set are counted by their batches and models, and Kuzushiji-MNIST is counted as "
        f"Fashion-MNIST. KM2 is not included: the five priors of one trial took {km2} on one core of "
        "that machine, with ten or more trials at a time."
    )
    return "\n\n".join(text)
