"""Audits of a classifier: both priors from the answers, and answers that a fit uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from drpu._samples import Sample, SamplePair
from drpu._typing import BoolArray, FloatArray, IntArray, Rows
from drpu.audits.design import Growth, carry_share, combine_figures, negative_growth, settled_growth
from drpu.audits.evaluation import (
    FIGURES,
    Answers,
    Evaluation,
    FairnessTest,
    fairness_test,
    positive_ranks,
)
from drpu.audits.labelling import answer_weights
from drpu.audits.plan import (
    Audit,
    AuditPart,
    RandomPart,
    check_audit,
    check_positions,
    read_answers,
    refuse_repeated,
    warn_of_missing,
)
from drpu.audits.recalibration import (
    TRAINED,
    DesignedSample,
    LogOddsMap,
    Population,
    bounded_log_odds,
    recalibrate,
)
from drpu.classifier.notices import warn_of_answered_positives, warn_of_other_shift
from drpu.classifier.validation import Classes
from drpu.exceptions import DataError, LabelledSampleWarning, ParameterError
from drpu.models.crossfit import Known
from drpu.periods.read import Findings, tested
from drpu.priors.calibration import ratio_posterior
from drpu.priors.estimate import PriorEstimate, prior_from_tails
from drpu.priors.figures import Figure
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import Anchor, FittedRatio, ScoredRows, score_once, with_labelled

if TYPE_CHECKING:
    from drpu.classifier.adapted import AdaptedClassifier
    from drpu.classifier.base import RatioClassifier

UNFAIR = 0.05  # below this p-value the labelled positives differ from the audited ones
_BOUND = 0.2  # part of the error probability of the upper limit for the bound from unlabeled rows


def audited_priors(
    parts: list[AuditPart], seen: ScoreTails, fitted: FittedRatio, *, level: float
) -> tuple[PriorEstimate, PriorEstimate, FairnessTest | None]:
    """Prior of the training population from all ``parts``, of the rows that ``seen`` counts, and a test.

    The test compares labelled with audited positives; None if the audited rows were used in training, so
    that their scores cannot be compared.

    A fifth of the error probability of the upper limit is reserved for the upper limit that
    labelled and unlabeled rows give without answers, so the smaller of the two limits is valid. It is
    used only if no test rejects its assumption that the labelled positives are a random sample of all.
    """
    tails = (1 - level) / 2, (1 - _BOUND) * (1 - level) / 2
    direct = [part.answers.share(part.answers.positive, tails) for part in parts]
    growth = [_growth(part, fitted, share) for part, share in zip(parts, direct, strict=True)]
    train = [
        _train_figure(part, share, step, fitted, tails)
        for part, share, step in zip(parts, direct, growth, strict=True)
        if step is not None
    ]
    base = fitted.unlabeled_prior
    known = Figure(base.value, base.low, base.high, (base.high - base.low) ** 2 / 16)
    unlabeled = combine_figures(train) if train else known
    here = [part.counts == seen for part in parts]
    own = combine_figures([share for share, there in zip(direct, here, strict=True) if there])
    population = {part.population for part, there in zip(parts, here, strict=True) if there}

    fairness = _fairness(parts, direct, unlabeled, fitted)
    bounds = 1.0, 1.0
    if fairness is None or fairness.p_value >= UNFAIR:
        share = fitted.labelled_fraction or None
        alone = prior_from_tails(
            fitted.tails, level=bound_level(level), labelled_share=share, warn=False
        )
        bounds = alone.high, alone.high if "unlabeled" in population else 1.0
        if any(step is not None and step.spread > 0 for step in growth):
            unlabeled = leaning_to(unlabeled, alone)
    half = half_an_answer([part.answers for part in parts])
    prior = with_labelled(_estimate(unlabeled, bounds[0], level, half), fitted.labelled_fraction)
    at = _estimate(own, bounds[1], level, half)
    return prior if train else fitted.train_prior, at, fairness


def half_an_answer(answers: list[Answers]) -> float:
    """Share of half an answer if all are of one kind, by which a prior stays away from 0 and 1; else 0."""
    positive = np.concatenate([one.positive for one in answers])
    return 0.0 if np.ptp(positive.astype(int)) else 0.5 / (len(positive) + 1)


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


def leaning_to(share: Figure, alone: PriorEstimate) -> Figure:
    """The share, averaged with the prior without answers, with inverse variances as weights.

    Answers about a month with few negatives say little about the training prior. The limits remain those of
    the answers.
    """
    spread = (alone.high - alone.low) / (2 * float(-ndtri((1 - alone.level) / 2)))
    of_share, of_alone = 1 / max(share.variance, 1e-12), 1 / max(spread**2, 1e-12)
    value = (of_share * share.value + of_alone * alone.value) / (of_share + of_alone)
    return replace(share, value=min(max(value, share.low), share.high))


def _estimate(share: Figure, bound: float, level: float, half: float = 0.0) -> PriorEstimate:
    """The share as a prior, ``half`` away from 0 and 1; a bound that the answers contradict is not used."""
    high = min(share.high, bound) if bound > share.low else share.high
    low, high = max(share.low, 0.0), min(high, 1.0)
    value = min(max(share.value, half), 1 - half)
    return PriorEstimate(min(max(value, low), high), low, high, level, "audit")


def _fairness(
    parts: list[AuditPart], direct: list[Figure], train: Figure, fitted: FittedRatio
) -> FairnessTest | None:
    """The test on all parts whose rows were not used in training."""
    unseen = [
        (part, share)
        for part, share in zip(parts, direct, strict=True)
        if not part.seen_in_training
    ]
    if not unseen:
        return None
    columns, first = [], 0
    prior = min(
        max(with_labelled(_estimate(train, 1.0, 0.95), fitted.labelled_fraction).value, 1e-6), 1.0
    )
    for part, share in unseen:
        answers = part.answers
        mass = (answers.weight / np.maximum(answers.sizes, 1))[answers.stratum]
        weight = mass / mass.sum() * len(part)  # each part counts by its number of answers
        ratio = np.exp(fitted.log_ratio_of(part.scores))
        posterior = ratio_posterior(ratio, prior, min(max(share.value, 1e-6), 1 - 1e-6))
        ranks = positive_ranks(fitted.tails, fitted.model.counted(part.scores))
        columns.append((ranks, answers.positive, answers.stratum + first, weight, posterior))
        first += len(answers.rows)
    ranks, positive, stratum, weight, posterior = map(np.concatenate, zip(*columns, strict=True))
    return fairness_test(ranks, positive, stratum, weight, posterior, fitted.tails.n_positive)


def warn_of_unfair_labels(test: FairnessTest | None) -> None:
    """Warn that the labelled positives are not a random sample of the positives."""
    if test is None or test.p_value >= UNFAIR:
        return
    if test.labelled_score_higher:
        how = (
            "higher",
            "priors estimated without answers are too low, and expected recall is too high",
        )
    else:
        how = (
            "lower",
            "priors estimated without answers are too high, and expected recall is too low",
        )
    LabelledSampleWarning.issue(
        f"labelled positives score {how[0]} than the {test.n_positive} audited ones (mean rank "
        f"{test.rank:.2f} instead of 0.50, p = {test.p_value:.1g}): they do not look like a random "
        f"sample of all positives. Then {how[1]}.",
        advice="Correct the fit with an audit of the unlabeled training rows: fit(X, y, "
        "sample_weight=labelling_weights(X, y, by=[columns that decide who gets labelled], "
        "audits=[audit]).weights), or with rates=... if you know the rates.",
        command="If you know the probability that a positive is labelled, fit with --weight, a column with "
        "1 / probability for positives, divided by the mean of these values, and 1 for others; Python can "
        "estimate it from answers (labelling_weights).",
    )


def adapt_to_answers(
    classifier: RatioClassifier,
    X: Rows | ScoreTails,
    audit: Audit,
    *,
    level: float,
) -> AdaptedClassifier:
    """The classifier recalibrated by answers; arguments as in ``adapt``."""
    fitted = classifier.fitted_
    rows, seen, parts, own = _parts_of(classifier, X, audit)
    rough = fitted.prior_of(seen, level=level)
    test, moved, shown = tested(fitted, seen, rough)
    in_training = any(
        part.seen_in_training for part in own
    )  # training rows have other scores than new rows
    only_prior = in_training or shown.moved == "prior"
    if not only_prior:
        warn_of_other_shift(test, moved, done="answers")
    train, prior, fairness = audited_priors(parts, seen, fitted, level=level)
    warn_of_unfair_labels(fairness)
    # Answers about rows with other changes say nothing about the training prior.
    at = fitted.at_train_prior(train) if only_prior else fitted
    found, at = None, replace(at, anchor=None)
    if not in_training:
        found, prior = _recalibrated(classifier, at, own, rows, seen, level=level)
        earlier = () if fitted.anchor is None else fitted.anchor.moved
        names = tuple(dict.fromkeys([*earlier, *(shift.name for shift in moved)]))
        at = replace(at, anchor=Anchor(seen, prior, found, names))
    findings = Findings(
        rows=seen.n,
        shift_test=test,
        moved_columns=moved,
        fairness_test=fairness,
        before_audit=(fitted.train_prior, rough),
        shift="answers",
        map=found,
    )
    adapted = classifier._adapted_at(prior, findings=findings, fitted=at)
    measured = adapted.evaluate(Audit(tuple(own)), level=level)
    return classifier._adapted_at(prior, findings=replace(findings, evaluation=measured), fitted=at)


def _parts_of(
    classifier: RatioClassifier, X: Rows | ScoreTails, audit: Audit
) -> tuple[ScoredRows | None, ScoreTails, list[AuditPart], list[AuditPart]]:
    """The scored rows, if there are any, their counts, and all parts and own parts of the audit."""
    scored = None if isinstance(X, ScoreTails) else score_once(classifier, X)
    seen = classifier._own_counts(X, None) if scored is None else scored.counts
    parts = resolve_audit(classifier, audit, scored, seen)
    own = [part for part in parts if part.counts == seen]
    if not own:
        raise DataError(
            "the audit was planned on other rows than these: adapt to the rows of the plan first, and "
            "then adapt the result to new rows, which starts from the answers."
        )
    return scored, seen, parts, own


def _recalibrated(
    classifier: RatioClassifier,
    fitted: FittedRatio,
    parts: list[AuditPart],
    rows: ScoredRows | None,
    seen: ScoreTails,
    *,
    level: float,
) -> tuple[LogOddsMap, PriorEstimate]:
    """The map of the trained log-odds, and the prior of the rows, whose mean probability it is."""
    train = fitted.train_prior.value

    def log_odds(log_ratio: FloatArray) -> FloatArray:
        return bounded_log_odds(np.minimum(train * np.exp(log_ratio), 1.0))

    if rows is None:
        population = Population.of(
            bounded_log_odds(fitted.cell_probability()), seen.counts / seen.copies
        )
    else:
        population = Population.of(log_odds(fitted.log_ratio_of(rows.scores)))
    samples = [
        DesignedSample.of(log_odds(fitted.log_ratio_of(part.scores)), part.answers)
        for part in parts
    ]
    tail = (1 - level) / 2
    centre = classifier.findings.map or TRAINED
    found, share = recalibrate(population, samples, centre=centre, tails=(tail, tail))
    return found, _estimate(share, 1.0, level)


@dataclass(frozen=True, slots=True)
class TrainingAnswers:
    """Answers that a fit uses."""

    answers: Answers  # true labels and their design
    place: IntArray  # positions of the answered rows in the rows of the fit, or in ``other``
    other: Any = None  # other rows than those of the fit
    of_unlabeled: bool = (
        False  # whether the rows were chosen among the unlabeled rows of the fit only
    )

    @property
    def chance(self) -> FloatArray:
        """Probability with which each row was chosen, without a scale."""
        answers = self.answers
        return np.asarray((answers.sizes / np.maximum(answers.rows, 1))[answers.stratum])


def training_answers(audits: Any, classes: Classes, labelled: BoolArray) -> list[TrainingAnswers]:
    """The answers in ``audits``, as in ``fit``."""
    pair = isinstance(audits, tuple) and not all(isinstance(one, (Audit, tuple)) for one in audits)
    given = [audits] if pair or not isinstance(audits, (list, tuple)) else audits
    pairs = [one if isinstance(one, tuple) and len(one) == 2 else (None, one) for one in given]
    found = [(part, other) for other, audit in pairs for part in check_audit(audit).parts]
    refuse_repeated([part for part, _ in found])
    return [_training_part(part, other, classes, labelled) for part, other in found]


def _training_part(
    part: AuditPart | RandomPart, other: Any, classes: Classes, labelled: BoolArray
) -> TrainingAnswers:
    n, unlabeled = len(labelled), np.flatnonzero(~labelled)
    if isinstance(part, RandomPart):
        answered, positive = read_answers(list(part.labels), classes)
        answers = Answers.random(positive)
        if not part.positions:
            return TrainingAnswers(answers, np.flatnonzero(answered), part.rows)
        planned = n if other is None else len(other)
        place = check_positions("rows", part.rows, planned)[answered]
    else:
        answers, planned = part.answers, int(part.answers.rows.sum())
        if part.rows is None or part.rows.max() >= planned:
            raise DataError("audits must not be planned by groups: plan one audit of all rows.")
        place = part.rows
    if other is not None:
        if planned != len(other):
            raise DataError(f"the audit was planned on {planned} rows, got {len(other)} beside it.")
        return TrainingAnswers(answers, place, other)
    if planned not in (n, len(unlabeled)):
        raise DataError(
            f"audits must be about the rows of X ({n}) or its unlabeled ones ({len(unlabeled)}), got one "
            f"that was planned on {planned} rows: pass (rows, audit) for other rows."
        )
    if planned != n:
        return TrainingAnswers(answers, unlabeled[place], None, of_unlabeled=True)
    # Positions of a random sample without any labelled row were chosen among the unlabeled ones.
    return TrainingAnswers(
        answers, place, None, isinstance(part, RandomPart) and not labelled[part.rows].any()
    )


def known_rows(
    pair: SamplePair,
    labelled: BoolArray,
    answers: list[TrainingAnswers],
    negative: BoolArray | None,
    check: Callable[[Any], Rows],
) -> Known | None:
    """All rows of known class: answers, and rows with the negative label among the unlabeled ones."""
    at = np.cumsum(~labelled) - 1  # places among the unlabeled rows
    parts: list[tuple[Sample, BoolArray, IntArray]] = []
    if negative is not None:
        place = at[negative]
        parts.append(
            (replace(pair.unlabeled.take(place), groups=None), np.zeros(len(place), bool), place)
        )
    own_rows = [one for one in answers if one.other is None]
    warn_of_answered_positives(
        sum(int((labelled[a.place] & ~a.answers.positive).sum()) for a in own_rows)
    )
    for one in answers:
        kept = ~labelled[one.place] if one.other is None else np.ones(len(one.place), bool)
        positive, weight = one.answers.positive[kept], np.ones(int(kept.sum()))
        for own in (positive, ~positive):
            if own.any():
                weight[own] = answer_weights(one.chance[kept][own])
        place = at[one.place[kept]] if one.other is None else np.full(len(positive), -1)
        rows = pair.unlabeled.rows if one.other is None else check(one.other)
        sample = Sample(rows[place if one.other is None else one.place], weight)
        parts.append(
            (replace(sample, weight=None) if np.allclose(weight, 1) else sample, positive, place)
        )
    parts = [part for part in parts if len(part[1])]
    if not parts:
        return None
    sample = parts[0][0]
    for other, _, _ in parts[1:]:
        sample = sample.joined(other)
    return Known(
        sample, np.concatenate([p[1] for p in parts]), np.concatenate([p[2] for p in parts])
    )


def beside(pair: SamplePair, known: Known, negative: BoolArray) -> tuple[SamplePair, Known]:
    """The unlabeled sample without the rows ``negative``, which come beside it in a case-control study."""
    place = np.where(negative, -1, np.cumsum(~negative) - 1)[known.place]
    rest = pair.unlabeled.take(np.flatnonzero(~negative))
    return SamplePair(pair.positive, rest), replace(
        known, place=np.where(known.place < 0, -1, place)
    )


def prior_from_answers(
    answers: list[TrainingAnswers], n_labelled: int, n_unlabeled: int, fraction: float
) -> PriorEstimate | None:
    """Prior of the training population from answers about its rows; None if there are none."""
    figures, n = [], n_labelled + n_unlabeled
    for one in answers:
        if one.other is not None:
            continue
        share = one.answers.share(one.answers.positive, (0.025, 0.025))
        if not one.of_unlabeled:  # the labelled rows are known to be positive
            ends = (
                (v * n - n_labelled) / n_unlabeled for v in (share.value, share.low, share.high)
            )
            value, low, high = (min(max(end, 0.0), 1.0) for end in ends)
            share = Figure(value, low, high, share.variance * (n / n_unlabeled) ** 2)
        figures.append(share)
    if not figures:
        return None
    half = half_an_answer([one.answers for one in answers if one.other is None])
    return with_labelled(_estimate(combine_figures(figures), 1.0, 0.95, half), fraction)


def resolve_audit(
    classifier: RatioClassifier, audit: Audit, X: ScoredRows | None, seen: ScoreTails | None
) -> list[AuditPart]:
    """The parts of ``audit`` with scores by ``classifier``, which planned it or is adapted from that one.

    ``X`` are the rows that positions in a random sample refer to, ``seen`` the counts of the rows that it
    was drawn from.
    """
    mark, parts = classifier.fitted_.mark, []
    for part in audit.parts:
        if isinstance(part, RandomPart):
            parts.append(_resolve_random(classifier, part, X, seen, mark))
        elif part.classifier != mark:
            raise DataError(
                "the audit was planned with another classifier, whose scores are not comparable: plan it "
                "with this one, or use Audit.random for rows that were chosen by simple random sampling."
            )
        else:
            parts.append(part)
    return parts


def _resolve_random(
    classifier: RatioClassifier,
    part: RandomPart,
    X: ScoredRows | None,
    seen: ScoreTails | None,
    mark: str,
) -> AuditPart:
    fitted, population = classifier.fitted_, "auto"
    answered, positive = read_answers(list(part.labels), fitted.classes)
    if len(positive) < len(answered):
        warn_of_missing(len(answered) - len(positive), len(answered))
    if part.positions and X is None:
        raise ParameterError(
            "this audit holds positions of rows, which need the rows they refer to: pass the rows themselves "
            "to Audit.random, or call evaluate(X[rows], labels)."
        )
    if part.positions and X is not None:
        scores = X.scores[check_positions("rows", part.rows, len(X))[answered]]
        if fitted.training is not None:  # the training rows are recognised
            population = fitted.training.population_of(X.rows)
    else:
        rows = classifier._checked_rows(part.rows)
        scores = fitted.model.scores(rows[answered])
    counts = fitted.no_counts() if seen is None else seen
    return AuditPart(Answers.random(positive), scores, counts, mark, population)


def rows_for_width(width: float, reached: Callable[[int], float], most: int) -> int:
    """Smallest number of rows whose expected interval is at most ``width`` wide."""
    low, high = 0, most
    best = reached(high)
    if best > width:
        raise ParameterError(
            f"width must be at least {best:.3f} here, got {width!r}: even the labels of all {high} rows "
            "leave this uncertainty about the population they come from. Pass more rows, or ask for a wider "
            "interval."
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) <= width else (middle, high)
    return high


def averaged(found: list[Evaluation]) -> Evaluation:
    """The mean of evaluations, each figure weighted by how precise it is."""
    figures = {}
    for name in FIGURES:
        known = [getattr(one, name) for one in found if np.isfinite(getattr(one, name).value)]
        figures[name] = combine_figures(known) if known else getattr(found[0], name)
    return Evaluation(**figures, n=sum(one.n for one in found), level=found[0].level)
