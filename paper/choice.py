"""The part of the page that explains how flavours were chosen, with the risks that were compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paper.augmented import (
    FIRST,
    WITH_LABELS,
    Choices,
    choose_candidate,
    comparable,
    folds_of,
    mean_risk,
    read_choices,
)
from paper.compare import best_strategy
from paper.configs import DATASETS, TEST_PRIORS
from paper.select import choose
from paper.store import read_results
from paper.strategies import STRATEGIES
from paper.tables import NAMES, Table

__all__ = ["how_chosen"]

BEFORE = ("one-split", "three-folds", "five-folds")  # folders of earlier results of `beyond`

CHOICE = """\
## How ours was chosen

The recipe was chosen in two steps by the risk on held-out rows, in trials that are not in the tables.
`python -m paper select` compared generators, epochs, learning rates and decays by the risk of calibrated
scores on holdout rows (`paper/results/selection.json`); over all data sets the best was **{setting}**.
With these settings `python -m paper compare` compared several strategies: the best of five networks, the
best of ten at two learning rates, or a student network trained on the ratio of the best one or on the
mean ratio. The risk of the calibrated ratio was computed on a tenth of the unlabeled training rows, which
was not used in training (`paper/results/strategies.json`). Mean over trials, lower is better:

{risks}

Over all data sets the best was **{strategy}**. The choice was passed from one command to the next on
the machine that ran the tables, before any test result of a student was known, and nothing was changed
after that.

Earlier choices were not blind. Earlier tables of ours showed the best of ten networks (the second line
above; its results are in `paper/results/best-of-ten`, from two runs that were joined; `python -m paper
run --flavour ours --strategy "two rates"` with another `--out` computes similar ones in one run), and
students were tried because better results were wanted. Both, with the better number in bold:

{beside}

Among priors that were equally good on other data, the library's default is one that did well with those
earlier networks on MNIST and CIFAR-10, which may favour their column.
"""

AUGMENTED_CHOICE = """\
## How the augmented flavours were chosen

That a residual network, augmentation and several rounds help was known from a few earlier models, which had
been scored on test images, and so was, for `beyond` on Fashion-MNIST and CIFAR-10, that more channels and
epochs help. The recipes that these two had before are not compared here again. Candidates of
`beyond` with three or more teachers were added when test results of the others were known, because better
ones were wanted.

`python -m paper choose` fitted a small number of candidates for each data set in trials from {first} on,
which no table has, and without a tenth of their unlabeled training rows (`paper/results/choice`). Two risks
of the calibrated ratio were computed on rows that a candidate was not trained on. The **risk** needs no
labels: it is that of the held-out positives, the held-out unlabeled rows and the tenth that was left out,
of which each half is calibrated by the other. The **risk with labels** uses the true labels of that tenth.
The candidate in bold was used for the tables. Among those with the most trials, and with folds if there are
any, it has the lowest risk, or, where that was not computed, the lowest risk with labels. Trials differ more
than candidates, so risks are comparable only between candidates with the same number of trials. A candidate
with folds fits one model without each fold, so that every labelled row is held out once. Its risk is that of
these models, each on the rows that it has not seen, and cannot be compared with the risk of a candidate
without folds; its risk with labels is that of their mean. Folds come before other candidates by reasoning,
not by a comparison: more held-out positives make the estimated prior and the threshold more precise.

{risks}

{agreement}
With so few trials, a small difference in risk can be chance. `paper/configs.py` has the options of each
candidate, and `python -m paper run` stops where no candidate has been chosen. `ours-augmented` was run at
7dcf9bb, and `beyond` after that: first on Kuzushiji-MNIST and with few labels, then on MNIST, on CIFAR-10
and last on Fashion-MNIST. In `beyond` the test priors are estimated as `adapt` does, which allows
for the error of the training prior. The other results of ours treat the estimated training prior as if it
were known. `beyond` was scored last with a rule for the prior of very well separated classes that was new.
That the old one was too low was first seen in these results; the new one was chosen on tables without images
(`python -m benchmarks.central --choose`).
{folds}{continued}{tried}{exception}"""

FOLDS = """
Folds were introduced, and then their number was raised, when the results before were known: those of one
split of the rows, with 500 held-out positives (`paper/results/one-split`), and on MNIST those of three folds
(`paper/results/three-folds`). The recipe of one split had no share of labelled rows, and other teachers and
students. In the same way, training without labels was tried on Fashion-MNIST when the results of five folds
were known (`paper/results/five-folds`). Accuracy and error of the test prior in the same trials:

