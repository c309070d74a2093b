"""Learners: scikit-learn parameters, and a fit that returns a function of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from drpu._checks import check_weights, unit_weights
from drpu._samples import Sample, SamplePair
from drpu._typing import Rows
from drpu.exceptions import DataError, ParameterError
from drpu.models.function import Accepts, Function, check_pixels, read_rows
from drpu.models.risks import PUObjective
from drpu.tables.frames import warn_of_order


def seeded(model: Any, rng: np.random.RandomState) -> Any:
    """A copy in which random states that are None are seeded, also inner ones."""
    model = clone(model)
    missing = sorted(name for name, value in model.get_params().items() if value is None)
    free = [name for name in missing if name.split("__")[-1] == "random_state"]
    model.set_params(**{name: int(rng.randint(2**31 - 1)) for name in free})
    return model


class RatioLearner(Accepts, BaseEstimator, ABC):  # type: ignore[misc]
    """A way to learn a density ratio p(x | positive) / p(x | unlabeled) from the two samples.

    A new learner is one file with one subclass, which implements ``fit_checked``, and one line in the table
    of ``drpu.models.registry`` if ``model="name"`` shall find it. It returns a function of
    ``drpu.functions``, or one of its own. A fit sets no attributes.
    """

    uses_holdout: ClassVar[bool] = False
    fits_in_threads: ClassVar[bool] = False  # whether several fits can run at the same time in one process

    def fit_ratio(
        self,
        positive: Rows,
        unlabeled: Rows,
        *,
        holdout: tuple[Rows, Rows] | None = None,
        positive_weight: Any = None,
        unlabeled_weight: Any = None,
    ) -> Function:
        """The density ratio of a positive and an unlabeled sample.

        Parameters
        ----------
        positive, unlabeled : rows of shape (n_positive, d) and (n_unlabeled, d)
            The two samples.
        holdout : pair of rows (positive, unlabeled), optional
            Rows for choosing among fits, which are not used for training. Without them a
            learner that needs holdout rows takes a fraction of the given rows.
        positive_weight, unlabeled_weight : array-like, optional
            Weights of the rows. Multiplying them by a constant changes nothing.

        Returns
        -------
        function : Function
            Has ``log_ratio(X)`` and ``ratio(X)``.
        """
        pair = SamplePair(
            self._sample("positive", positive, positive_weight),
            self._sample("unlabeled", unlabeled, unlabeled_weight),
        )
        columns = pair.positive.rows.shape[1:]
        if columns != pair.unlabeled.rows.shape[1:]:
            raise DataError(
                f"positive and unlabeled must have the same columns, "
                f"got {columns} and {pair.unlabeled.rows.shape[1:]}."
            )
        check_pixels("unlabeled", pair.unlabeled.rows, pair.positive.rows)
        return self.fit_checked(pair, self._holdout_pair(holdout, pair.positive.rows))

    @abstractmethod
    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> Function:
        """The density ratio of samples whose rows and weights have been checked by the caller."""

    def prepared(self, pair: SamplePair, fits: int) -> Self:
        """A learner for so many fits to parts of the samples, with what they share if it uses no labels."""
        return self

    def for_folds(self, pair: SamplePair, folds: int) -> list[Self]:
        """Copies, one for each fold; they may share what does not depend on labels."""
        return [clone(self) for _ in range(folds)]

    def for_labels(self, pair: SamplePair, folds: int) -> Self | None:
        """A copy for all rows, from which labels come; None if they come from all folds."""
        return None

    def _sample(self, name: str, X: Any, weight: Any = None) -> Sample:
        rows = read_rows(self, name, X)
        warn_of_order(X, rows=name, **{f"{name}_weight": weight})
        if weight is None:
            return Sample(rows)
        return Sample(rows, unit_weights(check_weights(f"{name}_weight", weight, rows.shape[0])))

    def _holdout_pair(self, holdout: tuple[Rows, Rows] | None, like: Rows) -> SamplePair | None:
        if holdout is None:
            return None
        if not self.uses_holdout:
            raise ParameterError(
                f"holdout must be None for {type(self).__name__}, which does not use holdout rows."
            )
        if len(holdout) != 2:
            raise ParameterError(f"holdout must be a pair (positive, unlabeled), got {len(holdout)} parts.")
        kept = SamplePair(self._sample("holdout[0]", holdout[0]), self._sample("holdout[1]", holdout[1]))
        for sample in (kept.positive, kept.unlabeled):
            if sample.rows.shape[1:] != like.shape[1:]:
                raise DataError(f"holdout must have the columns of the training rows, {like.shape[1:]}.")
            check_pixels("holdout", sample.rows, like)
        return kept


class ScoreLearner(Accepts, BaseEstimator, ABC):  # type: ignore[misc]
    """A way to learn a score g(x) that minimises an objective of the two samples."""

    random_state: Any

    @abstractmethod
    def fit_score(self, pair: SamplePair, objective: PUObjective) -> Function:
        """The score that minimises the objective for checked samples."""
