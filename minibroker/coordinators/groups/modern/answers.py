"""The coordinator's answers to the heartbeats of members."""

from typing import NamedTuple

from minibroker.coordinators.groups.modern.partitions import Partitions
from minibroker_protocol.error_codes import ErrorCode


class Answer(NamedTuple):
    """The response to a member; `assignment` is None if it has not changed."""

    member_id: str
    epoch: int
    assignment: Partitions | None


class GroupRefusedError(Exception):
    """A request that is refused: Kafka's code, and a sentence for people."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message
