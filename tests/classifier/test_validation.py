import warnings
from decimal import Decimal
from enum import StrEnum

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import accuracy_score

from drpu import (
    AUCScorer,
    Audit,
    BoostedRatio,
    DRPUClassifier,
    KernelRatio,
    NetworkRatio,
    PUaClassifier,
    PUStratifiedKFold,
    UPUClassifier,
    count_batches,
    labelling_weights,
    load,
    make_pu,
    save,
    suspects,
)
from drpu.exceptions import (
    CollectedWarning,
    DataError,
    DataTypeError,
    DRPUError,
    ExtraColumnsWarning,
    FewPositivesWarning,
    IndexWarning,
    LabelError,
    MorePositivesWarning,
    PositiveLabelWarning,
    heard,
)
from shared_fixtures import case_control


def light(**parameters):
    return case_control(holdout=0.3, **parameters)


# -- rows in every container -------------------------------------------------------------

NAMES = ["left", "right"]


def as_pandas(X):
    return pd.DataFrame(X, columns=NAMES)


def as_polars(X):
    return pl.DataFrame(X, schema=NAMES)


def as_arrow(X):
    return pa.table(dict(zip(NAMES, X.T, strict=True)))


def as_lazy(frame):
    return pl.from_pandas(frame).lazy()


POSITIVE, UNLABELED = np.linspace(1, 2, 10)[:, None] * [1, 1], np.linspace(0, 2, 30)[:, None] * [1, 1]


def single_sample(X=None, y=None, **columns):
    flags = np.repeat([1, 0], [10, 30])
    X = as_pandas(np.concatenate([POSITIVE, UNLABELED])) if X is None else X
    settings = {"negative_label": columns.pop("negative_label", None), "random_state": 0}
    clf = DRPUClassifier("classifier", holdout=0.5, prior=0.5, scenario="single-sample", **settings)
    return clf.fit(X, flags if y is None else y, **columns)


@pytest.mark.parametrize(
    "container", [as_pandas, as_polars, as_arrow, torch.from_numpy, np.ndarray.tolist, np.asfortranarray]
)
def test_rows_mean_the_same_in_every_container(toy, fitted, container):
    X, y = toy.X_y()
    clf = case_control().fit(container(X), y)
    assert_allclose(clf.ratio(container(toy.test)), fitted.ratio(toy.test), rtol=1e-6)
    assert_allclose(
        clf.adapt(container(toy.test)).prior_.value, fitted.adapt(toy.test).prior_.value, rtol=1e-6
    )


def test_a_lazy_frame_is_collected_once_by_each_call():
    flags, frame = np.repeat([1, 0], [10, 30]), as_pandas(np.concatenate([POSITIVE, UNLABELED]))
    with heard():
        clf = DRPUClassifier("boosted", holdout=0.5, prior=0.5, scenario="single-sample", random_state=0)
        clf.fit(frame.assign(region=flags), flags)
    lazy = as_lazy(frame.assign(region=np.tile([0, 1], 20)))
    for call in (
        clf.contributions,
        clf.predict,
        clf.adapt_predict,
        lambda X: clf.adapt(X, flags),
        lambda X: clf.adapt_by(X, by="region"),
        lambda X: clf.plan_audit(X, n=3),
        lambda X: clf.evaluate(X, flags),
        lambda X: clf.at_budget(3, of=X),
        lambda X: count_batches(clf, X),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(lazy)
        assert sum(issubclass(one.category, CollectedWarning) for one in caught) == 1


@pytest.mark.parametrize("container", [pl.from_pandas, pa.RecordBatch.from_pandas, as_lazy])
@pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")
def test_a_column_of_periods_or_labelling_is_found_in_every_table(container):
    flags, month = np.repeat([1, 0], [10, 30]), np.tile(["2024-05", "2024-06"], 20)
    frame = as_pandas(np.concatenate([POSITIVE, UNLABELED])).assign(month=month)
    X, rates = container(frame), {"2024-05": 0.2, "2024-06": 0.4}
    weights = [labelling_weights(rows, flags, by="month", rates=rates).weights for rows in (X, frame)]
    assert_array_equal(*weights)
    clf, other = single_sample(X, periods="month"), single_sample(frame, periods="month")
    assert_array_equal(clf.predict_proba(X), other.predict_proba(frame))
    assert clf.adapt(X).prior_ == other.adapt(frame).prior_
    assert clf.adapt_by(X, by="month").names == ["2024-05", "2024-06"]
    assert clf.evaluate(X, flags).accuracy == other.evaluate(frame, flags).accuracy


MATRICES = [pytest.param(kind, marks=pytest.mark.slow) for kind in (sparse.csr_matrix, sparse.csc_matrix)]


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_array, *MATRICES])
def test_sparse_rows_mean_the_same_as_dense_ones(toy, container):
    X, y = toy.X_y()
    model = KernelRatio(width=1.0, ridge=0.1, n_centres=50)
    dense = case_control(model).fit(X, y)
    clf = case_control(model).fit(container(X), y)
    assert_allclose(clf.ratio(container(toy.test)), dense.ratio(toy.test), atol=1e-6)


