"""GenPUClassifier: generators of both classes, and a classifier trained on generated rows."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from drpu._arrays import FloatArray, Rows
from drpu._checks import (
    check_integer,
    check_random_state,
    check_rate,
    check_real,
    check_widths,
    is_auto,
)
from drpu._samples import Sample, SamplePair
from drpu.classifier.reading import check_rows
from drpu.exceptions import DataError, ParameterError
from drpu.models.learner import Accepts, ScoreLearner
from drpu.models.registry import resolve_score
from drpu.models.risks import LOSSES, ShiftedRisk, sigmoid
from drpu.networks.function import ClassGenerators, Game
from drpu.priors.estimate import PriorEstimate
from drpu.rivals.rival import ScoredRival, open_prior
from drpu.state.rows import TrainingSet

# steps="auto": fewer steps for few rows, to avoid overfitting
MOST_STEPS = 2000
STEPS_A_ROW = 5
LARGEST_BATCH = 128
RIDGE = 1e-3  # of the named models; it cannot be chosen on generated rows
_LOSS = LOSSES["logistic"]


@dataclass(eq=False, repr=False)
class GenPUClassifier(ScoredRival):
    """Classifier trained on generated rows (GenPU).

    A generator of positives and one of negatives are trained against three discriminators: one
    compares generated with labelled positives, one the mixture of both generators with the
    unlabeled rows, one separates generated negatives from labelled positives. A classifier
    is then trained on rows of both generators, mixed according to the prior.

    Parameters
    ----------
    model : {"kernel", "linear", "network"}, torch module or NetworkRatio, default="kernel"
        Form of the score of that classifier.
    steps : int or "auto", default="auto"
        Training steps; ``"auto"`` uses five per training row and at most 2000.
    batch_size : int or "auto", default="auto"
        Rows of each kind per step; ``"auto"`` uses 128, or half the training rows if that is less.
    learning_rate : float, default=2e-3
        Step size of Adam, for all five networks.
    noise : int, default=32
        Dimension of the input noise of the generators.
    hidden : tuple of int, default=(128, 128)
        Layers of the networks for one-dimensional rows. Rows of shape (28, 28) get convolutions.
    strengths : three floats, default=(1.0, 1.0, 0.1)
        Weights of the three discriminators in the losses of the generators, in the order above.
    n_generated : int, default=3000
        Rows of each class that the classifier is trained on.
    device : "auto" or torch device, default="auto"
        Device of the training.
    test_prior : float or PriorEstimate, optional
        Prior of the generated rows for the classifier; the default is the training prior.
        :meth:`at_prior` changes it without training the generators again.
    verbose : int, default=0
        1 shows a progress bar.
    prior, cost, scenario, pos_label, random_state
        As in :class:`drpu.UPUClassifier`.

    Attributes
    ----------
    test_prior_ : PriorEstimate
        Prior that the classifier was trained for.
    generators_ : ClassGenerators
        The two generators.
    prior_, model_, classes_
        As in :class:`drpu.UPUClassifier`.

    Notes
    -----
    All losses are non-saturating logistic losses. The gradient penalty, the decreasing noise and
    averaged generator weights keep the training stable on a few hundred rows. Still, a generator
    may miss parts of its class (**mode collapse**). Rows there are then classified at random, and
    no reported number shows it; compare the variance of ``generators_.sample`` with that of the
    rows. The method is suited to two-dimensional data and small images. Its accuracy varies with
    the seed by ten percentage points and more.

    This is a re-derivation from the published description, not a port of the authors' code.

    References
    ----------
    M. Hou, B. Chaib-draa, C. Li and Q. Zhao, "Generative adversarial positive-unlabelled learning",
    IJCAI 2018.

    Examples
    --------
    >>> from drpu import GenPUClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(300, 600, prior=0.5, test_prior=0.5, separation=6, random_state=0)
    >>> clf = GenPUClassifier(prior=0.5, steps=150, hidden=(32,), batch_size=64, random_state=0)
    >>> clf = clf.fit_pu(data.positive, data.unlabeled)
    >>> bool(clf.score(data.test, data.test_labels) > 0.8)
    True
    """

    _priors = ("test_prior_",)

    _: KW_ONLY
    steps: int | str = "auto"
    batch_size: int | str = "auto"
    learning_rate: float = 2e-3
    noise: int = 32
    hidden: Sequence[int] = (128, 128)
    strengths: Sequence[float] = (1.0, 1.0, 0.1)
    n_generated: int = 3000
    device: Any = "auto"
    test_prior: float | PriorEstimate | None = None
    verbose: int = 0

    def decision_function(self, X: Rows) -> FloatArray:
        """Log-odds of each row minus those of the cost: above 0 for positive predictions."""
        scores = self._scores(X)  # raises unless it is fitted
        return scores - _LOSS.level(self._used.cost)

    def predict_proba(self, X: Rows) -> FloatArray:
        """Probability of each class for the generated rows, in the order of ``classes_``."""
        posterior = np.asarray(sigmoid(self._scores(X)))
        return np.column_stack([1 - posterior, posterior])

    def at_prior(self, prior: float | PriorEstimate, *, random_state: Any = None) -> Self:
        """A classifier for another prior, trained on new rows of the same generators.

        Parameters
        ----------
        prior : float or PriorEstimate
            Prior of the rows to classify, strictly between 0 and 1.
        random_state : int, RandomState or None, default=None
            Seed of the generated rows; the default is that of this classifier.

        Returns
        -------
        classifier : GenPUClassifier
            With the same generators.
        """
        self._check_fitted()
        known = open_prior("prior", prior)
        other = copy(self)
        other.test_prior = known
        other._used = clone(self._used).set_params(test_prior=known)
        if random_state is None:
            random_state = self._used.random_state
        other._train(known, check_random_state(random_state))
        return other

    def _scores(self, X: Rows) -> FloatArray:
        self._check_fitted()
        rows = check_rows(self, X, model=self._intake())
        if rows.shape[1:] != self.generators_.mean.shape:
            raise DataError(
                f"X must have rows of shape {self.generators_.mean.shape}, as in training, "
                f"got {rows.shape[1:]}."
            )
        return self.model_.score(_fitting(rows, self.model_))

    def _intake(self) -> Generators:
        return Generators()

    def _learn(self, training: TrainingSet, rng: np.random.RandomState) -> None:
        self.prior_ = self._training_prior(training, rng)
        self.generators_ = ClassGenerators.learn(
            training.pair,
            prior=training.population.unlabeled_prior(self.prior_).value,
            game=self._game(len(training.pair)),
            seed=int(rng.randint(2**31 - 1)),
        )
        prior = self.prior_
        if self.test_prior is not None:
            prior = open_prior("test_prior", self.test_prior)
        self._train(prior, rng)

    def _train(self, prior: PriorEstimate, rng: np.random.RandomState) -> None:
        """Fit the classifier to rows of both generators at this prior."""
        kind = self._used.model
        model = resolve_score(kind)
        if isinstance(kind, str) and kind in ("kernel", "linear"):
            model.set_params(ridge=RIDGE)
        if model.random_state is None:
            model.set_params(random_state=int(rng.randint(2**31 - 1)))
        positive = self._generate(model, rng, positive=True)
        negative = self._generate(model, rng, positive=False)
        # Rows of prior 0 are negatives: the risk is that of ordinary classification.
        risk = ShiftedRisk(0.0, prior.value, _LOSS)
        self.model_ = model.fit_score(SamplePair(positive, negative), risk)
        self.test_prior_ = prior

    def _generate(
        self, model: ScoreLearner, rng: np.random.RandomState, *, positive: bool
    ) -> Sample:
        """Rows of one generator, in the form that the model accepts."""
        seed = int(rng.randint(2**31 - 1))
        rows = self.generators_.sample(self._used.n_generated, positive=positive, seed=seed)
        return Sample(_fitting(rows, model))

    def _game(self, n_rows: int) -> Game:
        return Game(
            steps=_unless_auto(self.steps, min(MOST_STEPS, STEPS_A_ROW * n_rows)),
            batch_size=_unless_auto(self.batch_size, min(LARGEST_BATCH, n_rows // 2)),
            learning_rate=self.learning_rate,
            noise=self.noise,
            hidden=tuple(self.hidden),
            strengths=(self.strengths[0], self.strengths[1], self.strengths[2]),
            device=self.device,
            verbose=self.verbose,
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        resolve_score(self.model)
        for name in ("steps", "batch_size"):
            if not is_auto(name, getattr(self, name)):
                check_integer(name, getattr(self, name), low=1)
        check_integer("noise", self.noise, low=1)
        check_integer("n_generated", self.n_generated, low=10)
        check_widths(self.hidden)
        check_rate(self.learning_rate)
        if len(self.strengths) != 3:
            raise ParameterError(f"strengths must be three numbers, got {self.strengths!r}.")
        for strength in self.strengths:
            check_real("strengths", strength, low=0)
        if self.test_prior is not None:
            open_prior("test_prior", self.test_prior)


class Generators(Accepts):
    """The rows that the generators accept: dense, of any shape."""

    accepts_sparse = False
    accepts_nd = True


def _unless_auto(value: int | str, automatic: int) -> int:
    if isinstance(value, str):
        return automatic
    return int(value)


def _fitting(rows: Rows, model: Accepts) -> Rows:
    """The rows, flattened if the classifier does not accept images."""
    if model.accepts_nd or rows.ndim == 2:
        return rows
    return rows.reshape(len(rows), -1)
