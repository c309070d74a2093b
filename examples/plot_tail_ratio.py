"""The tail ratio, from which the prior is estimated.

At any threshold, the fraction of unlabeled rows above it divided by the fraction of
positives above it is at least the prior. The prior is estimated where this ratio is
lowest and flat.
"""

from matplotlib import pyplot

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.plots import TailRatioDisplay

data = make_gaussian_pu(
    300, 1500, prior=0.1, test_prior=0.15, separation=3, dimensions=2, random_state=0
)
clf = DRPUClassifier("classifier", random_state=0).fit_pu(data.positive, data.unlabeled)

TailRatioDisplay.from_classifier(clf)
pyplot.show()
