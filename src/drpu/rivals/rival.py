"""PURival: what the other PU methods share, their priors, and what a file keeps of them."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from importlib import import_module
from types import NoneType
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from drpu._arrays import FloatArray, Rows
from drpu._checks import (
    SCENARIO_CHOICES,
    SCENARIOS,
    check_choice,
    check_fraction,
    check_random_state,
    check_real,
)
from drpu._codec import Text, kept
from drpu._samples import SamplePair
from drpu.beliefs.methods import prior_from_tails
from drpu.classifier.drpu import PUClassifier
from drpu.classifier.fitting import (
    KERNEL_MEANS,
    check_prior_parameter,
    flat_sample,
    kernel_mean_prior,
)
from drpu.classifier.reading import FitArguments, check_rows, read_samples, read_training
from drpu.exceptions import DataError, PriorBoundaryWarning, PriorError
from drpu.models.crossfit import cross_fit, resolve_holdout, tails_of
from drpu.models.fourier import FourierRatio
from drpu.models.kernel import KernelRatio
from drpu.models.learner import Folds, Function, ScoreLearner
from drpu.models.registry import resolve_score
from drpu.networks.function import ClassGenerators
from drpu.priors.estimate import PriorEstimate, as_prior
from drpu.priors.tails import ScoreTails
from drpu.state.labels import Labels
from drpu.state.population import Columns, with_labelled
from drpu.state.record import (
    Parameter,
    Record,
    parameters_of,
    read_parameters,
    try_rows,
)
from drpu.state.rows import TrainingSet

LEAST_WEIGHT = 0.01  # an estimate closer to 0 or 1 would give one class almost none


@dataclass(eq=False, repr=False, kw_only=True)
class RivalParameters:
    """What every method has; a parameter is a field, which a subclass may give another default."""

    prior: Any = "km2"
    cost: float = 0.5
    scenario: str = "auto"
    pos_label: Any = None
    random_state: Any = None


class PURival(RivalParameters, PUClassifier):
    """A classifier that is trained for one prior.

    A subclass implements ``_intake``, ``_learn`` and ``decision_function``, and names its fitted
    numbers. Each row is treated alone: a row gets the same label in every batch.
    """

    _special_prior: ClassVar[Any] = ()  # a value of ``prior`` that only this method has
    negative_label: ClassVar[None] = None  # known negatives are not used,
    label_delay: ClassVar[int] = 0  # and there are no periods

    prior_: PriorEstimate
    model_: Function
    classes_: np.ndarray[Any, Any]
    scenario_: str  # "single-sample" or "case-control"

    def fit(self, X: Rows, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier to rows of which some are labelled positive.

        Parameters
        ----------
        X : rows of shape (n, d)
            NumPy, pandas, polars, Arrow or torch, and scipy sparse if the model supports it.
        y : array-like of shape (n,)
            Two labels: labelled positive, and unlabeled.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.

        Returns
        -------
        self : classifier
        """
        return self._fit(self._read_table(X, y, sample_weight))

    def fit_pu(
        self,
        positive: Rows,
        unlabeled: Rows,
        *,
        positive_weight: Any = None,
        unlabeled_weight: Any = None,
    ) -> Self:
        """Fit the classifier to a positive and an unlabeled sample; labels are 1 and 0.

        The samples were drawn separately, unless ``scenario="single-sample"`` says that both are
        parts of one sample; then ``unlabeled`` contains the unlabeled rows only.
        """
        weights = (positive_weight, unlabeled_weight)
        return self._fit(self._read_samples(positive, unlabeled, weights))

    def predict(self, X: Rows) -> np.ndarray[Any, Any]:
        """Label of each row, in the coding of the training labels; a tie is negative."""
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(np.intp)]

    @abstractmethod
    def decision_function(self, X: Rows) -> FloatArray:
        """Score of each row: above 0 for positive predictions."""

    @abstractmethod
    def _learn(self, training: TrainingSet, rng: np.random.RandomState) -> None:
        """Fit to checked rows."""

    def _read_table(self, X: Rows, y: Any, sample_weight: Any) -> TrainingSet:
        self._check_parameters()
        return read_training(self, self._intake(), FitArguments(X, y, sample_weight))

    def _read_samples(
        self, positive: Rows, unlabeled: Rows, weights: tuple[Any, Any]
    ) -> TrainingSet:
        self._check_parameters()
        return read_samples(self, self._intake(), positive, unlabeled, weights=weights)

    def _fit(self, training: TrainingSet, **more: Any) -> Self:
        self._keep_parameters()
        self.scenario_ = training.population.scenario
        self._learn(training, check_random_state(self.random_state), **more)
        self.classes_ = training.labels.classes()
        return self

    def _training_prior(self, training: TrainingSet, rng: np.random.RandomState) -> PriorEstimate:
        """Prior of the training population, given or estimated according to ``prior``."""
        fraction = training.population.labelled_fraction
        if not isinstance(self.prior, str):
            known = as_prior("prior", self.prior)
            if not fraction < known.value < 1:
                raise PriorError(
                    f"prior must lie strictly between {fraction:.4g} and 1, got {known.value!r}: "
                    "the lower limit is the fraction of labelled positives, and both classes must "
                    "be present."
                )
            return known
        if self.prior in KERNEL_MEANS:
            pair = training.pair
            estimate = kernel_mean_prior(self.prior, pair.positive, pair.unlabeled, rng)
        else:
            _, tails = score_tails(training.pair, rng)
            estimate = prior_from_tails(tails, method=self.prior, labelled_share=fraction or None)
        return with_labelled(off_the_edge(estimate), fraction)

    def _scores(self, X: Rows) -> FloatArray:
        self._check_fitted()
        return self.model_.score(check_rows(self, X, model=self.model_))

    def _check_parameters(self) -> None:
        check_choice("scenario", self.scenario, SCENARIO_CHOICES)
        check_fraction("cost", self.cost)
        if not self._is_special_prior():
            check_prior_parameter("prior", self.prior)

    def _is_special_prior(self) -> bool:
        """Whether ``prior`` has the value that only this method has."""
        return isinstance(self.prior, (str, NoneType)) and self.prior == self._special_prior

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit or fit_pu first."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    # -- files ---------------------------------------------------------------------

    # Fitted numbers other than the model, with their limits, and fitted priors.
    _numbers: ClassVar[dict[str, tuple[float, float]]] = {}
    _priors: ClassVar[tuple[str, ...]] = ()

    def record(self) -> RivalRecord:
        """What a file keeps of the fitted classifier."""
        self._check_fitted()
        parameters = parameters_of(self._used)
        if "device" in parameters:  # it is chosen anew on another machine
            parameters["device"] = "auto"
        return RivalRecord(
            name=type(self).__name__,
            parameters=parameters,
            columns=Columns.of(self),
            labels=Labels.of(self.classes_),
            prior=self.prior_,
            model=self.model_,
            numbers={name: float(getattr(self, name)) for name in self._numbers},
            priors={name: getattr(self, name) for name in self._priors},
            generators=getattr(self, "generators_", None),
            scenario=self.scenario_,
        )


