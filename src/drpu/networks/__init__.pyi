# The door of the package: the names that other packages use.

from . import modules as modules
from .adversarial import load_generator as load_generator
from .adversarial import train_generators as train_generators
from .fit import fit_learner as fit_learner
from .fit import fit_score as fit_score
from .learner import NetworkRatio as NetworkRatio

__all__: list[str]
