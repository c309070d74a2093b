"""scikit-learn estimators in files: allowed types are restored, keep no rows, and are safe to load."""

import io
import json
import zipfile

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import FeatureAgglomeration, KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeClassifier, SGDClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from drpu.exceptions import ArtifactError
from drpu.functions.saved.allowed import MEANS, ROW_FREE, TYPES, VALUES, kept_values
from drpu.functions.saved.read import read_estimators
from drpu.functions.saved.write import write_estimators

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)

linear = LogisticRegression(max_iter=500)
HOLD_NO_ROWS = {
    "linear": linear,
    "chosen linear": LogisticRegressionCV(cv=StratifiedKFold(2), Cs=2, max_iter=300),
    "stochastic": SGDClassifier(loss="log_loss", random_state=0),
    "bayes": GaussianNB(),
    "bernoulli": BernoulliNB(),
    "multinomial": VotingClassifier([("a", MultinomialNB()), ("b", ComplementNB())], voting="soft"),
    "discriminant": LinearDiscriminantAnalysis(),
    "quadratic": QuadraticDiscriminantAnalysis(),
    "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
    "random tree": ExtraTreeClassifier(max_depth=3, random_state=0),
    "forest": RandomForestClassifier(3, random_state=0),
    "random forest": ExtraTreesClassifier(3, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=3, random_state=0),
    "histograms": HistGradientBoostingClassifier(max_iter=3, random_state=0),
    "perceptron": MLPClassifier((4,), max_iter=20, random_state=0),
    "sigmoid": CalibratedClassifierCV(LinearSVC(random_state=0), cv=2),
    "isotonic": CalibratedClassifierCV(RidgeClassifier(), cv=2, method="isotonic"),
    "bagging": BaggingClassifier(linear, 2, random_state=0),
    "ada": AdaBoostClassifier(n_estimators=2, random_state=0),
    "stack": StackingClassifier([("a", linear), ("b", GaussianNB())], cv=2),
    "scaled": make_pipeline(
        SimpleImputer(add_indicator=True), StandardScaler(), PCA(2, random_state=0), linear
    ),
    "robust": make_pipeline(RobustScaler(), TruncatedSVD(2, random_state=0), linear),
    "chosen": make_pipeline(VarianceThreshold(), SelectKBest(k=2), SelectFromModel(linear), linear),
    "powers": make_pipeline(PolynomialFeatures(2), PowerTransformer(), linear),
    "waves": make_pipeline(StandardScaler(), RBFSampler(n_components=5, random_state=0), linear),
    "union": make_pipeline(
        FeatureUnion([("a", Normalizer()), ("b", Binarizer()), ("c", FunctionTransformer(np.log1p))]), linear
    ),
    "columns": make_pipeline(
        ColumnTransformer([("a", StandardScaler(), [0]), ("b", "passthrough", [1, 2])]), linear
    ),
}
HOLD_VALUES = {
    "neighbours": KNeighborsClassifier(3),
    "support": SVC(probability=True, random_state=0),
    "process": GaussianProcessClassifier(1.0 * RBF() + WhiteKernel()),
    "landmarks": make_pipeline(Nystroem(n_components=5, random_state=0), linear),
    "neighbours for gaps": make_pipeline(KNNImputer(n_neighbors=2), linear),
    "centres": make_pipeline(KMeans(20, n_init=1, random_state=0), linear),
    "ranges": make_pipeline(MinMaxScaler(), MaxAbsScaler(), linear),
    "quantiles": make_pipeline(
        QuantileTransformer(n_quantiles=10), KBinsDiscretizer(3, encode="ordinal"), linear
    ),
    "categories": make_pipeline(OneHotEncoder(handle_unknown="ignore"), linear),
    "codes": make_pipeline(OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), linear),
    "splines": make_pipeline(SplineTransformer(n_knots=3), linear),
}
ALL = HOLD_NO_ROWS | HOLD_VALUES


