"""What fitted classifiers share: adaptation to new rows and to answers, and audits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from drpu._checks import (
    check_choice,
    check_fraction,
    check_integer,
    check_numbers,
    check_random_state,
    check_real,
    check_weights,
)
from drpu._samples import n_rows
from drpu._typing import FloatArray, Rows
from drpu.audits.combine import (
    adapt_to_answers,
    averaged,
    bound_level,
    resolve_audit,
    rows_for_width,
)
from drpu.audits.design import draw_rows, expected_width, make_strata
from drpu.audits.evaluation import Evaluation, evaluate_answers
from drpu.audits.plan import (
    POPULATIONS,
    Audit,
    AuditPlan,
    GroupPlans,
    check_audit,
    labels_of,
    true_labels,
)
from drpu.classifier.decisions import RatioDecisions
from drpu.classifier.notices import count_there
from drpu.exceptions import ParameterError
from drpu.periods.group_priors import GroupPriors
from drpu.periods.groups import check_audits, group_members, priors_by_group, with_one_period
from drpu.periods.read import adapt_to_counts, arrived_labels
from drpu.priors.calibration import ratio_posterior
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import FittedRatio, ScoredRows, score_once
from drpu.state.record import Columns, Record, try_rows
from drpu.tables.frames import warn_of_order
from drpu.tables.values import is_missing_cell

if TYPE_CHECKING:
    from drpu.classifier.adapted import AdaptedClassifier


class RatioClassifier(RatioDecisions):
    """A fitted ratio that can be adapted to new rows and to answers, without a refit.

    Adapting returns a new :class:`drpu.AdaptedClassifier`.
    """

    def count(self, X: Rows, *, sample_weight: Any = None) -> ScoreTails:
        """Counts of the scores of rows, which :meth:`adapt` accepts in place of rows.

        Counts of parts add up exactly to those of the whole: count each shard separately,
        ``merge`` the results, and adapt to the sum.

        Parameters
        ----------
        X : rows of shape (n, d)
            Unlabeled rows; the workers count those of a Dask or Spark data frame.
        sample_weight : array-like of shape (n,), or str, optional
            Weights of the rows in the counts. The name of their column for a Dask or Spark data
            frame.

        Returns
        -------
        tails : ScoreTails
            Each row is counted once per fold model.
        """
        warn_of_order(X, sample_weight=sample_weight)
        there = count_there(self, X, sample_weight)
        return self._counted(X, sample_weight) if there is None else there

    def adapt(
        self,
        X: Rows | ScoreTails,
        y: Any = None,
        *,
        audit: Audit | None = None,
        sample_weight: Any = None,
        shift: str = "auto",
        level: float = 0.95,
    ) -> AdaptedClassifier:
        """Estimate the prior of the batch ``X`` and return a classifier for it.

        Parameters
        ----------
        X : rows of shape (n, d), or ScoreTails
            Rows with the prior of the rows to classify, or their counts from
            :meth:`count`. The workers count the rows of a Dask or Spark data frame.
        y : array-like of shape (n,), optional
            Labels of these rows that have arrived, as in ``fit``: labelled positives, and all others. Their
            share, by weight, is a further reading of the prior, if positives are labelled at the rate of
            training, and a lower bound only if the classifier was fitted with a ``label_delay`` above 0.
            Needs a single sample (``scenario_``).
        audit : Audit, optional
            True labels of some of these rows, from :meth:`plan_audit` or ``Audit.random``. They
            give the prior of these rows, and a map of the trained log-odds from which labels and
            probabilities come (``map_``). If only the prior has changed since training, they also give the
            training prior. Later adaptations of the result start from the map and compare new rows with
            these rows. In a later audit these answers count at most half as much as the new ones.
        sample_weight : array-like of shape (n,), or str, optional
            Weights of the rows in the counts; the name of their column for a Dask or Spark data
            frame.
        shift : {"auto", "prior", "none"}, default="auto"
            What may have changed since training. ``"auto"`` decides by two tests: where nothing but the prior
            changed, prior and labels are adapted to it, with scores that hardly separate the classes
            only in part (see docs/months.md); otherwise they move only as far as the backtest of
            ``fit(..., periods=...)``, labels that arrived or answers support it, and without any of them
            labels stay as trained. ``"prior"`` assumes that only the prior changed, as the paper
            does. ``"none"`` keeps prior and labels.
        level : float, default=0.95
            Confidence level of the interval.

        Returns
        -------
        adapted : AdaptedClassifier
            Frozen, with the cost of this classifier: later changes of this classifier do not affect it.

        See Also
        --------
        at_cost : The same classifier at another cost.
        """
        check_fraction("level", level)
        if audit is not None:
            refuse_with_audit(
                sample_weight=sample_weight, y=y, shift=None if shift == "auto" else shift
            )
            return adapt_to_answers(self, X, check_audit(audit), level=level)
        warn_of_order(X, y=y, sample_weight=sample_weight)
        counts = count_there(self, X, sample_weight)
        if counts is not None:
            X, sample_weight = counts, None
        elif sample_weight is None:
            X = with_one_period(self, X)
        seen = self._counted(X, sample_weight)
        weight = None
        if sample_weight is not None:
            weight = check_numbers("sample_weight", sample_weight)
        elif y is not None and seen.weighted:
            raise ParameterError(
                "y must be None with weighted counts, in which rows are not told apart."
            )
        n = round(seen.n) if weight is None else len(weight)
        arrived = arrived_labels(self, y, n, weight)
        prior = self.fitted_.prior_of(seen, level=level)
        return adapt_to_counts(self, seen, prior, shift=shift, arrived=arrived)

    def adapt_predict(
        self, X: Rows, *, sample_weight: Any = None, shift: str = "auto", level: float = 0.95
    ) -> tuple[AdaptedClassifier, np.ndarray[Any, Any]]:
        """Adapt to the batch ``X`` and label its rows, scoring each of them once.

        ``adapted, labels = clf.adapt_predict(X)`` is ``adapted = clf.adapt(X)`` followed by
        ``labels = adapted.predict(X)``, at about half of the computing time. The options are those of
        :meth:`adapt`.
        """
        warn_of_order(X, sample_weight=sample_weight)
        scored = score_once(self, X if sample_weight is not None else with_one_period(self, X))
        adapted = self.adapt(scored, sample_weight=sample_weight, shift=shift, level=level)
        return adapted, adapted.predict(scored)

    def _counted(self, X: Any, sample_weight: Any) -> ScoreTails:
        """The counts of rows that may have been counted or scored before."""
        if isinstance(X, ScoreTails):
            return self._own_counts(X, sample_weight)
        if isinstance(X, ScoredRows) and sample_weight is None:
            return X.counts
        rows = X.rows if isinstance(X, ScoredRows) else self._checked_rows(X)
        weight = None
        if sample_weight is not None:
            weight = check_weights("sample_weight", sample_weight, n_rows(rows))
        if isinstance(X, ScoredRows):
            return self.fitted_.count_scores(X.scores, weight)
        return self.fitted_.count(rows, weight)

    # -- groups

    def adapt_by(
        self,
        X: Rows,
        y: Any = None,
        *,
        by: Any,
        level: float = 0.95,
        audit: Mapping[Any, Audit] | None = None,
        budget: float | None = None,
        shift: str = "auto",
    ) -> GroupPriors:
        """Prior of each group of rows, with limits that hold for all groups together, and its classifier.

        Parameters
        ----------
        X : rows of shape (n, d)
            Unlabeled rows.
        y, shift
            As in :meth:`adapt`, for each group.
        by : str or array-like of shape (n,)
            Name of a column of ``X``, or one value per row. Dates are grouped by calendar month. The
            column need not have been in the training data.
        level : float, default=0.95
            Level at which the limits of all groups hold together.
        audit : mapping from group to Audit, optional
            Answers about rows of some or all groups, from ``plan_audit_by(...).answer(labels)``. The priors
            of these groups come from them.
        budget : int or float, optional
            Rows of each group that can be checked, or their share as a float up to 1; see :meth:`at_budget`.

        Returns
        -------
        priors : GroupPriors
            For each group its prior, what moved, the warnings about it, and its ``classifier``, which makes
            its labels. The values of small groups are shrunk towards the prior of all rows; see
            :class:`drpu.periods.group_priors.GroupPriors` for the rule.

        Examples
        --------
        >>> from drpu import DRPUClassifier, make_gaussian_pu
        >>> data = make_gaussian_pu(
        ...     300, 1000, prior=0.3, test_prior=0.2, n_test=2000, separation=3, random_state=0
        ... )
        >>> clf = DRPUClassifier("kernel", random_state=0).fit_pu(data.positive, data.unlabeled)
        >>> months = ["may", "june"] * 1000
        >>> clf.adapt_by(data.test, by=months).names
        ['june', 'may']
        """
        level = check_fraction("level", level)
        warn_of_order(X, y=y)
        return priors_by_group(self, X, by, level, audit, y=y, budget=budget, shift=shift)

    # -- audits

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
        fitted = self.fitted_
        check_fraction("level", level)
        check_choice("population", population, POPULATIONS)
        if (n is None) == (width is None):
            raise ParameterError(
                f"give n or width, one of the two, got n={n!r} and width={width!r}."
            )
        if isinstance(X, ScoreTails):
            raise ParameterError("X must be rows: rows cannot be chosen from counts.")
        scored = score_once(self, X)
        if n is not None and check_integer("n", n, low=1) > len(scored):
            raise ParameterError(f"n must be at most the number of rows, {len(scored)}, got {n}.")
        if population == "auto":
            mark = fitted.training
            population = "auto" if mark is None else mark.population_of(scored.rows)
        ratio, counts = np.exp(fitted.log_ratio_of(scored.scores)), scored.counts
        prior = fitted.prior_of(counts, level=bound_level(level))
        posterior = ratio_posterior(ratio, fitted.train_prior.value, prior.value)
        # The upper limit without answers helps only if the prior is as high as estimated.
        bound = prior.high if prior.identified else 1.0
        if n is None:

            def reached(n: int) -> float:
                return expected_width(make_strata(ratio, posterior, n, prior.high), level, bound)

            n = rows_for_width(check_real("width", width, low=0.0, high=1.0), reached, len(scored))
        strata = make_strata(ratio, posterior, n, prior.high)
        chosen = draw_rows(strata, ratio, check_random_state(random_state))
        return AuditPlan(
            rows=chosen,
            strata=strata,
            stratum=strata.of(ratio[chosen]),
            scores=scored.scores[chosen],
            counts=counts,
            classes=fitted.classes,
            classifier=fitted.mark,
            population=population,
            expected_width=expected_width(strata, level, bound),
            level=level,
        )

    def evaluate(
        self, X: Rows | Audit, y: Any = None, *, blank: str | None = None, level: float = 0.95
    ) -> Evaluation:
        """Accuracy, precision, recall and cost from true labels, with confidence limits.

        Parameters
        ----------
        X : Audit, or rows of shape (n, d)
            An audit, whose answers are weighted by their design; several parts are
            averaged. Or a simple random sample of rows.
        y : array-like of shape (n,), optional
            The true labels of the rows: yes and no, 1 and 0, true and false, or values of ``classes_``;
            None, NaN and a blank mean: no answer. Left out with an audit.
        blank : {"negative"}, optional
            What a missing label means: ``"negative"`` if only positives were marked. Otherwise
            there is no answer, and labels of one class beside missing ones are refused.
        level : float, default=0.95
            Confidence level of each interval.

        Returns
        -------
        evaluation : Evaluation
            Figures with limits for the population that the rows were drawn from.
        """
        level = check_fraction("level", level)
        if isinstance(X, (Audit, AuditPlan)):
            for name, value in (("y", y), ("blank", blank)):
                if value is not None:
                    raise ParameterError(
                        f"{name} must be None with an audit: it contains the answers."
                    )
            parts = resolve_audit(self, check_audit(X), None, None)
        elif y is None:
            raise ParameterError("y must be given with rows: their true labels.")
        else:
            warn_of_order(X, y=y)
            labels = true_labels(y, self.classes_, blank=blank)
            parts = resolve_audit(self, Audit.random(X, labels), None, None)
        found = [
            evaluate_answers(part.answers, self._flags(part.scores), cost=self.cost_, level=level)
            for part in parts
        ]
        return found[0] if len(found) == 1 else averaged(found)

    def plan_audit_by(
        self,
        X: Rows,
        *,
        by: Any,
        n: int | None = None,
        width: float | None = None,
        level: float = 0.95,
        random_state: Any = None,
    ) -> GroupPlans:
        """Choose rows to label in each group of rows, such as each month.

        Parameters
        ----------
        X, by
            Rows and their groups, as in :meth:`adapt_by`.
        n, width, level, random_state
            As in :meth:`plan_audit`, for each group.

        Returns
        -------
        plans : GroupPlans
            ``plans.rows`` are the positions of the rows to label, and ``plans.answer(labels)`` the audits
            that :meth:`adapt_by` accepts.
        """
        names, member, scored = group_members(self, X, by)
        rng, plans = check_random_state(random_state), GroupPlans()
        n = None if n is None else check_integer("n", n, low=1)
        for k, name in enumerate(names):
            at = np.flatnonzero(member == k)
            most = None if n is None else min(n, len(at))  # a small group is answered as a whole
            some = self.fitted_.some(scored, at)
            plan = self.plan_audit(some, n=most, width=width, level=level, random_state=rng)
            plans[name] = replace(plan, rows=at[plan.rows])
        return plans

    def evaluate_by(
        self,
        X: Rows,
        y: Any = None,
        *,
        by: Any,
        audit: Mapping[Any, Audit] | None = None,
        blank: str | None = None,
        level: float = 0.95,
    ) -> dict[Any, Evaluation]:
        """Measured performance in each group of rows, such as each month.

        Parameters
        ----------
        X, by
            Rows and their groups, as in :meth:`adapt_by`.
        y, blank, level
            True labels, the meaning of missing ones and confidence level, as in :meth:`evaluate`.
        audit : mapping from group to Audit, optional
            Instead of ``y``: answers about rows of some groups.

        Returns
        -------
        found : dict of Evaluation
            Groups without answers are left out.
        """
        if (audit is None) == (y is None):
            raise ParameterError("give y, the true labels of the rows, or audit, one of the two.")
        warn_of_order(X, y=y)
        names, member, scored = group_members(self, X, by)
        check_audits(audit, names)
        if audit is not None:
            return {name: self.evaluate(own, level=level) for name, own in audit.items()}
        labels = labels_of(true_labels(y, self.classes_, blank=blank), len(member))
        found, answered = {}, np.array([not is_missing_cell(value) for value in labels.tolist()])
        for k, name in enumerate(names):
            at = np.flatnonzero((member == k) & answered)
            if len(at):
                (part,) = resolve_audit(self, Audit.random(at, labels[at].tolist()), scored, None)
                flags = self._flags(part.scores)
                found[name] = evaluate_answers(part.answers, flags, cost=self.cost_, level=level)
        return found


def refuse_with_audit(**arguments: Any) -> None:
    """Raise if one of the arguments was given beside an audit, whose answers are used instead."""
    for name, value in arguments.items():
        if value is not None:
            raise ParameterError(
                f"{name} must be left out with an audit: its answers are used instead."
            )


@dataclass(frozen=True)
class RatioRecord(Record):
    """What a file keeps of a fitted or adapted classifier."""

    columns: Columns
    fitted: FittedRatio

    def __post_init__(self) -> None:
        self.columns.check_model(self.fitted.model)

    def facts(self) -> dict[str, Any]:  # noqa: D102
        return self.fitted.facts() | self.columns.facts()

    def module(self) -> Any:  # noqa: D102
        return getattr(self.fitted.model, "module", None)

    def trial(self, classifier: RatioClassifier) -> FloatArray | None:
        """Scores of two artificial rows by all functions."""
        return try_rows(classifier.fitted_.model)
