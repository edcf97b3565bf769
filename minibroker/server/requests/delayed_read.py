"""The base of reads that wait for appends: `DelayedFetch` and `DelayedShareFetch` listen, wake, look and time out."""

from collections.abc import Iterable
from typing import Any

from minibroker.clock import Timer
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.server.requests.call import Call
from minibroker_storage.log import Log


class DelayedRead(DelayedResponse):
    """A read that waits for appends to its logs, or for its time to be up, and reads again after each append.

    It waits as long as it has its timer.
    """

    __slots__ = ("_call", "_is_over", "_is_reading", "_logs", "_timer", "_woken")

    def __init__(self, call: Call, max_wait_ms: int, logs: Iterable[Log]) -> None:
        self._call = call
        self._woken = False
        self._is_over = False  # its time is up
        self._is_reading = False
        self._logs: dict[Log, None] = {}
        self.listen(logs)
        self._timer: Timer | None = call.core.clock.call_later(max_wait_ms, self._on_timeout)

    def cancel(self) -> None:
        """The client has gone."""
        self._stop_waiting()

    def hasten(self) -> None:
        """Answer with the records that have come: the time that the client allows for is an upper bound."""
        self._on_timeout()

    def listen(self, logs: Iterable[Log]) -> None:
        """Wait for these logs, too."""
        for log in logs:
            self._logs[log] = None
            log.add_append_listener(self._on_append)

    def look_soon(self) -> None:
        """Read again, but not at once: what wakes has its own answer to send first, and may append more."""
        if not self._woken:
            self._woken = True
            self._schedule()

    def _schedule(self) -> None:
        """Have `_look` called."""
        self._call.core.call_soon(self._look)

    def _begin(self) -> Any:
        """Begin to read. Return the results, or the work that has them in the end."""
        raise NotImplementedError

    def _on_read(self, results: Any) -> None:
        """Answer with the results, or wait for more. `_is_reading` ends here."""
        raise NotImplementedError

    def _fail(self, error: Exception) -> None:
        """Answer what a client takes for a reason to try again, and have the event loop log the error."""
        raise NotImplementedError

    def _stop_waiting(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            self._take_down(timer)

    def _take_down(self, timer: Timer) -> None:
        """Undo what the waiting has set up; it is over already, for it has no timer any more."""
        timer.cancel()
        # A log may have thousands of delayed fetches: a listener that is left behind would be called for ever.
        for log in self._logs:
            log.remove_append_listener(self._on_append)
        self._on_end()

    def _on_end(self) -> None:
        """Undo what the waiting has set up beside the logs."""

    def _on_append(self, log: Log) -> None:  # noqa: ARG002 - the listener's signature
        self.look_soon()

    def _look(self) -> None:
        if not self._is_reading:
            self._woken = False
            self._read()

    def _on_timeout(self) -> None:
        # The answer leaves with the records that have come, perhaps none: `max_wait_ms` is a promise.
        self._is_over = True
        self._read()

    def _read(self) -> None:
        # Answered already, or reading in slices: an append in between is seen when that read ends.
        if self._timer is None or self._is_reading:
            return
        self._is_reading = True
        self._call.core.writes.commit()  # as before any request but Produce: what is staged can be read
        try:
            results = self._begin()
        except Exception as error:  # noqa: BLE001 - the error is logged and the client gets a response
            self._fail(error)
            return
        self._call.core.slices.run(results, self._on_read, self._fail)
