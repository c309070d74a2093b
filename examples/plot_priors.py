"""Priors of several months.

Each month is a batch of unlabeled rows. Its prior is estimated without labels. The bars
are confidence intervals.
"""

from matplotlib import pyplot

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.plots import PriorDisplay

data = make_gaussian_pu(
    300, 1500, prior=0.1, test_prior=0.15, separation=3, dimensions=2, random_state=0
)
clf = DRPUClassifier("classifier", random_state=0).fit_pu(data.positive, data.unlabeled)

priors = {"Jan": 0.4, "Feb": 0.3, "Mar": 0.15, "Apr": 0.1}
months = {
    name: make_gaussian_pu(
        1,
        1,
        test_prior=prior,
        n_test=800,
        separation=3,
        dimensions=2,
        random_state=seed,
    ).test
    for seed, (name, prior) in enumerate(priors.items())
}
PriorDisplay.from_classifier(clf, months)
pyplot.show()
