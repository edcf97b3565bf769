"""Convert: the same records in another message format or under another codec.

Up, when a producer is older than the log; down, when the log is older than the producer, or a consumer than the log
(Kafka's `RecordsUtil.downConvert`, KIP-283). What the older format cannot hold is dropped on the way to a consumer:
headers, transaction markers, in v0 timestamps. zstd has no place in the older formats at all.
"""

from collections.abc import Generator, Iterator, Sequence
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
from minibroker_protocol.records.codecs import STEP_SIZE
from minibroker_protocol.records.compression import compress_in_steps
from minibroker_protocol.records.header import (
    CODEC_MASK,
    CRC_AT,
    HEADER,
    LOG_OVERHEAD,
    MAGIC_V0,
    NO_OFFSET,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    CompressionCodec,
    TimestampType,
    compute_crc,
    read_header,
)
from minibroker_protocol.records.legacy import LegacyRecordBatch, build_message_set, wrap
from minibroker_protocol.records.record import NewRecord, Record, read_records
from minibroker_protocol.records.record_times import RecordTimes, read_times, records_in
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_protocol.steps import Steps, drain

CONVERTED_RECORDS: Final = 100_000
"""So many records make a set long enough: a reader comes again for the rest."""
PIECE_RECORDS: Final = 16_384
"""So many records of a batch are converted together. Batches of the usual size hold less, and become one wrapper."""
_RECORDS_AT_ONCE: Final = 512
_UINT32: Final = Struct(">I")
_OFFSET_AND_SIZE: Final = Struct(">qi")


def pack_batch(
    header: BatchHeader, data: bytes, codec: CompressionCodec, level: int | None = None
) -> Steps[tuple[bytearray, BatchHeader]]:
    """Make a v2 batch of the encoded records `data`, compressed with `codec`; return it and its header, in steps.

    All else is as `header` says, also its base timestamp, which the records' own count from.
    """
    packed = yield from compress_in_steps(codec, data, level=level)
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
) -> Steps[bytearray]:
    """Make a message set of format v0 or v1 of the records, with offsets from `base_offset` on, in steps.

    Plain, or one wrapper; under LOG_APPEND_TIME when `log_append_time` is given. `UnsupportedCodecError` for zstd,
    `UnsupportedMagicError` for headers (only consumers have them dropped), `InvalidTimestampError` as above.
    """
    if codec is CompressionCodec.ZSTD:
        raise UnsupportedCodecError(f"codec: zstd, which message format v{magic} does not know")
    if any(record.headers for record in records):
        raise UnsupportedMagicError(f"headers: message format v{magic} does not know them")
    is_wrapped = codec is not CompressionCodec.NONE
    message_set = build_message_set(
        _writable(records),
        magic=magic,
        base_offset=0 if is_wrapped and magic > MAGIC_V0 else base_offset,  # inner offsets of v1 count from the first
        timestamp_type=TimestampType.CREATE_TIME if log_append_time is None else TimestampType.LOG_APPEND_TIME,
        log_append_time=log_append_time,
    )
    if not is_wrapped:
        return message_set
    append_time = log_append_time if magic > MAGIC_V0 else None
    return (
        yield from wrap(
            message_set,
            codec,
            magic=magic,
            last_offset=base_offset + len(records) - 1,
            timestamp=max(record.timestamp for record in records) if append_time is None else append_time,
            attributes=0 if append_time is None else TIMESTAMP_TYPE_FLAG,
            level=level,
        )
    )


def _writable(records: Sequence[Record]) -> list[NewRecord]:
    lowest = min([record.timestamp for record in records])
    if lowest < NO_TIMESTAMP:
        raise InvalidTimestampError(f"timestamp: {lowest}, which no record may have that is written again")
    return [NewRecord(key, value, timestamp, headers) for _, timestamp, _, key, value, headers in records]


def down_convert(data: bytes | bytearray | memoryview, magic: int, first_offset: int, *, max_bytes: int) -> bytearray:
    """`down_convert_in_steps` with all steps at once."""
    return drain(down_convert_in_steps(data, magic, first_offset, max_bytes=max_bytes))


