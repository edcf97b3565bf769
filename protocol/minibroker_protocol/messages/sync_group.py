"""SyncGroup (key 14): the leader hands in the assignments, every member takes its own."""

from typing import Annotated

from minibroker_protocol.schema import Array, Bytes, Int16, Int32, NullableString, String, message, since, structure


@structure
class SyncGroupRequestAssignment:
    """The assignment that the leader gives to one member."""

    member_id: String
    assignment: Bytes


@message(versions="0-5", flexible="4+")
class SyncGroupRequest:
    """`assignments` is empty in the requests of all members but the leader."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[NullableString, since(3)] = None
    protocol_type: Annotated[NullableString, since(5)] = None
    protocol_name: Annotated[NullableString, since(5)] = None
    assignments: Array[SyncGroupRequestAssignment]


@message(versions="0-5", flexible="4+")
class SyncGroupResponse:
    """The assignment of the member that asked."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16
    protocol_type: Annotated[NullableString, since(5)] = None
    protocol_name: Annotated[NullableString, since(5)] = None
    assignment: Bytes
