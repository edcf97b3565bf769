"""Conversion of records to another message format or codec.

Produced records are up-converted if their format is older than that of the log, and down-converted if it is newer.
Fetched records are down-converted if the consumer requires an older format than that of the log (Kafka's
`RecordsUtil.downConvert`, KIP-283). For a consumer, data that the older format cannot represent is dropped: headers,
transaction markers, and in v0 timestamps. The older formats do not support zstd at all.
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
from minibroker_protocol.records.compression import compress_in_chunks
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

MAX_CONVERTED_RECORDS: Final = 100_000
"""Records after which a converted set is returned. The reader fetches the remaining ones later."""
MAX_PIECE_RECORDS: Final = 16_384
"""Maximum number of records converted together. Batches of a typical size are smaller and become one wrapper."""
_MAX_PIECE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of keys and values after which no further record is converted together with the earlier ones."""
_UINT32: Final = Struct(">I")
_OFFSET_AND_SIZE: Final = Struct(">qi")


def pack_batch(header: BatchHeader, packed: bytes, codec: CompressionCodec) -> tuple[bytearray, BatchHeader]:
    """Return a v2 batch, and its header, for records that are already compressed with `codec`.

    All other fields are copied from `header`. They include the base timestamp, to which the records' timestamps are
    relative.
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
    """Convert records to one uncompressed v2 batch with offsets from 0 on. Return the header, and the bytes after it.

    Raises:
        InvalidTimestampError: a timestamp is negative and not `NO_TIMESTAMP`.
    """
    batch = build_batch(_to_new_records(records))
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
    """Convert records to a message set of format v0 or v1, in steps. Offsets begin with `base_offset()`.

    The messages are plain, or in one wrapper. If `log_append_time` is given, the messages have the timestamp type
    LOG_APPEND_TIME.

    Raises:
        UnsupportedCodecError: the codec is zstd.
        UnsupportedMagicError: a record has headers, which are dropped only for consumers.
        InvalidTimestampError: a timestamp is negative and not `NO_TIMESTAMP`.
    """
    if codec is CompressionCodec.ZSTD:
        raise UnsupportedCodecError(f"codec: zstd, which message format v{magic} does not know")
    if any(record.headers for record in records):
        raise UnsupportedMagicError(f"headers: message format v{magic} does not know them")
    append_time = log_append_time if magic > MAGIC_V0 else None
    is_relative = codec is not CompressionCodec.NONE and magic > MAGIC_V0  # The offsets within a v1 wrapper start at 0.
    while True:
        base = base_offset()
        message_set = build_message_set(
            _to_new_records(records),
            magic=magic,
            base_offset=0 if is_relative else base,
            timestamp_type=TimestampType.CREATE_TIME if append_time is None else TimestampType.LOG_APPEND_TIME,
            log_append_time=append_time,
        )
        if codec is CompressionCodec.NONE:
            return message_set
        packed = b"".join((yield from collect(compress_in_chunks(codec, message_set, magic=magic, level=level))))
        # A v0 wrapper contains absolute offsets, so build it again if the log has grown during compression.
        if is_relative or base_offset() == base:
            break
    last_offset = base_offset() + len(records) - 1
    timestamp = max(record.timestamp for record in records)
    return encode_wrapper(
        packed, codec, magic=magic, last_offset=last_offset, timestamp=timestamp, append_time=append_time
    )


def _to_new_records(records: Sequence[Record]) -> list[NewRecord]:
    lowest = min([record.timestamp for record in records])
    if lowest < NO_TIMESTAMP:
        raise InvalidTimestampError(f"timestamp: {lowest}, which no record may have that is written again")
    return [NewRecord(key, value, timestamp, headers) for _, timestamp, _, key, value, headers in records]


def down_convert(
    data: bytes | bytearray | memoryview, magic: int, first_offset: int, *, max_bytes: int
) -> Steps[bytearray]:
    """Convert batches of any format to a message set for a reader of format `magic` (0 or 1).

    Batches of this format or an older one are copied. Converted records keep their offsets, timestamps and codec.

    Records of an uncompressed batch begin at `first_offset`, because some clients do not expect earlier records. In
    a wrapper, clients skip the earlier records themselves. A batch of more than `MAX_PIECE_RECORDS` records or 16
    MiB is converted in pieces, so that only one piece is in memory at a time. The first piece is the one that
    contains `first_offset`. Kafka would convert the whole batch to a single wrapper.

    The set ends before the batch or piece that would make it larger than `max_bytes`, but never before the first
    one. It also ends at a truncated batch, and after the piece that reaches `MAX_CONVERTED_RECORDS`, because a few
    bytes can contain many records. The set can be empty.

    A step processes one piece, or 1 MiB of it. Corrupt batches raise the same errors as iteration.

    Raises:
        UnsupportedCodecError: the first batch to convert is compressed with zstd. A later zstd batch ends the set.
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
        unread = batch.read(b"".join((yield from collect(batch.chunks()))))
        while records := _next_piece(unread):
            yield
            if records := _select_records(records, header, first_offset):
                piece = _build_message_set(records, header, magic)
                if header.codec is not CompressionCodec.NONE:
                    packed = yield from collect(compress_in_chunks(header.codec, piece, magic=magic))
                    piece = encode_wrapper(
                        b"".join(packed),
                        header.codec,
                        magic=magic,
                        last_offset=records[-1].offset,
                        timestamp=max(_valid_timestamps(records)),
                        append_time=_append_time(header, magic),
                    )
                if message_set and len(message_set) + len(piece) > max_bytes:
                    return message_set
                message_set += piece
                count += len(records)
                if count >= MAX_CONVERTED_RECORDS:
                    return message_set
    return message_set


