# The door of the package: the names that other packages use.

from .boosted import BoostedFunction as BoostedFunction
from .clusters import FrameLearner as FrameLearner
from .clusters import Ranges as Ranges
from .crossfit import cross_fit as cross_fit
from .crossfit import negative_part as negative_part
from .crossfit import resolve_holdout as resolve_holdout
from .crossfit import tails_of as tails_of
from .crossfit import warn_of_alpha as warn_of_alpha
from .crossfit import warn_of_few_known as warn_of_few_known
from .crossfit import warn_of_few_positives as warn_of_few_positives
from .crossfit import warn_of_unused_known as warn_of_unused_known
from .features import Scaling as Scaling
from .features import standardised as standardised

__all__: list[str]
