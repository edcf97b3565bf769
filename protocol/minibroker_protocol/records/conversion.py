"""Convert: the same records in another message format or under another codec.

Up, when a producer is older than the log; down, when the log is older than the producer, or a consumer than the log
(Kafka's `RecordsUtil.downConvert`, KIP-283). What the older format cannot hold is dropped on the way to a consumer:
headers, transaction markers, in v0 timestamps. zstd has no place in the older formats at all.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from minibroker_protocol.errors import (
    EncodeError,
    InvalidRecordError,
    InvalidTimestampError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from minibroker_protocol.records.batch import Batch, iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.compression import compress
from minibroker_protocol.records.header import (
    CODEC_MASK,
    CRC_AT,
    HEADER,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    CompressionCodec,
    TimestampType,
    compute_crc,
    read_header,
)
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord, Record
from minibroker_protocol.records.varint import INT32_MAX

CONVERTED_RECORDS: Final = 100_000
"""So many records make a set long enough: a reader comes again for the rest, and others are served meanwhile."""
_UINT32: Final = Struct(">I")
_OFFSET_AND_SIZE: Final = Struct(">qi")
_NO_OFFSET: Final = -1


def pack_batch(
    header: BatchHeader, data: bytes, codec: CompressionCodec, level: int | None = None
) -> tuple[bytearray, BatchHeader]:
    """A v2 batch of the encoded records `data`, compressed with `codec`, and its header.

    All else is as `header` says, also its base timestamp, which the records' own count from.
    """
    packed = compress(codec, data, level=level)
    header = header._replace(
        batch_length=RECORD_BATCH_OVERHEAD - LOG_OVERHEAD + len(packed),
        attributes=header.attributes & ~CODEC_MASK | codec,
    )
    batch = bytearray(RECORD_BATCH_OVERHEAD)
    HEADER.pack_into(batch, 0, *header)
    batch += packed
    with memoryview(batch) as view:
        crc = compute_crc(view)
        _UINT32.pack_into(view, CRC_AT, crc)
    return batch, header._replace(crc=crc)


def up_convert(records: Sequence[Record]) -> tuple[BatchHeader, bytes]:
    """The records as one v2 batch that is not compressed, with offsets from 0 on: its header, and what follows that.

    `InvalidTimestampError` for a negative timestamp other than `NO_TIMESTAMP`.
    """
    batch = build_batch(_writable(records))
    return read_header(batch), bytes(memoryview(batch)[RECORD_BATCH_OVERHEAD:])


def to_message_set(
    records: Sequence[Record],
    *,
    magic: int,
    base_offset: int,
    codec: CompressionCodec,
    level: int | None = None,
    log_append_time: int | None = None,
) -> bytearray:
    """The records as a message set of format v0 or v1, with offsets from `base_offset` on.

    Plain, or one wrapper; under LOG_APPEND_TIME when `log_append_time` is given. `UnsupportedCodecError` for zstd,
    `UnsupportedMagicError` for headers (only consumers have them dropped), `InvalidTimestampError` as above.
    """
    if codec is CompressionCodec.ZSTD:
        raise UnsupportedCodecError(f"codec: zstd, which message format v{magic} does not know")
    if any(record.headers for record in records):
        raise UnsupportedMagicError(f"headers: message format v{magic} does not know them")
    return build_message_set(
        _writable(records),
        magic=magic,
        base_offset=base_offset,
        codec=codec,
        timestamp_type=TimestampType.CREATE_TIME if log_append_time is None else TimestampType.LOG_APPEND_TIME,
        log_append_time=log_append_time,
        level=level,
    )


def _writable(records: Sequence[Record]) -> list[NewRecord]:
    lowest = min([record.timestamp for record in records])
    if lowest < NO_TIMESTAMP:
        raise InvalidTimestampError(f"timestamp: {lowest}, which no record may have that is written anew")
    return [NewRecord(key, value, timestamp, headers) for _, timestamp, _, key, value, headers in records]


def down_convert(data: bytes | bytearray | memoryview, magic: int, first_offset: int, *, max_bytes: int) -> bytearray:
    """Batches of any format as a message set that a reader of format `magic` (0 or 1) understands.

    Batches of that format or an older one pass as they are. Of the others the records keep their offsets, timestamps
    and codec; those of a batch that is not compressed begin at `first_offset`, since some clients expect no earlier
    ones (a wrapper they look through). Ends before the batch with which the set would have more than `max_bytes`
    bytes, but never before the first; behind the batch with which `CONVERTED_RECORDS` are reached, since a few bytes
    can hold many; and at one that is cut short. It may come out empty.

    `UnsupportedCodecError` when the first batch to be converted is zstd; a later one ends the set. Raises what
    iterating over broken batches raises. One batch at a time is held in memory.
    """
    message_set = bytearray()
    records = 0
    for batch in iter_batches(data):
        header = batch.header
        if header.is_control:
            continue
        if header.codec is CompressionCodec.ZSTD:
            if message_set:
                break
            raise UnsupportedCodecError("Down-conversion of zstandard-compressed batches is not supported")
        converted = batch.buffer if header.magic <= magic else _down_convert_batch(batch, magic, first_offset)
        if message_set and len(message_set) + len(converted) > max_bytes:
            break
        message_set += converted
        if header.magic > magic:
            records += max(header.record_count, 0)
            if records >= CONVERTED_RECORDS:
                break
    return message_set


def _down_convert_batch(batch: Batch, magic: int, first_offset: int) -> bytearray:
    header = batch.header
    codec = header.codec
    records = list(batch)
    if codec is CompressionCodec.NONE:
        records = [record for record in records if record.offset >= first_offset]
    if not records:
        return bytearray()
    timestamp_type = header.timestamp_type
    try:
        return build_message_set(
            # A timestamp that only a broken clock can have set would make Kafka refuse the whole fetch.
            [NewRecord(key, value, max(timestamp, NO_TIMESTAMP)) for _, timestamp, _, key, value, _ in records],
            magic=magic,
            base_offset=records[0].offset,
            offsets=[record.offset for record in records],
            codec=codec,
            timestamp_type=timestamp_type,
            log_append_time=header.max_timestamp if timestamp_type is TimestampType.LOG_APPEND_TIME else None,
        )
    except EncodeError as error:  # such as offsets that do not ascend, in a batch that was trusted for its checksum
        raise InvalidRecordError(f"the batch at offset {header.base_offset} cannot be converted: {error}") from None


def overflow_message(max_bytes: int) -> bytes:
    """The head of a message that is larger than a fetch of `max_bytes` bytes, and nothing of the message itself.

    It tells an old consumer to ask for more, where an empty set would tell it that it has read everything
    (`LazyDownConversionRecordsSend`).
    """
    return _OFFSET_AND_SIZE.pack(_NO_OFFSET, min(max(max_bytes + 1, RECORD_BATCH_OVERHEAD), INT32_MAX))
