# The public names of the package, written once: editors and type checkers read this file,
# and __init__.py imports each name from the module stated here when it is first used.

from . import exceptions as exceptions
from . import plots as plots
from .classifier.adapted import AdaptedClassifier as AdaptedClassifier
from .classifier.audit import Audit as Audit
from .classifier.audit import AuditPlan as AuditPlan
from .classifier.drpu import DRPUClassifier as DRPUClassifier
from .classifier.explain import Suspects as Suspects
from .classifier.explain import suspects as suspects
from .classifier.fitted import FittedRatio as FittedRatio
from .classifier.pipelines import adapt as adapt
from .classifier.pipelines import at_prior as at_prior
from .classifier.pipelines import expected_performance as expected_performance
from .classifier.scoring import AUCScorer as AUCScorer
from .classifier.scoring import CostScorer as CostScorer
from .classifier.scoring import PUStratifiedKFold as PUStratifiedKFold
from .classifier.scoring import ratio_risk_scorer as ratio_risk_scorer
from .core.budget import Budget as Budget
from .core.calibration import calibrate as calibrate
from .core.decision import Costs as Costs
from .core.decision import ratio_threshold as ratio_threshold
from .core.decision import shift_posterior as shift_posterior
from .core.diagnostics import Performance as Performance
from .core.prior.estimate import PriorEstimate as PriorEstimate
from .core.prior.estimate import estimate_prior as estimate_prior
from .core.prior.groups import GroupPriors as GroupPriors
from .core.prior.kernel_mean import KernelMeanPrior as KernelMeanPrior
from .core.tails import ScoreTails as ScoreTails
from .datasets.sampling import make_pu as make_pu
from .datasets.toys import make_gaussian_pu as make_gaussian_pu
from .files.onnx import export_onnx as export_onnx
from .files.signature import make_keys as make_keys
from .files.signature import sign as sign
from .files.store import Verified as Verified
from .files.store import load as load
from .files.store import save as save
from .files.store import verify as verify
from .networks.learner import NetworkRatio as NetworkRatio
from .ratios.base import RatioLearner as RatioLearner
from .ratios.boosted import BoostedRatio as BoostedRatio
from .ratios.classifier import ClassifierRatio as ClassifierRatio
from .ratios.kernel import KernelRatio as KernelRatio
from .rivals.elkan_noto import ElkanNotoClassifier as ElkanNotoClassifier
from .rivals.generative import GenPUClassifier as GenPUClassifier
from .rivals.margin import PULDClassifier as PULDClassifier
from .rivals.risk import NNPUClassifier as NNPUClassifier
from .rivals.risk import PUaClassifier as PUaClassifier
from .rivals.risk import UPUClassifier as UPUClassifier
from .rivals.variational import VPUClassifier as VPUClassifier
from .scale.batches import count_batches as count_batches
from .scale.batches import score_batches as score_batches
from .scale.fit_dask import DaskBoosted as DaskBoosted
from .scale.fit_spark import SparkBoosted as SparkBoosted
from .scale.monitor import PriorMonitor as PriorMonitor

__version__: str
__all__: list[str]
