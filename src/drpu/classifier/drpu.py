"""DRPUClassifier: a density ratio that is learnt once and used at every prior."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from drpu._checks import (
    SCENARIO_CHOICES,
    check_choice,
    check_flag,
    check_integer,
    check_jobs,
    check_numbers,
    check_random_state,
)
from drpu._codec import kept
from drpu._progress import inform, part, progress_bar
from drpu._samples import Sample, SamplePair
from drpu._typing import Rows
from drpu.audits.combine import (
    TrainingAnswers,
    beside,
    known_rows,
    prior_from_answers,
    training_answers,
)
from drpu.audits.plan import TrainingMark
from drpu.classifier.base import RatioClassifier, RatioRecord
from drpu.classifier.notices import (
    warn_of_alpha,
    warn_of_few_known,
    warn_of_few_positives,
    warn_of_large_prior,
    warn_of_notes,
)
from drpu.classifier.priors import KERNEL_MEANS, check_prior_parameter, kernel_mean_prior
from drpu.classifier.validation import (
    Classes,
    check_rows,
    grouped_copies,
    pair_pu,
    read_labels,
    scenario_of_samples,
    scenario_of_table,
    split_negatives,
    split_pu,
    warn_of_guess,
    warn_of_more_positives,
    with_categories,
)
from drpu.decisions.thresholds import check_cost
from drpu.exceptions import DataTypeError, ParameterError, PriorBoundaryWarning, PriorError
from drpu.models.clusters import FrameLearner, Ranges, refuse_frame
from drpu.models.crossfit import Folds, Known, cross_fit, resolve_holdout, tails_of
from drpu.models.learner import RatioLearner, seeded
from drpu.models.registry import resolve_model
from drpu.periods.moves import Backtest, LabelCount
from drpu.periods.read import count_labels, plan_periods, run_backtest, without_periods
from drpu.priors.calibration import calibrate
from drpu.priors.estimate import PriorEstimate, as_prior, prior_from_tails, warn_if_not_identified
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import FittedRatio, with_labelled, without_labelled
from drpu.state.record import Columns, Labels, Parameter, parameters_of, read_parameters
from drpu.tables.cells import ColumnProfile, profile_columns
from drpu.tables.encoder import fixed_cells
from drpu.tables.frames import collected, warn_of_order
from drpu.tables.notes import Note, table_notes

BACKTEST_SHARE = (
    0.8  # of the time of a fit with a backtest, which makes up to six fits to fewer rows
)
SURE = 0.999  # level of the limit that a given prior must exceed to contradict the rows
EDGE, TINY = 0.005, 1e-6  # an estimate beyond EDGE whose limit is within TINY of 0 or 1 is suspect


@dataclass(eq=False, repr=False)
class DRPUClassifier(RatioClassifier):
    """Classifier from positive and unlabeled rows that can be adapted to a changed prior.

    It learns the density ratio p(x | positive) / p(x) of the training population. The prior of
    the rows to classify is needed only afterwards: :meth:`predict` uses that of the training
    population, :meth:`adapt` estimates it from new unlabeled rows, and :meth:`at_prior` accepts a
    known value. No refit is needed.

    Parameters
    ----------
    model : str, RatioLearner, scikit-learn classifier or torch module, default="auto"
        How the ratio is learnt. ``"auto"`` averages different kinds of models, with weights from
        held-out rows if there are many positives; ``"kernel"``, ``"boosted"``, ``"network"``
        and ``"classifier"`` are single kinds.
    scenario : {"auto", "single-sample", "case-control"}, default="auto"
        How the labelled rows were collected. In a single sample some positives of the sample are
        labelled, and the population is that of all rows together. In a case-control study the
        unlabeled rows are a sample of the population, and the positives were collected
        separately. ``"auto"``: the one table of :meth:`fit` is a single sample, and the two samples of
        :meth:`fit_pu` are a case-control study. If labelled rows of a table reappear among its
        unlabeled ones more often than by chance, it is a case-control study, and a
        :class:`drpu.exceptions.ScenarioWarning` says so. ``scenario_`` is the result.
    prior : "auto", str, float, PriorEstimate or callable, default="auto"
        Class prior of the training population: how to estimate it, or its value. The
        methods are those of :func:`drpu.estimate_prior` for one sample, and ``"km2"`` and
        ``"km1"`` (kernel means of the rows, :class:`drpu.KernelMeanPrior`).
    cost : float or Costs, default=0.5
        False-positive cost in (0, 1); 0.5 maximises accuracy. :meth:`at_cost` changes it after the fit.
    pos_label : label, optional
        The label of the positives; the default is the larger of the two.
    negative_label : label, optional
        A third label in ``y``, of rows that are known to be negative; rows with a missing label are
        unlabeled. The negatives are part of the population in a single sample and come beside it in a
        case-control study. They may be a biased sample: they are used as far as they help to rank labelled
        positives.
    holdout : "auto", float or int, default="auto"
        Fraction of the rows to hold out, or number of folds. Priors and calibration
        are estimated from scores of rows that the model was not trained on. ``"auto"``
        uses ten folds below 100 positives, five up to 2000, and a fifth of the rows above;
        below four positives nothing is held out, and the training rows are scored. A fraction
        that leaves fewer than ten rows of either kind to train on, or holds out fewer, is a warning.
    calibrate : bool, default=True
        Whether scores are calibrated to ratios on held-out rows. This does not change the
        priors. It keeps the order of rows, except that some rows become ties.
    label_delay : int, default=0
        Number of periods after which labels are complete. The labels of as many last ``periods`` of ``fit``
        are not used as shares, and those that :meth:`adapt` gets are a lower bound if it is above 0. It has
        no meaning in a case-control study.
    random_state : int, RandomState or None, default=None
        Seeds the folds and the models.
    n_jobs : int, optional
        Most folds fitted at the same time. Threads and processes are used where they save time.
    verbose : int, default=0
        1 shows a progress bar with the time left, in a terminal or a notebook, and the chosen settings.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray
        Their names, if the training rows had any.
    table_ : TableEncoder or None
        How the columns of a data frame are read; None for arrays, and for a pipeline that reads them itself.

    See Also
    --------
    AdaptedClassifier : What :meth:`adapt`, :meth:`at_prior` and :meth:`at_cost` return.

    Notes
    -----
    Parameters are read by ``fit``: changing one afterwards has no effect until the next ``fit``, except for
    ``n_jobs`` and ``verbose``.

    Examples
    --------
    >>> from drpu import DRPUClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(300, 1000, prior=0.5, test_prior=0.1, separation=3, random_state=0)
    >>> X, y = data.X_y()
    >>> clf = DRPUClassifier("kernel", scenario="case-control", random_state=0).fit(X, y)
    >>> june = clf.adapt(data.test)
    >>> june.prior_.value < clf.prior_.value
    True
    """

    model: Any = "auto"
    _: KW_ONLY
    scenario: str = "auto"
    prior: Any = "auto"
    cost: float = 0.5
    pos_label: Any = None
    negative_label: Any = None
    holdout: Any = "auto"
    calibrate: bool = True
    label_delay: int = 0
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(
        self,
        X: Rows,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        periods: Any = None,
        audits: Any = None,
    ) -> Self:
        """Fit the classifier to rows of which some are labelled positive.

        Parameters
        ----------
        X : rows of shape (n, d)
            NumPy, pandas, polars, Arrow, scipy sparse or torch. A Dask or Spark data frame with
            ``model=DaskBoosted()`` or ``SparkBoosted()``, which are fitted on the cluster.
        y : array-like of shape (n,), or str
            Two labels: labelled positive, and unlabeled. The name of their
            column for a Dask or Spark data frame.
        sample_weight : array-like of shape (n,), or str, optional
            Weights, in the loss and in the counts. Multiplying all of them by a constant
            changes nothing. The name of their column for a Dask or Spark data frame. Where some
            positives are labelled more often than others, :func:`drpu.labelling_weights` makes weights.
        groups : array-like of shape (n,), optional
            Which rows depend on each other, as in scikit-learn: a customer's rows share a
            value. They stay in one fold, and intervals count groups. Without it, copies
            of a labelled positive are found and treated as one group.
        periods : array-like of shape (n,), or str, optional
            The period of each row, a value that sorts by time, as "2024-05"; or the name of its column in
            a table, which is then no feature. Dates are grouped by calendar month. Past periods are read by
            fits to the rows before them, at most six, and the labelled shares show how well
            (``backtest_``). Later, ``adapt`` believes its readings as far as they were right. Needs a
            single sample and a constant labelling rate.
        audits : list of Audit, optional
            Answers about rows of ``X``, or about its unlabeled rows, by which the training prior is set if
            ``prior`` is ``"auto"``, and which are used in training with their design weights.
            ``(rows, audit)`` for answers about other rows, which are used in training only.

        Returns
        -------
        self : DRPUClassifier
        """
        self._check_parameters()
        model = resolve_model(self.model)
        if periods is not None and (
            self.scenario == "case-control" or isinstance(model, FrameLearner)
        ):
            raise ParameterError(
                "periods must be None with scenario='case-control' or on a cluster: the share of labelled "
                "rows shows how the prior moved only with scenario='single-sample' and rows in memory."
            )
        if isinstance(model, FrameLearner):
            for name, value in (("negative_label", self.negative_label), ("audits", audits)):
                if value is not None:
                    raise ParameterError(
                        f"{name} must be None on a cluster: it needs the rows in memory."
                    )
            if groups is not None:
                raise ParameterError(
                    f"groups must be None with {type(model).__name__}: give it key, the name of a column "
                    "whose equal values share a fold."
                )
            return self._fit_frame(
                seeded(model, check_random_state(self.random_state)), X, y, sample_weight
            )
        refuse_frame(X)
        X = collected(X)
        warn_of_order(X, y=y, sample_weight=sample_weight, groups=groups)
        warn_of_order(X, periods=periods)
        column = periods if isinstance(periods, str) else None
        X, periods = without_periods(X, periods)
        y, negative, both = split_negatives(y, self.negative_label, self.pos_label)
        answers: list[TrainingAnswers] = []
        if audits is not None:
            labelled, classes = read_labels(y, self.pos_label, warn=False)
            answers = training_answers(audits, classes if both is None else both, labelled)
        pair, classes = split_pu(self, X, y, sample_weight, model=model, groups=groups)
        scenario = scenario_of_table(self.scenario, pair, periods=periods is not None)
        labelled, _ = read_labels(y, self.pos_label, warn=False)
        weight = None if sample_weight is None else check_numbers("sample_weight", sample_weight)
        plan = plan_periods(periods, labelled, self.label_delay)
        fraction = pair.labelled_fraction if scenario == "single-sample" else 0.0
        prior = prior_from_answers(answers, len(pair.positive), len(pair.unlabeled), fraction)
        check = partial(check_rows, self, model=model, name="audits", like=pair.unlabeled.rows)
        known = known_rows(pair, labelled, answers, negative, check)
        if known is not None and negative is not None and scenario == "case-control":
            pair, known = beside(pair, known, negative[~labelled])
        past = None
        with progress_bar("fit", show=self.verbose):
            with part(1 if plan is None else 1 - BACKTEST_SHARE):
                self._fit(model, pair, classes if both is None else both, scenario, known, prior)
            fitted, self._fitted = self.fitted_, None  # a fit whose backtest fails is no fit
            if plan is not None:
                with part(BACKTEST_SHARE):
                    columns = {"sample_weight": sample_weight, "groups": groups}
                    past = run_backtest(self, X, labelled, plan, weight, **columns)
        if fitted.label_count is not None:
            complete = np.ones(len(labelled), bool) if plan is None else plan.complete
            counted = count_labels(labelled[complete], None if weight is None else weight[complete])
            fitted = replace(fitted, label_count=counted)
        self.fitted_ = replace(fitted, backtest=past, period=column)
        return self

    def fit_pu(
        self,
        positive: Rows,
        unlabeled: Rows,
        negative: Rows | None = None,
        *,
        positive_weight: Any = None,
        unlabeled_weight: Any = None,
    ) -> Self:
        """Fit the classifier to a positive and an unlabeled sample; labels are 1 and 0.

        The samples were drawn separately, unless ``scenario="single-sample"`` says that both are parts of one
        sample; then ``unlabeled`` contains the unlabeled rows only.

        Parameters
        ----------
        positive, unlabeled : rows
            The two samples.
        negative : rows, optional
            Rows that are known to be negative, which may be a biased sample. They are part of the population
            in a single sample and come beside it in a case-control study.
        positive_weight : array-like of shape (n_positive,), optional
            Weights of the positives. If positives were labelled with different, known
            probabilities, use their inverses, which correct for the selection. Weights do not
            change the labelled fraction of the population.
        unlabeled_weight : array-like of shape (n_unlabeled,), optional
            Weights of the unlabeled rows.

        Returns
        -------
        self : DRPUClassifier
        """
        self._check_parameters()
        if self.negative_label is not None:
            raise ParameterError(
                "negative_label must be None for fit_pu, which has no labels: pass the rows as negative."
            )
        model = resolve_model(self.model)
        if isinstance(model, FrameLearner):
            raise DataTypeError(
                f"{type(model).__name__} is fitted to a {model.engine} data frame, by fit(frame, y='label'): "
                "for rows in memory use BoostedRatio."
            )
        pair, classes = pair_pu(
            self, positive, unlabeled, positive_weight, unlabeled_weight, model=model
        )
        scenario = scenario_of_samples(self.scenario)
        known = None
        if negative is not None:
            more = Sample(
                check_rows(self, negative, model=model, name="negative", like=pair.positive.rows)
            )
            place = np.full(len(more), -1)
            if scenario == "single-sample":
                place = len(pair.unlabeled) + np.arange(len(more))
                pair = SamplePair(pair.positive, pair.unlabeled.joined(more))
            known = Known(more, np.zeros(len(more), bool), place)
        with progress_bar("fit", show=self.verbose):
            return self._fit(model, pair, classes, scenario, known)

    def _fit(
        self,
        model: RatioLearner,
        pair: SamplePair,
        classes: Classes,
        scenario: str,
        known: Known | None = None,
        prior: PriorEstimate | None = None,
    ) -> Self:
        rng = check_random_state(self.random_state)
        samples, notes = (pair.positive.rows, pair.unlabeled.rows), tuple[Note, ...]()
        if self.table_ is not None:
            notes = table_notes(*samples, self.table_, scenario=scenario)
            warn_of_notes(notes)
        pair = grouped_copies(pair)
        n_positive, n_unlabeled = pair.positive.n_independent, pair.unlabeled.n_independent
        grouped = pair.positive.groups is not None or pair.unlabeled.groups is not None
        holdout = resolve_holdout(self.holdout, n_positive, n_unlabeled, grouped=grouped)
        warn_of_few_positives(n_positive, split=holdout != 0)
        if known is not None:
            warn_of_few_known(known.n_negative, n_positive, split=holdout != 0)

        learner = seeded(with_categories(model, self.table_), rng)
        settings = {"holdout": holdout, "random_state": rng, "n_jobs": self.n_jobs}
        folds, held = cross_fit(learner, pair, known=known, **settings)
        tails = tails_of(held)
        if self.verbose:
            inform(f"{len(pair.positive)} positives, {len(pair.unlabeled)} unlabeled rows")
        facts = {
            "training": TrainingMark.of(*samples),
            "columns": profiles_of(self, *samples),
            "sizes": (len(pair.positive), len(pair.unlabeled)),
            "notes": notes,
        }
        fraction = pair.labelled_fraction if scenario == "single-sample" else 0.0
        if prior is None or self.prior != "auto":
            prior = self._resolve_prior(tails, fraction, pair, rng)
        return self._settle(folds, tails, classes, prior, fraction=fraction, **facts)

    def _fit_frame(self, model: FrameLearner, frame: Any, label: Any, weight: Any) -> Self:
        """Fit on a cluster, where the rows are."""
        with progress_bar("fit", show=self.verbose):
            read = partial(read_labels, pos_label=self.pos_label, warn=False)
            found = model.fit_frame(frame, label, weight, self.holdout, read)
        if self.pos_label is None:
            warn_of_guess(found.classes, found.n_positive, found.n_unlabeled)
        warn_of_more_positives(found.n_positive, found.n_unlabeled)
        warn_of_few_positives(found.n_positive, split=True)
        names = [plan.name for plan in found.table.columns]
        Columns(len(names), tuple(names), found.table).set_on(self)
        if self.verbose:
            inform(f"{found.n_positive} positives, {found.n_unlabeled} unlabeled rows")
        fraction = 0.0 if self.scenario == "case-control" else found.labelled_fraction
        prior = self._resolve_prior(
            found.tails, fraction, None, check_random_state(self.random_state)
        )
        facts = {
            "columns": profiles_of_ranges(self, found.ranges),
            "sizes": (found.n_positive, found.n_unlabeled),
        }
        return self._settle(
            found.folds, found.tails, found.classes, prior, fraction=fraction, **facts
        )

    def _settle(
        self,
        folds: Folds,
        tails: ScoreTails,
        classes: Classes,
        prior: PriorEstimate,
        *,
        fraction: float,
        **facts: Any,
    ) -> Self:
        """Keep what was learnt, with a calibration from held-out rows; ``facts`` are about the rows."""
        unlabeled = without_labelled(prior, fraction)
        warn_of_alpha(folds, unlabeled)
        if self.verbose:
            inform(f"{folds.describe()}; training prior {prior} ({prior.method})")
        calibration = None
        if self.calibrate:
            calibration = calibrate(tails, unlabeled.value, labelled_share=fraction)
        if fraction > 0:
            facts["label_count"] = LabelCount(float(facts["sizes"][0]), float(sum(facts["sizes"])))
        facts |= {"cost": check_cost("cost", self.cost), "label_delay": self.label_delay}
        self.fitted_ = FittedRatio(
            folds, calibration, tails, prior, fraction, Labels.of(classes), **facts
        )
        self._keep_parameters()
        return self

    @property
    def backtest_(self) -> Backtest | None:
        """How well past periods would have been read; None without periods."""
        return self.fitted_.backtest

    @property
    def model_(self) -> Folds:
        """The fitted models, one per fold."""
        return self.fitted_.model

    @property
    def tails_(self) -> ScoreTails:
        """Held-out positive scores, and the unlabeled training rows counted over them."""
        return self.fitted_.tails

    @property
    def test_prior_(self) -> PriorEstimate:
        """Prior of the rows to classify, which is that of the training population."""
        return self.fitted_.train_prior

    @property
    def cost_(self) -> float:
        """False-positive cost in use."""
        return self.fitted_.cost

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        parameters: str = super().__repr__(N_CHAR_MAX)
        return (
            f"{parameters} with prior {self.prior_}" if self.__sklearn_is_fitted__() else parameters
        )

    def record(self) -> DRPURecord:
        """What a file keeps of the fitted classifier."""
        fitted, used = self.fitted_, self._used
        # a prior that was computed by the user's own function is kept as a value
        parameters = parameters_of(
            used, prior=fitted.train_prior if callable(used.prior) else used.prior
        )
        return DRPURecord(Columns.of(self), fitted, parameters)

    def _check_parameters(self) -> None:
        check_cost("cost", self.cost)
        check_choice("scenario", self.scenario, SCENARIO_CHOICES)
        if (
            check_integer("label_delay", self.label_delay, low=0)
            and self.scenario == "case-control"
        ):
            raise ParameterError(
                f"label_delay must be 0 with scenario='case-control', got {self.label_delay}: labels of "
                "later rows are used with scenario='single-sample' only.",
                command="--label-delay needs --scenario single-sample, where labels of later rows count.",
            )
        if not callable(self.prior):
            check_prior_parameter("prior", self.prior)
        check_flag("calibrate", self.calibrate)
        check_jobs(self.n_jobs)

    def _resolve_prior(
        self,
        tails: ScoreTails,
        fraction: float,
        pair: SamplePair | None,
        rng: np.random.RandomState,
    ) -> PriorEstimate:
        """Prior of the training population, whose labelled rows are known to be positive."""
        if not isinstance(self.prior, str) and not callable(self.prior):
            prior = as_prior("prior", self.prior)
            if prior.value < fraction:
                raise PriorError(
                    f"prior must be at least {fraction:.4f}, the fraction of labelled positives in a single "
                    f"sample, got {prior.value!r}."
                )
            shown = prior_from_tails(tails, level=SURE, labelled_share=fraction or None, warn=False)
            warn_of_large_prior(prior, with_labelled(shown, fraction))
            return prior
        if isinstance(self.prior, str) and self.prior in KERNEL_MEANS:
            if pair is None:
                raise ParameterError(
                    f"prior={self.prior!r} needs the rows in memory, which a fit on a cluster does not have: "
                    "use 'auto', or another method that reads counts."
                )
            estimate = kernel_mean_prior(self.prior, pair.positive, pair.unlabeled, rng)
        else:
            estimate = prior_from_tails(
                tails, method=self.prior, labelled_share=fraction or None, warn=False
            )
        prior = with_labelled(estimate, fraction)
        warn_if_not_identified(prior)
        if (prior.value < EDGE and prior.low < TINY) or (
            prior.value > 1 - EDGE and prior.high > 1 - TINY
        ):
            PriorBoundaryWarning.issue(
                "the training prior is estimated as {value} ({low} to {high}), which does not exclude "
                "that one class is absent: check the meaning of the labels, or give the prior if you "
                "know it.",
                value=prior.value,
                low=prior.low,
                high=prior.high,
            )
        return prior

    def _intake(self) -> Any:
        return resolve_model(self.model)


def profiles_of(estimator: Any, positive: Any, unlabeled: Any) -> tuple[ColumnProfile, ...]:
    """Profiles of the two samples; none for sparse rows, images and tables that the model reads itself."""
    if not all(isinstance(rows, np.ndarray) and rows.ndim == 2 for rows in (positive, unlabeled)):
        return ()
    n = positive.shape[1]
    return profile_columns(
        positive, unlabeled, _column_names(estimator, n), fixed_cells(estimator.table_, n)
    )


def profiles_of_ranges(estimator: Any, ranges: Ranges | None) -> tuple[ColumnProfile, ...]:
    """Profiles of rows that were counted on a cluster."""
    if ranges is None:
        return ()
    ends = np.cumsum([cells.n for cells in ranges.cells])[:-1]
    counts = [
        np.split(part.astype(np.float64), ends) for part in (ranges.positive, ranges.unlabeled)
    ]
    names = _column_names(estimator, len(ranges.cells))
    return tuple(
        ColumnProfile(*column) for column in zip(names, ranges.cells, *counts, strict=True)
    )


def _column_names(estimator: Any, n: int) -> list[str]:
    """Names of the columns of the encoded rows."""
    table = getattr(estimator, "table_", None)
    names = list(getattr(estimator, "feature_names_in_", []))
    if table is not None:
        names = [plan.name for plan in table.sources]  # a category may have several
    return [str(name) for name in names] if len(names) == n else [f"column {k}" for k in range(n)]


@kept("DRPUClassifier")
@dataclass(frozen=True)
class DRPURecord(RatioRecord):
    """What a file keeps of a :class:`DRPUClassifier`."""

    parameters: dict[str, Parameter]

    def classifier(self, module: Any = None) -> DRPUClassifier:  # noqa: D102
        classifier = DRPUClassifier(**read_parameters(self.parameters))
        classifier.fitted_ = self.fitted.with_module(module)
        self.columns.set_on(classifier)
        classifier._keep_parameters()
        return classifier
