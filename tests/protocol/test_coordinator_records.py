"""Records of the coordinators and the consumer protocol, byte for byte, with golden bytes written by Kafka 3.9.

`test_kafka_definitions.py` compares every field of every version with Kafka's definitions.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    UnknownKey,
    decode_versioned,
    encode_versioned,
    read_group_key,
)
from minibroker_protocol.coordinator_records.consumer_protocol import RangeSplitter, member_sort_key
from minibroker_protocol.errors import DecodeError, EncodeError


def committed(**fields: Any) -> OffsetCommitValue:
    return OffsetCommitValue(offset=258, metadata="m", commit_timestamp=1000, **fields)


def group(*, timestamp: int = -1, **of_member: Any) -> GroupMetadataValue:
    member = MemberMetadata(
        member_id="m1",
        client_id="c",
        client_host="/h",
        session_timeout=45,
        subscription=b"\1\2",
        assignment=b"",
        **of_member,
    )
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="m1",
        current_state_timestamp=timestamp,
        members=[member],
    )


def transaction(*partitions: PartitionsSchema) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=9,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=list(partitions) or None,
        transaction_last_update_timestamp_ms=2000,
        transaction_start_timestamp_ms=1000,
    )


def subscribed(**fields: Any) -> ConsumerProtocolSubscription:
    return ConsumerProtocolSubscription(topics=["t", "u"], **fields)


KEY = OffsetCommitKey(group="g", topic="top", partition=3)
OWNED = [TopicPartition(topic="t", partitions=[1])]
EMPTY_GROUP = GroupMetadataValue(protocol_type="", generation=0, protocol=None, leader=None, members=[])

GOLDEN: list[tuple[int, Any, str]] = [
    (0, KEY, "0000 000167 0003746f70 00000003"),
    (1, KEY, "0001 000167 0003746f70 00000003"),
    (0, committed(), "0000 0000000000000102 00016d 00000000000003e8"),
    (1, committed(expire_timestamp=2000), "0001 0000000000000102 00016d 00000000000003e8 00000000000007d0"),
    (2, committed(), "0002 0000000000000102 00016d 00000000000003e8"),
    (3, committed(leader_epoch=7), "0003 0000000000000102 00000007 00016d 00000000000003e8"),
    (4, committed(leader_epoch=7), "0004 0000000000000102 00000007 026d 00000000000003e8 00"),
    (2, GroupMetadataKey(group="g"), "0002 000167"),
    (
        0,
        group(),
        (
            "0000 0008636f6e73756d6572 00000001 000572616e6765 00026d31"
            "00000001 00026d31 000163 00022f68 0000002d 000000020102 00000000"
        ),
    ),
    (
        1,
        group(rebalance_timeout=300),
        (
            "0001 0008636f6e73756d6572 00000001 000572616e6765 00026d31"
            "00000001 00026d31 000163 00022f68 0000012c 0000002d 000000020102 00000000"
        ),
    ),
    (
        2,
        group(timestamp=1000, rebalance_timeout=300),
        (
            "0002 0008636f6e73756d6572 00000001 000572616e6765 00026d31 00000000000003e8"
            "00000001 00026d31 000163 00022f68 0000012c 0000002d 000000020102 00000000"
        ),
    ),
    (
        3,
        group(timestamp=1000, rebalance_timeout=300, group_instance_id="i"),
        (
            "0003 0008636f6e73756d6572 00000001 000572616e6765 00026d31 00000000000003e8"
            "00000001 00026d31 000169 000163 00022f68 0000012c 0000002d 000000020102 00000000"
        ),
    ),
    (
        4,
        group(timestamp=1000, rebalance_timeout=300, group_instance_id="i"),
        (
            "0004 09636f6e73756d6572 00000001 0672616e6765 036d31 00000000000003e8"
            "02 036d31 0269 0263 032f68 0000012c 0000002d 030102 01 00 00"
        ),
    ),
    (3, EMPTY_GROUP, "0003 0000 00000000 ffff ffff ffffffffffffffff 00000000"),
    (0, TransactionLogKey(transactional_id="tx"), "0000 00027478"),
    (
        0,
        transaction(PartitionsSchema(topic="t", partition_ids=[0, 2])),
        (
            "0000 0000000000000009 0001 0000ea60 01 00000001 000174 000000020000000000000002"
            "00000000000007d0 00000000000003e8"
        ),
    ),
    (
        1,
        transaction(PartitionsSchema(topic="t", partition_ids=[0, 2])),
        "0001 0000000000000009 0001 0000ea60 01 02 0274 030000000000000002 00 00000000000007d0 00000000000003e8 00",
    ),
    (0, transaction(), "0000 0000000000000009 0001 0000ea60 01 ffffffff 00000000000007d0 00000000000003e8"),
    (1, transaction(), "0001 0000000000000009 0001 0000ea60 01 00 00000000000007d0 00000000000003e8 00"),
    (0, subscribed(), "0000 00000002 000174 000175 ffffffff"),
    (
        1,
        subscribed(user_data=b"\5", owned_partitions=OWNED),
        "0001 00000002 000174 000175 0000000105 00000001 000174 0000000100000001",
    ),
    (
        2,
        subscribed(user_data=b"\5", owned_partitions=OWNED, generation_id=4),
        "0002 00000002 000174 000175 0000000105 00000001 000174 0000000100000001 00000004",
    ),
    (
        3,
        subscribed(user_data=b"\5", owned_partitions=OWNED, generation_id=4, rack_id="r"),
        "0003 00000002 000174 000175 0000000105 00000001 000174 0000000100000001 00000004 000172",
    ),
    (
        0,
        ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic="t", partitions=[1, 2])]),
        "0000 00000001 000174 000000020000000100000002 ffffffff",
    ),
]

CONSUMER_PROTOCOL = (ConsumerProtocolSubscription, ConsumerProtocolAssignment)
OF_TOPICS = (
    OffsetCommitKey,
    OffsetCommitValue,
    GroupMetadataKey,
    GroupMetadataValue,
    TransactionLogKey,
    TransactionLogValue,
)


def ids(value: object) -> str:
    return value.__name__ if isinstance(value, type) else ""


@pytest.mark.parametrize(("version", "value", "golden"), GOLDEN, ids=[f"{type(m).__name__}-v{v}" for v, m, _ in GOLDEN])
def test_a_record_is_what_kafka_writes(version: int, value: Any, golden: str) -> None:
    data = bytes.fromhex(golden)
    assert encode_versioned(value, version) == data
    for form in (data, bytearray(data), memoryview(data)):
        assert decode_versioned(type(value), form) == value


@pytest.mark.parametrize(("version", "value", "golden"), GOLDEN, ids=[f"{type(m).__name__}-v{v}" for v, m, _ in GOLDEN])
def test_a_record_that_is_cut_anywhere_is_refused_by_name(version: int, value: Any, golden: str) -> None:
    data = bytes.fromhex(golden)
    for cut in range(len(data)):
        with pytest.raises(DecodeError, match=f"^{type(value).__name__}"):
            decode_versioned(type(value), data[:cut])


def test_bytes_after_the_end_are_passed_over() -> None:
    assert decode_versioned(OffsetCommitKey, encode_versioned(KEY, 1) + b"more") == KEY


def test_the_key_of_a_group_record_is_told_by_its_version() -> None:
    assert read_group_key(encode_versioned(KEY, 0)) == KEY
    assert read_group_key(encode_versioned(KEY, 1)) == KEY
    assert read_group_key(encode_versioned(GroupMetadataKey(group="g"), 2)) == GroupMetadataKey(group="g")
    assert read_group_key(memoryview(b"\0\x03\0\x01g")) == UnknownKey(3)  # ConsumerGroupMetadataKey, KIP-848
    assert read_group_key(b"\xff\xff") == UnknownKey(-1)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x01", b"\0\x01\0\x05g", b"\0\x02\0", b"\0\x02\xff\xff"])
def test_a_key_of_a_group_record_that_is_cut_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError, match=r"^(a key of __consumer_offsets|OffsetCommitKey v1|GroupMetadataKey v2): "):
        read_group_key(data)


@given(data=st.binary(max_size=40))
def test_any_bytes_are_a_key_or_refused_and_nothing_else(data: bytes) -> None:
    try:
        key = read_group_key(data)
    except DecodeError:
        return
    assert isinstance(key, OffsetCommitKey | GroupMetadataKey | UnknownKey)


@pytest.mark.parametrize("cls", OF_TOPICS, ids=ids)
@pytest.mark.parametrize("version", [-1, 5, 32767])
def test_a_stored_record_of_an_unknown_version_is_refused(cls: type[Any], version: int) -> None:
    data = version.to_bytes(2, "big", signed=True) + bytes(100)
    with pytest.raises(DecodeError, match=rf"^{cls.__name__}: version {version} is unknown, .*\b(is|are) known$"):
        decode_versioned(cls, data)


@pytest.mark.parametrize("version", [4, 32767])
def test_the_consumer_protocol_of_the_future_is_read_in_its_newest_known_form(version: int) -> None:
    subscription = subscribed(owned_partitions=OWNED, generation_id=4, rack_id="r")
    assignment = ConsumerProtocolAssignment(assigned_partitions=OWNED, user_data=b"u")
    for value in (subscription, assignment):
        data = version.to_bytes(2, "big") + encode_versioned(value, 3)[2:] + b"what comes later"
        assert decode_versioned(type(value), data) == value


@pytest.mark.parametrize("cls", CONSUMER_PROTOCOL, ids=ids)
def test_the_consumer_protocol_has_no_version_below_zero(cls: type[Any]) -> None:
    with pytest.raises(DecodeError, match=f"^{cls.__name__}: version -1 is unknown, 0 to 3 are known$"):
        decode_versioned(cls, b"\xff\xff" + bytes(20))


def test_bytes_are_views_of_what_was_read_and_not_copies() -> None:
    data = bytearray(encode_versioned(subscribed(user_data=b"old"), 0))
    read = decode_versioned(ConsumerProtocolSubscription, data)
    data[-3:] = b"new"
    assert read.user_data == b"new"


def test_what_cannot_be_written_is_our_fault() -> None:
    with pytest.raises(EncodeError, match="OffsetCommitValue v3"):
        encode_versioned(OffsetCommitValue(offset=2**63, metadata="", commit_timestamp=0), 3)
    with pytest.raises(ValueError, match="GroupMetadataKey has no version 1"):
        encode_versioned(GroupMetadataKey(group="g"), 1)


def test_the_first_members_have_one_partition_more() -> None:
    shares = RangeSplitter(7, 3)
    assert [list(shares.next_range()) for _ in range(3)] == [[0, 1, 2], [3, 4], [5, 6]]
    few = RangeSplitter(1, 2)
    assert [list(few.next_range()) for _ in range(2)] == [[0], []]


def test_static_members_come_first_by_their_instance_ids() -> None:
    members = {"a": None, "z": "1", "b": None, "y": "2"}
    assert sorted(members, key=lambda member: member_sort_key(member, members[member])) == ["z", "y", "a", "b"]
