"""What a file cannot do: make large things of small numbers, start processes, or write into a page."""

import io
import json
import locale
import os
import random
import re
import sys
import threading
import warnings
import zipfile
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
import safetensors.numpy
from changed_files import rewrite, setting
from scipy import sparse
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

from drpu import (
    Audit,
    BoostedRatio,
    Costs,
    DRPUClassifier,
    KernelRatio,
    NetworkRatio,
    PriorEstimate,
    PriorMonitor,
    ScoreTails,
    export_onnx,
    load,
    make_gaussian_pu,
    save,
    verify,
)
from drpu.exceptions import ArtifactError, DataError, DRPUError
from drpu.files.store import inspect_file
from drpu.models.estimators import read_estimators, write_estimators
from drpu.models.registry import LearntElsewhere
from hostile_texts import HOSTILE

pytestmark = [
    pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # overflow in steps of scikit-learn
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(60, 200, prior=0.4, separation=3, dimensions=3, random_state=0)


@pytest.fixture(scope="module")
def clf(data):
    model = KernelRatio(width=1.0, ridge=0.1, n_centres=8)
    return DRPUClassifier(model, holdout=2, random_state=0).fit(*data.X_y())


def replaced(tree, old, new):
    """The tree with every integer ``old`` replaced."""
    if isinstance(tree, dict):
        return {key: replaced(value, old, new) for key, value in tree.items()}
    if isinstance(tree, list):
        return [replaced(value, old, new) for value in tree]
    return new if tree == old and type(tree) is int else tree


def scaled(name, factor):
    """The change of a file that multiplies an array."""

    def change(_, parts):
        arrays = dict(safetensors.numpy.load(parts["arrays.safetensors"]))
        arrays[name] = arrays[name] * factor
        parts["arrays.safetensors"] = safetensors.numpy.save(arrays)

    return change


# -- numbers that count something ----------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 4, 10**6, 2**31, 10**10])
@pytest.mark.parametrize("model", [KernelRatio(width=1.0, ridge=0.1, n_centres=8), BoostedRatio(n_rounds=2)])
def test_a_count_is_compared_with_what_it_counts(model, n, data, tmp_path):
    path = tmp_path / "a.drpu"
    save(DRPUClassifier(model, holdout=2, random_state=0).fit(*data.X_y()), path)
    rewrite(path, setting("tree", "fields", "fitted", "fields", "columns", "fields", "n", n))
    with pytest.raises(ArtifactError, match="columns"):
        load(path)


@pytest.mark.parametrize("n", [10**6, 2**31 - 1])
def test_many_columns_that_agree_with_each_other_make_nothing_large(n, data, tmp_path):
    path = tmp_path / "a.drpu"
    save(DRPUClassifier(BoostedRatio(n_rounds=2), holdout=2, random_state=0).fit(*data.X_y()), path)
    rewrite(path, lambda manifest, _: manifest.update(tree=replaced(manifest["tree"], 3, n)))
    with suppress(ArtifactError), warnings.catch_warnings():
        back = load(path)
        with pytest.raises(DRPUError, match=r"X has 3 features|columns"):
            back.predict(data.unlabeled)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("fitted.tails.n_positive", 1e-100),
        ("fitted.prior.level", 1e-100),
        ("point.prior.level", 1e-100),
        ("reading.rows", 0),
    ],
)
def test_numbers_that_no_data_have_are_refused(place, value, clf, data, tmp_path):
    path = tmp_path / "a.drpu"
    save(clf.adapt(data.unlabeled), path)
    way = ["tree"]
    for name in place.split("."):
        way += ["fields", name]
    rewrite(path, setting(*way, value))
    with pytest.raises(ArtifactError, match=way[-1]):
        load(path)


def test_rows_of_an_audit_that_are_not_counted_are_refused(clf, tmp_path):
    rows = np.random.default_rng(2).normal(0.5, 1.5, size=(120, 3))
    answers = Audit.random(np.arange(40), (rows[:40, 0] > 1).astype(int))
    save(clf.adapt(rows, audit=answers), tmp_path / "a.drpu")
    rewrite(tmp_path / "a.drpu", scaled("reference.tails.counts", 0))
    with pytest.raises(ArtifactError, match="reference"):
        load(tmp_path / "a.drpu")


