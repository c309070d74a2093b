# The public names of the package, written once: editors and type checkers read this file,
# and __init__.py imports each name from the module stated here when it is first used.

from . import exceptions as exceptions
from . import plots as plots
from .artifact.onnx.export import export_onnx as export_onnx
from .artifact.signature import make_keys as make_keys
from .artifact.signature import sign as sign
from .artifact.store import load as load
from .artifact.store import save as save
from .artifact.verify import Verified as Verified
from .artifact.verify import verify as verify
from .core.budget import Budget as Budget
from .core.calibration import calibrate as calibrate
from .core.costs import Costs as Costs
from .core.decision import ratio_threshold as ratio_threshold
from .core.decision import shift_posterior as shift_posterior
from .core.diagnostics import Performance as Performance
from .core.groups import GroupPriors as GroupPriors
from .core.kernel_mean import KernelMeanPrior as KernelMeanPrior
from .core.prior import PriorEstimate as PriorEstimate
from .core.prior import estimate_prior as estimate_prior
from .core.tails import ScoreTails as ScoreTails
from .datasets.sampling import make_pu as make_pu
from .datasets.toys import make_gaussian_pu as make_gaussian_pu
from .estimators.adapted import AdaptedClassifier as AdaptedClassifier
from .estimators.audit import Audit as Audit
from .estimators.audit import AuditPlan as AuditPlan
from .estimators.classic import ElkanNotoClassifier as ElkanNotoClassifier
from .estimators.drpu import DRPUClassifier as DRPUClassifier
from .estimators.fitted import FittedRatio as FittedRatio
from .estimators.generative import GenPUClassifier as GenPUClassifier
from .estimators.margin import PULDClassifier as PULDClassifier
from .estimators.outer import adapt as adapt
from .estimators.outer import at_prior as at_prior
from .estimators.outer import expected_performance as expected_performance
from .estimators.risk import NNPUClassifier as NNPUClassifier
from .estimators.risk import PUaClassifier as PUaClassifier
from .estimators.risk import UPUClassifier as UPUClassifier
from .estimators.scoring import AUCScorer as AUCScorer
from .estimators.scoring import CostScorer as CostScorer
from .estimators.scoring import ratio_risk_scorer as ratio_risk_scorer
from .estimators.variational import VPUClassifier as VPUClassifier
from .models.base import RatioModel as RatioModel
from .models.boosting import BoostedRatio as BoostedRatio
from .models.classifier import ClassifierRatio as ClassifierRatio
from .models.distributed_network import DistributedNetwork as DistributedNetwork
from .models.kernel import KernelRatio as KernelRatio
from .models.network import NetworkRatio as NetworkRatio
from .scale.batches import count_batches as count_batches
from .scale.batches import score_batches as score_batches
from .scale.fit_dask import DaskBoosted as DaskBoosted
from .scale.fit_spark import SparkBoosted as SparkBoosted
from .scale.monitor import PriorMonitor as PriorMonitor

__version__: str
__all__: list[str]
