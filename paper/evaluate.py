"""From scores to the numbers of a table."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from drpu import PriorEstimate, ScoreTails, ratio_threshold
from drpu.beliefs.methods import prior_from_tails
from drpu.exceptions import DRPUWarning
from drpu.priors.calibration import calibrate

__all__ = ["Outcome", "by_margin", "by_ratio", "calibrated_risk", "mean_ratio"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of one model: the estimated training prior and a line for each test prior."""

    train_prior: float | None
    tests: list[dict[str, Any]]


def by_ratio(
    held: tuple[Floats, Floats],
    tests: dict[float, tuple[Floats, npt.NDArray[np.bool_]]],
    *,
    best: bool,
    known: float | None = None,
    unchanged: bool = False,
) -> Outcome:
    """Accuracy, AUC and priors of a density ratio.

    Parameters
    ----------
    held : pair of ndarray
        Log-ratios of the held-out positive and unlabeled rows.
    tests : dict
        Log-ratios and true labels by test prior. Log-ratios have a column for each fold if there are several.
    best : bool
        True: calibrated ratios and the library's default priors. False: the ratios of the network, and
        the paper's priors, which are the smallest ratio of tails of each sample alone.
    known : float, optional
        The prior of both samples, if the experiment treats it as known.
    unchanged : bool, default=False
        Whether to add the accuracy that the classifier has at each test prior if it keeps the
        estimated training prior.
    """
    tails = ScoreTails(held[0]).update(held[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)
        method = "auto" if best else "paper"
        base = PriorEstimate.given(known) if known else prior_from_tails(tails, method=method)
        train = base.value
        to_ratio = calibrate(tails, train) if best else np.exp
        lines = []
        for prior, (scores, labels) in tests.items():
            columns = scores.reshape(len(scores), -1)
            seen = tails.empty(copies=columns.shape[1]).update(columns.ravel())
            if known is not None:
                found = known
            elif best:
                found = prior_from_tails(seen, reference=tails, train_prior=base).value
            else:
                found = prior_from_tails(seen, method=method).value
            ratio = mean_ratio(to_ratio, columns)
            called = ratio > ratio_threshold(train, found)
            line = _line(prior, called, columns.mean(axis=1), labels, found)
            if unchanged:
                as_trained = ratio > ratio_threshold(train, train)
                line["accuracy_as_trained"] = float((as_trained == labels).mean())
            lines.append(line)
    return Outcome(float(train), lines)


def mean_ratio(to_ratio: Callable[[Floats], Floats], columns: Floats) -> Floats:
    """Mean over the columns of the ratios of scores."""
    return np.asarray(np.mean([to_ratio(column) for column in columns.T], axis=0))


def by_margin(
    tests: dict[float, tuple[Floats, npt.NDArray[np.bool_]]],
    *,
    train_prior: float | None = None,
    test_priors: dict[float, float] | None = None,
) -> Outcome:
    """Accuracy and AUC of scores that are positive for positives."""
    found = test_priors or {}
    lines = [
        _line(prior, scores > 0, scores, labels, found.get(prior))
        for prior, (scores, labels) in tests.items()
    ]
    return Outcome(train_prior, lines)


def calibrated_risk(positive: Floats, unlabeled: Floats) -> float:
    """Uncorrected LSIF risk of calibrated scores, each half calibrated with the other half.

    Calibration makes scores of different generators comparable, and needs no prior.
    """
    halves = [slice(0, None, 2), slice(1, None, 2)]
    risks = []
    for fitted, read in (halves, halves[::-1]):
        tails = ScoreTails(positive[fitted]).update(unlabeled[fitted])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DRPUWarning)
            ratio = calibrate(tails, prior_from_tails(tails).value)
        risks.append(float((ratio(unlabeled[read]) ** 2).mean() / 2 - ratio(positive[read]).mean()))
    return float(np.mean(risks))


def _line(
    prior: float,
    called: npt.NDArray[np.bool_],
    scores: Floats,
    labels: npt.NDArray[np.bool_],
    found: float | None,
) -> dict[str, Any]:
    return {
        "test_prior": prior,
        "accuracy": float((called == labels).mean()),
        "auc": float(roc_auc_score(labels, scores)),
        "estimated_prior": None if found is None else float(found),
    }
