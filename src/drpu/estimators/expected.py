"""Expected performance without labels: methods that every adaptable classifier has."""

from __future__ import annotations

import numpy as np

from drpu._typing import BoolArray, Rows
from drpu.core.decision import ratio_threshold
from drpu.core.diagnostics import Performance, threshold_limits
from drpu.core.expectation import Decision, expect
from drpu.estimators._decision import RatioDecision
from drpu.estimators.fitted import FittedRatio
from drpu.models.base import LOG_LIMIT

__all__ = ["ExpectedMethods"]


class ExpectedMethods(RatioDecision):
    """Expected performance, its range, and the rows whose label is uncertain."""

    _batch_size: float | None = None  # number of rows that the prior was estimated on

    def expected_performance(self) -> Performance:
        """Expected accuracy, precision, recall and cost at the current prior, without labels.

        Computed from held-out positives and unlabeled training rows, which is valid if only the
        prior has changed. The threshold is evaluated on counts that did not determine it.
        """
        return self._expected()[0]

    def expected_range(self) -> tuple[Performance, Performance]:
        """Lower and upper 95 % limit of each expected quantity.

        They include the limits of both priors, the sampling error of the training counts and
        that of the threshold. They hold for the population that new rows are drawn from.
        """
        return self._expected()[1:]

    def _expected(self) -> tuple[Performance, Performance, Performance]:
        fitted, at = self._counts_threshold()
        decision = Decision(
            fitted.tails,
            at,
            self.threshold_ if self._made_by_counts() else None,
            fitted.labelled_fraction,
            len(fitted.model.models),
            self._batch_size,
        )
        return expect(decision, fitted.unlabeled_prior, self.test_prior_, cost=self.cost_)

    def _made_by_counts(self) -> bool:
        """Whether the threshold on scores comes from a calibration on the training counts."""
        return self.fitted_.calibration is not None

    @property
    def threshold_interval_(self) -> tuple[float, float]:
        """Smallest and largest threshold over the intervals of both priors."""
        self._check_fitted()
        return threshold_limits(self.fitted_.train_prior, self.test_prior_, cost=self.cost_)

    def uncertain(self, X: Rows) -> BoolArray:
        """Rows whose label changes within the interval of the current prior.

        The uncertainty of the training prior is not taken into account.
        """
        prior, train = self.test_prior_, self._checked().train_prior.value
        level = self._log_ratio(X)
        ends = [_log_level(train, end, self.cost_) for end in (prior.high, prior.low)]
        return np.asarray((level > ends[0]) & (level <= ends[1]))

    def _counts_threshold(self) -> tuple[FittedRatio, float]:
        fitted = self._checked()
        if np.isinf(self.threshold_):
            return fitted, self.threshold_
        return fitted, fitted.score_above_log(self._log_threshold())


def _log_level(train_prior: float, test_prior: float, cost: float) -> float:
    """Log of the threshold, made finite as in ``decision_function``."""
    threshold = ratio_threshold(train_prior, test_prior, cost=cost)
    if np.isinf(threshold):
        return float(np.copysign(2 * LOG_LIMIT, threshold))
    return float(np.log(threshold))