# -- numbers with which nothing can be computed --------------------------------------------------


def with_number(name, value, place=0):
    """The change of a file that sets one number of an array, or all of them if ``place`` is a slice."""

    def change(_, parts):
        arrays = dict(safetensors.numpy.load(parts["arrays.safetensors"]))
        array = arrays[name].astype(np.float64)
        array.reshape(-1)[place] = value
        arrays[name] = array
        parts["arrays.safetensors"] = safetensors.numpy.save(arrays)

    return change


@pytest.mark.parametrize("value", [5e-324, 2e-308, 1e-300])
@pytest.mark.parametrize("fold", [0, 1])
def test_a_scale_that_no_column_has_is_refused(fold, value, clf, tmp_path):
    path = tmp_path / "a.drpu"
    save(clf, path)
    rewrite(path, with_number(f"fitted.model.functions[{fold}].basis.scaling.scale", value))
    for read in (load, verify, inspect_file):
        with pytest.raises(ArtifactError, match="scale"):
            read(path)


@pytest.mark.parametrize("value", [5e-324, 1e-308, 1e-200])
def test_a_file_must_score_the_rows_that_it_describes(value, clf, tmp_path):
    path = tmp_path / "a.drpu"
    save(clf, path)
    model = ["tree", "fields", "fitted", "fields", "model", "fields", "functions", 1, "fields"]
    rewrite(path, setting(*model, "width", value))
    verify(path)
    with pytest.raises(ArtifactError, match="cannot score rows"):
        load(path)


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("fitted.columns.profiles[0].positive", 5e-324, slice(None)),
        ("fitted.columns.profiles[1].unlabeled", 1e-300, slice(None)),
        ("fitted.columns.profiles[2].unlabeled", 0, slice(None)),
        ("fitted.tails.levels", -np.inf, 0),
        ("fitted.tails.levels", np.inf, -1),
        ("fitted.tails.levels", -1e300, 0),
        ("fitted.calibration.levels", -np.inf, 0),
        ("fitted.calibration.levels", 1e300, -1),
    ],
)
def test_counts_and_levels_that_no_rows_give_are_refused(name, value, place, clf, tmp_path):
    path = tmp_path / "a.drpu"
    save(clf, path)
    rewrite(path, with_number(name, value, place))
    for read in (load, verify, inspect_file):
        with pytest.raises(ArtifactError, match=r"profile|levels"):
            read(path)


def test_no_row_without_a_score_gets_a_label(clf, data, tmp_path, monkeypatch):
    broken = clf.adapt(data.unlabeled)
    rows = data.unlabeled[:20]

    def score(_, X):
        return np.where(X[:, 0] > 0, np.nan, 1.0)

    monkeypatch.setattr("drpu.models.kernel.KernelFunction._score", score)
    n = int((rows[:, 0] > 0).sum())
    for call in (broken.predict, broken.predict_proba, broken.ratio, broken.adapt, broken.count):
        with pytest.raises(DataError, match=f"{n} of 20 rows have no score"):
            call(rows)


# -- texts that nothing needs --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [("training_rows", True), ("scores", "<b>none</b>"), ("more", "hidden"), ("statistics", [])],
)
def test_facts_that_are_not_those_of_the_classifier_are_refused(name, value, clf, data, tmp_path):
    path = tmp_path / "a.drpu"
    save(clf.adapt(data.unlabeled), path)
    rewrite(path, lambda manifest, _: manifest["facts"].update({name: value}))
    for read in (load, verify, inspect_file):
        with pytest.raises(ArtifactError, match="facts"):
            read(path)


def test_a_monitor_has_no_facts(clf, data, tmp_path):
    path = tmp_path / "a.drpu"
    monitor = PriorMonitor(clf)
    monitor.update(data.unlabeled)
    monitor.save(path)
    PriorMonitor.load(path, clf)
    rewrite(path, setting("facts", {"scores": "hidden"}))
    with pytest.raises(ArtifactError, match="facts"):
        PriorMonitor.load(path, clf)


# -- archives of estimators ----------------------------------------------------------------------


