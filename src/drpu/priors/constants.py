"""Constants of priors that were chosen by measuring, each with the command that chose it.

Constants that follow from a formula or a publication stand where they are used. A pair ``(start,
end)`` is the range over which a weight goes from 0 to 1, see :func:`drpu.priors.plateau.slide`.
"""

from __future__ import annotations

# -- python -m benchmarks.central --choose -----------------------------------------------------

# Another setting now has a slightly smaller loss: docs/unidentified.md says why it was not taken.

# Beta distributions of usual priors of a population, by how its rows were collected.
USUAL_PRIORS_CASE_CONTROL = (0.6, 0.4)
USUAL_PRIORS_SINGLE_SAMPLE = (0.4, 0.6)
# Standard deviation of the log-odds of a reading: without a signal, the exponent of 1 - separation
# with which it decreases, and a multiple of 1 / sqrt(positives).
READING_SPREAD = (2.75, 2.25, 0.35)
# Share of tables in which the reading is an upper bound only: without a signal, and with clearly
# separated classes; and the width of the log-odds below it that are then equally likely.
UPPER_BOUND_ONLY = (0.7, 0.06, 3.4)
# Beta distribution of 2 A - 1 with the area A under the ROC curve of positives against negatives,
# and the noise of the area of positives against unlabeled rows: a multiple of 1 / sqrt(positives).
USUAL_SEPARABILITY = (3.0, 1.0)
AREA_NOISE = 0.5
# Share of tables whose columns say nothing about the classes.
USELESS_COLUMNS = 0.02
# A prior is identified if its expected error and its chance of being off by more are below these.
EXPECTED_ERROR = 0.05
FAR_OFF = 0.10
CHANCE_OF_FAR_OFF = 0.08
# Errors of scores put negatives among the best-scored rows, which makes readings too high. This is
# corrected fully for readings below the first value, and not at all above the second.
READINGS_WITH_ERROR = (0.2, 0.4)
# Between these slopes of the plateau, half of its weight moves to the tails ...
STEEP_SLOPES = (2.0, 4.0)
# ... and between these Youden indices it moves back.
CLASSES_APART = (0.85, 0.95)

# -- python -m benchmarks.tables ---------------------------------------------------------------

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

# -- python -m benchmarks.answers --------------------------------------------------------------

# Answers that are planned and asked for unless a number is given: more of them change few labels.
FEW_ANSWERS = 20

# -- python -m benchmarks.rare -----------------------------------------------------------------

# Variance of the log-ratio of a row around its true value: numbers over the sizes of both samples.
SCORE_ERROR = (0.5, 0.25)
# Weight of the usual distribution of separability when likely plateaus are found. It is below 1
# because the slope of a plateau is only roughly the distance between two normal classes (with
# --choose, and python -m benchmarks.expected --choose).
SEPARABILITY_OF_PLATEAUS = 0.3

# A share whose limits are further apart is printed as a range, without its value.
WIDE_RANGE = 0.3