{before}

The candidate with training without labels (`NetworkRatio(pretrain=80)`) learns first from all unlabeled
images of a trial which views show the same image, and its folds start from this network. So a row that a
fold holds out was seen before, without its label, and the risk of this candidate may be a little too low.
The tenth of the rows that its risk with labels is computed on was never seen, and neither were the test
images.
"""

CONTINUED = """
On {case} the first {trials} trials of the candidates without folds did not decide. Their mean risks were
{risks}. *{lowest}* was ahead of
*{other}* by {ahead:.4f}, with a standard error of {spread:.4f}, and these two were run in {more} more
trials. When they were picked, the risks with labels of the first trials were known, so this choice was not
entirely blind.
"""

TRIED = """
More was tried for `beyond` than was used (`paper/results/tried`, where a line with a risk has the options).
Candidates without a risk were compared in one trial before that risk existed.

{risks}

The candidate of CIFAR-10, whose first rounds had 20 epochs, had a higher risk than the two before it and was
left out after one trial. On Kuzushiji-MNIST the candidate with the lowest of these
risks, with teachers of 30 epochs, was run in {trials} trials of the tables, and was then left because it was
less accurate there than the recipe before it, a decision that used test results. Its accuracy was
{accuracy:.2f}; the candidate that was chosen since then has {earlier:.2f} in the same trials.

Some candidates of Fashion-MNIST had options that were removed, because they were not better: weights closer
to 0 and 1 (*sharpness*); weights from the mean ratio of the last three refreshes, from the other student, or
from a student that is not trained on the row; changes of contrast; rectangles of noise; a border; and a
network of 18 layers. Those of 30 epochs were compared with each other, with 32 channels unless the name says
otherwise. Except that the network of 18 layers was worse, they differ less than two trials do.

