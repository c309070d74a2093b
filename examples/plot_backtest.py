"""How well past periods would have been read.

With `periods=`, each past period is read by a fit to the rows before it. The move of
the prior that the labels of the period show is compared with the move that was read
without them.
"""

import numpy as np
from matplotlib import pyplot

from drpu import DRPUClassifier
from drpu.plots import BacktestDisplay

rng = np.random.default_rng(0)
month = np.repeat(np.arange(1, 9), 600)
positive = rng.random(len(month)) < 0.25 + 0.1 * np.sin(month)
X = rng.normal(size=(len(month), 2)) + 2.5 * positive[:, None]
y = (positive & (rng.random(len(month)) < 0.3)).astype(int)  # 30 % are labelled

clf = DRPUClassifier("kernel", scenario="single-sample", random_state=0)
clf.fit(X, y, periods=month)

BacktestDisplay.from_classifier(clf)
pyplot.show()
