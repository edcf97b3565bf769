"""The manual clock and the system clock."""

import asyncio
import time
from functools import partial

from minibroker.clock import ManualClock, SystemClock, Timer
from tests.patience import PATIENCE_S


def test_a_manual_clock_stands_still() -> None:
    clock = ManualClock(5)
    assert clock.now_ms() == clock.now_ms() == 5
    clock.advance(10)
    assert clock.now_ms() == 15


def test_timers_fire_at_their_moment_in_their_order() -> None:
    clock = ManualClock(0)
    fired: list[tuple[str, int]] = []
    for name, delay in (("late", 30), ("early", 10), ("middle", 20), ("also early", 10)):
        clock.call_later(delay, lambda name=name: fired.append((name, clock.now_ms())))  # type: ignore[misc]  # defaults bind
    clock.advance(9)
    assert fired == []
    clock.advance(11)
    assert fired == [("early", 10), ("also early", 10), ("middle", 20)]
    clock.advance(100)
    assert fired[-1] == ("late", 30)
    assert clock.now_ms() == 120


def test_a_cancelled_timer_does_not_fire() -> None:
    clock = ManualClock(0)
    fired: list[int] = []
    timer = clock.call_later(10, lambda: fired.append(1))
    timer.cancel()
    timer.cancel()
    clock.advance(20)
    assert fired == []


def test_a_timer_may_set_another_one_that_is_due_in_the_same_advance() -> None:
    clock = ManualClock(0)
    fired: list[int] = []

    def again() -> None:
        clock.call_later(10, lambda: fired.append(clock.now_ms()))

    clock.call_later(10, again)
    clock.advance(25)
    assert fired == [20]


def test_a_timer_may_cancel_another_one_of_the_same_moment() -> None:
    clock = ManualClock(0)
    fired: list[int] = []
    timers: list[Timer] = []

    def cancel_the_other() -> None:
        timers[0].cancel()

    clock.call_later(10, cancel_the_other)
    timers.append(clock.call_later(10, lambda: fired.append(2)))
    clock.advance(10)
    assert fired == []


def test_a_timer_without_delay_waits_for_the_next_advance() -> None:
    clock = ManualClock(0)
    fired: list[int] = []
    clock.call_later(0, lambda: fired.append(1))
    assert fired == []
    clock.advance(0)
    assert fired == [1]


async def test_the_system_clock_is_the_machines() -> None:
    clock = SystemClock(asyncio.get_running_loop())
    before = time.time_ns() // 1_000_000
    assert before <= clock.now_ms() <= time.time_ns() // 1_000_000


async def test_the_system_clock_has_the_timers_of_the_event_loop() -> None:
    loop = asyncio.get_running_loop()
    clock = SystemClock(loop)
    fired: asyncio.Future[float] = loop.create_future()
    never = clock.call_later(0, lambda: fired.set_exception(AssertionError("cancelled")))
    never.cancel()
    started = loop.time()
    clock.call_later(20, lambda: fired.set_result(loop.time()))
    assert await fired - started >= 0.015


async def test_the_machines_clock_can_be_advanced() -> None:
    clock = SystemClock(asyncio.get_running_loop())
    fired: list[tuple[str, int]] = []
    began = clock.now_ms()

    def note(name: str) -> None:
        fired.append((name, round((clock.now_ms() - began) / 3_600_000)))

    def again() -> None:
        note("hourly")
        clock.call_later(3_600_000, again)

    clock.call_later(3_600_000, again)
    cancelled = clock.call_later(3_600_000, lambda: note("cancelled"))
    clock.call_later(8_700_000, lambda: note("between"))
    far = clock.call_later(100 * 3_600_000, lambda: note("far"))
    cancelled.cancel()
    clock.advance(3 * 3_600_000 + 1_000)
    assert fired == [("hourly", 1), ("hourly", 2), ("between", 2), ("hourly", 3)]
    assert clock.now_ms() - began >= 3 * 3_600_000
    far.cancel()


async def test_what_may_wait_is_called_once_at_the_end_of_a_jump() -> None:
    clock = SystemClock(asyncio.get_running_loop())
    called: list[int] = []
    began = clock.now_ms()

    def chore() -> None:
        called.append(round((clock.now_ms() - began) / 1000))
        clock.call_later(1000, chore, may_wait=True)

    clock.call_later(1000, chore, may_wait=True)
    clock.advance(100)
    assert called == []
    clock.advance(3_600_000)
    assert called == [3600]


async def test_a_timer_comes_as_much_earlier_as_the_clock_was_advanced() -> None:
    loop = asyncio.get_running_loop()
    clock = SystemClock(loop)
    called = asyncio.Event()
    clock.call_later(24 * 3_600_000, called.set)
    clock.advance(24 * 3_600_000 - 1)
    await asyncio.wait_for(called.wait(), PATIENCE_S)


async def test_resetting_takes_back_the_wall_clock_and_nothing_else() -> None:
    clock = SystemClock(asyncio.get_running_loop())
    clock.advance(3_600_000)
    evenly = clock.monotonic_ms()
    clock.reset()
    assert abs(clock.now_ms() - time.time() * 1000) < 60_000
    assert clock.monotonic_ms() >= evenly


async def test_what_waits_for_the_end_of_a_jump_can_be_cancelled_by_what_comes_before_it() -> None:
    clock = SystemClock(asyncio.get_running_loop())
    called: list[str] = []
    later: list[Timer] = []

    def first() -> None:
        called.append("first")
        later[0].cancel()

    clock.call_later(1000, first, may_wait=True)
    later.append(clock.call_later(1000, lambda: called.append("cancelled"), may_wait=True))
    clock.advance(5000)
    assert called == ["first"]


async def test_a_jump_within_a_jump_calls_each_timer_once_and_in_order() -> None:
    clock = SystemClock(asyncio.get_running_loop())
    fired: list[str] = []

    def jump() -> None:
        fired.append("jump")
        clock.call_later(10_000, lambda: fired.append("made within"))
        clock.advance(20_000)

    clock.call_later(10_000, jump)

    def make_another() -> None:
        clock.call_later(30_000, partial(fired.append, "made by a timer"))

    for delay_s in (15, 40):
        clock.call_later(delay_s * 1000, partial(fired.append, f"{delay_s} s"))
    clock.call_later(25_000, make_another)
    clock.advance(60_000)
    assert fired == ["jump", "15 s", "made within", "40 s", "made by a timer"]


async def test_a_jump_over_thousands_of_timers_passes_over_those_that_were_cancelled() -> None:
    clock = SystemClock(asyncio.get_running_loop())
    fired: list[int] = []
    timers = [clock.call_later(1000 + number, partial(fired.append, number)) for number in range(20_000)]
    for timer in timers[1::2]:
        timer.cancel()
    clock.advance(60_000)
    assert fired == list(range(0, 20_000, 2))


class PausingClock(ManualClock):
    """A clock whose reader is suspended after each reading."""

    def now_ms(self) -> int:
        now_ms = super().now_ms()
        self.advance(40)
        return now_ms

    def monotonic_ms(self) -> float:
        now_ms = super().monotonic_ms()
        self.advance(40)
        return now_ms


def test_a_suspended_reader_of_both_times_is_not_behind_on_the_wall_clock() -> None:
    now_ms, monotonic_ms = PausingClock().read_both_ms()
    assert now_ms - monotonic_ms == 40
