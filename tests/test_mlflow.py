"""Classifiers as MLflow models: the pyfunc and the scikit-learn mlflow.sklearn."""

import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from drpu import DRPUClassifier, load, save
from fraud_data import fraud_classifier, payments

pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow and its dependencies


@pytest.fixture
def mlflow():
    return pytest.importorskip("mlflow", reason="a development dependency (mlflow-skinny)")


def make_model(mlflow):
    class Classifier(mlflow.pyfunc.PythonModel):
        """Loads the file of drpu, and takes the prior and the cost as parameters."""

        def load_context(self, context):
            self.classifier = load(context.artifacts["classifier"])

        def predict(self, context, model_input, params=None):
            moved = self.classifier
            if params is not None:
                moved = moved.at_prior(params["prior"]).at_cost(params["cost"])
            return outputs(moved, model_input)

    return Classifier()


def outputs(clf, X):
    return pd.DataFrame({"label": clf.predict(X), "probability": clf.predict_proba(X)[:, 1]})


def test_a_schema_is_inferred_after_missing_labels(mlflow):
    new = payments(300, 0.3, 2)
    labels = pd.Series(["yes" if k % 4 == 0 else None for k in range(300)])
    clf = DRPUClassifier("boosted", holdout=2, random_state=0).fit(new, labels)
    schema = mlflow.models.infer_signature(new, outputs(clf, new)).outputs
    assert [str(kind) for kind in schema.input_types()] == ["DataType.string", "DataType.double"]


@pytest.fixture(scope="module")
def clf():
    return fraud_classifier()


def test_a_file_of_drpu_is_served_by_pyfunc(mlflow, clf, tmp_path):
    save(clf, tmp_path / "fraud.drpu")
    new = payments(50, 0.2, 2)
    given = {"prior": 0.05, "cost": 0.8}
    signature = mlflow.models.infer_signature(new, outputs(clf, new), given)
    mlflow.pyfunc.save_model(
        tmp_path / "model",
        python_model=make_model(mlflow),
        artifacts={"classifier": str(tmp_path / "fraud.drpu")},
        signature=signature,
        pip_requirements=["drpu"],
    )
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    found = served.predict(new, params=given)
    at = clf.at_prior(0.05).at_cost(0.8)
    assert_array_equal(found["label"], at.predict(new))
    assert_array_equal(found["probability"], at.predict_proba(new)[:, 1])


def test_the_scikit_learn_flavour_takes_a_classifier(mlflow, clf, tmp_path):
    mlflow.sklearn.save_model(
        clf,
        tmp_path / "model",
        pip_requirements=["drpu"],
        serialization_format=mlflow.sklearn.SERIALIZATION_FORMAT_CLOUDPICKLE,
    )
    new = payments(50, 0.2, 3)
    again = mlflow.sklearn.load_model(str(tmp_path / "model"))
    assert again.adapt(new).prior_ == clf.adapt(new).prior_
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert_array_equal(served.predict(new), clf.predict(new))
