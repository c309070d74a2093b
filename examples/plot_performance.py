"""Accuracy with and without adapting.

Expected accuracy for every prior of the new rows: with a threshold that is adapted, and
with the threshold of training.
"""

from matplotlib import pyplot

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.plots import PerformanceDisplay

data = make_gaussian_pu(
    300, 1500, prior=0.1, test_prior=0.15, separation=3, dimensions=2, random_state=0
)
clf = DRPUClassifier("classifier", random_state=0).fit_pu(data.positive, data.unlabeled)

PerformanceDisplay.from_classifier(clf)
pyplot.show()
