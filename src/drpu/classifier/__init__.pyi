# The door of the package: the names that its first module uses of the others.

from .drpu import AdaptedClassifier as AdaptedClassifier
from .drpu import DRPUClassifier as DRPUClassifier
from .fitting import check_prior_parameter as check_prior_parameter
from .fitting import identified_by as identified_by
from .fitting import training_prior as training_prior
from .fitting import with_leaks_found as with_leaks_found
from .groups import GroupOptions as GroupOptions
from .groups import adapt_by_group as adapt_by_group
from .groups import are_group_counts as are_group_counts
from .reading import FitArguments as FitArguments
from .reading import check_rows as check_rows
from .reading import read_batch as read_batch
from .reading import read_counts as read_counts
from .reading import read_members as read_members
from .reading import read_rows as read_rows
from .reading import read_samples as read_samples
from .reading import read_texts as read_texts
from .reading import read_training as read_training
from .reading import rows_with_periods as rows_with_periods
from .records import AdaptedRecord as AdaptedRecord
from .records import DRPURecord as DRPURecord

__all__: list[str]
