"""Gain and lift of the rows with the highest scores.

The gain is the share of all positives among the rows that are checked, the highest
scores first. The lift compares it with rows at random. Both come from counts, without
labels of the new rows.
"""

from matplotlib import pyplot

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.plots import GainDisplay, LiftDisplay

data = make_gaussian_pu(
    300, 1500, prior=0.1, test_prior=0.05, n_test=3000, separation=2.5, random_state=0
)
june = (
    DRPUClassifier("kernel", random_state=0)
    .fit_pu(data.positive, data.unlabeled)
    .adapt(data.test)
)

figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
GainDisplay.from_classifier(june, data.test, ax=left)
LiftDisplay.from_classifier(june, data.test, ax=right)
day = june.at_budget(rows=150, of=data.test).budget_
left.plot(day.share, day.recall.value, "o", color="gray", label="a budget of 150 rows")
left.legend(frameon=False)
pyplot.show()
