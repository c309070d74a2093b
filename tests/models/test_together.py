"""Models that are scored together: a row has the scores of each model alone, in a batch of any size."""

import copy
import importlib.util
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from drpu import BoostedRatio, DRPUClassifier
from drpu._samples import Sample, SamplePair
from drpu.models.auto import SizeDecisions
from learners import AutoRatio, ForestRatio

COLUMNS = 6


def rows(n, seed=0, gaps=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, COLUMNS))
    X[:, -1] = rng.integers(0, 4, n)
    X[rng.random(X.shape) < gaps] = np.nan
    return X


def labelled(n_positive=120, n_unlabeled=400, gaps=0.0):
    X = rows(n_positive + n_unlabeled, gaps=gaps)
    y = np.repeat([1, 0], [n_positive, n_unlabeled])
    X[y == 1, 0] += 1.5
    return X, y


@pytest.fixture(scope="module")
def fitted():
    return DRPUClassifier(random_state=0).fit(*labelled())


@pytest.fixture(scope="module")
def fitted_with_gaps():
    return DRPUClassifier(random_state=0).fit(*labelled(gaps=0.1))


def each_alone(model, X):
    """Scores by one model after the other."""
    return np.column_stack([part.score(X) for part in model.all_functions])


def in_batches(model, X, size):
    parts = [model.scores(X[start : start + size]) for start in range(0, X.shape[0], size)]
    return np.concatenate(parts)


SIZES = (1, 3, 32, 33, 70)  # rows are scored in another way from 33 on


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_row_has_the_scores_of_each_model_alone_in_any_batch(fitted, size, dtype):
    X = rows(70, seed=1).astype(dtype)
    farthest = np.log10(np.finfo(dtype).max) - 2
    X[:40] *= np.logspace(-farthest, farthest, 40, dtype=dtype)[:, None]
    assert_array_equal(in_batches(fitted.model_, X, size), each_alone(fitted.model_, X))


@pytest.mark.parametrize("size", SIZES)
def test_rows_with_gaps_and_unseen_categories_have_the_same_scores_in_any_batch(fitted_with_gaps, size):
    X = rows(70, seed=2, gaps=0.3)
    X[:5] = np.nan
    X[5:10, -1] = 1000.0
    assert_array_equal(in_batches(fitted_with_gaps.model_, X, size), each_alone(fitted_with_gaps.model_, X))


def test_sparse_rows_have_the_same_scores_in_any_batch():
    X, y = labelled()
    X = sparse.csr_matrix(np.where(np.abs(X) > 0.8, X, 0.0))
    model = DRPUClassifier(random_state=0).fit(X, y).model_
    assert_array_equal(in_batches(model, X[:20], 1), each_alone(model, X[:20]))


@pytest.mark.parametrize(
    "models",
    [
        [BoostedRatio(n_rounds=7, random_state=0), BoostedRatio(n_rounds=3, random_state=1)],
        [ForestRatio(5, random_state=0), ForestRatio(9, random_state=1)],
    ],
)
def test_models_of_trees_alone_have_the_same_scores_in_any_batch(fitted, models):
    X, y = labelled()
    functions = tuple(model.fit_ratio(X[y == 1], X[y == 0]) for model in models)
    folded = replace(fitted.model_, functions=functions, whole=None)
    new = rows(50, seed=4)
    assert_array_equal(in_batches(folded, new, 1), each_alone(folded, new))


def chosen(function, kept):
    """The function with some of its members, in that order."""
    return replace(
        function, members=tuple(function.members[i] for i in kept), weights=function.weights[list(kept)]
    )


@pytest.mark.parametrize("members", [([0], [1], [2], [0, 2], [1, 2]), ([1, 2, 0],) * 5])
def test_models_with_other_members_or_another_order_have_the_same_scores_in_any_batch(fitted, members):
    parts = zip(fitted.model_.functions, members, strict=True)
    functions = tuple(chosen(function, kept) for function, kept in parts)
    model = replace(fitted.model_, functions=functions, whole=None)
    X = rows(50, seed=5)
    assert_array_equal(in_batches(model, X, 1), each_alone(model, X))


def test_threads_score_single_rows_alike(fitted):
    X = rows(200, seed=6)
    model = copy.deepcopy(fitted.model_)  # nothing is prepared yet
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(model.scores, X[:, None]))
    assert_array_equal(np.concatenate(found), each_alone(model, X))


