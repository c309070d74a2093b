# The door of the package: the names that other packages use.

from .methods import estimate_prior as estimate_prior
from .methods import prior_from_tails as prior_from_tails
from .priors import later_prior as later_prior

__all__: list[str]
