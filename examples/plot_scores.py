"""Scores of positives, training rows and new rows.

The new rows contain fewer positives than the training rows: the right mode is smaller,
but its shape is the same. If the shape changed as well, it would not be prior shift.
"""

from matplotlib import pyplot

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.plots import ScoreDisplay

data = make_gaussian_pu(
    300, 1500, prior=0.1, test_prior=0.15, separation=3, dimensions=2, random_state=0
)
clf = DRPUClassifier("classifier", random_state=0).fit_pu(data.positive, data.unlabeled)

ScoreDisplay.from_classifier(clf, data.test)
pyplot.show()
