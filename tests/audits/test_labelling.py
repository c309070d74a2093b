"""Laws of labels that are no fair sample: rates by cell, weights and bounds."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.special import logit
from sklearn.metrics import roc_auc_score

from drpu import Audit, DRPUClassifier, labelling_weights
from drpu.audits import sensitivity
from drpu.exceptions import DataError, DataTypeError, DRPUError, ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")
posteriors = st.lists(st.floats(0, 1), min_size=1, max_size=30).map(np.array)


def town(seed: int, rates: tuple[float, ...], n: int = 4000, prior: float = 0.3):
    """Cell, class and label of rows whose positives are labelled at the rate of their cell."""
    rng = np.random.default_rng(seed)
    cell = rng.integers(0, len(rates), n)
    y = rng.random(n) < prior
    label = y & (rng.random(n) < np.array(rates)[cell])
    return rng, cell, y, label


def audited(seed: int, rates: tuple[float, ...], n: int = 200):
    rng, cell, y, label = town(seed, rates)
    at = rng.choice(np.flatnonzero(~label), n, replace=False)
    return rates_of(cell, label, Audit.random(at, y[at]))


def rates_of(cell, label, audit):
    return list(labelling_weights(cell[:, None], label, by=0, audits=audit).rates.values())


def values(rates):
    return np.array([rate.value for rate in rates])


# -- weights ---------------------------------------------------------------------------------------


def test_weighted_labelled_rows_represent_all_positives():
    rates = (0.5, 0.1)
    gaps = []
    for seed in range(200):
        _, cell, y, label = town(seed, rates)
        found = labelling_weights(cell[:, None], label, by=0, rates=dict(enumerate(rates)))
        weight = found.weights[label]
        gaps.append(weight @ cell[label] / weight.sum() - cell[y].mean())
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / math.sqrt(200)


# -- rates -----------------------------------------------------------------------------------------


def planned(clf, seed: int, rates: tuple[float, ...]):
    """The same with rows that a classifier planned: positives have a larger chance to be among them."""
    rng, cell, y, label = town(seed, rates)
    plan = clf.plan_audit((rng.normal(size=len(y)) + 1.6 * y)[~label, None], n=200, random_state=seed)
    return rates_of(cell, label, plan.answer(y[~label][plan.rows]))


@pytest.mark.parametrize(("is_planned", "runs"), [(False, 200), (True, 60)])
def test_rates_of_cells_are_found_with_limits_that_hold(audit_clf, is_planned, runs):
    rates = (0.5, 0.1, 0.3)
    held, errors = [], []
    for seed in range(runs):
        found = planned(audit_clf, seed, rates) if is_planned else audited(seed, rates)
        held.append([f.low <= rate <= f.high for f, rate in zip(found, rates, strict=True)])
        errors.append(values(found) - rates)
    # Three standard errors of a share of 0.95, and of the mean over runs.
    assert (np.mean(held, axis=0) > 0.95 - 3 * math.sqrt(0.95 * 0.05 / runs)).all()
    assert (np.abs(np.mean(errors, axis=0)) < 0.03).all()


def test_equal_rates_are_shrunk_to_one_rate():
    alone, shrunk = [], []
    for seed in range(40):
        found = audited(seed, (0.3,) * 8)
        shrunk.append(np.ptp(values(found)))
        alone.append(np.mean([rate.high - rate.low for rate in found]))
    assert np.median(shrunk) < 0.05
    assert np.mean(alone) > 0.2  # the limits of a cell do not borrow from the others


def test_different_rates_are_shrunk_less_with_more_answers():
    few, many = (
        np.mean([np.ptp(logit(values(audited(seed, (0.6, 0.1), n=n)))) for seed in range(20)])
        for n in (40, 1500)
    )
    assert few < many
    assert_allclose(many, logit(0.6) - logit(0.1), rtol=0.1)


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 500)), min_size=1, max_size=6),
    st.lists(st.booleans(), min_size=1, max_size=20),
    st.integers(0, 10**6),
)
def test_any_counts_give_rates_inside_their_limits(counts, answers, seed):
    label = np.concatenate([np.arange(sum(pair)) < pair[0] for pair in counts])
    cell = np.repeat(np.arange(len(counts)), [sum(pair) for pair in counts])
    at = np.random.default_rng(seed).permutation(len(label))[: len(answers)]
    for rate in rates_of(cell, label, Audit.random(at, answers[: len(at)])):
        assert 0 <= rate.low <= rate.value <= rate.high <= 1
        assert rate.low < rate.high


# -- bounds ------------------------------------------------------------------------------------------


@given(posteriors, st.floats(0, 1))
def test_equal_rates_change_nothing(posterior, cost):
    found = sensitivity(posterior, k=1.0, cost=cost)
    assert found.prior_low == found.prior == found.prior_high
    assert found.flagged_low == found.flagged == found.flagged_high


@given(posteriors, st.floats(1, 20), st.floats(1, 20), st.floats(0, 1))
def test_bounds_grow_with_the_factor(posterior, one, other, rate):
    narrow, wide = (sensitivity(posterior, k=k, rate=rate) for k in sorted((one, other)))
    assert wide.prior_low <= narrow.prior_low + 1e-12
    assert narrow.prior_low <= narrow.prior + 1e-12
    assert narrow.prior <= narrow.prior_high + 1e-12
    assert narrow.prior_high <= wide.prior_high + 1e-12
    assert wide.flagged_low <= narrow.flagged_low <= narrow.flagged
    assert narrow.flagged <= narrow.flagged_high <= wide.flagged_high


@given(st.integers(0, 10**6), st.floats(1, 5))
def test_bounds_contain_the_truth_if_rates_differ_by_no_more(seed, k):
    rng = np.random.default_rng(seed)
    truth, middle = rng.random(50), 0.2
    rate = middle * k ** rng.uniform(-1, 1, 50)
    labelled = truth * np.minimum(rate, 1.0)
    posterior = np.minimum(labelled / middle, 1.0)  # as read at one rate
    found = sensitivity(posterior, k=k, rate=middle)
    assert found.prior_low <= truth.mean() + 1e-12
    assert truth.mean() <= found.prior_high + 1e-12
    assert found.flagged_low <= (truth > 0.5).mean() + 1e-12
    assert (truth > 0.5).mean() <= found.flagged_high + 1e-12


@given(posteriors, st.floats(1, 20))
def test_ranges_of_rows_are_rows(posterior, k):
    counts = np.arange(1, len(posterior) + 1)
    rows = sensitivity(np.repeat(posterior, counts), k=k)
    ranges = sensitivity(posterior, k=k, weight=counts.astype(float))
    assert_allclose([rows.prior_low, rows.prior_high], [ranges.prior_low, ranges.prior_high])
    assert_allclose([rows.flagged_low, rows.flagged_high], [ranges.flagged_low, ranges.flagged_high])


# -- weights of labelled rows ------------------------------------------------------------------------


def draw(seed: int, n: int = 3000):
    """Rows whose class depends on a product of columns, their class, and on which side of a column they are.

    The side is a column of its own, too.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = rng.random(n) < 1 / (1 + np.exp(2 - 3 * X[:, 0] * X[:, 1] - 2 * X[:, 2]))
    side = X[:, 2] > 0
    return np.column_stack([X, side]), y, side


