import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from drpu._state import ModelState
from drpu.exceptions import DataError, ParameterError
from drpu.models.auto import AutoRatio
from drpu.models.base import RatioModel
from drpu.models.boosting import BoostedRatio
from drpu.models.classifier import ClassifierRatio
from drpu.models.kernel import KernelRatio
from drpu.models.registry import model_from_state
from drpu.models.resolve import model_names, resolve_model, seeded


@pytest.mark.parametrize("name", model_names())
def test_every_name_is_a_density_ratio(name):
    if name == "network":
        pytest.importorskip("torch")
    model = resolve_model(name)
    assert isinstance(model, RatioModel)
    assert not hasattr(model, "n_features_in_")


def test_the_default_is_the_average():
    assert isinstance(resolve_model("auto"), AutoRatio)


def test_a_density_ratio_stands_for_itself_and_is_not_touched():
    model = KernelRatio("rows", n_centres=7)
    resolved = resolve_model(model)
    assert resolved is not model
    assert resolved.get_params() == model.get_params()


def test_fitted_models_start_again():
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = ClassifierRatio().fit_ratio(X[:10], X)
    assert not hasattr(resolve_model(model), "n_features_in_")


@pytest.mark.parametrize(
    "classifier", [LogisticRegression(C=3), make_pipeline(StandardScaler(), RandomForestClassifier())]
)
def test_a_classifier_is_turned_into_a_density_ratio(classifier):
    resolved = resolve_model(classifier)
    assert isinstance(resolved, ClassifierRatio)
    assert resolved.classifier is classifier


def test_a_torch_module_is_turned_into_a_network():
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 1)
    assert type(resolve_model(module)).__name__ == "NetworkRatio"


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(ParameterError, match=r"model must be one of 'auto', .*'network', got 'forrest'"):
        resolve_model("forrest")


@pytest.mark.parametrize("cls", [KernelRatio, LogisticRegression])
def test_classes_are_refused_with_the_way_out(cls):
    with pytest.raises(ParameterError, match=rf"write {cls.__name__}\(\)"):
        resolve_model(cls)


@pytest.mark.parametrize("wrong", [None, 3, LinearSVC(), StandardScaler(), len])
def test_what_is_no_model_is_refused(wrong):
    with pytest.raises(ParameterError, match="model must be a name, a density ratio"):
        resolve_model(wrong)


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


# -- states by kind ------------------------------------------------------------------------


def test_unknown_kinds_of_states_are_refused():
    with pytest.raises(DataError, match=r"kind must be one of auto, boosted, .*, got 'pickle'"):
        model_from_state(ModelState("pickle"))
