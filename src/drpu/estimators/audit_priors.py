"""Both priors, and a test of the labelled sample, from the answers of an audit."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from drpu.core.audit import Growth, carry_share, combine_figures, negative_growth, settled_growth
from drpu.core.audit_fairness import FairnessTest, fairness_test, positive_ranks
from drpu.core.audit_limits import Figure
from drpu.core.decision import ratio_posterior
from drpu.core.prior import PriorEstimate, prior_from_tails
from drpu.core.tails import ScoreTails
from drpu.estimators.audit import AuditPart
from drpu.estimators.fitted import FittedRatio, with_labelled
from drpu.exceptions import DRPUWarning, LabelledSampleWarning

__all__ = ["UNFAIR", "AuditedPriors", "audited_priors", "bound_level", "leaning_to", "warn_of_unfair_labels"]

UNFAIR = 0.05  # below this p-value the labelled positives differ from the audited ones
_DOUBT = 4.0  # factor on the uncertainty of a prior that is not identified
_BOUND = 0.2  # part of the error probability of the upper limit for the bound from unlabeled rows


@dataclass(frozen=True, slots=True)
class AuditedPriors:
    """Priors from answers.

    Attributes
    ----------
    train : PriorEstimate
        Prior of the training population.
    test : PriorEstimate
        Prior of the new rows.
    fairness : FairnessTest or None
        Whether the labelled positives are distributed like the audited ones; None if the audited
        rows were used in training, so that their scores cannot be compared.
    """

    train: PriorEstimate
    test: PriorEstimate
    fairness: FairnessTest | None


def audited_priors(
    parts: list[AuditPart], seen: ScoreTails, fitted: FittedRatio, *, prior_shift: bool, level: float
) -> AuditedPriors:
    r"""Prior of the training population and of the rows in ``seen``.

    Parameters
    ----------
    parts : list of AuditPart
        Answers. Those that were planned on the rows in ``seen`` give their prior directly;
        all others give the training prior, from which the prior of the new rows follows by the counts.
    seen : ScoreTails
        Counts of the new rows.
    fitted : FittedRatio
        Counts of the training data.
    prior_shift : bool
        Whether the new rows look like a mixture of the two training classes.
    level : float
        Confidence level of both intervals.

    Notes
    -----
    A fifth of the error probability of the upper limit is reserved for the upper limit that
    labelled and unlabeled rows give without answers, so the smaller of the two limits is valid. It is
    used only if no test rejects its assumptions: that the labelled positives are a random
    sample of all positives, and that only the prior has changed.
    """
    tails = (1 - level) / 2, (1 - _BOUND) * (1 - level) / 2
    direct = [part.answers.share(part.answers.positive, tails) for part in parts]
    growth = [_growth(part, fitted, share) for part, share in zip(parts, direct, strict=True)]
    train = [
        _train_figure(part, share, step, fitted, tails)
        for part, share, step in zip(parts, direct, growth, strict=True)
        if step is not None
    ]
    unlabeled = combine_figures(train) if train else _figure(fitted.unlabeled_prior)
    test = combine_figures(_test_figures(parts, direct, growth, seen, fitted, tails))

    fairness = _fairness(parts, direct, unlabeled, fitted)
    bounds = 1.0, 1.0
    if fairness is None or fairness.p_value >= UNFAIR:
        alone = _without_answers(fitted.tails, None, bound_level(level))
        bounds = alone.high, _test_bound(parts, seen, fitted, alone.high, prior_shift, level)
        if any(step is not None and step.spread > 0 for step in growth):
            unlabeled = leaning_to(unlabeled, alone)
    prior = with_labelled(_estimate(unlabeled, bounds[0], level), fitted.labelled_fraction)
    return AuditedPriors(prior if train else fitted.train_prior, _estimate(test, bounds[1], level), fairness)


def bound_level(level: float) -> float:
    """Level of the two-sided interval whose upper limit is used as a bound besides the answers."""
    return 1 - _BOUND * (1 - level)


def _growth(part: AuditPart, fitted: FittedRatio, share: Figure) -> Growth | None:
    """Growth of the negatives from the unlabeled training rows to the rows of the audit."""
    if part.population == "unlabeled":
        return Growth(1.0)
    if part.population == "fitted":
        return Growth(fitted.tails.n / (fitted.tails.n + fitted.tails.n_positive))
    if part.population == "training":  # labelled rows are the only difference
        return Growth(1 - fitted.labelled_fraction)
    return negative_growth(part.counts, fitted.tails, share.value)


def _train_figure(
    part: AuditPart, share: Figure, growth: Growth, fitted: FittedRatio, tails: tuple[float, float]
) -> Figure:
    """Prior of the unlabeled training rows from the share among audited rows.

    If the population of the rows was not stated and nothing seems to have changed, the value
    is shrunk towards no change; the limits allow for both cases.
    """
    figure = carry_share(share, growth.inverse, tails)
    if part.population != "auto":
        return figure
    settled = settled_growth(growth, (1.0, 1 - fitted.labelled_fraction))
    value = 1 - (1 - share.value) / settled
    return replace(figure, value=min(max(value, figure.low), figure.high))


def _test_figures(
    parts: list[AuditPart],
    direct: list[Figure],
    growth: list[Growth | None],
    seen: ScoreTails,
    fitted: FittedRatio,
    tails: tuple[float, float],
) -> list[Figure]:
    """The prior of the rows in ``seen``, estimated by each part of the audit."""
    found = []
    for part, share, there in zip(parts, direct, growth, strict=True):
        if part.counts == seen:
            found.append(share)
            continue
        here = negative_growth(seen, fitted.tails, share.value)
        if there is not None and here is not None:
            found.append(carry_share(carry_share(share, there.inverse, tails), here, tails))
    return found


def _test_bound(
    parts: list[AuditPart],
    seen: ScoreTails,
    fitted: FittedRatio,
    of_train: float,
    prior_shift: bool,
    level: float,
) -> float:
    """Upper limit of the prior of the rows in ``seen`` without any answer."""
    own = {part.population for part in parts if part.counts == seen}
    if "unlabeled" in own:  # the rows that the training prior refers to
        return of_train
    if "fitted" in own or not prior_shift:
        return 1.0
    return _without_answers(seen, fitted.tails, bound_level(level)).high


def _without_answers(tails: ScoreTails, reference: ScoreTails | None, level: float) -> PriorEstimate:
    """The prior estimated from labelled and unlabeled rows without answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)  # the upper limit is valid in spite of them
        return prior_from_tails(tails, reference=reference, level=level)


