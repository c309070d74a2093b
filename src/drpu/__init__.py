"""Positive-unlabeled classification that keeps working when the share of positives changes.

Every public name can be imported from here. Names are resolved on first use, so
``import drpu`` alone brings in neither scikit-learn nor torch nor LightGBM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drpu.core.prior import PriorEstimate as PriorEstimate
    from drpu.core.prior import estimate_prior as estimate_prior
    from drpu.core.tails import ScoreTails as ScoreTails

_SHELF = {
    "AdaptedClassifier": "drpu.estimators.adapted",
    "BoostedRatio": "drpu.models.boosting",
    "ClassifierRatio": "drpu.models.classifier",
    "DRPUClassifier": "drpu.estimators.drpu",
    "ElkanNotoClassifier": "drpu.estimators.classic",
    "GenPUClassifier": "drpu.estimators.generative",
    "KernelMeanPrior": "drpu.core.kernel_mean",
    "KernelRatio": "drpu.models.kernel",
    "NNPUClassifier": "drpu.estimators.risk",
    "NetworkRatio": "drpu.models.network",
    "PULDClassifier": "drpu.estimators.margin",
    "PUaClassifier": "drpu.estimators.risk",
    "PriorEstimate": "drpu.core.prior",
    "ScoreTails": "drpu.core.tails",
    "UPUClassifier": "drpu.estimators.risk",
    "VPUClassifier": "drpu.estimators.variational",
    "estimate_prior": "drpu.core.prior",
    "export_onnx": "drpu.artifact.onnx.export",
    "fit_many": "drpu.models.network",
    "load": "drpu.artifact.store",
    "make_gaussian_pu": "drpu.datasets.toys",
    "make_pu": "drpu.datasets.sampling",
    "ratio_risk_scorer": "drpu.estimators.scoring",
    "ratio_threshold": "drpu.core.decision",
    "save": "drpu.artifact.store",
    "shift_posterior": "drpu.core.decision",
}

__all__ = sorted([*_SHELF, "exceptions"])


def __getattr__(name: str) -> Any:
    if name in _SHELF:
        value = getattr(import_module(_SHELF[name]), name)
        globals()[name] = value  # the next look-up is a plain one
        return value
    if name == "exceptions":
        return import_module("drpu.exceptions")
    if name == "__version__":
        return _version()
    raise AttributeError(f"module 'drpu' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    """The installed version, looked up on first use: the look-up costs more than all the rest."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("drpu")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0.1.0"
