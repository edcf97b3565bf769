"""The one source of time: wall-clock stamps and timers.

All semantics of Kafka that depend on time (stamps, sessions, timeouts, retention, quotas) take it from a `Clock`. A
real broker runs on `SystemClock`; a test drives a `ManualClock` and never sleeps. Waits of sockets, threads and web
pages, which no test moves, use the event loop's timers.
"""

import heapq
import itertools
import time
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable


class Timer:
    """A call that waits for its moment."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """The call will not happen; cancelling twice, or too late, does nothing."""
        self.callback = None

    def fire(self) -> None:
        """Call back, unless the timer was cancelled."""
        if self.callback is not None:
            self.callback()


class Clock(ABC):
    """Time for one broker; bound to its event loop."""

    @abstractmethod
    def now_ms(self) -> int:
        """Milliseconds since the epoch, as Kafka stamps records."""

    @abstractmethod
    def monotonic_ms(self) -> float:
        """Milliseconds since some moment; unlike `now_ms` it goes on evenly when the wall clock is set."""

    @abstractmethod
    def call_later(self, delay_ms: float, callback: Callable[[], None], *, may_wait: bool = False) -> Timer:
        """Call back on the broker's event loop after `delay_ms`.

        What may wait need not be called on the way of `advance`, but may be called at its end.
        """

    @abstractmethod
    def advance(self, delay_ms: float) -> None:
        """Move time on, calling what falls due on the way, each at its own moment."""

    def reset(self) -> None:  # noqa: B027 - a clock that only goes by hand has nothing to take back
        """Let the wall clock show the machine's time again."""


class SystemClock(Clock):
    """The machine's time, and the event loop's timers; `advance` makes them run ahead."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._wall_ahead_ms = 0.0
        self._ahead_ms = 0.0
        self._timers: dict[_SystemTimer, None] = {}
        self._order = itertools.count()
        #: While time jumps ahead: a heap of the timers that may not wait, also of some that were cancelled.
        self._upcoming: list[_Upcoming] | None = None

    def now_ms(self) -> int:
        """The system's wall clock, and what it was advanced by."""
        now_ms = time.time_ns() // 1_000_000
        return now_ms + int(self._wall_ahead_ms) if self._wall_ahead_ms else now_ms

    @property
    def ahead_ms(self) -> float:
        """Milliseconds by which the wall clock was advanced."""
        return self._wall_ahead_ms

    def monotonic_ms(self) -> float:
        """The event loop's time, and what it was advanced by."""
        return self._loop.time() * 1000 + self._ahead_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None], *, may_wait: bool = False) -> Timer:
        """A timer of the event loop, which keeps them in a heap."""
        timer = _SystemTimer(self._timers, callback, self.monotonic_ms() + delay_ms, may_wait=may_wait)
        timer.handle = self._loop.call_later(delay_ms / 1000, timer.fire)
        self._timers[timer] = None
        if self._upcoming is not None and not may_wait:
            heapq.heappush(self._upcoming, (timer.due_ms, next(self._order), timer))
        return timer

    def advance(self, delay_ms: float) -> None:
        """Jump ahead; timers that fall due are called in their order, what may wait when the jump is over.

        Otherwise a chore of every few seconds would be done a hundred thousand times in a jump of a week.
        """
        outer = self._upcoming
        upcoming = self._upcoming = [
            (each.due_ms, next(self._order), each) for each in self._timers if not each.may_wait
        ]
        heapq.heapify(upcoming)
        try:
            self._jump(upcoming, delay_ms)
        finally:
            if outer is not None:  # a timer of a jump has made this one: the jump goes on from here
                outer[:] = upcoming
            self._upcoming = outer
        now_ms = self.monotonic_ms()
        for timer in [timer for timer in self._timers if timer.may_wait and timer.due_ms <= now_ms]:
            if timer in self._timers:  # one before it may have cancelled it
                timer.handle.cancel()
                timer.fire()
        for timer in self._timers:
            timer.handle.cancel()
            timer.handle = self._loop.call_later(max(0.0, timer.due_ms - now_ms) / 1000, timer.fire)

    def _jump(self, upcoming: "list[_Upcoming]", left_ms: float) -> None:
        """Move time ahead, from timer to timer."""
        while left_ms > 0:
            timer = self._next(upcoming, self.monotonic_ms() + left_ms)
            step_ms = left_ms if timer is None else min(left_ms, max(0.0, timer.due_ms - self.monotonic_ms()))
            self._wall_ahead_ms += step_ms
            self._ahead_ms += step_ms
            left_ms -= step_ms
            if timer is not None:
                timer.handle.cancel()
                timer.fire()

    def _next(self, upcoming: "list[_Upcoming]", end_ms: float) -> "_SystemTimer | None":
        """Take the first timer that is due by then; those that were cancelled go."""
        while upcoming and upcoming[0][0] <= end_ms:
            timer = heapq.heappop(upcoming)[2]
            if timer in self._timers:
                return timer
        return None

    def reset(self) -> None:
        """Let the wall clock show the machine's time again. What is measured evenly goes on evenly."""
        self._wall_ahead_ms = 0.0


class _SystemTimer(Timer):
    """A timer of the event loop that knows when it is due, so that it can come earlier."""

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
"""When a timer is due (ms), its place among those of the same time, and the timer."""


class ManualClock(Clock):
    """A clock that stands still until `advance` moves it; timers that fall due are called in their order."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms: float = now_ms
        self._order = itertools.count()
        self._timers: list[tuple[float, int, Timer]] = []

    def now_ms(self) -> int:
        """Where the clock stands."""
        return int(self._now_ms)

    def monotonic_ms(self) -> float:
        """Where the clock stands."""
        return self._now_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None], *, may_wait: bool = False) -> Timer:  # noqa: ARG002 - here each comes at its moment
        """A timer that only `advance` can fire."""
        timer = Timer(callback)
        heapq.heappush(self._timers, (self._now_ms + delay_ms, next(self._order), timer))
        return timer

    def advance(self, delay_ms: float) -> None:
        """Move the clock on, calling what falls due on the way, each at its own moment."""
        target = self._now_ms + delay_ms
        while self._timers and self._timers[0][0] <= target:
            due, _, timer = heapq.heappop(self._timers)
            self._now_ms = due
            timer.fire()
        self._now_ms = target
