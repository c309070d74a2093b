"""Cross-fitting: every row is scored by a model that was not trained on it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.utils import check_random_state

from drpu._checks import check_fraction, check_integer
from drpu._optional import progress
from drpu._samples import Sample, SamplePair, take_rows
from drpu._schema import Flag, Optional, Schema
from drpu._state import ModelState
from drpu._typing import FloatArray, IntArray, Rows
from drpu.core.tails import ScoreTails
from drpu.exceptions import DataError, ParameterError
from drpu.functions.trees import Scorer
from drpu.ratios.base import RatioModel, model_from_state
from drpu.ratios.splits import Positions, draw_splits, run_jobs, threads_of_one_fit

__all__ = ["FoldedRatio", "HeldOut", "cross_fit", "resolve_holdout"]

FEWEST_TO_SPLIT = 4  # with fewer positives, a fold would leave at most two for training
FEW_TO_SPLIT = 100  # with fewer positives there are ten folds
MOST_TO_FOLD = 2000  # with more positives a single split is enough


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Held-out scores of rows, with their weights."""

    positive: FloatArray
    unlabeled: FloatArray
    positive_weight: FloatArray | None = None
    unlabeled_weight: FloatArray | None = None
    positive_groups: IntArray | None = None
    unlabeled_groups: IntArray | None = None

    def tails(self) -> ScoreTails:
        """The held-out positive scores, with the unlabeled rows counted over them."""
        tails = ScoreTails(self.positive, self.positive_weight, groups=self.positive_groups)
        return tails.update(self.unlabeled, self.unlabeled_weight, groups=self.unlabeled_groups)

    @property
    def weighted(self) -> bool:
        """Whether rows of either sample have weights."""
        return self.positive_weight is not None or self.unlabeled_weight is not None


