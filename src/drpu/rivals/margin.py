"""PULDClassifier: large-margin label disambiguation."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from drpu._checks import check_integer, check_real
from drpu._samples import SamplePair
from drpu._typing import FloatArray, Rows
from drpu.exceptions import ParameterError
from drpu.models.scores import LinearScore, fit_margin
from drpu.rivals.rival import ScoredRival


@dataclass(eq=False, repr=False)
class PULDClassifier(ScoredRival):
    r"""Large-margin classifier with unknown labels of the unlabeled rows (PULD).

    It optimises the labels of the unlabeled rows, with the fraction of positive ones fixed by the
    prior, together with a score that has a large margin for these labels.

    Parameters
    ----------
    model : {"kernel", "linear"}, LinearScore or KernelScore, default="kernel"
        Form of the score.
    positive_strength, unlabeled_strength : float, default=1000, 1000
        Weight of the labelled and of the unlabeled rows relative to the penalty: the
        constants C1 and C2 of the objective.
    rounds : int, default=10
        Rounds of annealing, in which the weight of the unlabeled rows increases from a
        thousandth of its value to all of it. Each round alternates between labels and score.
    prior, cost, scenario, pos_label, random_state
        As in :class:`drpu.UPUClassifier`.

    Attributes
    ----------
    prior_, model_, classes_
        As in :class:`drpu.UPUClassifier`.

    Notes
    -----
    The objective is

    .. math:: \tfrac12 |w|^2 + \tfrac{C_1}{n_P} \sum_P [1-g]_+ + \tfrac{C_2}{n_U} \sum_U [1-|g|]_+

    with the number of positive labels in U fixed by the prior. For a given score the best
    labels are exact: the rows with the largest scores are positive. For given labels the best
    score is a weighted large-margin fit; its hinge is smoothed within 0.1 of the corner, so that
    gradients exist. The weight of the unlabeled rows increases because early labels are poor.

    This is a re-derivation from the published description, not a port of the authors' code.

    The score is a margin and not a probability, so there is no ``predict_proba``. A cost other
    than 1/2 changes the weights of the two kinds of errors. After a change of the prior the
    classifier is biased.

    References
    ----------
    C. Zhang, D. Ren, T. Liu, J. Yang and C. Gong, "Positive and unlabeled learning with label
    disambiguation", IJCAI 2019.

    Examples
    --------
    >>> from drpu import PULDClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(300, 1000, prior=0.5, test_prior=0.5, separation=4, random_state=0)
    >>> clf = PULDClassifier("linear", prior=0.5, random_state=0)
    >>> clf = clf.fit_pu(data.positive, data.unlabeled)
    >>> bool(clf.score(data.test, data.test_labels) > 0.9)
    True
    """

    _: KW_ONLY
    positive_strength: float = 1000.0
    unlabeled_strength: float = 1000.0
    rounds: int = 10

    def decision_function(self, X: Rows) -> FloatArray:
        """Margin of each row: above 0 for positive predictions."""
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
