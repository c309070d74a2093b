import numpy as np
import pytest
from class_samples import draw
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import norm

from codec_laws import round_trip
from drpu._codec import encode
from drpu._samples import Sample, SamplePair
from drpu.core.bregman import bregman_risk, nonnegative_bregman_risk
from drpu.exceptions import ParameterError
from drpu.functions.links import LINKS
from drpu.ratios.boosted import BoostedRatio, BoostedRisk

CASES = [("lsif", link) for link in LINKS] + [(f, g) for f in ("ukl", "bkl") for g in ("softplus", "exp")]
LOSSES = [{"loss": "log"}, {"loss": "bregman"}, {"loss": "bregman", "generator": "ukl"}]


@pytest.fixture
def rows():
    return draw(np.random.default_rng(0), 100, 400)


def risk_of(generator, link, alpha):
    """A risk with weights on few rows, outputs at which B >= 0, and outputs at which it is not."""
    rng = np.random.default_rng(0)
    w_p, w_u = rng.random(3) + 0.1, rng.random(4) + 0.1
    risk = BoostedRisk(generator, link, alpha, w_p / w_p.sum(), w_u / w_u.sum())
    low, high = np.array([-1.0, -0.6, -0.8]), np.array([2.0, 2.5, 3.0, 1.5])
    return risk, np.r_[low, high], np.r_[high[:3], low, -0.7]


@pytest.mark.parametrize(("generator", "link"), CASES)
@pytest.mark.parametrize("branch", [0, 1])
def test_derivatives_are_those_of_the_risk_to_descend(generator, link, branch):
    risk, *outputs = risk_of(generator, link, 0.5)
    g = outputs[branch]
    assert (risk.rest(g) < 0) == bool(branch)

    def objective(g):
        r = LINKS[link].ratio(g)
        weights = {"positive_weight": risk.positive_weight, "unlabeled_weight": risk.unlabeled_weight}
        return nonnegative_bregman_risk(r[:3], r[3:], alpha=0.5, generator=generator, **weights).objective

    step = 1e-4 * np.eye(len(g))
    gradient = [(objective(g + h) - objective(g - h)) / 2e-4 for h in step]
    hessian = [(objective(g + h) - 2 * objective(g) + objective(g - h)) / 1e-8 for h in step]
    got = risk.derivatives(g)
    assert_allclose(got.gradient, gradient, rtol=1e-6, atol=1e-8)
    assert_allclose(got.hessian, hessian, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("generator", "link"), CASES)
@pytest.mark.parametrize("branch", [0, 1])
def test_steps_keep_the_gradient_and_a_hessian_that_is_not_negative(generator, link, branch):
    risk, *outputs = risk_of(generator, link, 0.5)
    exact, step = risk.derivatives(outputs[branch]), risk.step(outputs[branch])
    assert_array_equal(step.gradient, exact.gradient)
    assert (step.hessian >= 0).all()
    assert (step.hessian[3:] > 0).all()
    if (generator, link, branch) == ("lsif", "identity", 0):
        assert_allclose(step.hessian, np.r_[np.zeros(3), risk.unlabeled_weight])


@pytest.mark.parametrize("link", LINKS.values(), ids=list(LINKS))
def test_links_start_at_one_and_their_logarithm_keeps_every_rank(link):
    g = np.linspace(-6, 6, 100)
    assert_allclose(link.ratio(np.array([link.start])), 1)
    assert (np.diff(link.log_ratio(g)) > 0).all()
    large = g[link.ratio(g) > 0.02]
    assert_allclose(np.exp(link.log_ratio(large)), link.ratio(large), rtol=1e-12)
    if link is not LINKS["identity"]:
        assert_allclose(link.log_ratio(np.array([-500.0])), -500.0)


