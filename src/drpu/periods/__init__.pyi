# The door of the package: the names that other packages use.

from .backtest import plan_periods as plan_periods
from .backtest import run_backtest as run_backtest
from .backtest import split_periods as split_periods
from .groups import GroupPriors as GroupPriors
from .groups import Groups as Groups
from .groups import group_values as group_values
from .groups import read_periods as read_periods
from .groups import split_period as split_period
from .read import SHIFTS as SHIFTS
from .read import Reading as Reading
from .read import Shift as Shift
from .read import arrived_labels as arrived_labels
from .read import read_new_rows as read_new_rows
from .read import warn_about_reading as warn_about_reading
from .shift_tests import ColumnShift as ColumnShift
from .shift_tests import MixtureTest as MixtureTest

__all__: list[str]
