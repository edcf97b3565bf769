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


def fenced(kind: str, epoch: int, member_epoch: int, clause: str = "") -> GroupRefusedError:
    """Make the error for a member of a kind of group whose heartbeat has another epoch than the member."""
    size = "greater" if epoch > member_epoch else "smaller"
    return GroupRefusedError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member_epoch}){clause}. The member must abandon all its partitions and rejoin.",
    )


def no_such_group(kind: str, group_id: str, group: object | None) -> GroupRefusedError:
    """Make the error for the id of a kind of group that nobody has, or that a group of another kind has."""
    problem = "not found" if group is None else f"is not a {kind} group"
    return GroupRefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {problem}.")
