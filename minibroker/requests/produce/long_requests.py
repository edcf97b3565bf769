"""Produce requests that are served in slices, because the log validator must read many records.

A megabyte may hold a hundred thousand records, and a few kilobytes of a compressed set as many.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from minibroker.requests.produce.record_sets import FIRST_WITH_IDS, is_v2, takes_as_it_comes
from minibroker_protocol.records.header import CODEC_MASK, MAGIC_AT, RECORD_BATCH_OVERHEAD

if TYPE_CHECKING:
    from minibroker.requests.call import Call
    from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest

_FEW_RECORDS: Final = 1000
_FEW_BYTES: Final = 1 << 20
_FEW_COMPRESSED_BYTES: Final = 256
"""zstd makes at most 8 MiB of them."""
_SMALL_SET: Final = 16_384
_RECORD_COUNT: Final = slice(RECORD_BATCH_OVERHEAD - 4, RECORD_BATCH_OVERHEAD)
_ATTRIBUTES_AT: Final = MAGIC_AT + 5
"""Of a v2 batch, after the magic byte and the checksum. Its low byte has the codec."""
_LEGACY_ATTRIBUTES_AT: Final = MAGIC_AT + 1


def has_many_records(request: ProduceRequest, call: Call) -> bool:
    """Whether more than a few records have to be looked at one by one."""
    topics, by_id = call.core.topics, call.api_version >= FIRST_WITH_IDS
    for asked in request.topic_data:
        topic = topics.with_id(asked.topic_id) if by_id else topics.get(asked.name)
        if topic is None:
            continue
        for data in asked.partition_data:
            records = data.records
            if not isinstance(records, memoryview) or takes_as_it_comes(topic, records, call):
                continue
            if _may_hold_many(records, topic.max_message_bytes):
                return True
    return False


def _may_hold_many(records: memoryview, max_message_bytes: int) -> bool:
    if is_v2(records):
        if len(records) > max_message_bytes:  # it is refused unread
            return False
        count = int.from_bytes(records[_RECORD_COUNT], "big")
        # A single record that was compressed to some kilobytes may have 100 MiB.
        is_compressed = records[_ATTRIBUTES_AT + 1] & CODEC_MASK
        return count > _FEW_RECORDS or len(records) > (_FEW_COMPRESSED_BYTES if is_compressed else _FEW_BYTES)
    # The number of messages in a compressed one is unknown.
    is_compressed = len(records) > _LEGACY_ATTRIBUTES_AT and records[_LEGACY_ATTRIBUTES_AT] & CODEC_MASK
    return bool(is_compressed) or len(records) > _SMALL_SET


def kept(request: ProduceRequest) -> ProduceRequest:
    """The request with records that stay as they are when the receive buffer is used again."""

    def copied(data: PartitionProduceData) -> PartitionProduceData:
        records = data.records
        return replace(data, records=memoryview(bytearray(records)) if isinstance(records, memoryview) else records)

    topics = [
        replace(topic, partition_data=[copied(data) for data in topic.partition_data]) for topic in request.topic_data
    ]
    return replace(request, topic_data=topics)
