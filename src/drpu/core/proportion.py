"""Mixture proportion of one sample: how much of U looks like P at its top."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from drpu._checks import check_choice, check_real
from drpu.core._evidence import slide
from drpu.core.calibration import fit_plateau
from drpu.core.dedpul import dedpul
from drpu.core.scott import scott
from drpu.core.tails import ScoreTails
from drpu.exceptions import FewPositivesWarning

__all__ = ["PROPORTIONS", "adaptive", "best_bin", "combined", "infimum", "plateau"]

_MOSTLY_POSITIVE = (0.65, 0.85)  # priors between which the plateau loses its weight
_SEPARATED = (2.0, 4.0)  # slopes of the plateau between which half of its weight goes to the tails
_PLATEAU_ROWS = 100.0  # positives that outweigh the plateau's assumption


def infimum(tails: ScoreTails, *, gamma: float = 1.0, sizes: str = "positive") -> float:
    r"""Smallest ratio of tails among thresholds that keep enough positives: the paper's rule.

    Parameters
    ----------
    tails : ScoreTails
        The counts.
    gamma : float, default=1.0
        The constant of the theorem, in (0, 1]; 1 is what its authors ran.
    sizes : {"positive", "both"}, default="positive"
        Whether the recall asked for follows from the number of positives alone,
        as the authors ran it, or from both samples, as the theorem has it.

    Notes
    -----
    :math:`\min_k a_k / b_k` over :math:`b_k > \bar\gamma`, with
    :math:`\bar\gamma = \max \varepsilon(n) / \gamma` and
    :math:`\varepsilon(n) = \sqrt{4 \ln(en/2)/n} + \sqrt{\ln(2n)/(2n)}`. It exceeds 1
    below 28 positives: no threshold is left then, and :func:`best_bin` answers.
    """
    check_real("gamma", gamma, low=1e-6, high=1.0)
    check_choice("sizes", sizes, ("positive", "both"))
    least = _epsilon(tails.n_positive)
    if sizes == "both":
        least = max(least, _epsilon(tails.n))
    found = _lowest_ratio(tails, least / gamma)
    if found is None:
        warnings.warn(
            f"{tails.n_positive:g} held-out positives are too few for the paper's prior, which wants a "
            f"recall above {least / gamma:.2f}: best-bin answers instead.",
            FewPositivesWarning,
            stacklevel=4,
        )
        return best_bin(tails)
    return found


def _lowest_ratio(tails: ScoreTails, recall: float) -> float | None:
    """Smallest ratio of tails among thresholds of more than this recall, where there are any."""
    a, b = tails.survival, tails.positive_survival
    enough = b > recall
    return float(min(1.0, (a[enough] / b[enough]).min())) if enough.any() else None


def _epsilon(n: float) -> float:
    return float(np.sqrt(4 * np.log(np.e * n / 2) / n) + np.sqrt(np.log(2 * n) / (2 * n)))


def best_bin(tails: ScoreTails, *, slack: float = 0.01, confidence: float = 0.9) -> float:
    """Ratio of tails at the threshold with the smallest upper bound; works at any size.

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
    """Prior at the height of the smooth fit: where the curve flattens, only positives are left."""
    return fit_plateau(tails).prior


def combined(tails: ScoreTails) -> float:
    """Infimum and best-bin where positives abound; DEDPUL and the plateau where they are rare.

    What negatives add to the first two is in proportion to their share, so their mean
    weighs as much as it says that there are positives. DEDPUL and the plateau look
    further up the scores, where rare positives stand out; the plateau assumes a shape for
    that, and counts as much as a hundred positives do.
    """
    lowest = _lowest_ratio(tails, _epsilon(tails.n_positive))
    best = best_bin(tails)
    many = best if lowest is None else (lowest + best) / 2
    trust = _PLATEAU_ROWS / (_PLATEAU_ROWS + tails.n_positive)
    few = trust * plateau(tails) + (1 - trust) * dedpul(tails)
    return many * many + (1 - many) * few


def adaptive(tails: ScoreTails) -> float:
    """The plateau's prior up to a moderate reading of :func:`combined`, and :func:`combined` above it.

    Where classes overlap, the tails are read too high, because negatives are among the best-scored rows;
    the plateau extrapolates beyond them. Where most rows are positive, few negatives are left to show the
    shape of the plateau, and the tails are the better reading.
    """
    tail_reading = combined(tails)
    weight = slide(tail_reading, *_MOSTLY_POSITIVE)
    if weight == 1:
        return tail_reading
    fit = fit_plateau(tails)
    weight = max(weight, slide(fit.slope, *_SEPARATED) / 2)
    return weight * tail_reading + (1 - weight) * fit.prior


PROPORTIONS: dict[str, Callable[[ScoreTails], float]] = {
    "adaptive": adaptive,
    "combined": combined,
    "paper": infimum,
    "best-bin": best_bin,
    "plateau": plateau,
    "scott": scott,
    "dedpul": dedpul,
}