def test_estimators_that_are_read_start_no_processes(data):
    X, y = data.X_y()
    forest = RandomForestClassifier(2, random_state=0).fit(X, y)
    bags = BaggingClassifier(make_pipeline(RobustScaler(), KNeighborsClassifier(n_jobs=64)), 2).fit(X, y)
    forest.n_jobs = bags.n_jobs = 64  # after the fit, which would start them
    forest, bags = read_estimators(write_estimators([forest, bags]))
    neighbours = [pipeline[-1] for pipeline in bags.estimators_]
    assert {part.n_jobs for part in (forest, bags, *neighbours)} == {None}


def test_an_archive_that_expands_is_not_read():
    archive = write_estimators([LogisticRegression().fit([[0.0], [1.0]], [0, 1])])
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(ArtifactError, match="compressed"):
        read_estimators(out.getvalue())


def test_an_array_that_many_nodes_name_is_not_read():
    out, array = io.BytesIO(), io.BytesIO()
    np.save(array, np.zeros(100_000))
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("x.npy", array.getvalue())
        archive.writestr("schema.json", json.dumps([{"file": "x.npy"}] * 100))
    with pytest.raises(ArtifactError, match="must not expand"):
        read_estimators(out.getvalue())


# -- values of rows ------------------------------------------------------------------------------


def all_bytes(path):
    """The content of a file, with the parts of archives inside it."""
    found = []
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            part = archive.read(name)
            found.append(part)
            if name.endswith(".skops"):
                with zipfile.ZipFile(io.BytesIO(part)) as inner:
                    found += [inner.read(each) for each in inner.namelist()]
    return b"".join(found)


