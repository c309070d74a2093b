"""Model selection without true labels."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from drpu._typing import Rows
from drpu.core.bregman import bregman_risk
from drpu.estimators._validation import read_labels
from drpu.exceptions import ParameterError

__all__ = ["ratio_risk_scorer"]


def ratio_risk_scorer(estimator: Any, X: Rows, y: Any) -> float:
    """Minus the uncorrected least-squares risk of the ratio on held-out rows: higher is better.

    It needs only the labels that training has, positive and unlabeled, and no prior.
    Pass it as ``scoring`` to GridSearchCV or cross_val_score.

    Parameters
    ----------
    estimator : DRPUClassifier, or a pipeline that ends in one
        Fitted.
    X : rows
        Rows that it has not seen.
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
    >>> clf = DRPUClassifier("kernel", random_state=0)
    >>> bool(cross_val_score(clf, X, y, cv=2, scoring=ratio_risk_scorer).mean() > 0.5)
    True
    """
    classifier = estimator
    if isinstance(estimator, Pipeline):
        X, classifier = estimator[:-1].transform(X), estimator[-1]
    if not hasattr(classifier, "ratio"):
        raise ParameterError(
            f"estimator must have a ratio method, got {type(classifier).__name__}: "
            "ratio_risk_scorer is for density-ratio classifiers."
        )
    positive, _ = read_labels(y, getattr(classifier, "pos_label", None))
    ratio = classifier.ratio(X)
    single = getattr(classifier, "scenario", "case-control") == "single-sample"
    population = ratio if single else ratio[~positive]
    return -float(bregman_risk(ratio[positive], population))
