"""Laws of every learner of tables: seeds, few rows, files, checks of rows and of parameters."""

import numpy as np
import pytest
from class_samples import draw
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier

from codec_laws import check_kept, round_trip
from drpu import BoostedRatio, ClassifierRatio, DRPUClassifier, KernelRatio, export_onnx, make_gaussian_pu
from drpu._codec import encode
from drpu.exceptions import DataError, DataTypeError, ParameterError
from learners import AutoRatio, ForestRatio, FourierRatio, LinearRatio

SEEDED = {
    "auto": lambda seed=0: AutoRatio(random_state=seed),
    "boosted": lambda seed=0: BoostedRatio(random_state=seed),
    "forest": lambda seed=0: ForestRatio(20, random_state=seed),
    "fourier": lambda seed=0: FourierRatio(100, linear=True, random_state=seed),
    "centroids": lambda seed=0: KernelRatio("centroids", n_centres=60, random_state=seed),
    "features": lambda seed=0: KernelRatio("features", n_centres=60, random_state=seed),
    "rows": lambda seed=0: KernelRatio("rows", n_centres=60, random_state=seed),
    "trees of others": lambda seed=0: ClassifierRatio(RandomForestClassifier(5), random_state=seed),
}
LEARNERS = SEEDED | {"linear": LinearRatio, "classifier": ClassifierRatio}
every_learner = pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)


@pytest.fixture(scope="module")
def rows():
    return draw(np.random.default_rng(0), 60, 200)


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED)
def test_equal_seeds_give_equal_functions(make, rows):
    first, second, third = (make(seed).fit_ratio(*rows).log_ratio(rows[1]) for seed in (3, 3, 4))
    assert_array_equal(first, second)
    assert not np.array_equal(first, third)


@every_learner
@pytest.mark.parametrize(
    ("n_positive", "n_unlabeled", "d"),
    [(1, 1, 1), (2, 3, 2), (5, 5, 3), (3, 40, 2), (40, 3, 2), (9, 18, 300)],
)
def test_few_rows_still_give_a_finite_ratio(make, n_positive, n_unlabeled, d, capfd):
    rng = np.random.default_rng(0)
    function = make().fit_ratio(*draw(rng, n_positive, n_unlabeled, d=d))
    assert np.isfinite(function.log_ratio(rng.normal(size=(9, d)))).all()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", [name for name in SEEDED if name not in ("auto", "trees of others")])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_row_has_the_same_score_however_the_rows_are_divided(name, dtype):
    rng = np.random.default_rng(1)
    positive, unlabeled, new = (
        rng.normal(shift, 1, (n, 7)).astype(dtype) for shift, n in ((1, 100), (0.3, 400), (0.4, 3001))
    )
    model = SEEDED[name]().fit_ratio(positive, unlabeled)
    whole = model.log_ratio(new)
    for size in (1, 3, 64, 1000):
        starts = range(0, min(len(new), 40 * size), size)
        scores = np.concatenate([model.log_ratio(new[start : start + size]) for start in starts])
        assert_array_equal(scores, whole[: len(scores)])
    assert_array_equal(model.log_ratio(new[::-1])[::-1], whole)
    assert_array_equal(model.log_ratio(np.asfortranarray(new)), whole)  # as data frames store them


@every_learner
def test_a_function_comes_back_from_a_file(make, rows):
    function = make().fit_ratio(*rows)
    again = round_trip(function)
    assert_array_equal(again.log_ratio(rows[1]), function.log_ratio(rows[1]))
    assert again.n_columns == 3
    assert again.keeps == function.keeps


KERNEL = {"n_centres": 3, "width": 1.0, "ridge": 1.0, "random_state": 0}
SMALL = {
    "boosted": BoostedRatio(n_rounds=2, leaves=3, random_state=0),
    "fourier": FourierRatio(3, linear=True, random_state=0),
    "linear": LinearRatio(),
    "centroids": KernelRatio("centroids", **KERNEL),
    "features": KernelRatio("features", **KERNEL),
    "rows": KernelRatio("rows", **KERNEL),
}


@pytest.mark.parametrize("name", SMALL)
def test_no_edit_of_a_file_gives_another_error(name, rows):
    check_kept(SMALL[name].fit_ratio(*rows))


