"""Score networks trained together: stacks of nnPU, PUa and VPU."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

pytest.importorskip("torch")

from drpu.core.risks import ShiftedRisk, VariationalRisk, get_loss
from drpu.exceptions import ParameterError
from drpu.networks.learner import NetworkRatio
from drpu.networks.many import fit_many
from drpu.networks.score import NetworkScore

OPTIONS = {"hidden": (8,), "epochs": 3, "batch_size": 50, "learning_rate": 1e-2, "early_stopping": False}
OPTIONS |= {"dtype": "float64"}


def rows(seed=0):
    rng = np.random.default_rng(seed)
    positive = rng.normal(1.5, 1, (60, 2))
    unlabeled = np.concatenate([rng.normal(1.5, 1, (120, 2)), rng.normal(-1.5, 1, (180, 2))])
    return positive, unlabeled, rng.normal(0, 2, (50, 2))


def shifted(train, test):
    return ShiftedRisk(train, test, corrected=True)


def models(n, **changes):
    return [NetworkScore(**(OPTIONS | changes), random_state=seed) for seed in range(n)]


def test_each_model_of_a_stack_has_its_own_priors():
    positive, unlabeled, x = rows()
    objectives = [shifted(0.4, 0.4), shifted(0.4, 0.8), shifted(0.3, 0.2)]
    together = fit_many(models(3), positive, unlabeled, objectives=objectives)
    for i, objective in enumerate(objectives):
        (alone,) = fit_many(models(3)[i : i + 1], positive, unlabeled, objectives=[objective])
        assert_allclose(together[i].score(x), alone.score(x), rtol=1e-4, atol=1e-4)


def test_a_stack_of_one_is_the_network_of_the_classifiers():
    from drpu._samples import Sample, SamplePair

    positive, unlabeled, x = rows()
    (stacked,) = fit_many(models(1), positive, unlabeled, objectives=[shifted(0.4, 0.4)])
    (plain,) = models(1)
    plain.fit_score(SamplePair(Sample(positive), Sample(unlabeled)), shifted(0.4, 0.4))
    assert_allclose(stacked.score(x), plain.score(x), rtol=1e-5, atol=1e-6)


def test_variational_networks_keep_their_best_epoch():
    positive, unlabeled, x = rows()
    held = (positive[:20], unlabeled[:100])
    fitted = fit_many(
        models(2, early_stopping=True),
        positive,
        unlabeled,
        objectives=VariationalRisk(mixup=1.0),
        holdout=[held, held],
    )
    for model in fitted:
        assert model.best_epoch_ == 1 + np.argmin(model.history_["holdout_risk"])
        assert np.isfinite(model.score(x)).all()


def test_weights_of_zero_leave_rows_out():
    positive, unlabeled, x = rows()
    both = np.concatenate([positive, unlabeled])
    is_positive = (np.arange(len(both)) < len(positive)).astype(float)
    options = {"hidden": None, "module": _line}
    (masked,) = fit_many(
        models(1, **options), both, both, objectives=[shifted(0.4, 0.4)],
        positive_weight=[is_positive], unlabeled_weight=[1 - is_positive],
    )  # fmt: skip
    (plain,) = fit_many(models(1, **options), positive, unlabeled, objectives=[shifted(0.4, 0.4)])
    assert_allclose(masked.score(x), plain.score(x), rtol=1e-4, atol=1e-5)


def _line():
    from torch import nn

    return nn.Linear(2, 1)


@pytest.mark.parametrize(
    "objectives",
    [
        [shifted(0.4, 0.4), ShiftedRisk(0.4, 0.4, get_loss("logistic"))],
        [shifted(0.4, 0.4), VariationalRisk()],
        [VariationalRisk(mixup=1.0), VariationalRisk(mixup=2.0)],
    ],
)
def test_objectives_of_a_stack_differ_in_priors_alone(objectives):
    positive, unlabeled, _ = rows()
    with pytest.raises(ParameterError, match="trained together"):
        fit_many(models(2), positive, unlabeled, objectives=objectives)


@pytest.mark.parametrize(
    ("kinds", "options", "message"),
    [
        ([NetworkScore], {}, "objectives must be given"),
        ([NetworkScore], {"objectives": [VariationalRisk()] * 2}, "one for each of 1 models, got 2"),
        ([NetworkRatio], {"objectives": VariationalRisk()}, "objectives must be left out"),
        ([NetworkRatio], {"equal_batches": True}, "equal_batches must be left out"),
        ([NetworkRatio, NetworkScore], {}, "all be NetworkRatio or all NetworkScore"),
    ],
)
def test_stacks_refuse_what_they_would_ignore(kinds, options, message):
    positive, unlabeled, _ = rows()
    with pytest.raises(ParameterError, match=message):
        fit_many([kind(**OPTIONS) for kind in kinds], positive, unlabeled, **options)


def test_scores_take_rows_as_users_hold_them():
    positive, unlabeled, x = rows()
    (model,) = fit_many(models(1), positive.tolist(), unlabeled, objectives=shifted(0.4, 0.4))
    assert_allclose(model.score(x.tolist()), model.score(x))
    with pytest.raises(NotFittedError, match="fit_many"):
        NetworkScore().score(x)


def test_watched_epochs_see_the_networks_as_they_are():
    positive, unlabeled, x = rows()
    seen = []
    ratios = [NetworkRatio(**OPTIONS, alpha=0.3, ema=None, random_state=seed) for seed in range(2)]
    fit_many(ratios, positive, unlabeled, on_epoch=lambda epoch, score: seen.append((epoch, score(x))))
    assert [epoch for epoch, _ in seen] == [1, 2, 3]
    assert seen[0][1].shape == (2, 50)
    assert not np.allclose(seen[0][1], seen[1][1])
    last = np.stack([model.log_ratio(x) for model in ratios])
    assert_allclose(seen[-1][1], last, rtol=1e-4, atol=1e-5)


def test_watched_models_need_their_alpha():
    positive, unlabeled, _ = rows()
    with pytest.raises(ParameterError, match="alpha"):
        fit_many([NetworkRatio(**OPTIONS)], positive, unlabeled, on_epoch=lambda *_: None)


def test_each_model_may_be_watched_on_rows_of_its_own():
    positive, unlabeled, x = rows()
    seen = []
    options = OPTIONS | {"epochs": 1}
    ratios = [NetworkRatio(**options, alpha=0.3, random_state=seed) for seed in range(2)]
    fit_many(
        ratios,
        positive,
        unlabeled,
        on_epoch=lambda _, score: seen.append((score(x), score([x, x[::-1].copy()]))),
    )
    shared, own = seen[0]
    assert_allclose(own[0], shared[0], rtol=1e-5, atol=1e-6)
    assert_allclose(own[1], shared[1][::-1], rtol=1e-5, atol=1e-6)