@pytest.mark.parametrize("container", [as_pandas, as_polars, as_arrow])
def test_columns_are_found_by_name(toy, container):
    X, y = toy.X_y()
    clf = light().fit(container(X), y)
    assert clf.feature_names_in_.tolist() == NAMES
    assert clf.n_features_in_ == 2
    expected = clf.predict_proba(container(toy.test))
    swapped = as_pandas(toy.test)[NAMES[::-1]]
    assert_array_equal(clf.predict_proba(swapped), expected)
    assert clf.adapt(swapped).prior_ == clf.adapt(container(toy.test)).prior_
    with pytest.warns(ExtraColumnsWarning, match="'more'"):
        assert_array_equal(clf.predict_proba(swapped.assign(more=1)), expected)
    with pytest.raises(DataError, match=r"none called 'left'.*did you mean 'Left'"):
        clf.adapt(swapped.rename(columns={"left": "Left"}))


def test_tables_of_both_samples_are_compared_by_name(toy):
    positive, unlabeled = as_pandas(toy.positive), as_pandas(toy.unlabeled)
    with pytest.raises(DataError, match=r"unlabeled must have the columns of positive, .* called 'left'"):
        light().fit_pu(positive, unlabeled.drop(columns="left"))
    with pytest.warns(ExtraColumnsWarning, match="unlabeled has columns that positive did not have: 'more'"):
        light().fit_pu(positive, unlabeled.assign(more=1))


def test_arrays_keep_the_errors_of_scikit_learn(toy):
    X, y = toy.X_y()
    clf = light().fit(as_pandas(X), y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert_array_equal(clf.predict(toy.test), clf.predict(as_pandas(toy.test)))
    with (
        pytest.warns(UserWarning, match="does not have valid feature names"),
        pytest.raises(DataError, match="3 features, but DRPUClassifier is expecting 2"),
    ):
        clf.predict(np.zeros((2, 3)))
    with pytest.raises(DataError, match="3 unnamed features, but training had 2 named"):
        clf.predict(pd.DataFrame(np.zeros((2, 3))))
    bare = light().fit(X, y)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        bare.predict(as_pandas(toy.test))


@pytest.mark.parametrize("model", ["auto", "kernel", "boosted", "classifier"])
def test_sparse_rows_are_never_filled(model, monkeypatch):
    toarray = sparse.csr_matrix.toarray

    def refuse(self, *arguments, **options):
        assert self.shape[1] < 3000 or self.shape[0] < 50, "sparse rows were filled"  # centroids may be dense
        return toarray(self, *arguments, **options)

    X = sparse.random(400, 3000, density=0.01, format="lil", random_state=0)
    X[:60, 0] = 1.0
    X = X.tocsr()
    for kind in (sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)
    y = (np.arange(400) < 30).astype(int)
    with pytest.warns(FewPositivesWarning, match="30 labelled positives"):
        clf = case_control(model, holdout=2).fit(X, y)
    assert clf.predict_proba(X).shape == (400, 2)


# -- labels ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("positive", "rest"), [(1, 0), (1, -1), (True, False), (2.0, 1.0), (np.int8(1), np.int8(0))]
)
def test_any_two_labels_will_do_and_come_back(toy, fitted, positive, rest):
    X, y = toy.X_y()
    labels = np.array([positive if flag else rest for flag in y])
    clf = case_control().fit(X, labels)
    assert clf.classes_.tolist() == [rest, positive]
    answer = clf.predict(toy.test)
    assert answer.dtype == labels.dtype
    assert_array_equal(answer == positive, fitted.predict(toy.test) == 1)


