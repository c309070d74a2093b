"""Positive-unlabeled classification that keeps working when the share of positives changes.

Every public name can be imported from here. Names are resolved on first use, so
``import drpu`` alone brings in neither scikit-learn nor torch nor LightGBM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what editors and type checkers see
    from drpu.artifact.onnx.export import export_onnx as export_onnx
    from drpu.artifact.store import load as load
    from drpu.artifact.store import save as save
    from drpu.core.budget import Budget as Budget
    from drpu.core.calibration import calibrate as calibrate
    from drpu.core.costs import Costs as Costs
    from drpu.core.decision import ratio_threshold as ratio_threshold
    from drpu.core.decision import shift_posterior as shift_posterior
    from drpu.core.groups import GroupPriors as GroupPriors
    from drpu.core.kernel_mean import KernelMeanPrior as KernelMeanPrior
    from drpu.core.objective import ShiftedRisk as ShiftedRisk
    from drpu.core.objective import VariationalRisk as VariationalRisk
    from drpu.core.prior import PriorEstimate as PriorEstimate
    from drpu.core.prior import estimate_prior as estimate_prior
    from drpu.core.tails import ScoreTails as ScoreTails
    from drpu.core.teaching import mean_log_ratio as mean_log_ratio
    from drpu.core.teaching import teaching_weights as teaching_weights
    from drpu.datasets.sampling import make_pu as make_pu
    from drpu.datasets.toys import make_gaussian_pu as make_gaussian_pu
    from drpu.estimators.adapted import AdaptedClassifier as AdaptedClassifier
    from drpu.estimators.classic import ElkanNotoClassifier as ElkanNotoClassifier
    from drpu.estimators.drpu import DRPUClassifier as DRPUClassifier
    from drpu.estimators.generative import GenPUClassifier as GenPUClassifier
    from drpu.estimators.margin import PULDClassifier as PULDClassifier
    from drpu.estimators.risk import NNPUClassifier as NNPUClassifier
    from drpu.estimators.risk import PUaClassifier as PUaClassifier
    from drpu.estimators.risk import UPUClassifier as UPUClassifier
    from drpu.estimators.scoring import AUCScorer as AUCScorer
    from drpu.estimators.scoring import CostScorer as CostScorer
    from drpu.estimators.scoring import ratio_risk_scorer as ratio_risk_scorer
    from drpu.estimators.variational import VPUClassifier as VPUClassifier
    from drpu.models.boosting import BoostedRatio as BoostedRatio
    from drpu.models.classifier import ClassifierRatio as ClassifierRatio
    from drpu.models.kernel import KernelRatio as KernelRatio
    from drpu.models.many import fit_many as fit_many
    from drpu.models.network import NetworkRatio as NetworkRatio
    from drpu.models.network_score import NetworkScore as NetworkScore
    from drpu.scale.batches import count_batches as count_batches
    from drpu.scale.batches import score_batches as score_batches
    from drpu.scale.monitor import PriorMonitor as PriorMonitor
    from drpu.scale.monitor import PriorReading as PriorReading

_SHELF = {
    "AUCScorer": "drpu.estimators.scoring",
    "AdaptedClassifier": "drpu.estimators.adapted",
    "BoostedRatio": "drpu.models.boosting",
    "Budget": "drpu.core.budget",
    "ClassifierRatio": "drpu.models.classifier",
    "CostScorer": "drpu.estimators.scoring",
    "Costs": "drpu.core.costs",
    "DRPUClassifier": "drpu.estimators.drpu",
    "ElkanNotoClassifier": "drpu.estimators.classic",
    "GenPUClassifier": "drpu.estimators.generative",
    "GroupPriors": "drpu.core.groups",
    "KernelMeanPrior": "drpu.core.kernel_mean",
    "KernelRatio": "drpu.models.kernel",
    "NNPUClassifier": "drpu.estimators.risk",
    "NetworkRatio": "drpu.models.network",
    "NetworkScore": "drpu.models.network_score",
    "PULDClassifier": "drpu.estimators.margin",
    "PUaClassifier": "drpu.estimators.risk",
    "PriorEstimate": "drpu.core.prior",
    "PriorMonitor": "drpu.scale.monitor",
    "PriorReading": "drpu.scale.monitor",
    "ScoreTails": "drpu.core.tails",
    "ShiftedRisk": "drpu.core.objective",
    "UPUClassifier": "drpu.estimators.risk",
    "VPUClassifier": "drpu.estimators.variational",
    "VariationalRisk": "drpu.core.objective",
    "calibrate": "drpu.core.calibration",
    "count_batches": "drpu.scale.batches",
    "estimate_prior": "drpu.core.prior",
    "export_onnx": "drpu.artifact.onnx.export",
    "fit_many": "drpu.models.many",
    "load": "drpu.artifact.store",
    "make_gaussian_pu": "drpu.datasets.toys",
    "make_pu": "drpu.datasets.sampling",
    "mean_log_ratio": "drpu.core.teaching",
    "ratio_risk_scorer": "drpu.estimators.scoring",
    "ratio_threshold": "drpu.core.decision",
    "save": "drpu.artifact.store",
    "score_batches": "drpu.scale.batches",
    "shift_posterior": "drpu.core.decision",
    "teaching_weights": "drpu.core.teaching",
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