def leaning_to(share: Figure, alone: PriorEstimate) -> Figure:
    """The share, averaged with the prior without answers, with inverse variances as weights.

    Answers about a month with few negatives say little about the training prior. For a prior that is not
    identified, the uncertainty is taken as four times that of its interval. The limits remain those of the
    answers.
    """
    spread = (alone.high - alone.low) / (2 * float(-ndtri((1 - alone.level) / 2)))
    spread *= 1 if alone.identified else _DOUBT
    of_share, of_alone = 1 / max(share.variance, 1e-12), 1 / max(spread**2, 1e-12)
    value = (of_share * share.value + of_alone * alone.value) / (of_share + of_alone)
    return replace(share, value=min(max(value, share.low), share.high))


def _estimate(share: Figure, bound: float, level: float) -> PriorEstimate:
    """The share as a prior; a bound that the answers contradict is not used."""
    high = min(share.high, bound) if bound > share.low else share.high
    low, high = max(share.low, 0.0), min(high, 1.0)
    return PriorEstimate(min(max(share.value, low), high), low, high, level, "audit")


def _figure(prior: PriorEstimate) -> Figure:
    return Figure(prior.value, prior.low, prior.high, (prior.high - prior.low) ** 2 / 16)


def _fairness(
    parts: list[AuditPart], direct: list[Figure], train: Figure, fitted: FittedRatio
) -> FairnessTest | None:
    """The test on all parts whose rows were not used in training."""
    unseen = [(part, share) for part, share in zip(parts, direct, strict=True) if not part.seen_in_training]
    if not unseen:
        return None
    ranks, positive, stratum, weight, posterior = [], [], [], [], []
    first = 0
    prior = min(max(with_labelled(_estimate(train, 1.0, 0.95), fitted.labelled_fraction).value, 1e-6), 1.0)
    for part, share in unseen:
        answers = part.answers
        ranks.append(positive_ranks(fitted.tails, fitted.model.counted(part.scores)))
        positive.append(answers.positive)
        stratum.append(answers.stratum + first)
        first += len(answers.rows)
        mass = (answers.weight / np.maximum(answers.sizes, 1))[answers.stratum]
        weight.append(mass / mass.sum() * len(part))  # each part counts by its number of answers
        ratio = np.exp(fitted.log_ratio_of(part.scores))
        posterior.append(ratio_posterior(ratio, prior, min(max(share.value, 1e-6), 1 - 1e-6)))
    return fairness_test(
        np.concatenate(ranks),
        np.concatenate(positive),
        np.concatenate(stratum),
        np.concatenate(weight),
        np.concatenate(posterior),
        fitted.tails.n_positive,
    )


def warn_of_unfair_labels(test: FairnessTest | None) -> None:
    """Warn that the labelled positives are not a random sample of the positives."""
    if test is None or test.p_value >= UNFAIR:
        return
    if test.labelled_score_higher:
        how = "higher", "priors estimated without answers are too low, and expected recall is too high"
    else:
        how = "lower", "priors estimated without answers are too high, and expected recall is too low"
    warnings.warn(
        f"labelled positives score {how[0]} than the {test.n_positive} audited ones (mean rank "
        f"{test.rank:.2f} instead of 0.50, p = {test.p_value:.1g}): they do not look like a random sample of "
        f"all positives. Then {how[1]}. If you know the probability that a positive is labelled, fit with "
        "positive_weight = 1 / probability.",
        LabelledSampleWarning,
        stacklevel=4,
    )
