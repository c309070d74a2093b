"""Laws of NetworkScore: networks for the objectives of nnPU, PUa and VPU."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from drpu import NetworkRatio
from drpu._samples import Sample, SamplePair
from drpu.exceptions import ParameterError
from drpu.models.risks import ShiftedRisk, VariationalRisk, get_loss
from drpu.networks.learner import NetworkScore, from_ratio

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


def test_options_of_a_ratio_alone_must_have_their_defaults():
    learner = from_ratio(NetworkRatio(hidden=(8,), epochs=3, random_state=5))
    assert isinstance(learner, NetworkScore)
    assert (learner.hidden, learner.epochs, learner.random_state) == ((8,), 3, 5)
    for changes in ({"alpha": 0.2}, {"teachers": 2}, {"head": "exp"}, {"mixup": True}):
        with pytest.raises(ParameterError, match=f"{next(iter(changes))} must be left at its default"):
            from_ratio(NetworkRatio(**changes))
