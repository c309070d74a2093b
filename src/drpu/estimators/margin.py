"""PULDClassifier: a large margin between the labels that the unlabeled rows could have."""

from __future__ import annotations

from typing import Any

import numpy as np

from drpu._checks import check_integer, check_real
from drpu._samples import SamplePair
from drpu._typing import FloatArray, Rows
from drpu.estimators._rival import ScoredRival
from drpu.exceptions import ParameterError
from drpu.models.margin import fit_margin
from drpu.models.scores import LinearScore

__all__ = ["PULDClassifier"]


class PULDClassifier(ScoredRival):
    r"""Large-margin classifier that tries both labels on every unlabeled row (PULD).

    It looks for labels of the unlabeled rows, of which a share equal to the prior is positive, and
    for a score that keeps all rows away from zero on the side of their label.

    Parameters
    ----------
    model : {"kernel", "linear"}, LinearScore or KernelScore, default="kernel"
        Form of the score.
    positive_strength, unlabeled_strength : float, default=1000, 1000
        Weight of the labelled and of the unlabeled rows beside the size of the
        coefficients: the constants C1 and C2 of the objective.
    rounds : int, default=10
        Rounds of annealing, over which the unlabeled rows grow from a thousandth of their
        weight to all of it. Each round goes back and forth between labels and score.
    prior, cost, scenario, pos_label, random_state
        As in :class:`drpu.UPUClassifier`.

    Attributes
    ----------
    prior_ : PriorEstimate
        Prior of the training population.
    model_ : ScoreModel
        The fitted score.
    classes_ : ndarray of shape (2,)
        The labels, the positive one last.

    Notes
    -----
    The objective is

    .. math:: \tfrac12 |w|^2 + \tfrac{C_1}{n_P} \sum_P [1-g]_+ + \tfrac{C_2}{n_U} \sum_U [1-|g|]_+

    with the number of positive labels in U fixed by the prior. For a given score the best
    labels are exact: the rows with the largest scores are positive. For given labels the best
    score is a weighted large-margin fit; its hinge is rounded off within 0.1 of the corner, so that
    gradients exist. The unlabeled rows gain weight from round to round, as early labels are poor.

    This is a re-derivation from the published description, not a port of the authors' code.

    The score is a margin and no probability; there is no ``predict_proba``. A cost other than 1/2
    weighs the errors on either side. A shifted prior makes the classifier biased.

    References
    ----------
    C. Zhang, D. Ren, T. Liu, J. Yang and C. Gong, "Positive and unlabeled learning with label
    disambiguation", IJCAI 2019.

    Examples
    --------
    >>> from drpu import PULDClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(300, 1000, prior=0.5, test_prior=0.5, separation=4, random_state=0)
    >>> clf = PULDClassifier("linear", prior=0.5, random_state=0).fit(*data.X_y())
    >>> bool(clf.score(data.test, data.test_labels) > 0.9)
    True
    """

    def __init__(
        self,
        model: Any = "kernel",
        *,
        positive_strength: float = 1000.0,
        unlabeled_strength: float = 1000.0,
        rounds: int = 10,
        prior: Any = "km2",
        cost: float = 0.5,
        scenario: str = "case-control",
        pos_label: Any = None,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.positive_strength = positive_strength
        self.unlabeled_strength = unlabeled_strength
        self.rounds = rounds
        self.prior = prior
        self.cost = cost
        self.scenario = scenario
        self.pos_label = pos_label
        self.random_state = random_state

    def decision_function(self, X: Rows) -> FloatArray:
        """Margin of each row: positive rows lie above 0."""
        return self._scores(X)

    def _intake(self) -> LinearScore:
        model = super()._intake()
        if not isinstance(model, LinearScore):
            raise ParameterError(
                f"model must be 'kernel' or 'linear' for PULDClassifier, got {self.model!r}: "
                "the method is a large-margin fit."
            )
        return model

    def _learn(self, pair: SamplePair, rng: np.random.RandomState) -> None:
        population = self._population(pair, rng)
        model = self._seeded(rng)
        assert isinstance(model, LinearScore)
        self.model_ = fit_margin(
            model,
            pair,
            prior=population.unlabeled_prior,
            strengths=(self.positive_strength, self.unlabeled_strength),
            rounds=self.rounds,
            cost=self.cost,
        )
        self.prior_ = population.prior

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_real("positive_strength", self.positive_strength, low=1e-9)
        check_real("unlabeled_strength", self.unlabeled_strength, low=1e-9)
        check_integer("rounds", self.rounds, low=1)
