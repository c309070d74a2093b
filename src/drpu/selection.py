"""Model selection without true labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import Pipeline

from drpu._arrays import BoolArray, IntArray, Rows
from drpu._checks import check_flag, check_fraction, check_prior, refuse_frame
from drpu._process import default_errors, default_errors_in
from drpu.classifier.drpu import PUClassifier
from drpu.exceptions import ParameterError, PriorError
from drpu.models.risks import bregman_risk
from drpu.state.costs import Costs
from drpu.state.labels import Classes, check_same_rows, read_labels
from drpu.tables.frames import warn_of_order


@default_errors
def ratio_risk_scorer(estimator: Any, X: Rows, y: Any) -> float:
    """The negative uncorrected least-squares risk of the ratio on held-out rows; higher is better.

    It needs only positive and unlabeled rows, and no prior.
    Pass it as ``scoring`` to GridSearchCV or cross_val_score.

    Parameters
    ----------
    estimator : DRPUClassifier, or a pipeline that ends in one
        Fitted.
    X : rows
        Rows that were not used for training.
    y : array-like
        Their labels: positive and unlabeled.

    Returns
    -------
    score : float
        ``E_P[r] - E[r^2] / 2`` over the population, which the true ratio maximises.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from drpu import DRPUClassifier, make_gaussian_pu, ratio_risk_scorer
    >>> X, y = make_gaussian_pu(200, 600, prior=0.4, separation=3, random_state=0).X_y()
    >>> clf = DRPUClassifier("kernel", scenario="case-control", random_state=0)
    >>> bool(cross_val_score(clf, X, y, cv=2, scoring=ratio_risk_scorer).mean() > 0.5)
    True
    """
    X, classifier, positive, _ = _parts(estimator, X, y)
    if not hasattr(classifier, "ratio"):
        raise ParameterError(
            f"estimator must have a ratio method, got {type(classifier).__name__}: "
            "ratio_risk_scorer is for density-ratio classifiers."
        )
    ratio = classifier.ratio(X)
    check_same_rows(len(ratio), len(positive))
    population = ratio[~positive]
    if getattr(classifier, "scenario_", "case-control") == "single-sample":
        population = ratio
    return -float(bregman_risk(ratio[positive], population))


@default_errors_in
@dataclass(frozen=True)
class AUCScorer:
    r"""Area under the ROC curve from positive and unlabeled rows: higher is better.

    An object of this class is a scorer: pass it as ``scoring`` to GridSearchCV, cross_val_score or
    permutation_importance.

    Parameters
    ----------
    prior : float, default=0.0
        Share of positives among the unlabeled rows, if it is known. It changes the scale of the
        score and never the order of two models.

    Notes
    -----
    Positives against unlabeled rows with a share :math:`\rho` of positives have the area
    :math:`(1-\rho) A + \rho / 2`, with :math:`A` the area against true negatives. With ``prior=0``
    the score is that area itself, a lower bound of :math:`A` wherever :math:`A` is at least 1/2.
    With another prior it is solved for :math:`A`: unbiased at the true share, a lower bound at any
    smaller one and an upper bound at any larger one.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from drpu import AUCScorer, DRPUClassifier, make_gaussian_pu
    >>> X, y = make_gaussian_pu(200, 600, prior=0.4, separation=3, random_state=0).X_y()
    >>> clf = DRPUClassifier("classifier", scenario="case-control", random_state=0)
    >>> bool(cross_val_score(clf, X, y, cv=2, scoring=AUCScorer(prior=0.4)).mean() > 0.95)
    True
    """

    prior: float = 0.0

    def __post_init__(self) -> None:
        if check_prior("prior", self.prior) == 1:
            raise PriorError("prior must be below 1, got 1: there would be no negatives to rank.")

    def __call__(self, estimator: Any, X: Rows, y: Any) -> float:
        """Score of a fitted classifier on rows that were not used for training."""
        X, classifier, positive, classes = _parts(estimator, X, y)
        if hasattr(classifier, "decision_function"):
            scores = classifier.decision_function(X)
        elif hasattr(classifier, "predict_proba"):
            scores = classifier.predict_proba(X)[:, list(classifier.classes_).index(classes[1])]
        else:
            raise ParameterError(
                "estimator must have decision_function or predict_proba, got "
                f"{type(classifier).__name__}: AUCScorer needs a score for each row."
            )
        check_same_rows(len(scores), len(positive))
        area = float(roc_auc_score(positive, scores))
        return (area - self.prior / 2) / (1 - self.prior)


@default_errors_in
@dataclass(frozen=True)
class CostScorer:
    r"""Minus the expected cost of a row at a stated prior: higher is better.

    It needs positive and unlabeled rows only. An object of this class is a scorer: pass it as
    ``scoring`` to GridSearchCV, cross_val_score or permutation_importance. A classifier that can be
    adapted to a prior is evaluated at the stated prior and cost, any other one by the labels that
    it predicts.

    Parameters
    ----------
    prior : float
        Share of positives among the unlabeled rows.
    cost : float or Costs, default=0.5
        False-positive cost; with :class:`drpu.Costs` the score is an amount for each row.
    own_cost : bool, default=False
        Whether a classifier decides at the cost that it was fitted with, which a search over
        ``cost`` needs; the score is still the expected cost at ``cost``. Otherwise it decides at
        ``cost``, so that models are compared at the decisions that will be made, and the parameter
        ``cost`` of the classifier has no effect on the score. docs/how-to/model.md, "Search over
        costs and parameters", has an example of both.

    Notes
    -----
    With recall :math:`b` on the positives, a share :math:`a` of the unlabeled rows flagged,
    the prior :math:`\pi` and the cost :math:`c`, the expected cost is :math:`(1-c) \pi (1-b) + c
    \max(a - \pi b, 0)`. It is unbiased (up to the maximum) at the true prior. At a prior above the
    true one, as the upper limit of an estimate is, it is a lower bound of the true cost of a
    classifier whose recall exceeds :math:`1-c`, and an upper bound otherwise.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from drpu import Costs, CostScorer, DRPUClassifier, make_gaussian_pu
    >>> X, y = make_gaussian_pu(200, 600, prior=0.4, separation=3, random_state=0).X_y()
    >>> clf = DRPUClassifier("classifier", scenario="case-control", random_state=0)
    >>> bill = -cross_val_score(clf, X, y, cv=2, scoring=CostScorer(0.4, cost=Costs(5, 200))).mean()
    >>> bool(0 < bill < 5)
    True
    """

    prior: float
    cost: float = 0.5
    own_cost: bool = False

    def __post_init__(self) -> None:
        check_prior("prior", self.prior)
        check_fraction("cost", self.cost)
        check_flag("own_cost", self.own_cost)

    def __call__(self, estimator: Any, X: Rows, y: Any) -> float:
        """Score of a fitted classifier on rows that were not used for training."""
        X, classifier, positive, classes = _parts(estimator, X, y)
        if hasattr(classifier, "at_cost"):
            classifier = classifier.at_prior(self.prior)
            if not self.own_cost:
                classifier = classifier.at_cost(self.cost)
        flagged = np.asarray(classifier.predict(X) == classes[1])
        check_same_rows(len(flagged), len(positive))
        recall = float(flagged[positive].mean())
        share = float(flagged[~positive].mean())
        misses = self.prior * (1 - recall)
        false_alarms = max(share - self.prior * recall, 0.0)
        cost = (1 - self.cost) * misses + self.cost * false_alarms
        if isinstance(self.cost, Costs):
            cost *= self.cost.false_alarm + self.cost.miss
        return -float(cost)


class PUStratifiedKFold(StratifiedKFold):  # type: ignore[misc]
    """Folds with equal shares of labelled positives, also where other labels are missing.

    Pass it as ``cv`` to GridSearchCV or cross_val_score. An integer ``cv`` does not stratify such
    labels: scikit-learn chooses the folds before it calls a classifier, and takes plain ones if
    labels are missing.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    shuffle : bool, default=False
        Whether rows are shuffled before they are divided.
    random_state : int, RandomState or None, default=None
        Seed of the order, with ``shuffle=True``.
    pos_label : label, optional
        The label of the positives, as in :class:`drpu.DRPUClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from drpu import PUStratifiedKFold
    >>> y = np.array(["yes"] * 4 + [None] * 8, dtype=object)
    >>> [y[held].tolist().count("yes") for _, held in PUStratifiedKFold(2).split(y, y)]
    [2, 2]
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        super().__init__(n_splits, shuffle=shuffle, random_state=random_state)
        self.pos_label = pos_label

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[IntArray, IntArray]]:
        """Positions of training and held-out rows of each fold; rows of a group stay together."""
        refuse_frame(X)
        warn_of_order(X, y=y, groups=groups)
        positive, _ = read_labels(y, self.pos_label, warn=False)
        if groups is None:
            yield from super().split(X, positive)
            return
        folds = StratifiedGroupKFold(
            self.n_splits, shuffle=self.shuffle, random_state=self.random_state
        )
        yield from folds.split(X, positive, groups)


def _parts(estimator: Any, X: Rows, y: Any) -> tuple[Rows, Any, BoolArray, Classes]:
    """The rows as the last classifier of a pipeline gets them, this classifier, and labels."""
    refuse_frame(X)
    warn_of_order(X, y=y)
    if isinstance(estimator, Pipeline):
        X = estimator[:-1].transform(X)
        estimator = estimator[-1]
    pos_label = getattr(estimator, "pos_label", None)
    if isinstance(estimator, PUClassifier):
        pos_label = estimator.classes_[1]
    positive, classes = read_labels(y, pos_label, warn=False)
    return X, estimator, positive, classes
