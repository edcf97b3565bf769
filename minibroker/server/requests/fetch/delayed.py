"""A fetch that waits for records (Kafka's `DelayedFetch`). `minibroker.cluster.logs.write_group` resumes it."""

import os
from collections.abc import Callable
from typing import Final

from minibroker.cluster.fetch_sessions import FetchContext, FetchKey
from minibroker.server.requests.call import Call
from minibroker.server.requests.delayed_read import DelayedRead
from minibroker.server.requests.fetch.reader import FIRST_WITH_V2, Reader, build_failed_partition
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData

_MAX_NAMED_LOGS: Final = 5
_UNSETTLED_EPOCHS: Final = range(3)
_UNSETTLED_WAIT_MS: Final = 30
_MIN_WAIT_MS: Final = 50
_MAX_LOGS_AHEAD_OF_PRODUCER: Final = 8


def _wait_ms(request: FetchRequest, call: Call, context: FetchContext) -> int:
    """Return the maximum time for which a fetch waits for appends, in milliseconds.

    The first fetches of a session often lack partitions whose offsets the client is still looking up. The client
    adds them to its next fetch, which has to wait until the current one is answered. Also, many clients close only
    after their pending fetch. After each record, waits therefore start short and double until they reach the time
    that the client allows.
    """
    wait_ms, session = request.max_wait_ms, call.session
    if not call.services.works_around_clients:
        return wait_ms
    if context.session is not None and request.session_epoch in _UNSETTLED_EPOCHS:
        wait_ms = min(wait_ms, _UNSETTLED_WAIT_MS)
    if session.waited_fetches is not None:
        short_ms = _MIN_WAIT_MS << session.waited_fetches
        if short_ms < wait_ms:
            wait_ms = short_ms
            session.waited_fetches += 1
    return wait_ms


class DelayedFetch(DelayedRead):
    """A fetch that waits for appends to its partitions until a timeout. `reader` has already read once."""

    deliver: Callable[[FetchResponse], None]

    def __init__(self, request: FetchRequest, call: Call, reader: Reader, context: FetchContext) -> None:
        self._context = context
        self._reader = reader
        self._readable = reader.readable
        self._is_gone = False
        reader.remember_names()
        super().__init__(call, _wait_ms(request, call, context), reader.logs)

    def cancel(self) -> None:
        """Cancel the fetch because its client disconnected."""
        self._is_gone = True
        super().cancel()

    def waits_for(self) -> str:
        """Return what the fetch waits for, see `DelayedResponse`."""
        logs = tuple(self._logs)
        names = [os.path.basename(log.directory) for log in logs[:_MAX_NAMED_LOGS]]
        remainder = f" and {len(logs) - _MAX_NAMED_LOGS} more" if len(logs) > _MAX_NAMED_LOGS else ""
        return f"appends to {', '.join(names)}{remainder}: {self._reader.limits}"

    def _schedule(self) -> None:
        """Schedule a read after this wake-up's appends are written.

        A fetch of many partitions is read in the event loop's next turn instead.
        """
        core = self._call.core
        # A few logs are read before the producer gets its response. Reading more logs would delay that response.
        if len(self._logs) <= _MAX_LOGS_AHEAD_OF_PRODUCER:
            core.writes.wakeups.add(self._look)
        else:
            core.call_soon(self._look)

    def _begin(self) -> dict[FetchKey, PartitionData]:
        return self._reader.read()

    def _on_read(self, results: dict[FetchKey, PartitionData]) -> None:
        self._is_reading = False
        reader = self._reader
        # The timeout expired or the client disconnected while the read ran in slices.
        if self._timer is None:
            return
        # Also respond immediately if a partition has become readable or unreadable.
        if self._is_over or reader.has_enough() or reader.readable != self._readable:
            self._answer(results)
            return
        # The topic may have been created again, with new logs.
        self.listen([log for log in reader.logs if log not in self._logs])

    def _answer(self, results: dict[FetchKey, PartitionData]) -> None:
        self._stop_waiting()
        if self._call.api_version >= FIRST_WITH_V2:
            self.deliver(self._reader.answer(results))
            return
        self._call.core.slices.run(self._reader.convert_and_answer(results), self._deliver_unless_gone, self._fail)

    def _deliver_unless_gone(self, response: FetchResponse) -> None:
        if not self._is_gone:
            self.deliver(response)

    def _fail(self, error: Exception) -> None:
        """Answer with an error that makes the client retry, and pass the exception to the event loop, which logs it."""
        failed = {key: build_failed_partition(key[1], ErrorCode.UNKNOWN_SERVER_ERROR) for key in self._context.keys}
        self._stop_waiting()
        self._deliver_unless_gone(self._reader.answer(failed))
        raise error
