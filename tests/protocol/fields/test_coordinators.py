"""Records of the coordinators' topics, decoded in the trees of their batches."""

from typing import Any

import pytest

from minibroker_protocol.coordinator_records import (
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
    encode_versioned,
)
from minibroker_protocol.coordinator_records.consumer_groups import (
    CONSUMER_GROUP_RECORDS,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from minibroker_protocol.coordinator_records.share_groups import SHARE_GROUP_RECORDS
from minibroker_protocol.coordinator_records.streams_groups import STREAMS_GROUP_RECORDS
from minibroker_protocol.fields.batches import record_set_tree
from minibroker_protocol.fields.coordinators import open_records
from minibroker_protocol.fields.tree import DEFAULT_LIMITS, Node
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.record import NewRecord
from minibroker_protocol.schema import schema_of
from tests.protocol.fields.trees import check_leaves
from tests.storage.helpers import marker

COMMIT = NewRecord(
    encode_versioned(OffsetCommitKey(group="g", topic="orders", partition=1), 1),
    encode_versioned(OffsetCommitValue(offset=42, metadata="x", commit_timestamp=1000), 3),
    1000,
)
GROUP = NewRecord(
    encode_versioned(ConsumerGroupMetadataKey(group_id="g"), 3),
    encode_versioned(ConsumerGroupMetadataValue(epoch=7), 0),
    1000,
)
TOMBSTONE = NewRecord(encode_versioned(OffsetCommitKey(group="g", topic="orders", partition=2), 1), None, 1000)
FOREIGN = [
    NewRecord(None, b"v", 1),
    NewRecord(b"\0", b"v", 1),
    NewRecord(b"\0\x63key", b"v", 1),
    NewRecord(b"\0\1", b"", 1),
]


def opened(records: list[NewRecord], topic: str, codec: CompressionCodec = CompressionCodec.NONE) -> list[Node]:
    data = memoryview(bytes(build_batch(records, codec=codec)))
    root = record_set_tree(data)
    open_records(root, data, topic, DEFAULT_LIMITS)
    check_leaves(root, len(data))
    return [node for node in root.all_nodes() if node.type == "RECORD"]


@pytest.mark.parametrize("codec", [CompressionCodec.NONE, CompressionCodec.GZIP])
def test_a_committed_offset_is_opened(codec: CompressionCodec) -> None:
    commit, group, tombstone = opened([COMMIT, GROUP, TOMBSTONE], "__consumer_offsets", codec)
    assert [each.note for each in (commit, group, tombstone)] == [
        "OffsetCommit",
        "ConsumerGroupMetadata",
        "OffsetCommit",
    ]
    key, value = commit.find("key", "(content)"), commit.find("value", "(content)")
    assert (key.find("version").value, key.find("group").value, key.find("topic").value) == (1, "g", "orders")
    assert (value.find("offset").value, value.find("commit_timestamp").note) == (42, "1970-01-01T00:00:01.000Z")
    assert group.find("value", "(content)", "epoch").value == 7
    assert tombstone.find("value").note == "null"


def test_a_transaction_is_opened() -> None:
    value = TransactionLogValue(
        producer_id=3,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=5,
        client_transaction_version=2,
    )
    for version in (0, 1):
        record = NewRecord(
            encode_versioned(TransactionLogKey(transactional_id="copier"), 0), encode_versioned(value, version), 1
        )
        (found,) = opened([record], "__transaction_state")
        content = found.find("value", "(content)")
        assert content.find("producer_id").value == 3
        tags = [] if version == 0 else [child.name for child in content.find("tagged_fields").children or ()]
        assert ("client_transaction_version" in tags) == (version == 1)


def test_other_bytes_and_other_topics_stay_bytes() -> None:
    for record in opened(FOREIGN, "__consumer_offsets"):
        assert not any(node.type == "STRUCT" for node in record.all_nodes())
    (record,) = opened([COMMIT], "orders")
    assert record.find("key", "(content)").type == "BYTES"
    data = memoryview(bytes(marker().view))
    root = record_set_tree(data)
    open_records(root, data, "__consumer_offsets", DEFAULT_LIMITS)
    check_leaves(root, len(data))


@pytest.mark.parametrize(
    "key_class", [key for key, _ in (*CONSUMER_GROUP_RECORDS, *SHARE_GROUP_RECORDS, *STREAMS_GROUP_RECORDS)]
)
def test_each_kind_of_record_of_the_newer_groups_is_known(key_class: Any) -> None:
    key = key_class(**dict.fromkeys(key_class.__dataclass_fields__, "x"))
    encoded = encode_versioned(key, schema_of(key_class).versions.first)
    (found,) = opened([NewRecord(encoded, None, 1)], "__consumer_offsets")
    assert found.note == key_class.__name__.removesuffix("Key")
    assert found.find("key", "(content)", "group_id").value == "x"
