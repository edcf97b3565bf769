"""The appends of one wake-up of the event loop, written together.

Produce handlers stage batches in the logs and answer as if all went well. Before the answers are sent, and before
anyone reads, `commit` writes what each log has staged with one system call. If the disk refuses, the log takes the
appends back and the answers turn into errors, so no client is told of an offset that does not exist.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from minibroker_protocol.error_codes import ErrorCode
from minibroker_storage.errors import LogWriteError
from minibroker_storage.log import Log

if TYPE_CHECKING:
    # Names for the type checkers: a start loads no message that nobody has sent yet.
    from minibroker_protocol.messages.produce import PartitionProduceResponse

_logger = logging.getLogger(__name__)


class WriteGroup:
    """Staged appends, with the answers that rest on them."""

    __slots__ = ("_staged",)

    def __init__(self) -> None:
        self._staged: dict[Log, list[PartitionProduceResponse]] = {}

    def stage(self, log: Log, answer: PartitionProduceResponse) -> None:
        """`log` holds a staged batch whose success `answer` claims."""
        answers = self._staged.get(log)
        if answers is None:
            self._staged[log] = [answer]
        else:
            answers.append(answer)

    def share(self, log: Log, answer: PartitionProduceResponse) -> None:
        """`answer` tells of a batch that is perhaps still staged: it fails with it."""
        answers = self._staged.get(log)
        if answers is not None:
            answers.append(answer)

    def commit(self) -> None:
        """Write everything staged. Never raises for a disk's fault: the answers concerned tell it."""
        if not self._staged:
            return
        staged, self._staged = self._staged, {}
        for log, answers in staged.items():
            try:
                log.commit()
            except LogWriteError as error:
                _logger.error("%s", error)  # noqa: TRY400 - the disk's fault, not ours: the message says all
                for answer in answers:
                    if answer.base_offset < error.log_end_offset:
                        continue  # written by a roll, before the failure
                    answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                    answer.base_offset = -1
                    answer.error_message = str(error)
