"""AddRaftVoter (key 80): TODO."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    NullableString,
    String,
    UInt16,
    Uuid,
    message,
    since,
    structure,
)


@structure
class Listener:
    """TODO."""

    name: String
    host: String
    port: UInt16


@message(versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    """TODO."""

    cluster_id: NullableString
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: Array[Listener]
    ack_when_committed: Annotated[Bool, since(1)] = True


@message(versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