@pytest.mark.parametrize("name", [*SMALL, "classifier"])
def test_sparse_rows_are_learnt_and_scored_as_dense_ones(name, rows):
    learner = SMALL.get(name, ClassifierRatio())
    if name == "fourier":
        with pytest.raises(DataTypeError, match="sparse"):
            learner.fit_ratio(*map(sparse.csr_array, rows))
        return
    positive, unlabeled = (np.where(np.abs(X) < 0.7, 0, X) for X in rows)
    dense = learner.fit_ratio(positive, unlabeled)
    thin = learner.fit_ratio(sparse.csr_array(positive), sparse.csc_matrix(unlabeled))
    scores = thin.log_ratio(sparse.csr_matrix(unlabeled))
    # Logistic regressions on columns of another centre end elsewhere within their tolerance.
    most = 2e-3 if name in ("linear", "classifier") else 1e-8
    assert_allclose(scores, dense.log_ratio(unlabeled), atol=most)


OVERFITTING = ("auto", "boosted", "trees of others")  # their trees tell copies of a row apart


@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in OVERFITTING])
def test_the_ratio_of_equal_samples_is_one(name):
    learner = ForestRatio(min_leaf=100, random_state=0) if name == "forest" else LEARNERS[name]()
    same = draw(np.random.default_rng(0), 1, 600)[1]
    # Trees that see other rows differ by chance: 100 rows a leaf are odds with a standard error of 0.14.
    most = 0.35 if name == "forest" else 0.02
    assert np.abs(learner.fit_ratio(same, same).log_ratio(same)).max() < most
    constant = np.ones((30, 2))  # a tree that cannot split says nothing
    assert_allclose(LEARNERS[name]().fit_ratio(constant, constant).ratio(constant), 1, atol=0.05)


@pytest.mark.parametrize("name", ["forest", "classifier"])
def test_learners_that_do_not_stop_early_refuse_held_out_rows(name, rows):
    with pytest.raises(ParameterError, match="holdout must be None"):
        LEARNERS[name]().fit_ratio(*rows, holdout=rows)


def in_all_forms(function, X):
    """The rows as they came and, where the function standardises columns, standardised."""
    basis = getattr(function, "basis", None) or getattr(function, "cosines", None)
    if basis is None:
        return [X]
    return [X, (X - basis.scaling.shift) / basis.scaling.scale]


@pytest.mark.parametrize("sizes", [(60, 200), (7, 7), (4, 4)])
@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "rows"])
def test_a_file_holds_no_training_row(name, sizes):
    rows = draw(np.random.default_rng(0), *sizes)
    function = LEARNERS[name]().fit_ratio(*rows)
    assert function.keeps == {}
    _, arrays, blobs = encode(function)
    numbers = {float(number) for array in arrays.values() for number in array.ravel()}
    kept = b"".join([*(array.tobytes() for array in arrays.values()), *blobs.values()])
    for X in rows:
        for row in np.vstack(in_all_forms(function, X)):
            assert row.tobytes() not in kept
            assert row.astype(np.float32).tobytes() not in kept
            assert not numbers.issuperset(row.tolist())


def test_centres_that_are_rows_are_told(rows):
    assert "rows" in str(KernelRatio("rows", random_state=0).fit_ratio(*rows).keeps)


@every_learner
def test_rows_are_checked(make, rows):
    function = make().fit_ratio(*rows)
    with pytest.raises(DataError, match="X must have 3 columns"):
        function.log_ratio(rows[1][:, :2])
    with pytest.raises(DataError, match="infinity"):
        function.log_ratio(np.full((1, 3), np.inf))
    with pytest.raises(DataError, match="the same columns"):
        make().fit_ratio(rows[0][:, :2], rows[1])


@pytest.mark.parametrize(
    ("learner", "most"),
    [
        (AutoRatio(random_state=0), 0.2),
        (ForestRatio(random_state=0), 0.25),  # leaves are noisy where the classes overlap
        (FourierRatio(300, random_state=0), 0.15),
        (BoostedRatio(random_state=0), 0.25),
        (KernelRatio("centroids", random_state=0), 0.12),
        (KernelRatio("rows", random_state=0), 0.12),
    ],
)
def test_a_gaussian_ratio_is_learnt(learner, most):
    train = make_gaussian_pu(1500, 4000, prior=0.4, separation=3, random_state=1)
    new = make_gaussian_pu(1, 3000, prior=0.4, separation=3, random_state=2).unlabeled
    ratio = learner.fit_ratio(train.positive, train.unlabeled).ratio(new)
    # A constant ratio of 1 has a mean error of 1.1.
    assert np.mean(np.abs(ratio - train.ratio(new))) < most
    assert abs(ratio.mean() - 1) < 0.1


