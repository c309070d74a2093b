# The public names of the package, written once: editors and type checkers read this file,
# and __init__.py imports each name from the module stated here when it is first used.

from . import exceptions as exceptions
from . import plots as plots
from .audits.plan import Audit as Audit
from .audits.plan import AuditPlan as AuditPlan
from .audits.training import labelling_weights as labelling_weights
from .beliefs.methods import estimate_prior as estimate_prior
from .classifier.drpu import AdaptedClassifier as AdaptedClassifier
from .classifier.drpu import DRPUClassifier as DRPUClassifier
from .datasets import make_gaussian_pu as make_gaussian_pu
from .datasets import make_pu as make_pu
from .files.export import export_onnx as export_onnx
from .files.store import load as load
from .files.store import save as save
from .files.store import verify as verify
from .models.boosted import BoostedRatio as BoostedRatio
from .models.estimators import ClassifierRatio as ClassifierRatio
from .models.kernel import KernelRatio as KernelRatio
from .models.learner import RatioLearner as RatioLearner
from .networks.learner import NetworkRatio as NetworkRatio
from .pipelines import adapt as adapt
from .priors.calibration import ratio_threshold as ratio_threshold
from .priors.calibration import shift_posterior as shift_posterior
from .priors.estimate import PriorEstimate as PriorEstimate
from .priors.kernel_mean import KernelMeanPrior as KernelMeanPrior
from .priors.tails import ScoreTails as ScoreTails
from .rivals.generative import GenPUClassifier as GenPUClassifier
from .rivals.posterior import ElkanNotoClassifier as ElkanNotoClassifier
from .rivals.posterior import VPUClassifier as VPUClassifier
from .rivals.risk import NNPUClassifier as NNPUClassifier
from .rivals.risk import PUaClassifier as PUaClassifier
from .rivals.risk import PULDClassifier as PULDClassifier
from .rivals.risk import UPUClassifier as UPUClassifier
from .scale.batches import count_batches as count_batches
from .scale.batches import score_batches as score_batches
from .scale.dask import DaskBoosted as DaskBoosted
from .scale.monitor import PriorMonitor as PriorMonitor
from .scale.spark import SparkBoosted as SparkBoosted
from .selection import AUCScorer as AUCScorer
from .selection import CostScorer as CostScorer
from .selection import PUStratifiedKFold as PUStratifiedKFold
from .selection import ratio_risk_scorer as ratio_risk_scorer
from .state.costs import Costs as Costs
from .suspects import suspects as suspects

__version__: str
__all__: list[str]