One was better by both risks and in both trials: *80 epochs without labels*. It was computed with a first
version, whose views had no shift, and led to the candidate with folds that is used now.
"""

EXCEPTION = """
`ours-augmented` on Fashion-MNIST is an exception. Its first two candidates had cutout and mixup, as for
`beyond`, and **{first}** had the lower risk. Its {trials} trials had an average accuracy of
{accuracy:.2f} and an error of the test prior of {error:.4f} (`paper/results/first-choice`), no better than
without augmentation. Three more candidates, with weaker changes of the images, were then judged by the
same risk, and the best of all five is the one in the tables. The choice was made by the risk, but more
candidates were tried because a test result was known.
"""


def how_chosen(folder: Path) -> str:
    """How ours and the augmented flavours were chosen, with the risks that were compared; "" without any."""
    return "\n\n".join(part for part in (_ours_chosen(folder), _augmented_chosen(folder)) if part)


def _augmented_chosen(folder: Path) -> str:
    choices = read_choices(folder)
    if not choices:
        return ""
    chosen = {key: choose_candidate(tried) for key, tried in choices.items()}
    return AUGMENTED_CHOICE.format(
        first=FIRST,
        risks=_risks(choices, chosen).markdown(),
        agreement=_agreement(choices, chosen),
        folds=_folds(folder),
        continued="".join(_continued(key[1], tried) for key, tried in choices.items()),
        tried=_tried(folder),
        exception=_exception(folder),
    )


def _risks(choices: Choices, chosen: Mapping[tuple[str, str], str]) -> Table:
    """Both risks of every candidate, with those that were chosen in bold."""
    table = Table("", ["flavour", "data set", "candidate", "risk", "risk with labels", "trials"])
    for (flavour, case), tried in choices.items():
        for name, own in tried.items():
            means = [mean_risk(own), mean_risk(own, WITH_LABELS)]
            texts = ["" if mean is None else f"{mean:.4f}" for mean in means]
            bold = [2, 3, 4] if name == chosen.get((flavour, case)) else []
            table.add(
                [flavour, _case(case), name, *texts, str(len(own))], [i for i in bold if i != 3 or texts[0]]
            )
    return table


def _agreement(choices: Choices, chosen: Mapping[tuple[str, str], str]) -> str:
    """In words, where the risk with labels would have chosen another candidate, or no risk decided.

    The risk with labels is compared in the trials of the chosen candidate, with or without folds.
    """
    both = {key: tried for key, tried in choices.items() if mean_risk(tried[chosen[key]]) is not None}
    others, alone = [], []
    for key, tried in both.items():
        trials = {line["trial"] for line in tried[chosen[key]]}
        same = {name: [line for line in own if line["trial"] in trials] for name, own in tried.items()}
        means = {name: mean_risk(own, WITH_LABELS) for name, own in same.items() if len(own) == len(trials)}
        best = min(means, key=lambda name: means[name] or 0.0)
        if best != chosen[key]:
            others.append(
                f"{_case(key[1])}, where in the same trials the risk with labels of *{best}* is "
                f"{means[best]:.4f}, and that of *{chosen[key]}* {means[chosen[key]]:.4f}"
            )
        if len(comparable(tried)) == 1:
            alone.append(_case(key[1]))
    text = f"Both risks choose the same candidate in all {len(both)} cases that have both."
    if others:
        text = (
            f"Of {len(both)} cases that have both risks, they disagree on {len(others)}: {'; '.join(others)}."
        )
    for name in alone:
        text += f"\nOn {name} only one candidate has folds, so no risk decided there."
    return text


def _folds(folder: Path) -> str:
    """The results before there were folds, or as many, beside those of today; "" without the first."""
    now = [r for r in read_results(folder) if (r["experiment"], r["flavour"]) == ("benchmark", "beyond")]
    table = Table("", ["data set", "recipe", "accuracy", "error of the test prior", "trials"])
    for dataset in DATASETS:
        runs = [*(read_results(folder / name) for name in BEFORE), now]
        runs = [own for results in runs if (own := [r for r in results if r["dataset"] == dataset])]
        if len(runs) < 2:
            continue
        trials = set.intersection(*({r["trial"] for r in own} for own in runs))
        for own in runs:
            accuracy, error = _averages([r for r in own if r["trial"] in trials])
            recipe = own[0]["settings"]["strategy"]
            table.add([NAMES[dataset], recipe, f"{accuracy:.2f}", f"{error:.4f}", str(len(trials))])
    return FOLDS.format(before=table.markdown()) if table.rows else ""


def _averages(results: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Mean accuracy in percent, and mean error of the test prior."""
    lines = [line for result in results for line in result["tests"]]
    off = [abs(line["estimated_prior"] - line["test_prior"]) for line in lines]
    return 100 * float(np.mean([line["accuracy"] for line in lines])), float(np.mean(off))


def _continued(case: str, tried: Mapping[str, Sequence[dict[str, Any]]]) -> str:
    """Where some candidates were run in more trials than others, the risks of the first trials; else "".

    Candidates with folds came later, and their risks cannot be compared with these.
    """
    judged = {name: own for name, own in tried.items() if folds_of(own) == 1 and mean_risk(own) is not None}
    first = min((len(own) for own in judged.values()), default=0)
    most = max((len(own) for own in judged.values()), default=0)
    if first < 2 or first == most:
        return ""
    risks = {
        name: np.array([line["risk"] for line in sorted(own, key=lambda line: line["trial"])])
        for name, own in judged.items()
    }
    means = {name: float(own[:first].mean()) for name, own in risks.items()}
    lowest, *_ = sorted(means, key=means.__getitem__)
    other = next(name for name, own in risks.items() if len(own) == most and name != lowest)
    ahead = risks[other][:first] - risks[lowest][:first]
    return CONTINUED.format(
        case=_case(case),
        trials=first,
        more=most - first,
        risks=", ".join(f"{mean:.4f} (*{name}*)" for name, mean in means.items()),
        lowest=lowest,
        other=other,
        ahead=float(ahead.mean()),
        spread=float(ahead.std(ddof=1)) / first**0.5,
    )


