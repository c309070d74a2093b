"""Where the prior is read.

Above any threshold, the share of unlabeled rows over the share of positives is at least the
prior. The flat, low part of the curve shows it.
"""

from matplotlib import pyplot

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.report import TailRatioDisplay

data = make_gaussian_pu(300, 1500, prior=0.4, test_prior=0.15, separation=3, dimensions=2, random_state=0)
clf = DRPUClassifier("classifier", random_state=0).fit(*data.X_y())

TailRatioDisplay.from_classifier(clf)
pyplot.show()
