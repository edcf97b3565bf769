"""Logs of the coordinators' topics with records of every type and version, for the decoders of dumps."""

import struct
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from minibroker_protocol.coordinator_records import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    PartitionsSchema,
    TopicPartition,
    TransactionLogKey,
    TransactionLogValue,
    consumer_groups,
    encode_versioned,
)
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from tests.storage.dumping import log_file
from tests.storage.helpers import NOW

KeyAndValue = tuple[bytes | None, bytes | None]
OFFSET_KEY: Final = encode_versioned(OffsetCommitKey(group="g", topic="t", partition=7), 1)
OFFSET: Final = encode_versioned(OffsetCommitValue(offset=7, metadata="", commit_timestamp=NOW), 3)
GROUP_KEY: Final = encode_versioned(GroupMetadataKey(group="caf\u00e9 \u20ac"), 2)
TRANSACTION_KEY: Final = encode_versioned(TransactionLogKey(transactional_id="caf\u00e9"), 0)


def written(directory: Path, records: Sequence[KeyAndValue]) -> Path:
    """Write a segment with one batch per record, and return its directory."""
    batches = [build_batch([NewRecord(*record, NOW)], base_offset=index) for index, record in enumerate(records)]
    return log_file(directory, batches)


def group_records() -> list[KeyAndValue]:
    """Return records of `__consumer_offsets`."""
    records: list[KeyAndValue] = []
    for version in range(5):
        key = OffsetCommitKey(group="g", topic="t", partition=version)
        value = OffsetCommitValue(
            offset=(1 << 40) + version,
            leader_epoch=version - 4 if version >= 3 else -1,
            metadata='so "far"\n\t\x01\\ \u20ac\U0001f600' if version % 2 else "",
            commit_timestamp=NOW,
            expire_timestamp=NOW + 5 if version == 1 else -1,
        )
        records.append((encode_versioned(key, min(version, 1)), encode_versioned(value, version)))
    records += [(GROUP_KEY, _group(version, [_member(version, number) for number in range(4)])) for version in range(5)]
    records += [
        (GROUP_KEY, _group(3, [_member(3, 3)], protocol_type="connect")),
        (GROUP_KEY, _group(3, [], leader=None, protocol=None)),
        (GROUP_KEY, _group(3, [], protocol_type="", generation=0)),
        (GROUP_KEY, _group(3, [_member(3, 0, subscription=b"", assignment=b"\x00")])),
        (GROUP_KEY, _group(3, [_member(3, 0, subscription=b"\x00\x09" + _subscription(3)[2:])])),
        (GROUP_KEY, _group(3, [_member(3, 0, assignment=_assignment(3)[:-3])])),
        (GROUP_KEY, None),
        (OFFSET_KEY, None),
        (OFFSET_KEY + b"more", OFFSET + b"more"),
        *((struct.pack(">h", kind) + b"key", b"value") for kind in (-1, 9, 99)),
    ]
    return records + _records_of_the_newer_protocol()


def record_and_tombstone(
    module: ModuleType, name: str, kind: int, ids: Mapping[str, str], **fields: Any
) -> list[KeyAndValue]:
    """Return a record whose key and value classes begin with `name`, and the tombstone for its key."""
    key = encode_versioned(getattr(module, f"{name}Key")(**ids), kind)
    return [(key, encode_versioned(getattr(module, f"{name}Value")(**fields), 0)), (key, None)]


def _records_of_the_newer_protocol() -> list[KeyAndValue]:
    group, member = {"group_id": "g"}, {"group_id": "g", "member_id": "m"}
    topic_id = bytes(range(240, 256))
    target = [consumer_groups.TopicPartition(topic_id=topic_id, partitions=[0, 2])]
    assigned = [consumer_groups.TopicPartitions(topic_id=topic_id, partitions=[0, 2])]
    partitions = [
        consumer_groups.PartitionMetadata(partition=0, racks=["a", "b"]),
        consumer_groups.PartitionMetadata(partition=1, racks=[]),
    ]
    topic = consumer_groups.TopicMetadata(
        topic_id=bytes(16), topic_name="t", num_partitions=2, partition_metadata=partitions
    )
    client: dict[str, Any] = {
        "instance_id": None,
        "rack_id": "rack",
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "subscribed_topic_names": ["t"],
        "server_assignor": "range",
    }
    classic = consumer_groups.ClassicMemberMetadata(
        session_timeout_ms=10, supported_protocols=[consumer_groups.ClassicProtocol(name="range", metadata=b"\x00\xff")]
    )
    current: dict[str, Any] = {"member_epoch": 4, "previous_member_epoch": 3, "state": 1}
    record = partial(record_and_tombstone, consumer_groups)
    return [
        *record("ConsumerGroupMetadata", 3, group, epoch=4),
        *record("ConsumerGroupPartitionMetadata", 4, group, topics=[topic]),
        *record("ConsumerGroupMemberMetadata", 5, member, **client, subscribed_topic_regex=None),
        *record(
            "ConsumerGroupMemberMetadata",
            5,
            member,
            **client,
            subscribed_topic_regex="t.*",
            classic_member_metadata=classic,
        ),
        *record("ConsumerGroupTargetAssignmentMetadata", 6, group, assignment_epoch=4),
        *record("ConsumerGroupTargetAssignmentMember", 7, member, topic_partitions=target),
        *record(
            "ConsumerGroupCurrentMemberAssignment",
            8,
            member,
            **current,
            assigned_partitions=assigned,
            partitions_pending_revocation=[],
        ),
    ]