RIVALS = {  # where each class is
    "ElkanNotoClassifier": "drpu.rivals.posterior",
    "GenPUClassifier": "drpu.rivals.generative",
    "NNPUClassifier": "drpu.rivals.risk",
    "PUaClassifier": "drpu.rivals.risk",
    "PULDClassifier": "drpu.rivals.risk",
    "UPUClassifier": "drpu.rivals.risk",
    "VPUClassifier": "drpu.rivals.posterior",
}


@kept("rival")
@dataclass(frozen=True)
class RivalRecord(Record):
    """What a file keeps of one of the other PU methods."""

    name: Annotated[str, Text(pattern="|".join(RIVALS))]
    parameters: dict[str, Parameter]
    columns: Columns
    labels: Labels
    prior: PriorEstimate
    model: Function
    numbers: dict[str, float]
    priors: dict[str, PriorEstimate]
    generators: ClassGenerators | None
    scenario: Annotated[str, Text(pattern="|".join(SCENARIOS))]

    def __post_init__(self) -> None:
        self.columns.check_model(self.model, width=self._flattened_width())
        check_fraction("cost", self.parameters.get("cost"))
        limits = self._class()._numbers
        if self.numbers.keys() != limits.keys() or self.priors.keys() != set(self._class()._priors):
            raise DataError(f"a fitted {self.name} must have its numbers and priors.")
        for name, (low, high) in limits.items():
            check_real(name, self.numbers[name], low=low, high=high)

    def _flattened_width(self) -> int | None:
        """Columns of generated images that the model takes as rows of numbers."""
        if self.generators is None or self.model.accepts_nd:
            return None
        shape = self.generators.mean.shape
        return math.prod(shape) if len(shape) > 1 else None

    def _class(self) -> type[PURival]:
        rival: type[PURival] = getattr(import_module(RIVALS[self.name]), self.name)
        return rival

    @property
    def title(self) -> str:  # noqa: D102
        return self.name

    def classifier(self, module: Any = None) -> PURival:  # noqa: D102
        classifier = self._class()(**read_parameters(self.parameters))
        model = self.model if module is None else self.model.with_module(module)
        fitted = dict[str, Any](self.numbers | self.priors)
        if self.generators is not None:
            fitted["generators_"] = self.generators
        classifier.__dict__.update(fitted)
        classifier.prior_ = self.prior
        classifier.model_ = model
        classifier.scenario_ = self.scenario
        classifier.classes_ = self.labels.classes()
        classifier._keep_parameters()
        self.columns.set_on(classifier)
        return classifier

    def facts(self) -> dict[str, Any]:  # noqa: D102
        kept_values = self.model.keeps
        return self.columns.facts() | {
            "training_rows": any("row" in values for values in kept_values.values()),
            "values_of_rows": kept_values,
            "statistics": sorted(self.model.statistics),
        }

    def module(self) -> Any:  # noqa: D102
        return getattr(self.model, "module", None)

    def trial(self, classifier: PURival) -> FloatArray | None:  # noqa: D102
        return try_rows(classifier.model_)


