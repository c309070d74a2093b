"""Class priors: the value object, and estimation by any method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from numbers import Real
from typing import Annotated, Any, Self, TypeAlias

import numpy as np
from scipy.special import expit, logit

from drpu._checks import check_choice, check_fraction, check_prior, check_scores
from drpu._codec import Number, Text, kept
from drpu.exceptions import DataError, DataTypeError, ParameterError, PriorError, SeparationWarning
from drpu.priors.central import central_prior, later_limits
from drpu.priors.limits import Limits, ratio_limits, shift_limits
from drpu.priors.matching import efficient
from drpu.priors.readings import PROPORTIONS, adaptive
from drpu.priors.tails import ScoreTails

PriorMethod: TypeAlias = str | Callable[[ScoreTails], float]

METHODS = ("auto", *PROPORTIONS, "blended", "efficient")

FEW_POSITIVES = 100  # with fewer, fit warns that the prior is rough
KNOWN = ("given", "audit")  # methods of priors that were not estimated from the counts


@kept("prior")
@dataclass(frozen=True)
class PriorEstimate:
    """A class prior with confidence limits.

    Attributes
    ----------
    value : float
        The estimate: the mean of a distribution of priors that all evidence gives.
    low, high : float
        Confidence limits, for independent rows. ``high`` needs no assumption about the
        classes. ``low`` is a quantile of the distribution of priors, or lower where the noise of
        the counts or negatives among the best-scored rows allow it.
    level : float
        Confidence level of the two limits together.
    method : str
        How ``value`` was estimated; ``"given"`` if the user passed it.
    identified : bool, default=True
        False if the value may well be off by 0.10.
    upper : float or None
        Where the prior is not identified, its largest plausible value: the prior if the
        best-scored rows are all positive. None if it is identified, and where more than the prior
        has changed.

    Examples
    --------
    >>> print(PriorEstimate(0.41, 0.38, 0.44, 0.95, "best-bin"))
    0.410 [0.380, 0.440] at 95%
    >>> print(PriorEstimate(0.3, 0.1, 0.71, 0.95, "best-bin", identified=False, upper=0.52))
    0.300 [0.100, 0.710] at 95% (not identified; at most 0.520 by the best-scored rows)
    """

    value: Annotated[float, Number(0, 1)]
    low: Annotated[float, Number(0, 1)]
    high: Annotated[float, Number(0, 1)]
    level: Annotated[float, Number(0, 1)]
    method: Annotated[str, Text(most=200)]
    identified: bool = True
    upper: Annotated[float, Number(0, 1)] | None = None

    def __post_init__(self) -> None:
        numbers = (self.value, self.low, self.high, self.level)
        if not all(isinstance(number, Real) for number in numbers):
            raise PriorError(
                f"value, low, high and level must be numbers, got {self.value!r:.100} and others."
            )
        if not 0 <= self.low <= self.value <= self.high <= 1:
            raise PriorError(
                f"a prior needs 0 <= low <= value <= high <= 1, "
                f"got low={self.low!r}, value={self.value!r}, high={self.high!r}."
            )
        if not 1e-6 <= self.level < 1:
            raise PriorError(
                f"level must lie strictly between 0 and 1, and not below 1e-6, got {self.level!r}."
            )
        if not isinstance(self.identified, bool):
            raise PriorError(f"identified must be True or False, got {self.identified!r}.")

    @classmethod
    def given(cls, value: float, *, level: float = 0.95) -> Self:
        """A prior that is known exactly."""
        number = check_prior("prior", value)
        return cls(number, number, number, level, "given")

    def __float__(self) -> float:
        return self.value

    def _repr_html_(self) -> str:
        value = f"prior <b>{self.value:.1%}</b>"
        if self.method == "given":
            return f"<p>{value}, given</p>"
        limits = f"{self.low:.1%} to {self.high:.1%} at {self.level:.0%}"
        return f"<p>{value}, {limits} ({escape(self.method)}){self._doubt('.1%')}</p>"

    def __str__(self) -> str:
        limits = f"[{self.low:.3f}, {self.high:.3f}] at {self.level:.0%}"
        return f"{self.value:.3f} {limits}{self._doubt('.3f')}"

    def _doubt(self, form: str) -> str:
        """A remark that the prior is not identified; ``form`` is the format of a number."""
        if self.identified:
            return ""
        if self.upper is None:
            return " (not identified)"
        return f" (not identified; at most {self.upper:{form}} by the best-scored rows)"


def as_prior(name: str, prior: float | PriorEstimate) -> PriorEstimate:
    """``prior`` as a PriorEstimate; a number is treated as known."""
    if isinstance(prior, PriorEstimate):
        return prior
    return PriorEstimate.given(check_prior(name, prior))


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
        ``"auto"`` is ``"central"``, the mean of a distribution of priors, or, with a reference
        whose prior is identified, ``"blended"``. Methods that are named give upper readings. A
        callable gets the :class:`ScoreTails` and returns the value.
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
    tails: ScoreTails, method: PriorMethod, level: float, labelled_share: float | None
) -> PriorEstimate:
    """Prior of ``tails`` by a reading, with the limits of the tail ratio."""
    central = central_prior(tails, level, labelled_share=labelled_share)
    if method == "auto":
        return _estimate(central.value, central.limits, level, "central", central.upper)
    if callable(method):
        value = method(tails)
        name = getattr(method, "__name__", "callable")
    else:
        value = PROPORTIONS[method](tails)
        name = method
    return _estimate(check_prior("the value of method", value), central.limits, level, name)


def _shifted(
    tails: ScoreTails, reference: ScoreTails, method: str, level: float, base: PriorEstimate
) -> PriorEstimate:
    """Prior of ``tails`` from the prior ``base`` of ``reference``."""
    limits = _shifted_limits(tails, reference, level, base)
    upper = None
    if not limits.identified and base.upper is not None:
        upper = efficient(tails, reference, base.upper)
    if method == "auto" and not limits.identified:
        return _estimate(_carried(tails, reference, base, upper), limits, level, "central", upper)
    if method in ("auto", "blended"):
        return _estimate(_blended(tails, reference, base), limits, level, "blended", upper)
    return _estimate(efficient(tails, reference, base.value), limits, level, method, upper)


def _shifted_limits(
    tails: ScoreTails, reference: ScoreTails, level: float, base: PriorEstimate
) -> Limits:
    """Limits of the prior of ``tails``, by how the prior of ``reference`` is known."""
    if base.method in KNOWN:
        ends = (base.low, base.high)
        return shift_limits(tails, reference, level, train_prior=base.value, train_limits=ends)
    return later_limits(
        tails,
        reference,
        level,
        train_prior=base.value,
        train_low=base.low,
        train_identified=base.identified,
    )


def _carried(
    tails: ScoreTails, reference: ScoreTails, base: PriorEstimate, upper: float | None
) -> float:
    """A central training prior, carried to later rows by the growth of the negatives.

    If the prior has decreased, an error of the training prior would grow with it. The log-odds of
    the result are therefore not further below those of the upper reading than they were in
    training.
    """
    value = efficient(tails, reference, base.value)
    if upper is None or base.upper is None:
        return value
    priors = np.clip([upper, base.value, base.upper], 1e-6, 1 - 1e-6)
    least = float(expit(logit(priors) @ [1, 1, -1]))
    return max(value, least)


def _blended(tails: ScoreTails, reference: ScoreTails, train_prior: PriorEstimate) -> float:
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
    weighted = direct_square * carried + carried_square * adaptive(tails)
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


def warn_if_not_identified(prior: PriorEstimate) -> None:
    """Warn if the data do not identify the prior, with the numbers that the prior itself shows."""
    if prior.identified:
        return
    shares = {"value": prior.value, "low": prior.low, "high": prior.high}
    bound = ""
    if prior.upper is not None:
        shares["upper"] = prior.upper
        bound = "it is at most {upper} by the best-scored rows, and "
    SeparationWarning.issue(
        f"the prior is not identified: {{value}} is used, {bound}anything from {{low}} to "
        "{high} is possible. The score may separate the classes too weakly to tell:",
        advice="give the prior if you know it (at_prior), flag as many rows as can be checked "
        "(at_budget), or label about 20 rows (plan_audit).",
        command="give --prior if you know it, flag as many rows as can be checked (--budget), or "
        "label about 20 rows (drpu audit).",
        **shares,
    )
