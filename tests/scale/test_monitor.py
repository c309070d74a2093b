"""Laws of PriorMonitor: a window of counts, and the priors estimated from it."""

import copy
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scale_data import DATA, PLAIN
from sklearn.base import clone

from drpu import DRPUClassifier, PriorMonitor, ScoreTails, make_gaussian_pu
from drpu._codec import decode, encode
from drpu.exceptions import ArtifactError, DataError, ParameterError
from drpu.scale.monitor import PriorAlarm


def batches(prior, n, size=300, seed=0):
    for i in range(n):
        options = {"separation": 3, "dimensions": 2, "random_state": seed + i}
        drawn = make_gaussian_pu(10, 10, prior=0.4, test_prior=prior, n_test=size, **options)
        yield drawn.test


def test_a_window_holds_the_latest_rows():
    monitor, parts = PriorMonitor(PLAIN, window=900), list(batches(0.3, 6))
    for part in parts:
        reading = monitor.update(part)
    assert reading.n == 900
    assert monitor.tails == PLAIN.count(np.concatenate(parts[-3:]))
    assert reading.prior == PLAIN.adapt(np.concatenate(parts[-3:])).prior_


@pytest.mark.parametrize(("window", "numbers"), [(None, [300, 600, 900, 1200]), (500, [300, 600, 600, 600])])
def test_whole_batches_leave_once_the_others_are_enough(window, numbers):
    monitor, parts = PriorMonitor(PLAIN, window=window), list(batches(0.3, 4))
    assert [monitor.update(part).n for part in parts] == numbers
    assert monitor.tails == PLAIN.count(np.concatenate(parts if window is None else parts[2:]))


def test_a_monitor_follows_the_prior():
    monitor = PriorMonitor(PLAIN, window=1500)
    for prior in (0.4, 0.1):
        for part in batches(prior, 5, seed=50):
            reading = monitor.update(part)
        assert reading.prior.low - 0.02 <= prior <= reading.prior.high + 0.02
        assert reading.moved is (prior == 0.1)
        assert reading.trusted


def test_other_changes_are_seen():
    reading = PriorMonitor(PLAIN).update(np.concatenate([DATA.test, DATA.test + 40.0]))
    assert not reading.trusted
    assert "not prior shift" in str(reading)


def test_readings_have_names_and_numbers():
    monitor = PriorMonitor(PLAIN, keep=2)
    for when, part in zip(("May", None, "July"), batches(0.3, 3), strict=True):
        monitor.update(part, when=when)
    assert [reading.when for reading in monitor.readings] == [2, "July"]
    assert "July" in repr(monitor)
    assert "nothing read yet" in repr(PriorMonitor(PLAIN))


def test_counts_and_rows_are_the_same_to_it_and_counts_stay_as_they_are():
    tails, by_rows, by_counts = PLAIN.count(DATA.test), PriorMonitor(PLAIN), PriorMonitor(PLAIN)
    assert by_rows.update(DATA.test).prior == by_counts.update(tails).prior
    by_counts.update(DATA.test)
    assert tails == PLAIN.count(DATA.test)


def test_the_classifier_of_the_day():
    monitor = PriorMonitor(PLAIN)
    with pytest.raises(DataError, match="no reading"):
        monitor.adapted()
    reading = monitor.update(DATA.test)
    adapted = monitor.adapted().at_cost(0.7)
    assert adapted.prior_ == reading.prior
    assert adapted.cost == 0.7


def test_moved_is_away_from_the_prior_in_use():
    prior = PLAIN.adapt(DATA.test).prior_
    assert PriorMonitor(PLAIN).update(DATA.test).moved
    assert not PriorMonitor(PLAIN.at_prior(prior)).update(DATA.test).moved


@pytest.mark.parametrize("window", [None, 700])
def test_it_goes_on_after_a_restart(window, tmp_path):
    first, parts = PriorMonitor(PLAIN, window=window), list(batches(0.3, 5))
    for part in parts[:3]:
        first.update(part)
    first.save(tmp_path / "monitor")
    second = PriorMonitor.load(tmp_path / "monitor", PLAIN)
    for part in parts[3:]:
        assert first.update(part) == second.update(part)


