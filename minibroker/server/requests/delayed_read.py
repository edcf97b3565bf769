"""The base class of `DelayedFetch` and `DelayedShareFetch`, which wait for appends."""

from collections.abc import Iterable
from typing import Any

from minibroker.clock import Timer
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.server.requests.call import Call
from minibroker_storage.log import Log


class DelayedRead(DelayedResponse):
    """A read that waits for appends to its logs until a timeout, and reads again after each append.

    The read is waiting as long as its timer exists.
    """

    def __init__(self, call: Call, max_wait_ms: int, logs: Iterable[Log]) -> None:
        self._call = call
        self._is_scheduled = False
        self._is_over = False  # Whether the timeout has expired.
        self._is_reading = False
        self._logs: dict[Log, None] = {}
        self.listen(logs)
        self._timer: Timer | None = call.core.clock.call_later(max_wait_ms, self.hasten)

    def cancel(self) -> None:
        """Stop waiting because the client disconnected."""
        self._stop_waiting()

    def hasten(self) -> None:
        """Answer with the records available so far, or with none. The client's wait time is only an upper bound."""
        self._is_over = True
        self._read()

    def listen(self, logs: Iterable[Log]) -> None:
        """Wait also for appends to these logs."""
        for log in logs:
            self._logs[log] = None
            log.add_append_listener(self._on_append)

    def read_soon(self) -> None:
        """Read again later, because the caller must send its own response first and may append more."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule()

    def _schedule(self) -> None:
        """Schedule a call of `_look`."""
        self._call.core.call_soon(self._look)

    def _begin(self) -> Any:
        """Start a read, and return the results, or work that produces them."""
        raise NotImplementedError

    def _on_read(self, results: Any) -> None:
        """Answer with the results, or keep waiting. Implementations reset `_is_reading`."""
        raise NotImplementedError

    def _fail(self, error: Exception) -> None:
        """Answer with an error that makes the client retry, and pass the exception to the event loop, which logs it."""
        raise NotImplementedError

    def _stop_waiting(self) -> None:
        timer, self._timer = self._timer, None
        if timer is None:
            return
        timer.cancel()
        # A log may have thousands of delayed fetches, and a listener that stays would be called forever.
        for log in self._logs:
            log.remove_append_listener(self._on_append)
        self._on_end()

    def _on_end(self) -> None:
        """Remove the listeners that this wait has added to anything but logs."""

    def _on_append(self, log: Log) -> None:  # noqa: ARG002 - the listener's signature
        self.read_soon()

    def _look(self) -> None:
        if not self._is_reading:
            self._is_scheduled = False
            self._read()

    def _read(self) -> None:
        # Return if the request was answered. If a read is running in slices, new appends are noticed when that read
        # ends.
        if self._timer is None or self._is_reading:
            return
        self._is_reading = True
        self._call.core.writes.commit()  # Staged appends must be readable, as for any request except Produce.
        try:
            results = self._begin()
        except Exception as error:  # noqa: BLE001 - the error is logged and the client gets a response
            self._fail(error)
            return
        self._call.core.slices.run(results, self._on_read, self._fail)