def test_a_leaf_holds_positive_mass_over_unlabeled_mass(rows):
    rng = np.random.default_rng(1)
    w_p, w_u = rng.random(100), rng.random(400)
    model = BoostedRatio(
        "bregman", n_rounds=1, learning_rate=1.0, leaves=6, l2=0.0,
        row_share=1.0, column_share=1.0, min_leaf=5, random_state=0,
    ).fit_ratio(*rows, positive_weight=w_p, unlabeled_weight=w_u)  # fmt: skip
    leaf_p, leaf_u = (model.trees.booster.predict(X, pred_leaf=True).ravel() for X in rows)
    assert len(np.unique(leaf_u)) > 3
    for leaf in np.unique(leaf_u):
        mass = (w_p[leaf_p == leaf].sum() / w_p.sum()) / (w_u[leaf_u == leaf].sum() / w_u.sum())
        if mass > 0.01:
            assert_allclose(model.ratio(rows[1][leaf_u == leaf]), mass, rtol=1e-5)


@pytest.mark.parametrize("min_leaf", [5, 40])
def test_first_trees_have_the_unlabeled_mass_asked_for(min_leaf, rows):
    learner = BoostedRatio("bregman", n_rounds=1, leaves=31, min_leaf=min_leaf)
    model = learner.set_params(row_share=1.0, random_state=0).fit_ratio(*rows)
    leaf = model.trees.booster.predict(rows[1], pred_leaf=True).ravel()
    assert np.unique(leaf, return_counts=True)[1].min() >= min_leaf


@pytest.mark.parametrize("settings", [*LOSSES, {"loss": "bregman", "generator": "bkl"}])
def test_learnt_risk_is_far_below_that_of_no_knowledge(settings):
    rng = np.random.default_rng(0)
    train, (positive, unlabeled) = draw(rng, 400, 2000, d=1), draw(rng, 4000, 4000, d=1)
    model = BoostedRatio(**settings, random_state=0).fit_ratio(*train)

    def true(x):
        return 1 / (0.4 + 0.6 * norm.pdf(x[:, 0], -1) / norm.pdf(x[:, 0], 1))

    best = bregman_risk(true(positive), true(unlabeled))
    learnt = bregman_risk(model.ratio(positive), model.ratio(unlabeled))
    assert learnt - best < 0.5 * (-0.5 - best)  # a ratio of 1 has risk -1/2


def test_log_loss_starts_from_the_odds_of_the_weights():
    same = np.zeros((40, 1)), np.zeros((60, 1))
    weights = {"positive_weight": np.full(40, 3.0), "unlabeled_weight": np.full(60, 0.5)}
    assert_allclose(BoostedRatio().fit_ratio(*same, **weights).ratio(same[0]), 1, rtol=1e-6)


@pytest.mark.parametrize("settings", LOSSES)
def test_holdout_rows_stop_the_trees_where_their_risk_is_lowest(settings, rows):
    held = draw(np.random.default_rng(5), 60, 200)
    learner = BoostedRatio(**settings, early_stopping=True, n_rounds=200, random_state=0)
    model = learner.fit_ratio(*rows, holdout=held)
    generator = "bkl" if settings["loss"] == "log" else settings.get("generator", "lsif")
    risk = bregman_risk(*(model.log_ratio(X) for X in held), generator=generator, log=True)
    assert_allclose(model.holdout_risk, risk, rtol=1e-6)
    train, unseen = (SamplePair(*map(Sample, samples)) for samples in (rows, held))
    grown = learner.as_grown(model, train, unseen)
    assert grown.n_rounds == model.n_rounds
    for rounds in (1, 200):
        other = grown.set_params(n_rounds=rounds).fit_ratio(*rows)
        assert risk <= bregman_risk(*(other.log_ratio(X) for X in held), generator=generator, log=True) + 1e-9
    assert 1 <= model.n_rounds < 200


def test_trees_that_are_stopped_find_a_product_of_three_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 16))
    product = np.sign(X[:, 0] * X[:, 1] * X[:, 2])  # no column, and no pair of columns, says anything
    positive = rng.random(len(X)) < 0.5 + 0.45 * product
    scores = [
        BoostedRatio(early_stopping=True, column_share=share, random_state=0)
        .fit_ratio(X[:6000][positive[:6000]], X[6000:9000])
        .log_ratio(X[9000:])
        for share in (None, 0.5)
    ]
    # A model without any knowledge has a correlation of 0 with a standard error of 0.018.
    whole, half = (np.corrcoef(score, product[9000:])[0, 1] for score in scores)
    assert whole > half + 0.1


