"""What files keep of classifiers; scikit-learn is imported when a classifier is made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from drpu import classifier
from drpu._arrays import FloatArray
from drpu._codec import kept
from drpu.decisions.point import OperatingPoint, trained_point
from drpu.exceptions import DataError
from drpu.periods.read import Reading
from drpu.state.costs import check_cost
from drpu.state.fitted import FittedRatio
from drpu.state.record import Parameter, Record, read_parameters, try_rows
from drpu.state.reference import Reference

if TYPE_CHECKING:
    from drpu.classifier.drpu import AdaptedClassifier, DRPUClassifier, RatioClassifier


@dataclass(frozen=True)
class RatioRecord(Record):
    """What a file keeps of a fitted or adapted classifier."""

    fitted: FittedRatio

    def __post_init__(self) -> None:
        self.fitted.columns.check_model(self.fitted.model)

    def facts(self) -> dict[str, Any]:
        """What it keeps of the training rows."""
        fitted = self.fitted
        statistics = list(fitted.model.statistics)
        if fitted.columns.profiles:
            statistics.append("counts of rows in ranges of each column, with rounded limits")
        kept_values = dict(sorted(fitted.model.keeps.items()))
        return {
            "training_rows": any("row" in values for values in kept_values.values()),
            "values_of_rows": kept_values,
            "statistics": sorted(statistics),
            "scores": "the score of every held-out positive, and counts of unlabeled rows between "
            "them",
            **fitted.columns.facts(),
        }

    def module(self) -> Any:
        """The torch module of a custom network, or what makes it; None without one."""
        return getattr(self.fitted.model, "module", None)

    def trial(self, classifier: RatioClassifier) -> FloatArray | None:
        """Scores of artificial rows by all functions, with which the point makes probabilities."""
        fitted = classifier.fitted_
        scores = try_rows(fitted.model, self.fitted.columns.profiles)
        if scores is not None:
            ratios = np.exp(fitted.log_ratio_of(scores))
            probabilities = classifier.point_.probability(ratios)
            if not ((probabilities >= 0) & (probabilities <= 1)).all():
                raise DataError("its probabilities must be between 0 and 1.")
        return scores

    def warn_of_prior(self, classifier: RatioClassifier) -> None:  # noqa: D102
        classifier._warn_of_prior()

    def _with_module(self, module: Any) -> FittedRatio:
        """The fitted ratio with the torch module that ``module`` makes, unless it is None."""
        if module is None:
            return self.fitted
        return replace(self.fitted, model=self.fitted.model.with_module(module))


@kept("DRPUClassifier")
@dataclass(frozen=True)
class DRPURecord(RatioRecord):
    """What a file keeps of a :class:`DRPUClassifier`."""

    parameters: dict[str, Parameter]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_cost("cost", self.parameters.get("cost"))

    def classifier(self, module: Any = None) -> DRPUClassifier:
        """The fitted classifier."""
        fitted_classifier = classifier.DRPUClassifier(**read_parameters(self.parameters))
        self.fitted.columns.set_on(fitted_classifier)
        return fitted_classifier._keep(self._with_module(module))

    @property
    def point(self) -> OperatingPoint:
        """How a ratio becomes a probability and a label."""
        return trained_point(self.fitted.prior, check_cost("cost", self.parameters["cost"]))


@kept("AdaptedClassifier")
@dataclass(frozen=True)
class AdaptedRecord(RatioRecord):
    """What a file keeps of an :class:`AdaptedClassifier`."""

    reference: Reference | None  # None if rows are compared with those of training
    reading: Reading
    point: OperatingPoint

    def classifier(self, module: Any = None) -> AdaptedClassifier:
        """The adapted classifier."""
        fitted = self._with_module(module)
        reference = self.reference or Reference.of_training(fitted)
        return classifier.AdaptedClassifier(fitted, reference, self.reading, self.point)