@pytest.mark.parametrize("model", ["kernel", "boosted", "auto", "classifier"])
def test_no_value_of_one_row_is_in_the_file(model, tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n, number = 401, 123.456789012345  # an odd number of rows: the median of a column is a value of one
    frame = pd.DataFrame(
        {
            "income": rng.normal(size=n),
            "count": rng.integers(0, 9, n).astype(float),
            "ward": rng.choice(["north", "south"], n),
            "name": [f"Person-{i}" for i in range(n)],
            "day": pd.to_datetime("2026-01-01") + pd.to_timedelta(rng.integers(0, 90, n), unit="D"),
        }
    )
    frame.loc[7, "income"] = number
    frame.loc[8, "ward"] = "Zeugin-4711"
    frame.loc[9, "name"] = "Zeugin-4711"
    frame.loc[10, "day"] = pd.Timestamp("1931-05-17")
    labels = (rng.random(n) < 0.2).astype(int)
    labels[7:11] = [1, 0, 1, 0]
    if model == "classifier":
        frame = frame[["income", "count"]]
    frame["income"] += 2 * labels * (frame["income"] != number)
    clf = DRPUClassifier(model, holdout=2, random_state=0).fit(frame, labels)
    save(clf, tmp_path / "a.drpu")
    content = all_bytes(tmp_path / "a.drpu")
    days = float((pd.Timestamp("1931-05-17") - pd.Timestamp("1970-01-01")).days)
    numbers = np.array([number, days, days * 86400])
    forms = [*map(bytes, numbers), *map(bytes, numbers.astype(np.float32)), b"123.456789", b"Zeugin-4711"]
    assert not [form for form in forms if form in content]
    assert not [value for value in frame["income"] if np.float64(value).tobytes() in content]


def test_the_threshold_of_a_saved_budget_is_no_score_of_a_row(clf, data, tmp_path):
    for budget in (clf.at_budget(20, of=data.unlabeled), clf.at_budget(share=0.1)):
        save(budget, tmp_path / "a.drpu")
        tree = json.loads(zipfile.ZipFile(tmp_path / "a.drpu").read("manifest.json"))["tree"]
        kept = tree["fields"]["point"]["fields"]["budget"]["fields"].values()
        assert max(len(repr(value)) for value in kept) < 10
        assert not set(kept) & set(clf.tails_.levels.tolist())
        back = load(tmp_path / "a.drpu")
        near = np.abs(np.log(budget.ratio(data.unlabeled)) - np.log(budget.threshold_)) < 1e-4
        same = back.predict(data.unlabeled) == budget.predict(data.unlabeled)
        assert (same if budget.budget_.n else same | near).all()
        was, now = budget.expected_performance(), back.expected_performance()
        assert replace(now, threshold=was.threshold) == was


# -- pages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_files_and_tables_are_escaped_in_notebooks(text, clf, data, tmp_path):
    prior = PriorEstimate(0.4, 0.3, 0.5, 0.95, text)
    groups = clf.adapt_by(data.unlabeled, by=np.where(data.unlabeled[:, 0] > 0, text, "b"))
    columns = clf.adapt(data.unlabeled)
    shown = [
        prior._repr_html_(),
        groups._repr_html_(),
        clf.at_prior(prior)._repr_html_(),
        columns._repr_html_(),
    ]
    for page in shown:
        tags = set(re.findall(r"</?([a-z]+)", page))
        assert tags <= {"p", "b", "table", "caption", "thead", "tbody", "tr", "th", "td", "br"}
        assert "<script" not in page
        assert "onerror=alert(1)>" not in page


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_files_do_not_control_the_terminal(text, clf):
    shown = [clf.at_prior(PriorEstimate(0.4, 0.3, 0.5, 0.95, text)), DRPUClassifier(LearntElsewhere(text))]
    assert all(repr(each).replace("\n", "").isprintable() for each in shown)


# -- threads -------------------------------------------------------------------------------------


def state_of_the_process():
    """What all threads of a process share, and no call may change."""
    found = [list(warnings.filters), np.geterr(), dict(os.environ), os.getcwd(), sys.getrecursionlimit()]
    found += [
        random.getstate(),
        str(np.random.get_state()),  # noqa: NPY002
        sys.getswitchinterval(),
        locale.setlocale(locale.LC_ALL),
    ]
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        found += [torch.get_rng_state().tolist(), torch.backends.cudnn.benchmark, torch.get_num_threads()]
        found += [torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32]
    return found


@pytest.mark.parametrize("kind", ["kernel", "network"])
def test_calls_in_threads_leave_the_process_as_it_was(kind, data, tmp_path):
    models = {"kernel": lambda seed: KernelRatio(n_centres=8)}
    if kind == "network":
        pytest.importorskip("torch")
        models["network"] = lambda seed: NetworkRatio(hidden=(4,), epochs=1, device="cpu", random_state=seed)

    def work(seed, found):
        clf = DRPUClassifier(models[kind](seed), holdout=2, random_state=seed).fit(*data.X_y())
        save(clf, tmp_path / f"{seed}.drpu")
        found[seed] = load(tmp_path / f"{seed}.drpu").adapt(data.unlabeled).ratio(data.unlabeled)

    alone, together = {}, {}
    for seed in range(4):
        work(seed, alone)
    before = state_of_the_process()
    threads = [threading.Thread(target=work, args=(seed, together)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state_of_the_process() == before
    for seed, ratio in alone.items():
        np.testing.assert_array_equal(together[seed], ratio)


# -- extreme tables ------------------------------------------------------------------------------


def extremes():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.repeat([1, 0], [20, 40])
    one = np.zeros(60, dtype=int)
    one[0] = 1
    yield "huge", np.where(X > 1, 1e308, X), y
    yield "huge columns", np.clip(X, -1, 1) * [1e308, 1], y
    yield "both signs", np.sign(X) * 1.7e308, y
    yield "large", np.clip(X, -1, 1) * 1e100, y
    yield "tiny", X * 1e-310, y
    yield "one positive", X, one
    yield "one unlabeled", X, 1 - one
    yield "all equal", np.ones((60, 2)), y
    yield "one row each", X[:2], np.array([1, 0])
    yield "one row", X[:1], np.array([1])
    yield "no rows", X[:0], y[:0]
    yield "few values", np.round(X), y


@pytest.mark.parametrize("model", [KernelRatio(n_centres=8), BoostedRatio(n_rounds=5), "classifier"])
@pytest.mark.parametrize(
    ("name", "X", "y"), list(extremes()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_no_call_on_finite_rows_ends_in_an_untyped_error(name, X, y, model, tmp_path):
    with np.errstate(all="ignore"):
        try:
            clf = DRPUClassifier(model, holdout=2, random_state=0).fit(X, y)
        except DRPUError:
            return
        for call in (
            lambda: clf.predict(X),
            lambda: clf.predict_proba(np.full((2, 2), 1e308)),
            lambda: clf.adapt(X),
            lambda: clf.adapt(np.full((5, 2), -1e308)),
            lambda: clf.adapt(X, sample_weight=np.full(len(X), 1e300)),
            lambda: clf.at_budget(share=0.5).predict(X),
            lambda: clf.adapt(X, audit=Audit.random(np.arange(5), [1, 0, 1, 0, 1]))._repr_html_(),
            lambda: save(clf, tmp_path / "a.drpu", keep_rows=True),
            lambda: load(tmp_path / "a.drpu", trusted=True).predict(X),
        ):
            with suppress(DRPUError, FileNotFoundError):
                call()


def test_many_levels_are_read():
    pd = pytest.importorskip("pandas")
    n = 100_000
    frame = pd.DataFrame({"a": np.arange(n) % 7 * 1.0, "level": [f"l{i}" for i in range(n)]})
    clf = DRPUClassifier(BoostedRatio(n_rounds=2), holdout=2, random_state=0)
    clf.fit(frame, np.arange(n) % 10 == 0)
    assert len(clf.predict(frame[:10])) == 10


CELLS = {
    "integers of hundreds of digits": [10**400, -(10**400), 1],
    "integers beyond 2**53": [2**63, 2**64 - 1, 3],
    "halves of surrogate pairs": ["\ud800", "\udfff x", "a"],
    "decimals": [Decimal("NaN"), Decimal("sNaN"), Decimal("1e999")],
    "dates at the ends": ["0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00", "2026-01-01"],
    "no dates": ["2026-13-01", "2026-01-01T25:00", "24:00"],
    "both signs": ["1.7e308", "-1.7e308", "0"],
    "nothing": [None, float("nan"), ""],
    "mixed": [1, "1", True],
    "objects": [[1], {}, b"x"],
    "long": ["x" * 200_000, "y z", "\0"],
}


def frame_of(library, cells):
    """A table of numbers and of these cells, or None if the library has no such column."""
    lib = pytest.importorskip(library)
    values = {"a": np.random.default_rng(0).normal(size=90).tolist(), "cell": CELLS[cells] * 30}
    if library == "pandas":
        return lib.DataFrame({name: lib.Series(column, dtype=object) for name, column in values.items()})
    try:
        return lib.DataFrame(values) if library == "polars" else lib.table(values)
    except BaseException:  # a panic of polars is no Exception
        return None


def call_with(frame, tmp_path):
    """Fit to a table and call what there is: no error but those of drpu may leave a call."""
    try:
        y = np.arange(90) % 3 == 0
        clf = DRPUClassifier(BoostedRatio(n_rounds=2), holdout=2, random_state=0).fit(frame, y)
    except DRPUError:
        return
    for call in (
        lambda: clf.predict(frame),
        lambda: clf.adapt(frame)._repr_html_(),
        lambda: save(clf, tmp_path / "a.drpu"),
        lambda: load(tmp_path / "a.drpu").predict(frame),
        lambda: export_onnx(clf, tmp_path / "a.onnx"),
    ):
        with suppress(DRPUError, FileNotFoundError):
            call()


@pytest.mark.parametrize("cells", CELLS)
def test_no_call_on_extreme_cells_ends_in_an_untyped_error(cells, tmp_path):
    frames = [frame_of(library, cells) for library in ("pandas", "polars", "pyarrow")]
    for frame in frames:
        if frame is not None:
            call_with(frame, tmp_path)


def test_integers_of_128_bits_are_numbers():
    pl = pytest.importorskip("polars")
    wide = pl.DataFrame({"a": pl.Series(np.arange(90) % 7, dtype=pl.Int128), "b": np.arange(90.0) % 5})
    clf = DRPUClassifier(BoostedRatio(n_rounds=2), holdout=2, random_state=0).fit(
        wide, np.arange(90) % 3 == 0
    )
    narrow = wide.with_columns(pl.col("a").cast(pl.Int64))
    np.testing.assert_array_equal(clf.ratio(wide), clf.ratio(narrow))


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_sparse_tensors_are_refused(layout, clf, data):
    torch = pytest.importorskip("torch")
    with pytest.raises(DRPUError, match="must be dense"):
        clf.predict(getattr(torch.tensor(data.unlabeled), layout)())


@pytest.mark.parametrize(
    ("part", "place", "value"), [("indptr", 3, 10**6), ("indices", 0, 99), ("indices", 0, -5)]
)
def test_sparse_matrices_with_positions_outside_are_refused(part, place, value, data):
    X, y = data.X_y()
    clf = DRPUClassifier(BoostedRatio(n_rounds=2), holdout=2, random_state=0).fit(sparse.csr_matrix(X), y)
    broken = sparse.csr_matrix(X)
    getattr(broken, part)[place] = value
    for call in (clf.predict, clf.adapt, lambda rows: clf.fit(rows, y), lambda rows: clf.fit_pu(rows, rows)):
        with pytest.raises(DataError, match="valid sparse matrix"):
            call(broken)


def test_a_table_without_columns_is_refused():
    pd = pytest.importorskip("pandas")
    with pytest.raises(DRPUError, match="at least one column"):
        DRPUClassifier("kernel").fit(pd.DataFrame(index=range(9)), np.arange(9) % 2)


@pytest.mark.parametrize("weight", [1e300, 1e-300, 5e-324, np.inf, np.nan, 10**400, "x", None, 1j])
def test_extreme_weights_end_in_a_typed_error_or_work(weight, clf, data):
    weights = [weight] * len(data.unlabeled)
    for call in (
        lambda: clf.adapt(data.unlabeled, sample_weight=weights),
        lambda: PriorMonitor(clf).update(data.unlabeled, sample_weight=weights),
        lambda: ScoreTails([0.0]).update(np.zeros(len(weights)), weights),
        lambda: DRPUClassifier(KernelRatio(n_centres=4), holdout=2).fit(
            data.unlabeled, [1, 0] * 100, weights
        ),
    ):
        with suppress(DRPUError):
            call()


@pytest.mark.parametrize("value", [None, True, -1, 2, 1e308, np.nan, np.inf, 10**400, "x", b"", [], {}, 1j])
def test_extreme_arguments_end_in_a_typed_error_or_work(value, clf, data, tmp_path):
    for call in (
        lambda: clf.at_prior(value),
        lambda: clf.at_prior(0.3).at_cost(value),
        lambda: clf.adapt(data.unlabeled, level=value),
        lambda: clf.at_budget(value),
        lambda: clf.at_budget(share=value),
        lambda: clf.plan_audit(data.unlabeled, n=value),
        lambda: clf.plan_audit(data.unlabeled, width=value),
        lambda: clf.adapt(data.unlabeled, audit=value),
        lambda: clf.adapt_by(data.unlabeled, by=value),
        lambda: clf.predict(value),
        lambda: clf.predict([[value] * 3]),
        lambda: PriorMonitor(clf, window=value, alpha=value),
        lambda: PriorEstimate(value, 0, 1, 0.95, "x"),
        lambda: Costs(value, 1),
        lambda: save(clf, tmp_path / "a.drpu", keep_rows=value),
        lambda: load(tmp_path / "a.drpu", max_bytes=value),
        lambda: load(tmp_path / "a.drpu", expected_sha256=value),
    ):
        with suppress(DRPUError, FileNotFoundError):
            call()


@pytest.mark.parametrize("what", ["rows", "weights", "labels"])
def test_masks_are_not_ignored(what, clf, data):
    X, y = data.X_y()
    calls = {
        "rows": lambda: clf.predict(np.ma.masked_greater(X, 1.0)),
        "weights": lambda: clf.adapt(X, sample_weight=np.ma.masked_less(np.arange(len(X)), 3)),
        "labels": lambda: DRPUClassifier("kernel").fit(X, np.ma.masked_array(y, np.arange(len(y)) < 9)),
    }
    with pytest.raises(DRPUError, match="mask"):
        calls[what]()


def test_expectations_of_billions_of_rows_are_computed(clf, data, tmp_path):
    path = tmp_path / "a.drpu"
    save(clf, path)
    rewrite(path, scaled("fitted.tails.counts", 10**8))
    many = load(path)
    assert many.tails_.n > 1e9
    assert abs(many.expected_performance().recall.value - clf.expected_performance().recall.value) < 0.2
    many.adapt(data.unlabeled)._repr_html_()
