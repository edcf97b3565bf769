from collections.abc import Callable

from minibroker.clock import Clock, ManualClock, Timer
from minibroker.coordinators.groups.deadlines import Deadline


class Counted(ManualClock):
    """A clock that counts the timers that are asked of it."""

    timers = 0

    def call_later(self, delay_ms: float, callback: Callable[[], None], *, may_wait: bool = False) -> Timer:
        self.timers += 1
        return super().call_later(delay_ms, callback, may_wait=may_wait)


def deadline(clock: Clock) -> tuple[Deadline, list[float]]:
    """A deadline, and the moments at which it called."""
    calls: list[float] = []
    return Deadline(clock, lambda: calls.append(clock.monotonic_ms())), calls


def test_a_deadline_calls_once_when_its_moment_has_come() -> None:
    clock = ManualClock(0)
    made, calls = deadline(clock)
    states = [made.is_set]
    made.restart(100)
    states.append(made.is_set)
    clock.advance(99)
    assert calls == []
    clock.advance(1000)
    assert calls == [100]
    states.append(made.is_set)
    assert states == [False, True, False]


def test_a_deadline_that_is_put_off_again_and_again_needs_a_timer_now_and_then_only() -> None:
    clock = Counted(0)
    made, calls = deadline(clock)
    for _ in range(1000):
        made.restart(100)
        clock.advance(1)
    assert clock.timers < 25
    assert calls == []
    clock.advance(98)
    assert calls == []
    clock.advance(1)
    assert calls == [1099]


def test_a_deadline_may_come_sooner_than_it_was_to() -> None:
    clock = ManualClock(0)
    made, calls = deadline(clock)
    made.restart(1000)
    made.restart(10)
    clock.advance(2000)
    assert calls == [10]


def test_a_cancelled_deadline_does_not_call_until_it_is_set_again() -> None:
    clock = ManualClock(0)
    made, calls = deadline(clock)
    made.restart(100)
    made.cancel()
    made.cancel()
    clock.advance(200)
    assert calls == []
    made.restart(100)
    clock.advance(100)
    assert calls == [300]


def test_a_deadline_may_be_set_again_by_what_it_calls() -> None:
    clock = ManualClock(0)
    calls: list[float] = []

    def call() -> None:
        calls.append(clock.monotonic_ms())
        if len(calls) < 3:
            made.restart(50)

    made = Deadline(clock, call)
    made.restart(50)
    clock.advance(1000)
    assert calls == [50, 100, 150]