if hasattr(np.dtypes, "StringDType"):  # NumPy 2
    VARIABLE, MISSING = np.dtypes.StringDType(), np.dtypes.StringDType(na_object=None)
else:
    VARIABLE = MISSING = object


class Kind(StrEnum):
    FRAUD = "fraud"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (lambda y: y.astype(np.longdouble), np.array([0.0, 1.0])),
        (lambda y: np.where(y, 7.0, np.nan), np.array([0.0, 7.0])),
        (lambda y: pd.Series(y, dtype="Int64"), np.array([0, 1])),
        (lambda y: pd.Series(y == 1, dtype="boolean"), np.array([False, True])),
        (lambda y: np.array([np.bool_(flag) for flag in y], dtype=object), np.array([False, True])),
        (lambda y: np.where(y, "p", "").astype(VARIABLE), np.array(["not p", "p"], dtype=object)),
        (lambda y: np.array(["p" if f else None for f in y], MISSING), np.array(["not p", "p"])),
        (
            lambda y: np.array([Kind.FRAUD if flag else None for flag in y], dtype=object),
            np.array(["not fraud", "fraud"]),
        ),
    ],
)
def test_labels_of_rarer_types_come_back_in_a_plain_one_also_from_a_file(toy, tmp_path, kind, expected):
    X, y = toy.X_y()
    clf = case_control("kernel", holdout=0.3).fit(X, kind(y))
    save(clf, tmp_path / "labels.drpu")
    loaded = load(tmp_path / "labels.drpu")
    for labels in (clf.classes_, loaded.classes_, loaded.predict(X)):
        assert labels.dtype == expected.dtype
        assert {(type(label), label) for label in labels.tolist()} == {
            (type(label), label) for label in expected.tolist()
        }


@pytest.mark.parametrize(
    ("positive", "rest"),
    [
        (np.datetime64("2024-02-01"), np.datetime64("2024-01-01")),
        (np.datetime64("2024-02-01"), np.datetime64("NaT", "D")),
        (np.timedelta64(2, "D"), np.timedelta64(1, "D")),
        (pd.Timestamp("2024-02-01", tz="UTC"), None),
        (Decimal(1), Decimal(0)),
    ],
)
def test_labels_that_no_file_keeps_are_refused_with_the_way_out(toy, positive, rest):
    X, y = toy.X_y()
    labels = pd.Series([positive if flag else rest for flag in y])
    with pytest.raises(LabelError, match=r"y must hold names, .* got .*: pass y.astype\(str\), or y.notna"):
        light().fit(X, labels)
    light(pos_label="True").fit(X, labels.eq(positive).astype(str))


