"""Density ratios from neural networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from drpu._checks import check_integer
from drpu._optional import require
from drpu._samples import SamplePair
from drpu._schema import Number, Optional
from drpu._state import ModelState
from drpu._typing import FloatArray, Rows
from drpu.exceptions import ParameterError
from drpu.functions._bridge import OldNetwork
from drpu.networks.state import check_row_shape, network_from_state, network_schema, network_state
from drpu.ratios.base import RatioLearner

if TYPE_CHECKING:
    from torch import Tensor, nn

    from drpu.networks.tasks import Task
    from drpu.networks.training import Fitted

__all__ = ["NetworkRatio"]


class NetworkRatio(RatioLearner):
    r"""Density ratio from a neural network, trained on the non-negative Bregman risk.

    A step uses a batch of positive and a batch of unlabeled rows, and an epoch uses every row once. The
    weights are averaged during training, and the epoch with the lowest uncorrected risk on holdout
    rows is kept.

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
    average_views : bool, default=False
        Average the network's output over fixed changes of each row: of those that ``augment``
        names, one pixel in each direction for ``shift``, ``crop`` and ``affine``, and the mirror
        image for ``flip``.
    generator : {"bkl", "lsif", "ukl"}, default="bkl"
        Bregman generator: logistic, least squares, or unnormalised KL.
    alpha : float or "auto", default="auto"
        Strength of the non-negative correction, a lower bound of the training prior
        in [0, prior]. ``"auto"`` trains five networks at once, with values from 0.05
        to 0.6, and keeps the one with the lowest holdout risk; when there are too
        few rows to hold some out it is 0.3.
    head : {"softplus", "relu", "identity", "exp", "bounded"}, default="softplus"
        Function from the network's output to a ratio. ``relu`` and ``identity``, which is cut at zero
        after training only, need the ``lsif`` generator, because the others allow no ratio of zero.
    bound : float, optional
        Largest ratio of the ``bounded`` head; ``1 / alpha`` by default.
    hidden : tuple of int, optional
        Widths of the perceptron's layers, (100, 100) when not given. For ``resnet9`` one number, the
        channels of its first layer: (64,) when not given, which makes 6.6 million weights.
    epochs : int or "auto", default="auto"
        Passes over the rows; ``"auto"`` makes 20, and more if 20 would be fewer
        than 300 steps.
    batch_size : int or "auto", default="auto"
        Unlabeled rows in a step; ``"auto"`` is a hundredth of them, but between 100
        and 500. An epoch has ``n_unlabeled // batch_size`` steps, and the positive
        rows are divided among as many.
    learning_rate : float, default=3e-3
        Step size of the optimiser, before its decay.
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
        Share of rows held out for that choice, and for ``alpha="auto"``, when
        ``fit_ratio`` is given none. If fewer than five of either sample would be
        held out, all rows are used for training.
    teachers : int, default=0
        Networks to train first. Their mean ratio gives each unlabeled row a weight, and student
        networks are trained on all rows with these weights in place of the few labelled rows.
        ``alpha`` applies to the teachers; a student has no correction.
    rounds : int, default=1
        How many times students are trained. The students of one round are the teachers of the next.
    students : int, default=1
        Networks in each round. Scores are computed from the mean output of those of the last round.
    mixup : bool, default=False
        Train students on random averages of two rows and of their weights.
    accumulate_gradients : bool, default=False
        Never zero the gradients. For the reproduction of published runs only.
    device : "auto" or torch device, default="auto"
        Device for training and scoring; ``"auto"`` is the GPU if there is one.
    dtype : {"float32", "tf32", "bfloat16", "float64"}, default="float32"
        Precision of products. Weights are kept in float32 unless it is ``float64``.
    random_state : int, RandomState or None, default=None
        Seed of weights, batches and holdout rows. Torch's global generator is
        not used.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network. The perceptron expects scaled columns.
    alpha_ : float
        The strength of the correction in use.
    best_epoch_ : int
        The epoch that was kept, counted from 1.
    history_ : dict of str to array
        ``risk``, as reported by the corrected objective, and ``holdout_risk`` if rows
        were held out, by epoch.

    See Also
    --------
    fit_many : Trains several networks together.

    Notes
    -----
    Networks quickly overfit the uncorrected risk: its part for negatives, which is at least 0 for
    every ratio in the population, becomes negative on the training rows. The corrected risk prevents this.

    Examples
    --------
    >>> import numpy as np
    from sklearn.base import clone
    >>> rng = np.random.default_rng(0)
    >>> positive = rng.normal(1, 1, (200, 2))
    >>> unlabeled = np.concatenate([rng.normal(1, 1, (400, 2)), rng.normal(-1, 1, (600, 2))])
    >>> model = NetworkRatio(hidden=(16,), alpha=0.3, random_state=0)
    >>> scores = model.fit_ratio(positive, unlabeled).log_ratio([[2.0, 2.0], [-2.0, -2.0]])
    >>> bool(scores[0] > 0 > scores[1])
    True
    """

    kind: ClassVar[str] = "network"
    accepts_sparse: ClassVar[bool] = False
    schema = network_schema("NetworkRatio", alpha=Number(0, 1), bound=Optional(Number(above=0)))
    accepts_nd: ClassVar[bool] = True
    uses_holdout: ClassVar[bool] = True

    def __init__(
        self,
        module: nn.Module | Callable[[], nn.Module] | None = None,
        *,
        network: str = "auto",
        augment: str | Callable[[Tensor], Tensor] | None = None,
        average_views: bool = False,
        generator: str = "bkl",
        alpha: float | str = "auto",
        head: str = "softplus",
        bound: float | None = None,
        hidden: Sequence[int] | None = None,
        epochs: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float = 3e-3,
        optimizer: str = "adamw",
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 1.0,
        decay: str = "cosine",
        ema: float | None = 0.99,
        early_stopping: bool = True,
        holdout: float = 0.2,
        teachers: int = 0,
        rounds: int = 1,
        students: int = 1,
        mixup: bool = False,
        accumulate_gradients: bool = False,
        device: Any = "auto",
        dtype: str = "float32",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.module = module
        self.network = network
        self.augment = augment
        self.average_views = average_views
        self.generator = generator
        self.alpha = alpha
        self.head = head
        self.bound = bound
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.betas = betas
        self.weight_decay = weight_decay
        self.decay = decay
        self.ema = ema
        self.early_stopping = early_stopping
        self.holdout = holdout
        self.teachers = teachers
        self.rounds = rounds
        self.students = students
        self.mixup = mixup
        self.accumulate_gradients = accumulate_gradients
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> OldNetwork:
        """The density ratio of checked samples."""
        model = clone(self)
        model._fit(pair, holdout)
        return OldNetwork(model)

    def _fit(self, pair: SamplePair, holdout: SamplePair | None) -> None:
        require("torch", extra="torch", for_="NetworkRatio")
        from drpu.networks.training import fit_together

        task = self._task(pair, holdout)  # checks all parameters
        if check_integer("teachers", self.teachers, low=0):
            self._fit_in_rounds(pair, holdout)
            return
        if (self.rounds, self.students, bool(self.mixup)) != (1, 1, False):
            raise ParameterError(
                "rounds, students and mixup must be left at their defaults without teachers, because they "
                "apply to students: set teachers=3, for example."
            )
        (fitted,) = fit_together([task])
        self._take(fitted, pair.positive.rows.shape[1:])

    def _fit_in_rounds(self, pair: SamplePair, holdout: SamplePair | None) -> None:
        from drpu.networks.teaching import fit_in_rounds

        if self.head == "bounded" and self.bound is None:
            raise ParameterError(
                "bound must be given with head='bounded' and teachers: a student has no alpha."
            )
        student = fit_in_rounds(self, pair, holdout)
        self.__dict__ |= {name: value for name, value in vars(student).items() if name.endswith("_")}

    def _log_ratio(self, X: Rows) -> FloatArray:
        return self._scores(X)

    def score_at_dtype(self, X: Rows) -> FloatArray:
        """Log-ratios of rows that have been checked by the caller, in the precision of training, ``dtype``.

        This is faster than :meth:`score_checked`, and a row may get another score in another batch, up to
        the rounding of ``dtype``.
        """
        return self._scores(X, dtype=self.dtype)

    def _scores(self, X: Rows, *, dtype: str | None = None) -> FloatArray:
        from drpu.networks.training import score_rows

        check_row_shape(self, X)
        augment = self.augment if self.average_views else None
        return score_rows(
            self.module_, X, self.scaling_, self.head, self.bound_, augment=augment, dtype=dtype
        )

    def state(self) -> ModelState:
        """The state from which :meth:`from_state` makes a model with the same scores.

        Weights and statistics of the network are stored as arrays. The code of a custom network is
        not stored: :meth:`from_state` needs a function that returns it.
        """
        bound = self.bound_ if np.isfinite(self.bound_) else None
        return network_state(self.kind, self, alpha=self.alpha_, bound=bound)

    @classmethod
    def from_state(
        cls, state: ModelState, *, module: nn.Module | Callable[[], nn.Module] | None = None
    ) -> Self:
        """A fitted model from its state.

        Parameters
        ----------
        state : ModelState
            What :meth:`state` returned.
        module : torch.nn.Module or callable, optional
            The network, or a function that returns it; needed for a custom network.
        """
        model = network_from_state(cls, state, module)
        model.n_features_in_ = model.input_shape_[0]
        alpha, bound = state.config["alpha"], state.config["bound"]
        model.alpha_, model.bound_ = alpha, np.inf if bound is None else bound
        return model

    def _task(self, pair: SamplePair, holdout: SamplePair | None) -> Task:
        from drpu.networks.tasks import make_task

        return make_task(self, pair, holdout)

    def _take(self, fitted: Fitted, shape: tuple[int, ...]) -> None:
        self.n_features_in_ = shape[0]
        self.input_shape_ = shape
        self.module_ = fitted.module
        self.scaling_ = fitted.scaling
        self.alpha_ = fitted.alpha
        self.bound_ = fitted.bound
        self.best_epoch_ = fitted.best_epoch
        self.history_ = fitted.history
