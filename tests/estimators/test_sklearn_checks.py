"""The classifier is a scikit-learn estimator: its own checks say so."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from drpu import DRPUClassifier, KernelRatio

# A handful of rows without any positives to find: what is warned of there is right.
pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")

_RESAMPLED = (
    "a weight of 2 is not the row twice: the folds and the holdout rows are drawn from rows, "
    "as in the resampling ensembles that scikit-learn exempts"
)
EXEMPT = {
    "check_sample_weight_equivalence_on_dense_data": _RESAMPLED,
    "check_sample_weight_equivalence_on_sparse_data": _RESAMPLED,
}
SETTINGS = [
    DRPUClassifier(),  # the rest is light: each setting makes about a hundred fits
    DRPUClassifier("classifier", holdout=2),
    DRPUClassifier("classifier", holdout=0.3, calibrate=False, scenario="single-sample"),
    DRPUClassifier(KernelRatio(n_centres=10, width=1.0, ridge=0.1), holdout=2),
]


@parametrize_with_checks(SETTINGS, expected_failed_checks=lambda _: EXEMPT, xfail_strict=False)
def test_scikit_learn_finds_nothing_wrong(estimator, check):
    check(estimator)
