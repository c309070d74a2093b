# The door of the package: the names that other packages use.

from .boosted import BoostedFunction as BoostedFunction
from .clusters import FrameLearner as FrameLearner
from .clusters import Ranges as Ranges
from .clusters import engine_of as engine_of
from .clusters import refuse_frame as refuse_frame
from .features import Scaling as Scaling
from .features import standardised as standardised

__all__: list[str]
