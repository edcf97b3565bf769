"""The members of one group of a broker without sockets."""

from typing import Any, Final
from unittest.mock import patch

from minibroker.coordinators.coordinator_log import CoordinatorLog, CoordinatorLogError
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    JoinGroupResponse,
    SyncGroupResponse,
)
from tests.broker.coordinators.groups.member_requests import (
    RANGE,
    Offers,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from tests.broker.harness import Harness, Pending

FULL_DISK: Final = patch.object(
    CoordinatorLog, "append_batch", side_effect=CoordinatorLogError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")
)
"""A context manager during which no coordinator can write a record."""


class Members:
    """The requests of a group's members, and their responses."""

    def __init__(self, harness: Harness, group_id: str = "g") -> None:
        self.harness = harness
        self.group_id = group_id

    def begin_join(self, member_id: str = "", protocols: Offers = RANGE, *, version: int = 9, **fields: Any) -> Pending:
        """Send a JoinGroup that must wait."""
        pending = self.harness.send(join_request(self.group_id, member_id, protocols, **fields), version)
        assert isinstance(pending, Pending), pending
        return pending

    def join(
        self, member_id: str = "", protocols: Offers = RANGE, *, version: int = 9, **fields: Any
    ) -> JoinGroupResponse:
        """Send a JoinGroup that is answered immediately."""
        response = self.harness.ask(join_request(self.group_id, member_id, protocols, **fields), version)
        assert isinstance(response, JoinGroupResponse)
        return response

    def new_id(self, **fields: Any) -> str:
        """Return the member id that a dynamic member gets before it joins."""
        return self.join(**fields).member_id

    def begin_sync(self, member_id: str, generation: int, *, version: int = 5, **fields: Any) -> Pending:
        """Send a SyncGroup that must wait."""
        pending = self.harness.send(sync_request(self.group_id, member_id, generation, **fields), version)
        assert isinstance(pending, Pending), pending
        return pending

    def sync(self, member_id: str, generation: int, *args: Any, version: int = 5, **fields: Any) -> SyncGroupResponse:
        """Send a SyncGroup that is answered immediately."""
        response = self.harness.ask(sync_request(self.group_id, member_id, generation, *args, **fields), version)
        assert isinstance(response, SyncGroupResponse)
        return response

    def heartbeat(self, member_id: str, generation: int, *, instance: str | None = None) -> int:
        """Send a heartbeat, and return its error code."""
        request = heartbeat_request(self.group_id, member_id, generation, instance=instance)
        return int(self.harness.ask(request, 4).error_code)

    def leave(self, *members: tuple[str, str | None] | str) -> list[int]:
        """Remove members, and return the error code of each."""
        identities = [(member, None) if isinstance(member, str) else member for member in members]
        response = self.harness.ask(leave_request(self.group_id, *identities), 5)
        assert response.error_code == 0
        return [member.error_code for member in response.members]

    def describe(self) -> DescribedGroup:
        """Return the description of the group."""
        (group,) = self.harness.ask(DescribeGroupsRequest(groups=[self.group_id]), 5).groups
        assert isinstance(group, DescribedGroup)
        return group

    @property
    def state(self) -> str:
        """The state of the group."""
        return self.describe().group_state

    @property
    def ids(self) -> set[str]:
        """The ids of the members."""
        return {member.member_id for member in self.describe().members}

    # Groups with members

    def alone(self, *, instance: str | None = None, **fields: Any) -> str:
        """Make a stable group in generation 1, and return the id of its only member."""
        member = self.new_id(instance=instance, **fields)
        generation = 1
        if instance is None:
            generation = self.join(member, **fields).generation_id
        assert self.sync(member, generation, {member: b"all"}, instance=instance).error_code == 0
        return member

    def unsynced_pair(self, **fields: Any) -> tuple[str, str, int]:
        """Make a group of two dynamic members without assignments, and return their ids and the generation.

        The first member is the leader.
        """
        first = self.alone(**fields)
        second = self.new_id(**fields)
        waiting = self.begin_join(second, **fields)
        generation = self.join(first, **fields).generation_id
        assert answered(waiting).error_code == 0
        return first, second, generation

    def pair(self, **fields: Any) -> tuple[str, str, int]:
        """Make a stable group of two dynamic members, and return their ids and the generation.

        The first member is the leader.
        """
        first, second, generation = self.unsynced_pair(**fields)
        self.sync(first, generation, {first: b"for the first", second: b"for the second"})
        assert bytes(self.sync(second, generation).assignment) == b"for the second"
        return first, second, generation


def answered(pending: Pending) -> Any:
    """Return the response to a waiting request, which must be answered."""
    assert pending.is_answered
    return pending.response


def are_waiting(*pending: Pending) -> bool:
    """Return whether none of the requests is answered."""
    return not any(request.is_answered for request in pending)
