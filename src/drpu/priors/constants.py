"""Constants of priors that were chosen by measuring, each with the command that chose it.

Constants that follow from a formula or a publication stand where they are used. A pair ``(start,
end)`` is the range over which a weight goes from 0 to 1, see :func:`drpu.priors.plateau.slide`.
"""

from __future__ import annotations

# -- python -m benchmarks.central --choose -----------------------------------------------------

# The distribution of a prior: a Beta distribution of usual priors, and the standard deviation of
# the log-odds of a reading: without a signal, its decrease with the strength of the signal, and a
# multiple of 1 / sqrt(positives).
USUAL_PRIORS = (0.4, 1.0)
READING_SPREAD = (3.2, 2.8, 1.0)
# Largest expected error of a reading that counts as identified by a weak score.
EXPECTED_ERROR = 0.075
# Between these slopes of the plateau, half of its weight moves to the tails ...
STEEP_SLOPES = (2.0, 4.0)
# ... and between these Youden indices it moves back.
CLASSES_APART = (0.85, 0.95)

# -- set by hand -------------------------------------------------------------------------------

# From this separation on, the value moves from the mean of the distribution to the reading, so that
# a reported set with few labels at a prior of 0.5 keeps its accuracy.
WEAK_SEPARATION = 0.3

# -- python -m benchmarks.tables ---------------------------------------------------------------

# Smallest Youden index with which a prior counts as identified by the score alone.
ENOUGH_SEPARATION = 0.55
# Readings between which the default moves from the plateau to the tails.
TAILS_FOR_READINGS = (0.65, 0.85)
# Youden indices between which the lower limit grows from 0 to its full size.
LIMIT_FOR_SEPARATION = (0.1, 0.5)
# Priors between which the lower limit of the tails replaces that of the plateau ...
TAIL_LIMIT_FOR_PRIORS = (0.7, 0.9)
# ... unless the score separates nothing.
TAIL_LIMIT_FOR_SEPARATION = (0.05, 0.15)

# -- python -m benchmarks.priors ---------------------------------------------------------------

# Numbers of positives between which the weight of usual priors decreases to 0, and the parameters
# of the Beta distribution of these priors, with mean 1/3.
POSITIVES_FOR_READING = (10.0, 40.0)
PRIORS_OF_FEW_POSITIVES = (1.5, 3.0)
# Number of positives at which the plateau gets half of the weight beside DEDPUL.
PLATEAU_ROWS = 100.0

# -- python -m benchmarks.intervals ------------------------------------------------------------

# With fewer new rows, exact binomial limits at one threshold replace matching.
EXACT_LIMITS_BELOW = 100
# How far below the deciding threshold the lower limit looks, by the Youden index of the score: down
# to 1/4, 1/8 or 1/16 of its recall.
REACH_BY_SEPARATION = ((0.6, 4.0), (0.45, 8.0), (0.0, 16.0))

# -- python -m benchmarks.rare -----------------------------------------------------------------

# Variance of the log-ratio of a row around its true value: numbers over the sizes of both samples.
SCORE_ERROR = (0.5, 0.25)
