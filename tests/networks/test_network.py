"""Laws of NetworkRatio and of the functions that it returns."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from torch import nn

from drpu import NetworkRatio
from drpu._samples import Sample, SamplePair
from drpu.exceptions import ParameterError
from drpu.models.learner import Function
from drpu.models.registry import resolve_score
from drpu.models.risks import GENERATORS, ShiftedRisk, VariationalRisk, bregman_risk, get_loss
from drpu.networks.fit import fit_ratio
from drpu.networks.learner import NetworkScore
from drpu.networks.options import check_options

PRIOR = 0.4
LOGISTIC = GENERATORS["bkl"]
ALPHAS = (0.05, 0.15, 0.3, 0.45, 0.6)  # that alpha="auto" tries


def gaussians(n_positive: int, n_unlabeled: int, seed: int = 0):
    """Positive and unlabeled rows of N((1,1), I) against N((-1,-1), I)."""
    rng = np.random.default_rng(seed)
    sign = np.where(rng.random(n_unlabeled) < PRIOR, 1.0, -1.0)
    return rng.normal(1, 1, (n_positive, 2)), rng.normal(0, 1, (n_unlabeled, 2)) + sign[:, None]


def true_log_ratio(X: np.ndarray) -> np.ndarray:
    return -np.logaddexp(np.log(PRIOR), np.log(1 - PRIOR) - 2 * X.sum(1))


def light(**changes) -> NetworkRatio:
    return NetworkRatio(
        **{
            "hidden": (8,),
            "alpha": 0.3,
            "epochs": 3,
            "learning_rate": 0.01,
            "batch_size": 40,
            "random_state": 0,
        }
        | changes
    )


POSITIVE, UNLABELED = gaussians(60, 200)


def test_a_fit_returns_a_function_and_leaves_the_learner_as_it_is():
    learner = light()
    before = dict(vars(learner))
    assert isinstance(learner.fit_ratio(POSITIVE, UNLABELED), Function)
    assert vars(learner) == before


def test_learns_the_ratio_of_two_gaussians():
    positive, unlabeled = gaussians(500, 2000)
    learner = NetworkRatio(hidden=(32, 32), alpha=0.3, epochs=20, batch_size=100, random_state=0)
    model = learner.fit_ratio(positive, unlabeled)

    test_positive, test_unlabeled = gaussians(5000, 20_000, seed=1)
    truth, scores = true_log_ratio(test_unlabeled), model.log_ratio(test_unlabeled)
    near = truth > -4  # in the region of the positives
    assert np.corrcoef(truth[near], scores[near])[0, 1] > 0.97

    def risk(of):
        return bregman_risk(of(test_positive), of(test_unlabeled), generator=LOGISTIC, log=True)

    flat = bregman_risk(np.zeros(1), np.zeros(1), generator=LOGISTIC, log=True)
    assert risk(model.log_ratio) - risk(true_log_ratio) < 0.1 * (flat - risk(true_log_ratio))


def fit_with(learner, scale=1.0, **run):
    """The function of a learner, trained with options of a run that it does not have."""
    options = replace(check_options(learner, POSITIVE.shape[1:], len(UNLABELED)), **run)
    return fit_ratio(options, SamplePair(Sample(scale * POSITIVE), Sample(scale * UNLABELED)), None)


@pytest.mark.parametrize(
    ("generator", "head"),
    [*product(["lsif", "ukl", "bkl"], ["softplus", "exp"]), ("lsif", "relu"), ("lsif", "identity")],
)
def test_every_generator_and_head_ranks_the_classes(generator, head):
    learner = NetworkRatio(hidden=(16,), alpha=0.3, epochs=15, batch_size=40, random_state=0)
    model = fit_with(learner, generator=generator, head=head)
    scores = model.log_ratio([[2.0, 2.0], [-3.0, -3.0]])
    assert scores.dtype == np.float64
    assert scores[0] > scores[1]


def test_auto_alpha_is_the_one_with_the_lowest_holdout_risk():
    options = {"dtype": "float64", "learning_rate": 0.1, "epochs": 10}
    model = light(alpha="auto", **options).fit_ratio(POSITIVE, UNLABELED)
    risks = {}
    for alpha in ALPHAS:
        fixed = light(alpha=alpha, **options).fit_ratio(POSITIVE, UNLABELED)
        risks[alpha] = fixed.history["holdout_risk"].min()
    assert max(risks.values()) > min(risks.values()) + 0.01
    assert_allclose(model.history["holdout_risk"].min(), min(risks.values()))
    assert_allclose(risks[model.alpha], min(risks.values()))


def test_without_early_stopping_holdout_rows_only_choose_alpha():
    options = {"dtype": "float64", "learning_rate": 0.1, "epochs": 10, "early_stopping": False}
    model = light(alpha="auto", **options).fit_ratio(POSITIVE, UNLABELED)
    assert model.best_epoch == 10
    held = gaussians(50, 100, seed=3)
    last = [
        light(alpha=alpha, **options).fit_ratio(POSITIVE, UNLABELED, holdout=held).history["holdout_risk"][-1]
        for alpha in ALPHAS
    ]
    chosen = light(alpha="auto", **options).fit_ratio(POSITIVE, UNLABELED, holdout=held)
    assert_allclose(chosen.history["holdout_risk"][-1], min(last))
    assert "holdout_risk" not in light(**options).fit_ratio(POSITIVE, UNLABELED).history


def test_too_few_rows_train_to_the_last_epoch():
    model = light(alpha="auto").fit_ratio(POSITIVE[:5], UNLABELED[:5])
    assert (model.alpha, model.best_epoch) == (0.3, 3)
    assert "holdout_risk" not in model.history
    assert np.isfinite(light().fit_ratio(POSITIVE[:1], UNLABELED[:1]).log_ratio(UNLABELED)).all()


def test_short_runs_are_made_longer_by_default():
    model = light(epochs="auto", hidden=(2,), early_stopping=False).fit_ratio(POSITIVE[:10], UNLABELED)
    assert len(model.history["risk"]) * (200 // 40) >= 300


@pytest.mark.parametrize(("n", "batch_size"), [(10, 100), (20_000, 200), (10**6, 500)])
def test_batches_grow_with_the_rows(n, batch_size):
    assert check_options(NetworkRatio(), (1,), n).batch_size == batch_size


def test_holdout_rows_given_choose_the_epoch():
    held = gaussians(50, 100, seed=3)
    model = light(epochs=8).fit_ratio(POSITIVE, UNLABELED, holdout=held)
    risk = bregman_risk(model.log_ratio(held[0]), model.log_ratio(held[1]), generator=LOGISTIC, log=True)
    assert_allclose(model.history["holdout_risk"][model.best_epoch - 1], risk, rtol=1e-5)
    assert model.best_epoch == model.history["holdout_risk"].argmin() + 1


def test_same_seed_same_scores_and_torch_random_numbers_left_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    dropout = lambda: nn.Sequential(nn.Linear(2, 8), nn.Dropout(), nn.Linear(8, 1))  # noqa: E731
    for change in ({}, {"module": dropout, "hidden": None}):
        first, second, other = (
            light(random_state=seed, **change).fit_ratio(POSITIVE, UNLABELED).log_ratio(UNLABELED)
            for seed in (1, 1, 2)
        )
        assert_array_equal(first, second)
        assert not np.allclose(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_module_given_is_a_start_and_stays_as_it_was():
    module = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    for rate in (1e-9, 0.01):  # steps of 1e-9 are lost in rounding
        learner = light(module=module, hidden=None, learning_rate=rate)
        trained = fit_with(learner, ema=None).torch_module
        assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
        assert torch.equal(trained[0].weight, module[0].weight) is (rate < 0.01)


def test_integer_weights_are_repeated_rows():
    rng = np.random.default_rng(0)
    times_p, times_u = rng.integers(0, 4, 60), rng.integers(0, 4, 200)
    line = lambda: nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))  # noqa: E731
    learner = light(
        module=line, hidden=None, batch_size=10_000, early_stopping=False, epochs=5, dtype="float64"
    )
    weighted = learner.fit_ratio(POSITIVE, UNLABELED, positive_weight=times_p, unlabeled_weight=times_u)
    repeated = clone(learner).fit_ratio(np.repeat(POSITIVE, times_p, 0), np.repeat(UNLABELED, times_u, 0))
    assert_allclose(weighted.log_ratio(UNLABELED), repeated.log_ratio(UNLABELED), rtol=1e-9)


# A value that breaks the rule of each parameter; what the checks say is tested with them.
WRONG = {
    "alpha": 1.2, "hidden": (0,), "epochs": 0, "batch_size": 2.5, "learning_rate": -1,
    "weight_decay": np.inf, "early_stopping": "no", "holdout": 0.0, "dtype": "int8", "network": "vgg",
    "verbose": None, "device": "abacus",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_parameters_that_break_their_rule_are_named(name):
    with pytest.raises(ParameterError, match=f"{name} must"):
        light(**{name: WRONG[name]}).fit_ratio(POSITIVE, UNLABELED)


def test_there_are_at_most_fifteen_parameters():
    assert len(NetworkRatio().get_params()) <= 15


@pytest.mark.parametrize(("betas", "message"), [((0.9, 1.0), "betas must"), ((0.9,), "must be a pair")])
def test_betas_of_scores_are_checked(betas, message):
    with pytest.raises(ParameterError, match=message):
        NetworkScore(**OPTIONS, betas=betas).fit_score(PAIR, OBJECTIVES["vpu"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": "best"}, "alpha must be one of 'auto'"),
        ({"epochs": "many"}, "epochs must be one of 'auto'"),
        ({"hidden": 8}, "hidden must be a tuple of integers"),
        ({"module": nn.Linear(2, 1)}, "hidden must be None with a module"),
        ({"module": dict, "hidden": None}, "module must make a torch.nn.Module"),
        ({"module": 3, "hidden": None}, "module must be a torch module or a function that makes one, got 3"),
        ({"module": nn.LazyLinear(1), "hidden": None}, "module must have weights, got one with lazy layers"),
        ({"module": nn.LSTM(2, 1), "hidden": None}, "module must return one tensor, got a tuple"),
        ({"module": "resnet9", "hidden": None}, "named by network"),
        ({"module": nn.Linear(2, 1), "hidden": None, "network": "resnet9"}, "network must be 'auto'"),
        ({"holdout": 0.999999, "alpha": "auto"}, "holdout must leave rows to train on, got 0.999999"),
        ({"learning_rate": 1e-12}, "got 1e-12: no weight would change in training"),
        ({"learning_rate": np.inf}, "got inf: training cannot converge"),
        ({"weight_decay": 1e3}, r"weight_decay times learning_rate must be below 1, got 1000 times 0\.01"),
    ],
)
def test_parameters_that_contradict_each_other_or_the_module_are_refused(changes, message):
    with pytest.raises(ParameterError, match=message):
        light(**changes).fit_ratio(POSITIVE, UNLABELED)


def test_training_that_diverges_is_an_error():
    line = nn.Linear(2, 1)
    learner = light(module=line, hidden=None, learning_rate=1e4, weight_decay=0)
    with pytest.raises(ParameterError, match="learning_rate must let training converge"):
        fit_with(learner, scale=100, generator="lsif", head="exp")


# -- networks for other objectives -------------------------------------------------------------------


OPTIONS = {"hidden": (8,), "epochs": 8, "batch_size": 50, "learning_rate": 1e-2, "device": "cpu"}
RNG = np.random.default_rng(0)
PAIR = SamplePair(
    Sample(RNG.normal(1.5, 1, (60, 2))),
    Sample(np.concatenate([RNG.normal(1.5, 1, (120, 2)), RNG.normal(-1.5, 1, (180, 2))])),
)
TEST = np.concatenate([RNG.normal(1.5, 1, (100, 2)), RNG.normal(-1.5, 1, (100, 2))])
LABELS = np.arange(200) < 100
OBJECTIVES = {
    "nnpu": ShiftedRisk(0.4, 0.4, corrected=True),
    "pua": ShiftedRisk(0.4, 0.7, corrected=True),
    "logistic": ShiftedRisk(0.4, 0.4, get_loss("logistic")),
    "vpu": VariationalRisk(mixup=1.0),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_scores_rank_the_classes(name):
    score = NetworkScore(**OPTIONS, random_state=0).fit_score(PAIR, OBJECTIVES[name])
    assert (score.head, score.alpha) == ("score", None)
    assert roc_auc_score(LABELS, score.score(TEST)) > 0.9
    assert score.best_epoch == 1 + np.argmin(score.history["holdout_risk"])


def test_rows_of_weight_zero_are_left_out():
    rows = np.concatenate([PAIR.positive.rows, PAIR.unlabeled.rows])
    labelled = np.arange(len(rows)) < 60
    masked = SamplePair(Sample(rows, labelled.astype(float)), Sample(rows, (~labelled).astype(float)))
    learner = NetworkScore(**OPTIONS, random_state=0, dtype="float64", early_stopping=False)
    plain, weighted = (learner.fit_score(pair, OBJECTIVES["nnpu"]).score(TEST) for pair in (PAIR, masked))
    assert_allclose(weighted, plain, rtol=1e-6)


def test_the_option_of_a_ratio_alone_must_have_its_default():
    learner = resolve_score(NetworkRatio(hidden=(8,), epochs=3, random_state=5))
    assert isinstance(learner, NetworkScore)
    assert (learner.hidden, learner.epochs, learner.random_state) == ((8,), 3, 5)
    with pytest.raises(ParameterError, match="alpha must be left at its default"):
        resolve_score(NetworkRatio(alpha=0.2))
    with pytest.raises(ParameterError, match="alpha must be left at its default"):
        NetworkScore(**OPTIONS, alpha=0.2).fit_score(PAIR, OBJECTIVES["nnpu"])
