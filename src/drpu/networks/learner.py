"""Learners of networks: density ratios, and scores for other objectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from drpu import networks
from drpu._checks import require
from drpu._samples import SamplePair
from drpu.exceptions import ParameterError
from drpu.models.learner import RatioLearner, ScoreLearner
from drpu.models.risks import PUObjective
from drpu.networks.function import NetworkFunction

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(eq=False, repr=False)
class NetworkRatio(RatioLearner):
    r"""Density ratio from a neural network, trained on the non-negative logistic risk.

    A step uses a batch of positive and a batch of unlabeled rows, and an epoch uses every row once.
    The weights are averaged during training, and the epoch with the lowest uncorrected risk on
    holdout rows is kept. ``fit_ratio`` returns a :class:`drpu.networks.function.NetworkFunction`.

    Parameters
    ----------
    module : torch.nn.Module or callable, optional
        A network that maps (n, ...) to (n,) or (n, 1), or a function that returns one.
        A network is copied and training starts from its weights; a function is called
        under a seeded generator. By default one of the networks that ``network`` names.
    network : {"auto", "perceptron", "resnet9"}, default="auto"
        A network of this library: a multilayer perceptron on standardised columns, or a residual
        network for images of shape (n, height, width) or (n, channels, height, width).
        ``"auto"`` uses the residual network, with 16 channels in its first layer, for images with
        sides of at least 16 pixels, and the perceptron for all other rows.
    augment : str or callable, optional
        Random changes of training rows that do not change their class. One or more of ``"shift"``,
        ``"crop"``, ``"flip"``, ``"cutout"`` and ``"affine"``, joined by hyphens, as in
        ``"crop-flip"``, or a function that takes a batch of tensors and returns one of the
        same shape. It is called on the device and draws from torch's generator, which is seeded.
    alpha : float or "auto", default="auto"
        Strength of the non-negative correction, a lower bound of the training prior
        in [0, prior]. ``"auto"`` trains five networks at once, with values from 0.05
        to 0.6, and keeps the one with the lowest holdout risk; when there are too
        few rows to hold some out it is 0.3.
    hidden : tuple of int, optional
        Widths of the perceptron's layers, (100, 100) when not given. For ``resnet9`` one number,
        the channels of its first layer: (64,) when not given, which makes 6.6 million weights.
    epochs : int or "auto", default="auto"
        Passes over the rows; ``"auto"`` makes 20, and more if 20 would be fewer
        than 300 steps.
    batch_size : int or "auto", default="auto"
        Unlabeled rows in a step; ``"auto"`` is a hundredth of them, but between 100
        and 500. An epoch has ``n_unlabeled // batch_size`` steps, at least one, and the
        positive rows are divided among as many.
    learning_rate : float, default=3e-3
        Step size of AdamW, before it falls to zero along a cosine.
    weight_decay : float, default=1.0
        Strength with which weights are pulled towards zero.
    early_stopping : bool, default=True
        Keep the epoch with the lowest uncorrected holdout risk instead of the last one.
    holdout : float, default=0.2
        Share of rows held out for that choice, and for ``alpha="auto"``, when ``fit_ratio`` is
        given none. If fewer than five of either sample would be held out, all rows are used for
        training. A share that leaves no row to train on is an error.
    device : "auto" or torch device, default="auto"
        Device for training and scoring; ``"auto"`` is the GPU if there is one.
    dtype : {"float32", "tf32", "bfloat16", "float64"}, default="float32"
        Precision of products; ``tf32`` and ``bfloat16`` on a GPU only.
        Weights are kept in float32 unless it is ``float64``.
    random_state : int, RandomState or None, default=None
        Seed of weights, batches and holdout rows. Torch's global generator is
        not used.
    verbose : int, default=0
        1 shows a progress bar.

    Notes
    -----
    Networks quickly overfit the uncorrected risk: its part for negatives, which is at least 0 for
    every ratio in the population, becomes negative on the training rows. The corrected risk
    prevents this.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> positive = rng.normal(1, 1, (200, 2))
    >>> unlabeled = np.concatenate([rng.normal(1, 1, (400, 2)), rng.normal(-1, 1, (600, 2))])
    >>> ratio = NetworkRatio(hidden=(16,), alpha=0.3, random_state=0).fit_ratio(positive, unlabeled)
    >>> scores = ratio.log_ratio([[2.0, 2.0], [-2.0, -2.0]])
    >>> bool(scores[0] > 0 > scores[1])
    True
    >>> ratio.network, ratio.alpha
    ('perceptron', 0.3)
    """

    accepts_sparse = False
    accepts_nd = True
    uses_holdout: ClassVar[bool] = True

    module: nn.Module | Callable[[], nn.Module] | None = None
    _: KW_ONLY
    network: str = "auto"
    augment: str | Callable[[Tensor], Tensor] | None = None
    alpha: float | str = "auto"
    hidden: Sequence[int] | None = None
    epochs: int | str = "auto"
    batch_size: int | str = "auto"
    learning_rate: float = 3e-3
    weight_decay: float = 1.0
    early_stopping: bool = True
    holdout: float = 0.2
    device: Any = "auto"
    dtype: str = "float32"
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> NetworkFunction:
        """The density ratio of samples whose rows and weights have been checked by the caller."""
        require("torch", extra="torch", for_="NetworkRatio")
        return networks.fit_learner(self, pair, holdout)


@dataclass(eq=False, repr=False)
class NetworkScore(NetworkRatio, ScoreLearner):
    """Score from a neural network, trained for an objective by paired batches.

    The classifiers of nnPU, PUa and VPU use it. The parameters are those of
    :class:`drpu.NetworkRatio`, of which ``alpha`` must keep its default, and ``betas``, the decay
    rates of the two moments of AdamW.
    """

    _: KW_ONLY
    betas: tuple[float, float] = (0.9, 0.999)

    def fit_score(self, pair: SamplePair, objective: PUObjective) -> NetworkFunction:
        """The score that minimises the objective for checked samples."""
        require("torch", extra="torch", for_="a network")
        return networks.fit_score(self, pair, objective)


def from_ratio(learner: NetworkRatio) -> NetworkScore:
    """A learner of scores with the options of ``learner``."""
    refuse_alpha(learner)
    return NetworkScore(**learner.get_params(deep=False))


def refuse_alpha(learner: NetworkRatio) -> None:
    """Raise if ``learner``, which has another objective than a density ratio, has an ``alpha``."""
    if learner.alpha != NetworkRatio.alpha:
        raise ParameterError(
            "alpha must be left at its default in this model: it belongs to density ratios, and "
            "this network has another objective."
        )
