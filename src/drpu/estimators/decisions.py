"""Decisions by budget, amount and group: methods that every adaptable classifier has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drpu._checks import check_fraction, check_real
from drpu._typing import FloatArray, Rows
from drpu.core.budget import Range
from drpu.core.costs import Costs
from drpu.core.groups import GroupPriors
from drpu.estimators.budget import spend
from drpu.estimators.groups import priors_by_group
from drpu.exceptions import ParameterError

if TYPE_CHECKING:
    from drpu.estimators.adapted import AdaptedClassifier

__all__ = ["DecisionMethods"]


class DecisionMethods:
    """Methods for decisions by budget, for expected costs, and for groups of rows.

    A part of ``Adaptable``, whose attributes it uses.
    """

    def at_budget(
        self: Any, rows: int | None = None, *, of: Any = None, share: float | None = None
    ) -> AdaptedClassifier:
        """Classifier that flags as many rows as can be checked, those with the highest scores.

        Parameters
        ----------
        rows : int, optional
            Number of rows that can be checked.
        of : rows of shape (n, d), ScoreTails or int, optional
            The rows to choose from: the rows themselves, their counts, or their number.
        share : float, optional
            Share of the rows that can be checked, instead of ``rows``.

        Returns
        -------
        adapted : AdaptedClassifier
            Has the same prior and cost, and the threshold of the budget. Its ``budget_`` has the
            expected precision, recall and lift with their limits and, if rows were given, the
            positions of the rows to check, in descending order of the score.

        Examples
        --------
        >>> from drpu import DRPUClassifier, make_gaussian_pu
        >>> data = make_gaussian_pu(
        ...     300, 1000, prior=0.3, test_prior=0.1, n_test=2000, separation=3, random_state=0
        ... )
        >>> june = DRPUClassifier("kernel", random_state=0).fit(*data.X_y()).adapt(data.test)
        >>> day = june.at_budget(rows=50, of=data.test)
        >>> int(day.predict(data.test).sum())
        50
        >>> bool(day.budget_.precision.low > 0.5)
        True
        """
        self._check_fitted()
        spent = spend(self, rows, of, share)
        adapted: AdaptedClassifier = self.at_prior(self.test_prior_)
        adapted._cut, adapted.budget_ = (spent.log_ratio, spent.score), spent.budget
        return adapted

    def adapt_by(self: Any, X: Rows, *, by: Any, level: float = 0.95) -> GroupPriors:
        """Prior of each group of rows, with limits that hold for all groups together.

        Parameters
        ----------
        X : rows of shape (n, d)
            Unlabeled rows.
        by : str or array-like of shape (n,)
            Name of a column of ``X``, or one value per row. Dates are grouped by calendar month. The
            column need not have been in the training data.
        level : float, default=0.95
            Level at which the limits of all groups hold together.

        Returns
        -------
        priors : GroupPriors
            The values of small groups are shrunk towards the prior of all rows; see
            :class:`drpu.GroupPriors` for the rule.

        Examples
        --------
        >>> from drpu import DRPUClassifier, make_gaussian_pu
        >>> data = make_gaussian_pu(
        ...     300, 1000, prior=0.3, test_prior=0.2, n_test=2000, separation=3, random_state=0
        ... )
        >>> clf = DRPUClassifier("kernel", random_state=0).fit(*data.X_y())
        >>> months = ["may", "june"] * 1000
        >>> clf.adapt_by(data.test, by=months).names
        ['june', 'may']
        """
        self._check_fitted()
        return priors_by_group(self, X, by, check_fraction("level", level))

    def expected_bill(self: Any, rows: float = 1.0) -> Range:
        """Expected cost of classifying ``rows`` rows, in the unit of the two amounts.

        Needs a cost that was given as :class:`drpu.Costs`.
        """
        self._check_fitted()
        costs = self.cost_
        if not isinstance(costs, Costs):
            raise ParameterError(
                f"expected_bill needs the cost as two amounts, got cost={float(costs):g}: pass "
                "cost=Costs(false_alarm=5, miss=200) to adapt or at_prior."
            )
        unit = check_real("rows", rows, low=0.0) * (costs.false_alarm + costs.miss)
        low, high = self.expected_range()
        value = unit * self.expected_performance().cost
        return Range(value, min(unit * low.cost, value), max(unit * high.cost, value))

    def contributions(self: Any, X: Rows) -> FloatArray:
        """How much each column adds to the score of each row, for models with trees.

        These are the contributions that LightGBM computes (Shapley values of its trees). For the
        default they are averaged over its members with their weights, for ``"boosted"`` over the folds.

        Parameters
        ----------
        X : rows of shape (n, d)
            Rows to explain.

        Returns
        -------
        contributions : ndarray of shape (n, d + 1)
            One column for each column of ``X`` in the order of training (zeros for identifiers, which
            were left out), and a last column with everything else. For ``model="boosted"`` that is the
            score of an average row. For the default, it also contains the score of the smooth
            member, which cannot be divided among the columns. The sum of a row is its score: the
            log-ratio before calibration. Where the log-ratio is not
            linear in the output of the trees, as for a forest, contributions are scaled to it.

        Raises
        ------
        ParameterError
            If the model has no trees: use ``model="boosted"`` or the default.

        Examples
        --------
        >>> from drpu import DRPUClassifier, make_gaussian_pu
        >>> X, y = make_gaussian_pu(200, 600, prior=0.4, separation=3, random_state=0).X_y()
        >>> clf = DRPUClassifier("boosted", random_state=0).fit(X, y)
        >>> clf.contributions(X[:3]).shape
        (3, 2)
        """
        self._check_fitted()
        found: FloatArray = self.fitted_.model.contributions(self._checked_rows(X))
        return found if self.table_ is None else self.table_.by_column(found)
