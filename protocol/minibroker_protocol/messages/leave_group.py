"""LeaveGroup (key 13): members leave a group, or an operator removes them (KIP-345)."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    NullableString,
    String,
    empty,
    message,
    since,
    structure,
    versions,
)


@structure
class MemberIdentity:
    """A member by its id; a static one by its instance id, with or without the member id."""

    member_id: String
    group_instance_id: NullableString = None
    reason: Annotated[NullableString, since(5)] = None


@message(versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """One member up to version 2, any number of them later."""

    group_id: String
    member_id: Annotated[String, versions("0-2")] = ""
    members: Annotated[Array[MemberIdentity], since(3)] = field(default_factory=empty)


@structure
class MemberResponse:
    """The outcome for one member."""

    member_id: String
    group_instance_id: NullableString
    error_code: Int16


@message(versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """From version 3 on each member has an outcome of its own."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16
    members: Annotated[Array[MemberResponse], since(3)] = field(default_factory=empty)