@pytest.mark.parametrize(
    ("positive", "rest", "message"),
    [
        ("p" * 10_000, "n", r"of at most 9,999 characters, got 'p+: use short names, or 1 and 0"),
        ("p" * 10_000, None, "of at most 9,999 characters"),
        ("\ud800", "n", r"that can be written as UTF-8, got '\\ud800'"),
        (np.uint64(2**63), np.uint64(0), r"text or numbers below 2\*\*63, got 9223372036854775808"),
        (1e300, 0.0, "must not hold infinite or huge values"),
        (np.inf, np.nan, r"text or numbers below 2\*\*63, got inf"),
    ],
    ids=["text", "text and missing", "surrogate", "integer", "float", "float and missing"],
)
def test_labels_that_are_too_large_for_a_file_are_refused(toy, positive, rest, message):
    X, y = toy.X_y()
    with pytest.raises(LabelError, match=message):
        light().fit(X, np.array([positive if flag else rest for flag in y]))


def test_a_long_label_of_negatives_is_refused(toy):
    X, y = toy.X_y()
    labels = np.where(y == 1, "p", None).astype(object)
    labels[-30:] = "n" * 10_000
    with pytest.raises(LabelError, match="of at most 9,999 characters"):
        light(negative_label="n" * 10_000).fit(X, labels)


@pytest.mark.parametrize("length", [1, 9999])
@pytest.mark.parametrize("kind", ["U10001", object])
def test_labels_of_up_to_9999_characters_are_kept_in_files(toy, tmp_path, kind, length):
    X, y = toy.X_y()
    clf = light(pos_label="p" * length).fit(X, np.where(y == 1, "p" * length, "é").astype(kind))
    save(clf, tmp_path / "labels.drpu")
    assert_array_equal(load(tmp_path / "labels.drpu", trusted=True).predict(X), clf.predict(X))


def test_pos_label_overrules_the_order(toy):
    X, y = toy.X_y()
    labels = np.where(y == 1, "fraud", "unknown")
    clf = light(pos_label="fraud").fit(X, labels)
    assert clf.classes_.tolist() == ["unknown", "fraud"]
    assert set(clf.predict(X)) == {"fraud", "unknown"}
    assert clf.predict_proba(toy.positive)[:, 1].mean() > 0.6
    with pytest.raises(LabelError, match="pos_label must be one of the labels"):
        light(pos_label="nobody").fit(X, labels)


@pytest.mark.parametrize("word", ["unknown", "Unlabeled", "unlabelled", "None", "NA", "n/a", "zz"])
@pytest.mark.parametrize("positive", ["yes", "fraud"])
def test_a_word_that_means_not_known_is_that_of_the_unlabeled_rows(toy, word, positive):
    X, y = toy.X_y()
    labels = np.where(y == 1, positive, word)
    if word == "zz":
        with pytest.raises(LabelError, match=f"'{positive}' and 'zz'.*pos_label='{positive}' or"):
            light().fit(X, labels)
        return
    message = rf"'{word}' \(900 rows\) is taken as .* unlabeled rows, and '{positive}' \(300 rows\)"
    with pytest.warns(PositiveLabelWarning, match=message):
        clf = light().fit(X, labels)
    assert clf.classes_.tolist() == [word, positive]


@pytest.mark.parametrize("labels", [("yes", "no"), ("unknown", "none")])
def test_two_words_of_one_kind_need_pos_label(toy, labels):
    X, y = toy.X_y()
    words = np.where(y == 1, *labels)
    with pytest.raises(LabelError, match="say which one marks the positives, with pos_label="):
        light().fit(X, words)
    assert light(pos_label=labels[0]).fit(X, words).classes_.tolist() == list(labels[::-1])


def test_yes_no_and_blank_ask_for_the_label_of_negatives(toy):
    X, y = toy.X_y()
    labels = np.where(y == 1, "yes", None)
    labels[-5:] = "no"
    with pytest.raises(LabelError, match="negative_label='no'") as raised:
        light().fit(X, labels)
    assert "--negative-label no." in raised.value.command


def test_positives_that_outnumber_the_unlabeled_rows_are_warned_of(toy):
    X, y = toy.X_y()
    with pytest.warns(MorePositivesWarning, match=r"\(900\) than unlabeled rows \(300\)"):
        light().fit(X, 1 - y)
    with pytest.warns(MorePositivesWarning):
        light().fit_pu(toy.unlabeled, toy.positive)


