"""Chores: their periods, their slices, and how they end."""

import errno
import logging
from collections.abc import Callable, Iterator

import pytest

from minibroker.clock import ManualClock
from minibroker.cluster.logs import chores as module
from minibroker.cluster.logs.chores import Chores


class Rig:
    """Chores on a clock that a test moves, and their deferred calls."""

    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.soon: list[Callable[[], None]] = []
        self.chores = Chores(self.clock, self.soon.append)
        self.done: list[int] = []

    def note(self) -> Iterator[None]:
        """Run a chore of one step that records the time."""
        self.done.append(self.clock.now_ms())
        yield


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_chore_is_done_after_each_period(rig: Rig) -> None:
    rig.chores.every("a", 100, rig.note)
    rig.clock.advance(350)
    assert rig.done == [100, 200, 300]


@pytest.mark.parametrize(("first_ms", "done"), [(30, [30, 130, 230]), (0, [0, 100, 200]), (5000, [100, 200])])
def test_the_first_time_may_come_earlier(rig: Rig, first_ms: int, done: list[int]) -> None:
    rig.chores.every("a", 100, rig.note, first_ms=first_ms)
    rig.clock.advance(250)
    assert rig.done == done


def test_a_chore_takes_the_place_of_the_one_with_its_name(rig: Rig) -> None:
    rig.chores.every("a", 100, rig.note)
    rig.clock.advance(150)
    rig.chores.every("a", 30, rig.note)
    rig.clock.advance(100)
    assert rig.done == [100, 180, 210, 240]


def test_a_chore_may_give_itself_another_period(rig: Rig) -> None:
    def work() -> Iterator[None]:
        rig.chores.every("a", 10, rig.note)
        yield

    rig.chores.every("a", 100, work)
    rig.clock.advance(135)
    assert rig.done == [110, 120, 130]


def test_long_work_is_done_in_slices(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    monkeypatch.setattr(module, "_SLICE_S", 0.003)
    steps = 0

    def work() -> Iterator[None]:
        nonlocal now, steps
        for _ in range(10):
            now += module._SLICE_S / 2 + 1e-6
            steps += 1
            yield

    ended: list[bool] = []
    rig.chores.run(work(), lambda: ended.append(True))
    steps_done = []
    while rig.soon:
        steps_done.append(steps)
        rig.soon.pop(0)()
    assert steps_done == [2, 4, 6, 8, 10]
    assert ended == [True]


def test_the_next_round_begins_a_period_after_the_last_slice(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLICE_S", -1.0)
    rig.chores.every("a", 100, rig.note)
    rig.clock.advance(100)
    assert (rig.done, len(rig.soon)) == ([100], 1)
    rig.clock.advance(500)
    rig.soon.pop()()
    rig.clock.advance(100)
    assert rig.done == [100, 700]


def test_a_fault_costs_a_round_and_is_logged(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    def work() -> Iterator[None]:
        yield from rig.note()
        raise ValueError("a fault")

    rig.chores.every("a", 100, work)
    rig.clock.advance(200)
    assert rig.done == [100, 200]
    assert [record.exc_info is not None for record in caplog.records if record.levelno >= logging.ERROR] == [True] * 2


def test_a_lack_of_descriptors_is_logged_without_a_trace(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    def work() -> Iterator[None]:
        yield from rig.note()
        raise OSError(errno.EMFILE, "Too many open files", "a_module_that_it_loads.py")

    rig.chores.every("a", 100, work)
    rig.clock.advance(100)
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.exc_info is None
    assert "[Errno 24] Too many open files: 'a_module_that_it_loads.py'" in record.getMessage()


def test_nothing_is_done_after_the_stop(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLICE_S", -1.0)

    def twice() -> Iterator[None]:
        yield from rig.note()
        yield from rig.note()

    rig.chores.every("waits", 200, rig.note)
    rig.chores.every("works", 100, twice)
    rig.clock.advance(100)
    rig.chores.stop()
    rig.soon.pop()()
    rig.chores.every("late", 10, rig.note)
    rig.clock.advance(1000)
    assert rig.done == [100]
    assert not rig.soon