def unfair(seed: int, n: int = 3000):
    """The same with labels at a rate of .6 or .1, depending on the side."""
    X, y, side = draw(seed, n)
    rng = np.random.default_rng([seed, 1])
    return X, y, y & (rng.random(n) < np.where(side, 0.1, 0.6)), side


def clf():
    return DRPUClassifier("boosted", scenario="single-sample", holdout=2, random_state=0)


def test_rates_from_answers_win_back_half_of_the_loss():
    lost, won, held = [], [], []
    test, truth, _ = draw(77, 4000)
    for seed in range(3):
        X, y, label, _ = unfair(seed)
        fair = y & (np.random.default_rng(seed).random(len(y)) < label.sum() / y.sum())
        rest = np.random.default_rng(seed).permutation(np.flatnonzero(~label))[:200]
        answers = [Audit.random(rest, y[rest])]
        found = labelling_weights(X, label, by=[4], audits=answers)
        fits = (
            clf().fit(X, label),
            clf().fit(X, label, audits=answers, sample_weight=found.weights),
            clf().fit(X, fair),
        )
        none, weighted, best = (roc_auc_score(truth, one.decision_function(test)) for one in fits)
        lost.append(best - none)
        won.append(weighted - none)
        for level, rate in ((0.0, 0.6), (1.0, 0.1)):
            held.append(found.rates[level].low <= rate <= found.rates[level].high)
    assert np.mean(held) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 6)
    assert np.mean(lost) > 0.02
    assert np.mean(won) > np.mean(lost) / 2


