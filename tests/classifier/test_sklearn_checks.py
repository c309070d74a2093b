"""scikit-learn's estimator checks pass for ``DRPUClassifier``."""

import inspect

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from drpu import DRPUClassifier, KernelRatio

# The checks fit a few rows of noise, where drpu's warnings about the data are correct.
pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")


@pytest.fixture(autouse=True)
def _array_api(monkeypatch):
    """With the array API switched on, rows of NumPy must give the same results; else the check is skipped."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


_RESAMPLED = (
    "folds and holdout rows are drawn from rows, so a row of weight 2 is not the same as that row twice; "
    "scikit-learn exempts its resampling ensembles from this check for the same reason"
)
EXEMPT = {
    "check_sample_weight_equivalence_on_dense_data": _RESAMPLED,
    "check_sample_weight_equivalence_on_sparse_data": _RESAMPLED,
}
SMALL = DRPUClassifier(holdout=2)  # the default with two folds: it is fitted about a hundred times
OTHER_SETTINGS = [
    DRPUClassifier(),
    DRPUClassifier("classifier", holdout=2),
    DRPUClassifier("classifier", holdout=0.3, calibrate=False, scenario="single-sample"),
    DRPUClassifier(KernelRatio(n_centres=10, width=1.0, ridge=0.1), holdout=2),
]


# Exempt checks may pass with some versions. Before 1.8, scikit-learn did not ask.
HAS_STRICT = "xfail_strict" in inspect.signature(parametrize_with_checks).parameters
NOT_STRICT = {"xfail_strict": False} if HAS_STRICT else {}


@parametrize_with_checks([SMALL], expected_failed_checks=lambda _: EXEMPT, **NOT_STRICT)
def test_the_default_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(OTHER_SETTINGS, expected_failed_checks=lambda _: EXEMPT, **NOT_STRICT)
def test_other_settings_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
