"""What few, wrong or contradicting answers do, on artificial data whose truth is known.

    python -m benchmarks.few_answers

**Harm.** Gaussian classes, prior .3 in training, separation 3, test priors .5 and .1; ``rare``: prior .07 in
training and .05 later, separation 1.6. Accuracy, mean costs and recall with 0 to 50 answers, compared with
``adapt(X)`` without answers.

**Stopping.** Exact probability that limits of answers at random hold if answering stops as soon as they are
narrow enough: the smallest over priors from .005 to .5.

**Wrong answers.** 200 answers, some of which are wrong: mean error of the prior and how often limits hold,
without and with ``error_rate=``.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.special import betaincinv

from benchmarks._results import command_line, write_results
from drpu import DRPUClassifier, make_gaussian_pu
from drpu.audits.evaluation import stopped_tails
from drpu.audits.plan import AuditPart

Row = dict[str, Any]
NUMBERS = (1, 2, 3, 5, 10, 20, 50)
COSTS = (0.5, 0.2, 0.8)
CASES: dict[str, Row] = {
    "prior .5": {"n_positive": 200, "n_unlabeled": 1000, "prior": 0.3, "test_prior": 0.5, "separation": 3},
    "prior .1": {"n_positive": 200, "n_unlabeled": 1000, "prior": 0.3, "test_prior": 0.1, "separation": 3},
    "rare": {
        "n_positive": 300,
        "n_unlabeled": 4000,
        "prior": 0.07,
        "test_prior": 0.05,
        "separation": 1.6,
        "dimensions": 2,
        "n_test": 4000,
    },
}
WIDTHS = (0.4, 0.3, 0.2, 0.15, 0.1)


def figures(clf: Any, X: Any, y: np.ndarray) -> list[float]:
    """Accuracy, three mean costs, and recall."""
    p = clf.predict_proba(X)[:, 1]
    values = [float(np.mean((p > 0.5) == y))]
    for cost in COSTS:
        flagged = p > cost
        values.append(float(np.mean((1 - cost) * (y & ~flagged) + cost * (~y & flagged))))
    return [*values, float((p > 0.5)[y].mean())]


def harm(case: str, runs: int) -> list[Row]:
    """Changes by answers, one line for each number of answers."""
    changes: dict[int, list[list[float]]] = {n: [] for n in NUMBERS}
    accuracies: dict[int, list[float]] = {n: [] for n in (0, *NUMBERS)}
    for seed in range(runs):
        data = make_gaussian_pu(**({"n_test": 2000} | CASES[case]), random_state=seed)
        y = np.asarray(data.test_labels == 1)
        clf = DRPUClassifier("classifier", random_state=0).fit_pu(data.positive, data.unlabeled)
        without = clf.adapt(data.test)
        before = figures(without, data.test, y)
        accuracies[0].append(before[0])
        plan = clf.plan_audit(data.test, n=max(NUMBERS), random_state=seed)
        for n in NUMBERS:
            adapted = clf.adapt(data.test, audit=plan.answer(y[plan.rows[:n]]))
            after = figures(adapted, data.test, y)
            prior, read = adapted.test_prior_, without.test_prior_
            allowed = prior.low <= read.value <= prior.high
            accuracies[n].append(after[0])
            changes[n].append(
                [
                    *np.subtract(after[:4], before[:4]),
                    after[0] < before[0] - 0.05,
                    allowed and after[4] < before[4] / 3,
                    prior.low <= y.mean() <= prior.high,
                    allowed and prior.high - prior.low > read.high - read.low + 1e-9,
                ]
            )
    names = ("accuracy", "cost .5", "cost .2", "cost .8", "lost .05", "lost recall", "holds", "wider")
    lines = []
    for n in NUMBERS:
        mean = np.mean(np.array(changes[n], dtype=float), axis=0)
        line = {"case": case, "n": n, "without": float(np.mean(accuracies[0]))}
        line |= {"with": float(np.mean(accuracies[n])), "worst": float(np.min(accuracies[n]))}
        lines.append(line | dict(zip(names, map(float, mean), strict=True)))
    return lines


def stopping(width: float, most: int = 600) -> Row:
    """Smallest probability that limits hold when stopped by width, and the mean number of answers."""
    priors = np.linspace(0.005, 0.5, 60)
    tail = stopped_tails(0.95)[0]
    alive, held, answers = np.ones((len(priors), 1)), np.zeros(len(priors)), np.zeros(len(priors))
    for n in range(1, most + 1):
        grown = np.zeros((len(priors), n + 1))
        grown[:, :n] += alive * (1 - priors)[:, None]
        grown[:, 1:] += alive * priors[:, None]
        hits = np.arange(n + 1)
        low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), n - hits + 1, tail), 0.0)
        high = np.where(hits < n, betaincinv(hits + 1, np.maximum(n - hits, 1), 1 - tail), 1.0)
        narrow = (high - low <= width) | (n == most)
        holds = (low <= priors[:, None]) & (priors[:, None] <= high)
        held += (grown * holds)[:, narrow].sum(axis=1)
        answers += n * grown[:, narrow].sum(axis=1)
        grown[:, narrow] = 0
        alive = grown
    return {"width": width, "least": float(held.min()), "answers": float(answers.mean())}


def wrong(prior: float, error_rate: float, runs: int) -> Row:
    """Error and limits of the prior with wrong answers, without and with the stated rate."""
    lines: dict[str, list[tuple[float, bool]]] = {"plain": [], "stated": []}
    for seed in range(runs):
        data = make_gaussian_pu(
            200, 1000, prior=0.3, test_prior=prior, separation=3, n_test=2000, random_state=seed
        )
        y = np.asarray(data.test_labels == 1)
        clf = DRPUClassifier("classifier", random_state=0).fit_pu(data.positive, data.unlabeled)
        plan = clf.plan_audit(data.test, n=200, random_state=seed)
        flipped = np.random.default_rng(seed).random(200) < error_rate
        labels = y[plan.rows] ^ flipped
        for name, rate in (("plain", 0.0), ("stated", error_rate)):
            part = plan.answer(labels, error_rate=rate).parts[0]
            assert isinstance(part, AuditPart)
            answers = part.answers
            share = answers.answered_share(answers.positive, stopped_tails(0.95))
            lines[name].append((share.value - y.mean(), share.low <= y.mean() <= share.high))
    line: Row = {"prior": prior, "error_rate": error_rate, "runs": runs}
    for name, found in lines.items():
        bias, holds = np.mean(np.array(found, dtype=float), axis=0)
        line |= {f"{name} bias": float(bias), f"{name} holds": float(holds)}
    return line


def main() -> None:
    """Measure, print and write the result file."""
    parser = command_line(__doc__)
    parser.add_argument("--runs", type=int, default=80)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [line for case in CASES for line in harm(case, options.runs)]
    for line in lines:
        print({name: round(v, 4) if isinstance(v, float) else v for name, v in line.items()}, flush=True)
    stopped = [stopping(width) for width in WIDTHS]
    print(stopped)
    mistakes = [wrong(prior, rate, 30) for prior in (0.02, 0.1, 0.3) for rate in (0.05, 0.1)]
    print(mistakes)
    content: Row = {"runs": options.runs, "harm": lines, "stopping": stopped, "wrong": mistakes}
    print("wrote", write_results("few_answers", "python -m benchmarks.few_answers", **content))


if __name__ == "__main__":
    main()
