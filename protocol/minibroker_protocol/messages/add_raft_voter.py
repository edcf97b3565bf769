"""AddRaftVoter (key 80): a controller becomes a voter of the metadata quorum (KIP-853)."""

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
    """Where the voter is found."""

    name: String
    host: String
    port: UInt16


@message(versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    """The voter, by its id and the id of its directory.

    `ack_when_committed` says whether the answer waits until the new set of voters is committed (KIP-1186).
    """

    cluster_id: NullableString
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: Array[Listener]
    ack_when_committed: Annotated[Bool, since(1)] = True


@message(versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    """The outcome."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
