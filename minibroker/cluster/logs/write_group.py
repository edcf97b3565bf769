"""The appends of one wake-up of the event loop, written together.

Produce handlers stage batches in the logs and answer as if all went well. Before the answers are sent, and before
anyone reads, `commit` writes what each log has staged with one system call. If the disk refuses, the log takes the
appends back and the answers turn into errors, so no client gets an offset that does not exist.

A producer's answer and the answers to fetches that wait for its records are due at the same moment. The fetches go
first: their clients have waited longer, and the way to a consumer is what people measure. Only a few go first, so that
a producer does not wait for a crowd of consumers.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
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
        if not self._staged:
            return
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


_FEW: Final = 4
"""The number of fetches that look before the producer has its answer: each takes some 50 us."""


class Wakeups:
    """Delayed fetches that are due to look again. `call_soon` is the event loop's.

    Attributes:
        due: their looks.
        are_awaited: `call_few` is about to be called, so that the event loop needs no turn for what is added.
    """

    __slots__ = ("_call_soon", "are_awaited", "due")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self.due: deque[Callable[[], None]] = deque()
        self.are_awaited = False

    def add(self, look: Callable[[], None]) -> None:
        """Have `look` called in the event loop's next turn, or by `call_few` before."""
        if not self.due and not self.are_awaited:
            self._call_soon(self._call_all)
        self.due.append(look)

    def call_few(self) -> None:
        """Call the first few that are due; the others have the event loop's next turn."""
        due = self.due
        for _ in range(min(len(due), _FEW)):
            self._call(due.popleft())
        if due:
            self._call_soon(self._call_all)

    def _call_all(self) -> None:
        """Call all that are left; looks that are added meanwhile have their turn after this one."""
        due, self.due = self.due, deque()
        for look in due:
            self._call(look)

    def _call(self, look: Callable[[], None]) -> None:
        """Let a fetch look. An error of its is the event loop's to log, not the caller's."""
        try:
            look()
        except Exception as error:  # noqa: BLE001 - it is raised where it belongs
            self._call_soon(partial(_raise, error))


def _raise(error: Exception) -> NoReturn:
    raise error
