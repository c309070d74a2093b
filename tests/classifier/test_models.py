import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from drpu import NetworkRatio
from drpu.models.auto import AutoRatio
from drpu.models.boosted import BoostedRatio
from drpu.models.estimators import ClassifierRatio
from drpu.models.kernel import KernelRatio
from drpu.models.learner import RatioLearner, ScoreLearner, seeded
from drpu.models.registry import RATIOS, SCORES, resolve_model, resolve_score


@pytest.mark.parametrize("name", RATIOS)
def test_every_name_is_a_density_ratio(name):
    if name == "network":
        pytest.importorskip("torch")
    assert isinstance(resolve_model(name), RatioLearner)


@pytest.mark.parametrize("name", SCORES)
def test_every_name_is_a_score(name):
    if name == "network":
        pytest.importorskip("torch")
    assert isinstance(resolve_score(name), ScoreLearner)


def test_a_density_ratio_stands_for_itself_and_is_not_touched():
    model = KernelRatio("rows", n_centres=7)
    resolved = resolve_model(model)
    assert resolved is not model
    assert resolved.get_params() == model.get_params()


def test_fits_leave_the_learner_as_it_is():
    X = np.random.default_rng(0).normal(size=(30, 2))
    for name in set(RATIOS) - {"network"}:
        learner = resolve_model(name)
        before = set(vars(learner))
        learner.fit_ratio(X[:10], X)
        assert set(vars(learner)) == before


def test_a_torch_module_is_turned_into_a_network():
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 1)
    assert isinstance(resolve_model(module), NetworkRatio)


# -- seeds ---------------------------------------------------------------------------------


def seeds(model):
    return {name: value for name, value in model.get_params().items() if name.endswith("random_state")}


def test_free_random_states_are_fixed_inner_ones_too():
    nested = make_pipeline(StandardScaler(), RandomForestClassifier(), memory=None)
    model = ClassifierRatio(nested)
    fixed = seeds(seeded(model, np.random.RandomState(0)))
    assert len(fixed) == 2
    assert all(isinstance(seed, int) for seed in fixed.values())
    assert len(set(fixed.values())) == 2
    assert all(seed is None for seed in seeds(model).values())


def test_random_states_that_the_user_set_stay():
    model = ClassifierRatio(RandomForestClassifier(random_state=7))
    fixed = seeds(seeded(model, np.random.RandomState(0)))
    assert fixed["classifier__random_state"] == 7
    assert isinstance(fixed["random_state"], int)


@pytest.mark.parametrize(
    "model", [AutoRatio(), BoostedRatio(), KernelRatio(), ClassifierRatio(RandomForestClassifier())]
)
def test_equal_generators_fix_equal_seeds(model):
    first, second, third = (seeds(seeded(model, np.random.RandomState(s))) for s in (1, 1, 2))
    assert first == second != third
    assert first
