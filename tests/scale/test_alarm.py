"""The alarm for a changed prior: false alarms over whole streams, and the delay of true ones."""

from dataclasses import replace

import numpy as np
import pytest

from drpu import ScoreTails
from drpu._codec import decode, encode
from drpu.exceptions import ArtifactError, DataError
from drpu.scale.monitor import PriorAlarm


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
