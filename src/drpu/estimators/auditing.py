"""Planning an audit, and measuring performance with true labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from drpu._checks import check_choice, check_fraction, check_integer, check_real
from drpu._samples import n_rows, take_rows
from drpu._typing import BoolArray, FloatArray, Rows
from drpu.core.audit import combine_figures, draw_rows, expected_width, make_strata
from drpu.core.audit_performance import Answers, Evaluation, evaluate_answers
from drpu.core.decision import ratio_posterior
from drpu.core.prior import PriorEstimate
from drpu.core.tails import ScoreTails
from drpu.estimators._decision import RatioDecision
from drpu.estimators._validation import check_rows
from drpu.estimators.audit import (
    POPULATIONS,
    Audit,
    AuditPart,
    AuditPlan,
    RandomPart,
    check_audit,
    classifier_mark,
    warn_of_missing,
)
from drpu.estimators.audit_labels import check_positions, read_answers
from drpu.estimators.audit_priors import bound_level
from drpu.estimators.fitted import FittedRatio
from drpu.exceptions import DataError, DRPUWarning, ParameterError

__all__ = ["Auditable", "mark_of", "resolve_audit"]

_CHUNK = 1 << 16


class Auditable(RatioDecision):
    """Classifiers that can choose rows to label, and use the answers."""

    def plan_audit(
        self,
        X: Rows,
        *,
        n: int | None = None,
        width: float | None = None,
        population: str = "auto",
        level: float = 0.95,
        random_state: Any = None,
    ) -> AuditPlan:
        """Choose rows whose true labels are most informative about the share of positives.

        Rows are divided into strata by score, and more rows are chosen where the classifier
        is uncertain. Every row is chosen with a known, positive probability, so estimates from the
        answers are valid even if the classifier is wrong.

        Parameters
        ----------
        X : rows of shape (N, d)
            Unlabeled rows, a sample of the population whose prior is wanted.
        n : int, optional
            Number of rows to label. Give this or ``width``.
        width : float, optional
            Width that the interval of the prior should have: the smallest number of rows
            that is expected to reach it is planned.
        population : {"auto", "new", "training", "unlabeled"}, default="auto"
            Where the rows come from. ``"new"``: from any time or place; the counts of their scores
            show how far the prior has changed since training. ``"training"``: new rows of the same
            population that the classifier was trained on. ``"unlabeled"``: the unlabeled
            training rows themselves, or some of them. The last two need no comparison of
            counts, which makes the training prior more precise. ``"auto"`` recognises the
            unlabeled or the whole training sample of this fit, in any order (a loaded classifier
            cannot), and otherwise is ``"new"``, except that the training prior is shrunk towards "nothing
            has changed" as far as the counts agree with it.
        level : float, default=0.95
            Confidence level that ``width`` refers to.
        random_state : int, RandomState or None, default=None
            Seed of the choice of rows.

        Returns
        -------
        plan : AuditPlan
            ``plan.rows`` are the positions of the rows to label.

        See Also
        --------
        adapt : Accepts ``audit=plan.answer(labels)``.
        """
        self._check_fitted()
        check_fraction("level", level)
        check_choice("population", population, POPULATIONS)
        if (n is None) == (width is None):
            raise ParameterError(f"give n or width, one of the two, got n={n!r} and width={width!r}.")
        if isinstance(X, ScoreTails):
            raise ParameterError("X must be rows: rows cannot be chosen from counts.")
        rows = self._checked_rows(X)
        if n is not None and check_integer("n", n, low=1) > n_rows(rows):
            raise ParameterError(f"n must be at most the number of rows, {n_rows(rows)}, got {n}.")
        if population == "auto":
            mark = self.fitted_.training
            population = "auto" if mark is None else mark.population_of(rows)
        ratio, counts = _scored(self.fitted_, rows)
        prior = self._rough_prior(counts, bound_level(level))
        posterior = ratio_posterior(ratio, self.fitted_.train_prior.value, prior.value)
        # The upper limit without answers helps only if the prior is as high as estimated.
        bound = prior.high if prior.identified else 1.0
        if n is None:

            def reached(n: int) -> float:
                return expected_width(make_strata(ratio, posterior, n, prior.high), level, bound)

            n = _rows_for(check_real("width", width, low=0.0, high=1.0), reached, n_rows(rows))
        strata = make_strata(ratio, posterior, n, prior.high)
        chosen = draw_rows(strata, ratio, check_random_state(random_state))
        return AuditPlan(
            rows=chosen,
            strata=strata,
            stratum=strata.of(ratio[chosen]),
            scores=self.fitted_.model.scores(take_rows(rows, chosen)),
            counts=counts,
            classes=self.fitted_.classes,
            classifier=mark_of(self.fitted_),
            population=population,
            expected_width=expected_width(strata, level, bound),
            level=level,
        )

    def evaluate(self, X: Rows | Audit, y: Any = None, *, level: float = 0.95) -> Evaluation:
        """Accuracy, precision, recall and cost from true labels, with confidence limits.

        Parameters
        ----------
        X : Audit, or rows of shape (n, d)
            An audit, whose answers are weighted by their design; several parts are
            averaged. Or a simple random sample of rows.
        y : array-like of shape (n,), optional
            The true labels of the rows: True and False, 1 and 0, or values of ``classes_``; None
            and NaN mean: no answer. Left out with an audit.
        level : float, default=0.95
            Confidence level of each interval.

        Returns
        -------
        evaluation : Evaluation
            Figures with limits for the population that the rows were drawn from.
        """
        self._check_fitted()
        check_fraction("level", level)
        if isinstance(X, (Audit, AuditPlan)):
            if y is not None:
                raise ParameterError("y must be None with an audit: it contains the answers.")
            parts = resolve_audit(self, check_audit(X), None, None)
            found = [self._evaluation(part.answers, part.scores, level) for part in parts]
            return found[0] if len(found) == 1 else _averaged(found)
        if y is None:
            raise ParameterError("y must be given with rows: their true labels.")
        audit = Audit.random(self._checked_rows(X), y)
        (part,) = resolve_audit(self, audit, None, None)
        return self._evaluation(part.answers, part.scores, level)

    def _evaluation(self, answers: Answers, scores: FloatArray, level: float) -> Evaluation:
        flagged: BoolArray = self._margin(self.fitted_.log_ratio_of(scores)) > 0
        return evaluate_answers(answers, flagged, cost=self.cost_, level=level)

    def _rough_prior(self, counts: ScoreTails, level: float) -> PriorEstimate:
        """Prior of the rows without answers."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DRPUWarning)  # these warnings recommend an audit
            return self.fitted_.prior_of(counts, level=level)


