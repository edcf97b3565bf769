"""Heartbeat (key 12): a member of a group is alive."""

from typing import Annotated

from minibroker_protocol.schema import Int16, Int32, NullableString, String, message, since


@message(versions="0-4", flexible="4+")
class HeartbeatRequest:
    """A heartbeat counts for one generation of the group."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[NullableString, since(3)] = None


@message(versions="0-4", flexible="4+")
class HeartbeatResponse:
    """`error_code` also says that the group is rebalancing."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16
