"""A ROC curve without labelled negatives.

The unlabeled rows are a mixture of positives and negatives. Given the prior, the
distribution of the negatives follows. The dot is the decision after adapting to the new
rows.
"""

from matplotlib import pyplot

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.plots import RocDisplay

data = make_gaussian_pu(
    300, 1500, prior=0.1, test_prior=0.15, separation=3, dimensions=2, random_state=0
)
clf = DRPUClassifier("classifier", random_state=0).fit_pu(data.positive, data.unlabeled)

RocDisplay.from_classifier(clf.adapt(data.test))
pyplot.show()
