"""Responses to JoinGroup and SyncGroup."""

from typing import Final

from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.classic.members import Member
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from minibroker_protocol.messages.sync_group import SyncGroupResponse

NO_GENERATION: Final = -1
NO_LEADER: Final = ""
UNKNOWN_MEMBER: Final = ""
"""The member id of a client that has none."""


def join_error(code: ErrorCode, member_id: str = UNKNOWN_MEMBER) -> JoinGroupResponse:
    """A refusal to join."""
    return JoinGroupResponse(
        error_code=code,
        generation_id=NO_GENERATION,
        protocol_type=None,
        protocol_name=None,
        leader=NO_LEADER,
        member_id=member_id,
        members=[],
    )


def joined(
    group: Group, member: Member, *, leader: str | None = None, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The generation that a member is part of; the leader learns of all members.

    With `leader` the response names another leader than the member itself.
    """
    leads = leader is None and group.leader == member.member_id
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=(group.leader if leader is None else leader) or NO_LEADER,
        skip_assignment=skip_assignment and leads,
        member_id=member.member_id,
        members=_members(group) if leads else [],
    )


def _members(group: Group) -> list[JoinGroupResponseMember]:
    name = group.protocol_name
    return [
        JoinGroupResponseMember(
            member_id=each.member_id, group_instance_id=each.group_instance_id, metadata=each.metadata(name)
        )
        for each in group.members.values()
    ]


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    """A member gets no assignment."""
    return SyncGroupResponse(error_code=code, protocol_type=None, protocol_name=None, assignment=b"")


def synced(group: Group, member: Member) -> SyncGroupResponse:
    """A member's assignment."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