def mark_of(fitted: FittedRatio) -> str:
    """Mark of the classifier that an audit belongs to; adapting and saving do not change it."""
    return classifier_mark(fitted.tails, len(fitted.model.models))


def resolve_audit(
    classifier: Auditable, audit: Audit, X: Rows | None, seen: ScoreTails | None
) -> list[AuditPart]:
    """The parts of ``audit`` with scores by ``classifier``.

    Parameters
    ----------
    classifier : Auditable
        Must be the one that planned the audit, or an adaptation of it.
    audit : Audit
        The answers.
    X : rows, optional
        The rows that positions in a random sample refer to, checked.
    seen : ScoreTails, optional
        Counts of the rows that a random sample was drawn from.
    """
    mark, parts = mark_of(classifier.fitted_), []
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
    classifier: Auditable, part: RandomPart, X: Rows | None, seen: ScoreTails | None, mark: str
) -> AuditPart:
    fitted = classifier.fitted_
    answered, positive = read_answers(list(part.labels), fitted.classes)
    if len(positive) < len(answered):
        warn_of_missing(len(answered) - len(positive), len(answered))
    if part.positions and X is None:
        raise ParameterError(
            "this audit holds positions of rows, which need the rows they refer to: pass the rows themselves "
            "to Audit.random, or call evaluate(X[rows], labels)."
        )
    if part.positions:
        rows = take_rows(X, check_positions("rows", part.rows, n_rows(X))[answered])
    else:
        rows = take_rows(check_rows(classifier, part.rows, model=fitted.model, name="rows"), answered)
    answers = Answers(positive, np.zeros(len(positive), dtype=np.int64), np.array([len(positive)]))
    return AuditPart(answers, fitted.model.scores(rows), fitted.no_counts() if seen is None else seen, mark)


def _scored(fitted: FittedRatio, X: Rows) -> tuple[FloatArray, ScoreTails]:
    """Ratio of each row, and the counts of all scores, from one pass over the rows."""
    counts, ratios = fitted.no_counts(), []
    for start in range(0, n_rows(X), _CHUNK):
        scores = fitted.model.scores(take_rows(X, slice(start, start + _CHUNK)))
        fitted.count_scores(scores, tails=counts)
        ratios.append(np.exp(fitted.log_ratio_of(scores)))
    return np.concatenate(ratios), counts


def _rows_for(width: float, reached: Callable[[int], float], most: int) -> int:
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


def _averaged(found: list[Evaluation]) -> Evaluation:
    """The mean of evaluations, each figure weighted by how precise it is."""
    names = ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost", "prior")
    figures = {}
    for name in names:
        known = [getattr(one, name) for one in found if np.isfinite(getattr(one, name).value)]
        figures[name] = combine_figures(known) if known else getattr(found[0], name)
    return Evaluation(**figures, n=sum(one.n for one in found), level=found[0].level)