def test_few_positives_do_not_stop_the_trees(rows):
    model = BoostedRatio(random_state=0).fit_ratio(*rows)
    assert model.n_rounds == 150
    assert np.isnan(model.holdout_risk)


@pytest.mark.parametrize("settings", LOSSES)
def test_sparse_rows_score_as_dense_ones(settings, rows):
    positive, unlabeled = (np.where(np.abs(X) < 0.7, 0, X) for X in rows)
    dense = BoostedRatio(**settings, random_state=0).fit_ratio(positive, unlabeled)
    learner = BoostedRatio(**settings, random_state=0)
    thin = learner.fit_ratio(sparse.csr_array(positive), sparse.csc_matrix(unlabeled))
    assert_allclose(thin.log_ratio(sparse.csr_array(unlabeled)), dense.log_ratio(unlabeled), atol=1e-9)


@pytest.mark.parametrize("settings", LOSSES)
def test_missing_values_are_learnt_from(settings, rows):
    rng = np.random.default_rng(0)
    positive, unlabeled = (X.copy() for X in rows)
    positive[rng.random(positive.shape) < 0.5] = np.nan  # missing values are evidence for a positive
    unlabeled[rng.random(unlabeled.shape) < 0.1] = np.nan
    model = BoostedRatio(**settings, random_state=0).fit_ratio(positive, unlabeled)
    gaps, none = model.ratio([[np.nan] * 3, [0.0, 0.0, 0.0]])
    assert gaps > 2 * none


@pytest.mark.parametrize("settings", [*LOSSES, {"loss": "bregman", "generator": "bkl", "alpha": 0.3}])
def test_a_function_comes_back_from_a_file(settings, rows):
    model = BoostedRatio(**settings, random_state=0).fit_ratio(*rows)
    assert_array_equal(round_trip(model).log_ratio(rows[1]), model.log_ratio(rows[1]))
    assert model.keeps == {}


def test_a_file_holds_no_training_row(rows):
    arrays = encode(BoostedRatio(random_state=0).fit_ratio(*rows)).arrays.values()
    numbers = {float(n) for array in arrays for n in array.ravel()}
    kept = b"".join(array.tobytes() for array in arrays)
    for X in rows:
        for dtype in (np.float64, np.float32):
            assert not any(row.astype(dtype).tobytes() in kept for row in X)
        assert not any(numbers.issuperset(row.tolist()) for row in X)


@pytest.mark.parametrize("settings", LOSSES)
def test_equal_seeds_give_equal_trees(settings, rows):
    first, second, third = (
        BoostedRatio(**settings, random_state=s).fit_ratio(*rows).trees.text() for s in (3, 3, 4)
    )
    assert first == second
    assert first != third


@pytest.mark.parametrize("settings", LOSSES)
@pytest.mark.parametrize(("n_positive", "n_unlabeled"), [(1, 1), (5, 5), (3, 60), (60, 3)])
def test_few_rows_still_give_a_finite_ratio(settings, n_positive, n_unlabeled, capfd):
    rng = np.random.default_rng(0)
    model = BoostedRatio(**settings, random_state=0).fit_ratio(*draw(rng, n_positive, n_unlabeled))
    assert np.isfinite(model.log_ratio(rng.normal(size=(9, 3)))).all()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name_value", [("generator", "lsif"), ("alpha", 0.0)])
def test_log_loss_refuses_what_it_cannot_use(name_value, rows):
    name, value = name_value
    with pytest.raises(ParameterError, match=name):
        BoostedRatio("log", **{name: value}).fit_ratio(*rows)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"loss": "hinge"}, "loss"),
        ({"loss": "bregman", "alpha": 1.5}, "alpha"),
        ({"n_rounds": 0}, "n_rounds"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"leaves": 1}, "leaves"),
        ({"min_leaf": 0}, "min_leaf"),
        ({"l2": -1.0}, "l2"),
        ({"row_share": 0.0}, "row_share"),
        ({"early_stopping": "yes"}, "early_stopping"),
        ({"holdout": 0.0}, "holdout"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_parameters_that_break_their_rule_are_named(settings, name, rows):
    with pytest.raises(ParameterError, match=name):
        BoostedRatio(**settings).fit_ratio(*rows)
