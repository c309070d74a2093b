"""A column that is made from the label, up to a few errors, is named, and the prior is not identified."""

import numpy as np
import pytest

from drpu import BoostedRatio, DRPUClassifier, PriorEstimate, load, save
from drpu.exceptions import TrainingTableWarning

pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")

N = 2000


def sample(prior=0.4, seed=0):
    """Columns that tell positives, and labels of 30 percent of these."""
    rng = np.random.default_rng(seed)
    positive = rng.random(N) < prior
    labelled = positive & (rng.random(N) < 0.3)
    columns = rng.normal(size=(N, 3)) + 1.5 * positive[:, None]
    return columns, labelled, positive


def made_from(labelled, wrong, seed=1):
    """The label, but for a share of wrong values."""
    return labelled ^ (np.random.default_rng(seed).random(N) < wrong)


def classifier(**options):
    return DRPUClassifier(BoostedRatio(n_rounds=20), holdout=2, random_state=0, **options)


def leaks(clf):
    return [
        note.column for note in clf.fitted_.columns.notes if note.code in ("gives-away", "nearly-gives-away")
    ]


@pytest.mark.parametrize("wrong", [0, 0.002, 0.01, 0.03])
@pytest.mark.parametrize("as_frame", [False, True])
def test_a_column_made_from_the_label_is_named_and_the_prior_is_not_identified(wrong, as_frame, tmp_path):
    columns, labelled, positive = sample()
    X = np.column_stack([columns, made_from(labelled, wrong)])
    name = "column 3"
    if as_frame:
        pd = pytest.importorskip("pandas")
        X = pd.DataFrame(X, columns=["a", "b", "c", "status"])
        X["status"] = np.where(X["status"] == 1, "checked", "open")
        name = "status"
    with pytest.warns(TrainingTableWarning, match=f"'{name}' alone tells labelled from unlabeled rows"):
        clf = classifier().fit(X, labelled)
    assert leaks(clf) == [name]
    assert not clf.prior_.identified
    assert clf.prior_.high < positive.mean()  # which is why it must not be believed
    save(clf, tmp_path / "a.drpu")
    assert not load(tmp_path / "a.drpu").prior_.identified


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("prior", [0.05, 0.4, 0.8])
def test_columns_that_tell_positives_are_not_doubted(prior, seed):
    columns, labelled, _ = sample(prior, seed)
    columns[:, 0] += 3 * columns[:, 1]  # one of them tells more than the others
    assert leaks(classifier().fit(columns, labelled)) == []


def test_the_only_column_is_not_doubted():
    _, labelled, positive = sample(0.1)
    column = positive + np.random.default_rng(0).normal(0, 0.3, N)
    assert leaks(classifier().fit(column[:, None], labelled)) == []


def test_a_prior_that_was_given_stays_identified():
    columns, labelled, positive = sample()
    given = PriorEstimate(positive.mean(), 0.35, 0.45, 0.95, "given")
    X = np.column_stack([columns, made_from(labelled, 0.01)])
    clf = classifier(prior=given).fit(X, labelled)
    assert leaks(clf)
    assert clf.prior_.identified