def test_rows_and_labels_with_one_index_in_two_orders_are_warned_of(toy):
    X, y = as_pandas(toy.X_y()[0]), pd.Series(toy.X_y()[1])
    with pytest.warns(IndexWarning, match=r"pass y.loc\[X.index\]"):
        clf = light().fit(X, y[::-1])
    assert clf.prior_ == light().fit(X, y[::-1].to_numpy()).prior_  # by position, as in scikit-learn
    light().fit(X, y.set_axis(y.index + 1))  # another index says nothing about the order
    light().fit(X[::-1], y[::-1])


RIVALS = [
    UPUClassifier("kernel", prior=0.3, scenario="case-control"),
    PUaClassifier("kernel", prior=0.3, test_prior=0.4, scenario="case-control"),
]


@pytest.fixture(scope="module")
def single():
    return single_sample()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("sample_weight", lambda clf, X, y: single_sample(X, sample_weight=y + 1)),
        ("groups", lambda clf, X, y: single_sample(X, groups=y.index.to_series())),
        ("periods", lambda clf, X, y: single_sample(X, periods=y)),
        ("y", lambda clf, X, y: labelling_weights(X.assign(a=1), y, by="a", rates={1: 0.5})),
        ("y", lambda clf, X, y: single_sample(X, y.where(y.index != 39, -1), negative_label=-1)),
        ("y", lambda clf, X, y: clf.adapt(X, y)),
        ("sample_weight", lambda clf, X, y: clf.adapt(X, sample_weight=y + 1)),
        ("sample_weight", lambda clf, X, y: clf.adapt_predict(X, sample_weight=y + 1)),
        ("sample_weight", lambda clf, X, y: clf.count(X, sample_weight=y + 1)),
        ("y", lambda clf, X, y: clf.adapt_by(X, y, by=["a"] * 40)),
        ("by", lambda clf, X, y: clf.adapt_by(X, by=y)),
        ("y", lambda clf, X, y: clf.evaluate(X, y)),
        ("y", lambda clf, X, y: clf.score(X, y)),
        ("sample_weight", lambda clf, X, y: clf.score(X, y.to_numpy(), y + 1)),
        ("y", lambda clf, X, y: AUCScorer()(clf, X, y)),
        ("y", lambda clf, X, y: suspects(clf, X, y, repeats=1)),
        ("groups", lambda clf, X, y: list(PUStratifiedKFold(2).split(X, y.to_numpy(), y.index.to_series()))),
        ("y", lambda clf, X, y: make_pu(X, y)),
        ("y", lambda clf, X, y: RIVALS[0].fit(X, y)),
        ("sample_weight", lambda clf, X, y: RIVALS[1].fit(X, y.to_numpy()[::-1], y + 1)),
        ("positive_weight", lambda clf, X, y: light().fit_pu(X[:12], X, positive_weight=y[-12:] + 1)),
        ("unlabeled_weight", lambda clf, X, y: RIVALS[0].fit_pu(X[:12], X, unlabeled_weight=y + 1)),
        (
            "positive_weight",
            lambda clf, X, y: KernelRatio().fit_ratio(X[:12], X, positive_weight=y[-12:] + 1),
        ),
        ("labels", lambda clf, X, y: Audit.random(X, y)),
    ],
)
@pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")
def test_every_column_beside_the_rows_is_warned_of_by_its_name_once(single, name, call):
    X, y = as_pandas(np.concatenate([POSITIVE, UNLABELED])), pd.Series(np.repeat([1, 0], [10, 30]))
    with pytest.warns(IndexWarning) as said:
        call(single, X, y[::-1])
    found = [str(warning.message) for warning in said if warning.category is IndexWarning]
    assert len(found) == 1
    assert f"and {name} have the same index in two orders" in found[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", IndexWarning)
        call(single, X[::-1], y[::-1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: (X, "y"), r"y must have one label per row, got the text 'y': pass the column itself"),
        (lambda X, y: (X, 0.3 * y), r"Unknown label type: y must hold two labels, .* got 0.3. Mark labelled"),
        (lambda X, y: (None, y), "X must be rows, as an array or a data frame, got None"),
        (
            lambda X, y: (as_pandas(np.where(X > 1, np.nan, X)), y),
            r"X contains NaN, .* choose a model that accepts them .* with such values: 'left', 'right'",
        ),
        (
            lambda X, y: (as_pandas(X).assign(right=np.inf), y),
            "infinity .* Columns with such values: 'right'",
        ),
        (lambda X, y: (as_pandas(X).assign(left=1e200), y), "at most 1e.100.* such values: 'left'"),
        (
            lambda X, y: (pd.DataFrame(X, columns=["a", "a"]), y),
            "'a' 2 times: give each column a name of its own",
        ),
        (lambda X, y: ([["x", 1.0]] * 40, [0, 1] * 20), "pass X as a data frame"),
        (lambda X, y: ({"left": [1.0] * 40}, [0, 1] * 20), "a dict is one row of X, but 'left' is a list"),
    ],
)
def test_data_that_cannot_be_used_are_refused_with_the_way_out(toy, change, words):
    with pytest.raises(DRPUError, match=words):
        light().fit(*change(*toy.X_y()))