def _group(version: int, members: list[MemberMetadata], **fields: Any) -> bytes:
    defaults: dict[str, Any] = {
        "protocol_type": "consumer",
        "generation": 3,
        "protocol": "range",
        "leader": "m0",
        **fields,
    }
    stamp: dict[str, Any] = {"current_state_timestamp": NOW} if version >= 2 else {}
    return encode_versioned(GroupMetadataValue(members=members, **defaults, **stamp), version)


def _member(version: int, number: int, *, subscription: bytes | None = None, assignment: bytes | None = None) -> Any:
    fields: dict[str, Any] = {}
    if version >= 1:
        fields["rebalance_timeout"] = 20
    if version >= 3 and number % 2:
        fields["group_instance_id"] = f"i{number}"
    return MemberMetadata(
        member_id=f"m{number}",
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout=10,
        subscription=_subscription(number) if subscription is None else subscription,
        assignment=_assignment(number) if assignment is None else assignment,
        **fields,
    )


def _subscription(version: int) -> bytes:
    fields: dict[str, Any] = {}
    if version >= 1:
        fields["owned_partitions"] = [TopicPartition(topic="t", partitions=[0, 1])]
    if version >= 2:
        fields["generation_id"] = 4
    if version >= 3:
        fields["rack_id"] = "rack"
    user_data = b"\x00\xff" if version else None
    return encode_versioned(ConsumerProtocolSubscription(topics=["t", "u"], user_data=user_data, **fields), version)


def _assignment(version: int) -> bytes:
    assigned = [TopicPartition(topic="t", partitions=[0]), TopicPartition(topic="u", partitions=[])]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=None), version)


def transaction_value(status: int, partitions: dict[str, list[int]] | None, version: int = 0) -> bytes:
    """Encode the state of a transaction in `__transaction_state`."""
    schemas = (
        None if partitions is None else [PartitionsSchema(topic=t, partition_ids=p) for t, p in partitions.items()]
    )
    value = TransactionLogValue(
        producer_id=1 << 40,
        producer_epoch=status,
        transaction_timeout_ms=60_000,
        transaction_status=status,
        transaction_partitions=schemas,
        transaction_last_update_timestamp_ms=NOW,
        transaction_start_timestamp_ms=NOW - 1,
    )
    return encode_versioned(value, version)


def transaction_records() -> list[KeyAndValue]:
    """Return records of `__transaction_state`, including partitions in the order of a Scala set."""
    records: list[KeyAndValue] = []
    for version in (0, 1):
        records.append((TRANSACTION_KEY, transaction_value(0, None, version)))
        records += [
            (TRANSACTION_KEY, transaction_value(status, {f"topic-{n}": [3, 1, 2] for n in range(status)}, version))
            for status in range(1, 8)
        ]
    for count in (10, 11, 12, 13, 22, 23, 24, 25, 48, 60):
        records += [
            (TRANSACTION_KEY, transaction_value(1, {"orders": list(range(count))})),
            (TRANSACTION_KEY, transaction_value(1, {f"topic_{n}.{n * n}": [n, n + 1] for n in range(count)})),
            (TRANSACTION_KEY, transaction_value(1, {"small": [5, 5, 1], "x" * 249: list(range(count)), "y": [0]})),
        ]
    records += [
        (TRANSACTION_KEY, transaction_value(0, {"ignored": [1]})),
        (TRANSACTION_KEY, transaction_value(1, {"none": []})),
        (TRANSACTION_KEY, None),
        *((struct.pack(">h", kind) + b"key", b"value") for kind in (-1, 1, 99)),
    ]
    return records
