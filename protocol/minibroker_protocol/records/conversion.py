"""Convert: the same records in another message format or under another codec.

Up, when a producer is older than the log; down, when the log is older than the producer, or a consumer than the log
(Kafka's `RecordsUtil.downConvert`, KIP-283). What the older format cannot hold is dropped on the way to a consumer:
headers, transaction markers, in v0 timestamps. zstd has no place in the older formats at all.
"""

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Final

from minibroker_protocol.errors import (
    EncodeError,
    InvalidRecordError,
    InvalidTimestampError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.compression import compressed
from minibroker_protocol.records.header import (
    CODEC_MASK,
    CRC_AT,
    HEADER,
    LOG_OVERHEAD,
    MAGIC_V0,
    NO_OFFSET,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    CompressionCodec,
    TimestampType,
    compute_crc,
    read_header,
)
from minibroker_protocol.records.legacy import build_message_set, encode_wrapper
from minibroker_protocol.records.record import NewRecord, Record
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_protocol.steps import Steps, collect

CONVERTED_RECORDS: Final = 100_000
"""Records that make a set long enough: a reader comes again for the rest."""
PIECE_RECORDS: Final = 16_384
"""Records of a batch that are converted together. Batches of the usual size hold less, and become one wrapper."""
_PIECE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of keys and values that are converted together, at most with one record more."""
_UINT32: Final = Struct(">I")
_OFFSET_AND_SIZE: Final = Struct(">qi")


def pack_batch(header: BatchHeader, packed: bytes, codec: CompressionCodec) -> tuple[bytearray, BatchHeader]:
    """Make a v2 batch of records that were compressed with `codec`; return it and its header.

    All else is as `header` says, also its base timestamp, which the records' own count from.
    """
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
    base_offset: Callable[[], int],
    codec: CompressionCodec,
    level: int | None = None,
    log_append_time: int | None = None,
) -> Steps[bytearray]:
    """Make a message set of format v0 or v1 of the records, with offsets from `base_offset()` on, in steps.

    Plain, or one wrapper; under LOG_APPEND_TIME when `log_append_time` is given. `UnsupportedCodecError` for zstd,
    `UnsupportedMagicError` for headers (only consumers have them dropped), `InvalidTimestampError` as above.
    """
    if codec is CompressionCodec.ZSTD:
        raise UnsupportedCodecError(f"codec: zstd, which message format v{magic} does not know")
    if any(record.headers for record in records):
        raise UnsupportedMagicError(f"headers: message format v{magic} does not know them")
    append_time = log_append_time if magic > MAGIC_V0 else None
    is_relative = codec is not CompressionCodec.NONE and magic > MAGIC_V0  # inner offsets of v1 count from the first
    while True:
        base = base_offset()
        message_set = build_message_set(
            _writable(records),
            magic=magic,
            base_offset=0 if is_relative else base,
            timestamp_type=TimestampType.CREATE_TIME if append_time is None else TimestampType.LOG_APPEND_TIME,
            log_append_time=append_time,
        )
        if codec is CompressionCodec.NONE:
            return message_set
        packed = b"".join((yield from collect(compressed(codec, message_set, magic=magic, level=level))))
        # The log may have grown meanwhile, and a v0 wrapper has its offsets within.
        if is_relative or base_offset() == base:
            break
    time = max(record.timestamp for record in records) if append_time is None else append_time
    last_offset = base_offset() + len(records) - 1
    return encode_wrapper(
        packed, codec, magic=magic, last_offset=last_offset, time=time, by_append=append_time is not None
    )


def _writable(records: Sequence[Record]) -> list[NewRecord]:
    lowest = min([record.timestamp for record in records])
    if lowest < NO_TIMESTAMP:
        raise InvalidTimestampError(f"timestamp: {lowest}, which no record may have that is written again")
    return [NewRecord(key, value, timestamp, headers) for _, timestamp, _, key, value, headers in records]


def down_convert(
    data: bytes | bytearray | memoryview, magic: int, first_offset: int, *, max_bytes: int
) -> Steps[bytearray]:
    """Convert batches of any format to a message set that a reader of format `magic` (0 or 1) understands.

    Batches of that format or an older one pass as they are. Of the others the records keep their offsets, timestamps
    and codec; those of a batch that is not compressed begin at `first_offset`, since some clients expect no earlier
    ones (a wrapper they look through). A batch of more than `PIECE_RECORDS` records or 16 MiB is converted in pieces,
    from the one on that holds `first_offset`, so that only one piece is in memory; Kafka makes a single wrapper of it.

    Ends before the batch or piece with which the set would have more than `max_bytes` bytes, but never before the
    first; behind the one with which `CONVERTED_RECORDS` are reached, since a few bytes can hold many; and at a batch
    that is cut short. It may come out empty.

    `UnsupportedCodecError` when the first batch to be converted is zstd; a later one ends the set. Raises what
    iterating over broken batches raises. A step takes a piece, or 1 MiB of it.
    """
    message_set = bytearray()
    count = 0
    for batch in iter_batches(data):
        header = batch.header
        if header.is_control:
            continue
        if header.codec is CompressionCodec.ZSTD:
            if message_set:
                break
            raise UnsupportedCodecError("Down-conversion of zstandard-compressed batches is not supported")
        if header.magic <= magic:
            if message_set and len(message_set) + len(batch.buffer) > max_bytes:
                break
            message_set += batch.buffer
            yield
            continue
        unread = batch.read(b"".join((yield from collect(batch.pieces()))))
        while records := _next_piece(unread):
            yield
            if records := _wanted(records, header, first_offset):
                piece = _message_set(records, header, magic)
                if header.codec is not CompressionCodec.NONE:
                    packed = yield from collect(compressed(header.codec, piece, magic=magic))
                    piece = _wrapper(b"".join(packed), records, header, magic)
                if message_set and len(message_set) + len(piece) > max_bytes:
                    return message_set
                message_set += piece
                count += len(records)
                if count >= CONVERTED_RECORDS:
                    return message_set
    return message_set


def _next_piece(records: Iterator[Record]) -> list[Record]:
    """Return the next records that are converted together."""
    piece: list[Record] = []
    size = 0
    for record in records:
        piece.append(record)
        size += len(record.key or b"") + len(record.value or b"")
        if len(piece) == PIECE_RECORDS or size >= _PIECE_BYTES:
            break
    return piece


def _wanted(records: list[Record], header: BatchHeader, first_offset: int) -> list[Record]:
    """Return the records of a piece that a reader gets who reads from `first_offset` on."""
    if header.codec is CompressionCodec.NONE:
        return [record for record in records if record.offset >= first_offset]
    return [] if len(records) < header.record_count and records[-1].offset < first_offset else records


def _append_time(header: BatchHeader, magic: int) -> int | None:
    by_append = header.timestamp_type is TimestampType.LOG_APPEND_TIME and magic > MAGIC_V0
    return header.max_timestamp if by_append else None


def _times(records: Sequence[Record]) -> list[int]:
    """The records' timestamps. One that only a broken clock can have set would make Kafka refuse the whole fetch."""
    return [max(record.timestamp, NO_TIMESTAMP) for record in records]


def _message_set(records: Sequence[Record], header: BatchHeader, magic: int) -> bytearray:
    """Make a message set of records of a batch."""
    is_relative = header.codec is not CompressionCodec.NONE and magic > MAGIC_V0
    base = records[0].offset if is_relative else 0
    try:
        return build_message_set(
            [NewRecord(record.key, record.value, time) for record, time in zip(records, _times(records), strict=True)],
            magic=magic,
            base_offset=records[0].offset - base,
            offsets=[record.offset - base for record in records],
            timestamp_type=header.timestamp_type,
            log_append_time=_append_time(header, magic),
        )
    except EncodeError as error:  # such as offsets that do not ascend, in a batch that was trusted for its checksum
        raise InvalidRecordError(f"the batch at offset {header.base_offset} cannot be converted: {error}") from None


def _wrapper(packed: bytes, records: Sequence[Record], header: BatchHeader, magic: int) -> bytearray:
    """Make the wrapper of their compressed message set."""
    append_time = _append_time(header, magic)
    return encode_wrapper(
        packed,
        header.codec,
        magic=magic,
        last_offset=records[-1].offset,
        time=max(_times(records)) if append_time is None else append_time,
        by_append=append_time is not None,
    )


def overflow_message(max_bytes: int) -> bytes:
    """The head of a message that is larger than a fetch of `max_bytes` bytes, and nothing of the message itself.

    It makes an old consumer ask for more, where an empty set would mean that it has read everything
    (`LazyDownConversionRecordsSend`).
    """
    return _OFFSET_AND_SIZE.pack(NO_OFFSET, min(max(max_bytes + 1, RECORD_BATCH_OVERHEAD), INT32_MAX))
