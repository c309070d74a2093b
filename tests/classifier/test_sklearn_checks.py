"""scikit-learn's estimator checks pass for ``DRPUClassifier`` and for the other PU methods."""

import inspect

import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from drpu import DRPUClassifier, ElkanNotoClassifier, GenPUClassifier, KernelRatio, UPUClassifier
from drpu.models.fourier import LinearScore
from rival_settings import SMOOTH, TINY

# The checks fit a few rows of noise, where warnings about the data are correct.
pytestmark = [
    pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture(autouse=True)
def _array_api(monkeypatch):
    """With the array API switched on, rows of NumPy must give the same results; else the check is skipped."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


# Each is fitted a hundred times: what is slow by default is small here, and PUa is an nnPU.
SMALL = [
    DRPUClassifier("classifier", holdout=2),
    *(TINY[name] for name in ("upu", "pua", "puld", "genpu")),  # with a given prior
    *(clone(TINY[name]).set_params(scenario="auto") for name in ("vpu", "elkan-noto")),
]
OTHER_SETTINGS = [
    DRPUClassifier(),
    DRPUClassifier(holdout=2),
    DRPUClassifier("classifier", holdout=0.3, calibrate=False, scenario="single-sample"),
    DRPUClassifier(KernelRatio(n_centres=10, width=1.0, ridge=0.1), holdout=2),
    *(type(rival)() for rival in (*SMALL[1:], TINY["nnpu"])),
    *(TINY[name] for name in ("nnpu", "upu-squared", "nnpu-network")),
    UPUClassifier(SMOOTH),
    ElkanNotoClassifier(ExtraTreesClassifier(5, min_samples_leaf=2)),
    UPUClassifier(TINY["upu"].model, prior="km2", scenario="single-sample"),
]


def exempted(classifier):
    """The checks that fit words without ``pos_label``, and those of weights that a random fit cannot pass."""
    words = {"check_classifiers_classes": "of two words, pos_label has to say which one marks the positives"}
    if type(getattr(classifier, "model", None)) is LinearScore:
        return words
    reason = (
        "folds, batches and kernel means draw rows, so a row of weight 2 is not the same as that row twice; "
        "scikit-learn exempts its resampling ensembles from this check for the same reason"
    )
    weights = {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}
    return words | weights


# Exempt checks may pass with few rows, and with some versions. Before 1.8, scikit-learn did not ask.
HAS_STRICT = "xfail_strict" in inspect.signature(parametrize_with_checks).parameters
NOT_STRICT = {"xfail_strict": False} if HAS_STRICT else {}


@parametrize_with_checks(SMALL, expected_failed_checks=exempted, **NOT_STRICT)
def test_classifiers_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(OTHER_SETTINGS, expected_failed_checks=exempted, **NOT_STRICT)
def test_other_settings_pass_the_checks_of_scikit_learn(estimator, check):
    if estimator.get_params() == GenPUClassifier().get_params() and check.keywords.get("readonly_memmap"):
        estimator = clone(estimator).set_params(steps=20)  # the full training ran on the same rows in memory
    check(estimator)
