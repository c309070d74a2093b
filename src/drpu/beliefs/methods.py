"""Estimation of a class prior from scores or counts, by any method."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from drpu._checks import check_choice, check_fraction, check_prior, check_scores
from drpu._process import default_errors
from drpu.beliefs.priors import (
    PriorDistribution,
    later_prior,
    likely_values,
    prior_distribution,
)
from drpu.exceptions import DataError, DataTypeError, ParameterError
from drpu.priors.estimate import KNOWN, PriorEstimate, as_prior, warn_if_not_identified
from drpu.priors.limits import upper_limit
from drpu.priors.matching import Growth, growth_since
from drpu.priors.readings import PROPORTIONS
from drpu.priors.tails import ScoreTails

PriorMethod: TypeAlias = str | Callable[[ScoreTails], float]

METHODS = ("auto", *PROPORTIONS, "efficient")


@default_errors
def estimate_prior(
    positive_scores: Any,
    unlabeled_scores: Any,
    *,
    method: PriorMethod = "auto",
    level: float = 0.95,
    reference: ScoreTails | None = None,
    train_prior: float | PriorEstimate | None = None,
) -> PriorEstimate:
    """Class prior of unlabeled rows, from one score per row.

    Parameters
    ----------
    positive_scores : array-like of shape (n_positive,)
        Scores of positives that the model was not trained on. Any score that ranks
        positives higher can be used; its scale does not matter.
    unlabeled_scores : array-like of shape (n,)
        Scores of the rows whose prior is estimated.
    method : str or callable, default="auto"
        ``"auto"`` is the mean of the distribution of priors that was learned from many tables.
        Named readings of one sample are ``"paper"``, ``"best-bin"``, ``"plateau"`` and
        ``"dedpul"``; they are upper readings. ``"efficient"`` reads a second sample at the value of
        ``train_prior``. A callable gets the :class:`ScoreTails` and returns the value.
    level : float, default=0.95
        Confidence level of ``low`` and ``high``.
    reference : ScoreTails, optional
        The tails of the training unlabeled sample over the same positive scores.
        With it, the whole score distribution of the new sample is compared.
    train_prior : float or PriorEstimate, optional
        Prior of the reference sample; estimated from it by default.

    Returns
    -------
    prior : PriorEstimate

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> positive = rng.normal(3, 1, 500)
    >>> unlabeled = np.where(rng.random(5000) < 0.3, rng.normal(3, 1, 5000), rng.normal(0, 1, 5000))
    >>> prior = estimate_prior(positive, unlabeled)
    >>> prior.low < 0.3 < prior.high
    True
    """
    unlabeled = check_scores("unlabeled_scores", unlabeled_scores)
    tails = ScoreTails(positive_scores).update(unlabeled)
    return prior_from_tails(
        tails, method=method, level=level, reference=reference, train_prior=train_prior
    )


def prior_from_tails(
    tails: ScoreTails,
    *,
    method: PriorMethod = "auto",
    level: float = 0.95,
    reference: ScoreTails | None = None,
    train_prior: float | PriorEstimate | None = None,
    labelled_share: float | None = None,
    warn: bool = True,
) -> PriorEstimate:
    """Class prior of the scores counted in ``tails``: :func:`estimate_prior` for counts.

    ``labelled_share`` is the share of the population that is labelled, in a single sample, and
    ``warn`` whether to warn if the prior is not identified.
    """
    check_fraction("level", level)
    _check_tails(tails, reference)
    if not callable(method):
        check_choice("method", method, METHODS)

    if callable(method) or method in PROPORTIONS or (method == "auto" and reference is None):
        if train_prior is not None and reference is None:
            raise ParameterError(
                "train_prior must be left out without reference: it is the prior of that sample."
            )
        estimate = _prior_of_one_sample(tails, method, level, labelled_share)
    else:
        if reference is None:
            raise ParameterError(
                f"reference must be given for method={method!r}: "
                "the tails of the training unlabeled sample."
            )
        if train_prior is None:
            train_prior = prior_from_tails(reference, level=level, warn=False)
        base = as_prior("train_prior", train_prior)
        estimate = _shifted(tails, reference, method, level, base)
    if warn:
        warn_if_not_identified(estimate)
    return estimate


def _check_tails(tails: ScoreTails, reference: ScoreTails | None) -> None:
    """Check that both counted something, over the same positives."""
    if not tails.counts.any():
        raise DataError("the tails are empty: update them with unlabeled scores first.")
    if reference is None:
        return
    if not isinstance(reference, ScoreTails):
        raise DataTypeError(
            "reference must be ScoreTails of the training unlabeled scores, "
            f"got {type(reference).__name__}: "
            "make it with ScoreTails(positive_scores).update(scores)."
        )
    if not reference.counts.any():
        raise DataError("reference is empty: update it with training unlabeled scores first.")
    if not tails.same_positives(reference):
        raise DataError(
            "reference must count over the same positive scores: make it with tails.empty()."
        )


def _prior_of_one_sample(
    tails: ScoreTails,
    method: PriorMethod,
    level: float,
    labelled_share: float | None,
) -> PriorEstimate:
    """Prior of ``tails`` by its learned distribution, or by a named reading with its limits."""
    distribution = prior_distribution(tails, labelled_share=labelled_share)
    if method == "auto":
        value = distribution.mean
        name = "learned"
    elif callable(method):
        value = check_prior("the value of method", method(tails))
        name = getattr(method, "__name__", "callable")
    else:
        value = PROPORTIONS[method](tails)
        name = method
    estimate = _estimate(distribution, value, level, name, upper_limit(tails, level).prior)
    if method == "auto":
        return replace(estimate, quantiles=distribution.quantiles)
    return estimate


def _shifted(
    tails: ScoreTails,
    reference: ScoreTails,
    method: str,
    level: float,
    base: PriorEstimate,
) -> PriorEstimate:
    """Prior of ``tails`` from the prior ``base`` of ``reference``, if only the prior moved."""
    growth = growth_since(tails, reference, base.value)
    if growth is None:  # the scores separate nothing: any growth is possible
        growth = Growth(1.0, spread=math.inf)
    distribution = later_prior(likely_values(base), growth)
    value = distribution.mean
    name = "learned"
    if method == "efficient" or base.method in KNOWN:
        value = min(max(1 - growth.value * (1 - base.value), 0.0), 1.0)
        name = "efficient"
    estimate = _estimate(distribution, value, level, name, upper_limit(tails, level).prior)
    if base.method in KNOWN:
        return estimate
    return replace(estimate, identified=estimate.identified and base.identified)


def _estimate(
    distribution: PriorDistribution, value: float, level: float, method: str, upper: float
) -> PriorEstimate:
    """The estimate with this value, which its limits cover."""
    return PriorEstimate(
        value=value,
        low=min(distribution.quantile((1 - level) / 2), value),
        high=max(distribution.quantile((1 + level) / 2), value),
        level=level,
        method=method,
        identified=distribution.identified,
        upper=max(upper, value),
    )
