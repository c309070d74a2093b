"""Training of many networks of one architecture together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from drpu._checks import check_weights
from drpu._optional import require
from drpu._samples import Sample, SamplePair
from drpu._typing import Rows
from drpu.core.risks import PUObjective
from drpu.exceptions import DataError, ParameterError
from drpu.functions.base import as_rows
from drpu.networks.learner import NetworkRatio
from drpu.networks.score import NetworkScore

if TYPE_CHECKING:
    from drpu.networks.training import Watch

__all__ = ["fit_many"]

Network = TypeVar("Network", NetworkRatio, NetworkScore)

# Parameters in which the models of a stack may differ.
_OWN = {"alpha", "bound", "learning_rate", "module", "random_state", "verbose", "weight_decay"}


def fit_many(
    models: Sequence[Network],
    positive: Rows,
    unlabeled: Rows,
    *,
    objectives: PUObjective | Sequence[PUObjective] | None = None,
    holdout: Any = None,
    positive_weight: Any = None,
    unlabeled_weight: Any = None,
    equal_batches: bool = False,
    same_rows: bool = False,
    on_epoch: Watch | None = None,
) -> list[Network]:
    """Train networks of one architecture together, as a stack.

    Each result equals that of the model trained alone, up to rounding and the random numbers of dropout
    and augmentation: initial weights, batches and holdout rows of a model depend on its own seed only.
    On a GPU ten small networks take hardly longer than one.

    Parameters
    ----------
    models : sequence of NetworkRatio or of NetworkScore
        They may differ in ``alpha``, ``bound``, ``learning_rate``, ``weight_decay``
        and ``random_state``, and in networks of the same architecture.
    positive, unlabeled : rows, or a list of rows
        Samples for all models, or a list or tuple with one array per model. Samples of
        different models must be of the same size.
    objectives : PUObjective or a sequence of them, optional
        The objective of each :class:`drpu.networks.score.NetworkScore`. Objectives of one stack have
        the same type and may differ in their priors. Density ratios have their own objective.
    holdout : pair of rows, or a list of pairs, optional
        As in ``fit_ratio``, for all models, or a list with one pair per model.
    positive_weight, unlabeled_weight : array-like, or a list of them, optional
        Weights of the rows, for all models, or a list with one array per model. Rows of
        weight 0 are ignored, so models with different rows of one array share its memory.
    equal_batches : bool, default=False
        For scores: whether a step has as many positives as unlabeled rows, so that positives
        are repeated many times per epoch, as in published runs of VPU. Networks then overfit
        the positives.
    same_rows : bool, default=False
        Whether ``positive`` and ``unlabeled`` are the same array with different weights. Then a
        step takes each row once, with both of its weights, which costs half as much.
    on_epoch : callable, optional
        Called after every epoch as ``on_epoch(epoch, score)``; ``score(X)`` gives log-ratios or
        scores of rows, or of a list with rows of each model, by the current networks, shape
        (models, n). Density ratios need a given ``alpha`` for this.

    Returns
    -------
    models : list of NetworkRatio or of NetworkScore
        The same objects, fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from drpu import NetworkRatio
    >>> from drpu.core.risks import ShiftedRisk
    >>> from drpu.networks.many import fit_many
    >>> from drpu.networks.score import NetworkScore
    >>> rng = np.random.default_rng(0)
    >>> positive, unlabeled = rng.normal(1, 1, (50, 2)), rng.normal(0, 1, (200, 2))
    >>> models = [NetworkRatio(hidden=(8,), alpha=0.2, epochs=2, random_state=s) for s in range(3)]
    >>> [model.alpha_ for model in fit_many(models, positive, unlabeled)]
    [0.2, 0.2, 0.2]

    Three risks for three test priors, as in PUa:

    >>> models = [NetworkScore(hidden=(8,), epochs=2, random_state=0) for _ in range(3)]
    >>> risks = [ShiftedRisk(0.4, prior, corrected=True) for prior in (0.2, 0.4, 0.6)]
    >>> len(fit_many(models, positive, unlabeled, objectives=risks))
    3
    """
    if not models:
        raise ParameterError("models must have at least one network, got none.")
    _check_alike(models)
    aims = _check_objectives(models, objectives, equal_batches)
    samples = _samples(len(models), positive, unlabeled, holdout, positive_weight, unlabeled_weight)
    if same_rows and (aims is not None or any(s.positive.rows is not s.unlabeled.rows for s, _ in samples)):
        raise ParameterError(
            "same_rows must be False unless positive and unlabeled are one array and the models are "
            "density ratios."
        )
    if on_epoch is not None and any(isinstance(getattr(model, "alpha", 0), str) for model in models):
        raise ParameterError("alpha must be a number with on_epoch, because 'auto' trains several networks.")
    require("torch", extra="torch", for_="networks")
    from drpu.networks.risk import fit_stack
    from drpu.networks.training import fit_together

    tasks = [model._task(*sample) for model, sample in zip(models, samples, strict=True)]
    if aims is None:
        found = fit_together(tasks, on_epoch, same_rows=same_rows)
    else:
        found = fit_stack(tasks, aims, on_epoch, equal_batches=equal_batches)
    for model, (sample, _), fitted in zip(models, samples, found, strict=True):
        model._take(fitted, sample.positive.rows.shape[1:])
    return list(models)


def _check_alike(models: Sequence[NetworkRatio] | Sequence[NetworkScore]) -> None:
    if not any(all(isinstance(model, kind) for model in models) for kind in (NetworkRatio, NetworkScore)):
        kinds = sorted({type(model).__name__ for model in models})
        raise ParameterError(f"models must all be NetworkRatio or all NetworkScore, got {', '.join(kinds)}.")
    if any(getattr(model, "teachers", 0) for model in models):
        raise ParameterError(
            "teachers must be 0 in models that are trained together. Use fit_ratio for teachers."
        )
    first = models[0].get_params(deep=False)
    for model in models[1:]:
        for name, value in model.get_params(deep=False).items():
            if name not in _OWN and value != first[name]:
                raise ParameterError(
                    f"{name} must be the same in all models trained together, "
                    f"got {first[name]!r} and {value!r}."
                )
        if (model.module is None) is not (models[0].module is None):
            raise ParameterError("module must be given to all models trained together, or to none.")


def _check_objectives(
    models: Sequence[NetworkRatio] | Sequence[NetworkScore], objectives: Any, equal_batches: bool
) -> list[PUObjective] | None:
    """One objective per score network, None for density ratios."""
    if isinstance(models[0], NetworkRatio):
        if objectives is not None or equal_batches:
            name = "equal_batches" if objectives is None else "objectives"
            raise ParameterError(
                f"{name} must be left out with NetworkRatio: it is for networks of scores (NetworkScore)."
            )
        return None
    if objectives is None:
        raise ParameterError(
            "objectives must be given with NetworkScore: one for all models or one for each, got None."
        )
    if isinstance(objectives, PUObjective):
        return [objectives] * len(models)
    if len(objectives) != len(models):
        raise ParameterError(
            f"objectives must be one for each of {len(models)} models, got {len(objectives)}."
        )
    return list(objectives)


def _samples(
    n: int, positive: Any, unlabeled: Any, holdout: Any, positive_weight: Any, unlabeled_weight: Any
) -> list[tuple[SamplePair, SamplePair | None]]:
    """Checked rows, weights and holdout rows of each model."""
    checked: dict[int, Rows] = {}

    def rows(name: str, X: Rows) -> Rows:
        if id(X) not in checked:  # an array for all models is not copied
            checked[id(X)] = as_rows(name, X, sparse_ok=False, nan_ok=False, nd_ok=True)
        return checked[id(X)]

    samples = []
    for one_positive, one_unlabeled, held, w_p, w_u in zip(
        _for_each(positive, n),
        _for_each(unlabeled, n),
        holdout if isinstance(holdout, list) else [holdout] * n,
        _for_each(positive_weight, n, ndim=1),
        _for_each(unlabeled_weight, n, ndim=1),
        strict=True,
    ):
        p, u = rows("positive", one_positive), rows("unlabeled", one_unlabeled)
        kept = () if held is None else (rows("holdout[0]", held[0]), rows("holdout[1]", held[1]))
        if any(part.shape[1:] != p.shape[1:] for part in (u, *kept)):
            raise DataError("positive, unlabeled and holdout rows must have the same columns.")
        w_p = None if w_p is None else check_weights("positive_weight", w_p, len(p))
        w_u = None if w_u is None else check_weights("unlabeled_weight", w_u, len(u))
        held_pair = SamplePair(*map(Sample, kept)) if kept else None
        samples.append((SamplePair(Sample(p, w_p), Sample(u, w_u)), held_pair))
    return samples


def _for_each(value: Any, n: int, *, ndim: int = 2) -> list[Any]:
    """``value`` for each of ``n`` models: a list has one array per model, anything else is shared."""
    if isinstance(value, (list, tuple)) and value and all(np.ndim(part) >= ndim for part in value[:1]):
        if len(value) != n:
            raise ParameterError(f"a list of samples must have one for each of {n} models, got {len(value)}.")
        return list(value)
    return [value] * n
