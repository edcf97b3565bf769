"""The timer of a share-partition's locks, which wakes it when the first of them ends."""

from collections.abc import Callable

from minibroker.clock import Clock, Timer


class LockTimer:
    """One timer for all locks; `on_end` is called when the first one ends."""

    __slots__ = ("_at_ms", "_clock", "_is_closed", "_on_end", "_timer")

    def __init__(self, clock: Clock, on_end: Callable[[], None]) -> None:
        self._clock = clock
        self._on_end = on_end
        self._timer: Timer | None = None
        self._at_ms = 0.0
        self._is_closed = False

    def watch(self, deadline_ms: float | None) -> None:
        """Wake up at a time of the clock's monotonic time, or with None at no time. It may be later than before."""
        if self._timer is not None and (deadline_ms is None or deadline_ms < self._at_ms):
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None and self._timer is None and not self._is_closed:
            self._at_ms = deadline_ms
            self._timer = self._clock.call_later(max(deadline_ms - self._clock.monotonic_ms(), 0), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._on_end()

    def close(self) -> None:
        """Wake up no more."""
        self._is_closed = True
        self.watch(None)