def test_a_label_that_is_written_is_never_blank(toy):
    X, y = toy.X_y()
    for blank in ("", "  "):
        clf = light().fit(X, np.where(y == 1, "fraud", blank))
        assert clf.classes_.tolist() == ["not fraud", "fraud"]
        assert set(clf.predict(X)) == {"not fraud", "fraud"}
    with pytest.warns(PositiveLabelWarning):
        kept = light().fit(X, np.where(y == 1, "fraud", "unknown"))
    assert kept.classes_.tolist() == ["unknown", "fraud"]


@pytest.mark.parametrize(
    ("labels", "classes", "kind"),
    [
        (pd.Series([1, np.nan]), [0, 1], "f"),
        (pd.Series([1, None], dtype=object), [0, 1], "i"),
        (pd.Series([1, None], dtype="Int64"), [0, 1], "i"),
        (pd.array([1, None], dtype="Int64"), [0, 1], "i"),
        (pd.array([True, None], dtype="boolean"), [False, True], "b"),
        (pl.Series([1, None], dtype=pl.Int8), [0, 1], "i"),
        (pd.Series([True, None], dtype=object), [False, True], "b"),
        (pd.Series([True, None], dtype="boolean"), [False, True], "b"),
        (pd.Series(["yes", None], dtype=object), ["not yes", "yes"], "U"),
        (pd.Series(["yes", None], dtype="string"), ["not yes", "yes"], "U"),
        (pl.Series(["yes", None]), ["not yes", "yes"], "U"),
        (pa.array(["yes", None]), ["not yes", "yes"], "U"),
        (pa.array([1, None]), [0, 1], "i"),
        (pa.array([True, None]), [False, True], "b"),
        (["yes", None], ["not yes", "yes"], "U"),
        (pd.Series(["yes", None, ""], dtype=object), ["not yes", "yes"], "U"),
        (pd.Series([7, None], dtype="Int64"), [0, 7], "i"),
        (pd.Series([-3, None], dtype="Int64"), [-4, -3], "i"),
        (np.array([2.0, np.nan]), [0, 2], "f"),
    ],
)
def test_missing_labels_mean_unlabeled_beside_any_single_label(toy, labels, classes, kind):
    X, y = toy.X_y()
    index = np.where(y == 1, 0, 1)
    if isinstance(labels, list):
        labels = [labels[i] for i in index]
    else:
        labels = labels.take(index) if isinstance(labels, pa.Array) else labels[index]
    clf = light().fit(X, labels)
    np.testing.assert_equal(clf.classes_.tolist(), classes)
    assert clf.classes_.dtype.kind == kind
    assert clf.predict(X).dtype == clf.classes_.dtype
    assert clf.prior_ == light().fit(X, y).prior_