def _next_piece(records: Iterator[Record]) -> list[Record]:
    """Return the next records to convert together."""
    piece: list[Record] = []
    size = 0
    for record in records:
        piece.append(record)
        size += len(record.key or b"") + len(record.value or b"")
        if len(piece) == MAX_PIECE_RECORDS or size >= _MAX_PIECE_BYTES:
            break
    return piece


def _select_records(records: list[Record], header: BatchHeader, first_offset: int) -> list[Record]:
    """Return the records of a piece that a reader starting at `first_offset` needs."""
    if header.codec is CompressionCodec.NONE:
        return [record for record in records if record.offset >= first_offset]
    return [] if len(records) < header.record_count and records[-1].offset < first_offset else records


def _append_time(header: BatchHeader, magic: int) -> int | None:
    by_append = header.timestamp_type is TimestampType.LOG_APPEND_TIME and magic > MAGIC_V0
    return header.max_timestamp if by_append else None


def _valid_timestamps(records: Sequence[Record]) -> list[int]:
    """Return the timestamps without negative ones from a broken clock, for which Kafka would reject the fetch."""
    return [max(record.timestamp, NO_TIMESTAMP) for record in records]


def _build_message_set(records: Sequence[Record], header: BatchHeader, magic: int) -> bytearray:
    """Return a message set of records from one batch."""
    is_relative = header.codec is not CompressionCodec.NONE and magic > MAGIC_V0
    base = records[0].offset if is_relative else 0
    try:
        return build_message_set(
            [
                NewRecord(record.key, record.value, time)
                for record, time in zip(records, _valid_timestamps(records), strict=True)
            ],
            magic=magic,
            base_offset=records[0].offset - base,
            offsets=[record.offset - base for record in records],
            timestamp_type=header.timestamp_type,
            log_append_time=_append_time(header, magic),
        )
    except EncodeError as error:
        # A batch with a correct checksum can be in the log even if its offsets do not ascend, for example.
        raise InvalidRecordError(f"the batch at offset {header.base_offset} cannot be converted: {error}") from None


def overflow_message(max_bytes: int) -> bytes:
    """Return the offset and size fields of a message that does not fit into a fetch of `max_bytes` bytes.

    The rest of the message is omitted. An old consumer then requests more bytes. After an empty set, the consumer
    would assume that it has reached the end of the log (`LazyDownConversionRecordsSend`).
    """
    return _OFFSET_AND_SIZE.pack(NO_OFFSET, min(max(max_bytes + 1, RECORD_BATCH_OVERHEAD), INT32_MAX))
