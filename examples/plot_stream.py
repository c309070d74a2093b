"""The prior of a stream.

`PriorMonitor` keeps counts of the latest rows, here of about a week, and estimates the
prior after every day. The band is its interval. The estimate follows a change with a
delay of half a window.
"""

import numpy as np
from matplotlib import pyplot

from drpu import DRPUClassifier, PriorMonitor, make_gaussian_pu

past = make_gaussian_pu(
    500, 2000, prior=0.1, separation=3, dimensions=2, random_state=0
)
clf = DRPUClassifier("kernel", random_state=0).fit_pu(past.positive, past.unlabeled)

days = np.arange(60)
truth = 0.2 + 0.1 * np.cos(days / 9)
monitor = PriorMonitor(clf, window=1400)
for day, prior in zip(days, truth, strict=True):
    rows = make_gaussian_pu(
        1, 1, test_prior=prior, n_test=200, separation=3, dimensions=2, random_state=day
    ).test
    monitor.update(rows, when=day)

priors = [reading.prior for reading in monitor.readings]
value, low, high = np.array([(p.value, p.low, p.high) for p in priors]).T
pyplot.fill_between(days, low, high, alpha=0.2)
pyplot.plot(days, value, label="estimated from the latest 1,400 rows")
pyplot.plot(days, truth, "k--", label="true prior of the day")
pyplot.xlabel("day")
pyplot.ylabel("prior")
pyplot.ylim(0, 0.5)
pyplot.legend()
pyplot.show()
