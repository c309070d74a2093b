"""Groups of rows: a classifier for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drpu._arrays import BoolArray, IntArray, Rows
from drpu.audits.answers_file import read_audit
from drpu.audits.plan import LABEL, Audit
from drpu.classifier.drpu import AdaptedClassifier, RatioClassifier
from drpu.classifier.reading import read_batch, read_members
from drpu.decisions.budget import budget_depth
from drpu.exceptions import ParameterError
from drpu.periods.counts import GroupCounts, sum_of_counts
from drpu.periods.groups import (
    GroupPrior,
    GroupPriors,
    GroupReader,
    GroupRows,
    Groups,
    rows_of_groups,
    warn_by_group,
)
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import FittedRatio, check_counts
from drpu.state.labels import labels_of
from drpu.state.rows import Batch
from drpu.tables.values import flat_values


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Arguments of ``adapt_by``."""

    level: float
    budget: float | None = None
    shift: str = "auto"


def adapt_by_group(
    classifier: RatioClassifier, X: Rows, y: Any, by: Any, options: GroupOptions
) -> GroupPriors:
    """Priors of the groups of ``X``, and the classifiers for them; see ``adapt_by``."""
    fitted = classifier.fitted_
    reader = GroupReader(fitted, classifier.reference_, options.shift, classifier.reading_)
    if are_group_counts(X):
        rows = _counted_rows(fitted, X, y, by)
        total = sum_of_counts(fitted.no_counts(), X.values())
        priors, read_groups = reader.shrunken(rows, len(rows), total, level=options.level)
    else:
        groups, batch = read_members(classifier, X, by)
        if y is not None:
            y = labels_of(y, len(batch))
        priors, read_groups = reader.shrunken(
            rows_of_groups(fitted, batch, groups, y),
            len(groups.names),
            batch.counts,
            y,
            level=options.level,
        )
    warn_by_group({group.rows.name: group.warnings for group in read_groups})

    decided = []
    for prior, group in zip(priors, read_groups, strict=True):
        # at the prior that all groups together gave
        adapted = classifier._at_reading(group.reading.with_prior(prior.prior))
        codes = tuple(warning.code for warning in group.warnings)
        decided.append(replace(_decided(prior, adapted, group.rows, options), warnings=codes))
    return replace(priors, groups=tuple(decided))


def are_group_counts(X: Any) -> bool:
    """Whether ``X`` has counts of groups by name; a dict of values is a row."""
    if isinstance(X, GroupCounts):
        return True
    return isinstance(X, Mapping) and all(isinstance(tails, ScoreTails) for tails in X.values())


def _counted_rows(
    fitted: FittedRatio, counts: Mapping[Any, ScoreTails], y: Any, by: Any
) -> list[GroupRows]:
    """The counts of each group, after the arguments were checked."""
    for name, value in (("y", y), ("by", by)):
        if value is not None:
            raise ParameterError(f"{name} must be None with counts, which have no rows.")
    rows = []
    for name, tails in counts.items():
        rows.append(GroupRows(name, check_counts(fitted, tails)))
    return rows


def _decided(
    prior: GroupPrior, adapted: AdaptedClassifier, rows: GroupRows, options: GroupOptions
) -> GroupPrior:
    """The group with its classifier, and the number of rows that this flags, if there are rows."""
    batch = rows.batch
    if options.budget is not None:
        depth = budget_depth(options.budget, rows.n)
        adapted = adapted.at_budget(**depth, of=rows.counts if batch is None else batch)
    if batch is None:
        return replace(prior, classifier=adapted)
    log_ratio = adapted.fitted_.log_ratio_of(batch.scores)
    flagged = int(adapted.point_.is_positive(log_ratio).sum())
    return replace(prior, classifier=adapted, flagged=flagged)


@dataclass(frozen=True)
class GroupOutputs:
    """Outputs of all rows, each by the classifier of its group, and the order to check them in.

    Labels are those at the prior and the cost: a budget says which rows to check, not what they
    are.
    """

    outputs: dict[str, np.ndarray[Any, Any]]  # label, probability, ratio and score of each row
    best_first: IntArray  # all rows: one group after the other, the best first in each
    listed: IntArray  # the rows of the budget, or the flagged rows, in the same order
    rank: IntArray  # of each row in its group, from 1 on

    @classmethod
    def of(cls, priors: GroupPriors, batch: Batch, by: Any) -> GroupOutputs:
        """The outputs of rows that :meth:`adapt_by` has adapted a classifier to, group by group."""
        groups = Groups.of(flat_values("by", by))
        parts = []
        for k, group in enumerate(priors):
            parts.append((group.classifier, groups.rows(k)))
        return cls._joined(parts, batch)

    @classmethod
    def of_all(cls, classifier: RatioClassifier, batch: Batch) -> GroupOutputs:
        """The outputs of rows that are one group."""
        return cls._joined([(classifier, np.arange(len(batch)))], batch)

    @classmethod
    def _joined(cls, parts: list[tuple[RatioClassifier, IntArray]], batch: Batch) -> GroupOutputs:
        whole: dict[str, np.ndarray[Any, Any]] = {}
        rank = np.zeros(len(batch), dtype=np.int64)
        best_first = []
        listed = []
        for classifier, rows in parts:
            group = batch.scores_of(rows)
            without_budget = classifier.at_cost(classifier.cost_)
            for name, values in without_budget._outputs(group).items():
                if name not in whole:
                    whole[name] = np.empty(len(batch), dtype=values.dtype)
                whole[name][rows] = values
            order = rows[classifier.fitted_.best_first(group.scores)]
            rank[order] = np.arange(1, len(order) + 1)
            best_first.append(order)
            budget = getattr(classifier, "budget_", None)
            if budget is None or budget.n is None:
                on_list = np.zeros(len(batch), dtype=bool)
                on_list[rows] = classifier.decision_function(group) > 0
                listed.append(order[on_list[order]])
            else:
                listed.append(order[: budget.n])
        return cls(whole, np.concatenate(best_first), np.concatenate(listed), rank)

    @property
    def flagged(self) -> BoolArray:
        """Which rows are flagged."""
        return np.asarray(self.outputs["score"] > 0)

    @property
    def place(self) -> Any:
        """The rank of each row on the list to check; masked for rows that are not on it."""
        on_list = np.zeros(len(self.rank), dtype=bool)
        on_list[self.listed] = True
        return np.ma.array(self.rank, mask=~on_list)

    @property
    def in_order(self) -> IntArray:
        """All rows in their order."""
        return np.arange(len(self.rank))


def audit_from_columns(
    classifier: RatioClassifier,
    X: Rows,
    columns: Mapping[str, Any],
    *,
    label: str = LABEL,
) -> Audit:
    """The audit in the columns of a filled-in file.

    ``classifier`` planned the audit, or is an adaptation or a loaded copy of the one that did.
    ``X`` are the rows of the plan, in their order at that time, and ``label`` is the name of the
    column with the answers.
    """
    batch = read_batch(classifier, X)
    return read_audit(classifier.fitted_, batch, columns, label=label)
