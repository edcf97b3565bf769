"""The one source of time: wall-clock stamps and timers.

Everything in the broker that asks what time it is or waits for a moment asks a `Clock`. A real broker runs on
`SystemClock`; a test drives a `ManualClock` and never sleeps.
"""

import heapq
import itertools
import time
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that waits for its moment."""

    def cancel(self) -> None:
        """The call will not happen; cancelling twice, or too late, does nothing."""
        ...


class Clock(ABC):
    """Time for one broker; bound to its event loop."""

    @abstractmethod
    def now_ms(self) -> int:
        """Milliseconds since the epoch, as Kafka stamps records."""

    @abstractmethod
    def monotonic_ms(self) -> float:
        """Milliseconds since some moment; unlike `now_ms` it goes on evenly when the wall clock is set."""

    @abstractmethod
    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Call back on the broker's event loop after `delay_ms`."""


class SystemClock(Clock):
    """The machine's time, and the event loop's timers."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        """The system's wall clock."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """The event loop's time."""
        return self._loop.time() * 1000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """A timer of the event loop, which keeps them in a heap."""
        return self._loop.call_later(delay_ms / 1000, callback)


class _ManualTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock(Clock):
    """A clock that stands still until `advance` moves it; timers that fall due are called in their order."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms: float = now_ms
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _ManualTimer]] = []

    def now_ms(self) -> int:
        """Where the clock stands."""
        return int(self._now_ms)

    def monotonic_ms(self) -> float:
        """Where the clock stands."""
        return self._now_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """A timer that only `advance` can fire."""
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (self._now_ms + delay_ms, next(self._order), timer))
        return timer

    def advance(self, delay_ms: float) -> None:
        """Move the clock on, calling what falls due on the way, each at its own moment."""
        target = self._now_ms + delay_ms
        while self._timers and self._timers[0][0] <= target:
            due, _, timer = heapq.heappop(self._timers)
            self._now_ms = due
            if timer.callback is not None:
                timer.callback()
        self._now_ms = target
