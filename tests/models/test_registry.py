"""Laws of the registry: every model and everything that files keep of models is in it; seeds of models."""

import inspect
import pkgutil
from importlib import import_module

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import drpu.models
import drpu.networks
from drpu import ClassifierRatio, DRPUClassifier, KernelRatio, NetworkRatio, RatioLearner
from drpu._codec import KINDS
from drpu.models.learner import Function, ScoreLearner, seeded
from drpu.models.registry import KIND_MODULES, LEARNERS, resolve_model
from drpu.state.record import parameters_of, read_parameters


def declared(base):
    """The concrete subclasses of ``base`` that the packages of models declare."""
    for package in (drpu.models, drpu.networks):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    waiting = [base]
    classes = set()
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if not inspect.isabstract(cls) and cls.__module__.startswith(("drpu.models", "drpu.networks")):
            classes.add(cls)
    return classes


@pytest.mark.parametrize("base", [RatioLearner, ScoreLearner])
def test_every_learner_is_one_line_of_the_registry(base):
    learners = declared(base)
    assert learners
    assert learners <= {model.learner_class() for model in LEARNERS.values()}


def test_every_line_is_a_learner_that_is_declared_where_it_says():
    for model in LEARNERS.values():
        assert model.learner_class() in declared(RatioLearner) | declared(ScoreLearner)
        assert model.learner_class().__module__ == model.module


def test_names_are_those_of_ratios_or_of_scores():
    for model in LEARNERS.values():
        is_score = issubclass(model.learner_class(), ScoreLearner)
        assert (model.ratio is None) or not is_score
        assert (model.score is None) or is_score


def test_every_function_has_a_kind_whose_module_is_imported_before_a_file_is_read():
    functions = declared(Function)
    assert len(functions) > 5
    assert functions <= set(KINDS.values())
    assert {function.__module__ for function in functions} <= set(KIND_MODULES)


@pytest.mark.parametrize("model", LEARNERS.values(), ids=LEARNERS)
def test_a_file_keeps_every_learner_whose_parameters_are_plain(model):
    learner = model.learner_class()()
    parameters = read_parameters(parameters_of(DRPUClassifier(model=learner)))
    assert type(parameters["model"]) is type(learner)
    assert parameters["model"].get_params() == learner.get_params()


# -- models of users ----------------------------------------------------------------------------------


def test_a_density_ratio_stands_for_itself_and_is_not_touched():
    model = KernelRatio("rows", n_centres=7)
    resolved = resolve_model(model)
    assert resolved is not model
    assert resolved.get_params() == model.get_params()


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
