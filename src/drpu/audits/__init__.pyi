# The door of the package: the names that other packages use.

from .combine import combine_answers as combine_answers
from .combine import evaluate_parts as evaluate_parts
from .combine import resolve_audit as resolve_audit
from .evaluation import Evaluation as Evaluation
from .evaluation import FairnessTest as FairnessTest
from .labelling import Sensitivity as Sensitivity
from .labelling import sensitivity as sensitivity
from .labelling import sensitivity_of as sensitivity_of
from .plan import Audit as Audit
from .plan import AuditPlan as AuditPlan
from .plan import PlanRequest as PlanRequest
from .plan import audit_of_labels as audit_of_labels
from .plan import plan_audit as plan_audit
from .plan import refuse_beside_audit as refuse_beside_audit
from .plan import true_labels as true_labels
from .training import beside as beside
from .training import known_rows as known_rows
from .training import labelling_weights as labelling_weights
from .training import prior_from_answers as prior_from_answers
from .training import training_answers as training_answers

__all__: list[str]
