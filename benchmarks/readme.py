"""Write the numbers and the picture of README from result files: ``python -m benchmarks.readme``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import read_results
from benchmarks.shift import PRIORS
from paper.configs import DATASETS, TEST_PRIORS
from paper.published import ACCURACY
from paper.store import read_results as read_paper_results

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
NAMES = {"digits": "digits, even or odd", "breast_cancer": "breast cancer, malignant or benign"}
IMAGES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}


def table() -> str:
    """Accuracy of the default when the prior changes and is not given."""
    shift = read_results("shift")
    seeds = len(shift["sets"]["digits"]["trials"])
    lines = [
        "One training sample with 50 % positives, 30 % of them labelled; unlabeled test samples with 20, 50 "
        f"and 80 % positives; {seeds} seeds; no prior is given (`{shift['command']}`).",
        "",
        "| accuracy | as trained | adapted | both priors known | error of the test prior | processor time |",
        "|---|---|---|---|---|---|",
    ]
    for name, title in NAMES.items():
        s = shift["sets"][name]["summary"]
        lines.append(
            f"| {title} | {s['accuracy_as_trained']:.1%} "
            f"| **{s['accuracy']:.1%}** ± {s['accuracy_standard_error']:.1%} "
            f"| {s['accuracy_priors_known']:.1%} | {s['test_prior_error']:.3f} | {s['fit_seconds']:.1f} s |"
        )
    made = "[Commit and command of each result](docs/benchmarks.md#when-each-result-was-made)."
    return "\n".join([*lines, "", *month_lines(), "", *paper_lines(), "", made])


def month_lines() -> list[str]:
    """Accuracy and error of the prior in real periods, where more than the prior moves."""
    found = read_results("months")["protocols"]
    rules = ("as trained", "prior shift", "auto", "auto, labels")
    n_tables = found["next"]["30%"]["estimated"]["auto"]["all"]["tables"]
    lines = [
        f"{n_tables} tables with real periods, in which more than the prior moves; 30 % of the positives "
        "labelled: accuracy / error of the prior ([docs/months.md](docs/months.md) has every table).",
        "",
        "| | as trained | prior shift assumed | `adapt` | `adapt` with labels that arrived |",
        "|---|---|---|---|---|",
    ]
    for protocol, title in (
        ("next", "the next period"),
        ("far", "the last two periods, fitted to the first"),
    ):
        rows = [found[protocol]["30%"]["estimated"][rule]["all"] for rule in rules]
        cells = [f"{row['accuracy']:.1%} / {row['error']:.3f}" for row in rows]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def paper_lines() -> list[str]:
    """Accuracy in the paper's benchmark: published, its code run again, and drpu's two recipes."""
    results = [r for r in read_paper_results() if (r["experiment"], r["method"]) == ("benchmark", "drpu")]
    lines = [
        "The experiments of the paper, run again on a GPU: accuracy in percent, mean of four test priors "
        "(`make paper`; [docs/paper.md](docs/paper.md) has all tables and how our recipes were chosen). "
        "The last column, `beyond`, has the same rows and labels, a residual network and augmented images.",
        "",
        "| accuracy | published | its code, run again | drpu, same networks | drpu, `beyond` (trials) |",
        "|---|---|---|---|---|",
    ]
    for dataset, title in IMAGES.items():
        labels = DATASETS[dataset].labels
        cells = [f"{100 * np.mean([ACCURACY[dataset, prior, 'drpu'][0] for prior in TEST_PRIORS]):.1f}"]
        for flavour in ("as-run", "ours", "beyond"):
            own = [
                r for r in results if (r["dataset"], r["flavour"], r["labels"]) == (dataset, flavour, labels)
            ]
            cells.append(f"{100 * np.mean([line['accuracy'] for r in own for line in r['tests']]):.1f}")
        lines.append(f"| {title} | {' | '.join(cells[:-1])} | **{cells[-1]}** ({len(own)}) |")
    return lines


def filled(readme: str) -> str:
    """The README with the current results between the markers."""
    head, rest = readme.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


def draw(path: Path) -> None:
    """Draw the estimated priors of all seeds, and accuracy with and without adapting."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shift = read_results("shift")
    figure, axes = pyplot.subplots(1, 4, figsize=(12, 3), layout="constrained", width_ratios=(1, 1, 1, 1))
    for (name, title), (left, right) in zip(NAMES.items(), (axes[:2], axes[2:]), strict=True):
        trials = shift["sets"][name]["trials"]
        _priors(left, trials, title)
        _accuracy(right, trials, title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _priors(axis: Any, trials: list[dict[str, Any]], title: str) -> None:
    found = np.array([trial["test_priors"] for trial in trials])
    jitter = np.linspace(-0.02, 0.02, len(trials))
    axis.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for column, prior in zip(found.T, PRIORS, strict=True):
        axis.plot(prior + jitter, column, ".", color="tab:blue", markersize=4)
    axis.set(xlim=(0, 1), ylim=(0, 1), xlabel="true prior", ylabel="estimated prior")
    axis.set_title(title, fontsize=9)


def _accuracy(axis: Any, trials: list[dict[str, Any]], title: str) -> None:
    for key, label, style in (
        ("accuracy_as_trained", "as trained", "o--"),
        ("accuracy", "adapted", "o-"),
        ("accuracy_known", "priors known", "o:"),
    ):
        axis.plot(PRIORS, np.mean([trial[key] for trial in trials], axis=0), style, label=label, markersize=4)
    axis.set(xlabel="true prior", ylabel="accuracy", xlim=(0, 1), ylim=(0.9, 1))
    axis.set_title(title, fontsize=9)
    axis.legend(frameon=False, fontsize=8, loc="upper center")


def main() -> None:
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text()))
    draw(ROOT / "docs" / "images" / "shift.png")
    print("wrote README.md and docs/images/shift.png")


if __name__ == "__main__":
    main()
