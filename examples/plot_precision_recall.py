"""Precision and recall without labels.

For every threshold: the share of flagged rows that are expected to be positive, by the
share of all positives among them. The band includes the error of the counts and the
interval of the prior of the new rows.
"""

from matplotlib import pyplot

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.plots import PrecisionRecallDisplay

data = make_gaussian_pu(
    300, 1500, prior=0.1, test_prior=0.15, n_test=3000, separation=2.5, random_state=0
)
june = (
    DRPUClassifier("kernel", random_state=0)
    .fit_pu(data.positive, data.unlabeled)
    .adapt(data.test)
)

PrecisionRecallDisplay.from_classifier(june, data.test)
pyplot.show()
