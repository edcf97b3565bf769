"""The appends of one wake-up of the event loop, written together.

Produce handlers stage batches in the logs and build responses that assume success. Before the responses are sent, and
before anything is read, `commit` writes the staged batches of each log with one system call. If the write fails, the
log discards the batches and the responses become errors, so no client gets an offset that does not exist.

The response to a producer and the responses to fetches that wait for its records are due at the same time. Fetches are
served first: their clients have waited longer, and end-to-end latency is what users measure. Only a few fetches get
this priority, so that a producer does not wait for many consumers.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from minibroker_protocol.error_codes import ErrorCode
from minibroker_storage.errors import LogWriteError

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker_protocol.messages.produce import PartitionProduceResponse
    from minibroker_storage.log import Log

_logger = logging.getLogger(__name__)


class WriteGroup:
    """Staged appends and the responses that depend on them. `call_soon` belongs to the event loop.

    Attributes:
        wakeups: The delayed fetches to resume once the appends are written.
    """

    __slots__ = ("_staged", "wakeups")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.wakeups = Wakeups(call_soon)
        self._staged: dict[Log, list[PartitionProduceResponse]] = {}

    def stage(self, log: Log, response: PartitionProduceResponse) -> None:
        """Register the response for a staged batch. The response already reports success."""
        self._staged.setdefault(log, []).append(response)

    def share(self, log: Log, response: PartitionProduceResponse) -> None:
        """Register another response for a batch that may still be staged. It becomes an error if the write fails."""
        responses = self._staged.get(log)
        # Without staged responses for the log, the batch is already written, and the response stays correct.
        if responses is not None:
            responses.append(response)

    def commit_and_wake(self) -> None:
        """Commit, then resume the first few delayed fetches."""
        if not self._staged:
            return
        wakeups = self.wakeups
        # Serve the first delayed fetches in this turn, before the producer gets its response; see `Wakeups`.
        wakeups.are_awaited = True
        try:
            self.commit()
        finally:
            wakeups.are_awaited = False
            if wakeups.due:
                wakeups.call_first()

    def commit(self) -> None:
        """Write everything staged. Disk errors are reported in the responses instead of being raised."""
        if not self._staged:
            return
        # The list is cleared first, so a nested commit by a listener of `log.commit` does not write a log twice.
        staged, self._staged = self._staged, {}
        for log, responses in staged.items():
            try:
                log.commit()
            except LogWriteError as error:
                _logger.error("%s", error)  # noqa: TRY400 - a disk error needs no traceback
                for response in responses:
                    if response.base_offset < error.log_end_offset:
                        continue  # The batch was written before the failure, when a segment was rolled.
                    response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                    response.base_offset = -1
                    response.error_message = str(error)


_MAX_CALLED_FIRST: Final = 4
"""The number of fetches served before the producer gets its response. Each takes about 50 us."""


class Wakeups:
    """Delayed fetches that are due to check their logs again. `call_soon` belongs to the event loop.

    Attributes:
        due: The callbacks of these fetches.
        are_awaited: Whether `call_first` is about to be called, so that `add` need not schedule a turn.
    """

    __slots__ = ("_call_soon", "are_awaited", "due")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self.due: deque[Callable[[], None]] = deque()
        self.are_awaited = False

    def add(self, look: Callable[[], None]) -> None:
        """Schedule `look` for the event loop's next turn. `call_first()` may call it earlier."""
        if not self.due and not self.are_awaited:
            self._call_soon(self._call_all)
        self.due.append(look)

    def call_first(self) -> None:
        """Call the first few callbacks. The others follow in the event loop's next turn."""
        due = self.due
        for _ in range(min(len(due), _MAX_CALLED_FIRST)):
            self._run_callback(due.popleft())
        if due:
            self._call_soon(self._call_all)

    def _call_all(self) -> None:
        """Call the remaining callbacks. Callbacks added in the meantime follow in a later turn."""
        due, self.due = self.due, deque()
        for look in due:
            self._run_callback(look)

    def _run_callback(self, look: Callable[[], None]) -> None:
        """Call one callback. An error in the callback is logged by the event loop and does not affect the caller."""
        try:
            look()
        except Exception as error:  # noqa: BLE001 - raised again by the event loop
            self._call_soon(partial(_raise, error))


def _raise(error: Exception) -> NoReturn:
    raise error
