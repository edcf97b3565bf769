"""Functions that make the requests of group members."""

from collections.abc import Mapping, Sequence
from typing import Final

from minibroker_protocol.coordinator_records import ConsumerProtocolSubscription, encode_versioned
from minibroker_protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

SESSION_MS: Final = 20_000
REBALANCE_MS: Final = 20_000
Offers = Sequence[tuple[str, bytes]]


def subscription(*topics: str) -> bytes:
    """Return the metadata of a consumer that subscribes to some topics."""
    return encode_versioned(ConsumerProtocolSubscription(topics=list(topics)), 1)


RANGE: Final = (("range", subscription("t")),)
CHANGED: Final = (("range", subscription("t", "u")),)
BOTH: Final = (("range", subscription("r")), ("sticky", subscription("s")))


def join_request(
    group_id: str,
    member_id: str = "",
    protocols: Offers = RANGE,
    *,
    instance: str | None = None,
    session_ms: int = SESSION_MS,
    rebalance_ms: int = REBALANCE_MS,
    protocol_type: str = "consumer",
) -> JoinGroupRequest:
    """Return a JoinGroup."""
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
        reason="because",
    )


def sync_request(
    group_id: str,
    member_id: str,
    generation: int,
    assignments: Mapping[str, bytes] | None = None,
    *,
    instance: str | None = None,
    protocol: tuple[str | None, str | None] = ("consumer", "range"),
) -> SyncGroupRequest:
    """Return a SyncGroup. Only the leader sends assignments."""
    assignment_list = [
        SyncGroupRequestAssignment(member_id=member, assignment=data) for member, data in (assignments or {}).items()
    ]
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol[0],
        protocol_name=protocol[1],
        assignments=assignment_list,
    )


def heartbeat_request(
    group_id: str, member_id: str, generation: int, *, instance: str | None = None
) -> HeartbeatRequest:
    """Return a Heartbeat."""
    return HeartbeatRequest(
        group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance
    )


def leave_request(group_id: str, *members: tuple[str, str | None]) -> LeaveGroupRequest:
    """Return a LeaveGroup for pairs of (member id, instance id). Before version 3, only the first member leaves."""
    return LeaveGroupRequest(
        group_id=group_id,
        member_id=members[0][0] if members else "",
        members=[MemberIdentity(member_id=member_id, group_instance_id=instance) for member_id, instance in members],
    )