def test_rows_that_arrive_one_by_one_are_joined():
    rows = np.concatenate(list(batches(0.3, 2)))[:597]
    monitor = PriorMonitor(PLAIN, window=400)
    readings = [monitor.update(row[None]) for row in rows]
    assert len(monitor.readings) == 1 + 596 // 4  # of the first row, and of each hundredth
    assert readings[2].prior == readings[1].prior
    assert 400 <= monitor.tails.n < 404
    assert monitor.tails == PLAIN.count(rows[-round(monitor.tails.n) :])
    assert len(monitor._batches) <= 101
    assert readings[-1].prior == PLAIN.adapt(monitor.tails).prior_


def test_joined_batches_keep_their_labels(single):
    rows = np.concatenate(list(batches(0.3, 2)))[:595]  # the last one completes six rows
    one_by_one = PriorMonitor(single, window=600)
    for k, row in enumerate(rows):
        one_by_one.update(row[None], n_labelled=int(k % 6 == 0))
    at_once = PriorMonitor(single, window=600)
    assert one_by_one.readings[-1].prior == at_once.update(rows, n_labelled=100).prior


def test_a_file_of_many_batches_is_small_and_the_window_is_adapted_to_at_once(tmp_path):
    monitor = PriorMonitor(PLAIN, window=900)
    for part in batches(0.3, 100, size=10):
        monitor.update(part)
    monitor.save(tmp_path / "monitor")
    assert (tmp_path / "monitor").stat().st_size < 40_000
    loaded = PriorMonitor.load(tmp_path / "monitor", PLAIN)
    assert loaded.tails == monitor.tails
    assert loaded.adapted().prior_ == monitor.adapted().prior_
    assert not loaded.readings


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_goes_on_by_itself(copied):
    monitor, (first, second) = PriorMonitor(PLAIN, window=500), batches(0.3, 2)
    monitor.update(first)
    with monitor._lock:  # an update of another thread
        other = copied(monitor)
        reading = other.update(second)
    assert (monitor.tails.n, other.tails.n) == (300, 600)
    assert reading == monitor.update(second)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_can_update_although_the_parent_was_updating():
    monitor, tails = PriorMonitor(PLAIN), PLAIN.count(DATA.test)
    with monitor._lock:
        child = os.fork()
        if child == 0:
            os._exit(int(monitor.update(tails).n == tails.n))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_damaged_and_foreign_files_are_refused(tmp_path):
    from drpu import DRPUClassifier, load

    monitor = PriorMonitor(PLAIN)
    monitor.update(DATA.test)
    monitor.save(tmp_path / "monitor")
    with pytest.raises(ArtifactError, match=r"read it with PriorMonitor\.load"):
        load(tmp_path / "monitor")
    (tmp_path / "half").write_bytes((tmp_path / "monitor").read_bytes()[:500])
    with pytest.raises(ArtifactError):
        PriorMonitor.load(tmp_path / "half", PLAIN)
    other = DRPUClassifier("kernel", random_state=1).fit_pu(DATA.positive[:150], DATA.unlabeled)
    with pytest.raises(ArtifactError, match="not made by this classifier"):
        PriorMonitor.load(tmp_path / "monitor", other)


@pytest.mark.parametrize("options", [{"window": 0}, {"level": 1.0}, {"keep": 0}])
def test_parameters_are_checked(options):
    with pytest.raises(ParameterError, match=next(iter(options))):
        PriorMonitor(PLAIN, **options)
    with pytest.raises(ParameterError, match="DRPUClassifier"):
        PriorMonitor("plain")


SINGLE = DRPUClassifier("kernel", scenario="single-sample", random_state=0)


@pytest.fixture(scope="module")
def single():
    return clone(SINGLE).fit(*DATA.X_y())


@pytest.mark.filterwarnings("ignore::drpu.exceptions.ShiftWarning")
@pytest.mark.parametrize("window", [None, 600])
def test_labels_of_a_window_read_as_in_adapt(single, window, tmp_path):
    monitor, parts = PriorMonitor(single, window=window), [part + 0.7 for part in batches(0.3, 2)]
    for part, labels in zip(parts, (40, 60), strict=True):
        reading = monitor.update(part, n_labelled=labels)
    y = np.zeros(600, dtype=int)
    y[:100] = 1
    adapted = single.adapt(np.concatenate(parts), y)
    assert reading.prior == adapted.prior_ == monitor.adapted().prior_
    assert reading.sources == ("rows", "labels")
    monitor.save(tmp_path / "monitor.drpu")
    again = PriorMonitor.load(tmp_path / "monitor.drpu", single)
    assert again.update(parts[0], n_labelled=40).prior == monitor.update(parts[0], n_labelled=40).prior