class FoldedRatio(RatioModel, kind="folds"):
    """Models of the same kind, each fitted without one fold of the rows.

    Scores have one column per model. Those of all fold models are counted for priors, because
    held-out rows were scored by the same models. For labels the calibrated ratios of the fold models
    are averaged or, if there is a model of all rows, its ratio is used: one model is scored in less
    time than several.

    Parameters
    ----------
    models : list of RatioModel
        The fold models.
    whole : RatioModel, optional
        Fitted to all rows. Its scores are in the last column.
    """

    schema = Schema("FoldedRatio", config={"whole": Optional(Flag())}, parts=None)

    _scorers: tuple[Scorer, Scorer | None] | None = None

    def __init__(self, models: list[RatioModel], whole: RatioModel | None = None) -> None:
        self.models = models
        self.whole = whole

    @property
    def label_models(self) -> list[RatioModel]:
        """The models that labels come from."""
        return self.models if self.whole is None else [self.whole]

    @property
    def all_models(self) -> list[RatioModel]:
        """The fold models, and the model of all rows if there is one."""
        return self.models if self.whole is None else [*self.models, self.whole]

    @property
    def keeps_rows(self) -> bool:  # noqa: D102
        return any(model.keeps_rows for model in self.all_models)

    @property
    def n_features_in_(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return int(self.models[0].n_features_in_)

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        """Whether the models accept sparse rows."""
        return self.models[0].accepts_sparse

    @property
    def accepts_nan(self) -> bool:  # type: ignore[override]
        """Whether the models accept missing values."""
        return self.models[0].accepts_nan

    @property
    def accepts_nd(self) -> bool:  # type: ignore[override]
        """Whether the models accept rows of more than one dimension."""
        return self.models[0].accepts_nd

    @property
    def accepts_categories(self) -> bool:  # type: ignore[override]
        """Whether the models accept category codes."""
        return self.models[0].accepts_categories

    @property
    def accepts_frames(self) -> bool:  # type: ignore[override]
        """Whether the models accept data frames."""
        return self.models[0].accepts_frames

    def describe(self) -> str:
        """The number of models, and a description of one."""
        inner = self.models[0].describe()
        if len(self.models) == 1:
            return inner
        text = f"{len(self.models)} folds of {inner}"
        return text if self.whole is None else f"{text}, and a model of all rows for labels"

    def scores(self, X: Rows) -> FloatArray:
        """Log-ratios of all models, (rows, models)."""
        scores = self.fold_scores(X)
        return scores if self.whole is None else np.column_stack([scores, self.label_scores(X)])

    def fold_scores(self, X: Rows) -> FloatArray:
        """Log-ratios of the fold models, which are counted."""
        return self._prepared()[0](X)

    def label_scores(self, X: Rows) -> FloatArray:
        """Log-ratios of the models that labels come from."""
        folds, whole = self._prepared()
        return (whole or folds)(X)

    def counted(self, scores: FloatArray) -> FloatArray:
        """The columns of :meth:`scores` that are counted."""
        return scores[:, : len(self.models)]

    def labelling(self, scores: FloatArray) -> FloatArray:
        """The columns of :meth:`scores` that labels come from."""
        return scores if self.whole is None else scores[:, len(self.models) :]

    def _prepared(self) -> tuple[Scorer, Scorer | None]:
        if self._scorers is None:  # made once; two threads may both make them, and both are correct
            self._scorers = _scorer(self.models), None if self.whole is None else _scorer([self.whole])
        return self._scorers

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_scorers"}

    def _fit(self, *_: Any) -> None:
        raise ParameterError("fold models are made by cross_fit, which fits every model without its fold.")

    def contributions(self, X: Rows) -> FloatArray:
        """The mean of the contributions in the models that labels come from."""
        return np.asarray(np.mean([model.contributions(X) for model in self.label_models], axis=0))

    def _log_ratio(self, X: Rows) -> FloatArray:
        return np.asarray(self.label_scores(X).mean(axis=1))

    def state(self) -> ModelState:  # noqa: D102
        config = {} if self.whole is None else {"whole": True}
        parts = {str(i): model.state() for i, model in enumerate(self.all_models)}
        return ModelState(self.kind, config, parts=parts)

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:  # noqa: D102
        models = [model_from_state(state.parts[str(i)], module=module) for i in range(len(state.parts))]
        if len({(type(model), model.n_features_in_) for model in models}) != 1:
            raise DataError("fold models must be of one kind, and have the same columns.")
        whole = models.pop() if state.config.get("whole") else None
        if not models:
            raise DataError("there must be at least one fold model.")
        return cls(models, whole)


def _scorer(models: list[RatioModel]) -> Scorer:
    """A function with the scores of the models, (rows, models)."""
    return type(models[0]).together(models) or (
        lambda X: np.column_stack([model.score_checked(X) for model in models])
    )


def resolve_holdout(holdout: Any, n_positive: int, n_unlabeled: int, *, grouped: bool = False) -> int | float:
    """Folds (an integer), a fraction to hold out, or 0 for no split at all.

    ``n_positive`` and ``n_unlabeled`` count groups if rows are ``grouped``. With too few groups
    there are fewer folds; too few rows for the requested folds are an error.
    """
    few = min(n_positive, n_unlabeled)
    if grouped and few < 2 and not isinstance(holdout, str):
        return 0
    if grouped and isinstance(holdout, (int, np.integer)) and not isinstance(holdout, bool):
        return min(check_integer("holdout", holdout, low=2), few)
    if isinstance(holdout, str) and holdout == "auto":
        if few < FEWEST_TO_SPLIT:
            return 0
        if n_positive > MOST_TO_FOLD:
            return 0.2
        return min(10 if n_positive < FEW_TO_SPLIT else 5, few)
    if isinstance(holdout, (int, np.integer)) and not isinstance(holdout, bool):
        folds = check_integer("holdout", holdout, low=2)
        if folds > few:
            raise ParameterError(
                f"holdout must not ask for more folds than there are positives and unlabeled rows, "
                f"got {folds} for {n_positive} and {n_unlabeled}: use fewer, or 'auto'."
            )
        return folds
    if isinstance(holdout, (float, np.floating)):
        share = check_fraction("holdout", holdout)
        if few < 2:
            raise ParameterError(
                f"holdout={holdout!r} needs two positives and two unlabeled rows, "
                f"got {n_positive} and {n_unlabeled}: use 'auto', which fits without a split."
            )
        return share
    raise ParameterError(
        f"holdout must be 'auto', a share of the rows in (0, 1) or a number of folds, got {holdout!r}."
    )


def cross_fit(
    model: RatioModel,
    pair: SamplePair,
    *,
    holdout: int | float,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> tuple[FoldedRatio, HeldOut]:
    """Fold models and the scores of their held-out rows.

    Parameters
    ----------
    model : RatioModel
        Cloned and fitted once per fold.
    pair : SamplePair
        The two samples, checked.
    holdout : int or float
        Number of folds, or a holdout fraction, or 0: one model is trained on all rows, and
        its training rows are scored. With several folds, some models are also fitted to all rows.
    """
    if holdout == 0:
        fitted = model.fit_checked(pair)
        scores = fitted.score_checked(pair.positive.rows), fitted.score_checked(pair.unlabeled.rows)
        return FoldedRatio([fitted]), HeldOut(*scores, *_parallel(pair))

    rng = check_random_state(random_state)
    splits = draw_splits(pair, holdout, rng)
    if not splits:  # groups that cannot be divided
        return cross_fit(model, pair, holdout=0)
    jobs = effective_n_jobs(n_jobs)
    if len(splits) == 1 and getattr(model, "n_jobs", None) == 1:
        threads = threads_of_one_fit(jobs, [pair.positive.rows, pair.unlabeled.rows])
        model = clone(model).set_params(n_jobs=threads)
    copies = model.for_folds(pair, len(splits))
    work: list[Any] = [(copy, pair, *split) for copy, split in zip(copies, splits, strict=True)]
    whole = model.for_labels(pair, len(splits)) if len(splits) > 1 else None
    if whole is not None:  # the longest fit first, so that no other job waits for it
        work.insert(0, (whole, pair, None, None))
    # Threads share the rows, processes would copy them; LightGBM and BLAS release the interpreter lock.
    done = run_jobs(_fit_split, work, jobs=jobs, threads=model.fits_in_threads, rows=len(pair))
    with _each_warning_once():
        fits = list(progress(done, total=len(work), label="folds", show=verbose > 0))
    if whole is not None:
        whole = fits.pop(0)[0]  # fitted, maybe in another process

    held = SamplePair(
        *(
            Sample(np.arange(len(sample)), sample.weight, sample.groups).take(
                np.concatenate([split[at][1] for split in splits])
            )
            for at, sample in enumerate((pair.positive, pair.unlabeled))
        )
    )
    return FoldedRatio([fit[0] for fit in fits], whole), HeldOut(
        np.concatenate([fit[1] for fit in fits]), np.concatenate([fit[2] for fit in fits]), *_parallel(held)
    )


@contextmanager
def _each_warning_once() -> Iterator[None]:
    """Give each warning of the folds once, after the last fold, so that none interrupts a progress bar."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in {(w.category, str(w.message)): w for w in caught}.values():
        warnings.warn_explicit(message.message, message.category, message.filename, message.lineno)


def _parallel(pair: SamplePair) -> tuple[Any, ...]:
    """Weights and groups of both samples, in the order of the fields of HeldOut."""
    samples = pair.positive, pair.unlabeled
    return tuple(sample.weight for sample in samples) + tuple(sample.groups for sample in samples)


def _fit_split(
    model: RatioModel, pair: SamplePair, positive: Positions | None, unlabeled: Positions | None
) -> tuple[RatioModel, FloatArray, FloatArray]:
    """A model and the scores of its held-out rows; without a split, a model of all rows."""
    if positive is None or unlabeled is None:
        return model.fit_checked(pair), np.empty(0), np.empty(0)
    fitted = model.fit_checked(pair.take(positive[0], unlabeled[0]))
    return (
        fitted,
        fitted.score_checked(take_rows(pair.positive.rows, positive[1])),
        fitted.score_checked(take_rows(pair.unlabeled.rows, unlabeled[1])),
    )
