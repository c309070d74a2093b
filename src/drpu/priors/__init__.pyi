# The door of the package: the names that other packages use.

from .estimate import PriorEstimate as PriorEstimate
from .estimate import estimate_prior as estimate_prior
from .estimate import prior_from_tails as prior_from_tails
from .tails import ScoreTails as ScoreTails

__all__: list[str]