@pytest.mark.parametrize(
    ("labels", "codings"),
    [
        (["", "yes"], [["", "yes"], [None, "yes"], ["no", "yes"], [0, 1], ["0", "1"], [False, True]]),
        ([np.nan, 1.0], [[0.0, 1.0], [np.nan, 1.0], ["no", "yes"], [0, 1], [False, True]]),
        ([None, True], [[False, True], [None, True], ["no", "yes"], [0, 1]]),
    ],
)
def test_score_and_evaluate_understand_yes_and_no_numbers_and_the_labels_of_training(toy, labels, codings):
    X, y = toy.X_y()
    kind = float if isinstance(labels[1], float) else object
    clf = light().fit(X, np.array(labels, dtype=kind)[y])
    truth = clf.predict(X) == clf.classes_[1]
    truth[:10] = ~truth[:10]
    agreed = accuracy_score(clf.classes_[truth.astype(int)], clf.predict(X))
    for coding in codings:
        coded = np.array(coding, dtype=object)[truth.astype(int)]
        assert clf.score(X, coded) == pytest.approx(agreed)
        assert clf.score(X, coded.tolist()) == pytest.approx(agreed)
        measured = clf.evaluate(X, coded, blank="negative")
        assert measured.accuracy.value == pytest.approx(agreed)


@pytest.mark.parametrize(
    "wrap",
    [
        list,
        pd.Series,
        pl.Series,
        torch.tensor,
        lambda y: np.asarray(y)[:, None],
        lambda y: np.array(y, dtype=object),
    ],
)
@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_labels_come_in_every_container(toy, wrap):
    X, y = toy.X_y()
    assert light().fit(X, wrap(y.tolist())).prior_ == light().fit(X, y).prior_


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 2] * 4, "Only binary classification is supported: y must hold two labels, got 3: 0, 1, 2"),
        ([1] * 12, "got one class only: 1"),
        (np.array(["2024-01-01", "2024-01-02", "NaT"] * 4, "M8[D]"), r"y must hold names, .* or y.notna\(\)"),
        (
            ["a", "b", None] * 4,
            "missing values, which mean unlabeled beside a single label, got the labels 'a', 'b'",
        ),
        ([0, np.nan] * 6, "usually marks rows without a label"),
        ([None] * 12, "got missing values only"),
        ([0.1, 0.2, 0.7] * 4, "Unknown label type"),
        ([0, 1] * 5, "same number of rows, got 12 and 10"),
        ([], "at least one label"),
        (None, "y should be a 1d array of labels, got None"),
        ([[0, 1]] * 12, "y should be a 1d array"),
    ],
)
def test_labels_that_say_nothing_are_refused(y, message):
    X = np.arange(24.0).reshape(12, 2)
    with pytest.raises(DataError, match=message) as caught:
        light().fit(X, y)
    assert isinstance(caught.value, ValueError)


# -- rows that cannot be used ------------------------------------------------------------


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", ["kernel", "boosted"])  # without and with missing values
def test_rows_of_both_precisions_are_scored_and_infinite_ones_refused(toy, model, dtype):
    X, y = toy.X_y()
    X = X.astype(dtype)
    clf = case_control(model, holdout=0.3).fit(X, y)
    assert len(clf.predict(X[:2])) == 2
    X[1, 1] = np.inf
    for call in (lambda: clf.predict(X[:2]), lambda: clf.fit(X, y)):
        with pytest.raises(DataError, match="infinity"):
            call()


