"""One progress bar: it moves with every part of the work, says what time is left, and needs a terminal."""

import io
import re
import sys
import types

import numpy as np
import pytest

from drpu import (
    DRPUClassifier,
    GenPUClassifier,
    NetworkRatio,
    _progress,
    count_batches,
    make_gaussian_pu,
    suspects,
)
from drpu._progress import Step, part, progress, progress_bar, say_above
from drpu.exceptions import ParameterError


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal, and a clock that moves by one second whenever somebody looks at it."""
    seconds = iter(range(10**6))
    monkeypatch.setattr(_progress.time, "monotonic", lambda: float(next(seconds)))
    place = types.SimpleNamespace(stderr=Terminal(), modules={})  # pytest sets sys.stderr for each phase
    monkeypatch.setattr(_progress, "sys", place)
    return place.stderr


def shares(terminal):
    """The shares that were shown, in percent."""
    return [int(share) for share in re.findall(r"(\d+)%", terminal.getvalue())]


def labels(terminal):
    return set(re.findall(r"\x1b\[K(\w+) [█░]", terminal.getvalue()))


def test_parts_of_parts_move_one_bar(terminal):
    with progress_bar("fit", show=True):
        with part(0.2), progress_bar("inner", show=True):
            pass
        with part(0.8):
            for _ in progress(range(4), total=4):
                for _ in progress(range(5), total=5):
                    pass
    assert labels(terminal) == {"fit"}
    assert shares(terminal) == [0, 20, *range(24, 101, 4)]
    assert terminal.getvalue().endswith("\r\x1b[K\r")  # nothing is left of the bar


def test_parts_that_end_early_or_run_beside_each_other_add_up(terminal):
    with progress_bar("fit", show=True):
        first, second = Step.parts(2)
        second.run(lambda: [None for _ in progress(range(4), total=4)])
        for _ in progress(iter([1, 2]), total=8):  # inside the whole, not inside a job
            break
        first.run(lambda: None)
        first.advance(1)  # finished already
    assert max(shares(terminal)) == 100
    assert shares(terminal) == sorted(shares(terminal))


def test_the_time_left_follows_from_the_time_passed(terminal):
    with progress_bar("fit", show=True):
        for _ in progress(range(10), total=10):
            pass
    for share, minutes, seconds in re.findall(r"(\d+)%, (\d+):(\d\d) left", terminal.getvalue()):
        passed = 2 * int(share) / 10  # the clock is read twice for each drawing
        expected = passed * (100 - int(share)) / int(share)
        assert 60 * int(minutes) + int(seconds) == pytest.approx(expected, abs=0.2 * expected + 1.5)
    assert _progress._clock(3725) == "1:02:05"


def test_lines_are_written_above_the_bar(terminal):
    with progress_bar("fit", show=True):
        say_above("a line", terminal)
    assert "\r\x1b[K\ra line\n\r\x1b[Kfit" in terminal.getvalue()


@pytest.mark.parametrize("verbose", [None, "yes", 1.0])
def test_verbose_must_be_an_integer(rows, verbose):
    clf = DRPUClassifier("classifier", holdout=2, random_state=0).fit(*rows)
    calls = (
        lambda: suspects(clf, *rows, verbose=verbose),
        lambda: count_batches(clf, rows[0], verbose=verbose),
        lambda: GenPUClassifier("kernel", prior=0.4, steps=1, verbose=verbose).fit(*rows),
    )
    for call in calls:
        with pytest.raises(ParameterError, match=f"verbose must be an integer, got {verbose!r}"):
            call()


def test_an_error_takes_the_bar_away(terminal):
    def fail():
        with progress_bar("fit", show=True):
            for _ in progress(range(3), total=3):
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert Step.current.get() is None
    assert not _progress._BARS


def test_without_a_terminal_there_is_no_bar(capsys):
    with progress_bar("fit", show=True):
        assert list(progress([1, 2], total=2)) == [1, 2]
        assert Step.current.get() is None
    assert capsys.readouterr() == ("", "")


def test_a_notebook_gets_one_display_that_is_replaced(monkeypatch):
    shown = []
    handle = types.SimpleNamespace(update=lambda text, raw: shown.append(text["text/plain"]))
    notebook = types.SimpleNamespace(
        get_ipython=lambda: types.SimpleNamespace(kernel=object()),
        display=types.SimpleNamespace(display=lambda *_, **__: handle),
    )
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setattr(_progress, "_PAUSE", 0)
    with progress_bar("fit", show=True):
        for _ in progress(range(2), total=2):
            pass
    assert [text.split()[0] for text in shown if text] == ["fit"] * 3
    assert shown[-1] == ""


@pytest.fixture(scope="module")
def rows():
    return make_gaussian_pu(150, 500, prior=0.4, separation=3, random_state=0).X_y()


def test_a_network_moves_the_bar_with_its_epochs(terminal, rows):
    network = NetworkRatio(hidden=(4,), epochs=6, alpha=0.1, random_state=0, verbose=1)
    DRPUClassifier(network, holdout=0.2, random_state=0, verbose=1).fit(*rows)
    assert labels(terminal) == {"fit"}
    assert len(set(shares(terminal))) >= 6
    assert max(shares(terminal)) == 100


@pytest.mark.usefixtures("few_trees")
def test_folds_members_and_past_periods_move_the_bar(terminal, rows):
    X, y = rows
    periods = np.random.default_rng(0).integers(0, 4, len(y))
    clf = DRPUClassifier(scenario="single-sample", holdout=3, random_state=0, verbose=1)
    clf.fit(X, y, periods=periods)
    assert labels(terminal) == {"fit"}
    assert len(set(shares(terminal))) > 12  # four fits with members, and two or more past periods
    assert shares(terminal) == sorted(shares(terminal))


def test_suspects_move_the_bar_until_the_last_repeat(terminal, rows):
    suspects(DRPUClassifier("classifier", holdout=2, random_state=0).fit(*rows), *rows, verbose=1)
    assert labels(terminal) == {"suspects"}
    assert len(set(shares(terminal))) > 12  # three repeats of five folds
    assert shares(terminal) == sorted(shares(terminal))
