"""The records of `__consumer_offsets`: committed offsets, and groups of the classic protocol."""

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
    """The group and partition of a committed offset. Versions 0 and 1 have the same fields; we write version 1."""

    group: String
    topic: String
    partition: Int32


@message(versions="0-4", flexible="4+")
class OffsetCommitValue:
    """A committed offset. Times are in milliseconds.

    `expire_timestamp` exists only in version 1, which is used for offsets that have their own retention time.
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
    """A member of a group. Timeouts are in milliseconds."""

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
    """A group after its last rebalance. `current_state_timestamp` is in milliseconds."""

    protocol_type: String
    generation: Int32
    protocol: NullableString
    leader: NullableString
    current_state_timestamp: Annotated[Int64, since(2)] = -1
    members: Array[MemberMetadata]


class UnknownKey(NamedTuple):
    """A key of another type, such as a record of the consumer group protocol (KIP-848). Only its version is read."""

    version: int


def read_group_key(data: bytes | bytearray | memoryview) -> OffsetCommitKey | GroupMetadataKey | UnknownKey:
    """Read the key of a record in `__consumer_offsets`. The version of the key determines its type.

    Raises:
        DecodeError: the bytes are truncated.
    """
    version = version_of(data, "a key of __consumer_offsets")
    if version in schema_of(OffsetCommitKey).versions:
        return decode_versioned(OffsetCommitKey, data)
    if version in schema_of(GroupMetadataKey).versions:
        return decode_versioned(GroupMetadataKey, data)
    return UnknownKey(version)
