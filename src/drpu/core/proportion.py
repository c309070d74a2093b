"""Estimators of the mixture proportion of one sample."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.special import expit

from drpu._checks import check_choice, check_real
from drpu.core._evidence import plateau_profile, slide
from drpu.core.calibration import fit_plateau
from drpu.core.dedpul import dedpul
from drpu.core.scott import scott
from drpu.core.tails import ScoreTails
from drpu.exceptions import FewPositivesWarning

__all__ = ["PROPORTIONS", "adaptive", "best_bin", "combined", "infimum", "plateau"]

_MOSTLY_POSITIVE = (0.65, 0.85)  # the weight of the plateau decreases from 1 to 0 between these priors
_SEPARATED = (2.0, 4.0)  # between these slopes of the plateau, half of its weight moves to the tails
_ENOUGH_POSITIVES = (10.0, 40.0)  # the weight of usual priors decreases to 0 between these numbers
_USUAL_PRIORS = (1.5, 3.0)  # parameters of a Beta distribution: mean 1/3
_PLATEAU_ROWS = 100.0  # number of positives at which the plateau gets half of the weight


def infimum(tails: ScoreTails, *, gamma: float = 1.0, sizes: str = "positive") -> float:
    r"""Smallest tail ratio over thresholds with enough positives above them: the rule of the paper.

    Parameters
    ----------
    tails : ScoreTails
        The counts.
    gamma : float, default=1.0
        The constant of the theorem, in (0, 1]; the authors used 1.
    sizes : {"positive", "both"}, default="positive"
        Whether the minimum recall depends on the number of positives only, as in the code
        of the authors, or on both samples, as in the theorem.

    Notes
    -----
    :math:`\min_k a_k / b_k` over :math:`b_k > \bar\gamma`, with
    :math:`\bar\gamma = \max \varepsilon(n) / \gamma` and
    :math:`\varepsilon(n) = \sqrt{4 \ln(en/2)/n} + \sqrt{\ln(2n)/(2n)}`. It exceeds 1
    for fewer than 28 positives. Then there is no threshold, and :func:`best_bin` is used.
    """
    check_real("gamma", gamma, low=1e-6, high=1.0)
    check_choice("sizes", sizes, ("positive", "both"))
    least = _epsilon(tails.n_positive)
    if sizes == "both":
        least = max(least, _epsilon(tails.n))
    found = _lowest_ratio(tails, least / gamma)
    if found is None:
        warnings.warn(
            f"{tails.n_positive:g} held-out positives are too few for prior='paper', which needs a "
            f"recall above {least / gamma:.2f}: best-bin is used instead.",
            FewPositivesWarning,
            stacklevel=4,
        )
        return best_bin(tails)
    return found


def _lowest_ratio(tails: ScoreTails, recall: float) -> float | None:
    """Smallest tail ratio over thresholds above this recall, if there are any."""
    a, b = tails.survival, tails.positive_survival
    enough = b > recall
    return float(min(1.0, (a[enough] / b[enough]).min())) if enough.any() else None


def _epsilon(n: float) -> float:
    return float(np.sqrt(4 * np.log(np.e * n / 2) / n) + np.sqrt(np.log(2 * n) / (2 * n)))


def best_bin(tails: ScoreTails, *, slack: float = 0.01, confidence: float = 0.9) -> float:
    """Tail ratio at the threshold with the smallest upper bound, for any sample size.

    Notes
    -----
    The threshold minimises ``a/b + (1 + slack)/b * (e(n) + e(n_positive))`` with
    ``e(n) = sqrt(log(4 / (1 - confidence)) / (2 n))`` (Garg et al. 2021).
    """
    a, b = tails.survival, tails.positive_survival
    scale = np.log(4 / (1 - confidence)) / 2
    noise = np.sqrt(scale / tails.n) + np.sqrt(scale / tails.n_positive)
    best = np.argmin((a + (1 + slack) * noise) / b)
    return float(min(1.0, a[best] / b[best]))


def plateau(tails: ScoreTails) -> float:
    """Prior from the height of the plateau of the smooth fit."""
    return fit_plateau(tails).prior


def combined(tails: ScoreTails) -> float:
    """Infimum and best-bin for large priors; DEDPUL and the plateau for small ones.

    The bias of the first two is proportional to the fraction of negatives, so their mean m
    gets weight m, and the other pair 1 - m. DEDPUL and the plateau use higher scores, where
    rare positives are visible. The plateau assumes a shape of the curve, so its weight in
    the pair decreases with the number of positives and is a half at one hundred.
    """
    lowest = _lowest_ratio(tails, _epsilon(tails.n_positive))
    best = best_bin(tails)
    many = best if lowest is None else (lowest + best) / 2
    trust = _PLATEAU_ROWS / (_PLATEAU_ROWS + tails.n_positive)
    few = trust * plateau(tails) + (1 - trust) * dedpul(tails)
    return many * many + (1 - many) * few


def adaptive(tails: ScoreTails) -> float:
    """The prior of the plateau if ``combined`` is moderate, and ``combined`` if it is large.

    If the classes overlap, the tail ratios are too high, because there are negatives among the best-scored
    rows; the plateau extrapolates beyond them. If most rows are positive, there are too few negatives to
    fit the plateau, and the tail ratios are better. With few positives neither says much: below forty of
    them, the mean over all priors that the plateau allows gets weight, and all of it below ten. Before the
    data are seen, priors have a Beta(1.5, 3) distribution there.
    """
    enough = slide(tails.n_positive, *_ENOUGH_POSITIVES)
    if enough == 0:
        return _likely_prior(tails)
    value = _of_enough(tails)
    return value if enough == 1 else enough * value + (1 - enough) * _likely_prior(tails)


def _of_enough(tails: ScoreTails) -> float:
    tail_reading = combined(tails)
    weight = slide(tail_reading, *_MOSTLY_POSITIVE)
    if weight == 1:
        return tail_reading
    fit = fit_plateau(tails)
    weight = max(weight, slide(fit.slope, *_SEPARATED) / 2)
    return weight * tail_reading + (1 - weight) * fit.prior


def _likely_prior(tails: ScoreTails) -> float:
    """Posterior mean of the prior, from the plateau's likelihood and a Beta distribution of usual priors."""
    profile = plateau_profile(tails)
    prior = expit(profile.log_odds)
    a, b = _USUAL_PRIORS
    weight = np.exp(profile.height) * prior**a * (1 - prior) ** b  # a density in the log-odds
    return float(weight @ prior / weight.sum())


PROPORTIONS: dict[str, Callable[[ScoreTails], float]] = {
    "adaptive": adaptive,
    "combined": combined,
    "paper": infimum,
    "best-bin": best_bin,
    "plateau": plateau,
    "scott": scott,
    "dedpul": dedpul,
}