def test_weights_are_the_inverse_of_the_rate_of_the_level():
    X, _, label, side = unfair(0)
    frame = pd.DataFrame(X[:, :4], columns=list("abcd")).assign(branch=np.where(side, "north", "south"))
    found = labelling_weights(frame, label, by="branch", rates={"north": 0.1, "south": 0.6})
    rates = np.where(side, 0.1, 0.6)
    assert (found.weights[~label] == 1).all()
    assert_allclose(found.weights[label].mean(), 1)
    assert np.ptp((found.weights * rates)[label]) < 1e-12
    assert (found.rates["north"].value, found.rates["north"].low, found.rates["north"].high) == (
        0.1,
        0.1,
        0.1,
    )
    pairs = {(branch, None): rate for branch, rate in (("north", 0.1), ("south", 0.6))}
    both = labelling_weights(frame.assign(empty=None), label, by=["branch", "empty"], rates=pairs)
    assert_array_equal(both.weights, found.weights)


def test_labels_of_every_coding_give_the_same_weights():
    X, y, label, _ = unfair(0)
    wanted = labelling_weights(X, label, by=4, rates={0: 0.6, 1: 0.1}).weights
    known = np.where(label, "yes", np.where(y, None, "no"))
    for codes, options in (
        (np.where(label, "a", "b"), {"pos_label": "a"}),
        (np.where(label, 1.0, np.nan), {}),
        (known, {"negative_label": "no"}),
    ):
        assert_array_equal(
            labelling_weights(X, codes, by=4, rates={0: 0.6, 1: 0.1}, **options).weights, wanted
        )


def test_sparse_rows_have_the_rates_of_dense_ones():
    X, y, label, _ = unfair(0)
    rest = np.flatnonzero(~label)[::12]
    answers = Audit.random(rest, y[rest])
    dense, sparse = (labelling_weights(rows, label, by=[4], audits=answers) for rows in (X, csr_array(X)))
    assert dense.rates == sparse.rates


def test_it_prints_its_rates():
    X, _, label, side = unfair(0, 300)
    frame = pd.DataFrame({"a": X[:, 0], "branch": np.where(side, "<north>", "south")})
    found = labelling_weights(frame, label, by="branch", rates={"<north>": 0.1, "south": 0.6})
    assert "by branch" in repr(found)
    assert found.to_frame()["labelled"].tolist() == [(label & side).sum(), (label & ~side).sum()]
    assert "<td>0.600</td>" in found._repr_html_()
    assert "&lt;north&gt;" in found._repr_html_()
    many = labelling_weights(
        pd.DataFrame({"a": range(300)}), label, by="a", rates=dict.fromkeys(range(300), 0.5)
    )
    assert repr(many).endswith("and 270 more")


ANSWERS = Audit.random(range(50), [0, 1] * 25)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"by": [0]}, ParameterError, "give rates, .* or audits"),
        ({"by": [0], "rates": {}, "audits": ANSWERS}, ParameterError, "one of the two"),
        ({"by": ["branch"], "rates": {"a": 0.5}}, ParameterError, "positions of columns"),
        ({"by": pd.Series(["a"]), "rates": {}}, ParameterError, "positions of columns"),
        ({"by": 1.0, "rates": {}}, ParameterError, "positions of columns"),
        ({"by": True, "rates": {}}, ParameterError, "positions of columns"),
        ({"by": [], "rates": {}}, ParameterError, "at least one column"),
        ({"by": 4, "rates": np.ones(300)}, ParameterError, "rates must be a mapping"),
        ({"by": 4, "rates": {"a": 0.5}}, DataError, "every level with labelled rows, got none"),
        ({"by": 4, "rates": {0: 2.0, 1: 0.5}}, DataError, r"as they are probabilities, got 2\.0"),
        ({"by": 4, "rates": {0: "often", 1: 0.5}}, DataTypeError, "rates must hold numbers"),
        ({"by": 4, "audits": 3}, DataTypeError, "audit must be an Audit"),
        ({"by": 4, "audits": (np.ones((50, 5)), ANSWERS)}, ParameterError, "answers about rows of X"),
    ],
)
def test_rates_that_cannot_be_used_are_one_clear_error(options, error, message):
    X, _, label, _ = unfair(0, 300)
    with pytest.raises(error, match=message):
        labelling_weights(X, label, **options)


def test_columns_and_labels_belong_to_the_rows():
    X, _, label, _ = unfair(0, 300)
    with pytest.raises(DataError, match="by must name columns of X, got 'branch'"):
        labelling_weights(pd.DataFrame({"a": X[:, 0]}), label, by="branch", rates={})
    with pytest.raises(DRPUError, match="rows"):
        labelling_weights(X, label[:-1], by=4, rates={0: 0.5, 1: 0.5})
