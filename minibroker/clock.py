"""The single source of time: wall-clock timestamps and timers.

Every part of Kafka's semantics that depends on time (timestamps, sessions, timeouts, retention, quotas) uses a `Clock`.
A real broker runs on `SystemClock`; tests use a `ManualClock` and never sleep. Sockets, threads and web pages use the
event loop's timers instead, because no test needs to control these waits.
"""

import heapq
import itertools
import time
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable


class Timer:
    """A scheduled call."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Cancel the call. Cancelling again, or after the call, has no effect."""
        self.callback = None

    def fire(self) -> None:
        """Call the callback, unless the timer was cancelled."""
        if self.callback is not None:
            self.callback()


class Clock(ABC):
    """The clock of one broker, bound to its event loop."""

    @abstractmethod
    def now_ms(self) -> int:
        """Return the milliseconds since the Unix epoch, as in Kafka's timestamps."""

    @abstractmethod
    def monotonic_ms(self) -> float:
        """Return the milliseconds since an arbitrary moment. Setting the wall clock does not affect them."""

    def read_both_ms(self) -> tuple[int, float]:
        """Return the times of `now_ms` and `monotonic_ms`.

        The thread may be suspended between the two. The wall clock is read last, so that it is never behind.
        """
        monotonic_ms = self.monotonic_ms()
        return self.now_ms(), monotonic_ms

    @abstractmethod
    def call_later(self, delay_ms: float, callback: Callable[[], None], *, may_wait: bool = False) -> Timer:
        """Schedule a callback on the broker's event loop after `delay_ms`.

        Args:
            delay_ms: the delay in milliseconds.
            callback: the function to call.
            may_wait: whether `advance` may call the function at the end of the jump instead of at the exact time.
        """

    @abstractmethod
    def advance(self, delay_ms: float) -> None:
        """Advance the clock, and call the timers that become due on the way, each at its own time."""

    def reset(self) -> None:  # noqa: B027 - a manual clock has nothing to reset
        """Reset the wall clock to the machine's time."""


class SystemClock(Clock):
    """The machine's time and the event loop's timers. `advance` moves both ahead."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._wall_ahead_ms = 0.0
        self._ahead_ms = 0.0
        self._timers: dict[_SystemTimer, None] = {}
        self._order = itertools.count()
        #: A heap of the timers that advance() must call in order, or None outside advance(). It can contain cancelled
        #: timers.
        self._upcoming: list[_Upcoming] | None = None

    def now_ms(self) -> int:
        """Return the system's wall clock time plus all advances so far."""
        now_ms = time.time_ns() // 1_000_000
        return now_ms + int(self._wall_ahead_ms) if self._wall_ahead_ms else now_ms

    @property
    def ahead_ms(self) -> float:
        """Milliseconds by which the wall clock was advanced."""
        return self._wall_ahead_ms

    def monotonic_ms(self) -> float:
        """Return the event loop's time plus all advances so far."""
        return self._loop.time() * 1000 + self._ahead_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None], *, may_wait: bool = False) -> Timer:
        """Schedule a timer of the event loop, which keeps its timers in a heap."""
        timer = _SystemTimer(self._timers, callback, self.monotonic_ms() + delay_ms, may_wait=may_wait)
        timer.handle = self._loop.call_later(delay_ms / 1000, timer.fire)
        self._timers[timer] = None
        if self._upcoming is not None and not may_wait:
            heapq.heappush(self._upcoming, (timer.due_ms, next(self._order), timer))
        return timer

    def advance(self, delay_ms: float) -> None:
        """Jump ahead, calling due timers in order. Timers with `may_wait` are called once, after the jump.

        At their exact times, a task that runs every few seconds would run a hundred thousand times in a one-week jump.
        """
        outer = self._upcoming
        upcoming = self._upcoming = [
            (timed.due_ms, next(self._order), timed) for timed in self._timers if not timed.may_wait
        ]
        heapq.heapify(upcoming)
        try:
            self._jump(upcoming, delay_ms)
        finally:
            # A timer of an outer jump called advance(). The outer jump continues with the remaining timers.
            if outer is not None:
                outer[:] = upcoming
            self._upcoming = outer
        now_ms = self.monotonic_ms()
        for timer in [timer for timer in self._timers if timer.may_wait and timer.due_ms <= now_ms]:
            if timer in self._timers:  # The callback of an earlier timer may have cancelled this one.
                timer.handle.cancel()
                timer.fire()
        for timer in self._timers:
            timer.handle.cancel()
            timer.handle = self._loop.call_later(max(0.0, timer.due_ms - now_ms) / 1000, timer.fire)

    def _jump(self, upcoming: "list[_Upcoming]", left_ms: float) -> None:
        """Advance the time from timer to timer."""
        while left_ms > 0:
            timer = self._pop_due(upcoming, self.monotonic_ms() + left_ms)
            step_ms = left_ms if timer is None else min(left_ms, max(0.0, timer.due_ms - self.monotonic_ms()))
            self._wall_ahead_ms += step_ms
            self._ahead_ms += step_ms
            left_ms -= step_ms
            if timer is not None:
                timer.handle.cancel()
                timer.fire()

    def _pop_due(self, upcoming: "list[_Upcoming]", end_ms: float) -> "_SystemTimer | None":
        """Remove and return the first timer due by `end_ms`, skipping cancelled ones, or return None."""
        while upcoming and upcoming[0][0] <= end_ms:
            timer = heapq.heappop(upcoming)[2]
            if timer in self._timers:
                return timer
        return None

    def reset(self) -> None:
        """Reset the wall clock to the machine's time. The monotonic time continues without a jump."""
        self._wall_ahead_ms = 0.0


class _SystemTimer(Timer):
    """A timer of the event loop that stores its due time, so that advance() can fire the timer earlier."""

    __slots__ = ("_timers", "due_ms", "handle", "may_wait")

    handle: TimerHandle

    def __init__(
        self, timers: "dict[_SystemTimer, None]", callback: Callable[[], None], due_ms: float, *, may_wait: bool
    ) -> None:
        super().__init__(callback)
        self._timers = timers
        self.due_ms = due_ms
        self.may_wait = may_wait

    def fire(self) -> None:
        self._timers.pop(self, None)
        super().fire()

    def cancel(self) -> None:
        super().cancel()
        self._timers.pop(self, None)
        self.handle.cancel()


_Upcoming = tuple[float, int, _SystemTimer]
"""The due time of a timer (ms), its position among timers due at the same time, and the timer."""


class ManualClock(Clock):
    """A clock that moves only when `advance` is called. It then calls due timers in order."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms: float = now_ms
        self._order = itertools.count()
        self._timers: list[tuple[float, int, Timer]] = []

    def now_ms(self) -> int:
        """Return the clock's current time."""
        return int(self._now_ms)

    def monotonic_ms(self) -> float:
        """Return the clock's current time."""
        return self._now_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None], *, may_wait: bool = False) -> Timer:  # noqa: ARG002 - every timer fires at its exact time
        """Schedule a timer, which only `advance` can fire."""
        timer = Timer(callback)
        heapq.heappush(self._timers, (self._now_ms + delay_ms, next(self._order), timer))
        return timer

    def advance(self, delay_ms: float) -> None:
        """Advance the clock, and call the timers that become due on the way, each at its own time."""
        target = self._now_ms + delay_ms
        while self._timers and self._timers[0][0] <= target:
            due, _, timer = heapq.heappop(self._timers)
            self._now_ms = due
            timer.fire()
        self._now_ms = target
