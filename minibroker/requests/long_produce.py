"""Produce requests that are served in slices, because the log validator must read many records.

Most topics take batches as they come. The log validator looks at each record of all others: a megabyte may hold a
hundred thousand of them, and a few kilobytes of a compressed set as many.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from minibroker_protocol.messages.produce import TopicProduceData
from minibroker_protocol.records.header import (
    CODEC_MASK,
    CRC_COVERS_FROM,
    MAGIC_AT,
    MAGIC_V2,
    RECORD_BATCH_OVERHEAD,
    TRANSACTIONAL_FLAG,
)
from minibroker_protocol.schema import first_version

if TYPE_CHECKING:
    from minibroker.cluster.topics import Topic
    from minibroker.requests.call import Call
    from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest

FIRST_WITH_ONE_BATCH: Final = 3
"""The first version of Produce in which a partition gets one batch of format v2."""
FIRST_WITH_IDS: Final = first_version(TopicProduceData, "topic_id")
"""The first version of Produce that names topics by their ids."""
_FEW_RECORDS: Final = 1000
_SMALL_SET: Final = 16_384
_RECORD_COUNT: Final = slice(RECORD_BATCH_OVERHEAD - 4, RECORD_BATCH_OVERHEAD)
_LEGACY_ATTRIBUTES_AT: Final = MAGIC_AT + 1
_ATTRIBUTES_AT: Final = CRC_COVERS_FROM + 1
"""The lower byte of a batch's attributes."""


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
        count = int.from_bytes(records[_RECORD_COUNT], "big")
        return count > _FEW_RECORDS and len(records) <= max_message_bytes  # a larger one is refused unread
    # The number of messages in a compressed one is unknown.
    is_compressed = len(records) > _LEGACY_ATTRIBUTES_AT and records[_LEGACY_ATTRIBUTES_AT] & CODEC_MASK
    return bool(is_compressed) or len(records) > _SMALL_SET


def takes_as_it_comes(topic: Topic, records: memoryview, call: Call) -> bool:
    """Whether a sound batch is appended without a look at its records."""
    return topic.keeps_batches and (call.api_version >= FIRST_WITH_ONE_BATCH or is_v2(records))


def is_v2(records: memoryview) -> bool:
    """Whether a batch of format v2 comes first."""
    return len(records) > MAGIC_AT and records[MAGIC_AT] >= MAGIC_V2


def is_transactional(records: Any) -> bool:
    """Whether the first batch is; there are never two in a request that is served."""
    return bool(
        records
        and len(records) > _ATTRIBUTES_AT
        and records[MAGIC_AT] == MAGIC_V2
        and records[_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG
    )


def kept(request: ProduceRequest) -> ProduceRequest:
    """The request with records that stay as they are when the receive buffer is used again."""

    def copied(data: PartitionProduceData) -> PartitionProduceData:
        records = data.records
        return replace(data, records=memoryview(bytearray(records)) if isinstance(records, memoryview) else records)

    topics = [
        replace(topic, partition_data=[copied(data) for data in topic.partition_data]) for topic in request.topic_data
    ]
    return replace(request, topic_data=topics)