def test_missing_values_go_where_they_are_welcome(toy):
    X, y = toy.X_y()
    X = X.copy()
    X[::7, 0] = np.nan
    clf = case_control("auto", holdout=2).fit(X, y)
    assert np.isfinite(clf.decision_function(X)).all()
    case_control(BoostedRatio(n_rounds=10), holdout=2).fit(X, y)
    with pytest.raises(DataError, match="NaN"):
        DRPUClassifier(KernelRatio(), scenario="case-control").fit(X, y)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_rows_with_missing_values_are_a_fact_and_no_warning(toy, kind):
    X, y = toy.X_y()
    X[::10, 0] = np.nan
    clf = case_control("auto", holdout=2).fit(kind(X), y)
    notes = [note for note in clf.fitted_.columns.notes if note.code == "gaps"]
    assert [note.number for note in notes] == [0.1]
    assert not notes[0].doubtful


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.empty((0, 2)), "minimum of 1"),
        (np.zeros((3, 5)), "features"),
        (np.zeros(4), "2D array"),
        (np.array([["a", "b"]]), "convert"),
        (np.full((2, 2), np.nan), "NaN"),
    ],
)
def test_rows_of_another_shape_are_refused_later_too(fitted, X, message):
    for method in (fitted.predict, fitted.adapt, fitted.at_prior(0.5).predict):
        with pytest.raises(DataError, match=message):
            method(X)


def test_messages_do_not_list_the_data(toy):
    X, y = toy.X_y()
    for rows, labels in ((X[:, 0], y), (X * 1j, y), (X, y * 1j)):
        with pytest.raises((DataError, LabelError)) as told:
            light().fit(rows, labels)
        assert len(str(told.value)) < 400


def test_a_model_that_needs_dense_rows_says_so(toy):
    X, y = toy.X_y()
    with pytest.raises(DataTypeError, match="NetworkRatio does not support") as caught:
        DRPUClassifier(NetworkRatio(), scenario="case-control").fit(sparse.csr_matrix(X), y)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("weight", [[1.0], [-1.0] * 1200, [np.nan] * 1200, [0.0] * 1200])
def test_weights_that_cannot_be_are_refused(toy, weight):
    with pytest.raises(DataError, match="sample_weight"):
        light().fit(*toy.X_y(), sample_weight=weight)


def test_one_class_without_weight_is_refused(toy):
    X, y = toy.X_y()
    with pytest.raises(DataError, match="one class only"):
        light().fit(X, y, sample_weight=(y == 0).astype(float))


def test_weights_reach_loss_and_counts(toy):
    X, y = toy.X_y()
    weight = np.where(y == 1, 1.0, np.where(X.sum(axis=1) > 0, 3.0, 1.0))
    clf = light().fit(X, y, sample_weight=weight)
    # Where the prior is not identified, its value is a central one; the upper reading follows the weights.
    assert (clf.prior_.upper or clf.prior_.value) > light().fit(X, y).prior_.value + 0.1
    assert clf.tails_.weighted


def test_samples_that_come_apart_are_checked_like_rows_and_labels(toy):
    X, y = toy.X_y()
    apart = light().fit_pu(toy.positive, toy.unlabeled)
    assert apart.prior_ == light().fit(X, y).prior_
    with pytest.raises(DataError, match="features"):
        light().fit_pu(toy.positive, toy.unlabeled[:, :1])


def test_repeated_entries_of_sparse_rows_are_their_sum():
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.repeat([[1.5], [0.5]], [120, 240], axis=0), (360, 6))
    rows, columns = np.nonzero(counts)
    repeats = counts[rows, columns]
    ends = np.append(0, np.cumsum(np.bincount(rows, weights=repeats, minlength=360))).astype(int)
    repeated = sparse.csr_matrix((np.ones(repeats.sum()), np.repeat(columns, repeats), ends), shape=(360, 6))
    summed = sparse.csr_matrix(counts.astype(float))
    y, n = np.repeat([1, 0], [120, 240]), repeated.nnz
    fits = [case_control("boosted").fit(X, y) for X in (repeated, summed)]
    assert fits[0].prior_ == fits[1].prior_
    assert_array_equal(fits[0].decision_function(repeated), fits[1].decision_function(summed))
    assert repeated.nnz == n  # the matrix of the user is unchanged
