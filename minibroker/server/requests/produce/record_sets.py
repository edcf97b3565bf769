"""The record sets of Produce requests: their format, derived from the first bytes.

Most topics accept batches unchanged. For all others the log validator checks each record.
"""

from __future__ import annotations

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
    from minibroker.server.requests.call import Call

FIRST_WITH_ONE_BATCH: Final = 3
"""The first version of Produce with exactly one batch of format v2 per partition."""
FIRST_WITH_IDS: Final = first_version(TopicProduceData, "topic_id")
"""The first version of Produce that identifies topics by id."""
_ATTRIBUTES_AT: Final = CRC_COVERS_FROM + 1
"""The position of the lower attribute byte of a batch, which contains the codec."""
_MAX_RECORDS: Final = 1000
_MAX_BYTES: Final = 1 << 20
_MAX_COMPRESSED_BYTES: Final = 256
"""zstd can expand this to at most 8 MiB."""
_MAX_LEGACY_BYTES: Final = 16_384
_RECORD_COUNT: Final = slice(RECORD_BATCH_OVERHEAD - 4, RECORD_BATCH_OVERHEAD)
_LEGACY_ATTRIBUTES_AT: Final = MAGIC_AT + 1


def is_appended_unchanged(topic: Topic, records: memoryview, call: Call) -> bool:
    """Return whether a valid batch is appended without checking its records."""
    return topic.keeps_batches and (call.api_version >= FIRST_WITH_ONE_BATCH or is_v2(records))


def is_v2(records: memoryview) -> bool:
    """Return whether the records begin with a batch of format v2."""
    return len(records) > MAGIC_AT and records[MAGIC_AT] >= MAGIC_V2


def is_transactional(records: Any) -> bool:
    """Return whether the first batch is transactional. Requests with several batches are not served."""
    return bool(
        records
        and len(records) > _ATTRIBUTES_AT
        and records[MAGIC_AT] == MAGIC_V2
        and records[_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG
    )


def takes_long_to_validate(records: memoryview, max_message_bytes: int) -> bool:
    """Return whether validation may have to process more than a thousand records, or more than a megabyte."""
    if is_v2(records):
        if len(records) > max_message_bytes:  # The batch will be rejected without reading its records.
            return False
        count = int.from_bytes(records[_RECORD_COUNT], "big")
        # A few compressed kilobytes can expand to 100 MiB, so the size limit for compressed records is smaller.
        is_compressed = records[_ATTRIBUTES_AT] & CODEC_MASK
        return count > _MAX_RECORDS or len(records) > (_MAX_COMPRESSED_BYTES if is_compressed else _MAX_BYTES)
    # The number of messages inside a compressed message is unknown.
    is_compressed = len(records) > _LEGACY_ATTRIBUTES_AT and records[_LEGACY_ATTRIBUTES_AT] & CODEC_MASK
    return bool(is_compressed) or len(records) > _MAX_LEGACY_BYTES
