"""RemoveRaftVoter (key 81): a controller is no voter of the metadata quorum any more (KIP-853)."""

from minibroker_protocol.schema import (
    Int16,
    Int32,
    NullableString,
    Uuid,
    message,
)


@message(versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    """The voter, by its id and the id of its directory."""

    cluster_id: NullableString
    voter_id: Int32
    voter_directory_id: Uuid


@message(versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    """The outcome."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
