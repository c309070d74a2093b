# The door of the package: the names that other packages use.

from .estimate import PriorEstimate as PriorEstimate
from .figures import Figure as Figure
from .kernel_mean import KernelMeanPrior as KernelMeanPrior
from .matching import Growth as Growth
from .matching import later_priors as later_priors
from .plateau import fit_plateau as fit_plateau
from .plateau import normal_scores as normal_scores
from .readings import PROPORTIONS as PROPORTIONS
from .tails import ScoreTails as ScoreTails

__all__: list[str]