def score_tails(pair: SamplePair, rng: np.random.RandomState) -> tuple[Folds, ScoreTails]:
    """A cross-fitted smooth density ratio, and the tails of its held-out scores."""
    pair = SamplePair(flat_sample(pair.positive), flat_sample(pair.unlabeled))
    kind = KernelRatio if sparse.issparse(pair.positive.rows) else FourierRatio
    model, held = cross_fit(
        kind(random_state=int(rng.randint(2**31 - 1))),
        pair,
        holdout=resolve_holdout("auto", len(pair.positive), len(pair.unlabeled)),
        random_state=rng,
    )
    return model, tails_of(held)


def off_the_edge(prior: PriorEstimate) -> PriorEstimate:
    """The estimate, moved off 0 and 1 with a warning if a class would get almost no weight."""
    if LEAST_WEIGHT <= prior.value <= 1 - LEAST_WEIGHT:
        return prior
    value = min(max(prior.value, LEAST_WEIGHT), 1 - LEAST_WEIGHT)
    PriorBoundaryWarning.issue(
        f"the prior is estimated as {prior.value:.3f}, which gives one class no weight: {value:g} "
        "is used. Check the labels, or pass the prior if you know it."
    )
    return replace(prior, value=value, low=min(prior.low, value), high=max(prior.high, value))


def open_prior(name: str, prior: float | PriorEstimate) -> PriorEstimate:
    """A prior at which both classes are present."""
    checked = as_prior(name, prior)
    if not 0 < checked.value < 1:
        raise PriorError(
            f"{name} must lie strictly between 0 and 1, got {checked.value!r}: "
            "both classes must be present."
        )
    return checked


@dataclass(eq=False, repr=False)
class ScoredRival(PURival):
    """A method whose fitted part is one score, ``model_``."""

    model: Any = "kernel"

    def _intake(self) -> Any:
        return resolve_score(self.model)

    def _seeded(self, rng: np.random.RandomState) -> ScoreLearner:
        model: ScoreLearner = self._intake()
        if model.random_state is None:
            model.set_params(random_state=int(rng.randint(2**31 - 1)))
        return model
