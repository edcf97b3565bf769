"""The appends of one wake-up of the event loop, written together.

Produce handlers stage batches in the logs and answer as if all went well. Before the answers are sent, and before
anyone reads, `commit` writes what each log has staged with one system call. If the disk refuses, the log takes the
appends back and the answers turn into errors, so no client gets an offset that does not exist.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from minibroker.logs.wakeups import Wakeups
from minibroker_protocol.error_codes import ErrorCode
from minibroker_storage.errors import LogWriteError

if TYPE_CHECKING:
    from collections.abc import Callable

    # Names for the type checkers: a start loads a message only when a client sends it.
    from minibroker_protocol.messages.produce import PartitionProduceResponse
    from minibroker_storage.log import Log

_logger = logging.getLogger(__name__)


class WriteGroup:
    """Staged appends, with the answers that rest on them. `call_soon` is the event loop's.

    Attributes:
        wakeups: the delayed fetches that look again once the appends are written.
    """

    __slots__ = ("_staged", "wakeups")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.wakeups = Wakeups(call_soon)
        self._staged: dict[Log, list[PartitionProduceResponse]] = {}

    def stage(self, log: Log, response: PartitionProduceResponse) -> None:
        """`log` holds a staged batch whose success `response` claims."""
        responses = self._staged.get(log)
        if responses is None:
            self._staged[log] = [response]
        else:
            responses.append(response)

    def share(self, log: Log, response: PartitionProduceResponse) -> None:
        """`response` is for a batch that may still be staged: if writing fails, it becomes an error."""
        responses = self._staged.get(log)
        # None: the batch is in the file already, and its response is right.
        if responses is not None:
            responses.append(response)

    def commit_and_wake(self) -> None:
        """`commit`, then have the first few of the fetches look again that have waited for it."""
        wakeups = self.wakeups
        # The first few fetches look in this very turn, before the producer has its answer: see `Wakeups`.
        wakeups.are_awaited = True
        try:
            self.commit()
        finally:
            wakeups.are_awaited = False
            if wakeups.due:
                wakeups.call_few()

    def commit(self) -> None:
        """Write everything staged. Never raises for a fault of the disk: the responses report it."""
        if not self._staged:
            return
        # Taken first: if a listener of `log.commit` commits, too, no log is written twice.
        staged, self._staged = self._staged, {}
        for log, responses in staged.items():
            try:
                log.commit()
            except LogWriteError as error:
                _logger.error("%s", error)  # noqa: TRY400 - the disk's fault, not ours: the message says all
                for response in responses:
                    if response.base_offset < error.log_end_offset:
                        continue  # written by a roll, before the failure
                    response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                    response.base_offset = -1
                    response.error_message = str(error)
