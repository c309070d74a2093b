"""The learners that users reach by a name or inside the default, as the registry has them."""

from drpu.models.registry import LEARNERS

AutoRatio = LEARNERS["AutoRatio"].learner_class()
ForestRatio = LEARNERS["ForestRatio"].learner_class()
FourierRatio = LEARNERS["FourierRatio"].learner_class()
KernelScore = LEARNERS["KernelScore"].learner_class()
LinearRatio = LEARNERS["LinearRatio"].learner_class()
LinearScore = LEARNERS["LinearScore"].learner_class()
