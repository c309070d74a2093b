"""Learners of networks: density ratios, and scores for other objectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from drpu import _lazy, networks
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
    r"""Density ratio from a neural network, trained on the non-negative Bregman risk.

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
    effort : {"low", "medium", "high"}, optional
        A level of cost and accuracy of ``resnet9``, two to three times as slow as the one before.
        It sets ``hidden``, ``epochs``, ``batch_size``, ``learning_rate``, ``teachers``,
        ``students``, ``refresh`` and ``mixup``, for named changes of images also ``average_views``,
        and on a GPU ``dtype``. An option that you set is kept; None and ``"auto"`` leave the choice
        to ``effort``.
    pretrain : int, default=0
        Epochs in which ``resnet9`` first learns from the unlabeled images alone: to find, among all
        images, the one that another random view shows. Views are parts of an image, changed by
        ``augment`` and in brightness and contrast. All networks start from these weights. It needs
        some dozens of epochs, each of which takes twice as long as one of the ratio.
    augment : str or callable, optional
        Random changes of training rows that do not change their class. One or more of ``"shift"``,
        ``"crop"``, ``"flip"``, ``"cutout"`` and ``"affine"``, joined by hyphens, as in
        ``"crop-flip"``, or a function that takes a batch of tensors and returns one of the
        same shape. It is called on the device and draws from torch's generator, which is seeded.
    average_views : bool, optional
        Average the network's output over fixed changes of each row: of those that ``augment``
        names, one pixel in each direction for ``shift``, ``crop`` and ``affine``, and the mirror
        image for ``flip``. False when not given.
    generator : {"bkl", "lsif", "ukl"}, default="bkl"
        Bregman generator: logistic, least squares, or unnormalised KL.
    alpha : float or "auto", default="auto"
        Strength of the non-negative correction, a lower bound of the training prior
        in [0, prior]. ``"auto"`` trains five networks at once, with values from 0.05
        to 0.6, and keeps the one with the lowest holdout risk; when there are too
        few rows to hold some out it is 0.3.
    head : {"softplus", "relu", "identity", "exp"}, default="softplus"
        Function from the network's output to a ratio. ``relu`` and ``identity``, which is cut at
        zero after training only, need the ``lsif`` generator, because the others allow no ratio of
        zero.
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
    learning_rate : float, optional
        Step size of the optimiser, before its decay; 3e-3 when not given.
    optimizer : {"adamw", "adam"}, default="adamw"
        Whether weight decay is decoupled (AdamW) or an L2 term of the gradient (Adam).
    betas : pair of float, default=(0.9, 0.999)
        Decay rates of the optimiser's two moments.
    weight_decay : float, default=1.0
        Strength of that decay.
    decay : {"cosine", "step", "constant"}, default="cosine"
        Schedule of the learning rate: down to zero along a cosine, halved every 20
        epochs, or constant.
    ema : float or None, default=0.99
        Decay rate of the moving average of weights that rows are scored with; None scores with the
        last weights.
    early_stopping : bool, default=True
        Keep the epoch with the lowest uncorrected holdout risk instead of the last one.
    holdout : float, default=0.2
        Share of rows held out for that choice, and for ``alpha="auto"``, when ``fit_ratio`` is
        given none. If fewer than five of either sample would be held out, all rows are used for
        training. A share that leaves no row to train on is an error.
    teachers : int, optional
        Networks to train first, 0 when not given. Their mean ratio gives each unlabeled row a
        weight, and student networks are trained on all rows with these weights in place of the few
        labelled rows. ``alpha`` applies to the teachers; a student has no correction.
    rounds : int, default=1
        How many times students are trained. The students of one round are the teachers of the next.
    students : int, optional
        Networks in each round, 1 when not given. Scores are the mean output of those of the last
        round.
    refresh : int, optional
        Epochs after which students replace the weights by their own mean ratio while they train,
        again and again; 0, as when not given, keeps the weights. All networks but the last students
        then train for at most 20 epochs, or 1,500 steps if these are more.
    mixup : bool, optional
        Train students on random averages of two rows and of their weights; False when not given.
    labelled_share : float, default=0.0
        Least share of the labelled rows in the positive sample of a student, in [0, 1). The rest
        are unlabeled rows with their weights.
    device : "auto" or torch device, default="auto"
        Device for training and scoring; ``"auto"`` is the GPU if there is one.
    dtype : {"float32", "tf32", "bfloat16", "float64"}, optional
        Precision of products, ``float32`` when not given; ``tf32`` and ``bfloat16`` on a GPU only.
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
    # In copies for several fits: a network trained on all unlabeled rows.
    _first: ClassVar[Any] = None

    module: nn.Module | Callable[[], nn.Module] | None = None
    _: KW_ONLY
    network: str = "auto"
    effort: str | None = None
    pretrain: int = 0
    augment: str | Callable[[Tensor], Tensor] | None = None
    average_views: bool | None = None
    generator: str = "bkl"
    alpha: float | str = "auto"
    head: str = "softplus"
    hidden: Sequence[int] | None = None
    epochs: int | str = "auto"
    batch_size: int | str = "auto"
    learning_rate: float | None = None
    optimizer: str = "adamw"
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 1.0
    decay: str = "cosine"
    ema: float | None = 0.99
    early_stopping: bool = True
    holdout: float = 0.2
    teachers: int | None = None
    rounds: int = 1
    students: int | None = None
    refresh: int | None = None
    mixup: bool | None = None
    labelled_share: float = 0.0
    device: Any = "auto"
    dtype: str | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> NetworkFunction:
        """The density ratio of samples whose rows and weights have been checked by the caller."""
        require("torch", extra="torch", for_="NetworkRatio")
        return networks.fit_learner(self, pair, holdout, self._first)

    def prepared(self, pair: SamplePair, fits: int) -> Self:
        """A copy for several fits, in which ``pretrain`` is done once, as it uses no labels."""
        if not self.pretrain or fits == 1:
            return self
        return self._started(networks.shared_start(self, pair.unlabeled, fits))

    def for_folds(self, pair: SamplePair, folds: int) -> list[Self]:
        """A copy for each fold, all of which start from the same network if there is one."""
        return [self._started(self._first) for _ in range(folds)]

    def _started(self, first: Any) -> Self:
        copy: Self = _lazy.clone(self)
        copy._first = first  # type: ignore[misc]
        return copy


class NetworkScore(NetworkRatio, ScoreLearner):
    """Score from a neural network, trained for an objective by paired batches.

    The classifiers of nnPU, PUa and VPU use it. The parameters are those of
    :class:`drpu.NetworkRatio`; those that only a density ratio has must keep their defaults.
    """

    def fit_score(self, pair: SamplePair, objective: PUObjective) -> NetworkFunction:
        """The score that minimises the objective for checked samples."""
        require("torch", extra="torch", for_="a network")
        return networks.fit_score(self, pair, objective)


_RATIO_ONLY = (
    "alpha", "effort", "generator", "head", "teachers", "rounds", "students", "refresh", "mixup",
    "labelled_share", "pretrain",
)  # fmt: skip


def from_ratio(learner: NetworkRatio) -> NetworkScore:
    """A learner of scores with the options of ``learner``.

    Options that only ratios have must have their defaults.
    """
    parameters = learner.get_params(deep=False)
    defaults = NetworkRatio().get_params(deep=False)
    for name in _RATIO_ONLY:
        if parameters[name] != defaults[name]:
            raise ParameterError(
                f"{name} must be left at its default in this model: it belongs to density ratios, "
                "and this network has another objective."
            )
    return NetworkScore(**parameters)
