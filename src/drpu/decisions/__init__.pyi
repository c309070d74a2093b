# The door of the package: the names that other packages use.

from .budget import AtBudget as AtBudget
from .budget import Budget as Budget
from .budget import budget_threshold as budget_threshold
from .budget import check_budget as check_budget
from .budget import gain_curve as gain_curve
from .budget import share_for_precision as share_for_precision
from .budget import share_for_recall as share_for_recall
from .contributions import Reasons as Reasons
from .contributions import contributions_of as contributions_of
from .contributions import importances_of as importances_of
from .contributions import reasons_of as reasons_of
from .performance import LABEL_NOISE as LABEL_NOISE
from .performance import Decision as Decision
from .performance import Performance as Performance
from .performance import expect as expect
from .performance import expect_mapped as expect_mapped
from .point import AtPrior as AtPrior
from .point import OperatingPoint as OperatingPoint
from .point import operating_point as operating_point

__all__: list[str]
