"""Records of `__consumer_offsets`, in the versions that Kafka 3.9 writes."""

from typing import Final

from minibroker.coordinators.groups.offsets import CommittedOffset
from minibroker_protocol.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_versioned,
)
from minibroker_protocol.records import NewRecord
from minibroker_protocol.records.header import NO_TIMESTAMP
from minibroker_storage.data_directory.names import TopicPartition

_OFFSET_KEY_VERSION: Final = 1
_OFFSET_VERSION: Final = 3
_OFFSET_VERSION_WITH_EXPIRY: Final = 1
"""The one version that has a moment of expiry; it has no leader epoch."""
_GROUP_KEY_VERSION: Final = 2
_GROUP_VERSION: Final = 3


def group_record(group_id: str, value: GroupMetadataValue, now_ms: int) -> NewRecord:
    """The record of a group's metadata."""
    return NewRecord(group_key(group_id), encode_versioned(value, _GROUP_VERSION), now_ms)


def offset_record(group_id: str, key: TopicPartition, offset: CommittedOffset, now_ms: int) -> NewRecord:
    """The record of a committed offset."""
    if offset.expire_timestamp == NO_TIMESTAMP:
        version, leader_epoch = _OFFSET_VERSION, offset.leader_epoch
    else:
        version, leader_epoch = _OFFSET_VERSION_WITH_EXPIRY, -1
    value = OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp,
        expire_timestamp=offset.expire_timestamp,
    )
    return NewRecord(offset_key(group_id, key), encode_versioned(value, version), now_ms)


def group_key(group_id: str) -> bytes:
    """The key of what says how a group is; with a tombstone the group is gone."""
    return encode_versioned(GroupMetadataKey(group=group_id), _GROUP_KEY_VERSION)


def offset_key(group_id: str, key: TopicPartition) -> bytes:
    """The key of a committed offset; with a tombstone nothing is committed any more."""
    topic, partition = key
    return encode_versioned(OffsetCommitKey(group=group_id, topic=topic, partition=partition), _OFFSET_KEY_VERSION)
