"""The records of `__consumer_offsets`: committed offsets, and the groups of the classic protocol."""

from typing import Annotated, NamedTuple

from minibroker_protocol.coordinator_records.versioned import decode_versioned, version_of
from minibroker_protocol.schema import (
    Array,
    Bytes,
    Int32,
    Int64,
    NullableString,
    String,
    message,
    schema_of,
    since,
    structure,
    versions,
)


@message(versions="0-1")
class OffsetCommitKey:
    """The partition of a group that an offset is for. Versions 0 and 1 look the same; 1 is written."""

    group: String
    topic: String
    partition: Int32


@message(versions="0-4", flexible="4+")
class OffsetCommitValue:
    """A committed offset; times are in ms.

    `expire_timestamp` is there in version 1 only, for offsets that were committed with a retention of their own.
    """

    offset: Int64
    leader_epoch: Annotated[Int32, since(3)] = -1
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Annotated[Int64, versions("1")] = -1


@message(versions="2")
class GroupMetadataKey:
    """The group that the value describes."""

    group: String


@structure
class MemberMetadata:
    """A member of a group; timeouts are in ms."""

    member_id: String
    group_instance_id: Annotated[NullableString, since(3)] = None
    client_id: String
    client_host: String
    rebalance_timeout: Annotated[Int32, since(1)] = -1
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


@message(versions="0-4", flexible="4+")
class GroupMetadataValue:
    """A group as it was after its last rebalance; `current_state_timestamp` is in ms."""

    protocol_type: String
    generation: Int32
    protocol: NullableString
    leader: NullableString
    current_state_timestamp: Annotated[Int64, since(2)] = -1
    members: Array[MemberMetadata]


class UnknownKey(NamedTuple):
    """A key of another kind, such as those of the consumer protocol of KIP-848: only its version is known."""

    version: int


def read_group_key(data: bytes | bytearray | memoryview) -> OffsetCommitKey | GroupMetadataKey | UnknownKey:
    """Read the key of a record of `__consumer_offsets`: its version says what it is.

    DecodeError for bytes that are cut short.
    """
    version = version_of(data, "a key of __consumer_offsets")
    if version in schema_of(OffsetCommitKey).versions:
        return decode_versioned(OffsetCommitKey, data)
    if version in schema_of(GroupMetadataKey).versions:
        return decode_versioned(GroupMetadataKey, data)
    return UnknownKey(version)
