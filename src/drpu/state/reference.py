"""What new rows are compared with: the training rows, or the rows of the last answers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logit

from drpu._codec import kept
from drpu.exceptions import DataError
from drpu.priors.estimate import PriorEstimate
from drpu.priors.tails import KeptTails
from drpu.state.fitted import FittedRatio
from drpu.state.log_odds import LogOddsMap

NEAREST = 1e-9  # priors of a map are kept this far from 0 and 1


@kept("reference")
@dataclass(frozen=True, slots=True)
class Reference:
    """Counted rows whose prior is known.

    ``map``: The map of the trained log-odds that answers about these rows gave; None for training
    rows.
    ``moved``: Columns that had moved between training and the answers: how positives are
    distributed in them now is not known, so later rows are not compared by them.
    """

    tails: KeptTails
    prior: PriorEstimate  # of the counted rows
    map: LogOddsMap | None = None
    moved: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.tails.counts.any():
            raise DataError("the tails of a reference must count its rows.")

    @classmethod
    def of_training(cls, fitted: FittedRatio) -> Reference:
        """The unlabeled training rows."""
        return cls(fitted.tails, fitted.unlabeled_prior)

    def base_prior(self, fitted: FittedRatio) -> PriorEstimate:
        """The prior from which moves are counted: of the training population, or of answers."""
        return fitted.prior if self.map is None else self.prior

    def map_at(self, prior: float) -> LogOddsMap | None:
        """The map of answers, moved by as much as the log-odds of the prior."""
        if self.map is None:
            return None
        now, before = logit(np.clip([prior, self.prior.value], NEAREST, 1 - NEAREST))
        return replace(self.map, intercept=self.map.intercept + float(now - before))