def data(seed=0, n=60):
    rng = np.random.default_rng(seed)
    label = np.repeat([1, 0], [n // 3, n - n // 3])
    return np.abs(rng.normal(size=(n, 3)) + label[:, None]), label


@pytest.fixture(scope="module")
def archives():
    X, y = data()
    fitted = {name: clone(estimator).fit(X, y) for name, estimator in ALL.items()}
    return {name: (estimator, write_estimators([estimator])) for name, estimator in fitted.items()}


def contents(archive):
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


@pytest.mark.parametrize("name", ALL)
def test_what_is_allowed_comes_back_and_gives_the_same_bytes(name, archives):
    estimator, archive = archives[name]
    (again,) = read_estimators(archive)
    new = data(1)[0]
    np.testing.assert_allclose(again.predict_proba(new), estimator.predict_proba(new), rtol=1e-12, atol=1e-12)
    if name != "splines":  # whose arrays SciPy pads
        assert write_estimators([again]) == archive
    again.fit(*data())  # and it can be fitted again


@pytest.mark.parametrize("name", HOLD_NO_ROWS)
def test_no_training_row_is_in_what_is_known_to_be_row_free(name, archives):
    estimator, archive = archives[name]
    assert kept_values(estimator) == {}
    inside = b"".join(contents(archive).values())
    for row in data()[0]:
        assert row.tobytes() not in inside
        assert row.astype(np.float32).tobytes() not in inside


@pytest.mark.parametrize("name", HOLD_VALUES)
def test_what_keeps_values_is_named(name, archives):
    assert set(kept_values(archives[name][0]).values()) <= set(VALUES.values())
    assert kept_values(archives[name][0])


def test_every_allowed_type_is_among_the_examples(archives):
    used = set()

    def collect(node):
        for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            collect(item)
        if isinstance(node, dict) and node.get("__loader__") == "ObjectNode":
            used.add(f"{node['__module__']}.{node['__class__']}")

    for _, archive in archives.values():
        collect(json.loads(contents(archive)["schema.json"]))
    assert used >= TYPES
    assert not ROW_FREE & VALUES.keys()
    assert not ROW_FREE & MEANS


def test_what_is_not_allowed_is_refused_when_it_is_written():
    X, y = data()
    with pytest.raises(ArtifactError, match="FeatureAgglomeration"):
        write_estimators([make_pipeline(FeatureAgglomeration(2), linear).fit(X, y)])


# -- files that were changed ---------------------------------------------------------------


def rewritten(archive, change):
    """The archive after ``change(schema, files)``."""
    files = contents(archive)
    schema = json.loads(files.pop("schema.json"))
    change(schema, files)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as opened:
        for name, content in {"schema.json": json.dumps(schema).encode(), **files}.items():
            opened.writestr(name, content)
    return out.getvalue()


def edit_nodes(field, index, value):
    """An edit of the records that trees are made of."""

    def change(schema, files):
        for name, content in files.items():
            array = np.load(io.BytesIO(content))
            if array.dtype.names and field in array.dtype.names:
                array[field][index] = value
                out = io.BytesIO()
                np.save(out, array)
                files[name] = out.getvalue()

    return change


TREE_EDITS = [
    ("left_child", 0, 10**9),
    ("left_child", 0, 0),
    ("right_child", 0, -5),
    ("right_child", 0, 1),
    ("left_child", -1, 0),
    ("feature", 0, 3),
    ("feature", 0, 10**12),
    ("feature", 0, -1),
    ("threshold", 0, np.nan),
    ("missing_go_to_left", 0, 7),
]
HISTOGRAM_EDITS = [
    ("left", 0, 2**32 - 1),
    ("left", 0, 0),
    ("feature_idx", 0, 3),
    ("feature_idx", 0, -(2**40)),
    ("is_leaf", -1, 0),
    ("is_categorical", 0, 1),
    ("num_threshold", 0, np.nan),
    ("value", -1, np.nan),
]


@pytest.mark.parametrize(
    ("name", "edit"),
    [("tree", edit) for edit in TREE_EDITS]
    + [("forest", edit) for edit in TREE_EDITS[:2]]
    + [("boosting", edit) for edit in TREE_EDITS[5:6]]
    + [("histograms", edit) for edit in HISTOGRAM_EDITS],
)
def test_damaged_trees_never_reach_scikit_learn(name, edit, archives):
    with pytest.raises(ArtifactError, match="damaged"):
        read_estimators(rewritten(archives[name][1], edit_nodes(*edit)))


def find(node, key):
    """The first value of ``key`` in a tree of nodes."""
    if isinstance(node, dict):
        if key in node:
            return node[key]
        node = list(node.values())
    for item in node if isinstance(node, list) else ():
        found = find(item, key)
        if found is not None:
            return found
    return None


def plain(value):
    return {
        "__class__": "str",
        "__module__": "builtins",
        "__loader__": "JsonNode",
        "content": json.dumps(value),
    }


def set_plain(key, value):
    def change(schema, files):
        node = find(schema, key)
        node.clear()
        node.update(
            {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"},
            content=json.dumps(value),
        )

    return change


def rename(**names):
    return lambda schema, files: schema["content"][0].update(names)


def replace_array(key, array):
    def change(schema, files):
        out = io.BytesIO()
        np.save(out, array)
        keys = key if isinstance(key, tuple) else (key,)  # some have other names in other versions
        files[next(node for node in (find(schema, k) for k in keys) if node)["file"]] = out.getvalue()

    return change


def claim_shape(shape):
    def change(schema, files):
        out = io.BytesIO()
        np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": shape})
        files[find(schema, "coef_")["file"]] = out.getvalue() + b"\x00" * 8

    return change


def nest(schema, files):
    for _ in range(400):
        schema["content"] = [dict(schema)]


CHANGES = {
    "another number of columns": ("tree", set_plain("n_features_in_", 2)),
    "no columns": ("forest", set_plain("n_features_in_", None)),
    "many classes": ("forest", set_plain("n_classes_", 10**9)),
    "many threads": ("forest", set_plain("n_jobs", 10**6)),
    "many powers": ("powers", set_plain("_max_degree", 19)),
    "a node too many": ("tree", set_plain("node_count", 10**6)),
    "a command": ("linear", rename(__module__="os", __class__="system")),
    "a function that runs code": (
        "linear", rename(__module__="builtins", __class__="eval", __loader__="FunctionNode")
    ),
    "an operator": ("linear", rename(__module__="operator", __loader__="OperatorFuncNode")),
    "an attribute over a method": (
        "linear", lambda schema, files: find(schema["content"], "content")["content"].update(fit=plain(1))
    ),
    "coefficients that are no numbers": ("linear", replace_array("coef_", np.array([["a", "b", "c"]]))),
    "NaN among the coefficients": ("linear", replace_array("coef_", np.array([[0, np.nan, 0]]))),
    "records among the coefficients": ("linear", replace_array("coef_", np.zeros(3, dtype=[("a", "f8")]))),
    "an array that claims more than it has": ("linear", claim_shape((10**10,))),
    "an array of a negative length": ("linear", claim_shape((-1,))),
    "an array without a file": ("linear", lambda schema, files: files.clear()),
    "a start of boosting without rows": ("boosting", replace_array("class_prior_", np.zeros((0, 2)))),
    "a start of boosting with other classes": ("boosting", set_plain("_strategy", "stratified")),
    "nodes without end": ("linear", nest),
    "nothing": ("linear", lambda schema, files: schema["content"].clear()),
    "a vector of support too many": ("support", replace_array("_n_support", np.array([9, 999], np.int32))),
    "support in other columns": ("support", replace_array("support_vectors_", np.zeros((5, 2)))),
    "neighbours in other columns": ("neighbours", replace_array("_fit_X", np.zeros((60, 1)))),
    "a spline without knots": ("splines", replace_array(("_t", "t"), np.zeros(2))),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_damaged_archives_are_refused(name, archives):
    which, change = CHANGES[name]
    with pytest.raises(ArtifactError):
        read_estimators(rewritten(archives[which][1], change))


def test_an_archive_that_grows_beyond_measure_is_refused():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("schema.json", b"[" + b" " * 30_000_000)
    with pytest.raises(ArtifactError):
        read_estimators(out.getvalue())