def test_batches_without_labels_take_no_part_in_their_share(single):
    first, second = batches(0.3, 2)
    both, one = PriorMonitor(single, window=600), PriorMonitor(single, window=600)
    both.update(first, n_labelled=50)
    one.update(first)
    assert both.update(second).sources == ("rows", "labels")
    assert one.update(second).sources == ("rows",)


def test_more_labels_than_rows_or_case_control_labels_are_refused(single):
    (part,) = batches(0.3, 1)
    with pytest.raises(DataError, match="more labels than rows"):
        PriorMonitor(single).update(part, n_labelled=301)
    with pytest.raises(ParameterError, match="n_labelled must be None with scenario='case-control'"):
        PriorMonitor(PLAIN).update(part, n_labelled=3)
    with pytest.raises(ParameterError, match="n_labelled must be None for weighted rows"):
        PriorMonitor(single).update(part, n_labelled=3, sample_weight=np.arange(300.0))


# -- the alarm ---------------------------------------------------------------------------------------


def draw(rng, n, prior):
    return np.where(rng.random(n) < prior, rng.normal(2, 1, n), rng.normal(0, 1, n))


def reference(rng, prior=0.3):
    return ScoreTails(rng.normal(2, 1, 300)).update(draw(rng, 2000, prior))


def test_quiet_streams_hardly_ever_raise_it():
    # 60 streams at alpha = .05: more than 8 alarms have a chance below .2 %, if the bound holds
    raised = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        tails = reference(rng)
        alarm = PriorAlarm.of(tails)
        for _ in range(20):
            alarm = alarm.updated(tails.empty().update(draw(rng, 200, 0.3)))
        raised += alarm.raised
    assert raised <= 8


@pytest.mark.parametrize("start", [0, 2000])
def test_a_moved_prior_raises_it_soon_early_and_late(start):
    delays = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        tails = reference(rng)
        alarm = PriorAlarm.of(tails)
        for _ in range(start // 100):
            alarm = alarm.updated(tails.empty().update(draw(rng, 100, 0.3)))
        for _ in range(40):
            alarm = alarm.updated(tails.empty().update(draw(rng, 100, 0.5)))
            if alarm.raised:
                break
        delays.append(alarm.rows - start)
    assert np.median(delays) <= 1200


def test_the_expected_growth_of_the_negatives_is_what_it_is_compared_with():
    rng = np.random.default_rng(0)
    tails = reference(rng, prior=0.3)
    moved = tails.empty().update(draw(rng, 4000, 0.6))
    growth = (1 - 0.6) / (1 - 0.3)
    assert not PriorAlarm.of(tails, (growth,) * 3).updated(moved).raised
    assert PriorAlarm.of(tails).updated(moved).raised


def test_it_stays_raised():
    rng = np.random.default_rng(0)
    tails = reference(rng)
    alarm = PriorAlarm.of(tails).updated(tails.empty().update(draw(rng, 2000, 0.9)))
    assert alarm.raised
    for _ in range(20):
        alarm = alarm.updated(tails.empty().update(draw(rng, 1000, 0.3)))
        assert alarm.raised


def test_an_alarm_in_a_file_goes_on_alike():
    rng = np.random.default_rng(0)
    tails = reference(rng)
    alarm = PriorAlarm.of(tails, alpha=0.01)
    for _ in range(8):
        alarm = alarm.updated(tails.empty().update(draw(rng, 200, 0.3)))
    again = decode(*encode(alarm), PriorAlarm)
    batch = tails.empty().update(draw(rng, 200, 0.35))
    assert again.updated(batch).evidence == alarm.updated(batch).evidence


@pytest.mark.parametrize("damage", [{"above": np.array([])}, {"low": 0.9}, {"count": np.array([-1.0])}])
def test_a_damaged_alarm_is_refused(damage):
    alarm = PriorAlarm.of(reference(np.random.default_rng(0)))
    with pytest.raises((DataError, ArtifactError)):
        encode(replace(alarm, **damage))


def test_scores_all_above_or_below_are_no_trouble():
    tails = ScoreTails([1.0, 2.0, 3.0]).update(np.zeros(100))
    alarm = PriorAlarm.of(tails).updated(tails.empty().update(np.full(50, 5.0)))
    assert np.isfinite(alarm.evidence)
    assert alarm.raised
