"""The share of positives in a stream.

`PriorMonitor` keeps counts of the latest rows, here about a week of them, and reads the share after every
day. The band is its interval. A share that moves is followed with a delay of half a window.
"""

import numpy as np
from matplotlib import pyplot

from drpu import DRPUClassifier, PriorMonitor, make_gaussian_pu

past = make_gaussian_pu(500, 2000, prior=0.3, separation=3, dimensions=2, random_state=0)
clf = DRPUClassifier("kernel", random_state=0).fit(*past.X_y())

days = np.arange(60)
truth = 0.2 + 0.1 * np.cos(days / 9)
monitor = PriorMonitor(clf, window=1400)
for day, share in zip(days, truth, strict=True):
    rows = make_gaussian_pu(
        1, 1, test_prior=share, n_test=200, separation=3, dimensions=2, random_state=day
    ).test
    monitor.update(rows, when=day)

found = np.array([(r.prior.value, r.prior.low, r.prior.high) for r in monitor.readings])
pyplot.fill_between(days, found[:, 1], found[:, 2], alpha=0.2)
pyplot.plot(days, found[:, 0], label="found in the latest 1,400 rows")
pyplot.plot(days, truth, "k--", label="true share of the day")
pyplot.xlabel("day")
pyplot.ylabel("share of positives")
pyplot.ylim(0, 0.5)
pyplot.legend()
pyplot.show()