def down_convert_in_steps(
    data: bytes | bytearray | memoryview, magic: int, first_offset: int, *, max_bytes: int
) -> Steps[bytearray]:
    """Batches of any format as a message set that a reader of format `magic` (0 or 1) understands.

    Batches of that format or an older one pass as they are. Of the others the records keep their offsets, timestamps
    and codec; those of a batch that is not compressed begin at `first_offset`, since some clients expect no earlier
    ones (a wrapper they look through). A batch of more than `PIECE_RECORDS` records is converted in pieces of so many,
    from the one on that holds `first_offset`, so that only one piece is in memory; Kafka makes a single wrapper of it.

    Ends before the batch or piece with which the set would have more than `max_bytes` bytes, but never before the
    first; behind the one with which `CONVERTED_RECORDS` are reached, since a few bytes can hold many; and at a batch
    that is cut short. It may come out empty.

    `UnsupportedCodecError` when the first batch to be converted is zstd; a later one ends the set. Raises what
    iterating over broken batches raises. Yields after a few milliseconds each.
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
        for records in _pieces(batch, magic, first_offset):
            if records is None:
                yield
                continue
            if header.magic <= magic:
                piece: bytearray | memoryview = batch.buffer
            else:
                piece, converted = yield from _down_convert(records, header, magic, first_offset)
                count += converted
            if message_set and len(message_set) + len(piece) > max_bytes:
                return message_set
            message_set += piece
            if count >= CONVERTED_RECORDS:
                return message_set
        yield
    return message_set


def _pieces(batch: Batch, magic: int, first_offset: int) -> Generator[Iterator[Record] | None, None, None]:
    """The records of a batch, piece by piece; None after a step that has found none from `first_offset` on."""
    header = batch.header
    if header.magic <= magic or isinstance(batch, LegacyRecordBatch) or header.record_count <= 0:
        yield iter(batch)
        return
    data = yield from batch.records_data_in_steps()
    if header.record_count <= PIECE_RECORDS:
        yield read_records(data, header)
        return
    before: RecordTimes | None = None
    for found in _piece_times(data, header):
        if found is None:
            yield None
            continue
        if before is not None:
            is_needed = next(records_in(data, header, found)).offset > first_offset
            yield records_in(data, header, before) if is_needed else None
        before = found
    if before is not None:
        yield records_in(data, header, before)


def _piece_times(data: bytes, header: BatchHeader) -> Iterator[RecordTimes | None]:
    """The timestamps of `PIECE_RECORDS` records at a time; None where more have to be read for that."""
    piece: RecordTimes | None = None
    for found in read_times(data, header):
        piece = RecordTimes(piece.times + found.times, piece.start, found.end) if piece else found
        if len(piece.times) >= PIECE_RECORDS:
            yield piece
            piece = None
        else:
            yield None
    if piece is not None:
        yield piece


def _down_convert(
    records: Iterator[Record], header: BatchHeader, magic: int, first_offset: int
) -> Steps[tuple[bytearray, int]]:
    """A message set, or one wrapper, of records of a batch, and how many they are."""
    codec = header.codec
    by_append = header.timestamp_type is TimestampType.LOG_APPEND_TIME and magic > MAGIC_V0
    append_time = header.max_timestamp if by_append else None
    message_set = bytearray()
    count = base = last = 0
    largest = NO_TIMESTAMP
    try:
        while some := _next_few(records):
            if codec is CompressionCodec.NONE:
                some = [record for record in some if record.offset >= first_offset]
            elif magic > MAGIC_V0 and not count:
                base = some[0].offset  # inner offsets count from it
            if some:
                # A timestamp that only a broken clock can have set would make Kafka refuse the whole fetch.
                times = [max(record.timestamp, NO_TIMESTAMP) for record in some]
                message_set += build_message_set(
                    [NewRecord(record.key, record.value, time) for record, time in zip(some, times, strict=True)],
                    magic=magic,
                    base_offset=last + 1 - base if count else some[0].offset - base,
                    offsets=[record.offset - base for record in some],
                    timestamp_type=header.timestamp_type,
                    log_append_time=append_time,
                )
                largest = max(largest, *times)
                last = some[-1].offset
                count += len(some)
            yield
        if codec is not CompressionCodec.NONE and count:
            message_set = yield from wrap(
                message_set,
                codec,
                magic=magic,
                last_offset=last,
                timestamp=largest if append_time is None else append_time,
                attributes=TIMESTAMP_TYPE_FLAG if by_append else 0,
            )
    except EncodeError as error:  # such as offsets that do not ascend, in a batch that was trusted for its checksum
        raise InvalidRecordError(f"the batch at offset {header.base_offset} cannot be converted: {error}") from None
    return message_set, count


def _next_few(records: Iterator[Record]) -> list[Record]:
    """The records of one step."""
    few: list[Record] = []
    size = 0
    for record in records:
        few.append(record)
        size += len(record.key or b"") + len(record.value or b"")
        if len(few) == _RECORDS_AT_ONCE or size >= STEP_SIZE:
            break
    return few


def overflow_message(max_bytes: int) -> bytes:
    """The head of a message that is larger than a fetch of `max_bytes` bytes, and nothing of the message itself.

    It makes an old consumer ask for more, where an empty set would mean that it has read everything
    (`LazyDownConversionRecordsSend`).
    """
    return _OFFSET_AND_SIZE.pack(NO_OFFSET, min(max(max_bytes + 1, RECORD_BATCH_OVERHEAD), INT32_MAX))
