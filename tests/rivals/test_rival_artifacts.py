"""The other PU methods in artifacts and pipelines."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from drpu import ElkanNotoClassifier, PriorEstimate, UPUClassifier, load, save
from drpu.exceptions import ArtifactError, DataError, ParameterError
from drpu.models.fourier import KernelScore
from drpu.models.registry import LearntElsewhere
from rival_settings import fitted, make_toy, rivals


@pytest.fixture(scope="module")
def toy():
    return make_toy()


@rivals
@pytest.mark.filterwarnings("ignore::drpu.exceptions.PositiveLabelWarning")
def test_what_is_loaded_answers_as_what_was_saved(rival, toy, tmp_path):
    X, y = toy.X_y()
    clf = clone(rival).set_params(random_state=0, prior=PriorEstimate(0.4, 0.3, 0.5, 0.9, "elsewhere"))
    clf.fit(pd.DataFrame(X, columns=["a", "b"]), np.where(y == 1, "yes", "no"))
    save(clf, tmp_path / "once.drpu")
    save(load(tmp_path / "once.drpu", trusted=True), tmp_path / "twice.drpu")
    back = load(tmp_path / "twice.drpu", trusted=True)
    new = pd.DataFrame(toy.test, columns=["a", "b"])
    assert type(back) is type(clf)
    assert_array_equal(back.decision_function(new), clf.decision_function(new))
    assert_array_equal(back.predict(new[["b", "a"]]), clf.predict(new))
    with pytest.raises(DataError, match="none called 'a'"):
        back.predict(new[["b"]])
    assert back.prior_ == clf.prior_
    assert back.get_params(deep=False).keys() == clf.get_params(deep=False).keys()
    if isinstance(
        back.get_params()["classifier" if "classifier" in back.get_params() else "model"], LearntElsewhere
    ):
        with pytest.raises(ParameterError, match="must be set before this classifier is fitted again"):
            clone(back).fit(X, y)
    else:
        assert clone(back).fit(X, y).predict(toy.test).shape == (len(toy.test),)


@rivals
def test_parameters_are_searched_inside_a_pipeline(rival, toy):
    X, y = toy.X_y()
    pipeline = make_pipeline(StandardScaler(), clone(rival).set_params(random_state=0))
    step = pipeline.steps[-1][0]
    search = GridSearchCV(pipeline, {f"{step}__cost": [0.4, 0.6]}, cv=2, scoring="roc_auc").fit(X, y)
    assert search.predict(toy.test).shape == (len(toy.test),)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("cost", ["a", (), 0.0, 2.0, None])
def test_a_record_has_a_cost(toy, cost):
    record = fitted(
        UPUClassifier(KernelScore(n_features=20), prior=0.4, scenario="case-control"), toy
    ).record()
    with pytest.raises(ParameterError, match="cost must"):
        replace(record, parameters=record.parameters | {"cost": cost})


def test_rows_inside_a_classifier_are_not_saved_unasked(toy, tmp_path):
    clf = fitted(ElkanNotoClassifier(KNeighborsClassifier(), scenario="case-control"), toy)
    with pytest.raises(ArtifactError, match="training rows"):
        save(clf, tmp_path / "a.drpu")
