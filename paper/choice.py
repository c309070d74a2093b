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
from paper.select import choose
from paper.strategies import STRATEGIES
from paper.tables import NAMES, Table

__all__ = ["how_chosen"]

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

That students were compared at all was not blind: earlier tables showed the best of ten networks (the second
line above), and better results were wanted. Among priors that were equally good on other data, the library's
default is one that did well with those earlier networks on MNIST and CIFAR-10.
"""

AUGMENTED_CHOICE = """\
## How the augmented flavours were chosen

That a residual network, augmentation and several rounds help was known from a few earlier models, which had
been scored on test images, and so was, for `beyond` on Fashion-MNIST and CIFAR-10, that more channels and
epochs help. Candidates of `beyond` with three or more teachers, with folds and with training without labels,
the last ones of Kuzushiji-MNIST, and those of `ours-augmented` with weaker changes of the images were added
when test results of earlier ones were known, because better ones were wanted. The results of the recipes that
were replaced are not kept: folds made the error of the test prior smaller, training without labels made
Fashion-MNIST more accurate, and other weights of the rows, more layers and other changes of its images did
not help.

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
That the old one was too low was first seen in these results; the new one was chosen on tables without images.
Both have since been replaced by a density that was learned from many tables, none of them of images.

The candidate with training without labels (`paper/pretraining.py`) learns first from all unlabeled
images of a trial which views show the same image, and its folds start from this network. So a row that a
fold holds out was seen before, without its label, and the risk of this candidate may be a little too low.
The tenth of the rows that its risk with labels is computed on was never seen, and neither were the test
images.
{continued}"""

CONTINUED = """
On {case} the first {trials} trials of the candidates without folds did not decide. Their mean risks were
{risks}. *{lowest}* was ahead of
*{other}* by {ahead:.4f}, with a standard error of {spread:.4f}, and these two were run in {more} more
trials. When they were picked, the risks with labels of the first trials were known, so this choice was not
entirely blind.
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
        continued="".join(_continued(key[1], tried) for key, tried in choices.items()),
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
    )