def test_what_is_prepared_for_scoring_is_not_pickled(fitted):
    X = rows(5, seed=7)
    again = pickle.loads(pickle.dumps(fitted))
    before = len(pickle.dumps(again))
    assert_array_equal(again.ratio(X), fitted.ratio(X))
    assert len(pickle.dumps(again)) == before


def chosen_learners(folds, weighted=False):
    X, y = labelled()
    pair = SamplePair(Sample(X[y == 1]), Sample(X[y == 0]))
    size = SizeDecisions(trees=True, balanced=not weighted, weighted=weighted, linear=False)
    return [one._choose(pair, [5, 6, 7], size) for one in AutoRatio().for_folds(pair, folds)]


def test_trees_of_different_folds_have_different_seeds(fitted):
    for each in list(zip(*chosen_learners(5), strict=True))[:2]:
        assert len({learner.random_state for learner in each}) == len(fitted.model_.functions) == 5


@pytest.mark.parametrize("folds", [2, 3, 5, 10, 50])
def test_many_folds_have_fewer_trees_each(folds):
    forest, balanced, boosted, _ = chosen_learners(folds)[0]
    assert balanced.balanced
    assert forest.n_trees + balanced.n_trees == 70 < ForestRatio().n_trees
    assert boosted.n_rounds * boosted.learning_rate == pytest.approx(9.0)
    assert 0.05 < chosen_learners(folds, weighted=True)[0][1].learning_rate <= 0.25


def test_a_single_model_has_all_its_trees():
    X, y = labelled()
    model = AutoRatio(random_state=0).fit_ratio(X[y == 1], X[y == 0])
    assert sum(len(member.trees) for member in model.members[:2]) == ForestRatio().n_trees


# -- a forked child ----------------------------------------------------------------------------------


SCRIPT = """
import os, signal, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from drpu import BoostedRatio, NetworkRatio, make_gaussian_pu
from drpu.models.boosted import ForestRatio

models = [BoostedRatio(n_jobs=-1, n_rounds=5), ForestRatio(5, n_jobs=-1)]
if sys.argv[1] == "networks":
    import torch
    torch.set_num_threads(4)
    models.append(NetworkRatio(hidden=(64, 64), epochs=1, alpha=0.3, device="cpu"))
data = make_gaussian_pu(100, 1000, prior=0.4, separation=3, dimensions=5, random_state=0)
fitted = [model.fit_ratio(data.positive, data.unlabeled) for model in models]
rows = np.repeat(data.unlabeled, 20, axis=0)
expected = [model.log_ratio(rows) for model in fitted]
child = os.fork()
if child == 0:
    signal.alarm(60)  # ends a child that hangs
    same = [np.allclose(model.log_ratio(rows), scores, atol=1e-6) for model, scores in zip(fitted, expected)]
    os._exit(0 if all(same) else 3 + same.index(False))  # the code says which model differs
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_predicts():
    networks = "networks" if importlib.util.find_spec("torch") else "none"
    environment = os.environ | {"OMP_NUM_THREADS": "4", "OMP_WAIT_POLICY": "passive"}
    subprocess.run([sys.executable, "-c", SCRIPT, networks], check=True, env=environment)


FIT_SCRIPT = """
import os, signal, sys, threading, warnings
import numpy as np
warnings.simplefilter("ignore")
from drpu import KernelRatio, NetworkRatio, make_gaussian_pu

models = [KernelRatio(width=1.0, ridge=0.1, random_state=0)]
if sys.argv[1] == "networks":
    models.append(NetworkRatio(hidden=(64,), epochs=1, alpha=0.3, device="cpu", random_state=0))
data = make_gaussian_pu(300, 2000, prior=0.4, separation=3, dimensions=5, random_state=0)

def scores(model):
    return model.fit_ratio(data.positive, data.unlabeled).log_ratio(data.unlabeled)

expected = [scores(model) for model in models]
child = os.fork()
if child == 0:
    signal.alarm(120)  # ends a child that hangs
    thread = threading.Thread(target=scores, args=models[:1])
    thread.start()
    thread.join()
    same = [np.allclose(scores(model), before, atol=0.05) for model, before in zip(models, expected)]
    os._exit(0 if all(same) else 3 + same.index(False))  # the code says which model differs
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_fits():
    networks = "networks" if importlib.util.find_spec("torch") else "none"
    environment = os.environ | {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
    subprocess.run([sys.executable, "-c", FIT_SCRIPT, networks], check=True, env=environment)