WRONG = {
    BoostedRatio: {
        "n_rounds": [0], "learning_rate": [0.0], "leaves": [1], "min_leaf": [0], "l2": [-1.0],
        "row_share": [0.0], "early_stopping": ["yes"], "holdout": [0.0], "n_jobs": [0],
    },
    ForestRatio: {"n_trees": [0, 1.5], "min_leaf": [0, "few"], "most_leaves": [1]},
    FourierRatio: {"n_features": [0, 1.5], "C": [0, "large"]},
    KernelRatio: {
        "centres": ["corners"], "n_centres": [0], "width": [-1.0, "wide"], "ridge": [0.0], "holdout": [1.0],
    },
}  # fmt: skip


@pytest.mark.parametrize("learner", WRONG, ids=lambda learner: learner.__name__)
def test_parameters_that_break_their_rule_are_named(learner, rows):
    for name, values in WRONG[learner].items():
        for value in values:
            with pytest.raises(ParameterError, match=name):
                learner(**{name: value}).fit_ratio(*rows)


# -- codes of categories -----------------------------------------------------------------------------


MODELS = [AutoRatio, BoostedRatio, ForestRatio]


@pytest.fixture(scope="module")
def samples():
    """Nine of ten positives have odd codes; unlabeled rows have all codes with equal frequency."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 10, 1500)
    odd = rng.permutation(codes[:500] // 2 * 2 + (rng.random(500) < 0.9))
    positive = np.column_stack([rng.normal(size=500), odd]).astype(float)
    unlabeled = np.column_stack([rng.normal(size=1000), codes[500:]]).astype(float)
    return positive, unlabeled


def shuffled(rows, order):
    """The same rows with other codes for the same levels."""
    return np.column_stack([rows[:, 0], np.asarray(order)[rows[:, 1].astype(int)]]).astype(float)


@pytest.mark.parametrize("kind", MODELS)
def test_the_ratio_of_a_level_is_learnt_whatever_its_code(kind, samples):
    order = np.random.default_rng(1).permutation(10)
    positive, unlabeled = (shuffled(rows, order) for rows in samples)
    model = kind(categories=[1], random_state=0).fit_ratio(positive, unlabeled)
    grid = np.column_stack([np.zeros(10), order]).astype(float)
    ratio = model.ratio(grid)  # in truth 0.9 and 0.1 over a half; 90 and 10 positives a level
    assert ratio[1::2].min() > 1
    assert ratio[::2].max() < 0.8


@pytest.mark.parametrize("kind", MODELS)
def test_functions_of_categories_come_back_from_files(kind, samples):
    model = kind(categories=(1,), random_state=0).fit_ratio(*samples)
    new = np.array([[0.1, 3.0], [0.2, 99.0], [-1.0, 0.0]])  # 99 is a code that training did not have
    again = round_trip(model)
    assert_array_equal(again.log_ratio(new), model.log_ratio(new))
    assert np.isfinite(model.log_ratio(new)).all()


@pytest.mark.parametrize("kind", MODELS)
def test_positions_outside_the_columns_are_refused(kind, samples):
    for wrong in ([2], [-1], [0.5]):
        with pytest.raises(ParameterError, match="categories"):
            kind(categories=wrong).fit_ratio(*samples)


@pytest.mark.parametrize("kind", MODELS)
def test_codes_that_need_too_many_bits_are_refused(kind, samples):
    positive, unlabeled = (rows.copy() for rows in samples)
    unlabeled[0, 1] = 2**16
    if kind is not AutoRatio:  # whose smooth member says how it fills gaps
        unlabeled[1, 1] = np.nan
    with pytest.raises(DataError, match=r"column 1 has the category code 65536.*below 65536"):
        kind(categories=[1]).fit_ratio(positive, unlabeled)


@pytest.mark.parametrize("model", [AutoRatio(categories=[1]), BoostedRatio(categories=[1], n_rounds=20)])
def test_splits_on_categories_are_exported(model, samples, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="part of the onnx extra")
    clf = DRPUClassifier(model, holdout=2, random_state=0).fit_pu(*samples)
    export_onnx(clf, tmp_path / "graph.onnx")
    session = runtime.InferenceSession(tmp_path / "graph.onnx", providers=["CPUExecutionProvider"])
    new = np.column_stack([np.linspace(-2, 2, 120), np.arange(120) % 12]).astype(float)
    new[:4, 1] = -1, 31, 32, 1e12  # no code of training
    if isinstance(model, BoostedRatio):
        new[4, 1] = np.nan
    feed = {"X": new, "prior": np.array([0.3]), "cost": np.array([0.5])}
    (probability,) = session.run(["probability"], feed)
    assert_allclose(probability, clf.at_prior(0.3).predict_proba(new)[:, 1], atol=1e-5)
