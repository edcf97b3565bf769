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
