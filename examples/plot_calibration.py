"""Calibration of the probabilities.

In each range of scores, the predicted probability is compared with the proportion of
positives that follows from the counts.
"""

from matplotlib import pyplot

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.plots import CalibrationDisplay

data = make_gaussian_pu(
    300, 1500, prior=0.1, test_prior=0.15, separation=3, dimensions=2, random_state=0
)
clf = DRPUClassifier("classifier", random_state=0).fit_pu(data.positive, data.unlabeled)

CalibrationDisplay.from_classifier(clf)
pyplot.show()
