"""Where positives, training rows and new rows score.

New rows hold fewer positives than the training rows did: the right hump shrinks, and its shape
stays. If the shape changed too, it would not be prior shift.
"""

from matplotlib import pyplot

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.report import ScoreDisplay

data = make_gaussian_pu(300, 1500, prior=0.4, test_prior=0.15, separation=3, dimensions=2, random_state=0)
clf = DRPUClassifier("classifier", random_state=0).fit(*data.X_y())

ScoreDisplay.from_classifier(clf, data.test)
pyplot.show()
