"""Answers about new rows, combined with what the rows show: priors, a map, and measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from scipy.special import expit, logit, ndtri

from drpu._arrays import FloatArray, Rows
from drpu._codec import NotKept
from drpu.audits.answers_file import read_table
from drpu.audits.evaluation import (
    MEASURED_FIGURES,
    Answers,
    Evaluation,
    FairnessTest,
    combine_figures,
    evaluate_answers,
    fairness_test,
    positive_ranks,
    stopped_tails,
    with_reading,
)
from drpu.audits.plan import (
    BOUND,
    AuditPart,
    RandomPart,
    bound_level,
    check_audit,
    check_positions,
    mark_of,
    warn_of_missing,
)
from drpu.audits.recalibration import (
    DesignedSample,
    MapBelief,
    PossibleMaps,
    join_samples,
    keeping_recall,
    map_of_others,
    moved_map,
    recalibrate,
    supported_map,
)
from drpu.beliefs.methods import prior_from_tails
from drpu.decisions.point import OperatingPoint, operating_point
from drpu.exceptions import (
    ContradictionWarning,
    DataError,
    LabelledSampleWarning,
    ParameterError,
)
from drpu.periods.read import Reading, read_new_rows, warn_of_other_shift
from drpu.periods.shift_tests import MixtureTest
from drpu.priors.calibration import ratio_posterior
from drpu.priors.estimate import PriorEstimate
from drpu.priors.figures import Figure, exact_limit
from drpu.priors.matching import Growth, carry_share, negative_growth, settled_growth
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import FittedRatio
from drpu.state.labels import read_answers
from drpu.state.population import with_labelled
from drpu.state.reference import NEAREST, LogOddsMap, Reference, RowLogOdds, bounded_log_odds
from drpu.state.rows import Batch
from drpu.tables.frames import is_frame

UNFAIR = 0.05  # below this p-value the labelled positives differ from the audited ones
COUNTED_ROWS = 10  # with fewer rows, limits that counts of them give to the training prior fail
CLEARLY_UNFAIR = 0.005  # below it, readings that assume a random sample are not used


@dataclass(frozen=True, slots=True)
class AnsweredReading(Reading):
    """A reading of rows about which there are answers.

    ``before_audit``: Training and test prior as they were without the answers.
    """

    fairness_test: Annotated[FairnessTest | None, NotKept] = None
    before_audit: Annotated[tuple[PriorEstimate, PriorEstimate] | None, NotKept] = None

    def for_file(self) -> Reading:
        """What a file keeps of it."""
        return Reading(self.prior, self.hypotheses, self.shift, self.sources, self.rows)


@dataclass(frozen=True, slots=True)
class Answered:
    """What answers about new rows give."""

    fitted: FittedRatio  # with the training prior of the answers, if only the prior has changed
    reference: Reference  # the rows of the answers, unless they were used in training
    reading: AnsweredReading
    point: OperatingPoint
    evaluation: Evaluation  # performance of this point, measured on the answers


def combine_answers(
    fitted: FittedRatio,
    reference: Reference,
    batch: Batch | ScoreTails,
    parts: list[AuditPart],
    point: OperatingPoint,
    *,
    level: float,
) -> Answered:
    """What the answers in ``parts`` about new rows give, of which a classifier is made.

    ``point`` is that of the classifier before the answers: its cost stays, and its map is the
    centre of the new one.
    """
    counts = batch if isinstance(batch, ScoreTails) else batch.counts
    about_batch = [part for part in parts if part.counts == counts]
    if not about_batch:
        raise DataError(
            "the audit was planned on other rows than these: adapt to the rows of the plan first, "
            "and then adapt the result to new rows, which starts from the answers."
        )
    reading = read_new_rows(fitted, reference, counts, level=level)
    # scores of training rows differ from those of new rows, so they cannot be compared
    in_training = any(part.seen_in_training for part in about_batch)
    only_prior = in_training or reading.shift == "prior"
    if not only_prior:
        warn_of_other_shift(_test_of(reading), reading.moved_columns, action="answers")
    labelled = operating_point(
        fitted, reference, reading.prior, cost=point.cost, hypotheses=reading.hypotheses
    )
    slope = 1.0 if reference.map is None else reference.map.slope
    period = _AnsweredPeriod(fitted, labelled, about_batch, batch, reading, slope, level)
    priors = audited_priors(parts, counts, fitted, level=level)
    fair = priors.fairness is None or priors.fairness.p_value >= CLEARLY_UNFAIR
    doubts = period.doubts()
    if doubts.exchanged:
        fair = True  # the positives of exchanged answers say nothing about the labelled ones
    else:
        warn_of_unfair_labels(priors.fairness)
    if fair and not in_training:
        warn_of_doubtful_answers(doubts)
    unsupported = fair and not in_training and doubts.unsupported
    recalibrated = fitted
    if only_prior and not unsupported:  # answers about other changes leave the training prior
        recalibrated = fitted.at_train_prior(priors.train)
    if in_training:
        prior = priors.test
        new_reference = Reference.of_training(recalibrated)
    else:
        new_map, prior = period.recalibrated(fair=fair)
        if unsupported:
            new_map = period.centre
        new_map = period.in_terms_of(new_map, recalibrated)
        earlier = [*reference.moved, *(shift.name for shift in reading.moved_columns)]
        new_reference = Reference(counts, prior, new_map, tuple(dict.fromkeys(earlier)))
    new_point = operating_point(recalibrated, new_reference, prior, cost=point.cost)
    return Answered(
        fitted=recalibrated,
        reference=new_reference,
        reading=_answered_reading(reading, prior, priors.fairness, fitted),
        point=new_point,
        evaluation=evaluate_parts(recalibrated, new_point, about_batch, level=level),
    )


def _test_of(reading: Reading) -> MixtureTest:
    assert reading.shift_test is not None  # rows were read
    return reading.shift_test


def _answered_reading(
    reading: Reading, prior: PriorEstimate, fairness: FairnessTest | None, fitted: FittedRatio
) -> AnsweredReading:
    return AnsweredReading(
        prior=prior,
        shift="answers",
        rows=reading.rows,
        shift_test=reading.shift_test,
        moved_columns=reading.moved_columns,
        fairness_test=fairness,
        before_audit=(fitted.prior, reading.prior),
    )


@dataclass(frozen=True, slots=True)
class _AnsweredPeriod:
    """Rows with answers, and what is known about them without answers.

    ``labelled``: The point that gives the labels without answers.
    ``slope``: Slope of the map before the answers.
    """

    trained: FittedRatio
    labelled: OperatingPoint
    parts: list[AuditPart]
    batch: Batch | ScoreTails
    reading: Reading
    slope: float
    level: float

    def doubts(self) -> AnswerDoubts:
        """Why the answers may be wrong."""
        sample = self._sample
        share = sample.plain_share(stopped_tails(self.level), self._rows.n)
        return AnswerDoubts.of(sample, share, self.reading.prior, self.centre)

    @property
    def centre(self) -> LogOddsMap:
        """The map that gives the labels without answers."""
        rows = self._rows
        probability = self._probability(rows.z)
        flagged = probability > self.labelled.cost
        start = LogOddsMap(slope=self.slope)
        if flagged.all() or not flagged.any():  # the labels do not show where the threshold is
            mean = float(np.clip(rows.mean(probability), NEAREST, 1 - NEAREST))
            return start.with_share(mean, rows)
        level = float(rows.z[flagged].min() + rows.z[~flagged].max()) / 2
        return replace(start, intercept=float(logit(self.labelled.cost)) - self.slope * level)

    def recalibrated(self, *, fair: bool) -> tuple[LogOddsMap, PriorEstimate]:
        """The map of the trained log-odds, and the prior of the rows.

        ``fair`` says whether the labelled positives may be a random sample, without which readings
        of rows are wrong.
        """
        rows = self._rows
        sample = self._sample
        centre = self.centre
        cost = self.labelled.cost
        without_answers = self.reading.prior
        only_prior = fair and self.reading.shift == "prior"
        belief = MapBelief.of(centre, without_answers, only_prior=only_prior)
        tails = stopped_tails(self.level)
        start = without_answers.value
        new_map, share = recalibrate(rows, [sample], belief=belief, start=start, tails=tails)
        maps = PossibleMaps.after(belief, sample)
        if not fair:
            prior = share_as_prior(share, 1.0, self.level)
            return supported_map(new_map, maps, rows, centre, cost), prior
        prior = share_as_prior(with_reading(share, without_answers), 1.0, self.level)
        new_map = moved_map(new_map, share.value, prior.value)
        new_map = supported_map(new_map, maps, rows, centre, cost)
        allowed = share.low <= without_answers.value <= share.high
        if allowed or (only_prior and self._is_one_sided(tails)):
            new_map = keeping_recall(new_map, rows, self._probability(rows.z), cost)
        return new_map, prior

    def _is_one_sided(self, tails: tuple[float, float]) -> bool:
        """Whether all answers are "no", and too few of them are about rows that were flagged.

        Answers about other rows lower the prior, but do not say that no flagged row is positive.
        """
        sample = self._sample
        if sample.positive.any():
            return False
        cost = self.labelled.cost
        n_flagged = int((self._probability(sample.z) > cost).sum())
        return n_flagged == 0 or exact_limit(0, n_flagged, tails[1], upper=True) > cost

    def in_terms_of(self, log_odds_map: LogOddsMap, fitted: FittedRatio) -> LogOddsMap:
        """The map for the log-odds by ``fitted``, whose training prior the answers set.

        A training prior moves and bends the log-odds. The answers have set it and have moved the
        map, so a map of the moved log-odds would count them twice.
        """
        if fitted is self.trained:
            return log_odds_map
        return map_of_others(log_odds_map, self._rows, self._rows_by(fitted).z, self.labelled.cost)

    def _probability(self, z: FloatArray) -> FloatArray:
        """Probability without answers of rows with the trained log-odds ``z``."""
        ratio = expit(z) / max(self.trained.prior.value, 1e-12)
        return self.labelled.probability(ratio)

    @property
    def _sample(self) -> DesignedSample:
        samples = []
        for part in self.parts:
            z = _trained_log_odds(self.trained, part.scores)
            samples.append(DesignedSample.of(z, part.answers))
        return join_samples(samples)

    @property
    def _rows(self) -> RowLogOdds:
        return self._rows_by(self.trained)

    def _rows_by(self, fitted: FittedRatio) -> RowLogOdds:
        if isinstance(self.batch, ScoreTails):
            of_cells = bounded_log_odds(fitted.cell_probability())
            return RowLogOdds.of(of_cells, self.batch.counts / self.batch.copies)
        return RowLogOdds.of(_trained_log_odds(fitted, self.batch.scores))


def _trained_log_odds(fitted: FittedRatio, scores: FloatArray) -> FloatArray:
    ratio = np.exp(fitted.log_ratio_of(scores))
    return bounded_log_odds(np.minimum(fitted.prior.value * ratio, 1.0))


# -- answers that are to be questioned ---------------------------------------------------------


_FEWEST_REVERSED = 5  # with fewer answers nothing is said about their order
_REVERSED = 3.0  # log of the factor by which reversed answers must be more probable
_SHIFTS = np.arange(-20, 20.5, 0.5)  # of the log-odds, for a test at any prior


@dataclass(frozen=True, slots=True)
class AnswerDoubts:
    """Why answers may be wrong, or say little.

    ``contradicted``: Whether limits of the answers and of the rows without answers exclude each
    other.
    ``exchanged``: Whether the opposite answers would be far more probable: at any prior, because of
    their order, or at the prior of the reading, if the answers contradict it.
    """

    share: Figure  # by the answers
    without_answers: PriorEstimate
    n_positive: int
    n: int
    contradicted: bool
    exchanged: bool

    @classmethod
    def of(
        cls,
        sample: DesignedSample,
        share: Figure,
        without_answers: PriorEstimate,
        centre: LogOddsMap,
    ) -> AnswerDoubts:
        """The doubts about the answers of ``sample``; ``centre`` is the map without answers."""
        log_odds = centre.log_odds(sample.z)
        opposite = replace(sample, positive=~sample.positive)
        gain = _gain(opposite, sample, log_odds[None])
        gain_of_order = _gain(opposite, sample, log_odds + _SHIFTS[:, None])
        apart = share.low > without_answers.high or share.high < without_answers.low
        exchanged = gain_of_order > _REVERSED
        if apart and gain > _REVERSED and gain_of_order > -1:
            exchanged = True
        return cls(
            share=share,
            without_answers=without_answers,
            n_positive=int(sample.positive.sum()),
            n=len(sample.z),
            contradicted=apart,
            exchanged=exchanged and len(sample.z) >= _FEWEST_REVERSED,
        )

    @property
    def of_one_kind(self) -> bool:
        """Whether all answers are the same."""
        return self.n_positive in (0, self.n)

    @property
    def unsupported(self) -> bool:
        """Whether labels should not follow the answers."""
        return self.exchanged or (self.of_one_kind and self.contradicted)


def _gain(opposite: DesignedSample, sample: DesignedSample, log_odds: FloatArray) -> float:
    """Log of the factor by which opposite answers are more probable, each at its best line."""
    largest = opposite.log_likelihood(log_odds).max() - sample.log_likelihood(log_odds).max()
    return float(largest)


def warn_of_doubtful_answers(doubts: AnswerDoubts) -> None:
    """Warn of answers that contradict the rows, or that rank against the scores."""
    if not (doubts.contradicted or doubts.exchanged):
        return
    without = doubts.without_answers
    share = doubts.share
    allowed = f"{without.low:.1%} to {without.high:.1%}"
    seen = f"{doubts.n_positive} of {doubts.n} answers are positive"
    if doubts.contradicted:
        seen += (
            f", so that {share.low:.1%} to {share.high:.1%} of the rows are, and without answers "
            f"rows and training allow {allowed}"
        )
    causes = "the rows of the plan were not answered as planned, or the classes have moved"
    if doubts.exchanged:
        seen += ", and the answers rank against the scores"
        causes = f"yes and no were exchanged (the reversed answers fit far better), {causes}"
    action = "Labels and probabilities were moved by the answers."
    if doubts.unsupported:
        action = "Labels stay as without answers."
    ContradictionWarning.issue(
        f"the answers contradict everything else: {seen}. Possible causes: {causes}. {action}",
        advice="Check a few answers. If they are right, label more rows (plan_audit) or fit again "
        "with recent rows.",
        command="Check a few answers. If they are right, label more rows (drpu ask) or fit again "
        "with recent rows.",
    )


# -- both priors from the answers --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AuditedPriors:
    """Prior of the training population from all answers, of the new rows, and a test.

    ``fairness``: Compares labelled with audited positives; None if the audited rows were used in
    training, so that their scores cannot be compared, or if some answers are known to be wrong.
    """

    train: PriorEstimate
    test: PriorEstimate
    fairness: FairnessTest | None


@dataclass(frozen=True, slots=True)
class _CarriedPart:
    """A part of an audit, its share of positives, and the growth of negatives since training."""

    part: AuditPart
    share: Figure
    growth: Growth | None  # None if the scores do not show it


def audited_priors(
    parts: list[AuditPart], counts: ScoreTails, fitted: FittedRatio, *, level: float
) -> AuditedPriors:
    """Both priors from answers; ``counts`` are those of the new rows.

    A fifth of the error probability of the upper limit is reserved for the upper limit that
    labelled and unlabeled rows give without answers, so the smaller of the two limits is valid. It
    is used only if no test rejects its assumption that the labelled positives are a random sample
    of all.
    """
    tails = (1 - level) / 2, (1 - BOUND) * (1 - level) / 2
    carried = []
    train_figures = []
    for part in parts:
        share = part.answers.answered_share(part.answers.positive, tails)
        growth = _growth(part, fitted, share)
        carried.append(_CarriedPart(part, share, growth))
        if growth is not None:
            train_figures.append(_train_figure(part, share, growth, fitted, tails))
    unlabeled = _unlabeled_figure(train_figures, fitted)
    of_rows = [each for each in carried if each.part.counts == counts]
    test_share = combine_figures([each.share for each in of_rows])

    fairness = _fairness(carried, unlabeled, fitted)
    train_bound = 1.0
    test_bound = 1.0
    if fairness is None or fairness.p_value >= UNFAIR:
        without_answers = _prior_without_answers(fitted, level)
        train_bound = without_answers.most
        if any(each.part.population == "unlabeled" for each in of_rows):
            test_bound = without_answers.most
        unlabeled = leaning_to(unlabeled, without_answers)
        test_share = _test_share(of_rows, test_share, without_answers, fitted)
    n_answers = sum(map(len, parts))
    train = fitted.prior
    if train_figures:
        estimate = off_the_ends(unlabeled, train_bound, level, n_answers)
        train = with_labelled(estimate, fitted.population.labelled_fraction)
    test = off_the_ends(test_share, test_bound, level, n_answers)
    return AuditedPriors(train, test, fairness)


def off_the_ends(share: Figure, bound: float, level: float, n_answers: int) -> PriorEstimate:
    """The share as a prior, which is half an answer away from 0 and 1 if it is there.

    At a prior of 0 or 1 all rows would have the same probability.
    """
    half = 0.0
    if share.value <= 0 or share.value >= 1:
        half = 0.5 / (n_answers + 1)
    return share_as_prior(share, bound, level, half)


def _test_share(
    of_rows: list[_CarriedPart], share: Figure, without_answers: PriorEstimate, fitted: FittedRatio
) -> Figure:
    """The share among rows of training, averaged with what is known about them without answers."""
    populations = {each.part.population for each in of_rows}
    if populations == {"unlabeled"}:
        return leaning_to(share, without_answers)
    if populations == {"fitted"}:
        fraction = fitted.population.labelled_fraction
        return leaning_to(share, with_labelled(without_answers, fraction))
    return share


def _unlabeled_figure(train_figures: list[Figure], fitted: FittedRatio) -> Figure:
    """Prior of the unlabeled training rows from answers, or as it was without any."""
    if train_figures:
        return combine_figures(train_figures)
    prior = fitted.unlabeled_prior
    return Figure(prior.value, prior.low, prior.high, (prior.high - prior.low) ** 2 / 16)


def _prior_without_answers(fitted: FittedRatio, level: float) -> PriorEstimate:
    """Prior of the unlabeled training rows by labelled and unlabeled rows alone."""
    return prior_from_tails(
        fitted.tails,
        level=bound_level(level),
        labelled_share=fitted.population.labelled_fraction or None,
        warn=False,
    )


def _growth(part: AuditPart, fitted: FittedRatio, share: Figure) -> Growth | None:
    """Growth of the negatives from the unlabeled training rows to the rows of the audit."""
    if part.population == "unlabeled":
        return Growth(1.0)
    if part.population == "fitted":
        return Growth(fitted.tails.n / (fitted.tails.n + fitted.tails.n_positive))
    if part.population == "training":  # labelled rows are the only difference
        return Growth(1 - fitted.population.labelled_fraction)
    if part.counts.n < COUNTED_ROWS:
        return None
    return negative_growth(part.counts, fitted.tails, share.value)


def _train_figure(
    part: AuditPart, share: Figure, growth: Growth, fitted: FittedRatio, tails: tuple[float, float]
) -> Figure:
    """Prior of the unlabeled training rows from the share among audited rows.

    If the population of the rows was not stated and nothing seems to have changed, the value is
    shrunk towards no change; the limits allow for both cases.
    """
    figure = carry_share(share, growth.inverse, tails)
    if part.population != "auto":
        return figure
    settled = settled_growth(growth, (1.0, 1 - fitted.population.labelled_fraction))
    value = 1 - (1 - share.value) / settled
    return replace(figure, value=min(max(value, figure.low), figure.high))


def leaning_to(share: Figure, without_answers: PriorEstimate) -> Figure:
    """The share, averaged with the prior without answers, with inverse variances as weights.

    Few answers, and answers about a month with few negatives, say little about the training prior:
    if they are less precise than what is known without them, they do not move it. The limits remain
    those of the answers, and the value as well if the limits of both exclude each other.
    """
    if share.low > without_answers.high or share.high < without_answers.low:
        return share
    deviations = float(-ndtri((1 - without_answers.level) / 2))
    spread = (without_answers.high - without_answers.low) / (2 * deviations)
    weight = 1 / max(share.variance, 1e-12)
    other_weight = 1 / max(spread**2, 1e-12)
    value = without_answers.value
    if weight > other_weight:
        value = weight * share.value + other_weight * without_answers.value
        value /= weight + other_weight
    return replace(share, value=min(max(value, share.low), share.high))


def share_as_prior(share: Figure, bound: float, level: float, half: float = 0.0) -> PriorEstimate:
    """The share as a prior, ``half`` away from 0 and 1; bounds that answers contradict are left."""
    high = min(share.high, bound) if bound > share.low else share.high
    high = min(high, 1.0)
    low = max(share.low, 0.0)
    value = min(max(share.value, half), 1 - half)
    return PriorEstimate(min(max(value, low), high), low, high, level, "audit")


def _fairness(
    carried: list[_CarriedPart], unlabeled: Figure, fitted: FittedRatio
) -> FairnessTest | None:
    """The test on all parts whose rows were not used in training, and whose answers are right."""
    comparable = []
    for each in carried:
        if not each.part.seen_in_training and each.part.answers.error_rate == 0:
            comparable.append(each)
    if not comparable:
        return None
    fraction = fitted.population.labelled_fraction
    train_prior = with_labelled(share_as_prior(unlabeled, 1.0, 0.95), fraction).value
    train_prior = min(max(train_prior, 1e-6), 1.0)
    columns = []
    first_stratum = 0
    for each in comparable:
        answers = each.part.answers
        mass = (answers.weight / np.maximum(answers.sizes, 1))[answers.stratum]
        weight = mass / mass.sum() * len(each.part)  # each part counts by its number of answers
        ratio = np.exp(fitted.log_ratio_of(each.part.scores))
        test_prior = min(max(each.share.value, 1e-6), 1 - 1e-6)
        posterior = ratio_posterior(ratio, train_prior, test_prior)
        ranks = positive_ranks(fitted.tails, fitted.model.counted(each.part.scores))
        stratum = answers.stratum + first_stratum
        columns.append((ranks, answers.positive, stratum, weight, posterior))
        first_stratum += len(answers.rows)
    ranks, positive, stratum, weight, posterior = map(np.concatenate, zip(*columns, strict=True))
    return fairness_test(ranks, positive, stratum, weight, posterior, fitted.tails.n_positive)


def warn_of_unfair_labels(test: FairnessTest | None) -> None:
    """Warn that the labelled positives are not a random sample of the positives."""
    if test is None or test.p_value >= UNFAIR:
        return
    side = "lower"
    consequence = "priors estimated without answers are too high, and expected recall is too low"
    if test.labelled_score_higher:
        side = "higher"
        consequence = (
            "priors estimated without answers are too low, and expected recall is too high"
        )
    LabelledSampleWarning.issue(
        f"labelled positives score {side} than the {test.n_positive} audited ones (mean rank "
        f"{test.rank:.2f} instead of 0.50, p = {test.p_value:.1g}): they do not look like a random "
        f"sample of all positives. Then {consequence}.",
        advice="Correct the fit with an audit of the unlabeled training rows: fit(X, y, "
        "sample_weight=labelling_weights(X, y, by=[columns that decide who gets labelled], "
        "audits=[audit]).weights), or with rates=... if you know the rates.",
        command="If you know the probability that a positive is labelled, fit with --weight, a "
        "column with 1 / probability for positives, divided by the mean of these values, and 1 for "
        "others; Python can estimate it from answers (labelling_weights).",
    )


# -- answers with scores -----------------------------------------------------------------------


def resolve_audit(
    fitted: FittedRatio,
    audit: Any,
    read_rows: Callable[[Any], Rows],
    batch: Batch | ScoreTails | None = None,
) -> list[AuditPart]:
    """The parts of ``audit`` with scores by ``fitted``, which planned it.

    ``read_rows`` checks rows that an audit contains. ``batch`` are the rows that positions in a
    random sample, or a table of answers in place of the audit, refer to, or counts of the rows that
    it was drawn from.
    """
    if is_frame(audit) and batch is not None:
        audit = read_table(fitted, batch, audit)
    parts = []
    for part in check_audit(audit).parts:
        if isinstance(part, RandomPart):
            part = _resolve_random(fitted, part, read_rows, batch)
        elif part.classifier != mark_of(fitted):
            raise DataError(
                "the audit was planned with another classifier, whose scores are not comparable: "
                "plan it with this one, or use Audit.random for rows that were chosen by simple "
                "random sampling."
            )
        parts.append(part)
    return parts


def _resolve_random(
    fitted: FittedRatio,
    part: RandomPart,
    read_rows: Callable[[Any], Rows],
    batch: Batch | ScoreTails | None,
) -> AuditPart:
    answered, positive = read_answers(list(part.labels), fitted.classes)
    if len(positive) < len(answered):
        warn_of_missing(len(answered) - len(positive), len(answered))
    population = "auto"
    if not part.positions:
        scores = fitted.model.scores(read_rows(part.rows)[answered])
    elif isinstance(batch, Batch):
        scores = batch.scores[check_positions("rows", part.rows, len(batch))[answered]]
        mark = fitted.population.training
        if mark is not None:  # the training rows are recognised
            population = mark.population_of(batch.rows)
    else:
        raise ParameterError(
            "this audit holds positions of rows, which need the rows they refer to: pass the rows "
            "themselves to Audit.random, or call evaluate(X[rows], labels)."
        )
    if batch is None:
        counts = fitted.no_counts()
    else:
        counts = batch.counts if isinstance(batch, Batch) else batch
    answers = Answers.random(positive, part.error_rate, part.groups_of(answered))
    return AuditPart(answers, scores, counts, mark_of(fitted), population)


def evaluate_parts(
    fitted: FittedRatio, point: OperatingPoint, parts: list[AuditPart], *, level: float
) -> Evaluation:
    """Performance of a point on answers; several parts are averaged by how precise they are."""
    evaluations = []
    for part in parts:
        flagged = point.is_positive(fitted.log_ratio_of(part.scores))
        evaluation = evaluate_answers(part.answers, flagged, cost=point.cost, level=level)
        evaluations.append(evaluation)
    if len(evaluations) == 1:
        return evaluations[0]
    figures = {}
    for name in MEASURED_FIGURES:
        of_parts = [getattr(evaluation, name) for evaluation in evaluations]
        figures[name] = _mean_of_measured(of_parts)
    n = 0
    n_positive = 0
    for part in parts:
        n += len(part.answers.positive)
        n_positive += int(part.answers.positive.sum())
    return Evaluation(**figures, n=n, level=level, n_positive=n_positive)


def _mean_of_measured(figures: list[Figure]) -> Figure:
    """The mean of the figures that answers could measure; one without a value if there are none."""
    measured = [figure for figure in figures if np.isfinite(figure.value)]
    if not measured:
        return figures[0]
    return combine_figures(measured)