def _tried(folder: Path) -> str:
    """The candidates that were compared and not used, with the trials that one of them was run in."""
    choices, runs = read_choices(folder / "tried"), read_results(folder / "tried")
    if not choices or not runs:
        return ""
    same = {(r["dataset"], r["flavour"], r["trial"]) for r in runs}
    before = [r for r in read_results(folder) if (r["dataset"], r["flavour"], r["trial"]) in same]
    accuracy, earlier = (
        100 * float(np.mean([line["accuracy"] for r in part for line in r["tests"]]))
        for part in (runs, [r for r in before if r["experiment"] == "benchmark"])
    )
    table = _risks(choices, {}).markdown()
    return TRIED.format(risks=table, trials=len(runs), accuracy=accuracy, earlier=earlier)


def _exception(folder: Path) -> str:
    """The results of the candidate that was replaced, from their own folder; "" without them."""
    earlier = read_results(folder / "first-choice")
    if not earlier:
        return ""
    accuracy, error = _averages(earlier)
    first = earlier[0]["settings"]["strategy"]
    return EXCEPTION.format(first=first, trials=len(earlier), accuracy=accuracy, error=error)


def _case(name: str) -> str:
    """A data set, perhaps that of few labels, by its full name."""
    dataset, _, few = name.partition("-")
    return f"{NAMES[dataset]}, few labels" if few else NAMES[dataset]


def _ours_chosen(folder: Path) -> str:
    selection, strategies = (folder / f"{name}.json" for name in ("selection", "strategies"))
    if not (selection.is_file() and strategies.is_file()):
        return ""
    found = json.loads(strategies.read_text())
    table = Table("", ["", *(NAMES[dataset] for dataset in found)])
    for name in STRATEGIES:
        means = [float(np.mean(risks[name])) for risks in found.values()]
        best = [min(float(np.mean(r)) for r in risks.values()) for risks in found.values()]
        bold = [i for i, (mean, least) in enumerate(zip(means, best, strict=True), 1) if mean == least]
        table.add([name, *(f"{mean:.4f}" for mean in means)], bold)
    return CHOICE.format(
        setting=choose(json.loads(selection.read_text())),
        risks=table.markdown(),
        strategy=best_strategy(found),
        beside=_beside(read_results(folder / "best-of-ten"), read_results(folder)).markdown(),
    )


def _beside(earlier: Sequence[dict[str, Any]], now: Sequence[dict[str, Any]]) -> Table:
    """Two sets of results of ours, by data set, with the better numbers in bold."""
    table = Table("", ["data set", "", "best of ten (trials)", "student (trials)"])
    for dataset, data in DATASETS.items():
        both = [_tests(results, dataset, data.labels) for results in (earlier, now)]
        if not all(both):
            continue
        trials = [f" ({len(lines) // len(TEST_PRIORS)})" for lines in both]
        accuracy = [float(np.mean([100 * line["accuracy"] for line in lines])) for lines in both]
        auc = [float(np.mean([line["auc"] for line in lines])) for lines in both]
        error = [
            float(np.mean([abs(line["estimated_prior"] - line["test_prior"]) for line in lines]))
            for lines in both
        ]
        texts = [f"{value:.2f}{n}" for value, n in zip(accuracy, trials, strict=True)]
        table.add([NAMES[dataset], "accuracy, average", *texts], [2 + int(np.argmax(accuracy))])
        table.add(["", "AUC", *(f"{value:.4f}" for value in auc)], [2 + int(np.argmax(auc))])
        errors = [f"{value:.4f}" for value in error]
        table.add(["", "error of the test prior", *errors], [2 + int(np.argmin(error))])
    return table


def _tests(results: Sequence[dict[str, Any]], dataset: str, labels: str | None) -> list[dict[str, Any]]:
    """The lines of all trials of ours on a data set."""
    wanted = ("benchmark", "ours", dataset, labels)
    return [
        line
        for r in results
        if (r["experiment"], r["flavour"], r["dataset"], r["labels"]) == wanted
        for line in r["tests"]
    ]
