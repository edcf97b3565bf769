"""RemoveRaftVoter (key 81): TODO."""

from minibroker_protocol.schema import (
    Int16,
    Int32,
    NullableString,
    Uuid,
    message,
)


@message(versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    """TODO."""

    cluster_id: NullableString
    voter_id: Int32
    voter_directory_id: Uuid


@message(versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
