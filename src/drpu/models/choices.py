"""Numbers of the learners that measurements chose, one table a learner, with what measures them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True, slots=True)
class AutoChoices:
    """Numbers of the default model.

    Errors of priors: ``python -m benchmarks.tables --data FOLDER``. Accuracy and time with many
    rows: ``python -m benchmarks.scale``. Time of scores: ``python -m benchmarks.predict``.
    """

    few_positives: int = 10  # with fewer positives trees would overfit
    balanced_positives: int = 200  # with fewer positives the forest is balanced
    enough_positives: int = 1000  # members are weighted from this number of positives on
    wide: int = 1000  # sparse rows with more columns get a linear fit only
    linear_rows: int = 50_000  # unlabeled rows from which on the smooth member has a linear part
    divisions: int = 4  # into folds with few positives: their mean has half the standard deviation
    most_divided: int = 20_000  # rows; with more of them, one division takes long enough
    most_leaves: int = 64  # of averaged trees: more add to the time of a score, not its accuracy

    # The rows that determine the weights: a tenth, if it has enough positives, or up to a fifth.
    least_held: float = 0.1
    largest_held: float = 0.2
    enough_held: int = 400
    most_held: int = 20_000  # more rows of either sample do not improve the weights
    pull: float = 12.0  # number of positives at which weights are halfway to the optimum
    worth: float = 1e-4  # a member is kept if it lowers the held-out loss by at least this
    refit_rows: int = 50_000  # with at most this many rows members are fitted again to all rows
    regrow_rows: int = 200_000  # the same for boosting, the only member that uses more rows

    # The forest where members are weighted; rows are those of each sample.
    forest_trees: int = 60
    forest_rows: int = 50_000
    forest_leaf: int = 50

    # Functions of folds. With half of the trees, errors of priors on tables with a weak signal are
    # larger.
    fold_trees: int = 70
    fold_leaves: int = 32  # of averaged trees: priors are as good as with more
    fold_rounds: int = 65  # of boosting without early stopping
    fold_travel: float = 9.0  # rounds times learning rate of boosting without early stopping
    stopped_rate: float = 0.05  # learning rate with early stopping, of one fold
    fastest_rate: float = 0.25  # the same with many folds


class TreeGrowth(NamedTuple):
    """Settings of boosted trees that the user did not give."""

    rounds: int
    learning_rate: float
    leaves: int
    column_share: float


@dataclass(frozen=True, slots=True)
class BoostedChoices:
    """Numbers of boosted trees: ``python -m benchmarks.choice``."""

    fixed: TreeGrowth  # without early stopping
    stopped: TreeGrowth  # with early stopping
    most: TreeGrowth  # the same with very many positives
    many_positives: int = 10_000  # with more positives, trees grow with the root of their number
    l2: float = 20.0
    min_leaf: int = 10
    patience: int = 30  # rounds without a lower risk before boosting stops
    enough_held: int = 200  # held-out positives needed to choose the number of rounds
    most_held: int = 20_000  # rows of either sample; more do not improve that choice
    few_rows: int = 20_000  # up to this number, trees are trained again with the held-out rows


@dataclass(frozen=True, slots=True)
class FourierChoices:
    """Numbers of the fit to random cosines: ``python -m benchmarks.tables --data FOLDER``."""

    most_rows: int = 20_000  # of either sample that are fitted at a time: their features are large
    most_fits: int = 8  # fits to other rows, whose coefficients are averaged
    shared_rows: int = 20_000  # up to this number of rows, all folds share their features
    narrow: float = 0.4  # smallest width, in median distances between rows
    wide: float = 1.5  # largest width
    far: float = 3.0  # columns are clipped at this number of standard deviations
    length: float = 30.0  # squared length of a row of cosines; with C it sets the shrinkage
    linear_columns: int = 300  # with more columns the fit of a linear part would be slow


@dataclass(frozen=True, slots=True)
class LinearChoices:
    """Numbers of the linear fit to sparse rows: ``python -m benchmarks.text --data FOLDER``."""

    frequent: float = 0.9  # share of the entries in columns with at most the least deviation
    length: float = 5.0  # mean squared length of a row; with C it sets the shrinkage


@dataclass(frozen=True, slots=True)
class KernelChoices:
    """Numbers of the kernel ratio: ``python -m benchmarks.priors``."""

    widths: tuple[float, ...] = (0.15, 0.25, 0.4, 0.65, 1.0, 1.6)  # in median distances of two rows
    ridges: tuple[float, ...] = tuple(10.0 ** np.arange(-3.0, 1.25, 0.5))  # in feature variances
    plain_width: float = 0.65  # if there are too few rows to choose
    plain_ridge: float = 0.1
    few_rows: int = 20_000  # up to this number of rows, several splits choose by their mean risk
    draws: int = 5  # number of these splits


@dataclass(frozen=True, slots=True)
class JobChoices:
    """Numbers of fits at the same time: ``python -m benchmarks.predict``, one and two jobs."""

    process_start: float = 5.0  # seconds that processes must save, because their start takes time
    thread_rows: int = 2000  # up to this number of rows, threads wait as long as they compute
    thread_values: int = 2_000_000  # with fewer values in one fit, its threads mostly wait


AUTO = AutoChoices()
BOOSTED = BoostedChoices(
    # Small trees and steps, because there is no early stopping.
    fixed=TreeGrowth(rounds=150, learning_rate=0.06, leaves=8, column_share=0.5),
    # A tree can only find an interaction of three columns if it is trained on all three. With half
    # of the columns this holds for one tree in eight.
    stopped=TreeGrowth(rounds=1000, learning_rate=0.05, leaves=16, column_share=1.0),
    most=TreeGrowth(rounds=2000, learning_rate=0.05, leaves=64, column_share=1.0),
)
FOURIER = FourierChoices()
LINEAR = LinearChoices()
KERNEL = KernelChoices()
JOBS = JobChoices()
