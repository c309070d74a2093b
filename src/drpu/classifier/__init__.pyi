# The door of the package: the names that its first module uses of the others.

from .drpu import AdaptedClassifier as AdaptedClassifier
from .drpu import DRPUClassifier as DRPUClassifier
from .groups import GroupOptions as GroupOptions
from .groups import adapt_by_group as adapt_by_group
from .groups import evaluate_by_group as evaluate_by_group
from .groups import plan_by_group as plan_by_group
from .records import AdaptedRecord as AdaptedRecord
from .records import DRPURecord as DRPURecord

__all__: list[str]
