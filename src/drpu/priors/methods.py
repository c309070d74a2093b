"""Estimation of a class prior from scores or counts, by any method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from drpu._checks import check_choice, check_fraction, check_prior, check_scores
from drpu._process import default_errors
from drpu.exceptions import DataError, DataTypeError, ParameterError
from drpu.priors.central import central_prior, corrected_reading, later_limits
from drpu.priors.estimate import KNOWN, PriorEstimate, as_prior, warn_if_not_identified
from drpu.priors.limits import Limits, ratio_limits, shift_limits
from drpu.priors.matching import efficient, growth_since, later_priors
from drpu.priors.readings import PROPORTIONS
from drpu.priors.tails import ScoreTails

PriorMethod: TypeAlias = str | Callable[[ScoreTails], float]

METHODS = ("auto", *PROPORTIONS, "blended", "efficient")


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
        One sample: ``"adaptive"``, ``"combined"``, ``"paper"``, ``"best-bin"``, ``"plateau"``,
        ``"dedpul"``. A second sample with a reference: ``"blended"``, ``"efficient"``.
        ``"auto"`` is ``"central"``, the mean of a distribution of priors, or ``"blended"`` with a
        reference whose prior is known or was read in another way. Methods that are named give upper
        readings. A callable gets the :class:`ScoreTails` and returns the value.
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
    score_error: float | None = None,
    warn: bool = True,
) -> PriorEstimate:
    """Class prior of the scores counted in ``tails``: :func:`estimate_prior` for counts.

    ``labelled_share`` is the share of the population that is labelled, in a single sample,
    ``score_error`` the standard deviation of the scores that fold models showed, which the default
    method takes into account, and ``warn`` whether to warn if the prior is not identified.
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
        estimate = _prior_of_one_sample(tails, method, level, labelled_share, score_error)
    else:
        if reference is None:
            raise ParameterError(
                f"reference must be given for method={method!r}: "
                "the tails of the training unlabeled sample."
            )
        if train_prior is None:
            train_prior = prior_from_tails(reference, level=level, warn=False)
        base = as_prior("train_prior", train_prior)
        estimate = _shifted(tails, reference, method, level, base, score_error)
    if warn:
        warn_if_not_identified(estimate)
    return estimate


def _check_tails(tails: ScoreTails, reference: ScoreTails | None) -> None:
    """Check that something was counted, and that a reference counts over the same positives."""
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
    if not tails.same_positives(reference):
        raise DataError(
            "reference must count over the same positive scores: make it with tails.empty()."
        )


def _prior_of_one_sample(
    tails: ScoreTails,
    method: PriorMethod,
    level: float,
    labelled_share: float | None,
    score_error: float | None,
) -> PriorEstimate:
    """Prior of ``tails`` by a reading, with the limits of the tail ratio."""
    central = central_prior(tails, level, labelled_share=labelled_share, score_error=score_error)
    if method == "auto":
        estimate = _estimate(central.value, central.limits, level, "central", central.upper)
        return replace(estimate, quantiles=central.quantiles)
    if callable(method):
        value = method(tails)
        name = getattr(method, "__name__", "callable")
    else:
        value = PROPORTIONS[method](tails)
        name = method
    return _estimate(check_prior("the value of method", value), central.limits, level, name)


def _shifted(
    tails: ScoreTails,
    reference: ScoreTails,
    method: str,
    level: float,
    base: PriorEstimate,
    score_error: float | None,
) -> PriorEstimate:
    """Prior of ``tails`` from the prior ``base`` of ``reference``, with limits at ``level``."""
    limits = _shifted_limits(tails, reference, level, base, score_error)
    upper = None
    if not limits.identified and base.upper is not None:
        upper = efficient(tails, reference, base.upper)
    if method == "auto" and base.quantiles:
        value = base.value
        growth = growth_since(tails, reference, base.value)
        if growth is not None:
            weight, later = later_priors(base.quantiles, growth)
            value = float(weight @ later)
        return _estimate(value, limits, level, "central", upper)
    if method in ("auto", "blended"):
        value = _blended(tails, reference, base, score_error)
        return _estimate(value, limits, level, "blended", upper)
    return _estimate(efficient(tails, reference, base.value), limits, level, method, upper)


def _shifted_limits(
    tails: ScoreTails,
    reference: ScoreTails,
    level: float,
    base: PriorEstimate,
    score_error: float | None,
) -> Limits:
    """Limits of the prior of ``tails``, by how the prior of ``reference`` is known."""
    if base.method in KNOWN:
        ends = (base.low, base.high)
        return shift_limits(tails, reference, level, train_prior=base.value, train_limits=ends)
    return later_limits(tails, reference, level, base, score_error=score_error)


def _blended(
    tails: ScoreTails,
    reference: ScoreTails,
    train_prior: PriorEstimate,
    score_error: float | None,
) -> float:
    """Weighted mean of two estimates of the prior of ``tails``.

    The first is computed from the training prior and the growth of the negatives, and
    inherits the error of the training prior. The second uses the new rows alone. Weights
    are inverse squares of the widths of their intervals. If the training prior is known,
    only the first is used.
    """
    carried = efficient(tails, reference, train_prior.value)
    width = train_prior.high - train_prior.low
    if width == 0 or train_prior.value == 1 or train_prior.method == "audit":
        return carried  # no assumption about the highest scores, which the other estimate needs
    limits = ratio_limits(tails, train_prior.level)
    carried_square = ((1 - carried) / (1 - train_prior.value) * width) ** 2
    direct_square = (limits.high - limits.low) ** 2
    if carried_square + direct_square == 0:
        return carried
    weighted = direct_square * carried + carried_square * corrected_reading(tails, score_error)
    return weighted / (carried_square + direct_square)


def _estimate(
    value: float, limits: Limits, level: float, method: str, upper: float | None = None
) -> PriorEstimate:
    """The estimate with its value clipped to the limits."""
    clipped = float(min(max(value, limits.low), limits.high))
    low = float(limits.low)
    high = float(limits.high)
    if limits.identified:
        return PriorEstimate(clipped, low, high, level, method)
    # a rule that was asked for by its name is itself the upper reading
    upper = clipped if upper is None else float(min(max(upper, clipped), high))
    return PriorEstimate(clipped, low, high, level, method, identified=False, upper=upper)
